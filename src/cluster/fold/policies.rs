//! Policy objects, handed on whole: what is in force is decided by whoever keeps the files as well.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::cluster::policies::PolicyObjects;
use crate::cluster::projection::Decoded;
use crate::cluster::watch::{Change, Fold};

/// See the module.
pub(in crate::cluster) struct PolicyFold {
    objects: Arc<dyn PolicyObjects>,
    /// Names in the list that is read.
    listed: BTreeSet<String>,
    /// Objects of that list.
    items: Vec<Value>,
}

impl PolicyFold {
    pub(in crate::cluster) fn new(objects: Arc<dyn PolicyObjects>) -> Self {
        Self {
            objects,
            listed: BTreeSet::new(),
            items: Vec::new(),
        }
    }
}

/// Any JSON is a value, so none is unreadable.
fn value(object: Decoded<Value>) -> Value {
    match object {
        Decoded::Whole(value) => value,
        Decoded::Unreadable(unreadable) => unreadable.object,
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

impl Fold for PolicyFold {
    type Object = Value;

    fn begin(&mut self) {
        self.listed.clear();
        self.items.clear();
    }

    async fn listed(&mut self, items: Vec<Decoded<Value>>) {
        for item in items.into_iter().map(value) {
            self.listed.insert(name(&item).to_owned());
            self.items.push(item);
        }
    }

    async fn complete(&mut self) {
        let gone = self.objects.names();
        let gone = gone
            .into_iter()
            .filter(|name| !self.listed.contains(name))
            .collect();
        self.objects.change(std::mem::take(&mut self.items), gone);
    }

    async fn changed(&mut self, changes: Vec<Change<Value>>) {
        // In their order, in which one name may come several times: the last counts.
        let (mut applied, mut gone) = (Vec::<Value>::new(), BTreeSet::new());
        for change in changes {
            match change {
                Change::Applied(object) => {
                    let object = value(object);
                    gone.remove(name(&object));
                    applied.retain(|before| name(before) != name(&object));
                    applied.push(object);
                }
                Change::Deleted(object) => {
                    let object = value(object);
                    applied.retain(|before| name(before) != name(&object));
                    gone.insert(name(&object).to_owned());
                }
            }
        }
        self.objects.change(applied, gone);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;

    use super::*;
    use crate::cluster::policies::{Said, Saying};

    #[derive(Default)]
    struct Noted(Mutex<Vec<String>>);

    impl PolicyObjects for Noted {
        fn change(&self, applied: Vec<Value>, gone: BTreeSet<String>) {
            let applied: Vec<&str> = applied.iter().map(name).collect();
            self.0.lock().unwrap().push(format!("{applied:?} {gone:?}"));
        }

        fn names(&self) -> BTreeSet<String> {
            BTreeSet::from(["old".to_owned(), "a".to_owned()])
        }

        fn sayings(&self) -> Vec<Saying> {
            Vec::new()
        }

        fn said(&self, _: &Said) {}
    }

    fn policy(name: &str) -> Decoded<Value> {
        Decoded::Whole(json!({"metadata": {"name": name}}))
    }

    #[tokio::test]
    async fn a_list_takes_away_what_it_does_not_hold_and_the_last_change_of_a_name_counts() {
        let noted = Arc::new(Noted::default());
        let mut fold = PolicyFold::new(Arc::<Noted>::clone(&noted));
        fold.begin();
        fold.listed(vec![policy("a"), policy("b")]).await;
        fold.complete().await;
        fold.changed(vec![
            Change::Applied(policy("c")),
            Change::Deleted(policy("c")),
            Change::Deleted(policy("a")),
            Change::Applied(policy("a")),
        ])
        .await;
        assert_eq!(
            *noted.0.lock().unwrap(),
            [r#"["a", "b"] {"old"}"#, r#"["a"] {"c"}"#]
        );
    }
}
