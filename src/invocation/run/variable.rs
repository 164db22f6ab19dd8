//! Variables of a script: what they hold after assignments that are made, or perhaps made.

use std::borrow::Cow;
use std::rc::Rc;

use super::super::environment::Found;
use super::super::reason::brief;
use super::super::shell::Piece;
use super::super::{Certainty, Word};
use super::export::Export;
use super::field::weight;
use super::{Runner, Site};

/// Texts of one variable that are told apart.
const MOST_TEXTS: usize = 8;

#[derive(Clone, PartialEq)]
pub(super) enum Variable<'a> {
    Text(Rc<String>),
    Array(Rc<Vec<Word<'a>>>),
    Unknown(String),
    /// Nothing, or one word with this beginning, which names an option.
    Option {
        name: String,
        reason: String,
    },
    /// One of these texts.
    Either {
        texts: Rc<Vec<String>>,
        reason: String,
    },
    Unset,
}

impl<'a> Runner<'a, '_> {
    pub(super) fn set(&mut self, name: &str, value: Variable<'a>) {
        if self.exports_all {
            self.mark(name, Export::Yes, self.doubtful);
        }
        match self.variables.get_mut(name) {
            Some(slot) => *slot = value,
            None => {
                self.variables.insert(name.to_owned(), value);
            }
        }
    }

    /// Adds to the text of a variable of the script itself where it is; false where that is none.
    fn extend(&mut self, name: &str, more: &str) -> bool {
        let Some(Variable::Text(text)) = self.variables.get_mut(name) else {
            return false;
        };
        Rc::make_mut(text).push_str(more);
        true
    }

    pub(super) fn assign(&mut self, name: &str, append: bool, fields: Word<'a>, conditional: bool) {
        let known = fields.certainty == Certainty::Known;
        if append && known && !conditional && self.extend(name, &fields.text) {
            return;
        }
        let option = option_of(&fields).filter(|_| !append).map(str::to_owned);
        let value = if known {
            Variable::Text(Rc::new(fields.text.into_owned()))
        } else {
            Variable::Unknown(
                fields
                    .reason
                    .map_or_else(|| format!("{} is not known", brief(name)), Cow::into_owned),
            )
        };
        let before = self.look_up(name);
        let value = match (append, value) {
            (true, Variable::Text(more)) => {
                // A copy of what may be long.
                self.spend(before.bytes());
                appended(name, before.clone(), &more)
            }
            (_, value) => value,
        };
        let value = match (conditional, value, option) {
            (false, value, _) => value,
            // Whatever it is, it is one word that sets this option.
            (true, Variable::Unknown(reason), Some(option)) => {
                self.join(name, before, Variable::Option { name: option, reason })
            }
            (true, value, _) => self.join(name, before, value),
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
        for item in items {
            self.fields(item, None, site, &mut words);
        }
        let before = match self.variables.get_mut(name) {
            Some(Variable::Array(before)) if append => Some(Rc::make_mut(before)),
            _ => None,
        };
        match before {
            Some(before) if conditional && !before.is_empty() => perhaps(words, name, before),
            Some(before) if !conditional => before.append(&mut words),
            _ if conditional => {
                // Whether the words are there is not known, and how many there are either.
                self.set(
                    name,
                    Variable::Unknown(format!("{} is set under a condition", brief(name))),
                );
            }
            _ => self.set(name, Variable::Array(Rc::new(words))),
        }
    }

    /// The value of a variable. A copy of a text that is not shared counts as read once more.
    pub(super) fn look_up(&mut self, name: &str) -> Variable<'a> {
        if let Some(value) = self.variables.get(name) {
            let value = value.clone();
            if let Variable::Option { name, .. } = &value {
                self.spend(name.len());
            }
            return value;
        }
        if let Ok(index) = name.parse() {
            return self.parameter(index);
        }
        if name == "#" {
            return self.number_of_parameters();
        }
        self.inherited(name)
    }

    /// What the environment says of a variable that the script does not set; a copy, which counts as read once more.
    pub(super) fn inherited(&mut self, name: &str) -> Variable<'a> {
        if self.cleared {
            return Variable::Unset;
        }
        let text = match self.environment.find(name) {
            Found::Value(value) => value,
            Found::Unknown(why) => return Variable::Unknown(why.into_owned()),
            // KServe's own: no image sets it, and its script uses it as it is.
            Found::NotSet if name == "VLLM_ADDITIONAL_ARGS" => "",
            Found::NotSet => return Variable::Unset,
        };
        self.spend(text.len());
        Variable::Text(Rc::new(text.to_owned()))
    }

    /// [`joined`], which looks through both values and copies them: that counts as read once more.
    pub(super) fn join(&mut self, name: &str, before: Variable<'a>, after: Variable<'a>) -> Variable<'a> {
        self.spend(before.bytes().saturating_add(after.bytes()));
        joined(name, before, after)
    }
}

impl Variable<'_> {
    /// Bytes that a copy of it takes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Unknown(reason) => reason.len(),
            Self::Array(words) => words.iter().map(weight).sum(),
            Self::Option { name, reason } => name.len() + reason.len(),
            Self::Either { texts, .. } => texts.iter().map(String::len).sum(),
            Self::Unset => 0,
        }
    }
}

/// The variable with `more` behind its text.
fn appended<'a>(name: &str, before: Variable<'a>, more: &str) -> Variable<'a> {
    match before {
        Variable::Text(text) => Variable::Text(Rc::new(format!("{text}{more}"))),
        Variable::Unset => Variable::Text(Rc::new(more.to_owned())),
        Variable::Either { mut texts, reason } => {
            for text in Rc::make_mut(&mut texts) {
                text.push_str(more);
            }
            Variable::Either { texts, reason }
        }
        Variable::Unknown(reason) | Variable::Option { reason, .. } => Variable::Unknown(reason),
        Variable::Array(_) => Variable::Unknown(format!("a text is put behind the array {}", brief(name))),
    }
}

/// What a variable holds after one of two ways, on which it is `before` and `after`.
pub(super) fn joined<'a>(name: &str, before: Variable<'a>, after: Variable<'a>) -> Variable<'a> {
    if before == after {
        return before;
    }
    let reason = format!("{} is set under a condition", brief(name));
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
        if !short.is_empty() && long.starts_with(short.as_slice()) {
            let mut words = short.to_vec();
            perhaps(long[short.len()..].to_vec(), name, &mut words);
            return Variable::Array(Rc::new(words));
        }
        return Variable::Unknown(reason);
    }
    let texts = |value: Variable<'a>| match value {
        Variable::Text(text) => Some(vec![Rc::unwrap_or_clone(text)]),
        Variable::Either { texts, .. } => Some(Rc::unwrap_or_clone(texts)),
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
                let texts = Rc::new(texts);
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
    let reason = format!("{} is extended under a condition", brief(array));
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
