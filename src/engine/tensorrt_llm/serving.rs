//! What TensorRT-LLM's options say about serving: words of the command line, over which the options' file wins.
//!
//! Sources: NVIDIA/TensorRT-LLM `tensorrt_llm/commands/serve.py` and `tensorrt_llm/llmapi/llm_args.py`.

use serde_json::Value;

use super::word;
use crate::engine::plain::{self, Options};
use crate::engine::{Adapters, Draft, Reading};

/// Fills in what the words and `file`, the content of the options' file, say.
pub(super) fn of(options: Options<'_>, file: &Value, reading: &mut Reading) {
    let mut size = |key: &str, names: &[&str]| {
        let field = key.trim_start_matches('/');
        match file.pointer(key) {
            None | Some(Value::Null) => options.count(reading, names, ""),
            Some(Value::Number(number)) => plain::count(reading, field, &number.to_string()),
            Some(Value::String(text)) => plain::count(reading, field, text),
            Some(_) => {
                let reason = "the options' file has no number there".to_owned();
                plain::note(reading, field, reason);
                None
            }
        }
    };
    let requests = size("/max_batch_size", &["--max_batch_size", "--max-batch-size"]);
    let tokens = size("/max_num_tokens", &["--max_num_tokens", "--max-num-tokens"]);
    let experts = size(
        "/moe_expert_parallel_size",
        &[
            "--moe_expert_parallel_size",
            "--ep_size",
            "--expert-parallel-size",
        ],
    );
    let pool = size("/kv_cache_config/max_tokens", &[]);
    let block = size("/kv_cache_config/tokens_per_block", &[]);
    let chunked = match file.get("enable_chunked_prefill") {
        Some(Value::Bool(chunked)) => Some(*chunked),
        _ => options.has(&["--enable_chunked_prefill"]).then_some(true),
    };
    let draft = draft(file, reading);
    let adapters = adapters(file, reading);
    let serving = &mut reading.serving;
    serving.max_num_seqs = requests;
    serving.max_num_batched_tokens = tokens;
    serving.expert_parallel = experts.is_some_and(|ranks| ranks > 1);
    serving.max_total_tokens = pool;
    serving.block_size = block;
    serving.chunked_prefill = chunked;
    serving.draft = draft;
    serving.adapters = adapters;
}

fn draft(file: &Value, reading: &mut Reading) -> Option<Draft> {
    let config = file
        .get("speculative_config")
        .filter(|config| !config.is_null())?;
    let tokens = word(config, "/max_draft_len");
    Some(Draft {
        method: word(config, "/decoding_type"),
        model: word(config, "/speculative_model").or_else(|| word(config, "/speculative_model_dir")),
        tokens: tokens.and_then(|text| plain::number(reading, "speculative_config/max_draft_len", &text)),
    })
}

/// Sizes that are not stated follow from the adapters, which are not read.
fn adapters(file: &Value, reading: &mut Reading) -> Option<Adapters> {
    let config = file.get("lora_config").filter(|config| !config.is_null())?;
    let mut size = |key: &str, field: &str| {
        let Some(text) = word(config, key) else {
            plain::note(
                reading,
                field,
                "it is not stated, and adapters are not read".to_owned(),
            );
            return None;
        };
        plain::count(reading, field, &text)
    };
    let count = size("/max_loras", "lora_config/max_loras");
    let rank = size("/max_lora_rank", "lora_config/max_lora_rank");
    Some(Adapters {
        count: count?,
        rank: rank?,
    })
}
