//! What an invocation says about serving a model, beside its memory request: sizes of batches, caches and adapters.
//!
//! Only what is written stands here; defaults of a release are not filled in, for many of them depend on the device.

use super::Unresolved;

mod gibibytes;
mod written;

pub(super) use gibibytes::gibibytes_in_bytes;
pub(super) use written::{Written, shown};

/// Options that decide how much memory a model wants. `None` stands for the release's own default, which can depend on
/// the device; a value that is written and cannot be read stands in [`super::Reading::unresolved`] by its option.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Serving {
    /// Sequences that run at once.
    pub max_num_seqs: Option<u64>,
    /// Tokens of one forward pass (vLLM's `--max-num-batched-tokens`, SGLang's `--chunked-prefill-size`, TEI's
    /// `--max-batch-tokens`, llama.cpp's physical batch).
    pub max_num_batched_tokens: Option<u64>,
    /// Tokens that the KV cache of each device holds at most, where they are stated (SGLang's `--max-total-tokens`, TGI's
    /// `--max-batch-total-tokens`, TensorRT-LLM's `kv_cache_config.max_tokens`).
    pub max_total_tokens: Option<u64>,
    /// Tokens of one block of the KV cache.
    pub block_size: Option<u64>,
    /// Size of the KV cache in bytes for each device, where it is stated instead of a fraction.
    pub kv_cache_bytes: Option<u64>,
    /// Blocks of the KV cache of each device, where they are stated instead of worked out from what the fraction leaves
    /// (vLLM's `--num-gpu-blocks-override`). They are allocated whether the fraction holds them or not.
    pub kv_cache_blocks: Option<u64>,
    /// Bytes of weights for each device that stay in host memory.
    pub cpu_offload_bytes: Option<u64>,
    /// Whether experts are spread over the devices whole, not sliced.
    pub expert_parallel: bool,
    /// Whether long prompts are cut into pieces; the release's default where absent.
    pub chunked_prefill: Option<bool>,
    /// LoRA adapters that are held at once.
    pub adapters: Option<Adapters>,
    /// Speculative decoding.
    pub draft: Option<Draft>,
    /// Whether images, video and audio are switched off, so that no tower is profiled: every kind that is listed has the
    /// limit zero, or the language model alone is loaded. Kinds that are not listed keep their default; which ones the
    /// limits name stands in `excluded_inputs`.
    pub text_only: bool,
    /// Kinds of input with the limit zero (`image`, `video`, `audio`), sorted (vLLM's `--limit-mm-per-prompt`).
    pub excluded_inputs: Vec<String>,
    /// Whether every layer's cache is kept at full length (`--disable-hybrid-kv-cache-manager`, some connectors).
    pub full_length_cache: bool,
    /// Whether graphs are estimated within the budget (`VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS`); the release's
    /// default where absent.
    pub estimates_graphs: Option<bool>,
    /// The load format as written (`gguf`, `bitsandbytes`, `dummy`, `ipc_cache`), where it is not `auto`.
    pub load_format: Option<String>,
    /// Layers on the device; all where absent (llama.cpp's `--gpu-layers`).
    pub gpu_layers: Option<u64>,
    /// Type of the cached values where it differs from that of the keys (llama.cpp).
    pub value_cache_dtype: Option<String>,
    /// Whether attention works without a buffer of scores (llama.cpp's `--flash-attn`); the engine chooses where absent.
    pub flash_attention: Option<bool>,
    /// Whether the context is written as that of the training (llama.cpp's `--ctx-size 0`);
    /// [`super::Reading::max_model_len`] is `None` then.
    pub trained_context: bool,
    /// Options that change the model itself, or which parts of it lie on the device, in a way that is not read
    /// (`--hf-overrides`, `--override-tensor`).
    pub overrides: Vec<&'static str>,
    /// Whether words or a file that cannot be read may set any of these.
    pub open: bool,
    /// What the engine decides only when it runs, though every word of the invocation is known.
    pub undecided: Vec<Unresolved>,
}

/// LoRA adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adapters {
    /// Adapters in device memory at once.
    pub count: u64,
    /// Largest rank.
    pub rank: u64,
}

/// Speculative decoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// How drafts are made (`mtp`, `eagle3`, `ngram`, `draft_model`), as written; the engine tells by the model where
    /// absent.
    pub method: Option<String>,
    /// The draft model, where there is one.
    pub model: Option<String>,
    /// Tokens that are drafted at once.
    pub tokens: Option<u64>,
}

#[cfg(test)]
mod tests;
