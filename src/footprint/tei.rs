//! Text Embeddings Inference: weights and the activations of one batch; nothing is cached, no option bounds it.
//!
//! No start-up logs are known. Sources: huggingface/text-embeddings-inference `router/src/main.rs` (defaults) and the
//! candle back end, which runs one batch of `--max-batch-tokens` when it starts.

use super::Unknown;
use super::activation;
use super::asked::Asked;
use super::estimate::{Bound, Frame, Part};
use super::interval::{Interval, product};
use super::plan::Plan;
use super::weights::weights;
use crate::model::Dtype;

/// Tokens of a batch (`--max-batch-tokens`).
const BATCH: u64 = 16_384;
/// The CUDA context and cuBLAS's workspace: as measured for other engines, and room for more, since nothing was measured.
const CONTEXT: (u64, u64, u64) = (20, 45, 80);
/// Copies of a pass that may be alive at once: one at least, and as the frameworks free late, up to three.
const PASSES: u64 = 3;
/// Matrices of scores that are alive at once where attention has no flash kernel.
const SCORES: u64 = 3;

/// The parts of a start.
pub(super) fn frame(plan: &Plan<'_>) -> Result<Frame, Unknown> {
    if plan.format.is_packed() {
        return Err(Unknown::new(format!(
            "TEI loads 16- and 32-bit weights; what it makes of {} is not known",
            plan.format
        )));
    }
    // One process uses one device, whatever it is given.
    let alone = Plan {
        tensor: 1,
        pipeline: 1,
        data: 1,
        ..plan.clone()
    };
    Ok(Frame {
        parts: vec![
            Part {
                name: "weights",
                bytes: weights(&alone),
                source: "parameters at 16 bits, or 32 where --dtype says",
            },
            Part {
                name: "activation",
                bytes: batch(&alone),
                source: "max_batch_tokens x (hidden and intermediate)",
            },
        ],
        outside: Interval::of_hundredths(CONTEXT),
        bound: Bound::Device,
        beside: 0,
        open: false,
        asked: Some(Asked::NOTHING),
        most_pool: None,
        adapts: false,
        notes: Vec::new(),
    })
}

/// One batch of the most tokens.
fn batch(plan: &Plan<'_>) -> Interval {
    let tokens = plan.serving.max_num_batched_tokens.unwrap_or(BATCH);
    let wide = plan.dtype == Some(Dtype::Float32);
    let pass = activation::pass(plan, tokens).saturating_mul(if wide { 2 } else { 1 });
    // Flash kernels need 16 bits and Turing or newer; without them scores of each head are written out.
    let scores = if wide || plan.device.class.before_ampere {
        let length = plan.longest().min(tokens);
        let heads = u64::from(plan.model.num_attention_heads);
        let element = if wide { 4 } else { 2 };
        product(&[tokens, length, heads, element, SCORES])
    } else {
        0
    };
    let usual = if wide { pass.saturating_add(scores) } else { pass };
    Interval::new(
        pass / 2,
        usual,
        pass.saturating_mul(PASSES).saturating_add(scores),
    )
}

#[cfg(test)]
mod tests {
    use super::super::estimate::estimate;
    use super::super::example::{encoder, llama_8b, plan};
    use super::super::interval::GIB;
    use super::super::{Answer, Estimate};
    use super::*;
    use crate::engine::Engine;
    use crate::model::{Format, Model};
    use crate::units::Mib;

    /// CUDA's total of a 1g.10gb instance of an A100 with 80 GB: 9.5 GiB.
    const SLICE: u64 = 9_728;

    fn bge_large() -> Model {
        encoder(
            "bge-large-en-v1.5",
            "BertModel",
            335_141_888,
            24,
            1_024,
            4_096,
            30_522,
            512,
        )
    }

    /// Also the shape of bge-reranker-v2-m3.
    fn bge_m3() -> Model {
        encoder(
            "bge-m3",
            "XLMRobertaModel",
            567_754_752,
            24,
            1_024,
            4_096,
            250_002,
            8_192,
        )
    }

    fn on(model: &Model, mib: u64) -> Estimate {
        estimate(&plan(model, Format::Float16, Engine::Tei, mib)).unwrap()
    }

    #[test]
    fn small_encoders_fit_a_small_instance() {
        for model in [bge_large(), bge_m3()] {
            let estimate = on(&model, SLICE);
            assert_eq!(estimate.answer, Answer::Fits, "{}: {estimate:?}", model.id);
            assert_eq!(estimate.need, Interval::ZERO);
            assert_eq!(estimate.tokens, (0, 0, 0));
        }
        // 567,754,752 parameters of 2 bytes are 1.06 GiB.
        let weights = on(&bge_m3(), SLICE).part("weights").unwrap();
        assert!(weights.lower() <= 1_135_509_504 && weights.upper() >= 1_135_509_504);
        assert!(weights.upper() < 1_200_000_000, "{weights:?}");
    }

    #[test]
    fn weights_above_the_device_do_not_fit() {
        assert_eq!(on(&llama_8b(), SLICE).answer, Answer::DoesNotFit);
        assert_eq!(on(&llama_8b(), 40_960).answer, Answer::Fits);
    }

    #[test]
    fn larger_batches_and_wider_types_want_more() {
        let model = bge_m3();
        let mut plan = plan(&model, Format::Float32, Engine::Tei, 81_920);
        let sum = |plan: &Plan<'_>| estimate(plan).unwrap().used();
        let usual = sum(&plan);
        plan.serving.max_num_batched_tokens = Some(65_536);
        let large = sum(&plan);
        assert!(large.expected() > usual.expected() && large.upper() > usual.upper());
        plan.dtype = Some(Dtype::Float32);
        // Without flash kernels the scores of 8192-token texts are tens of GiB: nothing is promised.
        assert!(sum(&plan).upper() > 64 * GIB);
        assert_ne!(estimate(&plan).unwrap().answer, Answer::Fits);
    }

    #[test]
    fn packed_weights_are_not_known() {
        let error = estimate(&plan(&llama_8b(), Format::Awq4, Engine::Tei, 40_960)).unwrap_err();
        assert!(error.reason().contains("awq-int4"), "{error}");
    }

    #[test]
    fn a_larger_device_never_turns_fits_into_not() {
        for model in [bge_large(), bge_m3(), llama_8b()] {
            let mut fitted = false;
            for mib in (1_024..65_536).step_by(512) {
                let fits = on(&model, mib).answer == Answer::Fits;
                assert!(fits || !fitted, "{} at {}", model.id, Mib::new(mib));
                fitted = fits;
            }
            assert!(fitted);
        }
    }
}
