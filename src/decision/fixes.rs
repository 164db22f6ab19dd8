//! Changes that make a refused object pass. Each one is tried on the same ledger before it is proposed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use json_patch::PatchOperation;
use serde_json::json;

use super::survey::Survey;
use super::{Question, access};
use crate::demand::{Amount, Claim, Demand, weigh};
use crate::engine::OptionEdit;
use crate::finding::{Code, Finding, Fix, Severity};
use crate::ledger::search::Overlay;
use crate::ledger::{Ledger, constraints};
use crate::policy::Mode;
use crate::units::{Fraction, Share};
use crate::workload::pod::{QuantityText, Resources};

mod fit;
mod slices;

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

/// What becomes of an object with a changed demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is refused, or finds no place.
    Refused,
    /// No node that matches offers what it asks for, so it waits.
    Nowhere,
    /// It passes, and may not start: whether its model fits is doubtful.
    Doubtful,
    /// It passes.
    Passes,
}

impl Outcome {
    /// What a survey says of an object that has a place.
    pub(super) fn of(survey: &Survey<'_>) -> Self {
        if survey.accepting.is_empty() {
            Self::Nowhere
        } else if survey.doubts_fit() {
            Self::Doubtful
        } else {
            Self::Passes
        }
    }

    pub(super) fn is_refused(self) -> bool {
        self == Self::Refused
    }
}

/// What is tried with a changed demand: what would become of the object with it.
pub(super) type Passes<'p> = &'p dyn Fn(&Arc<Demand>) -> Outcome;

/// Adds to each error of a pod the changes that were found to pass.
pub(super) fn for_pod(
    question: &Question,
    demand: &Demand,
    survey: &Survey<'_>,
    ledger: &Ledger,
    overlay: &Overlay<'_>,
    findings: &mut [Finding],
) {
    let pod = &question.workload.pod;
    let spec = constraints(pod);
    let passes = |changed: &Arc<Demand>| {
        let survey = Survey::of(
            ledger,
            changed,
            &spec,
            &question.namespace_labels,
            &pod.metadata.labels,
        );
        // A place that needs no pod to move: the search for others is too long to be made for each proposal.
        let has_place = !refused(question, changed, &survey)
            && (!survey.takes_shared()
                || overlay
                    .find(&survey.ask(spec.clone()), &BTreeSet::new())
                    .is_some());
        if has_place {
            Outcome::of(&survey)
        } else {
            Outcome::Refused
        }
    };
    access::propose(question, demand, findings, &passes);
    let fixes = for_errors(question, demand, survey, findings, &passes);
    attach(findings, fixes, survey);
}

/// Changes that answer every error at once.
pub(super) fn for_errors(
    question: &Question,
    demand: &Demand,
    survey: &Survey<'_>,
    findings: &[Finding],
    passes: Passes<'_>,
) -> Vec<Fix> {
    let errors: Vec<Code> = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .map(|finding| finding.code)
        .collect();
    if errors.is_empty() {
        return Vec::new();
    }
    let mut fixes = Vec::new();
    if errors.iter().all(|code| BY_FRACTION.contains(code)) {
        // Where nobody chose a fraction, the proposal leaves the other slots of the device their part.
        let chosen = errors
            .iter()
            .all(|code| matches!(code, Code::Vg201 | Code::Vg202 | Code::Vg401));
        let most = if chosen { Share::WHOLE } else { survey.fair_share() };
        fixes.extend(largest_fraction(question, demand, survey, most, passes));
    }
    if errors.iter().all(|code| weigh::fit::CODES.contains(code)) {
        fixes.extend(fit::for_fit(question, demand, survey, passes));
    }
    if errors.iter().all(|code| *code == Code::Vg105) {
        fixes.extend(as_many_slots(question, demand, passes));
    }
    if errors
        .iter()
        .all(|code| matches!(code, Code::Vg402 | Code::Vg305))
    {
        fixes.extend(one_slot(question, demand, passes));
    }
    if errors.iter().all(|code| slices::CODES.contains(code)) {
        fixes.extend(slices::for_slices(question, demand, survey, findings, passes));
    }
    fixes
}

/// Puts the fixes to the first error, and says so where there are none.
pub(super) fn attach(findings: &mut [Finding], fixes: Vec<Fix>, survey: &Survey<'_>) {
    let Some(first) = findings
        .iter_mut()
        .find(|finding| finding.severity == Severity::Error)
    else {
        return;
    };
    if fixes.is_empty() && first.code == Code::Vg201 && survey.mode() == Mode::Enforce {
        first.details.push(
            "no smaller fraction was found that passes; it passes when a holder ends or asks for less, or with \
             another such device"
                .to_owned(),
        );
    }
    first.fixes.extend(fixes);
}

/// Whether a demand is refused before anybody looks for room.
pub(super) fn refused(question: &Question, demand: &Demand, survey: &Survey<'_>) -> bool {
    let policy = survey.policy();
    let by_access = demand.access.iter().flat_map(|access| &access.findings);
    let by_itself = demand
        .findings
        .iter()
        .any(|finding| policy.severity(finding.code) == Severity::Error)
        || by_access
            .into_iter()
            .any(|finding| finding.severity == Severity::Error);
    by_itself
        || survey
            .findings(demand, &question.workload.template)
            .iter()
            .any(|finding| finding.severity == Severity::Error)
}

/// One text of the object that holds a fraction, written anew.
struct Rewrite {
    container: String,
    /// JSON pointer below the pod.
    pointer: String,
    edit: OptionEdit,
    /// Whether somebody had chosen the fraction that it replaces.
    chosen: bool,
}

/// The demand with every fraction above `most` brought down to it, and what would be written for that. `None` where
/// nothing can be written, or where two engines stand in the same text.
fn capped(demand: &Demand, most: &Fraction) -> Option<(Demand, Vec<Rewrite>)> {
    let mut changed = demand.clone();
    let mut rewrites: Vec<Rewrite> = Vec::new();
    let mut answered = Vec::new();
    for claim in &mut changed.claims {
        for part in &mut claim.parts {
            let chosen = match &part.amount {
                Amount::OfTotal { fraction, by_default } => {
                    if !by_default && fraction.share() <= most.share() {
                        continue;
                    }
                    !by_default
                }
                Amount::Unknown {
                    code: Code::Vg101 | Code::Vg102,
                    ..
                } => false,
                Amount::Unknown { .. }
                | Amount::Absolute(_)
                | Amount::Estimated { .. }
                | Amount::Uncapped { .. } => continue,
            };
            let Some(edit) = part.edit.clone() else { continue };
            part.amount = Amount::OfTotal {
                fraction: most.clone(),
                by_default: false,
            };
            answered.push(part.path.clone());
            let pointer = format!("{}{}", claim.pointer, edit.pointer);
            match rewrites.iter().find(|other| other.pointer == pointer) {
                // A container that asks for two resources stands here twice.
                Some(same) if same.edit == edit => {}
                Some(_) => return None,
                None => rewrites.push(Rewrite {
                    container: claim.container.clone(),
                    pointer,
                    edit,
                    chosen,
                }),
            }
        }
    }
    changed
        .findings
        .retain(|finding| finding.code != Code::Vg101 || !answered.contains(&finding.path));
    (!rewrites.is_empty()).then_some((changed, rewrites))
}

/// The largest fraction, in thousandths and at most `most`, with which the object passes: no container takes more.
pub(super) fn largest_fraction(
    question: &Question,
    demand: &Demand,
    survey: &Survey<'_>,
    most: Share,
    passes: Passes<'_>,
) -> Option<Fix> {
    let at = |thousandths: u32| Fraction::from_ppm(thousandths * STEP_PPM);
    let outcome = |thousandths: u32| {
        at(thousandths)
            .and_then(|fraction| capped(demand, &fraction))
            .map_or(Outcome::Refused, |(changed, _)| passes(&Arc::new(changed)))
    };
    let fits = |thousandths: u32| !outcome(thousandths).is_refused();
    // From the least with which the models may fit, what passes at a fraction passes at any smaller one, so the border is
    // found by halving. Above the largest fraction of the object nothing would be written, and as it is it does not pass.
    let least = LEAST_USEFUL.max(fit::least_fraction(demand, survey));
    let least = u32::try_from(least.ppm().div_ceil(u64::from(STEP_PPM))).unwrap_or(1);
    let (mut low, mut high) = (
        least,
        u32::try_from(most.ppm() / u64::from(STEP_PPM)).unwrap_or(1_000),
    );
    if low > high || !fits(low) {
        return None;
    }
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    let fraction = at(low)?;
    let (_, rewrites) = capped(demand, &fraction)?;
    let base = template_pointer(question);
    let mut patch = Vec::with_capacity(rewrites.len());
    for Rewrite { pointer, edit, .. } in &rewrites {
        patch.push(written(edit, &format!("{base}{pointer}"), fraction.text())?);
    }
    let verb = if rewrites.iter().all(|rewrite| rewrite.chosen) {
        "lower"
    } else {
        "set"
    };
    let title = match rewrites.as_slice() {
        [one] => format!(
            "{verb} the memory fraction of container {} to {fraction}",
            one.container
        ),
        several => {
            let names: Vec<&str> = several.iter().map(|rewrite| rewrite.container.as_str()).collect();
            format!(
                "{verb} the memory fractions of containers {} to {fraction} each",
                names.join(", ")
            )
        }
    };
    Some(told(title, patch, outcome(low)))
}

/// A proposal, which says so where it only may help.
pub(super) fn told(title: String, patch: Vec<PatchOperation>, outcome: Outcome) -> Fix {
    let title = match outcome {
        Outcome::Doubtful => format!("{title}, with which it may start or not"),
        Outcome::Passes | Outcome::Nowhere | Outcome::Refused => title,
    };
    Fix { title, patch }
}

/// The operation that writes a value at the pointer of an edit.
fn written(edit: &OptionEdit, pointer: &str, value: &str) -> Option<PatchOperation> {
    let word = format!("{}{value}{}", edit.before, edit.after);
    // Where there is no list yet, the operation makes one.
    let makes_list = edit.add && (edit.pointer == "/args" || edit.pointer == "/command");
    let value = if makes_list { json!([word]) } else { json!(word) };
    operation(if edit.add { "add" } else { "replace" }, pointer, &value)
}

/// As many slots as the engine has ranks.
fn as_many_slots(question: &Question, demand: &Demand, passes: Passes<'_>) -> Option<Fix> {
    let at = demand
        .claims
        .iter()
        .position(|claim| claim.ranks() > claim.slots)?;
    let ranks = demand.claims.get(at)?.ranks();
    slots(question, demand, at, ranks, passes)
}

/// One slot where a container can use no more.
fn one_slot(question: &Question, demand: &Demand, passes: Passes<'_>) -> Option<Fix> {
    let at = demand
        .claims
        .iter()
        .position(|claim| claim.slots > 1 && claim.ranks() <= 1)?;
    slots(question, demand, at, 1, passes)
}

/// Another number of slots in one claim.
fn slots(question: &Question, demand: &Demand, at: usize, slots: u32, passes: Passes<'_>) -> Option<Fix> {
    let mut changed = demand.clone();
    let claim = changed.claims.get_mut(at)?;
    claim.slots = slots;
    let claim = claim.clone();
    let outcome = passes(&Arc::new(changed));
    if outcome.is_refused() {
        return None;
    }
    let patch = slots_patch(question, &claim, &claim.resource, slots)?;
    let title = format!(
        "ask for {slots} of {} in container {}",
        claim.resource, claim.container
    );
    Some(told(title, patch, outcome))
}

/// The operations that make a claim ask for so many slots of a resource, its own or another.
fn slots_patch(
    question: &Question,
    claim: &Claim,
    resource: &str,
    slots: u32,
) -> Option<Vec<PatchOperation>> {
    let key = |resource: &str| resource.replace('~', "~0").replace('/', "~1");
    let base = format!("{}{}/resources", template_pointer(question), claim.pointer);
    let value = json!(slots.to_string());
    let spec = &question.workload.pod.spec;
    let asked_in = |list: fn(&Resources) -> &BTreeMap<String, QuantityText>| {
        spec.containers
            .iter()
            .chain(&spec.init_containers)
            .any(|c| c.name == claim.container && list(&c.resources).contains_key(&*claim.resource))
    };
    let mut patch = Vec::new();
    for (list, asked) in [
        ("limits", asked_in(|resources| &resources.limits)),
        ("requests", asked_in(|resources| &resources.requests)),
    ] {
        // The API server wants a limit even where only a request is written.
        if !asked && list == "requests" {
            continue;
        }
        if asked && resource != &*claim.resource {
            let old = format!("{base}/{list}/{}", key(&claim.resource));
            patch.push(serde_json::from_value(json!({"op": "remove", "path": old})).ok()?);
        }
        patch.push(operation(
            "add",
            &format!("{base}/{list}/{}", key(resource)),
            &value,
        )?);
    }
    Some(patch)
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
