//! Weights from shape and bits.

use super::super::interval::{Interval, product, scaled};
use super::super::plan::Plan;
use super::super::shape::Parts;
use super::PLAIN;
use super::bits::{PADDED_EXPERTS, bits};
use crate::model::{Dtype, Format};

/// Rows of the embedding are padded to a multiple of this.
const VOCABULARY_PADDING: u64 = 64;
/// What of 16-bit weights is loaded, in thousandths of the parts: on one rank, and on several, which hold some buffers
/// beside their part.
const UNPACKED: [(u64, u64, u64); 2] = [(992, 1_001, 1_015), (990, 1_004, 1_025)];

/// A model's parts on one rank.
struct Rank<'p> {
    parts: &'p Parts,
    vocabulary_bytes: u64,
    router_bytes: u64,
    tensor: u64,
    key_value: u64,
    experts: u64,
    rest: u64,
}

/// Bits of the parts that formats treat differently, in thousandths.
#[derive(Clone, Copy)]
struct Bits {
    attention: u64,
    dense: u64,
    experts: u64,
    rest: u64,
}

impl Bits {
    const fn all(bits: u64) -> Self {
        Self {
            attention: bits,
            dense: bits,
            experts: bits,
            rest: bits,
        }
    }
}

impl<'p> Rank<'p> {
    fn of(plan: &Plan<'_>, parts: &'p Parts, unpacked: u64, usual: u64) -> Self {
        let model = plan.model;
        let tensor = plan.tensor();
        let rows = u64::from(model.vocab_size.unwrap_or(0)).next_multiple_of(VOCABULARY_PADDING);
        let tables = if parts.output > 0 { 2 } else { 1 };
        let vocabulary = if plan.format.is_gguf() {
            // Files of this kind pack the embedding too.
            of_bits(parts.embedding.saturating_add(parts.output), usual)
        } else {
            product(&[rows, u64::from(model.hidden_size), tables, unpacked])
        };
        // A tower or a recurrent layer is divided as the rest of the model is; norms and biases are not, and are small.
        let spread = model.tower || model.recurrent.is_some() || !parts.explained;
        Self {
            parts,
            vocabulary_bytes: scaled(vocabulary, 1, tensor),
            router_bytes: product(&[parts.router, unpacked]),
            tensor,
            key_value: tensor.min(u64::from(model.num_key_value_heads)).max(1),
            // Experts are spread over the replicas of the attention as well.
            experts: tensor.saturating_mul(u64::from(plan.data.max(1))),
            rest: if spread { tensor } else { 1 },
        }
    }

    fn bytes(&self, bits: Bits) -> u64 {
        let parts = self.parts;
        [
            self.vocabulary_bytes,
            self.router_bytes,
            scaled(of_bits(parts.attention, bits.attention), 1, self.tensor),
            scaled(of_bits(parts.key_value, bits.attention), 1, self.key_value),
            of_bits(parts.latent_down, bits.attention),
            scaled(of_bits(parts.dense, bits.dense), 1, self.tensor),
            scaled(of_bits(parts.experts, bits.experts), 1, self.experts),
            scaled(of_bits(parts.rest, bits.rest), 1, self.rest),
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }
}

fn of_bits(parameters: u64, thousandths: u64) -> u64 {
    scaled(parameters, thousandths, 8_000)
}

/// The weights of one rank.
pub(super) fn weights(plan: &Plan<'_>, parts: &Parts) -> Interval {
    // A float32 model is served at 16 bits unless told otherwise.
    let unpacked = match plan.dtype {
        Some(Dtype::Float32) => 2 * PLAIN,
        _ => PLAIN,
    };
    let unpacked_bits = unpacked * 8_000;
    let (_, usual, _) = bits(plan.format);
    let rank = Rank::of(plan, parts, unpacked, usual);
    match plan.format {
        Format::Float16 | Format::GgufF16 | Format::Float32 => {
            let whole = rank.bytes(Bits::all(unpacked_bits));
            let [one, several] = UNPACKED;
            let (lower, expected, upper) = if rank.tensor > 1 { several } else { one };
            around(whole, (lower, expected, upper))
        }
        // Published in this format, experts alone are packed; others pack what they like of a mixture, and all of a
        // model without experts.
        Format::Mxfp4 if parts.experts > 0 => {
            let at = |padding| {
                rank.bytes(Bits {
                    experts: scaled(usual, padding, 1_000),
                    ..Bits::all(unpacked_bits)
                })
            };
            let (lower, expected, upper) = PADDED_EXPERTS;
            let lower = if plan.model.released == Some(Format::Mxfp4) {
                at(lower)
            } else {
                scaled(rank.bytes(Bits::all(usual)), 985, 1_000)
            };
            Interval::new(lower, at(expected), at(upper))
        }
        Format::Fp4Fp8 => {
            let whole = rank.bytes(Bits {
                experts: usual,
                ..Bits::all(8_000)
            });
            around(whole, (1_000, 1_010, 1_100))
        }
        _ if plan.keeps_some_plain(parts) => partly_packed(plan, &rank, unpacked_bits),
        _ => packed(plan, &rank, unpacked_bits),
    }
}

fn around(bytes: u64, (lower, expected, upper): (u64, u64, u64)) -> Interval {
    let at = |thousandths| scaled(bytes, thousandths, 1_000);
    Interval::new(at(lower), at(expected), at(upper))
}

/// A text model, of which every linear layer but the output is packed.
fn packed(plan: &Plan<'_>, rank: &Rank<'_>, unpacked_bits: u64) -> Interval {
    let (least, usual, most) = bits(plan.format);
    let of = |bits, rest| {
        rank.bytes(Bits {
            rest,
            ..Bits::all(bits)
        })
    };
    let rest = if plan.format.is_gguf() || !rank.parts.explained {
        usual
    } else {
        unpacked_bits
    };
    // Eight bits are eight bits; four come with scales, zeros and padding of several kinds.
    let (lower, upper) = match plan.format {
        Format::Fp8 | Format::Int8 | Format::Gptq8 if rank.parts.explained => (990, 1_010),
        _ => (985, 1_015),
    };
    Interval::new(
        scaled(of(least, rest), lower, 1_000),
        of(usual, rest),
        scaled(of(most, unpacked_bits.max(rest)), upper, 1_000),
    )
}

/// A model of which nobody but the publisher knows what was left at 16 bits: tower and recurrent layers, and attention
/// too in NVFP4.
fn partly_packed(plan: &Plan<'_>, rank: &Rank<'_>, unpacked_bits: u64) -> Interval {
    let (least, _, most) = bits(plan.format);
    let lower = rank.bytes(Bits::all(least));
    let attention = if plan.format == Format::Nvfp4 {
        unpacked_bits
    } else {
        most
    };
    let upper = rank.bytes(Bits {
        attention,
        rest: unpacked_bits,
        ..Bits::all(most)
    });
    // Where between the two the published checkpoints lie, in thousandths of the way.
    let usual = match plan.format {
        Format::Nvfp4 if plan.model.latent.is_some() => 1_000,
        Format::Nvfp4 => 500,
        Format::Fp8 | Format::Int8 | Format::Gptq8 => 900,
        _ if plan.model.recurrent.is_none() && rank.parts.explained => 1_000,
        _ => 250,
    };
    let expected = lower.saturating_add(scaled(upper.saturating_sub(lower), usual, 1_000));
    Interval::new(scaled(lower, 985, 1_000), expected, scaled(upper, 1_025, 1_000))
}
