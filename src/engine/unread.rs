//! VG103: variables that look like an option of the engine, and that it does not read.

use super::reader::Context;
use super::{MemorySource, Reading};
use crate::finding::{Code, Finding};
use crate::invocation::VariableOrigin;

/// Findings for one container; nobody reads more than these.
const MOST: usize = 8;

/// The variables of one engine.
pub(super) struct Unread {
    /// The engine's name in texts.
    pub(super) engine: &'static str,
    /// Each variable with the option that was meant; an empty one where the engine has none.
    pub(super) variables: &'static [(&'static str, &'static str)],
    /// The option that decides the memory.
    pub(super) memory: &'static str,
    /// Options that name the model.
    pub(super) model: &'static str,
}

pub(super) const SGLANG: Unread = Unread {
    engine: "SGLang",
    variables: &[
        ("MEM_FRACTION_STATIC", "--mem-fraction-static"),
        ("SGLANG_MEM_FRACTION_STATIC", "--mem-fraction-static"),
        ("MEM_FRACTION", "--mem-fraction-static"),
        ("GPU_MEMORY_UTILIZATION", "--mem-fraction-static"),
        ("MODEL_PATH", "--model-path"),
        ("MODEL_NAME", "--model-path"),
        ("MODEL_ID", "--model-path"),
        ("MODEL", "--model-path"),
        ("SGLANG_MODEL_PATH", "--model-path"),
        ("TP_SIZE", "--tp-size"),
        ("TENSOR_PARALLEL_SIZE", "--tp-size"),
        ("DP_SIZE", "--dp-size"),
        ("DATA_PARALLEL_SIZE", "--dp-size"),
        ("PP_SIZE", "--pp-size"),
        ("PIPELINE_PARALLEL_SIZE", "--pp-size"),
        ("CONTEXT_LENGTH", "--context-length"),
        ("MAX_MODEL_LEN", "--context-length"),
        ("QUANTIZATION", "--quantization"),
        ("DTYPE", "--dtype"),
        ("KV_CACHE_DTYPE", "--kv-cache-dtype"),
        ("MAX_RUNNING_REQUESTS", "--max-running-requests"),
        ("MAX_TOTAL_TOKENS", "--max-total-tokens"),
        ("CHUNKED_PREFILL_SIZE", "--chunked-prefill-size"),
    ],
    memory: "--mem-fraction-static",
    model: "--model-path",
};

/// It reads a variable of the upper-case name of each of its options, and no others.
pub(super) const TGI: Unread = Unread {
    engine: "TGI",
    variables: &[
        ("GPU_MEMORY_UTILIZATION", "--cuda-memory-fraction"),
        ("GPU_MEMORY_FRACTION", "--cuda-memory-fraction"),
        ("CUDA_MEM_FRACTION", "--cuda-memory-fraction"),
        ("TGI_CUDA_MEMORY_FRACTION", "--cuda-memory-fraction"),
        ("MODEL_NAME", "--model-id"),
        ("MODEL_PATH", "--model-id"),
        ("MODEL", "--model-id"),
        ("TENSOR_PARALLEL_SIZE", "--num-shard"),
        ("NUM_SHARDS", "--num-shard"),
        ("MAX_MODEL_LEN", "--max-total-tokens"),
        ("MAX_TOKENS", "--max-total-tokens"),
        ("QUANTIZATION", "--quantize"),
    ],
    memory: "--cuda-memory-fraction",
    model: "--model-id",
};

/// The same; it has no option for its memory.
pub(super) const TEI: Unread = Unread {
    engine: "TEI",
    variables: &[
        ("GPU_MEMORY_UTILIZATION", ""),
        ("GPU_MEMORY_FRACTION", ""),
        ("CUDA_MEMORY_FRACTION", ""),
        ("MODEL_NAME", "--model-id"),
        ("MODEL_PATH", "--model-id"),
        ("MODEL", "--model-id"),
        ("EMBEDDING_MODEL", "--model-id"),
        ("MAX_BATCH_SIZE", "--max-client-batch-size"),
    ],
    memory: "",
    model: "--model-id",
};

/// Its variables are called `LLAMA_ARG_…`.
pub(super) const LLAMA_CPP: Unread = Unread {
    engine: "llama-server",
    variables: &[
        ("N_GPU_LAYERS", "--n-gpu-layers"),
        ("GPU_LAYERS", "--n-gpu-layers"),
        ("NGL", "--n-gpu-layers"),
        ("LLAMA_N_GPU_LAYERS", "--n-gpu-layers"),
        ("LLAMA_ARG_GPU_LAYERS", "--n-gpu-layers"),
        ("CTX_SIZE", "--ctx-size"),
        ("CONTEXT_SIZE", "--ctx-size"),
        ("N_CTX", "--ctx-size"),
        ("LLAMA_CTX_SIZE", "--ctx-size"),
        ("LLAMA_ARG_CONTEXT_SIZE", "--ctx-size"),
        ("MAX_MODEL_LEN", "--ctx-size"),
        ("N_PARALLEL", "--parallel"),
        ("LLAMA_ARG_PARALLEL", "--parallel"),
        ("MODEL", "--model"),
        ("MODEL_PATH", "--model"),
        ("MODEL_NAME", "--model"),
        ("GPU_MEMORY_UTILIZATION", ""),
    ],
    memory: "",
    model: "--model",
};

/// It reads none of its options from variables.
pub(super) const LMDEPLOY: Unread = Unread {
    engine: "LMDeploy",
    variables: &[
        ("CACHE_MAX_ENTRY_COUNT", "--cache-max-entry-count"),
        ("LMDEPLOY_CACHE_MAX_ENTRY_COUNT", "--cache-max-entry-count"),
        ("GPU_MEMORY_UTILIZATION", "--cache-max-entry-count"),
        ("MODEL", "the model"),
        ("MODEL_NAME", "the model"),
        ("MODEL_PATH", "the model"),
        ("MODEL_ID", "the model"),
        ("TP", "--tp"),
        ("TP_SIZE", "--tp"),
        ("TENSOR_PARALLEL_SIZE", "--tp"),
        ("SESSION_LEN", "--session-len"),
        ("MAX_MODEL_LEN", "--session-len"),
        ("MAX_BATCH_SIZE", "--max-batch-size"),
        ("QUANT_POLICY", "--quant-policy"),
        ("DTYPE", "--dtype"),
    ],
    memory: "--cache-max-entry-count",
    model: "the model",
};

/// The findings of a container.
pub(super) fn variables(context: &Context<'_>, reading: &Reading, unread: &Unread) -> Vec<Finding> {
    let container = context.placed.container;
    let declared = |name: &str| context.rule.is_some_and(|rule| rule.variables.contains_key(name));
    // What the command line or another variable uses is read after all, and so is what a script of unknown content may.
    let made = container
        .made
        .iter()
        .flat_map(|made| made.commands.iter().flatten());
    let words = container
        .command
        .iter()
        .chain(&container.args)
        .flatten()
        .chain(made);
    let used = |name: &str| {
        words.clone().any(|text| text.contains(name))
            || container.env.iter().any(|other| {
                let value = other.value.as_deref().unwrap_or_default();
                other.name != name && value.contains('$') && value.contains(name)
            })
    };
    // A start script of the platform's own, or a program that runs before, may read them.
    let others_run = context.invocation.commands.len() > 1;
    if others_run || context.rule.is_some_and(|rule| !rule.entrypoint.is_empty()) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut compared: Vec<&str> = Vec::new();
    for variable in context.invocation.environment.variables() {
        // Each name is compared with every word, and once.
        if findings.len() >= MOST {
            break;
        }
        let VariableOrigin::Env(index) = variable.origin else {
            continue;
        };
        let name = &*variable.name;
        let Some((_, option)) = unread.variables.iter().find(|(unread, _)| *unread == name) else {
            continue;
        };
        if compared.contains(&name) {
            continue;
        }
        compared.push(name);
        if declared(name) || used(name) {
            continue;
        }
        let applies = match (*option, reading.memory.source) {
            (option, MemorySource::Default) if option == unread.memory => match &reading.memory.value {
                Some(value) => format!("the default {value} of each device applies"),
                None => "the default applies".to_owned(),
            },
            (option, MemorySource::EngineAuto) if option == unread.memory => {
                "what it works out from the device applies".to_owned()
            }
            (option, _) if option == unread.model => match &reading.model {
                Some(model) => format!("the model is {model}"),
                None => "the command line decides".to_owned(),
            },
            _ => "the command line and the defaults apply".to_owned(),
        };
        let engine = unread.engine;
        let instead = if option.is_empty() {
            "it has no option for that; take the variable out".to_owned()
        } else {
            format!("set {option} in args instead")
        };
        let message = format!("{engine} does not read the variable {name}: {applies}; {instead}");
        let path = context.path.field("env").index(index);
        findings.push(Finding::new(Code::Vg103, path, message));
    }
    findings
}
