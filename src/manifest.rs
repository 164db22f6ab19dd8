//! From the text of a file to the API objects in it, as kubectl would read them.
//!
//! YAML with several documents, JSON, and lists of any nesting (`kubectl get … -o yaml`) all come out as single
//! objects, each with its source and line. Objects are handed on one by one, so that a file with 100,000 pods is never
//! held twice: the caller keeps of each what it needs.
//!
//! Limits are ours and not a parser's defaults; what is above one is an error that names it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

mod json;
mod place;
mod value;
mod walk;
mod yaml;

pub use place::{Place, Texts};
pub use walk::Limits;

/// Levels of nesting that a YAML document may have (JSON: 127). API objects have about 20, custom resource definitions 40.
pub const MAX_DEPTH: usize = 64;

/// Where an object stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file as the user named it; `-` for standard input.
    pub source: Arc<str>,
    /// Line on which the document begins, from 1.
    pub line: usize,
    /// Place within a list (`items[3]`); empty for an object that is a document of its own.
    pub item: String,
    /// The bytes of the document in the text, not counting a byte order mark in front of it.
    pub bytes: Range<usize>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.source, self.line)?;
        if self.item.is_empty() {
            Ok(())
        } else {
            write!(f, " ({})", self.item)
        }
    }
}

/// One API object: it has an `apiVersion` and a `kind`.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Where it stands.
    pub origin: Origin,
    /// The object.
    pub value: Value,
}

impl Object {
    /// Its `apiVersion`.
    #[must_use]
    pub fn api_version(&self) -> &str {
        self.text("apiVersion")
    }

    /// Its `kind`.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.text("kind")
    }

    /// Its `metadata.name`; empty where it has none.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata("name")
    }

    /// Its `metadata.namespace`; empty where it has none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.metadata("namespace")
    }

    fn text(&self, field: &str) -> &str {
        self.value.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    fn metadata(&self, field: &str) -> &str {
        self.value
            .get("metadata")
            .and_then(|metadata| metadata.get(field))
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// An error about this object.
    #[must_use]
    pub fn error(&self, message: impl Into<String>) -> ManifestError {
        ManifestError::at(&self.origin, message)
    }
}

/// Text that cannot be read as API objects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct ManifestError {
    place: String,
    message: String,
}

impl ManifestError {
    /// An error about a whole source.
    #[must_use]
    pub fn in_source(source: &str, message: impl Into<String>) -> Self {
        Self {
            place: source.to_owned(),
            message: message.into(),
        }
    }

    /// An error about the object at a place.
    #[must_use]
    pub fn at(origin: &Origin, message: impl Into<String>) -> Self {
        Self {
            place: origin.to_string(),
            message: message.into(),
        }
    }

    fn on_line(source: &str, line: usize, column: usize, message: impl Into<String>) -> Self {
        let place = if column == 0 {
            format!("{source}:{line}")
        } else {
            format!("{source}:{line}:{column}")
        };
        Self {
            place,
            message: message.into(),
        }
    }
}

/// Hands every object of a text to `sink`, in order. An error of the sink ends the reading.
///
/// Text that begins with a brace is JSON (or a YAML flow mapping, which looks the same); anything else is YAML.
pub fn read(
    text: &[u8],
    source: &str,
    limits: Limits,
    sink: &mut dyn FnMut(Object) -> Result<(), ManifestError>,
) -> Result<(), ManifestError> {
    let text = decode(text, source)?;
    read_text(text, &mut walk::Walk::new(source, limits, sink))
}

/// As [`read`], but an object that cannot be read, or that the sink refuses, is passed over and the next one read. All
/// errors come back, in order. A YAML document with a syntax error takes only itself along; JSON ends at one.
pub fn read_all(
    text: &[u8],
    source: &str,
    limits: Limits,
    sink: &mut dyn FnMut(Object) -> Result<(), ManifestError>,
) -> Vec<ManifestError> {
    let text = match decode(text, source) {
        Ok(text) => text,
        Err(error) => return vec![error],
    };
    let mut walk = walk::Walk::new(source, limits, sink);
    walk.pass_over();
    let ended = read_text(text, &mut walk);
    walk.into_errors(ended)
}

fn read_text(text: &str, walk: &mut walk::Walk<'_>) -> Result<(), ManifestError> {
    // JSON has no line of that kind, not even within a string; the document after it can be anything.
    if !text.trim_start().starts_with('{') || yaml::has_marker(text) {
        return yaml::read(text, walk);
    }
    match json::read(text, walk) {
        // `{apiVersion: v1, …}` is YAML. Only an error before the first object leaves that open.
        Err(error) if walk.is_untouched() => walk.strictly(|walk| yaml::read(text, walk)).map_err(|_| error),
        other => other,
    }
}

/// Every object of a text, for inputs that are small enough to be held.
pub fn objects(text: &[u8], source: &str, limits: Limits) -> Result<Vec<Object>, ManifestError> {
    let mut objects = Vec::new();
    read(text, source, limits, &mut |object| {
        objects.push(object);
        Ok(())
    })?;
    Ok(objects)
}

fn decode<'t>(bytes: &'t [u8], source: &str) -> Result<&'t str, ManifestError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = line_of(bytes, error.valid_up_to());
        ManifestError::on_line(
            source,
            line,
            0,
            "the text is not UTF-8; save the file as UTF-8 and try again",
        )
    })?;
    match bytes.iter().position(|byte| *byte == 0) {
        None => Ok(text),
        Some(at) => Err(ManifestError::on_line(
            source,
            line_of(bytes, at),
            0,
            "the text holds a NUL byte, so it is no YAML or JSON; is this a binary file?",
        )),
    }
}

/// The line, from 1, that a byte offset lies on.
fn line_of(text: &[u8], offset: usize) -> usize {
    1 + text.iter().take(offset).filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests;
