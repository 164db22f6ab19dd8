//! `vramgate fit --score`: how well answers agree with start-up logs.

use std::fmt::Write as _;
use std::path::PathBuf;

use comfy_table::{CellAlignment, Table};

use crate::cli::args::Output;
use crate::cli::output::clean;
use crate::cli::{Failure, Outcome, input, output};
use crate::device::catalogue::Catalogue as Products;
use crate::fit::score::{Miss, Score, read, score};
use crate::model::Catalogue;

/// Largest file of cases.
const MAX_CASES_BYTES: u64 = 64 << 20;

pub(super) fn run(files: &[PathBuf], catalogue: &Catalogue, format: Output) -> Result<Outcome, Failure> {
    let mut cases = Vec::new();
    input::each(files, MAX_CASES_BYTES, &mut |source| {
        let name = source.name;
        let text = String::from_utf8(source.bytes)
            .map_err(|error| Failure::new(format!("{name}: is no UTF-8 text ({error})")))?;
        cases.extend(read(&text).map_err(|error| Failure::new(format!("{name}: {error}")))?);
        Ok(())
    })?;
    let score = score(&cases, catalogue, Products::embedded());
    match format {
        Output::Json => output::print_json(&score)?,
        Output::Text => output::print(&text(&score))?,
    }
    Ok(Outcome::Passed)
}

fn text(score: &Score) -> String {
    let mut text = format!("{} cases\n\n", score.cases);
    sizes(&mut text, score);
    pools(&mut text, score);
    let outcomes = score.outcomes.iter().map(|row| {
        vec![
            row.cases.to_owned(),
            row.fits.to_string(),
            row.does_not_fit.to_string(),
            row.doubtful.to_string(),
            row.unknown.to_string(),
        ]
    });
    table(
        &mut text,
        &["OUTCOME", "FITS", "DOES NOT FIT", "DOUBTFUL", "UNKNOWN"],
        outcomes,
    );
    let _ = writeln!(
        text,
        "{} cases without a printed total count for weights and tokens only.\n",
        score.without_total
    );
    for (title, misses) in [
        ("Wrong or not sure (GiB: least/expected/most)", &score.misses),
        (
            "Figures against the arguments, counted apart",
            &score.contradictory,
        ),
        ("Without an answer", &score.unknown),
        (
            "Found as another model than the facts name",
            &score.found_otherwise,
        ),
    ] {
        list(&mut text, title, misses);
    }
    text
}

/// A number with its unit; `-` where there is none.
fn number(number: Option<f64>, digits: usize, unit: &str) -> String {
    number.map_or_else(|| "-".to_owned(), |number| format!("{number:.digits$} {unit}"))
}

/// The same with its sign.
fn signed(number: Option<f64>, digits: usize, unit: &str) -> String {
    number.map_or_else(|| "-".to_owned(), |number| format!("{number:+.digits$} {unit}"))
}

fn sizes(text: &mut String, score: &Score) {
    let weights = score.weights.iter().map(|row| {
        vec![
            row.cases.to_owned(),
            row.n.to_string(),
            number(row.median_percent, 2, "%"),
            row.within3.to_string(),
            row.within10.to_string(),
            signed(row.worst_percent, 1, "%"),
            row.worst.clone().unwrap_or_default(),
        ]
    });
    table(
        text,
        &["WEIGHTS", "N", "MEDIAN", "WITHIN 3 %", "WITHIN 10 %", "WORST", ""],
        weights,
    );
    let tokens = &score.tokens;
    let row = vec![
        "pure attention".to_owned(),
        tokens.n.to_string(),
        number(tokens.median_percent, 3, "%"),
        tokens.within1.to_string(),
        signed(tokens.worst_percent, 1, "%"),
        tokens.worst.clone().unwrap_or_default(),
    ];
    table(
        text,
        &[
            "KV TOKENS FROM THE POOL",
            "N",
            "MEDIAN",
            "WITHIN 1 %",
            "WORST",
            "",
        ],
        std::iter::once(row),
    );
}

fn pools(text: &mut String, score: &Score) {
    let pool = score.pool.iter().map(|row| {
        vec![
            row.cases.to_owned(),
            row.n.to_string(),
            number(row.median_gib, 2, "GiB"),
            number(row.median_percent, 1, "%"),
            row.too_high.to_string(),
            signed(row.worst_gib, 2, "GiB"),
            row.worst.clone().unwrap_or_default(),
        ]
    });
    table(
        text,
        &[
            "KV POOL FROM THE ARGUMENTS",
            "N",
            "MEDIAN",
            "OF THE GPU",
            "> 1 GiB TOO HIGH",
            "WORST",
            "",
        ],
        pool,
    );
}

fn table(text: &mut String, header: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(header.to_vec());
    for row in rows {
        table.add_row(row);
    }
    for column in 1..header.len() {
        let is_number = header.get(column).is_some_and(|title| !title.is_empty());
        if let Some(column) = table.column_mut(column).filter(|_| is_number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for line in table.lines() {
        text.push_str(&clean(line.trim()));
        text.push('\n');
    }
    text.push('\n');
}

fn list(text: &mut String, title: &str, misses: &[Miss]) {
    if misses.is_empty() {
        return;
    }
    text.push_str(title);
    text.push_str(":\n");
    for miss in misses {
        let line = format!(
            "  {} ({}): {}: {}",
            miss.id, miss.outcome, miss.kind, miss.figures
        );
        text.push_str(&clean(&line));
        text.push('\n');
    }
    text.push('\n');
}
