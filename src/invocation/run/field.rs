//! A word that is being put together.

use std::borrow::Cow;

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
}

impl Field {
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
        let field = std::mem::take(self);
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

    pub(super) fn word(&mut self, word: &Word<'_>, quoted: bool, out: &mut Vec<Word<'_>>) {
        if word.certainty == Certainty::Known {
            self.value(&word.text, quoted, out);
        } else {
            self.unknown(&word.text, word.reason.as_deref().unwrap_or("not known"), !quoted);
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
            let whole = alone && (quoted || !word.text.contains([' ', '\t', '\n']));
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
