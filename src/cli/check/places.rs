//! Where objects and findings stand in the input, by names that whoever reads the result can open.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};

use super::Judged;
use crate::cli::input::Source;
use crate::document::Position;
use crate::finding::{FieldPath, Number};
use crate::manifest::{Object, Origin, Texts};

/// What is known of the input's texts.
pub(super) struct Places {
    texts: Texts,
    /// Below it, paths are told from there.
    folder: Option<PathBuf>,
    /// By kind and name: some fields of an object stand in another one.
    objects: BTreeMap<String, Origin>,
}

/// An object with its verdict, and where all of it stands.
pub(super) struct Item {
    pub(super) judged: Judged,
    /// Where the object begins.
    pub(super) position: Position,
    /// Of each finding, in order.
    pub(super) places: Vec<Position>,
}

impl Places {
    pub(super) fn new() -> Self {
        Self {
            texts: Texts::default(),
            folder: env::current_dir().ok(),
            objects: BTreeMap::new(),
        }
    }

    /// Keeps a text of the input.
    pub(super) fn keep(&mut self, source: Source) {
        self.texts.keep(&source.name, source.bytes);
    }

    /// Notes where objects stand.
    pub(super) fn note(&mut self, objects: &[Object]) {
        for object in objects {
            let name = format!("{} {}", object.kind(), object.name());
            self.objects.insert(name, object.origin.clone());
        }
    }

    /// Finds all places of one object.
    pub(super) fn locate(&mut self, judged: Judged) -> Item {
        let findings = &judged.verdict.findings;
        let places = findings
            .iter()
            .map(|finding| match finding.numbers.get("line") {
                // Of a document in a ConfigMap.
                Some(Number::Count(line)) => {
                    let place = self.texts.place_of_line(&judged.origin, &finding.path, *line);
                    self.position(&judged.origin, place)
                }
                _ => self.of(&judged.origin, &finding.path),
            })
            .collect();
        let begin = judged.origin.clone();
        let position = if findings.is_empty() && begin.item.is_empty() {
            // Nothing is said of most objects, and their documents need not be read again.
            self.position(
                &begin,
                crate::manifest::Place {
                    line: begin.line,
                    column: None,
                    end: None,
                },
            )
        } else {
            self.of(&begin, &FieldPath::default())
        };
        Item {
            judged,
            position,
            places,
        }
    }

    fn of(&mut self, origin: &Origin, path: &FieldPath) -> Position {
        let Some(other) = path.object() else {
            let place = self.texts.place(origin, path);
            return self.position(origin, place);
        };
        // Where it stands in the cluster alone, the object that names it has to do.
        let nothing = FieldPath::default();
        let (origin, path) = match self.objects.get(other) {
            Some(other) => (other, path),
            None => (origin, &nothing),
        };
        let place = self.texts.place(origin, path);
        self.position(origin, place)
    }

    fn position(&self, origin: &Origin, place: crate::manifest::Place) -> Position {
        Position {
            file: self.shown(&origin.source),
            line: place.line,
            column: place.column,
            end_line: place.end.map(|(line, _)| line),
            end_column: place.end.map(|(_, column)| column),
            template: self.texts.template(origin).map(str::to_owned),
        }
    }

    fn shown(&self, file: &str) -> String {
        let path = Path::new(file);
        let below = self
            .folder
            .as_ref()
            .and_then(|folder| path.strip_prefix(folder).ok())
            .unwrap_or(path);
        let below = below.strip_prefix(".").unwrap_or(below);
        below.display().to_string()
    }
}

/// The file that an annotation is put on: of standard input the template that Helm names, if any.
pub(super) fn file_of(position: &Position) -> Option<&str> {
    match position.file.as_str() {
        "-" => position.template.as_deref(),
        file => Some(file),
    }
}

/// Whether line and column are those of [`file_of`]: what Helm made has other lines than its template.
pub(super) fn lines_hold(position: &Position) -> bool {
    position.file != "-"
}
