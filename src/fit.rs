//! Whether a model fits a device under an engine's arguments, without a cluster: what `vramgate fit` answers.
//!
//! A [`Question`] is put together from texts as people write them; [`ask`] reads the arguments as the engine does, finds
//! the model by its name, and lets [`crate::footprint`] estimate. What cannot be told is [`Verdict::Unknown`] with its
//! reason, and then there are no numbers.

use std::fmt;

use serde::Serialize;

mod answer;
mod device;
mod figures;
mod model;
pub mod score;
pub(crate) mod words;

pub use answer::{AskError, Fitting, Question, ask};
pub use device::{DeviceError, Named};
pub use figures::Figures;
pub use model::Understood;

/// Whether a model fits, where that can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Even by the upper estimate one request of the longest context fits.
    Fits,
    /// Even by the lower estimate it does not, or the engine gets fewer devices than it needs.
    DoesNotFit,
    /// Between the two.
    Doubtful,
    /// There is no estimate.
    Unknown,
}

impl Verdict {
    /// The word in JSON and in text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fits => "fits",
            Self::DoesNotFit => "does-not-fit",
            Self::Doubtful => "doubtful",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<crate::footprint::Answer> for Verdict {
    fn from(answer: crate::footprint::Answer) -> Self {
        match answer {
            crate::footprint::Answer::Fits => Self::Fits,
            crate::footprint::Answer::DoesNotFit => Self::DoesNotFit,
            crate::footprint::Answer::Doubtful => Self::Doubtful,
        }
    }
}
