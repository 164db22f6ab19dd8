//! Which commands of a script run: branches, `&&`, `||`, and questions whose answer is known.

use super::super::Certainty;
use super::super::shell::{Kind, Token};
use super::{Runner, Site, bare_text, pattern};

/// Whether a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    Yes,
    No,
    Perhaps,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    True,
    False,
    /// A step of the way: where it fails, nothing after it matters.
    Step,
    Open,
}

/// A group that is open: how the command before it ended, and the operator between them.
#[derive(Clone, Copy)]
struct Group {
    last: Outcome,
    operator: &'static str,
    negated: bool,
}

/// One `if`, loop or group that is open.
struct Branch {
    group: Option<Group>,
    /// Whether what is around it runs.
    around: Run,
    /// Whether the present section runs.
    section: Run,
    /// Whether an earlier section of it ran.
    taken: Run,
    is_loop: bool,
    /// Whether it is a loop or stands in one.
    in_loop: bool,
}

/// The state of a list of commands.
pub(super) struct Flow {
    branches: Vec<Branch>,
    last: Outcome,
    operator: &'static str,
    negated: bool,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            branches: Vec::new(),
            last: Outcome::Step,
            operator: "",
            negated: false,
        }
    }
}

impl Flow {
    pub(super) fn begin(&mut self) {
        let around = self.enclosing();
        self.branches.push(Branch {
            group: None,
            around,
            section: Run::Yes,
            taken: Run::No,
            is_loop: false,
            in_loop: self.in_loop(),
        });
        self.operator = "";
    }

    pub(super) fn begin_loop(&mut self) {
        let around = self.enclosing();
        self.branches.push(Branch {
            group: None,
            around,
            section: Run::Perhaps,
            taken: Run::Perhaps,
            is_loop: true,
            in_loop: true,
        });
        self.operator = "";
    }

    /// `{` or `(`: what stands in it runs where a single command would.
    pub(super) fn begin_group(&mut self) {
        let group = Group {
            last: self.last,
            operator: self.operator,
            negated: self.negated,
        };
        self.branches.push(Branch {
            group: Some(group),
            around: self.runs(),
            section: Run::Yes,
            taken: Run::Yes,
            is_loop: false,
            in_loop: self.in_loop(),
        });
        self.after("");
    }

    /// `}` or `)`; one that closes nothing is passed over.
    pub(super) fn end_group(&mut self) {
        let Some(group) = self.branches.last().and_then(|branch| branch.group) else {
            return;
        };
        let around = self.branches.pop().map_or(Run::Yes, |branch| branch.around);
        let inner = self.last;
        self.operator = group.operator;
        self.negated = group.negated;
        match around {
            Run::No => self.last = group.last,
            Run::Perhaps => self.step(true),
            // A group of questions answers as its last one does.
            Run::Yes if !group.negated => self.last = inner,
            Run::Yes => self.step(false),
        }
    }

    /// The question is answered; its branch begins.
    pub(super) fn then(&mut self) {
        let answer = match self.last {
            Outcome::True => Run::Yes,
            Outcome::False => Run::No,
            Outcome::Step | Outcome::Open => Run::Perhaps,
        };
        let branch = self.branches.last_mut().filter(|branch| !branch.is_loop);
        if let Some(branch) = branch.filter(|branch| branch.section != Run::No) {
            branch.section = match (branch.section, answer) {
                (Run::Perhaps, Run::Yes) => Run::Perhaps,
                (_, answer) => answer,
            };
            branch.taken = match (branch.taken, branch.section) {
                (Run::Yes, _) | (_, Run::Yes) => Run::Yes,
                (Run::Perhaps, _) | (_, Run::Perhaps) => Run::Perhaps,
                _ => Run::No,
            };
        }
        self.operator = "";
    }

    /// `else`, or `elif` whose question comes now.
    pub(super) fn otherwise(&mut self) {
        if let Some(branch) = self.branches.last_mut().filter(|branch| !branch.is_loop) {
            branch.section = match branch.taken {
                Run::Yes => Run::No,
                Run::Perhaps => Run::Perhaps,
                Run::No => Run::Yes,
            };
        }
        self.operator = "";
    }

    pub(super) fn end(&mut self) {
        self.branches.pop();
        self.last = Outcome::Step;
    }

    pub(super) fn negate(&mut self) {
        self.negated = true;
    }

    /// Whether the command at hand stands in the body of a loop that is not followed round by round.
    pub(super) fn in_loop(&self) -> bool {
        self.branches.last().is_some_and(|branch| branch.in_loop)
    }

    /// How the list ended, where that is known.
    pub(super) fn outcome(&self) -> Option<bool> {
        match self.last {
            Outcome::True => Some(true),
            Outcome::False => Some(false),
            Outcome::Step | Outcome::Open => None,
        }
    }

    /// The operator before the command at hand.
    pub(super) fn behind(&self) -> &'static str {
        self.operator
    }

    pub(super) fn after(&mut self, operator: &'static str) {
        self.operator = operator;
        self.negated = false;
    }

    /// Whether the command at hand runs.
    pub(super) fn runs(&self) -> Run {
        let joined = match (self.operator, self.last) {
            ("&&", Outcome::False) | ("||", Outcome::True) => Run::No,
            ("&&", Outcome::Open) | ("||", Outcome::Open | Outcome::Step) => Run::Perhaps,
            _ => Run::Yes,
        };
        both(joined, self.enclosing())
    }

    /// Whether the present section runs, with all that it stands in.
    fn enclosing(&self) -> Run {
        let innermost = self.branches.last();
        innermost.map_or(Run::Yes, |branch| both(branch.around, branch.section))
    }

    /// A question was asked.
    pub(super) fn answer(&mut self, answer: Option<bool>, conditional: bool) {
        let joined = !self.operator.is_empty() && matches!(self.operator, "&&" | "||");
        self.last = match answer {
            Some(yes) if !(conditional && joined) => {
                if yes == self.negated {
                    Outcome::False
                } else {
                    Outcome::True
                }
            }
            _ => Outcome::Open,
        };
    }

    /// A program was started.
    pub(super) fn step(&mut self, conditional: bool) {
        let open = conditional && self.operator == "&&" || self.negated;
        self.last = if open { Outcome::Open } else { Outcome::Step };
    }
}

/// What runs only where two things do.
fn both(one: Run, other: Run) -> Run {
    match (one, other) {
        (Run::No, _) | (_, Run::No) => Run::No,
        (Run::Perhaps, _) | (_, Run::Perhaps) => Run::Perhaps,
        _ => Run::Yes,
    }
}

impl Runner<'_, '_> {
    /// The answer to `[[ a && b || c ]]`; `None` where it hangs on a part whose answer is not known.
    pub(super) fn joined_question(&mut self, command: &[Token], site: Site) -> Option<bool> {
        let (open, rest) = command.split_first()?;
        let (close, inner) = rest.split_last()?;
        // Brackets within are not followed.
        let plain = |token: &Token| match token.kind {
            Kind::Operator(operator) => matches!(operator, "&&" | "||"),
            _ => true,
        };
        if bare_text(open) != Some("[[") || !inner.iter().all(plain) {
            return None;
        }
        let is = |token: &Token, operator: &str| matches!(token.kind, Kind::Operator(own) if own == operator);
        let mut any = Some(false);
        for ways in inner.split(|token| is(token, "||")) {
            let mut all = Some(true);
            for part in ways.split(|token| is(token, "&&")) {
                let mut question = Vec::with_capacity(part.len() + 2);
                question.push(open.clone());
                question.extend_from_slice(part);
                question.push(close.clone());
                all = match (all, self.question(&question, site)) {
                    (Some(false), _) | (_, Some(false)) => Some(false),
                    (Some(true), Some(true)) => Some(true),
                    _ => None,
                };
            }
            any = match (any, all) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            };
        }
        any
    }

    /// The answer to `[ … ]`, `[[ … ]]` or `test …`, where every value in it is known.
    pub(super) fn question(&mut self, command: &[Token], site: Site) -> Option<bool> {
        let mut words = Vec::with_capacity(command.len());
        for token in command {
            let Kind::Word { pieces, .. } = &token.kind else {
                return None;
            };
            let word = self.joined(pieces, site);
            if word.certainty != Certainty::Known {
                return None;
            }
            words.push(word.text.into_owned());
        }
        // `[[ text == pattern ]]`, where no part of the pattern is quoted.
        let double = command.first().and_then(bare_text) == Some("[[");
        let matched = double
            && matches!(
                command.iter().rev().nth(1).map(|token| &token.kind),
                Some(Kind::Word { bare: true, .. })
            );
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        if words.first().is_some_and(|word| *word != "test") {
            words.pop().filter(|last| matches!(*last, "]" | "]]"))?;
        }
        let words = words.get(1..)?;
        // `[ a -a b ]`, where neither word can be an operand.
        if !double && words.len() > 4 {
            for (operator, decides) in [("-o", true), ("-a", false)] {
                let parts: Vec<&[&str]> = words.split(|word| *word == operator).collect();
                if parts.len() < 2 {
                    continue;
                }
                if parts.iter().any(|part| part.contains(&"-a")) {
                    return None;
                }
                let answers: Vec<Option<bool>> = parts
                    .into_iter()
                    .map(|part| self.answered(part, matched, double))
                    .collect();
                return if answers.contains(&Some(decides)) {
                    Some(decides)
                } else {
                    answers.iter().all(Option::is_some).then_some(!decides)
                };
            }
        }
        self.answered(words, matched, double)
    }

    /// The answer to one question, without its brackets.
    fn answered(&mut self, words: &[&str], matched: bool, double: bool) -> Option<bool> {
        let mut words = words;
        let mut negated = false;
        while let Some(rest) = words.strip_prefix(&["!"]) {
            words = rest;
            negated = !negated;
        }
        let answer = match words {
            [text] | ["-n", text] => !text.is_empty(),
            ["-z", text] => text.is_empty(),
            [left, operator, right] => {
                let numbers = || {
                    Some((
                        left.trim().parse::<i64>().ok()?,
                        right.trim().parse::<i64>().ok()?,
                    ))
                };
                match *operator {
                    "=" | "==" | "!=" if pattern::is_plain(right) || double && !matched => {
                        (left == right) == (*operator != "!=")
                    }
                    "=" | "==" | "!=" if matched && self.spend(pattern::cost(right, left) + 1) => {
                        pattern::matches(right, left)? == (*operator != "!=")
                    }
                    "-eq" => numbers().map(|(left, right)| left == right)?,
                    "-ne" => numbers().map(|(left, right)| left != right)?,
                    "-gt" => numbers().map(|(left, right)| left > right)?,
                    "-ge" => numbers().map(|(left, right)| left >= right)?,
                    "-lt" => numbers().map(|(left, right)| left < right)?,
                    "-le" => numbers().map(|(left, right)| left <= right)?,
                    _ => return None,
                }
            }
            _ => return None,
        };
        Some(answer != negated)
    }
}
