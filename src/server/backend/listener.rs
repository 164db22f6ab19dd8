//! Who is told of pods that were denied, beside whoever asked for them.

use super::{Backend, Operation, Question, WorkloadKind, controller_of};
use crate::decision::Verdict;
use crate::finding::Code;
use crate::message;
use crate::workload::pod::OwnerReference;

/// Is told of denied pods. Nothing waits for it, so it has to return at once.
pub trait DenialListener: Send + Sync + 'static {
    /// Whether a reason is to be told at an owner now. What is asked counts as told.
    fn is_due(&self, owner: &OwnerReference, code: Code) -> bool;

    /// A pod of this owner was denied, with these words.
    fn tell(&self, namespace: &str, owner: &OwnerReference, code: Code, text: String);
}

impl Backend {
    /// What makes the pod of a question, where somebody is told of its denial: not of a dry-run, nor of a pod of nobody.
    pub(in crate::server) fn maker(&self, question: &Question) -> Option<OwnerReference> {
        self.listener.as_ref()?;
        let workload = &question.workload;
        let is_new_pod = workload.kind == WorkloadKind::Pod && question.operation == Operation::Create;
        if !is_new_pod || question.dry_run {
            return None;
        }
        controller_of(&workload.pod.metadata).cloned()
    }

    /// Tells the listener of a denied pod.
    pub(in crate::server) fn tell_denied(
        &self,
        namespace: &str,
        maker: Option<&OwnerReference>,
        verdict: &Verdict,
    ) {
        let (Some(listener), Some(owner)) = (&self.listener, maker) else {
            return;
        };
        let Some(first) = verdict.findings.first().filter(|_| !verdict.admit) else {
            return;
        };
        if listener.is_due(owner, first.code) {
            listener.tell(namespace, owner, first.code, message::refusal(verdict));
        }
    }
}
