//! What is to be written so that the record of a node says what is counted on it here.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Kept, Waits, covers, takes};
use crate::ledger::Ledger;
use crate::ledger::history::More;
use crate::ledger::holder::Holder;
use crate::ledger::nodes::{Class, NodeEntry};
use crate::policy::Evidence;
use crate::record::{DeviceRecord, Entry, NodeRecord, Taken};

/// A record to be written over the version that it was made from.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The record.
    pub record: NodeRecord,
    /// The version that was counted; `None` where the store has no record of the node.
    pub over: Option<String>,
    /// Whether it says anything else than what is stored.
    pub changed: bool,
    /// Reservations that it says first: the size of the batch.
    pub added: usize,
    /// Nodes whose records must have an entry before this one may lose it: the pod is counted there here. Until then it
    /// would be lost for those who have not seen why.
    pub first: Vec<Arc<str>>,
    /// Whether it adds somebody who does not fit beside all whom the record still has to hold.
    pub is_crowded: bool,
    /// How much of what is counted it was to say.
    pub extent: Extent,
}

/// The next write on the way to a record that says what is counted on its node.
#[derive(Clone, Debug)]
pub enum Next {
    /// The record of this node.
    Write(Arc<str>, Box<Draft>),
    /// Nothing has to be written.
    Nothing,
    /// A node is crowded by what the scheduler chose, or others have to leave its record first. Nobody who is gone is left in
    /// it.
    Stuck,
}

/// Whether a draft may leave out what is counted elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The record says what is counted on the node here, and nothing else. To be written if nothing comes
    /// [`Draft::first`].
    Exact,
    /// The record says that and whatever it said: it may be written at any time.
    Additions,
    /// The record says what it said of those who are not known to be gone, and nothing that takes more of the node: where
    /// that has no room for what is to be added, it holds nobody for ever. It may be written at any time.
    Removals,
    /// The record says what it said, and whom other records hold and is counted on the node here, whether or not there is
    /// room before others leave: pods that change places in a ring come in before they go out. Each stays in the record that
    /// held him until nobody is too much in this one, so it may be written at any time.
    Moves,
}

/// What a new entry of a node asks of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    /// Nothing: its record says so already, or it was not our decision.
    Nothing,
    /// Room, for a pod that the record of another node holds.
    ToMove,
    /// Room, for what no record holds.
    ToBegin,
}

impl Ledger {
    /// The record of a node as it has to be; `stamp` is the time now, RFC 3339, for those who read it. `None` where the node
    /// has no record and needs none: nobody shares a device there.
    #[must_use]
    pub fn draft(&self, node: &str, extent: Extent, stamp: &str) -> Option<Draft> {
        let folded = self.records.nodes.get(node);
        let here = self.nodes.get(node);
        let class = here.and_then(|entry| self.nodes.class(entry.class));
        let mut draft = Draft {
            record: NodeRecord::default(),
            over: folded.and_then(|folded| folded.version.clone()),
            changed: false,
            added: 0,
            first: Vec::new(),
            is_crowded: false,
            extent,
        };
        let mut written: BTreeSet<&str> = BTreeSet::new();
        let mut adds = false;
        let mut kept_beside: Vec<(&Holder, &Kept)> = Vec::new();
        if let (Some(entry), Some(class)) = (here, class) {
            for holder in self.accounted_on(node) {
                let Some(new) = self.entry_of(holder, node, class, stamp) else {
                    continue;
                };
                let known = self.records.entry(node, &holder.uid);
                let asks = self.asks(holder, node, &new, known);
                let is_left_out = match extent {
                    Extent::Exact | Extent::Additions => false,
                    Extent::Removals => asks != Asks::Nothing,
                    Extent::Moves => asks == Asks::ToBegin,
                };
                if is_left_out {
                    written.insert(&holder.uid);
                    match known {
                        Some(_) if self.may_leave(&holder.uid, node) => draft.changed = true,
                        Some(known) => {
                            draft.changed |= known.seen != holder.seen;
                            draft.put(as_kept(holder, known), holder.seen);
                        }
                        None => {}
                    }
                    continue;
                }
                draft.changed |= known.is_none_or(|known| !is_same(known, &new, holder.seen));
                draft.added += usize::from(known.is_none() && !holder.seen);
                adds |= asks != Asks::Nothing;
                written.insert(&holder.uid);
                draft.put(new, holder.seen);
            }
            draft.record.devices = device_records(entry, class);
        }
        let mut first: BTreeSet<Arc<str>> = BTreeSet::new();
        let stored = folded.into_iter().flat_map(|folded| folded.entries.iter());
        for (uid, kept) in stored.filter(|(uid, _)| !written.contains(&***uid)) {
            let holder = self.holders.get(uid).filter(|_| !self.may_leave(uid, node));
            let Some(holder) = holder else {
                draft.changed = true;
                continue;
            };
            if self.records.place_of(uid).is_some_and(|top| **top != *node) {
                // Where a higher entry has it somebody is too much.
                draft.changed |= kept.seen != holder.seen;
                kept_beside.push((holder, kept));
                draft.put(as_kept(holder, kept), holder.seen);
                continue;
            }
            match &holder.place {
                // Accounted here and not written above: it takes nothing that is shared.
                Some(place) if **place == *node => draft.changed = true,
                Some(place) => {
                    first.insert(place.clone());
                    if extent != Extent::Exact {
                        draft.changed |= kept.seen != holder.seen;
                        kept_beside.push((holder, kept));
                        draft.put(as_kept(holder, kept), holder.seen);
                    }
                }
                None => {
                    draft.changed |= kept.seen != holder.seen;
                    if self.may_stand(uid, node) {
                        kept_beside.push((holder, kept));
                    }
                    draft.put(as_kept(holder, kept), holder.seen);
                }
            }
        }
        if extent == Extent::Moves {
            kept_beside.clear();
        }
        draft.is_crowded = adds && !self.has_room_for(node, &kept_beside);
        draft.first.extend(first);
        let devices = folded.map_or(&[][..], |folded| &folded.devices);
        draft.changed |= without_others(devices) != draft.record.devices;
        keep_others(devices, &mut draft.record.devices);
        draft.record.others = folded.map(|folded| folded.others.clone()).unwrap_or_default();
        let is_shared = draft.record.devices.iter().any(|device| device.devices > 0);
        (is_shared || draft.over.is_some() || draft.record.entries().next().is_some()).then_some(draft)
    }

    /// The next write that brings the record of a node towards what is counted on it here: its own, or where pods moved
    /// away from it, those of the nodes that have to take them first. For [`Extent::Additions`] they need not leave where
    /// there is room for all.
    #[must_use]
    pub fn next_write(&self, node: &Arc<str>, extent: Extent, stamp: &str) -> Next {
        let Some(draft) = self.draft(node, Extent::Exact, stamp) else {
            return Next::Nothing;
        };
        if draft.first.is_empty() && !(draft.changed && draft.is_crowded) {
            return if draft.changed {
                Next::Write(node.clone(), Box::new(draft))
            } else {
                Next::Nothing
            };
        }
        let first = draft.first;
        let beside = || {
            let draft = self.draft(node, Extent::Additions, stamp);
            draft
                .filter(|draft| draft.changed && !draft.is_crowded)
                .map(|draft| Next::Write(node.clone(), Box::new(draft)))
        };
        let elsewhere = |extent| self.next_of(node, &first, extent, stamp);
        let next = match extent {
            Extent::Additions => beside().or_else(|| elsewhere(Extent::Additions)),
            Extent::Exact => elsewhere(Extent::Additions)
                .or_else(beside)
                .or_else(|| elsewhere(Extent::Moves)),
            Extent::Removals | Extent::Moves => None,
        };
        next.unwrap_or_else(|| match extent {
            Extent::Additions => Next::Stuck,
            Extent::Exact | Extent::Removals | Extent::Moves => self.removals(node, stamp),
        })
    }

    /// Leaves out who is gone where nothing can be added.
    fn removals(&self, node: &Arc<str>, stamp: &str) -> Next {
        match self.draft(node, Extent::Removals, stamp) {
            Some(draft) if draft.changed => Next::Write(node.clone(), Box::new(draft)),
            _ => Next::Stuck,
        }
    }

    /// A record that can take what others are to lose: another one's, for [`Extent::Moves`] the node's own as well.
    fn next_of(&self, node: &Arc<str>, first: &[Arc<str>], extent: Extent, stamp: &str) -> Option<Next> {
        let mut looked_at: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut open: Vec<Arc<str>> = first.to_vec();
        if extent == Extent::Moves {
            open.push(node.clone());
        } else {
            looked_at.insert(node.clone());
        }
        while let Some(next) = open.pop() {
            if !looked_at.insert(next.clone()) {
                continue;
            }
            let Some(draft) = self.draft(&next, extent, stamp) else {
                continue;
            };
            if draft.changed && !draft.is_crowded {
                return Some(Next::Write(next, Box::new(draft)));
            }
            open.extend(draft.first);
        }
        None
    }

    /// Takes the tentative moves back that no record has: of the pods that are counted on a node, and of those that its
    /// record holds. Then as [`Ledger::withdraw`], which says whose reservations ended.
    pub fn undo_moves(&mut self, node: &str) -> Vec<Arc<str>> {
        let of_record = self.records.uids(node).cloned();
        let mut uids: BTreeSet<Arc<str>> = of_record.collect();
        uids.extend(self.accounted_on(node).map(|holder| holder.uid.clone()));
        for uid in uids {
            let Some(holder) = self.holders.get(&uid).filter(|holder| holder.movable()) else {
                continue;
            };
            let at = self
                .records
                .place_of(&uid)
                .filter(|at| holder.place.as_ref() != Some(at))
                .cloned();
            if let Some(at) = at.filter(|at| self.may_stand(&uid, at)) {
                self.account(&uid, &at);
            }
        }
        // Only then is what became free given to who waits: before, it is the room of what gives way.
        self.withdraw(node)
    }

    /// What an entry asks that takes more of a node than its record says. What is bound there and no other record holds is
    /// not asked, and a policy that only warns lets everything through.
    fn asks(&self, holder: &Holder, node: &str, new: &Entry, known: Option<&Kept>) -> Asks {
        if self.awaiting.get(&holder.uid) == Some(&Waits::Stays) {
            return Asks::Nothing;
        }
        match self.records.place_of(&holder.uid) {
            Some(top) if **top != *node => Asks::ToMove,
            top => {
                let is_more = top.is_none()
                    || known.is_none_or(|known| {
                        !covers(&known.takes, &new.takes)
                            || !covers(&known.raised, &new.raised) && !covers(&known.takes, &new.raised)
                    });
                let is_ours = holder.node.as_deref() != Some(node) || holder.raise.is_some();
                if is_more && is_ours {
                    Asks::ToBegin
                } else {
                    Asks::Nothing
                }
            }
        }
    }

    /// Whether the record of the node where a pod is counted says so, as far as any has to.
    #[must_use]
    pub fn is_recorded(&self, uid: &str) -> bool {
        let Some(holder) = self.holders.get(uid) else {
            return true;
        };
        let Some(place) = holder.place.as_deref() else {
            return true;
        };
        let Some(class) = self
            .nodes
            .get(place)
            .and_then(|entry| self.nodes.class(entry.class))
        else {
            return true;
        };
        let Some(new) = self.entry_of(holder, place, class, "") else {
            return true;
        };
        let is_top = self.records.place_of(uid).is_some_and(|top| **top == *place);
        let known = self.records.entry(place, uid);
        is_top && known.is_some_and(|known| *known.takes == *new.takes && *known.raised == *new.raised)
    }

    /// The node on which a pod is counted, and whose record has to say so.
    #[must_use]
    pub fn place_of(&self, uid: &str) -> Option<Arc<str>> {
        self.holders.get(uid)?.place.clone()
    }

    /// Whether a pod is counted at all.
    #[must_use]
    pub fn holds(&self, uid: &str) -> bool {
        self.holders.contains_key(uid)
    }

    /// The version of a node's record that is counted here.
    #[must_use]
    pub fn record_version(&self, node: &str) -> Option<&str> {
        self.records.nodes.get(node)?.version.as_deref()
    }

    /// Nodes that have a record, or should have one.
    #[must_use]
    pub fn recorded_nodes(&self) -> Vec<Arc<str>> {
        let shared = self.nodes.iter().filter(|(_, entry)| {
            let mut pools = entry.node.pools.iter();
            pools.any(|pool| pool.sharing.is_shared())
        });
        let names: BTreeSet<&Arc<str>> = shared
            .map(|(name, _)| name)
            .chain(self.records.nodes.keys())
            .collect();
        names.into_iter().cloned().collect()
    }

    /// What the record of the node says of a holder that is accounted there; `None` where it takes nothing that is shared
    /// and no record holds it.
    fn entry_of(&self, holder: &Holder, node: &str, class: &Class, stamp: &str) -> Option<Entry> {
        let known = self.records.entry(node, &holder.uid);
        let top = self.records.top(&holder.uid);
        let is_raised = holder.raise.is_some() || self.records.raised.contains(&holder.uid);
        let all = takes(&class.pools, &holder.standings);
        let (takes, raised) = if is_raised {
            let before = takes(&class.pools, &self.standings_before_raise(holder, class));
            let raised = if before == all { Vec::new() } else { all };
            (before, raised)
        } else {
            (all, Vec::new())
        };
        if takes.is_empty() && raised.is_empty() && top.is_none() {
            return None;
        }
        let moves = match top {
            Some((place, kept)) if **place == *node => kept.moves,
            Some((_, kept)) => kept.moves.saturating_add(1),
            None => 0,
        };
        let mut entry = Entry {
            moves,
            takes,
            raised,
            ..identity(holder)
        };
        let told = known.or(top.map(|(_, kept)| kept));
        if let Some(kept) = told {
            entry.since = kept.since.to_string();
            entry.others.clone_from(&kept.others);
            keep_unknown(&kept.takes, &mut entry.takes);
            keep_unknown(&kept.raised, &mut entry.raised);
        } else {
            stamp.clone_into(&mut entry.since);
        }
        Some(entry)
    }
}

impl Draft {
    fn put(&mut self, entry: Entry, seen: bool) {
        if seen {
            self.record.holders.push(entry);
        } else {
            self.record.reservations.push(entry);
        }
    }
}

fn identity(holder: &Holder) -> Entry {
    Entry {
        uid: holder.uid.to_string(),
        namespace: holder.namespace.to_string(),
        name: holder.name.to_string(),
        controller: holder.controller.as_deref().map(str::to_owned),
        workload: holder
            .workload
            .as_ref()
            .map(|(kind, name)| (kind.to_string(), name.to_string())),
        ..Entry::default()
    }
}

/// The entry as it is stored.
fn as_kept(holder: &Holder, kept: &Kept) -> Entry {
    Entry {
        since: kept.since.to_string(),
        moves: kept.moves,
        takes: kept.takes.to_vec(),
        raised: kept.raised.to_vec(),
        others: kept.others.clone(),
        ..identity(holder)
    }
}

fn is_same(known: &Kept, new: &Entry, seen: bool) -> bool {
    known.seen == seen
        && known.moves == new.moves
        && *known.takes == *new.takes
        && *known.raised == *new.raised
}

/// Fields that a newer release wrote stay with the resource that they were written for.
fn keep_unknown(from: &[Taken], to: &mut [Taken]) {
    for taken in to {
        if let Some(known) = from.iter().find(|known| known.resource == taken.resource) {
            taken.others.clone_from(&known.others);
        }
    }
}

fn keep_others(from: &[DeviceRecord], to: &mut [DeviceRecord]) {
    for device in to {
        if let Some(known) = from.iter().find(|known| known.resource == device.resource) {
            device.others.clone_from(&known.others);
        }
    }
}

fn without_others(devices: &[DeviceRecord]) -> Vec<DeviceRecord> {
    let plain = |device: &DeviceRecord| DeviceRecord {
        others: crate::record::Others::new(),
        ..device.clone()
    };
    devices.iter().map(plain).collect()
}

fn device_records(entry: &NodeEntry, class: &Class) -> Vec<DeviceRecord> {
    let policy = &class.device_policy.device;
    let pools = entry.node.pools.iter().zip(&entry.loads);
    let shared = pools.filter(|(pool, _)| pool.sharing.is_shared());
    let records = shared.map(|(pool, load)| DeviceRecord {
        resource: pool.resource.to_string(),
        devices: pool.devices,
        budget_ppm: policy.budget.ppm(),
        promised_ppm: load.together(pool, policy).ppm(),
        evidence: match load.grade(pool, policy, More::NONE) {
            Evidence::Any => "any",
            Evidence::Spread => "spread",
            Evidence::Observed => "observed",
        }
        .to_owned(),
        others: crate::record::Others::new(),
    });
    records.collect()
}
