//! What is known of a model: its shape, the formats in which it is published, and how that was found.
//!
//! A [`Model`] is an entry of the embedded catalogue, of a policy's `spec.models`, or what `vramgate model add` reads
//! from a model's own files; all three are the same document. Sizes follow from the shape in [`crate::footprint`].

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod catalogue;
mod check;
pub mod config_json;
pub mod files;
mod format;
pub mod gguf;
mod json;
#[cfg(test)]
mod mutation;
pub mod name;
pub mod safetensors;

pub use catalogue::Catalogue;
pub use check::{ModelError, check};
pub use format::{Format, Told, UnknownFormat};

/// One model.
///
/// Fields have the names of a `config.json`, in camel case. What a file does not tell is absent, never zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Model {
    /// Short name in the catalogue: `llama-3.1-8b`.
    pub id: String,
    /// Names under which it is published: `meta-llama/Llama-3.1-8B-Instruct`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// What it does with a sequence.
    #[serde(default)]
    pub kind: Kind,
    /// The class that loads it: `LlamaForCausalLM`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Parameters altogether, tied embeddings once, towers and draft layers of the checkpoint included.
    pub parameters: u64,
    /// Parameters of draft layers among them, which an engine loads for speculative decoding alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft_parameters: Option<u64>,
    /// Layers of the text model.
    pub num_hidden_layers: u32,
    /// Width of the residual stream.
    pub hidden_size: u32,
    /// Query heads of a layer.
    pub num_attention_heads: u32,
    /// Key and value heads of a layer.
    pub num_key_value_heads: u32,
    /// Width of a head; `hiddenSize / numAttentionHeads` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_dim: Option<u32>,
    /// Width of a dense MLP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intermediate_size: Option<u32>,
    /// Rows of the embedding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vocab_size: Option<u32>,
    /// Longest context that the configuration declares, in tokens.
    pub max_position_embeddings: u64,
    /// Type of the published 16- or 32-bit weights.
    pub torch_dtype: Dtype,
    /// Whether the output layer is the embedding; unknown where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tie_word_embeddings: Option<bool>,
    /// Experts, where it has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experts: Option<Experts>,
    /// Multi-head latent attention, where it has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latent: Option<Latent>,
    /// Layers that attend to the whole context, where not all do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_attention_layers: Option<u32>,
    /// Layers that have attention at all, where not all do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention_layers: Option<u32>,
    /// Tokens that the other layers look back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sliding_window: Option<u32>,
    /// Tokens of a chunk within which the other layers attend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention_chunk_size: Option<u32>,
    /// Width of a head in layers of full attention, where it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_head_dim: Option<u32>,
    /// Key and value heads in layers of full attention, where they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_global_key_value_heads: Option<u32>,
    /// Last layers that use the cache of earlier ones; both kinds of layers share in proportion to their number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_kv_shared_layers: Option<u32>,
    /// Layers with a recurrent state, where it has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recurrent: Option<Recurrent>,
    /// Whether a vision or audio tower is part of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tower: bool,
    /// The format in which its publisher releases it, where that is not its `torchDtype`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<Format>,
    /// Sum of the weight files as released, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_bytes: Option<u64>,
    /// Sizes of the weight files in other formats.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Variant>,
    /// Stated bytes of one token's KV cache at 16 bits over all layers, before any split; wins over the shape.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_bytes_per_token: Option<u64>,
    /// What some of `names` have of their own, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub publications: BTreeMap<String, Publication>,
    /// Where the facts come from.
    pub source: String,
    /// How sure they are.
    pub confidence: Confidence,
    /// What the fields cannot say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What a model does with a sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Writes on, token by token, and caches keys and values.
    #[default]
    Decoder,
    /// Reads a sequence once and caches nothing.
    Encoder,
}

/// Type of unpacked weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the variants are the types' own names")]
pub enum Dtype {
    Bfloat16,
    Float16,
    Float32,
}

/// How sure the facts of a model are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// Known in general, and read nowhere.
    Unverified,
    /// Some of the facts were read, or agree with a measured load.
    Partly,
    /// Read from the model's own files, or agreeing with a measured load.
    Verified,
}

/// Experts of a mixture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Experts {
    /// Routed experts of a layer.
    pub count: u32,
    /// Routed experts that a token uses.
    pub active: u32,
    /// Experts that every token uses.
    #[serde(default)]
    pub shared: u32,
    /// Width of an expert.
    pub intermediate_size: u32,
    /// First layers that are dense.
    #[serde(default)]
    pub first_dense: u32,
    /// Every how many layers one has experts.
    #[serde(default = "one")]
    pub every: u32,
}

/// Multi-head latent attention: one compressed row of each layer and token instead of keys and values by head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Latent {
    /// Width of the compressed row.
    pub kv_lora_rank: u32,
    /// Width of the part with positions.
    pub qk_rope_head_dim: u32,
    /// Width of a key head without positions; unknown where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qk_nope_head_dim: Option<u32>,
    /// Width of a value head; unknown where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v_head_dim: Option<u32>,
    /// Whether a sparse indexer keeps 132 bytes of each layer and token beside it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub indexer: bool,
}

/// Layers with a state of fixed size for each running request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Recurrent {
    /// Such layers.
    pub layers: u32,
    /// Bytes of one request's state in one such layer, before any split; unknown where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_bytes: Option<u64>,
}

/// The same model in another format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Variant {
    /// The format.
    pub format: Format,
    /// Who publishes it: `nvidia`; several publishers' sizes differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    /// Sum of its weight files in bytes; absent where only its existence is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_bytes: Option<u64>,
}

/// What a published name has of its own: the same shape under another context, or released in another format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Publication {
    /// Longest context that its configuration declares, in tokens, where it is not the entry's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_position_embeddings: Option<u64>,
    /// The format in which it is released, where it is not the entry's; `float16` is that of `torchDtype`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<Format>,
}

const fn one() -> u32 {
    1
}

impl Model {
    /// Whether another entry needs the same memory under the same options: everything but names, sizes of files and
    /// provenance agrees.
    #[must_use]
    pub fn has_shape_of(&self, other: &Self) -> bool {
        let shape = |model: &Self| Self {
            id: String::new(),
            names: Vec::new(),
            checkpoint_bytes: None,
            variants: Vec::new(),
            publications: BTreeMap::new(),
            source: String::new(),
            confidence: Confidence::Unverified,
            note: None,
            ..model.clone()
        };
        self.parameters == other.parameters && shape(self) == shape(other)
    }

    /// Width of a head of an ordinary layer.
    #[must_use]
    pub fn head_width(&self) -> u32 {
        self.head_dim.unwrap_or_else(|| {
            self.hidden_size
                .checked_div(self.num_attention_heads)
                .unwrap_or(0)
        })
    }
}
