//! What holders and nodes have in common, kept once: of a large cluster nearly all pods are replicas, and nearly all labels
//! of nodes are equal.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use crate::demand::Demand;
use crate::device::Labels;

/// Entries up to which nothing is swept out.
const FEW: usize = 1024;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared {
    texts: Pool<str>,
    keys: Pool<[Arc<str>]>,
    pod_labels: Pool<BTreeMap<String, String>>,
    /// By template: what its pods take, under the present policies and labels of namespaces.
    demands: HashMap<u64, Arc<Demand>>,
    most_demands: usize,
}

impl Shared {
    /// The one text of these letters.
    pub(super) fn text(&mut self, text: &str) -> Arc<str> {
        match self.texts.find(text) {
            Some(known) => known,
            None => self.texts.keep(Arc::from(text)),
        }
    }

    /// The one map of these labels.
    pub(super) fn pod_labels(&mut self, labels: &BTreeMap<String, String>) -> Arc<BTreeMap<String, String>> {
        match self.pod_labels.find(labels) {
            Some(known) => known,
            None => self.pod_labels.keep(Arc::new(labels.clone())),
        }
    }

    /// The same labels, of texts that other nodes have too.
    pub(super) fn node_labels(&mut self, labels: Labels) -> Labels {
        let keys = match self.keys.find(&labels.keys) {
            Some(known) => known,
            None => self.keys.keep(labels.keys),
        };
        let values = labels.values.iter().map(|value| self.text(value));
        Labels {
            keys,
            values: values.collect(),
        }
    }

    /// What the pods of a template take, where it was read before.
    pub(super) fn demand(&self, template: u64) -> Option<Arc<Demand>> {
        self.demands.get(&template).cloned()
    }

    /// Keeps what the pods of a template take.
    pub(super) fn keep_demand(&mut self, template: u64, demand: &Arc<Demand>) {
        if self.demands.len() >= self.most_demands.max(FEW) {
            // Those that no holder has any more.
            self.demands.retain(|_, demand| Arc::strong_count(demand) > 1);
            self.most_demands = self.demands.len() * 2;
        }
        self.demands.insert(template, Arc::clone(demand));
    }

    /// Policies or labels of namespaces are others now: everything is to be read anew.
    pub(super) fn forget_demands(&mut self) {
        self.demands.clear();
    }
}

/// Values of which each is kept once, for as long as somebody has it.
#[derive(Debug)]
pub(super) struct Pool<T: ?Sized> {
    kept: HashSet<Arc<T>>,
    most: usize,
}

impl<T: ?Sized> Clone for Pool<T> {
    fn clone(&self) -> Self {
        Self {
            kept: self.kept.clone(),
            most: self.most,
        }
    }
}

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self {
            kept: HashSet::new(),
            most: FEW,
        }
    }
}

impl<T: Hash + Eq + ?Sized> Pool<T> {
    pub(super) fn find(&self, value: &T) -> Option<Arc<T>> {
        self.kept.get(value).cloned()
    }

    pub(super) fn keep(&mut self, value: Arc<T>) -> Arc<T> {
        if self.kept.len() >= self.most {
            self.kept.retain(|value| Arc::strong_count(value) > 1);
            self.most = FEW.max(self.kept.len() * 2);
        }
        self.kept.insert(Arc::clone(&value));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one_and_those_of_nobody_go() {
        let mut shared = Shared::default();
        let first = shared.text("a");
        assert!(Arc::ptr_eq(&first, &shared.text("a")));
        for number in 0..10 * FEW {
            shared.text(&number.to_string());
        }
        assert!(shared.texts.kept.len() <= FEW + 1, "{}", shared.texts.kept.len());
        assert!(Arc::ptr_eq(&first, &shared.text("a")));
    }

    #[test]
    fn nodes_share_keys_and_values() {
        let labels = |zone: &str| {
            let map: BTreeMap<String, String> = [("os", "linux"), ("zone", zone)]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into();
            Labels::from(&map)
        };
        let mut shared = Shared::default();
        let one = shared.node_labels(labels("a"));
        let other = shared.node_labels(labels("b"));
        assert!(Arc::ptr_eq(&one.keys, &other.keys) && Arc::ptr_eq(&one.values[0], &other.values[0]));
        assert_eq!((one, other), (labels("a"), labels("b")));
    }
}
