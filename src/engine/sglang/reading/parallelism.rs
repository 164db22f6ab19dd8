//! Parallel sizes, and the devices that one pod uses.

use crate::engine::Parallelism;
use crate::engine::argparse::Parsed;
use crate::engine::argparse::value::Value;
use crate::engine::reader::Context;

/// Parallel sizes, and the devices of this pod: this node's share of `TP x PP x DP`. With DP attention the replicas share
/// the devices of the tensor parallel group.
pub(super) fn of(context: &Context<'_>, parsed: &Parsed<'_>) -> Parallelism {
    let size = |option: &str| {
        let int = parsed.int(option).unwrap_or(1).max(1);
        u32::try_from(int).unwrap_or(u32::MAX)
    };
    let (tensor, pipeline, data) = (size("--tp-size"), size("--pp-size"), size("--dp-size"));
    let nodes = size("--nnodes");
    let replicas = if parsed.flag("--enable-dp-attention") {
        1
    } else {
        data
    };
    let world = tensor.saturating_mul(pipeline).saturating_mul(replicas);
    let mut devices = world.div_ceil(nodes);
    // Sizes that are not known may make use of every device that there is.
    let is_open = |option: &str| {
        parsed
            .last(option)
            .is_some_and(|setting| setting.value == Value::Unresolved)
    };
    if let Some(slots) = context.slots()
        && ["--tp-size", "--pp-size", "--dp-size"].into_iter().any(is_open)
    {
        devices = devices.max(slots);
    }
    // The size of the group is not known before it exists: the ranks beyond this pod's devices are elsewhere.
    let unknown_nodes = parsed
        .last("--nnodes")
        .is_some_and(|setting| setting.value == Value::Unresolved);
    if let Some(slots) = context.slots().filter(|_| unknown_nodes) {
        devices = devices.min(slots);
    }
    Parallelism {
        tensor,
        pipeline,
        data,
        data_local: data.div_ceil(nodes),
        devices,
    }
}

/// The number of devices that must be visible for the pod's ranks: those from `--base-gpu-id` on in steps of
/// `--gpu-id-step`.
pub(super) fn visible(parsed: &Parsed<'_>, devices: u32) -> u32 {
    let at_least = |option: &str, least: i128| {
        let int = parsed.int(option).unwrap_or(least).max(least);
        u32::try_from(int).unwrap_or(u32::MAX)
    };
    let (base, step) = (at_least("--base-gpu-id", 0), at_least("--gpu-id-step", 1));
    match devices.checked_sub(1) {
        Some(more) => base.saturating_add(step.saturating_mul(more)).saturating_add(1),
        None => 0,
    }
}
