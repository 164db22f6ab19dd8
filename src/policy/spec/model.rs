//! Entries of `spec.models`: a few facts of a private model, or a whole entry as `vramgate model add` prints it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::model::{
    Confidence, Dtype, Experts, Format, Kind, Latent, Model, Publication, Recurrent, Variant,
};
use crate::policy::value::MibCount;

/// One entry of `spec.models`, in either form; one that has an `id` is a whole one.
///
/// All fields stand in one closed map, so that an error names its own line. [`ModelEntry::whole`] lists every field of
/// [`Model`].
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default, expecting = "a map")]
#[allow(missing_docs, reason = "the fields of `Model`, where they are explained")]
pub struct ModelEntry {
    /// Names under which the model is loaded. In the short form `*` stands for any text.
    pub names: Option<Vec<String>>,
    /// KV cache of one token at 16 bits over all layers, before any split.
    pub kv_bytes_per_token: Option<u64>,
    /// Short form: size of the weights as they are loaded, all ranks together.
    #[serde(rename = "weightsMiB")]
    pub weights: Option<MibCount>,
    /// Short form: attention heads.
    pub attention_heads: Option<u32>,
    /// Short form: longest context.
    pub max_model_len: Option<u64>,

    pub id: Option<String>,
    pub kind: Option<Kind>,
    pub architecture: Option<String>,
    pub parameters: Option<u64>,
    pub draft_parameters: Option<u64>,
    pub num_hidden_layers: Option<u32>,
    pub hidden_size: Option<u32>,
    pub num_attention_heads: Option<u32>,
    pub num_key_value_heads: Option<u32>,
    pub head_dim: Option<u32>,
    pub intermediate_size: Option<u32>,
    pub vocab_size: Option<u32>,
    pub max_position_embeddings: Option<u64>,
    pub torch_dtype: Option<Dtype>,
    pub tie_word_embeddings: Option<bool>,
    pub experts: Option<Experts>,
    pub latent: Option<Latent>,
    pub full_attention_layers: Option<u32>,
    pub attention_layers: Option<u32>,
    pub sliding_window: Option<u32>,
    pub attention_chunk_size: Option<u32>,
    pub global_head_dim: Option<u32>,
    pub num_global_key_value_heads: Option<u32>,
    pub num_kv_shared_layers: Option<u32>,
    pub recurrent: Option<Recurrent>,
    pub tower: Option<bool>,
    pub released: Option<Format>,
    pub checkpoint_bytes: Option<u64>,
    pub variants: Option<Vec<Variant>>,
    pub publications: Option<BTreeMap<String, Publication>>,
    pub source: Option<String>,
    pub confidence: Option<Confidence>,
    pub note: Option<String>,
}

impl ModelEntry {
    /// Whether it is a whole entry.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.id.is_some()
    }

    /// Names of the fields that a whole entry must have and that this one lacks.
    #[must_use]
    pub fn lacks(&self) -> Vec<&'static str> {
        [
            ("parameters", self.parameters.is_none()),
            ("numHiddenLayers", self.num_hidden_layers.is_none()),
            ("hiddenSize", self.hidden_size.is_none()),
            ("numAttentionHeads", self.num_attention_heads.is_none()),
            ("numKeyValueHeads", self.num_key_value_heads.is_none()),
            ("maxPositionEmbeddings", self.max_position_embeddings.is_none()),
            ("torchDtype", self.torch_dtype.is_none()),
        ]
        .into_iter()
        .filter_map(|(name, missing)| missing.then_some(name))
        .collect()
    }

    /// Names of the fields of a whole entry that stand in one without an `id`.
    #[must_use]
    pub fn belongs_to_whole(&self) -> Vec<&'static str> {
        [
            ("parameters", self.parameters.is_some()),
            ("numHiddenLayers", self.num_hidden_layers.is_some()),
            ("hiddenSize", self.hidden_size.is_some()),
            ("numAttentionHeads", self.num_attention_heads.is_some()),
            ("numKeyValueHeads", self.num_key_value_heads.is_some()),
            ("headDim", self.head_dim.is_some()),
            ("vocabSize", self.vocab_size.is_some()),
            ("maxPositionEmbeddings", self.max_position_embeddings.is_some()),
            ("experts", self.experts.is_some()),
            ("latent", self.latent.is_some()),
            ("checkpointBytes", self.checkpoint_bytes.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, given)| given.then_some(name))
        .collect()
    }

    /// The model of a whole entry; `None` where a field is missing, as [`Self::lacks`] names them.
    #[must_use]
    pub fn whole(self) -> Option<Model> {
        Some(Model {
            id: self.id?,
            names: self.names.unwrap_or_default(),
            kind: self.kind.unwrap_or_default(),
            architecture: self.architecture,
            parameters: self.parameters?,
            draft_parameters: self.draft_parameters,
            num_hidden_layers: self.num_hidden_layers?,
            hidden_size: self.hidden_size?,
            num_attention_heads: self.num_attention_heads?,
            num_key_value_heads: self.num_key_value_heads?,
            head_dim: self.head_dim,
            intermediate_size: self.intermediate_size,
            vocab_size: self.vocab_size,
            max_position_embeddings: self.max_position_embeddings?,
            torch_dtype: self.torch_dtype?,
            tie_word_embeddings: self.tie_word_embeddings,
            experts: self.experts,
            latent: self.latent,
            full_attention_layers: self.full_attention_layers,
            attention_layers: self.attention_layers,
            sliding_window: self.sliding_window,
            attention_chunk_size: self.attention_chunk_size,
            global_head_dim: self.global_head_dim,
            num_global_key_value_heads: self.num_global_key_value_heads,
            num_kv_shared_layers: self.num_kv_shared_layers,
            recurrent: self.recurrent,
            tower: self.tower.unwrap_or(false),
            released: self.released,
            checkpoint_bytes: self.checkpoint_bytes,
            variants: self.variants.unwrap_or_default(),
            kv_bytes_per_token: self.kv_bytes_per_token,
            publications: self.publications.unwrap_or_default(),
            source: self.source.unwrap_or_else(|| "the policy".to_owned()),
            confidence: self.confidence.unwrap_or(Confidence::Partly),
            note: self.note,
        })
    }
}
