//! Policies from files and from a live cluster together: which are in force, and what is to be said of each object.
//!
//! An object with an error is not accepted, and what was accepted under its name before stays in force while this process
//! lives: one slip takes away neither the other policies nor the former state of its own. A file wins over an object of
//! the same name, because whoever starts the process put it there.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::file::{self, Document};
use super::{Matches, Policy, PolicyErrors, PolicySet};

/// Longest message of a condition, in characters.
const LONGEST_MESSAGE: usize = 1024;
/// Policies that are named where several are in conflict.
const MOST_NAMED: usize = 5;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Stock {
    files: Vec<Document>,
    objects: BTreeMap<String, Held>,
}

/// One object of the cluster.
#[derive(Clone, Debug)]
struct Held {
    generation: i64,
    /// As it was read last.
    spec: Value,
    /// The last one without an error.
    accepted: Option<Document>,
    /// What is wrong with the last one.
    errors: Option<PolicyErrors>,
}

/// Whether a policy object is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It is.
    InForce,
    /// A file has its name, and is in force instead.
    NameOfFile,
    /// It has an error; nothing of its name is in force.
    Invalid,
    /// It has an error; what was accepted before is in force.
    FormerInForce,
}

impl Accepted {
    /// The word for a condition's `reason`.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::InForce => "InForce",
            Self::NameOfFile => "NameOfFile",
            Self::Invalid => "Invalid",
            Self::FormerInForce => "FormerInForce",
        }
    }
}

/// What is to be said of a policy object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its name.
    pub name: String,
    /// The generation that this is about.
    pub generation: i64,
    /// Whether it is in force.
    pub accepted: Accepted,
    /// Why, in words.
    pub message: String,
    /// Policies of the same priority that may apply to the same pods or devices, of which the name decides.
    pub conflicts: Vec<String>,
}

impl Report {
    /// What the condition `Conflicts` says; `None` where there are none.
    #[must_use]
    pub fn conflict(&self) -> Option<String> {
        let first = self.conflicts.first()?;
        let named: Vec<&str> = self
            .conflicts
            .iter()
            .take(MOST_NAMED)
            .map(String::as_str)
            .collect();
        let more = self.conflicts.len() - named.len();
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let wins = if **first < *self.name { first } else { &self.name };
        Some(format!(
            "of the same priority, and may apply to the same pods or nodes: {}{more}; where both match, the first by name \
             applies ({wins}); give one of them another priority",
            named.join(", ")
        ))
    }
}

impl Stock {
    /// With the policies of files.
    #[must_use]
    pub fn of_files(files: Vec<Document>) -> Self {
        Self {
            files,
            objects: BTreeMap::new(),
        }
    }

    /// Other files; names are unique among them, as [`PolicySet::from_documents`] checks.
    pub fn set_files(&mut self, files: Vec<Document>) {
        self.files = files;
    }

    /// An object as the API server shows it. Whether what is in force may have changed: a change of its status has no part
    /// in that.
    pub fn set_object(&mut self, object: &Value) -> bool {
        let Some(name) = object["metadata"]["name"].as_str() else {
            return false;
        };
        let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
        let known = self.objects.get(name);
        if known.is_some_and(|known| known.spec == object["spec"]) {
            if let Some(known) = self.objects.get_mut(name) {
                known.generation = generation;
            }
            return false;
        }
        let before = known.and_then(|known| known.accepted.clone());
        let read = file::from_value(object, &format!("GpuSharingPolicy {name}"));
        let (accepted, errors) = match read {
            Ok(document) => (Some(document), None),
            Err(errors) => (before, Some(errors)),
        };
        let held = Held {
            generation,
            spec: object["spec"].clone(),
            accepted,
            errors,
        };
        self.objects.insert(name.to_owned(), held);
        true
    }

    /// An object is gone, and what was accepted of it. Whether it was known.
    pub fn remove_object(&mut self, name: &str) -> bool {
        self.objects.remove(name).is_some()
    }

    /// Names of the objects that are known.
    pub fn object_names(&self) -> impl Iterator<Item = &str> {
        self.objects.keys().map(String::as_str)
    }

    /// Whether there is any object.
    #[must_use]
    pub fn has_objects(&self) -> bool {
        !self.objects.is_empty()
    }

    /// Everything that is in force.
    #[must_use]
    pub fn set(&self) -> PolicySet {
        let of_files = self.files.iter().map(|document| document.policy.clone());
        let of_objects = self.objects.iter().filter(|(name, _)| !self.is_of_file(name));
        let of_objects = of_objects.filter_map(|(_, held)| Some(held.accepted.as_ref()?.policy.clone()));
        PolicySet::new(of_files.chain(of_objects).collect())
    }

    fn is_of_file(&self, name: &str) -> bool {
        self.files.iter().any(|document| document.policy.name == name)
    }

    /// What is to be said of each object.
    #[must_use]
    pub fn reports(&self) -> Vec<Report> {
        let in_force = self.set();
        let in_force: Vec<&Arc<Policy>> = in_force.iter().collect();
        let report = |(name, held): (&String, &Held)| {
            let (accepted, message) = if self.is_of_file(name) {
                let message =
                    "a file of --policy-dir has the same name and is in force instead; give this one another";
                (Accepted::NameOfFile, message.to_owned())
            } else {
                match (&held.errors, &held.accepted) {
                    (None, _) => (Accepted::InForce, "is in force".to_owned()),
                    (Some(errors), Some(_)) => {
                        let message = format!(
                            "{errors}\nWhat was accepted before stays in force until this process ends."
                        );
                        (Accepted::FormerInForce, message)
                    }
                    (Some(errors), None) => (Accepted::Invalid, errors.to_string()),
                }
            };
            let own = in_force.iter().find(|policy| policy.name == **name);
            let own = own.filter(|_| accepted != Accepted::NameOfFile);
            let conflicts = own.map(|own| conflicts(own, &in_force)).unwrap_or_default();
            Report {
                name: name.clone(),
                generation: held.generation,
                accepted,
                message: crate::finding::shortened(&message, LONGEST_MESSAGE),
                conflicts,
            }
        };
        self.objects.iter().map(report).collect()
    }
}

fn conflicts(own: &Policy, all: &[&Arc<Policy>]) -> Vec<String> {
    all.iter()
        // The built-in default comes last, whatever its number.
        .take(all.len().saturating_sub(1))
        .filter(|other| other.priority == own.priority && other.name != own.name)
        .filter(|other| may_meet(&own.matches, &other.matches))
        .map(|other| other.name.clone())
        .collect()
}

/// Whether two policies may apply to one pod, as far as constants of their selectors tell.
fn may_meet(one: &Matches, other: &Matches) -> bool {
    let pairs = [
        (&one.namespaces, &other.namespaces),
        (&one.pods, &other.pods),
        (&one.nodes, &other.nodes),
    ];
    pairs.into_iter().all(|pair| match pair {
        (Some(one), Some(other)) => !one.excludes(other),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, generation: i64, spec: &Value) -> Value {
        json!({
            "apiVersion": "vramgate.io/v1alpha1",
            "kind": "GpuSharingPolicy",
            "metadata": {"name": name, "generation": generation, "uid": "u", "resourceVersion": "1"},
            "spec": spec,
            "status": {"matchedPods": 1},
        })
    }

    fn names(stock: &Stock) -> Vec<String> {
        stock.set().names().map(str::to_owned).collect()
    }

    #[test]
    fn a_bad_object_takes_down_neither_the_others_nor_its_former_state() {
        let mut stock = Stock::default();
        assert!(stock.set_object(&object("good", 1, &json!({"priority": 1}))));
        assert!(stock.set_object(&object("slip", 1, &json!({"priority": 2, "mode": "warn"}))));
        assert_eq!(names(&stock), ["slip", "good", "built-in-default"]);
        assert!(stock.set_object(&object("slip", 2, &json!({"priority": 2, "mod": "warn"}))));
        assert_eq!(names(&stock), ["slip", "good", "built-in-default"]);
        let reports = stock.reports();
        assert_eq!(reports[0].accepted, Accepted::InForce);
        let slip = &reports[1];
        assert_eq!((slip.accepted, slip.generation), (Accepted::FormerInForce, 2));
        assert!(
            slip.message
                .contains("spec.mod: is no field of spec; did you mean mode?"),
            "{}",
            slip.message
        );
        // Of a new one nothing was accepted before.
        assert!(stock.set_object(&object("new", 1, &json!({"device": {"budget": "2"}}))));
        assert_eq!(names(&stock), ["slip", "good", "built-in-default"]);
        let new = &stock.reports()[1];
        assert_eq!((new.name.as_str(), new.accepted), ("new", Accepted::Invalid));
        assert!(new.message.contains("spec.device.budget"), "{}", new.message);
        // Put right, it is in force; deleted, it is gone.
        assert!(stock.set_object(&object("slip", 3, &json!({"priority": 0, "mode": "warn"}))));
        assert_eq!(names(&stock), ["good", "slip", "built-in-default"]);
        assert!(stock.remove_object("slip") && !stock.remove_object("slip"));
        assert_eq!(names(&stock), ["good", "built-in-default"]);
    }

    #[test]
    fn a_change_of_status_alone_changes_nothing() {
        let mut stock = Stock::default();
        let mut policy = object("p", 4, &json!({"priority": 1}));
        assert!(stock.set_object(&policy));
        policy["status"] = json!({"matchedPods": 7});
        policy["metadata"]["resourceVersion"] = json!("2");
        assert!(!stock.set_object(&policy));
        assert!(!stock.set_object(&json!({"metadata": {}})));
    }

    #[test]
    fn a_file_wins_over_an_object_of_its_name() {
        let text = "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: p}\nspec: {mode: shadow}\n";
        let mut stock = Stock::of_files(file::parse(text, "p.yaml").unwrap());
        stock.set_object(&object("p", 1, &json!({"mode": "warn"})));
        let set = stock.set();
        assert_eq!(set.iter().next().unwrap().mode, crate::policy::Mode::Shadow);
        assert_eq!(stock.reports()[0].accepted, Accepted::NameOfFile);
        stock.set_files(Vec::new());
        assert_eq!(stock.set().iter().next().unwrap().mode, crate::policy::Mode::Warn);
        assert_eq!(stock.reports()[0].accepted, Accepted::InForce);
    }

    #[test]
    fn conflicts_are_overlaps_of_equal_priority() {
        let team = |name: &str| json!({"match": {"namespaces": {"matchLabels": {"team": name}}}});
        let mut stock = Stock::default();
        stock.set_object(&object("a", 1, &team("a")));
        stock.set_object(&object("b", 1, &team("b")));
        stock.set_object(&object(
            "zones",
            1,
            &json!({"match": {"nodes": {"matchExpressions": [
            {"key": "zone", "operator": "In", "values": ["x", "y"]}]}}}),
        ));
        stock.set_object(&object("higher", 1, &json!({"priority": 1})));
        let of = |stock: &Stock, name: &str| -> Vec<String> {
            let reports = stock.reports();
            let report = reports.iter().find(|report| report.name == name).unwrap();
            report.conflicts.clone()
        };
        assert_eq!(of(&stock, "a"), ["zones"]);
        assert_eq!(of(&stock, "zones"), ["a", "b"]);
        assert_eq!(of(&stock, "higher"), Vec::<String>::new());
        let reports = stock.reports();
        assert_eq!(
            reports[3].conflict().unwrap(),
            "of the same priority, and may apply to the same pods or nodes: a, b; where both match, the first by name applies \
             (a); give one of them another priority"
        );
        assert_eq!(reports[2].conflict(), None);
        // Other zones exclude each other.
        stock.set_object(&object(
            "other",
            1,
            &json!({"match": {"nodes": {"matchLabels": {"zone": "z"}}}}),
        ));
        assert_eq!(of(&stock, "other"), ["a", "b"]);
    }
}
