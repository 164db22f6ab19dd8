//! Parameters from the shape, where no file of weights tells them.
//!
//! Biases of attention and MLPs are left out (below 0.2 % of any model). All sizes are bounded when they are read
//! (`read.rs`), so that no product comes near 2^128.

use super::layers::{Feed, Layers, Mixer};
use super::read::{ConfigError, Fields, INTERMEDIATE};
use super::recurrent::{linear, mamba};
use super::text::{Latents, Text};

/// Families whose MLP is two matrices, up and down. Others have a gate as well.
const UNGATED: [&str; 20] = [
    "gpt2",
    "gpt_neo",
    "gpt_neox",
    "gpt_bigcode",
    "gptj",
    "codegen",
    "opt",
    "bloom",
    "mpt",
    "falcon",
    "phi",
    "starcoder2",
    "nemotron",
    "nemotron_h",
    "whisper",
    "bert",
    "roberta",
    "xlm-roberta",
    "distilbert",
    "persimmon",
];

/// Parameters of the text model.
pub(super) fn text_model(fields: &Fields<'_>, text: &Text<'_>, layers: &Layers) -> Result<u128, ConfigError> {
    let hidden = text.hidden;
    let vocabulary = text.vocabulary.ok_or_else(|| fields.absent("vocab_size"))?;
    let embedding_width = fields.count("word_embed_proj_dim")?.unwrap_or(hidden);
    let mut total = vocabulary * embedding_width;
    if embedding_width != hidden {
        total += 2 * embedding_width * hidden;
    }
    if text.has_output && text.tied != Some(true) {
        total += vocabulary * embedding_width;
    }
    if matches!(
        text.family,
        "gpt2" | "gpt_bigcode" | "gpt_neo" | "opt" | "bert" | "roberta" | "xlm-roberta" | "distilbert"
    ) && fields.text("position_embedding_type")? != Some("rotary")
    {
        total += u128::from(text.declared_positions) * hidden;
    }
    if text.is_encoder {
        total += fields.count("type_vocab_size")?.unwrap_or(0) * hidden + 2 * hidden;
        if !matches!(text.family, "modernbert" | "nomic_bert" | "new") {
            // The pooler.
            total += hidden * hidden;
        }
    }
    total += attention(fields, text, layers)?;
    if layers.count(Mixer::Linear) > 0 {
        total += layers.count(Mixer::Linear) * linear(fields, text)?.parameters;
    }
    total += mamba(fields, text, layers)?;
    if layers.count(Mixer::Convolution) > 0 {
        total += layers.count(Mixer::Convolution) * 4 * hidden * hidden;
    }
    total += feeds(fields, text)?;
    // Norms of the layers and the last one.
    let norms = if text.family.starts_with("gemma") { 4 } else { 2 };
    total += (layers.mixers.len() as u128 * norms + 1) * hidden;
    total += per_layer_inputs(fields, text)?;
    total += drafts(fields, text)?;
    Ok(total)
}

/// Draft layers of the checkpoint (multi-token prediction): a layer each as the last one of the model, and the projection
/// of its two inputs. DeepSeek's and those that follow it store the embedding and the output once more.
pub(super) fn drafts(fields: &Fields<'_>, text: &Text<'_>) -> Result<u128, ConfigError> {
    let count = draft_layers(fields, text.family)?;
    if count == 0 {
        return Ok(0);
    }
    let mut draft = text.clone();
    draft.feeds.truncate(1);
    draft.feeds.fill(if text.experts.is_some() {
        Feed::Experts
    } else {
        Feed::Dense
    });
    draft.layers.mixers.truncate(1);
    draft.layers.mixers.fill(Mixer::Full);
    let copies = if ["deepseek", "glm", "kimi"]
        .iter()
        .any(|maker| text.family.starts_with(maker))
    {
        2 * text.vocabulary.unwrap_or(0) * text.hidden
    } else {
        0
    };
    let one = attention(fields, &draft, &draft.layers)?
        + feeds(fields, &draft)?
        + 2 * text.hidden * text.hidden
        + copies;
    Ok(count * one)
}

fn draft_layers(fields: &Fields<'_>, family: &str) -> Result<u128, ConfigError> {
    for name in ["num_nextn_predict_layers", "mtp_num_hidden_layers"] {
        if let Some(count) = fields.number(name, 0, 10_000)? {
            return Ok(u128::from(count));
        }
    }
    // Qwen3-Next has one, and no field for it.
    Ok(u128::from(family == "qwen3_next"))
}

fn attention(fields: &Fields<'_>, text: &Text<'_>, layers: &Layers) -> Result<u128, ConfigError> {
    let hidden = text.hidden;
    if let Some(latent) = &text.latent {
        return Ok(layers.attention() * latent_attention(fields, text, latent)?);
    }
    let plain = |heads: u128, kv_heads: u128, width: u128, kv_matrices: u128| {
        let gates = if text.has_output_gate { 2 } else { 1 };
        hidden * heads * width * (1 + gates) + kv_matrices * hidden * kv_heads * width
    };
    let ordinary = plain(text.heads, text.kv_heads, text.head_width, 2);
    // Gemma 4: layers of full attention have heads of their own, and may take the keys as values.
    let matrices = if fields.flag("attention_k_eq_v")? == Some(true) {
        1
    } else {
        2
    };
    let global = match (text.global_head_width, text.global_kv_heads) {
        (None, None) => ordinary,
        (width, kv_heads) => plain(
            text.heads,
            kv_heads.unwrap_or(text.kv_heads),
            width.unwrap_or(text.head_width),
            matrices,
        ),
    };
    if let Some(groups) = &text.kv_heads_by_layer {
        return Ok(groups
            .iter()
            .map(|kv_heads| plain(text.heads, *kv_heads, text.head_width, 2))
            .sum());
    }
    let windowed = layers.count(Mixer::Window) + layers.count(Mixer::Chunk);
    Ok(layers.count(Mixer::Full) * global + windowed * ordinary)
}

/// DeepSeek-V2's attention (arXiv:2405.04434, section 2.1), and the indexer of V3.2.
fn latent_attention(fields: &Fields<'_>, text: &Text<'_>, latent: &Latents) -> Result<u128, ConfigError> {
    let nope = latent.nope.ok_or_else(|| fields.absent("qk_nope_head_dim"))?;
    let value = latent.value.ok_or_else(|| fields.absent("v_head_dim"))?;
    let query = text.heads * (nope + latent.rope);
    let queries = match latent.query_rank {
        Some(rank) => text.hidden * rank + rank * query,
        None => text.hidden * query,
    };
    let compressed = text.hidden * (latent.rank + latent.rope) + latent.rank * text.heads * (nope + value);
    let output = text.heads * value * text.hidden;
    let indexer = if latent.indexer {
        let (heads, width) = (fields.needed("index_n_heads")?, fields.needed("index_head_dim")?);
        heads * width * latent.query_rank.unwrap_or(text.hidden) + text.hidden * (width + heads)
    } else {
        0
    };
    Ok(queries + compressed + output + indexer)
}

fn feeds(fields: &Fields<'_>, text: &Text<'_>) -> Result<u128, ConfigError> {
    let hidden = text.hidden;
    let matrices: u128 = if is_gated(fields, text)? { 3 } else { 2 };
    let mut total = 0;
    if let Some(widths) = &text.dense_by_layer {
        return Ok(widths.iter().map(|width| matrices * hidden * width).sum());
    }
    let dense_layers = text.feeds.iter().filter(|feed| **feed == Feed::Dense).count() as u128;
    let expert_layers = text.feeds.iter().filter(|feed| **feed == Feed::Experts).count() as u128;
    let beside = fields.flag("enable_moe_block")? == Some(true);
    let dense_layers = if beside {
        dense_layers + expert_layers
    } else {
        dense_layers
    };
    if dense_layers > 0 {
        // Llama 4 calls the width of an expert `intermediate_size`.
        let width = match fields.count("intermediate_size_mlp")? {
            Some(width) => width,
            None => match fields.count("shared_intermediate_size")? {
                Some(width) => width,
                None => text
                    .intermediate
                    .ok_or_else(|| fields.absent(INTERMEDIATE.names[0]))?,
            },
        };
        total += dense_layers * matrices * hidden * width;
    }
    if let Some(experts) = &text.experts {
        // Nemotron 3 Super: experts work in a narrower space.
        let latent = fields.count("moe_latent_size")?;
        let inside = latent.unwrap_or(hidden);
        let around = latent.map_or(0, |latent| 2 * hidden * latent);
        let one = experts.count * (matrices * inside * experts.width + hidden)
            + matrices * hidden * experts.shared_width
            + around;
        total += expert_layers * one;
    }
    Ok(total)
}

fn is_gated(fields: &Fields<'_>, text: &Text<'_>) -> Result<bool, ConfigError> {
    if UNGATED.contains(&text.family) {
        return Ok(false);
    }
    if text.is_known_family {
        return Ok(true);
    }
    for name in [
        "hidden_act",
        "hidden_activation",
        "activation_function",
        "mlp_hidden_act",
    ] {
        if matches!(fields.text(name)?, Some("silu" | "swish" | "swiglu" | "geglu")) {
            return Ok(true);
        }
    }
    Err(fields.error(
        "model_type",
        format!(
            "{:?} is a family that vramgate does not know, so its parameters cannot be counted; give \
             model.safetensors.index.json or the *.safetensors beside config.json as well",
            text.family.chars().take(60).collect::<String>()
        ),
    ))
}

/// Gemma 3n and 4: an embedding for each layer, and its projections.
fn per_layer_inputs(fields: &Fields<'_>, text: &Text<'_>) -> Result<u128, ConfigError> {
    let width = fields.count("hidden_size_per_layer_input")?.unwrap_or(0);
    if width == 0 {
        return Ok(0);
    }
    let rows = fields.number("vocab_size_per_layer_input", 1, 1 << 28)?;
    let rows = rows.map(u128::from).or(text.vocabulary).unwrap_or(0);
    let layers = text.feeds.len() as u128;
    let rank = fields.count("laurel_rank")?.unwrap_or(0);
    Ok(layers * width * (rows + 3 * text.hidden) + layers * 2 * rank * text.hidden)
}

/// The encoder of Whisper, and what its decoder has beyond an ordinary one: attention to the encoder, and positions.
pub(super) fn whisper_encoder(fields: &Fields<'_>, text: &Text<'_>) -> Result<u128, ConfigError> {
    if text.family != "whisper" {
        return Ok(0);
    }
    let hidden = text.hidden;
    let inner = fields.needed("encoder_ffn_dim")?;
    let encoder = fields.needed("encoder_layers")?.min(10_000) * hidden * (4 * hidden + 2 * inner);
    let positions = fields.needed("max_source_positions")? + u128::from(text.declared_positions);
    let convolutions = 3 * hidden * (fields.needed("num_mel_bins")? + hidden);
    Ok(encoder + text.layers.mixers.len() as u128 * 4 * hidden * hidden + positions * hidden + convolutions)
}
