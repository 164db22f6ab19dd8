//! Redirections, and the texts of here-documents.

use super::word::push_text;
use super::{Kind, Lexer, Piece, is_name, pieces};

/// A here-document whose text is still to come.
pub(super) struct HereDocument {
    pub(super) delimiter: String,
    /// Whether leading tabs are taken off.
    pub(super) tabs: bool,
    /// Whether nothing in it is expanded.
    pub(super) literal: bool,
    pub(super) token: usize,
}

/// What stands at hand.
pub(super) enum Redirection {
    /// No redirection.
    None,
    /// One that nothing here depends on.
    Other,
    /// One whose text matters.
    Kept(Kind),
}

impl Lexer<'_> {
    /// `<model-path>`: a place in a template that nobody filled in. To a shell it is two redirections, which is never
    /// what was meant.
    pub(super) fn placeholder(&self) -> Option<String> {
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

    /// Takes a redirection with its target; the text of a here-document follows after the line.
    pub(super) fn redirection(&mut self) -> Result<Redirection, &'static str> {
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
            "<" if digits == 0 => Redirection::Kept(Kind::From { source: pieces }),
            ">" | ">>" | ">|" if standard => Redirection::Kept(Kind::Into {
                append: operator == ">>",
                target: pieces,
            }),
            _ => Redirection::Other,
        })
    }

    pub(super) fn skip_here_documents(&mut self) {
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
}
