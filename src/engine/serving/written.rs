//! Options of a command line that an engine's own parser has read, each with a note where its value stays unknown.

use crate::engine::Unresolved;
use crate::engine::argparse::Setting;
use crate::engine::argparse::value::Value;
use crate::engine::line::LineView;

/// Takes the values of options out of a command line. A value that stands there and cannot be used is noted under the
/// option's name, so that it is never taken for an option that is absent.
pub(in crate::engine) struct Written<'n, 'l, 'w> {
    line: &'l LineView<'l, 'w>,
    unresolved: &'n mut Vec<Unresolved>,
}

impl<'n, 'l, 'w> Written<'n, 'l, 'w> {
    pub(in crate::engine) fn new(line: &'l LineView<'l, 'w>, unresolved: &'n mut Vec<Unresolved>) -> Self {
        Self { line, unresolved }
    }

    /// Whether words or a file that cannot be read may set anything.
    pub(in crate::engine) fn open(&self) -> bool {
        self.line.parsed.open.is_some() || self.line.parsed.unread_config.is_some()
    }

    /// Whether a flag is on.
    pub(in crate::engine) fn flag(&self, option: &str) -> bool {
        self.line.parsed.flag(option)
    }

    /// Whether a flag is on, where it or its negation is written.
    pub(in crate::engine) fn choice(&self, option: &str) -> Option<bool> {
        self.line.parsed.last(option).map(|setting| !setting.negated)
    }

    /// Whether the option is written at all, however its value reads.
    pub(in crate::engine) fn has(&self, option: &str) -> bool {
        self.line.parsed.last(option).is_some()
    }

    /// The use of an option that counts, where its value is known and none that unsets it.
    pub(in crate::engine) fn setting(&mut self, option: &str) -> Option<&'l Setting<'w>> {
        let setting = self.line.parsed.last(option)?;
        match setting.value {
            Value::Unset => None,
            Value::Unresolved => {
                let field = option.trim_start_matches('-');
                self.line.note_unresolved(setting, field, false, self.unresolved);
                None
            }
            Value::Refused(_) => {
                self.note(
                    option,
                    &format!("{} does not take {}", self.line.engine, shown(&setting.text)),
                );
                None
            }
            Value::Flag | Value::Text | Value::Int(_) => Some(setting),
        }
    }

    /// The text of an option.
    pub(in crate::engine) fn text(&mut self, option: &str) -> Option<&'l str> {
        self.setting(option).map(|setting| &*setting.text)
    }

    /// An integer, negative ones too.
    pub(in crate::engine) fn integer(&mut self, option: &str) -> Option<i128> {
        match self.setting(option)?.value {
            Value::Int(int) => Some(int),
            _ => None,
        }
    }

    /// A number from zero on.
    pub(in crate::engine) fn number(&mut self, option: &str) -> Option<u64> {
        let int = self.integer(option)?;
        let number = u64::try_from(int).ok();
        if number.is_none() {
            self.note(option, &format!("{int} is no number that it can mean"));
        }
        number
    }

    /// A number of at least one.
    pub(in crate::engine) fn count(&mut self, option: &str) -> Option<u64> {
        let count = self.number(option)?;
        if count == 0 {
            self.note(option, "0 is no number that it can mean");
        }
        Some(count).filter(|count| *count > 0)
    }

    /// The bytes of a decimal number of GiB.
    pub(in crate::engine) fn gibibytes(&mut self, option: &str) -> Option<u64> {
        let text = self.text(option)?;
        let bytes = super::gibibytes_in_bytes(text);
        if bytes.is_none() {
            self.note(option, &format!("{} is no size in GiB", shown(text)));
        }
        bytes
    }

    /// Notes why what an option says is not known, once for each option.
    pub(in crate::engine) fn note(&mut self, option: &str, reason: &str) {
        let field = option.trim_start_matches('-');
        if self.unresolved.iter().any(|known| known.field == field) {
            return;
        }
        self.unresolved.push(Unresolved {
            field: field.to_owned(),
            reason: reason.to_owned(),
            decides_memory: false,
        });
    }
}

/// A value as far as a text shows it.
pub(in crate::engine) fn shown(text: &str) -> String {
    let shown: String = text.chars().take(60).collect();
    format!("{shown:?}")
}
