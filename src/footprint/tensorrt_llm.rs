//! TensorRT-LLM (`trtllm-serve` with its PyTorch back end): a part of what is free after weights and one forward pass.
//!
//! No start-up logs are known. Sources: NVIDIA/TensorRT-LLM `commands/serve.py` (fraction 0.9), `_torch/pyexecutor/_util.py`
//! (a dry run over `max_num_tokens`, then the fraction of what its peak left), docs `reference/memory.md`. Engines that are
//! built ahead have a workspace of their own, which nothing here tells.

use super::Unknown;
use super::activation;
use super::asked::{Asked, LocalPart, stated_pool, without_gguf, without_states};
use super::estimate::{Bound, Frame, Part};
use super::interval::Interval;
use super::plan::Plan;
use super::weights::{adapters, weights};
use crate::engine::Version;
use crate::model::Format;

/// The first release whose server runs models without building an engine unless it is told to.
const PYTORCH: Version = Version::new(1, 0, 0);
/// Tokens of a forward pass (`max_num_tokens`).
const BATCH: u64 = 8_192;
/// Tokens of a block; 64 before.
const BLOCK: u64 = 64;
/// Workspaces of kernels and buffers of the decoder beside a pass: nothing was measured.
const WORKSPACE: (u64, u64, u64) = (0, 100, 400);
/// CUDA context, and communicator with its buffers for all-reduce: as measured for other engines, and more.
const CONTEXT: [(u64, u64, u64); 2] = [(20, 60, 150), (60, 180, 400)];

const SMALLER_POOL: &str = "TensorRT-LLM shortens the longest request to what the pool holds";
const BUILT: &str = "an engine that was built ahead has a workspace of its own, which is not known";

/// The parts of a start.
pub(super) fn frame(plan: &Plan<'_>) -> Result<Frame, Unknown> {
    without_gguf(plan)?;
    without_states(plan)?;
    if plan.is_before(PYTORCH) {
        return Err(Unknown::new(
            "TensorRT-LLM before 1.0 builds or loads an engine, whose workspace is fixed when it is built and not known here",
        ));
    }
    if matches!(plan.format, Format::Bnb4 | Format::Bnb8) {
        return Err(Unknown::new(format!(
            "what TensorRT-LLM makes of {} is not known",
            plan.format
        )));
    }
    let Some(fraction) = plan.fraction.clone() else {
        return Err(Unknown::new("its part of the free memory is not known"));
    };
    let mut parts = vec![
        Part::weights(weights(plan)),
        Part {
            name: "activation",
            bytes: pass(plan),
            source: "max_num_tokens x (hidden and intermediate), and workspaces",
        },
    ];
    if let Some(adapters) = adapters(plan) {
        parts.push(Part {
            name: "adapters",
            bytes: adapters,
            source: "max_loras x max_lora_rank x adapted matrices",
        });
    }
    let [alone, several] = CONTEXT;
    let page = plan.serving.block_size.unwrap_or(BLOCK);
    let asked = Asked::by_tokens(plan, LocalPart::ALL, page);
    Ok(Frame {
        parts,
        outside: Interval::of_hundredths(if plan.tensor > 1 || plan.pipeline > 1 {
            several
        } else {
            alone
        }),
        bound: Bound::OfRest(fraction),
        beside: 0,
        open: plan.has_draft_layer() || plan.data > 1,
        most_pool: stated_pool(plan, &asked),
        asked: Some(asked),
        adapts: false,
        notes: vec![SMALLER_POOL, BUILT],
    })
}

fn pass(plan: &Plan<'_>) -> Interval {
    let tokens = plan.serving.max_num_batched_tokens.unwrap_or(BATCH);
    let pass = activation::pass(plan, tokens);
    activation::buffered(plan, pass, pass, WORKSPACE)
}

#[cfg(test)]
mod tests {
    use super::super::estimate::estimate;
    use super::super::example::{llama_8b, plan};
    use super::super::plan::Length;
    use super::super::{Answer, Estimate};
    use super::*;
    use crate::engine::{Engine, Releases};
    use crate::units::Fraction;

    fn on(mib: u64, fraction: &str, tokens: u64) -> Estimate {
        let model = llama_8b();
        let mut plan = plan(&model, Format::Float16, Engine::TensorRtLlm, mib);
        plan.fraction = Some(Fraction::parse(fraction).unwrap());
        plan.length = Length::Tokens(tokens);
        estimate(&plan).unwrap()
    }

    #[test]
    fn the_pool_is_a_part_of_what_is_left() {
        let (half, whole) = (on(81_920, "0.5", 4_096), on(81_920, "1.0", 4_096));
        assert!(whole.pool.expected / 2 - half.pool.expected <= 1);
        // 80 GiB less 15 of weights: between 50 and 65.
        assert!(
            whole.pool.upper < 66 << 30 && whole.pool.lower > 50 << 30,
            "{whole:?}"
        );
        assert_eq!(on(81_920, "0.9", 8_192).answer, Answer::Fits);
        assert_eq!(on(14_336, "0.9", 8_192).answer, Answer::DoesNotFit);
        assert_eq!(on(24_576, "0.9", 131_072).answer, Answer::Doubtful);
    }

    #[test]
    fn engines_built_ahead_are_not_known() {
        let model = llama_8b();
        let mut plan = plan(&model, Format::Float16, Engine::TensorRtLlm, 81_920);
        plan.fraction = Some(Fraction::parse("0.9").unwrap());
        plan.releases = Releases::from(Some(Version::new(0, 17, 0)));
        assert!(estimate(&plan).unwrap_err().reason().contains("workspace"));
        plan.releases = Releases::from(Some(Version::new(1, 0, 0)));
        assert!(estimate(&plan).is_ok());
        plan.fraction = None;
        assert!(estimate(&plan).is_err());
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
