//! What SGLang's options say about serving, beside the fraction.
//!
//! Sources: sgl-project/sglang `python/sglang/srt/server_args.py`, by release as in `options.tsv`.

use crate::engine::line::LineView;
use crate::engine::serving::Written;
use crate::engine::{Adapters, Draft, Serving, Unresolved};

pub(super) fn of(line: &LineView<'_, '_>, unresolved: &mut Vec<Unresolved>) -> Serving {
    let mut written = Written::new(line, unresolved);
    let mut serving = Serving {
        open: written.open(),
        ..Serving::default()
    };
    if line.parsed.settings.is_empty() {
        return serving;
    }
    serving.max_num_seqs = written.count("--max-running-requests");
    // -1 switches it off.
    match written.integer("--chunked-prefill-size") {
        Some(size) if size > 0 => {
            serving.max_num_batched_tokens = u64::try_from(size).ok();
            serving.chunked_prefill = Some(true);
        }
        Some(_) => serving.chunked_prefill = Some(false),
        None => {}
    }
    serving.block_size = written.count("--page-size");
    serving.max_total_tokens = written.count("--max-total-tokens");
    serving.cpu_offload_bytes = written.gibibytes("--cpu-offload-gb");
    // With DeepEP the experts' group is the tensor parallel one.
    serving.expert_parallel = written.count("--ep-size").is_some_and(|size| size > 1)
        || written.flag("--enable-ep-moe")
        || written.flag("--enable-deepep-moe")
        || written.text("--moe-a2a-backend") == Some("deepep");
    serving.adapters = adapters(line, &mut written);
    serving.draft = draft(&mut written);
    serving.text_only = written.flag("--language-only");
    serving.full_length_cache = written.flag("--disable-hybrid-swa-memory");
    serving.load_format = written
        .text("--load-format")
        .filter(|format| *format != "auto")
        .map(str::to_owned);
    if written
        .text("--json-model-override-args")
        .is_some_and(|text| text.trim() != "{}")
    {
        serving.overrides.push("--json-model-override-args");
    }
    if written.flag("--encoder-only") {
        serving.overrides.push("--encoder-only");
    }
    serving
}

/// Adapters are on with their flag, or with the first path. The rank is that of the adapters where it is not stated, and
/// those are not read.
fn adapters(line: &LineView<'_, '_>, written: &mut Written<'_, '_, '_>) -> Option<Adapters> {
    const RANK: &str = "--max-lora-rank";
    if !written.flag("--enable-lora") && !written.has("--lora-paths") {
        return None;
    }
    let count = if written.has("--max-loras-per-batch") {
        written.count("--max-loras-per-batch")
    } else {
        // 8 in every release.
        line.parsed
            .int("--max-loras-per-batch")
            .and_then(|count| u64::try_from(count).ok())
    };
    if !written.has(RANK) {
        written.note(
            RANK,
            "without it the rank is that of the adapters, which are not read",
        );
    }
    let rank = written.count(RANK);
    Some(Adapters {
        count: count?,
        rank: rank?,
    })
}

fn draft(written: &mut Written<'_, '_, '_>) -> Option<Draft> {
    let method = written.text("--speculative-algorithm").map(str::to_owned);
    let model = written.text("--speculative-draft-model-path").map(str::to_owned);
    let tokens = written.count("--speculative-num-draft-tokens");
    // Nothing is drafted without an algorithm.
    written.has("--speculative-algorithm").then_some(Draft {
        method,
        model,
        tokens,
    })
}
