//! A list of commands: what runs in which order, with branches, loops, functions and `case`.

use std::rc::Rc;

use super::super::reason::brief;
use super::super::shell::{Kind, Token};
use super::super::{Certainty, Word};
use super::branch::{Flow, Run};
use super::{DEEPEST, Next, Runner, Site, Variable, bare_text};

/// Rounds of a loop that are followed.
const MOST_ROUNDS: usize = 64;

/// Tokens of a question with `&&` in it.
const LONGEST_QUESTION: usize = 256;

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
    pub(super) fn tokens(&mut self, tokens: &[Token], site: Site) {
        let mut at = 0;
        let mut flow = Flow::default();
        while at < tokens.len() && !self.ended {
            let Segment {
                command,
                operator,
                next,
                long,
            } = Segment::at(tokens, at);
            let from = at;
            at = next.max(at + 1);
            // What runs again in a loop or a function counts again.
            if !self.spend(length_of(&tokens[from..at.min(tokens.len())])) {
                return;
            }
            let defines = operator == "("
                && command.len() == 1
                && matches!(tokens.get(at).map(|t| &t.kind), Some(Kind::Operator(")")));
            if defines {
                let end = skip_braces(tokens, at + 1);
                self.define(command.first().and_then(bare_text), &tokens[at + 1..end]);
                at = end;
                flow.after("");
                continue;
            }
            let command = self.keywords(command, tokens, &mut at, &mut flow);
            if !command.is_empty() {
                if flow.behind() != "|" {
                    self.piped = None;
                }
                if let Next::Stop = self.listed(command, long, &mut flow, site) {
                    return;
                }
            }
            flow.after(operator);
        }
    }

    /// Takes the words of the shell's own grammar off the front of a command.
    fn keywords<'t>(
        &mut self,
        mut command: &'t [Token],
        tokens: &[Token],
        at: &mut usize,
        flow: &mut Flow,
    ) -> &'t [Token] {
        while let Some(keyword) = command.first().and_then(bare_text) {
            match keyword {
                "if" => flow.begin(),
                "then" => flow.then(),
                "elif" | "else" => flow.otherwise(),
                "fi" | "done" => flow.end(),
                "while" | "until" => flow.begin_loop(),
                "!" => flow.negate(),
                "do" | "{" | "}" => {}
                "for" if self.each(command, tokens, at, flow) => return &[],
                "for" | "select" => {
                    flow.begin_loop();
                    if let Some(name) = command.get(1).and_then(bare_text) {
                        self.set(
                            name,
                            Variable::Unknown(format!("{} is the variable of a loop", brief(name))),
                        );
                    }
                    return &[];
                }
                "case" => {
                    *at = self.skip_case(tokens, *at);
                    return &[];
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
                    return &[];
                }
                _ => return command,
            }
            command = &command[1..];
        }
        command
    }

    /// `for NAME in a b; do … done` over words that are known: the body runs for each. False where that cannot be said.
    fn each(&mut self, command: &[Token], tokens: &[Token], at: &mut usize, flow: &Flow) -> bool {
        if self.bytes == 0 {
            return false;
        }
        let (Some(name), Some("in")) = (
            command.get(1).and_then(bare_text),
            command.get(2).and_then(bare_text),
        ) else {
            return false;
        };
        // Loops within loops would search the same tokens again and again.
        let end = end_of_loop(tokens, *at);
        if !self.spend(end.unwrap_or(tokens.len()).saturating_sub(*at)) {
            return false;
        }
        let Some(end) = end else {
            return false;
        };
        let body = &tokens[*at..end];
        let leaves = body
            .iter()
            .any(|token| matches!(bare_text(token), Some("break" | "continue")));
        if flow.runs() != Run::Yes || leaves || self.depth >= DEEPEST {
            return false;
        }
        let site = Site::ELSEWHERE;
        let mut words = Vec::new();
        for token in &command[3..] {
            let Kind::Word { pieces, .. } = &token.kind else {
                return false;
            };
            self.fields(pieces, None, site, &mut words);
        }
        let ranges = |word: &Word<'_>| word.text.contains(['{', '*', '?']);
        let known = words
            .iter()
            .all(|word| word.certainty == Certainty::Known && !ranges(word));
        if !known || words.len() > MOST_ROUNDS {
            return false;
        }
        for word in words {
            self.set(name, Variable::Text(Rc::new(word.text.into_owned())));
            self.depth += 1;
            self.tokens(body, site);
            self.depth -= 1;
        }
        *at = end + 1;
        true
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
            let answer = if long { None } else { self.question(command, site) };
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
        if let Next::Stop = self.simple(command, conditional, site) {
            return Next::Stop;
        }
        match name {
            "false" => flow.answer(Some(false), conditional),
            "true" | ":" => flow.answer(Some(true), conditional),
            _ if asks => flow.answer(None, conditional),
            _ => flow.step(conditional),
        }
        Next::On
    }

    /// Keeps the body of a function for its calls.
    fn define(&mut self, name: Option<&str>, body: &[Token]) {
        if let Some(name) = name
            && self.spend(length_of(body))
        {
            self.functions.insert(name.to_owned(), Rc::from(body));
        }
    }

    /// Runs a function of the script; false where there is none of that name.
    pub(super) fn call(&mut self, words: &[Word<'a>], site: Site) -> bool {
        let Some(first) = words.first() else { return false };
        let Some(body) = self.functions.get(&*first.text) else {
            return false;
        };
        if self.depth >= DEEPEST {
            self.give_up("functions are nested too deeply");
            return true;
        }
        let body = Rc::clone(body);
        let outer = std::mem::replace(&mut self.positional, words.iter().cloned().collect());
        self.depth += 1;
        self.tokens(&body, site);
        self.depth -= 1;
        self.positional = outer;
        true
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
                        Variable::Unknown(format!("{} is set in a case statement", brief(name))),
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
                Kind::Operator(_) | Kind::Into { .. } | Kind::HereDocument { .. } => {}
            }
        }
        at
    }
}

/// Bytes of the script that tokens stand for, the texts of here-documents included.
fn length_of(tokens: &[Token]) -> usize {
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

/// The index of the `done` that closes a loop whose list ends before `from`.
fn end_of_loop(tokens: &[Token], from: usize) -> Option<usize> {
    let mut depth = 1_u32;
    let mut begins = true;
    for (index, token) in tokens.iter().enumerate().skip(from) {
        let word = bare_text(token);
        if begins {
            match word {
                Some("for" | "while" | "until" | "select") => depth += 1,
                Some("done") => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(index);
                    }
                }
                _ => {}
            }
        }
        begins = matches!(token.kind, Kind::Operator(_))
            || begins && matches!(word, Some("do" | "then" | "else" | "if" | "{" | "!"));
    }
    None
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
