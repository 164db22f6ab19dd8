//! vLLM's command line, read as the release's own parser reads it.
//!
//! vLLM rewrites the words first (`--config`, underscores, `-O3`, dotted keys; [`rewrite`]) and gives the result to
//! Python's argparse ([`Parser`], after Python 3.12.8, which the release images use). Where the real parser stops at
//! the first error, this one notes the error and reads on, so that values can be told beside the reason.

use std::borrow::Cow;

use super::options::{self, Arity, Entrypoint, OptionInfo, Release};
use super::rewrite::{self, Arg};
use super::value::{self, Refusal, Value};
use crate::engine::Version;
use crate::invocation::{Certainty, Word};

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
        let position = options::releases()
            .iter()
            .position(|version| *version == self.release)?;
        let default = options::release(position, self.entrypoint)?
            .named(option)?
            .default?;
        (default != "null").then_some(default)
    }

    /// Options whose value the parser takes and the release's typed configuration refuses right after.
    #[must_use]
    pub fn refused_by_config(&self) -> Vec<&Setting<'a>> {
        let since = |minor, patch| self.release >= Version::new(0, minor, patch);
        let checks: [(&str, fn(&Setting<'_>, bool) -> bool, bool); 9] = [
            ("--gpu-memory-utilization", fraction_is_refused, since(11, 1)),
            ("--tensor-parallel-size", below_one, since(21, 0)),
            ("--pipeline-parallel-size", below_one, since(21, 0)),
            ("--data-parallel-size", below_one, since(21, 0)),
            ("--max-num-batched-tokens", below_one, since(11, 1)),
            ("--max-num-seqs", below_one, since(11, 1)),
            (
                "--cpu-offload-gb",
                |s, strict| strict && s.text.trim().starts_with('-'),
                since(8, 0),
            ),
            (
                "--cpu-offload-gb",
                |s, strict| strict && s.text.trim().eq_ignore_ascii_case("nan"),
                since(11, 1),
            ),
            ("--kv-cache-dtype", unknown_kv_cache_dtype, since(31, 0)),
        ];
        checks
            .into_iter()
            .filter_map(|(option, refused, strict)| {
                let setting = self.last(option)?;
                let judged = matches!(setting.value, Value::Int(_) | Value::Text);
                (judged && refused(setting, strict)).then_some(setting)
            })
            .collect()
    }
}

fn below_one(setting: &Setting<'_>, strict: bool) -> bool {
    strict && matches!(setting.value, Value::Int(int) if int < 1)
}

/// Up to 0.11.0 only what is above 1 is refused; later everything outside `0 < fraction <= 1`.
fn fraction_is_refused(setting: &Setting<'_>, strict: bool) -> bool {
    use crate::units::{Fraction, FractionError};
    match Fraction::parse(&value::ascii_digits(&setting.text)) {
        Ok(fraction) => fraction.ppm() == 1 && strict && underflows(&setting.text),
        Err(FractionError::AboveOne) => true,
        Err(FractionError::NotFinite) => {
            let text = setting.text.trim();
            let negative = text.starts_with('-');
            let nan = text.trim_start_matches(['-', '+']).eq_ignore_ascii_case("nan");
            strict || !(nan || negative)
        }
        Err(FractionError::NotPositive | FractionError::NotANumber) => strict,
    }
}

/// Whether Python's float of this positive decimal text is 0.0 (`1e-400`).
fn underflows(text: &str) -> bool {
    let exponent = text
        .trim()
        .split_once(['e', 'E'])
        .and_then(|(_, exponent)| value::python_int(exponent));
    exponent.is_some_and(|exponent| exponent < -340)
}

/// 0.33 takes any text and refuses it in its typed configuration; the names are those of the release before.
fn unknown_kv_cache_dtype(setting: &Setting<'_>, strict: bool) -> bool {
    let before = || {
        let position = options::releases()
            .iter()
            .position(|version| *version == Version::new(0, 30, 0))?;
        options::release(position, Entrypoint::Serve)?.named("--kv-cache-dtype")
    };
    strict && before().is_some_and(|option| option.refuses(&setting.text))
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
    let mut parser = Parser {
        version,
        release,
        parsed: &mut parsed,
        args,
        extras: Vec::new(),
    };
    let first = if entrypoint == Entrypoint::Serve {
        parser.subcommand()
    } else {
        Some(0)
    };
    if let Some(first) = first {
        parser.run(first);
    }
    parsed
}

/// The parts of argparse that vLLM uses.
struct Parser<'a, 'p> {
    version: Version,
    release: &'static Release,
    parsed: &'p mut Parsed<'a>,
    args: Vec<Arg<'a>>,
    extras: Vec<usize>,
}

/// What argparse takes a word for.
enum Class {
    /// A value or a positional word.
    Plain,
    /// The separator `--`, after which everything is plain.
    Separator,
    /// Any number of unreadable words.
    Open,
    /// An option, with what follows it in the same word.
    Option {
        option: &'static OptionInfo,
        negated: bool,
        attached: Option<usize>,
        short: bool,
    },
    /// A prefix of several options.
    Ambiguous,
    /// It looks like an option and is none.
    Stray,
}

impl<'a> Parser<'a, '_> {
    fn fail(&mut self, error: impl FnOnce() -> ParseError) {
        if self.parsed.error.is_none() {
            self.parsed.error = Some(error());
        }
    }

    /// Finds `serve` among the words of `vllm` itself and gives the index after it.
    fn subcommand(&mut self) -> Option<usize> {
        for index in 0..self.args.len() {
            let arg = &self.args[index];
            let text = &*arg.text;
            if arg.certainty == Certainty::Many {
                self.parsed.open = Some(index);
                return None;
            }
            if text.len() > 1 && text.starts_with('-') && !text.contains(' ') && !is_negative_number(text) {
                if ["-h", "-v"].contains(&text)
                    || text.len() > 2 && ["--help", "--version"].iter().any(|word| word.starts_with(text))
                {
                    self.fail(|| ParseError::Other("it prints help or the version"));
                    return None;
                }
                self.extras.push(index);
            } else if text == "serve" {
                return Some(index + 1);
            } else {
                self.fail(|| ParseError::Other("unknown subcommand"));
                return None;
            }
        }
        self.fail(|| ParseError::Other("no subcommand"));
        None
    }

    fn run(&mut self, first: usize) {
        let classes = self.classify(first);
        let class = |index: usize| classes.get(index.wrapping_sub(first));
        let count = self.args.len();
        let mut takes_positional =
            self.parsed.entrypoint == Entrypoint::Serve || self.version >= Version::new(0, 10, 0);
        let mut index = first;
        while index < count {
            match class(index) {
                Some(Class::Option {
                    option,
                    negated,
                    attached,
                    short,
                }) => {
                    index = self.option(index, option, *negated, *attached, *short, &classes, first);
                }
                Some(Class::Ambiguous) => {
                    let word = self.args[index].text.clone().into_owned();
                    self.fail(|| ParseError::Ambiguous(word));
                    index += 1;
                }
                Some(Class::Stray) => {
                    self.extras.push(index);
                    index += 1;
                }
                Some(Class::Open) => {
                    self.parsed.open = Some(index);
                    index += 1;
                }
                Some(Class::Separator) | None => {
                    // With the positional word it is consumed, else it is left over like any other.
                    if !takes_positional || !matches!(class(index + 1), Some(Class::Plain)) {
                        let trailing = index + 1 == count && takes_positional;
                        if !trailing {
                            self.extras.push(index);
                        }
                    }
                    index += 1;
                }
                Some(Class::Plain) => {
                    if takes_positional {
                        takes_positional = false;
                        self.positional(index);
                        if matches!(class(index + 1), Some(Class::Separator)) {
                            index += 1;
                        }
                    } else {
                        self.extras.push(index);
                    }
                    index += 1;
                }
            }
        }
        self.finish();
    }

    fn positional(&mut self, index: usize) {
        let arg = &self.args[index];
        let value = if arg.certainty == Certainty::Known {
            Value::Text
        } else {
            Value::Unresolved
        };
        self.parsed.positional = Some(Setting {
            option: "model",
            negated: false,
            value,
            text: arg.text.clone(),
            place: arg.place(0),
            order: index,
        });
    }

    /// What argparse and the server itself check once all words are read.
    fn finish(&mut self) {
        let serve = self.parsed.entrypoint == Entrypoint::Serve;
        let version = self.version;
        let positional = self.parsed.positional.is_some();
        if serve && version < Version::new(0, 8, 0) && !positional && self.parsed.open.is_none() {
            self.fail(|| ParseError::MissingModel("this release needs the model as a positional argument"));
        }
        // A word that is unreadable as a whole may be anything, also nothing wrong.
        let readable = |index: &&usize| self.args[**index].certainty == Certainty::Known;
        if self
            .extras
            .iter()
            .any(|index| self.args[*index].certainty != Certainty::Known)
        {
            self.parsed.open = self.parsed.open.max(self.extras.last().copied());
        }
        let words: Vec<String> = self
            .extras
            .iter()
            .filter(readable)
            .map(|index| self.args[*index].text.clone().into_owned())
            .collect();
        if !words.is_empty() {
            self.fail(|| ParseError::Unrecognized(words));
        }
        if !serve {
            return;
        }
        if version < Version::new(0, 8, 0)
            && self
                .parsed
                .last("--model")
                .is_some_and(|s| s.value == Value::Text)
        {
            self.fail(|| ParseError::MissingModel("this release refuses --model with serve"));
        }
        let named = self.parsed.last("--served-model-name").is_some();
        // It looks at the first word only, so a model behind an option does not count.
        let leads = self.args.get(1).is_some_and(|arg| !arg.text.starts_with('-'));
        let has_model = leads || self.parsed.last("--model").is_some();
        if version >= Version::new(0, 19, 0) && named && !has_model && self.parsed.open.is_none() {
            self.fail(|| ParseError::MissingModel("--served-model-name needs a model before it"));
        }
        if version >= Version::new(0, 14, 0) {
            let set = |option| {
                self.parsed
                    .last(option)
                    .is_some_and(|s| matches!(s.value, Value::Int(_)))
            };
            let servers = matches!(self.parsed.int("--api-server-count"), Some(count) if count > 0);
            if set("--data-parallel-rank") && set("--data-parallel-start-rank")
                || self.parsed.flag("--headless") && set("--api-server-count") && servers
            {
                self.fail(|| ParseError::Other("options that exclude each other"));
            }
        }
    }

    fn classify(&self, first: usize) -> Vec<Class> {
        let mut after_separator = false;
        self.args[first.min(self.args.len())..]
            .iter()
            .map(|arg| match arg.certainty {
                Certainty::Many => Class::Open,
                Certainty::From(0) => Class::Plain,
                _ if after_separator => Class::Plain,
                _ if arg.text == "--" => {
                    after_separator = true;
                    Class::Separator
                }
                certainty => self.class_of(&arg.text, certainty),
            })
            .collect()
    }

    /// argparse's `_parse_optional`.
    fn class_of(&self, text: &str, certainty: Certainty) -> Class {
        if text.len() < 2 || !text.starts_with('-') {
            return Class::Plain;
        }
        let (name, attached) = match text.split_once('=') {
            Some((name, _)) => (name, Some(name.len() + 1)),
            None => (text, None),
        };
        if let Certainty::From(unknown) = certainty
            && unknown < name.len()
        {
            return Class::Open;
        }
        let found = |spelling: options::Spelling, attached, short| Class::Option {
            option: spelling.option,
            negated: spelling.negated,
            attached,
            short,
        };
        if let Some(spelling) = self.release.exact(text) {
            return found(spelling, None, !text.starts_with("--"));
        }
        if attached.is_some()
            && let Some(spelling) = self.release.exact(name)
        {
            return found(spelling, attached, !text.starts_with("--"));
        }
        let mut matches = 0;
        let mut hit = None;
        for spelling in self.release.starting_with(name) {
            matches += 1;
            hit = Some(found(spelling, attached, !text.starts_with("--")));
        }
        if !text.starts_with("--") && text.is_char_boundary(2) {
            let short = self
                .release
                .exact(&text[..2])
                .filter(|spelling| spelling.text.len() < name.len());
            if let Some(spelling) = short {
                matches += 1;
                hit = Some(found(spelling, Some(2), true));
            }
        }
        match hit {
            Some(hit) if matches == 1 => hit,
            Some(_) => Class::Ambiguous,
            None if is_negative_number(text) || text.contains(' ') => Class::Plain,
            None => Class::Stray,
        }
    }

    /// argparse's `consume_optional`: records the option at `index` and gives the index after its values.
    #[allow(clippy::too_many_arguments, reason = "the state of argparse's own loop")]
    fn option(
        &mut self,
        index: usize,
        option: &'static OptionInfo,
        negated: bool,
        attached: Option<usize>,
        short: bool,
        classes: &[Class],
        first: usize,
    ) -> usize {
        let class = |at: usize| classes.get(at.wrapping_sub(first));
        let plain = |at: usize| matches!(class(at), Some(Class::Plain));
        if option.arity == Arity::Help {
            let takes_value = self.version >= Version::new(0, 11, 0);
            if attached.is_some() && !takes_value {
                self.fail(|| ParseError::FlagTakesNoValue("-h"));
            } else {
                self.fail(|| ParseError::Other("it prints help or the version"));
            }
            return index + 1;
        }
        if let Some(offset) = attached {
            if option.arity == Arity::Flag {
                // One-letter flags may be bundled; vLLM has none with a letter after it that means anything.
                let empty = short && offset >= self.args[index].text.len();
                if !empty {
                    self.fail(|| ParseError::FlagTakesNoValue(option.name));
                }
                self.record(index, option, negated, None);
            } else {
                self.record(index, option, negated, Some((index, offset)));
            }
            return index + 1;
        }
        match option.arity {
            Arity::Flag | Arity::Help => {
                self.record(index, option, negated, None);
                index + 1
            }
            Arity::OptionalValue if !plain(index + 1) => {
                self.record(index, option, negated, None);
                index + 1
            }
            Arity::Value | Arity::OptionalValue | Arity::List => {
                let mut end = index + 1;
                let most = if option.arity == Arity::List {
                    usize::MAX
                } else {
                    1
                };
                while end - index <= most && plain(end) {
                    self.record(index, option, negated, Some((end, 0)));
                    end += 1;
                }
                if matches!(class(end), Some(Class::Open))
                    && (end == index + 1 || option.arity == Arity::List)
                {
                    if end == index + 1 {
                        self.record(index, option, negated, Some((end, 0)));
                    }
                    // A variable right behind an option holds its value; behind a value it may hold anything.
                    if end > index + 1 {
                        self.parsed.open = Some(end);
                    }
                    return end + 1;
                }
                if end == index + 1 {
                    let word = self.args[index].text.clone().into_owned();
                    self.fail(|| ParseError::MissingValue(word));
                }
                end
            }
        }
    }

    fn record(
        &mut self,
        index: usize,
        option: &'static OptionInfo,
        negated: bool,
        value_at: Option<(usize, usize)>,
    ) {
        let setting = match value_at {
            None => Setting {
                option: option.name,
                negated,
                value: Value::Flag,
                text: Cow::Borrowed(""),
                place: self.args[index].place(0),
                order: index,
            },
            Some((at, offset)) => {
                let arg = &self.args[at];
                let text = slice(&arg.text, offset);
                let value = if arg.certainty == Certainty::Known {
                    value::read(option, self.version, &text)
                } else {
                    Value::Unresolved
                };
                Setting {
                    option: option.name,
                    negated,
                    value,
                    text,
                    place: arg.place(offset),
                    order: index,
                }
            }
        };
        if let Value::Refused(refusal) = setting.value {
            let text = setting.text.clone().into_owned();
            self.fail(|| ParseError::InvalidValue {
                option: option.name,
                text,
                refusal,
            });
        }
        self.parsed.settings.push(setting);
    }
}

fn slice<'a>(text: &Cow<'a, str>, offset: usize) -> Cow<'a, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.get(offset..).unwrap_or_default()),
        Cow::Owned(text) => Cow::Owned(text.get(offset..).unwrap_or_default().to_owned()),
    }
}

/// argparse's `^-\d+$|^-\d*\.\d+$`.
fn is_negative_number(text: &str) -> bool {
    let Some(body) = text.strip_prefix('-') else {
        return false;
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    match body.split_once('.') {
        None => !body.is_empty() && digits(body),
        Some((whole, part)) => digits(whole) && !part.is_empty() && digits(part),
    }
}
