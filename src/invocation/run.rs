//! Follows a command line to the programs that it starts: through wrappers, shells and their scripts.

use std::borrow::Cow;

use super::environment::Found;
use super::prefix::{self, base_name};
use super::shell::{self, Kind, Otherwise, Piece, Token};
use super::{Certainty, Command, Environment, Item, Word};

/// Scripts within scripts that are followed.
const DEEPEST: u8 = 8;
/// Words and programs that are kept; a script beyond is not read.
const MOST: usize = 10_000;

pub(super) struct Runner<'a, 'e> {
    environment: &'e Environment<'a>,
    variables: Vec<(String, Variable<'a>)>,
    positional: Vec<Word<'a>>,
    depth: u8,
    budget: usize,
    pub(super) commands: Vec<Command<'a>>,
    pub(super) opaque: Option<String>,
    pub(super) script: bool,
}

#[derive(Clone)]
enum Variable<'a> {
    Text(String),
    Array(Vec<Word<'a>>),
    Unknown(String),
    Unset,
}

/// Where a script stands, so that its words keep their place.
#[derive(Clone, Copy)]
struct Site {
    item: Item,
    /// Whether bytes of the script are those of the item as submitted.
    aligned: bool,
}

/// Whether the script goes on.
enum Next {
    On,
    Stop,
}

impl<'a, 'e> Runner<'a, 'e> {
    pub(super) fn new(environment: &'e Environment<'a>) -> Self {
        Self {
            environment,
            variables: Vec::new(),
            positional: Vec::new(),
            depth: 0,
            budget: MOST,
            commands: Vec::new(),
            opaque: None,
            script: false,
        }
    }

    fn give_up(&mut self, reason: &str) {
        if self.opaque.is_none() {
            self.opaque = Some(reason.to_owned());
        }
    }

    /// Follows one command line.
    pub(super) fn start(&mut self, words: Vec<Word<'a>>, end: Option<(Item, usize)>) {
        self.start_with(words, end, Vec::new(), false);
    }

    fn start_with(
        &mut self,
        mut words: Vec<Word<'a>>,
        end: Option<(Item, usize)>,
        mut variables: Vec<(String, Option<String>)>,
        conditional: bool,
    ) {
        prefix::strip(&mut words, &mut variables);
        let Some(first) = words.first() else { return };
        let shell = first.certainty == Certainty::Known
            && matches!(
                base_name(&first.text),
                "sh" | "bash" | "ash" | "dash" | "zsh" | "ksh"
            );
        if shell && let Some(at) = script_index(&words) {
            self.script = true;
            if self.depth >= DEEPEST {
                self.give_up("scripts are nested too deeply");
                return;
            }
            let script = words[at].clone();
            let outer = std::mem::replace(&mut self.positional, words.split_off(at + 1));
            self.depth += 1;
            self.run(&script);
            self.depth -= 1;
            self.positional = outer;
            return;
        }
        self.commands.push(Command {
            words,
            variables,
            end,
            conditional,
        });
    }

    fn run(&mut self, script: &Word<'a>) {
        if script.certainty == Certainty::Many || script.certainty == Certainty::From(0) {
            let reason = script
                .reason
                .clone()
                .unwrap_or(Cow::Borrowed("its text is not known"));
            self.give_up(&format!("the script: {reason}"));
            return;
        }
        let aligned = script
            .span
            .as_ref()
            .is_some_and(|span| span.start == 0 && span.len() == script.text.len());
        self.run_text(
            &script.text,
            Site {
                item: script.item,
                aligned,
            },
        );
    }

    fn run_text(&mut self, text: &str, site: Site) {
        let (tokens, unread) = shell::lex(text);
        self.tokens(&tokens, site);
        if let Some(reason) = unread {
            self.give_up(&format!("the script: {reason}"));
        }
    }

    fn tokens(&mut self, tokens: &[Token], site: Site) {
        let mut at = 0;
        let mut conditions = 0_u32;
        let mut before = "";
        let mut before_was_test = false;
        while at < tokens.len() {
            let length = tokens[at..]
                .iter()
                .take_while(|t| !matches!(t.kind, Kind::Operator(_)))
                .count();
            let mut command = &tokens[at..at + length];
            let operator = match tokens.get(at + length).map(|token| &token.kind) {
                Some(Kind::Operator(operator)) => *operator,
                _ => "",
            };
            at += length + 1;
            // A function: its body is not followed, and a call of it is a program that nobody knows.
            if operator == "("
                && length == 1
                && matches!(tokens.get(at).map(|t| &t.kind), Some(Kind::Operator(")")))
            {
                at = skip_braces(tokens, at + 1);
                before = "";
                continue;
            }
            while let Some(keyword) = command.first().and_then(bare_text) {
                match keyword {
                    "if" | "while" | "until" => conditions += 1,
                    "fi" | "done" => conditions = conditions.saturating_sub(1),
                    "elif" | "then" | "else" | "do" | "{" | "}" | "!" => {}
                    "for" | "select" => {
                        conditions += 1;
                        if let Some(name) = command.get(1).and_then(bare_text) {
                            self.set(
                                name,
                                Variable::Unknown(format!("{name} is the variable of a loop")),
                            );
                        }
                        command = &[];
                        continue;
                    }
                    "case" => {
                        at = self.skip_case(tokens, at);
                        command = &[];
                        continue;
                    }
                    "function" => {
                        at = skip_braces(tokens, at);
                        command = &[];
                        continue;
                    }
                    _ => break,
                }
                command = &command[1..];
            }
            let conditional = conditions > 0 || before == "||" || before == "&&" && before_was_test;
            before_was_test = command
                .first()
                .and_then(bare_text)
                .is_some_and(|w| matches!(w, "[" | "[[" | "test"));
            before = operator;
            if before_was_test || command.is_empty() {
                continue;
            }
            if self.budget == 0 {
                self.give_up("the script is too long");
                return;
            }
            self.budget -= 1;
            if let Next::Stop = self.simple(command, conditional, site) {
                return;
            }
        }
    }

    /// Past `esac`; what is assigned on the way is not known any more.
    fn skip_case(&mut self, tokens: &[Token], from: usize) -> usize {
        let mut at = from;
        let mut depth = 1;
        while let Some(token) = tokens.get(at) {
            at += 1;
            match &token.kind {
                Kind::Assign { name, .. } | Kind::AssignArray { name, .. } => {
                    self.set(
                        name,
                        Variable::Unknown(format!("{name} is set in a case statement")),
                    );
                }
                Kind::Word { .. } => match bare_text(token) {
                    Some("case") => depth += 1,
                    Some("esac") => {
                        depth -= 1;
                        if depth == 0 {
                            return at;
                        }
                    }
                    Some("exec" | "vllm" | "python" | "python3" | "sglang") => {
                        self.give_up("the script starts programs in a case statement");
                    }
                    _ => {}
                },
                Kind::Operator(_) => {}
            }
        }
        at
    }

    fn set(&mut self, name: &str, value: Variable<'a>) {
        match self.variables.iter_mut().find(|(known, _)| known == name) {
            Some(slot) => slot.1 = value,
            None => self.variables.push((name.to_owned(), value)),
        }
    }

    fn assign(&mut self, name: &str, append: bool, fields: Word<'a>, conditional: bool) {
        let value = if fields.certainty == Certainty::Known {
            Variable::Text(fields.text.into_owned())
        } else {
            Variable::Unknown(
                fields
                    .reason
                    .map_or_else(|| format!("{name} is not known"), Cow::into_owned),
            )
        };
        let value = match (append, value) {
            (true, Variable::Text(more)) => match self.look_up(name) {
                Variable::Text(text) => Variable::Text(text + &more),
                Variable::Unset => Variable::Text(more),
                other => other,
            },
            (_, value) => value,
        };
        let same = match (&value, self.look_up(name)) {
            (Variable::Text(a), Variable::Text(b)) => *a == b,
            _ => false,
        };
        if conditional && !same {
            self.set(
                name,
                Variable::Unknown(format!("{name} is set under a condition")),
            );
        } else {
            self.set(name, value);
        }
    }

    fn assign_array(
        &mut self,
        name: &str,
        append: bool,
        items: &[Vec<Piece>],
        conditional: bool,
        site: Site,
    ) {
        let mut words = Vec::new();
        if append && let Variable::Array(before) = self.look_up(name) {
            words = before;
        }
        for item in items {
            self.fields(item, None, site, &mut words);
        }
        if conditional {
            // Whether the words are there is not known, and how many there are either.
            self.set(
                name,
                Variable::Unknown(format!("{name} is set under a condition")),
            );
        } else {
            self.set(name, Variable::Array(words));
        }
    }

    fn look_up(&self, name: &str) -> Variable<'a> {
        if let Some((_, value)) = self.variables.iter().find(|(known, _)| known == name) {
            return value.clone();
        }
        if let Ok(index) = name.parse::<usize>() {
            // `$0` is the first word after the script.
            return match self.positional.get(index) {
                Some(word) if word.certainty == Certainty::Known => {
                    Variable::Text(word.text.clone().into_owned())
                }
                Some(word) => Variable::Unknown(
                    word.reason
                        .clone()
                        .map_or_else(|| "not known".to_owned(), Cow::into_owned),
                ),
                None => Variable::Unset,
            };
        }
        match self.environment.find(name) {
            Found::Value(value) => Variable::Text(value.to_owned()),
            Found::Unknown(why) => Variable::Unknown(why.into_owned()),
            Found::NotSet => Variable::Unset,
        }
    }

    fn simple(&mut self, command: &[Token], conditional: bool, site: Site) -> Next {
        let assignments = command
            .iter()
            .take_while(|token| matches!(token.kind, Kind::Assign { .. } | Kind::AssignArray { .. }))
            .count();
        let (assignments, command) = command.split_at(assignments);
        let mut overlay = Vec::new();
        for token in assignments {
            match &token.kind {
                Kind::Assign { name, append, value } => {
                    let word = self.joined(value, site);
                    if command.is_empty() {
                        self.assign(name, *append, word, conditional);
                    } else {
                        let known = word.certainty == Certainty::Known;
                        overlay.push((name.clone(), known.then(|| word.text.into_owned())));
                    }
                }
                Kind::AssignArray { name, append, items } => {
                    self.assign_array(name, *append, items, conditional, site);
                }
                _ => {}
            }
        }
        let Some(last) = command.last() else {
            return Next::On;
        };
        let end = (site.aligned && site.item != Item::Elsewhere).then_some((site.item, last.span.end));
        let mut words = Vec::with_capacity(command.len());
        for token in command {
            match &token.kind {
                Kind::Word { pieces, .. } => self.fields(pieces, Some(token), site, &mut words),
                Kind::Assign { name, append, value } => {
                    let mut pieces = vec![Piece::Text(format!("{name}{}=", if *append { "+" } else { "" }))];
                    pieces.extend(value.iter().cloned());
                    self.fields(&pieces, Some(token), site, &mut words);
                }
                Kind::AssignArray { name, append, items } => {
                    self.assign_array(name, *append, items, conditional, site);
                }
                Kind::Operator(_) => {}
            }
            if words.len() > MOST {
                self.give_up("the script is too long");
                return Next::Stop;
            }
        }
        self.builtin(words, overlay, conditional, end)
    }

    fn builtin(
        &mut self,
        mut words: Vec<Word<'a>>,
        overlay: Vec<(String, Option<String>)>,
        conditional: bool,
        end: Option<(Item, usize)>,
    ) -> Next {
        let Some(first) = words.first() else {
            return Next::On;
        };
        let name = first.text.clone();
        match &*name {
            "export" | "declare" | "local" | "readonly" | "typeset" => {
                for word in words.into_iter().skip(1) {
                    let Some((name, _)) = word.text.split_once('=') else {
                        continue;
                    };
                    let name = name.to_owned();
                    let start = name.len() + 1;
                    let value = Word {
                        text: Cow::Owned(word.text[start..].to_owned()),
                        ..word
                    };
                    self.assign(&name, false, value, conditional);
                }
            }
            "unset" => {
                for word in &words[1..] {
                    let value = if conditional {
                        Variable::Unknown(format!("{} is unset under a condition", word.text))
                    } else {
                        Variable::Unset
                    };
                    self.set(&word.text, value);
                }
            }
            "set" => {
                if let Some(at) = words.iter().position(|word| word.text == "--") {
                    let zero = self.positional.first().cloned().unwrap_or(Word::literal("sh"));
                    self.positional = std::iter::once(zero).chain(words.drain(at + 1..)).collect();
                }
            }
            "shift" => {
                if self.positional.len() > 1 {
                    self.positional.remove(1);
                }
            }
            "eval" => {
                let text = words[1..]
                    .iter()
                    .map(|word| &*word.text)
                    .collect::<Vec<_>>()
                    .join(" ");
                if self.depth >= DEEPEST {
                    self.give_up("scripts are nested too deeply");
                    return Next::Stop;
                }
                self.depth += 1;
                self.run_text(
                    &text,
                    Site {
                        item: Item::Elsewhere,
                        aligned: false,
                    },
                );
                self.depth -= 1;
            }
            "exit" | "return" => return if conditional { Next::On } else { Next::Stop },
            "exec" => {
                self.start_with(words, end, overlay, conditional);
                return if conditional { Next::On } else { Next::Stop };
            }
            "source" | "." | ":" | "true" | "false" | "cd" | "wait" | "trap" | "ulimit" | "umask" | "]"
            | "]]" => {}
            _ => self.start_with(words, end, overlay, conditional),
        }
        Next::On
    }

    /// The text of an assigned value: no splitting.
    fn joined(&mut self, pieces: &[Piece], site: Site) -> Word<'a> {
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
    fn fields(&mut self, pieces: &[Piece], token: Option<&Token>, site: Site, out: &mut Vec<Word<'a>>) {
        let from = out.len();
        let mut field = Field::default();
        for piece in pieces {
            match piece {
                Piece::Text(text) => field.text(text),
                Piece::Arithmetic(inner) => match self.arithmetic(inner) {
                    Ok(number) => field.text(&number.to_string()),
                    Err(reason) => field.unknown(&format!("$(({inner}))"), &reason, false),
                },
                Piece::Unreadable { raw, quoted } => {
                    let reason = self.reason_of(raw);
                    field.unknown(raw, &reason, !quoted);
                }
                Piece::Variable { name, quoted, .. } if name == "@" || name == "*" => {
                    let words: Vec<Word<'a>> = self.positional.iter().skip(1).cloned().collect();
                    field.words(words, *quoted, out);
                }
                Piece::Array { name, quoted } => match self.look_up(name) {
                    Variable::Array(words) => field.words(words, *quoted, out),
                    Variable::Text(text) => field.value(&text, *quoted, out),
                    Variable::Unknown(reason) => field.unknown(&format!("${{{name}[@]}}"), &reason, true),
                    Variable::Unset => {
                        field.unknown(&format!("${{{name}[@]}}"), &format!("{name} is not set"), true)
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

    fn variable(
        &mut self,
        name: &str,
        otherwise: Option<&(Otherwise, Vec<Piece>)>,
        quoted: bool,
        site: Site,
        field: &mut Field,
        out: &mut Vec<Word<'a>>,
    ) {
        let value = if name.len() == 1 && "#?!$-".contains(name) {
            Variable::Unknown(format!("${name} is known only when the script runs"))
        } else {
            self.look_up(name)
        };
        let raw = format!("${{{name}}}");
        match (value, otherwise) {
            (Variable::Array(words), _) => field.words(words.into_iter().take(1).collect(), quoted, out),
            (Variable::Unknown(reason), _) => field.unknown(&raw, &reason, !quoted),
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
                let reason = format!("{name} is not set in the container; the image may set it");
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
            self.assign(name, false, word, false);
        }
    }

    /// Why `$(…)` is not known: a variable that Kubernetes left as it is, or a command that would have to run.
    fn reason_of(&self, raw: &str) -> String {
        let name = raw
            .strip_prefix("$(")
            .and_then(|rest| rest.strip_suffix(')'))
            .unwrap_or_default();
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        match self.environment.find(name) {
            Found::Unknown(why) if is_name => why.into_owned(),
            _ => format!("{raw} is known only when the script runs"),
        }
    }

    fn arithmetic(&mut self, inner: &str) -> Result<i64, String> {
        let failed = || format!("$(({inner})) is known only when the script runs");
        let pieces = shell::pieces(inner).ok_or_else(failed)?;
        let site = Site {
            item: Item::Elsewhere,
            aligned: false,
        };
        if self.depth >= DEEPEST {
            return Err(failed());
        }
        self.depth += 1;
        let word = self.joined(&pieces, site);
        self.depth -= 1;
        if word.certainty != Certainty::Known {
            return Err(word.reason.map_or_else(failed, Cow::into_owned));
        }
        let mut sum = Sum {
            text: word.text.as_bytes(),
            at: 0,
            depth: 0,
            runner: self,
        };
        let value = sum.expression(0).ok_or_else(failed)?;
        sum.blanks();
        if sum.at == sum.text.len() {
            Ok(value)
        } else {
            Err(failed())
        }
    }
}

/// Integer arithmetic by precedence.
struct Sum<'s, 'r, 'a, 'e> {
    text: &'s [u8],
    at: usize,
    depth: u8,
    runner: &'r Runner<'a, 'e>,
}

impl Sum<'_, '_, '_, '_> {
    fn blanks(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn expression(&mut self, weakest: u8) -> Option<i64> {
        let mut left = self.operand()?;
        loop {
            self.blanks();
            let (strength, operator) = match self.text.get(self.at) {
                Some(operator @ (b'+' | b'-')) => (1, *operator),
                Some(operator @ (b'*' | b'/' | b'%')) => (2, *operator),
                _ => return Some(left),
            };
            if strength <= weakest || self.text.get(self.at + 1) == Some(&b'=') {
                return Some(left);
            }
            self.at += 1;
            let right = self.expression(strength)?;
            left = match operator {
                b'+' => left.checked_add(right)?,
                b'-' => left.checked_sub(right)?,
                b'*' => left.checked_mul(right)?,
                b'/' => left.checked_div(right)?,
                _ => left.checked_rem(right)?,
            };
        }
    }

    fn operand(&mut self) -> Option<i64> {
        self.blanks();
        self.depth += 1;
        if self.depth > 64 {
            return None;
        }
        let value = match self.text.get(self.at)? {
            b'(' => {
                self.at += 1;
                let value = self.expression(0)?;
                self.blanks();
                (self.text.get(self.at)? == &b')').then_some(())?;
                self.at += 1;
                value
            }
            b'-' => {
                self.at += 1;
                self.operand()?.checked_neg()?
            }
            byte if byte.is_ascii_alphanumeric() || *byte == b'_' => {
                let start = self.at;
                while self
                    .text
                    .get(self.at)
                    .is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
                {
                    self.at += 1;
                }
                let text = std::str::from_utf8(&self.text[start..self.at]).ok()?;
                if text.starts_with(|c: char| c.is_ascii_digit()) {
                    text.parse().ok()?
                } else if let Variable::Text(value) = self.runner.look_up(text) {
                    value.trim().parse().ok()?
                } else {
                    return None;
                }
            }
            _ => return None,
        };
        self.depth -= 1;
        Some(value)
    }
}

/// A word that is being put together.
#[derive(Default)]
struct Field {
    text: String,
    begun: bool,
    unknown: Option<usize>,
    many: bool,
    reason: Option<String>,
}

impl Field {
    fn text(&mut self, text: &str) {
        self.begun = true;
        self.many = false;
        self.text.push_str(text);
    }

    fn unknown(&mut self, raw: &str, reason: &str, splits: bool) {
        self.many = splits && !self.begun;
        self.begun = true;
        self.unknown.get_or_insert(self.text.len());
        self.reason.get_or_insert_with(|| reason.to_owned());
        self.text.push_str(raw);
    }

    fn end(&mut self, out: &mut Vec<Word<'_>>) {
        let field = std::mem::take(self);
        if !field.begun {
            return;
        }
        let certainty = match field.unknown {
            None => Certainty::Known,
            Some(_) if field.many => Certainty::Many,
            Some(at) => Certainty::From(at),
        };
        out.push(Word {
            text: Cow::Owned(field.text),
            certainty,
            item: Item::Elsewhere,
            span: None,
            reason: field.reason.map(Cow::Owned),
        });
    }

    /// A value: split at blanks where it is not quoted.
    fn value(&mut self, text: &str, quoted: bool, out: &mut Vec<Word<'_>>) {
        if quoted {
            self.text(text);
            return;
        }
        let blank = |c: char| matches!(c, ' ' | '\t' | '\n');
        if text.starts_with(blank) {
            self.end(out);
        }
        let mut parts = text.split(blank).filter(|part| !part.is_empty()).peekable();
        while let Some(part) = parts.next() {
            self.text(part);
            if parts.peek().is_some() {
                self.end(out);
            }
        }
        if text.ends_with(blank) {
            self.end(out);
        }
    }

    fn word(&mut self, word: &Word<'_>, quoted: bool, out: &mut Vec<Word<'_>>) {
        if word.certainty == Certainty::Known {
            self.value(&word.text, quoted, out);
        } else {
            self.unknown(&word.text, word.reason.as_deref().unwrap_or("not known"), !quoted);
        }
    }

    /// Several words, each a word of its own; the first and the last join what stands beside them.
    fn words<'a>(&mut self, words: Vec<Word<'a>>, quoted: bool, out: &mut Vec<Word<'a>>) {
        // The quotes of `"$@"` alone make no word.
        let alone = self.text.is_empty() && self.unknown.is_none();
        if alone {
            self.begun = false;
        }
        for word in words {
            let whole = alone && (quoted || !word.text.contains([' ', '\t', '\n']));
            if whole {
                out.push(word);
            } else {
                self.word(&word, quoted, out);
                self.end(out);
            }
        }
    }
}

/// The text of a token without quotes and expansions.
fn bare_text(token: &Token) -> Option<&str> {
    match &token.kind {
        Kind::Word { pieces, bare: true } => match pieces.as_slice() {
            [Piece::Text(text)] => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Past the `}` of a function's body.
fn skip_braces(tokens: &[Token], from: usize) -> usize {
    let mut depth = 0_u32;
    let mut at = from;
    while let Some(token) = tokens.get(at) {
        at += 1;
        match bare_text(token) {
            Some("{") => depth += 1,
            Some("}") => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
    }
    at
}

/// The index of the script of `sh -c SCRIPT`; `None` where the shell runs a file.
fn script_index(words: &[Word<'_>]) -> Option<usize> {
    let mut index = 1;
    let mut command = false;
    while let Some(word) = words.get(index) {
        let text = &*word.text;
        if text == "--" {
            index += 1;
            break;
        }
        if let Some(long) = text.strip_prefix("--") {
            index += if matches!(long, "rcfile" | "init-file") {
                2
            } else {
                1
            };
            continue;
        }
        let Some(letters) = text
            .strip_prefix(['-', '+'])
            .filter(|letters| !letters.is_empty())
        else {
            break;
        };
        command |= text.starts_with('-') && letters.contains('c');
        // `-o pipefail`, also within a group.
        index += if letters.contains(['o', 'O']) { 2 } else { 1 };
    }
    (command && index < words.len()).then_some(index)
}
