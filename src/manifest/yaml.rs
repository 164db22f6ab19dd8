//! YAML: documents separated by `---`, as kubectl splits them.

use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Error, Options, SnippetMode};

use super::walk::Walk;
use super::{MAX_DEPTH, ManifestError};

pub(super) const TOO_DEEP: &str = "nested too deeply: no API object has more than 64 levels";

/// Events that aliases may add to one document. Real manifests repeat a few labels; a bomb repeats itself.
const MAX_ALIAS_EVENTS: usize = 100_000;

/// Hands the objects of a YAML text to the walk.
pub(super) fn read(text: &str, walk: &mut Walk<'_>) -> Result<(), ManifestError> {
    for chunk in chunks(text) {
        let Some(first) = chunk.first_content_line() else {
            continue;
        };
        walk.line = chunk.line + first;
        walk.bytes = chunk.begin..chunk.begin + chunk.text.len();
        let result =
            serde_saphyr::with_deserializer_from_str_with_options(chunk.text, options(), |deserializer| {
                walk.document(deserializer)
            });
        if let Err(error) = result {
            let error = walk.take_error().unwrap_or_else(|| syntax(walk, &chunk, &error));
            walk.excuse(error)?;
        }
    }
    Ok(())
}

/// The text of one document, and the line on which it begins, from 1.
struct Chunk<'t> {
    text: &'t str,
    line: usize,
    /// Its first byte in the whole text.
    begin: usize,
}

impl Chunk<'_> {
    /// Lines before the first one that holds anything; `None` for an empty document.
    fn first_content_line(&self) -> Option<usize> {
        self.text.lines().position(|line| {
            let line = line.strip_prefix("---").unwrap_or(line).trim();
            !(line.is_empty() || line.starts_with('#') || line.starts_with('%') || line == "...")
        })
    }
}

/// Cuts the text in front of each line that is a document marker. YAML forbids such a line inside any scalar, so no
/// document is cut through. A directive (`%YAML`) stays with the document that follows it.
fn chunks(text: &str) -> Vec<Chunk<'_>> {
    let mut chunks = Vec::new();
    let (mut begin, mut begin_line) = (0, 1);
    let (mut offset, mut line) = (0, 1);
    let mut only_directives = true;
    for content in text.split_inclusive('\n') {
        if is_marker(content, "---") && !only_directives {
            chunks.push(Chunk {
                text: text.get(begin..offset).unwrap_or_default(),
                line: begin_line,
                begin,
            });
            (begin, begin_line) = (offset, line);
        }
        offset += content.len();
        line += 1;
        let trimmed = content.trim();
        only_directives &= trimmed.is_empty() || trimmed.starts_with('%') || trimmed.starts_with('#');
        if is_marker(content, "...") {
            chunks.push(Chunk {
                text: text.get(begin..offset).unwrap_or_default(),
                line: begin_line,
                begin,
            });
            (begin, begin_line) = (offset, line);
            only_directives = true;
        }
    }
    chunks.push(Chunk {
        text: text.get(begin..).unwrap_or_default(),
        line: begin_line,
        begin,
    });
    chunks
}

/// Whether a text has a line that separates documents.
pub(super) fn has_marker(text: &str) -> bool {
    text.split('\n').any(|line| is_marker(line, "---"))
}

fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: None,
            flow_nesting_limit: MAX_DEPTH,
            max_depth: MAX_DEPTH,
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
            max_total_comment_bytes: usize::MAX,
            max_aliases: MAX_ALIAS_EVENTS,
            max_anchors: MAX_ALIAS_EVENTS,
            enforce_alias_anchor_ratio: false,
        },
        emit_comments: false,
        duplicate_keys: DuplicateKeyPolicy::Error,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_ALIAS_EVENTS },
        // YAML 1.1, as kubectl reads it: 0755 is 493.
        legacy_octal_numbers: true,
        with_snippet: false,
    }
}

fn syntax(walk: &Walk<'_>, chunk: &Chunk<'_>, error: &Error) -> ManifestError {
    let location = error.location();
    let (line, column) = location.map_or((0, 0), |location| (location.line(), location.column()));
    let line = chunk.line + usize::try_from(line).unwrap_or(0).saturating_sub(1);
    let mut cause = error.without_snippet();
    // A value that came by an alias: its error is wrapped once more.
    while let Error::AliasError { error, .. } = cause {
        cause = error;
    }
    let message = match cause {
        Error::Budget {
            breach: BudgetBreach::Depth { .. },
            ..
        } => TOO_DEEP.to_owned(),
        Error::AliasReplayLimitExceeded { .. } => {
            format!("its aliases repeat more than {MAX_ALIAS_EVENTS} values: write them out")
        }
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            "an alias stands within its own anchor, so it never ends: write the value out".to_owned()
        }
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("duplicate field {key:?}: only one can be meant")
        }
        Error::NonFiniteFloat { value, .. } => {
            format!("{value:?} is not a finite number; put it in quotes if it is a text")
        }
        other => {
            let text =
                other.render_with_options(serde_saphyr::render_options! { snippets: SnippetMode::Off });
            match text.rfind(" at line ") {
                Some(at) => text.get(..at).unwrap_or_default().to_owned(),
                None => text,
            }
        }
    };
    ManifestError::on_line(&walk.source, line, usize::try_from(column).unwrap_or(0), message)
}
