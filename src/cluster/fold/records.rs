//! Records of nodes. The facts know in which order their versions come.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::cluster::facts::Facts;
use crate::cluster::gpu_ledgers::GpuLedger;
use crate::cluster::projection::Decoded;
use crate::cluster::watch::{Change, Fold};
use crate::cluster::{Clock, lock};
use crate::store::Version;

/// See the module.
pub(in crate::cluster) struct RecordFold<F> {
    facts: Arc<Mutex<F>>,
    clock: Clock,
    /// Records of a list that are folded in one hold of the lock.
    batch: usize,
    /// What was known when the list began, and is not named by it yet. What is written while it is read has a newer
    /// version than this, so that the list does not take it away.
    unnamed: BTreeMap<Box<str>, Version>,
}

impl<F: Facts> RecordFold<F> {
    pub(in crate::cluster) fn new(facts: Arc<Mutex<F>>, clock: Clock, batch: usize) -> Self {
        Self {
            facts,
            clock,
            batch: batch.max(1),
            unnamed: BTreeMap::new(),
        }
    }

    fn named(&mut self, facts: &mut F, item: &Decoded<GpuLedger>) {
        match item {
            Decoded::Whole(ledger) => {
                self.unnamed.remove(ledger.node.as_str());
                self.set(facts, ledger);
            }
            // What was known of it stays: nobody's memory became free because a field cannot be read.
            Decoded::Unreadable(unreadable) => {
                self.unnamed.remove(unreadable.metadata("name"));
            }
        }
    }

    fn set(&self, facts: &mut F, ledger: &GpuLedger) {
        let stored = &ledger.stored;
        facts.set_record(&ledger.node, &stored.record, &stored.version, (self.clock)());
    }
}

impl<F: Facts> Fold for RecordFold<F> {
    type Object = GpuLedger;

    fn begin(&mut self) {
        self.unnamed = lock(&self.facts).record_versions().into_iter().collect();
    }

    async fn listed(&mut self, items: Vec<Decoded<GpuLedger>>) {
        let facts = Arc::clone(&self.facts);
        let mut items = items.into_iter().peekable();
        while items.peek().is_some() {
            {
                let mut facts = lock(&facts);
                for item in items.by_ref().take(self.batch) {
                    self.named(&mut facts, &item);
                }
            }
            // Reviews wait for the lock, too.
            tokio::task::yield_now().await;
        }
    }

    async fn complete(&mut self) {
        let mut facts = lock(&self.facts);
        for (node, version) in std::mem::take(&mut self.unnamed) {
            facts.remove_record(&node, &version);
        }
    }

    async fn changed(&mut self, changes: Vec<Change<GpuLedger>>) {
        let mut facts = lock(&self.facts);
        for change in changes {
            match change {
                Change::Applied(Decoded::Whole(ledger)) => self.set(&mut facts, &ledger),
                Change::Applied(Decoded::Unreadable(_)) => {}
                Change::Deleted(Decoded::Whole(ledger)) => {
                    facts.remove_record(&ledger.node, &ledger.stored.version);
                }
                Change::Deleted(Decoded::Unreadable(unreadable)) => {
                    let version = Version(unreadable.metadata("resourceVersion").to_owned());
                    facts.remove_record(unreadable.metadata("name"), &version);
                }
            }
        }
    }
}
