//! Command lines as Python's argparse (3.12.8, which release images use) reads them.
//!
//! What differs from engine to engine is given to it: the option table of each release (`table`), how the text of a value
//! is read and what must be there (`parser::Rules`). Where the real parser stops at the
//! first error, this one notes the error and reads on, so that values can be told beside the reason.

use std::borrow::Cow;
use std::collections::HashSet;

use self::table::Spellings;
use self::value::{Refusal, Value};
use super::Version;
use crate::invocation::{Certainty, Word};

pub(crate) mod parser;
pub(crate) mod releases;
pub mod table;
pub mod value;
pub(crate) mod yaml;

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
    pub(crate) fn in_common(self, other: Option<&Self>) -> Option<Self> {
        match (self, other?) {
            (Self::Unrecognized(mine), Self::Unrecognized(theirs)) => {
                let theirs: HashSet<&String> = theirs.iter().collect();
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

    /// Whether the error is one that the own options of a program around the engine explain.
    pub(crate) fn is_about_words(&self) -> bool {
        matches!(
            self,
            Self::Unrecognized(_) | Self::Ambiguous(_) | Self::MissingModel(_)
        )
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
    /// Its options; `None` where the table has no such release.
    spellings: Option<&'static Spellings>,
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
    pub(crate) fn new(release: Version, spellings: Option<&'static Spellings>, words: usize) -> Self {
        Self {
            release,
            spellings,
            positional: None,
            settings: Vec::with_capacity(words),
            error: None,
            open: None,
            unread_config: None,
        }
    }

    /// Notes an error; the first one counts.
    pub(crate) fn fail(&mut self, error: impl FnOnce() -> ParseError) {
        if self.error.is_none() {
            self.error = Some(error());
        }
    }

    /// Moves all places to a list of words that begins `by` words earlier.
    pub(crate) fn shift(&mut self, by: usize) {
        for setting in self.settings.iter_mut().chain(&mut self.positional) {
            setting.place.word += by;
        }
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

    /// The default of an option in this release.
    #[must_use]
    pub fn default(&self, option: &str) -> Option<&'static str> {
        let default = self.spellings?.named(option)?.default?;
        (default != "null").then_some(default)
    }
}

/// The content of the file that `--config` names.
pub type ConfigFile<'s> = dyn Fn(&str) -> Result<&'s str, String> + 's;

/// A word on its way to argparse.
#[derive(Clone, Debug)]
pub(crate) struct Arg<'a> {
    pub(crate) text: Cow<'a, str>,
    pub(crate) certainty: Certainty,
    /// Index of the given word that it comes from.
    pub(crate) word: usize,
    /// Whether the file of `--config` holds it.
    pub(crate) config: bool,
    /// Whether byte offsets in `text` are those of the word.
    pub(crate) aligned: bool,
}

impl<'a> Arg<'a> {
    /// The words as they were given.
    pub(crate) fn of(words: &'a [Word<'a>]) -> Vec<Self> {
        words
            .iter()
            .enumerate()
            .map(|(word, given)| Self {
                text: Cow::Borrowed(&*given.text),
                certainty: given.certainty,
                word,
                config: false,
                aligned: true,
            })
            .collect()
    }

    pub(crate) fn place(&self, offset: usize) -> Place {
        Place {
            word: self.word,
            offset: if self.aligned { offset } else { 0 },
            config: self.config,
        }
    }
}
