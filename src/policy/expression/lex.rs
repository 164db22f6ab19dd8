//! Words of an expression.

use super::Wrong;

/// One word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A name, `in`, `true` and `false` among them.
    Name(String),
    /// A whole number without sign.
    Int(u64),
    /// A text, without quotes and escapes.
    Text(String),
    /// An operator or a bracket.
    Mark(&'static str),
    /// The end.
    End,
}

/// A word and where it begins, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) token: Token,
    pub(super) at: usize,
}

/// Longer marks first.
const MARKS: [&str; 25] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(", ")",
    "[", "]", "{", "}", "=",
];

/// All words of a source, the end included.
pub(super) fn words(source: &str) -> Result<Vec<Word>, Wrong> {
    let mut lexer = Lexer { source, at: 0 };
    let mut words = Vec::new();
    loop {
        lexer.blanks();
        let at = lexer.at;
        let token = lexer.token()?;
        let is_end = token == Token::End;
        words.push(Word { token, at });
        if is_end {
            return Ok(words);
        }
    }
}

struct Lexer<'s> {
    source: &'s str,
    at: usize,
}

impl<'s> Lexer<'s> {
    fn rest(&self) -> &'s str {
        self.source.get(self.at..).unwrap_or_default()
    }

    /// White space, and comments to the end of their line.
    fn blanks(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with("//") {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    fn token(&mut self) -> Result<Token, Wrong> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return Ok(Token::End);
        };
        if let Some(text) = self.text()? {
            return Ok(Token::Text(text));
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let end = rest
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            let (name, _) = rest.split_at_checked(end).unwrap_or((rest, ""));
            self.at += end;
            return Ok(Token::Name(name.to_owned()));
        }
        if first.is_ascii_digit() {
            return self.number();
        }
        match MARKS.iter().find(|mark| rest.starts_with(**mark)) {
            Some(&"=") => Err(Wrong::at(self.at, "= is no operator; write == to compare")),
            Some(mark) => {
                self.at += mark.len();
                Ok(Token::Mark(mark))
            }
            None if matches!(first, '&' | '|') => Err(Wrong::at(
                self.at,
                format!("{first} is no operator; write {first}{first}"),
            )),
            None => Err(Wrong::at(self.at, format!("{first:?} belongs to no expression"))),
        }
    }

    fn number(&mut self) -> Result<Token, Wrong> {
        let rest = self.rest();
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '_')
            .unwrap_or(rest.len());
        let (digits, _) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let read = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            Some(hexadecimal) if hexadecimal.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                u64::from_str_radix(hexadecimal, 16).ok()
            }
            _ => digits
                .bytes()
                .all(|byte| byte.is_ascii_digit())
                .then(|| digits.parse().ok())
                .flatten(),
        };
        // One more than the largest: the lowest number is written with a sign before it.
        match read.filter(|number| *number <= 1 << 63) {
            Some(number) => {
                self.at += end;
                Ok(Token::Int(number))
            }
            None => Err(Wrong::at(
                self.at,
                format!(
                    "{} is no whole number of 64 bits; nothing that an expression sees is a fraction",
                    digits.chars().take(40).collect::<String>()
                ),
            )),
        }
    }

    /// A text in any of CEL's quotes: `'…'`, `"…"`, three of them over several lines, `r` before them for no escapes.
    fn text(&mut self) -> Result<Option<String>, Wrong> {
        let begin = self.at;
        let rest = self.rest();
        let (raw, quoted) = match rest.strip_prefix(['r', 'R']) {
            Some(quoted) if quoted.starts_with(['\'', '"']) => (true, quoted),
            _ => (false, rest),
        };
        if let Some(bytes) = rest.strip_prefix(['b', 'B'])
            && bytes.starts_with(['\'', '"'])
        {
            return Err(Wrong::at(
                begin,
                "bytes are nothing that an expression sees; leave out the b",
            ));
        }
        let Some(quote) = ["\"\"\"", "'''", "\"", "'"]
            .into_iter()
            .find(|quote| quoted.starts_with(quote))
        else {
            return Ok(None);
        };
        let mut at = begin + (rest.len() - quoted.len()) + quote.len();
        let mut text = String::new();
        loop {
            let rest = self.source.get(at..).unwrap_or_default();
            if rest.starts_with(quote) {
                self.at = at + quote.len();
                return Ok(Some(text));
            }
            match rest.chars().next() {
                None => {
                    return Err(Wrong::at(
                        begin,
                        format!("a text begins with {quote} and never ends"),
                    ));
                }
                Some('\n' | '\r') if quote.len() == 1 => {
                    return Err(Wrong::at(
                        begin,
                        format!("a text begins with {quote} and does not end on its line"),
                    ));
                }
                Some('\\') if !raw => {
                    let (letter, length) = escape(rest)
                        .ok_or_else(|| Wrong::at(at, "is no escape that CEL knows; write \\\\ for \\"))?;
                    text.push(letter);
                    at += length;
                }
                Some(letter) => {
                    text.push(letter);
                    at += letter.len_utf8();
                }
            }
        }
    }
}

/// The letter behind an escape and the length of the escape.
fn escape(rest: &str) -> Option<(char, usize)> {
    let kind = rest.chars().nth(1)?;
    let by_number = |digits: usize, radix: u32, skipped: usize| -> Option<(char, usize)> {
        let text = rest.get(skipped..skipped + digits)?;
        let is_plain = text.chars().all(|c| c.is_digit(radix));
        let number = is_plain
            .then(|| u32::from_str_radix(text, radix).ok())
            .flatten()?;
        Some((char::from_u32(number)?, skipped + digits))
    };
    let letter = match kind {
        '\\' | '\'' | '"' | '`' | '?' => kind,
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        'x' | 'X' => return by_number(2, 16, 2),
        'u' => return by_number(4, 16, 2),
        'U' => return by_number(8, 16, 2),
        '0'..='3' => return by_number(3, 8, 1),
        _ => return None,
    };
    Some((letter, 2))
}
