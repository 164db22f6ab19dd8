//! The one seam between a verdict and the words that people read.

use crate::decision::Verdict;
use crate::finding::Severity;
use crate::workload::ObjectRef;

/// The words of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    /// `status.message` of a denial.
    pub message: String,
    /// Warnings, not yet cut to the length that clients print.
    pub warnings: Vec<String>,
}

/// Words for a verdict.
#[must_use]
pub fn texts(verdict: &Verdict, _object: &ObjectRef) -> Texts {
    let of = |severity: Severity| {
        let findings = verdict
            .findings
            .iter()
            .filter(move |finding| finding.severity == severity);
        findings.map(|finding| format!("{}: {}", finding.code, finding.message))
    };
    let message = if verdict.admit {
        String::new()
    } else {
        of(Severity::Error).collect::<Vec<_>>().join("\n")
    };
    Texts {
        message,
        warnings: of(Severity::Warning).collect(),
    }
}
