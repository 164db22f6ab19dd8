//! Labels of namespaces, which policies match by.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde::Deserialize;

use super::Known;
use crate::cluster::facts::Facts;
use crate::cluster::lock;
use crate::cluster::projection::Decoded;
use crate::cluster::watch::{Change, Fold};
use crate::workload::pod::Metadata;

/// Labels by namespace.
pub(in crate::cluster) type Labels = BTreeMap<String, String>;

/// The labels of every namespace that was seen.
#[derive(Clone, Debug, Default)]
pub(in crate::cluster) struct Namespaces(Arc<RwLock<HashMap<String, Arc<Labels>>>>);

impl Namespaces {
    /// The labels, with `kubernetes.io/metadata.name`; `None` for a namespace that was not seen (yet).
    pub(in crate::cluster) fn labels(&self, name: &str) -> Option<Arc<Labels>> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned()
    }

    pub(in crate::cluster) fn set(&self, name: &str, labels: Option<Arc<Labels>>) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match labels {
            Some(labels) => all.insert(name.to_owned(), labels),
            None => all.remove(name),
        };
    }
}

/// The labels with the one that the API server always sets.
pub(in crate::cluster) fn complete_labels(name: &str, mut labels: Labels) -> Labels {
    labels.insert("kubernetes.io/metadata.name".to_owned(), name.to_owned());
    labels
}

/// The part of a namespace that something reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::cluster) struct Namespace {
    pub(in crate::cluster) metadata: Metadata,
}

/// See the module.
pub(in crate::cluster) struct NamespaceFold<F> {
    facts: Arc<Mutex<F>>,
    namespaces: Namespaces,
    known: Known<()>,
}

impl<F: Facts> NamespaceFold<F> {
    pub(in crate::cluster) fn new(facts: Arc<Mutex<F>>, namespaces: Namespaces) -> Self {
        Self {
            facts,
            namespaces,
            known: Known::default(),
        }
    }

    fn apply(&mut self, object: Decoded<Namespace>) {
        match object {
            Decoded::Whole(namespace) => {
                let name = namespace.metadata.name;
                let labels = Arc::new(complete_labels(&name, namespace.metadata.labels));
                self.known.set(&name, ());
                let known = self.namespaces.labels(&name);
                if known.as_deref() != Some(&*labels) {
                    lock(&self.facts).set_namespace(&name, Some(&labels));
                    self.namespaces.set(&name, Some(labels));
                }
            }
            // What was known of it stays.
            Decoded::Unreadable(unreadable) => self.known.touch(unreadable.metadata("name")),
        }
    }

    fn delete(&mut self, name: &str) {
        self.known.remove(name);
        self.namespaces.set(name, None);
        lock(&self.facts).set_namespace(name, None);
    }
}

impl<F: Facts> Fold for NamespaceFold<F> {
    type Object = Namespace;

    fn begin(&mut self) {
        self.known.begin();
    }

    async fn listed(&mut self, items: Vec<Decoded<Namespace>>) {
        for item in items {
            self.apply(item);
        }
    }

    async fn complete(&mut self) {
        for name in self.known.complete() {
            self.delete(&name);
        }
    }

    async fn changed(&mut self, changes: Vec<Change<Namespace>>) {
        for change in changes {
            match change {
                Change::Applied(object) => self.apply(object),
                Change::Deleted(Decoded::Whole(namespace)) => self.delete(&namespace.metadata.name),
                Change::Deleted(Decoded::Unreadable(unreadable)) => self.delete(unreadable.metadata("name")),
            }
        }
    }
}
