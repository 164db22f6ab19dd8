//! The devices of the cluster as people look at them: what stands where, whatever admission had in mind.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::history::More;
use super::nodes::{Class, NodeEntry};
use super::room::Load;
use super::{Holder, Ledger};
use crate::demand::Standing;
use crate::device::{Pool, Sharing};
use crate::policy::{DevicePolicy, Evidence};
use crate::units::{Mib, Share};

/// One holder of a pool: a rank of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderView {
    /// Namespace of the pod.
    pub namespace: Arc<str>,
    /// Name of the pod.
    pub name: Arc<str>,
    /// Name of the container.
    pub container: String,
    /// Rank within the container.
    pub rank: u32,
    /// What it asks for.
    pub request: Mib,
    /// What it takes outside of that.
    pub overhead: Mib,
    /// Its part of the device.
    pub share: Share,
    /// Whether it asked for no device and counts on each one of the pool.
    pub everywhere: bool,
    /// Whether the pod is bound to the node (else the place is tentative).
    pub bound: bool,
    /// The devices on which its container was seen; empty where nothing tells.
    pub devices: Vec<Arc<str>>,
}

/// The devices of one pool of one node. Where the node has several and nothing tells which holder stands on which, they
/// are one row with the worst case of a single device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceView {
    /// Node.
    pub node: Arc<str>,
    /// Extended resource.
    pub resource: Arc<str>,
    /// Index of the device; `None` where the row stands for several, or where [`DeviceView::id`] names it.
    pub device: Option<u32>,
    /// Identity of the device (`GPU-…`), where the row stands for one that holders were seen on.
    pub id: Option<Arc<str>>,
    /// Devices behind the row.
    pub devices: u32,
    /// Product.
    pub product: Arc<str>,
    /// How the devices are shared.
    pub sharing: Sharing,
    /// Slots of the pool.
    pub slots: u32,
    /// Slots taken.
    pub slots_taken: u32,
    /// Memory of one device.
    pub total: Option<Mib>,
    /// What may be promised of one device; all of it where it is not shared.
    pub budget: Mib,
    /// The same as a part of the device.
    pub budget_share: Share,
    /// Sum of the requests that may meet on one device.
    pub promised: Mib,
    /// Sum of the shares that may meet on one device.
    pub promised_share: Share,
    /// The same of pods that are bound alone: the others wait, and may never come together here.
    pub bound_share: Share,
    /// How it is known which holder stands on which device.
    pub evidence: Evidence,
    /// Everybody on the pool, largest share first.
    pub holders: Vec<HolderView>,
    /// Devices that holders were seen on, with the slots that they have there.
    pub seen: BTreeMap<Arc<str>, u32>,
    /// How many holders whose device is not known may stand on one.
    pub(crate) meeting: usize,
}

/// Something that takes memory of a pool: what it weighs, what is asked of it, and where it is, if that is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meets<'a> {
    pub(crate) weight: u64,
    pub(crate) amount: Mib,
    pub(crate) devices: &'a [Arc<str>],
    /// Whether it takes no slot and counts on each device.
    pub(crate) everywhere: bool,
}

impl DeviceView {
    /// Whether those who are bound take more than the budget allows. Who waits takes nothing yet.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.sharing.is_shared() && self.bound_share > self.budget_share
    }

    /// The promised share as a multiple of the budget, for a gauge.
    #[must_use]
    #[allow(clippy::float_arithmetic, reason = "a ratio for a graph decides nothing")]
    pub fn times_budget(&self) -> f64 {
        let part = |share: Share| f64::from(u32::try_from(share.ppm()).unwrap_or(u32::MAX));
        part(self.promised_share) / part(self.budget_share).max(1.0)
    }

    /// What is left to promise.
    #[must_use]
    pub fn left(&self) -> Share {
        self.budget_share.less(self.promised_share)
    }

    /// The amounts that come together on the heaviest device when so many of its slots are `kept` for somebody else.
    pub(crate) fn meeting(&self, mut items: Vec<Meets<'_>>, kept: usize) -> Mib {
        items.sort_unstable_by_key(|item| std::cmp::Reverse((item.weight, item.amount)));
        let anywhere = || {
            items
                .iter()
                .filter(|item| item.devices.is_empty() && !item.everywhere)
        };
        let sum = |on: Option<&Arc<str>>, free: usize| {
            let there = items
                .iter()
                .filter(|item| item.everywhere || on.is_some_and(|on| item.devices.contains(on)))
                .chain(anywhere().take(free));
            there.fold((0_u64, Mib::ZERO), |(weight, amount), item| {
                (weight.saturating_add(item.weight), amount.plus(item.amount))
            })
        };
        let seen: BTreeSet<&Arc<str>> = items.iter().flat_map(|item| item.devices).collect();
        let others = u32::try_from(seen.len()).is_ok_and(|seen| seen < self.devices);
        let mut most = (0, Mib::ZERO);
        if others {
            most = sum(None, self.meeting.saturating_sub(kept));
        }
        for device in seen {
            let taken = items.iter().filter(|item| item.devices.contains(device)).count();
            let free = match self.meeting {
                usize::MAX => usize::MAX,
                meeting => meeting.saturating_sub(taken),
            };
            if free >= kept {
                most = most.max(sum(Some(device), free.saturating_sub(kept)));
            }
        }
        let (_, amount) = most;
        amount
    }

    /// The same as one row for each device, where every holder was seen on one.
    fn by_device(self) -> Vec<Self> {
        if self.devices <= 1 || self.seen.is_empty() || self.evidence != Evidence::Observed {
            return vec![self];
        }
        let per_device = self.sharing.slots_per_device();
        let row = |id: Option<&Arc<str>>, devices: u32, slots: u32, taken: u32| {
            let holders: Vec<HolderView> = self
                .holders
                .iter()
                .filter(|holder| holder.everywhere || id.is_some_and(|id| holder.devices.contains(id)))
                .cloned()
                .collect();
            Self {
                id: id.cloned(),
                devices,
                slots,
                slots_taken: taken,
                promised: holders.iter().map(|holder| holder.request).sum(),
                promised_share: holders.iter().map(|holder| holder.share).sum(),
                bound_share: holders
                    .iter()
                    .filter(|holder| holder.bound)
                    .map(|holder| holder.share)
                    .sum(),
                seen: id.map(|id| (id.clone(), taken)).into_iter().collect(),
                holders,
                ..self.clone()
            }
        };
        let mut rows: Vec<Self> = self
            .seen
            .iter()
            .map(|(id, taken)| row(Some(id), 1, per_device, *taken))
            .collect();
        let known = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        let others = self.devices.saturating_sub(known);
        if others > 0 {
            let slots = self.slots.saturating_sub(known.saturating_mul(per_device));
            rows.push(row(None, others, slots, 0));
        }
        rows
    }
}

impl Ledger {
    /// All devices, in order of node and pool: a row for each device where every holder of a pool was seen on one.
    #[must_use]
    pub fn devices(&self) -> Vec<DeviceView> {
        let by_slots = self
            .nodes
            .iter()
            .flat_map(|(name, entry)| self.views(name, entry));
        let mut devices: Vec<DeviceView> = by_slots.flat_map(DeviceView::by_device).collect();
        let by_claims = self.claimed_devices();
        if !by_claims.is_empty() {
            devices.extend(by_claims);
            devices.sort_by(|a, b| a.node.cmp(&b.node));
        }
        devices
    }

    /// Devices on which bound pods take more than the budget, with those pods alone: of those that are shared by claim the fullest of each node. Looks closely
    /// only at nodes where that can be.
    #[must_use]
    pub fn over_budget(&self) -> Vec<DeviceView> {
        let elsewhere: BTreeSet<&Arc<str>> = self
            .holders()
            .filter(|holder| holder.place != holder.node && holder.demand.takes_part())
            .filter_map(|holder| holder.node.as_ref())
            .collect();
        self.nodes
            .iter()
            .filter(|(name, _)| elsewhere.contains(name) || self.is_over(name))
            .flat_map(|(name, entry)| self.views_of(name, entry, Who::Bound))
            .filter(DeviceView::is_over)
            .chain(self.claimed_over_budget())
            .collect()
    }

    /// How many pools of shared devices there are by the grade at which it is known who stands on which device.
    #[must_use]
    pub fn grades(&self) -> BTreeMap<Evidence, usize> {
        let grades = [Evidence::Observed, Evidence::Spread, Evidence::Any];
        let mut counts: BTreeMap<Evidence, usize> = grades.map(|grade| (grade, 0)).into();
        for (_, entry) in self.nodes.iter() {
            let Some(class) = self.nodes.class(entry.class) else {
                continue;
            };
            let policy = &class.device_policy.device;
            for (pool, load) in entry.node.pools.iter().zip(&entry.loads) {
                if pool.sharing.is_shared() {
                    *counts.entry(load.grade(pool, policy, More::NONE)).or_default() += 1;
                }
            }
        }
        counts
    }

    /// The devices of one node.
    #[must_use]
    pub fn devices_of(&self, node: &str) -> Vec<DeviceView> {
        match self.nodes.get(node) {
            Some(entry) => self.views(&Arc::from(node), entry),
            None => Vec::new(),
        }
    }

    fn views(&self, name: &Arc<str>, entry: &NodeEntry) -> Vec<DeviceView> {
        let mut views = self.views_of(name, entry, Who::All);
        let waits = |view: &DeviceView| view.holders.iter().any(|holder| !holder.bound);
        if views.iter().any(|view| view.is_over() && waits(view)) {
            let bound = self.views_of(name, entry, Who::Bound);
            for (view, bound) in views.iter_mut().zip(bound) {
                view.bound_share = bound.promised_share;
            }
        }
        views
    }

    fn views_of(&self, name: &Arc<str>, entry: &NodeEntry, who: Who) -> Vec<DeviceView> {
        let Some(class) = self.nodes.class(entry.class) else {
            return Vec::new();
        };
        let mut everybody = self.everybody(name, entry, class);
        if who == Who::Bound {
            everybody.retain(|(holder, _)| holder.node.is_some());
        }
        let policy = &class.device_policy.device;
        let pools = entry.node.pools.iter().enumerate();
        pools
            .zip(&entry.loads)
            .map(|((index, pool), load)| view(name, (pool, load), index, policy, &everybody))
            .collect()
    }

    /// The sum of the requests that may meet on one device of a pool, as its [`DeviceView`] has it.
    pub(crate) fn promised(&self, name: &Arc<str>, pool: usize) -> Mib {
        let Some(entry) = self.nodes.get(name) else {
            return Mib::ZERO;
        };
        let (Some(class), Some(of)) = (self.nodes.class(entry.class), entry.node.pools.get(pool)) else {
            return Mib::ZERO;
        };
        let everybody = self.everybody(name, entry, class);
        if of.devices <= 1 {
            // All meet, so nobody need be looked at.
            let standings = everybody.iter().filter_map(|(_, standings)| standings.get(pool));
            return standings.map(Standing::request).sum();
        }
        let Some(load) = entry.loads.get(pool) else {
            return Mib::ZERO;
        };
        view(name, (of, load), pool, &class.device_policy.device, &everybody).promised
    }

    /// All who stand on a node, or will: what is bound to it, and what has a tentative place there.
    fn everybody<'a>(&'a self, name: &Arc<str>, entry: &'a NodeEntry, class: &Class) -> Vec<Present<'a>> {
        let bound = self.bound_to(name).map(|holder| {
            let here = holder.place.as_ref() == Some(name);
            let standings = if here {
                Cow::Borrowed(&*holder.standings)
            } else {
                Cow::Owned(self.standings_on(holder, class, name))
            };
            (holder, standings)
        });
        let tentative = entry
            .accounted
            .iter()
            .filter_map(|uid| self.holder(uid))
            .filter(|holder| holder.movable() || holder.foreign)
            .map(|holder| (holder, Cow::Borrowed(&*holder.standings)));
        bound.chain(tentative).collect()
    }
}

/// Whom a view shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// Those who are bound and those who have a tentative place.
    All,
    /// Those who are bound.
    Bound,
}

/// A holder and what it takes on a node, by pool.
type Present<'a> = (&'a Holder, Cow<'a, [Standing]>);

/// Everybody's holds on one pool, largest share first, with the devices on which their containers were seen.
fn holds(everybody: &[Present<'_>], pool: usize) -> Vec<HolderView> {
    let standings = everybody
        .iter()
        .filter_map(|(holder, standings)| Some((*holder, standings.get(pool)?)));
    let mut holds: Vec<HolderView> = standings
        .flat_map(|(holder, standing)| {
            let everywhere = standing.everywhere.iter().map(|hold| (hold, true));
            let holds = everywhere.chain(standing.holds.iter().map(|hold| (hold, false)));
            holds.map(move |(hold, everywhere)| (holder, standing, hold, everywhere))
        })
        .map(|(holder, standing, hold, everywhere)| HolderView {
            namespace: holder.namespace.clone(),
            name: holder.name.clone(),
            container: hold.container.clone(),
            rank: hold.rank,
            request: hold.request,
            overhead: hold.overhead,
            share: hold.share,
            everywhere,
            bound: holder.node.is_some(),
            devices: standing
                .seen
                .iter()
                .filter(|seen| !everywhere && seen.container == hold.container)
                .flat_map(|seen| seen.devices.keys().cloned())
                .collect(),
        })
        .collect();
    holds.sort_by(|a, b| {
        let name = |hold: &HolderView| {
            (
                hold.namespace.clone(),
                hold.name.clone(),
                hold.container.clone(),
                hold.rank,
            )
        };
        b.share.cmp(&a.share).then_with(|| name(a).cmp(&name(b)))
    });
    holds
}

fn view(
    name: &Arc<str>,
    (pool, accounted): (&Pool, &Load),
    index: usize,
    policy: &DevicePolicy,
    everybody: &[Present<'_>],
) -> DeviceView {
    let mut load = Load::default().with_history_of(accounted);
    for standing in everybody.iter().filter_map(|(_, standings)| standings.get(index)) {
        load.add(standing);
    }
    let budget = if pool.sharing.is_shared() {
        policy.budget
    } else {
        Share::WHOLE
    };
    let mut view = DeviceView {
        node: name.clone(),
        resource: pool.resource.clone(),
        device: (pool.devices == 1).then_some(0),
        id: None,
        devices: pool.devices,
        product: pool.product.clone(),
        sharing: pool.sharing,
        slots: pool.slots,
        slots_taken: load.slots,
        total: pool.total,
        budget: pool.total.map_or(Mib::ZERO, |total| budget.of_down(total)),
        budget_share: budget,
        promised: Mib::ZERO,
        promised_share: load.together(pool, policy),
        // That of those alone who are bound matters only where it is too much with the others.
        bound_share: load.together(pool, policy),
        evidence: load.grade(pool, policy, More::NONE),
        holders: holds(everybody, index),
        seen: load
            .observed()
            .map(|(id, there)| (id.clone(), there.slots))
            .collect(),
        meeting: load.may_meet(pool, policy, More::NONE),
    };
    view.promised = if pool.devices == 1 {
        view.holders.iter().map(|holder| holder.request).sum()
    } else {
        view.meeting(view.holders.iter().map(HolderView::meets).collect(), 0)
    };
    // From here on it answers for one who comes beside them.
    view.meeting = load.may_meet(pool, policy, More::ONE);
    view
}

impl HolderView {
    /// Weighed by its share, for what it asks.
    pub(crate) fn meets(&self) -> Meets<'_> {
        Meets {
            weight: self.share.ppm(),
            amount: self.request,
            devices: &self.devices,
            everywhere: self.everywhere,
        }
    }
}
