//! The text of `check` for people: a line for each object, then why, who holds what, and what to change.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use super::places::Item;
use crate::cli::output::{Paint, clean};
use crate::decision::PlacementRow;
use crate::document::ChangeSummary;
use crate::finding::Severity;
use crate::message;
use crate::workload::ObjectRef;

/// Under the name of the object.
const INDENT: &str = "       ";

/// The whole report.
pub(super) fn render(items: &[Item], change: Option<&ChangeSummary>, paint: Paint) -> String {
    if items.is_empty() && change.is_none() {
        return "No object asks for a GPU; nothing was judged.\n".to_owned();
    }
    let mut text = String::new();
    for item in items {
        text.push_str(&object(item, paint));
    }
    // Writing to a string cannot fail.
    let _ =
        summary(&mut text, items).and_then(|()| change.map_or(Ok(()), |change| changes(&mut text, change)));
    text
}

fn changes(text: &mut String, change: &ChangeSummary) -> fmt::Result {
    writeln!(
        text,
        "change: {} new, {} changed, {} removed, {} unchanged",
        change.new,
        change.changed,
        change.removed.len(),
        change.unchanged
    )?;
    let mut removed = change.removed.iter();
    removed.try_for_each(|object| {
        writeln!(
            text,
            "removed: {} (it holds its memory until it is gone)",
            name(object)
        )
    })
}

/// Kind, namespace and name.
pub(super) fn name(object: &ObjectRef) -> String {
    clean(&format!("{} {}/{}", object.kind, object.namespace, object.name))
}

/// One object: its verdict, each finding with its place, where it stands.
pub(super) fn object(item: &Item, paint: Paint) -> String {
    let mut text = String::new();
    let _ = write_object(&mut text, item, paint);
    text
}

fn write_object(text: &mut String, item: &Item, paint: Paint) -> fmt::Result {
    let Item { judged, places, .. } = item;
    let verdict = if judged.verdict.admit {
        paint.good("admit")
    } else {
        paint.bad("deny ")
    };
    match &judged.change {
        Some(change) => writeln!(
            text,
            "{verdict}  {} ({})",
            name(&judged.object),
            change.kind.as_str()
        )?,
        None => writeln!(text, "{verdict}  {}", name(&judged.object))?,
    }
    if let Some(change) = &judged.change {
        for container in &change.containers {
            writeln!(text, "{INDENT}change: {}", clean(&container.to_string()))?;
        }
        if !change.through.is_empty() {
            writeln!(
                text,
                "{INDENT}through ConfigMap {}",
                clean(&change.through.join(", "))
            )?;
        }
        if let Some(first) = &change.first {
            writeln!(text, "{INDENT}{}", clean(first))?;
        }
    }
    let at = |index: usize| places.get(index).map(ToString::to_string);
    for line in message::report_at(&judged.verdict, INDENT, &at).lines() {
        writeln!(text, "{}", clean(line))?;
    }
    let mut rows = judged.verdict.placement.iter();
    rows.try_for_each(|row| place(text, row))?;
    let told = |finding: &crate::finding::Finding| {
        let mut details = finding.details.iter();
        details.any(|detail| detail == judged.verdict.unmodelled)
    };
    match judged.verdict.unmodelled {
        "" => Ok(()),
        _ if judged.verdict.findings.iter().any(told) => Ok(()),
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

/// How many were admitted and denied, as a line.
pub(super) fn summary_line(items: &[Item]) -> String {
    let verdicts = || items.iter().map(|item| &item.judged.verdict);
    let admitted = verdicts().filter(|verdict| verdict.admit).count();
    let findings = verdicts().flat_map(|verdict| &verdict.findings);
    let warnings = findings
        .filter(|finding| finding.severity == Severity::Warning)
        .count();
    let plural = if warnings == 1 { "" } else { "s" };
    let denied = items.len() - admitted;
    format!("{admitted} admitted, {denied} denied, {warnings} warning{plural}\n")
}

fn summary(text: &mut String, items: &[Item]) -> fmt::Result {
    text.push_str(&summary_line(items));
    // The same sentence holds for every object of a policy; once is enough.
    let promises: BTreeSet<&str> = items.iter().map(|item| item.judged.verdict.promise).collect();
    promises
        .into_iter()
        .filter(|promise| !promise.is_empty())
        .try_for_each(|promise| writeln!(text, "{promise}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::Judged;
    use crate::decision::Verdict;
    use crate::document::Position;
    use crate::finding::{Code, FieldPath, Finding};
    use crate::manifest::Origin;
    use crate::policy::Evidence;
    use crate::units::{Mib, Share};

    fn judged(name: &str, verdict: Verdict) -> Item {
        let object = ObjectRef {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: "llm".into(),
            name: name.into(),
        };
        let position = |line, column| Position {
            file: "pods.yaml".into(),
            line,
            column,
            end_line: None,
            end_column: None,
            template: None,
        };
        Item {
            places: verdict.findings.iter().map(|_| position(12, Some(9))).collect(),
            position: position(1, None),
            judged: Judged {
                object,
                verdict,
                change: None,
                origin: Origin {
                    source: "pods.yaml".into(),
                    line: 1,
                    item: String::new(),
                    bytes: 0..0,
                },
            },
        }
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
            None,
            Paint::PLAIN,
        );
        assert_eq!(
            text,
            "\
admit  Pod llm/chat-c
       on gpu-node-1 nvidia.com/gpu[0]: 73404 of 73403 MiB promised, 0.90 of 0.90 (evidence: observed)
deny   Pod llm/chat-d
       error VG201: no room
         at pods.yaml:12:9 (spec.containers[0].args[1])
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
        let text = render(&[judged("a\u{1b}[2Jb\n", verdict)], None, Paint::PLAIN);
        assert!(
            text.starts_with("admit  Pod llm/a\u{fffd}[2Jb\u{fffd}\n"),
            "{text:?}"
        );
    }

    #[test]
    fn nothing_to_judge_says_so() {
        assert_eq!(
            render(&[], None, Paint::PLAIN),
            "No object asks for a GPU; nothing was judged.\n"
        );
    }
}
