//! `vramgate policy lint`: everything that is wrong with policies, in its place.

use std::fmt::Write as _;

use crate::cli::args::{FailOn, Output, PolicyLint};
use crate::cli::output::{Paint, clean};
use crate::cli::{Failure, Outcome, input, output};
use crate::document::{Document, Kind};
use crate::finding::Severity;
use crate::lint::{Remark, Source, lint};

/// Lints the files.
pub(super) fn run(args: &PolicyLint) -> Result<Outcome, Failure> {
    let sources = sources(&args.files)?;
    let remarks = lint(&sources);
    let outcome = outcome(&remarks, args.fail_on);
    match args.output {
        Output::Text => output::print(&text(&remarks, sources.len(), Paint::for_stdout()))?,
        Output::Json => output::print_json(&Document::new(Kind::PolicyLint, remarks))?,
    }
    Ok(outcome)
}

/// The texts of policy files.
fn sources(files: &[std::path::PathBuf]) -> Result<Vec<Source>, Failure> {
    let mut sources = Vec::new();
    input::each(files, input::MAX_INPUT_BYTES, &mut |source| {
        let text = String::from_utf8(source.bytes)
            .map_err(|_| Failure::new(format!("{}: is not UTF-8; save the file as UTF-8", source.name)))?;
        sources.push(Source {
            name: source.name,
            text,
        });
        Ok(())
    })?;
    Ok(sources)
}

fn outcome(remarks: &[Remark], fail_on: FailOn) -> Outcome {
    let least = match fail_on {
        FailOn::Error => Severity::Error,
        FailOn::Warning => Severity::Warning,
    };
    if remarks.iter().any(|remark| remark.severity >= least) {
        Outcome::Refused
    } else {
        Outcome::Passed
    }
}

fn text(remarks: &[Remark], files: usize, paint: Paint) -> String {
    let mut text = String::new();
    for remark in remarks {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", line(remark, paint));
    }
    let of = |severity| {
        remarks
            .iter()
            .filter(|remark| remark.severity == severity)
            .count()
    };
    let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let _ = writeln!(
        text,
        "{}: {}, {}",
        count(files, "file"),
        count(of(Severity::Error), "error"),
        count(of(Severity::Warning), "warning"),
    );
    text
}

/// `FILE:LINE:COLUMN: error: FIELD: …`, as editors read it.
fn line(remark: &Remark, paint: Paint) -> String {
    let mut line = remark.source.clone();
    for part in [remark.line, remark.column].into_iter().flatten() {
        let _ = write!(line, ":{part}");
    }
    let line = clean(&line);
    let word = remark.severity.as_str();
    let word = match remark.severity {
        Severity::Error => paint.bad(word),
        Severity::Warning | Severity::Info => word.to_owned(),
    };
    let field = match remark.field.as_str() {
        "" => String::new(),
        field => format!("{field}: "),
    };
    let message = clean(&format!("{field}{}", remark.message));
    format!("{line}: {word}: {message} [{}]", remark.rule.as_str())
}
