//! Nodes that would refuse the pod, kept away from it where others take it: kube-scheduler knows nothing of what speaks
//! against them.
//!
//! Nodes that would refuse are left out by a label whose values none of those has that take the pod; a label that says
//! how or how finely devices are shared first, since nodes that join later are then told apart as well.

use std::collections::BTreeSet;

use json_patch::PatchOperation;
use serde_json::{Value, json};

use crate::decision::fixes::operation;
use crate::decision::survey::{Candidate, Survey};
use crate::finding::{Code, Severity};
use crate::workload::pod::{Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, Pod, Requirement};

/// Reasons that hang on the kind of device alone, and not on what is known of a model or on room.
const BY_KIND: [Code; 5] = [Code::Vg102, Code::Vg106, Code::Vg206, Code::Vg207, Code::Vg401];

/// Labels by which kinds of nodes are told apart, in the order in which they are tried.
const LABELS: [&str; 4] = [
    "nvidia.com/gpu.sharing-strategy",
    "nvidia.com/gpu.replicas",
    "nvidia.com/gpu.product",
    "kubernetes.io/hostname",
];

/// Values of one requirement; more make a pod that nobody can read.
const MOST_VALUES: usize = 32;

const REQUIRED: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";

/// What the pod's node affinity lacks, so that no node refuses it by its kind; `None` where that is nothing, or where no
/// label tells those nodes apart.
pub(super) fn missing(survey: &Survey<'_>, pod: &Pod) -> Option<Requirement> {
    let is_fixed = pod.spec.node_name.as_deref().is_some_and(|name| !name.is_empty());
    if survey.accepting.is_empty() || is_fixed {
        return None;
    }
    let refusing: Vec<&Candidate<'_>> = survey.refusing.iter().filter(|kind| is_by_kind(kind)).collect();
    if refusing.is_empty() {
        return None;
    }
    LABELS.into_iter().find_map(|label| {
        let without = values(&refusing, label)?;
        let is_kept = |value: &&str| {
            let mut accepting = survey.accepting.iter();
            accepting.any(|kind| kind.class.has_label(label, value))
        };
        let tells = !without.iter().any(is_kept);
        tells.then(|| Requirement {
            key: label.to_owned(),
            operator: "NotIn".to_owned(),
            values: without.into_iter().map(str::to_owned).collect(),
        })
    })
}

fn is_by_kind(kind: &Candidate<'_>) -> bool {
    let mut errors = kind
        .weighed
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error);
    errors.any(|finding| BY_KIND.contains(&finding.code))
}

/// The values of a label on all nodes of some kinds; `None` where one has none, since it could not be left out by it, and where
/// they are too many.
fn values<'s>(kinds: &[&'s Candidate<'_>], label: &str) -> Option<BTreeSet<&'s str>> {
    let mut values = BTreeSet::new();
    for kind in kinds {
        let of_kind = kind.class.values_on_all(label)?;
        if of_kind.len() > MOST_VALUES {
            return None;
        }
        values.extend(of_kind);
    }
    (values.len() <= MOST_VALUES).then_some(values)
}

/// A pod's affinity with further requirements, and the operations that make it so.
pub(super) struct Narrowed {
    pub(super) affinity: Affinity,
    pub(super) patches: Vec<PatchOperation>,
}

/// Adds requirements to each alternative that the pod names, or as the only one. An alternative without any requirement
/// matches nothing and is left so; `None` where there is nothing to add to.
pub(super) fn narrowed(pod: &Pod, requirements: &[Requirement]) -> Option<Narrowed> {
    if requirements.is_empty() {
        return None;
    }
    let written = |requirement: &Requirement| {
        json!({
            "key": requirement.key, "operator": requirement.operator, "values": requirement.values,
        })
    };
    let expressions: Vec<Value> = requirements.iter().map(written).collect();
    let selector = json!({"nodeSelectorTerms": [{"matchExpressions": expressions}]});
    let only = || NodeSelector {
        node_selector_terms: vec![NodeSelectorTerm {
            match_expressions: requirements.to_vec(),
            match_fields: Vec::new(),
        }],
    };
    let mut affinity = pod.spec.affinity.clone().unwrap_or_default();
    let patches: Vec<PatchOperation> = match &mut affinity.node_affinity {
        Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(required),
        }) => {
            let mut patches = Vec::new();
            for (index, term) in required.node_selector_terms.iter_mut().enumerate() {
                let pointer = format!("{REQUIRED}/nodeSelectorTerms/{index}/matchExpressions");
                if !term.match_expressions.is_empty() {
                    let last = format!("{pointer}/-");
                    patches.extend(expressions.iter().filter_map(|one| operation("add", &last, one)));
                } else if term.match_fields.is_empty() {
                    continue;
                } else {
                    patches.extend(operation("add", &pointer, &json!(expressions)));
                }
                term.match_expressions.extend_from_slice(requirements);
            }
            patches
        }
        Some(nodes) => {
            nodes.required_during_scheduling_ignored_during_execution = Some(only());
            operation("add", REQUIRED, &selector).into_iter().collect()
        }
        nodes => {
            *nodes = Some(NodeAffinity {
                required_during_scheduling_ignored_during_execution: Some(only()),
            });
            let nodes = json!({"requiredDuringSchedulingIgnoredDuringExecution": selector});
            let patch = if pod.spec.affinity.is_some() {
                operation("add", "/spec/affinity/nodeAffinity", &nodes)
            } else {
                operation("add", "/spec/affinity", &json!({"nodeAffinity": nodes}))
            };
            patch.into_iter().collect()
        }
    };
    (!patches.is_empty()).then_some(Narrowed { affinity, patches })
}
