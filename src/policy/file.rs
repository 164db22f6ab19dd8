//! Policy files: YAML text of one or more documents, read whole or refused whole, with every error in its place.

use std::sync::Arc;

use serde::Deserialize;

use super::check::{BUILT_IN_NAME, at, check};
use super::error::{Complaints, PolicyError, PolicyErrors};
use super::notice::{Notice, notices};
use super::resolve::{blank, resolve};
use super::spec::{GpuSharingPolicy, KIND};
use super::tree::{Limits, Position, Tree, Unreadable, load};
use super::{Policy, PolicySet};

/// Largest text of a policy file.
pub const MAX_BYTES: usize = 8 << 20;
/// Most documents in one file.
pub const MAX_DOCUMENTS: usize = 10_000;
/// Most errors that are reported of one document.
const MAX_ERRORS: usize = 50;

/// One policy of a file.
#[derive(Clone, Debug)]
pub struct Document {
    /// The policy, complete.
    pub policy: Policy,
    /// Name of the file or object that it comes from.
    pub source: Arc<str>,
    /// Line at which the document begins, from one; absent where it did not come as text.
    pub line: Option<u64>,
    /// What it says that has no effect in this release.
    pub notices: Vec<Notice>,
    /// Line and column of its name.
    pub(crate) name_at: Option<(u64, u64)>,
}

/// Reads every policy of a YAML text (JSON is YAML too). `source` names the text in errors and notices.
///
/// The text is refused as a whole where anything in it is wrong; all errors of all of its documents are reported at
/// once, except that a text which is no YAML gives only the first. An empty text holds no policy.
pub fn parse(text: &str, source: &str) -> Result<Vec<Document>, PolicyErrors> {
    let source: Arc<str> = Arc::from(source);
    let trees = trees(text, &source)?;
    let mut documents: Vec<Document> = Vec::with_capacity(trees.len());
    let mut errors = Vec::new();
    for mut tree in trees {
        tree.restore_numbers(text);
        match read(&tree, &source) {
            Ok(document) => documents.push(document),
            Err(PolicyErrors(more)) => errors.extend(more),
        }
    }
    let names = PolicySet::from_documents(documents.clone());
    if let Err(PolicyErrors(more)) = names {
        errors.extend(more);
    }
    if errors.is_empty() {
        Ok(documents)
    } else {
        Err(PolicyErrors(errors))
    }
}

/// A document of a policy file, and what reading it gave.
pub(crate) struct Looked {
    /// The text, with the place of each value.
    pub(crate) tree: Tree,
    /// The policy, or what is wrong with it.
    pub(crate) read: Result<Document, PolicyErrors>,
}

/// As [`parse`], for those who tell more of a file than whether it can be used: each document for itself. An error is about
/// the text as a whole.
pub(crate) fn look(text: &str, source: &str) -> Result<Vec<Looked>, PolicyErrors> {
    let source: Arc<str> = Arc::from(source);
    let look = |mut tree: Tree| {
        tree.restore_numbers(text);
        let read = read(&tree, &source);
        Looked { tree, read }
    };
    Ok(trees(text, &source)?.into_iter().map(look).collect())
}

/// The same of a policy that came as an API object, which has no places.
#[cfg(feature = "cli")]
pub(crate) fn look_at_value(value: &serde_json::Value, source: &str) -> Looked {
    let tree = Tree::from_json(value);
    let read = read(&tree, &Arc::from(source));
    Looked { tree, read }
}

/// The same of the built-in default.
pub(super) fn look_built_in() -> Result<Vec<Looked>, PolicyErrors> {
    look(include_str!("built-in-default.yaml"), BUILT_IN_NAME)
}

/// Reads one policy that came as an API object or as one item of a list.
pub fn from_value(value: &serde_json::Value, source: &str) -> Result<Document, PolicyErrors> {
    read(&Tree::from_json(value), &Arc::from(source))
}

fn trees(text: &str, source: &Arc<str>) -> Result<Vec<Tree>, PolicyErrors> {
    let whole = |message: String, at: Option<Position>| {
        PolicyErrors(vec![PolicyError {
            source: Arc::clone(source),
            line: at.map(|at| at.line),
            column: at.map(|at| at.column),
            field: String::new(),
            message,
        }])
    };
    if text.len() > MAX_BYTES {
        return Err(whole(
            format!(
                "is {} bytes long; a policy file has at most {MAX_BYTES}",
                text.len()
            ),
            None,
        ));
    }
    let limits = Limits {
        documents: MAX_DOCUMENTS,
        nodes: 4_000_000,
        depth: None,
        repeated: None,
    };
    load(text, &limits)
        .map_err(|Unreadable { message, at, .. }| whole(format!("is no readable YAML: {message}"), at))
}

fn read(tree: &Tree, source: &Arc<str>) -> Result<Document, PolicyErrors> {
    let base = PolicySet::built_in();
    let base = base
        .iter()
        .last()
        .map_or_else(blank, |built_in| (**built_in).clone());
    read_over(tree, source, &base, false)
}

fn read_over(
    tree: &Tree,
    source: &Arc<str>,
    base: &Policy,
    is_built_in: bool,
) -> Result<Document, PolicyErrors> {
    let mut complaints = Complaints::new(source, tree);
    if let Some(kind) = tree.text_of("kind")
        && kind != KIND
    {
        complaints.add(
            &at("kind"),
            format!("{kind:?} is not {KIND}: a policy file holds nothing else"),
        );
        return Err(PolicyErrors(complaints.into_errors()));
    }
    let mut rest = tree.clone();
    let mut document = None;
    for _ in 0..MAX_ERRORS {
        match GpuSharingPolicy::deserialize(&rest) {
            Ok(read) => {
                document = Some(read);
                break;
            }
            Err(error) => {
                complaints.add_fault(&error);
                if !rest.remove(&error.path()) {
                    break;
                }
            }
        }
    }
    let Some(document) = document else {
        return Err(PolicyErrors(complaints.into_errors()));
    };
    check(&document, is_built_in, &mut complaints);
    let errors = complaints.into_errors();
    if !errors.is_empty() {
        return Err(PolicyErrors(errors));
    }
    let name_at = tree.find(&at("metadata.name")).map(|at| (at.line, at.column));
    let notices = notices(&document, source, tree);
    Ok(Document {
        policy: resolve(document, base),
        source: Arc::clone(source),
        line: tree.at.map(|at| at.line),
        notices,
        name_at,
    })
}

/// The built-in default, from the text that is compiled in.
pub(super) fn built_in() -> Policy {
    let source: Arc<str> = Arc::from(BUILT_IN_NAME);
    let text = include_str!("built-in-default.yaml");
    let read = trees(text, &source).and_then(|mut trees| {
        let mut tree = trees.swap_remove(0);
        tree.restore_numbers(text);
        read_over(&tree, &source, &blank(), true)
    });
    match read {
        Ok(document) => document.policy,
        // The text is part of the program, and a test reads it.
        Err(errors) => unreachable!("{errors}"),
    }
}

#[cfg(test)]
mod tests;
