//! The text of `fit` for people: what was understood, where the memory goes, the answer, and the answers to what one
//! would ask next.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table};

use super::bar;
use crate::cli::output::clean;
use crate::fit::words::{floor_mib, releases};
use crate::fit::{Figures, Fitting, Named, Verdict};
use crate::footprint::Interval;
use crate::model::{Confidence, Format};

/// The whole answer.
pub(super) fn render(fitting: &Fitting, device: &Named) -> String {
    let mut text = understood(fitting, device);
    if let Some(figures) = &fitting.figures {
        text.push('\n');
        parts(figures, &mut text);
        text.push('\n');
        bar::render(figures, device.device.total, &mut text);
    }
    let word = match fitting.verdict {
        Verdict::Fits => "Fits",
        Verdict::DoesNotFit => "Does not fit",
        Verdict::Doubtful => "Doubtful",
        Verdict::Unknown => "Unknown",
    };
    let _ = writeln!(text, "\n{word}: {}.", clean(&fitting.reason));
    if let Some(figures) = &fitting.figures {
        text.push('\n');
        next(fitting, figures, device, &mut text);
    }
    for (index, note) in fitting.notes.iter().enumerate() {
        if index == 0 {
            text.push('\n');
        }
        let _ = writeln!(text, "note: {}", clean(note));
    }
    text
}

fn understood(fitting: &Fitting, device: &Named) -> String {
    let model = &fitting.model;
    let reading = &fitting.reading;
    let mut lines = vec![("model", model.text.clone())];
    match (&model.id, &model.found) {
        (Some(id), Some(found)) => lines.push(("", format!("{id}, found {found}"))),
        _ => lines.push(("", "not known".to_owned())),
    }
    if let (Some(confidence), Some(source)) = (model.confidence, &model.source) {
        let sure = match confidence {
            Confidence::Unverified => "unverified",
            Confidence::Partly => "partly verified",
            Confidence::Verified => "verified",
        };
        lines.push(("facts", format!("{sure}: {source}")));
    }
    if let Some(format) = model.format {
        let told = match format {
            Format::Float16 => "not packed, 16 bits".to_owned(),
            Format::Float32 => "not packed, 32 bits".to_owned(),
            packed => packed.to_string(),
        };
        lines.push(("format", told));
    }
    let release = releases(&fitting.releases).unwrap_or_else(|| "release not known".to_owned());
    let fraction = match (&reading.memory.value, &reading.memory.fraction) {
        (Some(value), Some(_)) => format!(", memory fraction {value}"),
        _ => String::new(),
    };
    lines.push(("engine", format!("{} {release}{fraction}", reading.engine)));
    let total = device.device.total.get();
    let least = device.device.least_total.get();
    let seen = if least == total {
        String::new()
    } else {
        format!(" (the engine sees {least})")
    };
    let ranks = match (fitting.ranks, fitting.devices) {
        (1, 1) => String::new(),
        (ranks, devices) => format!(", {devices} given, {ranks} used; all numbers are of each"),
    };
    lines.push(("device", format!("{}, {total} MiB{seen}{ranks}", device.title())));
    let mut text = String::new();
    for (name, line) in lines {
        let _ = writeln!(text, "{name:<8}{}", clean(&line));
    }
    text
}

fn parts(figures: &Figures, text: &mut String) {
    let estimate = &figures.estimate;
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(["PART", "LEAST MiB", "EXPECTED", "MOST", "FROM"]);
    let mut row = |name: &str, bytes: Interval, source: &str| {
        table.add_row([
            name.to_owned(),
            bytes.lower_mib().get().to_string(),
            bytes.expected_mib().get().to_string(),
            bytes.upper_mib().get().to_string(),
            source.to_owned(),
        ]);
    };
    for part in &estimate.parts {
        row(part.name, part.bytes, part.source);
    }
    row("outside", estimate.outside, "taken outside of the budget");
    let caches = estimate.need.upper() > 0;
    if caches {
        let length = estimate.asked;
        row(
            "one request",
            estimate.need,
            &format!("KV cache of {length} tokens"),
        );
    }
    let pool = &estimate.pool;
    table.add_row([
        if caches { "KV pool" } else { "left over" }.to_owned(),
        floor_mib(pool.lower).to_string(),
        floor_mib(pool.expected).to_string(),
        floor_mib(pool.upper).to_string(),
        format!("what is left of {} MiB", estimate.budget_mib().get()),
    ]);
    for column in 1..4 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for line in table.lines() {
        text.push_str(&clean(line.trim()));
        text.push('\n');
    }
}

/// The inverse answers.
fn next(fitting: &Fitting, figures: &Figures, device: &Named, text: &mut String) {
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<28}{}", clean(&value));
    };
    if figures.estimate.need.upper() > 0 {
        line("tokens in the pool", between(figures.estimate.tokens));
        line("requests of full length", between(figures.sequences));
        line("longest context", longest(figures));
    }
    if figures.has_fraction {
        line(
            "smallest memory fraction",
            figures
                .smallest_fraction
                .as_ref()
                .map_or_else(|| "none fits surely".to_owned(), ToString::to_string),
        );
        line(
            "largest memory fraction",
            figures.largest_fraction.as_ref().map_or_else(
                || "none leaves room for the process".to_owned(),
                ToString::to_string,
            ),
        );
    }
    if let Some(product) = device.product.as_ref().filter(|product| product.mig.is_some()) {
        let found = match (&figures.smallest_profile, fitting.ranks) {
            (Some(profile), _) => profile.clone(),
            (None, 1) => format!("none of {} fits surely", product.id),
            (None, _) => "none: a process sees one instance only".to_owned(),
        };
        line("smallest MIG profile", found);
    }
    let each = if fitting.ranks > 1 {
        format!(", {} of them", fitting.ranks)
    } else {
        String::new()
    };
    line(
        "smallest GPU known",
        figures.smallest_product.as_ref().map_or_else(
            || "none fits surely".to_owned(),
            |product| format!("{product}{each}"),
        ),
    );
}

fn longest(figures: &Figures) -> String {
    let tokens = |tokens: u64| format!("{tokens} tokens");
    match (figures.longest, figures.longest_possible) {
        (Some(surely), Some(perhaps)) if perhaps > surely => {
            format!("{} surely, {perhaps} perhaps", tokens(surely))
        }
        (Some(surely), _) => tokens(surely),
        (None, Some(perhaps)) => format!("{} perhaps, none surely", tokens(perhaps)),
        (None, None) => "none".to_owned(),
    }
}

/// `5 (3 to 9)`, or `5` where all three are the same.
fn between((lower, expected, upper): (u64, u64, u64)) -> String {
    if lower == upper {
        expected.to_string()
    } else {
        format!("{expected} ({lower} to {upper})")
    }
}
