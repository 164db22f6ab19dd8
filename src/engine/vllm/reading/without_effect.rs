//! Words that the script decides on, and that change nothing of a reading whatever it decides.

use super::serving;
use crate::engine::vllm::options::{self, Entrypoint};
use crate::engine::{Reading, Resolvable, Unresolved};
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

/// A command line without the words that change no amount that a review counts.
pub(super) struct Settled<'w> {
    pub(super) words: Vec<Word<'w>>,
    /// Options among the words left out that say something about serving, each with the reason why it is not known
    /// whether they stand there.
    undecided: Vec<(&'static str, String)>,
}

impl Settled<'_> {
    /// Notes in a reading what the script decides on.
    pub(super) fn note(&self, reading: &mut Reading) {
        for (option, reason) in &self.undecided {
            let field = option.trim_start_matches('-');
            if reading.unresolved.iter().all(|known| known.field != field) {
                reading.unresolved.push(Unresolved {
                    field: field.to_owned(),
                    reason: reason.clone(),
                    decides_memory: false,
                });
            }
        }
        if !self.undecided.is_empty() && reading.resolvable == Resolvable::Full {
            reading.resolvable = Resolvable::Partial;
        }
    }
}

/// The words without those that are one of several known texts, none of which sets anything that an amount hangs on.
pub(super) fn without_effect<'w>(words: &[Word<'w>], entrypoint: Entrypoint) -> Option<Settled<'w>> {
    let newest = options::releases().len().saturating_sub(1);
    let release = options::release(newest, entrypoint)?;
    let option_of = |part: &str| part.split('=').next().unwrap_or(part).replace('_', "-");
    let harmless = |text: &String| {
        let mut after_option = false;
        text.split_whitespace().all(|part| {
            if !part.starts_with('-') {
                return after_option;
            }
            after_option = true;
            let name = option_of(part);
            // An abbreviation could be any option.
            release.named(&name).is_some() && !READ.contains(&name.as_str()) && name.starts_with("--")
        })
    };
    let has_none = |word: &Word<'_>| {
        word.certainty == Certainty::Many
            && !word.alternatives.is_empty()
            && word.alternatives.iter().all(harmless)
    };
    if !words.iter().any(has_none) {
        return None;
    }
    let mut undecided: Vec<(&'static str, String)> = Vec::new();
    for word in words.iter().filter(|word| has_none(word)) {
        let parts = word.alternatives.iter().flat_map(|text| text.split_whitespace());
        for part in parts.filter(|part| part.starts_with("--")) {
            let name = option_of(part);
            let Some(option) = release.named(&name).map(|option| option.name) else {
                continue;
            };
            if serving::READ.contains(&option) && undecided.iter().all(|(known, _)| *known != option) {
                let reason = word.reason.as_deref().unwrap_or("the script decides on it");
                undecided.push((option, reason.to_owned()));
            }
        }
    }
    Some(Settled {
        words: words.iter().filter(|word| !has_none(word)).cloned().collect(),
        undecided,
    })
}
