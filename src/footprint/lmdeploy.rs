//! LMDeploy: a part of what is free after the weights (`--cache-max-entry-count`).
//!
//! No start-up logs are known. Sources: InternLM/lmdeploy `lmdeploy/messages.py` and `cli/utils.py` (0.8; of what is free
//! since 0.2.1, of the total before), `src/turbomind/turbomind.cc`. The PyTorch back end takes its runtime's buffers first.

use super::Unknown;
use super::activation;
use super::asked::{Asked, LocalPart, without_gguf, without_states};
use super::estimate::{Bound, Frame, Part, bytes};
use super::interval::{Interval, scaled};
use super::plan::Plan;
use super::weights::weights;
use crate::engine::Version;

/// The first release that takes a part of what is free.
const OF_FREE: Version = Version::new(0, 2, 1);
/// Tokens of a prefill (`--max-prefill-token-num`).
const BATCH: u64 = 8_192;
/// Tokens of a block (`--cache-block-seq-len`).
const BLOCK: u64 = 64;
/// CUDA context, and communicator on several devices: as measured for other engines, and more.
const CONTEXT: [(u64, u64, u64); 2] = [(20, 60, 120), (60, 150, 350)];
/// Buffers of the runtime beside a pass: nothing was measured.
const BUFFERS: (u64, u64, u64) = (0, 50, 200);

const SMALLER_POOL: &str = "LMDeploy shortens the session to what the pool holds";

/// The parts of a start.
pub(super) fn frame(plan: &Plan<'_>) -> Result<Frame, Unknown> {
    without_gguf(plan)?;
    without_states(plan)?;
    let Some(fraction) = plan.fraction.clone() else {
        return Err(Unknown::new(
            "its part of the free memory is not known; --cache-max-entry-count takes a number between 0 and 1",
        ));
    };
    let [alone, several] = CONTEXT;
    // What is taken after the pool was measured lies in the rest of it.
    let rest = pass(plan);
    let bound = if plan.is_before(OF_FREE) {
        Bound::Pool(scaled(
            bytes(plan.device.total),
            u64::from(fraction.ppm()),
            1_000_000,
        ))
    } else {
        Bound::OfRest(fraction)
    };
    let page = plan.serving.block_size.unwrap_or(BLOCK);
    Ok(Frame {
        parts: vec![
            Part::weights(weights(plan)),
            Part {
                name: "activation",
                bytes: rest,
                source: "max_prefill_token_num x (hidden and intermediate), and buffers",
            },
        ],
        outside: Interval::of_hundredths(if plan.tensor > 1 { several } else { alone }),
        bound,
        beside: 0,
        open: plan.has_draft_layer() || plan.data > 1,
        asked: Some(Asked::by_tokens(plan, LocalPart::ALL, page)),
        most_pool: None,
        adapts: false,
        notes: vec![SMALLER_POOL],
    })
}

/// Buffers and one prefill: before the pool in one back end, after it in the other.
fn pass(plan: &Plan<'_>) -> Interval {
    let tokens = plan.serving.max_num_batched_tokens.unwrap_or(BATCH);
    let pass = activation::pass(plan, tokens);
    activation::buffered(plan, pass, pass / 2, BUFFERS)
}

#[cfg(test)]
mod tests {
    use super::super::estimate::estimate;
    use super::super::example::{llama_8b, plan};
    use super::super::plan::{CacheType, Length};
    use super::super::{Answer, Estimate};
    use super::*;
    use crate::engine::{Engine, Releases};
    use crate::model::Format;
    use crate::units::Fraction;

    fn on(mib: u64, tokens: u64, release: Option<Version>, cache: CacheType) -> Estimate {
        let model = llama_8b();
        let mut plan = plan(&model, Format::Float16, Engine::Lmdeploy, mib);
        plan.fraction = Some(Fraction::parse("0.8").unwrap());
        plan.length = Length::Tokens(tokens);
        plan.releases = Releases::from(release);
        plan.cache_type = cache;
        estimate(&plan).unwrap()
    }

    #[test]
    fn the_fraction_is_of_what_is_free_since_0_2_1() {
        let new = on(81_920, 8_192, Some(Version::new(0, 2, 1)), CacheType::Auto);
        // 0.8 x (80 - 15 - context and buffers) GiB.
        assert!(new.pool.upper < 53 << 30 && new.pool.lower > 45 << 30, "{new:?}");
        assert_eq!(new.answer, Answer::Fits);
        let old = on(81_920, 8_192, Some(Version::new(0, 2, 0)), CacheType::Auto);
        assert_eq!(old.pool.upper, 64 << 30);
    }

    #[test]
    fn packed_caches_hold_more() {
        let plain = on(81_920, 8_192, None, CacheType::Auto);
        let int8 = on(81_920, 8_192, None, CacheType::parse("int8").unwrap());
        let int4 = on(81_920, 8_192, None, CacheType::parse("int4").unwrap());
        assert_eq!(plain.row_bytes, 131_072);
        assert_eq!(int8.row_bytes, 65_536);
        assert!(int4.need.upper() < int8.need.lower() && int8.need.upper() < plain.need.lower());
    }

    #[test]
    fn a_larger_device_or_a_shorter_context_never_fits_less() {
        for tokens in [1_024, 8_192, 131_072] {
            let mut fitted = false;
            for mib in (8_192..262_144).step_by(4_096) {
                let one = on(mib, tokens, None, CacheType::Auto);
                assert!(one.answer == Answer::Fits || !fitted, "{mib} MiB, {tokens}");
                fitted = one.answer == Answer::Fits;
                let longer = on(mib, tokens + 1, None, CacheType::Auto);
                assert!(longer.need.lower() >= one.need.lower() && longer.need.upper() >= one.need.upper());
            }
            assert!(fitted, "{tokens}");
        }
        assert_eq!(
            on(14_336, 1_024, None, CacheType::Auto).answer,
            Answer::DoesNotFit
        );
    }
}
