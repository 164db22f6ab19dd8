//! The policies of a live cluster: files and objects together, brought into force whenever either changes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::cli::{Failure, policies};
use crate::cluster::{PolicyObjects, Refresh, Said, Saying};
use crate::ledger::Ledger;
use crate::policy::{Accepted, PolicySet, Stock};
use crate::server::locked;

/// Pods that are looked at in one hold of the ledger's lock.
const AT_A_TIME: usize = 200;

/// See the module.
pub(super) struct LivePolicies {
    known: Mutex<Known>,
    ledger: Arc<Mutex<Ledger>>,
    /// Has everything read again: policies decide how.
    refresh: Refresh,
}

#[derive(Default)]
struct Known {
    stock: Stock,
    /// Status of each object, as the API server showed it last.
    statuses: BTreeMap<String, Value>,
}

impl LivePolicies {
    /// With the policies of the folder, which are in force already.
    pub(super) fn new(
        folder: Option<&Path>,
        ledger: Arc<Mutex<Ledger>>,
        refresh: Refresh,
    ) -> Result<Self, Failure> {
        let known = Known {
            stock: Stock::of_files(policies::from_folder(folder)?),
            statuses: BTreeMap::new(),
        };
        Ok(Self {
            known: Mutex::new(known),
            ledger,
            refresh,
        })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the folder again. A folder with an error changes nothing.
    pub(super) fn reload(&self, folder: &Path) -> Result<(), Failure> {
        let files = policies::from_folder(Some(folder))?;
        PolicySet::from_documents(files.clone())?;
        let mut known = self.known();
        known.stock.set_files(files);
        self.put(known.stock.set());
        Ok(())
    }

    /// Swaps the whole set. The caller holds the lock of what is known, so that sets come in their order.
    fn put(&self, set: PolicySet) {
        let names: Vec<_> = set.names().map(str::to_owned).collect();
        let mut ledger = locked(&self.ledger);
        ledger.set_policies(Arc::new(set));
        drop(ledger);
        self.refresh.request();
        tracing::info!(?names, "policies in force");
    }

    /// Pods under each policy. Reviews wait for the same lock, so it is given back in between.
    fn pods(&self) -> BTreeMap<String, u64> {
        let mut all: BTreeMap<String, u64> = BTreeMap::new();
        let mut after: Option<Arc<str>> = None;
        loop {
            let ledger = locked(&self.ledger);
            let (counts, next) = ledger.pods_by_policy(after.as_deref(), AT_A_TIME);
            drop(ledger);
            for (name, count) in counts {
                *all.entry(name).or_default() += count;
            }
            match next {
                Some(next) => after = Some(next),
                None => return all,
            }
        }
    }
}

impl PolicyObjects for LivePolicies {
    fn change(&self, applied: Vec<Value>, gone: BTreeSet<String>) {
        let mut known = self.known();
        let mut changed = BTreeSet::new();
        for name in gone {
            known.statuses.remove(&name);
            if known.stock.remove_object(&name) {
                changed.insert(name);
            }
        }
        for object in applied {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            known.statuses.insert(name.to_owned(), object["status"].clone());
            if known.stock.set_object(&object) {
                changed.insert(name.to_owned());
            }
        }
        if changed.is_empty() {
            return;
        }
        for report in known.stock.reports() {
            if report.accepted != Accepted::InForce && changed.contains(&report.name) {
                tracing::warn!(
                    policy = report.name,
                    "the policy is not accepted: {}",
                    report.message
                );
            }
        }
        self.put(known.stock.set());
    }

    fn names(&self) -> BTreeSet<String> {
        self.known().stock.object_names().map(str::to_owned).collect()
    }

    fn sayings(&self) -> Vec<Saying> {
        if !self.known().stock.has_objects() {
            return Vec::new();
        }
        let pods = self.pods();
        let nodes = {
            let ledger = locked(&self.ledger);
            ledger.nodes_by_policy()
        };
        let known = self.known();
        let saying = |report: crate::policy::Report| {
            // Of a policy that is not in force a file or a former state of the same name may be.
            let is_own = matches!(report.accepted, Accepted::InForce | Accepted::FormerInForce);
            let count = |counts: &BTreeMap<String, u64>| {
                let found = counts.get(&report.name).copied();
                found.filter(|_| is_own).unwrap_or(0)
            };
            Saying {
                pods: count(&pods),
                nodes: count(&nodes),
                status: known.statuses.get(&report.name).cloned().unwrap_or_default(),
                report,
            }
        };
        known.stock.reports().into_iter().map(saying).collect()
    }

    fn said(&self, said: &Said) {
        self.known()
            .statuses
            .insert(said.name.clone(), said.status.clone());
    }
}
