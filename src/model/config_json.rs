//! A model's `config.json`: its shape as an entry of the catalogue.
//!
//! Field names and defaults are those of the configuration classes in transformers. What the file does not tell is an
//! error that names the field; nothing is guessed but what the class itself fills in.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

mod blocks;
mod count;
mod experts;
mod families;
mod layers;
mod read;
mod recurrent;
mod released;
mod text;
mod towers;

pub use read::ConfigError;

use super::json;
use super::{Confidence, Dtype, Format, Kind, Model, Recurrent};
use layers::{Layers, Mixer};
use read::Fields;
use text::Text;

/// Largest text of a `config.json`. Long ones list the layers that are not packed, and have some 100 KiB.
pub const MAX_BYTES: usize = 4 << 20;
/// Most values in one.
const MAX_VALUES: u32 = 200_000;
/// More parameters than any model has; above it a file is wrong.
const MAX_PARAMETERS: u128 = 1_000_000_000_000_000;

/// Objects that hold the text model of a multimodal one, in the order in which they are looked for.
const NESTED: [&str; 5] = [
    "text_config",
    "llm_config",
    "language_config",
    "language_model_config",
    "decoder_config",
];

/// What a `config.json` tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The entry, except for `parameters`, `torch_dtype` and `source`, which other files may know better.
    pub(super) model: Model,
    /// Parameters by the shape, or why they cannot be counted.
    pub(super) parameters: Result<u64, ConfigError>,
    /// The type of the weights, or why it is not known.
    pub(super) torch_dtype: Result<Dtype, ConfigError>,
}

/// Reads an entry from the text of a `config.json` alone.
///
/// # Errors
/// Names the field, its value and the remedy where the file is no JSON, lacks what an entry needs, contradicts itself,
/// or describes a cache that the fields of an entry cannot.
pub fn from_config(text: &str, id: &str) -> Result<Model, ConfigError> {
    let config = Config::parse(text, id)?;
    let mut model = config.model;
    model.parameters = config.parameters?;
    model.torch_dtype = config.torch_dtype?;
    Ok(model)
}

/// Adds to what the fields cannot say.
pub(super) fn add_note(model: &mut Model, text: &str) {
    match &mut model.note {
        Some(note) => {
            note.push_str("; ");
            note.push_str(text);
        }
        note => *note = Some(text.to_owned()),
    }
}

impl Config {
    /// Reads the text of a `config.json`.
    ///
    /// # Errors
    /// As [`from_config`], except that neither a missing type of the weights nor a number of parameters that cannot be
    /// counted is an error yet.
    pub fn parse(text: &str, id: &str) -> Result<Self, ConfigError> {
        let value = json::parse(text, MAX_BYTES, MAX_VALUES).map_err(|problem| {
            ConfigError::new("", format!("is no readable JSON: {problem}; download it again"))
        })?;
        let Value::Object(outer) = value else {
            return Err(ConfigError::new(
                "",
                "is no JSON object; give a model's config.json",
            ));
        };
        Self::from_object(&outer, id)
    }

    fn from_object(file: &Map<String, Value>, id: &str) -> Result<Self, ConfigError> {
        if file.contains_key("peft_type") {
            return Err(ConfigError::new(
                "peft_type",
                "this is an adapter, which has no shape of its own; give the files of its base_model_name_or_path",
            ));
        }
        let whole = Fields {
            own: file,
            path: "",
            outer: file,
            defaults: &[],
        };
        // Qwen's omni models wrap what answers in one more object.
        let (outer, path) = match whole.child("thinker_config")? {
            Some(thinker) => (thinker, "thinker_config."),
            None => (file, ""),
        };
        let outer = Fields {
            own: outer,
            path,
            outer: file,
            defaults: &[],
        };
        let nested = NESTED
            .into_iter()
            .find(|name| outer.value(name).is_some_and(Value::is_object));
        let nested_path = nested.map(|name| format!("{path}{name}."));
        let fields = match (nested, &nested_path) {
            (Some(name), Some(path)) => {
                let own = outer.child(name)?.unwrap_or(file);
                let family = own.get("model_type").and_then(Value::as_str).unwrap_or_default();
                Fields {
                    own,
                    path,
                    outer: file,
                    defaults: class_defaults(family),
                }
            }
            _ => outer,
        };
        let text = Text::read(&fields, &whole)?;
        let tower = ["vision_config", "vit_config", "audio_config", "embd_layer"]
            .into_iter()
            .any(|name| outer.value(name).is_some())
            || text.family == "whisper";
        let parameters = count::text_model(&fields, &text, &text.layers)
            .and_then(|parameters| Ok(parameters + count::whisper_encoder(&fields, &text)?))
            .and_then(|parameters| Ok(parameters + towers::towers(&outer, text.hidden)?))
            .and_then(|parameters| match u64::try_from(parameters) {
                Ok(number) if parameters <= MAX_PARAMETERS && number > 0 => Ok(number),
                _ => Err(ConfigError::new(
                    "",
                    format!("its sizes make {parameters} parameters, which no model has; correct them"),
                )),
            });
        // What is too large or contradicts itself is wrong whatever other files say.
        if let Err(error) = &parameters
            && error.field.is_empty()
        {
            return Err(error.clone());
        }
        let torch_dtype = dtype(&fields, text.is_encoder);
        let model = entry(&fields, &text, id, tower)?;
        Ok(Self {
            model,
            parameters,
            torch_dtype,
        })
    }
}

/// Parameters of draft layers; absent where there are none, or where they cannot be counted and only other files tell.
fn draft_parameters(fields: &Fields<'_>, text: &Text<'_>) -> Option<u64> {
    let drafts = count::drafts(fields, text).ok()?;
    u64::try_from(drafts).ok().filter(|drafts| *drafts > 0)
}

/// What the classes fill in where an object inside another is silent: Gemma 3 and LLaVA publish such files.
fn class_defaults(family: &str) -> &'static [(&'static str, u64)] {
    match family {
        "gemma3_text" => &[
            ("vocab_size", 262_208),
            ("num_attention_heads", 8),
            ("num_key_value_heads", 4),
            ("head_dim", 256),
            ("max_position_embeddings", 131_072),
        ],
        "llama" => &[
            ("hidden_size", 4096),
            ("intermediate_size", 11008),
            ("num_hidden_layers", 32),
            ("num_attention_heads", 32),
            ("max_position_embeddings", 2048),
        ],
        "mistral" => &[
            ("hidden_size", 4096),
            ("intermediate_size", 14336),
            ("num_hidden_layers", 32),
            ("num_attention_heads", 32),
            ("num_key_value_heads", 8),
            ("vocab_size", 32000),
        ],
        _ => &[],
    }
}

fn dtype(fields: &Fields<'_>, is_encoder: bool) -> Result<Dtype, ConfigError> {
    let found = fields
        .anywhere("torch_dtype")
        .or_else(|| fields.anywhere("dtype"));
    let Some((path, value)) = found else {
        if is_encoder {
            // Files that say nothing were saved in 32 bits, which is what transformers loads them in.
            return Ok(Dtype::Float32);
        }
        return Err(ConfigError::new(
            "torch_dtype",
            "is absent; add bfloat16, float16 or float32, or give the *.safetensors as well",
        ));
    };
    let text = value.as_str().unwrap_or_default();
    match text.strip_prefix("torch.").unwrap_or(text) {
        "bfloat16" => Ok(Dtype::Bfloat16),
        "float16" | "half" => Ok(Dtype::Float16),
        "float32" | "float" => Ok(Dtype::Float32),
        _ => Err(ConfigError::new(
            path,
            format!(
                "{} is none of bfloat16, float16 and float32; write one of these",
                read::shown(value)
            ),
        )),
    }
}

/// A number of the file in the width of the entry's field.
fn narrow(name: &str, number: u128) -> Result<u32, ConfigError> {
    u32::try_from(number).map_err(|_| ConfigError::new(name, format!("{number} is too large; correct it")))
}

fn entry(fields: &Fields<'_>, text: &Text<'_>, id: &str, tower: bool) -> Result<Model, ConfigError> {
    let layers = &text.layers;
    let all = layers.mixers.len() as u128;
    let some_of_all = |count: u128| {
        if count < all {
            narrow("layer_types", count).map(Some)
        } else {
            Ok(None)
        }
    };
    let optional = |name: &str, number: Option<u128>| number.map(|number| narrow(name, number)).transpose();
    let released = released::released(fields)?;
    let mut model = Model {
        id: id.to_owned(),
        names: Vec::new(),
        kind: if text.is_encoder {
            Kind::Encoder
        } else {
            Kind::Decoder
        },
        architecture: text.architecture.clone(),
        parameters: 0,
        draft_parameters: draft_parameters(fields, text),
        num_hidden_layers: narrow("num_hidden_layers", all)?,
        hidden_size: narrow("hidden_size", text.hidden)?,
        num_attention_heads: narrow("num_attention_heads", text.heads)?,
        num_key_value_heads: narrow("num_key_value_heads", text.kv_heads)?,
        head_dim: if text.latent.is_some() {
            None
        } else {
            Some(narrow("head_dim", text.head_width)?)
        },
        intermediate_size: optional("intermediate_size", text.intermediate)?,
        vocab_size: optional("vocab_size", text.vocabulary)?,
        max_position_embeddings: text.positions,
        torch_dtype: Dtype::Bfloat16,
        tie_word_embeddings: text.tied,
        experts: text
            .experts
            .map(|experts| experts.of_entry(&text.feeds))
            .transpose()?,
        latent: text.latent_of_entry()?,
        full_attention_layers: some_of_all(layers.count(Mixer::Full))?,
        attention_layers: some_of_all(layers.attention())?,
        sliding_window: optional("sliding_window", layers.window.map(u128::from))?,
        attention_chunk_size: optional("attention_chunk_size", layers.chunk.map(u128::from))?,
        global_head_dim: optional("global_head_dim", text.global_head_width)?,
        num_global_key_value_heads: optional("num_global_key_value_heads", text.global_kv_heads)?,
        num_kv_shared_layers: optional("num_kv_shared_layers", text.shared_layers)?,
        recurrent: recurrent(fields, text, layers)?,
        tower,
        released,
        checkpoint_bytes: None,
        variants: Vec::new(),
        kv_bytes_per_token: text.stated_kv_bytes(),
        publications: BTreeMap::new(),
        source: format!("config.json of {id}"),
        confidence: Confidence::Verified,
        note: None,
    };
    if text.is_encoder {
        // Nothing is cached, so what its layers see is of no concern.
        (
            model.full_attention_layers,
            model.attention_layers,
            model.sliding_window,
        ) = (None, None, None);
    }
    for note in &text.notes {
        add_note(&mut model, note);
    }
    if released.is_some_and(Format::is_packed) && (tower || model.recurrent.is_some()) {
        add_note(
            &mut model,
            "parts of it stay unpacked; its size is known only from the files",
        );
    }
    Ok(model)
}

fn recurrent(
    fields: &Fields<'_>,
    text: &Text<'_>,
    layers: &Layers,
) -> Result<Option<Recurrent>, ConfigError> {
    if layers.recurrent() == 0 {
        return Ok(None);
    }
    let linear = match layers.count(Mixer::Linear) {
        0 => None,
        _ => recurrent::linear(fields, text)?.state_bytes,
    };
    let mamba = match layers.count(Mixer::Mamba) {
        0 => None,
        _ => recurrent::mamba_state(fields)?,
    };
    let state_bytes = linear.max(mamba).map(|bytes| {
        u64::try_from(bytes)
            .map_err(|_| ConfigError::new("linear_num_value_heads", "makes a state that no device holds"))
    });
    Ok(Some(Recurrent {
        layers: narrow("layer_types", layers.recurrent())?,
        state_bytes: state_bytes.transpose()?,
    }))
}

#[cfg(test)]
mod tests;
