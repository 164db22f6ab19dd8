//! Variables of a script: what they hold after assignments that are made, or perhaps made.

use std::borrow::Cow;

use super::super::environment::Found;
use super::super::shell::Piece;
use super::super::{Certainty, Word};
use super::{Runner, Site};

/// Texts of one variable that are told apart.
const MOST_TEXTS: usize = 8;

#[derive(Clone)]
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
        let option = option_of(&fields).map(str::to_owned);
        let value = if fields.certainty == Certainty::Known {
            Variable::Text(fields.text.into_owned())
        } else {
            Variable::Unknown(
                fields
                    .reason
                    .map_or_else(|| format!("{name} is not known"), Cow::into_owned),
            )
        };
        let value = match (append, value) {
            (true, Variable::Text(more)) => match self.look_up(name) {
                Variable::Text(text) => Variable::Text(text + &more),
                Variable::Unset => Variable::Text(more),
                other => other,
            },
            (_, value) => value,
        };
        let same = match (&value, self.look_up(name)) {
            (Variable::Text(a), Variable::Text(b)) => *a == b,
            _ => false,
        };
        if conditional && !same {
            let reason = format!("{name} is set under a condition");
            let value = match (option, self.look_up(name)) {
                (Some(option), Variable::Option { name, .. }) if name == option => {
                    Variable::Option { name, reason }
                }
                (Some(name), Variable::Unset) if !append => Variable::Option { name, reason },
                (Some(name), Variable::Text(text)) if !append && text.trim().is_empty() => {
                    Variable::Option { name, reason }
                }
                _ => self.either(name, value, reason),
            };
            self.set(name, value);
        } else {
            self.set(name, value);
        }
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

    /// What a variable can hold after an assignment that is made or not.
    fn either(&self, name: &str, value: Variable<'a>, reason: String) -> Variable<'a> {
        let Variable::Text(new) = value else {
            return Variable::Unknown(reason);
        };
        let mut texts = match self.look_up(name) {
            Variable::Text(old) => vec![old],
            Variable::Either { texts, .. } if texts.len() < MOST_TEXTS => texts,
            _ => return Variable::Unknown(reason),
        };
        texts.push(new);
        Variable::Either { texts, reason }
    }

    pub(super) fn look_up(&self, name: &str) -> Variable<'a> {
        if let Some((_, value)) = self.variables.iter().find(|(known, _)| known == name) {
            return value.clone();
        }
        if let Ok(index) = name.parse::<usize>() {
            // `$0` is the first word after the script.
            return match self.positional.get(index) {
                Some(word) if word.certainty == Certainty::Known => {
                    Variable::Text(word.text.clone().into_owned())
                }
                Some(word) => Variable::Unknown(
                    word.reason
                        .clone()
                        .map_or_else(|| "not known".to_owned(), Cow::into_owned),
                ),
                None => Variable::Unset,
            };
        }
        match self.environment.find(name) {
            Found::Value(value) => Variable::Text(value.to_owned()),
            Found::Unknown(why) => Variable::Unknown(why.into_owned()),
            // KServe's own: no image sets it, and its script uses it as it is.
            Found::NotSet if name == "VLLM_ADDITIONAL_ARGS" => Variable::Text(String::new()),
            Found::NotSet => Variable::Unset,
        }
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
