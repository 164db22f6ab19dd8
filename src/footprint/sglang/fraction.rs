//! The fraction that SGLang works out for itself, in the three ways that its releases had.
//!
//! By ranks (0.88 to 0.79); from mid 2025 by the device's memory in steps; since late 2025 (sgl-project/sglang#10975) by
//! what chunks, graphs and ranks are said to take. The last one gives the logged 0.771 of a 16 GB device and 0.911 of a
//! 288 GB one. Which release took which step is not known here, so the answer spans them.

use super::super::Unknown;
use super::super::plan::Plan;
use super::UNCUT;
use crate::units::Mib;

const PPM: u64 = 1_000_000;
/// Half a GiB and more for the constant parts, in MiB.
const CONSTANT: u64 = 512;
/// The least chunk that is counted, in tokens.
const LEAST_CHUNK: u64 = 2_048;
/// What drafts add, and what latent attention and graphs of prefills may, in MiB (newest releases).
const DRAFT: (u64, u64) = (2 << 10, 6 << 10);
const LATENT: u64 = 1_536;
const PREFILL_GRAPHS: u64 = 1_024;
/// Of devices above 60 GiB at least this much is kept, in MiB.
const LARGE: (u64, u64) = (60 << 10, 10 << 10);
/// What a tower takes of the fraction, in thousandths of it: least, usual, most (`adjust_mem_fraction_for_vlm`).
const TOWER: (u64, u64, u64) = (760, 950, 1_000);
/// What newest releases keep for a tower at least, in MiB.
const TOWER_MIB: u64 = 8 << 10;
/// A MIG instance is measured by the whole GPU's memory, which the instance's does not tell; the fraction of the largest.
const MIG_MOST: u64 = 920_000;

/// Tokens of a chunk by the device's memory.
pub(super) fn chunk(total: Mib) -> u64 {
    match total.get() >> 10 {
        0..35 => 2_048,
        35..60 => 4_096,
        60..160 => 8_192,
        _ => 16_384,
    }
}

/// Largest batch that is captured: by memory, and more on four ranks and up.
fn captured(total: Mib, tensor: u64) -> u64 {
    let (few, many) = match total.get() >> 10 {
        0..20 => (8, 8),
        20..35 => (24, 80),
        35..60 => (32, 160),
        60..160 => (256, 512),
        _ => (512, 512),
    };
    if tensor < 4 { few } else { many }
}

/// Millionths of what is free before the load: the least, the newest release's, and the most of all releases.
pub(super) fn of_engine(plan: &Plan<'_>) -> Result<(u64, u64, u64), Unknown> {
    let total = plan.device.total.get();
    let ranks = plan.tensor().saturating_mul(u64::from(plan.pipeline.max(1)));
    let drafts = plan.has_draft_layer();
    let reserved = by_reservation(plan, ranks);
    let (least_draft, most_draft) = if drafts { DRAFT } else { (0, 0) };
    let latent = if plan.model.latent.is_some() { LATENT } else { 0 };
    let mut replicas = 0;
    if plan.data > 1 {
        replicas = captured(plan.device.total, plan.tensor())
            .saturating_mul(u64::from(plan.data))
            .saturating_mul(9)
            / 2;
    }
    let newest = left(total, reserved.saturating_add(least_draft));
    let least = left(
        total,
        [most_draft, latent, PREFILL_GRAPHS, replicas]
            .into_iter()
            .fold(reserved, u64::saturating_add),
    );
    let stepped = left(total, stepped(total, ranks).saturating_add(least_draft));
    let by_ranks = by_ranks(plan.tensor());
    let mut low = least.min(stepped).min(by_ranks);
    let mut usual = newest;
    let mut high = newest.max(stepped).max(by_ranks);
    if plan.device.class.mig {
        high = high.max(MIG_MOST);
    }
    if plan.model.tower && !plan.serving.text_only {
        let (few, some, most) = TOWER;
        low = (low * few / 1_000).min(low.saturating_sub(PPM - left(total, TOWER_MIB)));
        usual = usual * some / 1_000;
        high = high * most / 1_000;
    }
    if high == 0 {
        return Err(Unknown::new(format!(
            "SGLang's own fraction of a device of {total} MiB is none; state --mem-fraction-static"
        )));
    }
    Ok((low.min(usual), usual, high))
}

/// Until mid 2025.
const fn by_ranks(tensor: u64) -> u64 {
    match tensor {
        0 | 1 => 880_000,
        2 | 3 => 870_000,
        4..=7 => 850_000,
        8..=15 => 810_000,
        _ => 790_000,
    }
}

/// In between: MiB that are kept.
const fn stepped(total: u64, ranks: u64) -> u64 {
    match total >> 10 {
        // (2.8 + ranks / 10) GiB
        0..35 => 2_867 + ranks * 1_024 / 10,
        35..90 => 9_728 + ranks * 512,
        90..160 => 12_288 + ranks * 512,
        _ => 32_768,
    }
}

/// Since #10975: MiB that are kept.
fn by_reservation(plan: &Plan<'_>, ranks: u64) -> u64 {
    let total = plan.device.total;
    let chunk = match (plan.serving.chunked_prefill, plan.serving.max_num_batched_tokens) {
        (_, Some(tokens)) => tokens,
        (Some(false), None) => UNCUT,
        (Some(true) | None, None) => chunk(total),
    };
    let reserved = CONSTANT
        .saturating_add(chunk.max(LEAST_CHUNK).saturating_mul(3) / 2)
        .saturating_add(captured(total, plan.tensor()) * 2)
        .saturating_add(ranks.saturating_mul(128));
    let (above, at_least) = LARGE;
    if total.get() > above {
        reserved.max(at_least)
    } else {
        reserved
    }
}

/// Millionths that are left, in whole thousandths as the engine rounds.
fn left(total: u64, reserved: u64) -> u64 {
    let free = u128::from(total.saturating_sub(reserved)) * 1_000 + u128::from(total / 2);
    let thousandths = free.checked_div(u128::from(total)).unwrap_or(0);
    u64::try_from(thousandths).unwrap_or(0).min(1_000) * 1_000
}
