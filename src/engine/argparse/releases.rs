//! Which of the releases that were read may be meant, and what they make of a command line.

use super::{ParseError, Parsed};
use crate::engine::Version;

/// Whether a line is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// A release that it could be takes it.
    No,
    /// None of them does, but not for a common reason, and there are releases that were not read.
    Perhaps,
    /// None of them does.
    Yes,
}

/// What one release makes of a command line.
pub(crate) trait Outcome {
    /// Whether it starts with it.
    fn accepted(&self) -> bool;

    /// Why its parser refuses it.
    fn error(&self) -> Option<&ParseError>;
}

impl Outcome for Parsed<'_> {
    fn accepted(&self) -> bool {
        self.error.is_none()
    }

    fn error(&self) -> Option<&ParseError> {
        self.error.as_ref()
    }
}

/// The release whose options are used, and those that may be meant as well, both as positions in `releases`.
///
/// A release that was not read itself has the options of a neighbour; of an unknown one all are possible, the newest
/// first.
fn candidates(releases: &[Version], version: Option<Version>) -> (usize, Vec<usize>) {
    let newest = releases.len().saturating_sub(1);
    let Some(version) = version else {
        return (newest, (0..newest).rev().collect());
    };
    match releases.binary_search(&version) {
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
    }
}

/// Reads a line as the release does, and says whether every release that could be meant refuses it. `parse_at` reads
/// it as the release at a position.
pub(crate) fn parse_for<P: Outcome>(
    releases: &[Version],
    version: Option<Version>,
    parse_at: impl Fn(usize) -> P,
) -> (P, Refused) {
    let (best, others) = candidates(releases, version);
    let parsed = parse_at(best);
    if parsed.accepted() {
        return (parsed, Refused::No);
    }
    let mut common = parsed.error().cloned();
    for other in others {
        let again = parse_at(other);
        if again.accepted() {
            return (again, Refused::No);
        }
        common = common.and_then(|error| error.in_common(again.error()));
    }
    let sure = version.is_some() || common.is_some() || parsed.error().is_none();
    (parsed, if sure { Refused::Yes } else { Refused::Perhaps })
}
