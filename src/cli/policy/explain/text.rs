//! The explanation for people.

use std::fmt::Write as _;

use comfy_table::Table;

use super::values::BUILT_IN;
use super::{Considered, Explained, Explanation, InUse, There};
use crate::cli::output::clean;

/// Nodes that are named.
const MOST_NAMES: usize = 4;

pub(super) fn render(explanation: &Explanation, all: bool) -> String {
    let mut text = String::new();
    for item in &explanation.items {
        one(&mut text, item);
    }
    for policy in &explanation.policies {
        values(&mut text, policy, all);
    }
    text
}

fn one(text: &mut String, item: &Explained) {
    let object = &item.object;
    let name = if object.namespace.is_empty() {
        format!("{} {}", object.kind, object.name)
    } else {
        format!("{} {}/{}", object.kind, object.namespace, object.name)
    };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}", clean(&name));
    for there in &item.places {
        place(text, there);
    }
}

fn place(text: &mut String, there: &There) {
    let place = match there.nodes.as_slice() {
        [] => "before a node is known (engines, models, sources, access)".to_owned(),
        nodes => {
            let named: Vec<&str> = nodes.iter().take(MOST_NAMES).map(String::as_str).collect();
            let more = match nodes.len().saturating_sub(MOST_NAMES) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("on {}{more}", named.join(", "))
        }
    };
    if let Some(policy) = &there.policy {
        let _ = writeln!(text, "  {}: {}", clean(&place), clean(policy));
        considered(text, &there.considered);
    }
    if let Some(policy) = &there.device_policy {
        let whose = if there.policy.is_some() {
            "    its devices".to_owned()
        } else {
            format!("  devices {place}")
        };
        let _ = writeln!(text, "{}: {}", clean(&whose), clean(policy));
        if there.policy.is_none() {
            considered(text, &there.considered_for_devices);
        }
    }
}

fn considered(text: &mut String, all: &[Considered]) {
    for one in all {
        let line = one.place.line.map(|line| format!(":{line}")).unwrap_or_default();
        let line = format!(
            "    {} {} (priority {}, {}{line}): {}",
            if one.applies { "yes" } else { "no " },
            one.policy,
            one.priority,
            one.place.file,
            one.reason
        );
        let _ = writeln!(text, "{}", clean(&line));
    }
    if all.last().is_none_or(|last| !last.applies) {
        let _ = writeln!(text, "    yes built-in-default: nothing else matches");
    }
}

fn values(text: &mut String, policy: &InUse, all: bool) {
    let _ = writeln!(text, "\nvalues of {}", clean(&policy.policy));
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    let mut left = 0;
    for value in &policy.values {
        if value.origin == BUILT_IN && !all {
            left += 1;
            continue;
        }
        table.add_row([&value.field, &value.value, &value.origin].map(|cell| clean(cell)));
    }
    for line in table.lines() {
        let _ = writeln!(text, "  {}", line.trim());
    }
    if left > 0 {
        let _ = writeln!(text, "  {left} from the built-in default (--all shows them)");
    }
    if !policy.devices {
        text.push_str("  spec.device: from the policy of the devices\n");
    }
}
