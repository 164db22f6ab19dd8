//! A script's parameters: `$1`, `$@`, `$#`, `shift`.

use std::borrow::Cow;

use super::super::{Certainty, Word};
use super::Runner;
use super::variable::Variable;

/// Parameters that are those of one way or another: any words.
pub(super) fn any<'a>(zero: Option<Word<'a>>, reason: &str) -> Vec<Word<'a>> {
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
    pub(super) fn parameter(&self, index: usize) -> Variable<'a> {
        let upto = self.positional.iter().take(index.saturating_add(1));
        // Behind one that stands for any number of words none has a number.
        let many = upto.skip(1).find(|word| word.certainty == Certainty::Many);
        match many.or_else(|| self.positional.get(index)) {
            Some(word) if word.certainty == Certainty::Known => {
                Variable::Text(word.text.clone().into_owned())
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
    pub(super) fn number_of_parameters(&self) -> Variable<'a> {
        let mut words = self.positional.iter().skip(1);
        match words.find(|word| word.certainty == Certainty::Many) {
            None => Variable::Text(self.positional.len().saturating_sub(1).to_string()),
            Some(word) => Variable::Unknown(
                word.reason
                    .as_deref()
                    .unwrap_or("the number of parameters is not known")
                    .to_owned(),
            ),
        }
    }

    /// `set -- …`.
    pub(super) fn parameters(&mut self, words: Vec<Word<'a>>, conditional: bool) {
        if conditional && words != self.positional {
            let reason = "the script sets its parameters under a condition";
            self.positional = any(self.positional.first().cloned(), reason);
        } else {
            self.positional = words;
        }
    }

    /// `shift`, by a number that is perhaps not known.
    pub(super) fn shift(&mut self, count: Option<usize>, conditional: bool) {
        let Some(count) = count.filter(|_| !conditional) else {
            let reason = "the script shifts its parameters by a number that is not known";
            self.positional = any(self.positional.first().cloned(), reason);
            return;
        };
        let words = self.positional.get(1..).unwrap_or_default();
        // With fewer words than that it does nothing.
        if count == 0 || count > words.len() {
            return;
        }
        let known = words
            .iter()
            .take_while(|word| word.certainty != Certainty::Many)
            .count();
        self.positional.drain(1..=count.min(known));
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
            let reason = format!("{name} is filled by {} when the script runs", first.text);
            self.set(&name, Variable::Unknown(reason));
        }
    }
}
