//! vLLM's command line, read as the release's own parser reads it.
//!
//! vLLM rewrites the words first (`--config`, underscores, `-O3`, dotted keys; `rewrite`) and gives the result to
//! Python's argparse (`argparse`, after Python 3.12.8, which the release images use). Where the real parser stops at
//! the first error, this one notes the error and reads on, so that values can be told beside the reason.

use std::borrow::Cow;

use super::options::{self, Entrypoint};
use super::rewrite;
use super::value::{self, Refusal, Value};
use crate::engine::Version;
use crate::invocation::Word;

mod argparse;
mod typed;

use argparse::Parser;

/// Why the process ends before the engine starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// A prefix of several options.
    Ambiguous(String),
    /// Words that mean nothing in this release.
    Unrecognized(Vec<String>),
    /// A value that the option does not take.
    InvalidValue {
        /// The option.
        option: &'static str,
        /// The value.
        text: String,
        /// Why.
        refusal: Refusal,
    },
    /// A value after an option that takes none.
    FlagTakesNoValue(&'static str),
    /// An option that needs a value and has none.
    MissingValue(String),
    /// No model where this release needs one, or a model in a form that it refuses.
    MissingModel(&'static str),
    /// Anything else, as a phrase.
    Other(&'static str),
}

impl ParseError {
    /// This error as far as another release has it too; `None` where the reasons differ.
    pub(super) fn in_common(self, other: Option<&Self>) -> Option<Self> {
        match (self, other?) {
            (Self::Unrecognized(mine), Self::Unrecognized(theirs)) => {
                let both: Vec<String> = mine.into_iter().filter(|word| theirs.contains(word)).collect();
                (!both.is_empty()).then_some(Self::Unrecognized(both))
            }
            (
                Self::InvalidValue {
                    option,
                    text,
                    refusal,
                },
                Self::InvalidValue { option: other, .. },
            ) => (option == *other).then_some(Self::InvalidValue {
                option,
                text,
                refusal,
            }),
            (mine, theirs) => (mine == *theirs).then_some(mine),
        }
    }
}

/// Where a value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index of the word, in the words that were given.
    pub word: usize,
    /// First byte of the value in the word's text.
    pub offset: usize,
    /// Whether it comes from the file of `--config` (then `word` is the one that names the file).
    pub config: bool,
}

/// One use of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<'a> {
    /// The option's full name.
    pub option: &'static str,
    /// Whether it was written in its negated form (`--no-enforce-eager`).
    pub negated: bool,
    /// The value.
    pub value: Value,
    /// Its text; empty for a flag.
    pub text: Cow<'a, str>,
    /// Where it stands.
    pub place: Place,
    /// Its position in the order in which the parser sees the words.
    pub order: usize,
}

/// What a command line sets.
#[derive(Clone, Debug)]
pub struct Parsed<'a> {
    /// The release whose options were used.
    pub release: Version,
    /// Its position in [`options::releases`].
    position: usize,
    /// How the server is started.
    pub entrypoint: Entrypoint,
    /// The positional model.
    pub positional: Option<Setting<'a>>,
    /// All options in the order in which the parser sees them.
    pub settings: Vec<Setting<'a>>,
    /// The first error.
    pub error: Option<ParseError>,
    /// Position after which nothing unreadable can change a setting: options before it may be overridden by words
    /// that cannot be read. `None` where every word is known.
    pub open: Option<usize>,
    /// The file that `--config` names and that could not be read, with the reason.
    pub unread_config: Option<(Cow<'a, str>, String)>,
}

impl<'a> Parsed<'a> {
    /// The same with places in a list of words that begins `by` words earlier.
    pub(super) fn shifted(mut self, by: usize) -> Self {
        for setting in self.settings.iter_mut().chain(&mut self.positional) {
            setting.place.word += by;
        }
        self
    }

    /// The use of the option that counts (the last one).
    #[must_use]
    pub fn last(&self, option: &str) -> Option<&Setting<'a>> {
        self.settings
            .iter()
            .rev()
            .find(|setting| setting.option == option)
    }

    /// The integer of an option; its default in this release where it is not set, `None` where that is Python's
    /// `None` or where the value is no integer.
    #[must_use]
    pub fn int(&self, option: &str) -> Option<i128> {
        match self.last(option) {
            Some(Setting {
                value: Value::Int(int),
                ..
            }) => Some(*int),
            Some(_) => None,
            None => self.default(option).and_then(value::python_int),
        }
    }

    /// The text of an option; its default in this release where it is not set, `None` where that is Python's `None`.
    #[must_use]
    pub fn text(&self, option: &str) -> Option<&str> {
        match self.last(option) {
            Some(Setting {
                value: Value::Unset | Value::Unresolved,
                ..
            }) => None,
            Some(setting) => Some(&setting.text),
            None => self.default(option),
        }
    }

    /// Whether a flag is on.
    #[must_use]
    pub fn flag(&self, option: &str) -> bool {
        self.last(option).is_some_and(|setting| !setting.negated)
    }

    /// The model: the positional word first, as the server applies it, then `--model`, then the release's default.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        match &self.positional {
            Some(Setting {
                value: Value::Unresolved,
                ..
            }) => None,
            Some(setting) if self.entrypoint == Entrypoint::Serve => Some(&setting.text),
            _ => self.text("--model").or_else(|| {
                // `serve` of 0.9.0.1 has no such option, but the engine behind it has the default.
                (self.last("--model").is_none()).then_some("facebook/opt-125m")
            }),
        }
    }

    /// The default of an option in this release.
    #[must_use]
    pub fn default(&self, option: &str) -> Option<&'static str> {
        let default = options::release(self.position, self.entrypoint)?
            .named(option)?
            .default?;
        (default != "null").then_some(default)
    }
}

/// The content of the file that `--config` names.
pub type ConfigFile<'s> = dyn Fn(&str) -> Result<&'s str, String> + 's;

/// Reads a command line as the release at `position` of [`options::releases`] does.
///
/// `words` are those after `vllm` (so the first one is `serve`) or after the module. `config` looks up the file that
/// `--config` names.
#[must_use]
pub fn parse<'a>(
    position: usize,
    entrypoint: Entrypoint,
    words: &'a [Word<'a>],
    config: &ConfigFile<'_>,
) -> Parsed<'a> {
    let versions = options::releases();
    let position = position.min(versions.len().saturating_sub(1));
    let version = versions.get(position).copied().unwrap_or(Version::new(0, 0, 0));
    let mut parsed = Parsed {
        release: version,
        position,
        entrypoint,
        positional: None,
        settings: Vec::with_capacity(words.len()),
        error: None,
        open: None,
        unread_config: None,
    };
    let Some(release) = options::release(position, entrypoint) else {
        return parsed;
    };
    let args = rewrite::rewrite(version, words, config, &mut parsed);
    Parser::new(version, release, &mut parsed, args).parse();
    parsed
}
