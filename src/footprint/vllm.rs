//! vLLM: its defaults by device and release, and what lies inside its budget beside the weights.

use super::Unknown;
use super::activation::activation;
use super::estimate::{Bound, Frame, Part, bytes};
use super::interval::{CENTI, GIB, Interval, scaled};
use super::plan::{Length, Plan};
use super::weights::{adapters, draft_layer, weights};
use crate::engine::{Engine, Version};
use crate::units::Fraction;

/// Longest context that the old core profiled in one piece.
const LONGEST_UNCHUNKED: u64 = 32_768;
/// Tokens of a chunk in the old core, and of a batch on small devices.
const SMALL_BATCH: u64 = 2_048;
/// Tokens of a batch on large devices.
const LARGE_BATCH: u64 = 8_192;
/// A context was never seen to take more than this part of a device.
const SMALLEST_CONTEXT: u64 = 13;
/// Sequences on small and on large devices.
const SEQUENCES: (u64, u64) = (256, 1_024);

/// The first release with the new core by default.
const NEW_CORE: Version = Version::new(0, 8, 0);
/// The first release that tells large devices by their memory; before, H100 and H200 by name.
const BY_MEMORY: Version = Version::new(0, 9, 0);
/// The first release without the old core.
const ONLY_NEW_CORE: Version = Version::new(0, 11, 0);
/// The first release whose old core cut contexts above [`LONGEST_UNCHUNKED`] into chunks by itself.
const CUTS_LONG: Version = Version::new(0, 5, 4);
/// The first release that takes its estimate of the graphs from the pool.
pub(super) const ESTIMATES_GRAPHS: Version = Version::new(0, 21, 0);

/// The first release whose default fraction is 0.92; 0.9 before.
const LARGER_FRACTION: Version = Version::new(0, 20, 0);
/// The default fraction before, in millionths.
const SMALLER_FRACTION_PPM: u32 = 900_000;

/// The parts of a start.
pub(super) fn frame(plan: &Plan<'_>) -> Result<Frame, Unknown> {
    let mut parts = vec![
        Part::weights(weights(plan)),
        Part {
            name: "activation",
            bytes: activation(plan),
            source: "batch, sequences and vocabulary",
        },
        Part {
            name: "non-torch",
            bytes: non_torch(plan),
            source: "communicator buffers by ranks",
        },
    ];
    let graphs = graphs_inside(plan);
    if graphs != Interval::ZERO {
        parts.push(Part {
            name: "graphs",
            bytes: graphs,
            source: "set aside from 0.21 on",
        });
    }
    if let Some(adapters) = adapters(plan) {
        parts.push(Part {
            name: "adapters",
            bytes: adapters,
            source: "max_loras x max_lora_rank x adapted matrices",
        });
    }
    let has_draft = plan.has_draft_layer();
    if has_draft {
        parts.push(match plan.draft {
            Some(draft) => Part {
                name: "draft",
                bytes: weights(&plan.of_draft(draft)),
                source: "the draft model's parameters",
            },
            None => Part {
                name: "draft",
                bytes: draft_layer(plan),
                source: "one more layer",
            },
        });
    }
    let drafts = plan.serving.draft.as_ref();
    Ok(Frame {
        parts,
        outside: outside(plan),
        bound: match plan.serving.kv_cache_bytes {
            Some(bytes) => Bound::Pool(bytes),
            None => Bound::of_total(plan)?,
        },
        beside: context(plan),
        asked: None,
        most_pool: None,
        adapts: false,
        notes: Vec::new(),
        // A draft model of unknown size could be anything.
        open: has_draft && drafts.is_some_and(|draft| draft.model.is_some()) && plan.draft.is_none(),
    })
}

/// The smallest default fraction of the releases that are possible; `fraction` is the largest of them.
pub(super) fn least_default_fraction(plan: &Plan<'_>, fraction: Fraction) -> Fraction {
    match Fraction::from_ppm(SMALLER_FRACTION_PPM) {
        Some(smaller) if !plan.is_from(LARGER_FRACTION) && smaller.ppm() < fraction.ppm() => smaller,
        _ => fraction,
    }
}

/// Whether the old core runs; `None` where it depends on what is not known.
pub(super) fn is_legacy(plan: &Plan<'_>) -> Option<bool> {
    if plan.engine != Engine::Vllm {
        return Some(false);
    }
    if plan.releases.legacy.is_some() {
        return plan.releases.legacy;
    }
    if plan.is_from(ONLY_NEW_CORE) {
        Some(false)
    } else if plan.is_before(NEW_CORE) {
        Some(true)
    } else if plan.is_from(NEW_CORE) && !plan.device.class.before_ampere {
        Some(false)
    } else {
        None
    }
}

/// Whether the device gets the defaults of large ones; `None` where that is not known. Until 0.9 the name decided.
fn is_large(plan: &Plan<'_>) -> Option<bool> {
    let by_memory = plan.device.is_large();
    if plan.is_before(BY_MEMORY) && by_memory == Some(true) && !plan.device.class.h100 {
        return None;
    }
    by_memory
}

/// Sequences that are profiled at once.
pub(super) fn sequences(plan: &Plan<'_>) -> Interval {
    if let Some(sequences) = plan.serving.max_num_seqs {
        return Interval::exactly(sequences);
    }
    let (small, large) = SEQUENCES;
    match (is_legacy(plan), is_large(plan)) {
        (Some(true), _) | (_, Some(false)) => Interval::exactly(small),
        (Some(false), Some(true)) => Interval::exactly(large),
        (Some(false), None) => Interval::new(small, large, large),
        (None, _) => Interval::new(small, small, large),
    }
}

/// Tokens of one forward pass.
pub(super) fn batch_tokens(plan: &Plan<'_>) -> Interval {
    let length = plan.longest();
    let off = plan.serving.chunked_prefill == Some(false);
    let given = plan.serving.max_num_batched_tokens;
    if is_legacy(plan) == Some(true) {
        let long = length > LONGEST_UNCHUNKED
            && !plan.model.tower
            && plan.model.sliding_window.is_none()
            && plan.serving.adapters.is_none()
            && plan.serving.draft.is_none()
            && !plan.is_before(CUTS_LONG);
        let chunked = plan.serving.chunked_prefill.unwrap_or(long);
        return Interval::exactly(match (chunked, given) {
            (true, given) => given.unwrap_or(SMALL_BATCH),
            (false, given) => given.unwrap_or(0).max(length).max(SMALL_BATCH),
        });
    }
    let tokens = given.map_or_else(
        || match is_large(plan) {
            Some(true) => Interval::exactly(LARGE_BATCH),
            Some(false) => Interval::exactly(SMALL_BATCH),
            None => Interval::new(SMALL_BATCH, LARGE_BATCH, LARGE_BATCH),
        },
        Interval::exactly,
    );
    let tokens = if off {
        tokens.or_more(Interval::exactly(length))
    } else {
        tokens
    };
    if is_legacy(plan).is_none() && plan.length != Length::Auto && length <= LONGEST_UNCHUNKED {
        return Interval::new(tokens.lower(), tokens.expected(), tokens.upper().max(length));
    }
    tokens
}

/// What lies inside the budget without being PyTorch's: the communicator's buffers by ranks. Measured: 0.01 to 0.35 GiB
/// on one device, 0.5 to 0.75 on two, 0.2 to 1.7 on four, 1.8 to 2.1 on eight.
pub(super) fn non_torch(plan: &Plan<'_>) -> Interval {
    Interval::of_hundredths(match plan.ranks() {
        0 | 1 => (0, 14, 30),
        2 => (20, 65, 80),
        3 | 4 => (20, 140, 175),
        _ => (100, 195, 220),
    })
}

/// Graphs inside the budget: what releases from 0.21 on set aside for them. The estimate exceeds what they take.
pub(super) fn graphs_inside(plan: &Plan<'_>) -> Interval {
    if plan.eager || plan.serving.estimates_graphs == Some(false) || plan.is_before(ESTIMATES_GRAPHS) {
        return Interval::ZERO;
    }
    let certain = plan.is_from(ESTIMATES_GRAPHS);
    let expected = if certain { 40 } else { 0 };
    Interval::new(0, expected * CENTI, 60 * CENTI)
}

/// What the process takes outside of its budget: the CUDA context and the communicator, and graphs where they lie
/// outside. Measured contexts: 0.41 to 0.61 GiB on one device, 0.9 to 1.54 on several.
pub(super) fn outside(plan: &Plan<'_>) -> Interval {
    let context = if plan.ranks() > 1 {
        Interval::new(80 * CENTI, 110 * CENTI, 155 * CENTI)
    } else {
        Interval::new(40 * CENTI, 50 * CENTI, 62 * CENTI)
    };
    if plan.eager || plan.is_from(ESTIMATES_GRAPHS) {
        return context;
    }
    context.plus(Interval::new(0, 40 * CENTI, GIB))
}

/// The least that must be left of the device beside the budget: the context of the process.
pub(super) fn context(plan: &Plan<'_>) -> u64 {
    let usual = if plan.ranks() > 1 { 80 } else { 50 } * CENTI;
    // A context grows with the device: those of 8 GB and less have smaller ones.
    usual.min(bytes(plan.device.least_total) / SMALLEST_CONTEXT)
}

/// Scales by thousandths.
pub(super) fn thousandths(bytes: u64, thousandths: u64) -> u64 {
    scaled(bytes, thousandths, 1_000)
}
