//! Reservations that this process made and no record has yet: the ones that give way when another replica was faster.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ledger::Ledger;
use crate::ledger::search::Overlay;

/// What becomes of a reservation that waits for its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ledger) enum Waits {
    /// It gives way to what another replica recorded first.
    Yields,
    /// It was let through although it does not fit (a policy that only warns): it gives way to nobody.
    Stays,
    /// It gave way.
    Withdrawn,
}

/// How far a reservation is on its way into a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// The record of its node holds it, or none has to.
    Recorded,
    /// The record of this node is to say so.
    At(Arc<str>),
    /// Another replica was faster: it is to be judged again.
    Withdrawn,
    /// It ended for another reason: a newer pod of its name, or a deletion that was seen.
    Ended,
}

impl Ledger {
    /// How far a reservation is.
    #[must_use]
    pub fn awaited(&self, uid: &str) -> Awaited {
        match self.holders.get(uid) {
            _ if self.awaiting.get(uid) == Some(&Waits::Withdrawn) => Awaited::Withdrawn,
            None => Awaited::Ended,
            Some(holder) => match &holder.place {
                Some(place) if !self.is_recorded(uid) => Awaited::At(place.clone()),
                _ => Awaited::Recorded,
            },
        }
    }

    /// A reservation that was just made waits for its record. What it took is given back by [`Ledger::withdraw`] if it
    /// turns out that another replica was faster.
    pub fn await_record(&mut self, uid: &str) {
        self.records.shared = true;
        let Some((uid, holder)) = self.holders.get_key_value(uid) else {
            return;
        };
        // One that was let through although it does not fit (a policy that only warns) gives way to nobody.
        let yields = holder
            .place
            .as_ref()
            .is_none_or(|place| self.fits_beside(uid, place));
        let waits = if yields { Waits::Yields } else { Waits::Stays };
        self.awaiting.insert(uid.clone(), waits);
    }

    /// A reservation waits no longer, whatever became of it.
    pub fn end_await(&mut self, uid: &str) {
        self.awaiting.remove(uid);
        self.adopt_places();
        self.fill_freed();
    }

    /// Gives back what waits for its record on a node and does not fit there any more beside what the records say, the
    /// latest first; and counts pods again where a record holds them that do not fit here. Says whose reservations ended.
    pub fn withdraw(&mut self, node: &str) -> Vec<Arc<str>> {
        let mut ended = Vec::new();
        let mut nodes: Vec<Arc<str>> = vec![Arc::from(node)];
        let mut looked_at: BTreeSet<Arc<str>> = BTreeSet::new();
        while let Some(node) = nodes.pop() {
            if !looked_at.insert(node.clone()) {
                continue;
            }
            for uid in self.unrecorded(&node) {
                if self.fits_beside(&uid, &node) {
                    continue;
                }
                match self.awaiting.get(&uid) {
                    // Its pod exists: there is nothing to give back.
                    Some(Waits::Yields) if self.is_plainly_seen(&uid) => {}
                    Some(Waits::Yields) => {
                        self.release(&uid);
                        self.awaiting.insert(uid.clone(), Waits::Withdrawn);
                        ended.push(uid);
                    }
                    Some(Waits::Stays | Waits::Withdrawn) => {}
                    None => {
                        let back = self.records.place_of(&uid).filter(|back| **back != node).cloned();
                        if let Some(back) = back.filter(|back| self.may_stand(&uid, back)) {
                            self.account(&uid, &back);
                            nodes.push(back);
                        }
                    }
                }
            }
        }
        self.fill_freed();
        ended
    }

    /// Who is counted on a node and can go: what waits for its record, and pods that a record holds elsewhere, bound here or
    /// not; the latest first.
    fn unrecorded(&self, node: &str) -> Vec<Arc<str>> {
        let mut found: Vec<(u64, Arc<str>)> = self
            .accounted_on(node)
            .filter(|holder| {
                let elsewhere = || {
                    self.records
                        .place_of(&holder.uid)
                        .is_some_and(|top| **top != *node)
                };
                self.awaiting.contains_key(&holder.uid) && !self.is_recorded(&holder.uid)
                    || !holder.foreign && elsewhere()
            })
            .map(|holder| (holder.order, holder.uid.clone()))
            .collect();
        found.sort_unstable_by(|a, b| b.cmp(a));
        found.into_iter().map(|(_, uid)| uid).collect()
    }

    fn is_plainly_seen(&self, uid: &str) -> bool {
        self.holders
            .get(uid)
            .is_some_and(|holder| holder.seen && holder.raise.is_none())
    }

    /// Whether a holder fits where it is accounted, beside all others there.
    fn fits_beside(&self, uid: &str, node: &str) -> bool {
        let (Some(holder), Some(entry)) = (self.holders.get(uid), self.nodes.get(node)) else {
            return true;
        };
        let mut overlay = Overlay::new(self);
        overlay.without(holder);
        let fits = overlay.fits(node, entry, &holder.standings);
        // Whom the scheduler put here has company already.
        if holder.node.as_deref() == Some(node) {
            fits.memory
        } else {
            fits.but_for_slots()
        }
    }
}
