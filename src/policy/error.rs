//! What is wrong with a policy, said so that it can be found and put right.

use std::fmt;
use std::sync::Arc;

use super::tree::{Fault, Path, Position, Step, Tree, TreeError, path_text};

/// One thing that is wrong with a policy file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// Name of the file or object.
    pub source: Arc<str>,
    /// Line, from one; absent where the policy did not come as text.
    pub line: Option<u64>,
    /// Column, from one.
    pub column: Option<u64>,
    /// The field (`spec.device.budget`); empty where the text as a whole is meant.
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
            if let Some(column) = self.column {
                write!(f, ":{column}")?;
            }
        }
        f.write_str(": ")?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for PolicyError {}

/// Everything that is wrong with one or more files, in the order of the text. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyErrors(pub Vec<PolicyError>);

impl fmt::Display for PolicyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicyErrors {}

/// Collects the errors of one document.
pub(crate) struct Complaints<'a> {
    source: &'a Arc<str>,
    tree: &'a Tree,
    /// Where reading stumbled; what stood there is missing from the document that is checked afterwards.
    faults: Vec<Vec<Step>>,
    errors: Vec<PolicyError>,
}

impl<'a> Complaints<'a> {
    pub(crate) fn new(source: &'a Arc<str>, tree: &'a Tree) -> Self {
        Self {
            source,
            tree,
            faults: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Something is wrong at `path`.
    pub(crate) fn add(&mut self, path: &Path, message: impl Into<String>) {
        let path = self.as_far_as_sure(path);
        self.push(self.tree.find(path), path, message.into());
    }

    /// Something is missing at `path`; nothing new where a fault has taken it out.
    pub(crate) fn add_missing(&mut self, path: &Path, message: impl Into<String>) {
        if !self
            .faults
            .iter()
            .any(|fault| fault.starts_with(path) || path.starts_with(fault))
        {
            self.add(path, message);
        }
    }

    /// An item that was taken out of a list moves the index of those behind it: then the list itself is named.
    fn as_far_as_sure<'p>(&self, path: &'p Path) -> &'p Path {
        let moved = self
            .faults
            .iter()
            .filter(|fault| matches!(fault.last(), Some(Step::Item(_))));
        let unsure = moved.map(|fault| &fault[..fault.len() - 1]);
        let shortest = unsure
            .filter(|list| path.len() > list.len() && path.starts_with(list))
            .map(<[Step]>::len)
            .min();
        &path[..shortest.unwrap_or(path.len())]
    }

    /// What reading the tree stumbled over.
    pub(crate) fn add_fault(&mut self, error: &TreeError) {
        let path = error.path();
        if self
            .faults
            .iter()
            .any(|fault| fault.len() > path.len() && fault.starts_with(&path))
        {
            // A word whose value was taken out is no longer what it was; that has been told.
            return;
        }
        match &error.fault {
            Fault::Other(message) => self.push(self.tree.find(&path), &path, message.clone()),
            Fault::UnknownWord(word, known) => {
                let hint = hint(word, known);
                let message = if word.is_empty() {
                    "is empty".to_owned()
                } else {
                    format!("{word:?} is not known")
                };
                self.push(self.tree.find(&path), &path, format!("{message}{hint}"));
            }
            Fault::UnknownField(known) => {
                let Some((Step::Key(field), above)) = path.split_last() else {
                    return;
                };
                let at = self.tree.find_key(&path).or_else(|| self.tree.find(&path));
                let hint = match home(field).filter(|home| *home != path_text(&path)) {
                    Some(home) if nearest(field, known).is_none() => format!("; it belongs to {home}"),
                    _ => hint(field, known),
                };
                let place = if above.is_empty() {
                    "of the document".to_owned()
                } else {
                    format!("of {}", path_text(above))
                };
                self.push(at, &path, format!("is no field {place}{hint}"));
            }
        }
        self.faults.push(path);
    }

    fn push(&mut self, at: Option<Position>, path: &Path, message: String) {
        self.errors.push(PolicyError {
            source: Arc::clone(self.source),
            line: at.map(|at| at.line),
            column: at.map(|at| at.column),
            field: path_text(path),
            message,
        });
    }

    /// The errors in the order of the text.
    pub(crate) fn into_errors(mut self) -> Vec<PolicyError> {
        self.errors.sort_by_key(|error| (error.line, error.column));
        self.errors
    }
}

/// Fields that are often written one level too high or too low, and where they belong.
fn home(field: &str) -> Option<&'static str> {
    const HOMES: [(&str, &str); 25] = [
        ("atLeastMiB", "spec.device.reserve"),
        ("budget", "spec.device"),
        ("configMaps", "spec.sources"),
        ("contact", "spec.messages"),
        ("evidence", "spec.device"),
        ("expression", "spec.match"),
        ("gpuMemoryUtilization", "spec.defaults"),
        ("growth", "spec.placement"),
        ("memoryLimit", "spec.mps"),
        ("migMiB", "spec.device.reserve"),
        ("migConfig", "spec.device"),
        ("missingFacts", "spec.placement"),
        ("mode", "spec"),
        ("namespaces", "spec.match"),
        ("nodes", "spec.match"),
        ("perSlot", "spec.device"),
        ("pods", "spec.match"),
        ("priority", "spec"),
        ("pluginConfig", "spec.device"),
        ("products", "spec.device"),
        ("profiles", "spec.mig"),
        ("reserve", "spec.device"),
        ("tenants", "spec.device"),
        ("timeSliced", "spec.unknown"),
        ("visibleDevices", "spec.access"),
    ];
    HOMES
        .iter()
        .find(|(name, _)| *name == field)
        .map(|(_, home)| *home)
}

/// `; did you mean X?`, or the words that are known, or where to find them.
pub(crate) fn hint(word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(near) => format!("; did you mean {near}?"),
        None => format!("; known are {}", known.join(", ")),
    }
}

/// The known word that is most like this one, if one is like it at all: a third of its letters may differ.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let allowed = (word.chars().count() / 3).max(1);
    known
        .iter()
        .map(|candidate| {
            (
                distance(&word.to_lowercase(), &candidate.to_lowercase()),
                *candidate,
            )
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many letters have to be added, left out, replaced or swapped with their neighbour.
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().take(64).collect();
    let to: Vec<char> = to.chars().take(64).collect();
    let mut two_rows_up: Vec<usize> = Vec::new();
    let mut row_above: Vec<usize> = (0..=to.len()).collect();
    for (row, letter) in from.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, other) in to.iter().enumerate() {
            let replaced = row_above[column] + usize::from(letter != other);
            let mut fewest = replaced.min(row_above[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && *letter == to[column - 1] && from[row - 1] == *other {
                fewest = fewest.min(two_rows_up[column - 1] + 1);
            }
            current.push(fewest);
        }
        two_rows_up = std::mem::replace(&mut row_above, current);
    }
    row_above[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_proposed_only_where_it_is_near() {
        let known = ["budget", "reserve", "perSlot", "evidence", "tenants"];
        for (word, near) in [
            ("bugdet", Some("budget")),
            ("Budget", Some("budget")),
            ("perslots", Some("perSlot")),
            ("reserved", Some("reserve")),
            ("limit", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, &known), near, "{word}");
        }
        assert_eq!(distance("abc", "acb"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
    }
}
