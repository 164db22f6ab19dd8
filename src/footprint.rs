//! How much device memory a model will want under an engine's options: an interval with named parts, and whether one
//! request of the longest context fits.
//!
//! Method and constants, with their sources and their score against start-up logs, are in `docs/estimator.md`.

use std::fmt;

use serde::Serialize;

mod activation;
mod asked;
mod cache;
mod device;
mod estimate;
#[cfg(test)]
mod every_engine;
#[cfg(test)]
mod example;
mod format;
mod interval;
pub mod inverse;
mod llama_cpp;
mod lmdeploy;
mod plan;
mod sglang;
mod shape;
mod tei;
mod tensorrt_llm;
mod tgi;
mod vllm;
mod weights;

pub use device::{Class, Device};
pub use estimate::{Estimate, Part, Pool, estimate, is_modelled};
pub(crate) use format::UNSIZED;
pub use format::{Settled, settled};
pub use interval::Interval;
pub use plan::{CacheType, Length, Plan};

/// Whether a model fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Even by the upper estimate one request of the longest context fits.
    Fits,
    /// Even by the lower estimate it does not.
    DoesNotFit,
    /// Between the two.
    Doubtful,
}

/// Why there is no estimate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Unknown {
    reason: String,
}

impl Unknown {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
        }
    }

    /// The reason, in words.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

#[cfg(test)]
mod tests;
