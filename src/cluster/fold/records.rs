//! Records of nodes, in the order of their versions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::cluster::facts::Facts;
use crate::cluster::gpu_ledgers::{Folded, GpuLedger};
use crate::cluster::lock;
use crate::cluster::projection::Decoded;
use crate::cluster::watch::{Change, Fold};
use crate::store::Version;

/// See the module.
pub(in crate::cluster) struct RecordFold<F> {
    facts: Arc<Mutex<F>>,
    folded: Folded,
    /// What was known when the list began, and is not named by it yet.
    unnamed: BTreeMap<Box<str>, u64>,
}

impl<F: Facts> RecordFold<F> {
    pub(in crate::cluster) fn new(facts: Arc<Mutex<F>>, folded: Folded) -> Self {
        Self {
            facts,
            folded,
            unnamed: BTreeMap::new(),
        }
    }

    fn set(&self, facts: &mut F, ledger: &GpuLedger) {
        if self.folded.advance(&ledger.node, &ledger.stored.version) {
            facts.set_record(&ledger.node, &ledger.stored.record);
        }
    }
}

impl<F: Facts> Fold for RecordFold<F> {
    type Object = GpuLedger;

    fn begin(&mut self) {
        self.folded.forget_gone();
        self.unnamed = self.folded.snapshot();
    }

    async fn listed(&mut self, items: Vec<Decoded<GpuLedger>>) {
        let mut facts = lock(&self.facts);
        for item in items {
            match item {
                Decoded::Whole(ledger) => {
                    self.unnamed.remove(ledger.node.as_str());
                    self.set(&mut facts, &ledger);
                }
                // What was known of it stays: nobody's memory became free because a field cannot be read.
                Decoded::Unreadable(unreadable) => {
                    self.unnamed.remove(unreadable.metadata("name"));
                }
            }
        }
    }

    async fn complete(&mut self) {
        let mut facts = lock(&self.facts);
        for (node, order) in std::mem::take(&mut self.unnamed) {
            if self.folded.not_listed(&node, order) {
                facts.remove_record(&node);
            }
        }
    }

    async fn changed(&mut self, changes: Vec<Change<GpuLedger>>) {
        let mut facts = lock(&self.facts);
        for change in changes {
            match change {
                Change::Applied(Decoded::Whole(ledger)) => self.set(&mut facts, &ledger),
                Change::Applied(Decoded::Unreadable(_)) => {}
                Change::Deleted(Decoded::Whole(ledger)) => {
                    if self.folded.end(&ledger.node, &ledger.stored.version) {
                        facts.remove_record(&ledger.node);
                    }
                }
                Change::Deleted(Decoded::Unreadable(unreadable)) => {
                    let version = Version(unreadable.metadata("resourceVersion").to_owned());
                    let node = unreadable.metadata("name");
                    if self.folded.end(node, &version) {
                        facts.remove_record(node);
                    }
                }
            }
        }
    }
}
