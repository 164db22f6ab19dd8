//! The document of `vramgate fit`.

use serde::Serialize;

use super::{API_VERSION, Kind};
use crate::fit::words::{floor_mib, releases};
use crate::fit::{Figures, Fitting, Named, Verdict};
use crate::footprint::{Estimate, Interval};
use crate::model::{Confidence, Format};
use crate::units::Mib;

/// Whether a model fits a device; all sizes are of each device. With the answer `unknown` every size is `null`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FitDocument {
    api_version: &'static str,
    kind: Kind,
    /// `fits`, `does-not-fit`, `doubtful` or `unknown`.
    pub answer: Verdict,
    /// Why, in one sentence.
    pub reason: String,
    /// The model as it was understood.
    pub model: FitModel,
    /// The engine.
    pub engine: FitEngine,
    /// The device.
    pub device: FitDevice,
    /// Devices that the container gets.
    pub devices: u32,
    /// Devices that the engine needs.
    pub ranks: u32,
    /// What the engine may use.
    #[serde(rename = "budgetMiB")]
    pub budget: Option<Mib>,
    /// Weights.
    #[serde(rename = "weightsMiB")]
    pub weights: Option<Sizes>,
    /// Peak of a forward pass.
    #[serde(rename = "activationMiB")]
    pub activation: Option<Sizes>,
    /// What the process takes outside of its budget.
    #[serde(rename = "overheadMiB")]
    pub overhead: Option<Sizes>,
    /// Bytes of one token in the KV cache, in layers that keep all tokens.
    pub kv_bytes_per_token: Option<u64>,
    /// What is left for the KV cache, rounded down; below zero where that much is missing.
    #[serde(rename = "kvPoolMiB")]
    pub kv_pool: Option<Range<i64>>,
    /// Tokens that the pool holds.
    pub kv_tokens: Option<Range<u64>>,
    /// What one request of the longest context needs of the KV cache.
    #[serde(rename = "needMiB")]
    pub need: Option<Sizes>,
    /// The longest context in tokens that the arguments, or else the model, ask for.
    pub max_model_len: Option<u64>,
    /// Longest context of which one request surely fits; `null` where none does.
    pub largest_max_model_len: Option<u64>,
    /// Longest context of which one request may fit.
    pub possible_max_model_len: Option<u64>,
    /// Smallest fraction with which it surely fits.
    pub smallest_fraction: Option<String>,
    /// Largest fraction that leaves room for the overhead.
    pub largest_fraction: Option<String>,
    /// Requests of the longest context at once.
    pub sequences: Option<Range<u64>>,
    /// Smallest MIG profile of the product on which it surely fits.
    pub smallest_mig_profile: Option<String>,
    /// Smallest product of the catalogue on which it surely fits.
    pub smallest_product: Option<String>,
    /// What the budget holds beside the KV cache.
    pub parts: Vec<FitPart>,
    /// What else is to be known.
    pub notes: Vec<String>,
}

/// A number between two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Range<T> {
    /// The least.
    pub lower: T,
    /// The most likely.
    pub expected: T,
    /// The most.
    pub upper: T,
}

/// Sizes in MiB, rounded up.
pub type Sizes = Range<Mib>;

/// The model as it was understood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FitModel {
    /// Its id in the catalogue; `null` where it is not known.
    pub id: Option<String>,
    /// The text that names it.
    pub text: String,
    /// How it was found.
    pub found: Option<String>,
    /// Whether the text names this model and no other.
    pub certain: bool,
    /// Format of the weights.
    pub format: Option<Format>,
    /// How sure its facts are.
    pub confidence: Option<Confidence>,
    /// Where its facts come from.
    pub source: Option<String>,
}

/// The engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FitEngine {
    /// Its name.
    pub name: String,
    /// The release as which the arguments were read; `null` where it is not known.
    pub version: Option<String>,
    /// The releases that bounds and defaults were reckoned for; `null` where none is known.
    pub releases: Option<String>,
    /// The memory fraction as written, or the release's default.
    pub fraction: Option<String>,
}

/// The device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FitDevice {
    /// Id of the product in the catalogue, or its name as written.
    pub product: Option<String>,
    /// MIG profile.
    pub profile: Option<String>,
    /// Its total.
    #[serde(rename = "totalMiB")]
    pub total: Mib,
    /// The least that an engine may see of it.
    #[serde(rename = "leastTotalMiB")]
    pub least_total: Mib,
}

/// One named part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FitPart {
    /// What it is.
    pub name: &'static str,
    /// The least.
    #[serde(rename = "lowerMiB")]
    pub lower: Mib,
    /// The most likely.
    #[serde(rename = "expectedMiB")]
    pub expected: Mib,
    /// The most.
    #[serde(rename = "upperMiB")]
    pub upper: Mib,
    /// Where the number comes from.
    pub source: &'static str,
}

impl From<Interval> for Sizes {
    fn from(interval: Interval) -> Self {
        Self {
            lower: interval.lower_mib(),
            expected: interval.expected_mib(),
            upper: interval.upper_mib(),
        }
    }
}

impl<T> From<(T, T, T)> for Range<T> {
    fn from((lower, expected, upper): (T, T, T)) -> Self {
        Self {
            lower,
            expected,
            upper,
        }
    }
}

impl FitDocument {
    /// The document of an answer.
    #[must_use]
    pub fn new(fitting: &Fitting, device: &Named) -> Self {
        let figures = fitting.figures.as_ref();
        let estimate = figures.map(|figures| &figures.estimate);
        let model = &fitting.model;
        Self {
            api_version: API_VERSION,
            kind: Kind::Fit,
            answer: fitting.verdict,
            reason: fitting.reason.clone(),
            model: FitModel {
                id: model.id.clone(),
                text: model.text.clone(),
                found: model.found.clone(),
                certain: model.certain,
                format: model.format,
                confidence: model.confidence,
                source: model.source.clone(),
            },
            engine: FitEngine {
                name: fitting.reading.engine.to_string(),
                version: fitting.reading.version.map(|version| version.to_string()),
                releases: releases(&fitting.releases),
                fraction: fitting.reading.memory.value.clone(),
            },
            device: FitDevice {
                product: device
                    .product
                    .as_ref()
                    .map(|product| product.id.clone())
                    .or_else(|| device.name.clone()),
                profile: device.profile.clone(),
                total: device.device.total,
                least_total: device.device.least_total,
            },
            devices: fitting.devices,
            ranks: fitting.ranks,
            budget: estimate.map(Estimate::budget_mib),
            weights: figures.map(|figures| figures.weights().into()),
            activation: figures.map(|figures| figures.activation().into()),
            overhead: estimate.map(|estimate| estimate.outside.into()),
            kv_bytes_per_token: estimate.map(|estimate| estimate.row_bytes),
            kv_pool: estimate.map(|estimate| Range {
                lower: floor_mib(estimate.pool.lower),
                expected: floor_mib(estimate.pool.expected),
                upper: floor_mib(estimate.pool.upper),
            }),
            kv_tokens: estimate.map(|estimate| estimate.tokens.into()),
            need: estimate.map(|estimate| estimate.need.into()),
            max_model_len: estimate.map(|estimate| estimate.length),
            largest_max_model_len: figures.and_then(|figures| figures.longest),
            possible_max_model_len: figures.and_then(|figures| figures.longest_possible),
            smallest_fraction: figures
                .and_then(|figures| figures.smallest_fraction.as_ref())
                .map(ToString::to_string),
            largest_fraction: figures
                .and_then(|figures| figures.largest_fraction.as_ref())
                .map(ToString::to_string),
            sequences: figures.map(|figures| figures.sequences.into()),
            smallest_mig_profile: figures.and_then(|figures| figures.smallest_profile.clone()),
            smallest_product: figures.and_then(|figures| figures.smallest_product.clone()),
            parts: figures.map(parts).unwrap_or_default(),
            notes: fitting.notes.clone(),
        }
    }
}

fn parts(figures: &Figures) -> Vec<FitPart> {
    let parts = figures.estimate.parts.iter();
    parts
        .map(|part| FitPart {
            name: part.name,
            lower: part.bytes.lower_mib(),
            expected: part.bytes.expected_mib(),
            upper: part.bytes.upper_mib(),
            source: part.source,
        })
        .collect()
}
