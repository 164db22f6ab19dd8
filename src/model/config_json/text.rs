//! The text model of a `config.json`, family by family.

use serde_json::Value;

use super::layers::{self, Feed, Layers};
use super::narrow;
use super::read::{
    ConfigError, Fields, HEAD_DIM, HEADS, HIDDEN, INTERMEDIATE, KV_HEADS, LAYERS, POSITIONS, VOCABULARY,
    WIDTH, shown,
};
use crate::model::{Experts, Latent};

/// Encoders: they read once and cache nothing.
const ENCODERS: [&str; 13] = [
    "bert",
    "roberta",
    "xlm-roberta",
    "distilbert",
    "modernbert",
    "nomic_bert",
    "new",
    "mpnet",
    "camembert",
    "electra",
    "deberta",
    "deberta-v2",
    "eurobert",
];
/// Families whose class ties output and embedding where the file does not say it.
const TIED: [&str; 14] = [
    "gemma",
    "gemma2",
    "gemma3",
    "gemma3_text",
    "gemma3n",
    "gemma3n_text",
    "gemma4",
    "gemma4_text",
    "cohere",
    "cohere2",
    "gpt2",
    "opt",
    "starcoder2",
    "whisper",
];
/// Families whose class does not.
const UNTIED: [&str; 37] = [
    "llama",
    "llama4_text",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen2_moe",
    "qwen2_vl",
    "qwen2_5_vl",
    "qwen3",
    "qwen3_moe",
    "qwen3_next",
    "qwen3_vl_text",
    "qwen3_vl_moe_text",
    "qwen3_5_text",
    "qwen3_5_moe_text",
    "phi3",
    "phimoe",
    "deepseek_v2",
    "deepseek_v3",
    "deepseek_v32",
    "gpt_oss",
    "glm",
    "glm4",
    "glm4_moe",
    "glm_moe_dsa",
    "kimi_k2",
    "kimi_linear",
    "minimax",
    "minimax_m2",
    "olmo2",
    "olmo3",
    "internlm2",
    "falcon",
    "gpt_neox",
    "nemotron",
    "nemotron_h",
    "mllama_text_model",
];
/// Families whose MLPs have a gate, beyond those of the two lists above.
const GATED: [&str; 24] = [
    "granite",
    "granitemoe",
    "granitemoehybrid",
    "smollm3",
    "olmo",
    "olmoe",
    "stablelm",
    "yi",
    "internlm3",
    "baichuan",
    "exaone4",
    "ernie4_5",
    "ernie4_5_moe",
    "hunyuan_v1_dense",
    "hunyuan_v1_moe",
    "seed_oss",
    "lfm2",
    "jamba",
    "bamba",
    "arcee",
    "apertus",
    "decilm",
    "nemotron-nas",
    "dots1",
];
/// Families whose class fills in fewer key and value heads than query heads: silence there is not the same number.
const GROUPED: [&str; 8] = [
    "mistral",
    "mixtral",
    "qwen",
    "gemma",
    "glm4",
    "gpt_oss",
    "minimax",
    "starcoder2",
];

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

/// Experts; widths in the space that they work in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mixture {
    pub(super) count: u128,
    active: u128,
    shared: u128,
    pub(super) width: u128,
    /// Width of all shared experts together.
    pub(super) shared_width: u128,
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
        let count = fields.required(LAYERS)?;
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
        let kv_heads_by_layer = blocks_kv_heads(fields, heads)?;
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
        let dense_by_layer = blocks_widths(fields, hidden)?;
        let intermediate = intermediate(fields, family, hidden, dense_by_layer.as_deref())?;
        let experts = mixture(fields, intermediate)?;
        let feeds = match (&layers.feeds, experts) {
            (Some(feeds), _) => feeds.clone(),
            (None, Some(_)) => layers::feeds(fields, family, layers.mixers.len())?,
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

    /// The experts as the entry has them.
    pub(super) fn experts_of_entry(&self) -> Result<Option<Experts>, ConfigError> {
        let Some(mixture) = self.experts else {
            return Ok(None);
        };
        let is_expert = |feed: &Feed| *feed == Feed::Experts;
        let first = self.feeds.iter().position(is_expert).unwrap_or(self.feeds.len());
        let with = self.feeds.iter().filter(|feed| is_expert(feed)).count();
        // Of the layers from the first with experts on, one in so many has them, rounded to the nearest.
        let rest = self.feeds.len().saturating_sub(first);
        let every = (2 * rest + with).checked_div(2 * with).unwrap_or(1).max(1);
        // `first` alone counts as dense what only waits for its turn (Llama 4: the second, the fourth, ...).
        let first_dense = if first < every { 0 } else { first };
        Ok(Some(Experts {
            count: narrow("num_experts", mixture.count)?,
            active: narrow("num_experts_per_tok", mixture.active)?,
            shared: narrow("n_shared_experts", mixture.shared)?,
            intermediate_size: narrow("moe_intermediate_size", mixture.width)?,
            first_dense: narrow("first_k_dense_replace", first_dense as u128)?,
            every: narrow("moe_layer_freq", every as u128)?,
        }))
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
    match fields.size(HEADS)? {
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
    let stated = fields.size(INTERMEDIATE)?.map(u128::from);
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

fn mixture(fields: &Fields<'_>, intermediate: Option<u128>) -> Result<Option<Mixture>, ConfigError> {
    let most = 1 << 16;
    let first = |names: &[&'static str]| -> Result<Option<(&'static str, u128)>, ConfigError> {
        for name in names.iter().copied() {
            if let Some(number) = fields.number(name, 0, most)?.filter(|number| *number > 0) {
                return Ok(Some((name, u128::from(number))));
            }
        }
        Ok(None)
    };
    let count = first(&[
        "n_routed_experts",
        "num_local_experts",
        "num_experts",
        "moe_num_experts",
        "n_experts",
    ])?;
    let Some((count_name, count)) = count else {
        return Ok(None);
    };
    if count == 1 {
        return Ok(None);
    }
    let active = first(&[
        "num_experts_per_tok",
        "num_experts_per_token",
        "experts_per_token",
        "top_k_experts",
        "moe_topk",
        "moe_k",
        "moe_top_k",
    ])?;
    let Some((active_name, active)) = active else {
        return Err(fields.absent("num_experts_per_tok"));
    };
    if active > count {
        return Err(fields.error(
            active_name,
            format!("{active} is more than {count_name}, which is {count}; one of the two is wrong"),
        ));
    }
    let width = match fields.number("moe_intermediate_size", 1, WIDTH)? {
        Some(width) => Some(width),
        None => match fields.number("expert_intermediate_size", 1, WIDTH)? {
            Some(width) => Some(width),
            None => fields.number("expert_ffn_hidden_size", 1, WIDTH)?,
        },
    };
    let width = width
        .map(u128::from)
        .or(intermediate)
        .ok_or_else(|| fields.absent("moe_intermediate_size"))?;
    let shared = first(&[
        "n_shared_experts",
        "num_shared_experts",
        "moe_num_shared_experts",
        "num_shared_expert",
    ])?;
    let mut total = None;
    for name in [
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "shared_intermediate_size",
    ] {
        total = total.or(fields.count(name)?.filter(|width| *width > 0));
    }
    // Llama 4 has one shared expert in each of these layers and no field for it.
    let is_llama = fields.value("intermediate_size_mlp").is_some();
    let shared = match shared {
        Some((_, shared)) => shared,
        None => u128::from(total.is_some() || is_llama),
    };
    Ok(Some(Mixture {
        count,
        active,
        shared,
        width,
        shared_width: total.unwrap_or(shared * width),
    }))
}

/// `DeciLM`: key and value heads of each layer.
fn blocks_kv_heads(fields: &Fields<'_>, heads: u128) -> Result<Option<Vec<u128>>, ConfigError> {
    let Some(blocks) = fields.list("block_configs")? else {
        return Ok(None);
    };
    let by_layer = blocks.iter().map(|block| {
        let attention = block.get("attention").unwrap_or(&Value::Null);
        let is = |name: &str| attention.get(name).and_then(Value::as_bool) == Some(true);
        if is("no_op") || is("replace_with_linear") {
            return Ok(0);
        }
        let group = attention.get("n_heads_in_group").unwrap_or(&Value::Null);
        match group.as_u64().map(u128::from) {
            Some(group) if group > 0 && heads.is_multiple_of(group) => Ok(heads / group),
            _ => Err(fields.error(
                "block_configs",
                format!(
                    "n_heads_in_group {} does not divide {heads} heads; correct the block",
                    shown(group)
                ),
            )),
        }
    });
    by_layer.collect::<Result<Vec<_>, _>>().map(Some)
}

/// `DeciLM`: widths of the MLPs: two thirds of a multiple of twice the width, rounded up to 256.
fn blocks_widths(fields: &Fields<'_>, hidden: u128) -> Result<Option<Vec<u128>>, ConfigError> {
    let Some(blocks) = fields.list("block_configs")? else {
        return Ok(None);
    };
    let widths = blocks.iter().map(|block| {
        let feed = block.get("ffn").unwrap_or(&Value::Null);
        let is = |name: &str| feed.get(name).and_then(Value::as_bool) == Some(true);
        if is("no_op") {
            return Ok(0);
        }
        if is("replace_with_linear") {
            // One matrix instead of three.
            return Ok(hidden / 3);
        }
        if let Some(width) = feed
            .get("intermediate_size")
            .and_then(Value::as_u64)
            .filter(|width| *width <= WIDTH)
        {
            return Ok(u128::from(width));
        }
        let multiple = feed.get("ffn_mult").unwrap_or(&Value::Null);
        match decimal(multiple) {
            Some((digits, scale)) if digits <= 100 * scale => {
                let width = 2 * digits * hidden / (3 * scale);
                Ok(width.next_multiple_of(256))
            }
            _ => Err(fields.error(
                "block_configs",
                format!("ffn_mult {} is no multiple; correct the block", shown(multiple)),
            )),
        }
    });
    widths.collect::<Result<Vec<_>, _>>().map(Some)
}

/// A decimal number as digits and a power of ten.
fn decimal(value: &Value) -> Option<(u128, u128)> {
    let Value::Number(number) = value else { return None };
    let text = number.to_string();
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    if whole.len() + part.len() > 24 || part.len() > 18 {
        return None;
    }
    let digits = format!("{whole}{part}").parse().ok()?;
    Some((digits, 10_u128.pow(u32::try_from(part.len()).ok()?)))
}
