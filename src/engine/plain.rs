//! Options of engines whose parser is not modelled: a word of the command line, else a variable of the container.

use std::borrow::Cow;

use super::reader::{Context, Flag};
use super::refusals;
use super::serving::shown;
use super::{Reading, Starts, Unresolved};
use crate::invocation::{Certainty, Command, Word};

/// Where the options of an engine stand.
#[derive(Clone, Copy)]
pub(super) struct Options<'o> {
    pub(super) context: &'o Context<'o>,
    pub(super) command: &'o Command<'o>,
    pub(super) words: &'o [Word<'o>],
}

impl Options<'_> {
    /// The value of the option that is called `names`, else that of `variable` (no variable where it is empty). The
    /// command line wins. A value that is not known is noted in the reading.
    pub(super) fn text(self, reading: &mut Reading, names: &[&str], variable: &str) -> Option<String> {
        if Flag::last(self.words, names).is_some() {
            return reading.option(self.words, names);
        }
        if variable.is_empty() {
            return None;
        }
        match self.context.variable(self.command, variable)? {
            Ok(text) => Some(text),
            Err(reason) => {
                note(reading, field(names, variable), reason);
                None
            }
        }
    }

    /// The same as an integer, negative ones too.
    pub(super) fn integer(self, reading: &mut Reading, names: &[&str], variable: &str) -> Option<i64> {
        let text = self.text(reading, names, variable)?;
        let int = text.trim().parse().ok();
        if int.is_none() {
            note(
                reading,
                field(names, variable),
                format!("{} is no whole number", shown(&text)),
            );
        }
        int
    }

    /// The same as a number from zero on.
    pub(super) fn number(self, reading: &mut Reading, names: &[&str], variable: &str) -> Option<u64> {
        let text = self.text(reading, names, variable)?;
        number(reading, field(names, variable), &text)
    }

    /// The same as a number of at least one.
    pub(super) fn count(self, reading: &mut Reading, names: &[&str], variable: &str) -> Option<u64> {
        let text = self.text(reading, names, variable)?;
        count(reading, field(names, variable), &text)
    }

    /// Whether a flag without a value is on, by a word or by a variable that says so.
    pub(super) fn switch(self, reading: &mut Reading, names: &[&str], variable: &str) -> bool {
        if self.has(names) {
            return true;
        }
        if variable.is_empty() {
            return false;
        }
        match self.context.variable(self.command, variable) {
            Some(Ok(text)) => means_yes(&text) == Some(true),
            Some(Err(reason)) => {
                note(reading, field(names, variable), reason);
                false
            }
            None => false,
        }
    }

    /// Whether one of the words is an option of these names, without or with a value behind `=`.
    pub(super) fn has(self, names: &[&str]) -> bool {
        self.words.iter().any(|word| {
            let name = word.text.split('=').next().unwrap_or_default();
            names.contains(&name)
        })
    }
}

/// The words that were meant where an item of the container holds several; as they are where none does.
pub(super) fn meant<'a, 'w>(words: &'a [Word<'w>]) -> Cow<'a, [Word<'w>]> {
    match refusals::split_items(words, &|name| name.starts_with('-')) {
        Some(split) => Cow::Owned(split),
        None => Cow::Borrowed(words),
    }
}

/// VG104, where words had to be split to read what was meant: an engine that is started without a shell refuses the
/// item as an option that it does not know.
pub(super) fn tell_split(context: &Context<'_>, is_split: bool, reading: &mut Reading) {
    if is_split {
        reading.starts = Starts::No;
        reading.without_edits();
        reading.findings.extend(refusals::first_with_several(context));
    }
}

/// The first word that is neither an option nor the value of one. `flags` are the options without a value. `None` also
/// where a word before it can be several.
pub(super) fn positional<'w, 'a>(words: &'w [Word<'a>], flags: &[&str]) -> Option<&'w Word<'a>> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word.certainty == Certainty::Many {
            return None;
        }
        if !word.text.starts_with('-') || word.text.len() == 1 {
            return Some(word);
        }
        if !word.text.contains('=') && !flags.contains(&&*word.text) {
            words.next();
        }
    }
    None
}

/// A text as a number from zero on; what is none is noted as `field`.
pub(super) fn number(reading: &mut Reading, field: &str, text: &str) -> Option<u64> {
    let number = text.trim().parse().ok();
    if number.is_none() {
        let reason = format!("{} is no whole number from 0 on", shown(text));
        note(reading, field, reason);
    }
    number
}

/// A text as a number of at least one; what is none is noted as `field`.
pub(super) fn count(reading: &mut Reading, field: &str, text: &str) -> Option<u64> {
    let count = number(reading, field, text)?;
    if count == 0 {
        note(reading, field, "0 is no number that it can mean".to_owned());
    }
    Some(count).filter(|count| *count > 0)
}

/// Whether a text switches something on or off; `None` for what does neither.
pub(super) fn means_yes(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "on" | "true" | "enabled" => Some(true),
        "0" | "off" | "false" | "disabled" => Some(false),
        _ => None,
    }
}

/// Notes why an option is not known, once for each.
pub(super) fn note(reading: &mut Reading, field: &str, reason: String) {
    if reading.unresolved.iter().any(|known| known.field == field) {
        return;
    }
    reading.unresolved.push(Unresolved {
        field: field.to_owned(),
        reason,
        decides_memory: false,
    });
}

/// The name of an option in notes: its first one, else that of its variable.
fn field<'n>(names: &[&'n str], variable: &'n str) -> &'n str {
    names
        .first()
        .map_or(variable, |name| name.trim_start_matches('-'))
}
