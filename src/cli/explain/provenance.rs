//! Where the values of a container come from, in text.

use super::super::output::clean;
use crate::document::ExplainedContainer;
use crate::engine::{Origin, Provenance};

/// One line for each value that somebody wrote, then one for each reason of those that nobody did.
pub(super) fn put(text: &mut String, container: &ExplainedContainer) {
    let written: Vec<(String, String)> = container
        .provenance
        .iter()
        .filter(|one| !one.from.is_default())
        .map(|one| (value(one), place(one, &container.name)))
        .collect();
    let width = written
        .iter()
        .map(|(value, _)| value.chars().count())
        .filter(|width| *width <= WIDEST)
        .max()
        .unwrap_or_default();
    for (value, place) in &written {
        line(text, &format!("{value:width$}   {place}"));
    }
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for one in container.provenance.iter().filter(|one| one.from.is_default()) {
        match reasons.iter_mut().find(|(reason, _)| *reason == one.detail) {
            Some((_, values)) => values.push(value(one)),
            None => reasons.push((&one.detail, vec![value(one)])),
        }
    }
    for (reason, values) in reasons {
        line(
            text,
            &format!("{}, {reason}: {}", container.name, values.join(", ")),
        );
    }
}

/// Values beyond this width do not move the column of places.
const WIDEST: usize = 48;

fn line(text: &mut String, line: &str) {
    text.push_str("    ");
    text.push_str(clean(line).trim_end());
    text.push('\n');
}

fn value(one: &Provenance) -> String {
    match (&one.value, one.from) {
        (Some(value), _) => format!("{} {value}", one.field),
        (None, Origin::Unresolved) => format!("{} unknown", one.field),
        (None, _) => one.field.to_owned(),
    }
}

/// `args[5] of container server: --max-model-len 8192`.
fn place(one: &Provenance, container: &str) -> String {
    let Some(path) = &one.path else {
        return format!("container {container}: {}", one.detail);
    };
    // The list and its index are what the name stands for.
    let below = path.as_str().split_once("].").map_or("", |(_, below)| below);
    if let Some(object) = &one.object {
        return format!("{path} of {object}, for container {container}: {}", one.detail);
    }
    let field = if below.is_empty() { path.as_str() } else { below };
    format!("{field} of container {container}: {}", one.detail)
}
