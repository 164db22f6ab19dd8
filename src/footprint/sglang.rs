//! SGLang: a part of what is free before it loads, for weights and pool; activations and graphs live in the rest.
//!
//! Sources: sgl-project/sglang `model_executor/model_runner.py` (`rest = available - free_before x (1 - fraction)`) and
//! `server_args.py`; the rule gives the pools of the logs to a percent where the free memory was printed.

use super::Unknown;
use super::activation;
use super::asked::{Asked, LocalPart, stated_pool};
use super::estimate::{Bound, Frame, Part, bytes};
use super::interval::{CENTI, Interval, scaled};
use super::plan::Plan;
use super::weights::{adapters, weights};

mod fraction;

/// What is taken of the device before the engine asks what is free: the CUDA context, and the communicator where there
/// are several ranks. Measured: 0.36 GiB on one device, between 0.4 and 3.0 on four.
const BEFORE: [(u64, u64, u64); 2] = [(20, 40, 70), (40, 120, 310)];
/// Graphs: 0.03 to 1.44 GiB were printed.
const GRAPHS: (u64, u64, u64) = (0, 50, 200);
/// Activations for each token of a chunk by the engine's own reservation, in bytes (1.5 MiB).
const RESERVED_PER_TOKEN: u64 = 3 << 19;
/// Tokens of a prefill that is not cut (`--max-prefill-tokens`).
const UNCUT: u64 = 16_384;
/// Pool of states beside that of tokens, in thousandths of it (`--mamba-full-memory-ratio` 0.9: a log has 4.88 GiB beside
/// 5.42).
const STATES: u64 = 900;
/// Room of local layers, in thousandths of that of the others (`--swa-full-tokens-ratio` 0.8).
const LOCAL: LocalPart = LocalPart { expected: 800 };

/// Longer requests than the pool are refused one by one; the engine itself starts.
const SMALLER_POOL: &str = "SGLang starts with a pool smaller than the context and refuses longer requests one by one; it \
                            ends only where weights leave nothing";
/// The replicas of the attention are not read.
const REPLICAS: &str =
    "whether data-parallel replicas share the experts is not read: the estimate spans both";

/// The parts of a start.
pub(super) fn frame(plan: &Plan<'_>) -> Result<Frame, Unknown> {
    let mut parts = vec![Part::weights(loaded(plan))];
    if let Some(adapters) = adapters(plan) {
        parts.push(Part {
            name: "adapters",
            bytes: adapters,
            source: "max_loras_per_batch x max_lora_rank x adapted matrices",
        });
    }
    let before = before(plan);
    let rest = activations(plan).plus(graphs(plan));
    let asked = asked(plan);
    let mut notes = vec![SMALLER_POOL];
    if plan.data > 1 {
        notes.push(REPLICAS);
    }
    Ok(Frame {
        parts,
        outside: before.plus(rest),
        bound: Bound::Between(budget(plan, before)?),
        // The engine's own fraction leaves room for the rest by its making.
        beside: plan.fraction.as_ref().map_or(0, |_| before.plus(rest).expected()),
        // The draft's weights and graphs live in the rest.
        open: plan.has_draft_layer(),
        most_pool: stated_pool(plan, &asked),
        asked: Some(asked),
        adapts: false,
        notes,
    })
}

/// Weights of a rank. With `--enable-dp-attention` each rank holds the attention of one replica, whose ranks are fewer;
/// without, replicas share nothing.
fn loaded(plan: &Plan<'_>) -> Interval {
    if plan.data <= 1 {
        return weights(plan);
    }
    let alone = weights(&alone(plan));
    alone.widened(weights(&of_replica(plan)))
}

/// The plan of a replica that shares nothing.
fn alone<'a>(plan: &Plan<'a>) -> Plan<'a> {
    Plan {
        data: 1,
        ..plan.clone()
    }
}

/// The plan of one replica's attention, over its part of the ranks.
fn of_replica<'a>(plan: &Plan<'a>) -> Plan<'a> {
    Plan {
        tensor: (plan.tensor / plan.data.max(1)).max(1),
        // Experts stay spread over all ranks.
        ..plan.clone()
    }
}

fn asked(plan: &Plan<'_>) -> Asked {
    let page = plan.serving.block_size.unwrap_or(1);
    let local = if plan.serving.full_length_cache {
        LocalPart::ALL
    } else {
        LOCAL
    };
    let mut asked = Asked::by_tokens(&alone(plan), local, page);
    if plan.data > 1 {
        let replica = Asked::by_tokens(&of_replica(plan), local, page);
        asked.need = asked.need.widened(replica.need);
    }
    if plan.model.recurrent.is_some() {
        // Tokens get what the states leave.
        let with_states = |bytes: u64| scaled(bytes, 1_000 + STATES, 1_000);
        asked.need = Interval::new(
            asked.need.lower(),
            with_states(asked.need.expected()),
            with_states(asked.need.upper()),
        );
    }
    asked
}

fn before(plan: &Plan<'_>) -> Interval {
    let [alone, several] = BEFORE;
    Interval::of_hundredths(if plan.tensor > 1 { several } else { alone })
}

/// Weights and pool: the fraction of what is free before the load.
fn budget(plan: &Plan<'_>, before: Interval) -> Result<Interval, Unknown> {
    let total = bytes(plan.device.total);
    let least = bytes(plan.device.least_total.min(plan.device.total));
    let (low, usual, high) = match &plan.fraction {
        Some(fraction) => {
            let ppm = u64::from(fraction.ppm());
            (ppm, ppm, ppm)
        }
        None => fraction::of_engine(plan)?,
    };
    let of = |free: u64, ppm: u64| {
        let bytes = u128::from(free) * u128::from(ppm) / 1_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    };
    Ok(Interval::new(
        of(least.saturating_sub(before.upper()), low),
        of(least.saturating_sub(before.expected()), usual),
        of(total.saturating_sub(before.lower()), high),
    ))
}

/// Tokens of one prefill.
fn chunk(plan: &Plan<'_>) -> u64 {
    match (plan.serving.chunked_prefill, plan.serving.max_num_batched_tokens) {
        (_, Some(tokens)) => tokens,
        (Some(false), None) => UNCUT,
        (Some(true) | None, None) => fraction::chunk(plan.device.total),
    }
}

fn activations(plan: &Plan<'_>) -> Interval {
    let tokens = chunk(plan);
    let pass = activation::pass(plan, tokens);
    Interval::new(
        10 * CENTI,
        pass.max(10 * CENTI),
        pass.saturating_mul(2)
            .max(tokens.saturating_mul(RESERVED_PER_TOKEN))
            .max(10 * CENTI),
    )
}

fn graphs(plan: &Plan<'_>) -> Interval {
    if plan.eager {
        return Interval::ZERO;
    }
    Interval::of_hundredths(GRAPHS)
}

#[cfg(test)]
mod tests;
