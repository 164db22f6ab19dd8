//! The one place that decides. Webhook, command line and tests call the same two functions:
//! [`prepare`] reads what an object will take (no cluster state), [`judge`] places it against the ledger.

use std::collections::BTreeMap;
use std::sync::Arc;

use json_patch::PatchOperation;
use serde::Serialize;

use crate::demand::weigh::under;
use crate::demand::{Amount, Demand, Part};
use crate::engine::Sources;
use crate::finding::{Code, Finding, Severity};
use crate::ledger::{Ledger, Reservation};
use crate::policy::{Enforcement, Evidence, Messages, Mode, Policy, PolicySet};
use crate::units::{Mib, Share};
use crate::workload::{Malformed, Workload, WorkloadKind};

mod access;
mod budget;
mod fixes;
mod pod;
mod survey;
mod whole_device;
mod workload;

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
}

impl Prepared {
    /// Whether the object asks for a GPU at all, or cannot be read.
    #[must_use]
    pub fn concerns_gpus(&self) -> bool {
        self.demand
            .as_ref()
            .map_or(true, |demand| demand.asks() || !demand.access.is_empty())
    }

    /// The question.
    #[must_use]
    pub fn question(&self) -> &Question {
        &self.question
    }
}

/// One row of a verdict's placement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementRow {
    /// Node.
    pub node: String,
    /// Device, where it is known (`nvidia.com/gpu[0]`).
    pub device: Option<String>,
    /// How the device is known.
    pub evidence: Evidence,
    /// Sum of requests on the device with this object, without overhead.
    #[serde(rename = "promisedMiB")]
    pub promised: Mib,
    /// Budget of the device.
    #[serde(rename = "budgetMiB")]
    pub budget: Mib,
    /// Sum of shares on the device with this object.
    pub promised_fraction: Share,
    /// Budget of the device.
    pub budget_fraction: Share,
}

/// The answer.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Whether the object may pass.
    pub admit: bool,
    /// Whether it was ours to judge at all (it asks for a GPU).
    pub judged: bool,
    /// Every reason, worst first.
    pub findings: Vec<Finding>,
    /// Changes that the policy makes to the object.
    pub patches: Vec<PatchOperation>,
    /// Where it would stand.
    pub placement: Vec<PlacementRow>,
    /// What to reserve when the verdict is carried out (never for a dry run).
    pub reservation: Option<Reservation>,
    /// Name of the policy that applied.
    pub policy: String,
    /// What the mode turned from a denial into an admission.
    pub would_deny: bool,
    /// Why the object could not be read; then it is refused as malformed, not by policy.
    pub malformed: Option<Malformed>,
    /// What is promised by an admission, in one sentence; empty where nothing is shared.
    pub promise: &'static str,
    /// How messages are written.
    pub messages: Messages,
}

impl Verdict {
    /// An admission of something that is not ours to judge.
    #[must_use]
    pub fn not_ours() -> Self {
        Self {
            admit: true,
            ..Self::default()
        }
    }

    fn of(policy: &Policy) -> Self {
        Self {
            admit: true,
            judged: true,
            policy: policy.name.clone(),
            messages: policy.messages.clone(),
            ..Self::default()
        }
    }

    /// Puts the findings in order and draws the conclusion that the policy's mode allows. `may_deny` is false where the
    /// change itself is never denied (an UPDATE that asks for no more, a change of scale). `lets_through` is whether every kind of
    /// node refuses it under a policy that does not enforce, so that its reasons are warnings already.
    fn conclude(mut self, mode: Mode, may_deny: bool, lets_through: bool) -> Self {
        // Errors first, also those that are let through: answers carry a few findings only.
        self.findings
            .sort_by(|a, b| b.severity.cmp(&a.severity).then(a.code.cmp(&b.code)));
        let errors = self
            .findings
            .first()
            .is_some_and(|worst| worst.severity == Severity::Error);
        self.admit = !errors || !may_deny || mode != Mode::Enforce;
        self.would_deny = (errors || lets_through) && may_deny && self.admit;
        if self.admit {
            for finding in &mut self.findings {
                finding.severity = finding.severity.min(Severity::Warning);
            }
        } else {
            self.reservation = None;
        }
        let mut told: Vec<Finding> = Vec::with_capacity(self.findings.len());
        for finding in self.findings {
            let known = told.iter().any(|other| {
                other.code == finding.code && other.path == finding.path && other.message == finding.message
            });
            if !known {
                told.push(finding);
            }
        }
        self.findings = told;
        self
    }
}

/// What an admission promises at each level of enforcement.
const fn promise(level: Enforcement) -> &'static str {
    match level {
        Enforcement::Admission => {
            "enforcement admission: all admitted pods can be placed together; kube-scheduler is not bound to that \
             placement"
        }
        Enforcement::Counted | Enforcement::Binding | Enforcement::Gated => {
            "enforcement acts as admission in this release: all admitted pods can be placed together; kube-scheduler \
             is not bound to that placement"
        }
    }
}

/// Reads what the object will take.
#[must_use]
pub fn prepare(question: Question, policies: &PolicySet, sources: &dyn Sources) -> Prepared {
    let read = |workload: &Workload| {
        Demand::read(&workload.pod, &question.namespace_labels, policies, sources)
            .map(Arc::new)
            .map_err(|error| {
                let path = crate::finding::FieldPath::new(workload.template.as_str()).field(&error.path);
                Malformed {
                    path: path.to_string(),
                    ..error
                }
            })
    };
    let demand = read(&question.workload);
    let old_demand = question.old.as_ref().and_then(|old| read(old).ok());
    Prepared {
        question,
        demand,
        old_demand,
    }
}

/// Places it against the ledger. Changes nothing.
#[must_use]
pub fn judge(prepared: &Prepared, ledger: &Ledger) -> Verdict {
    let question = &prepared.question;
    let workload = &question.workload;
    // What is being deleted frees memory, whatever is written in it. What a controller owns was judged with its owner,
    // and its pods will be judged one by one.
    let owned = workload.kind != WorkloadKind::Pod && workload.controller.is_some();
    if workload.deleting || owned {
        return Verdict::not_ours();
    }
    let demand = match &prepared.demand {
        Ok(demand) if !demand.asks() && demand.access.is_empty() => {
            return without_slots(prepared, demand, ledger);
        }
        Ok(demand) => demand,
        Err(malformed) => {
            return Verdict {
                admit: question.scale_only,
                judged: true,
                malformed: Some(malformed.clone()),
                ..Verdict::default()
            };
        }
    };
    let old = prepared.old_demand.as_ref();
    if workload.kind == WorkloadKind::Pod {
        pod::judge(question, demand, old, ledger)
    } else {
        workload::judge(question, demand, old, ledger)
    }
}

/// An object that asks for no slot: ours only where it has a resource name that is nearly one (VG108).
fn without_slots(prepared: &Prepared, demand: &Demand, ledger: &Ledger) -> Verdict {
    let old = prepared.old_demand.as_ref();
    if demand.findings.is_empty() || old.is_some_and(|old| old.findings == demand.findings) {
        return Verdict::not_ours();
    }
    let question = &prepared.question;
    let workload = &question.workload;
    let labels = &workload.pod.metadata.labels;
    let policy = ledger
        .policies()
        .for_pod(&question.namespace_labels, labels, None);
    let mut verdict = Verdict::of(&policy);
    verdict.findings.extend(demand.findings.iter().map(|finding| {
        let finding = under(&policy, finding.clone());
        Finding {
            path: workload.template.field(finding.path.as_str()),
            ..finding
        }
    }));
    let runs_already = workload.pod.is_mirror() && question.by_node;
    let may_deny = !question.scale_only && !runs_already;
    verdict.conclude(policy.mode, may_deny, false)
}

/// Whether an amount cannot be told that could be before: what it takes may then be more than it was.
fn newly_unreadable(old: &Demand, new: &Demand) -> bool {
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
    let before = unreadable(old);
    unreadable(new).iter().any(|now| !before.contains(now))
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
