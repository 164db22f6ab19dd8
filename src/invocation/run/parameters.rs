//! A script's parameters: `$1`, `$@`, `$#`, `shift`.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::rc::Rc;

use super::super::reason::brief;
use super::super::{Certainty, Word};
use super::Runner;
use super::variable::Variable;

/// Parameters that are those of one way or another: any words.
pub(super) fn any<'a>(zero: Option<Word<'a>>, reason: &str) -> VecDeque<Word<'a>> {
    let any = Word {
        certainty: Certainty::Many,
        reason: Some(Cow::Owned(reason.to_owned())),
        ..Word::literal("$@")
    };
    let zero = zero.unwrap_or(Word::literal("sh"));
    [zero, any].into_iter().collect()
}

impl<'a> Runner<'a, '_> {
    /// `$1` … by its number. `$0` is the first word after the script.
    pub(super) fn parameter(&mut self, index: usize) -> Variable<'a> {
        let reached = index.saturating_add(1).min(self.positional.len());
        self.spend(reached);
        let upto = self.positional.iter().take(reached);
        // Behind one that stands for any number of words none has a number.
        let many = upto.skip(1).find(|word| word.certainty == Certainty::Many);
        match many.or_else(|| self.positional.get(index)) {
            Some(word) if word.certainty == Certainty::Known => {
                self.bytes = self.bytes.saturating_sub(word.text.len());
                Variable::Text(Rc::new(word.text.clone().into_owned()))
            }
            Some(word) => Variable::Unknown(
                word.reason
                    .clone()
                    .map_or_else(|| "not known".to_owned(), Cow::into_owned),
            ),
            None => Variable::Unset,
        }
    }

    /// `$#`.
    pub(super) fn number_of_parameters(&mut self) -> Variable<'a> {
        self.spend(self.positional.len());
        let mut words = self.positional.iter().skip(1);
        match words.find(|word| word.certainty == Certainty::Many) {
            None => Variable::Text(Rc::new(self.positional.len().saturating_sub(1).to_string())),
            Some(word) => Variable::Unknown(
                word.reason
                    .as_deref()
                    .unwrap_or("the number of parameters is not known")
                    .to_owned(),
            ),
        }
    }

    /// `set -- …`.
    pub(super) fn parameters(&mut self, words: VecDeque<Word<'a>>, conditional: bool) {
        if conditional && words != self.positional {
            let reason = "the script sets its parameters under a condition";
            self.positional = any(self.positional.front().cloned(), reason);
        } else {
            self.positional = words;
        }
    }

    /// `shift`, by a number that is perhaps not known.
    pub(super) fn shift(&mut self, count: Option<usize>, conditional: bool) {
        let there = self.positional.len().saturating_sub(1);
        // Words that it passes: as many as it shifts, or all.
        let passed = count.unwrap_or(0).min(there);
        self.spend(passed);
        let mut words = self.positional.iter().skip(1).take(passed);
        let many = words.position(|word| word.certainty == Certainty::Many);
        match count.filter(|_| !conditional) {
            Some(0) => {}
            Some(count) if count <= there => {
                // What stands for any number of words stays.
                self.positional.drain(1..=many.unwrap_or(count));
            }
            // With fewer words than that it does nothing.
            Some(_) if many.is_none() => {}
            _ => {
                let reason = "the script shifts its parameters by a number that is not known";
                self.positional = any(self.positional.front().cloned(), reason);
            }
        }
    }

    /// `read NAME`, `getopts LETTERS NAME`: what fills variables when the script runs.
    pub(super) fn filled(&mut self, words: &[Word<'a>]) {
        let Some((first, rest)) = words.split_first() else {
            return;
        };
        let mut names: Vec<String> = if first.text == "getopts" {
            let name = rest.get(1).map(|word| word.text.clone().into_owned());
            name.into_iter()
                .chain(["OPTARG".to_owned(), "OPTIND".to_owned()])
                .collect()
        } else {
            let plain = |word: &&Word<'_>| !word.text.starts_with('-');
            rest.iter()
                .filter(plain)
                .map(|word| word.text.clone().into_owned())
                .collect()
        };
        names.retain(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
        for name in names {
            let reason = format!(
                "{} is filled by {} when the script runs",
                brief(&name),
                first.text
            );
            self.set(&name, Variable::Unknown(reason));
        }
    }
}
