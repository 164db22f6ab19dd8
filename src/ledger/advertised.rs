//! What each node advertises of the resource by which kube-scheduler counts memory.

use std::sync::Arc;

use super::Ledger;
use super::nodes::NodeEntry;
use crate::counted;
use crate::device::{Advertised, Pool, is_slot_resource};
use crate::units::Share;

/// What a node is to advertise, and what its status says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertisement {
    /// The node.
    pub node: Arc<str>,
    /// What it is to advertise; `None` where it has no devices that are asked for by slots, or where no policy has
    /// kube-scheduler count.
    pub wanted: Option<Share>,
    /// What its status says.
    pub shown: Advertised,
}

impl Advertisement {
    /// Whether the status says what it should.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.shown.capacity == self.wanted && self.shown.allocatable == self.wanted
    }
}

impl Ledger {
    /// Takes nodes as advertising, whatever their status says: for those who ask what would become of an object.
    pub fn assume_advertised(&mut self) {
        self.assumes_advertised = true;
    }

    /// Whether nodes are taken as advertising.
    pub(crate) fn assumes_advertised(&self) -> bool {
        self.assumes_advertised
    }

    /// Whether a node's status says anything of the counted resource, or is taken to.
    pub(crate) fn advertises(&self, node: &str) -> bool {
        self.assumes_advertised
            || self
                .nodes
                .get(node)
                .is_some_and(|entry| entry.node.advertised.allocatable.is_some())
    }

    /// The advertisements of `most` nodes behind `after`, in the order of their names, and where to go on; at the end those of
    /// nodes that have no devices any more.
    #[must_use]
    pub fn advertisements(&self, after: Option<&str>, most: usize) -> (Vec<Advertisement>, Option<Arc<str>>) {
        let mut found: Vec<Advertisement> = self
            .nodes
            .behind(after)
            .take(most)
            .map(|(name, entry)| Advertisement {
                node: name.clone(),
                wanted: self.wanted(name, entry),
                shown: entry.node.advertised,
            })
            .collect();
        let next = found.last().map(|last| last.node.clone());
        if let Some(next) = next.filter(|_| found.len() == most) {
            return (found, Some(next));
        }
        let leftovers = self
            .bare
            .iter()
            .filter(|(name, node)| node.advertised.is_any() && self.nodes.get(name).is_none());
        found.extend(leftovers.map(|(name, node)| Advertisement {
            node: name.clone(),
            wanted: None,
            shown: node.advertised,
        }));
        (found, None)
    }

    fn wanted(&self, name: &str, entry: &NodeEntry) -> Option<Share> {
        let class = self.nodes.class(entry.class)?;
        let is_asked = |pool: &Pool| is_slot_resource(&pool.resource);
        if !entry.node.pools.iter().any(is_asked) || !self.policies.counts_on(&entry.node.labels) {
            return None;
        }
        let (mut beyond, mut carried) = (Share::ZERO, Share::ZERO);
        for holder in self.bound_to(name) {
            let own = counted::effective(&holder.demand.carried);
            carried = carried.plus(own);
            // What is accounted here is worked out already; what found this node full is accounted where it could stand.
            let more = if holder.place.as_deref() == Some(name) {
                counted::uncarried(&entry.node.pools, &holder.standings, own)
            } else {
                let standings = self.standings_on(holder, class, name);
                counted::uncarried(&entry.node.pools, &standings, own)
            };
            beyond = beyond.plus(more);
        }
        let capacity = counted::capacity(&entry.node.pools, class.device_policy.device.budget);
        Some(counted::advertised(capacity, beyond, carried))
    }
}
