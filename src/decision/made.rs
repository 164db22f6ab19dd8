//! Pods and templates as they will be once the policy has changed them.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Question, mutation, workload};
use crate::demand::Demand;
use crate::ledger::Ledger;
use crate::workload::Workload;

/// A pod, or a template of the judged object.
pub(super) struct Made<'a> {
    submitted: &'a Question,
    question: Cow<'a, Question>,
    demand: Arc<Demand>,
}

impl<'a> Made<'a> {
    pub(super) fn of(question: &'a Question, demand: &Arc<Demand>, ledger: &Ledger) -> Self {
        let mut made = Self {
            submitted: question,
            question: Cow::Borrowed(question),
            demand: demand.clone(),
        };
        if let Some(mutation) = mutation::of(question, &question.workload, demand, ledger) {
            made.demand = mutation.demand;
            if mutation.affinity.is_some() {
                made.question.to_mut().workload.pod.spec.affinity = mutation.affinity;
            }
        }
        made
    }

    /// The question about it as it will be.
    pub(super) fn question(&self) -> &Question {
        &self.question
    }

    /// What it takes then.
    pub(super) fn demand(&self) -> &Arc<Demand> {
        &self.demand
    }

    pub(super) fn set(&self) -> workload::Set<'_> {
        workload::Set {
            question: &self.question,
            demand: &self.demand,
            submitted: self.submitted,
        }
    }
}

/// A template that the object had before an UPDATE.
pub(super) struct MadeBefore<'a> {
    workload: Cow<'a, Workload>,
    /// `None` where it could not be read.
    demand: Option<Arc<Demand>>,
}

impl<'a> MadeBefore<'a> {
    pub(super) fn of(
        question: &Question,
        workload: &'a Workload,
        demand: Option<&Arc<Demand>>,
        ledger: &Ledger,
    ) -> Self {
        let mut made = Self {
            workload: Cow::Borrowed(workload),
            demand: demand.cloned(),
        };
        let mutation = demand.and_then(|demand| mutation::of(question, workload, demand, ledger));
        if let Some(mutation) = mutation {
            made.demand = Some(mutation.demand);
            if mutation.affinity.is_some() {
                made.workload.to_mut().pod.spec.affinity = mutation.affinity;
            }
        }
        made
    }

    pub(super) fn before(&self) -> workload::Before<'_> {
        workload::Before {
            workload: &self.workload,
            demand: self.demand.as_ref(),
        }
    }
}
