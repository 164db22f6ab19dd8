//! Variables that a policy says an image turns into options.

use std::borrow::Cow;

use super::reader::Context;
use crate::invocation::{Certainty, Word};

/// Options that a policy says the image takes from variables, put before the word at `at`, where those of the command
/// line begin, which win. `is_flag` says of an option whether it takes no value.
pub(super) fn put<'w>(
    context: &Context<'w>,
    words: &[Word<'w>],
    at: usize,
    is_flag: &dyn Fn(&str) -> bool,
) -> (Option<Vec<Word<'w>>>, Vec<(usize, usize)>) {
    let Some(rule) = context.rule.filter(|rule| !rule.variables.is_empty()) else {
        return (None, Vec::new());
    };
    let mut more = Vec::new();
    let mut from = Vec::new();
    for (name, option) in &rule.variables {
        let variables = context.invocation.environment.variables();
        let Some(index) = variables.iter().rposition(|variable| variable.name == *name) else {
            continue;
        };
        let option = if option.starts_with('-') {
            option.clone()
        } else {
            format!("--{option}")
        };
        let (text, certainty, reason) = match &variables[index].value {
            Ok(value) if is_flag(&option) => {
                if !matches!(
                    value.trim().to_ascii_lowercase().as_str(),
                    "1" | "true" | "yes" | "on"
                ) {
                    continue;
                }
                (option, Certainty::Known, None)
            }
            Ok(value) => (format!("{option}={value}"), Certainty::Known, None),
            Err(reason) => {
                let known = option.len() + 1;
                (
                    format!("{option}="),
                    Certainty::From(known),
                    Some(Cow::Owned(reason.clone())),
                )
            }
        };
        from.push((at + more.len(), index));
        more.push(Word {
            text: Cow::Owned(text),
            certainty,
            reason,
            ..Word::literal("")
        });
    }
    if more.is_empty() {
        return (None, Vec::new());
    }
    let mut all = words.to_vec();
    all.splice(at..at, more);
    (Some(all), from)
}
