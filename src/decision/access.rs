//! Access without a request (VG501 to VG504) in a verdict: what is told, what is let through, and what would end it.

use std::sync::Arc;

use serde_json::json;

use super::Question;
use super::fixes::{Passes, operation, told};
use crate::demand::Demand;
use crate::demand::access::{Access, Reach};
use crate::finding::{Code, Finding, Fix, Severity};

/// The codes of this range.
const CODES: [Code; 4] = [Code::Vg501, Code::Vg502, Code::Vg503, Code::Vg504];
/// The resource that is proposed to somebody who asks for none.
const RESOURCE: &str = "nvidia.com/gpu";

/// What the demand says of it, at the paths of the pod. Severities come from the policy already.
pub(super) fn findings(demand: &Demand) -> impl Iterator<Item = Finding> {
    let told = demand.access.iter().flat_map(|access| &access.findings);
    told.cloned()
}

/// What is only guessed refuses nobody who asked for nothing: it is told, and counted where the pod comes to stand.
pub(super) fn soften(demand: &Demand, finding: &mut Finding) {
    if demand.is_guessed() {
        finding.severity = finding.severity.min(Severity::Warning);
        finding
            .details
            .push("that it takes so much of a device is a guess, so this refuses nothing".to_owned());
    }
}

/// Puts to the first finding of this range the changes that end it and pass.
pub(super) fn propose(question: &Question, demand: &Demand, findings: &mut [Finding], passes: Passes<'_>) {
    if demand.access.is_empty() {
        return;
    }
    let Some(finding) = findings.iter_mut().find(|finding| CODES.contains(&finding.code)) else {
        return;
    };
    let several = demand.access.len() > 1;
    for (index, access) in demand.access.iter().enumerate() {
        // The one whose finding it is; where several containers do so, a change of one is no answer.
        if several {
            break;
        }
        finding
            .fixes
            .extend(asking(question, demand, index, access, passes));
        finding
            .fixes
            .extend(shutting_out(question, demand, index, access, passes));
    }
}

/// The demand with one container's access replaced.
fn without(demand: &Demand, index: usize) -> Demand {
    let mut changed = demand.clone();
    changed.access.remove(index);
    changed
}

/// Asks for as many GPUs as its engines use.
fn asking(
    question: &Question,
    demand: &Demand,
    index: usize,
    access: &Access,
    passes: Passes<'_>,
) -> Option<Fix> {
    if !access.runs_engine {
        return None;
    }
    let mut changed = without(demand, index);
    let mut claim = access.claim.clone();
    claim.resource = Arc::from(RESOURCE);
    claim.slots = claim.ranks().max(1);
    let slots = claim.slots;
    changed.claims.push(claim);
    let outcome = passes(&Arc::new(changed));
    if outcome.is_refused() {
        return None;
    }
    let resources = format!("{}/resources", access.claim.pointer);
    let resources = question.workload.pointer(&resources)?;
    let count = json!(slots.to_string());
    let patch = match access.limits {
        (true, _) => operation("add", &format!("{resources}/limits/nvidia.com~1gpu"), &count),
        (false, true) => operation("add", &format!("{resources}/limits"), &json!({RESOURCE: count})),
        (false, false) => operation("add", &resources, &json!({"limits": {RESOURCE: count}})),
    }?;
    let title = format!(
        "ask for {slots} of {RESOURCE} in container {}",
        access.claim.container
    );
    Some(told(title, vec![patch], outcome))
}

/// Shows it no device.
fn shutting_out(
    question: &Question,
    demand: &Demand,
    index: usize,
    access: &Access,
    passes: Passes<'_>,
) -> Option<Fix> {
    let closing = access.closing.as_ref()?;
    // An engine that nothing but its image lets see a device would only fail without one.
    if access.reach.iter().all(|way| matches!(way, Reach::Engine(_))) {
        return None;
    }
    let outcome = passes(&Arc::new(without(demand, index)));
    if outcome.is_refused() {
        return None;
    }
    let op = if closing.replaces { "replace" } else { "add" };
    let pointer = question.workload.pointer(&closing.pointer)?;
    let title = format!(
        "set NVIDIA_VISIBLE_DEVICES to void in container {}",
        access.claim.container
    );
    Some(told(
        title,
        vec![operation(op, &pointer, &closing.value)?],
        outcome,
    ))
}
