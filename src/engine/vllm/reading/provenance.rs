//! Where the values of a reading of vLLM come from.

use super::super::{Start, wrapper};
use super::{FRACTION, Line};
use crate::engine::provenance::line::{Gathered, Tables, Unset};
use crate::engine::provenance::word::Outside;
use crate::engine::provenance::{Origin, Place, replace};
use crate::engine::reader::Context;
use crate::engine::triton::backend::VLLM as TRITON;
use crate::engine::vllm::options::{self, Entrypoint};
use crate::engine::{MemorySource, Provenance, Reading};
use crate::invocation::{Command, Word};

/// Values that a reading always has, with the option of each.
const ALWAYS: [(&str, &str, Unset); 7] = [
    ("tensor-parallel-size", "--tensor-parallel-size", Unset::Model),
    ("pipeline-parallel-size", "--pipeline-parallel-size", Unset::Model),
    ("data-parallel-size", "--data-parallel-size", Unset::Model),
    ("max-model-len", "--max-model-len", Unset::Model),
    ("quantization", "--quantization", Unset::Model),
    ("dtype", "--dtype", Unset::Model),
    ("kv-cache-dtype", "--kv-cache-dtype", Unset::Model),
];

/// What else a reading holds where it is written, with the options of each, the one that wins first.
const WRITTEN: [(&str, &[&str]); 16] = [
    (
        "eager",
        &["--enforce-eager", "--optimization-level", "--compilation-config"],
    ),
    ("max-num-seqs", &["--max-num-seqs"]),
    ("max-num-batched-tokens", &["--max-num-batched-tokens"]),
    ("block-size", &["--block-size"]),
    ("kv-cache-bytes", &["--kv-cache-memory-bytes"]),
    ("kv-cache-blocks", &["--num-gpu-blocks-override"]),
    ("cpu-offload-bytes", &["--cpu-offload-gb"]),
    ("expert-parallel", &["--enable-expert-parallel"]),
    ("chunked-prefill", &["--enable-chunked-prefill"]),
    ("text-only", &["--language-model-only"]),
    ("excluded-inputs", &["--limit-mm-per-prompt"]),
    (
        "full-length-cache",
        &["--disable-hybrid-kv-cache-manager", "--kv-transfer-config"],
    ),
    ("load-format", &["--load-format"]),
    ("hf-overrides", &["--hf-overrides", "--hf-config-path"]),
    ("encoder-only", &["--mm-encoder-only"]),
    ("offload-group-size", &["--offload-group-size"]),
];

pub(super) fn of(
    context: &Context<'_>,
    command: &Command<'_>,
    line: &Line<'_>,
    reading: &Reading,
    start: Start,
    given: &[Word<'_>],
) -> Vec<Provenance> {
    let entrypoint = line.parsed.entrypoint;
    let view = line.view();
    let outside = match start {
        Start::Wrapper(wrapper::KAITO) => wrapper::kaito_file(given).map_or(Outside::Unsaid, Outside::File),
        Start::Wrapper(TRITON) => Outside::Options("model.json"),
        Start::Wrapper(name) if name != wrapper::NIM => Outside::Program {
            name,
            adds: if name == wrapper::HUGGINGFACE {
                "--model=/mnt/models"
            } else {
                ""
            },
        },
        _ => Outside::Unsaid,
    };
    let mut gathered = Gathered {
        context,
        line: &view,
        outside,
        tables: Tables {
            releases: options::releases(),
            at: &|position| options::release(position, entrypoint),
        },
        version: reading.version,
        list: Vec::new(),
    };
    gathered.model("--model", entrypoint == Entrypoint::Serve, reading);
    gathered.memory(FRACTION, Unset::Engine("the engine works it out"), reading);
    if start == Start::Wrapper(wrapper::KAITO) && reading.memory.source == MemorySource::EngineAuto {
        let detail = "KAITO's start script takes nearly all of what is free";
        replace(
            &mut gathered.list,
            Place::nowhere(Origin::EngineAuto, detail).of("memory", None),
        );
    }
    for (field, option, unset) in ALWAYS {
        // Before 0.8 there is no data parallelism.
        let absent = field == "data-parallel-size" && line.parsed.default(option).is_none();
        if !absent || line.parsed.last(option).is_some() {
            gathered.always(field, option, unset);
        }
    }
    for (field, options) in WRITTEN {
        gathered.first_written(field, options);
    }
    if reading.serving.adapters.is_some() {
        gathered.written("adapters", "--enable-lora");
        for (field, option) in [("max-loras", "--max-loras"), ("max-lora-rank", "--max-lora-rank")] {
            gathered.always(field, option, Unset::Model);
        }
    }
    if reading.serving.draft.is_some() {
        let options = [
            "--spec-method",
            "--spec-model",
            "--spec-tokens",
            "--speculative-config",
        ];
        gathered.first_written("draft", &options);
        if !gathered.list.iter().any(|known| known.field == "draft") {
            gathered.first_written("draft", &["--speculative-model", "--num-speculative-tokens"]);
        }
    }
    let mut list = gathered.list;
    if reading.serving.estimates_graphs.is_some() {
        let name = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS";
        list.extend(context.provenance_of_variable(command, "estimates-graphs", name));
    }
    list
}
