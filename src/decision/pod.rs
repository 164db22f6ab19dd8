//! The verdict on one pod.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::budget::{self, Own, closest};
use super::claims;
use super::clients::Users;
use super::survey::Survey;
use super::whole_device::Beside;
use super::{
    Operation, PlacementRow, Question, Verdict, access, counted, fixes, newly_unreadable, preemption,
    tell_changed_defaults, unmodelled,
};
use crate::demand::weigh::under;
use crate::demand::{Demand, Hold, Standing};
use crate::finding::{Code, FieldPath, Finding, Number, Severity, short};
use crate::ledger::devices::Meets;
use crate::ledger::search::{Ask, Joint, Overlay, joint};
use crate::ledger::{Ledger, Reservation, constraints, top_workload};
use crate::units::{Mib, Share};
use crate::workload::controller_of;
use crate::workload::pod::{Pod, PodSpec};

/// The pod that is judged.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) question: &'a Question,
    /// The same before the policy changed it, where it is judged as it will be: with another demand it is changed
    /// otherwise.
    pub(super) submitted: Option<&'a Question>,
}

/// Judges the CREATE or UPDATE of a pod.
pub(super) fn judge(
    subject: Subject<'_>,
    demand: &Arc<Demand>,
    old: Option<&Arc<Demand>>,
    ledger: &Ledger,
) -> Verdict {
    let Subject { question, .. } = subject;
    let pod = &question.workload.pod;
    let spec = constraints(pod);
    let survey = Survey::of(
        ledger,
        demand,
        &spec,
        &question.namespace_labels,
        &pod.metadata.labels,
    );
    let policy = survey.policy().clone();
    let mut verdict = Verdict::of(&policy);
    verdict.findings.extend(
        demand
            .findings
            .iter()
            .cloned()
            .map(|finding| under(&policy, finding)),
    );
    verdict.findings.extend(access::findings(demand));
    let of_kind = survey.findings(demand);
    let mut blocked = of_kind.iter().any(|finding| finding.severity == Severity::Error);
    verdict.findings.extend(of_kind);
    let by_claims = claims::beside_slots(question, demand, &[], ledger, old, &mut verdict.findings);
    blocked |= by_claims.refused;

    let is_update = question.operation == Operation::Update;
    if !is_update
        && survey.takes_shared()
        && let Some(finding) = too_many_unseen(question, ledger)
    {
        blocked = true;
        verdict.findings.push(under(&policy, finding));
    }
    // A mirror pod runs already, whatever we say; the annotation alone proves nothing.
    let runs_already = pod.is_mirror() && question.by_node;
    if !is_update
        && !runs_already
        && let Some(finding) = counted::mismatch(demand, &survey, ledger)
    {
        blocked |= finding.severity == Severity::Error;
        verdict.findings.push(finding);
    }
    let raised =
        !is_update || old.is_none_or(|old| raises(question, old, demand, ledger)) || by_claims.raised;
    let may_deny = raised && !runs_already && !demand.only_agents;

    let (overlay, own) = without_itself(question, ledger);
    let mut place = None;
    let mut moves = Vec::new();
    if !blocked {
        let ask = survey.ask(spec.clone());
        match seek(&survey, ledger, &overlay, &ask) {
            Sought::Found(found) => place = Some(found),
            Sought::ByMoving(joint) => {
                place = Some(joint.place);
                moves = joint.moves;
            }
            Sought::Waits => verdict.findings.extend(waits(demand, &survey)),
            Sought::Full
                if let Some(finding) = preemption::of(question, demand, &survey, ledger, &overlay, &own) =>
            {
                // It takes nothing before it is bound, and the memory of those who go is free by then.
                verdict.findings.push(finding);
            }
            Sought::Full => {
                let told = full(question, demand, &survey, (ledger, &overlay, &own), &spec);
                let (closest, finding) = told.unzip();
                // A guess that finds no room is told and let through; it counts where it comes to stand.
                place = closest.filter(|_| !demand.is_guessed());
                verdict.findings.extend(finding);
            }
        }
    }
    if survey.takes_shared() {
        verdict.promise = counted::promise(&survey, ledger);
        verdict.unmodelled = unmodelled::sentence(&pod.spec);
    }
    if let Some(place) = &place {
        verdict.placement = rows(&survey, ledger, &overlay, &own, place, 1);
        tell_of_neighbours(
            question,
            demand,
            &survey,
            (ledger, &own, place),
            &mut verdict.findings,
        );
    }
    let shared_place = place.is_some() && survey.takes_shared();
    verdict.placement.extend(by_claims.placement);
    // A pod that only devices of its own can take needs no reservation: the scheduler counts those.
    if !question.dry_run && (shared_place || by_claims.is_named || is_update && raised) {
        verdict.reservation = Some(reservation(question, demand, spec.clone(), place, moves));
    }
    if may_deny {
        // What is tried is tried against slots alone; what answers claims was found with them.
        if !by_claims.refused {
            fixes::for_pod(subject, demand, &survey, ledger, &overlay, &mut verdict.findings);
        }
        tell_changed_defaults(&mut verdict.findings, old, demand);
    }
    verdict.conclude(survey.mode(), may_deny, survey.lets_through())
}

/// The ledger without the pod itself and whoever has its name: a pod can only be stored once that one is gone, and its
/// memory with it (or was never stored).
fn without_itself<'l>(question: &Question, ledger: &'l Ledger) -> (Overlay<'l>, Own) {
    let pod = &question.workload.pod;
    let is_update = question.operation == Operation::Update;
    let replaced = ledger
        .named(&question.workload.object.namespace, &pod.metadata.name)
        .filter(|other| !is_update && !pod.metadata.name.is_empty() && *other.uid != *pod.metadata.uid);
    let mut overlay = Overlay::new(ledger);
    let mut own = Own::new();
    for holder in ledger.holder(&pod.metadata.uid).into_iter().chain(replaced) {
        overlay.without(holder);
        own.insert((holder.namespace.clone(), holder.name.clone()));
    }
    (overlay, own)
}

/// The node that comes closest to taking a pod for which every device is full, and why it does not.
fn full(
    question: &Question,
    demand: &Demand,
    survey: &Survey<'_>,
    (ledger, overlay, own): (&Ledger, &Overlay<'_>, &Own),
    spec: &Arc<PodSpec>,
) -> Option<(Arc<str>, Finding)> {
    let closest = closest(survey, ledger, overlay, spec)?;
    let workload = &question.workload;
    let messages = &survey.policy().messages;
    let mut finding = closest.finding(demand, ledger, &workload.object.namespace, messages, own);
    access::soften(demand, &mut finding);
    if finding.code == Code::Vg209 && counted::is_live(survey, ledger) {
        return Some((closest.node().clone(), closest.waits_for_a_slot(demand)));
    }
    if finding.code == Code::Vg201 {
        let left_out = unmodelled::sentence(&workload.pod.spec);
        finding
            .details
            .extend((!left_out.is_empty()).then(|| left_out.to_owned()));
    }
    if survey.takes_exclusive() {
        finding = finding.detail(
            "nodes that do not share their devices would take it too and have none free: with a node selector for those \
             it waits for one",
        );
    }
    Some((closest.node().clone(), finding))
}

/// What the pod holds until it is seen, at the place that was found and with the pods that move for it.
pub(super) fn reservation(
    question: &Question,
    demand: &Arc<Demand>,
    constraints: Arc<PodSpec>,
    place: Option<Arc<str>>,
    moves: Vec<(Arc<str>, Arc<str>)>,
) -> Reservation {
    let pod = &question.workload.pod;
    Reservation {
        uid: pod.metadata.uid.clone(),
        namespace: question.workload.object.namespace.clone(),
        name: name_of(pod),
        labels: pod.metadata.labels.clone(),
        workload: top_workload(pod),
        controller: controller_of(&pod.metadata).map(|owner| Arc::from(owner.uid.as_str())),
        demand: demand.clone().without_loads(),
        constraints,
        place,
        moves,
    }
}

/// What others on the node that was found mean for the pod.
fn tell_of_neighbours(
    question: &Question,
    demand: &Demand,
    survey: &Survey<'_>,
    (ledger, own, place): (&Ledger, &Own, &Arc<str>),
    findings: &mut Vec<Finding>,
) {
    let policy = survey.policy();
    let beside = Beside::of(survey, ledger, own, &question.workload);
    beside.tell(demand, &[(place.clone(), 1)], findings);
    let users = Users {
        survey,
        ledger,
        own,
        question,
        messages: &policy.messages,
    };
    findings.extend(users.findings(demand, std::slice::from_ref(place), policy));
}

/// Only files have pods without a name. Two of one prefix are two pods.
fn name_of(pod: &Pod) -> String {
    if pod.metadata.name.is_empty() {
        return format!("{}{}", pod.metadata.generate_name, pod.metadata.uid);
    }
    pod.metadata.name.clone()
}

/// Reservations of bare pods that a namespace may have at once. The API server has fewer requests under way, so more of
/// them were not stored, or what was stored is not shown to us: either way devices would fill with phantoms.
const MOST_UNSEEN: usize = 1_000;

/// A namespace that creates bare pods faster than they are seen. A controller's pods are bounded by what it wants.
pub(super) fn too_many_unseen(question: &Question, ledger: &Ledger) -> Option<Finding> {
    let pod = &question.workload.pod;
    let namespace = &question.workload.object.namespace;
    if controller_of(&pod.metadata).is_some() || ledger.reserved() < MOST_UNSEEN {
        return None;
    }
    let unseen = ledger.unseen_without_controller(namespace);
    (unseen >= MOST_UNSEEN).then(|| {
        Finding::new(
            Code::Vg902,
            FieldPath::new("metadata"),
            format!(
                "{unseen} admitted pods of namespace {} have not been shown by the API server yet; try again once they \
                 are, or in a minute",
                short(namespace)
            ),
        )
        .number("unseen", Number::Count(u64::try_from(unseen).unwrap_or(u64::MAX)))
    })
}

/// What the search for a place came to.
pub(super) enum Sought {
    /// This node takes it.
    Found(Arc<str>),
    /// This node takes it when tentative places move.
    ByMoving(Joint),
    /// It waits for something that the scheduler deals with: a whole device, a matching node.
    Waits,
    /// Every device that could take it is full.
    Full,
}

pub(super) fn seek(survey: &Survey<'_>, ledger: &Ledger, overlay: &Overlay<'_>, ask: &Ask) -> Sought {
    if let Some(found) = overlay.find(ask, &BTreeSet::new()) {
        return Sought::Found(found);
    }
    // Devices of its own are the scheduler's to count. A pod that could go to a shared one as well must have a place,
    // or the scheduler may bind it where a slot is free and memory is not.
    if !survey.takes_shared() {
        return Sought::Waits;
    }
    match joint(ledger, overlay, ask) {
        Some(joint) => Sought::ByMoving(joint),
        None => Sought::Full,
    }
}

fn waits(demand: &Demand, survey: &Survey<'_>) -> Option<Finding> {
    if survey.accepting.is_empty() {
        return None;
    }
    let claim = demand.claims.first()?;
    let finding = Finding::new(
        Code::Vg209,
        claim.slots_path.clone(),
        format!(
            "no free {} now: the pod waits until the scheduler finds one",
            claim.resource
        ),
    );
    Some(finding.with_severity(Severity::Info))
}

/// Whether an UPDATE takes more of any device than before.
fn raises(question: &Question, old: &Demand, new: &Demand, ledger: &Ledger) -> bool {
    if old == new {
        return false;
    }
    if newly_unreadable(std::iter::once(old), std::iter::once(new)) {
        return true;
    }
    let labels = &question.workload.pod.metadata.labels;
    ledger.nodes.classes().any(|(_, class)| {
        let before = ledger.weigh(old, &question.namespace_labels, labels, class);
        let after = ledger.weigh(new, &question.namespace_labels, labels, class);
        let more = before
            .standings
            .iter()
            .zip(&after.standings)
            .any(|(before, after)| after.share() > before.share() || after.slots > before.slots);
        more || after.newly_refused(&before)
    })
}

/// The sum of the requests that may meet on one device, without the object's own pods and with the new ones.
fn meeting_requests(
    ledger: &Ledger,
    (place, index): (&Arc<str>, usize),
    several: &Standing,
    meeting: usize,
    own: &Own,
) -> Mib {
    let Some(mut view) = ledger.devices_of(place).into_iter().nth(index) else {
        return several.request();
    };
    view.meeting = meeting;
    let (others, _) = budget::others(&view, own);
    let meets = |hold: &Hold, everywhere| Meets {
        weight: hold.share.ppm(),
        amount: hold.request,
        devices: &[],
        everywhere,
    };
    let new = several.holds.iter().map(|hold| meets(hold, false));
    let new = new.chain(several.everywhere.iter().map(|hold| meets(hold, true)));
    view.meeting(others.iter().map(|holder| holder.meets()).chain(new).collect(), 0)
}

/// The pools of a node as they are with so many such pods on it.
pub(super) fn rows(
    survey: &Survey<'_>,
    ledger: &Ledger,
    overlay: &Overlay<'_>,
    own: &Own,
    place: &Arc<str>,
    pods: u32,
) -> Vec<PlacementRow> {
    let Some(entry) = ledger.nodes.get(place) else {
        return Vec::new();
    };
    let Some(kind) = survey.accepting.iter().find(|kind| kind.index == entry.class) else {
        return Vec::new();
    };
    let pools = entry.node.pools.iter().enumerate().zip(&kind.weighed.standings);
    pools
        .filter(|(_, standing)| !standing.is_empty())
        .map(|((index, pool), standing)| {
            let (budget, promised, share) = if pool.sharing.is_shared() {
                let several = standing.times(pods);
                // On a single device everybody meets, so the sum needs no look at each of them.
                let promised = if own.is_empty() && pool.devices <= 1 {
                    ledger.promised(place, index).plus(several.request())
                } else {
                    let meeting = overlay.may_meet(place, entry, index, &several);
                    meeting_requests(ledger, (place, index), &several, meeting, own)
                };
                (
                    kind.class.device_policy.device.budget,
                    promised,
                    overlay.together_with(place, entry, index, &several),
                )
            } else {
                (Share::WHOLE, standing.request(), standing.share())
            };
            PlacementRow {
                node: place.to_string(),
                device: (pool.devices == 1).then(|| format!("{}[0]", pool.resource)),
                evidence: overlay.grade(place, entry, index, standing),
                promised,
                budget: pool.total.map_or(Mib::ZERO, |total| budget.of_down(total)),
                promised_fraction: share,
                budget_fraction: budget,
            }
        })
        .collect()
}
