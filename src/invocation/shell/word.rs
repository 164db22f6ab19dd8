//! Words: quotes, assignments, arrays.

use super::balanced::Within;
use super::{Kind, Lexer, Piece, UNCLOSED, is_name};

impl Lexer<'_> {
    pub(super) fn word(&mut self) -> Result<Kind, &'static str> {
        let start = self.at;
        let mut pieces = Vec::new();
        let mut bare = true;
        // An assignment is recognised by its unquoted name.
        let name = self.rest().bytes().take_while(|b| is_name(*b)).count();
        let after = self.rest().get(name..).unwrap_or_default();
        let assignment = (name > 0 && !self.rest().as_bytes()[0].is_ascii_digit())
            .then(|| {
                if after.starts_with("+=") {
                    Some(2)
                } else {
                    after.starts_with('=').then_some(1)
                }
            })
            .flatten();
        if let Some(operator) = assignment {
            let name = self.text[start..start + name].to_owned();
            self.at += name.len() + operator;
            let append = operator == 2;
            if self.peek(0) == Some(b'(') {
                self.at += 1;
                let items = self.array()?;
                return Ok(Kind::AssignArray { name, append, items });
            }
            self.unquoted(&mut pieces, &mut bare)?;
            return Ok(Kind::Assign {
                name,
                append,
                value: pieces,
            });
        }
        if let Some(raw) = self.process()? {
            pieces.push(Piece::Unreadable { raw, quoted: true });
            return Ok(Kind::Word { pieces, bare: false });
        }
        self.unquoted(&mut pieces, &mut bare)?;
        if self.at == start {
            // A stray bracket.
            return Err("a form of the shell that is not read");
        }
        self.braces(start, &mut pieces, &mut bare);
        Ok(Kind::Word { pieces, bare })
    }

    /// `<( … )` and `>( … )`: the name of a pipe to programs that run beside.
    fn process(&mut self) -> Result<Option<String>, &'static str> {
        let start = self.at;
        if !(self.rest().starts_with("<(") || self.rest().starts_with(">(")) {
            return Ok(None);
        }
        self.at += 2;
        self.balanced(Within::Commands)?;
        Ok(Some(self.text[start..self.at].to_owned()))
    }

    /// A word with `{a,b}` or `{1..3}` in it is several words in bash and one in `sh`: neither is said to be known.
    fn braces(&self, start: usize, pieces: &mut Vec<Piece>, bare: &mut bool) {
        let raw = &self.text[start..self.at];
        if expands(raw) {
            let raw = raw.to_owned();
            *pieces = vec![Piece::Unreadable { raw, quoted: false }];
            *bare = false;
        }
    }

    fn array(&mut self) -> Result<Vec<Vec<Piece>>, &'static str> {
        let mut items = Vec::new();
        loop {
            self.blanks();
            match self.peek(0) {
                None => return Err(UNCLOSED),
                Some(b'\n') => self.at += 1,
                Some(b')') => {
                    self.at += 1;
                    return Ok(items);
                }
                Some(_) => {
                    let start = self.at;
                    let mut pieces = Vec::new();
                    self.unquoted(&mut pieces, &mut true)?;
                    if self.at == start {
                        return Err("a form of the shell that is not read");
                    }
                    self.braces(start, &mut pieces, &mut true);
                    items.push(pieces);
                }
            }
        }
    }

    fn unquoted(&mut self, pieces: &mut Vec<Piece>, bare: &mut bool) -> Result<(), &'static str> {
        while let Some(byte) = self.peek(0) {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>' => {
                    return Ok(());
                }
                b'\\' => {
                    self.at += 1;
                    if self.peek(0) == Some(b'\n') {
                        self.at += 1;
                    } else if let Some(c) = self.take() {
                        *bare = false;
                        push(pieces, c);
                    }
                }
                b'\'' => {
                    *bare = false;
                    self.at += 1;
                    let text = self.rest().split('\'').next().unwrap_or_default().to_owned();
                    self.at += text.len() + 1;
                    if self.at > self.text.len() {
                        return Err(UNCLOSED);
                    }
                    push_text(pieces, &text);
                }
                b'"' => {
                    *bare = false;
                    self.at += 1;
                    push_text(pieces, "");
                    self.quoted(Some(b'"'), pieces)?;
                }
                b'$' | b'`' => {
                    *bare = false;
                    self.expansion(false, pieces)?;
                }
                _ => {
                    if let Some(c) = self.take() {
                        push(pieces, c);
                    }
                }
            }
        }
        Ok(())
    }

    /// Text between double quotes, up to `end`; to the end of the text where that is `None`.
    pub(super) fn quoted(&mut self, end: Option<u8>, pieces: &mut Vec<Piece>) -> Result<(), &'static str> {
        while let Some(byte) = self.peek(0) {
            if Some(byte) == end {
                self.at += 1;
                return Ok(());
            }
            match byte {
                b'\\' => {
                    self.at += 1;
                    match self.peek(0) {
                        Some(b'\n') => self.at += 1,
                        Some(b'$' | b'`' | b'"' | b'\\') => {
                            if let Some(c) = self.take() {
                                push(pieces, c);
                            }
                        }
                        _ => push(pieces, '\\'),
                    }
                }
                b'$' | b'`' => self.expansion(true, pieces)?,
                _ => {
                    if let Some(c) = self.take() {
                        push(pieces, c);
                    }
                }
            }
        }
        if end.is_some() { Err(UNCLOSED) } else { Ok(()) }
    }
}

pub(super) fn push(pieces: &mut Vec<Piece>, c: char) {
    if let Some(Piece::Text(text)) = pieces.last_mut() {
        text.push(c);
    } else {
        pieces.push(Piece::Text(c.to_string()));
    }
}

pub(super) fn push_text(pieces: &mut Vec<Piece>, more: &str) {
    if let Some(Piece::Text(text)) = pieces.last_mut() {
        text.push_str(more);
    } else {
        pieces.push(Piece::Text(more.to_owned()));
    }
}

/// Whether a word has braces without quotes that hold a comma or a range.
fn expands(raw: &str) -> bool {
    if !raw.contains('{') {
        return false;
    }
    let bytes = raw.as_bytes();
    // For each brace that is open, whether it would expand; `None` for `${`.
    let mut open: Vec<Option<bool>> = Vec::new();
    let (mut at, mut brackets) = (0, 0_u32);
    let (mut double, mut single) = (false, false);
    while let Some(byte) = bytes.get(at) {
        let next = bytes.get(at + 1);
        at += 1;
        match byte {
            b'\'' if !double => single = !single,
            _ if single => {}
            b'\\' => at += 1,
            b'"' => double = !double,
            b'$' if next == Some(&b'{') => {
                open.push(None);
                at += 1;
            }
            b'$' if next == Some(&b'(') => {
                brackets += 1;
                at += 1;
            }
            b'(' if brackets > 0 => brackets += 1,
            b')' => brackets = brackets.saturating_sub(1),
            b'}' if open.last() == Some(&None) => {
                open.pop();
            }
            _ if brackets > 0 || double => {}
            b'{' => open.push(Some(false)),
            b',' => {
                if let Some(Some(expands)) = open.last_mut() {
                    *expands = true;
                }
            }
            b'.' if next == Some(&b'.') => {
                if let Some(Some(expands)) = open.last_mut() {
                    *expands = true;
                }
            }
            b'}' if open.pop() == Some(Some(true)) => return true,
            _ => {}
        }
    }
    false
}
