//! What a record that was read or written means for who stands where.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Folded, Kept, covers, is_as_new, kept, key, takes};
use crate::ledger::holder::Holder;
use crate::ledger::{Ledger, Moment};
use crate::record::{Entry, NodeRecord};

impl Ledger {
    /// Records will be read and written, whenever the first one comes: what they may tell of a pod later is kept in mind
    /// from now on.
    pub fn share_records(&mut self) {
        self.records.shared = true;
    }

    /// The record of a node as it is stored under a version: read, watched, or just written. One that is older than what
    /// is known already is not looked at.
    ///
    /// An entry whose pod was not seen counts where the record says. One of a pod that is not bound moves the pod's
    /// tentative place there, so that all replicas have the same places in mind. One of a pod that is bound counts where
    /// that is, with no less than the entry says. Pods that are known to be gone stay so.
    pub fn set_record(&mut self, node: &str, record: &NodeRecord, version: &str, now: Moment) {
        let node: Arc<str> = Arc::from(node);
        let known = self.records.nodes.get(&node);
        if known
            .and_then(|known| known.version.as_deref())
            .is_some_and(|known| is_as_new(known, version))
        {
            return;
        }
        self.records.shared = true;
        let mut entries = kept(&node, record, now, &mut self.records.taken);
        for (uid, kept) in entries.iter_mut() {
            if let Some(known) = self
                .records
                .entry(&node, uid)
                .filter(|known| known.raised == kept.raised)
            {
                kept.raised_since = known.raised_since;
            }
        }
        let folded = Folded {
            version: Some(version.to_owned()),
            entries,
            devices: record.devices.clone(),
            others: record.others.clone(),
        };
        let old = self.records.replace(&node, folded);
        let mut places = BTreeSet::from([node.clone()]);
        for uid in old.keys() {
            if self.records.entry(&node, uid).is_none() {
                self.follow(uid, None, now, &mut places);
            }
        }
        let by_key: BTreeMap<Arc<str>, &Entry> =
            record.entries().map(|entry| (key(&node, entry), entry)).collect();
        for (uid, entry) in by_key {
            let new = self.records.entry(&node, &uid);
            if says_the_same(new, old.get(&uid)) && self.holders.contains_key(&uid) {
                continue;
            }
            self.follow(&uid, Some((&node, entry)), now, &mut places);
        }
        for place in places {
            self.settle(&place);
        }
        self.adopt_places();
        self.fill_freed();
    }

    /// Takes pods back to the places that their records say, where there is room: what was moved here for a while, all
    /// others have in mind as it was. Of those who are bound, then, who has room on his own node goes there: so replicas that
    /// know the same count everybody at the same places, whatever came first.
    pub(in crate::ledger) fn adopt_places(&mut self) {
        // Somebody may be on his way into a record for whom they were moved.
        if !self.awaiting.is_empty() {
            return;
        }
        let mut moved = Vec::new();
        for uid in std::mem::take(&mut self.strayed) {
            let at = self.records.place_of(&uid).cloned();
            let holder = self.holders.get(&uid).filter(|holder| strays(holder));
            if let (Some(at), Some(place)) = (at, holder.and_then(|holder| holder.place.clone()))
                && at != place
            {
                moved.push((uid, at, place));
            }
        }
        // All at once: each may stand where another one belongs.
        for (uid, _, _) in &moved {
            self.discharge(uid);
        }
        let mut places = BTreeSet::new();
        for (uid, at, place) in moved {
            let back = self.may_stand(&uid, &at) && self.has_room(&uid, &at);
            // Where it does not, it is noted again.
            self.account(&uid, if back { &at } else { &place });
            places.extend([at, place]);
        }
        for place in places {
            self.settle(&place);
        }
    }

    /// A node's record was taken out of the store. What it said still counts until its pods are known to be gone: only a
    /// hand takes the record of a node away that holds somebody.
    pub fn remove_record(&mut self, node: &str, version: &str) {
        if let Some(folded) = self.records.nodes.get_mut(node)
            && folded
                .version
                .as_deref()
                .is_some_and(|known| known == version || !is_as_new(known, version))
        {
            folded.version = None;
            if folded.entries.is_empty() {
                self.records.nodes.remove(node);
            }
        }
    }

    /// Entries of a pod changed. `told` is the one that was told now, with its node.
    fn follow(
        &mut self,
        uid: &Arc<str>,
        told: Option<(&Arc<str>, &Entry)>,
        now: Moment,
        places: &mut BTreeSet<Arc<str>>,
    ) {
        if self.records.is_gone(uid) {
            return;
        }
        let top = self.records.place_of(uid).cloned();
        let Some(holder) = self.holders.get(uid) else {
            if let (Some(top), Some((_, entry))) = (top, told) {
                self.put_foreign(uid, entry, now);
                self.account(uid, &top);
                places.insert(top);
            }
            return;
        };
        if let Some(found) = top.as_ref().filter(|_| !holder.foreign && !holder.admitted_here)
            && told.is_some_and(|(node, _)| node == found)
            && holder.node.as_ref() != Some(found)
        {
            let found = found.clone();
            self.learn_place(uid, found, places);
            return;
        }
        let (is_foreign, bound, place) = (holder.foreign, holder.node.clone(), holder.place.clone());
        let to = match (&top, &place) {
            (None, _) if is_foreign => {
                self.take_out(uid);
                return;
            }
            (Some(top), _) if is_foreign => Some(top.clone()),
            // One that is bound is counted on its own node again where that has room.
            (Some(top), Some(place)) if top != place => {
                let is_told = told.is_some_and(|(node, _)| node == top);
                let is_own = bound.as_ref() == Some(top);
                let to = if is_told && (is_own || self.may_stand(uid, top)) {
                    top
                } else {
                    place
                };
                Some(to.clone())
            }
            (Some(top), None) if bound.is_none() && self.may_stand(uid, top) => Some(top.clone()),
            (_, place) => place.clone(),
        };
        self.discharge(uid);
        places.extend(place);
        places.extend(bound);
        match to {
            Some(to) => {
                self.account(uid, &to);
                places.insert(to);
            }
            None => self.place_again(uid),
        }
    }

    /// A record tells of a pod that was seen first where another replica found a place for it. Counts as if the record
    /// had come first.
    fn learn_place(&mut self, uid: &Arc<str>, found: Arc<str>, places: &mut BTreeSet<Arc<str>>) {
        let Some(holder) = self.holders.get_mut(uid) else {
            return;
        };
        holder.admitted_here = true;
        let bound = holder.node.clone();
        let was = self.discharge(uid);
        places.extend(was.clone());
        places.insert(found.clone());
        match bound {
            Some(bound) => self.account_bound(uid, bound, Some(found)),
            None => match Some(found).filter(|found| self.may_stand(uid, found)).or(was) {
                Some(to) => self.account(uid, &to),
                None => self.place_again(uid),
            },
        }
    }

    /// A pod that another replica admitted, and that was not seen here yet.
    fn put_foreign(&mut self, uid: &Arc<str>, entry: &Entry, now: Moment) {
        self.order += 1;
        let workload = entry.workload.as_ref();
        self.put_in(Holder {
            uid: uid.clone(),
            namespace: Arc::from(entry.namespace.as_str()),
            name: Arc::from(entry.name.as_str()),
            facts: None,
            labels: Arc::default(),
            workload: workload.map(|(kind, name)| (Arc::from(kind.as_str()), Arc::from(name.as_str()))),
            controller: entry.controller.as_deref().map(Arc::from),
            demand: self.nothing.clone(),
            recorded: None,
            raise: None,
            constraints: None,
            node: None,
            place: None,
            standings: Vec::new(),
            observed: Vec::new(),
            claims: Vec::new(),
            made: BTreeMap::new(),
            granted: Vec::new(),
            seen: false,
            foreign: true,
            terminating: false,
            admitted_here: true,
            since: now,
            order: self.order,
            // Not written in a record; so nobody is told that it makes room.
            priority: i32::MAX,
        });
    }

    /// The devices of a node changed: who was admitted for it by others counts by what it has now, and so does who was
    /// recorded there and stands on a node of the same kind.
    pub(in crate::ledger) fn follow_node(&mut self, name: &str) {
        let uids: Vec<Arc<str>> = self.records.uids(name).cloned().collect();
        for uid in uids {
            let Some(holder) = self.holders.get(&uid) else {
                continue;
            };
            match holder.place.clone() {
                Some(place) if *place != *name => self.account(&uid, &place),
                // What its record says that it takes may hold no more, and it finds a place.
                None => self.lodge(&uid, None),
                _ => {}
            }
        }
    }

    /// What was seen of a pod tells all that an UPDATE raised.
    pub(in crate::ledger) fn lower_what_was_seen(&mut self, uid: &Arc<str>) {
        if !self.records.raised.contains(uid) {
            return;
        }
        let Some((holder, place)) = self
            .holders
            .get(uid)
            .and_then(|holder| Some((holder, holder.place.as_deref()?)))
        else {
            return;
        };
        let Some(class) = self
            .nodes
            .get(place)
            .and_then(|entry| self.nodes.class(entry.class))
        else {
            return;
        };
        let now = takes(&class.pools, &self.standings_before_raise(holder, class));
        let told = |kept: &Kept| covers(&now, &kept.raised);
        if self.records.entries_of(uid).all(told) {
            self.records.lower(uid);
            let place: Arc<str> = Arc::from(place);
            self.account(uid, &place);
        }
    }

    /// Ends what records say that UPDATEs raise since before `before`, where the watch has not shown it.
    pub(in crate::ledger) fn end_recorded_raises(&mut self, before: Moment) {
        for uid in self.records.raised_before(before) {
            self.end_recorded_raise(&uid);
        }
    }

    /// The UPDATE of a pod was not stored.
    pub(in crate::ledger) fn end_recorded_raise(&mut self, uid: &Arc<str>) {
        if self.records.raised.contains(uid) {
            self.records.lower(uid);
            self.account_again(uid);
        }
    }
}

/// Whether a pod can be counted elsewhere than where its record holds it.
pub(in crate::ledger) fn strays(holder: &Holder) -> bool {
    holder.demand.takes_part() && !holder.foreign
}

/// Whether nothing changed that counts.
fn says_the_same(new: Option<&Kept>, old: Option<&Kept>) -> bool {
    match (new, old) {
        (Some(new), Some(old)) => {
            new.moves == old.moves && new.takes == old.takes && new.raised == old.raised
        }
        _ => false,
    }
}
