//! The differences for people.

use std::fmt::Write as _;

use comfy_table::Table;

use super::{Change, Differences, Side, Word};
use crate::cli::output::clean;
use crate::finding::Severity;

pub(super) fn render(differences: &Differences) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    for device in &differences.devices {
        let line = format!(
            "node {}: {} ({} -> {})",
            device.node,
            device.changes.join("; "),
            device.old_policy,
            device.new_policy
        );
        let _ = writeln!(text, "{}", clean(&line));
    }
    if !differences.items.is_empty() {
        let mut table = Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_header(["OBJECT", "OLD", "NEW"]);
        for row in &differences.items {
            let object = &row.object;
            let name = format!("{} {}/{}", object.kind, object.namespace, object.name);
            table.add_row([name, short(&row.old), short(&row.new)].map(|cell| clean(&cell)));
        }
        for line in table.lines() {
            let _ = writeln!(text, "{}", line.trim());
        }
        for row in differences
            .items
            .iter()
            .filter(|row| row.change == Change::AdmitToDeny)
        {
            let object = &row.object;
            let name = format!("{} {}/{}", object.kind, object.namespace, object.name);
            let errors = row
                .new
                .findings
                .iter()
                .filter(|told| told.severity == Severity::Error);
            for told in errors {
                let _ = writeln!(text, "{}", clean(&format!("{name}: {}", told.message)));
            }
        }
    }
    let of = |change| {
        differences
            .items
            .iter()
            .filter(|row| row.change == change)
            .count()
    };
    let _ = writeln!(
        text,
        "{} from admit to deny, {} from deny to admit, {} with other findings, {} the same",
        of(Change::AdmitToDeny),
        of(Change::DenyToAdmit),
        of(Change::Findings),
        differences.same
    );
    text
}

fn short(side: &Side) -> String {
    let mut text = match side.verdict {
        Word::Admit if side.would_deny => "admit (would deny)".to_owned(),
        Word::Admit => "admit".to_owned(),
        Word::Deny => "deny".to_owned(),
    };
    for told in &side.findings {
        let word = match told.severity {
            Severity::Warning => " warning",
            Severity::Error | Severity::Info => "",
        };
        let _ = write!(text, "{word} {}", told.code);
    }
    text
}
