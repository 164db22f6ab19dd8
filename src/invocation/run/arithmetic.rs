//! `$(( … ))` over integers.

use std::borrow::Cow;
use std::rc::Rc;

use super::super::reason::brief;
use super::super::{Certainty, shell};
use super::{DEEPEST, Runner, Site, Variable};

impl Runner<'_, '_> {
    pub(super) fn arithmetic(&mut self, inner: &str) -> Result<i64, String> {
        let failed = || format!("$(({})) is known only when the script runs", brief(inner));
        let pieces = shell::pieces(inner).ok_or_else(failed)?;
        let site = Site::ELSEWHERE;
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

impl Runner<'_, '_> {
    /// `(( … ))` and `let …`: assignments and comparisons, separated by commas. The last value is not zero.
    pub(super) fn calculate(&mut self, text: &str, conditional: bool) -> Option<bool> {
        let mut last = None;
        for step in text.split(',') {
            last = self.calculation(step.trim(), conditional);
        }
        last.map(|value| value != 0)
    }

    fn calculation(&mut self, step: &str, conditional: bool) -> Option<i64> {
        for (mark, sum) in [("++", 1), ("--", -1)] {
            let name = step.strip_suffix(mark).or_else(|| step.strip_prefix(mark));
            if let Some(name) = name.map(str::trim).filter(|name| is_name(name)) {
                let before = self.arithmetic(name).ok();
                let after = before.and_then(|before| before.checked_add(sum));
                self.store(name, after, conditional);
                return if step.ends_with(mark) { before } else { after };
            }
        }
        let end = step
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(step.len());
        let (name, rest) = step.split_at(end);
        let rest = rest.trim_start();
        if is_name(name) {
            for (operator, sign) in [("+=", "+"), ("-=", "-"), ("*=", "*"), ("/=", "/"), ("%=", "%")] {
                if let Some(more) = rest.strip_prefix(operator) {
                    let value = self.arithmetic(&format!("{name}{sign}({more})")).ok();
                    self.store(name, value, conditional);
                    return value;
                }
            }
            if let Some(more) = rest.strip_prefix('=').filter(|more| !more.starts_with('=')) {
                let value = self.arithmetic(more).ok();
                self.store(name, value, conditional);
                return value;
            }
        }
        for (operator, holds) in COMPARISONS {
            if let Some((left, right)) = step.split_once(operator) {
                let (left, right) = (self.arithmetic(left).ok()?, self.arithmetic(right).ok()?);
                return Some(i64::from(holds(&left, &right)));
            }
        }
        self.arithmetic(step).ok()
    }

    fn store(&mut self, name: &str, value: Option<i64>, conditional: bool) {
        let before = self.look_up(name);
        let value = value.map_or_else(
            || Variable::Unknown(format!("{} is known only when the script runs", brief(name))),
            |value| Variable::Text(Rc::new(value.to_string())),
        );
        let value = if conditional {
            self.join(name, before, value)
        } else {
            value
        };
        self.set(name, value);
    }
}

type Comparison = fn(&i64, &i64) -> bool;

/// Longer ones first.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("<=", i64::le),
    (">=", i64::ge),
    ("==", i64::eq),
    ("!=", i64::ne),
    ("<", i64::lt),
    (">", i64::gt),
];

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// A number as the shell reads it: `0x` makes it hexadecimal and `0` octal, in which 8 and 9 are errors.
fn integer(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let hexadecimal = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let number = match hexadecimal {
        Some(digits) => i64::from_str_radix(digits, 16),
        None if digits.starts_with('0') => i64::from_str_radix(digits, 8),
        None => digits.parse(),
    };
    number.ok()?.checked_mul(sign)
}

/// Bytes of a variable that is read as a number: the longest one with room for blanks.
const LONGEST_NUMBER: usize = 64;

/// Integer arithmetic by precedence.
struct Sum<'s, 'r, 'a, 'e> {
    text: &'s [u8],
    at: usize,
    depth: u8,
    runner: &'r mut Runner<'a, 'e>,
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
                    integer(text)?
                } else if let Variable::Text(value) = self.runner.look_up(text) {
                    // A name may stand there as often as the script is long.
                    let short = (value.len() <= LONGEST_NUMBER).then_some(value)?;
                    integer(short.trim())?
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
