//! The peak of activations that vLLM measures before it sizes its pool.
//!
//! Two passes decide: one forward pass over a batch, and a dummy run of the sampler over as many rows as sequences may
//! run. Up to 0.18 the larger one is the peak, to a few percent; later releases need less, between almost nothing and
//! the sum of both.

use super::interval::{GIB, Interval, product, scaled};
use super::plan::Plan;
use super::vllm;
use crate::engine::Version;
use crate::model::Kind;
use crate::units::Mib;

/// Tenths of a byte that the sampler takes for each row and word of the vocabulary; fitted to the logs.
const SAMPLER_TENTHS: u64 = 385;
/// The first release whose sampler needs less.
const LEAN_SAMPLER: Version = Version::new(0, 19, 0);
/// The first release that was seen to need little without graphs.
const LEAN_EAGER: Version = Version::new(0, 24, 0);
/// The least that any start was seen to take.
const LEAST: u64 = GIB / 5;
/// What profiling an image or a video adds in most models, and at most.
const TOWER: (u64, u64) = (GIB / 4, GIB);
/// What attention without flash kernels adds at most.
const SLOW_ATTENTION: (u64, u64) = (GIB * 2 / 5, 2 * GIB);
/// A vocabulary for which the sampler was seen to take less than half.
const EVEN_VOCABULARY: u32 = 1 << 17;

/// The peak, in bytes.
pub(super) fn activation(plan: &Plan<'_>) -> Interval {
    let tokens = plan.batch_tokens();
    let rows = vllm::sequences(plan);
    // An encoder samples nothing.
    let vocabulary = match plan.model.kind {
        Kind::Decoder => u64::from(plan.model.vocab_size.unwrap_or(0)),
        Kind::Encoder => 0,
    };
    let sampler =
        |rows: u64, tokens: u64| scaled(product(&[rows.min(tokens), vocabulary]), SAMPLER_TENTHS, 10);
    let sampler = Interval::new(
        sampler(rows.lower(), tokens.lower()),
        sampler(rows.expected(), tokens.expected()),
        sampler(rows.upper(), tokens.upper()),
    );
    let forward = Interval::new(
        forward(plan, tokens.lower()),
        forward(plan, tokens.expected()).max(experts(plan, tokens.expected())),
        forward(plan, tokens.upper()).max(experts(plan, tokens.upper())),
    );
    let peak = sampler.or_more(forward);
    let sum = sampler.plus(forward);
    let legacy = vllm::is_legacy(plan);

    let text = if legacy == Some(true) && chunked(plan) {
        // Some such starts sampled no dummy rows.
        Interval::new(LEAST / 2, peak.expected(), peak.upper())
    } else if plan.is_before(LEAN_SAMPLER) {
        Interval::new(
            surely(plan, peak.lower()),
            vllm::thousandths(peak.expected(), 1_012),
            vllm::thousandths(peak.upper(), 1_050).saturating_add(GIB / 16),
        )
    } else if plan.is_from(LEAN_SAMPLER) {
        // The larger pass and half of the other: what the logs have at most, and often.
        let most = |sampler: u64, forward: u64| sampler.max(forward).saturating_add(sampler.min(forward) / 2);
        let (expected, upper) = if plan.eager && plan.is_from(LEAN_EAGER) {
            (300, 600)
        } else {
            (1_000, 1_000)
        };
        let usual = vllm::thousandths(most(sampler.expected(), forward.expected()), expected);
        let most = vllm::thousandths(most(sampler.upper(), forward.upper()), upper);
        Interval::new(LEAST, usual.max(LEAST), most.saturating_add(GIB / 8))
    } else {
        Interval::new(
            LEAST,
            vllm::thousandths(peak.expected(), 900).max(LEAST),
            sum.upper().max(GIB / 4),
        )
    };
    let text = if plan.device.class.before_ampere && legacy != Some(true) {
        let (expected, upper) = SLOW_ATTENTION;
        text.plus(Interval::new(0, expected, upper))
    } else {
        text
    };
    if plan.model.tower && !plan.serving.text_only && !plan.is_from(LEAN_SAMPLER) {
        let (expected, upper) = TOWER;
        // The old core ran the longest image or video through the whole model in one piece.
        let upper = if legacy == Some(true) {
            upper.max(text.upper())
        } else {
            upper
        };
        let expected = if legacy == Some(true) {
            forward.expected() / 2
        } else {
            expected
        };
        return text.plus(Interval::new(0, expected, upper));
    }
    text
}

/// A forward pass: `tokens x (3 x intermediate / TP + 6 x hidden)` elements of two bytes; fitted to the logs.
fn forward(plan: &Plan<'_>, tokens: u64) -> u64 {
    let intermediate = u64::from(plan.model.intermediate_size.unwrap_or(0)) / plan.tensor();
    let hidden = u64::from(plan.model.hidden_size);
    let row = intermediate
        .saturating_mul(3)
        .saturating_add(hidden.saturating_mul(6));
    product(&[tokens, row, 2])
}

/// A forward pass through routed experts, where each token is copied to those that it uses.
fn experts(plan: &Plan<'_>, tokens: u64) -> u64 {
    let Some(experts) = &plan.model.experts else {
        return 0;
    };
    let hidden = u64::from(plan.model.hidden_size);
    let width = u64::from(experts.intermediate_size) * 2 / plan.tensor();
    let copied = product(&[u64::from(experts.active), width.saturating_add(hidden)]);
    product(&[tokens, copied.saturating_add(hidden.saturating_mul(6)), 2])
}

/// One forward pass over so many tokens, in bytes: dense or through experts, whichever takes more.
pub(super) fn pass(plan: &Plan<'_>, tokens: u64) -> u64 {
    forward(plan, tokens).max(experts(plan, tokens))
}

/// What engines without logs take for their passes: usually `usual`, at most two passes, with buffers in hundredths of a GiB
/// beside them, and 2 GiB for a tower.
pub(super) fn buffered(plan: &Plan<'_>, pass: u64, usual: u64, buffers: (u64, u64, u64)) -> Interval {
    let tower = if plan.model.tower { 2 * GIB } else { 0 };
    let most = pass.saturating_mul(2).saturating_add(tower);
    Interval::of_hundredths(buffers).plus(Interval::new(0, usual, most))
}

/// Whether the old core cut the context into chunks.
fn chunked(plan: &Plan<'_>) -> bool {
    plan.batch_tokens().expected() < plan.longest()
}

/// The least that a start of a release before 0.19 takes. On devices of usual size its peak came out within 3 % of the
/// formula in every log but one, which had the vocabulary named here; on small ones there are too few logs.
fn surely(plan: &Plan<'_>, peak: u64) -> u64 {
    let usual_size = plan.device.total >= Mib::new(20 * 1024);
    if usual_size && !plan.device.class.mig && plan.model.vocab_size != Some(EVEN_VOCABULARY) {
        vllm::thousandths(peak, 940).max(LEAST)
    } else {
        LEAST
    }
}
