//! The text model of a `config.json`, family by family.

use serde_json::Value;

use super::blocks;
use super::experts::{self, Mixture, mixture};
use super::families::{ENCODERS, GATED, GROUPED, TIED, UNTIED};
use super::layers::{self, Feed, Layers};
use super::narrow;
use super::read::{
    ConfigError, DECODER_HEADS, DECODER_INTERMEDIATE, DECODER_LAYERS, Fields, HEAD_DIM, HEADS, HIDDEN,
    INTERMEDIATE, KV_HEADS, LAYERS, POSITIONS, VOCABULARY, WIDTH, shown,
};
use crate::model::Latent;

/// Multi-head latent attention.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latents {
    pub(super) rank: u128,
    pub(super) rope: u128,
    pub(super) nope: Option<u128>,
    pub(super) value: Option<u128>,
    pub(super) query_rank: Option<u128>,
    pub(super) indexer: bool,
}

/// The text model.
#[derive(Clone, Debug)]
pub(super) struct Text<'a> {
    pub(super) family: &'a str,
    pub(super) is_known_family: bool,
    pub(super) is_encoder: bool,
    pub(super) architecture: Option<String>,
    pub(super) has_output: bool,
    pub(super) has_output_gate: bool,
    pub(super) hidden: u128,
    pub(super) heads: u128,
    pub(super) kv_heads: u128,
    /// By layer, where layers differ (DeciLM); zero where a layer has none.
    pub(super) kv_heads_by_layer: Option<Vec<u128>>,
    pub(super) head_width: u128,
    pub(super) global_head_width: Option<u128>,
    pub(super) global_kv_heads: Option<u128>,
    pub(super) shared_layers: Option<u128>,
    pub(super) intermediate: Option<u128>,
    /// Widths of the MLPs by layer, where layers differ.
    pub(super) dense_by_layer: Option<Vec<u128>>,
    pub(super) vocabulary: Option<u128>,
    /// Positions that a sequence can have.
    pub(super) positions: u64,
    /// Positions as the file has them.
    pub(super) declared_positions: u64,
    pub(super) tied: Option<bool>,
    pub(super) latent: Option<Latents>,
    pub(super) experts: Option<Mixture>,
    pub(super) layers: Layers,
    pub(super) feeds: Vec<Feed>,
    pub(super) notes: Vec<String>,
}

impl<'a> Text<'a> {
    pub(super) fn read(fields: &Fields<'a>, whole: &Fields<'a>) -> Result<Self, ConfigError> {
        let family = match fields.text("model_type")? {
            Some(family) => family,
            None => whole
                .text("model_type")?
                .ok_or_else(|| fields.absent("model_type"))?,
        };
        let is_encoder = ENCODERS.contains(&family);
        let architecture = architecture(whole)?;
        let is_whisper = family == "whisper";
        let count = fields.required(if is_whisper { DECODER_LAYERS } else { LAYERS })?;
        let hidden = u128::from(fields.required(HIDDEN)?);
        let heads = heads(fields, family)?;
        let (declared_positions, positions) = positions(fields, family)?;
        let layers = layers::layers(
            fields,
            family,
            usize::try_from(count).unwrap_or(usize::MAX),
            positions,
        )?;
        let latent = latent(fields)?;
        let kv_heads_by_layer = blocks::kv_heads(fields, heads)?;
        let kv_heads = match &kv_heads_by_layer {
            Some(by_layer) => by_layer
                .iter()
                .copied()
                .max()
                .filter(|most| *most > 0)
                .ok_or_else(|| {
                    fields.error("block_configs", "no block has attention; write the entry by hand")
                })?,
            None => kv_heads(fields, family, heads)?,
        };
        if latent.is_none() && !heads.is_multiple_of(kv_heads) {
            return Err(fields.error(
                "num_key_value_heads",
                format!("{kv_heads} does not divide num_attention_heads, which is {heads}; one of the two is wrong"),
            ));
        }
        let head_width = head_width(fields, family, hidden, heads, latent.is_some())?;
        let dense_by_layer = blocks::widths(fields, hidden)?;
        let intermediate = intermediate(fields, family, hidden, dense_by_layer.as_deref())?;
        let experts = mixture(fields, intermediate)?;
        let feeds = match (&layers.feeds, experts) {
            (Some(feeds), _) => feeds.clone(),
            (None, Some(_)) => experts::feeds(fields, family, layers.mixers.len())?,
            (None, None) => vec![Feed::Dense; layers.mixers.len()],
        };
        let notes = notes(fields, family)?;
        let vocabulary = match fields.size(VOCABULARY)? {
            Some(number) => Some(number),
            None => Fields {
                own: fields.outer,
                path: "",
                ..*fields
            }
            .size(VOCABULARY)?,
        };
        let has_output = !is_encoder
            && architecture
                .as_deref()
                .is_none_or(|name| !name.ends_with("Model") || name.ends_with("LMHeadModel"));
        Ok(Self {
            family,
            is_known_family: is_encoder
                || [&TIED[..], &UNTIED, &GATED]
                    .iter()
                    .any(|list| list.contains(&family)),
            is_encoder,
            architecture,
            has_output,
            has_output_gate: fields
                .flag("attn_output_gate")?
                .unwrap_or_else(|| family.starts_with("qwen3_next") || family.starts_with("qwen3_5")),
            hidden,
            heads,
            kv_heads,
            kv_heads_by_layer,
            head_width,
            global_head_width: fields.number("global_head_dim", 1, 1 << 16)?.map(u128::from),
            global_kv_heads: fields
                .number("num_global_key_value_heads", 1, 1 << 16)?
                .map(u128::from),
            shared_layers: shared_layers(fields, layers.mixers.len())?,
            intermediate,
            dense_by_layer,
            vocabulary: vocabulary.map(u128::from),
            positions,
            declared_positions,
            tied: tied(fields, family)?,
            latent,
            experts,
            layers,
            feeds,
            notes,
        })
    }

    /// Latent attention as the entry has it.
    pub(super) fn latent_of_entry(&self) -> Result<Option<Latent>, ConfigError> {
        let Some(latent) = self.latent else {
            return Ok(None);
        };
        Ok(Some(Latent {
            kv_lora_rank: narrow("kv_lora_rank", latent.rank)?,
            qk_rope_head_dim: narrow("qk_rope_head_dim", latent.rope)?,
            qk_nope_head_dim: latent
                .nope
                .map(|width| narrow("qk_nope_head_dim", width))
                .transpose()?,
            v_head_dim: latent
                .value
                .map(|width| narrow("v_head_dim", width))
                .transpose()?,
            indexer: latent.indexer,
        }))
    }

    /// The cache of one token where layers differ in a way that the entry's fields cannot say.
    pub(super) fn stated_kv_bytes(&self) -> Option<u64> {
        let by_layer = self.kv_heads_by_layer.as_ref()?;
        let heads: u128 = by_layer.iter().sum();
        u64::try_from(2 * 2 * heads * self.head_width).ok()
    }
}

fn notes(fields: &Fields<'_>, family: &str) -> Result<Vec<String>, ConfigError> {
    let mut notes = Vec::new();
    if let Some(items) = fields.list("cross_attention_layers")? {
        notes.push(format!(
            "{} layers are cross-attention, which cache vision states",
            items.len()
        ));
    }
    if family == "whisper" {
        notes.push(
            "cross-attention to the audio takes a cache of its own beside that of the decoder".to_owned(),
        );
    }
    Ok(notes)
}

fn architecture(whole: &Fields<'_>) -> Result<Option<String>, ConfigError> {
    let Some(items) = whole.list("architectures")? else {
        return Ok(None);
    };
    match items.first() {
        None => Ok(None),
        Some(Value::String(name)) if name.len() <= 200 => Ok(Some(name.clone())),
        Some(other) => Err(whole.error("architectures", format!("{} is no name of a class", shown(other)))),
    }
}

fn heads(fields: &Fields<'_>, family: &str) -> Result<u128, ConfigError> {
    match fields.size(if family == "whisper" { DECODER_HEADS } else { HEADS })? {
        Some(heads) => Ok(u128::from(heads)),
        None if family.starts_with("mamba") => Err(fields.error(
            "model_type",
            format!("{family:?} has no attention at all; write the entry by hand, with kvBytesPerToken"),
        )),
        None => Err(fields.absent("num_attention_heads")),
    }
}

fn kv_heads(fields: &Fields<'_>, family: &str, heads: u128) -> Result<u128, ConfigError> {
    // Falcon's first generation ignores the number and goes by a flag.
    if family == "falcon" || fields.value("new_decoder_architecture").is_some() {
        let is_new = fields.flag("new_decoder_architecture")?.unwrap_or(false);
        if !is_new {
            return Ok(if fields.flag("multi_query")?.unwrap_or(true) {
                1
            } else {
                heads
            });
        }
    }
    if family == "gpt_bigcode" {
        return Ok(if fields.flag("multi_query")?.unwrap_or(true) {
            1
        } else {
            heads
        });
    }
    match fields.size(KV_HEADS)? {
        Some(number) => Ok(u128::from(number)),
        None if GROUPED.iter().any(|group| family.starts_with(group)) && family != "qwen" => {
            Err(fields.absent("num_key_value_heads"))
        }
        None => Ok(heads),
    }
}

fn head_width(
    fields: &Fields<'_>,
    family: &str,
    hidden: u128,
    heads: u128,
    is_latent: bool,
) -> Result<u128, ConfigError> {
    if let Some(width) = fields.size(HEAD_DIM)? {
        return Ok(u128::from(width));
    }
    if is_latent || hidden.is_multiple_of(heads) && !family.starts_with("gemma") {
        return Ok(hidden / heads);
    }
    if family.starts_with("gemma") {
        return Err(fields.absent("head_dim"));
    }
    Err(fields.error(
        "num_attention_heads",
        format!(
            "{heads} does not divide hidden_size, which is {hidden}; add head_dim, or correct one of the two"
        ),
    ))
}

/// Positions as declared, and those of a sequence.
fn positions(fields: &Fields<'_>, family: &str) -> Result<(u64, u64), ConfigError> {
    let declared = match fields.size(POSITIONS)? {
        Some(number) => number,
        // FalconConfig's own default; the files of its first generation are silent.
        None if family == "falcon" => 2048,
        None => return Err(fields.absent("max_position_embeddings")),
    };
    // RoBERTa's first rows stand for padding (transformers, `create_position_ids_from_input_ids`).
    let padding = if matches!(family, "roberta" | "xlm-roberta" | "camembert") {
        1 + fields.number("pad_token_id", 0, 1 << 28)?.unwrap_or(1)
    } else {
        0
    };
    match declared.checked_sub(padding) {
        Some(positions) if positions > 0 => Ok((declared, positions)),
        _ => Err(fields.error(
            "max_position_embeddings",
            format!("{declared} leaves none beside the padding; correct it"),
        )),
    }
}

fn intermediate(
    fields: &Fields<'_>,
    family: &str,
    hidden: u128,
    by_layer: Option<&[u128]>,
) -> Result<Option<u128>, ConfigError> {
    // Gemma 3n: one width for each layer.
    if let Some(Value::Array(items)) = fields.value("intermediate_size") {
        let mut widest = None;
        for item in items {
            match item.as_u64() {
                Some(width) if (1..=WIDTH).contains(&width) => widest = widest.max(Some(u128::from(width))),
                _ => {
                    return Err(fields.error(
                        "intermediate_size",
                        format!("{} is no width; correct the list", shown(item)),
                    ));
                }
            }
        }
        return Ok(widest);
    }
    if let Some(widths) = by_layer {
        return Ok(widths.iter().copied().max().filter(|width| *width > 0));
    }
    let is_whisper = family == "whisper";
    let stated = fields
        .size(if is_whisper {
            DECODER_INTERMEDIATE
        } else {
            INTERMEDIATE
        })?
        .map(u128::from);
    // Four times the width is what these classes fill in.
    let is_fourfold = matches!(
        family,
        "falcon" | "gpt2" | "gpt_bigcode" | "gpt_neo" | "gptj" | "bloom" | "mpt" | "codegen"
    );
    Ok(stated.or_else(|| is_fourfold.then_some(4 * hidden)))
}

fn shared_layers(fields: &Fields<'_>, count: usize) -> Result<Option<u128>, ConfigError> {
    let Some(shared) = fields.count("num_kv_shared_layers")?.filter(|shared| *shared > 0) else {
        return Ok(None);
    };
    if shared >= count as u128 {
        return Err(fields.error(
            "num_kv_shared_layers",
            format!("{shared} of {count} layers leave none that fills a cache; one of the two is wrong"),
        ));
    }
    Ok(Some(shared))
}

fn tied(fields: &Fields<'_>, family: &str) -> Result<Option<bool>, ConfigError> {
    match fields.anywhere("tie_word_embeddings") {
        Some((_, Value::Bool(tied))) => Ok(Some(*tied)),
        Some((path, other)) => Err(ConfigError::new(
            path,
            format!("{} is not true or false", shown(other)),
        )),
        None if TIED.contains(&family) => Ok(Some(true)),
        None if UNTIED.contains(&family) => Ok(Some(false)),
        None => Ok(None),
    }
}

fn latent(fields: &Fields<'_>) -> Result<Option<Latents>, ConfigError> {
    let Some(rank) = fields.number("kv_lora_rank", 1, WIDTH)? else {
        return Ok(None);
    };
    let width = |name: &str| fields.number(name, 1, WIDTH).map(|number| number.map(u128::from));
    Ok(Some(Latents {
        rank: u128::from(rank),
        rope: width("qk_rope_head_dim")?.ok_or_else(|| fields.absent("qk_rope_head_dim"))?,
        nope: width("qk_nope_head_dim")?,
        value: width("v_head_dim")?,
        query_rank: width("q_lora_rank")?,
        indexer: width("index_head_dim")?.is_some(),
    }))
}
