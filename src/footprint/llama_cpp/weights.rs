//! What of a GGUF file lies on a device ("model buffer size" of the logs).

use super::super::interval::{Interval, product, scaled};
use super::super::plan::Plan;
use super::super::shape::Parts;
use super::super::weights::packed_bits;
use super::placing::Placing;
use crate::model::{Format, Kind};

/// Bytes of norms, biases and routers, which every quantisation leaves at 32 bits.
const WIDE: u64 = 4;
/// Bytes of what is left at 16 bits: a projector beside the file.
const PLAIN: u64 = 2;
/// Thousandths of a bit of the types that matter here (the block sizes of ggml).
const Q6_K: u64 = 6_563;
const Q8_0: u64 = 8_500;
/// Rows of k-quants are multiples of this; others fall back to a wider type (`llama_tensor_get_type`).
const SUPER_BLOCK: u32 = 256;
/// What files differ by from the bits of their mixture, in thousandths.
const MIXTURE: (u64, u64) = (985, 1_015);

/// Bytes of the weights on the fullest device.
pub(super) fn weights(plan: &Plan<'_>, placing: &Placing) -> Interval {
    if placing.is_empty() {
        return Interval::ZERO;
    }
    let parts = Parts::of(plan.model);
    let output = output(plan, &parts);
    placing
        .of_layers(layers(plan, &parts, output))
        .plus(placing.of_output(output))
        .plus(projector(plan, &parts))
}

/// All layers together.
fn layers(plan: &Plan<'_>, parts: &Parts, output: Interval) -> Interval {
    let (least, usual, most) = of_layers(plan);
    let of = |parameters: u64, bits: u64| scaled(parameters, bits, 8_000);
    if let Some((small, large)) = plan.checkpoint(parts) {
        // The file without what stays on the host or is counted with the output.
        let twice = parts.output > 0;
        let beside =
            |bits: u64, output: u64| of(parts.embedding, bits).saturating_add(if twice { output } else { 0 });
        return Interval::new(
            small.saturating_sub(beside(Q8_0.max(most), output.upper())),
            small
                .midpoint(large)
                .saturating_sub(beside(usual, output.expected())),
            large.saturating_sub(beside(least, output.lower())),
        );
    }
    let (low, high) = MIXTURE;
    let linear = parts.linear();
    let (rest_least, rest, rest_most) = rest(plan, parts, (least, usual, most));
    let wide = product(&[parts.router, WIDE]);
    let sum = |packed: u64, rest: u64| packed.saturating_add(rest).saturating_add(wide);
    Interval::new(
        sum(scaled(of(linear, least), low, 1_000), rest_least),
        sum(of(linear, usual), rest),
        sum(scaled(of(linear, most), high, 1_000), rest_most),
    )
}

/// What the shape does not explain: norms and biases in a plain text model, recurrent layers, or most of the model where
/// the shape says little. A tower is in a file of its own, or not loaded.
fn rest(plan: &Plan<'_>, parts: &Parts, (least, usual, most): (u64, u64, u64)) -> (u64, u64, u64) {
    let model = plan.model;
    let rest = parts.rest;
    let of = |bits: u64| scaled(rest, bits, 8_000);
    if parts.explained && model.recurrent.is_none() {
        if model.tower {
            return (0, 0, 0);
        }
        // Positions and poolers of encoders stay on the host or are left out.
        let wide = product(&[rest, WIDE]);
        return (if model.kind == Kind::Encoder { 0 } else { wide / 2 }, wide, wide);
    }
    let lower = if model.tower { 0 } else { of(least) };
    (lower, of(usual), of(most).max(product(&[rest, PLAIN])))
}

/// The projector for images or sound.
fn projector(plan: &Plan<'_>, parts: &Parts) -> Interval {
    if !plan.model.tower || plan.serving.text_only || !parts.explained || plan.model.recurrent.is_some() {
        return Interval::ZERO;
    }
    let most = product(&[parts.rest, PLAIN]);
    Interval::new(0, most, most)
}

/// The output layer: a copy of the embedding where both are one. Most mixtures keep it at six bits or more.
fn output(plan: &Plan<'_>, parts: &Parts) -> Interval {
    if plan.model.kind == Kind::Encoder {
        return Interval::ZERO;
    }
    let (least, usual, most) = packed_bits(plan.format);
    let of = |bits: u64| scaled(parts.embedding, bits, 8_000);
    let narrow = !plan.model.hidden_size.is_multiple_of(SUPER_BLOCK);
    let (low, middle, high) = match plan.format {
        Format::GgufF16 => (least, usual, most),
        Format::GgufQ8_0 => (Q8_0, Q8_0, most),
        _ => (least, if narrow { Q8_0 } else { Q6_K.max(usual) }, Q8_0.max(most)),
    };
    // Where the shape is not understood the rest has it already.
    if parts.explained {
        Interval::new(of(low), of(middle), of(high))
    } else {
        Interval::new(0, 0, of(high))
    }
}

/// Thousandths of a bit of a layer's matrices.
fn of_layers(plan: &Plan<'_>) -> (u64, u64, u64) {
    let (least, usual, most) = packed_bits(plan.format);
    if plan.model.hidden_size.is_multiple_of(SUPER_BLOCK) {
        return (least, usual, most);
    }
    // q2_k and q3_k fall back to 4.5 bits, q4_k to q5_0, q5_k to q5_1, q6_k to q8_0; rows of other widths do not.
    let wider = match plan.format {
        Format::GgufQ2K | Format::GgufQ3K => 4_500,
        Format::GgufQ4K => 5_530,
        Format::GgufQ5K => 6_000,
        Format::GgufQ6K => Q8_0,
        _ => return (least, usual, most),
    };
    (least, usual.max(wider), Q8_0.max(most))
}

#[cfg(test)]
mod tests {
    use super::super::super::example::{
        bge_small, command_r, open_llama_7b, plan, qwen_30b_a3b, qwen_half_b, trilm,
    };
    use super::*;
    use crate::engine::Engine;
    use crate::model::Model;

    /// A printed buffer in hundredths of a MiB, in bytes.
    const fn mib(hundredths: u64) -> u64 {
        hundredths * (1 << 20) / 100
    }

    fn buffer(model: &Model, format: Format, devices: u32) -> Interval {
        let mut plan = plan(model, format, Engine::LlamaCpp, 24_576);
        plan.devices = devices;
        weights(&plan, &Placing::of(&plan))
    }

    #[test]
    fn buffers_of_16_bits_come_out_exactly() {
        // llamafile#552: 7317.71 MiB on the device, 297.00 on the host.
        let estimate = buffer(&trilm(), Format::GgufF16, 1);
        assert!(
            estimate.expected().abs_diff(mib(731_771)) < 1 << 16,
            "{estimate:?}"
        );
        // ggml's own tests: 40.73 MiB of bge-small on the device, 23.11 with embedding and positions on the host.
        let estimate = buffer(&bge_small(), Format::GgufF16, 1);
        assert!(
            estimate.lower() <= mib(4_073) && mib(4_073) <= estimate.upper(),
            "{estimate:?}"
        );
        assert!(
            estimate.expected().abs_diff(mib(4_073)) < mib(160),
            "{estimate:?}"
        );
    }

    #[test]
    fn logged_buffers_of_packed_files_lie_within() {
        for (model, format, measured) in [
            // 85.94 MiB on the host; the output has 6.56 bits.
            (open_llama_7b(), Format::GgufQ5_0, 434_956),
            // The width is no multiple of 256, and the embedding lies on both sides.
            (qwen_half_b(), Format::GgufQ4K, 37_373),
            // "4-bit" and "4-5 bit", over two devices, here as one; the embedding is the output of the first.
            (command_r(), Format::Gguf, 1_942_391),
            (qwen_30b_a3b(), Format::Gguf, 1_672_237),
        ] {
            let estimate = buffer(&model, format, 1);
            let measured = mib(measured);
            assert!(
                estimate.lower() <= measured && measured <= estimate.upper(),
                "{}: {estimate:?}, {measured}",
                model.id
            );
            let off = estimate.expected().abs_diff(measured);
            assert!(off * 100 < measured * 7, "{}: {estimate:?}, {measured}", model.id);
        }
        let estimate = buffer(&open_llama_7b(), Format::GgufQ5_0, 1);
        assert!(
            estimate.expected().abs_diff(mib(434_956)) * 100 < estimate.expected(),
            "{estimate:?}"
        );
    }

    #[test]
    fn the_output_keeps_more_bits_than_the_layers() {
        // What is left of 4349.56 MiB without 32 layers of 5.5 bits and 65 norms: 102.54 MiB, which are 6.56 bits.
        let model = open_llama_7b();
        let plan = plan(&model, Format::GgufQ5_0, Engine::LlamaCpp, 24_576);
        let layers = 32 * (4 * 4_096 * 4_096 + 3 * 4_096 * 11_008) * 11 / 16;
        let logged = mib(434_956) - layers - 65 * 4_096 * 4;
        let output = output(&plan, &Parts::of(&model));
        assert!(
            output.expected().abs_diff(logged) * 1_000 < logged,
            "{output:?}, {logged}"
        );
        // That of a width that is no multiple of 256 keeps 8.5.
        let narrow = qwen_half_b();
        let plan = super::super::super::example::plan(&narrow, Format::GgufQ4K, Engine::LlamaCpp, 24_576);
        let output = super::output(&plan, &Parts::of(&narrow));
        assert_eq!(output.expected(), 151_936 * 896 * 17 / 16);
    }

    #[test]
    fn layers_go_on_the_device_one_by_one() {
        let model = open_llama_7b();
        let at = |layers| {
            let mut plan = plan(&model, Format::GgufQ4K, Engine::LlamaCpp, 24_576);
            plan.serving.gpu_layers = layers;
            weights(&plan, &Placing::of(&plan))
        };
        assert_eq!(at(Some(0)), Interval::ZERO);
        let mut before = Interval::ZERO;
        for layers in 1..=33 {
            let now = at(Some(layers));
            assert!(
                now.lower() >= before.lower() && now.upper() >= before.upper(),
                "{layers}"
            );
            assert!(now.expected() > before.expected(), "{layers}");
            before = now;
        }
        assert_eq!(before, at(None));
        assert_eq!(before, at(Some(99)));
    }

    #[test]
    fn several_devices_hold_a_part_and_a_layer_more() {
        let one = buffer(&command_r(), Format::GgufQ4K, 1);
        let two = buffer(&command_r(), Format::GgufQ4K, 2);
        assert!(two.lower() * 2 <= one.lower() && two.lower() * 2 + 2 >= one.lower());
        assert!(two.upper() > one.upper() / 2 && two.upper() < one.upper() * 6 / 10);
    }

    #[test]
    fn a_published_size_wins_over_bits() {
        let mut model = qwen_half_b();
        model.tower = true;
        model.parameters = 2_000_000_000;
        let size = 700_000_000;
        model.variants.push(crate::model::Variant {
            format: Format::GgufQ4K,
            publisher: None,
            checkpoint_bytes: Some(size),
        });
        let of_size = buffer(&model, Format::GgufQ4K, 1);
        assert!(
            of_size.lower() < size && of_size.expected() < size * 11 / 10,
            "{of_size:?}"
        );
    }
}
