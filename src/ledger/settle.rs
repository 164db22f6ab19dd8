//! Keeping accounts straight when the scheduler takes another place than admission found.
//!
//! A pod that was admitted here and stands on a node beyond its budget is accounted on another node that could take it:
//! the *number* of pods admitted stays what a joint placement can hold, even where the scheduler packs them badly.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::nodes::NodeEntry;
use super::search::{Ask, Overlay};
use super::{Holder, Ledger};
use crate::placement::candidates::{Fit, node_matches};

/// How often one change lets all crowded nodes hand pods on to each other. What is still too close then stays counted
/// where it is, so that its node takes nobody else.
const MOST_ROUNDS: usize = 8;
/// Pods that change places at once. Where more stand in each other's way they stay counted where they are: no sum is wrong
/// by that, and each that ends makes it fewer.
const MOST_EXCHANGED: usize = 64;

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
        if self.holders.get(uid).is_some_and(|holder| holder.foreign) {
            // What is known of it is where it was recorded.
            if let Some(place) = self.records.place_of(uid).cloned() {
                self.account(uid, &place);
            }
            return;
        }
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
        if !(self.unplaced.is_empty() && self.crowded.is_empty() && self.away.is_empty()) {
            self.freed.insert(Arc::from(node));
        }
    }

    /// Gives what became free to the pods that wait for a place: the scheduler will. Then to those that run there and are
    /// counted elsewhere. Asks each crowded node at most
    /// [`MOST_ROUNDS`] times, whatever becomes free by that.
    pub(super) fn fill_freed(&mut self) {
        for _ in 0..MOST_ROUNDS {
            if self.freed.is_empty() {
                return;
            }
            self.fill_all_freed();
            // What stands too close elsewhere may move to where something became free.
            for crowded in self.crowded.clone() {
                self.settle(&crowded);
            }
        }
        // What is free is always theirs before a new pod's. Who waits is counted nowhere, and who is brought back was
        // away: that ends.
        self.fill_all_freed();
    }

    fn fill_all_freed(&mut self) {
        while let Some(node) = self.freed.pop_first() {
            self.fill(&node);
            self.bring_back(&node);
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
    pub(super) fn takes(&self, uid: &str, node: &str) -> bool {
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
        if self.is_over(node) {
            self.crowded.insert(Arc::from(node));
            self.relieve(node);
        }
        if !self.is_over(node) {
            self.crowded.remove(node);
        }
    }

    /// Moves away what can move while a node is above its budget; asks for each pod once. No node that is above its own takes it:
    /// who comes there would be the next to leave.
    fn relieve(&mut self, node: &str) {
        let mut candidates: Vec<&Holder> = self
            .accounted_on(node)
            .filter(|holder| holder.node.as_deref() != Some(node) || holder.admitted_here)
            .collect();
        // First whom a record holds elsewhere; then tentative places before pods that really stand here, and the latest
        // before the earliest.
        candidates.sort_by_key(|holder| {
            let recorded = self.records.place_of(&holder.uid);
            let is_recorded_elsewhere = recorded.is_some_and(|place| **place != *node);
            let is_own = holder.node.as_deref() == Some(node);
            (!is_recorded_elsewhere, is_own, Reverse(holder.order))
        });
        let candidates: Vec<Arc<str>> = candidates.into_iter().map(|holder| holder.uid.clone()).collect();
        for uid in candidates {
            if !self.is_over(node) {
                return;
            }
            let Some(holder) = self.holders.get(&uid).filter(|holder| self.is_too_much(holder)) else {
                continue;
            };
            // First where its record holds it: there all others have it in mind.
            let recorded = self.records.place_of(&uid).filter(|place| ***place != *node);
            let recorded = recorded.filter(|place| self.takes(&uid, place)).cloned();
            let Some(ask) = Ask::of(self, holder) else {
                continue;
            };
            if let Some(place) = recorded.or_else(|| Overlay::new(self).find(&ask, &self.crowded)) {
                self.account(&uid, &place);
            }
        }
    }

    /// Whether a holder does not fit into what all others on its node leave. One that does is on none of the devices that
    /// are too full: to move it would help nobody, and [`Self::bring_back`] would fetch it again.
    fn is_too_much(&self, holder: &Holder) -> bool {
        let place = holder.place.as_deref();
        let Some((place, entry)) = place.and_then(|place| Some((place, self.nodes.get(place)?))) else {
            return false;
        };
        let mut others = Overlay::new(self);
        others.without(holder);
        !others.fits(place, entry, &holder.standings).memory
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
            if Overlay::new(self).fits(node, entry, &standings).memory {
                self.account(&uid, node);
            }
        }
        self.exchange(node);
    }

    /// Accounts bound pods on their own nodes that stand in each other's way: each is accounted where another one is bound,
    /// so that none finds room alone. All change places at once; who fits on his own node only beside others that stay away
    /// goes back to where he was. Every exchange leaves fewer of them away, so they end.
    fn exchange(&mut self, node: &str) {
        if !self.bound_to(node).any(is_away) {
            return;
        }
        let mut away: BTreeMap<u64, Arc<str>> = BTreeMap::new();
        let mut looked_at: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut open: Vec<Arc<str>> = vec![Arc::from(node)];
        while let Some(name) = open.pop() {
            if !looked_at.insert(name.clone()) {
                continue;
            }
            for holder in self
                .bound_to(&name)
                .chain(self.accounted_on(&name))
                .filter(|holder| is_away(holder))
            {
                away.insert(holder.order, holder.uid.clone());
                // Those whose place it takes are followed as well, within bounds.
                open.extend(holder.node.iter().chain(&holder.place).cloned());
            }
            if away.len() > MOST_EXCHANGED {
                return;
            }
        }
        let Some(places) = self.exchanged(&away) else {
            return;
        };
        for (uid, _) in &places {
            self.discharge(uid);
        }
        for (uid, place) in &places {
            self.account(uid, place);
        }
    }

    /// Where pods that are away from their nodes could stand together if all left their places first: as many as possible on
    /// their own nodes, the others where they are. `None` where nobody would come back or not all have a place.
    fn exchanged(&self, away: &BTreeMap<u64, Arc<str>>) -> Option<Vec<(Arc<str>, Arc<str>)>> {
        let mut overlay = Overlay::new(self);
        let holders: Vec<&Holder> = away.values().filter_map(|uid| self.holders.get(uid)).collect();
        for holder in &holders {
            overlay.without(holder);
        }
        let mut places = Vec::new();
        let mut stay = Vec::new();
        for holder in holders {
            let own = holder.node.as_ref()?;
            let entry = self.nodes.get(own);
            let class = entry.and_then(|entry| self.nodes.class(entry.class));
            let (Some(entry), Some(class)) = (entry, class) else {
                stay.push(holder);
                continue;
            };
            let standings = self.standings_on(holder, class, own);
            if overlay.fits(own, entry, &standings).memory {
                overlay.add(own, &standings);
                places.push((holder.uid.clone(), own.clone()));
            } else {
                stay.push(holder);
            }
        }
        if places.is_empty() {
            return None;
        }
        for holder in stay {
            let place = holder.place.as_ref()?;
            if !overlay
                .fits(place, self.nodes.get(place)?, &holder.standings)
                .memory
            {
                return None;
            }
            overlay.add(place, &holder.standings);
        }
        Some(places)
    }

    /// Whom a node's accounts have, bound to it or not; [`Ledger::bound_to`] has those who run there.
    pub(super) fn accounted_on(&self, node: &str) -> impl Iterator<Item = &Holder> {
        let accounted = self
            .nodes
            .get(node)
            .into_iter()
            .flat_map(|entry| &entry.accounted);
        accounted.filter_map(|uid| self.holders.get(uid))
    }

    pub(super) fn is_over(&self, node: &str) -> bool {
        let Some(entry) = self.nodes.get(node) else {
            return false;
        };
        Overlay::new(self).is_over(node, entry)
    }
}

/// Whether a pod is bound and accounted on another node.
fn is_away(holder: &Holder) -> bool {
    holder.node.is_some() && holder.place.is_some() && holder.node != holder.place
}

/// Whether a node has the free slots that any one of the pod's containers asks for.
fn has_slots(entry: &NodeEntry, holder: &Holder) -> bool {
    holder.demand.claims.iter().all(|claim| {
        let mut pools = entry.node.pools.iter().zip(&entry.loads);
        let pool = pools.find(|(pool, _)| pool.resource == claim.resource);
        pool.is_some_and(|(pool, load)| claim.slots <= pool.usable_slots.saturating_sub(load.slots))
    })
}
