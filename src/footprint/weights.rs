//! Bytes of weights that one rank holds.

use super::interval::{Interval, product, scaled};
use super::plan::Plan;
use super::shape::{Parts, loaded};
use crate::model::{Format, Kind, Model};

mod bits;
mod by_shape;

use bits::bits;

/// Bytes of a parameter that nobody packs.
const PLAIN: u64 = 2;
/// Formats whose checkpoint is larger or smaller than what is loaded, in thousandths: the draft layer of a checkpoint is
/// left out, a repack pads. (`docs/estimator.md`, weights.)
const CHECKPOINT: (u64, u64, u64) = (980, 1_008, 1_060);

/// Thousandths of a bit of one packed parameter: least, usual, most.
pub(super) const fn packed_bits(format: Format) -> (u64, u64, u64) {
    bits(format)
}

/// Bytes of weights of one rank of one stage, host memory already taken off.
pub(super) fn weights(plan: &Plan<'_>) -> Interval {
    let model = plan.model;
    let parts = Parts::of(model);
    let stages = u64::from(plan.pipeline.max(1));
    let whole = match (plan.checkpoint(&parts), plan.format.is_packed()) {
        // The file's own size says more than bits: publishers differ in what they leave unpacked.
        (Some((least, most)), true) => {
            let (lower, expected, upper) = CHECKPOINT;
            let without_drafts = |bytes: u64| scaled(bytes, loaded(model), model.parameters);
            let (least, most) = (without_drafts(least), without_drafts(most));
            let middle = least.midpoint(most);
            let one = Interval::new(
                scaled(least, lower, 1_000),
                scaled(middle, expected, 1_000),
                scaled(most, upper, 1_000),
            );
            divided(one, plan.tensor())
        }
        _ => by_shape::weights(plan, &parts),
    };
    let stage = if stages > 1 {
        // Layers divide over the stages; the ends have embedding or output beside theirs.
        let ends = product(&[parts.embedding.max(parts.output), PLAIN]) / plan.tensor();
        let one = divided(whole, stages);
        Interval::new(one.lower(), one.expected(), one.upper().saturating_add(ends))
    } else {
        whole
    };
    let stage = stage.plus(absorbed(plan)).plus(rotary(model));
    stage.less(plan.serving.cpu_offload_bytes.unwrap_or(0))
}

fn divided(interval: Interval, by: u64) -> Interval {
    Interval::new(
        scaled(interval.lower(), 1, by),
        scaled(interval.expected(), 1, by),
        scaled(interval.upper(), 1, by),
    )
}

/// Latent attention keeps both halves of its up-projection unpacked beside the packed one, to multiply them in.
fn absorbed(plan: &Plan<'_>) -> Interval {
    let Some(latent) = &plan.model.latent else {
        return Interval::ZERO;
    };
    let (Some(key), Some(value)) = (latent.qk_nope_head_dim, latent.v_head_dim) else {
        return Interval::ZERO;
    };
    let bytes = product(&[
        u64::from(plan.model.num_hidden_layers),
        u64::from(plan.model.num_attention_heads),
        u64::from(key) + u64::from(value),
        u64::from(latent.kv_lora_rank),
        PLAIN,
    ]);
    let one = scaled(bytes, 1, plan.tensor());
    Interval::new(0, one, one)
}

/// The table of rotary positions, whole on every rank: 2 bytes for each position and element of a head.
fn rotary(model: &Model) -> Interval {
    if model.kind == Kind::Encoder {
        return Interval::ZERO;
    }
    let width = u64::from(
        model
            .latent
            .map_or(model.head_width(), |latent| latent.qk_rope_head_dim),
    );
    let bytes = product(&[model.max_position_embeddings, width, PLAIN]);
    Interval::new(0, bytes, bytes)
}

/// Parameters of all low-rank adapters of one slot, for each unit of rank: both sides of every linear layer.
fn adapter_width(model: &Model) -> u64 {
    let hidden = u64::from(model.hidden_size);
    let width = u64::from(model.head_width());
    let queries = product(&[u64::from(model.num_attention_heads), width]);
    let keys = product(&[u64::from(model.num_key_value_heads), width]);
    let intermediate = u64::from(model.intermediate_size.unwrap_or(0));
    let of = |input: u64, output: u64| input.saturating_add(output);
    let one = [
        of(hidden, queries),
        of(hidden, keys),
        of(hidden, keys),
        of(queries, hidden),
        of(hidden, intermediate),
        of(hidden, intermediate),
        of(intermediate, hidden),
    ]
    .into_iter()
    .fold(0, u64::saturating_add);
    one.saturating_mul(u64::from(model.num_hidden_layers))
}

/// Bytes of all adapters that are held at once on one rank; fewer matrices than all may be adapted.
pub(super) fn adapters(plan: &Plan<'_>) -> Option<Interval> {
    let adapters = plan.serving.adapters?;
    let width = adapter_width(plan.model);
    let most = product(&[adapters.count, adapters.rank, width, PLAIN]) / plan.tensor();
    Some(Interval::new(most / 4, most, most))
}

/// One more layer of the model, as a draft head has: in the model's format or plain.
pub(super) fn draft_layer(plan: &Plan<'_>) -> Interval {
    let layers = u64::from(plan.model.num_hidden_layers).max(1);
    let one = plan
        .model
        .draft_parameters
        .unwrap_or_else(|| Parts::of(plan.model).linear() / layers)
        / plan.tensor();
    let (least, ..) = bits(plan.format);
    let unpacked = product(&[one, PLAIN]);
    Interval::new(0, scaled(one, least, 8_000).midpoint(unpacked), unpacked)
}
