//! What to tell about a command line that the engine's parser refuses.

use std::borrow::Cow;

use super::argparse::ParseError;
use super::argparse::value::{Refusal, Value};
use super::line::LineView;
use super::near;
use super::reader::Context;
use crate::finding::{Code, FieldPath, Finding};
use crate::invocation::{Certainty, Word};

/// VG104: an item of an exec-form list that holds several words.
pub(super) fn several_words(context: &Context<'_>, line: &LineView<'_, '_>) -> Option<Finding> {
    if !line.split {
        return None;
    }
    first_with_several(context).or_else(|| first_parts(context, line.words))
}

/// VG104 for the first item that holds several words.
pub(super) fn first_with_several(context: &Context<'_>) -> Option<Finding> {
    let container = context.placed.container;
    let lists = [("command", &container.command), ("args", &container.args)];
    for (list, items) in lists {
        for (index, text) in items.iter().flatten().enumerate() {
            if holds_several(text) {
                let path = context.path.field(list).index(index);
                let shown: String = text.chars().take(80).collect();
                let message = format!(
                    "{shown:?} is one argument to the engine, not several; write each word as an item of its own"
                );
                return Some(Finding::new(Code::Vg104, path, message));
            }
        }
    }
    None
}

/// VG104 for a variable, perhaps in quotes of a script, that stands for several words.
fn first_parts(context: &Context<'_>, words: &[Word<'_>]) -> Option<Finding> {
    let mut parts = words.iter().skip_while(|word| !word.is_part).peekable();
    let word = *parts.peek()?;
    let parts = parts.take_while(|part| part.is_part && part.item == word.item);
    let parts: Vec<&str> = parts.map(|part| &*part.text).collect();
    let shown: String = parts.join(" ").chars().take(80).collect();
    let message = format!(
        "{shown:?} is one argument to the engine, not several; give each word as an argument of its own"
    );
    Some(Finding::new(Code::Vg104, word.path(&context.path), message))
}

/// Whether an item begins like an option and goes on after a space.
fn holds_several(text: &str) -> bool {
    let text = text.trim_start();
    match text.split_once([' ', '\n']) {
        Some((first, rest)) => {
            !rest.trim().is_empty()
                && first.starts_with('-')
                && first.len() > 1
                && (!first.contains('=') || rest.trim_start().starts_with("--"))
                && first.bytes().skip(1).any(|b| b.is_ascii_alphabetic())
        }
        None => false,
    }
}

/// The option's name at the beginning of an item.
fn option_name(text: &str) -> &str {
    let first = text.split_whitespace().next().unwrap_or_default();
    first.split_once('=').map_or(first, |(name, _)| name)
}

/// The words that were meant, where an item holds several; `None` where each item is one.
pub(super) fn split_items<'w>(words: &[Word<'w>], is_option: &dyn Fn(&str) -> bool) -> Option<Vec<Word<'w>>> {
    let splits = |word: &Word<'_>| {
        word.certainty == Certainty::Known && holds_several(&word.text) && is_option(option_name(&word.text))
    };
    if !words.iter().any(splits) {
        return None;
    }
    let mut out = Vec::with_capacity(words.len() + 8);
    for word in words {
        if splits(word) {
            for part in word.text.split_whitespace() {
                let part = part.trim_matches(['"', '\'']);
                out.push(Word {
                    text: Cow::Owned(part.to_owned()),
                    span: None,
                    is_part: true,
                    ..word.clone()
                });
            }
        } else {
            out.push(word.clone());
        }
    }
    Some(out)
}

/// VG107 about what this release refuses, and VG108 about every option that is nearly one of its own: the parser names the
/// first fault only.
///
/// `near` gives the option that a misspelt one was meant to be.
pub(super) fn refused<'k>(
    context: &Context<'_>,
    line: &LineView<'_, '_>,
    error: &ParseError,
    near: &dyn Fn(&str) -> Option<&'k str>,
) -> Vec<Finding> {
    let mut findings = vec![refused_option(context, line, error, near)];
    if let ParseError::Unrecognized(words) = error {
        let engine = format!("{} {}", line.engine, line.parsed.release);
        findings.extend(near::options(context, &engine, line.words, words, near));
    }
    findings
}

/// The word of those that a release does not know that is told: the first option, else the first one.
fn first_option(words: &[String]) -> &str {
    let word = words.iter().find(|word| word.starts_with('-')).or(words.first());
    word.map_or("", String::as_str)
}

fn name_of(word: &str) -> &str {
    word.split('=').next().unwrap_or_default()
}

/// VG107: an option that this release refuses.
fn refused_option<'k>(
    context: &Context<'_>,
    line: &LineView<'_, '_>,
    error: &ParseError,
    near: &dyn Fn(&str) -> Option<&'k str>,
) -> Finding {
    let (engine, release) = (line.engine, line.parsed.release);
    let refused = line
        .parsed
        .settings
        .iter()
        .find(|setting| matches!(setting.value, Value::Refused(_)));
    let place = |text: &str| -> FieldPath {
        let found = line.words.iter().find(|word| {
            let name = word.text.split_once('=').map_or(&*word.text, |(name, _)| name);
            *word.text == *text
                || name.replace('_', "-") == text.split_once('=').map_or(text, |(name, _)| name)
        });
        found.map_or_else(|| context.path.field("args"), |word| word.path(&context.path))
    };
    let (word, message) = match error {
        ParseError::Ambiguous(word) => (
            word.as_str(),
            format!("{word} is a prefix of several options of {engine} {release}; write the option in full"),
        ),
        ParseError::Unrecognized(words) => {
            let word = first_option(words);
            let name = name_of(word);
            let remedy = match near(name).filter(|_| name.starts_with('-')) {
                Some(meant) => format!("write {meant}"),
                None => "remove or correct it".to_owned(),
            };
            (
                word,
                format!("{engine} {release} does not know {word:?} and does not start with it; {remedy}"),
            )
        }
        ParseError::InvalidValue {
            option,
            text,
            refusal,
        } => {
            let text: String = text.chars().take(60).collect();
            let why = match refusal {
                Refusal::Type => "is not of its type",
                Refusal::NotAChoice => "is not one of its choices",
                Refusal::UnknownKey => "has a key that is none of its own",
            };
            (
                *option,
                format!("{option} {text:?} {why} in {engine} {release}, which does not start with it"),
            )
        }
        ParseError::FlagTakesNoValue(option) => (
            *option,
            format!("{option} takes no value in {engine} {release}; write it alone or leave it out"),
        ),
        ParseError::MissingValue(option) => (
            option.as_str(),
            format!("{option} has no value; {engine} {release} does not start without one"),
        ),
        ParseError::MissingModel(why) => (
            "--model",
            format!("{engine} {release} has no model to serve: {why}"),
        ),
        ParseError::Other(why) => (
            "",
            format!("{engine} {release} does not serve with this command line: {why}"),
        ),
    };
    let path = match (error, refused) {
        (ParseError::InvalidValue { .. }, Some(setting)) => line.path_of(context, setting),
        _ => place(word),
    };
    Finding::new(Code::Vg107, path, message)
}
