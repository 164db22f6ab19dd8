//! Keeping accounts straight when the scheduler takes another place than admission found.
//!
//! A pod that was admitted here and stands on a node beyond its budget is accounted on another node that could take it:
//! the *number* of pods admitted stays what a joint placement can hold, even where the scheduler packs them badly.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::nodes::NodeEntry;
use super::search::{Ask, Overlay};
use super::{Holder, Ledger};
use crate::placement::candidates::{Fit, node_matches};

impl Ledger {
    /// Finds a tentative place for a pod that has none.
    pub(super) fn place_again(&mut self, uid: &Arc<str>) {
        let Some(holder) = self.holders.get(uid) else {
            return;
        };
        if !holder.movable() {
            return;
        }
        let Some(ask) = Ask::of(self, holder) else { return };
        if let Some(place) = Overlay::new(self).find(&ask, &BTreeSet::new()) {
            self.account(uid, &place);
        }
    }

    /// Puts a holder that is accounted nowhere on `first` if it fits there; else where it can be: an unbound one on any
    /// node that takes it, a bound one on its own.
    pub(super) fn lodge(&mut self, uid: &Arc<str>, first: Option<&Arc<str>>) {
        if let Some(first) = first.filter(|first| self.takes(uid, first)) {
            self.account(uid, first);
            return;
        }
        match self.holders.get(uid).map(|holder| holder.node.clone()) {
            Some(Some(node)) => {
                self.account(uid, &node);
                self.settle(&node);
            }
            Some(None) => self.place_again(uid),
            None => {}
        }
    }

    /// Notes that a node can have more room than before.
    pub(super) fn freed(&mut self, node: &str) {
        if !(self.unplaced.is_empty() && self.crowded.is_empty()) {
            self.freed.insert(Arc::from(node));
        }
    }

    /// Gives what became free to the pods that wait for a place: the scheduler will.
    pub(super) fn fill_freed(&mut self) {
        while let Some(node) = self.freed.pop_first() {
            self.fill(&node);
            // What stands too close elsewhere may move here.
            for crowded in self.crowded.clone() {
                self.settle(&crowded);
            }
        }
    }

    /// Gives the room of a node to the pods that wait, in their order.
    fn fill(&mut self, node: &str) {
        let Some(entry) = self.nodes.get(node) else { return };
        // Thousands can wait for whole devices; nearly all of them need more slots than one node has left.
        let waiting: Vec<Arc<str>> = self
            .unplaced
            .iter()
            .filter(|(_, uid)| {
                self.holders
                    .get(uid)
                    .is_some_and(|holder| has_slots(entry, holder))
            })
            .map(|(_, uid)| uid.clone())
            .collect();
        for uid in waiting {
            if self.takes(&uid, node) {
                self.account(&uid, node);
            }
        }
    }

    /// Whether the pod's own constraints and the node's resources let it stand there, room aside.
    pub(super) fn may_stand(&self, uid: &str, node: &str) -> bool {
        let (Some(holder), Some(entry)) = (self.holders.get(uid), self.nodes.get(node)) else {
            return false;
        };
        let Some(spec) = &holder.constraints else {
            return false;
        };
        holder
            .demand
            .resources()
            .all(|resource| entry.node.pool(resource).is_some())
            && !matches!(node_matches(spec, &entry.node), Fit::Never(_))
    }

    /// Whether a node takes a holder that is accounted nowhere.
    fn takes(&self, uid: &str, node: &str) -> bool {
        let (Some(holder), Some(entry)) = (self.holders.get(uid), self.nodes.get(node)) else {
            return false;
        };
        if !has_slots(entry, holder) || !self.may_stand(uid, node) {
            return false;
        }
        let Some(class) = self.nodes.class(entry.class) else {
            return false;
        };
        Overlay::new(self)
            .fits(node, entry, &self.standings_on(holder, class, node))
            .all()
    }

    /// Moves away what can move while a node is above its budget, and brings back what stands on it.
    pub(super) fn settle(&mut self, node: &str) {
        // Those that have no place come before those that are accounted somewhere.
        self.fill(node);
        self.bring_back(node);
        let name: Arc<str> = Arc::from(node);
        while self.is_over(node) {
            // Who comes to a node that is above its budget would be the next to leave it: nodes could pass each other a pod
            // for ever. So each move takes one off such a node, and there is an end.
            let mut skip = self.crowded.clone();
            skip.insert(name.clone());
            let mut candidates: Vec<&Holder> = self
                .nodes
                .get(node)
                .into_iter()
                .flat_map(|entry| &entry.accounted)
                .filter_map(|uid| self.holders.get(uid))
                .filter(|holder| holder.node.as_deref() != Some(node) || holder.admitted_here)
                .collect();
            // Tentative places move before pods that really stand here, and the latest before the earliest.
            candidates.sort_by_key(|holder| (holder.node.as_deref() == Some(node), Reverse(holder.order)));
            let found = candidates.into_iter().find_map(|holder| {
                let ask = Ask::of(self, holder)?;
                let place = Overlay::new(self).find(&ask, &skip)?;
                Some((holder.uid.clone(), place))
            });
            let Some((uid, place)) = found else {
                self.crowded.insert(name);
                return;
            };
            self.account(&uid, &place);
        }
        self.crowded.remove(node);
    }

    /// Accounts a node's own pods on it again where there is room.
    fn bring_back(&mut self, node: &str) {
        let away: Vec<Arc<str>> = self
            .bound_to(node)
            .filter(|holder| holder.place.as_deref() != Some(node))
            .map(|holder| holder.uid.clone())
            .collect();
        for uid in away {
            let Some(entry) = self.nodes.get(node) else { return };
            let Some(class) = self.nodes.class(entry.class) else {
                return;
            };
            let Some(holder) = self.holders.get(&uid) else {
                continue;
            };
            let standings = self.standings_on(holder, class, node);
            // It must be able to stay: where the node is above its budget through others, it would have to move away again.
            let mut overlay = Overlay::new(self);
            overlay.add(node, &standings);
            if !overlay.is_over(node, entry) {
                self.account(&uid, node);
            }
        }
    }

    pub(super) fn is_over(&self, node: &str) -> bool {
        let Some(entry) = self.nodes.get(node) else {
            return false;
        };
        Overlay::new(self).is_over(node, entry)
    }
}

/// Whether a node has the free slots that any one of the pod's containers asks for.
fn has_slots(entry: &NodeEntry, holder: &Holder) -> bool {
    holder.demand.claims.iter().all(|claim| {
        let mut pools = entry.node.pools.iter().zip(&entry.loads);
        let pool = pools.find(|(pool, _)| pool.resource == claim.resource);
        pool.is_some_and(|(pool, load)| claim.slots <= pool.usable_slots.saturating_sub(load.slots))
    })
}
