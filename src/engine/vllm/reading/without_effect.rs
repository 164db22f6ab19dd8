//! Words that the script decides on, and that change nothing of a reading whatever it decides.

use crate::engine::vllm::options::{self, Entrypoint};
use crate::invocation::{Certainty, Word};

/// Options that a reading depends on.
const READ: [&str; 32] = [
    "--gpu-memory-utilization",
    "--kv-cache-memory-bytes",
    "--num-gpu-blocks-override",
    "--tensor-parallel-size",
    "--pipeline-parallel-size",
    "--prefill-context-parallel-size",
    "--decode-context-parallel-size",
    "--data-parallel-size",
    "--data-parallel-size-local",
    "--data-parallel-rank",
    "--data-parallel-external-lb",
    "--data-parallel-hybrid-lb",
    "--data-parallel-backend",
    "--nnodes",
    "--node-rank",
    "--headless",
    "--distributed-executor-backend",
    "--max-model-len",
    "--max-num-seqs",
    "--max-num-batched-tokens",
    "--dtype",
    "--quantization",
    "--kv-cache-dtype",
    "--model",
    "--served-model-name",
    "--config",
    "--enforce-eager",
    "--compilation-config",
    "--optimization-level",
    "--device",
    "--load-format",
    "--speculative-config",
];

/// The words without those that are one of several known texts, none of which sets anything that is read here.
pub(super) fn without_effect<'w>(words: &[Word<'w>], entrypoint: Entrypoint) -> Option<Vec<Word<'w>>> {
    let newest = options::releases().len().saturating_sub(1);
    let release = options::release(newest, entrypoint)?;
    let harmless = |text: &String| {
        let mut after_option = false;
        text.split_whitespace().all(|part| {
            if !part.starts_with('-') {
                return after_option;
            }
            after_option = true;
            let name = part.split('=').next().unwrap_or(part).replace('_', "-");
            // An abbreviation could be any option.
            release.named(&name).is_some() && !READ.contains(&name.as_str()) && name.starts_with("--")
        })
    };
    let has_none = |word: &Word<'_>| {
        word.certainty == Certainty::Many
            && !word.alternatives.is_empty()
            && word.alternatives.iter().all(harmless)
    };
    words
        .iter()
        .any(has_none)
        .then(|| words.iter().filter(|word| !has_none(word)).cloned().collect())
}
