//! Between admission and the moment the API server shows the pod.
//!
//! A reservation ends when its pod is seen, when the caller went away before our answer, when a newer pod of the same name
//! is admitted, when its controller can no longer mean it, or when it is old and the API server says that there is no such
//! pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::holder::{self, Holder};
use super::{Ledger, Moment};
use crate::demand::Demand;
use crate::policy::PodFacts;
use crate::workload::pod::PodSpec;

/// What an admitted pod will hold until it is seen.
#[derive(Clone, Debug)]
#[must_use = "a reservation that is not committed counts nothing"]
pub struct Reservation {
    /// UID of the pod.
    pub uid: String,
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    pub(crate) labels: BTreeMap<String, String>,
    /// What expressions of policies ask of it beside its labels.
    pub(crate) facts: Option<Arc<PodFacts>>,
    pub(crate) workload: Option<(Arc<str>, Arc<str>)>,
    pub(crate) controller: Option<Arc<str>>,
    pub(crate) demand: Arc<Demand>,
    pub(crate) constraints: Arc<PodSpec>,
    pub(crate) place: Option<Arc<str>>,
    pub(crate) moves: Vec<(Arc<str>, Arc<str>)>,
}

/// A reservation that outlived its time: the caller asks the API server whether its pod exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    /// UID of the pod.
    pub uid: String,
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
}

impl Ledger {
    /// Takes what an admitted verdict reserved. A reservation of the same namespace and name is replaced: the API server
    /// holds one object of a name, so the older one was not stored.
    pub fn commit(&mut self, reservation: Reservation, now: Moment) {
        let uid: Arc<str> = Arc::from(reservation.uid.as_str());
        let namespace: Arc<str> = Arc::from(reservation.namespace.as_str());
        let name: Arc<str> = Arc::from(reservation.name.as_str());
        let replaced: Vec<Arc<str>> = self
            .named(&namespace, &name)
            .filter(|other| other.uid != uid && !other.seen)
            .map(|other| other.uid.clone())
            .collect();
        for other in replaced {
            self.take_out(&other);
            self.records.gone(&other);
        }
        for (moved, to) in &reservation.moves {
            self.account(moved, to);
        }
        if self.holders.get(&uid).is_some_and(|holder| holder.seen) {
            self.raise(&uid, reservation, now);
        } else {
            self.reserve(&uid, reservation, now);
        }
        self.fill_freed();
    }

    /// A pod that exists may take more than it was read to take, until the watch shows the change, or time shows that it
    /// was not stored.
    pub(super) fn raise(&mut self, uid: &Arc<str>, reservation: Reservation, now: Moment) {
        let Some(holder) = self.holders.get_mut(uid) else {
            return;
        };
        holder.raise = Some((reservation.demand, now));
        self.raised.insert(uid.clone());
        let place = holder.node.clone().or(reservation.place).or(holder.place.clone());
        self.discharge(uid);
        match place {
            Some(place) => {
                self.account(uid, &place);
                self.settle(&place);
            }
            None => self.place_again(uid),
        }
    }

    pub(super) fn reserve(&mut self, uid: &Arc<str>, reservation: Reservation, now: Moment) {
        let previous = self.take_out(uid);
        self.records.back(uid);
        self.order += 1;
        self.put_in(Holder {
            uid: uid.clone(),
            namespace: Arc::from(reservation.namespace.as_str()),
            name: Arc::from(reservation.name.as_str()),
            labels: Arc::new(reservation.labels),
            facts: reservation.facts,
            workload: reservation.workload,
            controller: reservation.controller,
            claims: holder::claims(&reservation.demand, &BTreeMap::new(), &[]),
            made: BTreeMap::new(),
            granted: Vec::new(),
            recorded: Some(reservation.demand.clone()),
            demand: reservation.demand,
            raise: None,
            priority: reservation.constraints.priority.unwrap_or_default(),
            constraints: Some(reservation.constraints),
            place: None,
            standings: Vec::new(),
            observed: Vec::new(),
            seen: false,
            foreign: false,
            terminating: false,
            admitted_here: true,
            since: now,
            order: previous.map_or(self.order, |old| old.order),
            node: None,
        });
        match reservation.place {
            Some(place) => self.account(uid, &place),
            None => self.place_again(uid),
        }
    }

    /// Ends what UPDATEs admitted before `before` added, where the watch has not shown it: something else refused them.
    /// The caller knows that the watch has told all of that time.
    pub fn end_raises(&mut self, before: Moment) {
        let over: Vec<Arc<str>> = self
            .raised
            .iter()
            .filter(|uid| {
                let raise = self.holders.get(uid).and_then(|holder| holder.raise.as_ref());
                raise.is_none_or(|(_, since)| *since < before)
            })
            .cloned()
            .collect();
        for uid in over {
            self.end_raise(&uid);
        }
        self.end_recorded_raises(before);
        self.adopt_places();
        self.fill_freed();
    }

    pub(super) fn end_raise(&mut self, uid: &Arc<str>) {
        self.raised.remove(uid);
        if let Some(holder) = self.holders.get_mut(uid) {
            holder.raise = None;
            self.records.lower(uid);
            self.account_again(uid);
        }
    }

    /// What a holder takes may have changed; its place stays, unless that is crowded now.
    pub(super) fn account_again(&mut self, uid: &Arc<str>) {
        match self.discharge(uid) {
            Some(place) => {
                self.account(uid, &place);
                self.settle(&place);
            }
            // What had no place before may find one with what it takes now.
            None => self.place_again(uid),
        }
    }

    /// Gives a reservation back: the caller went away before our answer, or the pod was never stored. A pod that the API
    /// server has shown meanwhile stays.
    pub fn release(&mut self, uid: &str) {
        match self.holders.get(uid) {
            Some(holder) if !holder.seen => {
                let uid = holder.uid.clone();
                self.take_out(&uid);
                self.records.gone(&uid);
            }
            Some(holder) if holder.raise.is_some() => self.end_raise(&holder.uid.clone()),
            _ => return,
        }
        self.fill_freed();
    }

    /// Reservations made before `before`: the caller asks the API server whether the pod exists.
    #[must_use]
    pub fn stale(&self, before: Moment) -> Vec<Stale> {
        self.reservations()
            .filter(|holder| holder.since < before)
            .map(Stale::of)
            .collect()
    }

    /// Whether a controller has reservations whose pods have not been seen.
    #[must_use]
    pub fn has_waiting(&self, controller_uid: &str) -> bool {
        self.of_controller(controller_uid).any(|holder| !holder.seen)
    }

    /// Reservations of a controller that it can no longer mean when it creates one more pod and wants `wants` at once:
    /// the oldest, and none from after `before`. Pods that are Terminating are not counted, as their controller does not
    /// count them either. What is known here can be older than what the controller knows: before one of these ends, the
    /// caller asks the API server whether its pod exists. One of another replica must have been in a record before
    /// `foreign_before`, as far as was seen here: from then on, that replica may still take its time to answer.
    #[must_use]
    pub fn surplus(
        &self,
        controller_uid: &str,
        wants: u32,
        before: Moment,
        foreign_before: Moment,
    ) -> Vec<Stale> {
        let active = self
            .of_controller(controller_uid)
            .filter(|holder| holder.seen && !holder.terminating);
        let allowed = usize::try_from(wants)
            .unwrap_or(usize::MAX)
            .saturating_sub(active.count());
        let mut waiting: Vec<&Holder> = self
            .of_controller(controller_uid)
            .filter(|holder| !holder.seen)
            .collect();
        waiting.sort_by_key(|holder| holder.order);
        let excess = (waiting.len() + 1).saturating_sub(allowed);
        let oldest = waiting.into_iter().take(excess);
        oldest
            .filter(|holder| holder.since < if holder.foreign { foreign_before } else { before })
            .map(Stale::of)
            .collect()
    }

    pub(super) fn of_controller(&self, uid: &str) -> impl Iterator<Item = &Holder> {
        self.controlled
            .get(uid)
            .into_iter()
            .flatten()
            .filter_map(|uid| self.holders.get(uid))
    }

    /// How many reservations of bare pods of a namespace wait to be seen.
    pub(crate) fn unseen_without_controller(&self, namespace: &str) -> usize {
        self.reservations()
            .filter(|holder| holder.controller.is_none() && *holder.namespace == *namespace)
            .count()
    }

    /// How many reservations wait to be seen.
    #[must_use]
    pub fn reserved(&self) -> usize {
        self.unseen.len()
    }

    pub(super) fn reservations(&self) -> impl Iterator<Item = &Holder> {
        self.unseen.iter().filter_map(|uid| self.holders.get(uid))
    }
}

impl Stale {
    fn of(holder: &Holder) -> Self {
        Self {
            uid: holder.uid.to_string(),
            namespace: holder.namespace.to_string(),
            name: holder.name.to_string(),
        }
    }
}
