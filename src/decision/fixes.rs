//! Changes that make a refused object pass. Each one is tried on the same ledger before it is proposed.

use std::sync::Arc;

use json_patch::PatchOperation;
use serde_json::json;

use super::Question;
use super::pod::{Sought, seek};
use super::survey::Survey;
use crate::demand::{Amount, Demand};
use crate::finding::{Code, Finding, Fix, Severity};
use crate::ledger::search::Overlay;
use crate::ledger::{Ledger, constraints};
use crate::units::{Fraction, Share};

/// Fractions are proposed in steps of a thousandth.
const STEP_PPM: u32 = 1_000;
/// A smaller part of a device is no use to any engine, so it is not proposed.
const LEAST_USEFUL: Share = Share::from_ppm(20_000);

/// Codes that another fraction may answer.
const BY_FRACTION: [Code; 6] = [
    Code::Vg101,
    Code::Vg102,
    Code::Vg201,
    Code::Vg202,
    Code::Vg207,
    Code::Vg401,
];

/// Adds to each error the changes to the pod that were found to pass.
pub(super) fn for_pod(
    question: &Question,
    demand: &Arc<Demand>,
    survey: &Survey<'_>,
    ledger: &Ledger,
    overlay: &Overlay<'_>,
    findings: &mut [Finding],
) {
    let errors: Vec<Code> = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .map(|finding| finding.code)
        .collect();
    if errors.is_empty() {
        return;
    }
    let mut fixes = Vec::new();
    if errors.iter().all(|code| BY_FRACTION.contains(code)) {
        // Where nobody chose a fraction, the proposal leaves the other slots of the device their part.
        let chosen = errors
            .iter()
            .all(|code| matches!(code, Code::Vg201 | Code::Vg202 | Code::Vg401));
        let most = if chosen { Share::WHOLE } else { survey.fair_share() };
        let passes = |changed: &Demand| passes(question, changed, ledger, overlay);
        fixes.extend(largest_fraction(question, demand, most, passes));
    }
    if errors.iter().all(|code| *code == Code::Vg105) {
        fixes.extend(as_many_slots(question, demand, |changed| {
            passes(question, changed, ledger, overlay)
        }));
    }
    attach(findings, fixes, survey);
}

/// Puts the fixes to the first error, and says so where there are none.
pub(super) fn attach(findings: &mut [Finding], fixes: Vec<Fix>, survey: &Survey<'_>) {
    let Some(first) = findings
        .iter_mut()
        .find(|finding| finding.severity == Severity::Error)
    else {
        return;
    };
    if fixes.is_empty() && first.code == Code::Vg201 {
        let wait = if super::pod::lenient(survey) {
            ""
        } else {
            "; it passes when a holder ends or asks for less, or with another such device"
        };
        first
            .details
            .push(format!("no smaller fraction of this object fits{wait}"));
    }
    first.fixes.extend(fixes);
}

/// Whether a changed demand would be admitted.
fn passes(question: &Question, demand: &Demand, ledger: &Ledger, overlay: &Overlay<'_>) -> bool {
    let pod = &question.workload.pod;
    let spec = constraints(pod);
    let survey = Survey::of(
        ledger,
        demand,
        &spec,
        &question.namespace_labels,
        &pod.metadata.labels,
    );
    let refused = survey
        .findings(demand, &question.workload.template)
        .iter()
        .any(|finding| finding.severity == Severity::Error);
    !refused && !matches!(seek(&survey, ledger, overlay, &survey.ask(spec)), Sought::Full)
}

/// The demand with another fraction in its only engine that has one.
fn with_fraction(demand: &Demand, fraction: &Fraction) -> Option<Demand> {
    let mut changed = demand.clone();
    let mut parts = changed.claims.iter_mut().flat_map(|claim| &mut claim.parts);
    let part = parts.next()?;
    if parts.next().is_some() {
        return None;
    }
    part.edit.as_ref()?;
    let by_fraction = match &part.amount {
        Amount::OfTotal { .. } => true,
        Amount::Unknown { code, .. } => matches!(code, Code::Vg101 | Code::Vg102),
        Amount::Absolute(_) | Amount::Uncapped { .. } => false,
    };
    if !by_fraction {
        return None;
    }
    part.amount = Amount::OfTotal {
        fraction: fraction.clone(),
        by_default: false,
    };
    changed.findings.retain(|finding| finding.code != Code::Vg101);
    Some(changed)
}

/// The largest fraction, in thousandths and at most `most`, with which the object passes.
pub(super) fn largest_fraction(
    question: &Question,
    demand: &Demand,
    most: Share,
    passes: impl Fn(&Demand) -> bool,
) -> Option<Fix> {
    let at = |thousandths: u32| Fraction::from_ppm(thousandths * STEP_PPM);
    let fits = |thousandths: u32| {
        at(thousandths)
            .and_then(|fraction| with_fraction(demand, &fraction))
            .is_some_and(|changed| passes(&changed))
    };
    // What fits at a fraction fits at any smaller one, so the border is found by halving.
    let (mut low, mut high) = (
        0_u32,
        u32::try_from(most.ppm() / u64::from(STEP_PPM)).unwrap_or(1_000),
    );
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    let fraction = at(low)?;
    let claim = demand.claims.iter().find(|claim| !claim.parts.is_empty())?;
    let edit = claim.parts.first()?.edit.as_ref()?;
    if fraction.share() < LEAST_USEFUL {
        return None;
    }
    let pointer = format!("{}{}{}", template_pointer(question), claim.pointer, edit.pointer);
    let word = format!("{}{}{}", edit.before, fraction.text(), edit.after);
    // Where there is no list yet, the operation makes one.
    let makes_list = edit.add && (edit.pointer == "/args" || edit.pointer == "/command");
    let value = if makes_list { json!([word]) } else { json!(word) };
    let operation = operation(if edit.add { "add" } else { "replace" }, &pointer, &value)?;
    let chosen = claim.parts.iter().any(|part| {
        matches!(
            part.amount,
            Amount::OfTotal {
                by_default: false,
                ..
            }
        )
    });
    let verb = if chosen { "lower" } else { "set" };
    Some(Fix {
        title: format!(
            "{verb} the memory fraction of container {} to {fraction}",
            claim.container
        ),
        patch: vec![operation],
    })
}

/// As many slots as the engine has ranks.
fn as_many_slots(question: &Question, demand: &Demand, passes: impl Fn(&Demand) -> bool) -> Option<Fix> {
    let mut changed = demand.clone();
    let claim = changed
        .claims
        .iter_mut()
        .find(|claim| claim.ranks() > claim.slots)?;
    let ranks = claim.ranks();
    claim.slots = ranks;
    let (container, resource, pointer) = (
        claim.container.clone(),
        claim.resource.clone(),
        claim.pointer.clone(),
    );
    if !passes(&changed) {
        return None;
    }
    let key = resource.replace('~', "~0").replace('/', "~1");
    let base = format!("{}{pointer}/resources", template_pointer(question));
    let value = json!(ranks.to_string());
    let spec = &question.workload.pod.spec;
    let asked_in_requests = spec
        .containers
        .iter()
        .chain(&spec.init_containers)
        .any(|c| c.name == container && c.resources.requests.contains_key(&*resource));
    let mut patch = vec![operation("add", &format!("{base}/limits/{key}"), &value)?];
    if asked_in_requests {
        patch.push(operation("add", &format!("{base}/requests/{key}"), &value)?);
    }
    Some(Fix {
        title: format!("ask for {ranks} of {resource} in container {container}"),
        patch,
    })
}

/// JSON pointer of the pod template in the object.
pub(super) fn template_pointer(question: &Question) -> String {
    let template = question.workload.template.as_str();
    if template.is_empty() {
        String::new()
    } else {
        format!("/{}", template.replace('.', "/"))
    }
}

/// One RFC 6902 operation; `None` only for a pointer that is not one.
pub(super) fn operation(op: &str, path: &str, value: &serde_json::Value) -> Option<PatchOperation> {
    serde_json::from_value(json!({"op": op, "path": path, "value": value})).ok()
}
