//! llama.cpp: everything is stated. The layers on the device, a cache of the whole context, and a buffer for one pass.
//!
//! Sources: the buffers that start-up logs print (six of them stand in the tests of the modules below), and ggml-org/llama.cpp
//! `src/llama-model.cpp` (which layer lies where), `src/llama-context.cpp`, `src/llama-kv-cache*.cpp`, `common/arg.cpp`.

use super::Unknown;
use super::asked::Asked;
use super::estimate::{Bound, Frame, Part};
use super::interval::Interval;
use super::plan::Plan;

mod cache;
mod compute;
mod placing;
mod weights;

use placing::Placing;

/// The CUDA context and cuBLAS: 0.2 to 0.5 GiB lay outside of the printed buffers.
const CONTEXT: (u64, u64, u64) = (20, 35, 50);

const ADAPTS: &str = "where --gpu-layers is not stated llama.cpp leaves layers in host memory, and shortens a context that is \
                      not stated, until the rest fits: it starts, and is slower";
const SPLIT: &str =
    "the split over devices is taken as even; --tensor-split and --split-mode row are not read";

/// The parts of a start.
pub(super) fn frame(plan: &Plan<'_>) -> Result<Frame, Unknown> {
    if !plan.format.is_gguf() {
        return Err(Unknown::new(format!(
            "llama.cpp loads GGUF files; how the one of a model in {} is quantised is not known",
            plan.format
        )));
    }
    // One process holds all layers of its devices; nothing is divided over ranks.
    let plan = &Plan {
        tensor: 1,
        pipeline: 1,
        data: 1,
        ..plan.clone()
    };
    let placing = Placing::of(plan);
    let cache = cache::Cache::of(plan)?;
    let need = cache.on_device(plan, &placing);
    let mut notes = Vec::new();
    if plan.adapts {
        notes.push(ADAPTS);
    }
    if plan.devices > 1 {
        notes.push(SPLIT);
    }
    Ok(Frame {
        parts: vec![
            Part {
                name: "weights",
                bytes: weights::weights(plan, &placing),
                source: "layers on the device, and the output where all are",
            },
            Part {
                name: "compute",
                bytes: compute::compute(plan, &placing),
                source: "physical batch x vocabulary, masks and scores",
            },
        ],
        outside: Interval::of_hundredths(CONTEXT),
        bound: Bound::Device,
        beside: 0,
        // The draft's weights and its cache are not read.
        open: plan.has_draft_layer(),
        asked: Some(Asked {
            need,
            row_bytes: cache.row_bytes(&placing),
            starts_with: need.lower(),
        }),
        most_pool: None,
        adapts: plan.adapts,
        notes,
    })
}

#[cfg(test)]
mod tests;
