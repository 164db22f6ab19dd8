//! A pod in the ledger: seen, or admitted and not seen yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Moment;
use super::observed::Observed;
use crate::demand::{Demand, Standing};
use crate::dra::resolve::Source;
use crate::workload::pod::{Pod, PodSpec};

/// A pod that holds, or will hold, slots and memory.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) uid: Arc<str>,
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
    /// One map for all pods with these labels.
    pub(crate) labels: Arc<BTreeMap<String, String>>,
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
    /// Whether the API server has shown it.
    pub(crate) seen: bool,
    /// Whether it is being deleted. It holds its memory until it is gone.
    pub(crate) terminating: bool,
    /// Whether this process admitted it.
    pub(crate) admitted_here: bool,
    /// When it was admitted.
    pub(crate) since: Moment,
    /// Order of arrival.
    pub(crate) order: u64,
}

impl Holder {
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

/// Names of the claims that a pod's containers use: those that it names, and those that were made for it.
pub(super) fn claims(demand: &Demand, made: &BTreeMap<Arc<str>, Arc<str>>) -> Vec<Arc<str>> {
    let refs = demand.uses.iter().flat_map(|used| &used.refs);
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
        scheduling_gates: spec.scheduling_gates.clone(),
        resource_claims: spec.resource_claims.clone(),
        security_context: spec.security_context.clone(),
    })
}
