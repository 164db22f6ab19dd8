//! The devices of the cluster as people look at them: what stands where, whatever admission had in mind.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::nodes::{Class, NodeEntry};
use super::room::Load;
use super::{Holder, Ledger};
use crate::demand::{Hold, Standing};
use crate::device::{Pool, Sharing};
use crate::policy::Evidence;
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
}

/// The devices of one pool of one node. Where the node has several and nothing tells which holder stands on which, they
/// are one row with the worst case of a single device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceView {
    /// Node.
    pub node: Arc<str>,
    /// Extended resource.
    pub resource: Arc<str>,
    /// Index of the device; `None` where the row stands for several.
    pub device: Option<u32>,
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
    /// How it is known which holder stands on which device.
    pub evidence: Evidence,
    /// Everybody on the pool, largest share first.
    pub holders: Vec<HolderView>,
}

impl DeviceView {
    /// Whether more is promised than the budget allows.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.sharing.is_shared() && self.promised_share > self.budget_share
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
}

impl Ledger {
    /// All devices, in order of node and pool.
    #[must_use]
    pub fn devices(&self) -> Vec<DeviceView> {
        self.nodes
            .iter()
            .flat_map(|(name, entry)| self.views(name, entry))
            .collect()
    }

    /// Devices whose promises exceed their budget. Looks closely only at nodes where that can be.
    #[must_use]
    pub fn over_budget(&self) -> Vec<DeviceView> {
        let elsewhere: BTreeSet<&Arc<str>> = self
            .holders()
            .filter(|holder| holder.place != holder.node)
            .filter_map(|holder| holder.node.as_ref())
            .collect();
        self.nodes
            .iter()
            .filter(|(name, _)| elsewhere.contains(name) || self.is_over(name))
            .flat_map(|(name, entry)| self.views(name, entry))
            .filter(DeviceView::is_over)
            .collect()
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
        let Some(class) = self.nodes.class(entry.class) else {
            return Vec::new();
        };
        let everybody = self.everybody(name, entry, class);
        let budget = class.device_policy.device.budget;
        let pools = entry.node.pools.iter().enumerate();
        pools
            .map(|(index, pool)| view(name, pool, index, budget, &everybody))
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
        requests_that_meet(of, &holds(&everybody, pool))
    }

    /// All who stand on a node, or will: what is bound to it, and what has a tentative place there.
    fn everybody<'a>(&'a self, name: &Arc<str>, entry: &'a NodeEntry, class: &Class) -> Vec<Present<'a>> {
        let bound = self.bound_to(name).map(|holder| {
            let here = holder.place.as_ref() == Some(name);
            let standings = if here {
                Cow::Borrowed(&*holder.standings)
            } else {
                Cow::Owned(self.standings(holder, class))
            };
            (holder, standings)
        });
        let tentative = entry
            .accounted
            .iter()
            .filter_map(|uid| self.holder(uid))
            .filter(|holder| holder.movable())
            .map(|holder| (holder, Cow::Borrowed(&*holder.standings)));
        bound.chain(tentative).collect()
    }
}

/// A holder and what it takes on a node, by pool.
type Present<'a> = (&'a Holder, Cow<'a, [Standing]>);

/// A holder, what it holds, and whether it does so on every device.
type Held<'a> = (&'a Holder, &'a Hold, bool);

/// Everybody's holds on one pool, largest share first.
fn holds<'a>(everybody: &'a [Present<'a>], pool: usize) -> Vec<Held<'a>> {
    let mut holds: Vec<Held<'_>> = everybody
        .iter()
        .filter_map(|(holder, standings)| Some((*holder, standings.get(pool)?)))
        .flat_map(|(holder, standing)| {
            let everywhere = standing.everywhere.iter().map(move |hold| (holder, hold, true));
            everywhere.chain(standing.holds.iter().map(move |hold| (holder, hold, false)))
        })
        .collect();
    let name = |(holder, hold, _): &Held<'a>| {
        (
            &*holder.namespace,
            &*holder.name,
            hold.container.as_str(),
            hold.rank,
        )
    };
    holds.sort_by(|a, b| b.1.share.cmp(&a.1.share).then_with(|| name(a).cmp(&name(b))));
    holds
}

fn requests_that_meet(pool: &Pool, holds: &[Held<'_>]) -> Mib {
    meeting(
        pool,
        holds
            .iter()
            .map(|(_, hold, everywhere)| (hold.request, *everywhere)),
    )
    .sum()
}

/// What may meet on one device of a pool, of holders with the largest share first: those on every device, and as many
/// of the others as have slots there.
pub(crate) fn meeting<T>(pool: &Pool, holders: impl Iterator<Item = (T, bool)>) -> impl Iterator<Item = T> {
    let mut left = super::room::may_meet(pool);
    holders.filter_map(move |(holder, everywhere)| {
        if everywhere {
            return Some(holder);
        }
        let fits = left > 0;
        left = left.saturating_sub(1);
        fits.then_some(holder)
    })
}

fn view(name: &Arc<str>, pool: &Pool, index: usize, budget: Share, everybody: &[Present<'_>]) -> DeviceView {
    let mut load = Load::default();
    for standing in everybody.iter().filter_map(|(_, standings)| standings.get(index)) {
        load.add(standing);
    }
    let holds = holds(everybody, index);
    let budget = if pool.sharing.is_shared() {
        budget
    } else {
        Share::WHOLE
    };
    DeviceView {
        node: name.clone(),
        resource: pool.resource.clone(),
        device: (pool.devices == 1).then_some(0),
        devices: pool.devices,
        product: pool.product.clone(),
        sharing: pool.sharing,
        slots: pool.slots,
        slots_taken: load.slots,
        total: pool.total,
        budget: pool.total.map_or(Mib::ZERO, |total| budget.of_down(total)),
        budget_share: budget,
        promised: requests_that_meet(pool, &holds),
        promised_share: load.together(pool),
        evidence: if pool.devices == 1 || !pool.sharing.is_shared() {
            Evidence::Observed
        } else {
            Evidence::Any
        },
        holders: holds
            .into_iter()
            .map(|(holder, hold, everywhere)| HolderView {
                namespace: holder.namespace.clone(),
                name: holder.name.clone(),
                container: hold.container.clone(),
                rank: hold.rank,
                request: hold.request,
                overhead: hold.overhead,
                share: hold.share,
                everywhere,
                bound: holder.node.is_some(),
            })
            .collect(),
    }
}
