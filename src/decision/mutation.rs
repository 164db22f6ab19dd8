//! What the policy changes in a pod before it is judged: a fraction where its engine has none, the limits of an MPS client,
//! and the share that kube-scheduler counts. RFC 6902 operations, as few as there are changes; a second pass gives none.
//!
//! What the user wrote stays, unless the policy says otherwise. On a further pass (the API server calls again after
//! another webhook's change) our own values are worked out anew; they are known by the annotation `vramgate.io/mutated`,
//! which holds each value by container and name, and only as long as the container still has that very value.

use std::sync::Arc;

use json_patch::PatchOperation;
use serde_json::json;

use super::fixes::operation;
use super::survey::Survey;
use super::{Question, counted};
use crate::demand::Demand;
use crate::demand::client::{MUTATED, Record};
use crate::device::Sharing;
use crate::engine;
use crate::ledger::{Ledger, constraints};
use crate::policy::DefaultFraction;
use crate::workload::Workload;
use crate::workload::pod::{Affinity, Container, Pod, Requirement};
use environment::Variable;

mod affinity;
pub(super) mod environment;
mod fraction;
mod mps;
mod toolkit;

/// Rounds in which nodes are left out, one kind or more in each. Clusters have a few kinds of nodes that offer a resource;
/// with more that refuse one after the other nothing is changed.
const MOST_ROUNDS: usize = 8;

/// A pod, or the template of one, as the policy makes it.
pub(super) struct Mutation {
    /// What it takes then. Places to write another value stay those of the object as it was submitted.
    pub(super) demand: Arc<Demand>,
    /// The nodes that it may go to then, where they are fewer.
    pub(super) affinity: Option<Affinity>,
    /// The changes, on a pod that lies at the root of its object.
    pub(super) patches: Vec<PatchOperation>,
}

/// What the policy changes in the pods of `workload`; `None` where that is nothing.
pub(super) fn of(
    question: &Question,
    workload: &Workload,
    demand: &Arc<Demand>,
    ledger: &Ledger,
) -> Option<Mutation> {
    let pod = &workload.pod;
    // A mirror pod runs already; the annotation alone proves nothing.
    let runs_already = pod.is_mirror() && question.by_node;
    // Pods that ask for no slot are left alone, what they reach without asking included.
    if runs_already || workload.deleting || !demand.asks() {
        return None;
    }
    let concerns = concerns(question, pod, demand, ledger);
    if !concerns && demand.carried.is_empty() && !counted::is_possible(question, pod, demand, ledger) {
        return None;
    }
    // What the user wrote of our own resource says nothing of what the pod takes.
    let uncounted;
    let demand = if demand.carried.is_empty() {
        demand
    } else {
        uncounted = Arc::new(Demand {
            carried: Vec::new(),
            ..(**demand).clone()
        });
        &uncounted
    };
    let before = Record::of(pod);
    let replaces = replaces(question, pod, ledger);
    let mut spec = constraints(pod);
    let mut requirements: Vec<Requirement> = Vec::new();
    // Fewer nodes may mean other values, and other values fewer nodes; there are as many rounds as kinds at most.
    for _ in 0..MOST_ROUNDS {
        let survey_of = |demand: &Demand| Survey::of(ledger, demand, &spec, &question.namespace_labels, pod);
        let mut made = Made {
            demand: mps::without_replaceable(demand, replaces),
            record: before.clone(),
            variables: Vec::new(),
            patches: Vec::new(),
        };
        let mut survey = survey_of(&made.demand);
        if concerns {
            if toolkit::set(&mut made, demand, &survey, pod) {
                survey = survey_of(&made.demand);
            }
            if fraction::set(&mut made, &survey) {
                survey = survey_of(&made.demand);
            }
            mps::set(&mut made, demand, &survey, pod, replaces);
            if let Some(requirement) = affinity::missing(&survey, pod) {
                requirements.push(requirement);
                if let Some(narrowed) = affinity::narrowed(pod, &requirements) {
                    Arc::make_mut(&mut spec).affinity = Some(narrowed.affinity);
                    continue;
                }
                requirements.pop();
            }
            // A limit of MPS can bound what was open before.
            survey = survey_of(&made.demand);
        }
        let mut counted = Vec::new();
        if !survey.countable().is_empty() {
            let wanted = counted::wanted(&made.demand, &survey, ledger).unwrap_or_default();
            counted = counted::operations(pod, &wanted);
            made.demand.carried = wanted;
        }
        made.patches.extend(environment::operations(pod, &made.variables));
        let narrowed = affinity::narrowed(pod, &requirements);
        let (affinity, patches) = narrowed.map_or((None, Vec::new()), |narrowed| {
            (Some(narrowed.affinity), narrowed.patches)
        });
        made.patches.extend(patches);
        if made.record != before {
            made.patches.extend(annotated(pod, &made.record));
        }
        made.patches.extend(counted);
        return (!made.patches.is_empty()).then(|| Mutation {
            demand: Arc::new(made.demand),
            affinity,
            patches: made.patches,
        });
    }
    None
}

/// What is taken off a pod that asks for no slot: a share that it carries would keep others off a device.
pub(super) fn without_slots(question: &Question, demand: &Arc<Demand>, ledger: &Ledger) -> Option<Mutation> {
    let pod = &question.workload.pod;
    let policies = ledger.policies();
    let counts = policies.for_pod(&question.namespace_labels, pod, None).counts();
    let runs_already = pod.is_mirror() && question.by_node;
    if demand.carried.is_empty() || !counts || runs_already || question.workload.deleting {
        return None;
    }
    Some(Mutation {
        demand: Arc::new(Demand {
            carried: Vec::new(),
            ..(**demand).clone()
        }),
        affinity: None,
        patches: counted::operations(pod, &[]),
    })
}

/// What has been changed so far.
struct Made {
    demand: Demand,
    record: Record,
    /// Variables with the pointer of the container that gets them.
    variables: Vec<(String, Variable)>,
    patches: Vec<PatchOperation>,
}

/// Whether any kind of node has something to set, somebody's policy may want a fraction, or there are nodes to tell apart.
/// Looks at no place.
fn concerns(question: &Question, pod: &Pod, demand: &Demand, ledger: &Ledger) -> bool {
    let parts = || demand.claims.iter().flat_map(|claim| &claim.parts);
    let has_vllm = parts().any(|part| part.engine == engine::Engine::Vllm);
    let (mut kinds, mut shares) = (0_usize, false);
    for (_, class) in ledger.nodes.classes() {
        if demand
            .resources()
            .any(|resource| class.pool_index(resource).is_none())
        {
            continue;
        }
        kinds += 1;
        let mut asked = class
            .pools
            .iter()
            .filter(|pool| {
                pool.sharing.is_shared() && demand.resources().any(|asked| *asked == *pool.resource)
            })
            .peekable();
        if asked.peek().is_some() {
            shares = true;
            let policies = ledger.policies();
            let policy = policies.for_pod(&question.namespace_labels, pod, Some(class.view()));
            let wants_fraction = has_vllm && policy.default_fraction != DefaultFraction::None;
            if wants_fraction
                || policy.toolkit_limit
                || asked.any(|pool| matches!(pool.sharing, Sharing::Mps(_)))
            {
                return true;
            }
        }
        if shares && kinds > 1 {
            return true;
        }
    }
    false
}

/// Whether a policy that applies on any kind of node replaces what the user wrote for MPS.
fn replaces(question: &Question, pod: &Pod, ledger: &Ledger) -> bool {
    ledger.nodes.classes().any(|(_, class)| {
        let policies = ledger.policies();
        let policy = policies.for_pod(&question.namespace_labels, pod, Some(class.view()));
        let is_mps = |pool: &crate::device::Pool| matches!(pool.sharing, Sharing::Mps(_));
        policy.mps.replaces && class.pools.iter().any(is_mps)
    })
}

/// The container at a pointer below the pod.
fn container_at<'p>(pod: &'p Pod, pointer: &str) -> Option<&'p Container> {
    engine::containers(pod)
        .find(|placed| placed.pointer() == pointer)
        .map(|placed| placed.container)
}

/// The operation that writes the record into the pod's annotations, making those where there are none.
fn annotated(pod: &Pod, record: &Record) -> Option<PatchOperation> {
    let text = record.to_string();
    if pod.metadata.annotations.is_empty() {
        let mut annotations = serde_json::Map::new();
        annotations.insert(MUTATED.to_owned(), json!(text));
        return operation("add", "/metadata/annotations", &annotations.into());
    }
    let key = environment::escaped(MUTATED);
    operation("add", &format!("/metadata/annotations/{key}"), &json!(text))
}
