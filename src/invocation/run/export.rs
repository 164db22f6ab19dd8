//! What a script hands on to the programs and shells that it starts, and what those keep to themselves.

use std::rc::Rc;

use super::super::prefix::{Handed, base_name};
use super::super::reason::brief;
use super::variable::Variable;
use super::{Next, Runner, Word};

/// Whether a variable of the script is one of the environment of what it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Export {
    Yes,
    Perhaps,
    No,
}

/// What a name held outside of the function that has it for itself.
pub(super) struct Local<'a> {
    name: String,
    value: Option<Variable<'a>>,
    export: Option<Export>,
}

/// What looking at a variable costs of the bytes that may be read: every program looks at all of them.
const LOOK: usize = 4;

/// Programs that are no engine and start none, whatever their variables are.
const PLAIN: [&str; 24] = [
    "apt-get",
    "cat",
    "chmod",
    "chown",
    "cp",
    "curl",
    "date",
    "echo",
    "export",
    "find",
    "grep",
    "head",
    "ls",
    "ln",
    "mkdir",
    "mv",
    "nvidia-smi",
    "pip",
    "printf",
    "rm",
    "sed",
    "sleep",
    "tee",
    "wget",
];

impl<'a> Runner<'a, '_> {
    /// Whether programs get the variable: what the container sets they do, without `export` as well.
    pub(super) fn exported(&self, name: &str) -> Export {
        match self.exports.get(name) {
            Some(export) => *export,
            None if !self.cleared && self.environment.get(name).is_some() => Export::Yes,
            None => Export::No,
        }
    }

    /// `export NAME`, `export -n NAME`, `unset NAME`.
    pub(super) fn mark(&mut self, name: &str, export: Export, conditional: bool) {
        if conditional && self.exported(name) != export {
            self.exports.insert(name.to_owned(), Export::Perhaps);
        } else {
            self.exports.insert(name.to_owned(), export);
        }
    }

    /// The variables of a program: those that the script exports, and what its own command line says of them.
    pub(super) fn handed(&mut self, words: &[Word<'a>], own: Handed) -> Vec<(String, Option<String>)> {
        let plain = words
            .first()
            .is_some_and(|first| PLAIN.contains(&base_name(&first.text)));
        let mut all = Vec::new();
        if !plain && own.cleared {
            let names = self.environment.variables().iter();
            all.extend(names.map(|variable| (variable.name.clone().into_owned(), None)));
        } else if !plain && self.spend(self.variables.len() * LOOK) {
            for (name, value) in &self.variables {
                match (self.exported(name), value) {
                    (Export::Yes, Variable::Text(text)) => {
                        all.push((name.clone(), Some(text.to_string())));
                    }
                    (Export::No, _) if self.environment.get(name).is_none() => {}
                    _ => all.push((name.clone(), None)),
                }
            }
            if self.cleared {
                let names = self.environment.variables().iter();
                let hidden = names.filter(|variable| !self.variables.contains_key(&*variable.name));
                all.extend(hidden.map(|variable| (variable.name.clone().into_owned(), None)));
            }
        }
        all.extend(own.removed.into_iter().map(|name| (name, None)));
        let bytes = all
            .iter()
            .map(|(name, value)| name.len() + value.as_ref().map_or(0, String::len))
            .sum();
        if !self.spend(bytes) {
            all.clear();
        }
        all.extend(own.variables);
        all
    }

    /// Runs a shell that the script starts: it knows what is exported and what its command line sets, and what it sets
    /// itself ends with it.
    pub(super) fn in_child(&mut self, own: Handed, run: impl FnOnce(&mut Self)) {
        // The first shell of a container has nothing to keep apart.
        if self.variables.is_empty() && !own.cleared && own.removed.is_empty() && own.variables.is_empty() {
            let exports = std::mem::take(&mut self.exports);
            let folder = self.folder.clone();
            run(self);
            self.variables.clear();
            self.exports = exports;
            self.folder = folder;
            return;
        }
        let Some(outer) = self.state() else { return };
        let cleared = self.cleared;
        self.cleared |= own.cleared;
        for (name, mut value) in std::mem::take(&mut self.variables) {
            let export = self.exported(&name);
            match export {
                _ if own.cleared => continue,
                Export::Yes if matches!(value, Variable::Array(_)) => continue,
                Export::Yes => {}
                Export::Perhaps => {
                    value = Variable::Unknown(format!("{} is exported under a condition", brief(&name)));
                }
                // Not what the container sets either.
                Export::No if self.environment.get(&name).is_some() => value = Variable::Unset,
                Export::No => continue,
            }
            self.variables.insert(name, value);
        }
        for name in own.removed {
            self.exports.insert(name.clone(), Export::No);
            self.variables.insert(name, Variable::Unset);
        }
        for (name, value) in own.variables {
            let value = match value {
                Some(text) => Variable::Text(Rc::new(text)),
                None => Variable::Unknown(format!("{} is known only when the script runs", brief(&name))),
            };
            self.exports.insert(name.clone(), Export::Yes);
            self.variables.insert(name, value);
        }
        let all = std::mem::take(&mut self.exports_all);
        let locals = std::mem::take(&mut self.locals);
        run(self);
        self.locals = locals;
        self.exports_all = all;
        self.cleared = cleared;
        self.restore(outer);
    }

    /// What stands in a pipe or before `&` runs in a shell of its own: what it sets ends with it.
    pub(super) fn apart(&mut self, run: impl FnOnce(&mut Self) -> Next) -> Next {
        let Some(outer) = self.state() else {
            return Next::Stop;
        };
        let ended = self.ended;
        let next = run(self);
        self.ended = ended;
        self.restore(outer);
        match next {
            Next::Stop if self.bytes > 0 => Next::On,
            next => next,
        }
    }

    /// `local NAME` in a function: what it held before comes back when the function ends.
    pub(super) fn localise(&mut self, name: &str) {
        let Some(known) = self.locals.last().map(Vec::len) else {
            return;
        };
        // They are looked through for each further one.
        if !self.spend(known) {
            return;
        }
        let Some(known) = self.locals.last() else { return };
        if known.iter().any(|local| local.name == name) {
            return;
        }
        let (value, export) = (self.variables.get(name).cloned(), self.exports.get(name).copied());
        if !self.spend(name.len() + value.as_ref().map_or(1, Variable::bytes)) {
            return;
        }
        if let Some(locals) = self.locals.last_mut() {
            locals.push(Local {
                name: name.to_owned(),
                value,
                export,
            });
        }
    }

    /// The end of a function.
    pub(super) fn end_locals(&mut self) {
        for local in self.locals.pop().into_iter().flatten().rev() {
            match local.value {
                Some(value) => {
                    self.variables.insert(local.name.clone(), value);
                }
                None => {
                    self.variables.remove(&local.name);
                }
            }
            match local.export {
                Some(export) => {
                    self.exports.insert(local.name, export);
                }
                None => {
                    self.exports.remove(&local.name);
                }
            }
        }
    }
}
