//! The refusal for want of memory or slots: the node that comes closest, its numbers, and who holds them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::survey::{Candidate, Survey};
use crate::demand::weigh::under;
use crate::demand::{Amount, Claim, Demand, Hold, Standing};
use crate::device::{AllocationPolicy, DeviceKind, Pool};
use crate::finding::{Code, FieldPath, Finding, HolderRef, Number, Severity, short};
use crate::ledger::Ledger;
use crate::ledger::devices::{DeviceView, HolderView};
use crate::ledger::nodes::NodeEntry;
use crate::ledger::room::{self, Fits};
use crate::ledger::search::Overlay;
use crate::placement::candidates::node_matches;
use crate::policy::{Evidence, Messages};
use crate::units::{Mib, Share};
use crate::workload::pod::PodSpec;

/// How sentences begin that tell what others hold on the device.
const PROMISED: &str = "promised so far";
const ONCE: &str = "it passes once the others";

/// Whether a sentence of the finding tells what others hold.
pub(super) fn is_of_others(sentence: &str) -> bool {
    sentence.starts_with(PROMISED) || sentence.starts_with(ONCE)
}

/// Engines of one container whose requests are told one by one.
const MOST_ENGINES: usize = 6;

/// Pods that the judged object replaces or owns: they were taken out of the sums, so they are no holders either.
pub(super) type Own = BTreeSet<(Arc<str>, Arc<str>)>;

/// Everybody else on a pool, largest share first, and the requests that may meet on one device.
pub(super) fn others<'v>(view: &'v DeviceView, own: &Own) -> (Vec<&'v HolderView>, Mib) {
    let others: Vec<&HolderView> = view
        .holders
        .iter()
        .filter(|holder| own.is_empty() || !own.contains(&(holder.namespace.clone(), holder.name.clone())))
        .collect();
    let promised = view.meeting(others.iter().map(|holder| holder.meets()).collect(), 0);
    (others, promised)
}

/// The node that comes closest to taking the pod, and why it does not.
pub(super) struct Closest<'a> {
    pub(super) kind: &'a Candidate<'a>,
    name: Arc<str>,
    entry: &'a NodeEntry,
    pub(super) fits: Fits,
    pool: usize,
    together: Share,
    slots_taken: u32,
    /// How many of the holders the device plugin can have put on one device, where that is known.
    spread: Option<usize>,
}

/// Full nodes of a kind that are compared; where there are more, those that can take the largest hold.
const MOST_COMPARED: usize = 64;

/// Looks at nodes that accept this kind of pod. A node that has the memory but no slot comes before one that lacks memory;
/// among those the one with most left.
pub(super) fn closest<'a>(
    survey: &'a Survey<'a>,
    ledger: &'a Ledger,
    overlay: &Overlay<'_>,
    spec: &PodSpec,
) -> Option<Closest<'a>> {
    closest_with(survey, ledger, overlay, spec, |kind| &kind.weighed.standings)
}

/// The same for pods that take something else than the surveyed ones.
pub(super) fn closest_with<'a>(
    survey: &'a Survey<'a>,
    ledger: &'a Ledger,
    overlay: &Overlay<'_>,
    spec: &PodSpec,
    standings: impl Fn(&'a Candidate<'a>) -> &'a [Standing],
) -> Option<Closest<'a>> {
    let named = ledger.nodes.named(spec);
    let nothing = Standing::default();
    let mut best: Option<((bool, bool, Share), Closest<'a>)> = None;
    for kind in survey.accepting.iter().filter(|kind| kind.weighed.shared) {
        let budget = kind.class.device_policy.device.budget;
        let shared = |(_, (pool, standing)): &(usize, (&Pool, &Standing))| {
            pool.sharing.is_shared() && !standing.is_empty()
        };
        let pools = kind.class.pools.iter().zip(&kind.weighed.standings).enumerate();
        let Some((pool, _)) = pools.into_iter().find(shared) else {
            continue;
        };
        let needed = standings(kind).get(pool).zip(kind.class.pools.get(pool));
        let needed = needed.map_or(Share::ZERO, |(standing, pool)| room::needed(pool, standing));
        for part in parts(kind, pool, (ledger, overlay), named.as_ref()) {
            let mut compared = 0;
            for (room, name) in part {
                // None that has the memory, as far as its room can tell that, is left out for want of a slot.
                let has_none = best.as_ref().is_none_or(|((memory, ..), _)| !memory);
                let may_wait = room >= needed && has_none;
                if compared >= MOST_COMPARED && !may_wait {
                    break;
                }
                let Some(entry) = ledger.nodes.get(name).filter(|entry| entry.class == kind.index) else {
                    continue;
                };
                if !node_matches(spec, &entry.node).is_possible() {
                    continue;
                }
                compared += 1;
                let fits = overlay.fits(name, entry, standings(kind));
                let standing = standings(kind).get(pool).unwrap_or(&nothing);
                let together = overlay.together_beside(name, entry, pool, standing);
                let left = budget.less(together);
                let rank = (fits.memory, fits.tenants, left);
                if best.as_ref().is_none_or(|(most, _)| rank > *most) {
                    let found = Closest {
                        kind,
                        name: name.clone(),
                        entry,
                        fits,
                        pool,
                        together,
                        slots_taken: overlay.slots_taken(name, entry, pool),
                        spread: None,
                    };
                    best = Some((rank, found));
                }
            }
        }
    }
    let (_, mut closest) = best?;
    // A pod that asks for several resources may lack memory of another one than the first.
    let lacking = standings(closest.kind)
        .iter()
        .enumerate()
        .position(|(pool, standing)| {
            let together = overlay.together_with(&closest.name, closest.entry, pool, standing);
            let is_shared = closest.entry.node.pools.get(pool);
            is_shared.is_some_and(|pool| pool.sharing.is_shared()) && together > closest.budget()
        });
    if let Some(pool) = lacking {
        closest.pool = pool;
        let standing = standings(closest.kind).get(pool).unwrap_or(&nothing);
        closest.together = overlay.together_beside(&closest.name, closest.entry, pool, standing);
    }
    let standing = standings(closest.kind).get(closest.pool).unwrap_or(&nothing);
    let place = (&closest.name, closest.entry, closest.pool);
    closest.spread = (overlay.grade(place.0, place.1, place.2, standing) == Evidence::Spread)
        .then(|| overlay.may_meet(place.0, place.1, place.2, standing));
    Some(closest)
}

/// A node, and what it has at most for one hold more.
type Roomy<'a> = (Share, &'a Arc<str>);

/// Nodes of a kind that may come closest, in parts: those that are thought of otherwise than they are, and of the rest those
/// with a free slot and those without, most room first.
fn parts<'a>(
    kind: &'a Candidate<'a>,
    pool: usize,
    (ledger, overlay): (&'a Ledger, &'a Overlay<'_>),
    named: Option<&BTreeSet<Arc<str>>>,
) -> Vec<Box<dyn Iterator<Item = Roomy<'a>> + 'a>> {
    let unbounded = Share::from_ppm(u64::MAX);
    if let Some(named) = named {
        let in_order = ledger.nodes.in_order(named.clone(), kind.index, Some(pool));
        let known = in_order
            .into_iter()
            .rev()
            .filter_map(|name| ledger.nodes.name(&name));
        return vec![Box::new(known.map(move |name| (unbounded, name)))];
    }
    let changed = overlay.changed().map(move |name| (unbounded, name));
    let part = |has_slot| {
        let nodes = kind.class.roomiest(pool, has_slot);
        Box::new(nodes.filter(|(_, name)| !overlay.changes(name))) as Box<dyn Iterator<Item = Roomy<'a>> + 'a>
    };
    vec![Box::new(changed), part(true), part(false)]
}

impl Closest<'_> {
    pub(super) fn node(&self) -> &Arc<str> {
        &self.name
    }

    /// What one pod takes of the device.
    pub(super) fn share(&self) -> Share {
        self.holds().map(|hold| hold.share).sum()
    }

    /// What may be promised of the device.
    pub(super) fn budget(&self) -> Share {
        self.kind.class.device_policy.device.budget
    }

    /// The finding: VG211 where the company is the only reason, VG209 where only a slot is missing, else VG201.
    pub(super) fn finding(
        &self,
        demand: &Demand,
        ledger: &Ledger,
        namespace: &str,
        messages: &Messages,
        own: &Own,
    ) -> Finding {
        let view = ledger.devices_of(&self.name).into_iter().nth(self.pool);
        let finding = match (&view, self.entry.node.pools.get(self.pool)) {
            (Some(view), Some(pool)) if self.fits.memory && !self.fits.tenants => {
                self.other_tenants(demand, view, pool, namespace, messages)
            }
            (Some(_), Some(pool)) if self.fits.memory => self.no_slot(demand, pool),
            (Some(view), Some(pool)) => {
                let (others, promised) = others(view, own);
                let held = Held {
                    others,
                    promised,
                    namespace,
                    messages,
                };
                self.no_memory(demand, pool, &held)
            }
            _ => Finding::new(Code::Vg201, FieldPath::default(), "no device has room"),
        };
        under(&self.kind.policy, finding)
    }

    fn holds(&self) -> impl Iterator<Item = &Hold> {
        let standing = self.kind.weighed.standings.get(self.pool);
        standing.into_iter().flat_map(Standing::all_holds)
    }

    /// Nobody of another tenant may stand on the same device, and nothing tells who stands on which.
    fn other_tenants(
        &self,
        demand: &Demand,
        view: &DeviceView,
        pool: &Pool,
        namespace: &str,
        messages: &Messages,
    ) -> Finding {
        let tenancy = &self.kind.class.device_policy.device.tenants;
        let tenant = tenancy.tenant(namespace);
        let foreign: BTreeSet<&str> = view
            .holders
            .iter()
            .map(|holder| &*holder.namespace)
            .filter(|other| tenancy.tenant(other) != tenant)
            .collect();
        let who = match (messages.other_namespaces, foreign.first(), foreign.len()) {
            (true, Some(one), 1) => format!("namespace {}", short(one)),
            (true, Some(one), more) => format!("namespace {} and {} more", short(one), more - 1),
            _ => "another tenant".to_owned(),
        };
        let path = first_path(demand);
        let finding = Finding::new(
            Code::Vg211,
            path,
            format!(
                "no {} with room is free of other tenants: {} is used by {who}, and the policy keeps tenants apart on a \
                 shared device",
                pool.resource,
                short(&self.name)
            ),
        )
        .detail(
            "time-slicing and MPS isolate neither memory nor faults of those who share a device: one of them can end all",
        )
        .detail(
            "it passes on a device that nobody of another tenant uses, on whole GPUs or MIG slices that are not shared, or \
             when spec.device.tenants of the policy puts both namespaces into one set",
        )
        .number("node", Number::Text(self.name.to_string()))
        .number("tenants", Number::Count(u64::try_from(foreign.len()).unwrap_or(u64::MAX)));
        if pool.devices == 1 {
            return finding;
        }
        let is_seen = |holder: &HolderView| !holder.devices.is_empty();
        if demand.asks() && view.holders.iter().all(is_seen) {
            return finding.detail(
                "the device of each holder is known; the pod itself may get any device with a free slot, so one with a \
                 foreign holder closes the node",
            );
        }
        finding.detail(format!(
            "nothing tells on which of the node's {} devices a holder stands, so one foreign holder closes the node",
            pool.devices
        ))
    }

    /// The same where kube-scheduler counts memory: the pod waits for a slot like for any other resource.
    pub(super) fn waits_for_a_slot(&self, demand: &Demand) -> Finding {
        let claim = demand.claims.first();
        let path = claim.map_or_else(FieldPath::default, |claim| claim.slots_path.clone());
        let usable = self
            .entry
            .node
            .pools
            .get(self.pool)
            .map_or(0, |pool| pool.usable_slots);
        let resource = claim.map_or("a GPU", |claim| &*claim.resource);
        Finding::new(
            Code::Vg209,
            path,
            format!(
                "no free slot of {resource} now: {} has memory for the pod, and {} of its {usable} slots are taken; the pod \
                 waits until the scheduler finds one",
                short(&self.name),
                self.slots_taken,
            ),
        )
        .number("slots", Number::Count(u64::from(usable)))
        .number("slotsTaken", Number::Count(u64::from(self.slots_taken)))
        .with_severity(Severity::Info)
    }

    fn no_slot(&self, demand: &Demand, pool: &Pool) -> Finding {
        let path = demand
            .claims
            .first()
            .map_or_else(FieldPath::default, |claim| claim.slots_path.clone());
        let unhealthy = pool.slots.saturating_sub(pool.usable_slots);
        let finding = Finding::new(
            Code::Vg209,
            path,
            format!(
                "no free slot of {}: {} has memory for the pod, and {} of its {} slots are taken; free one, or try \
                 again when one is",
                pool.resource,
                short(&self.name),
                self.slots_taken,
                pool.usable_slots
            ),
        )
        .detail(
            "without a slot the pod would wait for one, and then take memory that others may have been promised by then",
        )
        .number("slots", Number::Count(u64::from(pool.usable_slots)))
        .number("slotsTaken", Number::Count(u64::from(self.slots_taken)));
        if unhealthy > 0 {
            return finding.detail(format!(
                "{unhealthy} more slots of the node are not allocatable: a device is unhealthy, or withheld"
            ));
        }
        finding
    }

    fn no_memory(&self, demand: &Demand, pool: &Pool, held: &Held<'_>) -> Finding {
        let device = &self.kind.class.device_policy.device;
        let holds: Vec<&Hold> = self.holds().collect();
        let holds = holds.as_slice();
        let request: Mib = holds.iter().map(|hold| hold.request).sum();
        let overhead: Mib = holds.iter().map(|hold| hold.overhead).sum();
        let share: Share = holds.iter().map(|hold| hold.share).sum();
        let budget = device.budget;
        let left = budget.less(self.together);
        let path = demand
            .claims
            .iter()
            .filter(|claim| claim.resource == pool.resource)
            .chain(demand.access.iter().map(|access| &access.claim))
            .find_map(|claim| claim.parts.first())
            .map_or_else(FieldPath::default, |part| part.path.clone());
        let who = match holds {
            [one] => format!("container {} asks", short(&one.container)),
            _ => format!("{} containers ask", holds.len()),
        };
        let situation = self.situation(pool, held.others.len(), share);
        let asked = asked(request, share, pool);
        let mut finding = Finding::new(
            Code::Vg201,
            path,
            format!("{who} {asked} of a shared {} device; {situation}", pool.resource),
        )
        .number("share", Number::Share(share))
        .number("promisedFraction", Number::Share(self.together))
        .number("budgetFraction", Number::Share(budget))
        .number("leftFraction", Number::Share(left))
        .number("node", Number::Text(self.name.to_string()));
        if let Some(total) = pool.total {
            finding = finding
                .number("requestMiB", Number::Memory(request))
                .number("overheadMiB", Number::Memory(overhead))
                .number("promisedMiB", Number::Memory(held.promised))
                .number("budgetMiB", Number::Memory(budget.of_down(total)))
                .number("leftMiB", Number::Memory(left.of_down(total)))
                .number("totalMiB", Number::Memory(total))
                .detail(self.arithmetic(holds, total, pool));
            if !held.others.is_empty() {
                finding = finding.detail(format!(
                    "{PROMISED}: {} = {}; the sum is kept in fractions, and each request in MiB is rounded up",
                    self.together, held.promised
                ));
            }
            if self.holds_by_each_check(total, pool, held) {
                finding = finding.detail(
                    "the sum of fractions and the sum with overheads would each fit; a holder counts by the larger of \
                     its two, so that what is admitted can also be scheduled by one number",
                );
            }
        }
        for sentence in several_engines(demand, pool) {
            finding = finding.detail(sentence);
        }
        if pool.devices == 1
            && !held.others.is_empty()
            && share <= budget
            && self.together > budget.less(share)
        {
            let most = budget.less(share);
            finding = finding
                .detail(format!(
                    "{ONCE} come to {} at most, {} less than now",
                    with_mib(most, pool),
                    self.together.less(most)
                ))
                .number("othersAtMostFraction", Number::Share(most));
        }
        finding = finding.detail(evidence(pool, &held.others, self.spread));
        finding.holders = held
            .others
            .iter()
            .map(|holder| holder_ref(holder, pool, held.namespace, held.messages))
            .collect();
        finding
    }

    /// What stands in the way, for the first line.
    fn situation(&self, pool: &Pool, holders: usize, share: Share) -> String {
        let budget = self.kind.class.device_policy.device.budget;
        let budget_in_words = with_mib(budget, pool);
        if share > budget {
            return format!("by itself above the budget {budget_in_words} of a shared device");
        }
        if holders == 0 {
            return format!("together above the budget {budget_in_words} of one device");
        }
        let left = budget.less(self.together);
        let remains = if left == Share::ZERO {
            "nothing is left".to_owned()
        } else {
            format!("{} is left", with_mib(left, pool))
        };
        let name = short(&self.name);
        let plural = if holders == 1 { "" } else { "s" };
        if pool.devices == 1 {
            format!(
                "{name} has promised {} of its budget {budget} to {holders} holder{plural}; {remains}",
                self.together
            )
        } else {
            format!(
                "on {name} up to {} of a device's budget {budget} may be promised to {holders} holder{plural}; {remains}",
                self.together
            )
        }
    }

    /// Whether the sum of fractions and the sum with overheads would each hold, though the shares do not.
    fn holds_by_each_check(&self, total: Mib, pool: &Pool, held: &Held<'_>) -> bool {
        let listed: Share = held.others.iter().map(|holder| holder.share).sum();
        if pool.devices != 1 || listed != self.together {
            return false;
        }
        let device = &self.kind.class.device_policy.device;
        let reserve = device
            .reserve
            .of(total, matches!(pool.device, DeviceKind::Mig(_)));
        let asked = self.holds().map(|hold| (hold.request, hold.overhead, hold.share));
        let held = held
            .others
            .iter()
            .map(|holder| (holder.request, holder.overhead, holder.share));
        let mut fractions = Share::ZERO;
        let mut memory = Mib::ZERO;
        for (request, overhead, share) in asked.chain(held) {
            fractions = fractions.plus(share.min(Share::ratio_up(request, total)));
            memory = memory.plus(request).plus(overhead);
        }
        fractions <= device.budget && memory <= total.less(reserve)
    }

    /// Which of the two checks binds, with its numbers.
    fn arithmetic(&self, holds: &[&Hold], total: Mib, pool: &Pool) -> String {
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
                        hold.container,
                        hold.request,
                        hold.overhead,
                        in_words(hold.share)
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

/// Says of a container in which several engines share the device that each has a request of its own: nobody sees their sum in
/// any one number of the object.
fn several_engines(demand: &Demand, pool: &Pool) -> Vec<String> {
    let reaching = demand.access.iter().map(|access| &access.claim);
    let claims = demand
        .claims
        .iter()
        .filter(|claim| claim.resource == pool.resource);
    let sentence = |claim: &Claim| {
        let requests: Option<Vec<String>> = claim
            .parts
            .iter()
            .map(|part| match &part.amount {
                Amount::OfTotal { fraction, .. } => Some(fraction.to_string()),
                Amount::Absolute(memory) => Some(memory.to_string()),
                _ => None,
            })
            .collect();
        let requests = requests.filter(|requests| requests.len() > 1)?;
        let shown = requests.get(..MOST_ENGINES).unwrap_or(&requests).join(" + ");
        let more = if requests.len() > MOST_ENGINES {
            " + …"
        } else {
            ""
        };
        Some(format!(
            "container {} runs {} engines on the device, each with a request and an overhead of its own: {shown}{more}",
            short(&claim.container),
            requests.len()
        ))
    };
    claims.chain(reaching).filter_map(sentence).collect()
}

/// The field that asks for devices, or that belongs to a container which reaches them without.
fn first_path(demand: &Demand) -> FieldPath {
    let access = demand.access.iter().map(|access| &access.claim);
    let first = demand.claims.iter().chain(access).next();
    first.map_or_else(FieldPath::default, |claim| claim.slots_path.clone())
}

/// Who holds memory beside the object, and how much of that may be told.
struct Held<'a> {
    others: Vec<&'a HolderView>,
    promised: Mib,
    namespace: &'a str,
    messages: &'a Messages,
}

/// A share; where nothing of the device is usable, so that no number says it, in words.
fn in_words(share: Share) -> String {
    if share.ppm() == u64::MAX {
        "more than all of it".to_owned()
    } else {
        share.to_string()
    }
}

/// `24468 MiB (0.30)`; where the overhead counts, both the fraction that was written and what it comes to.
fn asked(request: Mib, share: Share, pool: &Pool) -> String {
    let Some(total) = pool.total else {
        return share.to_string();
    };
    let fraction = Share::ratio_up(request, total);
    if share > fraction {
        format!("{request} ({} with overhead)", in_words(share))
    } else {
        format!("{request} ({share})")
    }
}

/// `0.90 (73403 MiB)`, without the MiB where the size of the device is not known.
fn with_mib(share: Share, pool: &Pool) -> String {
    pool.total.map_or_else(
        || share.to_string(),
        |total| format!("{share} ({})", share.of_down(total)),
    )
}

/// A holder as it may be named to somebody of `namespace`.
fn holder_ref(holder: &HolderView, pool: &Pool, namespace: &str, messages: &Messages) -> HolderRef {
    let named = messages.other_namespaces || *holder.namespace == *namespace;
    HolderRef {
        namespace: named.then(|| holder.namespace.to_string()),
        name: named.then(|| holder.name.to_string()),
        container: named.then(|| holder.container.clone()),
        request: (pool.total.is_some() || holder.request > Mib::ZERO).then_some(holder.request),
        share: holder.share,
    }
}

/// How the device is known, and what would let more be admitted.
fn evidence(pool: &Pool, others: &[&HolderView], spread: Option<usize>) -> String {
    let slots = pool.sharing.slots_per_device();
    if pool.devices == 1 {
        return "evidence: the node has one such device, so the sum is exact".to_owned();
    }
    if let Some(most) = spread {
        return format!(
            "evidence spread: the device plugin gives each slot on the device with the fewest taken, so with the pod at most \
             {most} of the holders are on one of the node's {} devices, and the largest of them must fit one",
            pool.devices
        );
    }
    let on_one = || others.iter().filter(|holder| !holder.everywhere);
    let unseen = on_one().filter(|holder| holder.devices.is_empty()).count();
    let seen = on_one().count() - unseen;
    if seen > 0 && unseen == 0 {
        return format!(
            "evidence observed: the device of each of the {seen} holders is known; the pod itself may get any device \
             with a free slot, so it must fit on the fullest of those",
        );
    }
    if seen > 0 {
        return format!(
            "evidence any: the device of {seen} of the {} holders is known; any other may stand on each of the node's {} \
             devices that has a free slot ({slots} slots each)",
            others.len(),
            pool.devices
        );
    }
    // What would raise the grade to `spread`.
    let raised = match pool.allocation {
        None => "the device plugin's configuration (device.pluginConfig) if it spreads, ",
        Some(AllocationPolicy::Distributed) => "a node that is watched from empty on, ",
        Some(AllocationPolicy::Packed) => "",
    };
    format!(
        "evidence any: nothing tells on which of the node's {} devices a holder stands, so the {slots} largest of them \
         must fit one device; {raised}a cap per slot (perSlot: fairShare), one device per node or equal fractions would let \
         more in",
        pool.devices
    )
}
