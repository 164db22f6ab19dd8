//! A document as a cursor over its values, which knows path and line of each.

use crate::finding::shortened;
use crate::policy::hint;
use crate::policy::tree::{Limits, Step, Tree, Unreadable, View, load, path_text};

/// Largest document; the API server keeps no larger ConfigMap.
pub const MAX_BYTES: usize = 1 << 20;
/// Values of one document, those that aliases repeat included. The largest that are shipped have some 1,500.
const MAX_NODES: usize = 20_000;
/// Events that aliases may add.
const MAX_REPEATED: usize = 10_000;
/// Levels of nesting.
const MAX_DEPTH: usize = 32;
/// Faults that are told of one document; the first ones are.
const MAX_FAULTS: usize = 20;
/// Longest excerpt of a value in a message, in characters.
const EXCERPT: usize = 40;

/// Something wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Line of the document, from one, where it is known.
    pub line: Option<u64>,
    /// The field (`sharing.timeSlicing.resources[0].replicas`); empty where the document as a whole is meant.
    pub field: String,
    /// What is wrong and what to write instead, without the field's name in front.
    pub message: String,
    /// Whether its program refuses the document for it. Otherwise a part has no effect.
    pub refused: bool,
}

/// The faults of a document, as they are found.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Fault>);

impl Faults {
    /// The program refuses the document for what stands at `at`.
    pub(super) fn refuse(&mut self, at: &At<'_>, message: impl Into<String>) {
        self.push(at.line, &at.path, message.into(), true);
    }

    /// What stands at `at` has no effect.
    pub(super) fn ignore(&mut self, at: &At<'_>, message: impl Into<String>) {
        self.push(at.line, &at.path, message.into(), false);
    }

    fn push(&mut self, line: Option<u64>, path: &[Step], message: String, refused: bool) {
        if self.0.len() < MAX_FAULTS {
            self.0.push(Fault {
                line,
                field: path_text(path),
                message,
                refused,
            });
        }
    }

    /// Whether its program refuses the document.
    pub(super) fn refused(&self) -> bool {
        self.0.iter().any(|fault| fault.refused)
    }

    pub(super) fn into_vec(self) -> Vec<Fault> {
        self.0
    }
}

/// A value, with the way to it.
#[derive(Clone, Debug)]
pub(super) struct At<'t> {
    tree: &'t Tree,
    path: Vec<Step>,
    line: Option<u64>,
}

/// Reads a text; `Ok(None)` where it is empty.
pub(super) fn read(text: &str) -> Result<Option<Tree>, Fault> {
    let whole = |line, message: String| Fault {
        line,
        field: String::new(),
        message,
        refused: true,
    };
    if text.len() > MAX_BYTES {
        return Err(whole(
            None,
            format!("is {} bytes long; at most {MAX_BYTES} are read", text.len()),
        ));
    }
    let limits = Limits {
        documents: 2,
        nodes: MAX_NODES,
        depth: Some(MAX_DEPTH),
        repeated: Some(MAX_REPEATED),
    };
    let mut trees = load(text, &limits).map_err(|error| {
        let Unreadable {
            message,
            at,
            too_large,
        } = error;
        let line = at.map(|at| at.line);
        if too_large {
            // Its program may well read it; we do not.
            return Fault {
                refused: false,
                ..whole(
                    line,
                    format!("holds more than {MAX_NODES} values, and is not judged: split it"),
                )
            };
        }
        whole(line, format!("is no readable YAML: {}", shortened(&message, 120)))
    })?;
    match trees.len() {
        0 => Ok(None),
        1 => Ok(trees.pop()),
        _ => Err(whole(
            None,
            "holds several documents: only one can be meant".to_owned(),
        )),
    }
}

impl<'t> At<'t> {
    pub(super) fn root(tree: &'t Tree) -> Self {
        Self {
            tree,
            path: Vec::new(),
            line: tree.at.map(|at| at.line),
        }
    }

    /// The field's name, from the root.
    pub(super) fn field(&self) -> String {
        path_text(&self.path)
    }

    pub(super) const fn line(&self) -> Option<u64> {
        self.line
    }

    pub(super) fn view(&self) -> View<'t> {
        self.tree.view()
    }

    pub(super) fn is_null(&self) -> bool {
        self.view() == View::Null
    }

    /// The entries of a map, in the order of the text; none where it is no map.
    pub(super) fn entries(&self) -> Vec<(&'t str, Self)> {
        let View::Map(entries) = self.view() else {
            return Vec::new();
        };
        entries
            .iter()
            .map(|(key, at, value)| {
                let nested = matches!(value.view(), View::Map(_) | View::List(_));
                let at = if nested { at.or(value.at) } else { value.at.or(at) };
                let below = self.below(Step::Key(key.to_owned()), value, at.map(|at| at.line));
                (key, below)
            })
            .collect()
    }

    /// The items of a list; none where it is no list.
    pub(super) fn items(&self) -> Vec<Self> {
        let View::List(items) = self.view() else {
            return Vec::new();
        };
        items
            .iter()
            .enumerate()
            .map(|(index, item)| self.below(Step::Item(index), item, item.at.map(|at| at.line)))
            .collect()
    }

    fn below(&self, step: Step, tree: &'t Tree, line: Option<u64>) -> Self {
        let mut path = self.path.clone();
        path.push(step);
        Self {
            tree,
            path,
            line: line.or(self.line),
        }
    }

    /// The value as it is shown in a message.
    pub(super) fn shown(&self) -> String {
        match self.view() {
            View::Null => "null".to_owned(),
            View::Bool(value) => value.to_string(),
            View::Number(text) => shortened(text, EXCERPT),
            View::Text(text) => format!("{:?}", shortened(text, EXCERPT)),
            View::List(_) => "a list".to_owned(),
            View::Map(_) => "a map".to_owned(),
        }
    }

    /// A whole number.
    pub(super) fn whole(&self) -> Option<i64> {
        match self.view() {
            View::Number(text) => text.parse().ok(),
            _ => None,
        }
    }
}

/// The fields of a map by name, each at most once. What is no field is told of: its program reads over it.
pub(super) struct Fields<'t> {
    entries: Vec<(&'t str, At<'t>)>,
    /// Whether upper and lower case are alike, as they are to Go's decoder of structures.
    any_case: bool,
}

impl<'t> Fields<'t> {
    /// Of a map that a Go structure decodes.
    pub(super) fn of_structure(at: &At<'t>) -> Self {
        Self {
            entries: at.entries(),
            any_case: true,
        }
    }

    /// Of a map whose keys are looked up by name.
    pub(super) fn of_map(at: &At<'t>) -> Self {
        Self {
            entries: at.entries(),
            any_case: false,
        }
    }

    fn is(&self, key: &str, name: &str) -> bool {
        key == name || (self.any_case && key.eq_ignore_ascii_case(name))
    }

    /// The value of a field that is there and not null.
    pub(super) fn get(&self, name: &str) -> Option<At<'t>> {
        self.entries
            .iter()
            .find(|(key, value)| self.is(key, name) && !value.is_null())
            .map(|(_, value)| value.clone())
    }

    /// Whether a field is there, null or not.
    pub(super) fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|(key, _)| self.is(key, name))
    }

    /// Every entry that is none of `known`.
    pub(super) fn others<'f>(&'f self, known: &'f [&str]) -> impl Iterator<Item = (&'t str, At<'t>)> + 'f {
        self.entries
            .iter()
            .filter(move |(key, _)| !known.iter().any(|name| self.is(key, name)))
            .cloned()
    }

    /// Tells of every entry that is none of `known`, and therefore without effect.
    pub(super) fn note_others(&self, known: &[&str], faults: &mut Faults) {
        for (key, value) in self.others(known) {
            faults.ignore(
                &value,
                format!(
                    "is no field that the plugin reads, so it has no effect{}",
                    hint(key, known)
                ),
            );
        }
    }
}
