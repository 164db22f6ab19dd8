//! What is wrong with a set of policies, and what in it can hardly be meant.
//!
//! An error is what loading the policies refuses (VG903). A warning is about policies that load and do less, or more, than
//! they seem to: one that never applies, two of which only the name decides, amounts in the wrong unit.

use serde::Serialize;

use crate::finding::Severity;
use crate::policy::file::{self, Document, Looked};
use crate::policy::{PolicyError, PolicySet};

/// What a remark is about: a stable word for tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// The file cannot be used as it is.
    Invalid,
    /// A field that does not do all that it says in this release.
    NoEffect,
}

impl Rule {
    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::NoEffect => "no-effect",
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

/// Everything about the policies of these files, taken as one set, in the order of the files.
#[must_use]
pub fn lint(sources: &[Source]) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let mut documents: Vec<Document> = Vec::new();
    for source in sources {
        match file::look(&source.text, &source.name) {
            Ok(looked) => {
                for Looked { read, .. } in looked {
                    match read {
                        Ok(document) => documents.push(document),
                        Err(errors) => remarks.extend(errors.0.into_iter().map(invalid)),
                    }
                }
            }
            Err(errors) => remarks.extend(errors.0.into_iter().map(invalid)),
        }
    }
    for document in &documents {
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
    if let Err(errors) = PolicySet::from_documents(documents) {
        remarks.extend(errors.0.into_iter().map(invalid));
    }
    sort(&mut remarks, sources);
    remarks
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
