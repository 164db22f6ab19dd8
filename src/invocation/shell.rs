//! The POSIX shell's grammar as far as start scripts use it: words with quotes and expansions, operators, comments,
//! continuations, here-documents, redirections, arrays of bash.
//!
//! Every token keeps its place in the script.

use std::ops::Range;

mod balanced;
mod expansion;
mod redirection;
mod word;

use redirection::{HereDocument, Redirection};

/// A part of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Text as it is.
    Text(String),
    /// `$NAME`, `${NAME:-word}`; positional parameters too.
    Variable {
        name: String,
        otherwise: Option<(Otherwise, Vec<Piece>)>,
        quoted: bool,
    },
    /// `${NAME[@]}`.
    /// `joins`: `[*]`, which is one word in quotes.
    Array { name: String, quoted: bool, joins: bool },
    /// `${NAME[@]:from:count}`, `${@:from}`.
    Slice {
        name: String,
        from: usize,
        count: Option<usize>,
        quoted: bool,
    },
    /// `${NAME#pattern}`, `${NAME,,}`, `${NAME/pattern/text}`.
    Changed {
        name: String,
        change: Change,
        quoted: bool,
    },
    /// `$(( … ))`.
    Arithmetic(String),
    /// Something that would have to be executed: `$( … )`, or an expansion beyond the ones above.
    Unreadable { raw: String, quoted: bool },
}

/// What `${NAME…}` does without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Otherwise {
    /// `:-`, `-`, `:=`, `=`; `empty` where an empty value counts as none.
    Use { empty: bool, assign: bool },
    /// `:+`, `+`: the other way round.
    Alternative { empty: bool },
    /// `:?`, `?`.
    Fail,
}

/// What `${NAME…}` makes of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// `#`, `##`, `%`, `%%`: without its beginning or end.
    Trim {
        at_end: bool,
        longest: bool,
        pattern: Vec<Piece>,
    },
    /// `,,`.
    Lower,
    /// `^^`.
    Upper,
    /// `/` and `//`: a plain text in place of another.
    Replace {
        all: bool,
        from: Vec<Piece>,
        to: Vec<Piece>,
    },
}

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) span: Range<usize>,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A word; `bare` where nothing in it is quoted or expanded.
    Word { pieces: Vec<Piece>, bare: bool },
    /// `NAME=value` or `NAME+=value`.
    Assign {
        name: String,
        append: bool,
        value: Vec<Piece>,
    },
    /// `NAME=( … )` or `NAME+=( … )`.
    AssignArray {
        name: String,
        append: bool,
        items: Vec<Vec<Piece>>,
    },
    /// `> FILE` or `>> FILE` of the standard output.
    Into { append: bool, target: Vec<Piece> },
    /// `< FILE` of the standard input.
    From { source: Vec<Piece> },
    /// `<< WORD`: the text below the line.
    HereDocument {
        /// The text, with what it expands.
        body: Vec<Piece>,
        /// Its length in the script.
        bytes: usize,
    },
    /// `;`, `&&`, `||`, `|`, `&`, newline, `(`, `)`, `;;`.
    Operator(&'static str),
}

/// The tokens of a script; the second is why the rest could not be read.
pub(super) fn lex(script: &str) -> (Vec<Token>, Option<&'static str>) {
    let mut lexer = Lexer {
        text: script,
        at: 0,
        depth: 0,
        emitted: 0,
        here_documents: Vec::new(),
        bodies: Vec::new(),
    };
    let mut tokens: Vec<Token> = Vec::new();
    loop {
        let next = lexer.token();
        for (index, text) in lexer.bodies.drain(..) {
            if let Some(token) = tokens.get_mut(index)
                && matches!(token.kind, Kind::HereDocument { .. })
            {
                token.kind = text;
            }
        }
        match next {
            Ok(Some(token)) => tokens.push(token),
            Ok(None) => return (tokens, None),
            Err(reason) => return (tokens, Some(reason)),
        }
        lexer.emitted = tokens.len();
    }
}

/// The pieces of one word that stands alone, such as the text of `$(( … ))` or of a default.
pub(super) fn pieces(text: &str) -> Option<Vec<Piece>> {
    pieces_at(text, 0)
}

fn pieces_at(text: &str, depth: u8) -> Option<Vec<Piece>> {
    if depth > DEEPEST {
        return None;
    }
    let mut lexer = Lexer {
        text,
        at: 0,
        depth,
        emitted: 0,
        here_documents: Vec::new(),
        bodies: Vec::new(),
    };
    let mut pieces = Vec::new();
    lexer.quoted(None, &mut pieces).ok().map(|()| pieces)
}

/// Defaults within defaults that are read.
const DEEPEST: u8 = 16;

struct Lexer<'s> {
    text: &'s str,
    at: usize,
    depth: u8,
    /// Tokens so far.
    emitted: usize,
    here_documents: Vec<HereDocument>,
    /// Texts of here-documents, with the index of the token that each belongs to.
    bodies: Vec<(usize, Kind)>,
}

const UNCLOSED: &str = "a quote or bracket is not closed";

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Takes the character at hand.
    fn take(&mut self) -> Option<char> {
        let c = self.rest().chars().next()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn blanks(&mut self) {
        loop {
            match self.peek(0) {
                Some(b' ' | b'\t' | b'\r') => self.at += 1,
                Some(b'\\') if self.peek(1) == Some(b'\n') => self.at += 2,
                Some(b'#') => {
                    while self.peek(0).is_some_and(|b| b != b'\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    fn token(&mut self) -> Result<Option<Token>, &'static str> {
        loop {
            self.blanks();
            let start = self.at;
            if self.at >= self.text.len() {
                return Ok(None);
            }
            if let Some(name) = self.placeholder() {
                self.at += name.len();
                let pieces = vec![Piece::Unreadable {
                    raw: name,
                    quoted: true,
                }];
                return Ok(Some(Token {
                    kind: Kind::Word { pieces, bare: false },
                    span: start..self.at,
                }));
            }
            match self.redirection()? {
                Redirection::Other => {}
                Redirection::None => {
                    let token = self.operator_or_word(start)?;
                    return Ok(Some(token));
                }
                Redirection::Kept(kind) => {
                    return Ok(Some(Token {
                        kind,
                        span: start..self.at,
                    }));
                }
            }
        }
    }

    fn operator_or_word(&mut self, start: usize) -> Result<Token, &'static str> {
        if let Some(inner) = self.arithmetic() {
            let pieces = vec![Piece::Text(format!("(({inner}))"))];
            return Ok(Token {
                kind: Kind::Word { pieces, bare: false },
                span: start..self.at,
            });
        }
        let rest = self.rest();
        let operators = ["&&", "||", "|&", ";;", ";", "|", "&", "\n", "(", ")"];
        if let Some(operator) = operators.into_iter().find(|operator| rest.starts_with(operator)) {
            self.at += operator.len();
            if operator == "\n" {
                self.skip_here_documents();
            }
            let operator = if operator == "|&" { "|" } else { operator };
            return Ok(Token {
                kind: Kind::Operator(operator),
                span: start..self.at,
            });
        }
        let kind = self.word()?;
        Ok(Token {
            kind,
            span: start..self.at,
        })
    }
}

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
