//! A pod in the ledger: seen, or admitted and not seen yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Moment;
use super::observed::Observed;
use crate::demand::{ClaimRef, Demand, Standing, Use};
use crate::dra::resolve::Source;
use crate::policy::{PodFacts, PodView};
use crate::workload::pod::{Pod, PodSpec};

/// A pod that holds, or will hold, slots and memory.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) uid: Arc<str>,
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    /// One map for all pods with these labels.
    pub(crate) labels: Arc<BTreeMap<String, String>>,
    /// What expressions of policies ask of it beside; kept while there are any.
    pub(crate) facts: Option<Arc<PodFacts>>,
    /// Top workload of the pod, as kind and name.
    pub(crate) workload: Option<(Arc<str>, Arc<str>)>,
    /// UID of the managing controller.
    pub(crate) controller: Option<Arc<str>>,
    /// What it takes, as read last.
    pub(crate) demand: Arc<Demand>,
    /// What it took when it was admitted here: a ConfigMap that is edited later frees nothing.
    pub(crate) recorded: Option<Arc<Demand>>,
    /// What an UPDATE that was admitted makes of it, and when that was, until the API server shows it.
    pub(crate) raise: Option<(Arc<Demand>, Moment)>,
    /// Where it may stand; kept only while it can still be placed.
    pub(crate) constraints: Option<Arc<PodSpec>>,
    /// The node that it is bound to.
    pub(crate) node: Option<Arc<str>>,
    /// The node on which it is accounted: its own, or the tentative one while it is unbound.
    pub(crate) place: Option<Arc<str>>,
    /// What is accounted there, by pool.
    pub(crate) standings: Vec<Standing>,
    /// The devices that its status tells.
    pub(crate) observed: Vec<Observed>,
    /// Names of the dynamic resource claims that it uses, those that were made for it included.
    pub(crate) claims: Vec<Arc<str>>,
    /// The claims that were made for it from templates, by entry of its `resourceClaims`.
    pub(crate) made: BTreeMap<Arc<str>, Arc<str>>,
    /// Containers whose slots the scheduler allocated by a claim of its own making, each with that claim.
    pub(crate) granted: Vec<Use>,
    /// Whether the API server has shown it.
    pub(crate) seen: bool,
    /// Whether only a record tells of it: another replica admitted it.
    pub(crate) foreign: bool,
    /// Whether it is being deleted. It holds its memory until it is gone.
    pub(crate) terminating: bool,
    /// Whether this process admitted it, or another replica of it.
    pub(crate) admitted_here: bool,
    /// When it was admitted.
    pub(crate) since: Moment,
    /// Order of arrival.
    pub(crate) order: u64,
    /// Its priority: kube-scheduler may end it for a pod of a higher one.
    pub(crate) priority: i32,
}

impl Holder {
    /// As policies select it.
    pub(crate) fn view(&self) -> PodView<'_> {
        PodView::kept(&self.labels, self.facts.as_deref())
    }

    /// Containers that use claims: by their own entries, or because the scheduler made a claim for their slots.
    pub(crate) fn uses(&self) -> impl Iterator<Item = &Use> {
        self.demand.uses.iter().chain(&self.granted)
    }

    /// Whether a use of [`Self::uses`] is of slots.
    pub(crate) fn is_granted(&self, used: &Use) -> bool {
        self.granted.iter().any(|granted| std::ptr::eq(granted, used))
    }

    /// Whether its place may still be chosen.
    pub(crate) fn movable(&self) -> bool {
        self.node.is_none() && self.demand.takes_part()
    }
}

/// The claims that were made for a pod from templates, by entry.
pub(super) fn made(pod: &Pod) -> BTreeMap<Arc<str>, Arc<str>> {
    let statuses = pod.status.resource_claim_statuses.iter();
    let made = statuses.filter_map(|status| {
        let name = status.resource_claim_name.as_deref()?;
        Some((Arc::from(status.name.as_str()), Arc::from(name)))
    });
    made.collect()
}

/// The containers of a pod whose slots stand for devices of a claim that the scheduler made (`extendedResourceClaimStatus`).
pub(super) fn granted(pod: &Pod, demand: &Demand) -> Vec<Use> {
    let Some(status) = &pod.status.extended_resource_claim_status else {
        return Vec::new();
    };
    let claim: Arc<str> = Arc::from(status.resource_claim_name.as_str());
    let mappings = status.request_mappings.iter();
    let requests: BTreeMap<(&str, &str), &str> = mappings
        .map(|mapping| {
            let of = (mapping.container_name.as_str(), mapping.resource_name.as_str());
            (of, mapping.request_name.as_str())
        })
        .collect();
    let granted = demand.claims.iter().filter_map(|slots| {
        let request = requests.get(&(slots.container.as_str(), &*slots.resource))?;
        Some(Use {
            claim: slots.clone(),
            refs: vec![ClaimRef {
                entry: Arc::from(""),
                source: Source::Named(claim.clone()),
                request: Some(Arc::from(*request)),
            }],
            findings: Vec::new(),
        })
    });
    granted.collect()
}

/// Names of the claims that a pod's containers use: those that it names, and those that were made for it.
pub(super) fn claims(demand: &Demand, made: &BTreeMap<Arc<str>, Arc<str>>, granted: &[Use]) -> Vec<Arc<str>> {
    let refs = demand.uses.iter().chain(granted).flat_map(|used| &used.refs);
    let names = refs.filter_map(|used| match &used.source {
        Source::Named(name) => Some(name.clone()),
        Source::Template(_) => made.get(&used.entry).cloned(),
        Source::Nothing => None,
    });
    let names: BTreeSet<Arc<str>> = names.collect();
    names.into_iter().collect()
}

/// The part of a pod's specification that decides where it may stand. Field by field: to clone it whole would copy the
/// containers too, most of it, for nothing.
pub(crate) fn constraints(pod: &Pod) -> Arc<PodSpec> {
    let spec = &pod.spec;
    Arc::new(PodSpec {
        containers: Vec::new(),
        init_containers: Vec::new(),
        ephemeral_containers: Vec::new(),
        volumes: Vec::new(),
        node_name: spec.node_name.clone(),
        node_selector: spec.node_selector.clone(),
        affinity: spec.affinity.clone(),
        tolerations: spec.tolerations.clone(),
        topology_spread_constraints: spec.topology_spread_constraints.clone(),
        runtime_class_name: spec.runtime_class_name.clone(),
        priority_class_name: spec.priority_class_name.clone(),
        priority: spec.priority,
        preemption_policy: spec.preemption_policy.clone(),
        scheduling_gates: spec.scheduling_gates.clone(),
        resource_claims: spec.resource_claims.clone(),
        security_context: spec.security_context.clone(),
    })
}
