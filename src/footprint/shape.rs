//! Parameters of a model by part, from its shape.
//!
//! The parts are those that engines treat differently: divided over tensor-parallel ranks or held by each, packed or
//! left at 16 bits. What the shape does not explain is [`Parts::rest`]: towers, recurrent layers, norms, biases.

use super::interval::product;
use crate::model::{Kind, Model};

/// Parameters by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    /// The embedding, without padding.
    pub(super) embedding: u64,
    /// The output layer; zero where it is the embedding.
    pub(super) output: u64,
    /// Query and output projections, and what else of attention is divided.
    pub(super) attention: u64,
    /// Key and value projections, which are copied where there are more ranks than heads.
    pub(super) key_value: u64,
    /// Down-projections of latent attention, which every rank holds whole.
    pub(super) latent_down: u64,
    /// Dense MLPs and shared experts.
    pub(super) dense: u64,
    /// Routed experts.
    pub(super) experts: u64,
    /// Routers, which every rank holds whole and nobody packs.
    pub(super) router: u64,
    /// What is left of the total: towers, recurrent layers, draft layers, norms, biases.
    pub(super) rest: u64,
    /// Whether the shape explains the total.
    pub(super) explained: bool,
}

/// Architectures whose MLP has two matrices instead of three.
const UNGATED: [&str; 10] = [
    "OPTForCausalLM",
    "PhiForCausalLM",
    "FalconForCausalLM",
    "Starcoder2ForCausalLM",
    "NemotronHForCausalLM",
    "WhisperForConditionalGeneration",
    "BertModel",
    "XLMRobertaModel",
    "GPT2LMHeadModel",
    "GPTNeoXForCausalLM",
];

/// Architectures whose layers are either attention, MLP or recurrent, never two of these.
const ONE_MIXER_A_LAYER: &str = "NemotronHForCausalLM";

/// Rank of the key head where the facts of a latent model lack it: what DeepSeek-V2 and its successors have.
const LATENT_HEAD: u32 = 128;

impl Parts {
    pub(super) fn of(model: &Model) -> Self {
        let hidden = u64::from(model.hidden_size);
        let layers = u64::from(model.num_hidden_layers);
        let vocabulary = u64::from(model.vocab_size.unwrap_or(0));
        let architecture = model.architecture.as_deref().unwrap_or("");
        let matrices = if UNGATED.contains(&architecture) { 2 } else { 3 };

        let mut parts = Self {
            embedding: product(&[vocabulary, hidden]),
            ..Self::default()
        };
        if model.kind == Kind::Decoder && model.tie_word_embeddings == Some(false) {
            parts.output = parts.embedding;
        }
        attention(model, &mut parts);

        let mixed = architecture == ONE_MIXER_A_LAYER;
        let intermediate = u64::from(model.intermediate_size.unwrap_or(0));
        match &model.experts {
            Some(experts) => {
                let first = u64::from(experts.first_dense).min(layers);
                let with_experts = if mixed {
                    layers
                        .saturating_sub(attention_layers(model))
                        .saturating_sub(model.recurrent.map_or(0, |recurrent| u64::from(recurrent.layers)))
                } else {
                    (layers - first) / u64::from(experts.every.max(1))
                };
                let width = u64::from(experts.intermediate_size);
                let one = product(&[matrices, hidden, width]);
                parts.experts = product(&[with_experts, u64::from(experts.count), one]);
                parts.router = product(&[with_experts, u64::from(experts.count), hidden]);
                parts.dense = product(&[with_experts, u64::from(experts.shared), one]);
                if !mixed {
                    let dense =
                        (layers - with_experts).saturating_mul(product(&[matrices, hidden, intermediate]));
                    parts.dense = parts.dense.saturating_add(dense);
                }
            }
            None if mixed => {}
            None => parts.dense = product(&[layers, matrices, hidden, intermediate]),
        }
        parts.settle(model)
    }

    /// The sum without the rest.
    fn sum(&self) -> u64 {
        [
            self.embedding,
            self.output,
            self.attention,
            self.key_value,
            self.latent_down,
            self.dense,
            self.experts,
            self.router,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }

    /// Compares with the total.
    fn settle(mut self, model: &Model) -> Self {
        let total = loaded(model);
        let known = self.sum();
        // Half a percent too much is rounding of a nominal total; more says that the shape means something else.
        let slack = total / 200;
        if known > total.saturating_add(slack) {
            return Self {
                embedding: self.embedding.min(total),
                rest: total.saturating_sub(self.embedding.min(total)),
                explained: false,
                ..Self::default()
            };
        }
        self.rest = total.saturating_sub(known);
        // Without the width of its MLP a model is mostly rest.
        self.explained = self.rest <= total / 3;
        if model.latent.is_some() && model.experts.is_some() {
            self.latent_queries(model);
        }
        self
    }

    /// Latent models compress queries as well, and the facts do not say how far. The rest tells: each layer has a
    /// down-projection that every rank holds, and an up-projection that is divided.
    fn latent_queries(&mut self, model: &Model) {
        let Some(latent) = &model.latent else { return };
        if self.attention == 0 {
            return;
        }
        let layers = u64::from(model.num_hidden_layers).max(1);
        let hidden = u64::from(model.hidden_size);
        let key =
            u64::from(latent.qk_nope_head_dim.unwrap_or(LATENT_HEAD)) + u64::from(latent.qk_rope_head_dim);
        let up = product(&[u64::from(model.num_attention_heads), key]);
        let rank = self.rest / layers / hidden.saturating_add(up).max(1);
        let down = product(&[rank, hidden, layers]);
        let up = product(&[rank, up, layers]);
        self.latent_down = self.latent_down.saturating_add(down);
        self.attention = self.attention.saturating_add(up);
        self.rest = self.rest.saturating_sub(down).saturating_sub(up);
    }

    /// Linear layers of the text model: what quantised formats pack.
    pub(super) fn linear(&self) -> u64 {
        [
            self.attention,
            self.key_value,
            self.latent_down,
            self.dense,
            self.experts,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }
}

/// Parameters without those of draft layers.
pub(super) fn loaded(model: &Model) -> u64 {
    model
        .parameters
        .saturating_sub(model.draft_parameters.unwrap_or(0))
}

/// Layers that have attention.
pub(super) fn attention_layers(model: &Model) -> u64 {
    let layers = u64::from(model.num_hidden_layers);
    if let Some(some) = model.attention_layers {
        return u64::from(some).min(layers);
    }
    match &model.recurrent {
        // Their other layers need not be recurrent: some have an MLP alone.
        Some(recurrent) => model.full_attention_layers.map_or_else(
            || layers.saturating_sub(u64::from(recurrent.layers)),
            |full| u64::from(full).min(layers),
        ),
        None => layers,
    }
}

fn attention(model: &Model, parts: &mut Parts) {
    let hidden = u64::from(model.hidden_size);
    let heads = u64::from(model.num_attention_heads);
    let layers = attention_layers(model);
    if let Some(latent) = &model.latent {
        let rank = u64::from(latent.kv_lora_rank);
        let key = u64::from(latent.qk_nope_head_dim.unwrap_or(LATENT_HEAD));
        let value = u64::from(latent.v_head_dim.unwrap_or(LATENT_HEAD));
        let up = product(&[rank, key + value]).saturating_add(product(&[value, hidden]));
        parts.attention = product(&[layers, up, heads]);
        parts.latent_down = product(&[layers, hidden, rank + u64::from(latent.qk_rope_head_dim)]);
        return;
    }
    let key_heads = u64::from(model.num_key_value_heads);
    let width = u64::from(model.head_width());
    let global = match (model.global_head_dim, model.full_attention_layers) {
        (Some(width), Some(full)) => Some((u64::from(full).min(layers), u64::from(width))),
        _ => None,
    };
    let ordinary = layers - global.map_or(0, |(full, _)| full);
    parts.attention = product(&[ordinary, 2, hidden, heads, width]);
    parts.key_value = product(&[ordinary, 2, hidden, key_heads, width]);
    if let Some((full, width)) = global {
        let key_heads = model.num_global_key_value_heads.map_or(key_heads, u64::from);
        parts.attention = parts
            .attention
            .saturating_add(product(&[full, 2, hidden, heads, width]));
        // Keys serve as values there.
        parts.key_value = parts
            .key_value
            .saturating_add(product(&[full, hidden, key_heads, width]));
    }
}
