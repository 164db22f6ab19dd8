//! A finding: one reason, with a stable code, that stands in a verdict.
//!
//! Findings are data. Their text for people is made where they are found (the first line is a promise to tools), and
//! put together for each audience in [`crate::message`].

use std::collections::BTreeMap;
use std::fmt;

use json_patch::PatchOperation;
use serde::{Serialize, Serializer};

use crate::units::{Mib, Share};

mod code;

pub use code::Code;

/// Longest name that a sentence carries whole, in characters.
const LONGEST_NAME: usize = 48;

/// A name for a sentence: whole, or its beginning.
pub(crate) fn short(name: &str) -> String {
    shortened(name, LONGEST_NAME)
}

/// A text: whole, or its first `most` characters and `…`.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(most).collect();
    cut.push('…');
    cut
}

/// How much a finding weighs. Ordered: the larger the worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; never changes the verdict.
    Info,
    /// Told to the caller; never changes the verdict.
    Warning,
    /// Denies, where the policy enforces.
    Error,
}

impl Severity {
    /// The word that stands in JSON and in text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Where in an object a finding lies, as the API server writes it: `spec.containers[0].args[2]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct FieldPath(String);

impl FieldPath {
    /// A path from its text.
    #[must_use]
    pub fn new(path: impl Into<String>) -> Self {
        Self(path.into())
    }

    /// The path of a field below this one.
    #[must_use]
    pub fn field(&self, name: &str) -> Self {
        match (self.0.is_empty(), name.is_empty()) {
            (true, _) => Self(name.to_owned()),
            (_, true) => self.clone(),
            (false, false) => Self(format!("{}.{name}", self.0)),
        }
    }

    /// The path of an item of the list at this path.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// The path of an entry of the map at this path.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same place as a JSON pointer (RFC 6901).
    #[must_use]
    pub fn to_pointer(&self) -> String {
        let mut pointer = String::with_capacity(self.0.len() + 1);
        let mut step = |name: &str| {
            if !name.is_empty() {
                pointer.push('/');
                pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
            }
        };
        let mut rest = self.0.as_str();
        while !rest.is_empty() {
            if let Some((key, behind)) = rest.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
                step(key);
                rest = behind;
            } else {
                let mut ends = rest
                    .char_indices()
                    .skip(1)
                    .filter(|(_, c)| matches!(c, '.' | '['));
                let end = ends.next().map_or(rest.len(), |(at, _)| at);
                let (name, behind) = rest.split_at(end);
                step(name.trim_start_matches('.'));
                rest = behind;
            }
        }
        pointer
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A number that a finding names, for machines; the text names it as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Number {
    /// A count of things.
    Count(u64),
    /// Device memory.
    Memory(Mib),
    /// A sum of fractions of a device.
    Share(Share),
    /// Anything else, exactly as written.
    Text(String),
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(count) => serializer.serialize_u64(*count),
            Self::Memory(mib) => serializer.serialize_u64(mib.get()),
            Self::Share(share) => share.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

/// Somebody who holds memory of a device that a finding is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HolderRef {
    /// Namespace of the pod; absent where the policy hides other namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the pod; absent where the policy hides other namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Name of the container; absent where the policy hides other namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// What it asked for, without overhead; absent where that is a part of a device whose size is not known.
    #[serde(rename = "requestMiB", skip_serializing_if = "Option::is_none")]
    pub request: Option<Mib>,
    /// The part of the device that it holds.
    pub share: Share,
}

/// A change that makes the object pass, checked by running the same decision on the changed object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fix {
    /// One phrase for people.
    pub title: String,
    /// RFC 6902 operations on the object as it was submitted. Empty where the change lies outside the object
    /// (another node, a policy).
    pub patch: Vec<PatchOperation>,
}

/// One reason that stands in a verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The stable code.
    pub code: Code,
    /// What it weighs under the policy in force.
    pub severity: Severity,
    /// The field that it is about.
    pub path: FieldPath,
    /// One sentence that is complete by itself, below 256 characters.
    pub message: String,
    /// Further sentences: arithmetic, what would raise the evidence, why there is no fix.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
    /// The numbers of the message, by name (`requestMiB`, `promisedMiB`, `budgetMiB` …).
    pub numbers: BTreeMap<&'static str, Number>,
    /// Who holds the memory.
    pub holders: Vec<HolderRef>,
    /// Changes that were checked to pass.
    pub fixes: Vec<Fix>,
}

impl Finding {
    /// A finding with its code's usual severity; [`Finding::with_severity`] and the policy may change it.
    #[must_use]
    pub fn new(code: Code, path: FieldPath, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: code.default_severity(),
            path,
            message: message.into(),
            details: Vec::new(),
            numbers: BTreeMap::new(),
            holders: Vec::new(),
            fixes: Vec::new(),
        }
    }

    /// The same with another severity.
    #[must_use]
    pub fn with_severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// The same with one more sentence.
    #[must_use]
    pub fn detail(mut self, sentence: impl Into<String>) -> Self {
        self.details.push(sentence.into());
        self
    }

    /// The same with a named number.
    #[must_use]
    pub fn number(mut self, name: &'static str, number: Number) -> Self {
        self.numbers.insert(name, number);
        self
    }

    /// The same with one more fix.
    #[must_use]
    pub fn fix(mut self, fix: Fix) -> Self {
        self.fixes.push(fix);
        self
    }
}
