//! From the pieces of a word to the words that it becomes: parameters, defaults, arrays, splitting.

use std::borrow::Cow;
use std::rc::Rc;

use super::super::environment::Found;
use super::super::reason::brief;
use super::super::shell::{Otherwise, Piece, Token};
use super::super::{Certainty, Item, Word};
use super::field::{Field, weight};
use super::{DEEPEST, Runner, Site, Variable};

impl<'a> Runner<'a, '_> {
    /// The text of an assigned value: no splitting.
    pub(super) fn joined(&mut self, pieces: &[Piece], site: Site) -> Word<'a> {
        let quoted: Vec<Piece> = pieces
            .iter()
            .cloned()
            .map(|piece| match piece {
                Piece::Variable { name, otherwise, .. } => Piece::Variable {
                    name,
                    otherwise,
                    quoted: true,
                },
                Piece::Unreadable { raw, .. } => Piece::Unreadable { raw, quoted: true },
                Piece::Changed { name, change, .. } => Piece::Changed {
                    name,
                    change,
                    quoted: true,
                },
                Piece::Slice {
                    name, from, count, ..
                } => Piece::Slice {
                    name,
                    from,
                    count,
                    quoted: true,
                },
                other => other,
            })
            .collect();
        let mut words = Vec::new();
        self.fields(&quoted, None, site, &mut words);
        let mut words = words.into_iter();
        let mut first = words.next().unwrap_or(Word::literal(""));
        for more in words {
            first.text = Cow::Owned(format!("{} {}", first.text, more.text));
            if more.certainty != Certainty::Known {
                first.certainty = more.certainty;
                first.reason = more.reason;
            }
        }
        first
    }

    /// The words that a word of the script becomes.
    pub(super) fn fields(
        &mut self,
        pieces: &[Piece],
        token: Option<&Token>,
        site: Site,
        out: &mut Vec<Word<'a>>,
    ) {
        if self.bytes == 0 {
            return;
        }
        let from = out.len();
        let mut field = Field::split_at(match self.variables.get("IFS") {
            Some(Variable::Text(text)) if **text != " \t\n" => Some(Rc::clone(text)),
            _ => None,
        });
        // Each word is weighed once: a word of the script may become as many as it has pieces.
        let (mut weighed, mut bytes) = (from, 0);
        for piece in pieces {
            bytes += out[weighed..].iter().map(weight).sum::<usize>();
            weighed = out.len();
            if bytes + field.weight() > self.bytes {
                self.bytes = 0;
                self.give_up("the script is too long");
                return;
            }
            match piece {
                Piece::Text(text) => field.text(text),
                Piece::Arithmetic(inner) => match self.arithmetic(inner) {
                    Ok(number) => field.text(&number.to_string()),
                    Err(reason) => field.unknown(&format!("$(({inner}))"), &reason, false),
                },
                Piece::Unreadable { raw, quoted } => {
                    if let Some(text) = self.substituted(raw) {
                        field.value(&text, *quoted, out);
                        continue;
                    }
                    let reason = self.reason_of(raw);
                    field.unknown(raw, &reason, !quoted);
                }
                Piece::Variable {
                    name, quoted: true, ..
                } if name == "*" => {
                    field.one(self.positional.iter().skip(1));
                }
                Piece::Variable { name, quoted, .. } if name == "@" || name == "*" => {
                    field.words(self.positional.iter().skip(1), *quoted, out);
                }
                Piece::Changed { name, change, quoted } => {
                    let value = self.look_up(name);
                    let value = self.changed(name, value, change, site);
                    self.value(name, value, None, *quoted, site, &mut field, out);
                }
                Piece::Slice {
                    name,
                    from,
                    count,
                    quoted,
                } => self.slice(name, *from, *count, *quoted, &mut field, out),
                Piece::Array { name, quoted, joins } => match self.look_up(name) {
                    Variable::Array(words) if *joins && *quoted => field.one(words.iter()),
                    Variable::Array(words) => field.words(words.iter(), *quoted, out),
                    Variable::Text(text) => field.value(&text, *quoted, out),
                    Variable::Unknown(reason)
                    | Variable::Option { reason, .. }
                    | Variable::Either { reason, .. } => {
                        field.unknown(&format!("${{{name}[@]}}"), &reason, true);
                    }
                    Variable::Unset => {
                        field.unknown(&format!("${{{name}[@]}}"), &format!("{name} is not set"), true);
                    }
                },
                Piece::Variable {
                    name,
                    otherwise,
                    quoted,
                } => {
                    self.variable(name, otherwise.as_ref(), *quoted, site, &mut field, out);
                }
            }
        }
        field.end(out);
        bytes += out[weighed..].iter().map(weight).sum::<usize>();
        if !self.spend(bytes) {
            out.truncate(from);
            return;
        }
        // One word that stands where it is written keeps its place.
        if let Some(token) = token
            && out.len() == from + 1
            && let Some(word) = out.last_mut()
            && word.item == Item::Elsewhere
        {
            word.item = site.item;
            word.span = site.aligned.then(|| token.span.clone());
        }
    }

    /// Some of the words of an array or of the parameters.
    fn slice(
        &mut self,
        name: &str,
        from: usize,
        count: Option<usize>,
        quoted: bool,
        field: &mut Field,
        out: &mut Vec<Word<'a>>,
    ) {
        let raw = format!("${{{name}:{from}}}");
        let words: Vec<Word<'a>> = if matches!(name, "@" | "*") {
            self.positional.iter().cloned().collect()
        } else {
            match self.look_up(name) {
                Variable::Array(words) => words.to_vec(),
                Variable::Text(text) => vec![Word {
                    text: Cow::Owned(text.to_string()),
                    ..Word::literal("")
                }],
                Variable::Unset => Vec::new(),
                Variable::Unknown(reason)
                | Variable::Option { reason, .. }
                | Variable::Either { reason, .. } => {
                    field.unknown(&raw, &reason, true);
                    return;
                }
            }
        };
        if !self.spend(words.iter().map(weight).sum()) {
            return;
        }
        // Behind a word that stands for any number of words none has a number.
        let upto = count.map_or(words.len(), |count| from.saturating_add(count));
        let many = words
            .iter()
            .take(upto)
            .position(|word| word.certainty == Certainty::Many);
        if many.is_some_and(|at| at < from || count.is_some()) {
            field.unknown(&raw, "the number of words before it is not known", true);
            return;
        }
        let words = words.iter().skip(from).take(count.unwrap_or(usize::MAX));
        field.words(words, quoted, out);
    }

    fn variable(
        &mut self,
        name: &str,
        otherwise: Option<&(Otherwise, Vec<Piece>)>,
        quoted: bool,
        site: Site,
        field: &mut Field,
        out: &mut Vec<Word<'a>>,
    ) {
        let value = if name.len() == 1 && "?!$-".contains(name) {
            Variable::Unknown(format!("${name} is known only when the script runs"))
        } else {
            self.look_up(name)
        };
        self.value(name, value, otherwise, quoted, site, field, out);
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "the arguments of the expansion that calls it"
    )]
    fn value(
        &mut self,
        name: &str,
        value: Variable<'a>,
        otherwise: Option<&(Otherwise, Vec<Piece>)>,
        quoted: bool,
        site: Site,
        field: &mut Field,
        out: &mut Vec<Word<'a>>,
    ) {
        let raw = format!("${{{name}}}");
        match (value, otherwise) {
            (Variable::Array(words), _) => field.words(words.iter().take(1), quoted, out),
            (Variable::Option { name, reason }, _) if !quoted && field.len() == 0 => {
                field.text(&name);
                field.unknown(&raw, &reason, false);
            }
            (Variable::Either { texts, reason }, None) if !quoted => field.either(&raw, &reason, &texts),
            (
                Variable::Unknown(reason) | Variable::Option { reason, .. } | Variable::Either { reason, .. },
                _,
            ) => {
                field.unknown(&raw, &reason, !quoted);
            }
            (Variable::Text(text), Some((Otherwise::Alternative { empty }, word))) => {
                if !(*empty && text.is_empty()) {
                    let word = self.joined(word, site);
                    field.word(&word, quoted, out);
                }
            }
            (Variable::Unset, Some((Otherwise::Alternative { .. }, _))) => {}
            (Variable::Text(text), Some((Otherwise::Use { empty: true, assign }, word)))
                if text.is_empty() =>
            {
                self.default(name, *assign, word, quoted, site, field, out);
            }
            (Variable::Text(text), _) => field.value(&text, quoted, out),
            (Variable::Unset, Some((Otherwise::Use { assign, .. }, word))) => {
                self.default(name, *assign, word, quoted, site, field, out);
            }
            (Variable::Unset, _) if name.bytes().all(|b| b.is_ascii_digit()) => {}
            (Variable::Unset, _) => {
                let reason = format!(
                    "{} is not set in the container; the image may set it",
                    brief(name)
                );
                field.unknown(&raw, &reason, !quoted);
            }
        }
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "the arguments of the expansion that calls it"
    )]
    fn default(
        &mut self,
        name: &str,
        assign: bool,
        word: &[Piece],
        quoted: bool,
        site: Site,
        field: &mut Field,
        out: &mut Vec<Word<'a>>,
    ) {
        if self.depth >= DEEPEST {
            field.unknown(name, "defaults are nested too deeply", false);
            return;
        }
        self.depth += 1;
        let word = self.joined(word, site);
        self.depth -= 1;
        field.word(&word, quoted, out);
        if assign {
            self.assign(name, false, word, self.perhaps);
        }
    }

    /// Why `$(…)` is not known: a variable that Kubernetes left as it is, or a command that would have to run.
    fn reason_of(&self, raw: &str) -> String {
        if raw.starts_with('<') {
            return format!("the placeholder {} is not filled in", brief(raw));
        }
        if !raw.starts_with(['$', '`']) && raw.contains('{') {
            return format!("{} is several words in bash and one in sh", brief(raw));
        }
        let name = raw
            .strip_prefix("$(")
            .and_then(|rest| rest.strip_suffix(')'))
            .unwrap_or_default();
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        match self.environment.find(name) {
            Found::Unknown(why) if is_name => why.into_owned(),
            _ => format!("{} is known only when the script runs", brief(raw)),
        }
    }
}
