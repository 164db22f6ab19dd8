//! Changes that make a refused object pass. Each one is tried on the same ledger before it is proposed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use json_patch::PatchOperation;
use serde_json::json;

use super::made::Made;
use super::pod::Subject;
use super::survey::Survey;
use super::{Question, access, counted};
use crate::demand::{Claim, Demand, weigh};
use crate::engine::OptionEdit;
use crate::finding::{Code, Finding, Fix, Severity};
use crate::ledger::search::Overlay;
use crate::ledger::{Ledger, constraints};
use crate::policy::Mode;
use crate::units::Share;
use crate::workload::pod::{QuantityText, Resources};

mod clients;
mod elsewhere;
mod fit;
mod fraction;
mod none;
mod slices;

pub(super) use clients::propose as propose_to_clients;
pub(super) use elsewhere::{any_pool, elsewhere};
pub(super) use fit::least_fraction;
pub(super) use fraction::{capped_demand, largest_between, largest_fraction, with_fraction};

/// Codes that another fraction may answer.
pub(super) const BY_FRACTION: [Code; 6] = [
    Code::Vg101,
    Code::Vg102,
    Code::Vg201,
    Code::Vg202,
    Code::Vg207,
    Code::Vg401,
];

/// What becomes of an object with a changed demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

/// The same with one demand for each template of the object.
pub(super) type AllPass<'p> = &'p dyn Fn(&[Arc<Demand>]) -> Outcome;

/// One template of an object (or a pod) whose demand may be changed.
#[derive(Clone, Copy)]
pub(super) struct Changeable<'a> {
    pub(super) question: &'a Question,
    pub(super) demand: &'a Arc<Demand>,
    pub(super) survey: &'a Survey<'a>,
    /// What is said of it.
    pub(super) findings: &'a [Finding],
}

/// Adds to each error of a pod the changes that were found to pass.
pub(super) fn for_pod(
    subject: Subject<'_>,
    demand: &Arc<Demand>,
    survey: &Survey<'_>,
    ledger: &Ledger,
    overlay: &Overlay<'_>,
    findings: &mut [Finding],
) {
    let Subject { question, submitted } = subject;
    let passes = |changed: &Arc<Demand>| {
        let made = submitted.map(|submitted| Made::of(submitted, changed, ledger));
        let (tried, changed) = made
            .as_ref()
            .map_or((question, changed), |made| (made.question(), made.demand()));
        let pod = &tried.workload.pod;
        let spec = constraints(pod);
        let survey_of = |demand: &Demand| Survey::of(ledger, demand, &spec, &tried.namespace_labels, pod);
        let (changed, survey) = counted::renewed(changed, ledger, &survey_of);
        let changed = &changed;
        // A place that needs no pod to move: the search for others is too long to be made for each proposal.
        let has_place = !refused(changed, &survey)
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
    clients::propose(question, demand, survey, findings, &passes);
    let changeable = Changeable {
        question,
        demand,
        survey,
        findings,
    };
    let all_pass = |changed: &[Arc<Demand>]| changed.first().map_or(Outcome::Refused, &passes);
    let mut fixes = for_errors(&[changeable], &all_pass);
    let carries = counted::proposal(question, demand, survey, ledger, findings);
    fixes.extend(carries.filter(|_| !passes(demand).is_refused()));
    // On devices of its own it is to find a free one: that it could wait there is no advice.
    let takes = |changed: &Question| {
        let made = Made::of(changed, demand, ledger);
        let pod = &made.question().workload.pod;
        let spec = constraints(pod);
        let survey = Survey::of(ledger, made.demand(), &spec, &changed.namespace_labels, pod);
        Outcome::of(&survey) == Outcome::Passes
            && !refused(made.demand(), &survey)
            && overlay
                .find(&survey.ask(spec.clone()), &BTreeSet::new())
                .is_some()
    };
    fixes.extend(elsewhere(
        submitted.unwrap_or(question),
        demand,
        ledger,
        findings,
        &takes,
    ));
    attach(findings, fixes, &[changeable_of(question, demand, survey)]);
}

const fn changeable_of<'a>(
    question: &'a Question,
    demand: &'a Arc<Demand>,
    survey: &'a Survey<'a>,
) -> Changeable<'a> {
    Changeable {
        question,
        demand,
        survey,
        findings: &[],
    }
}

/// Changes that answer every error at once.
pub(super) fn for_errors(parts: &[Changeable<'_>], passes: AllPass<'_>) -> Vec<Fix> {
    let errors_of = |part: &Changeable<'_>| -> Vec<Code> {
        let errors = part.findings.iter();
        errors
            .filter(|finding| finding.severity == Severity::Error)
            .map(|finding| finding.code)
            .collect()
    };
    let errors: Vec<Code> = parts.iter().flat_map(errors_of).collect();
    if errors.is_empty() {
        return Vec::new();
    }
    let mut fixes = Vec::new();
    if errors.iter().all(|code| BY_FRACTION.contains(code)) {
        // Where nobody chose a fraction, the proposal leaves the other slots of the device their part.
        let chosen = errors
            .iter()
            .all(|code| matches!(code, Code::Vg201 | Code::Vg202 | Code::Vg401));
        let fair = parts.iter().map(|part| part.survey.fair_share()).min();
        let most = if chosen { None } else { fair }.unwrap_or(Share::WHOLE);
        fixes.extend(largest_fraction(parts, most, passes));
    }
    // The other changes are made to one template.
    let mut refused = parts
        .iter()
        .enumerate()
        .filter(|(_, part)| !errors_of(part).is_empty());
    let (Some((index, part)), None) = (refused.next(), refused.next()) else {
        return fixes;
    };
    let passes = |changed: &Arc<Demand>| {
        let mut all: Vec<Arc<Demand>> = parts.iter().map(|part| part.demand.clone()).collect();
        if let Some(demand) = all.get_mut(index) {
            *demand = changed.clone();
        }
        passes(&all)
    };
    let (question, demand) = (part.question, part.demand);
    if errors.iter().all(|code| weigh::fit::CODES.contains(code)) {
        fixes.extend(fit::for_fit(question, demand, part.survey, &passes));
    }
    if errors.iter().all(|code| *code == Code::Vg105) {
        fixes.extend(as_many_slots(question, demand, &passes));
    }
    if errors
        .iter()
        .all(|code| matches!(code, Code::Vg402 | Code::Vg305))
    {
        fixes.extend(one_slot(question, demand, &passes));
    }
    if errors.iter().all(|code| slices::CODES.contains(code)) {
        let trial = slices::Trial {
            question,
            demand,
            survey: part.survey,
            passes: &passes,
        };
        fixes.extend(slices::for_slices(trial, part.findings));
    }
    if errors.iter().all(|code| *code == Code::Vg401) {
        fixes.extend(clients::larger_limit(question, demand, part.survey, &passes));
    }
    if errors.iter().all(|code| *code == Code::Vg403) {
        fixes.extend(clients::without_mount(question, demand, &passes));
    }
    fixes
}

/// Puts the fixes to the first error, and says so and why where there are none.
pub(super) fn attach(findings: &mut [Finding], fixes: Vec<Fix>, parts: &[Changeable<'_>]) {
    let Some(first) = findings
        .iter_mut()
        .find(|finding| finding.severity == Severity::Error)
    else {
        return;
    };
    let enforces = parts
        .first()
        .is_some_and(|part| part.survey.mode() == Mode::Enforce);
    if fixes.is_empty() && first.fixes.is_empty() && enforces {
        // Where there is no fix, this stands in its place.
        if let Some(sentence) = none::sentence(parts, first) {
            first.details.insert(0, sentence);
        }
    }
    first.fixes.extend(fixes);
}

/// Whether a demand is refused before anybody looks for room.
pub(super) fn refused(demand: &Demand, survey: &Survey<'_>) -> bool {
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
            .findings(demand)
            .iter()
            .any(|finding| finding.severity == Severity::Error)
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
pub(super) fn written(edit: &OptionEdit, pointer: &str, value: &str) -> Option<PatchOperation> {
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
        .position(|claim| claim.ranks_apart() > claim.slots)?;
    let ranks = demand.claims.get(at)?.ranks_apart();
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
    // With a slot for each, such processes are ranks.
    for part in claim.parts.iter_mut().filter(|part| slots > 1 && part.apart > 0) {
        (part.ranks, part.processes, part.apart) = (part.apart, 1, 0);
    }
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
    let base = question
        .workload
        .pointer(&format!("{}/resources", claim.pointer))?;
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

/// One RFC 6902 operation; `None` only for a pointer that is not one.
pub(super) fn operation(op: &str, path: &str, value: &serde_json::Value) -> Option<PatchOperation> {
    serde_json::from_value(json!({"op": op, "path": path, "value": value})).ok()
}
