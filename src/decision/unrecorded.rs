//! The verdict on a pod whose reservation could not be brought into the ledger that replicas share.

use super::{Prepared, Verdict};
use crate::demand::weigh::under;
use crate::finding::{Code, FieldPath, Finding, short};
use crate::ledger::Ledger;
use crate::message;

/// Characters of the reason that stand in the first line.
const LONGEST_REASON: usize = 90;

/// The verdict on a pod that has a place and whose reservation no record holds: `node` is the one whose record was to hold
/// it (empty where that is not known), `why` says in words what was in the way.
#[must_use]
pub fn unrecorded(prepared: &Prepared, ledger: &Ledger, node: &str, why: &str) -> Verdict {
    let question = prepared.question();
    let labels = &question.workload.pod.metadata.labels;
    let policy = ledger
        .policies()
        .for_pod(&question.namespace_labels, labels, None);
    let on = if node.is_empty() {
        String::new()
    } else {
        format!(" on node {}", short(node))
    };
    let line = message::one_line(why);
    let finding = Finding::new(
        Code::Vg902,
        FieldPath::new("metadata"),
        format!(
            "the place that was found{on} could not be recorded for all replicas: {}; nothing is reserved, try again",
            message::cut(&line, LONGEST_REASON)
        ),
    );
    let finding = if line.chars().count() > LONGEST_REASON {
        finding.detail(line)
    } else {
        finding
    };
    let mut verdict = Verdict::of(&policy);
    verdict.findings.push(under(&policy, finding));
    verdict.conclude(policy.mode, true, false)
}
