//! A word that is being put together.

use std::borrow::Cow;
use std::rc::Rc;

use super::super::reason::brief;
use super::super::{Certainty, Item, Word};

/// A word that is being put together.
#[derive(Default)]
pub(super) struct Field {
    text: String,
    begun: bool,
    unknown: Option<usize>,
    many: bool,
    reason: Option<String>,
    alternatives: Vec<String>,
    /// `IFS`, where it is not as usual.
    separators: Option<Rc<String>>,
}

impl Field {
    pub(super) fn split_at(separators: Option<Rc<String>>) -> Self {
        Self {
            separators,
            ..Self::default()
        }
    }

    /// Bytes of the text so far.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Bytes that it holds so far.
    pub(super) fn weight(&self) -> usize {
        self.text.len() + self.alternatives.iter().map(String::len).sum::<usize>()
    }

    pub(super) fn text(&mut self, text: &str) {
        self.begun = true;
        self.many = false;
        self.text.push_str(text);
    }

    pub(super) fn unknown(&mut self, raw: &str, reason: &str, splits: bool) {
        self.many = splits && !self.begun;
        self.begun = true;
        self.unknown.get_or_insert(self.text.len());
        self.reason.get_or_insert_with(|| brief(reason).into_owned());
        self.text.push_str(raw);
    }

    /// One of several texts, each split at blanks.
    pub(super) fn either(&mut self, raw: &str, reason: &str, texts: &[String]) {
        self.unknown(raw, reason, true);
        if self.many {
            self.alternatives = texts.to_vec();
        }
    }

    pub(super) fn end(&mut self, out: &mut Vec<Word<'_>>) {
        let fresh = Self::split_at(self.separators.clone());
        let field = std::mem::replace(self, fresh);
        if !field.begun {
            return;
        }
        let certainty = match field.unknown {
            None => Certainty::Known,
            Some(_) if field.many => Certainty::Many,
            Some(at) => Certainty::From(at),
        };
        out.push(Word {
            text: Cow::Owned(field.text),
            certainty,
            item: Item::Elsewhere,
            span: None,
            reason: field.reason.map(Cow::Owned),
            is_part: false,
            alternatives: if certainty == Certainty::Many {
                field.alternatives
            } else {
                Vec::new()
            },
        });
    }

    /// A value: split at blanks where it is not quoted.
    pub(super) fn value(&mut self, text: &str, quoted: bool, out: &mut Vec<Word<'_>>) {
        if quoted {
            self.text(text);
            return;
        }
        if let Some(separators) = self.separators.clone() {
            self.separated(text, &separators, out);
            return;
        }
        let blank = |c: char| matches!(c, ' ' | '\t' | '\n');
        if text.starts_with(blank) {
            self.end(out);
        }
        let mut parts = text.split(blank).filter(|part| !part.is_empty()).peekable();
        while let Some(part) = parts.next() {
            self.text(part);
            if parts.peek().is_some() {
                self.end(out);
            }
        }
        if text.ends_with(blank) {
            self.end(out);
        }
    }

    /// A value that is split at the letters of `IFS`: blanks among them as usual, each of the others ends a word, be it
    /// an empty one.
    fn separated(&mut self, text: &str, separators: &str, out: &mut Vec<Word<'_>>) {
        let is_blank = |c: char| matches!(c, ' ' | '\t' | '\n');
        // Whether blanks have ended a word, so that a separator right behind them ends no other one.
        let mut ended_by_blanks = false;
        for letter in text.chars() {
            if !separators.contains(letter) {
                self.begun = true;
                self.many = false;
                self.text.push(letter);
                ended_by_blanks = false;
            } else if is_blank(letter) {
                ended_by_blanks |= self.begun;
                self.end(out);
            } else if std::mem::take(&mut ended_by_blanks) {
            } else {
                self.begun = true;
                self.end(out);
            }
        }
    }

    pub(super) fn word(&mut self, word: &Word<'_>, quoted: bool, out: &mut Vec<Word<'_>>) {
        if word.certainty == Certainty::Known {
            self.value(&word.text, quoted, out);
        } else {
            self.unknown(&word.text, word.reason.as_deref().unwrap_or("not known"), !quoted);
        }
    }

    /// `"$*"`: several words that become one.
    pub(super) fn one<'w, 'a: 'w>(&mut self, words: impl IntoIterator<Item = &'w Word<'a>>) {
        self.text("");
        let between = match &self.separators {
            Some(separators) => separators.chars().next().map(String::from).unwrap_or_default(),
            None => " ".to_owned(),
        };
        for (index, word) in words.into_iter().enumerate() {
            if index > 0 {
                self.text.push_str(&between);
            }
            if word.certainty == Certainty::Known {
                self.text.push_str(&word.text);
            } else {
                self.unknown(&word.text, word.reason.as_deref().unwrap_or("not known"), false);
            }
        }
    }

    /// Several words, each a word of its own; the first and the last join what stands beside them.
    pub(super) fn words<'w, 'a: 'w>(
        &mut self,
        words: impl IntoIterator<Item = &'w Word<'a>>,
        quoted: bool,
        out: &mut Vec<Word<'a>>,
    ) {
        // The quotes of `"$@"` alone make no word.
        let alone = self.text.is_empty() && self.unknown.is_none();
        if alone {
            self.begun = false;
        }
        for word in words {
            let splits = |c: char| match &self.separators {
                Some(separators) => separators.contains(c),
                None => matches!(c, ' ' | '\t' | '\n'),
            };
            let whole = alone && (quoted || !word.text.contains(splits));
            if whole {
                out.push(word.clone());
            } else {
                self.word(word, quoted, out);
                self.end(out);
            }
        }
    }
}

/// Bytes that a word takes beside its frame.
pub(super) fn weight(word: &Word<'_>) -> usize {
    let alternatives: usize = word.alternatives.iter().map(String::len).sum();
    word.text.len() + 1 + alternatives
}
