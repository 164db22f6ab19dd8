//! Parallel sizes, and the devices that one pod uses.

use super::super::parse::Parsed;
use crate::engine::Parallelism;
use crate::engine::argparse::value::Value;
use crate::engine::ray::is_group_script;
use crate::engine::reader::Context;
use crate::invocation::Command;

/// Options that the number of devices grows with.
const SIZES: [&str; 5] = [
    "--tensor-parallel-size",
    "--pipeline-parallel-size",
    "--prefill-context-parallel-size",
    "--data-parallel-size",
    "--data-parallel-size-local",
];

/// Parallel sizes, and the devices of this pod: `TP x PP x PCP x local DP`, or the share of one node.
pub(super) fn of(context: &Context<'_>, command: &Command<'_>, parsed: &Parsed<'_>) -> Parallelism {
    let size = |option: &str| {
        let int = parsed.int(option).unwrap_or(1).max(1);
        u32::try_from(int).unwrap_or(u32::MAX)
    };
    let (tensor, pipeline) = (size("--tensor-parallel-size"), size("--pipeline-parallel-size"));
    let context_parallel = size("--prefill-context-parallel-size");
    let data = size("--data-parallel-size");
    let nodes = size("--nnodes");
    let ranked =
        parsed.int("--data-parallel-rank").is_some() && parsed.last("--data-parallel-rank").is_some();
    let data_local = match parsed.int("--data-parallel-size-local") {
        // A front end without engines of its own.
        Some(0) => 0,
        Some(local) => u32::try_from(local.max(1)).unwrap_or(u32::MAX),
        None if ranked || parsed.flag("--data-parallel-external-lb") => 1,
        None => data,
    };
    let world = tensor.saturating_mul(pipeline).saturating_mul(context_parallel);
    let mut devices = if nodes > 1 {
        world.saturating_mul(data).div_ceil(nodes)
    } else {
        world.saturating_mul(data_local)
    };
    // Sizes that are not known may make use of every device that there is.
    let is_open = |option: &str| {
        parsed
            .last(option)
            .is_some_and(|setting| setting.value == Value::Unresolved)
    };
    if let Some(slots) = context.slots()
        && SIZES.into_iter().any(is_open)
    {
        devices = devices.max(slots);
    }
    // With Ray the ranks beyond this pod's devices are in other pods of the group.
    if let Some(slots) = context.slots()
        && devices > slots
        && spans_pods(context, command, parsed)
    {
        devices = slots;
    }
    Parallelism {
        tensor,
        pipeline,
        data,
        data_local,
        devices,
    }
}

/// Whether other pods carry a part of the ranks: Ray was started or joined before, or the group says so.
fn spans_pods(context: &Context<'_>, command: &Command<'_>, parsed: &Parsed<'_>) -> bool {
    let starts_ray = |other: &Command<'_>| {
        other.words.iter().take(2).any(|word| {
            let name = crate::invocation::prefix::base_name(&word.text);
            name == "ray" || is_group_script(name)
        })
    };
    let before = context
        .invocation
        .commands
        .iter()
        .filter(|other| !std::ptr::eq(*other, command));
    before.clone().any(starts_ray) || parsed.text("--data-parallel-backend") == Some("ray")
}
