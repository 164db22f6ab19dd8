//! Parameters from the shape, where no file of weights tells them.
//!
//! Biases of attention and MLPs are left out (below 0.2 % of any model). All sizes are bounded when they are read
//! (`read.rs`), so that no product comes near 2^128.

use super::layers::{Feed, Layers, Mixer};
use super::read::{ConfigError, Fields, HIDDEN, INTERMEDIATE, WIDTH};
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
fn drafts(fields: &Fields<'_>, text: &Text<'_>) -> Result<u128, ConfigError> {
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

/// A layer with a recurrent state: its weights, and what one request keeps in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecurrentLayer {
    parameters: u128,
    pub(super) state_bytes: Option<u128>,
}

/// Gated DeltaNet (Qwen3-Next and later), Kimi's delta attention, MiniMax's lightning attention.
pub(super) fn linear(fields: &Fields<'_>, text: &Text<'_>) -> Result<RecurrentLayer, ConfigError> {
    if let Some(value_heads) = fields.count("linear_num_value_heads")? {
        let key_heads = fields.needed("linear_num_key_heads")?;
        let key_width = fields.needed("linear_key_head_dim")?;
        let value_width = fields.needed("linear_value_head_dim")?;
        let kernel = fields.needed("linear_conv_kernel_dim")?.max(1);
        let mixed = 2 * key_heads * key_width + value_heads * value_width;
        let inner = value_heads * value_width;
        let state_width = if fields.text("mamba_ssm_dtype")? == Some("float32") {
            4
        } else {
            2
        };
        return Ok(RecurrentLayer {
            parameters: text.hidden * (mixed + inner + 2 * value_heads)
                + mixed * kernel
                + inner * text.hidden,
            state_bytes: Some((kernel - 1) * mixed * 2 + value_heads * key_width * value_width * state_width),
        });
    }
    if let Some(own) = fields.child("linear_attn_config")? {
        let path = format!("{}linear_attn_config.", fields.path);
        let own = Fields {
            own,
            path: &path,
            ..*fields
        };
        let inner = own.needed("num_heads")? * own.needed("head_dim")?;
        let kernel = own.needed("short_conv_kernel_size")?.max(1);
        let width = own.needed("head_dim")?;
        return Ok(RecurrentLayer {
            parameters: 4 * text.hidden * inner + 2 * width * (text.hidden + inner) + 3 * inner * kernel,
            state_bytes: Some((kernel - 1) * 3 * inner * 2 + inner * width * 4),
        });
    }
    let inner = text.heads * text.head_width;
    Ok(RecurrentLayer {
        parameters: 5 * text.hidden * inner,
        state_bytes: Some(inner * text.head_width * 4),
    })
}

/// Mamba-2's sizes, in both spellings.
struct Mamba {
    inner: u128,
    mixed: u128,
    heads: u128,
    kernel: u128,
    state: u128,
}

fn mamba_sizes(fields: &Fields<'_>) -> Result<Option<Mamba>, ConfigError> {
    let of = |names: [&str; 2]| -> Result<Option<u128>, ConfigError> {
        match fields.count(names[0])? {
            Some(number) => Ok(Some(number)),
            None => fields.count(names[1]),
        }
    };
    let Some(heads) = of(["mamba_num_heads", "mamba_n_heads"])? else {
        return Ok(None);
    };
    let need = |names: [&str; 2]| of(names)?.ok_or_else(|| fields.absent(names[0]));
    let inner = heads * need(["mamba_head_dim", "mamba_d_head"])?;
    let state = need(["ssm_state_size", "mamba_d_state"])?;
    let groups = need(["n_groups", "mamba_n_groups"])?;
    let kernel = need(["conv_kernel", "mamba_d_conv"])?.max(1);
    Ok(Some(Mamba {
        inner,
        mixed: inner + 2 * groups * state,
        heads,
        kernel,
        state,
    }))
}

/// Bytes of one request's Mamba-2 state: the convolution in 16 bits, the state in 32.
pub(super) fn mamba_state(fields: &Fields<'_>) -> Result<Option<u128>, ConfigError> {
    let sizes = mamba_sizes(fields)?;
    Ok(sizes.map(|sizes| (sizes.kernel - 1) * sizes.mixed * 2 + sizes.inner * sizes.state * 4))
}

fn mamba(fields: &Fields<'_>, text: &Text<'_>, layers: &Layers) -> Result<u128, ConfigError> {
    let count = layers.count(Mixer::Mamba);
    if count == 0 {
        return Ok(0);
    }
    if let Some(sizes) = mamba_sizes(fields)? {
        let one = text.hidden * (sizes.inner + sizes.mixed + sizes.heads)
            + sizes.mixed * (sizes.kernel + 1)
            + sizes.inner * (text.hidden + 1);
        return Ok(count * one);
    }
    // Mamba-1 (Jamba).
    let inner = fields.needed("mamba_expand")? * text.hidden;
    let state = fields.needed("mamba_d_state")?;
    let rank = fields.needed("mamba_dt_rank")?;
    let kernel = fields.needed("mamba_d_conv")?;
    Ok(count * inner * (3 * text.hidden + kernel + 2 * rank + 3 * state))
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
        if let Some(activation) = fields.text(name)? {
            return match activation {
                "silu" | "swish" | "swiglu" | "geglu" => Ok(true),
                _ => Err(fields.error(
                    "model_type",
                    format!(
                        "{:?} is a family that vramgate does not know, so its parameters cannot be counted; give \
                         model.safetensors.index.json or the *.safetensors beside config.json as well",
                        text.family
                    ),
                )),
            };
        }
    }
    Ok(true)
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

/// Parameters of vision and audio towers; an error where they cannot be told.
pub(super) fn towers(outer: &Fields<'_>, hidden: u128) -> Result<u128, ConfigError> {
    let mut total = 0;
    for name in ["vision_config", "vit_config", "audio_config"] {
        if let Some(own) = outer.child(name)?
            && !own.is_empty()
        {
            let path = format!("{name}.");
            let tower = Fields {
                own,
                path: &path,
                outer: outer.outer,
                defaults: &[],
            };
            total += one_tower(&tower, outer, hidden)?;
        }
    }
    for name in [
        "talker_config",
        "embd_layer",
        "code2wav_config",
        "token2wav_config",
    ] {
        if outer.value(name).is_some() {
            return Err(unknown_tower(outer, name));
        }
    }
    Ok(total)
}

fn unknown_tower(fields: &Fields<'_>, name: &str) -> ConfigError {
    fields.error(
        name,
        "is a part whose parameters cannot be counted from this file; give model.safetensors.index.json or the \
         *.safetensors beside config.json as well",
    )
}

fn one_tower(tower: &Fields<'_>, outer: &Fields<'_>, text_hidden: u128) -> Result<u128, ConfigError> {
    // Qwen2-VL: `hidden_size` is the width of the output, `embed_dim` the tower's own.
    let width = match tower.count("embed_dim")? {
        Some(width) => Some(width),
        None => tower.size(HIDDEN)?.map(u128::from),
    };
    let depth = match tower.count("depth")? {
        Some(depth) => Some(depth),
        None => match tower.count("num_hidden_layers")? {
            Some(depth) => Some(depth + tower.count("num_global_layers")?.unwrap_or(0)),
            None => tower.count("encoder_layers")?,
        },
    };
    let (Some(width), Some(depth)) = (width, depth) else {
        return Err(unknown_tower(tower, "hidden_size"));
    };
    if tower.value("conf_num_attention_heads").is_some() || tower.value("conf_num_hidden_layers").is_some() {
        return Err(unknown_tower(tower, "conf_num_hidden_layers"));
    }
    let inner = match tower.size(INTERMEDIATE)? {
        Some(inner) => u128::from(inner),
        None => match tower.count("encoder_ffn_dim")? {
            Some(inner) => inner,
            None => match tower.number("mlp_ratio", 1, 64)? {
                Some(ratio) => u128::from(ratio) * width,
                None => return Err(unknown_tower(tower, "intermediate_size")),
            },
        },
    };
    let is_gated = matches!(tower.text("hidden_act")?, Some("silu" | "swiglu"))
        || matches!(tower.text("model_type")?, Some("pixtral" | "gemma4_vision"));
    let matrices = if is_gated { 3 } else { 2 };
    let blocks = depth * (4 * width * width + matrices * width * inner + 9 * width + inner);
    let patch = tower
        .count("spatial_patch_size")?
        .or(tower.count("patch_size")?)
        .unwrap_or(0)
        .min(1 << 10);
    let channels = tower
        .count("num_channels")?
        .or(tower.count("in_channels")?)
        .unwrap_or(3)
        .min(1 << 10);
    let frames = tower.count("temporal_patch_size")?.unwrap_or(1).min(1 << 10);
    let mut total = blocks + patch * patch * channels * frames * width;
    total += match (
        tower.number("num_position_embeddings", 1, WIDTH)?,
        tower.number("image_size", 1, WIDTH)?,
    ) {
        (Some(rows), _) => u128::from(rows) * width,
        (None, Some(side)) if patch > 0 => (u128::from(side) / patch).pow(2) * width,
        _ => 0,
    };
    // The projector into the text model's width.
    total += if let Some(merge) = tower.count("spatial_merge_size")? {
        let rows = merge.min(1 << 8).pow(2) * width;
        let more = tower
            .list("deepstack_visual_indexes")?
            .map_or(0, |items| items.len().min(64) as u128);
        (1 + more) * (rows * rows + rows * text_hidden)
    } else {
        let outputs = tower.count("vision_output_dim")?.unwrap_or(width);
        let merge = outer.count("spatial_merge_size")?.unwrap_or(0).min(1 << 8).pow(2);
        let second = if outer.value("mm_tokens_per_image").is_some() {
            0
        } else {
            text_hidden * text_hidden
        };
        merge * width * width + outputs * text_hidden + second
    };
    Ok(total)
}
