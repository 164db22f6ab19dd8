//! Where a field of an object stands in the text that it was read from.
//!
//! Objects are read without positions, because a review needs none and reading with them costs several times as much. Whoever
//! shows a place keeps the text and asks here; then the one document that is meant is read again.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::{MAX_DEPTH, Origin};
use crate::finding::FieldPath;
use crate::policy::tree::{Limits, Position, Step, Tree, View, load};

/// Values of one document: above any input that may be read (256 MiB).
const MAX_VALUES: usize = 100_000_000;
/// Values that aliases may add to one document, as when it was read first.
const MAX_REPEATED: usize = 100_000;

/// Longest line, in bytes, of a document that is read with places: the parser's work grows with the square of it.
const MAX_LINE: usize = 128 << 10;
/// Characters between two marks of a long line.
const MARK: usize = 1_024;

/// A place in a text. Lines and columns count from one, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Line.
    pub line: usize,
    /// Column; `None` where only the line is known.
    pub column: Option<usize>,
    /// Line and column behind the last character, where they are known.
    pub end: Option<(usize, usize)>,
}

/// The texts of an input, by the names under which they were read.
#[derive(Debug, Default)]
pub struct Texts {
    texts: BTreeMap<Arc<str>, Text>,
}

#[derive(Debug)]
struct Text {
    content: String,
    /// Offset of each line's first byte.
    lines: Vec<usize>,
    /// Of each long line, the offset of every [`MARK`]th character: JSON may be one line of many megabytes.
    marks: BTreeMap<usize, Vec<usize>>,
    /// The document that was asked about last; `None` as tree where it cannot be read with positions.
    last: Option<(Range<usize>, Option<Tree>)>,
}

/// Which bytes of the text of a field are meant.
type Part<'p> = dyn Fn(&str) -> Option<Range<usize>> + 'p;

impl Texts {
    /// Keeps a text. What is no UTF-8 has given no object, and is left out.
    pub fn keep(&mut self, source: &str, bytes: Vec<u8>) {
        let Ok(mut content) = String::from_utf8(bytes) else {
            return;
        };
        if content.starts_with('\u{feff}') {
            content.drain(..'\u{feff}'.len_utf8());
        }
        let mut lines = vec![0];
        lines.extend(content.match_indices('\n').map(|(at, _)| at + 1));
        let long = |(number, line): (usize, &str)| {
            let marks = line
                .char_indices()
                .step_by(MARK)
                .map(|(offset, _)| lines.get(number).map(|begin| begin + offset));
            (line.len() > MARK).then(|| (number, marks.flatten().collect()))
        };
        let marks = content.split('\n').enumerate().filter_map(long).collect();
        let text = Text {
            content,
            lines,
            marks,
            last: None,
        };
        self.texts.insert(source.into(), text);
    }

    /// Where the field at `path` of the object at `origin` stands: its value, or its key where that is a map or list; of one
    /// that is not there, what is nearest above it. The beginning of the document where nothing else is known.
    pub fn place(&mut self, origin: &Origin, path: &FieldPath) -> Place {
        self.place_in(origin, path, &|_| path.range())
    }

    /// The same of a line, from one, of the text that the field holds (a document in a ConfigMap).
    pub fn place_of_line(&mut self, origin: &Origin, path: &FieldPath, line: u64) -> Place {
        self.place_in(origin, path, &|text| range_of_line(text, line))
    }

    fn place_in(&mut self, origin: &Origin, path: &FieldPath, part: &Part<'_>) -> Place {
        let begin = Place {
            line: origin.line,
            column: None,
            end: None,
        };
        let Some(text) = self.texts.get_mut(&origin.source) else {
            return begin;
        };
        text.read(&origin.bytes);
        text.find(origin, path, part).unwrap_or(begin)
    }

    /// The file that `helm template` says the document of this object was made of (`# Source: chart/templates/x.yaml`).
    #[must_use]
    pub fn template(&self, origin: &Origin) -> Option<&str> {
        let text = self.texts.get(&origin.source)?;
        let mut rest = text.content.get(origin.bytes.clone())?;
        // Only lines in front of the object are looked at: a line of JSON can hold all of a large text.
        while rest.starts_with(['#', '-', '%', '\n', '\r']) {
            let (line, behind) = rest.split_once('\n').unwrap_or((rest, ""));
            if let Some(file) = line.strip_prefix("# Source: ") {
                return Some(file.trim()).filter(|file| !file.is_empty());
            }
            rest = behind;
        }
        None
    }
}

impl Text {
    /// Reads a document with the places of its values.
    fn read(&mut self, bytes: &Range<usize>) {
        if self.last.as_ref().is_some_and(|(read, _)| read == bytes) {
            return;
        }
        let document = self.content.get(bytes.clone()).unwrap_or_default();
        let limits = Limits {
            documents: 1,
            nodes: MAX_VALUES,
            depth: Some(MAX_DEPTH),
            repeated: Some(MAX_REPEATED),
        };
        let is_broken = document.split('\n').all(|line| line.len() <= MAX_LINE);
        let trees = is_broken.then(|| load(document, &limits).ok()).flatten();
        let tree = trees.and_then(|trees| trees.into_iter().next());
        self.last = Some((bytes.clone(), tree));
    }

    fn find(&self, origin: &Origin, path: &FieldPath, part: &Part<'_>) -> Option<Place> {
        let (document, tree) = self.last.as_ref()?;
        let tree = tree.as_ref()?;
        let whole = format!(
            "{}{}",
            FieldPath::new(origin.item.as_str()).to_pointer(),
            path.to_pointer()
        );
        let (steps, value) = walk(tree, &whole);
        let base = document.start;
        let at = tree.find(&steps)?;
        let offset = base + self.offset_in(base, at)?;
        let Some(value) = value else {
            return Some(self.place(offset, None));
        };
        let written = value.bytes().map(|bytes| base + bytes.start..base + bytes.end);
        // Of a value that an alias repeats only the alias has a place in this document's flow.
        let written = written.filter(|written| written.start == offset);
        let View::Text(text) = value.view() else {
            let is_scalar = !matches!(value.view(), View::List(_) | View::Map(_));
            let end = written.filter(|_| is_scalar).map(|written| written.end);
            return Some(self.place(offset, end));
        };
        let word = part(text)
            .zip(written.clone())
            .and_then(|(range, written)| self.word(text, range, written));
        match word {
            Some(word) => Some(self.place(word.start, Some(word.end))),
            None => Some(self.place(offset, written.map(|written| written.end))),
        }
    }

    /// The bytes of a word of a scalar, which is the same word of its text: as many stand before it there as here. `None` where
    /// quoting or folding hides it.
    fn word(&self, text: &str, range: Range<usize>, written: Range<usize>) -> Option<Range<usize>> {
        let word = text.get(range.clone())?;
        if word.is_empty() || range == (0..text.len()) {
            return None;
        }
        let source = self.content.get(written.clone())?;
        let before = count(text.get(..range.start)?, word);
        if count(text, word) != count(source, word) {
            return None;
        }
        let (at, _) = source.match_indices(word).nth(before)?;
        let start = written.start + at;
        Some(start..start + word.len())
    }

    /// The offset of a place below the beginning of a document.
    fn offset_in(&self, base: usize, at: Position) -> Option<usize> {
        let first = self.line_of(base);
        let line = first + usize::try_from(at.line).ok()?.checked_sub(1)?;
        let begin = if line == first {
            base
        } else {
            *self.lines.get(line)?
        };
        let column = usize::try_from(at.column).ok()?.checked_sub(1)?;
        let rest = self.content.get(begin..)?;
        let (offset, _) = rest.char_indices().nth(column)?;
        Some(begin + offset - base)
    }

    /// The line, from zero, that a byte lies on.
    fn line_of(&self, offset: usize) -> usize {
        self.lines
            .partition_point(|begin| *begin <= offset)
            .saturating_sub(1)
    }

    fn place(&self, start: usize, end: Option<usize>) -> Place {
        let end = end.map(|end| {
            let written = self.content.get(start..end).unwrap_or_default();
            start + written.trim_end().len()
        });
        let (line, column) = self.line_and_column(start);
        Place {
            line,
            column: Some(column),
            end: end
                .filter(|end| *end > start)
                .map(|end| self.line_and_column(end)),
        }
    }

    fn line_and_column(&self, offset: usize) -> (usize, usize) {
        let line = self.line_of(offset);
        let mut begin = self.lines.get(line).copied().unwrap_or_default();
        let mut column = 1;
        if let Some(marks) = self.marks.get(&line) {
            let passed = marks.partition_point(|mark| *mark <= offset).saturating_sub(1);
            begin = marks.get(passed).copied().unwrap_or(begin);
            column += passed * MARK;
        }
        let before = self.content.get(begin..offset).unwrap_or_default();
        (line + 1, column + before.chars().count())
    }
}

/// The bytes of a line, from one, without the blanks around it.
fn range_of_line(text: &str, line: u64) -> Option<Range<usize>> {
    let index = usize::try_from(line).ok()?.checked_sub(1)?;
    let begin: usize = text.split_inclusive('\n').take(index).map(str::len).sum();
    let line = text.split('\n').nth(index)?;
    let start = begin + (line.len() - line.trim_start().len());
    Some(start..start + line.trim().len())
}

fn count(text: &str, word: &str) -> usize {
    text.matches(word).count()
}

/// The steps of a JSON pointer as far as they exist, and the value where all of them do.
fn walk<'t>(tree: &'t Tree, pointer: &str) -> (Vec<Step>, Option<&'t Tree>) {
    let mut steps = Vec::new();
    let mut here = tree;
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        let next = match here.view() {
            View::Map(entries) => entries
                .iter()
                .find(|(key, _, _)| *key == token)
                .map(|(_, _, value)| (Step::Key(token), value)),
            View::List(items) => token
                .parse::<usize>()
                .ok()
                .and_then(|index| Some((Step::Item(index), items.get(index)?))),
            _ => None,
        };
        let Some((step, value)) = next else {
            return (steps, None);
        };
        steps.push(step);
        here = value;
    }
    (steps, Some(here))
}

#[cfg(test)]
mod tests;
