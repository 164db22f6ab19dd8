//! Variables of a container as RFC 6902 operations.

use json_patch::PatchOperation;
use serde_json::{Value, json};

use super::container_at;
use crate::decision::fixes::operation;
use crate::demand::client::Setting;
use crate::engine::limits::Place;
use crate::workload::pod::Pod;

/// A variable that is to have a value.
pub(super) struct Variable {
    pub(super) name: &'static str,
    pub(super) value: String,
    /// Its place in `env`, where it stands there.
    pub(super) at: Option<usize>,
}

/// What becomes of a variable.
#[derive(Clone, Copy)]
pub(super) enum Way {
    /// It is the user's, or stands where we cannot reach it.
    Keep,
    /// It is ours and right already.
    IsThere(usize),
    /// It is written, at its place in `env` where it has one.
    Set(Option<usize>),
}

impl Way {
    /// Of a variable that is set, or not, and is to have `value`.
    pub(super) fn of<T>(setting: Option<&Setting<T>>, value: &str, replaces: bool) -> Self {
        let Some(setting) = setting else {
            return Self::Set(None);
        };
        let is_there = setting.text.as_deref() == Ok(value);
        match setting.place {
            _ if !is_replaceable(setting, replaces) => Self::Keep,
            Place::Env(at) if is_there => Self::IsThere(at),
            Place::Env(at) => Self::Set(Some(at)),
            Place::EnvFrom(_) if is_there => Self::Keep,
            Place::EnvFrom(_) | Place::Script => Self::Set(None),
        }
    }

    /// Where it stands then, in an `env` of so many.
    pub(super) const fn place(self, next: usize) -> Place {
        match self {
            Self::IsThere(at) | Self::Set(Some(at)) => Place::Env(at),
            Self::Set(None) | Self::Keep => Place::Env(next),
        }
    }
}

/// Whether a value may be replaced: our own, and the user's where the policy says so, unless a script sets it.
pub(super) const fn is_replaceable<T>(setting: &Setting<T>, replaces: bool) -> bool {
    match setting.place {
        Place::Env(_) => setting.ours || replaces,
        Place::EnvFrom(_) => replaces,
        Place::Script => false,
    }
}

/// The operations that give containers these variables. What is replaced is replaced whole, since a variable has a value
/// or a source of one and never both; what is new comes last, so that no index moves. An `env` that is absent, null or
/// empty is made.
pub(super) fn operations(pod: &Pod, variables: &[(String, Variable)]) -> Vec<PatchOperation> {
    let mut operations = Vec::new();
    let mut made: Vec<&str> = Vec::new();
    for (pointer, _) in variables {
        if made.contains(&&**pointer) {
            continue;
        }
        made.push(pointer);
        let here = || {
            variables
                .iter()
                .filter(|(at, _)| at == pointer)
                .map(|(_, variable)| variable)
        };
        if container_at(pod, pointer).is_none_or(|container| container.env.is_empty()) {
            let list: Vec<_> = here().map(entry).collect();
            operations.extend(operation("add", &format!("{pointer}/env"), &list.into()));
            continue;
        }
        operations.extend(here().filter_map(|variable| match variable.at {
            Some(index) => operation("replace", &format!("{pointer}/env/{index}"), &entry(variable)),
            None => operation("add", &format!("{pointer}/env/-"), &entry(variable)),
        }));
    }
    operations
}

fn entry(variable: &Variable) -> Value {
    json!({"name": variable.name, "value": variable.value})
}

/// A key as a token of a JSON pointer (RFC 6901).
pub(in crate::decision) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_escaped_in_the_order_that_can_be_undone() {
        assert_eq!(escaped("vramgate.io/mutated"), "vramgate.io~1mutated");
        assert_eq!(escaped("a~1/b"), "a~01~1b");
    }
}
