//! argparse's own loop: what each word is, what each option takes.

use std::borrow::Cow;

use super::table::{Arity, Kind, OptionInfo, Spelling, Spellings};
use super::value::Value;
use super::{Arg, ParseError, Parsed, Setting};
use crate::invocation::Certainty;

/// What differs between the command lines of one engine and release and those of another.
pub(crate) struct Rules<'r> {
    /// The options.
    pub(crate) spellings: &'static Spellings,
    /// The word that must come first (`serve`), and takes the options after it.
    pub(crate) subcommand: Option<&'static str>,
    /// Whether one word that belongs to no option is taken.
    pub(crate) positional: bool,
    /// Whether `-h=x` prints help (else it is an error).
    pub(crate) help_takes_value: bool,
    /// Reads the text of a value.
    pub(crate) read: &'r dyn Fn(&OptionInfo, &str) -> Value,
    /// What must be there and is not, said before words that are left over.
    pub(crate) missing: &'r dyn Fn(&Parsed<'_>) -> Option<ParseError>,
}

/// Reads `args` by `rules` into `parsed`.
pub(crate) fn parse<'a>(rules: &Rules<'_>, parsed: &mut Parsed<'a>, args: &[Arg<'a>]) {
    let mut parser = Parser {
        rules,
        parsed,
        args,
        extras: Vec::new(),
    };
    let first = match rules.subcommand {
        Some(name) => parser.subcommand(name),
        None => Some(0),
    };
    if let Some(first) = first {
        parser.run(first);
    }
}

struct Parser<'a, 'p, 'r> {
    rules: &'p Rules<'r>,
    parsed: &'p mut Parsed<'a>,
    args: &'p [Arg<'a>],
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

impl Parser<'_, '_, '_> {
    fn fail(&mut self, error: impl FnOnce() -> ParseError) {
        self.parsed.fail(error);
    }

    /// Finds the subcommand among the words of the program itself and gives the index after it.
    fn subcommand(&mut self, name: &str) -> Option<usize> {
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
            } else if text == name {
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
        let mut takes_positional = self.rules.positional;
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

    /// What argparse checks once all words are read.
    fn finish(&mut self) {
        if let Some(missing) = (self.rules.missing)(self.parsed) {
            self.fail(|| missing);
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
        let found = |spelling: Spelling, attached, short| Class::Option {
            option: spelling.option,
            negated: spelling.negated,
            attached,
            short,
        };
        if let Some(spelling) = self.rules.spellings.exact(text) {
            return found(spelling, None, !text.starts_with("--"));
        }
        if attached.is_some()
            && let Some(spelling) = self.rules.spellings.exact(name)
        {
            return found(spelling, attached, !text.starts_with("--"));
        }
        let mut matches = 0;
        let mut hit = None;
        for spelling in self.rules.spellings.starting_with(name) {
            matches += 1;
            hit = Some(found(spelling, attached, !text.starts_with("--")));
        }
        if !text.starts_with("--") && text.is_char_boundary(2) {
            let short = self
                .rules
                .spellings
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
            if attached.is_some() && !self.rules.help_takes_value {
                self.fail(|| ParseError::FlagTakesNoValue("-h"));
            } else {
                self.fail(|| ParseError::Other("it prints help or the version"));
            }
            return index + 1;
        }
        if let Some(offset) = attached {
            if option.arity == Arity::Flag {
                // One-letter flags may be bundled; the engines have none with a letter after it that means anything.
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
            Arity::Value | Arity::OptionalValue | Arity::List | Arity::OptionalList => {
                let mut end = index + 1;
                let list = matches!(option.arity, Arity::List | Arity::OptionalList);
                let most = if list { usize::MAX } else { 1 };
                while end - index <= most && plain(end) {
                    self.record(index, option, negated, Some((end, 0)));
                    end += 1;
                }
                if matches!(class(end), Some(Class::Open)) && (end == index + 1 || list) {
                    if end == index + 1 {
                        self.record(index, option, negated, Some((end, 0)));
                    }
                    // A variable right behind an option holds its value; behind a value it may hold anything.
                    if end > index + 1 {
                        self.parsed.open = Some(end);
                    }
                    return end + 1;
                }
                if end == index + 1 && option.arity == Arity::OptionalList {
                    self.record(index, option, negated, None);
                } else if end == index + 1 {
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
        if option.kind == Kind::Gone {
            self.fail(|| ParseError::Unrecognized(vec![option.name.to_owned()]));
        }
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
                    (self.rules.read)(option, &text)
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
