//! What came of a case, in the words of its blocks.

use std::fmt::{self, Write as _};

use super::Aspect;
use crate::decision::Verdict;
use crate::finding::Severity;
use crate::message;
use crate::workload::ObjectRef;

/// What came of a case, as its blocks are to say it.
#[must_use]
pub fn outcome(aspect: Aspect, items: &[(ObjectRef, Verdict)]) -> String {
    let mut text = String::new();
    if items.is_empty() {
        // A case that judges nothing says so, instead of passing by being empty.
        return "no object asks for a GPU\n".to_owned();
    }
    for (object, verdict) in items {
        // Writing to a string cannot fail.
        let _ = match aspect {
            Aspect::Verdict => writeln!(text, "{}", in_one_line(object, verdict)),
            Aspect::Text => whole(&mut text, object, verdict),
            Aspect::Patch => patch(&mut text, verdict),
        };
    }
    if aspect == Aspect::Patch && text.is_empty() {
        return "nothing is changed\n".to_owned();
    }
    text
}

fn word(verdict: &Verdict) -> &'static str {
    if verdict.admit { "admit" } else { "deny" }
}

/// `deny Pod llm/chat: VG201, warning VG103`.
#[must_use]
pub fn in_one_line(object: &ObjectRef, verdict: &Verdict) -> String {
    let name = format!("{} {}/{}", object.kind, object.namespace, object.name);
    let codes = |severity: Severity| {
        let mut codes: Vec<&str> = Vec::new();
        let found = verdict
            .findings
            .iter()
            .filter(|finding| finding.severity == severity);
        for code in found.map(|finding| finding.code.as_str()) {
            if !codes.contains(&code) {
                codes.push(code);
            }
        }
        codes
    };
    let warning = if verdict.would_deny {
        "would deny"
    } else {
        "warning"
    };
    let errors = codes(Severity::Error).into_iter().map(str::to_owned);
    let warnings = codes(Severity::Warning)
        .into_iter()
        .map(|code| format!("{warning} {code}"));
    let codes: Vec<String> = errors.chain(warnings).collect();
    let line = format!("{} {name}", word(verdict));
    let line = if codes.is_empty() {
        line
    } else {
        format!("{line}: {}", codes.join(", "))
    };
    message::one_line(&line).into_owned()
}

fn whole(text: &mut String, object: &ObjectRef, verdict: &Verdict) -> fmt::Result {
    let name = format!("{} {}/{}", object.kind, object.namespace, object.name);
    writeln!(text, "{} {}", word(verdict), message::one_line(&name))?;
    text.push_str(&message::report(verdict, "  "));
    for row in &verdict.placement {
        writeln!(
            text,
            "  on {} {}: {} of {} promised, {} of {} (evidence: {})",
            message::one_line(&row.node),
            message::one_line(row.device.as_deref().unwrap_or("(one of its devices)")),
            row.promised,
            row.budget,
            row.promised_fraction,
            row.budget_fraction,
            row.evidence.as_str(),
        )?;
    }
    Ok(())
}

fn patch(text: &mut String, verdict: &Verdict) -> fmt::Result {
    for operation in &verdict.patches {
        match serde_json::to_string(operation) {
            Ok(line) => writeln!(text, "{line}")?,
            Err(error) => writeln!(text, "a change that cannot be written: {error}")?,
        }
    }
    Ok(())
}
