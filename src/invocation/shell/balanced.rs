//! Where `$( … )`, `$(( … ))` and `${ … }` end.

use super::{Lexer, UNCLOSED};

/// What a form stands in while its end is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Within {
    /// `$( … )`.
    Commands,
    /// `( … )` among commands.
    Brackets,
    /// `case … esac` among commands, whose patterns end with a bracket of their own.
    Case,
    /// `$(( … ))`, also the inner bracket.
    Sum,
    /// `${ … }`; whether in quotes, where `'` is a letter.
    Word { quoted: bool },
    /// `" … "`.
    Quotes,
}

impl Lexer<'_> {
    /// Whether the word at hand is `word`.
    fn is_word(&self, word: &str) -> bool {
        let rest = self.rest().strip_prefix(word);
        rest.is_some_and(|rest| {
            rest.is_empty() || rest.starts_with([' ', '\t', '\n', '\r', ';', '&', '|', '(', ')', '<', '>'])
        })
    }

    /// Whether the word at hand is `word`, and stands where a command begins.
    fn is_command(&self, start: usize, word: &str) -> bool {
        if !self.is_word(word) {
            return false;
        }
        let Some(before) = self.text.get(start..self.at) else {
            return false;
        };
        let text = before.trim_end_matches([' ', '\t', '\r']);
        let apart = text.len() < before.len();
        text.is_empty()
            || text.ends_with([';', '&', '|', '(', ')', '\n'])
            || apart
                && ["then", "do", "else", "{", "!"].into_iter().any(|keyword| {
                    let front = text.strip_suffix(keyword);
                    front.is_some_and(|front| {
                        front.is_empty() || front.ends_with([' ', '\t', '\n', ';', '&', '|', '('])
                    })
                })
    }

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
                (b'c', Within::Commands | Within::Brackets | Within::Case)
                    if (self.at != escaped || self.at == start) && self.is_command(start, "case") =>
                {
                    open.push(Within::Case);
                }
                (b'e', Within::Case) if self.at != escaped && self.begins_word() && self.is_word("esac") => {
                    open.pop();
                }
                (
                    b'\'',
                    Within::Commands
                    | Within::Brackets
                    | Within::Case
                    | Within::Sum
                    | Within::Word { quoted: false },
                ) => {
                    let length = self.rest()[1..].find('\'').ok_or(UNCLOSED)?;
                    self.at += length + 1;
                }
                (b'`', _) => {
                    let length = self.rest()[1..].find('`').ok_or(UNCLOSED)?;
                    self.at += length + 1;
                }
                (b'#', Within::Commands | Within::Brackets | Within::Case)
                    if self.at != escaped && self.begins_word() =>
                {
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
                (b'(', Within::Commands | Within::Brackets | Within::Case) => open.push(Within::Brackets),
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
