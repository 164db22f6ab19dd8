//! Policies that match nothing of a cluster.

use std::collections::{BTreeMap, BTreeSet};

use super::{Looking, Remark, Rule};
use crate::finding::Severity;
use crate::policy::Selector;
use crate::policy::tree::Step;
use crate::snapshot::Snapshot;
use crate::workload::WorkloadKind;

type Labels = BTreeMap<String, String>;

/// What of the policies matches nothing here.
pub(super) fn remarks(policies: &[Looking<'_>], snapshot: &Snapshot, remarks: &mut Vec<Remark>) {
    let nodes: Vec<&Labels> = snapshot.nodes().map(|node| &node.metadata.labels).collect();
    let mut pods: BTreeSet<(Labels, Labels)> = BTreeSet::new();
    for workload in snapshot.workloads() {
        let of_its_own = workload.kind == WorkloadKind::Pod || workload.replicas.desired > 0;
        if of_its_own {
            let namespace = snapshot.namespace_labels(&workload.object.namespace);
            pods.insert((namespace, workload.pod.metadata.labels.clone()));
        }
    }
    for policy in policies {
        let matches = &policy.policy().matches;
        let parts = [
            ("nodes", matches.nodes.as_ref(), nodes.clone(), "nodes"),
            (
                "namespaces",
                matches.namespaces.as_ref(),
                pods.iter().map(|(namespace, _)| namespace).collect(),
                "namespaces with GPU pods",
            ),
            (
                "pods",
                matches.pods.as_ref(),
                pods.iter().map(|(_, pod)| pod).collect(),
                "GPU pods",
            ),
        ];
        for (part, selector, all, what) in parts {
            let Some(selector) = selector else { continue };
            if all.iter().any(|labels| selector.matches(*labels)) {
                continue;
            }
            let path = ["spec", "match", part].map(|key| Step::Key(key.to_owned()));
            remarks.push(policy.remark(
                &path,
                Severity::Warning,
                Rule::MatchesNothing,
                format!(
                    "matches none of the {what} of this cluster: {}",
                    reason(selector, &all)
                ),
            ));
        }
    }
}

/// The first demand that nothing meets, with what is there instead.
fn reason(selector: &Selector, all: &[&Labels]) -> String {
    if all.is_empty() {
        return "there are none".to_owned();
    }
    let wanted = selector
        .labels
        .iter()
        .map(|(key, value)| (key, Some(value)))
        .chain(selector.expressions.iter().map(|one| (&one.key, None)));
    for (key, value) in wanted {
        let one = Selector {
            labels: value
                .map(|value| (key.clone(), value.clone()))
                .into_iter()
                .collect(),
            expressions: if value.is_some() {
                Vec::new()
            } else {
                selector
                    .expressions
                    .iter()
                    .filter(|one| one.key == *key)
                    .cloned()
                    .collect()
            },
        };
        if all.iter().any(|labels| one.matches(*labels)) {
            continue;
        }
        let there: BTreeSet<&str> = all
            .iter()
            .filter_map(|labels| labels.get(key))
            .map(String::as_str)
            .collect();
        return if there.is_empty() {
            format!("none has the label {key}")
        } else {
            let there: Vec<&str> = there.into_iter().take(5).collect();
            format!("the label {key} is there {}", there.join(", "))
        };
    }
    "each has a part of the labels, and none has all".to_owned()
}
