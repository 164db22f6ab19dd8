//! What is wrong with a set of policies, and what in it can hardly be meant.
//!
//! An error is what loading the policies refuses (VG903). A warning is about policies that load and do less, or more, than
//! they seem to: one that never applies, two of which only the name decides, amounts in the wrong unit.

use serde::Serialize;

use crate::finding::Severity;
use crate::policy::file::{self, Document, Looked};
use crate::policy::tree::{Step, Tree, path_text};
use crate::policy::written::{self, Written};
use crate::policy::{Policy, PolicyError, PolicySet};
use crate::snapshot::Snapshot;

mod cluster;
mod fields;
mod reach;
mod set;

use reach::Reach;

/// What a remark is about: a stable word for tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// The file cannot be used as it is.
    Invalid,
    /// A field that does not do all that it says.
    NoEffect,
    /// Another policy always comes first.
    Unreachable,
    /// Another policy of the same priority can match the same pod.
    Overlap,
    /// A policy that says little and takes away what lower ones say.
    Resets,
    /// A selector that nothing can satisfy.
    NeverMatches,
    /// Nothing of the cluster matches.
    MatchesNothing,
    /// An amount that looks like one in another unit.
    Unit,
    /// Two fields that belie each other.
    Contradiction,
    /// A field that says what holds without it.
    SameAsDefault,
}

impl Rule {
    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::NoEffect => "no-effect",
            Self::Unreachable => "unreachable",
            Self::Overlap => "overlap",
            Self::Resets => "resets",
            Self::NeverMatches => "never-matches",
            Self::MatchesNothing => "matches-nothing",
            Self::Unit => "unit",
            Self::Contradiction => "contradiction",
            Self::SameAsDefault => "same-as-default",
        }
    }
}

/// One thing about a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Remark {
    /// Name of the file.
    #[serde(rename = "file")]
    pub source: String,
    /// Line, from one.
    pub line: Option<u64>,
    /// Column, from one.
    pub column: Option<u64>,
    /// Whether the policies load.
    pub severity: Severity,
    /// What it is about.
    pub rule: Rule,
    /// Name of the policy, where it has one.
    pub policy: Option<String>,
    /// The field; empty where the file as a whole is meant.
    pub field: String,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// A policy file.
#[derive(Clone, Debug)]
pub struct Source {
    /// As remarks name it.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Everything about the policies of these files, taken as one set, in the order of the files. With a cluster also what of
/// them matches nothing there.
#[must_use]
pub fn lint(sources: &[Source], cluster: Option<&Snapshot>) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let mut read: Vec<(Tree, Document)> = Vec::new();
    for source in sources {
        match file::look(&source.text, &source.name) {
            Ok(looked) => {
                for Looked { tree, read: result } in looked {
                    match result {
                        Ok(document) => read.push((tree, document)),
                        Err(errors) => remarks.extend(errors.0.into_iter().map(invalid)),
                    }
                }
            }
            Err(errors) => remarks.extend(errors.0.into_iter().map(invalid)),
        }
    }
    for (_, document) in &read {
        remarks.extend(document.notices.iter().map(|notice| Remark {
            source: notice.source.to_string(),
            line: notice.line,
            column: None,
            severity: Severity::Warning,
            rule: Rule::NoEffect,
            policy: Some(document.policy.name.clone()),
            field: notice.field.clone(),
            message: notice.message.clone(),
        }));
    }
    let documents = read.iter().map(|(_, document)| document.clone()).collect();
    if let Err(errors) = PolicySet::from_documents(documents) {
        remarks.extend(errors.0.into_iter().map(invalid));
    }
    let mut policies: Vec<Looking<'_>> = read
        .iter()
        .map(|(tree, document)| Looking::at(tree, document))
        .collect();
    policies.sort_by(|a, b| {
        let (a, b) = (a.policy(), b.policy());
        b.priority.cmp(&a.priority).then_with(|| a.name.cmp(&b.name))
    });
    set::remarks(&policies, &mut remarks);
    for policy in &policies {
        fields::remarks(policy, &mut remarks);
    }
    if let Some(snapshot) = cluster {
        cluster::remarks(&policies, snapshot, &mut remarks);
    }
    sort(&mut remarks, sources);
    remarks
}

/// A policy that loads, with all that remarks on it need.
struct Looking<'a> {
    tree: &'a Tree,
    document: &'a Document,
    reach: Reach,
    written: Vec<Written>,
}

impl<'a> Looking<'a> {
    fn at(tree: &'a Tree, document: &'a Document) -> Self {
        Self {
            tree,
            document,
            reach: Reach::of(&document.policy.matches),
            written: written::written(tree),
        }
    }

    fn policy(&self) -> &'a Policy {
        &self.document.policy
    }

    /// `NAME (FILE:LINE)`.
    fn place(&self) -> String {
        let line = self.document.name_at.map(|(line, _)| format!(":{line}"));
        format!(
            "{} ({}{})",
            self.policy().name,
            self.document.source,
            line.unwrap_or_default()
        )
    }

    /// A remark on the value at a path.
    fn remark(&self, path: &[Step], severity: Severity, rule: Rule, message: String) -> Remark {
        let at = self.tree.find(path);
        Remark {
            source: self.document.source.to_string(),
            line: at.map(|at| at.line),
            column: at.map(|at| at.column),
            severity,
            rule,
            policy: Some(self.policy().name.clone()),
            field: path_text(path),
            message,
        }
    }

    /// A warning on the policy as a whole, where its name stands.
    fn at_name(&self, rule: Rule, message: String) -> Remark {
        let path = ["metadata", "name"].map(|key| Step::Key(key.to_owned()));
        self.remark(&path, Severity::Warning, rule, message)
    }

    /// A remark on one of its values.
    fn about(&self, one: &Written, severity: Severity, rule: Rule, message: String) -> Remark {
        Remark {
            source: self.document.source.to_string(),
            line: one.at.map(|(line, _)| line),
            column: one.at.map(|(_, column)| column),
            severity,
            rule,
            policy: Some(self.policy().name.clone()),
            field: one.field.clone(),
            message,
        }
    }
}

/// In the order of the files, and of the text within one.
fn sort(remarks: &mut [Remark], sources: &[Source]) {
    let place = |remark: &Remark| {
        sources
            .iter()
            .position(|source| source.name == remark.source)
            .unwrap_or(sources.len())
    };
    remarks.sort_by_cached_key(|remark| (place(remark), remark.line, remark.column, remark.rule));
}

fn invalid(error: PolicyError) -> Remark {
    Remark {
        source: error.source.to_string(),
        line: error.line,
        column: error.column,
        severity: Severity::Error,
        rule: Rule::Invalid,
        policy: None,
        field: error.field,
        message: error.message,
    }
}
