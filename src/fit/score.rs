//! How well answers agree with start-up logs: every log is asked as `vramgate fit` would be, and what comes of it is held
//! against what was measured.
//!
//! Tables and bars are those of `docs/estimator.md`. Nothing here reaches a verdict.

#![allow(
    clippy::float_arithmetic,
    clippy::cast_precision_loss,
    reason = "logs print GiB with decimals and a score is a statistic; no verdict rests on it"
)]

use serde::Serialize;

use crate::device::catalogue::Catalogue as Products;
use crate::model::Catalogue;

mod case;
mod judged;
mod tables;

pub use case::{Case, CaseError, read};
pub use judged::Miss;
pub use tables::{Outcomes, PoolTable, TokenTable, WeightTable};

/// How well answers agree with logs.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Score {
    api_version: &'static str,
    kind: crate::document::Kind,
    /// Cases altogether.
    pub cases: usize,
    /// Weights of each device against those that were measured.
    pub weights: Vec<WeightTable>,
    /// Tokens that follow from the measured size of the pool against those that were printed: pure attention only.
    pub tokens: TokenTable,
    /// Size of the pool that follows from the arguments alone.
    pub pool: Vec<PoolTable>,
    /// Cases whose device's total was not printed: they count for weights and tokens only.
    pub without_total: usize,
    /// Answers by outcome.
    pub outcomes: Vec<Outcomes>,
    /// Answers that were not right, or not sure.
    pub misses: Vec<Miss>,
    /// Cases whose measured weights and pool together exceed what their arguments allow by more than 1 %.
    pub contradictory: Vec<Miss>,
    /// Cases without an answer.
    pub unknown: Vec<Miss>,
    /// Cases whose model was found as another one than their `facts` name.
    pub found_otherwise: Vec<Miss>,
}

/// Scores cases.
#[must_use]
pub fn score(cases: &[Case], catalogue: &Catalogue, products: &Products) -> Score {
    let judged: Vec<judged::Judged<'_>> = cases
        .iter()
        .map(|case| judged::judge(case, catalogue, products))
        .collect();
    Score {
        api_version: crate::document::API_VERSION,
        kind: crate::document::Kind::FitScore,
        cases: cases.len(),
        weights: tables::weights(&judged),
        tokens: tables::tokens(&judged),
        pool: tables::pool(&judged),
        without_total: judged.iter().filter(|one| !one.has_total).count(),
        outcomes: tables::outcomes(&judged),
        misses: judged.iter().filter_map(judged::Judged::miss).collect(),
        contradictory: judged.iter().filter_map(judged::Judged::contradiction).collect(),
        unknown: judged.iter().filter_map(judged::Judged::without_answer).collect(),
        found_otherwise: judged.iter().filter_map(judged::Judged::other_model).collect(),
    }
}
