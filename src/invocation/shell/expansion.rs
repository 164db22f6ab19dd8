//! What begins with `$`, and `` `…` ``.

use super::balanced::Within;
use super::word::{push, push_text};
use super::{Change, Lexer, Otherwise, Piece, UNCLOSED, is_name, pieces_at};

impl Lexer<'_> {
    pub(super) fn expansion(&mut self, quoted: bool, pieces: &mut Vec<Piece>) -> Result<(), &'static str> {
        let start = self.at;
        if self.peek(0) == Some(b'`') {
            let length = self.rest()[1..].find('`').ok_or(UNCLOSED)?;
            self.at += length + 2;
            let raw = self.text[start..self.at].to_owned();
            pieces.push(Piece::Unreadable { raw, quoted });
            return Ok(());
        }
        match self.peek(1) {
            Some(b'(') if self.peek(2) == Some(b'(') => {
                self.at += 3;
                let inner = self.balanced(Within::Sum)?;
                if self.peek(0) != Some(b')') {
                    return Err("an expansion that is not read");
                }
                self.at += 1;
                pieces.push(Piece::Arithmetic(inner));
            }
            Some(b'(') => {
                self.at += 2;
                self.balanced(Within::Commands)?;
                let raw = self.text[start..self.at].to_owned();
                pieces.push(Piece::Unreadable { raw, quoted });
            }
            Some(b'{') => {
                self.at += 2;
                let inner = self.balanced(Within::Word { quoted })?;
                pieces.push(
                    braced(&inner, quoted, self.depth + 1).unwrap_or_else(|| Piece::Unreadable {
                        raw: self.text[start..self.at].to_owned(),
                        quoted,
                    }),
                );
            }
            Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => {
                self.at += 1;
                let length = self.rest().bytes().take_while(|b| is_name(*b)).count();
                let name = self.rest()[..length].to_owned();
                self.at += length;
                pieces.push(Piece::Variable {
                    name,
                    otherwise: None,
                    quoted,
                });
            }
            Some(byte) if byte.is_ascii_digit() || b"@*#?!$-".contains(&byte) => {
                self.at += 2;
                let name = char::from(byte).to_string();
                pieces.push(Piece::Variable {
                    name,
                    otherwise: None,
                    quoted,
                });
            }
            // `$"…"` is translated where there is a translation.
            Some(b'"') if !quoted => self.at += 1,
            Some(b'\'') if !quoted => {
                self.at += 2;
                let text = self.rest().split('\'').next().unwrap_or_default().to_owned();
                self.at += text.len() + 1;
                if self.at > self.text.len() || text.contains('\\') {
                    return Err("an escaped quote that is not read");
                }
                push_text(pieces, &text);
            }
            _ => {
                self.at += 1;
                push(pieces, '$');
            }
        }
        Ok(())
    }
}

impl Lexer<'_> {
    /// The inside of `(( … ))`, the command; `None`, and nothing taken, where that stands for two lists in brackets.
    pub(super) fn arithmetic(&mut self) -> Option<String> {
        if self.peek(0) != Some(b'(') || self.peek(1) != Some(b'(') {
            return None;
        }
        // Each bracket may begin one: what is looked through for its end is short.
        let mut end = self.text.len().min(self.at + LONGEST_ARITHMETIC);
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let start = self.at + 2;
        let mut depth = 0_u32;
        for (offset, byte) in self.text.as_bytes()[start..end].iter().enumerate() {
            match byte {
                b'(' => depth += 1,
                b')' if depth > 0 => depth -= 1,
                b')' => {
                    let close = start + offset;
                    if self.text.as_bytes().get(close + 1) != Some(&b')') {
                        return None;
                    }
                    self.at = close + 2;
                    return Some(self.text[start..close].to_owned());
                }
                _ => {}
            }
        }
        None
    }
}

/// Bytes of `(( … ))`, the command.
const LONGEST_ARITHMETIC: usize = 256;

/// What `${NAME…}` makes of the value, by the text behind the name.
fn change(rest: &str, depth: u8) -> Option<Change> {
    match rest {
        ",," => return Some(Change::Lower),
        "^^" => return Some(Change::Upper),
        _ => {}
    }
    if let Some(rest) = rest.strip_prefix('/') {
        let (all, rest) = match rest.strip_prefix('/') {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let (from, to) = rest.split_once('/').unwrap_or((rest, ""));
        // A pattern, or one that is bound to an end.
        if from.is_empty() || from.contains(['*', '?', '[', '\\']) || from.starts_with(['#', '%']) {
            return None;
        }
        return Some(Change::Replace {
            all,
            from: pieces_at(unquoted(from), depth)?,
            to: pieces_at(unquoted(to), depth)?,
        });
    }
    let mark = rest.chars().next().filter(|mark| matches!(mark, '#' | '%'))?;
    let pattern = &rest[1..];
    let (longest, pattern) = match pattern.strip_prefix(mark) {
        Some(pattern) => (true, pattern),
        None => (false, pattern),
    };
    Some(Change::Trim {
        at_end: mark == '%',
        longest,
        pattern: pieces_at(unquoted(pattern), depth)?,
    })
}

/// A text without the quotes around all of it.
fn unquoted(word: &str) -> &str {
    let word = word
        .strip_prefix('"')
        .and_then(|word| word.strip_suffix('"'))
        .unwrap_or(word);
    word.strip_prefix('\'')
        .and_then(|word| word.strip_suffix('\''))
        .unwrap_or(word)
}

/// The first word and the number of words of `[@]:2:3`, and of `:2:3` behind `@`, where both are plain numbers.
fn slice(name: &str, rest: &str) -> Option<(usize, Option<usize>)> {
    let rest = match name {
        "@" | "*" => rest,
        _ => rest.strip_prefix("[@]").or_else(|| rest.strip_prefix("[*]"))?,
    };
    let number = |text: &str| text.trim().parse().ok();
    match rest.strip_prefix(':')?.split_once(':') {
        Some((from, count)) => Some((number(from)?, Some(number(count)?))),
        None => Some((number(&rest[1..])?, None)),
    }
}

/// The inside of `${…}`.
fn braced(inner: &str, quoted: bool, depth: u8) -> Option<Piece> {
    let special = inner.starts_with(['@', '*']) || inner == "#";
    let length = if special {
        1
    } else {
        inner.bytes().take_while(|b| is_name(*b)).count()
    };
    let (name, rest) = inner.split_at(length);
    if name.is_empty() {
        return None;
    }
    let name = name.to_owned();
    if rest.is_empty() {
        return Some(Piece::Variable {
            name,
            otherwise: None,
            quoted,
        });
    }
    if rest == "[@]" || rest == "[*]" {
        let joins = rest == "[*]";
        return Some(Piece::Array { name, quoted, joins });
    }
    if let Some((from, count)) = slice(&name, rest) {
        return Some(Piece::Slice {
            name,
            from,
            count,
            quoted,
        });
    }
    if let Some(change) = change(rest, depth) {
        return Some(Piece::Changed { name, change, quoted });
    }
    let (empty, rest) = match rest.strip_prefix(':') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let (otherwise, word) = if let Some(word) = rest.strip_prefix('-') {
        (Otherwise::Use { empty, assign: false }, word)
    } else if let Some(word) = rest.strip_prefix('=') {
        (Otherwise::Use { empty, assign: true }, word)
    } else if let Some(word) = rest.strip_prefix('+') {
        (Otherwise::Alternative { empty }, word)
    } else if rest.starts_with('?') {
        (Otherwise::Fail, "")
    } else {
        return None;
    };
    let word = unquoted(word);
    Some(Piece::Variable {
        name,
        otherwise: Some((otherwise, pieces_at(word, depth)?)),
        quoted,
    })
}
