//! Variables that an image turns into options: by a policy, or because its start script is known.

use std::borrow::Cow;

use super::super::options::{self, Entrypoint};
use super::super::{Start, wrapper};
use crate::engine::reader::Context;
use crate::invocation::{Certainty, Word};

/// Options that the image takes from variables, put before those of the command line, which win.
pub(super) fn put<'w>(
    context: &Context<'w>,
    words: &[Word<'w>],
    entrypoint: Entrypoint,
    start: Start,
) -> (Option<Vec<Word<'w>>>, Vec<(usize, usize)>) {
    let mut pairs = wrapper::variables(start, context);
    let declared = context.rule.into_iter().flat_map(|rule| &rule.variables);
    pairs.extend(declared.map(|(name, option)| (name.clone(), option.clone())));
    if pairs.is_empty() {
        return (None, Vec::new());
    }
    let at = match entrypoint {
        Entrypoint::ApiServer => 0,
        Entrypoint::Serve if words.get(1).is_some_and(|word| !word.text.starts_with('-')) => 2,
        Entrypoint::Serve => 1.min(words.len()),
    };
    let mut more = Vec::new();
    let mut from = Vec::new();
    for (name, option) in &pairs {
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
            Ok(value) if is_flag(&option, entrypoint) => {
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

fn is_flag(option: &str, entrypoint: Entrypoint) -> bool {
    let newest = options::releases().len().saturating_sub(1);
    options::release(newest, entrypoint)
        .and_then(|release| release.named(option))
        .is_some_and(|option| option.arity == options::Arity::Flag)
}

/// Options that a reading depends on.
const READ: [&str; 32] = [
    "--gpu-memory-utilization",
    "--kv-cache-memory-bytes",
    "--num-gpu-blocks-override",
    "--tensor-parallel-size",
    "--pipeline-parallel-size",
    "--prefill-context-parallel-size",
    "--decode-context-parallel-size",
    "--data-parallel-size",
    "--data-parallel-size-local",
    "--data-parallel-rank",
    "--data-parallel-external-lb",
    "--data-parallel-hybrid-lb",
    "--data-parallel-backend",
    "--nnodes",
    "--node-rank",
    "--headless",
    "--distributed-executor-backend",
    "--max-model-len",
    "--max-num-seqs",
    "--max-num-batched-tokens",
    "--dtype",
    "--quantization",
    "--kv-cache-dtype",
    "--model",
    "--served-model-name",
    "--config",
    "--enforce-eager",
    "--compilation-config",
    "--optimization-level",
    "--device",
    "--load-format",
    "--speculative-config",
];

/// The words without those that are one of several known texts, none of which sets anything that is read here.
pub(super) fn without_effect<'w>(words: &[Word<'w>], entrypoint: Entrypoint) -> Option<Vec<Word<'w>>> {
    let newest = options::releases().len().saturating_sub(1);
    let release = options::release(newest, entrypoint)?;
    let harmless = |text: &String| {
        let mut after_option = false;
        text.split_whitespace().all(|part| {
            if !part.starts_with('-') {
                return after_option;
            }
            after_option = true;
            let name = part.split('=').next().unwrap_or(part).replace('_', "-");
            // An abbreviation could be any option.
            release.named(&name).is_some() && !READ.contains(&name.as_str()) && name.starts_with("--")
        })
    };
    let has_none = |word: &Word<'_>| {
        word.certainty == Certainty::Many
            && !word.alternatives.is_empty()
            && word.alternatives.iter().all(harmless)
    };
    words
        .iter()
        .any(has_none)
        .then(|| words.iter().filter(|word| !has_none(word)).cloned().collect())
}
