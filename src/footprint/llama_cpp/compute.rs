//! The buffer for one pass ("compute buffer size" of the logs), on the fullest device.
//!
//! The scheduler reuses memory, so that the largest moment counts: the logits of a physical batch, or masks and scores of
//! attention. `batch x vocabulary x 4 + batch x hidden x 4` is exactly what was printed where it is the larger (70.5 MiB for
//! 32,000 words, 105.0 for 50,688). Over several devices each holds four copies of the mask: 2 x 4 x 64 + 300.75 MiB were
//! printed together for Qwen3-30B at 32,768 tokens.

use super::super::interval::{Interval, product};
use super::super::plan::{CacheType, Plan};
use super::placing::Placing;
use crate::model::Kind;

/// Tokens of a physical batch (`--ubatch-size`).
const BATCH: u64 = 512;
/// Bytes of an element in a buffer.
const ELEMENT: u64 = 4;
/// Copies of the inputs over several devices (`GGML_SCHED_MAX_COPIES`).
const COPIES: u64 = 4;
/// Rows of the residual stream that are alive at once: fewest and most.
const STREAMS: (u64, u64) = (1, 8);
/// Rows of the MLP that are alive at once.
const WIDE: u64 = 3;

/// Bytes of the buffer.
pub(super) fn compute(plan: &Plan<'_>, placing: &Placing) -> Interval {
    let model = plan.model;
    let length = plan.longest();
    let batch = plan.serving.max_num_batched_tokens.unwrap_or(BATCH).min(length);
    let hidden = u64::from(model.hidden_size);
    let (few, many) = STREAMS;
    let row = |streams: u64| product(&[batch, hidden, streams, ELEMENT]);
    let logits = if model.kind == Kind::Encoder {
        0
    } else {
        product(&[batch, u64::from(model.vocab_size.unwrap_or(0)), ELEMENT])
    };
    let mask = product(&[batch, length, ELEMENT]);
    let masks = mask.saturating_mul(if placing.is_split() { COPIES } else { 1 });
    let experts = model.experts.map_or(0, |experts| {
        u64::from(experts.active) * u64::from(experts.intermediate_size)
    });
    let width = u64::from(model.intermediate_size.unwrap_or(0)).max(experts);
    let layer = row(many).saturating_add(product(&[batch, width, WIDE, ELEMENT]));
    let scores = product(&[batch, length, u64::from(model.num_attention_heads), ELEMENT]);

    let (with_output, _) = placing.output;
    let output = if with_output {
        logits.saturating_add(row(few))
    } else {
        0
    };
    let usual_scores = if flash(plan) == Some(false) { scores } else { 0 };
    let most_scores = if flash(plan) == Some(true) { 0 } else { scores };
    // Only inputs of several devices are kept through the pass.
    let kept = if placing.is_split() { masks } else { 0 };
    let usual = output
        .max(row(2).saturating_add(mask).saturating_add(usual_scores))
        .saturating_add(kept);
    Interval::new(
        // Releases differ in how many rows of logits they reserve.
        row(few),
        usual,
        logits
            .saturating_add(row(few))
            .saturating_add(masks.saturating_mul(3) / 2)
            .saturating_add(most_scores)
            .saturating_add(layer),
    )
}

/// Whether attention works without a buffer of scores. Packed values need it; where nothing is said newer releases choose
/// it and older ones do not.
fn flash(plan: &Plan<'_>) -> Option<bool> {
    let values = plan
        .serving
        .value_cache_dtype
        .as_deref()
        .and_then(CacheType::parse);
    let packed = !matches!(
        values.unwrap_or(plan.cache_type),
        CacheType::Auto | CacheType::Float16 | CacheType::Float32
    );
    if packed {
        Some(true)
    } else {
        plan.serving.flash_attention
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::example::{
        bge_small, command_r, llama_8b, open_llama_7b, plan, qwen_30b_a3b, trilm,
    };
    use super::super::super::plan::Length;
    use super::*;
    use crate::engine::Engine;
    use crate::model::{Format, Model};

    const MIB: u64 = 1 << 20;

    fn buffer(model: &Model, length: u64, batch: u64, devices: u32, flash: Option<bool>) -> Interval {
        let mut plan = plan(model, Format::Gguf, Engine::LlamaCpp, 24_576);
        plan.length = Length::Tokens(length);
        plan.serving.max_num_batched_tokens = Some(batch);
        plan.serving.flash_attention = flash;
        plan.devices = devices;
        compute(&plan, &Placing::of(&plan))
    }

    #[test]
    fn logged_buffers_come_out() {
        // open_llama 7B and TriLM 3.9B at 512 tokens: the logits decide, to the byte.
        let open_llama = buffer(&open_llama_7b(), 512, 512, 1, None);
        assert_eq!(open_llama.expected(), 141 * MIB / 2);
        let trilm = buffer(&trilm(), 512, 512, 1, Some(false));
        assert_eq!(trilm.expected(), 105 * MIB);
        // bge-small: 16.0 MiB, of which scores are 12; a batch is no longer than the context.
        let bge = buffer(&bge_small(), 512, 2_048, 1, None);
        assert!(bge.lower() < 16 * MIB && 16 * MIB < bge.upper(), "{bge:?}");
        // command-r over two devices at 4096 tokens, before there was flash attention: 672.01 MiB.
        let command_r = buffer(&command_r(), 4_096, 512, 2, None);
        assert!(
            command_r.lower() < 672 * MIB && 672 * MIB < command_r.upper(),
            "{command_r:?}"
        );
    }

    #[test]
    fn several_devices_keep_copies_of_the_mask() {
        // 812.78 MiB on both together: the one with the output 300.75 and 256 of masks, the other 256.
        let both = buffer(&qwen_30b_a3b(), 32_768, 512, 2, Some(true));
        assert_eq!(both.expected(), 1_203 * MIB / 4 + 256 * MIB);
        assert_eq!((both.expected() + 256 * MIB) / MIB, 812);
    }

    #[test]
    fn scores_count_unless_flash_attention_is_certain() {
        let model = llama_8b();
        let off = buffer(&model, 131_072, 512, 1, Some(false));
        let unknown = buffer(&model, 131_072, 512, 1, None);
        let on = buffer(&model, 131_072, 512, 1, Some(true));
        assert!(off.expected() > 8 << 30);
        assert!(unknown.upper() > 8 << 30 && unknown.expected() < 1 << 30);
        assert!(on.upper() < 1 << 30);
    }
}
