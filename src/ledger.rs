//! The sum of promised memory per device: who holds what, who is about to, and where everybody can stand.
//!
//! A plain struct that takes facts and answers questions: no clock, no client, no lock. Callers hold it behind a lock
//! and judge and commit in one hold, so two requests can never both take the last place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::demand::weigh::{self, Rules, Weighed};
use crate::demand::{Demand, Standing};
use crate::device::GpuNode;
use crate::engine::Sources;
use crate::policy::PolicySet;
use crate::workload::pod::{Pod, PodSpec};
use crate::workload::{controller_of, owner};

pub mod devices;
mod holder;
pub(crate) mod nodes;
pub(crate) mod room;
pub(crate) mod search;
mod settle;

pub(crate) use holder::{Holder, constraints};
use nodes::Nodes;

/// Milliseconds of a clock that only goes forward, told by the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

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

/// See the module.
#[derive(Clone, Debug)]
pub struct Ledger {
    policies: Arc<PolicySet>,
    pub(crate) nodes: Nodes,
    holders: BTreeMap<Arc<str>, Holder>,
    /// Namespace and name to UID, for holders of both kinds.
    names: BTreeMap<(Arc<str>, Arc<str>), Arc<str>>,
    /// Bound pods by node, whether the node is known or not.
    bound: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// UIDs of the reservations: few, among all holders of a large cluster.
    waiting: BTreeSet<Arc<str>>,
    /// Holders by the UID of their controller.
    controlled: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
    order: u64,
}

impl Ledger {
    /// An empty ledger.
    #[must_use]
    pub fn new(policies: Arc<PolicySet>) -> Self {
        Self {
            policies,
            nodes: Nodes::default(),
            holders: BTreeMap::new(),
            names: BTreeMap::new(),
            bound: BTreeMap::new(),
            waiting: BTreeSet::new(),
            controlled: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            order: 0,
        }
    }

    /// The policies in force.
    #[must_use]
    pub fn policies(&self) -> &Arc<PolicySet> {
        &self.policies
    }

    /// Other policies; every budget and footprint is worked out again. A policy's own images are read anew when their
    /// pods are seen again.
    pub fn set_policies(&mut self, policies: Arc<PolicySet>) {
        self.policies = policies;
        let nodes: Vec<GpuNode> = self.nodes.iter().map(|(_, entry)| entry.node.clone()).collect();
        self.nodes = Nodes::default();
        for node in nodes {
            self.set_node(node);
        }
        let unplaced: Vec<Arc<str>> = self
            .holders
            .values()
            .filter(|holder| holder.movable())
            .map(|holder| holder.uid.clone())
            .collect();
        for uid in unplaced {
            self.place_again(&uid);
        }
    }

    /// Labels of a namespace, with the name that the API server always adds.
    #[must_use]
    pub fn namespace_labels(&self, namespace: &str) -> BTreeMap<String, String> {
        let mut labels = self.namespaces.get(namespace).cloned().unwrap_or_default();
        labels
            .entry("kubernetes.io/metadata.name".to_owned())
            .or_insert_with(|| namespace.to_owned());
        labels
    }

    /// A namespace appeared or changed its labels.
    pub fn set_namespace(&mut self, name: &str, labels: BTreeMap<String, String>) {
        self.namespaces.insert(name.to_owned(), labels);
    }

    /// A namespace is gone.
    pub fn remove_namespace(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    /// A node appeared or changed.
    pub fn set_node(&mut self, node: GpuNode) {
        let name: Arc<str> = Arc::from(node.name());
        // A kubelet's heartbeat changes nothing of what is read here.
        if self.nodes.get(&name).is_some_and(|entry| entry.node == node) {
            return;
        }
        let mut here: BTreeSet<Arc<str>> = self
            .nodes
            .get(&name)
            .map(|entry| entry.accounted.clone())
            .unwrap_or_default();
        here.extend(self.bound.get(&name).into_iter().flatten().cloned());
        self.nodes.set(node, &self.policies);
        for uid in here {
            if let Some(holder) = self.holders.get_mut(&uid) {
                // A bound pod whose excess was placed elsewhere comes back to where it stands.
                let elsewhere = holder.place.as_ref().is_some_and(|place| *place != name);
                if elsewhere {
                    continue;
                }
                holder.place = None;
                self.account(&uid, &name);
            }
        }
        self.settle(&name);
    }

    /// A node is gone. Its bound pods stay known until they are gone too; tentative places move.
    pub fn remove_node(&mut self, name: &str) {
        let Some(entry) = self.nodes.remove(name) else {
            return;
        };
        for uid in entry.accounted {
            if let Some(holder) = self.holders.get_mut(&uid) {
                holder.place = None;
                holder.standings.clear();
            }
            self.place_again(&uid);
        }
    }

    /// A pod was seen, as the API server has it now. Ends its reservation.
    pub fn set_pod(&mut self, pod: &Pod, sources: &dyn Sources) {
        let uid: Arc<str> = Arc::from(pod.metadata.uid.as_str());
        if pod.has_ended() {
            self.remove_pod(&uid);
            return;
        }
        let labels = self.namespace_labels(&pod.metadata.namespace);
        let Ok(demand) = Demand::read(pod, &labels, &self.policies, sources) else {
            // The API server validated it, so an unreadable quantity cannot ask for slots.
            self.remove_pod(&uid);
            return;
        };
        if !demand.asks() {
            self.remove_pod(&uid);
            return;
        }
        let previous = self.take_out(&uid);
        let node: Option<Arc<str>> = pod
            .spec
            .node_name
            .as_deref()
            .filter(|name| !name.is_empty())
            .map(Arc::from);
        let admitted_here = previous.as_ref().is_some_and(|holder| holder.admitted_here);
        let tentative = previous
            .as_ref()
            .filter(|holder| holder.movable())
            .and_then(|holder| holder.place.clone());
        let displaced = previous
            .as_ref()
            .filter(|holder| !holder.movable() && holder.node == node && holder.place != holder.node)
            .and_then(|holder| holder.place.clone());
        self.order += 1;
        let holder = Holder {
            uid: uid.clone(),
            namespace: Arc::from(pod.metadata.namespace.as_str()),
            name: Arc::from(pod.metadata.name.as_str()),
            labels: pod.metadata.labels.clone(),
            workload: top_workload(pod),
            controller: controller_of(&pod.metadata).map(|owner| Arc::from(owner.uid.as_str())),
            demand: Arc::new(demand),
            recorded: previous.as_ref().and_then(|holder| holder.recorded.clone()),
            // Once bound, the pod's own nodeName says where it went, not where it could have gone.
            constraints: match (&node, admitted_here) {
                (None, _) => Some(constraints(pod)),
                (Some(_), true) => previous.as_ref().and_then(|holder| holder.constraints.clone()),
                (Some(_), false) => None,
            },
            node: node.clone(),
            place: None,
            standings: Vec::new(),
            seen: true,
            terminating: pod.metadata.deletion_timestamp.is_some(),
            admitted_here,
            since: previous.as_ref().map_or(Moment(0), |holder| holder.since),
            order: previous.as_ref().map_or(self.order, |holder| holder.order),
        };
        self.put_in(holder);
        match (node, displaced.or(tentative)) {
            (Some(node), None) => {
                self.account(&uid, &node);
                self.settle(&node);
            }
            (Some(node), Some(elsewhere)) => {
                // Whether it needs a place elsewhere is decided anew each time its node is settled.
                self.account(&uid, &node);
                self.settle_towards(&node, Some(&elsewhere));
            }
            (None, Some(place)) if self.nodes.get(&place).is_some() => {
                self.account(&uid, &place);
                self.settle(&place);
            }
            (None, _) => self.place_again(&uid),
        }
    }

    /// A pod is gone.
    pub fn remove_pod(&mut self, uid: &str) {
        let Some(holder) = self.take_out(uid) else { return };
        if let Some(node) = holder.node {
            self.settle(&node);
        }
    }

    /// Takes what an admitted verdict reserved. A reservation of the same namespace and name is replaced: the API server
    /// holds one object of a name, so the older one was not stored.
    pub fn commit(&mut self, reservation: Reservation, now: Moment) {
        let uid: Arc<str> = Arc::from(reservation.uid.as_str());
        let namespace: Arc<str> = Arc::from(reservation.namespace.as_str());
        let name: Arc<str> = Arc::from(reservation.name.as_str());
        let replaced = self
            .names
            .get(&(namespace.clone(), name.clone()))
            .filter(|other| **other != uid)
            .filter(|other| self.holders.get(*other).is_some_and(|holder| !holder.seen))
            .cloned();
        if let Some(other) = replaced {
            self.take_out(&other);
        }
        for (moved, to) in &reservation.moves {
            self.move_to(moved, to);
        }
        let previous = self.take_out(&uid);
        self.order += 1;
        let (node, seen) = previous
            .as_ref()
            .map_or((None, false), |old| (old.node.clone(), old.seen));
        self.put_in(Holder {
            uid: uid.clone(),
            namespace,
            name,
            labels: reservation.labels,
            workload: reservation.workload,
            controller: reservation.controller,
            recorded: Some(reservation.demand.clone()),
            demand: reservation.demand,
            constraints: Some(reservation.constraints),
            place: None,
            standings: Vec::new(),
            seen,
            terminating: false,
            admitted_here: true,
            since: now,
            order: previous.as_ref().map_or(self.order, |old| old.order),
            node: node.clone(),
        });
        if let Some(place) = node.or(reservation.place) {
            self.account(&uid, &place);
        }
    }

    /// Gives a reservation back: the caller went away before our answer, or the pod was never stored. A pod that the API
    /// server has shown meanwhile stays.
    pub fn release(&mut self, uid: &str) {
        if self.holders.get(uid).is_some_and(|holder| !holder.seen) {
            self.take_out(uid);
        }
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
        self.controlled_by(controller_uid).any(|holder| !holder.seen)
    }

    /// Makes room for one more pod of a controller that wants `wants` pods at once: with it, pods seen and reservations
    /// may not be more than that, and the oldest reservations end. Pods that are Terminating are not counted, as their
    /// controller does not count them either.
    pub fn trim(&mut self, controller_uid: &str, wants: u32) -> Vec<Stale> {
        let active = self
            .controlled_by(controller_uid)
            .filter(|holder| holder.seen && !holder.terminating);
        let allowed = usize::try_from(wants)
            .unwrap_or(usize::MAX)
            .saturating_sub(active.count());
        let mut waiting: Vec<&Holder> = self
            .controlled_by(controller_uid)
            .filter(|holder| !holder.seen)
            .collect();
        waiting.sort_by_key(|holder| holder.order);
        let excess = (waiting.len() + 1).saturating_sub(allowed);
        let ended: Vec<Stale> = waiting.into_iter().take(excess).map(Stale::of).collect();
        for stale in &ended {
            self.release(&stale.uid);
        }
        ended
    }

    /// How many reservations wait to be seen.
    #[must_use]
    pub fn reserved(&self) -> usize {
        self.waiting.len()
    }

    fn reservations(&self) -> impl Iterator<Item = &Holder> {
        self.waiting.iter().filter_map(|uid| self.holders.get(uid))
    }

    fn controlled_by(&self, controller_uid: &str) -> impl Iterator<Item = &Holder> {
        self.controlled
            .get(controller_uid)
            .into_iter()
            .flatten()
            .filter_map(|uid| self.holders.get(uid))
    }

    pub(crate) fn holder(&self, uid: &str) -> Option<&Holder> {
        self.holders.get(uid)
    }

    pub(crate) fn holders(&self) -> impl Iterator<Item = &Holder> {
        self.holders.values()
    }

    pub(crate) fn bound_to(&self, node: &str) -> impl Iterator<Item = &Holder> {
        self.bound
            .get(node)
            .into_iter()
            .flatten()
            .filter_map(|uid| self.holders.get(uid))
    }

    /// Weighs a demand of a pod for the nodes of one kind.
    pub(crate) fn weigh(
        &self,
        demand: &Demand,
        namespace_labels: &BTreeMap<String, String>,
        pod_labels: &BTreeMap<String, String>,
        class: &nodes::Class,
    ) -> Weighed {
        let pod = self
            .policies
            .for_pod(namespace_labels, pod_labels, Some(&class.labels));
        let rules = Rules {
            pod: &pod,
            device: &class.device_policy.device,
        };
        weigh::weigh(demand, &class.pools, rules)
    }

    /// What a holder takes on the nodes of one kind: the larger of what it was admitted with and what is read now.
    pub(crate) fn standings(&self, holder: &Holder, class: &nodes::Class) -> Vec<Standing> {
        let labels = self.namespace_labels(&holder.namespace);
        let now = self
            .weigh(&holder.demand, &labels, &holder.labels, class)
            .standings;
        match &holder.recorded {
            Some(recorded) if !Arc::ptr_eq(recorded, &holder.demand) => {
                let then = self.weigh(recorded, &labels, &holder.labels, class).standings;
                now.into_iter()
                    .zip(then)
                    .map(|(now, then)| now.at_least(then))
                    .collect()
            }
            _ => now,
        }
    }

    fn put_in(&mut self, holder: Holder) {
        self.names.insert(
            (holder.namespace.clone(), holder.name.clone()),
            holder.uid.clone(),
        );
        if let Some(node) = &holder.node {
            self.bound
                .entry(node.clone())
                .or_default()
                .insert(holder.uid.clone());
        }
        if let Some(controller) = &holder.controller {
            self.controlled
                .entry(controller.clone())
                .or_default()
                .insert(holder.uid.clone());
        }
        if !holder.seen {
            self.waiting.insert(holder.uid.clone());
        }
        self.holders.insert(holder.uid.clone(), holder);
    }

    fn take_out(&mut self, uid: &str) -> Option<Holder> {
        self.discharge(uid);
        let holder = self.holders.remove(uid)?;
        let key = (holder.namespace.clone(), holder.name.clone());
        if self.names.get(&key).is_some_and(|current| **current == *uid) {
            self.names.remove(&key);
        }
        if let Some(node) = &holder.node {
            forget(&mut self.bound, node, uid);
        }
        if let Some(controller) = &holder.controller {
            forget(&mut self.controlled, controller, uid);
        }
        self.waiting.remove(uid);
        Some(holder)
    }

    /// Accounts a holder on a node; nothing where the node is unknown.
    fn account(&mut self, uid: &Arc<str>, node: &str) {
        let Some(holder) = self.holders.get(uid) else {
            return;
        };
        let Some(class) = self
            .nodes
            .get(node)
            .and_then(|entry| self.nodes.class(entry.class))
        else {
            return;
        };
        let standings = self.standings(holder, class);
        self.discharge(uid);
        self.nodes.account(node, uid, &standings);
        if let Some(holder) = self.holders.get_mut(uid) {
            holder.place = Some(Arc::from(node));
            holder.standings = standings;
        }
    }

    fn discharge(&mut self, uid: &str) {
        let Some(holder) = self.holders.get_mut(uid) else {
            return;
        };
        let Some(place) = holder.place.take() else { return };
        let standings = std::mem::take(&mut holder.standings);
        self.nodes.discharge(&place, uid, &standings);
    }

    fn move_to(&mut self, uid: &Arc<str>, node: &str) {
        self.account(uid, node);
    }
}

/// Takes a UID out of an index.
fn forget(index: &mut BTreeMap<Arc<str>, BTreeSet<Arc<str>>>, key: &str, uid: &str) {
    if let Some(set) = index.get_mut(key) {
        set.remove(uid);
        if set.is_empty() {
            index.remove(key);
        }
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

pub(crate) fn top_workload(pod: &Pod) -> Option<(Arc<str>, Arc<str>)> {
    owner::workload_owner(&pod.metadata).map(|(kind, name)| (Arc::from(kind), Arc::from(name)))
}
