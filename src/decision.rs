//! The one place that decides. Webhook, command line and tests call the same two functions:
//! [`prepare`] reads what an object will take (no cluster state), [`judge`] places it against the ledger.

use std::collections::BTreeMap;
use std::sync::Arc;

use json_patch::PatchOperation;

use crate::demand::weigh::under;
use crate::demand::{Amount, Demand, Part};
use crate::engine::Sources;
use crate::finding::{Code, FieldPath, Finding};
use crate::ledger::Ledger;
use crate::policy::PolicySet;
use crate::workload::pod::Affinity;
use crate::workload::{Malformed, Workload, WorkloadKind};

mod access;
mod autoscaler;
mod budget;
mod claims;
mod clients;
mod configuration;
mod counted;
mod declared;
mod fixes;
mod made;
mod mutation;
mod pod;
mod preemption;
pub(crate) mod relief;
#[cfg(test)]
mod steps;
mod survey;
mod unmodelled;
mod unrecorded;
mod verdict;
mod whole_device;
mod workload;

use made::{Made, MadeBefore};

pub use autoscaler::{AutoscalerQuestion, judge_autoscaler};
pub use configuration::{ConfigurationQuestion, Surroundings, judge_configuration};
pub use unrecorded::unrecorded;
pub use verdict::{PlacementRow, Verdict};

/// What the API server is doing to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Creating it.
    Create,
    /// Changing it.
    Update,
}

/// One object to be judged.
#[derive(Clone, Debug)]
pub struct Question {
    /// What is being done.
    pub operation: Operation,
    /// The object as it will be.
    pub workload: Workload,
    /// The object as it was (on UPDATE).
    pub old: Option<Workload>,
    /// Labels of the namespace, for policies that match by them. `kubernetes.io/metadata.name` is always there.
    pub namespace_labels: BTreeMap<String, String>,
    /// Whether the caller is a node (`system:nodes`): only then a mirror pod is one.
    pub by_node: bool,
    /// Whether this is a change of scale: it is never denied.
    pub scale_only: bool,
    /// Whether no reservation may come of it (dry-run, and every workload review).
    pub dry_run: bool,
}

/// What an object will take, read without cluster state.
#[derive(Clone, Debug)]
pub struct Prepared {
    question: Question,
    demand: Result<Arc<Demand>, Malformed>,
    old_demand: Option<Arc<Demand>>,
    /// Each template by itself, where the object has several or had.
    sets: Vec<Prepared>,
    /// The templates that it had then, with what each took where that can be read.
    old_sets: Vec<(Workload, Option<Arc<Demand>>)>,
}

impl Prepared {
    /// Whether the object asks for a GPU at all, or cannot be read.
    #[must_use]
    pub fn concerns_gpus(&self) -> bool {
        self.demand.as_ref().map_or(true, |demand| {
            demand.may_get_devices() || !demand.access.is_empty()
        }) || self.sets.iter().any(Self::concerns_gpus)
    }

    /// The question.
    #[must_use]
    pub fn question(&self) -> &Question {
        &self.question
    }
}

/// Reads what the object will take.
#[must_use]
pub fn prepare(question: Question, policies: &PolicySet, sources: &dyn Sources) -> Prepared {
    let several = !question.workload.others.is_empty()
        || question.old.as_ref().is_some_and(|old| !old.others.is_empty());
    if !several {
        return prepare_one(question, policies, sources);
    }
    let old_sets: Vec<(Workload, Option<Arc<Demand>>)> = question.old.as_ref().map_or_else(Vec::new, |old| {
        let sets = old.split().into_iter();
        sets.map(|set| {
            let demand = read(&set, &question.namespace_labels, policies, sources).ok();
            (set, demand)
        })
        .collect()
    });
    let sets = question.workload.split().into_iter().map(|workload| {
        let old = old_sets
            .iter()
            .find(|(old, _)| old.template == workload.template)
            .map(|(old, _)| old.clone());
        let question = Question {
            workload,
            old,
            namespace_labels: question.namespace_labels.clone(),
            ..question
        };
        prepare_one(question, policies, sources)
    });
    let sets: Vec<Prepared> = sets.collect();
    Prepared {
        demand: Ok(Arc::default()),
        old_demand: None,
        sets,
        old_sets,
        question,
    }
}

fn read(
    workload: &Workload,
    namespace_labels: &BTreeMap<String, String>,
    policies: &PolicySet,
    sources: &dyn Sources,
) -> Result<Arc<Demand>, Malformed> {
    Demand::read(&workload.pod, namespace_labels, policies, sources)
        .map(Arc::new)
        .map_err(|error| Malformed {
            path: workload.located(&FieldPath::new(error.path)).to_string(),
            message: error.message,
        })
}

fn prepare_one(question: Question, policies: &PolicySet, sources: &dyn Sources) -> Prepared {
    let read = |workload: &Workload| read(workload, &question.namespace_labels, policies, sources);
    let demand = read(&question.workload);
    let old_demand = question.old.as_ref().and_then(|old| read(old).ok());
    Prepared {
        question,
        demand,
        old_demand,
        sets: Vec::new(),
        old_sets: Vec::new(),
    }
}

/// What the policy changes in a pod that is created, before it is judged.
#[must_use]
pub fn mutate(prepared: &Prepared, ledger: &Ledger) -> Vec<PatchOperation> {
    mutation_of(prepared, ledger).map_or_else(Vec::new, |mutation| mutation.patches)
}

/// The mutation of a pod that is created; nothing else is ever changed.
fn mutation_of(prepared: &Prepared, ledger: &Ledger) -> Option<mutation::Mutation> {
    let question = &prepared.question;
    if !is_created_pod(question) {
        return None;
    }
    let demand = prepared.demand.as_ref().ok()?;
    if !demand.asks() {
        return mutation::without_slots(question, demand, ledger);
    }
    mutation::of(question, &question.workload, demand, ledger)
}

fn is_created_pod(question: &Question) -> bool {
    question.workload.kind == WorkloadKind::Pod && question.operation == Operation::Create
}

/// Judges a pod as it will be once the policy has changed it, and gives those changes with the verdict. Fixes and paths
/// are those of the object as it was submitted. Of any other object the same as [`judge`].
#[must_use]
pub fn judge_mutated(prepared: &Prepared, ledger: &Ledger) -> Verdict {
    let submitted = is_created_pod(&prepared.question).then_some(&prepared.question);
    let Some(mutation) = mutation_of(prepared, ledger) else {
        return judge_made(prepared, submitted, ledger);
    };
    let mut mutated = Prepared {
        demand: Ok(mutation.demand),
        ..prepared.clone()
    };
    if mutation.affinity.is_some() {
        mutated.question.workload.pod.spec.affinity = mutation.affinity;
    }
    Verdict {
        patches: mutation.patches,
        ..judge_made(&mutated, submitted, ledger)
    }
}

/// A pod as the policy makes it when it is created.
pub(crate) struct MadePod {
    /// What it takes.
    pub(crate) demand: Arc<Demand>,
    /// The nodes that it may go to, where the policy leaves it fewer.
    pub(crate) affinity: Option<Affinity>,
}

/// What becomes of a pod when it is created; `None` where the policy changes nothing.
pub(crate) fn made(prepared: &Prepared, ledger: &Ledger) -> Option<MadePod> {
    mutation_of(prepared, ledger).map(|mutation| MadePod {
        demand: mutation.demand,
        affinity: mutation.affinity,
    })
}

/// Places it against the ledger. Changes nothing. A pod is judged as it is; the template of anything else as its pods
/// will be once the policy has changed them.
#[must_use]
pub fn judge(prepared: &Prepared, ledger: &Ledger) -> Verdict {
    judge_made(prepared, None, ledger)
}

/// The same of a pod that the policy has changed: `submitted` is the question before that.
fn judge_made(prepared: &Prepared, submitted: Option<&Question>, ledger: &Ledger) -> Verdict {
    let question = &prepared.question;
    let mut verdict = judge_amounts(prepared, submitted, ledger);
    let lowered = match &verdict.malformed {
        None if verdict.judged => declared::lowered(question, ledger.policies()),
        _ => Vec::new(),
    };
    if lowered.is_empty() {
        return verdict;
    }
    let pod = &question.workload.pod;
    let policy = ledger.policies().for_pod(&question.namespace_labels, pod, None);
    let lowered = lowered.into_iter().map(|finding| under(&policy, finding));
    verdict.findings.extend(lowered);
    let runs_already = pod.is_mirror() && question.by_node;
    // Where it is let through, what the pod was admitted with goes on counting.
    verdict.reservation = None;
    verdict.conclude(policy.mode, !runs_already, false)
}

fn judge_amounts(prepared: &Prepared, submitted: Option<&Question>, ledger: &Ledger) -> Verdict {
    let question = &prepared.question;
    let workload = &question.workload;
    // What is being deleted frees memory, whatever is written in it. What a controller owns was judged with its owner,
    // and its pods will be judged one by one.
    let owned = workload.kind != WorkloadKind::Pod && workload.controller.is_some();
    if workload.deleting || owned {
        return Verdict::not_ours();
    }
    if !prepared.sets.is_empty() {
        return judge_sets(prepared, ledger);
    }
    let demand = match &prepared.demand {
        Ok(demand) if !demand.asks() && demand.access.is_empty() => {
            return judge_without_slots(prepared, demand, &[], ledger);
        }
        Ok(demand) => demand,
        Err(malformed) => return unreadable(question, malformed),
    };
    let old = prepared.old_demand.as_ref();
    if workload.kind == WorkloadKind::Pod {
        let subject = pod::Subject { question, submitted };
        return pod::judge(subject, demand, old, ledger);
    }
    let made = Made::of(question, demand, ledger);
    let before = question
        .old
        .as_ref()
        .map(|workload| MadeBefore::of(question, workload, old, ledger));
    let before = before.as_ref().map(MadeBefore::before);
    workload::judge(&[made.set()], before.as_slice(), &[], ledger)
}

/// An object with several templates.
fn judge_sets(prepared: &Prepared, ledger: &Ledger) -> Verdict {
    let mut asking = Vec::new();
    let mut verdicts = Vec::new();
    let siblings: Vec<claims::Sibling<'_>> = prepared
        .sets
        .iter()
        .filter_map(|set| {
            Some(claims::Sibling {
                question: &set.question,
                demand: set.demand.as_ref().ok()?,
            })
        })
        .collect();
    for set in &prepared.sets {
        match &set.demand {
            Err(malformed) => return unreadable(&set.question, malformed),
            Ok(demand) if demand.asks() || !demand.access.is_empty() => {
                asking.push(Made::of(&set.question, demand, ledger));
            }
            Ok(demand) => verdicts.push(judge_without_slots(set, demand, &siblings, ledger)),
        }
    }
    let before: Vec<MadeBefore<'_>> = prepared
        .old_sets
        .iter()
        .map(|(workload, demand)| MadeBefore::of(&prepared.question, workload, demand.as_ref(), ledger))
        .collect();
    let before: Vec<workload::Before<'_>> = before.iter().map(MadeBefore::before).collect();
    let asking: Vec<workload::Set<'_>> = asking.iter().map(Made::set).collect();
    verdicts.push(workload::judge(&asking, &before, &siblings, ledger));
    Verdict::joined(verdicts)
}

/// Of another schema it may be that only this release cannot read it: then it passes, and its pods are judged.
fn unreadable(question: &Question, malformed: &Malformed) -> Verdict {
    let custom = matches!(question.workload.kind, WorkloadKind::Custom(_));
    Verdict {
        admit: question.scale_only || custom,
        judged: true,
        malformed: Some(malformed.clone()),
        ..Verdict::default()
    }
}

/// An object, or one template of it, that asks for no slot: judged by its claims where it has some.
fn judge_without_slots(
    prepared: &Prepared,
    demand: &Arc<Demand>,
    siblings: &[claims::Sibling<'_>],
    ledger: &Ledger,
) -> Verdict {
    claims::judge_alone(prepared, demand, siblings, ledger)
        .unwrap_or_else(|| without_slots(prepared, demand, ledger))
}

/// An object that asks for no slot: ours only where it has a resource name that is nearly one (VG108).
fn without_slots(prepared: &Prepared, demand: &Demand, ledger: &Ledger) -> Verdict {
    let old = prepared.old_demand.as_ref();
    let question = &prepared.question;
    let workload = &question.workload;
    let is_new_pod = workload.kind == WorkloadKind::Pod && question.operation == Operation::Create;
    let carries = is_new_pod && !demand.carried.is_empty();
    if !carries && (demand.findings.is_empty() || old.is_some_and(|old| old.findings == demand.findings)) {
        return Verdict::not_ours();
    }
    let policy = ledger
        .policies()
        .for_pod(&question.namespace_labels, &workload.pod, None);
    let mut verdict = Verdict::of(&policy);
    if carries {
        verdict
            .findings
            .extend(counted::without_slots(question, demand, &policy));
    }
    verdict.findings.extend(demand.findings.iter().map(|finding| {
        let finding = under(&policy, finding.clone());
        Finding {
            path: workload.located(&finding.path),
            ..finding
        }
    }));
    let runs_already = workload.pod.is_mirror() && question.by_node;
    let may_deny = !question.scale_only && !runs_already && workload.open().is_none();
    verdict.conclude(policy.mode, may_deny, false)
}

/// Whether an amount cannot be told that could be before: what it takes may then be more than it was.
fn newly_unreadable<'d>(
    old: impl Iterator<Item = &'d Demand>,
    mut new: impl Iterator<Item = &'d Demand>,
) -> bool {
    let unreadable = |demand: &Demand| -> Vec<(String, Code)> {
        let parts = demand
            .claims
            .iter()
            .flat_map(|claim| claim.parts.iter().map(move |part| (claim, part)));
        parts
            .filter_map(|(claim, part)| match &part.amount {
                Amount::Unknown { code, .. } => Some((claim.container.clone(), *code)),
                Amount::Uncapped { .. } => Some((claim.container.clone(), Code::Vg206)),
                Amount::OfTotal { .. } | Amount::Absolute(_) | Amount::Estimated { .. } => None,
            })
            .collect()
    };
    let before: Vec<(String, Code)> = old.flat_map(unreadable).collect();
    new.any(|demand| unreadable(demand).iter().any(|now| !before.contains(now)))
}

/// Says which default an engine had and which it has, where nobody wrote a fraction and another release came.
fn changed_defaults(old: &Demand, new: &Demand) -> Vec<String> {
    let default = |part: &Part| match &part.amount {
        Amount::OfTotal {
            fraction,
            by_default: true,
        } => Some(fraction.clone()),
        _ => None,
    };
    let mut sentences = Vec::new();
    for claim in &new.claims {
        let before = old
            .claims
            .iter()
            .find(|before| before.container == claim.container && before.resource == claim.resource);
        let Some(before) = before else { continue };
        for (then, now) in before.parts.iter().zip(&claim.parts) {
            if let (Some(was), Some(is)) = (default(then), default(now))
                && was != is
            {
                sentences.push(format!(
                    "container {}: the default of {} was {was} in the old image and is {is} in the new one",
                    claim.container, now.engine
                ));
            }
        }
    }
    sentences.dedup();
    sentences
}

/// Adds the sentences to every error about an amount.
fn tell_changed_defaults(findings: &mut [Finding], old: Option<&Arc<Demand>>, new: &Demand) {
    let Some(old) = old else { return };
    let sentences = changed_defaults(old, new);
    for finding in findings
        .iter_mut()
        .filter(|finding| matches!(finding.code, Code::Vg201 | Code::Vg207))
    {
        finding.details.extend(sentences.iter().cloned());
    }
}
