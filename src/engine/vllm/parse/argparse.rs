//! The parts of Python's argparse (3.12.8) that vLLM uses.

use std::borrow::Cow;

use super::super::options::{self, Arity, Entrypoint, OptionInfo, Release};
use super::super::rewrite::Arg;
use super::super::value::{self, Value};
use super::{ParseError, Parsed, Setting};
use crate::engine::Version;
use crate::invocation::Certainty;

/// The parts of argparse that vLLM uses.
pub(super) struct Parser<'a, 'p> {
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

impl<'a, 'p> Parser<'a, 'p> {
    pub(super) fn new(
        version: Version,
        release: &'static Release,
        parsed: &'p mut Parsed<'a>,
        args: Vec<Arg<'a>>,
    ) -> Self {
        Self {
            version,
            release,
            parsed,
            args,
            extras: Vec::new(),
        }
    }

    pub(super) fn parse(mut self) {
        let serve = self.parsed.entrypoint == Entrypoint::Serve;
        let first = if serve { self.subcommand() } else { Some(0) };
        if let Some(first) = first {
            self.run(first);
        }
    }

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
