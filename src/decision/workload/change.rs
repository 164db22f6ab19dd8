//! What an UPDATE of an object that makes pods changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Set;
use crate::decision::{Question, newly_unreadable};
use crate::demand::Demand;
use crate::ledger::nodes::Class;
use crate::ledger::nodes::NodeEntry;
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

/// A template as it was, with what its pods took.
#[derive(Clone, Copy)]
pub(in crate::decision) struct Before<'a> {
    pub(in crate::decision) workload: &'a Workload,
    /// `None` where that could not be read.
    pub(in crate::decision) demand: Option<&'a Arc<Demand>>,
}

impl Change {
    pub(super) fn of(sets: &[Set<'_>], before: &[Before<'_>], ledger: &Ledger) -> Self {
        let read: Option<Vec<Sized<'_>>> = before
            .iter()
            .map(|before| {
                Some(Sized {
                    workload: before.workload,
                    demand: before.demand?,
                })
            })
            .collect();
        let (Some(before), Some(first)) = (read.filter(|read| !read.is_empty()), sets.first()) else {
            return Self {
                rolls_out: true,
                raises: true,
                replaces: false,
            };
        };
        let now: Vec<Sized<'_>> = sets
            .iter()
            .map(|set| Sized {
                workload: &set.question.workload,
                demand: set.demand,
            })
            .collect();
        let raises = now.iter().any(|now| now.pods() > 0)
            && (newly_unreadable(demands(&before), demands(&now))
                || asks_more_slots(&before, &now)
                || reaches_further(&before, &now, ledger)
                || takes_more(first.question, &before, &now, ledger));
        let rolls_out = now.iter().any(|now| {
            let same = now.earlier(&before);
            same.is_none_or(|before| before.workload.pod.spec != now.workload.pod.spec)
        });
        Self {
            rolls_out,
            raises,
            replaces: before.iter().any(|before| before.pods() > 0),
        }
    }
}

/// A template and what one of its pods takes.
#[derive(Clone, Copy)]
struct Sized<'a> {
    workload: &'a Workload,
    demand: &'a Demand,
}

impl Sized<'_> {
    /// Pods at the peak, on the whole or on each node.
    fn pods(&self) -> u32 {
        let replicas = &self.workload.replicas;
        if replicas.desired == 0 {
            return 0;
        }
        replicas.desired.saturating_add(replicas.surge)
    }

    /// The same template before.
    fn earlier<'b, 's>(&self, before: &'b [Sized<'s>]) -> Option<&'b Sized<'s>> {
        let same = |before: &&Sized<'_>| before.workload.template == self.workload.template;
        before.iter().find(same)
    }

    /// Whether a pod of it may stand on some node of a class.
    fn reaches(&self, ledger: &Ledger, class: &Class) -> bool {
        let spec = constraints(&self.workload.pod);
        let entries = class.members.iter().filter_map(|name| ledger.nodes.get(name));
        entries
            .into_iter()
            .any(|entry| node_matches(&spec, &entry.node).is_possible())
    }
}

/// The demands of templates that make pods at all.
fn demands<'a>(sets: &'a [Sized<'a>]) -> impl Iterator<Item = &'a Demand> + Clone {
    sets.iter().filter(|set| set.pods() > 0).map(|set| set.demand)
}

/// Whether it asks for more slots of any resource, also of one that no node offers.
fn asks_more_slots(before: &[Sized<'_>], now: &[Sized<'_>]) -> bool {
    let slots = |sets: &[Sized<'_>]| {
        let mut sums: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        for set in sets {
            for claim in &set.demand.claims {
                let slots = u64::from(claim.slots).saturating_mul(u64::from(set.pods()));
                let sum = sums.entry(claim.resource.clone()).or_default();
                *sum = sum.saturating_add(slots);
            }
        }
        sums
    };
    let before = slots(before);
    slots(now)
        .iter()
        .any(|(resource, now)| *now > before.get(resource).copied().unwrap_or(0))
}

/// Whether its pods may now stand on a node that was closed to them.
fn reaches_further(before: &[Sized<'_>], now: &[Sized<'_>], ledger: &Ledger) -> bool {
    let matches = |set: &Sized<'_>, entry: &NodeEntry| {
        node_matches(&constraints(&set.workload.pod), &entry.node).is_possible()
    };
    now.iter().filter(|set| set.pods() > 0).any(|now| {
        let pair = now.earlier(before);
        let then: Vec<&Sized<'_>> = match pair {
            Some(pair) => vec![pair],
            None => before.iter().filter(|set| set.pods() > 0).collect(),
        };
        let spec = constraints(&now.workload.pod);
        if let [one] = then.as_slice()
            && constraints(&one.workload.pod) == spec
        {
            return false;
        }
        ledger.nodes.iter().any(|(_, entry)| {
            node_matches(&spec, &entry.node).is_possible() && !then.iter().any(|then| matches(then, entry))
        })
    })
}

/// Whether it takes more of any kind of device.
fn takes_more(question: &Question, before: &[Sized<'_>], now: &[Sized<'_>], ledger: &Ledger) -> bool {
    let weigh = |set: &Sized<'_>, class: &Class| {
        ledger.weigh(
            set.demand,
            &question.namespace_labels,
            (&set.workload.pod).into(),
            class,
        )
    };
    // Of several templates each may stand elsewhere: what moves from one to the other is then more in its place.
    let several = before.len() > 1 || now.len() > 1;
    ledger.nodes.classes().any(|(_, class)| {
        let sums = |sets: &[Sized<'_>]| -> Vec<Share> {
            let mut sums = vec![Share::ZERO; class.pools.len()];
            let counted = sets
                .iter()
                .filter(|set| set.pods() > 0 && (!several || set.reaches(ledger, class)));
            for set in counted {
                for (sum, standing) in sums.iter_mut().zip(weigh(set, class).standings) {
                    *sum = sum.plus(standing.share().times(u64::from(set.pods())));
                }
            }
            sums
        };
        let more = sums(before)
            .iter()
            .zip(sums(now))
            .any(|(then, after)| after > *then);
        more || now.iter().any(|now| {
            let then = now.earlier(before).map(|then| weigh(then, class));
            then.is_some_and(|then| weigh(now, class).newly_refused(&then))
        })
    })
}
