//! What a policy says, value by value, with the place of each.

use std::sync::LazyLock;

use super::error::PolicyErrors;
use super::file;
use super::tree::{Position, Step, Tree, View, path_text};

/// One value of a policy: a word, a number, a text or a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// `spec.device.budget`.
    pub field: String,
    /// As it is written, on one line: `0.85`, `[VG103, VG109]`, `{assume: 0.30}`.
    pub value: String,
    /// Line and column, from one; absent where the policy did not come as text.
    pub at: Option<(u64, u64)>,
}

impl Written {
    /// The value without differences that mean nothing (`0.9` and `0.90`).
    #[must_use]
    pub fn normal(&self) -> &str {
        let is_decimal = self.value.contains('.')
            && self
                .value
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.');
        if is_decimal {
            self.value.trim_end_matches('0').trim_end_matches('.')
        } else {
            &self.value
        }
    }
}

/// The values of `spec`, in the order of the text; what the policy matches and its priority are none of them.
pub(crate) fn written(tree: &Tree) -> Vec<Written> {
    let mut found = Vec::new();
    if let View::Map(entries) = tree.view()
        && let Some((_, _, spec)) = entries.iter().find(|(key, ..)| *key == "spec")
        && let View::Map(entries) = spec.view()
    {
        for (key, at, value) in entries
            .iter()
            .filter(|(key, ..)| !["match", "priority"].contains(key))
        {
            let mut path = vec![Step::Key("spec".to_owned()), Step::Key(key.to_owned())];
            collect(value, at, &mut path, &mut found);
        }
    }
    found
}

fn collect(tree: &Tree, at: Option<Position>, path: &mut Vec<Step>, found: &mut Vec<Written>) {
    if let View::Map(entries) = tree.view()
        && !entries
            .iter()
            .any(|(key, ..)| key == "assume" || key == "matchLabels" || key == "matchExpressions")
    {
        for (key, at, value) in entries.iter() {
            path.push(Step::Key(key.to_owned()));
            collect(value, at, path, found);
            path.pop();
        }
        return;
    }
    let nested = matches!(tree.view(), View::Map(_) | View::List(_));
    let at = if nested { at.or(tree.at) } else { tree.at.or(at) };
    found.push(Written {
        field: path_text(path),
        value: compact(tree),
        at: at.map(|at| (at.line, at.column)),
    });
}

/// A value on one line.
fn compact(tree: &Tree) -> String {
    match tree.view() {
        View::Null => "null".to_owned(),
        View::Bool(value) => value.to_string(),
        View::Number(text) => text.to_owned(),
        View::Text(text) => quoted_if_needed(text),
        View::List(items) => {
            let items: Vec<String> = items.iter().map(compact).collect();
            format!("[{}]", items.join(", "))
        }
        View::Map(entries) => {
            let entries = entries.iter();
            let entries: Vec<String> = entries
                .map(|(key, _, value)| format!("{}: {}", quoted_if_needed(key), compact(value)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

fn quoted_if_needed(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./+<>=*@".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("{text:?}")
    }
}

static BUILT_IN: LazyLock<Vec<Written>> = LazyLock::new(|| {
    let looked: Result<Vec<file::Looked>, PolicyErrors> = file::look_built_in();
    match looked {
        Ok(looked) => looked.iter().flat_map(|one| written(&one.tree)).collect(),
        // The text is part of the program, and a test reads it.
        Err(errors) => unreachable!("{errors}"),
    }
});

/// The values of the built-in default, in the order of its text.
#[must_use]
pub fn built_in() -> &'static [Written] {
    &BUILT_IN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_its_field_and_place() {
        let text = "\
apiVersion: vramgate.io/v1alpha1
kind: GpuSharingPolicy
metadata: {name: a}
spec:
  priority: 3
  match: {}
  device:
    budget: 0.850
    tenants: [[a, b], [c]]
  unknown: {mps: {assume: \"0.30\"}}
  messages: {contact: \"#gpu platform\"}
";
        let looked = file::look(text, "a.yaml").unwrap();
        let found = written(&looked[0].tree);
        let expected = [
            ("spec.device.budget", "0.850", (8, 13)),
            ("spec.device.tenants", "[[a, b], [c]]", (9, 5)),
            ("spec.unknown.mps", "{assume: 0.30}", (10, 13)),
            ("spec.messages.contact", "\"#gpu platform\"", (11, 23)),
        ];
        let expected = expected.map(|(field, value, at)| Written {
            field: field.to_owned(),
            value: value.to_owned(),
            at: Some(at),
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn the_built_in_default_says_every_field() {
        let fields: Vec<&str> = built_in().iter().map(|one| one.field.as_str()).collect();
        for field in [
            "spec.mode",
            "spec.device.budget",
            "spec.unknown.mig",
            "spec.overheadMiB.vllm[\"<0.7\"]",
        ] {
            assert!(fields.contains(&field), "{fields:?}");
        }
    }

    #[test]
    fn decimals_are_compared_by_what_they_mean() {
        let of = |value: &str| Written {
            field: String::new(),
            value: value.to_owned(),
            at: None,
        };
        assert_eq!(of("0.90").normal(), of("0.9").normal());
        assert_eq!(of("100").normal(), "100");
        assert_eq!(of("any").normal(), "any");
    }
}
