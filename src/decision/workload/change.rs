//! What an UPDATE of an object that makes pods changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::decision::{Question, newly_unreadable};
use crate::demand::Demand;
use crate::ledger::nodes::Class;
use crate::ledger::{Ledger, constraints};
use crate::placement::candidates::node_matches;
use crate::units::Share;
use crate::workload::Workload;

/// What an UPDATE changes; of a CREATE everything.
pub(super) struct Change {
    /// The template, so that pods are replaced.
    pub(super) rolls_out: bool,
    /// More on any device at its peak: more pods, more for each, or devices that it could not reach.
    pub(super) raises: bool,
    /// Whether there were pods that are replaced.
    pub(super) replaces: bool,
}

impl Change {
    pub(super) fn of(
        question: &Question,
        demand: &Demand,
        old: Option<&Arc<Demand>>,
        ledger: &Ledger,
    ) -> Self {
        let (Some(before), Some(old)) = (&question.old, old) else {
            return Self {
                rolls_out: true,
                raises: true,
                replaces: false,
            };
        };
        let now = &question.workload;
        let raises = pods(now) > 0
            && (newly_unreadable(old, demand)
                || asks_more_slots(old, pods(before), demand, pods(now))
                || reaches_further(before, now, ledger)
                || takes_more(question, before, old, demand, ledger));
        Self {
            rolls_out: before.pod.spec != now.pod.spec,
            raises,
            replaces: pods(before) > 0,
        }
    }
}

/// Pods at the peak, on the whole or on each node.
fn pods(workload: &Workload) -> u32 {
    let replicas = &workload.replicas;
    if replicas.desired == 0 {
        return 0;
    }
    replicas.desired.saturating_add(replicas.surge)
}

/// Whether it asks for more slots of any resource, also of one that no node offers.
fn asks_more_slots(old: &Demand, old_pods: u32, new: &Demand, new_pods: u32) -> bool {
    let slots = |demand: &Demand, pods: u32| {
        let mut sums: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        for claim in &demand.claims {
            *sums.entry(claim.resource.clone()).or_default() += u64::from(claim.slots);
        }
        for sum in sums.values_mut() {
            *sum = sum.saturating_mul(u64::from(pods));
        }
        sums
    };
    let before = slots(old, old_pods);
    slots(new, new_pods)
        .iter()
        .any(|(resource, now)| *now > before.get(resource).copied().unwrap_or(0))
}

/// Whether its pods may now stand on a node that was closed to them.
fn reaches_further(before: &Workload, now: &Workload, ledger: &Ledger) -> bool {
    let (then, now) = (constraints(&before.pod), constraints(&now.pod));
    then != now
        && ledger.nodes.iter().any(|(_, entry)| {
            node_matches(&now, &entry.node).is_possible() && !node_matches(&then, &entry.node).is_possible()
        })
}

/// Whether it takes more of any kind of device.
fn takes_more(question: &Question, before: &Workload, old: &Demand, new: &Demand, ledger: &Ledger) -> bool {
    let now = &question.workload;
    let weigh = |demand: &Demand, workload: &Workload, class: &Class| {
        let labels = &workload.pod.metadata.labels;
        ledger.weigh(demand, &question.namespace_labels, labels, class)
    };
    ledger.nodes.classes().any(|(_, class)| {
        let then = weigh(old, before, class);
        let after = weigh(new, now, class);
        let sum = |share: Share, workload: &Workload| share.times(u64::from(pods(workload)));
        let more = then
            .standings
            .iter()
            .zip(&after.standings)
            .any(|(then, after)| sum(after.share(), now) > sum(then.share(), before));
        more || after.newly_refused(&then)
    })
}
