//! Another pool of nodes that would take an object as it is: only where it may go is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use json_patch::PatchOperation;
use serde_json::json;

use super::operation;
use crate::decision::Question;
use crate::demand::Demand;
use crate::device::GpuNode;
use crate::finding::{Code, Finding, Fix, Severity, short};
use crate::ledger::{Ledger, constraints};
use crate::placement::candidates::{Fit, is_of_condition, is_tolerated, node_matches};
use crate::workload::pod::{PodSpec, Taint, Toleration};

/// Codes that hang on the node: elsewhere the same object may pass.
const CODES: [Code; 15] = [
    Code::Vg102,
    Code::Vg106,
    Code::Vg201,
    Code::Vg202,
    Code::Vg205,
    Code::Vg206,
    Code::Vg207,
    Code::Vg208,
    Code::Vg211,
    Code::Vg301,
    Code::Vg401,
    Code::Vg402,
    Code::Vg701,
    Code::Vg702,
    Code::Vg703,
];

/// Labels that name a pool of nodes, those of its makers first; the name of the node itself last.
const POOL_LABELS: [&str; 10] = [
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "karpenter.sh/nodepool",
    "kubernetes.azure.com/agentpool",
    "node.kubernetes.io/pool",
    "node-role",
    "node.kubernetes.io/instance-type",
    "nvidia.com/gpu.product",
    "nvidia.com/gpu.sharing-strategy",
    HOSTNAME,
];
const HOSTNAME: &str = "kubernetes.io/hostname";
/// Changes that are tried at most.
const MOST_TRIED: usize = 8;
/// Kinds of nodes of which some are looked at, and nodes of one kind.
const MOST_KINDS: usize = 64;
const MOST_OF_A_KIND: usize = 3;

/// Where an object would go.
struct Move {
    title: String,
    selector: BTreeMap<String, String>,
    tolerations: Vec<Taint>,
}

/// The first pool beyond those that the object may go to that takes it. `takes` says whether the changed object has a
/// place there.
pub(in crate::decision) fn elsewhere(
    question: &Question,
    demand: &Demand,
    ledger: &Ledger,
    findings: &[Finding],
    takes: &dyn Fn(&Question) -> bool,
) -> Option<Fix> {
    let mut errors = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .peekable();
    errors.peek()?;
    let hangs_on_nodes = errors.all(|finding| CODES.contains(&finding.code));
    let spec = &question.workload.pod.spec;
    if !hangs_on_nodes || !demand.asks() || spec.node_name.is_some() {
        return None;
    }
    let limits = constraints(&question.workload.pod);
    let moves = nodes(ledger, demand)
        .filter(|node| matches!(node_matches(&limits, node), Fit::Never(_)))
        .flat_map(|node| moves_to(spec, node, &POOL_LABELS));
    first(question, moves, takes)
}

/// The first pool, or node, other than those of `avoid`, whether the object may go there already or not.
pub(in crate::decision) fn any_pool(
    question: &Question,
    demand: &Demand,
    ledger: &Ledger,
    avoid: &BTreeSet<Arc<str>>,
    takes: &dyn Fn(&Question) -> bool,
) -> Option<Fix> {
    let spec = &question.workload.pod.spec;
    let limits = constraints(&question.workload.pod);
    let moves = nodes(ledger, demand)
        .filter(|node| !avoid.contains(node.name()))
        .flat_map(|node| {
            // Where it may go already, only the node itself says something new.
            let labels: &[&str] = match node_matches(&limits, node) {
                Fit::Never(_) => &POOL_LABELS,
                Fit::Now | Fit::Later(_) => &[HOSTNAME],
            };
            moves_to(spec, node, labels)
        });
    first(question, moves, takes)
}

fn first(
    question: &Question,
    moves: impl Iterator<Item = Move>,
    takes: &dyn Fn(&Question) -> bool,
) -> Option<Fix> {
    let mut tried: Vec<BTreeMap<String, String>> = Vec::new();
    for there in moves {
        if tried.contains(&there.selector) {
            continue;
        }
        if tried.len() == MOST_TRIED {
            return None;
        }
        tried.push(there.selector.clone());
        if takes(&moved(question, &there)) {
            return Some(Fix {
                patch: patch(question, &there)?,
                title: there.title,
            });
        }
    }
    None
}

/// Some nodes of every kind that offers what is asked for, those with most room first.
fn nodes<'l>(ledger: &'l Ledger, demand: &'l Demand) -> impl Iterator<Item = &'l GpuNode> {
    let offering = ledger.nodes.classes().filter_map(|(_, class)| {
        let mut pools = demand.resources().map(|resource| class.pool_index(resource));
        let first = pools.next()??;
        pools.all(|pool| pool.is_some()).then_some((class, first))
    });
    offering.take(MOST_KINDS).flat_map(|(class, pool)| {
        let names = class.roomiest(pool, true).take(MOST_OF_A_KIND);
        names.filter_map(|(_, name)| ledger.nodes.get(name).map(|entry| &entry.node))
    })
}

/// Ways to go to a node: by each label that may name its pool.
fn moves_to<'n>(
    spec: &'n PodSpec,
    node: &'n GpuNode,
    named: &'n [&'n str],
) -> impl Iterator<Item = Move> + 'n {
    let labels = &node.labels;
    let kept: BTreeMap<String, String> = spec
        .node_selector
        .iter()
        .filter(|(key, value)| labels.get(key) == Some(value.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let tolerations: Vec<Taint> = node
        .taints
        .iter()
        .filter(|taint| taint.effect == "NoSchedule" || taint.effect == "NoExecute")
        .filter(|taint| !is_of_condition(taint) && !is_tolerated(spec, taint))
        .cloned()
        .collect();
    named.iter().filter_map(move |label| {
        let value = labels.get(label)?;
        let mut selector = kept.clone();
        selector.insert((*label).to_owned(), value.to_owned());
        let mut title = format!(
            "send it to nodes with {label}={}, which take it as it is",
            short(value)
        );
        for taint in &tolerations {
            let _ = write!(
                title,
                "; that tolerates their taint {}={}:{}, so ask whom they are for",
                short(&taint.key),
                short(&taint.value),
                taint.effect
            );
        }
        Some(Move {
            title,
            selector,
            tolerations: tolerations.clone(),
        })
    })
}

/// The object as it would be.
fn moved(question: &Question, there: &Move) -> Question {
    let mut changed = question.clone();
    let spec = &mut changed.workload.pod.spec;
    spec.node_selector = there.selector.clone();
    let tolerations = there.tolerations.iter().map(|taint| Toleration {
        key: taint.key.clone(),
        operator: "Equal".to_owned(),
        value: taint.value.clone(),
        effect: taint.effect.clone(),
    });
    spec.tolerations.extend(tolerations);
    changed
}

/// The operations that write it.
fn patch(question: &Question, there: &Move) -> Option<Vec<PatchOperation>> {
    let at = question.workload.pointer("/spec/nodeSelector")?;
    let mut patch = vec![operation("add", &at, &json!(there.selector))?];
    let toleration = |taint: &Taint| json!({"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect});
    let list = question.workload.pointer("/spec/tolerations")?;
    if question.workload.pod.spec.tolerations.is_empty() {
        let all: Vec<_> = there.tolerations.iter().map(toleration).collect();
        if !all.is_empty() {
            patch.push(operation("add", &list, &json!(all))?);
        }
    } else {
        for taint in &there.tolerations {
            patch.push(operation("add", &format!("{list}/-"), &toleration(taint))?);
        }
    }
    Some(patch)
}
