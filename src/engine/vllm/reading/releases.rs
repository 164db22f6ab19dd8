//! Which releases a command line may be meant for, and what they make of it.

use super::super::SERVE_IMAGE;
use super::super::options::{self, Entrypoint};
use super::super::parse::{self, Parsed};
use crate::engine::Version;
use crate::invocation::Word;

/// Which parsers may read a command line.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) version: Option<Version>,
    pub(super) entrypoint: Entrypoint,
    pub(super) either: bool,
}

/// Whether a line is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine::vllm) enum Refused {
    /// A release that it could be takes it.
    No,
    /// None of them does, but not for a common reason, and there are releases that were not read.
    Perhaps,
    /// None of them does.
    Yes,
}

/// Reads the words as the release does, and says whether every release that could be meant refuses them.
///
/// A release that was not read itself has the options of a neighbour; of an unknown one all are possible, the newest
/// first.
pub(super) fn parse_for<'w>(
    target: Target,
    words: &'w [Word<'w>],
    config: &parse::ConfigFile<'_>,
) -> (Parsed<'w>, Refused) {
    let releases = options::releases();
    let newest = releases.len().saturating_sub(1);
    let (best, others) = match target.version {
        None => (newest, (0..newest).rev().collect()),
        Some(version) => match releases.binary_search(&version) {
            Ok(exact) => (exact, Vec::new()),
            Err(0) => (0, Vec::new()),
            Err(above) if above > newest => (newest, Vec::new()),
            Err(above) => {
                let [major, minor, ..] = releases[above].0;
                let same_minor = [major, minor] == [version.0[0], version.0[1]];
                if same_minor {
                    (above, vec![above - 1])
                } else {
                    (above - 1, vec![above])
                }
            }
        },
    };
    let parse_at = |position: usize| {
        if target.either && target.entrypoint == Entrypoint::Serve && releases[position] < SERVE_IMAGE {
            parse::parse(
                position,
                Entrypoint::ApiServer,
                words.get(1..).unwrap_or_default(),
                config,
            )
            .shifted(1)
        } else {
            parse::parse(position, target.entrypoint, words, config)
        }
    };
    let parsed = parse_at(best);
    let accepts = |parsed: &Parsed<'_>| parsed.error.is_none() && parsed.refused_by_config().is_empty();
    if accepts(&parsed) {
        return (parsed, Refused::No);
    }
    let mut common = parsed.error.clone();
    for other in others {
        let again = parse_at(other);
        if accepts(&again) {
            return (again, Refused::No);
        }
        common = common.and_then(|error| error.in_common(again.error.as_ref()));
    }
    let sure = target.version.is_some() || common.is_some() || parsed.error.is_none();
    (parsed, if sure { Refused::Yes } else { Refused::Perhaps })
}
