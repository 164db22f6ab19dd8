//! What to tell about a command line of SGLang by itself.

use super::options;
use super::reading::FRACTION;
use crate::engine::argparse::releases::Refused;
use crate::engine::fraction::{self, Limit};
use crate::engine::line::LineView;
use crate::engine::reader::Context;
use crate::engine::refusals::{self, refused_option, several_words};
use crate::finding::Finding;
use crate::invocation::Word;

/// The findings; `lenient` where a program around the engine has options of its own.
pub(super) fn of(
    context: &Context<'_>,
    line: &LineView<'_, '_>,
    refused: Refused,
    lenient: bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let fraction = fraction::unusable(context, line, FRACTION, Limit::BelowOne);
    let several = several_words(context, line);
    let explained = fraction.is_some() || several.is_some();
    findings.extend(fraction);
    findings.extend(several);
    if let Some(error) = &line.parsed.error
        && !explained
        && refused != Refused::No
        && !(lenient && error.is_about_words())
    {
        findings.push(refused_option(context, line, error));
    }
    findings.extend(context.floating_image());
    findings
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
