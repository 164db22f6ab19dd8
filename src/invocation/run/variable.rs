//! Variables of a script: what they hold after assignments that are made, or perhaps made.

use std::borrow::Cow;

use super::super::environment::Found;
use super::super::shell::Piece;
use super::super::{Certainty, Word};
use super::{Runner, Site};

/// Texts of one variable that are told apart.
const MOST_TEXTS: usize = 8;

#[derive(Clone, PartialEq)]
pub(super) enum Variable<'a> {
    Text(String),
    Array(Vec<Word<'a>>),
    Unknown(String),
    /// Nothing, or one word with this beginning, which names an option.
    Option {
        name: String,
        reason: String,
    },
    /// One of these texts.
    Either {
        texts: Vec<String>,
        reason: String,
    },
    Unset,
}

impl<'a> Runner<'a, '_> {
    pub(super) fn set(&mut self, name: &str, value: Variable<'a>) {
        match self.variables.iter_mut().find(|(known, _)| known == name) {
            Some(slot) => slot.1 = value,
            None => self.variables.push((name.to_owned(), value)),
        }
    }

    pub(super) fn assign(&mut self, name: &str, append: bool, fields: Word<'a>, conditional: bool) {
        let option = option_of(&fields).filter(|_| !append).map(str::to_owned);
        let value = if fields.certainty == Certainty::Known {
            Variable::Text(fields.text.into_owned())
        } else {
            Variable::Unknown(
                fields
                    .reason
                    .map_or_else(|| format!("{name} is not known"), Cow::into_owned),
            )
        };
        let before = self.look_up(name);
        let value = match (append, value) {
            (true, Variable::Text(more)) => appended(name, before.clone(), &more),
            (_, value) => value,
        };
        let value = match (conditional, value, option) {
            (false, value, _) => value,
            // Whatever it is, it is one word that sets this option.
            (true, Variable::Unknown(reason), Some(option)) => {
                joined(name, before, Variable::Option { name: option, reason })
            }
            (true, value, _) => joined(name, before, value),
        };
        self.set(name, value);
    }

    pub(super) fn assign_array(
        &mut self,
        name: &str,
        append: bool,
        items: &[Vec<Piece>],
        conditional: bool,
        site: Site,
    ) {
        let mut words = Vec::new();
        if append && let Variable::Array(before) = self.look_up(name) {
            words = before;
        }
        let before = words.len();
        for item in items {
            self.fields(item, None, site, &mut words);
        }
        if conditional && append && before > 0 {
            let added = words.split_off(before);
            perhaps(added, name, &mut words);
            self.set(name, Variable::Array(words));
        } else if conditional {
            // Whether the words are there is not known, and how many there are either.
            self.set(
                name,
                Variable::Unknown(format!("{name} is set under a condition")),
            );
        } else {
            self.set(name, Variable::Array(words));
        }
    }

    pub(super) fn look_up(&self, name: &str) -> Variable<'a> {
        if let Some((_, value)) = self.variables.iter().find(|(known, _)| known == name) {
            return value.clone();
        }
        if let Ok(index) = name.parse() {
            return self.parameter(index);
        }
        if name == "#" {
            return self.number_of_parameters();
        }
        self.inherited(name)
    }

    /// What the environment says of a variable that the script does not set.
    pub(super) fn inherited(&self, name: &str) -> Variable<'a> {
        match self.environment.find(name) {
            Found::Value(value) => Variable::Text(value.to_owned()),
            Found::Unknown(why) => Variable::Unknown(why.into_owned()),
            // KServe's own: no image sets it, and its script uses it as it is.
            Found::NotSet if name == "VLLM_ADDITIONAL_ARGS" => Variable::Text(String::new()),
            Found::NotSet => Variable::Unset,
        }
    }
}

impl Variable<'_> {
    /// Bytes that a copy of it takes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Unknown(text) => text.len(),
            Self::Array(words) => words.iter().map(|word| word.text.len() + 1).sum(),
            Self::Option { name, reason } => name.len() + reason.len(),
            Self::Either { texts, .. } => texts.iter().map(String::len).sum(),
            Self::Unset => 0,
        }
    }
}

/// The variable with `more` behind its text.
fn appended<'a>(name: &str, before: Variable<'a>, more: &str) -> Variable<'a> {
    match before {
        Variable::Text(text) => Variable::Text(text + more),
        Variable::Unset => Variable::Text(more.to_owned()),
        Variable::Either { mut texts, reason } => {
            for text in &mut texts {
                text.push_str(more);
            }
            Variable::Either { texts, reason }
        }
        Variable::Unknown(reason) | Variable::Option { reason, .. } => Variable::Unknown(reason),
        Variable::Array(_) => Variable::Unknown(format!("a text is put behind the array {name}")),
    }
}

/// What a variable holds after one of two ways, on which it is `before` and `after`.
pub(super) fn joined<'a>(name: &str, before: Variable<'a>, after: Variable<'a>) -> Variable<'a> {
    if before == after {
        return before;
    }
    let reason = format!("{name} is set under a condition");
    let is_nothing = |value: &Variable<'_>| match value {
        Variable::Unset => true,
        Variable::Text(text) => text.trim().is_empty(),
        _ => false,
    };
    let are_texts = matches!((&before, &after), (Variable::Text(_), Variable::Text(_)));
    match (option_in(&before), option_in(&after)) {
        (None, Some(option)) if is_nothing(&before) => return Variable::Option { name: option, reason },
        (Some(option), None) if is_nothing(&after) => return Variable::Option { name: option, reason },
        (Some(one), Some(other)) if one == other && !are_texts => {
            return Variable::Option { name: one, reason };
        }
        _ => {}
    }
    if let (Variable::Array(one), Variable::Array(other)) = (&before, &after) {
        let (short, long) = if one.len() <= other.len() {
            (one, other)
        } else {
            (other, one)
        };
        if !short.is_empty() && long.starts_with(short) {
            let mut words = short.clone();
            perhaps(long[short.len()..].to_vec(), name, &mut words);
            return Variable::Array(words);
        }
        return Variable::Unknown(reason);
    }
    let texts = |value: Variable<'a>| match value {
        Variable::Text(text) => Some(vec![text]),
        Variable::Either { texts, .. } => Some(texts),
        _ => None,
    };
    match (texts(before), texts(after)) {
        (Some(mut texts), Some(more)) => {
            for text in more {
                if !texts.contains(&text) {
                    texts.push(text);
                }
            }
            if texts.len() <= MOST_TEXTS {
                Variable::Either { texts, reason }
            } else {
                Variable::Unknown(reason)
            }
        }
        _ => Variable::Unknown(reason),
    }
}

/// The option that a variable sets, where it is one word that sets one.
fn option_in(value: &Variable<'_>) -> Option<String> {
    match value {
        Variable::Option { name, .. } => Some(name.clone()),
        Variable::Text(text) => option_of(&Word::literal(text)).map(str::to_owned),
        _ => None,
    }
}

/// `--option=` of a word that sets one option.
fn option_of<'w>(word: &'w Word<'_>) -> Option<&'w str> {
    let end = word.text.find('=')? + 1;
    let name = &word.text[..end];
    let known = match word.certainty {
        Certainty::Known => !word.text.contains([' ', '\t', '\n']),
        Certainty::From(at) => at >= end,
        Certainty::Many => false,
    };
    (known && name.starts_with("--") && !name.contains(char::is_whitespace)).then_some(name)
}

/// Words of an array that are there or not: an option keeps its name and loses its value, anything else may stand for
/// any words.
fn perhaps<'a>(added: Vec<Word<'a>>, array: &str, words: &mut Vec<Word<'a>>) {
    let reason = format!("{array} is extended under a condition");
    let mut added = added.into_iter().peekable();
    while let Some(mut word) = added.next() {
        let known = word.certainty == Certainty::Known;
        let alone = known && word.text.starts_with("--") && !word.text.contains('=');
        let name = if let Some(name) = option_of(&word) {
            Some(name.to_owned())
        } else if alone && added.peek().is_some_and(|next| !next.text.starts_with('-')) {
            added.next();
            Some(format!("{}=", word.text))
        } else {
            None
        };
        word.span = None;
        word.reason = Some(Cow::Owned(reason.clone()));
        match name {
            Some(name) => {
                word.certainty = Certainty::From(name.len());
                word.text = Cow::Owned(name);
            }
            None => word.certainty = Certainty::Many,
        }
        words.push(word);
    }
}
