//! `${NAME#pattern}`, `${NAME,,}`, `${NAME/a/b}`: what a script makes of a value.

use std::rc::Rc;

use super::super::Certainty;
use super::super::reason::brief;
use super::super::shell::{Change, Piece};
use super::variable::Variable;
use super::{DEEPEST, Runner, Site, pattern};

impl<'a> Runner<'a, '_> {
    /// The value of `name` after a change.
    pub(super) fn changed(
        &mut self,
        name: &str,
        value: Variable<'a>,
        change: &Change,
        site: Site,
    ) -> Variable<'a> {
        let unknown = || {
            Variable::Unknown(format!(
                "the script changes {} in a way that is not followed",
                brief(name)
            ))
        };
        if self.depth >= DEEPEST {
            return unknown();
        }
        let Some(change) = self.with_texts(change, site) else {
            return unknown();
        };
        let cost = match &value {
            Variable::Text(text) => change.cost(text),
            Variable::Either { texts, .. } => texts.iter().map(|text| change.cost(text)).sum(),
            _ => 0,
        };
        if !self.spend(cost + 1) {
            return unknown();
        }
        match value {
            Variable::Text(text) => {
                let text = change.of(&text).map(Rc::new);
                text.map_or_else(unknown, Variable::Text)
            }
            Variable::Either { texts, reason } => {
                let texts: Option<Vec<String>> = texts.iter().map(|text| change.of(text)).collect();
                texts.map_or_else(unknown, |texts| Variable::Either {
                    texts: Rc::new(texts),
                    reason,
                })
            }
            Variable::Option { reason, .. } => Variable::Unknown(reason),
            Variable::Array(_) => unknown(),
            other @ (Variable::Unknown(_) | Variable::Unset) => other,
        }
    }

    fn with_texts(&mut self, change: &Change, site: Site) -> Option<Known> {
        let mut text = |pieces: &[Piece]| {
            self.depth += 1;
            let word = self.joined(pieces, site);
            self.depth -= 1;
            (word.certainty == Certainty::Known).then(|| word.text.into_owned())
        };
        Some(match change {
            Change::Trim {
                at_end,
                longest,
                pattern,
            } => Known::Trim {
                at_end: *at_end,
                longest: *longest,
                pattern: text(pattern)?,
            },
            Change::Lower => Known::Lower,
            Change::Upper => Known::Upper,
            Change::Replace { all, from, to } => Known::Replace {
                all: *all,
                from: text(from).filter(|from| !from.is_empty())?,
                to: text(to)?,
            },
        })
    }
}

/// Longest text that is replaced in, or put in.
const LONGEST: usize = 4096;

/// A change whose own texts are known.
enum Known {
    Trim {
        at_end: bool,
        longest: bool,
        pattern: String,
    },
    Lower,
    Upper,
    Replace {
        all: bool,
        from: String,
        to: String,
    },
}

impl Known {
    /// What it costs of the bytes that may be read.
    fn cost(&self, text: &str) -> usize {
        match self {
            // Each beginning or end is tried.
            Self::Trim { pattern, .. } => text.len().saturating_mul(pattern.len()).saturating_mul(4),
            Self::Lower | Self::Upper => text.len(),
            Self::Replace { to, .. } if text.len() > LONGEST || to.len() > LONGEST => text.len(),
            // One byte can become many.
            Self::Replace { all, from, to } => {
                let found = text
                    .matches(from.as_str())
                    .take(if *all { usize::MAX } else { 1 });
                text.len().saturating_add(found.count().saturating_mul(to.len()))
            }
        }
    }

    fn of(&self, text: &str) -> Option<String> {
        match self {
            Self::Trim {
                at_end,
                longest,
                pattern,
            } => pattern::without(pattern, text, *at_end, *longest),
            Self::Lower => Some(text.to_lowercase()),
            Self::Upper => Some(text.to_uppercase()),
            Self::Replace { .. } if text.len() > LONGEST => None,
            Self::Replace { to, .. } if to.len() > LONGEST => None,
            Self::Replace { all: true, from, to } => Some(text.replace(from, to)),
            Self::Replace { from, to, .. } => Some(text.replacen(from, to, 1)),
        }
    }
}
