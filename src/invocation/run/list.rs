//! A list of commands: what runs in which order, with branches and functions.

use std::rc::Rc;

use super::super::Word;
use super::super::reason::brief;
use super::super::shell::{Kind, Piece, Token};
use super::branch::{Flow, Run};
use super::fork::State;
use super::{DEEPEST, Next, Runner, Site, Variable, bare_text};

/// Tokens of a question with `&&` in it.
const LONGEST_QUESTION: usize = 256;

/// Commands of the shell itself that change it, or end it.
const SETTING: [&str; 20] = [
    ".",
    "cd",
    "declare",
    "eval",
    "exec",
    "exit",
    "export",
    "getopts",
    "let",
    "local",
    "mapfile",
    "printf",
    "read",
    "readarray",
    "readonly",
    "set",
    "shift",
    "source",
    "typeset",
    "unset",
];

/// One command of a list.
struct Segment<'t> {
    command: &'t [Token],
    /// The operator behind it.
    operator: &'static str,
    /// Index of the token after that.
    next: usize,
    /// Whether operators stand within it (`[[ a && b ]]`).
    long: bool,
}

impl<'t> Segment<'t> {
    fn at(tokens: &'t [Token], at: usize) -> Self {
        let is_operator = |token: &Token| matches!(token.kind, Kind::Operator(_));
        let rest = &tokens[at..];
        let mut length = rest.iter().position(is_operator).unwrap_or(rest.len());
        let closes = |token: &Token| bare_text(token) == Some("]]");
        let opens = rest[..length]
            .iter()
            .take(3)
            .any(|token| bare_text(token) == Some("[["));
        let mut long = false;
        if opens
            && !rest[..length].iter().any(closes)
            && let Some(more) = rest[length..].iter().take(LONGEST_QUESTION).position(closes)
        {
            long = true;
            length += more + 1;
        }
        let operator = match rest.get(length).map(|token| &token.kind) {
            Some(Kind::Operator(operator)) => *operator,
            _ => "",
        };
        Self {
            command: &rest[..length],
            operator,
            next: at + length + usize::from(!operator.is_empty()),
            long,
        }
    }
}

impl<'a> Runner<'a, '_> {
    /// Runs a list.
    pub(super) fn tokens(&mut self, tokens: &[Token], site: Site) -> Next {
        self.list(tokens, &mut Flow::default(), site)
    }

    /// Runs a list, and leaves in `flow` how it ended.
    pub(super) fn list(&mut self, tokens: &[Token], flow: &mut Flow, site: Site) -> Next {
        let outer = self.subshells;
        let mut brackets = Vec::new();
        let next = self.commands_of(tokens, flow, &mut brackets, site);
        if let Some(state) = brackets.into_iter().next() {
            self.restore(state);
        }
        self.subshells = outer;
        next
    }

    fn commands_of(
        &mut self,
        tokens: &[Token],
        flow: &mut Flow,
        brackets: &mut Vec<State<'a>>,
        site: Site,
    ) -> Next {
        let mut at = 0;
        while at < tokens.len() && !self.ended {
            let Segment {
                command,
                operator,
                next,
                long,
            } = Segment::at(tokens, at);
            // Where the command ends, its operator not counted.
            let end = next - usize::from(!operator.is_empty());
            let from = at;
            at = next.max(at + 1);
            // What runs again in a loop or a function counts again.
            if !self.spend(length_of(&tokens[from..at.min(tokens.len())])) {
                return Next::Stop;
            }
            let defines = operator == "("
                && command.len() == 1
                && matches!(tokens.get(at).map(|t| &t.kind), Some(Kind::Operator(")")));
            if defines {
                let end = skip_body(tokens, at + 1);
                self.define(command.first().and_then(bare_text), &tokens[at + 1..end]);
                at = end;
                flow.after("");
                continue;
            }
            let command = match self.keywords(command, tokens, end, &mut at, flow, site) {
                Ok(command) => command,
                Err(Next::On) => {
                    flow.after("");
                    continue;
                }
                Err(next) => return next,
            };
            if !command.is_empty() {
                if flow.behind() != "|" {
                    self.piped = None;
                }
                let apart = (operator == "&" || operator == "|" || flow.behind() == "|" && !self.last_pipe)
                    && self.sets(command);
                let next = if apart {
                    self.apart(|runner| runner.listed(command, long, flow, site))
                } else {
                    self.listed(command, long, flow, site)
                };
                match next {
                    Next::On => {}
                    next => return next,
                }
            }
            match operator {
                "(" => {
                    flow.begin_group();
                    self.subshells += 1;
                    match self.state() {
                        Some(state) => brackets.push(state),
                        None => return Next::Stop,
                    }
                }
                ")" => {
                    flow.end_group();
                    self.subshells = self.subshells.saturating_sub(1);
                    if let Some(state) = brackets.pop() {
                        self.restore(state);
                    }
                }
                operator => flow.after(operator),
            }
        }
        Next::On
    }

    /// Takes the words of the shell's own grammar off the front of a command that ends at `end`. An error is a compound
    /// command that has run; `at` is behind it.
    fn keywords<'t>(
        &mut self,
        mut command: &'t [Token],
        tokens: &[Token],
        end: usize,
        at: &mut usize,
        flow: &mut Flow,
        site: Site,
    ) -> Result<&'t [Token], Next> {
        while let Some(keyword) = command.first().and_then(bare_text) {
            // Each of them may search the rest of the script for its end.
            if self.bytes == 0 {
                return Err(Next::Stop);
            }
            match keyword {
                "if" => flow.begin(),
                "then" => flow.then(),
                "elif" | "else" => flow.otherwise(),
                "fi" | "done" => flow.end(),
                "while" | "until" => {
                    let from = end + 1 - command.len();
                    if let Some(next) = self.repeat(keyword == "until", tokens, from, at, flow) {
                        return Err(next);
                    }
                    flow.begin_loop();
                }
                "!" => flow.negate(),
                "do" => {}
                "{" => flow.begin_group(),
                "}" => flow.end_group(),
                "for" | "select" => {
                    if keyword == "for"
                        && let Some(next) = self.each(command, tokens, at, flow)
                    {
                        return Err(next);
                    }
                    flow.begin_loop();
                    if let Some(name) = command.get(1).and_then(bare_text) {
                        self.set(
                            name,
                            Variable::Unknown(format!("{} is the variable of a loop", brief(name))),
                        );
                    }
                    return Ok(&[]);
                }
                "case" => {
                    let from = end + 1 - command.len();
                    let run = flow.runs();
                    let (behind, next) = self.case(tokens, from, run != Run::No, run == Run::Perhaps, site);
                    *at = behind;
                    flow.step(run == Run::Perhaps);
                    let leaves = matches!(next, Next::Break | Next::Continue);
                    return Err(if leaves && flow.in_loop() { Next::On } else { next });
                }
                "function" => {
                    // The body begins on the same line or the next one.
                    let from = (*at).saturating_sub(command.len() + 1).min(tokens.len());
                    let end = skip_braces(tokens, from);
                    self.define(
                        command.get(1).and_then(bare_text),
                        &tokens[from..end][2.min(end - from)..],
                    );
                    *at = end;
                    return Ok(&[]);
                }
                _ => return Ok(command),
            }
            command = &command[1..];
        }
        Ok(command)
    }

    /// One command of the list, as far as it runs.
    fn listed(&mut self, command: &[Token], long: bool, flow: &mut Flow, site: Site) -> Next {
        let run = flow.runs();
        if run == Run::No {
            return Next::On;
        }
        let conditional = run == Run::Perhaps;
        let name = command.first().and_then(bare_text).unwrap_or_default();
        if matches!(name, "[" | "[[" | "test") {
            let answer = if long {
                self.joined_question(command, site)
            } else {
                self.question(command, site)
            };
            flow.answer(answer, conditional);
            return Next::On;
        }
        if let Some(text) = command.first().and_then(calculation) {
            let answer = self.calculate(text, conditional);
            flow.answer(answer, conditional);
            return Next::On;
        }
        // What stands behind `&&` of a question runs or not; behind a step of the way it runs, or nothing after it does.
        let asks = ["grep", "egrep", "which", "type", "pgrep", "cmp", "diff", "expr"].contains(&name)
            || name == "command" && command.get(1).and_then(bare_text) == Some("-v");
        if self.budget == 0 {
            self.give_up("the script is too long");
            return Next::Stop;
        }
        self.budget -= 1;
        if matches!(name, "break" | "continue") {
            return self.leave(name == "break", conditional, flow);
        }
        let outer = self.repeats;
        self.repeats |= flow.in_loop();
        let next = self.simple(command, conditional, site);
        self.repeats = outer;
        if !matches!(next, Next::On) {
            return next;
        }
        match name {
            "false" => flow.answer(Some(false), conditional),
            _ if command.iter().all(assigns) => flow.answer(Some(true), conditional),
            "true" | ":" => flow.answer(Some(true), conditional),
            _ if asks => flow.answer(None, conditional),
            _ => flow.step(conditional),
        }
        Next::On
    }

    /// Keeps the body of a function for its calls.
    fn define(&mut self, name: Option<&str>, body: &[Token]) {
        // The end of a body is searched for, with a name or without.
        if self.spend(length_of(body))
            && let Some(name) = name
        {
            self.functions.insert(name.to_owned(), Rc::from(body));
        }
    }

    /// Runs a function of the script; false where there is none of that name.
    pub(super) fn call(&mut self, words: &[Word<'a>], conditional: bool, site: Site) -> bool {
        let Some(first) = words.first() else { return false };
        let Some(body) = self.functions.get(&*first.text) else {
            return false;
        };
        if self.depth >= DEEPEST {
            self.give_up("functions are nested too deeply");
            return true;
        }
        let body = Rc::clone(body);
        self.depth += 1;
        if conditional {
            self.one_of([()], true, |runner, ()| {
                runner.call_body(&body, words, site);
                Next::On
            });
        } else {
            self.call_body(&body, words, site);
        }
        self.depth -= 1;
        true
    }

    fn call_body(&mut self, body: &[Token], words: &[Word<'a>], site: Site) {
        let outer = std::mem::replace(&mut self.positional, words.iter().cloned().collect());
        let loops = std::mem::take(&mut self.loops);
        self.locals.push(Vec::new());
        self.tokens(body, site);
        self.end_locals();
        self.loops = loops;
        self.positional = outer;
    }

    /// Whether a command may change what the shell itself holds, or end it.
    fn sets(&self, command: &[Token]) -> bool {
        let name = command.first().and_then(bare_text).unwrap_or_default();
        matches!(
            command.first().map(|t| &t.kind),
            Some(Kind::Assign { .. } | Kind::AssignArray { .. })
        ) || command.first().and_then(calculation).is_some()
            || SETTING.contains(&name)
            || self.functions.contains_key(name)
    }
}

/// Bytes of the script that tokens stand for, the texts of here-documents included.
pub(super) fn length_of(tokens: &[Token]) -> usize {
    let below = |token: &Token| match &token.kind {
        Kind::HereDocument { bytes, .. } => *bytes,
        _ => 0,
    };
    let lines: usize = tokens.iter().map(below).sum();
    match (tokens.first(), tokens.last()) {
        (Some(first), Some(last)) => lines + last.span.end.saturating_sub(first.span.start),
        _ => lines,
    }
}

/// Whether a token assigns what needs no command, so that it cannot fail.
fn assigns(token: &Token) -> bool {
    match &token.kind {
        Kind::Assign { value, .. } => !value
            .iter()
            .any(|piece| matches!(piece, Piece::Unreadable { .. })),
        Kind::AssignArray { .. } => true,
        _ => false,
    }
}

/// The inside of `(( … ))`.
pub(super) fn calculation(token: &Token) -> Option<&str> {
    match &token.kind {
        Kind::Word { pieces, bare: false } => match pieces.as_slice() {
            [Piece::Text(text)] => text.strip_prefix("((")?.strip_suffix("))"),
            _ => None,
        },
        _ => None,
    }
}

/// Past the end of a function's body, which stands in braces or in brackets.
fn skip_body(tokens: &[Token], from: usize) -> usize {
    let is_line = |token: &&Token| matches!(token.kind, Kind::Operator("\n" | ";"));
    let start = from
        + tokens[from.min(tokens.len())..]
            .iter()
            .take_while(is_line)
            .count();
    if !matches!(
        tokens.get(start).map(|token| &token.kind),
        Some(Kind::Operator("("))
    ) {
        return skip_braces(tokens, from);
    }
    let mut depth = 0_u32;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        match token.kind {
            Kind::Operator("(") => depth += 1,
            Kind::Operator(")") => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
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
