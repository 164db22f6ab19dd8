//! The verdict on one pod.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::budget::{self, closest};
use super::survey::Survey;
use super::{Operation, PlacementRow, Question, Verdict, fixes, promise};
use crate::demand::Demand;
use crate::demand::weigh::under;
use crate::finding::{Code, FieldPath, Finding, Severity};
use crate::ledger::search::{Ask, Joint, Overlay, joint};
use crate::ledger::{Ledger, Reservation, constraints, top_workload};
use crate::policy::Mode;
use crate::units::{Mib, Share};
use crate::workload::controller_of;
use crate::workload::pod::PodSpec;

/// Judges the CREATE or UPDATE of a pod.
pub(super) fn judge(
    question: &Question,
    demand: &Arc<Demand>,
    old: Option<&Arc<Demand>>,
    ledger: &Ledger,
) -> Verdict {
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
    let template = FieldPath::default();
    verdict.findings.extend(
        demand
            .findings
            .iter()
            .cloned()
            .map(|finding| under(&policy, finding)),
    );
    let of_kind = survey.findings(demand, &template);
    let blocked = of_kind.iter().any(|finding| finding.severity == Severity::Error);
    verdict.findings.extend(of_kind);

    let is_update = question.operation == Operation::Update;
    let raised = !is_update || old.is_none_or(|old| raises(question, old, demand, ledger));
    // A mirror pod runs already, whatever we say; the annotation alone proves nothing.
    let may_deny = raised && !(pod.is_mirror() && question.by_node);

    let mut overlay = Overlay::new(ledger);
    if let Some(own) = ledger.holder(&pod.metadata.uid) {
        overlay.without(own);
    }
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
            Sought::Full => {
                if let Some(closest) = closest(&survey, ledger, &overlay, &spec) {
                    let namespace = &question.workload.object.namespace;
                    let mut finding = closest.finding(demand, ledger, namespace, &policy.messages);
                    if finding.code == Code::Vg201 {
                        finding = finding.detail(unmodelled(&pod.spec));
                        finding.details.retain(|sentence| !sentence.is_empty());
                    }
                    place = Some(closest.node().clone());
                    verdict.findings.push(finding);
                }
            }
        }
    }
    if survey.takes_shared() {
        verdict.promise = promise(policy.enforcement);
    }
    if let Some(place) = &place {
        verdict.placement = rows(&survey, ledger, &overlay, place);
    }
    let shared_place = place.is_some() && survey.takes_shared();
    // A pod that only devices of its own can take needs no reservation: the scheduler counts those.
    if !question.dry_run && (shared_place || is_update && raised) {
        verdict.reservation = Some(Reservation {
            uid: pod.metadata.uid.clone(),
            namespace: question.workload.object.namespace.clone(),
            name: question.workload.object.name.clone(),
            labels: pod.metadata.labels.clone(),
            workload: top_workload(pod),
            controller: controller_of(&pod.metadata).map(|owner| Arc::from(owner.uid.as_str())),
            demand: demand.clone(),
            constraints: spec.clone(),
            place,
            moves,
        });
    }
    fixes::for_pod(question, demand, &survey, ledger, &overlay, &mut verdict.findings);
    verdict.conclude(policy.mode, may_deny)
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
    if survey.takes_exclusive() || survey.accepting.is_empty() {
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

/// What about the pod the placement does not model.
fn unmodelled(spec: &PodSpec) -> String {
    let between_pods = spec
        .affinity
        .as_ref()
        .is_some_and(|affinity| affinity.pod_affinity.is_some() || affinity.pod_anti_affinity.is_some());
    match (between_pods, !spec.topology_spread_constraints.is_empty()) {
        (false, false) => String::new(),
        (true, false) => "not modelled: the pod's (anti-)affinity to other pods".to_owned(),
        (false, true) => "not modelled: the pod's topology spread".to_owned(),
        (true, true) => {
            "not modelled: the pod's (anti-)affinity to other pods and its topology spread".to_owned()
        }
    }
}

/// Whether an UPDATE takes more of any device than before.
fn raises(question: &Question, old: &Demand, new: &Demand, ledger: &Ledger) -> bool {
    if old == new {
        return false;
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
        more || (after.refused() && !before.refused())
    })
}

/// The pools of a node as they are with the pod on it.
pub(super) fn rows(
    survey: &Survey<'_>,
    ledger: &Ledger,
    overlay: &Overlay<'_>,
    place: &Arc<str>,
) -> Vec<PlacementRow> {
    let Some(entry) = ledger.nodes.get(place) else {
        return Vec::new();
    };
    let Some(kind) = survey.accepting.iter().find(|kind| kind.index == entry.class) else {
        return Vec::new();
    };
    let pools = entry.node.pools.iter().enumerate().zip(&kind.weighed.standings);
    pools
        .filter(|(_, standing)| standing.slots > 0)
        .map(|((index, pool), standing)| {
            let budget = if pool.sharing.is_shared() {
                kind.class.device_policy.device.budget
            } else {
                Share::WHOLE
            };
            let (promised, share) = if pool.sharing.is_shared() {
                (
                    ledger.promised(place, index).plus(standing.request()),
                    overlay.together_with(place, entry, index, standing),
                )
            } else {
                (standing.request(), standing.share())
            };
            PlacementRow {
                node: place.to_string(),
                device: (pool.devices == 1).then(|| format!("{}[0]", pool.resource)),
                evidence: budget::grade(pool),
                promised,
                budget: pool.total.map_or(Mib::ZERO, |total| budget.of_down(total)),
                promised_fraction: share,
                budget_fraction: budget,
            }
        })
        .collect()
}

/// Whether the policy in force lets errors pass.
pub(super) fn lenient(survey: &Survey<'_>) -> bool {
    survey.policy().mode != Mode::Enforce
}
