//! The POSIX shell's grammar as far as start scripts use it: words with quotes and expansions, operators, comments,
//! continuations, here-documents, redirections, arrays of bash.
//!
//! Every token keeps its place in the script.

use std::ops::Range;

mod balanced;

use balanced::Within;

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
    Array { name: String, quoted: bool },
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

/// A here-document whose text is still to come.
struct HereDocument {
    delimiter: String,
    /// Whether leading tabs are taken off.
    tabs: bool,
    /// Whether nothing in it is expanded.
    literal: bool,
    token: usize,
}

/// What stands at hand.
enum Redirection {
    /// No redirection.
    None,
    /// One that nothing here depends on.
    Other,
    /// One whose text matters.
    Kept(Kind),
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

    /// `<model-path>`: a place in a template that nobody filled in. To a shell it is two redirections, which is never
    /// what was meant.
    fn placeholder(&self) -> Option<String> {
        let inner = self.rest().strip_prefix('<')?;
        let length = inner
            .bytes()
            .take_while(|b| is_name(*b) || matches!(b, b'-' | b'.' | b'/'))
            .count();
        let after = inner.get(length..)?.strip_prefix('>')?;
        let ends = after.is_empty() || after.starts_with([' ', '\t', '\r', '\n', ';', '|']);
        let named = inner.starts_with(|c: char| c.is_ascii_alphabetic());
        (ends && named).then(|| format!("<{}>", &inner[..length]))
    }

    fn operator_or_word(&mut self, start: usize) -> Result<Token, &'static str> {
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

    /// Takes a redirection with its target; the text of a here-document follows after the line.
    fn redirection(&mut self) -> Result<Redirection, &'static str> {
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let rest = self.rest().get(digits..).unwrap_or_default();
        let operators = [
            "&>>", "&>", "<<<", "<<-", "<<", "<>", "<&", ">>", ">&", ">|", "<", ">",
        ];
        let Some(operator) = operators.into_iter().find(|operator| rest.starts_with(operator)) else {
            return Ok(Redirection::None);
        };
        if (operator == "<" || operator == ">") && rest[1..].starts_with('(') {
            return Ok(Redirection::None);
        }
        let standard = digits == 0 || digits == 1 && self.peek(0) == Some(b'1');
        self.at += digits + operator.len();
        self.blanks();
        let Kind::Word { pieces, bare } = self.word()? else {
            return Ok(Redirection::Other);
        };
        Ok(match operator {
            "<<" | "<<-" => {
                let delimiter = pieces
                    .iter()
                    .map(|piece| if let Piece::Text(text) = piece { text } else { "" })
                    .collect();
                self.here_documents.push(HereDocument {
                    delimiter,
                    tabs: operator == "<<-",
                    literal: !bare,
                    token: self.emitted,
                });
                Redirection::Kept(Kind::HereDocument {
                    body: Vec::new(),
                    bytes: 0,
                })
            }
            "<<<" => {
                let mut pieces = pieces;
                push_text(&mut pieces, "\n");
                Redirection::Kept(Kind::HereDocument {
                    body: pieces,
                    bytes: 0,
                })
            }
            ">" | ">>" | ">|" if standard => Redirection::Kept(Kind::Into {
                append: operator == ">>",
                target: pieces,
            }),
            _ => Redirection::Other,
        })
    }

    fn skip_here_documents(&mut self) {
        for document in std::mem::take(&mut self.here_documents) {
            let mut body = String::new();
            while self.at < self.text.len() {
                let line = self.rest().split('\n').next().unwrap_or_default();
                let length = line.len();
                let text = if document.tabs {
                    line.trim_start_matches('\t')
                } else {
                    line
                };
                let ends = text == document.delimiter;
                if !ends {
                    body.push_str(text);
                    body.push('\n');
                }
                self.at = (self.at + length + 1).min(self.text.len());
                if ends {
                    break;
                }
            }
            let bytes = body.len();
            let pieces = if document.literal { None } else { pieces(&body) };
            let body = pieces.unwrap_or_else(|| vec![Piece::Text(body)]);
            self.bodies
                .push((document.token, Kind::HereDocument { body, bytes }));
        }
    }

    fn word(&mut self) -> Result<Kind, &'static str> {
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
        self.unquoted(&mut pieces, &mut bare)?;
        if self.at == start {
            // A process substitution or a stray bracket.
            return Err("a form of the shell that is not read");
        }
        Ok(Kind::Word { pieces, bare })
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
    fn quoted(&mut self, end: Option<u8>, pieces: &mut Vec<Piece>) -> Result<(), &'static str> {
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

    fn expansion(&mut self, quoted: bool, pieces: &mut Vec<Piece>) -> Result<(), &'static str> {
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

/// The inside of `${…}`.
fn braced(inner: &str, quoted: bool, depth: u8) -> Option<Piece> {
    let special = inner.starts_with(['@', '*']);
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
        return Some(Piece::Array { name, quoted });
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
    let word = word
        .strip_prefix('"')
        .and_then(|word| word.strip_suffix('"'))
        .unwrap_or(word);
    let word = word
        .strip_prefix('\'')
        .and_then(|word| word.strip_suffix('\''))
        .unwrap_or(word);
    Some(Piece::Variable {
        name,
        otherwise: Some((otherwise, pieces_at(word, depth)?)),
        quoted,
    })
}

fn push(pieces: &mut Vec<Piece>, c: char) {
    if let Some(Piece::Text(text)) = pieces.last_mut() {
        text.push(c);
    } else {
        pieces.push(Piece::Text(c.to_string()));
    }
}

fn push_text(pieces: &mut Vec<Piece>, more: &str) {
    if let Some(Piece::Text(text)) = pieces.last_mut() {
        text.push_str(more);
    } else {
        pieces.push(Piece::Text(more.to_owned()));
    }
}

#[cfg(test)]
mod oracle;

#[cfg(test)]
mod tests {
    use super::*;

    fn words(script: &str) -> Vec<String> {
        let (tokens, reason) = lex(script);
        assert_eq!(reason, None, "{script}");
        let text = |pieces: &[Piece]| {
            pieces
                .iter()
                .map(|p| format!("{p:?}"))
                .collect::<Vec<_>>()
                .join("+")
        };
        tokens
            .iter()
            .filter(|token| !matches!(token.kind, Kind::Into { .. } | Kind::HereDocument { .. }))
            .map(|token| match &token.kind {
                Kind::Into { .. } | Kind::HereDocument { .. } => String::new(),
                Kind::Word { pieces, .. } => match pieces.as_slice() {
                    [Piece::Text(text)] => text.clone(),
                    other => text(other),
                },
                Kind::Operator(operator) => (*operator).to_owned(),
                Kind::Assign { name, .. } => format!("{name}=…"),
                Kind::AssignArray { name, items, .. } => format!("{name}=({})", items.len()),
            })
            .collect()
    }

    #[test]
    fn quotes_comments_and_continuations() {
        assert_eq!(
            words("a 'b c' \"d \\\"e\" f\\ g # no\nh \\\n  i#j"),
            ["a", "b c", "d \"e", "f g", "\n", "h", "i#j"]
        );
    }

    #[test]
    fn redirections_and_here_documents_are_no_words() {
        assert_eq!(
            words("cat <<'EOF' > /tmp/x 2>&1\nvllm serve no\nEOF\nvllm serve m &> log &"),
            ["cat", "\n", "vllm", "serve", "m", "&"]
        );
    }

    #[test]
    fn here_documents_keep_their_text_beside_what_follows_on_the_line() {
        let (tokens, _) = lex("cat > f <<-EOF && run <<'X'\n\ta $B\n\tEOF\nc $D\nX\nend");
        let bodies: Vec<_> = tokens
            .iter()
            .filter_map(|token| match &token.kind {
                Kind::HereDocument { body, .. } => Some(body.len()),
                _ => None,
            })
            .collect();
        assert_eq!(bodies, [3, 1]);
        assert!(matches!(&tokens[1].kind, Kind::Into { append: false, .. }));
    }

    #[test]
    fn a_place_that_nobody_filled_in_is_one_word() {
        let (tokens, _) = lex("run --model <model-path> --x <in >out");
        let kinds: Vec<bool> = tokens
            .iter()
            .map(|token| matches!(token.kind, Kind::Word { .. }))
            .collect();
        assert_eq!(kinds, [true, true, true, true, false]);
    }

    #[test]
    fn arrays_and_assignments() {
        assert_eq!(
            words("A=(x 'y z')\nA+=( --b )\nB=c d"),
            ["A=(2)", "\n", "A=(1)", "\n", "B=…", "d"]
        );
    }

    #[test]
    fn unclosed_forms_say_so_and_never_panic() {
        for script in [
            "'", "\"a", "$(", "${", "$((1)", "`", "a $'", "x <<EOF", "é$", "\\",
        ] {
            let _ = lex(script);
        }
        assert_eq!(lex("echo \"a").1, Some(UNCLOSED));
    }

    #[test]
    fn quotes_and_comments_within_expansions_are_passed() {
        for script in [
            "a $(echo ')' # it's\n) x",
            "a \"$(echo \")\")\" x",
            "a ${A:-\"}\"} x",
            "a $(b \"$(c ')')\") x",
        ] {
            assert_eq!(words(script).len(), 3, "{script}");
        }
    }
}
