//! The answer to a question.

use std::collections::BTreeSet;

use json_patch::PatchOperation;
use serde::Serialize;

use crate::finding::{Code, Finding, Severity};
use crate::ledger::Reservation;
use crate::policy::{Evidence, Messages, Mode, Policy};
use crate::units::{Mib, Share};
use crate::workload::Malformed;

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
    /// The codes for which it denies, or would under `mode: enforce`; each once, in order.
    pub denied_by: Vec<Code>,
    /// Why the object could not be read; then it is refused as malformed, not by policy.
    pub malformed: Option<Malformed>,
    /// What is promised by an admission, in one sentence; empty where nothing is shared.
    pub promise: &'static str,
    /// What the pods want and the search for places left out of account, in one sentence; empty where there is nothing of
    /// the kind.
    pub unmodelled: &'static str,
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

    pub(super) fn of(policy: &Policy) -> Self {
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
    pub(super) fn conclude(mut self, mode: Mode, may_deny: bool, lets_through: bool) -> Self {
        // Errors first, also those that are let through: answers carry a few findings only.
        self.findings
            .sort_by(|a, b| b.severity.cmp(&a.severity).then(a.code.cmp(&b.code)));
        let errors = self
            .findings
            .first()
            .is_some_and(|worst| worst.severity == Severity::Error);
        self.admit = !errors || !may_deny || mode != Mode::Enforce;
        self.would_deny = (errors || lets_through) && may_deny && self.admit;
        if !self.admit || self.would_deny {
            // Where every kind of node lets it through, its reasons are warnings already.
            let denies = |finding: &&Finding| {
                finding.severity == Severity::Error
                    || !errors
                        && finding.severity == Severity::Warning
                        && finding.code.default_severity() == Severity::Error
            };
            let codes: BTreeSet<Code> = self
                .findings
                .iter()
                .filter(denies)
                .map(|finding| finding.code)
                .collect();
            self.denied_by = codes.into_iter().collect();
        }
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

    /// The verdict on an object from those on its templates: it passes where each of them does.
    pub(super) fn joined(verdicts: impl IntoIterator<Item = Self>) -> Self {
        let mut verdicts = verdicts.into_iter();
        let Some(mut whole) = verdicts.next() else {
            return Self::not_ours();
        };
        let mut several = false;
        for other in verdicts {
            several = true;
            let first_judged = !whole.judged && other.judged;
            if first_judged || (whole.admit && !other.admit) {
                whole.policy = other.policy;
                whole.messages = other.messages;
            }
            whole.admit &= other.admit;
            whole.judged |= other.judged;
            whole.would_deny |= other.would_deny;
            whole.denied_by.extend(other.denied_by);
            if whole.promise.is_empty() {
                whole.promise = other.promise;
            }
            if whole.unmodelled.is_empty() {
                whole.unmodelled = other.unmodelled;
            }
            whole.findings.extend(other.findings);
            whole.placement.extend(other.placement);
        }
        if several {
            whole
                .findings
                .sort_by(|a, b| b.severity.cmp(&a.severity).then(a.code.cmp(&b.code)));
            whole.would_deny &= whole.admit;
            whole.denied_by.sort_unstable();
            whole.denied_by.dedup();
        }
        whole
    }
}
