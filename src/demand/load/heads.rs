//! VG110: a tensor parallel size that the attention heads of a model cannot be divided by.

use crate::demand::{Claim, Load};
use crate::engine::Engine;
use crate::finding::{Code, Finding, Number, short};
use crate::model::Model;

/// Divisors above this many ranks are not named: no node has so many devices.
const MOST_RANKS: u32 = 64;

/// What is told of a claim's engines. vLLM: "Total number of attention heads must be divisible by tensor parallel size"
/// (`config/model.py`, `verify_with_parallel_config`); SGLang asserts the same when it builds the layers.
pub(crate) fn findings(claim: &Claim) -> Vec<Finding> {
    let parts = claim.parts.iter();
    let undivided = parts.filter_map(|part| {
        let load = part.load.as_deref()?;
        let divides = matches!(part.engine, Engine::Vllm | Engine::Sglang);
        if !divides || !load.way().is_certain() {
            return None;
        }
        Some((part, finding(claim, load)?))
    });
    undivided
        .map(|(part, finding)| Finding {
            path: part.path.clone(),
            ..finding
        })
        .collect()
}

fn finding(claim: &Claim, load: &Load) -> Option<Finding> {
    let tensor = load.tensor();
    let heads = load.model().num_attention_heads;
    // The count stops at the largest; such a size is told as one that no cluster has devices for (VG107).
    if tensor <= 1 || tensor == u32::MAX || heads == 0 || heads.is_multiple_of(tensor) {
        return None;
    }
    let (below, above) = neighbours(load.model(), tensor);
    let instead = match (below, above) {
        (Some(below), Some(above)) => format!("{below} and {above} do"),
        (Some(one), None) | (None, Some(one)) => format!("{one} does"),
        (None, None) => "no other size does".to_owned(),
    };
    let message = format!(
        "container {}: tensor parallel {tensor} does not divide the {heads} attention heads of {}; {instead}",
        short(&claim.container),
        short(load.name()),
    );
    let finding = Finding::new(Code::Vg110, claim.path.clone(), message)
        .detail(format!(
            "the engine stops at start; the model was found {}",
            load.way()
        ))
        .number("tensorParallel", Number::Count(u64::from(tensor)))
        .number("attentionHeads", Number::Count(u64::from(heads)));
    Some(finding)
}

/// The nearest sizes that divide the heads, below and above.
fn neighbours(model: &Model, tensor: u32) -> (Option<u32>, Option<u32>) {
    let divides = |size: &u32| model.num_attention_heads.is_multiple_of(*size);
    let below = (1..tensor.min(MOST_RANKS)).rev().find(divides);
    let above = (tensor.saturating_add(1)..=MOST_RANKS).find(divides);
    (below, above)
}
