//! Ways of a script of which one is taken: each runs on a state of its own, and what they leave alike stays known.

use std::collections::{BTreeMap, VecDeque};

use super::super::Word;
use super::export::Export;
use super::field::weight;
use super::variable::{Variable, joined};
use super::{Next, Runner, parameters};

/// What differs between the ways. Files and programs are not among it: they are marked as they come.
#[derive(Clone)]
pub(super) struct State<'a> {
    variables: BTreeMap<String, Variable<'a>>,
    exports: BTreeMap<String, Export>,
    positional: VecDeque<Word<'a>>,
    folder: Option<String>,
}

impl State<'_> {
    /// Bytes that a copy takes once each of its values is written to.
    fn bytes(&self) -> usize {
        let names = self
            .variables
            .iter()
            .map(|(name, value)| name.len() + value.bytes());
        let words = self.positional.iter().map(weight);
        let exports = self.exports.keys().map(String::len);
        names.chain(words).chain(exports).sum()
    }
}

impl<'a> Runner<'a, '_> {
    /// A copy of the state; `None` where copies have used up what may be read.
    pub(super) fn state(&mut self) -> Option<State<'a>> {
        let state = State {
            variables: self.variables.clone(),
            exports: self.exports.clone(),
            positional: self.positional.clone(),
            folder: self.folder.clone(),
        };
        self.spend(state.bytes() + 1).then_some(state)
    }

    /// Goes on from `state`.
    pub(super) fn restore(&mut self, state: State<'a>) {
        self.variables = state.variables;
        self.exports = state.exports;
        self.positional = state.positional;
        self.folder = state.folder;
    }

    fn take_state(&mut self) -> State<'a> {
        State {
            variables: std::mem::take(&mut self.variables),
            exports: std::mem::take(&mut self.exports),
            positional: std::mem::take(&mut self.positional),
            folder: self.folder.take(),
        }
    }

    /// Runs each of `ways` as one that is perhaps taken, and joins what they leave. `passes` where none of them may be.
    /// A way that ends the
    /// script leaves nothing.
    pub(super) fn one_of<W>(
        &mut self,
        ways: impl IntoIterator<Item = W>,
        passes: bool,
        mut run: impl FnMut(&mut Self, W) -> Next,
    ) -> Next {
        let Some(before) = self.state() else {
            return Next::Stop;
        };
        let outer = std::mem::replace(&mut self.doubtful, true);
        let mut left: Option<State<'a>> = passes.then(|| before.clone());
        let (mut any, mut all_ended) = (false, true);
        for way in ways {
            any = true;
            if !self.spend(before.bytes() + 1) {
                break;
            }
            self.restore(before.clone());
            let next = run(self, way);
            if matches!(next, Next::Break | Next::Continue) {
                self.loop_in_doubt = true;
            }
            let ended = std::mem::take(&mut self.ended);
            all_ended &= ended;
            if ended {
                continue;
            }
            let after = self.take_state();
            left = Some(match left {
                None => after,
                Some(other) => self.both(other, after),
            });
        }
        self.doubtful = outer;
        match left {
            Some(state) => {
                self.restore(state);
                Next::On
            }
            None if any => {
                self.restore(before);
                self.ended |= all_ended;
                Next::Stop
            }
            None => {
                self.restore(before);
                Next::On
            }
        }
    }

    /// What is left after one of two ways.
    fn both(&mut self, one: State<'a>, other: State<'a>) -> State<'a> {
        // Both are looked through, however little of them differs.
        self.spend(one.bytes() + other.bytes());
        let mut variables = one.variables;
        let mut others = other.variables;
        for (name, value) in &mut variables {
            let theirs = others.remove(name).unwrap_or_else(|| self.inherited(name));
            let ours = std::mem::replace(value, Variable::Unset);
            *value = joined(name, ours, theirs);
        }
        for (name, theirs) in others {
            let value = joined(&name, self.inherited(&name), theirs);
            variables.insert(name, value);
        }
        let mut exports = one.exports;
        for (name, export) in &mut exports {
            if other.exports.get(name) != Some(export) {
                *export = Export::Perhaps;
            }
        }
        for name in other.exports.into_keys() {
            exports.entry(name).or_insert(Export::Perhaps);
        }
        State {
            variables,
            exports,
            positional: if one.positional == other.positional {
                one.positional
            } else {
                let reason = "the script sets its parameters under a condition";
                parameters::any(one.positional.into_iter().next(), reason)
            },
            folder: one.folder.filter(|folder| other.folder.as_ref() == Some(folder)),
        }
    }
}
