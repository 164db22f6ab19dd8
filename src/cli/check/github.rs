//! Workflow commands of GitHub Actions: annotations of a pull request, one for each finding.
//!
//! A command is a line `::error file=F,line=L,col=C,title=T::MESSAGE`. Line breaks, and in properties colons and commas,
//! are written as percent codes, so that no text of a manifest can begin a command of its own.

use std::fmt::Write as _;

use super::places::{Item, file_of, lines_hold};
use super::text;
use crate::cli::Failure;
use crate::document::Position;
use crate::finding::Severity;
use crate::message;

/// The annotations, and the summary as a plain line.
pub(super) fn render(items: &[Item], failures: &[Failure]) -> String {
    let mut out = String::new();
    for failure in failures {
        for line in failure.0.lines() {
            let (place, message) = failed_at(line);
            let properties = place.map_or_else(String::new, |(file, line, column)| {
                let column = column.map_or_else(String::new, |column| format!(",col={column}"));
                format!("file={},line={line}{column},", property(file))
            });
            let _ = writeln!(out, "::error {properties}title=unusable input::{}", data(message));
        }
    }
    for item in items {
        for container in item.judged.change.iter().flat_map(|change| &change.containers) {
            let object = text::name(&item.judged.object);
            let _ = writeln!(
                out,
                "::notice {}title=GPU memory changes::{}",
                place(&item.position),
                data(&format!("{object}: {container}"))
            );
        }
        for (finding, position) in item.judged.verdict.findings.iter().zip(&item.places) {
            let command = match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Info => "notice",
            };
            let title = format!("{}: {}", finding.code, finding.code.title());
            let object = text::name(&item.judged.object);
            let mut message = format!("{object}: {}", message::whole(finding, &item.judged.verdict));
            if !lines_hold(position) {
                let _ = write!(message, "\n  at {position} ({})", finding.path);
            }
            let _ = writeln!(
                out,
                "::{command} {}title={}::{}",
                place(position),
                property(&title),
                data(&message)
            );
        }
    }
    out.push_str(&text::summary_line(items));
    out
}

/// `file=…,line=…,` as far as it is known.
fn place(position: &Position) -> String {
    let Some(file) = file_of(position) else {
        return String::new();
    };
    let mut place = format!("file={},", property(file));
    if !lines_hold(position) {
        return place;
    }
    let _ = write!(place, "line={},", position.line);
    if let Some(end) = position.end_line {
        let _ = write!(place, "endLine={end},");
    }
    if let Some(column) = position.column {
        let _ = write!(place, "col={column},");
    }
    // GitHub knows the end of a column within one line only.
    if let (Some(column), true) = (position.end_column, position.end_line == Some(position.line)) {
        let _ = write!(place, "endColumn={column},");
    }
    place
}

/// File, line and column of an error.
type Failed<'e> = (&'e str, usize, Option<usize>);

/// The place in front of an error's text, and the text.
fn failed_at(error: &str) -> (Option<Failed<'_>>, &str) {
    let read = || {
        let (place, message) = error.split_once(": ")?;
        let mut parts = place.rsplitn(3, ':');
        let last: usize = parts.next()?.parse().ok()?;
        let middle = parts.next()?;
        let first = parts.next();
        Some(match (middle.parse::<usize>(), first) {
            (Ok(line), Some(file)) => ((file, line, Some(last)), message),
            _ => ((place.rsplit_once(':')?.0, last, None), message),
        })
    };
    match read() {
        Some((place, message)) if place.0 != "-" => (Some(place), message),
        _ => (None, error),
    }
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_put_on_the_file_that_they_name() {
        assert_eq!(
            failed_at("a.yaml:3:4: bad"),
            (Some(("a.yaml", 3, Some(4))), "bad")
        );
        assert_eq!(
            failed_at("a.yaml:3: bad: x"),
            (Some(("a.yaml", 3, None)), "bad: x")
        );
        assert_eq!(failed_at("a.yaml: bad"), (None, "a.yaml: bad"));
        assert_eq!(failed_at("-:3: bad"), (None, "-:3: bad"));
        assert_eq!(
            failed_at("c:/a.yaml:3: bad"),
            (Some(("c:/a.yaml", 3, None)), "bad")
        );
    }

    #[test]
    fn no_text_begins_a_command() {
        assert_eq!(data("a\n::error::b\r100%"), "a%0A::error::b%0D100%25");
        assert_eq!(property("a:b,c\n"), "a%3Ab%2Cc%0A");
    }
}
