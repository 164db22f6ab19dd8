//! The answer to a review.
//!
//! Our own types, not kube's: the patch is a base64 string as the API's documentation has it, and there is a `status`
//! only where there is something to say.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use json_patch::PatchOperation;
use serde::Serialize;

use super::review::{API_VERSION, KIND};
use crate::decision::Verdict;
use crate::finding::{Code, FieldPath, Severity};
use crate::message;
use crate::workload::{Malformed, ObjectRef};

/// Warnings in one answer; more are noise in a terminal.
const MOST_WARNINGS: usize = 3;
/// Characters of one warning: the API server drops what is much longer, and clients wrap what is longer.
const LONGEST_WARNING: usize = 120;
/// Characters of `status.message`: enough for every finding of a large pod, and no way to flood an event.
const LONGEST_MESSAGE: usize = 16_384;
/// Characters of the message of one cause.
const LONGEST_CAUSE: usize = 2_048;
/// Characters of a field path: names of resources and annotations are part of it, and are as long as their writer likes.
const LONGEST_FIELD: usize = 1_024;
/// Seconds after which a client tries again where the ledger was in the way.
const RETRY_AFTER_SECONDS: u32 = 1;
/// Causes in one answer.
const MOST_CAUSES: usize = 64;

/// One answer, complete. It borrows only what it prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "Audit::is_empty")]
    audit_annotations: Audit,
}

#[derive(Debug, Serialize)]
struct Status<'a> {
    #[serde(rename = "status")]
    outcome: &'static str,
    code: u16,
    reason: &'static str,
    message: String,
    details: Details<'a>,
}

#[derive(Debug, Serialize)]
struct Details<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    kind: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<Cause>,
    #[serde(rename = "retryAfterSeconds", skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<u32>,
}

#[derive(Debug, Serialize)]
struct Cause {
    reason: &'static str,
    message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    field: String,
}

/// Annotations of the audit event. The API server puts the webhook's name before each key, so keys are short.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Audit {
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<&'static str>,
    #[serde(skip_serializing_if = "String::is_empty")]
    codes: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    denied_by: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    policy: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<&'static str>,
    #[serde(skip_serializing_if = "String::is_empty")]
    node: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    promised_after: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    budget: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    unmodelled: &'static str,
}

impl Audit {
    fn is_empty(&self) -> bool {
        self.verdict.is_none()
    }
}

impl<'a> Answer<'a> {
    /// Lets pass what is none of ours.
    #[must_use]
    pub fn admit(uid: &'a str) -> Self {
        Self::new(uid, true, None)
    }

    /// Lets pass with one thing to say.
    #[must_use]
    pub fn admit_with_warning(uid: &'a str, text: &str) -> Self {
        let mut answer = Self::admit(uid);
        answer.response.warnings = vec![warning(text)];
        answer
    }

    /// What a verdict says.
    #[must_use]
    pub fn of(uid: &'a str, object: &'a ObjectRef, verdict: &Verdict) -> Self {
        if let (false, Some(malformed)) = (verdict.admit, &verdict.malformed) {
            return Self::malformed(uid, object, malformed);
        }
        let status = (!verdict.admit).then(|| {
            let again = is_to_be_tried_again(verdict);
            let mut details = Details::of(object, causes(verdict));
            details.retry_after_seconds = again.then_some(RETRY_AFTER_SECONDS);
            Status {
                outcome: "Failure",
                code: if again { 503 } else { 403 },
                reason: if again { "ServiceUnavailable" } else { "Forbidden" },
                message: not_empty(message::cut(&message::refusal(verdict), LONGEST_MESSAGE)),
                details,
            }
        });
        let mut answer = Self::new(uid, verdict.admit, status);
        let warnings = message::warnings(verdict);
        answer.response.warnings = warnings
            .iter()
            .take(MOST_WARNINGS)
            .map(|text| warning(text))
            .collect();
        answer.response.audit_annotations = audit(verdict);
        if verdict.admit {
            answer.patch(&verdict.patches);
        }
        answer
    }

    /// Lets pass with changes.
    #[must_use]
    pub fn admit_with_patches(uid: &'a str, patches: &[PatchOperation]) -> Self {
        let mut answer = Self::admit(uid);
        answer.patch(patches);
        answer
    }

    fn patch(&mut self, patches: &[PatchOperation]) {
        if patches.is_empty() {
            return;
        }
        // Operations are plain data: a failure to print them is impossible, and leaving them out changes nothing.
        if let Ok(operations) = serde_json::to_vec(patches) {
            self.response.patch = Some(STANDARD.encode(operations));
            self.response.patch_type = Some("JSONPatch");
        }
    }

    /// Refuses an object that cannot be read (422), as the API server's own validation does.
    #[must_use]
    pub fn malformed(uid: &'a str, object: &'a ObjectRef, malformed: &Malformed) -> Self {
        let message = message::first_line(&malformed.to_string());
        let cause = Cause {
            reason: "FieldValueInvalid",
            message: message::cut(&message::one_line(&malformed.message), LONGEST_MESSAGE),
            field: message::cut(&message::one_line(&malformed.path), LONGEST_FIELD),
        };
        let status = Status {
            outcome: "Failure",
            code: 422,
            reason: "Invalid",
            message,
            details: Details::of(object, vec![cause]),
        };
        Self::new(uid, false, Some(status))
    }

    /// Refuses because of a fault of our own, with the code that tells clients to try again.
    #[must_use]
    pub fn fault(uid: &'a str, object: &'a ObjectRef, message: &str) -> Self {
        let status = Status {
            outcome: "Failure",
            code: 500,
            reason: "InternalError",
            message: message.to_owned(),
            details: Details::of(object, Vec::new()),
        };
        Self::new(uid, false, Some(status))
    }

    /// Refuses for a reason of our own that is no finding of the object (inventory not ready, deadline passed).
    #[must_use]
    pub fn refuse(uid: &'a str, object: &'a ObjectRef, code: Code, message: &str) -> Self {
        let cause = Cause {
            reason: code.as_str(),
            message: message.to_owned(),
            field: String::new(),
        };
        let status = Status {
            outcome: "Failure",
            code: 403,
            reason: "Forbidden",
            message: format!("{code}: {message}"),
            details: Details::of(object, vec![cause]),
        };
        let mut answer = Self::new(uid, false, Some(status));
        answer.response.audit_annotations = Audit {
            verdict: Some("deny"),
            codes: code.to_string(),
            denied_by: code.to_string(),
            ..Audit::default()
        };
        answer
    }

    /// The answer as JSON.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        // Strings and integers only: there is nothing that the printer could refuse.
        serde_json::to_vec(self).unwrap_or_default()
    }

    fn new(uid: &'a str, allowed: bool, status: Option<Status<'a>>) -> Self {
        Self {
            api_version: API_VERSION,
            kind: KIND,
            response: Response {
                uid,
                allowed,
                status,
                patch: None,
                patch_type: None,
                warnings: Vec::new(),
                audit_annotations: Audit::default(),
            },
        }
    }
}

impl<'a> Details<'a> {
    fn of(object: &'a ObjectRef, causes: Vec<Cause>) -> Self {
        let group = object.api_version.split_once('/').map_or("", |(group, _)| group);
        Self {
            name: &object.name,
            group,
            kind: &object.kind,
            causes,
            retry_after_seconds: None,
        }
    }
}

/// Whether nothing is wrong with the object: the ledger could not keep it straight at this moment (VG902). The API server
/// makes a `Retry-After` header of the seconds, and client-go sends such a request again by itself.
fn is_to_be_tried_again(verdict: &Verdict) -> bool {
    let mut errors = verdict
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .peekable();
    errors.peek().is_some() && errors.all(|finding| finding.code == Code::Vg902)
}

/// Errors first, then the rest, so that a client that prints only some prints those that deny.
fn causes(verdict: &Verdict) -> Vec<Cause> {
    let errors = verdict
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error);
    let others = verdict
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Warning);
    let cause = |finding: &crate::finding::Finding| Cause {
        reason: finding.code.as_str(),
        message: message::cut(&message::one_line(&finding.message), LONGEST_CAUSE),
        field: message::cut(
            &message::one_line(FieldPath::as_str(&finding.path)),
            LONGEST_FIELD,
        ),
    };
    errors.chain(others).take(MOST_CAUSES).map(cause).collect()
}

fn audit(verdict: &Verdict) -> Audit {
    if !verdict.judged {
        return Audit::default();
    }
    let mut codes: Vec<&str> = verdict
        .findings
        .iter()
        .map(|finding| finding.code.as_str())
        .collect();
    codes.sort_unstable();
    codes.dedup();
    let fullest = verdict
        .placement
        .iter()
        .max_by_key(|row| (row.promised_fraction, row.promised));
    let outcome = match (verdict.admit, verdict.would_deny) {
        (true, true) => "would-deny",
        (true, false) => "admit",
        (false, _) => "deny",
    };
    Audit {
        verdict: Some(outcome),
        codes: codes.join(","),
        denied_by: joined(&verdict.denied_by),
        policy: verdict.policy.clone(),
        evidence: fullest.map(|row| row.evidence.as_str()),
        node: fullest.map(|row| row.node.clone()).unwrap_or_default(),
        promised_after: fullest
            .map(|row| format!("{} MiB", row.promised.get()))
            .unwrap_or_default(),
        budget: fullest
            .map(|row| format!("{} MiB", row.budget.get()))
            .unwrap_or_default(),
        unmodelled: verdict.unmodelled,
    }
}

fn joined(codes: &[Code]) -> String {
    let codes: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
    codes.join(",")
}

/// An event without a text helps nobody: a denial always has one.
fn not_empty(message: String) -> String {
    if message.is_empty() {
        "vramgate denies this object; details.causes says why".to_owned()
    } else {
        message
    }
}

/// A warning travels in an HTTP header: one line, no control characters, at most [`LONGEST_WARNING`] characters.
fn warning(text: &str) -> String {
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    message::cut(line.trim(), LONGEST_WARNING)
}

#[cfg(test)]
mod tests;
