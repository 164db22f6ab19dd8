//! Loops: over words that are known, and as long as questions have known answers.

use std::rc::Rc;

use super::super::shell::{self, Kind, Piece, Token};
use super::super::{Certainty, Word};
use super::branch::{Flow, Run};
use super::list::calculation;
use super::variable::Variable;
use super::{DEEPEST, Next, Runner, Site, bare_text};

/// Rounds of a loop that are followed.
const MOST_ROUNDS: usize = 128;

impl<'a> Runner<'a, '_> {
    /// `for NAME in a b; do … done` over words that are known: the body runs for each. `None` where that cannot be said.
    pub(super) fn each(
        &mut self,
        command: &[Token],
        tokens: &[Token],
        at: &mut usize,
        flow: &mut Flow,
    ) -> Option<Next> {
        if self.bytes == 0 {
            return None;
        }
        // Loops within loops would search the same tokens again and again.
        let end = loop_parts(tokens, *at, true).map(|(_, end)| end);
        if !self.spend(end.unwrap_or(tokens.len()).saturating_sub(*at)) {
            return None;
        }
        let end = end?;
        let body = &tokens[*at..end];
        if flow.runs() != Run::Yes || self.depth >= DEEPEST {
            return None;
        }
        if let Some(head) = command.get(1).and_then(calculation) {
            let next = self.counted(head, body)?;
            *at = end + 1;
            flow.step(false);
            return Some(next);
        }
        let name = command.get(1).and_then(bare_text)?;
        let words = match command.get(2).and_then(bare_text) {
            Some("in") => self.words_of_loop(&command[3..])?,
            None | Some("do") => self.positional.iter().skip(1).cloned().collect(),
            Some(_) => return None,
        };
        let ranges = |word: &Word<'_>| word.text.contains(['{', '*', '?']);
        let known = words
            .iter()
            .all(|word| word.certainty == Certainty::Known && !ranges(word));
        if !known || words.len() > MOST_ROUNDS {
            return None;
        }
        let next = self.followed(|runner| {
            for word in words {
                runner.set(name, Variable::Text(Rc::new(word.text.into_owned())));
                if !runner.spend(body.len()) {
                    return Some(Next::Stop);
                }
                match runner.tokens(body, Site::ELSEWHERE) {
                    Next::On | Next::Continue => {}
                    Next::Break => break,
                    Next::Stop => return Some(Next::Stop),
                }
            }
            Some(Next::On)
        })?;
        *at = end + 1;
        flow.step(false);
        Some(next)
    }

    /// `for ((i = 0; i < 4; i++))`.
    fn counted(&mut self, head: &str, body: &[Token]) -> Option<Next> {
        let mut parts = head.split(';');
        let (Some(begin), Some(question), Some(step), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return None;
        };
        self.followed(|runner| {
            runner.calculate(begin, false);
            for _ in 0..=MOST_ROUNDS {
                if !runner.spend(body.len() + head.len()) {
                    return Some(Next::Stop);
                }
                if !runner.calculate(question, false)? {
                    return Some(Next::On);
                }
                match runner.tokens(body, Site::ELSEWHERE) {
                    Next::On | Next::Continue => {}
                    Next::Break => return Some(Next::On),
                    Next::Stop => return Some(Next::Stop),
                }
                runner.calculate(step, false);
            }
            None
        })
    }

    /// The words of `in a "$@" {1..3} $(seq 4)`.
    fn words_of_loop(&mut self, tokens: &[Token]) -> Option<Vec<Word<'a>>> {
        let mut words = Vec::new();
        for token in tokens {
            let Kind::Word { pieces, .. } = &token.kind else {
                return None;
            };
            match pieces.as_slice() {
                [Piece::Unreadable { raw, quoted: false }] if raw.starts_with('{') => {
                    words.extend(range(raw)?);
                }
                [Piece::Unreadable { raw, quoted: false }] => words.extend(self.sequence(raw)?),
                _ => self.fields(pieces, None, Site::ELSEWHERE, &mut words),
            }
        }
        Some(words)
    }

    /// `$(seq 4)`, `$(seq 0 3)`, `$(seq 0 2 6)`.
    fn sequence(&mut self, raw: &str) -> Option<Vec<Word<'a>>> {
        let inner = raw.strip_prefix("$(")?.strip_suffix(')')?;
        let (tokens, None) = shell::lex(inner) else {
            return None;
        };
        let mut words = Vec::new();
        for token in &tokens {
            let Kind::Word { pieces, .. } = &token.kind else {
                return None;
            };
            self.fields(pieces, None, Site::ELSEWHERE, &mut words);
        }
        let (first, numbers) = words.split_first()?;
        let known = words.iter().all(|word| word.certainty == Certainty::Known);
        if first.text != "seq" || !known {
            return None;
        }
        let numbers: Option<Vec<i64>> = numbers.iter().map(|word| word.text.parse().ok()).collect();
        match numbers?.as_slice() {
            [last] => numbered(1, *last, 1),
            [first, last] => numbered(*first, *last, 1),
            [first, step, last] => numbered(*first, *last, *step),
            _ => None,
        }
    }

    /// `while LIST; do … done` whose question has a known answer in each round. `None` where it has none.
    pub(super) fn repeat(
        &mut self,
        until: bool,
        tokens: &[Token],
        from: usize,
        at: &mut usize,
        flow: &mut Flow,
    ) -> Option<Next> {
        let parts = loop_parts(tokens, from, false);
        let length = parts.map_or(tokens.len(), |(_, end)| end).saturating_sub(from);
        if !self.spend(length) {
            return None;
        }
        let (middle, end) = parts?;
        if flow.runs() != Run::Yes || self.depth >= DEEPEST {
            return None;
        }
        let (question, body) = (&tokens[from..middle], &tokens[middle..end]);
        let endless = matches!(
            (until, question.first().and_then(bare_text)),
            (false, Some("true" | ":")) | (true, Some("false"))
        );
        // A loop without an end starts the same again in each round; it is left in the first or not at all.
        let most = if endless { 1 } else { MOST_ROUNDS + 1 };
        let next = self.followed(|runner| {
            for _ in 0..most {
                let mut asked = Flow::default();
                if !runner.spend(length) {
                    return Some(Next::Stop);
                }
                match runner.list(question, &mut asked, Site::ELSEWHERE) {
                    Next::On => {}
                    _ => return None,
                }
                if asked.outcome()? == until {
                    return Some(Next::On);
                }
                match runner.tokens(body, Site::ELSEWHERE) {
                    Next::On | Next::Continue => {}
                    Next::Break => return Some(Next::On),
                    Next::Stop => return Some(Next::Stop),
                }
            }
            endless.then_some(Next::On)
        })?;
        *at = end + 1;
        flow.step(false);
        Some(next)
    }

    /// Runs a loop round by round. Where that comes to something that is not known, or is left under a condition, nothing
    /// has happened.
    fn followed(&mut self, run: impl FnOnce(&mut Self) -> Option<Next>) -> Option<Next> {
        let before = self.state()?;
        let (commands, opaque) = (self.commands.len(), self.opaque.clone());
        let outer = std::mem::take(&mut self.loop_in_doubt);
        self.depth += 1;
        self.loops += 1;
        let next = run(self);
        self.loops -= 1;
        self.depth -= 1;
        let in_doubt = std::mem::replace(&mut self.loop_in_doubt, outer);
        if next.is_some() && !in_doubt {
            return next;
        }
        self.restore(before);
        self.commands.truncate(commands);
        // What may be read does not come back.
        if self.bytes > 0 && self.budget > 0 {
            self.opaque = opaque;
        }
        self.ended = false;
        None
    }

    /// `break` or `continue`.
    pub(super) fn leave(&mut self, breaks: bool, conditional: bool, flow: &Flow) -> Next {
        if flow.in_loop() || self.loops == 0 {
            // The body of a loop that is not followed is read to its end.
            return Next::On;
        }
        if conditional {
            self.loop_in_doubt = true;
            return Next::On;
        }
        if breaks { Next::Break } else { Next::Continue }
    }
}

/// `{0..3}`.
fn range<'a>(text: &str) -> Option<Vec<Word<'a>>> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    let (first, last) = inner.split_once("..")?;
    let (first, last) = (first.parse::<i64>().ok()?, last.parse::<i64>().ok()?);
    numbered(first, last, if first <= last { 1 } else { -1 })
}

/// The numbers of a sequence, where they are few.
fn numbered<'a>(first: i64, last: i64, step: i64) -> Option<Vec<Word<'a>>> {
    let mut words = Vec::new();
    let mut number = first;
    while step > 0 && number <= last || step < 0 && number >= last {
        if words.len() == MOST_ROUNDS {
            return None;
        }
        words.push(Word {
            text: number.to_string().into(),
            ..Word::literal("")
        });
        number = number.checked_add(step)?;
    }
    (step != 0).then_some(words)
}

/// The indices of the `do` and the `done` of a loop; from `from` on stands its question, or its list where it `began`.
fn loop_parts(tokens: &[Token], from: usize, began: bool) -> Option<(usize, usize)> {
    let mut middle = began.then_some(from);
    let mut depth = 1_u32;
    let mut begins = true;
    for (index, token) in tokens.iter().enumerate().skip(from) {
        let word = bare_text(token);
        if begins {
            match word {
                Some("for" | "while" | "until" | "select") => depth += 1,
                Some("do") if depth == 1 && middle.is_none() => middle = Some(index),
                Some("done") => {
                    depth -= 1;
                    if depth == 0 {
                        return middle.map(|middle| (middle, index));
                    }
                }
                _ => {}
            }
        }
        begins = matches!(token.kind, Kind::Operator(_))
            || begins
                && matches!(
                    word,
                    Some("do" | "then" | "else" | "elif" | "if" | "{" | "!" | "while" | "until")
                );
    }
    None
}
