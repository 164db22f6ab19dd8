//! Nodes to their devices. A node without NVIDIA resources costs nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::Known;
use crate::cluster::facts::{Facts, Reader};
use crate::cluster::lock;
use crate::cluster::projection::{self, Decoded, Page};
use crate::cluster::watch::{Change, Fold};
use crate::device::GpuNode;
use crate::workload::pod::Node;

/// See the module.
pub(in crate::cluster) struct NodeFold<F> {
    facts: Arc<Mutex<F>>,
    reader: Arc<dyn Reader>,
    known: Known<()>,
}

impl<F: Facts> NodeFold<F> {
    pub(in crate::cluster) fn new(facts: Arc<Mutex<F>>, reader: Arc<dyn Reader>) -> Self {
        Self {
            facts,
            reader,
            known: Known::default(),
        }
    }

    /// What becomes of a node, worked out outside the lock.
    fn read(&mut self, object: Decoded<Node>, steps: &mut BTreeMap<String, Option<GpuNode>>) {
        match object {
            Decoded::Whole(node) => {
                let name = node.metadata.name.clone();
                if let Some(read) = self.reader.node(&node) {
                    self.known.set(&name, ());
                    steps.insert(name, Some(read));
                } else {
                    self.gone(&name, steps);
                }
            }
            // What was known of its devices stays: they did not go away because a field cannot be read.
            Decoded::Unreadable(unreadable) => self.known.touch(unreadable.metadata("name")),
        }
    }

    fn gone(&mut self, name: &str, steps: &mut BTreeMap<String, Option<GpuNode>>) {
        if self.known.remove(name) {
            steps.insert(name.to_owned(), None);
        }
    }

    fn carry_out(&self, steps: BTreeMap<String, Option<GpuNode>>) {
        if steps.is_empty() {
            return;
        }
        let mut facts = lock(&self.facts);
        for (name, node) in steps {
            match node {
                Some(node) => facts.set_node(node),
                None => facts.remove_node(&name),
            }
        }
    }
}

impl<F: Facts> Fold for NodeFold<F> {
    type Object = Node;

    fn page(&mut self, text: &str) -> Result<Page<Node>, serde_json::Error> {
        // Managed fields are a good part of a node, and nothing reads them.
        let by_text =
            projection::page_by_text(text, |cut| serde_json::from_str(&cut.joined()).ok().map(Some));
        by_text.map_or_else(|| projection::page(text), Ok)
    }

    fn begin(&mut self) {
        self.known.begin();
    }

    async fn listed(&mut self, items: Vec<Decoded<Node>>) {
        let mut steps = BTreeMap::new();
        for item in items {
            self.read(item, &mut steps);
        }
        self.carry_out(steps);
    }

    async fn complete(&mut self) {
        let gone = self.known.complete();
        self.carry_out(gone.into_iter().map(|name| (name.into(), None)).collect());
    }

    async fn changed(&mut self, changes: Vec<Change<Node>>) {
        let mut steps = BTreeMap::new();
        for change in changes {
            match change {
                Change::Applied(object) => self.read(object, &mut steps),
                Change::Deleted(Decoded::Whole(node)) => self.gone(&node.metadata.name, &mut steps),
                Change::Deleted(Decoded::Unreadable(unreadable)) => {
                    self.gone(unreadable.metadata("name"), &mut steps);
                }
            }
        }
        self.carry_out(steps);
    }
}
