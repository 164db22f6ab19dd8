//! Whether the records, as they are counted here, say of a node that all have room whom they hold there.
//!
//! Where kube-scheduler chooses, and where pods change places in a ring, the record of a node can hold more than fits until
//! others have left it. Until then each who came in is still held by the record that had him before: that has no room for
//! anybody else, and must not lose him.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Kept, standings};
use crate::ledger::Ledger;
use crate::ledger::holder::Holder;

/// Nodes that are looked at together; beyond them nobody may leave a record, which is safe and ends with the next one who
/// is gone.
const MOST_TOGETHER: usize = 64;

impl Ledger {
    /// Whether the record of a node may lose its entry of a pod: the pod is gone, or a higher entry holds it in a record in
    /// which nobody is too much.
    pub(super) fn may_leave(&self, uid: &str, node: &str) -> bool {
        if self.records.is_gone(uid) || !self.holders.contains_key(uid) {
            return true;
        }
        match self.records.place_of(uid) {
            Some(top) => **top != *node && self.is_sound(top),
            None => true,
        }
    }

    /// Whether all who are counted on a node fit there beside others whom its record has to hold still.
    pub(super) fn has_room_for(&self, node: &str, others: &[(&Holder, &Kept)]) -> bool {
        let Some(entry) = self.nodes.get(node) else {
            return true;
        };
        let Some(class) = self.nodes.class(entry.class) else {
            return true;
        };
        let mut loads = entry.loads.clone();
        for (_, kept) in others {
            let takes = if kept.raised.is_empty() {
                &kept.takes
            } else {
                &kept.raised
            };
            for (load, standing) in loads.iter_mut().zip(standings(takes, &class.pools, &[])) {
                load.add(&standing);
            }
        }
        let policy = &class.device_policy.device;
        let mut pools = entry.node.pools.iter().zip(&loads);
        pools.all(|(pool, load)| !pool.sharing.is_shared() || load.together(pool, policy) <= policy.budget)
    }

    /// Whether all fit on a node whom its record holds, beside those of its other entries whose pods are held by the record
    /// of a node where somebody is too much. That may be asked of old records: of what a later one has more, each entry had
    /// room, or is itself held elsewhere as well.
    fn is_sound(&self, node: &Arc<str>) -> bool {
        let Some(nodes) = self.entangled(node) else {
            return false;
        };
        let mut too_full: BTreeSet<Arc<str>> = BTreeSet::new();
        loop {
            let more = nodes
                .iter()
                .find(|node| !too_full.contains(*node) && !self.has_room_for_held(node, &too_full));
            match more {
                Some(more) if more == node => return false,
                Some(more) => {
                    too_full.insert(more.clone());
                }
                None => return true,
            }
        }
    }

    /// A node with all whose records hold what its own and theirs have an entry of as well; `None` where they are too many.
    fn entangled(&self, node: &Arc<str>) -> Option<BTreeSet<Arc<str>>> {
        let mut nodes: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut open = vec![node.clone()];
        while let Some(next) = open.pop() {
            if !nodes.insert(next.clone()) {
                continue;
            }
            if nodes.len() > MOST_TOGETHER {
                return None;
            }
            let held_at = self
                .living(&next)
                .filter_map(|(holder, _)| self.records.place_of(&holder.uid));
            open.extend(held_at.filter(|top| **top != next).cloned());
        }
        Some(nodes)
    }

    fn has_room_for_held(&self, node: &Arc<str>, too_full: &BTreeSet<Arc<str>>) -> bool {
        // Of a node that is not known nobody can say what it has room for.
        if self.nodes.get(node).is_none() {
            return false;
        }
        let is_held_here = |top: &Arc<str>| top == node || too_full.contains(top);
        let others: Vec<(&Holder, &Kept)> = self
            .living(node)
            .filter(|(holder, _)| holder.place.as_ref() != Some(node))
            .filter(|(holder, _)| self.records.place_of(&holder.uid).is_some_and(is_held_here))
            .collect();
        self.has_room_for(node, &others)
    }

    /// The entries of a node's record whose pods are not known to be gone.
    fn living(&self, node: &str) -> impl Iterator<Item = (&Holder, &Kept)> {
        let entries = self
            .records
            .nodes
            .get(node)
            .into_iter()
            .flat_map(|folded| folded.entries.iter());
        let living = entries.filter(|(uid, _)| !self.records.is_gone(uid));
        living.filter_map(|(uid, kept)| Some((self.holders.get(uid)?, kept)))
    }
}
