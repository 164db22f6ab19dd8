//! Options of engines whose parser is not modelled: a word, else a variable, else what the engine does without.

use super::word::{self, Outside};
use super::{Origin, Place, Provenance, environment};
use crate::engine::plain::Options;
use crate::engine::reader::{Context, Flag};
use crate::finding::shortened;
use crate::invocation::{Command, Word};

/// What an engine does without an option.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) enum Otherwise {
    /// It takes this value.
    Default(&'static str),
    /// The model's files say it.
    Model,
    /// It works it out, as this says.
    Engine(&'static str),
    /// Nothing that a reading holds.
    Nothing,
}

/// One value, with the spellings of its option and the variables that stand for it, the one that wins first.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Entry {
    pub(in crate::engine) field: &'static str,
    pub(in crate::engine) options: &'static [&'static str],
    pub(in crate::engine) variables: &'static [&'static str],
    pub(in crate::engine) otherwise: Otherwise,
}

impl Entry {
    pub(in crate::engine) const fn new(
        field: &'static str,
        options: &'static [&'static str],
        variables: &'static [&'static str],
        otherwise: Otherwise,
    ) -> Self {
        Self {
            field,
            options,
            variables,
            otherwise,
        }
    }
}

/// Where the values of `entries` come from, of several with the same field the first that says it; nothing where it is
/// not asked.
pub(in crate::engine) fn of(options: Options<'_>, entries: &[Entry]) -> Vec<Provenance> {
    if !options.context.explains {
        return Vec::new();
    }
    let mut list: Vec<Provenance> = Vec::new();
    for entry in entries {
        if list.iter().all(|known| known.field != entry.field) {
            list.extend(one(options, entry));
        }
    }
    list
}

fn one(options: Options<'_>, entry: &Entry) -> Option<Provenance> {
    let context = options.context;
    if let Some(one) = in_words(context, entry.field, options.words, entry.options) {
        return Some(one);
    }
    // A flag without a value.
    let alone = options
        .words
        .iter()
        .find(|word| entry.options.contains(&&*word.text));
    if let Some(word) = alone {
        let place = word::place(context, word, &word.text, Outside::Unsaid);
        return Some(place.of(entry.field, Some("on")));
    }
    for name in entry.variables {
        if let Some(one) = context.provenance_of_variable(options.command, entry.field, name) {
            return Some(one);
        }
    }
    let engine_default = || match context.version().or_else(|| context.image.version()) {
        Some(version) => format!("default of {version}"),
        None => "default".to_owned(),
    };
    match entry.otherwise {
        Otherwise::Default(value) => {
            Some(Place::nowhere(Origin::Default, engine_default()).of(entry.field, Some(value)))
        }
        Otherwise::Model => Some(Place::nowhere(Origin::Model, "the model's own").of(entry.field, None)),
        Otherwise::Engine(how) => Some(Place::nowhere(Origin::EngineAuto, how).of(entry.field, None)),
        Otherwise::Nothing => None,
    }
}

/// The value behind the last of `names` among the words; nothing where it is not asked.
pub(in crate::engine) fn in_words(
    context: &Context<'_>,
    field: &'static str,
    words: &[Word<'_>],
    names: &[&str],
) -> Option<Provenance> {
    if !context.explains {
        return None;
    }
    let flag = Flag::last(words, names)?;
    let written = match words.iter().position(|word| std::ptr::eq(word, flag.word)) {
        Some(at) if flag.text == flag.word.text => {
            let before = at.checked_sub(1).and_then(|at| words.get(at));
            format!("{} {}", before.map_or("", |before| &*before.text), flag.text)
        }
        _ => flag.word.text.clone().into_owned(),
    };
    Some(of_word(context, field, &flag, &written))
}

fn of_word(context: &Context<'_>, field: &'static str, flag: &Flag<'_>, written: &str) -> Provenance {
    let mut place = word::place(
        context,
        flag.word,
        &shortened(written.trim(), 120),
        Outside::Unsaid,
    );
    if flag.known {
        return place.of(field, Some(flag.text));
    }
    place.from = Origin::Unresolved;
    if let Some(reason) = &flag.word.reason {
        place.detail = format!("{}: {reason}", place.detail);
    }
    place.of(field, None)
}

/// The provenance of a word that is a value by its place alone.
pub(in crate::engine) fn positional(
    context: &Context<'_>,
    field: &'static str,
    word: &Word<'_>,
) -> Option<Provenance> {
    let place = || word::place(context, word, &shortened(&word.text, 120), Outside::Unsaid);
    context.explains.then(|| place().of(field, Some(&word.text)))
}

impl Context<'_> {
    /// The provenance of a value that a variable of the container or of the script holds; `None` where it is not set.
    pub(in crate::engine) fn provenance_of_variable(
        &self,
        command: &Command<'_>,
        field: &'static str,
        name: &str,
    ) -> Option<Provenance> {
        if !self.explains {
            return None;
        }
        let value = self.variable(command, name)?;
        let of_script = command.variables.iter().any(|(known, _)| known == name);
        let mut place = match self.invocation.environment.position(name) {
            Some(index) if !of_script => environment::place(self, index, ""),
            _ => Place::nowhere(Origin::Script, format!("the script's variable {name}")),
        };
        Some(match value {
            Ok(value) => place.of(field, Some(&value)),
            Err(reason) => {
                place.from = Origin::Unresolved;
                place.detail = format!("{}: {reason}", place.detail);
                place.of(field, None)
            }
        })
    }
}
