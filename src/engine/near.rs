//! The known name that a misspelt one was meant to be.

use super::reader::Context;
use crate::finding::{Code, Finding};
use crate::invocation::{Certainty, Word};

/// Bytes of a name that are compared.
const LONGEST: usize = 64;
/// Findings of one kind for one command line.
const MOST: usize = 4;

/// Letters that a name of so many bytes may differ in.
fn tolerance(length: usize) -> usize {
    match length {
        0..=5 => 1,
        6..=15 => 2,
        _ => 3,
    }
}

/// The nearest of `known`; of several the first. `None` where each is too far away, or `name` is one of them.
pub(crate) fn nearest<'k>(known: impl Iterator<Item = &'k str>, name: &str, most: usize) -> Option<&'k str> {
    if name.len() > LONGEST {
        return None;
    }
    let most = most.min(tolerance(name.len()));
    let mut best: Option<(usize, &str)> = None;
    for candidate in known {
        let within = best.map_or(most, |(distance, _)| distance - 1);
        if let Some(distance) = distance(name.as_bytes(), candidate.as_bytes(), within) {
            if distance == 0 {
                return None;
            }
            best = Some((distance, candidate));
        }
        if best.is_some_and(|(distance, _)| distance == 1) {
            // Only the name itself would be nearer, and it is looked up before.
            break;
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// How many bytes have to be added, removed or changed, where that is at most `most`.
fn distance(one: &[u8], other: &[u8], most: usize) -> Option<usize> {
    if one.len().abs_diff(other.len()) > most || other.len() > LONGEST {
        return None;
    }
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, byte) in one.iter().enumerate() {
        let mut diagonal = line;
        row[0] = line + 1;
        let mut least = row[0];
        for (column, candidate) in other.iter().enumerate() {
            let changed = diagonal + usize::from(byte != candidate);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(row[column] + 1).min(diagonal + 1);
            least = least.min(row[column + 1]);
        }
        if least > most {
            return None;
        }
    }
    row.last().copied().filter(|distance| *distance <= most)
}

/// VG108: names of options that an engine does not know and that are nearly one that it has. `words` are those that it
/// does not know.
pub(super) fn options<'k>(
    context: &Context<'_>,
    engine: &str,
    line: &[Word<'_>],
    words: &[String],
    nearest: &dyn Fn(&str) -> Option<&'k str>,
) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for word in words {
        let name = word.split('=').next().unwrap_or_default();
        if findings.len() == MOST {
            break;
        }
        let Some(meant) = Some(name).filter(|name| name.starts_with('-')).and_then(nearest) else {
            continue;
        };
        let place = line.iter().find(|placed| {
            let written = placed.text.split('=').next().unwrap_or_default();
            written == name || written.replace('_', "-") == name
        });
        let path = place.map_or_else(|| context.path.field("args"), |placed| placed.path(&context.path));
        let message = format!("{name} is no option of {engine}, which has {meant}; write {meant}");
        if !findings.iter().any(|finding| finding.message == message) {
            findings.push(Finding::new(Code::Vg108, path, message));
        }
    }
    findings
}

/// The same for an engine whose parser is not modelled: of its options only `known` are. What is short or far from all of
/// them may well be another one.
pub(super) fn of_plain(
    context: &Context<'_>,
    engine: &str,
    line: &[Word<'_>],
    known: &'static [&'static str],
) -> Vec<Finding> {
    let unknown: Vec<String> = line
        .iter()
        .filter(|word| word.text.starts_with("--") && word.certainty != Certainty::Many)
        .map(|word| word.text.split('=').next().unwrap_or_default().to_owned())
        .filter(|name| name.len() >= 10 && !known.contains(&name.as_str()))
        .collect();
    options(context, engine, line, &unknown, &|name| {
        nearest(known.iter().copied(), name, 2)
    })
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn slips_of_the_pen_are_found_and_other_names_are_not() {
        let known = [
            "--gpu-memory-utilization",
            "--max-model-len",
            "--max-num-seqs",
            "-tp",
            "--dtype",
        ];
        for (name, meant) in [
            ("--gpu-memory-utilisation", Some("--gpu-memory-utilization")),
            ("--gpu-mem-utilization", Some("--gpu-memory-utilization")),
            ("--max-model-length", Some("--max-model-len")),
            ("--max-num-seq", Some("--max-num-seqs")),
            ("--tp", Some("-tp")),
            ("--dtypes", Some("--dtype")),
            ("--dtype", None),
            ("--model", None),
            ("-x", None),
        ] {
            assert_eq!(nearest(known.into_iter(), name, 3), meant, "{name}");
        }
        assert_eq!(nearest(known.into_iter(), &"-".repeat(5000), 3), None);
    }
}
