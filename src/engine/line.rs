//! A command line as it was read, beside the words that it stands in: where each value comes from, and what stays open.

use std::borrow::Cow;

use super::argparse::value::{self, Value};
use super::argparse::{Parsed, Setting};
use super::reader::Context;
use super::{MemoryKind, MemoryRequest, MemorySource, Unresolved};
use crate::finding::FieldPath;
use crate::invocation::{Certainty, Item, Word};
use crate::units::Fraction;

/// A command line with the words that stand for it.
pub(super) struct LineView<'l, 'w> {
    /// The engine's name in texts.
    pub(super) engine: &'static str,
    pub(super) parsed: &'l Parsed<'w>,
    pub(super) words: &'l [Word<'w>],
    /// Whether words had to be split to read what was meant.
    pub(super) split: bool,
}

impl LineView<'_, '_> {
    /// The fraction that `option` sets and where it comes from; `default` is the source and value of a line without it.
    pub(super) fn memory(
        &self,
        context: &Context<'_>,
        kind: MemoryKind,
        option: &str,
        default: (MemorySource, Option<&str>),
        unresolved: &mut Vec<Unresolved>,
    ) -> MemoryRequest {
        let field = option.trim_start_matches('-');
        let parsed = self.parsed;
        let mut request = MemoryRequest {
            kind,
            value: None,
            source: MemorySource::Unresolved,
            fraction: None,
            absolute: None,
            path: context.path.field("args"),
        };
        let setting = parsed.last(option);
        if let Some(setting) = setting {
            request.path = self.path_of(context, setting);
        }
        if let Some((file, reason)) = &parsed.unread_config
            && setting.is_none_or(|setting| setting.place.config)
        {
            unresolved.push(Unresolved {
                field: field.to_owned(),
                reason: format!("the file {file} of --config: {reason}"),
                decides_memory: true,
            });
            return request;
        }
        let overridden = |order: usize| parsed.open.is_some_and(|open| open > order);
        match setting {
            Some(setting) if setting.value == Value::Unresolved => {
                self.note_unresolved(setting, field, true, unresolved);
            }
            Some(setting) if overridden(setting.order) => self.note_open(field, unresolved),
            Some(setting) => {
                request.source = if setting.place.config {
                    MemorySource::ConfigFile
                } else if self.is_made_of_variable(context, setting.place.word, option) {
                    MemorySource::Env
                } else {
                    MemorySource::Flag
                };
                request.fraction = Fraction::parse(&value::ascii_digits(&setting.text)).ok();
                request.value = Some(setting.text.clone().into_owned());
            }
            None if parsed.open.is_some() => self.note_open(field, unresolved),
            None => {
                let (source, default) = default;
                request.source = source;
                request.fraction = default.and_then(|default| Fraction::parse(default).ok());
                request.value = default.map(str::to_owned);
            }
        }
        request
    }

    fn note_open(&self, field: &str, unresolved: &mut Vec<Unresolved>) {
        unresolved.push(Unresolved {
            field: field.to_owned(),
            reason: self.open_reason(),
            decides_memory: true,
        });
    }

    /// Which words may set anything.
    pub(super) fn open_reason(&self) -> String {
        if let Some((file, reason)) = &self.parsed.unread_config {
            return format!("the file {file} of --config: {reason}");
        }
        let word = self.words.iter().find(|word| word.certainty != Certainty::Known);
        match word {
            Some(Word {
                text,
                reason: Some(reason),
                ..
            }) => format!("{text} may set it: {reason}"),
            _ => "words that cannot be read may set it".to_owned(),
        }
    }

    /// Notes a value that cannot be read, once for each field.
    pub(super) fn note_unresolved(
        &self,
        setting: &Setting<'_>,
        field: &str,
        decides_memory: bool,
        unresolved: &mut Vec<Unresolved>,
    ) {
        if setting.value != Value::Unresolved || unresolved.iter().any(|known| known.field == field) {
            return;
        }
        let reason = self
            .words
            .get(setting.place.word)
            .and_then(|word| word.reason.clone());
        let reason = reason
            .unwrap_or(Cow::Borrowed("its value is not known before the container runs"))
            .into_owned();
        unresolved.push(Unresolved {
            field: field.to_owned(),
            reason,
            decides_memory,
        });
    }

    /// The variable that put a word in, as its index in the environment.
    pub(super) fn variable(&self, word: usize) -> Option<usize> {
        match self.words.get(word)?.item {
            Item::Variable(index) => Some(index),
            Item::Command(_) | Item::Args(_) | Item::Made(..) | Item::Elsewhere => None,
        }
    }

    /// Whether a word is an option that was made of a variable; a variable may hold the words of a command line as well.
    fn is_made_of_variable(&self, context: &Context<'_>, word: usize, option: &str) -> bool {
        let Some(index) = self.variable(word) else {
            return false;
        };
        let variable = context.invocation.environment.variables().get(index);
        let holds_words = variable.is_some_and(|variable| {
            let value = variable.value.as_deref().unwrap_or_default();
            value.replace('_', "-").contains(option)
        });
        !holds_words
    }

    /// The field that holds a value.
    pub(super) fn path_of(&self, context: &Context<'_>, setting: &Setting<'_>) -> FieldPath {
        if let Some(variable) = self.variable(setting.place.word) {
            return context.path_of_variable(variable);
        }
        match self.words.get(setting.place.word) {
            Some(word) => word.path(&context.path),
            None => context.path.field("args"),
        }
    }
}
