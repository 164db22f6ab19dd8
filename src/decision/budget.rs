//! The refusal for want of memory or slots: the node that comes closest, its numbers, and who holds them.

use std::sync::Arc;

use super::survey::{Candidate, Survey};
use crate::demand::weigh::under;
use crate::demand::{Demand, Hold};
use crate::device::{DeviceKind, Pool};
use crate::finding::{Code, FieldPath, Finding, HolderRef, Number};
use crate::ledger::Ledger;
use crate::ledger::devices::{DeviceView, HolderView};
use crate::ledger::nodes::NodeEntry;
use crate::ledger::room::Fits;
use crate::ledger::search::Overlay;
use crate::placement::candidates::{Fit, node_matches};
use crate::policy::{Evidence, Messages};
use crate::units::{Mib, Share};
use crate::workload::pod::PodSpec;

/// Longest name that a sentence carries whole.
const LONGEST_NAME: usize = 48;

/// A name for a sentence: whole, or its beginning.
pub(super) fn short(name: &str) -> String {
    if name.chars().count() <= LONGEST_NAME {
        return name.to_owned();
    }
    let mut cut: String = name.chars().take(LONGEST_NAME).collect();
    cut.push('…');
    cut
}

/// The node that comes closest to taking the pod, and why it does not.
pub(super) struct Closest<'a> {
    pub(super) kind: &'a Candidate<'a>,
    name: Arc<str>,
    entry: &'a NodeEntry,
    pub(super) fits: Fits,
    pool: usize,
    together: Share,
}

/// Looks at every node that accepts this kind of pod. A node that has the memory but no slot comes before one that lacks
/// memory; among those the one with most left.
pub(super) fn closest<'a>(
    survey: &'a Survey<'a>,
    ledger: &'a Ledger,
    overlay: &Overlay<'_>,
    spec: &PodSpec,
) -> Option<Closest<'a>> {
    let mut best: Option<(bool, Share, Closest<'a>)> = None;
    for kind in survey.accepting.iter().filter(|kind| kind.weighed.shared) {
        let budget = kind.class.device_policy.device.budget;
        let shared = |(_, (pool, standing)): &(usize, (&Pool, &crate::demand::Standing))| {
            pool.sharing.is_shared() && standing.slots > 0
        };
        let pools = kind.class.pools.iter().zip(&kind.weighed.standings).enumerate();
        let Some((pool, _)) = pools.into_iter().find(shared) else {
            continue;
        };
        for name in kind.class.roomiest(pool) {
            let Some(entry) = ledger.nodes.get(name).filter(|entry| entry.class == kind.index) else {
                continue;
            };
            if matches!(node_matches(spec, &entry.node), Fit::Never(_)) {
                continue;
            }
            let fits = overlay.fits(name, entry, &kind.weighed.standings);
            let together = overlay.together(name, entry, pool);
            let left = budget.less(together);
            let better = best
                .as_ref()
                .is_none_or(|(memory, most, _)| (fits.memory, left) > (*memory, *most));
            if better {
                let found = Closest {
                    kind,
                    name: name.clone(),
                    entry,
                    fits,
                    pool,
                    together,
                };
                best = Some((fits.memory, left, found));
            }
        }
    }
    best.map(|(_, _, closest)| closest)
}

impl Closest<'_> {
    pub(super) fn node(&self) -> &Arc<str> {
        &self.name
    }

    /// The finding: VG209 where only a slot is missing, else VG201.
    pub(super) fn finding(
        &self,
        demand: &Demand,
        ledger: &Ledger,
        namespace: &str,
        messages: &Messages,
    ) -> Finding {
        let view = ledger.devices_of(&self.name).into_iter().nth(self.pool);
        let finding = match (&view, self.entry.node.pools.get(self.pool)) {
            (Some(view), Some(pool)) if self.fits.memory => self.no_slot(demand, view, pool),
            (Some(view), Some(pool)) => self.no_memory(demand, view, pool, namespace, messages),
            _ => Finding::new(Code::Vg201, FieldPath::default(), "no device has room"),
        };
        under(&self.kind.policy, finding)
    }

    fn holds(&self) -> &[Hold] {
        self.kind
            .weighed
            .standings
            .get(self.pool)
            .map_or(&[], |standing| &standing.holds)
    }

    fn no_slot(&self, demand: &Demand, view: &DeviceView, pool: &Pool) -> Finding {
        let path = demand
            .claims
            .first()
            .map_or_else(FieldPath::default, |claim| claim.slots_path.clone());
        Finding::new(
            Code::Vg209,
            path,
            format!(
                "no free slot of {}: {} has memory for the pod but {} of its {} slots are taken; without a slot it \
                 would wait for one and then take memory that others may hold by then",
                pool.resource,
                short(&self.name),
                view.slots_taken,
                pool.usable_slots
            ),
        )
        .number("slots", Number::Count(u64::from(pool.usable_slots)))
        .number("slotsTaken", Number::Count(u64::from(view.slots_taken)))
    }

    fn no_memory(
        &self,
        demand: &Demand,
        view: &DeviceView,
        pool: &Pool,
        namespace: &str,
        messages: &Messages,
    ) -> Finding {
        let device = &self.kind.class.device_policy.device;
        let holds = self.holds();
        let request: Mib = holds.iter().map(|hold| hold.request).sum();
        let overhead: Mib = holds.iter().map(|hold| hold.overhead).sum();
        let share: Share = holds.iter().map(|hold| hold.share).sum();
        let budget = device.budget;
        let total = pool.total.unwrap_or(Mib::ZERO);
        let left = budget.less(self.together);
        let who = match holds {
            [one] => format!("container {} asks", short(&one.container)),
            _ => format!("{} containers ask", holds.len()),
        };
        let path = demand
            .claims
            .iter()
            .find(|claim| claim.resource == pool.resource)
            .and_then(|claim| claim.parts.first())
            .map_or_else(FieldPath::default, |part| part.path.clone());
        let by_itself = share > budget;
        let holders = view.holders.len();
        let remains = if left == Share::ZERO {
            "nothing is left".to_owned()
        } else {
            format!("{left} ({}) is left", left.of_down(total))
        };
        let situation = if by_itself {
            format!(
                "above the budget {budget} ({}) of a shared device by itself",
                budget.of_down(total)
            )
        } else if holders == 0 {
            format!(
                "and together they exceed the budget {budget} ({})",
                budget.of_down(total)
            )
        } else {
            format!(
                "{} has promised {} of {budget} ({} MiB of {}) to {holders} holder{}; {remains}",
                short(&self.name),
                self.together,
                view.promised.get(),
                budget.of_down(total),
                if holders == 1 { "" } else { "s" }
            )
        };
        let mut finding = Finding::new(
            Code::Vg201,
            path,
            format!(
                "{who} {request} ({share}) of a shared {} device; {situation}",
                pool.resource
            ),
        )
        .number("requestMiB", Number::Memory(request))
        .number("overheadMiB", Number::Memory(overhead))
        .number("share", Number::Share(share))
        .number("promisedMiB", Number::Memory(view.promised))
        .number("promisedFraction", Number::Share(self.together))
        .number("budgetMiB", Number::Memory(budget.of_down(total)))
        .number("budgetFraction", Number::Share(budget))
        .number("leftMiB", Number::Memory(left.of_down(total)))
        .number("leftFraction", Number::Share(left))
        .number("totalMiB", Number::Memory(total))
        .number("node", Number::Text(self.name.to_string()));
        finding = finding.detail(self.arithmetic(holds, total, pool));
        finding = finding.detail(evidence(pool));
        finding.holders = view
            .holders
            .iter()
            .map(|holder| holder_ref(holder, namespace, messages))
            .collect();
        finding
    }

    /// Which of the two checks binds, with its numbers.
    fn arithmetic(&self, holds: &[Hold], total: Mib, pool: &Pool) -> String {
        let device = &self.kind.class.device_policy.device;
        let reserve = device
            .reserve
            .of(total, matches!(pool.device, DeviceKind::Mig(_)));
        let usable = total.less(reserve);
        let each: Vec<String> = holds
            .iter()
            .map(|hold| {
                let fraction = Share::ratio_up(hold.request, total);
                // A request is rounded up to a MiB, so its ratio may exceed the fraction by less than one MiB's worth.
                let by_overhead = hold.share > fraction;
                if by_overhead {
                    format!(
                        "{}: {} + {} overhead of {usable} usable count as {} (the sum of requests and overheads binds)",
                        hold.container, hold.request, hold.overhead, hold.share
                    )
                } else {
                    format!(
                        "{}: {} + {} overhead count as {} (the sum of fractions binds)",
                        hold.container, hold.request, hold.overhead, hold.share
                    )
                }
            })
            .collect();
        format!(
            "device {total}, budget {} ({}), reserve {reserve}; {}",
            device.budget,
            device.budget.of_down(total),
            each.join("; ")
        )
    }
}

/// A holder as it may be named to somebody of `namespace`.
fn holder_ref(holder: &HolderView, namespace: &str, messages: &Messages) -> HolderRef {
    let named = messages.other_namespaces || *holder.namespace == *namespace;
    HolderRef {
        namespace: named.then(|| holder.namespace.to_string()),
        name: named.then(|| holder.name.to_string()),
        container: named.then(|| holder.container.clone()),
        request: holder.request,
        share: holder.share,
    }
}

/// How the device is known, and what would let more be admitted.
pub(super) fn evidence(pool: &Pool) -> String {
    let slots = pool.sharing.slots_per_device();
    if pool.devices == 1 {
        return "evidence: the node has one such device, so the sum is exact".to_owned();
    }
    format!(
        "evidence any: nothing tells on which of the node's {} devices a holder stands, so the {slots} largest of them \
         must fit one device; a cap per slot (perSlot: fairShare), one device per node or equal fractions would let \
         more in",
        pool.devices
    )
}

/// How good the evidence for a pool is.
pub(super) fn grade(pool: &Pool) -> Evidence {
    if pool.devices == 1 || !pool.sharing.is_shared() {
        Evidence::Observed
    } else {
        Evidence::Any
    }
}
