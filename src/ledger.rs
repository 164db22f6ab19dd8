//! The sum of promised memory per device: who holds what, who is about to, and where everybody can stand.
//!
//! A plain struct that takes facts and answers questions: no clock, no client, no lock. Callers hold it behind a lock
//! and judge and commit in one hold, so two requests can never both take the last place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::demand::weigh::{self, Rules, Weighed};
use crate::demand::{Demand, Standing, identity, other_systems};
use crate::device::GpuNode;
use crate::dra::{Dra, Key};
use crate::engine::{NoSources, Sources};
use crate::policy::{Evidence, PodView, PolicySet};
use crate::workload::pod::{Pod, PodSpec};
use crate::workload::priority::{Priorities, PriorityClass};
use crate::workload::{controller_of, owner};

pub mod advertised;
mod apart;
pub(crate) mod claims;
#[cfg(test)]
mod consistency;
pub mod devices;
mod history;
mod holder;
mod matched;
pub(crate) mod nodes;
mod observed;
mod records;
mod reservation;
pub(crate) mod room;
pub(crate) mod search;
mod settle;
mod shared;
mod totals;

use apart::Apart;
pub(crate) use holder::{Holder, constraints};
use nodes::Nodes;
pub use records::{Awaited, Draft, Extent, Next};
use records::{Records, Waits};
pub use reservation::{Reservation, Stale};
pub use totals::Totals;

/// Milliseconds of a clock that only goes forward, told by the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

/// See the module.
#[derive(Clone, Debug)]
pub struct Ledger {
    policies: Arc<PolicySet>,
    pub(crate) nodes: Nodes,
    holders: Apart<Holder>,
    /// Namespace, name and UID of each holder. A pod that is replaced under its name stands here twice for a while.
    names: BTreeSet<(Arc<str>, Arc<str>, Arc<str>)>,
    /// Bound pods by node, whether the node is known or not.
    bound: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Reservations: holders that the API server has not shown.
    unseen: BTreeSet<Arc<str>>,
    /// Holders with an UPDATE that the API server has not shown.
    raised: BTreeSet<Arc<str>>,
    /// Holders by the UID of their managing controller.
    controlled: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Unbound pods for which no node has a place, by order of arrival: the first places that become free are theirs.
    unplaced: BTreeSet<(u64, Arc<str>)>,
    /// Holders that are accounted on another node than the one they are bound to, or are bound to none.
    tentative: BTreeSet<Arc<str>>,
    /// Nodes above their budget from which nothing could move: asked again when something becomes free elsewhere.
    crowded: BTreeSet<Arc<str>>,
    /// Bound pods that are counted on another node than their own, which had no room.
    away: BTreeSet<Arc<str>>,
    /// Nodes on which something became free while pods wait for that: in `unplaced`, `crowded` or `away`.
    freed: BTreeSet<Arc<str>>,
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
    priorities: Priorities,
    /// Dynamic resource allocation.
    pub(crate) dra: Dra,
    /// Holders by the claim that they use, as namespace and name.
    claimants: BTreeMap<Key, BTreeSet<Arc<str>>>,
    /// Nodes without any slots of their own, and nodes with devices in ResourceSlices as they are without those.
    bare: BTreeMap<Arc<str>, GpuNode>,
    /// What they have in common.
    shared: shared::Shared,
    /// What the records of nodes say, which all replicas read and write.
    records: Records,
    /// Reservations of this process that wait for their record.
    awaiting: BTreeMap<Arc<str>, Waits>,
    /// Pods that are counted on another node than the one whose record holds them.
    strayed: BTreeSet<Arc<str>>,
    /// The demand of a pod of which only its record tells.
    nothing: Arc<Demand>,
    order: u64,
    /// Whether nodes are taken as advertising the counted resource.
    assumes_advertised: bool,
}

impl Ledger {
    /// An empty ledger.
    #[must_use]
    pub fn new(policies: Arc<PolicySet>) -> Self {
        Self {
            policies,
            nodes: Nodes::default(),
            holders: Apart::default(),
            names: BTreeSet::new(),
            bound: BTreeMap::new(),
            unseen: BTreeSet::new(),
            raised: BTreeSet::new(),
            controlled: BTreeMap::new(),
            unplaced: BTreeSet::new(),
            tentative: BTreeSet::new(),
            crowded: BTreeSet::new(),
            away: BTreeSet::new(),
            freed: BTreeSet::new(),
            namespaces: BTreeMap::new(),
            priorities: Priorities::default(),
            dra: Dra::default(),
            claimants: BTreeMap::new(),
            bare: BTreeMap::new(),
            shared: shared::Shared::default(),
            records: Records::default(),
            awaiting: BTreeMap::new(),
            strayed: BTreeSet::new(),
            nothing: Arc::default(),
            order: 0,
            assumes_advertised: false,
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
        self.shared.forget_demands();
        let nodes: Vec<GpuNode> = self.nodes.iter().map(|(_, entry)| entry.node.clone()).collect();
        let names: Vec<Arc<str>> = self.nodes.iter().map(|(name, _)| name.clone()).collect();
        let mut guests = Vec::new();
        for uid in self.holders.keys().cloned().collect::<Vec<_>>() {
            let was = self.discharge(&uid);
            match self.holders.get(&uid) {
                Some(holder) if holder.movable() || holder.node != was => {
                    guests.push((holder.order, uid, was));
                }
                _ => {}
            }
        }
        self.nodes = Nodes::default();
        self.crowded.clear();
        for node in nodes {
            let name: Arc<str> = Arc::from(node.name());
            self.nodes.set(node, &self.policies);
            if self.may_be_uneven(&name) {
                self.nodes.end_history(&name);
            }
        }
        let bound: Vec<(Arc<str>, Arc<str>)> = self
            .bound
            .iter()
            .flat_map(|(node, uids)| uids.iter().map(|uid| (uid.clone(), node.clone())))
            .collect();
        let away: BTreeSet<&Arc<str>> = guests.iter().map(|(_, uid, _)| uid).collect();
        for (uid, node) in bound.iter().filter(|(uid, _)| !away.contains(uid)) {
            self.account(uid, node);
        }
        guests.sort();
        for (_, uid, was) in guests {
            self.lodge(&uid, was.as_ref());
        }
        for name in names {
            self.settle(&name);
        }
        self.fill_freed();
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
        let before = self.namespaces.insert(name.to_owned(), labels);
        if before.as_ref() != self.namespaces.get(name) {
            self.weigh_namespace(name);
        }
    }

    /// The policy of a namespace's pods can be another one now.
    fn weigh_namespace(&mut self, name: &str) {
        self.shared.forget_demands();
        let pods: Vec<Arc<str>> = self.in_namespace(name).map(|holder| holder.uid.clone()).collect();
        for uid in pods {
            self.account_again(&uid);
        }
        self.fill_freed();
    }

    /// A namespace is gone.
    pub fn remove_namespace(&mut self, name: &str) {
        if self.namespaces.remove(name).is_some() {
            self.weigh_namespace(name);
        }
    }

    /// A node appeared or changed.
    pub fn set_node(&mut self, mut node: GpuNode) {
        node.labels = self.shared.node_labels(node.labels);
        match self.with_slices(node) {
            Ok(node) => self.put_node(node),
            Err(name) => self.take_node(&name),
        }
    }

    /// The same with the devices that its ResourceSlices offer as well.
    fn put_node(&mut self, node: GpuNode) {
        let name: Arc<str> = Arc::from(node.name());
        // A kubelet's heartbeat changes nothing of what is read here.
        if let Some(known) = self.nodes.get(&name).map(|entry| &entry.node) {
            if *known == node {
                return;
            }
            let advertised = node.advertised;
            if *known
                == (GpuNode {
                    advertised: known.advertised,
                    ..node.clone()
                })
            {
                // Only our own number changed: nobody stands elsewhere for that.
                self.nodes.show(&name, advertised);
                return;
            }
        }
        let accounted = self
            .nodes
            .get(&name)
            .map(|entry| entry.accounted.clone())
            .unwrap_or_default();
        let mut guests = Vec::new();
        for uid in accounted {
            self.discharge(&uid);
            if let Some(holder) = self
                .holders
                .get(&uid)
                .filter(|holder| holder.node.as_ref() != Some(&name))
            {
                guests.push((holder.order, uid));
            }
        }
        let is_as_before = self
            .nodes
            .get(&name)
            .is_some_and(|entry| entry.node.pools == node.pools);
        self.nodes.set(node, &self.policies);
        if !is_as_before && self.may_be_uneven(&name) {
            self.nodes.end_history(&name);
        }
        for uid in self.bound.get(&name).cloned().unwrap_or_default() {
            // One that is accounted elsewhere, because it found this node full, comes back when there is room.
            if self
                .holders
                .get(&uid)
                .is_some_and(|holder| holder.place.is_none())
            {
                self.account(&uid, &name);
            }
        }
        // Whether the others may still stand here is asked anew: labels, slots and memory can be others now.
        guests.sort();
        for (_, uid) in guests {
            self.lodge(&uid, Some(&name));
        }
        self.follow_node(&name);
        self.settle(&name);
        self.freed(&name);
        self.fill_freed();
    }

    /// A node is gone. Its bound pods stay known until they are gone too; what was only accounted there moves.
    pub fn remove_node(&mut self, name: &str) {
        self.bare.remove(name);
        self.take_node(name);
    }

    fn take_node(&mut self, name: &str) {
        let Some(entry) = self.nodes.get(name) else {
            return;
        };
        let mut here: Vec<(u64, Arc<str>)> = entry
            .accounted
            .iter()
            .filter_map(|uid| Some((self.holders.get(uid)?.order, uid.clone())))
            .collect();
        for (_, uid) in &here {
            self.discharge(uid);
        }
        self.nodes.remove(name);
        self.crowded.remove(name);
        here.sort();
        for (_, uid) in here {
            self.lodge(&uid, None);
        }
        self.follow_node(name);
        self.fill_freed();
    }

    /// A pod was seen, as the API server has it now. Ends its reservation.
    pub fn set_pod(&mut self, pod: &Pod, sources: &dyn Sources) {
        self.see(pod, sources, None);
    }

    /// The same of a pod that names no ConfigMap. The caller vouches that pods of the same `template` differ in nothing but
    /// their identity, node and status: what one of them takes is read once, unless it can depend on these.
    pub fn set_replica(&mut self, pod: &Pod, template: u64) {
        self.see(pod, &NoSources, Some(template));
    }

    /// What a pod takes; `None` where that cannot be read.
    fn read(
        &mut self,
        pod: &Pod,
        labels: &BTreeMap<String, String>,
        sources: &dyn Sources,
        template: Option<u64>,
    ) -> Option<Arc<Demand>> {
        if let Some(known) = template.and_then(|template| self.shared.demand(template)) {
            return Some(known);
        }
        let read = |pod: &Pod| Demand::read_amounts(pod, labels, &self.policies, sources);
        let demand = Arc::new(read(pod).ok()?);
        if let Some(template) = template
            && !identity::matters(pod, &demand, read)
        {
            self.shared.keep_demand(template, &demand);
        }
        Some(demand)
    }

    fn see(&mut self, pod: &Pod, sources: &dyn Sources, template: Option<u64>) {
        let uid: Arc<str> = Arc::from(pod.metadata.uid.as_str());
        if pod.has_ended() {
            self.remove_pod(&uid);
            return;
        }
        let labels = self.namespace_labels(&pod.metadata.namespace);
        let Some(demand) = self.read(pod, &labels, sources, template) else {
            // The API server validated it, so an unreadable quantity cannot ask for slots.
            self.remove_pod(&uid);
            return;
        };
        self.put_pod(pod, &labels, demand);
    }

    /// The same for a pod of which it is known what it takes.
    pub(crate) fn set_pod_with(&mut self, pod: &Pod, demand: Arc<Demand>) {
        let labels = self.namespace_labels(&pod.metadata.namespace);
        self.put_pod(pod, &labels, demand.without_loads());
    }

    fn put_pod(&mut self, pod: &Pod, labels: &BTreeMap<String, String>, demand: Arc<Demand>) {
        let uid: Arc<str> = Arc::from(pod.metadata.uid.as_str());
        if !demand.takes_part() && !demand.may_get_devices() {
            self.remove_pod(&uid);
            return;
        }
        // Where it was accounted; taking it out forgets that.
        let was = self.holders.get(&uid).and_then(|holder| holder.place.clone());
        self.records.back(&uid);
        let previous = self.take_out(&uid);
        // Who was known by a record alone, or known to be gone, stands where the record says.
        let recorded_at = match &previous {
            Some(holder) if !holder.foreign => None,
            _ => self.records.place_of(&uid).cloned(),
        };
        let was = was.or_else(|| recorded_at.clone());
        let node: Option<Arc<str>> = pod
            .spec
            .node_name
            .as_deref()
            .filter(|name| !name.is_empty())
            .map(|name| self.shared.text(name));
        let admitted_here =
            recorded_at.is_some() || previous.as_ref().is_some_and(|holder| holder.admitted_here);
        self.order += 1;
        let mut recorded = previous.as_ref().and_then(|holder| holder.recorded.clone());
        let mut raise = previous.as_ref().and_then(|holder| holder.raise.clone());
        if let Some((raised, _)) = raise.take_if(|(raised, _)| *raised == demand) {
            recorded = Some(raised);
        }
        if raise.is_some() {
            self.raised.insert(uid.clone());
        }
        let made = holder::made(pod);
        let granted = holder::granted(pod, &demand);
        let claims = holder::claims(&demand, &made, &granted);
        let mut observed = observed::read(pod);
        let given = other_systems::given(pod, other_systems::trusted(pod, labels, &self.policies));
        observed.extend(observed::of_others(&demand, &given));
        let constraints = match &node {
            Some(_) if self.records.is_shared() && !admitted_here => {
                Some(self.could_go(pod, previous.as_ref()))
            }
            _ => may_go(pod, node.as_ref(), recorded_at.as_ref(), previous.as_ref()),
        };
        let holder = Holder {
            uid: uid.clone(),
            namespace: self.shared.text(&pod.metadata.namespace),
            name: Arc::from(pod.metadata.name.as_str()),
            labels: self.shared.pod_labels(&pod.metadata.labels),
            facts: self.policies.facts(pod),
            workload: owner::workload_owner(&pod.metadata)
                .map(|(kind, name)| (self.shared.text(kind), self.shared.text(name))),
            controller: controller_of(&pod.metadata).map(|owner| self.shared.text(&owner.uid)),
            demand,
            recorded,
            raise,
            constraints,
            node: node.clone(),
            place: None,
            standings: Vec::new(),
            observed,
            claims,
            made,
            granted,
            seen: true,
            foreign: false,
            terminating: pod.metadata.deletion_timestamp.is_some(),
            admitted_here,
            since: previous.as_ref().map_or(Moment(0), |holder| holder.since),
            order: previous.as_ref().map_or(self.order, |holder| holder.order),
            priority: pod.spec.priority.unwrap_or_default(),
        };
        self.put_in(holder);
        if let (Some(node), None) = (&node, &previous)
            && self.may_be_uneven(node)
        {
            // When it came, and what was there then, nobody has watched.
            self.nodes.end_history(node);
        }
        match (node, was) {
            (Some(node), was) => self.account_bound(&uid, node, was.filter(|_| admitted_here)),
            (None, was) => {
                // The place that admission found is kept even where it is crowded by now.
                match was.filter(|was| self.may_stand(&uid, was)) {
                    Some(was) => {
                        self.account(&uid, &was);
                        self.settle(&was);
                    }
                    None => self.place_again(&uid),
                }
            }
        }
        self.lower_what_was_seen(&uid);
        self.fill_freed();
    }

    /// Where a bound pod could have gone, of which no record tells yet: one may come that has it elsewhere. Pods of one
    /// controller are alike, and keep that once.
    fn could_go(&self, pod: &Pod, previous: Option<&Holder>) -> Arc<PodSpec> {
        if let Some(known) = previous.filter(|holder| holder.node.is_some())
            && let Some(known) = &known.constraints
        {
            return known.clone();
        }
        let spec = unbound(pod);
        let sibling = controller_of(&pod.metadata).and_then(|owner| self.of_controller(&owner.uid).next());
        let alike = sibling.and_then(|sibling| sibling.constraints.as_ref());
        alike.filter(|alike| **alike == spec).cloned().unwrap_or(spec)
    }

    /// Accounts a bound pod that is accounted nowhere. Where the scheduler took a node that is full, it stays at the place
    /// that admission found: that one is free by construction, so all admitted pods still have one.
    fn account_bound(&mut self, uid: &Arc<str>, node: Arc<str>, found: Option<Arc<str>>) {
        let found = found.filter(|found| {
            !self.has_room(uid, &node) && self.may_stand(uid, found) && self.has_room(uid, found)
        });
        let place = found.unwrap_or(node);
        self.account(uid, &place);
        self.settle(&place);
    }

    /// A pod is gone.
    pub fn remove_pod(&mut self, uid: &str) {
        self.records.gone(&Arc::from(uid));
        let Some(holder) = self.take_out(uid) else { return };
        if let Some(node) = holder.node {
            if !self.bound.contains_key(&node) {
                self.nodes.begin_history(&node);
            }
            self.settle(&node);
        }
        self.fill_freed();
    }

    /// Pods may have come and gone unseen: how the slots of several were spread cannot be told. Called when a list of them
    /// begins and when it is complete: of those that a record told of before, nobody has watched when they came either.
    pub fn end_histories(&mut self) {
        let watched = self.nodes.iter().filter(|(_, entry)| entry.is_watched());
        let uneven = watched.filter(|(name, _)| self.may_be_uneven(name));
        for node in uneven.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.nodes.end_history(&node);
        }
    }

    /// Whether the slots of a node's pods can be on fewer devices than they would be had all come to an empty node: a single
    /// one is nowhere uneven.
    fn may_be_uneven(&self, node: &str) -> bool {
        let claims = self.bound_to(node).flat_map(|holder| &holder.demand.claims);
        let accounted = self
            .nodes
            .get(node)
            .into_iter()
            .flat_map(|entry| &entry.accounted);
        // A record may tell of pods that are there before the API server shows them.
        let told = accounted
            .filter_map(|uid| self.holders.get(uid))
            .filter(|holder| holder.foreign && holder.node.is_none())
            .flat_map(|holder| &holder.standings);
        let slots = claims
            .map(|claim| claim.slots)
            .chain(told.map(|standing| standing.slots));
        slots.fold(0, u32::saturating_add) > 1
    }

    /// A PriorityClass appeared or changed. Pods have the priority that they were created with.
    pub fn set_priority_class(&mut self, class: PriorityClass) {
        self.priorities.set(class);
    }

    /// A PriorityClass is gone.
    pub fn remove_priority_class(&mut self, name: &str) {
        self.priorities.remove(name);
    }

    /// The classes that give pods their priority.
    pub(crate) fn priorities(&self) -> &Priorities {
        &self.priorities
    }

    /// Holders of one namespace.
    pub(crate) fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Holder> {
        let namespace: Arc<str> = Arc::from(namespace);
        let nothing: Arc<str> = Arc::from("");
        self.names
            .range((namespace.clone(), nothing.clone(), nothing)..)
            .take_while(move |(of, _, _)| *of == namespace)
            .filter_map(|(_, _, uid)| self.holders.get(uid))
    }

    /// Holders of one name: more than one while a pod is replaced.
    pub(crate) fn named<'a>(&'a self, namespace: &'a str, name: &'a str) -> impl Iterator<Item = &'a Holder> {
        let first = (Arc::from(namespace), Arc::from(name), Arc::from(""));
        self.names
            .range(first..)
            .take_while(move |(of, called, _)| **of == *namespace && **called == *name)
            .filter_map(|(_, _, uid)| self.holders.get(uid))
    }

    pub(crate) fn holder(&self, uid: &str) -> Option<&Holder> {
        self.holders.get(uid)
    }

    pub(crate) fn holders(&self) -> impl Iterator<Item = &Holder> {
        self.holders.values()
    }

    /// Holders that are accounted on another node than the one they are bound to, or are bound to none.
    pub(crate) fn tentative(&self) -> impl Iterator<Item = &Holder> {
        self.tentative.iter().filter_map(|uid| self.holders.get(uid))
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
        pod: PodView<'_>,
        class: &nodes::Class,
    ) -> Weighed {
        let pod = self.policies.for_pod(namespace_labels, pod, Some(class.view()));
        let rules = Rules {
            pod: &pod,
            device: &class.device_policy.device,
            namespace: namespace_labels
                .get("kubernetes.io/metadata.name")
                .map_or("", String::as_str),
        };
        weigh::weigh(demand, &class.pools, rules)
    }

    /// What a holder takes on the nodes of one kind: the larger of what it was admitted with and what is read now.
    pub(crate) fn standings(&self, holder: &Holder, class: &nodes::Class) -> Vec<Standing> {
        let before = self.standings_before_raise(holder, class);
        let raise = holder.raise.as_ref().map(|(demand, _)| demand);
        let raised = match raise.filter(|demand| !Arc::ptr_eq(demand, &holder.demand)) {
            Some(demand) => at_least(before, self.weigh_for(demand, holder, class)),
            None => before,
        };
        self.no_less_than_recorded(raised, holder, class, true)
    }

    /// The same without what an UPDATE that was not seen makes of it.
    fn standings_before_raise(&self, holder: &Holder, class: &nodes::Class) -> Vec<Standing> {
        if holder.foreign {
            let nothing = vec![Standing::default(); class.pools.len()];
            return self.no_less_than_recorded(nothing, holder, class, false);
        }
        let now = self.weigh_for(&holder.demand, holder, class);
        let other = holder.recorded.as_ref();
        let most = match other.filter(|other| !Arc::ptr_eq(other, &holder.demand)) {
            Some(other) => at_least(now, self.weigh_for(other, holder, class)),
            None => now,
        };
        self.no_less_than_recorded(most, holder, class, false)
    }

    fn weigh_for(&self, demand: &Demand, holder: &Holder, class: &nodes::Class) -> Vec<Standing> {
        let labels = self.namespace_labels(&holder.namespace);
        self.weigh(demand, &labels, holder.view(), class).standings
    }

    /// Standings of a holder on nodes of the kind for which its record was written: no less than that says.
    fn no_less_than_recorded(
        &self,
        now: Vec<Standing>,
        holder: &Holder,
        class: &nodes::Class,
        raised: bool,
    ) -> Vec<Standing> {
        let is_of_class = |node: &Arc<str>| {
            let entry = self.nodes.get(node);
            entry.is_some_and(|entry| {
                self.nodes
                    .class(entry.class)
                    .is_some_and(|of| std::ptr::eq(of, class))
            })
        };
        if !self.records.place_of(&holder.uid).is_some_and(is_of_class) {
            return now;
        }
        match self.records.floor(&holder.uid, &class.pools, &now, raised) {
            Some(floor) => at_least(now, floor),
            None => now,
        }
    }

    /// The same on a certain node: with the devices on which the holder was seen, where it runs there.
    pub(crate) fn standings_on(&self, holder: &Holder, class: &nodes::Class, node: &str) -> Vec<Standing> {
        let mut standings = self.standings(holder, class);
        if holder.node.as_deref() == Some(node) && class.device_policy.device.accepts(Evidence::Observed) {
            observed::tell(holder, &class.pools, &mut standings);
        }
        standings
    }

    fn put_in(&mut self, holder: Holder) {
        self.names
            .insert((holder.namespace.clone(), holder.name.clone(), holder.uid.clone()));
        if let Some(node) = &holder.node {
            self.bound
                .entry(node.clone())
                .or_default()
                .insert(holder.uid.clone());
        }
        if !holder.seen {
            self.unseen.insert(holder.uid.clone());
        }
        for claim in &holder.claims {
            let claim = (holder.namespace.clone(), claim.clone());
            self.claimants
                .entry(claim)
                .or_default()
                .insert(holder.uid.clone());
        }
        if let Some(controller) = &holder.controller {
            self.controlled
                .entry(controller.clone())
                .or_default()
                .insert(holder.uid.clone());
        }
        if holder.movable() && holder.place.is_none() {
            self.unplaced.insert((holder.order, holder.uid.clone()));
        }
        self.holders.insert(holder.uid.clone(), holder);
    }

    fn take_out(&mut self, uid: &str) -> Option<Holder> {
        self.discharge(uid);
        let holder = self.holders.remove(uid)?;
        self.unplaced.remove(&(holder.order, holder.uid.clone()));
        self.raised.remove(uid);
        self.unseen.remove(uid);
        for claim in &holder.claims {
            forget(
                &mut self.claimants,
                &(holder.namespace.clone(), claim.clone()),
                uid,
            );
        }
        if let Some(controller) = &holder.controller {
            forget(&mut self.controlled, controller, uid);
        }
        self.names
            .remove(&(holder.namespace.clone(), holder.name.clone(), holder.uid.clone()));
        if let Some(node) = &holder.node {
            forget(&mut self.bound, node, uid);
        }
        Some(holder)
    }

    /// Accounts a holder on a node; nothing where the node is unknown.
    fn account(&mut self, uid: &Arc<str>, node: &str) {
        let takes_part = |holder: &&Holder| holder.demand.takes_part() || holder.foreign;
        let Some(holder) = self.holders.get(uid).filter(takes_part) else {
            return;
        };
        let Some(class) = self
            .nodes
            .get(node)
            .and_then(|entry| self.nodes.class(entry.class))
        else {
            return;
        };
        let standings = self.standings_on(holder, class, node);
        self.discharge(uid);
        self.nodes.account(node, uid, &standings);
        if let Some(holder) = self.holders.get(uid) {
            // An init container with several slots hands them on to containers that ask for one each.
            if holder.demand.claims.iter().any(|claim| claim.slots > 1) {
                self.nodes.end_history(node);
            }
            if let Some(elsewhere) = holder.node.as_deref().filter(|bound| *bound != node) {
                self.nodes.end_history(elsewhere);
                self.away.insert(uid.clone());
            }
        }
        if let Some(holder) = self.holders.get_mut(uid) {
            holder.place = Some(Arc::from(node));
            holder.standings = standings;
            self.unplaced.remove(&(holder.order, uid.clone()));
            if holder.place != holder.node {
                self.tentative.insert(uid.clone());
            }
            if records::strays(holder) && self.records.place_of(uid).is_some_and(|at| **at != *node) {
                self.strayed.insert(uid.clone());
            }
        }
        if self.is_over(node) {
            self.crowded.insert(Arc::from(node));
        }
    }

    /// Whether a holder that is accounted nowhere fits on a node.
    fn has_room(&self, uid: &str, node: &str) -> bool {
        let Some(holder) = self.holders.get(uid) else {
            return false;
        };
        let Some(entry) = self.nodes.get(node) else {
            return false;
        };
        let Some(class) = self.nodes.class(entry.class) else {
            return false;
        };
        search::Overlay::new(self)
            .fits(node, entry, &self.standings_on(holder, class, node))
            .memory
    }

    /// Takes a holder off the node that it is accounted on, and says which that was.
    fn discharge(&mut self, uid: &str) -> Option<Arc<str>> {
        let holder = self.holders.get_mut(uid)?;
        let place = holder.place.take()?;
        self.tentative.remove(uid);
        let standings = std::mem::take(&mut holder.standings);
        if holder.movable() {
            self.unplaced.insert((holder.order, holder.uid.clone()));
        }
        self.away.remove(uid);
        self.nodes.discharge(&place, uid, &standings);
        self.freed(&place);
        Some(place)
    }
}

/// Where a pod could have gone that the scheduler put on a node.
fn unbound(pod: &Pod) -> Arc<PodSpec> {
    let mut spec = constraints(pod);
    Arc::make_mut(&mut spec).node_name = None;
    spec
}

/// Where a pod that was seen may stand. Once it is bound, its own nodeName says where it went, not where it could have gone.
fn may_go(
    pod: &Pod,
    node: Option<&Arc<str>>,
    recorded_at: Option<&Arc<str>>,
    previous: Option<&Holder>,
) -> Option<Arc<PodSpec>> {
    let Some(node) = node else {
        return Some(constraints(pod));
    };
    if recorded_at.is_some_and(|at| at != node) {
        // It was recorded for another node, so it was the scheduler that chose this one.
        return Some(unbound(pod));
    }
    let admitted = previous.filter(|holder| holder.admitted_here);
    admitted.and_then(|holder| holder.constraints.clone())
}

/// Pool by pool the larger of both.
fn at_least(most: Vec<Standing>, then: Vec<Standing>) -> Vec<Standing> {
    let both = most.into_iter().zip(then);
    both.map(|(most, then)| most.at_least(then)).collect()
}

/// Takes an entry out of a set of a map, and the set with its last entry.
fn forget<K, Q>(map: &mut BTreeMap<K, BTreeSet<Arc<str>>>, key: &Q, entry: &str)
where
    K: std::borrow::Borrow<Q> + Ord,
    Q: Ord + ?Sized,
{
    if let Some(set) = map.get_mut(key) {
        set.remove(entry);
        if set.is_empty() {
            map.remove(key);
        }
    }
}

pub(crate) fn top_workload(pod: &Pod) -> Option<(Arc<str>, Arc<str>)> {
    owner::workload_owner(&pod.metadata).map(|(kind, name)| (Arc::from(kind), Arc::from(name)))
}
