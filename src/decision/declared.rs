//! VG111: an UPDATE that lowers what a pod declares. What runs goes on holding its memory, whatever is written beside it.

use std::collections::BTreeMap;

use json_patch::PatchOperation;
use serde_json::json;

use super::fixes::operation;
use super::mutation::environment::escaped;
use super::{Operation, Question};
use crate::demand::Amount;
use crate::demand::declaration::{self, Declarations, NAME};
use crate::engine;
use crate::finding::{Code, Finding, Fix, short};
use crate::policy::PolicySet;
use crate::workload::WorkloadKind;
use crate::workload::pod::Pod;

/// What an UPDATE of a pod lowers, takes away, or adds later, of declarations that count.
pub(super) fn lowered(question: &Question, policies: &PolicySet) -> Vec<Finding> {
    let pod = &question.workload.pod;
    let is_update = question.operation == Operation::Update && question.workload.kind == WorkloadKind::Pod;
    match &question.old {
        Some(old) if is_update && !pod.has_ended() => {
            between(&old.pod, pod, &question.namespace_labels, policies)
        }
        _ => Vec::new(),
    }
}

fn between(
    old: &Pod,
    new: &Pod,
    namespace_labels: &BTreeMap<String, String>,
    policies: &PolicySet,
) -> Vec<Finding> {
    let (before, after) = (
        Declarations::of(old, namespace_labels, policies),
        Declarations::of(new, namespace_labels, policies),
    );
    if before.written == after.written {
        return Vec::new();
    }
    let counted = |of: &Declarations<'_>, container: &str| {
        let declared = of.of_container(container)?.ok()?;
        Some(declared.amount)
    };
    let mut findings = Vec::new();
    for placed in engine::containers(old).filter(|placed| declaration::asks(*placed)) {
        let name = placed.container.name.as_str();
        let is_lower = match (counted(&before, name), counted(&after, name)) {
            (None, None) => false,
            (Some(was), Some(is)) => !is_at_least(&is, &was),
            (Some(_), None) | (None, Some(_)) => true,
        };
        if is_lower {
            findings.push(finding(name, &before, &after, new));
        }
    }
    findings
}

/// Whether an amount is no less than another on every device. A quantity and a fraction cannot be compared without one.
fn is_at_least(one: &Amount, other: &Amount) -> bool {
    match (one, other) {
        (Amount::Absolute(one), Amount::Absolute(other)) => one >= other,
        (Amount::OfTotal { fraction: one, .. }, Amount::OfTotal { fraction: other, .. }) => {
            one.ppm() >= other.ppm()
        }
        _ => false,
    }
}

fn finding(name: &str, before: &Declarations<'_>, after: &Declarations<'_>, new: &Pod) -> Finding {
    let (was, is) = (before.written.get(name), after.written.get(name));
    let words =
        |text: Option<&&str>| text.map_or_else(|| "nothing".to_owned(), |text| format!("{:?}", short(text)));
    let text = format!(
        "annotation {NAME}{}: {} becomes {}; what a pod declares can only be raised once it is created, in the same form",
        short(name),
        words(was),
        words(is)
    );
    let finding = Finding::new(Code::Vg111, declaration::at(name), text)
        .detail("what runs holds its memory whatever the annotation says; another amount takes a new pod");
    match was {
        Some(was) => finding.fix(Fix {
            title: format!("declare {} again", short(was)),
            patch: restore(name, was, new),
        }),
        None => finding.fix(Fix {
            title: "leave the annotation out here, and declare the amount in a new pod".to_owned(),
            patch: operation("remove", &pointer(name), &serde_json::Value::Null)
                .into_iter()
                .collect(),
        }),
    }
}

fn pointer(name: &str) -> String {
    format!("/metadata/annotations/{}", escaped(&format!("{NAME}{name}")))
}

/// The operations that write the value again.
fn restore(name: &str, value: &str, new: &Pod) -> Vec<PatchOperation> {
    let lacks_all = new.metadata.annotations.is_empty();
    let list = lacks_all.then(|| operation("add", "/metadata/annotations", &json!({})));
    let value = operation("add", &pointer(name), &json!(value));
    list.flatten().into_iter().chain(value).collect()
}
