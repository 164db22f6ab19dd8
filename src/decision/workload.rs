//! The verdict on an object that makes pods: told when it is applied instead of at each of its pods.
//!
//! An object may have several templates. They are judged together: the pods of all of them must find places at once.

use std::sync::Arc;

use super::budget::Own;
use super::claims;
use super::clients::Users;
use super::fixes::Changeable;
use super::pod::rows;
use super::survey::Survey;
use super::whole_device::Beside;
use super::{
    Operation, PlacementRow, Question, Verdict, access, counted, fixes, tell_changed_defaults, unmodelled,
};
use crate::demand::Demand;
use crate::demand::weigh::under;
use crate::finding::{Code, Finding, Severity};
use crate::ledger::search::{Ask, Overlay};
use crate::ledger::{Holder, Ledger, constraints};
use crate::workload::Workload;
use crate::workload::pod::PodSpec;

mod change;
mod ground;
mod grown;
mod overlap;
mod sizing;
mod whole;

pub(super) use change::Before;
use change::Change;
use ground::Ground;
use sizing::Placed;
use whole::Whole;

/// Most nodes whose sums are told.
const MOST_ROWS: usize = 16;

/// Nodes with the number of so many pods that find a place there; `None` where not all do.
pub(super) fn places_for(
    ask: &Ask,
    ledger: &Ledger,
    spec: &PodSpec,
    pods: u32,
) -> Option<Vec<(Arc<str>, u32)>> {
    let overlay = Overlay::new(ledger);
    let filled = Ground::of(ledger, &overlay, spec).fill(ask, &overlay, pods);
    (filled.count >= pods).then_some(filled.places)
}

/// One template of an object with what its pods take.
#[derive(Clone, Copy)]
pub(super) struct Set<'a> {
    /// The question about this template alone, as its pods will be.
    pub(super) question: &'a Question,
    pub(super) demand: &'a Arc<Demand>,
    /// The same question as it was submitted: with a changed demand its pods may be made otherwise.
    pub(super) submitted: &'a Question,
}

/// A template among the nodes of the cluster.
struct Part<'a> {
    set: Set<'a>,
    /// The same template before the change.
    before: Option<&'a Before<'a>>,
    spec: Arc<PodSpec>,
    survey: Survey<'a>,
    findings: Vec<Finding>,
    /// Whether it is refused whatever room there is.
    blocked: bool,
    /// What its dynamic resource claims come to.
    by_claims: claims::BesideSlots,
}

impl<'a> Part<'a> {
    fn of(
        set: Set<'a>,
        before: &'a [Before<'a>],
        siblings: &[claims::Sibling<'_>],
        ledger: &'a Ledger,
    ) -> Self {
        let workload = &set.question.workload;
        let spec = constraints(&workload.pod);
        let namespace_labels = &set.question.namespace_labels;
        let survey = Survey::of(ledger, set.demand, &spec, namespace_labels, &workload.pod);
        let policy = survey.policy().clone();
        let of_demand = set.demand.findings.iter().cloned();
        let mut findings: Vec<Finding> = of_demand
            .map(|finding| located(workload, under(&policy, finding)))
            .collect();
        let of_access = access::findings(set.demand);
        findings.extend(of_access.map(|finding| located(workload, finding)));
        let of_kind = survey.findings(set.demand);
        let blocked = of_kind.iter().any(|finding| finding.severity == Severity::Error);
        findings.extend(of_kind.into_iter().map(|finding| located(workload, finding)));
        let before = before
            .iter()
            .find(|before| before.workload.template == workload.template);
        let then = before.and_then(|before| before.demand);
        let by_claims = claims::beside_slots(set.question, set.demand, siblings, ledger, then, &mut findings);
        Self {
            set,
            before,
            spec,
            survey,
            findings,
            blocked: blocked || by_claims.refused,
            by_claims,
        }
    }

    /// Whether there is anything to count: devices of their own are the scheduler's, but a pod of a DaemonSet comes to
    /// the shared ones as well.
    fn counts(&self) -> bool {
        !self.blocked && counts(&self.set.question.workload, &self.survey)
    }
}

fn counts(workload: &Workload, survey: &Survey<'_>) -> bool {
    survey.takes_shared() && (workload.replicas.per_node || !survey.takes_exclusive())
}

/// A finding with the path in the object in the place of the one in the pod.
pub(super) fn located(workload: &Workload, mut finding: Finding) -> Finding {
    let other = workload
        .layout
        .as_ref()
        .map(|layout| layout.origin(&finding.path));
    if let Some(object) = other.and_then(|origin| origin.object) {
        finding.details.push(format!("the field stands in {object}"));
    }
    finding.path = workload.located(&finding.path);
    finding
}

/// Says of each error that the object passes, because others add to its pods what it does not say.
pub(super) fn tell_open(findings: &mut [Finding], open: &str) {
    for finding in findings
        .iter_mut()
        .filter(|finding| finding.severity == Severity::Error)
    {
        finding.details.push(format!(
            "{open}: the object is let through, and its pods are judged one by one"
        ));
    }
}

/// Judges the CREATE or UPDATE of an object that makes pods, or a change of its scale. `sets` are its templates that ask
/// for slots; `before` are those that it had, whether they asked or not; `siblings` are all that it has now.
pub(super) fn judge(
    sets: &[Set<'_>],
    before: &[Before<'_>],
    siblings: &[claims::Sibling<'_>],
    ledger: &Ledger,
) -> Verdict {
    let Some(Set { question, .. }) = sets.first() else {
        return Verdict::not_ours();
    };
    let is_update = question.operation == Operation::Update;
    let change = Change::of(sets, before, ledger);
    if is_update && !change.rolls_out && !change.raises {
        return Verdict::not_ours();
    }
    let mut overlay = Overlay::new(ledger);
    let mut own = Own::new();
    let workload = &question.workload;
    for holder in ledger
        .in_namespace(&workload.object.namespace)
        .filter(|holder| is_own(holder, workload))
    {
        overlay.without(holder);
        own.insert((holder.namespace.clone(), holder.name.clone()));
    }
    let mut parts: Vec<Part<'_>> = sets
        .iter()
        .map(|set| Part::of(*set, before, siblings, ledger))
        .collect();
    let raises = change.raises || parts.iter().any(|part| part.by_claims.raised);
    let may_deny = !question.scale_only && (!is_update || raises);
    let rolls = change.rolls_out || !is_update;
    let told = tell(&mut parts, (&overlay, &own), ledger, rolls, change.replaces);
    let verdicts = parts.into_iter().zip(told).map(|(part, placement)| {
        let survey = part.survey;
        let mut verdict = Verdict::of(survey.policy());
        verdict.findings = part.findings;
        verdict.placement = placement;
        if survey.takes_shared() {
            verdict.promise = counted::promise(&survey, ledger);
            verdict.unmodelled = unmodelled::sentence(&part.spec);
        }
        tell_changed_defaults(
            &mut verdict.findings,
            part.before.and_then(|before| before.demand),
            part.set.demand,
        );
        let let_through = is_update && !may_deny;
        let unchanged =
            "this change is let through because it asks for no more than before; its new pods are judged one by one";
        let open = part.set.question.workload.open();
        if let_through {
            let findings = verdict.findings.iter_mut();
            for finding in findings.filter(|finding| finding.severity == Severity::Error) {
                finding.details.push(unchanged.to_owned());
            }
        } else if let Some(open) = open {
            tell_open(&mut verdict.findings, open);
        }
        let only_agents = part.set.demand.only_agents;
        verdict.conclude(
            survey.mode(),
            may_deny && open.is_none() && !only_agents,
            survey.lets_through(),
        )
    });
    Verdict::joined(verdicts)
}

/// Adds to each part what room says of it. The placement of each part.
fn tell(
    parts: &mut [Part<'_>],
    (base, own): (&Overlay<'_>, &Own),
    ledger: &Ledger,
    rolls: bool,
    replaces: bool,
) -> Vec<Vec<PlacementRow>> {
    let whole = Whole {
        parts,
        ledger,
        base,
        own,
    };
    let steady = whole.steady();
    let mut added: Vec<Vec<Finding>> = Vec::with_capacity(steady.len());
    let mut placements = Vec::with_capacity(steady.len());
    for (part, stood) in parts.iter().zip(&steady) {
        let workload = &part.set.question.workload;
        let mut findings = part.findings.clone();
        let mut placement = part.by_claims.placement.clone();
        if let Some((placed, overlay)) = stood {
            for (place, pods) in placed.filled.places.iter().take(MOST_ROWS) {
                placement.extend(rows(&part.survey, ledger, overlay, own, place, *pods));
            }
            let beside = Beside::of(&part.survey, ledger, own, workload);
            let told = placed.filled.places.len().min(MOST_ROWS);
            let places = placed.filled.places.get(..told).unwrap_or_default();
            beside.tell(part.set.demand, places, &mut findings);
            let policy = part.survey.policy();
            let users = Users {
                survey: &part.survey,
                ledger,
                own,
                question: part.set.question,
                messages: &policy.messages,
            };
            let nodes: Vec<Arc<str>> = places.iter().map(|(node, _)| node.clone()).collect();
            let differing = users.findings(part.set.demand, &nodes, policy);
            findings.extend(differing.into_iter().map(|finding| located(workload, finding)));
            findings.extend(placed.finding.clone().map(|finding| located(workload, finding)));
        }
        added.push(findings);
        placements.push(placement);
    }
    let full = |placed: &Placed| placed.finding.is_some();
    let any_full = steady.iter().flatten().any(|(placed, _)| full(placed));
    if !any_full && rolls {
        for (findings, peak) in added.iter_mut().zip(whole.rollouts(&steady, replaces)) {
            findings.extend(peak);
        }
    }
    let changeable: Vec<Changeable<'_>> = parts
        .iter()
        .zip(&added)
        .map(|(part, findings)| Changeable {
            question: part.set.question,
            demand: part.set.demand,
            survey: &part.survey,
            findings,
        })
        .collect();
    let mut proposed = None;
    let is_refused = |part: &Part<'_>| {
        let mut findings = part.findings.iter();
        findings.any(|finding| finding.severity == Severity::Error)
    };
    // What is tried is tried against slots alone; what answers claims was found with them.
    if parts.iter().any(|part| part.by_claims.refused) {
        proposed = None;
    } else if let Some(first) = parts.iter().position(is_refused) {
        let desired = whole.desired();
        let passes = |changed: &[Arc<Demand>]| whole.passes(changed, &desired);
        proposed = Some((first, fixes::for_errors(&changeable, &passes)));
    } else if let Some(first) = steady
        .iter()
        .position(|stood| matches!(stood, Some((placed, _)) if placed.code == Some(Code::Vg201)))
    {
        proposed = Some((first, whole.proposals(first, &steady, &changeable)));
    }
    if let Some((first, fixes)) = proposed {
        // What others add to the pods could make a change useless.
        let is_open = parts
            .iter()
            .any(|part| part.set.question.workload.open().is_some());
        let mut fixes = if is_open { Vec::new() } else { fixes };
        if !is_open {
            let findings = added.get(first).map_or(&[][..], Vec::as_slice);
            fixes.extend(whole.elsewhere(findings));
        }
        if let (Some(findings), Some(part)) = (added.get_mut(first), parts.get(first)) {
            let part = Changeable {
                question: part.set.question,
                demand: part.set.demand,
                survey: &part.survey,
                findings: &[],
            };
            fixes::attach(findings, fixes, &[part]);
        }
    }
    propose_by_code(&whole, &mut added);
    for (part, findings) in parts.iter_mut().zip(added) {
        part.findings = findings;
    }
    placements
}

/// Adds to what is said of access without a request, and of clients of MPS, the changes that end it.
fn propose_by_code(whole: &Whole<'_>, findings: &mut [Vec<Finding>]) {
    let open = |part: &Part<'_>| part.set.question.workload.open().is_some();
    // What others add to the pods could make a change useless.
    if whole.parts.iter().any(open) {
        return;
    }
    let desired = whole.desired();
    for (index, (part, findings)) in whole.parts.iter().zip(findings).enumerate() {
        let passes = |changed: &Arc<Demand>| {
            let demands = whole.parts.iter().map(|part| part.set.demand.clone());
            let mut demands: Vec<Arc<Demand>> = demands.collect();
            if let Some(demand) = demands.get_mut(index) {
                *demand = changed.clone();
            }
            whole.passes(&demands, &desired)
        };
        access::propose(part.set.question, part.set.demand, findings, &passes);
        fixes::propose_to_clients(
            part.set.question,
            part.set.demand,
            &part.survey,
            findings,
            &passes,
        );
    }
}

/// Whether a holder's pod belongs to the object, directly or through what it owns.
pub(super) fn is_own(holder: &Holder, workload: &Workload) -> bool {
    let by_name = holder
        .workload
        .as_ref()
        .is_some_and(|(kind, name)| **kind == *workload.object.kind && **name == *workload.object.name);
    by_name || (!workload.uid.is_empty() && holder.controller.as_deref() == Some(workload.uid.as_str()))
}
