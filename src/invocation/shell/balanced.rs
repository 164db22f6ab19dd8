//! Where `$( … )`, `$(( … ))` and `${ … }` end.

use super::{Lexer, UNCLOSED};

/// What a form stands in while its end is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Within {
    /// `$( … )`.
    Commands,
    /// `( … )` among commands.
    Brackets,
    /// `$(( … ))`, also the inner bracket.
    Sum,
    /// `${ … }`; whether in quotes, where `'` is a letter.
    Word { quoted: bool },
    /// `" … "`.
    Quotes,
}

impl Lexer<'_> {
    /// The text up to what closes the form just taken, and past it. Forms within it are passed by a stack of their own:
    /// however deep they are, each byte is looked at once.
    pub(super) fn balanced(&mut self, outermost: Within) -> Result<String, &'static str> {
        let start = self.at;
        let mut open = vec![outermost];
        // Where the last escaped character or expansion ends: what follows belongs to the same word.
        let mut escaped = start;
        while let Some(byte) = self.peek(0) {
            let within = open.last().copied().unwrap_or(outermost);
            let before = self.at;
            match (byte, within) {
                (b'\\', _) => {
                    self.at += 1;
                    if self.peek(0) != Some(b'\n') {
                        escaped = self.at + 1;
                    }
                }
                (b'"', Within::Quotes) | (b')', Within::Brackets) => _ = open.pop(),
                (b'"', _) => open.push(Within::Quotes),
                (
                    b'\'',
                    Within::Commands | Within::Brackets | Within::Sum | Within::Word { quoted: false },
                ) => {
                    let length = self.rest()[1..].find('\'').ok_or(UNCLOSED)?;
                    self.at += length + 1;
                }
                (b'`', _) => {
                    let length = self.rest()[1..].find('`').ok_or(UNCLOSED)?;
                    self.at += length + 1;
                }
                (b'#', Within::Commands | Within::Brackets) if self.at != escaped && self.begins_word() => {
                    // Without the end of the line.
                    let length = self.rest().find('\n').unwrap_or(self.rest().len());
                    self.at += length.saturating_sub(1);
                }
                (b'$', _) if self.peek(1) == Some(b'{') => {
                    self.at += 1;
                    let quoted = matches!(within, Within::Quotes | Within::Word { quoted: true });
                    open.push(Within::Word { quoted });
                }
                (b'$', _) if self.peek(1) == Some(b'(') => {
                    self.at += 1;
                    open.push(if self.peek(1) == Some(b'(') {
                        Within::Sum
                    } else {
                        Within::Commands
                    });
                }
                (b'(', Within::Commands | Within::Brackets) => open.push(Within::Brackets),
                (b'(', Within::Sum) => open.push(Within::Sum),
                (b')', Within::Commands | Within::Sum) | (b'}', Within::Word { .. }) => {
                    open.pop();
                    escaped = self.at + 1;
                }
                _ => {}
            }
            if open.is_empty() {
                let inner = self.text[start..before].to_owned();
                self.at += 1;
                return Ok(inner);
            }
            // A backslash may be the last byte.
            self.at = (self.at + 1).min(self.text.len());
            while !self.text.is_char_boundary(self.at) {
                self.at += 1;
            }
        }
        Err(UNCLOSED)
    }

    /// Whether a word may begin at hand.
    fn begins_word(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.text.as_bytes().get(at));
        before.is_none_or(|byte| b" \t\n;&|()".contains(byte))
    }
}
