//! JSON: one object, or several one after the other.

use serde_json::value::RawValue;

use super::walk::Walk;
use super::{ManifestError, line_of};

/// Hands the objects of a JSON text to the walk.
pub(super) fn read(text: &str, walk: &mut Walk<'_>) -> Result<(), ManifestError> {
    // A first, cheap pass finds where each document begins; the second builds its objects.
    let mut documents = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let mut counted_to = 0;
    let mut line = 1;
    loop {
        let offset = documents.byte_offset();
        let Some(document) = documents.next() else {
            return Ok(());
        };
        let gap = text.get(offset..).unwrap_or_default();
        let begin = offset + (gap.len() - gap.trim_start().len());
        line += line_of(
            text.get(counted_to..begin).unwrap_or_default().as_bytes(),
            usize::MAX,
        ) - 1;
        counted_to = begin;
        walk.line = line;
        match document {
            Ok(raw) => {
                walk.bytes = begin..begin + raw.get().len();
                parse(raw.get(), walk)?;
            }
            Err(error) => return Err(syntax(walk, 0, &error)),
        }
    }
}

fn parse(text: &str, walk: &mut Walk<'_>) -> Result<(), ManifestError> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let result = walk.document(&mut deserializer);
    result.map_err(|error| {
        walk.take_error()
            .unwrap_or_else(|| syntax(walk, walk.line - 1, &error))
    })
}

fn syntax(walk: &Walk<'_>, lines_before: usize, error: &serde_json::Error) -> ManifestError {
    let text = error.to_string();
    // The parser repeats the position behind its text; ours stands in front of it and counts from the file's start.
    let message = text
        .rfind(" at line ")
        .map_or(text.as_str(), |at| text.get(..at).unwrap_or_default());
    let message = if message == "recursion limit exceeded" {
        super::yaml::TOO_DEEP
    } else {
        message
    };
    ManifestError::on_line(&walk.source, lines_before + error.line(), error.column(), message)
}
