//! Fields of a `config.json`: typed, bounded, and named in errors as they stand in the file.

use std::fmt;

use serde_json::{Map, Value};

/// Why a `config.json` gives no entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The field, with the object that holds it: `text_config.hidden_size`; empty for the file as a whole.
    pub field: String,
    /// What is wrong, with the value, and what to do.
    pub problem: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            f.write_str(&self.problem)
        } else {
            write!(f, "{}: {}", self.field, self.problem)
        }
    }
}

impl ConfigError {
    pub(super) fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }
}

/// A name by which transformers' classes call a size, in all spellings, and the most that it may be. The bounds are far
/// above any model and keep every product below 2^128.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) names: &'static [&'static str],
    pub(super) most: u64,
}

const fn size(names: &'static [&'static str], most: u64) -> Size {
    Size { names, most }
}

pub(super) const WIDTH: u64 = 1 << 22;
pub(super) const LAYERS: Size = size(
    &["num_hidden_layers", "n_layer", "n_layers", "num_layers"],
    10_000,
);
/// Encoder and decoder together: what the decoder has (`num_hidden_layers` there is the encoder's).
pub(super) const DECODER_LAYERS: Size = size(&["decoder_layers"], 10_000);
pub(super) const DECODER_HEADS: Size = size(&["decoder_attention_heads"], 1 << 16);
pub(super) const DECODER_INTERMEDIATE: Size = size(&["decoder_ffn_dim"], WIDTH);
pub(super) const HIDDEN: Size = size(&["hidden_size", "n_embd", "d_model", "dim"], WIDTH);
pub(super) const HEADS: Size = size(
    &["num_attention_heads", "n_head", "n_heads", "num_heads"],
    1 << 16,
);
pub(super) const KV_HEADS: Size = size(
    &[
        "num_key_value_heads",
        "num_kv_heads",
        "n_head_kv",
        "n_kv_heads",
        "multi_query_group_num",
    ],
    1 << 16,
);
pub(super) const HEAD_DIM: Size = size(&["head_dim", "kv_channels", "attention_head_dim"], 1 << 16);
pub(super) const INTERMEDIATE: Size = size(
    &[
        "intermediate_size",
        "ffn_dim",
        "n_inner",
        "ffn_hidden_size",
        "hidden_dim",
    ],
    WIDTH,
);
pub(super) const VOCABULARY: Size = size(&["vocab_size", "padded_vocab_size"], 1 << 28);
pub(super) const POSITIONS: Size = size(
    &[
        "max_position_embeddings",
        "n_positions",
        "max_target_positions",
        "seq_length",
        "max_seq_len",
        "max_sequence_length",
        "max_seq_length",
        "n_ctx",
    ],
    1 << 36,
);

/// The object that describes the text model, and the one around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    pub(super) own: &'a Map<String, Value>,
    /// Name of `own` in the file with a dot, or nothing.
    pub(super) path: &'a str,
    /// The file's outermost object.
    pub(super) outer: &'a Map<String, Value>,
    /// What the class fills in where a nested object is silent.
    pub(super) defaults: &'static [(&'static str, u64)],
}

impl<'a> Fields<'a> {
    /// The object below a field of this one.
    pub(super) fn child(&self, name: &str) -> Result<Option<&'a Map<String, Value>>, ConfigError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(other) => Err(self.wrong(name, other, "an object")),
        }
    }

    /// A value that is there and not null.
    pub(super) fn value(&self, name: &str) -> Option<&'a Value> {
        self.own.get(name).filter(|value| !value.is_null())
    }

    /// A value of this object or, for what belongs to the whole file, of the one around it.
    pub(super) fn anywhere(&self, name: &str) -> Option<(String, &'a Value)> {
        if let Some(value) = self.value(name) {
            return Some((format!("{}{name}", self.path), value));
        }
        let value = self.outer.get(name).filter(|value| !value.is_null())?;
        Some((name.to_owned(), value))
    }

    pub(super) fn error(&self, name: &str, problem: impl Into<String>) -> ConfigError {
        ConfigError::new(format!("{}{name}", self.path), problem)
    }

    fn wrong(&self, name: &str, value: &Value, wanted: &str) -> ConfigError {
        self.error(name, format!("{} is not {wanted}", shown(value)))
    }

    /// A whole number from one (or zero, where that means something) to a bound.
    pub(super) fn number(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>, ConfigError> {
        let Some(value) = self.value(name) else {
            return Ok(self
                .defaults
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| *value));
        };
        match value.as_u64() {
            Some(number) if (least..=most).contains(&number) => Ok(Some(number)),
            _ => Err(self.wrong(name, value, &format!("a whole number from {least} to {most}"))),
        }
    }

    /// A width or a count below a name of its own.
    pub(super) fn count(&self, name: &str) -> Result<Option<u128>, ConfigError> {
        Ok(self.number(name, 0, WIDTH)?.map(u128::from))
    }

    /// The same, where the rest cannot be understood without it.
    pub(super) fn needed(&self, name: &str) -> Result<u128, ConfigError> {
        self.count(name)?.ok_or_else(|| self.absent(name))
    }

    /// A size in whichever spelling the file has. Two spellings that disagree are an error.
    pub(super) fn size(&self, size: Size) -> Result<Option<u64>, ConfigError> {
        let mut found: Option<(&str, u64)> = None;
        for name in size.names {
            let Some(number) = self.number(name, 1, size.most)? else {
                continue;
            };
            match found {
                None => found = Some((name, number)),
                Some((first, other)) if other != number && size.names != POSITIONS.names => {
                    return Err(self.error(
                        name,
                        format!("{number} contradicts {first}, which is {other}; keep the one that is right"),
                    ));
                }
                Some(_) => {}
            }
        }
        Ok(found.map(|(_, number)| number))
    }

    /// A size that every entry needs.
    pub(super) fn required(&self, size: Size) -> Result<u64, ConfigError> {
        let name = size.names.first().copied().unwrap_or_default();
        self.size(size)?.ok_or_else(|| self.absent(name))
    }

    pub(super) fn absent(&self, name: &str) -> ConfigError {
        self.error(
            name,
            "is absent, and the entry needs it; give the complete config.json, or add the field",
        )
    }

    /// A yes or no.
    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, ConfigError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(self.wrong(name, other, "true or false")),
        }
    }

    /// A text.
    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, ConfigError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, other, "a text")),
        }
    }

    /// A list.
    pub(super) fn list(&self, name: &str) -> Result<Option<&'a [Value]>, ConfigError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(other) => Err(self.wrong(name, other, "a list")),
        }
    }

    /// A list with one value for each layer.
    pub(super) fn by_layer(&self, name: &str, layers: usize) -> Result<Option<&'a [Value]>, ConfigError> {
        match self.list(name)? {
            Some(items) if items.len() != layers => Err(self.error(
                name,
                format!(
                    "has {} values for {layers} layers; one of the two is wrong",
                    items.len()
                ),
            )),
            items => Ok(items),
        }
    }
}

/// A value in an error: short, whatever the file holds.
pub(super) fn shown(value: &Value) -> String {
    let text = match value {
        Value::Array(items) => return format!("a list of {}", items.len()),
        Value::Object(map) => return format!("an object of {} fields", map.len()),
        other => other.to_string(),
    };
    if text.chars().count() > 60 {
        let mut short: String = text.chars().take(60).collect();
        short.push('…');
        return short;
    }
    text
}
