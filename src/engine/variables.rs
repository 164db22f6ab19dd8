//! Variables that an image turns into options: by a policy, or because its start script is known.

use std::borrow::Cow;

use super::reader::Context;
use crate::invocation::{Certainty, Item, Word};

/// Options that the image takes from variables, put before the word at `at`, where those of the command line begin, which
/// win. `known` are names of variables of a known start script with the option of each; those of a policy come after
/// them. `is_flag` says of an option whether it takes no value.
pub(super) fn put<'w>(
    context: &Context<'w>,
    words: &[Word<'w>],
    at: usize,
    known: Vec<(String, String)>,
    is_flag: &dyn Fn(&str) -> bool,
) -> Option<Vec<Word<'w>>> {
    let mut pairs = known;
    let declared = context.rule.into_iter().flat_map(|rule| &rule.variables);
    pairs.extend(declared.map(|(name, option)| (name.clone(), option.clone())));
    let variables = context.invocation.environment.variables();
    let mut more = Vec::new();
    for (name, option) in &pairs {
        let Some(index) = context.invocation.environment.position(name) else {
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
            // Every device of the container.
            Ok(value) if value == "max" && option == "--tensor-parallel-size" => {
                let slots = context.slots().unwrap_or(1);
                (format!("{option}={slots}"), Certainty::Known, None)
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
        more.push(Word {
            text: Cow::Owned(text),
            certainty,
            item: Item::Variable(index),
            reason,
            ..Word::literal("")
        });
    }
    if more.is_empty() {
        return None;
    }
    let mut all = words.to_vec();
    all.splice(at..at, more);
    Some(all)
}
