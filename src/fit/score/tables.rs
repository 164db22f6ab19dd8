//! The tables of a score.

use serde::Serialize;

use super::case::Outcome;
use super::judged::Judged;
use crate::fit::Verdict;

/// Errors of weights.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WeightTable {
    /// Which cases.
    pub cases: &'static str,
    /// How many.
    pub n: usize,
    /// Median of the errors without their sign, in per cent; absent without cases.
    pub median_percent: Option<f64>,
    /// Cases within 3 %.
    pub within3: usize,
    /// Cases within 10 %.
    pub within10: usize,
    /// The largest error, with its sign, in per cent.
    pub worst_percent: Option<f64>,
    /// Whose that is.
    pub worst: Option<String>,
}

/// Errors of tokens.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenTable {
    /// How many cases.
    pub n: usize,
    /// Median of the errors without their sign, in per cent; absent without cases.
    pub median_percent: Option<f64>,
    /// Cases within 1 %.
    pub within1: usize,
    /// The largest error, with its sign, in per cent.
    pub worst_percent: Option<f64>,
    /// Whose that is.
    pub worst: Option<String>,
}

/// Errors of pools.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolTable {
    /// Which cases.
    pub cases: &'static str,
    /// How many.
    pub n: usize,
    /// Median of the errors without their sign, in GiB; absent without cases.
    #[serde(rename = "medianGiB")]
    pub median_gib: Option<f64>,
    /// The same as a part of the device, in per cent.
    pub median_percent: Option<f64>,
    /// Cases in which the pool was taken for more than 1 GiB too large.
    pub too_high: usize,
    /// The largest error, with its sign, in GiB.
    #[serde(rename = "worstGiB")]
    pub worst_gib: Option<f64>,
    /// Whose that is.
    pub worst: Option<String>,
}

/// Answers to cases of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcomes {
    /// What became of these starts.
    pub cases: &'static str,
    /// Answered `fits`.
    pub fits: usize,
    /// Answered `does-not-fit`.
    pub does_not_fit: usize,
    /// Answered `doubtful`.
    pub doubtful: usize,
    /// Answered `unknown`.
    pub unknown: usize,
}

/// Errors with the case of each.
struct Errors<'c>(Vec<(f64, &'c str)>);

impl<'c> Errors<'c> {
    fn of<'j>(judged: &'c [Judged<'j>], error: impl Fn(&Judged<'j>) -> Option<f64>) -> Self {
        let mut errors: Vec<(f64, &str)> = judged
            .iter()
            .filter_map(|one| Some((error(one)?, one.case.id.as_str())))
            .collect();
        errors.sort_by(|one, other| one.0.abs().total_cmp(&other.0.abs()));
        Self(errors)
    }

    fn median(&self) -> Option<f64> {
        let middle = self.0.len() / 2;
        let upper = self.0.get(middle)?.0.abs();
        if self.0.len() % 2 == 1 {
            return Some(rounded(upper));
        }
        let lower = self.0.get(middle.checked_sub(1)?)?.0.abs();
        Some(rounded(f64::midpoint(lower, upper)))
    }

    fn within(&self, bound: f64) -> usize {
        self.0.iter().filter(|(error, _)| error.abs() <= bound).count()
    }

    fn worst(&self) -> (Option<f64>, Option<String>) {
        let last = self.0.last();
        (
            last.map(|last| rounded(last.0)),
            last.map(|last| last.1.to_owned()),
        )
    }
}

/// To thousandths: more would say more than the logs do.
fn rounded(number: f64) -> f64 {
    (number * 1_000.0).round() / 1_000.0
}

pub(super) fn weights(judged: &[Judged<'_>]) -> Vec<WeightTable> {
    let table = |cases: &'static str, counts: &dyn Fn(&Judged<'_>) -> bool| {
        let errors = Errors::of(judged, |one| one.weights_error().filter(|_| counts(one)));
        let (worst_percent, worst) = errors.worst();
        WeightTable {
            cases,
            n: errors.0.len(),
            median_percent: errors.median(),
            within3: errors.within(3.0),
            within10: errors.within(10.0),
            worst_percent,
            worst,
        }
    };
    vec![
        table("16-bit", &|one| !one.is_packed()),
        table("all formats", &|_| true),
        table("text-only attention models", &|one| one.is_text()),
        table("vision or hybrid", &|one| !one.is_text()),
    ]
}

pub(super) fn tokens(judged: &[Judged<'_>]) -> TokenTable {
    let errors = Errors::of(judged, Judged::tokens_error);
    let (worst_percent, worst) = errors.worst();
    TokenTable {
        n: errors.0.len(),
        median_percent: errors.median(),
        within1: errors.within(1.0),
        worst_percent,
        worst,
    }
}

pub(super) fn pool(judged: &[Judged<'_>]) -> Vec<PoolTable> {
    let table = |cases: &'static str, counts: &dyn Fn(&Judged<'_>) -> bool| {
        let of = |one: &Judged<'_>| one.pool_error().filter(|_| counts(one));
        let errors = Errors::of(judged, |one| Some(of(one)?.0));
        let parts = Errors::of(judged, |one| Some(of(one)?.1));
        let (worst_gib, worst) = errors.worst();
        PoolTable {
            cases,
            n: errors.0.len(),
            median_gib: errors.median(),
            median_percent: parts.median(),
            too_high: errors.0.iter().filter(|(error, _)| *error > 1.0).count(),
            worst_gib,
            worst,
        }
    };
    vec![
        table("all", &|_| true),
        table("text-only attention models", &|one| one.is_text()),
        table("text-only attention models, vllm", &|one| {
            one.is_text() && one.case.engine == "vllm"
        }),
    ]
}

pub(super) fn outcomes(judged: &[Judged<'_>]) -> Vec<Outcomes> {
    let row = |cases: &'static str, counts: &dyn Fn(&Judged<'_>) -> bool| {
        let number = |verdict: Verdict| {
            judged
                .iter()
                .filter(|one| counts(one) && one.verdict() == verdict)
                .count()
        };
        Outcomes {
            cases,
            fits: number(Verdict::Fits),
            does_not_fit: number(Verdict::DoesNotFit),
            doubtful: number(Verdict::Doubtful),
            unknown: number(Verdict::Unknown),
        }
    };
    // Each case is counted in one row.
    let plain = |one: &Judged<'_>| one.has_total && !one.unified && !one.is_contradictory();
    let unified = |one: &Judged<'_>| one.has_total && one.unified && !one.is_contradictory();
    vec![
        row("ran", &|one| plain(one) && one.outcome == Outcome::Ran),
        row("failed for lack of memory", &|one| {
            plain(one) && one.outcome == Outcome::Failed
        }),
        row("failed otherwise", &|one| {
            plain(one) && one.outcome == Outcome::OtherFailure
        }),
        row("unified memory, ran", &|one| {
            unified(one) && one.outcome == Outcome::Ran
        }),
        row("unified memory, failed", &|one| {
            unified(one) && one.outcome != Outcome::Ran
        }),
        row("figures against arguments", &|one| one.is_contradictory()),
    ]
}
