//! The text of `check` for people: a line for each object, then why, who holds what, and what to change.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use super::Judged;
use crate::cli::output::{Paint, clean};
use crate::decision::PlacementRow;
use crate::finding::Severity;
use crate::message;

/// Under the name of the object.
const INDENT: &str = "       ";

/// The whole report.
pub(super) fn render(items: &[Judged], paint: Paint) -> String {
    if items.is_empty() {
        return "No object asks for a GPU; nothing was judged.\n".to_owned();
    }
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = items
        .iter()
        .try_for_each(|item| object(&mut text, item, paint))
        .and_then(|()| summary(&mut text, items));
    text
}

fn object(text: &mut String, item: &Judged, paint: Paint) -> fmt::Result {
    let verdict = if item.verdict.admit {
        paint.good("admit")
    } else {
        paint.bad("deny ")
    };
    let object = &item.object;
    let name = clean(&format!("{} {}/{}", object.kind, object.namespace, object.name));
    writeln!(text, "{verdict}  {name}")?;
    for line in message::report(&item.verdict, INDENT).lines() {
        writeln!(text, "{}", clean(line))?;
    }
    item.verdict
        .placement
        .iter()
        .try_for_each(|row| place(text, row))?;
    let told = |finding: &crate::finding::Finding| {
        let mut details = finding.details.iter();
        details.any(|detail| detail == item.verdict.unmodelled)
    };
    match item.verdict.unmodelled {
        "" => Ok(()),
        _ if item.verdict.findings.iter().any(told) => Ok(()),
        sentence => writeln!(text, "{INDENT}{sentence}"),
    }
}

fn place(text: &mut String, row: &PlacementRow) -> fmt::Result {
    writeln!(
        text,
        "{INDENT}on {} {}: {} of {} MiB promised, {} of {} (evidence: {})",
        clean(&row.node),
        clean(row.device.as_deref().unwrap_or("(one of its devices)")),
        row.promised.get(),
        row.budget.get(),
        row.promised_fraction,
        row.budget_fraction,
        row.evidence.as_str(),
    )
}

fn summary(text: &mut String, items: &[Judged]) -> fmt::Result {
    let admitted = items.iter().filter(|item| item.verdict.admit).count();
    let findings = items.iter().flat_map(|item| &item.verdict.findings);
    let warnings = findings
        .filter(|finding| finding.severity == Severity::Warning)
        .count();
    let plural = if warnings == 1 { "" } else { "s" };
    let denied = items.len() - admitted;
    writeln!(
        text,
        "{admitted} admitted, {denied} denied, {warnings} warning{plural}"
    )?;
    // The same sentence holds for every object of a policy; once is enough.
    let promises: BTreeSet<&str> = items.iter().map(|item| item.verdict.promise).collect();
    promises
        .into_iter()
        .filter(|promise| !promise.is_empty())
        .try_for_each(|promise| writeln!(text, "{promise}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::Verdict;
    use crate::finding::{Code, FieldPath, Finding};
    use crate::policy::Evidence;
    use crate::units::{Mib, Share};
    use crate::workload::ObjectRef;

    fn judged(name: &str, verdict: Verdict) -> Judged {
        let object = ObjectRef {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: "llm".into(),
            name: name.into(),
        };
        Judged { object, verdict }
    }

    #[test]
    fn verdicts_read_top_down_and_the_promise_stands_once() {
        let row = PlacementRow {
            node: "gpu-node-1".into(),
            device: Some("nvidia.com/gpu[0]".into()),
            evidence: Evidence::Observed,
            promised: Mib::new(73_404),
            budget: Mib::new(73_403),
            promised_fraction: Share::from_ppm(900_000),
            budget_fraction: Share::from_ppm(900_000),
        };
        let promise = "all admitted pods can be placed together";
        let finding = Finding::new(
            Code::Vg201,
            FieldPath::new("spec.containers[0].args[1]"),
            "no room",
        );
        let denied = Verdict {
            findings: vec![finding],
            promise,
            ..Verdict::default()
        };
        let admitted = Verdict {
            admit: true,
            placement: vec![row],
            promise,
            ..Verdict::default()
        };
        let text = render(
            &[judged("chat-c", admitted), judged("chat-d", denied)],
            Paint::PLAIN,
        );
        assert_eq!(
            text,
            "\
admit  Pod llm/chat-c
       on gpu-node-1 nvidia.com/gpu[0]: 73404 of 73403 MiB promised, 0.90 of 0.90 (evidence: observed)
deny   Pod llm/chat-d
       error VG201: no room
         at spec.containers[0].args[1]
         see: docs/codes/VG201.md
1 admitted, 1 denied, 0 warnings
all admitted pods can be placed together
"
        );
    }

    #[test]
    fn names_cannot_write_to_the_terminal() {
        let verdict = Verdict {
            admit: true,
            ..Verdict::default()
        };
        let text = render(&[judged("a\u{1b}[2Jb\n", verdict)], Paint::PLAIN);
        assert!(
            text.starts_with("admit  Pod llm/a\u{fffd}[2Jb\u{fffd}\n"),
            "{text:?}"
        );
    }

    #[test]
    fn nothing_to_judge_says_so() {
        assert_eq!(
            render(&[], Paint::PLAIN),
            "No object asks for a GPU; nothing was judged.\n"
        );
    }
}
