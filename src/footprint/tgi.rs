//! Text Generation Inference: everything until a part of the device is left, of what is free after one prefill.
//!
//! No start-up logs are known. Sources: huggingface/text-generation-inference `models/flash_causal_lm.py` (`warmup`: blocks
//! = free - (1 - fraction x wiggle room) x total, asked after a prefill of the largest batch), `utils/import_utils.py`,
//! `models/globals.py` (`TGI_WIGGLE_ROOM`), `launcher/src/main.rs`.

use super::Unknown;
use super::activation;
use super::asked::{Asked, LocalPart, stated_pool, without_gguf, without_states};
use super::estimate::{Bound, Frame, Part, bytes};
use super::interval::{CENTI, GIB, Interval, product};
use super::plan::Plan;
use super::weights::weights;

/// Thousandths of the fraction that are used: 0.90 in the release that was read, up to 0.95 in older ones.
const WIGGLE: (u64, u64, u64) = (900, 900, 950);
/// Tokens of the prefill that is tried (`--max-batch-prefill-tokens`): 4096 in most releases, up to the context in the
/// last ones, which choose it by the device.
const PREFILL: (u64, u64) = (4_096, 16_384);
/// The CUDA context, and the communicator on several devices: as measured for other engines.
const CONTEXT: [(u64, u64, u64); 2] = [(20, 45, 70), (60, 120, 250)];
/// Graphs are captured after the pool is taken, in what the wiggle room leaves.
const GRAPHS: (u64, u64, u64) = (0, 40, 150);
/// Width to which latent heads are padded, keys and values each: the whole heads are cached.
const LATENT_WIDTH: u64 = 256;

const SMALLER_POOL: &str =
    "TGI chooses the longest request by what fits where --max-total-tokens is not stated";

/// The parts of a start.
pub(super) fn frame(plan: &Plan<'_>) -> Result<Frame, Unknown> {
    without_gguf(plan)?;
    without_states(plan)?;
    let Some(fraction) = &plan.fraction else {
        return Err(Unknown::new("its memory fraction is not known"));
    };
    let ppm = u64::from(fraction.ppm());
    let of = |total: u64, wiggle: u64| {
        let bytes = u128::from(total) * u128::from(ppm * wiggle) / 1_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    };
    let total = bytes(plan.device.total);
    let least = bytes(plan.device.least_total.min(plan.device.total));
    let (low, usual, high) = WIGGLE;
    let [alone, several] = CONTEXT;
    let asked = asked(plan);
    let graphs = if plan.eager {
        Interval::ZERO
    } else {
        Interval::of_hundredths(GRAPHS)
    };
    Ok(Frame {
        parts: vec![
            Part::weights(weights(plan)),
            Part {
                name: "activation",
                bytes: prefill(plan),
                source: "max_batch_prefill_tokens x (hidden and intermediate)",
            },
            Part {
                name: "context",
                bytes: Interval::of_hundredths(if plan.tensor > 1 { several } else { alone }),
                source: "CUDA context and communicator, which count as used",
            },
        ],
        outside: graphs,
        bound: Bound::Between(Interval::new(of(least, low), of(least, usual), of(total, high))),
        beside: graphs.expected(),
        open: plan.has_draft_layer(),
        most_pool: stated_pool(plan, &asked),
        asked: Some(asked),
        adapts: false,
        notes: vec![SMALLER_POOL],
    })
}

fn prefill(plan: &Plan<'_>) -> Interval {
    let pass = |tokens: u64| activation::pass(plan, tokens);
    let (usual, most) = plan
        .serving
        .max_num_batched_tokens
        .map_or(PREFILL, |tokens| (tokens, tokens));
    // What was freed stays with the allocator, and images are looked at as well.
    let tower = if plan.model.tower { 2 * GIB } else { 0 };
    Interval::new(
        10 * CENTI,
        pass(usual).max(20 * CENTI),
        pass(most)
            .saturating_mul(2)
            .saturating_add(GIB / 2)
            .saturating_add(tower),
    )
}

/// Every layer keeps all tokens; latent models cache whole heads.
fn asked(plan: &Plan<'_>) -> Asked {
    let mut asked = Asked::by_tokens(plan, LocalPart::ALL, plan.block());
    if plan.model.latent.is_some() {
        let heads = u64::from(plan.model.num_attention_heads).div_ceil(plan.tensor());
        let layers = u64::from(plan.model.num_hidden_layers);
        let row = product(&[layers, heads, 2, LATENT_WIDTH, 2]);
        let whole = product(&[row, plan.longest()]);
        asked.need = asked.need.widened(Interval::exactly(whole));
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::super::estimate::estimate;
    use super::super::example::{llama_8b, plan};
    use super::super::plan::Length;
    use super::super::{Answer, Estimate};
    use super::*;
    use crate::engine::Engine;
    use crate::model::Format;
    use crate::units::Fraction;

    fn on(mib: u64, fraction: &str, tokens: u64) -> Estimate {
        let model = llama_8b();
        let mut plan = plan(&model, Format::Float16, Engine::Tgi, mib);
        plan.fraction = Some(Fraction::parse(fraction).unwrap());
        plan.length = Length::Tokens(tokens);
        estimate(&plan).unwrap()
    }

    #[test]
    fn the_budget_is_until_a_part_is_left() {
        // 0.9 x 80 GiB.
        let estimate = on(81_920, "1.0", 8_192);
        assert_eq!(estimate.budget, 72 * GIB);
        assert_eq!(estimate.answer, Answer::Fits);
        assert_eq!(on(81_920, "0.5", 8_192).budget, 36 * GIB);
    }

    #[test]
    fn what_fits_not_with_weights_alone_does_not_fit() {
        assert_eq!(on(14_336, "1.0", 4_096).answer, Answer::DoesNotFit);
        assert_eq!(on(81_920, "0.15", 4_096).answer, Answer::DoesNotFit);
        // A context that the pool does not hold is shortened.
        assert_eq!(on(24_576, "1.0", 131_072).answer, Answer::Doubtful);
    }

    #[test]
    fn a_stated_limit_bounds_the_pool() {
        let model = llama_8b();
        let mut plan = plan(&model, Format::Float16, Engine::Tgi, 81_920);
        plan.fraction = Some(Fraction::one());
        plan.length = Length::Tokens(8_192);
        plan.serving.max_total_tokens = Some(4_096);
        let estimate = estimate(&plan).unwrap();
        // 4096 tokens of 131,072 bytes.
        assert_eq!(estimate.pool.upper, 536_870_912);
        assert_eq!(estimate.answer, Answer::Doubtful);
    }

    #[test]
    fn it_needs_its_fraction() {
        let model = llama_8b();
        let mut plan = plan(&model, Format::Float16, Engine::Tgi, 81_920);
        plan.fraction = None;
        assert!(estimate(&plan).is_err());
        plan.fraction = Some(Fraction::one());
        plan.format = Format::GgufQ4K;
        assert!(estimate(&plan).unwrap_err().reason().contains("GGUF"));
    }

    #[test]
    fn a_larger_device_or_a_shorter_context_never_fits_less() {
        for tokens in [1_024, 8_192, 131_072] {
            let mut fitted = false;
            for mib in (8_192..262_144).step_by(4_096) {
                let one = on(mib, "0.9", tokens);
                assert!(one.answer == Answer::Fits || !fitted, "{mib} MiB, {tokens}");
                fitted = one.answer == Answer::Fits;
                let longer = on(mib, "0.9", tokens + 1);
                assert!(longer.need.lower() >= one.need.lower() && longer.need.upper() >= one.need.upper());
            }
            assert!(fitted, "{tokens}");
        }
    }
}
