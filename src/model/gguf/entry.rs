//! An entry from the metadata of a GGUF file. Keys: llama.cpp's `gguf-py/gguf/constants.py`.

use super::{Gguf, GgufError, Value};
use crate::model::{Confidence, Dtype, Experts, Format, Kind, Latent, Model, Recurrent};

/// Architectures that read once and cache nothing.
const ENCODERS: [&str; 8] = [
    "bert",
    "nomic-bert",
    "nomic-bert-moe",
    "jina-bert-v2",
    "jina-bert-v3",
    "modern-bert",
    "neo-bert",
    "eurobert",
];
/// Every how many layers one sees everything, where the file gives a window and no pattern (`llama-model.cpp`).
const PATTERNS: [(&str, u32); 7] = [
    ("gemma2", 2),
    ("gemma3", 6),
    ("cohere2", 4),
    ("gpt-oss", 2),
    ("olmo2", 4),
    ("exaone4", 4),
    ("gemma3n", 5),
];

fn wrong(key: &str, problem: impl std::fmt::Display) -> GgufError {
    GgufError::new(0, format!("{key}: {problem}"))
}

impl Gguf {
    /// The entry that the file gives. A part of a split file must first be completed ([`Gguf::add`]).
    ///
    /// # Errors
    /// Names the key that is absent, too large or contradicts another.
    pub fn model(&self, id: &str) -> Result<Model, GgufError> {
        let architecture = self.architecture()?;
        let keys = Keys {
            gguf: self,
            architecture,
        };
        let layers = keys.required("block_count", 10_000)?;
        let hidden = keys.required("embedding_length", 1 << 22)?;
        let heads = keys
            .by_layer("attention.head_count", layers)?
            .ok_or_else(|| keys.absent("attention.head_count"))?;
        let kv_heads = keys
            .by_layer("attention.head_count_kv", layers)?
            .unwrap_or_else(|| heads.clone());
        let most_heads = most(&heads).ok_or_else(|| keys.absent("attention.head_count"))?;
        let most_kv_heads = most(&kv_heads).ok_or_else(|| keys.absent("attention.head_count_kv"))?;
        let latent = keys.latent()?;
        if latent.is_none() && !most_heads.is_multiple_of(most_kv_heads) {
            return Err(wrong(
                &keys.name("attention.head_count_kv"),
                format_args!("{most_kv_heads} does not divide head_count, which is {most_heads}"),
            ));
        }
        let head_width = match keys.number("attention.key_length", 1 << 16)? {
            Some(width) => width,
            None if hidden.is_multiple_of(most_heads) => hidden / most_heads,
            None => return Err(keys.absent("attention.key_length")),
        };
        let positions = keys.required("context_length", u32::MAX)?;
        let kind = if ENCODERS.contains(&architecture) {
            Kind::Encoder
        } else {
            Kind::Decoder
        };
        let seen = keys.seen(&kv_heads, layers, positions)?;
        let format = self.format();
        let mut model = Model {
            id: id.to_owned(),
            names: Vec::new(),
            kind,
            architecture: None,
            parameters: self.parameters,
            draft_parameters: None,
            num_hidden_layers: layers,
            hidden_size: hidden,
            num_attention_heads: most_heads,
            num_key_value_heads: most_kv_heads,
            head_dim: if latent.is_some() { None } else { Some(head_width) },
            intermediate_size: keys
                .by_layer("feed_forward_length", layers)?
                .and_then(|widths| most(&widths)),
            vocab_size: keys.vocabulary()?,
            max_position_embeddings: positions.into(),
            torch_dtype: if format == Format::Float32 {
                Dtype::Float32
            } else {
                Dtype::Float16
            },
            tie_word_embeddings: Some(!self.has_output),
            experts: keys.experts()?,
            latent,
            full_attention_layers: seen.full,
            attention_layers: seen.attention,
            sliding_window: seen.window,
            attention_chunk_size: None,
            global_head_dim: None,
            num_global_key_value_heads: None,
            num_kv_shared_layers: keys.number("attention.shared_kv_layers", 10_000)?,
            recurrent: seen.recurrent,
            tower: false,
            released: Some(format).filter(|format| *format != Format::Float32),
            checkpoint_bytes: Some(self.tensor_bytes),
            variants: Vec::new(),
            kv_bytes_per_token: seen.kv_bytes(&kv_heads, head_width),
            publications: std::collections::BTreeMap::new(),
            source: format!("GGUF header of {id}"),
            confidence: Confidence::Verified,
            note: Some(format!(
                "GGUF architecture {architecture}; the type before it was packed is not in the file"
            )),
        };
        if kind == Kind::Encoder {
            (model.tie_word_embeddings, model.kv_bytes_per_token) = (None, None);
        }
        if model.parameters == 0 {
            return Err(GgufError::new(
                0,
                "has no tensors; give the complete file, or all of its parts",
            ));
        }
        Ok(model)
    }

    /// The architecture of a model that can be served by itself.
    fn architecture(&self) -> Result<&str, GgufError> {
        let architecture = self.text("general.architecture").ok_or_else(|| {
            wrong(
                "general.architecture",
                "is absent; give the first part of the model",
            )
        })?;
        if architecture == "clip" || self.text("general.type").is_some_and(|kind| kind != "model") {
            return Err(wrong(
                "general.type",
                "this is a projector or an adapter, which has no shape of its own; give the text model's file",
            ));
        }
        Ok(architecture)
    }

    /// The model's own name (`general.name`).
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.text("general.name")
    }

    fn text(&self, key: &str) -> Option<&str> {
        match self.values.get(key) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }
}

fn most(by_layer: &[u32]) -> Option<u32> {
    by_layer.iter().copied().max().filter(|most| *most > 0)
}

/// What the layers see.
struct Seen {
    full: Option<u32>,
    attention: Option<u32>,
    window: Option<u32>,
    recurrent: Option<Recurrent>,
}

impl Seen {
    /// The cache of a token, where layers have different numbers of heads.
    fn kv_bytes(&self, kv_heads: &[u32], head_width: u32) -> Option<u64> {
        let mut with = kv_heads.iter().copied().filter(|heads| *heads > 0);
        let first = with.next()?;
        if with.all(|heads| heads == first) || self.window.is_some() {
            return None;
        }
        let heads: u64 = kv_heads.iter().map(|heads| u64::from(*heads)).sum();
        heads.checked_mul(u64::from(head_width))?.checked_mul(4)
    }
}

/// Keys that begin with the architecture's name.
struct Keys<'a> {
    gguf: &'a Gguf,
    architecture: &'a str,
}

impl Keys<'_> {
    fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    fn value(&self, key: &str) -> Option<&Value> {
        self.gguf.values.get(&self.name(key))
    }

    fn absent(&self, key: &str) -> GgufError {
        wrong(
            &self.name(key),
            "is absent, and the entry needs it; convert the model again, or give its config.json",
        )
    }

    fn checked(&self, key: &str, number: i128, most: u32) -> Result<u32, GgufError> {
        u32::try_from(number)
            .ok()
            .filter(|number| *number <= most)
            .ok_or_else(|| wrong(&self.name(key), format_args!("{number} is not from 0 to {most}")))
    }

    /// A number above zero; zero stands for absent.
    fn number(&self, key: &str, most: u32) -> Result<Option<u32>, GgufError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Integer(number)) => {
                Ok(Some(self.checked(key, *number, most)?).filter(|number| *number > 0))
            }
            Some(_) => Err(wrong(&self.name(key), "is no whole number")),
        }
    }

    fn required(&self, key: &str, most: u32) -> Result<u32, GgufError> {
        self.number(key, most)?.ok_or_else(|| self.absent(key))
    }

    /// A number for each layer, or one for all.
    fn by_layer(&self, key: &str, layers: u32) -> Result<Option<Vec<u32>>, GgufError> {
        let most = 1 << 22;
        let count = layers as usize;
        match self.value(key) {
            None => Ok(None),
            Some(Value::Integer(number)) => Ok(Some(vec![self.checked(key, *number, most)?; count])),
            Some(Value::List {
                items: Some(items), ..
            }) if items.len() == count => {
                let numbers = items.iter().map(|number| self.checked(key, *number, most));
                numbers.collect::<Result<Vec<_>, _>>().map(Some)
            }
            Some(Value::List { length, .. }) => Err(wrong(
                &self.name(key),
                format_args!("has {length} values for {layers} layers"),
            )),
            Some(_) => Err(wrong(
                &self.name(key),
                "is neither a whole number nor a list of them",
            )),
        }
    }

    fn vocabulary(&self) -> Result<Option<u32>, GgufError> {
        if let Some(stated) = self.number("vocab_size", 1 << 28)? {
            return Ok(Some(stated));
        }
        match self.gguf.values.get("tokenizer.ggml.tokens") {
            Some(Value::List { length, .. }) => {
                self.checked("vocab_size", i128::from(*length), 1 << 28).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn experts(&self) -> Result<Option<Experts>, GgufError> {
        let most = 1 << 16;
        let Some(count) = self.number("expert_count", most)?.filter(|count| *count > 1) else {
            return Ok(None);
        };
        let active = self.required("expert_used_count", most)?;
        if active > count {
            return Err(wrong(
                &self.name("expert_used_count"),
                format_args!("{active} is more than expert_count, which is {count}"),
            ));
        }
        let width = match self.number("expert_feed_forward_length", 1 << 22)? {
            Some(width) => width,
            None => self.required("feed_forward_length", 1 << 22)?,
        };
        let shared = match self.number("expert_shared_count", most)? {
            Some(shared) => shared,
            None => u32::from(
                self.number("expert_shared_feed_forward_length", 1 << 22)?
                    .is_some(),
            ),
        };
        Ok(Some(Experts {
            count,
            active,
            shared,
            intermediate_size: width,
            first_dense: self.number("leading_dense_block_count", 10_000)?.unwrap_or(0),
            every: self.number("interleave_moe_layer_step", 10_000)?.unwrap_or(1),
        }))
    }

    fn latent(&self) -> Result<Option<Latent>, GgufError> {
        let most = 1 << 22;
        let Some(rank) = self.number("attention.kv_lora_rank", most)? else {
            return Ok(None);
        };
        let rope = self.required("rope.dimension_count", most)?;
        let key = match self.number("attention.key_length_mla", most)? {
            Some(width) => Some(width),
            None => self.number("attention.key_length", most)?,
        };
        let value = match self.number("attention.value_length_mla", most)? {
            Some(width) => Some(width),
            None => self.number("attention.value_length", most)?,
        };
        Ok(Some(Latent {
            kv_lora_rank: rank,
            qk_rope_head_dim: rope,
            qk_nope_head_dim: key.and_then(|width| width.checked_sub(rope)),
            v_head_dim: value,
            indexer: self.number("attention.indexer.head_count", most)?.is_some(),
        }))
    }

    fn seen(&self, kv_heads: &[u32], layers: u32, positions: u32) -> Result<Seen, GgufError> {
        let with_state = self.value("ssm.state_size").is_some();
        let interval = self.number("full_attention_interval", 10_000)?;
        let mut attention =
            u32::try_from(kv_heads.iter().filter(|heads| **heads > 0).count()).unwrap_or(layers);
        if let Some(interval) = interval {
            attention = layers / interval;
        }
        if attention == layers && with_state && self.architecture != "falcon-h1" {
            return Err(wrong(
                &self.name("ssm.state_size"),
                "tells of layers with a recurrent state, and nothing tells which these are; give config.json instead",
            ));
        }
        let mut seen = Seen {
            full: None,
            attention: None,
            window: None,
            recurrent: None,
        };
        if attention < layers {
            seen.full = Some(attention);
            seen.attention = Some(attention);
            if with_state {
                // Layers without attention may be MLPs alone (Nemotron-H): the most that can be.
                seen.recurrent = Some(Recurrent {
                    layers: layers - attention,
                    state_bytes: self.state_bytes()?,
                });
            }
        } else if with_state {
            seen.recurrent = Some(Recurrent {
                layers,
                state_bytes: self.state_bytes()?,
            });
        }
        if let Some(window) = self
            .number("attention.sliding_window", u32::MAX)?
            .filter(|window| *window < positions)
        {
            seen.window = Some(window);
            seen.full = Some(self.full_layers(layers)?);
        }
        Ok(seen)
    }

    /// Layers that see everything among those with a window.
    fn full_layers(&self, layers: u32) -> Result<u32, GgufError> {
        let key = "attention.sliding_window_pattern";
        match self.value(key) {
            // True for a layer with a window.
            Some(Value::List {
                items: Some(items), ..
            }) if items.len() == layers as usize => {
                let full = items.iter().filter(|is_window| **is_window == 0).count();
                Ok(u32::try_from(full).unwrap_or(layers))
            }
            Some(Value::Integer(every)) if *every > 0 => Ok(layers / self.checked(key, *every, 10_000)?),
            Some(_) => Err(wrong(
                &self.name(key),
                "is neither a number above zero nor a list with one flag for each layer",
            )),
            None => {
                let known = PATTERNS
                    .iter()
                    .find(|(architecture, _)| *architecture == self.architecture);
                Ok(known.map_or(0, |(_, every)| layers / every))
            }
        }
    }

    /// llama.cpp keeps both parts of the state in 32 bits (`n_embd_r` and `n_embd_s` of `llama-hparams.cpp`).
    fn state_bytes(&self) -> Result<Option<u64>, GgufError> {
        let most = 1 << 22;
        let sizes = (
            self.number("ssm.conv_kernel", most)?,
            self.number("ssm.inner_size", most)?,
            self.number("ssm.state_size", most)?,
        );
        let (Some(kernel), Some(inner), Some(state)) = sizes else {
            return Ok(None);
        };
        let groups = u128::from(self.number("ssm.group_count", most)?.unwrap_or(0));
        let (kernel, inner, state) = (u128::from(kernel), u128::from(inner), u128::from(state));
        let bytes = 4 * ((kernel - 1) * (inner + 2 * groups * state) + inner * state);
        u64::try_from(bytes)
            .map(Some)
            .map_err(|_| wrong(&self.name("ssm.inner_size"), "makes a state that no device holds"))
    }
}
