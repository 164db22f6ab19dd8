//! What to tell about a command line of SGLang by itself.

use super::options;
use super::reading::FRACTION;
use crate::engine::argparse::releases::Refused;
use crate::engine::fraction::{self, Limit};
use crate::engine::line::LineView;
use crate::engine::reader::Context;
use crate::engine::refusals::{self, several_words};
use crate::engine::{Reading, near, sizes, unread};
use crate::finding::Finding;
use crate::invocation::Word;

/// Parallel sizes.
const SIZES: [(&str, i128); 4] = [
    ("--tp-size", 1),
    ("--pp-size", 1),
    ("--dp-size", 1),
    ("--nnodes", 1),
];

/// The findings; `lenient` where a program around the engine has options of its own.
pub(super) fn of(
    context: &Context<'_>,
    line: &LineView<'_, '_>,
    reading: &Reading,
    refused: Refused,
    lenient: bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let fraction = fraction::unusable(context, line, FRACTION, Limit::BelowOne);
    let several = several_words(context, line);
    let explained = fraction.is_some() || several.is_some();
    findings.extend(fraction);
    // A wrapper may read variables of its own.
    if !lenient {
        findings.extend(unread::variables(context, reading, &unread::SGLANG));
    }
    findings.extend(several);
    if let Some(error) = &line.parsed.error
        && !explained
        && refused != Refused::No
    {
        let near = |name: &str| nearest(name, line);
        // A program around the engine has options of its own.
        if !(lenient && error.is_about_words()) {
            findings.extend(refusals::refused(context, line, error, &near));
        }
    }
    findings.extend(sizes::findings(context, line, &SIZES, &|_| false));
    findings.extend(context.floating_image());
    findings
}

/// The option of the release that a misspelt one was meant to be.
fn nearest(name: &str, line: &LineView<'_, '_>) -> Option<&'static str> {
    let position = options::releases()
        .iter()
        .position(|version| *version == line.parsed.release)
        .unwrap_or_default();
    let release = options::release(position)?;
    near::nearest(release.starting_with("-").map(|spelling| spelling.text), name, 3)
}

/// The words that were meant, where an item holds several.
pub(super) fn split_items<'w>(words: &[Word<'w>]) -> Option<Vec<Word<'w>>> {
    refusals::split_items(words, &is_option)
}

/// Whether any release has an option that begins so.
fn is_option(name: &str) -> bool {
    let known = |position: usize| {
        options::release(position).is_some_and(|release| release.starting_with(name).next().is_some())
    };
    (0..options::releases().len()).rev().any(known)
}
