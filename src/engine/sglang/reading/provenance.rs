//! Where the values of a reading of SGLang come from.

use super::{FRACTION, options, sagemaker};
use crate::engine::line::LineView;
use crate::engine::provenance::line::{Gathered, Tables, Unset};
use crate::engine::provenance::word::Outside;
use crate::engine::reader::Context;
use crate::engine::{Provenance, Reading};

/// Values that a reading always has, with the option of each.
const ALWAYS: [(&str, &str, Unset); 7] = [
    ("tensor-parallel-size", "--tp-size", Unset::Model),
    ("pipeline-parallel-size", "--pp-size", Unset::Model),
    ("data-parallel-size", "--dp-size", Unset::Model),
    ("max-model-len", "--context-length", Unset::Model),
    ("quantization", "--quantization", Unset::Model),
    ("dtype", "--dtype", Unset::Model),
    ("kv-cache-dtype", "--kv-cache-dtype", Unset::Model),
];

/// What else a reading holds where it is written, with the options of each, the one that wins first.
const WRITTEN: [(&str, &[&str]); 14] = [
    (
        "eager",
        &[
            "--disable-cuda-graph",
            "--disable-decode-cuda-graph",
            "--disable-prefill-cuda-graph",
        ],
    ),
    ("max-num-seqs", &["--max-running-requests"]),
    ("max-num-batched-tokens", &["--chunked-prefill-size"]),
    ("max-total-tokens", &["--max-total-tokens"]),
    ("block-size", &["--page-size"]),
    ("cpu-offload-bytes", &["--cpu-offload-gb"]),
    (
        "expert-parallel",
        &[
            "--ep-size",
            "--enable-ep-moe",
            "--enable-deepep-moe",
            "--moe-a2a-backend",
        ],
    ),
    ("text-only", &["--language-only"]),
    ("full-length-cache", &["--disable-hybrid-swa-memory"]),
    ("load-format", &["--load-format"]),
    ("draft", &["--speculative-algorithm"]),
    ("nnodes", &["--nnodes"]),
    ("model-overrides", &["--json-model-override-args"]),
    ("encoder-only", &["--encoder-only"]),
];

pub(super) fn of(
    context: &Context<'_>,
    line: &LineView<'_, '_>,
    reading: &Reading,
    by_script: bool,
) -> Vec<Provenance> {
    let outside = if by_script {
        Outside::Program {
            name: "the image's start script",
            adds: sagemaker::MODEL,
        }
    } else {
        Outside::Unsaid
    };
    let mut gathered = Gathered {
        context,
        line,
        outside,
        tables: Tables {
            releases: options::releases(),
            at: &options::release,
        },
        version: reading.version,
        list: Vec::new(),
    };
    gathered.model("--model-path", false, reading);
    let free = "SGLang works it out from the device's memory";
    gathered.memory(FRACTION, Unset::Engine(free), reading);
    for (field, option, unset) in ALWAYS {
        gathered.always(field, option, unset);
    }
    for (field, options) in WRITTEN {
        gathered.first_written(field, options);
    }
    if gathered.line.parsed.flag("--enable-lora") || gathered.line.parsed.last("--lora-paths").is_some() {
        gathered.first_written("adapters", &["--enable-lora", "--lora-paths"]);
        gathered.always(
            "max-loras",
            "--max-loras-per-batch",
            Unset::Engine("SGLang chooses it"),
        );
        gathered.written("max-lora-rank", "--max-lora-rank");
    }
    gathered.list
}
