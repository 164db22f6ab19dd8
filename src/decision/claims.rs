//! The verdict on devices that a pod gets by dynamic resource claims.
//!
//! The scheduler allocates claims and counts whole devices and capacities itself. What it does not know is judged here:
//! whether a model fits the devices that a claim may be given, whether those who share a claim fit on its device
//! together, and whether an engine takes more than its claim consumes.

use std::sync::Arc;

use super::budget::Own;
use super::workload::{is_own, located, tell_open};
use super::{Operation, PlacementRow, Prepared, Question, Verdict, fixes};
use crate::demand::Demand;
use crate::demand::weigh::under;
use crate::finding::{Finding, Severity};
use crate::ledger::{Holder, Ledger, constraints};
use crate::units::Share;
use crate::workload::WorkloadKind;

mod full;
mod judge;
mod meet;
mod sharers;
mod text;
mod waiting;

use judge::{Context, Judged, judge};

/// A template of the judged object, as its pods will be.
#[derive(Clone, Copy)]
pub(super) struct Sibling<'a> {
    pub(super) question: &'a Question,
    pub(super) demand: &'a Demand,
}

/// The verdict on an object that asks for no slot; `None` where none of its claims is for NVIDIA's devices.
pub(super) fn judge_alone(
    prepared: &Prepared,
    demand: &Arc<Demand>,
    siblings: &[Sibling<'_>],
    ledger: &Ledger,
) -> Option<Verdict> {
    if demand.uses.is_empty() {
        return None;
    }
    let question = &prepared.question;
    let workload = &question.workload;
    let own = own(question, ledger);
    let context = Context::of(question, ledger, &own, siblings);
    let judged = judge(&context, demand)?;
    let old = prepared.old_demand.as_ref();
    let is_update = question.operation == Operation::Update;
    let raised = !is_update || raises(&context, old, demand, &judged);
    if is_update && workload.kind != WorkloadKind::Pod && old.is_some_and(|old| old.uses == demand.uses) {
        return Some(Verdict::not_ours());
    }
    let runs_already = workload.pod.is_mirror() && question.by_node;
    let open = workload.open();
    let may_deny = raised && !question.scale_only && !runs_already && open.is_none();
    let policy = judged.policy.clone();
    let mut verdict = Verdict::of(&policy);
    let of_pod = demand.findings.iter().cloned();
    verdict
        .findings
        .extend(of_pod.map(|finding| under(&policy, finding)));
    verdict.findings.extend(judged.findings);
    let is_kept = workload.kind == WorkloadKind::Pod && judged.is_named;
    if is_kept
        && !is_update
        && let Some(finding) = super::pod::too_many_unseen(question, ledger)
    {
        verdict.findings.push(under(&policy, finding));
    }
    verdict.placement = judged.placement;
    if may_deny {
        propose(question, &context, demand, &mut verdict.findings);
    }
    verdict.findings = verdict
        .findings
        .into_iter()
        .map(|finding| located(workload, finding))
        .collect();
    if let Some(open) = open {
        tell_open(&mut verdict.findings, open);
    }
    if is_kept && raised && !question.dry_run {
        let spec = constraints(&workload.pod);
        verdict.reservation = Some(super::pod::reservation(question, demand, spec, None, Vec::new()));
    }
    Some(verdict.conclude(policy.mode, may_deny, false))
}

/// Pods that the object replaces or owns.
fn own(question: &Question, ledger: &Ledger) -> Own {
    let workload = &question.workload;
    let namespace = &workload.object.namespace;
    let named = |holder: &Holder| (holder.namespace.clone(), holder.name.clone());
    if workload.kind == WorkloadKind::Pod {
        let pod = &workload.pod.metadata;
        let itself = ledger.holder(&pod.uid).into_iter();
        let replaced = ledger
            .named(namespace, &pod.name)
            .filter(|_| !pod.name.is_empty());
        return itself.chain(replaced).map(named).collect();
    }
    ledger
        .in_namespace(namespace)
        .filter(|holder| is_own(holder, workload))
        .map(named)
        .collect()
}

/// Whether an UPDATE takes more by its claims than before.
fn raises(context: &Context<'_>, old: Option<&Arc<Demand>>, new: &Demand, judged: &Judged) -> bool {
    let Some(old) = old else { return true };
    if old.uses == new.uses {
        return false;
    }
    judge(context, old)
        .is_none_or(|before| judged.share > before.share || judged.is_refused() && !before.is_refused())
}

/// Adds the largest fraction with which the claims pass, where another fraction can answer every error.
fn propose(question: &Question, context: &Context<'_>, demand: &Demand, findings: &mut [Finding]) {
    let errors: Vec<_> = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .map(|finding| finding.code)
        .collect();
    let answers = errors.iter().all(|code| fixes::BY_FRACTION.contains(code));
    if errors.is_empty() || !answers {
        return;
    }
    let by_claims = Demand {
        claims: demand.uses.iter().map(|used| used.claim.clone()).collect(),
        access: Vec::new(),
        uses: Vec::new(),
        carried: Vec::new(),
        only_agents: false,
        findings: demand
            .uses
            .iter()
            .flat_map(|used| used.findings.clone())
            .collect(),
    };
    let passes = |changed: &[Arc<Demand>]| {
        let Some(changed) = changed.first() else {
            return fixes::Outcome::Refused;
        };
        let mut tried = demand.clone();
        for (used, claim) in tried.uses.iter_mut().zip(&changed.claims) {
            used.claim.parts.clone_from(&claim.parts);
            used.findings.retain(|finding| changed.findings.contains(finding));
        }
        match judge(context, &tried) {
            Some(judged) if judged.is_refused() => fixes::Outcome::Refused,
            _ => fixes::Outcome::Passes,
        }
    };
    let least = judge::least_fraction(context, demand);
    let fix = fixes::largest_between(&[(question, &by_claims)], least, Share::WHOLE, &passes);
    let first = findings
        .iter_mut()
        .find(|finding| finding.severity == Severity::Error);
    if let (Some(first), Some(fix)) = (first, fix) {
        first.fixes.push(fix);
    }
}

/// What the claims of a pod come to that asks for slots as well.
#[derive(Default)]
pub(super) struct BesideSlots {
    pub(super) placement: Vec<PlacementRow>,
    /// Whether they refuse it.
    pub(super) refused: bool,
    /// Whether an UPDATE takes more by them than before.
    pub(super) raised: bool,
    /// Whether it uses a claim that others may use as well.
    pub(super) is_named: bool,
}

/// Adds what is to be said of the claims of a pod that asks for slots as well. Where it is refused already no change of its
/// claims is proposed: that would not be enough.
pub(super) fn beside_slots(
    question: &Question,
    demand: &Demand,
    siblings: &[Sibling<'_>],
    ledger: &Ledger,
    old: Option<&Arc<Demand>>,
    findings: &mut Vec<Finding>,
) -> BesideSlots {
    if demand.uses.is_empty() {
        return BesideSlots::default();
    }
    let own = own(question, ledger);
    let context = Context::of(question, ledger, &own, siblings);
    let Some(mut judged) = judge(&context, demand) else {
        return BesideSlots::default();
    };
    let others_refuse = findings.iter().any(|finding| finding.severity == Severity::Error);
    let raised = question.operation != Operation::Update || raises(&context, old, demand, &judged);
    if raised && !others_refuse && question.workload.open().is_none() {
        propose(question, &context, demand, &mut judged.findings);
    }
    let refused = judged.is_refused();
    let told = judged.findings.into_iter();
    findings.extend(told.map(|finding| located(&question.workload, finding)));
    BesideSlots {
        placement: judged.placement,
        refused,
        raised,
        is_named: judged.is_named,
    }
}
