//! Where the values of a reading of TensorRT-LLM come from: the file of options before the command line.

use serde_json::Value;

use super::FLAGS;
use crate::engine::plain::{Options, positional};
use crate::engine::provenance::plain::{self, Entry, Otherwise};
use crate::engine::provenance::{Origin, Place, file, replace, word};
use crate::engine::reader::Flag;
use crate::engine::{MemorySource, Reading};
use crate::finding::shortened;
use crate::invocation::Word;

/// Values that the command line may hold.
const ENTRIES: [Entry; 9] = [
    Entry::new(
        "model",
        &["--model-path", "--model"],
        &["DYN_TRTLLM_MODEL"],
        Otherwise::Nothing,
    ),
    Entry::new(
        "memory",
        &[
            "--free_gpu_memory_fraction",
            "--kv_cache_free_gpu_memory_fraction",
            "--free-gpu-memory-fraction",
        ],
        &["DYN_TRTLLM_FREE_GPU_MEMORY_FRACTION"],
        Otherwise::Default("0.9"),
    ),
    Entry::new(
        "tensor-parallel-size",
        &["--tp_size", "--tensor_parallel_size", "--tensor-parallel-size"],
        &["DYN_TRTLLM_TENSOR_PARALLEL_SIZE"],
        Otherwise::Default("1"),
    ),
    Entry::new(
        "pipeline-parallel-size",
        &[
            "--pp_size",
            "--pipeline_parallel_size",
            "--pipeline-parallel-size",
        ],
        &["DYN_TRTLLM_PIPELINE_PARALLEL_SIZE"],
        Otherwise::Default("1"),
    ),
    Entry::new(
        "max-model-len",
        &["--max_seq_len", "--max-seq-len"],
        &["DYN_TRTLLM_MAX_SEQ_LEN"],
        Otherwise::Model,
    ),
    Entry::new("dtype", &[], &[], Otherwise::Default("auto")),
    Entry::new("kv-cache-dtype", &[], &[], Otherwise::Default("auto")),
    Entry::new(
        "max-num-seqs",
        &["--max_batch_size", "--max-batch-size"],
        &[],
        Otherwise::Nothing,
    ),
    Entry::new(
        "max-num-batched-tokens",
        &["--max_num_tokens", "--max-num-tokens"],
        &[],
        Otherwise::Nothing,
    ),
];

/// Keys of the file: the field, the key, and the one below it.
const KEYS: [(&str, &str, Option<&str>); 8] = [
    ("memory", "kv_cache_config", Some("free_gpu_memory_fraction")),
    ("tensor-parallel-size", "tensor_parallel_size", None),
    ("pipeline-parallel-size", "pipeline_parallel_size", None),
    ("max-model-len", "max_seq_len", None),
    ("dtype", "dtype", None),
    ("kv-cache-dtype", "kv_cache_config", Some("dtype")),
    ("max-num-seqs", "max_batch_size", None),
    ("max-num-batched-tokens", "max_num_tokens", None),
];

/// `files` are the spellings of the option that names the file, `in_file` what it holds.
pub(super) fn add(on_line: Options<'_>, files: &[&str], in_file: &Value, reading: &mut Reading) {
    let context = on_line.context;
    if !context.explains {
        return;
    }
    let mut list = plain::of(on_line, &ENTRIES);
    let first: Option<&Word<'_>> = positional(on_line.words, FLAGS);
    if let Some(first) = first
        && list.iter().all(|known| known.field != "model")
    {
        list.splice(0..0, plain::positional(context, "model", first));
    }
    if let Some(flag) = Flag::last(on_line.words, files).filter(|flag| flag.known) {
        let body = context.file(flag.text).unwrap_or_default();
        let described = file::described(context, flag.text);
        let written = shortened(flag.text, 120);
        let named = word::place(context, flag.word, &written, word::Outside::Unsaid);
        for (field, key, inner) in KEYS {
            let value = in_file.get(key).and_then(|value| match inner {
                Some(inner) => value.get(inner),
                None => Some(value),
            });
            let text = match value {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Number(number)) => number.to_string(),
                _ => continue,
            };
            let detail = match file::line_of(body, &|outer| outer == key, inner) {
                Some(line) => format!("line {line} of {described}"),
                None => described.clone(),
            };
            let place = Place {
                from: Origin::ConfigFile,
                path: named.path.clone(),
                detail,
            };
            replace(&mut list, place.of(field, Some(&text)));
        }
        if reading.memory.source == MemorySource::Unresolved
            && let Some(unresolved) = reading.unresolved.iter().find(|known| known.decides_memory)
        {
            let place = Place {
                from: Origin::Unresolved,
                path: named.path,
                detail: unresolved.reason.clone(),
            };
            replace(&mut list, place.of("memory", None));
        }
    }
    reading.provenance = list;
}
