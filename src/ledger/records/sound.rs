//! Whether the records, as they are counted here, say of a node that all have room whom they hold there.
//!
//! Where kube-scheduler chooses, and where pods change places in a ring, the record of a node can hold more than fits until
//! others have left it. Until then each who came in is still held by the record that had him before: that has no room for
//! anybody else, and must not lose him.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Kept;
use crate::ledger::Ledger;
use crate::ledger::holder::Holder;

/// Nodes that are looked at together; beyond them nobody may leave a record, which is safe and ends with the next one who
/// is gone.
const MOST_TOGETHER: usize = 64;

impl Ledger {
    /// Whether all fit on a node whom its record holds, beside those of its other entries whose pods are held by the record
    /// of a node where somebody is too much. That may be asked of old records: of what a later one has more, each entry had
    /// room, or is itself held elsewhere as well.
    pub(super) fn is_sound(&self, node: &Arc<str>) -> bool {
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
            .flat_map(|folded| &folded.entries);
        let living = entries.filter(|(uid, _)| !self.records.is_gone(uid));
        living.filter_map(|(uid, kept)| Some((self.holders.get(uid)?, kept)))
    }
}
