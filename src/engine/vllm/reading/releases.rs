//! Which releases a command line may be meant for, and what they make of it.

use super::super::SERVE_IMAGE;
use super::super::options::{self, Entrypoint};
use super::super::parse::{self, ParseError, Parsed};
use crate::engine::Version;
use crate::engine::argparse::releases::{self, Outcome, Refused};
use crate::engine::argparse::yaml::Files;
use crate::invocation::Word;

/// Which parsers may read a command line.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) version: Option<Version>,
    pub(super) entrypoint: Entrypoint,
    pub(super) either: bool,
}

impl Outcome for Parsed<'_> {
    fn accepted(&self) -> bool {
        self.error.is_none() && self.refused_by_config().is_empty() && self.refused_together().is_none()
    }

    fn error(&self) -> Option<&ParseError> {
        self.error.as_ref()
    }
}

/// Reads the words as the release does, and says whether every release that could be meant refuses them.
pub(super) fn parse_for<'w>(
    target: Target,
    words: &'w [Word<'w>],
    config: &Files<'_, '_>,
) -> (Parsed<'w>, Refused) {
    let releases = options::releases();
    releases::parse_for(releases, target.version, |position| {
        if target.either && target.entrypoint == Entrypoint::Serve && releases[position] < SERVE_IMAGE {
            parse::parse_with(
                position,
                Entrypoint::ApiServer,
                words.get(1..).unwrap_or_default(),
                config,
            )
            .shifted(1)
        } else {
            parse::parse_with(position, target.entrypoint, words, config)
        }
    })
}
