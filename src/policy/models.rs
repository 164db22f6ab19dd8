//! Models that a policy states: whole entries, which extend the catalogue, and short ones, of which only a few facts are
//! known.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::spec::ModelEntry;
use crate::engine::wildcard;
use crate::model::{Catalogue, Confidence, Dtype, Kind, Model};
use crate::units::Mib;

/// Layers of a model of which the policy states the sum alone: enough to divide over any pipeline.
const LAYERS: u32 = 64;
/// Key and value heads that divide over any tensor parallel size: the least that a rank can cache.
const MANY_HEADS: u32 = 1 << 12;
/// The largest vocabulary and the widest MLP among dense models: what an unknown one takes at most in a pass.
const LARGEST: (u32, u32) = (262_144, 28_672);

/// A model of which the policy states a few facts.
///
/// Weights are taken as stated within two percent. What the policy leaves open is bounded from both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Stated {
    names: Vec<String>,
    /// What it takes at least.
    pub least: Arc<Model>,
    /// What it takes at most.
    pub most: Arc<Model>,
    /// Whether the cache of a token is stated.
    pub knows_cache: bool,
    /// Whether the longest context is stated.
    pub knows_length: bool,
}

/// Every model of a policy's `spec.models`.
#[derive(Clone, Debug, Default)]
pub struct OwnModels {
    stated: Vec<Stated>,
    whole: Vec<Model>,
    /// The catalogue with the whole entries; absent where there are none.
    catalogue: Option<Arc<Catalogue>>,
}

impl PartialEq for OwnModels {
    fn eq(&self, other: &Self) -> bool {
        // The catalogue follows from the entries.
        self.stated == other.stated && self.whole == other.whole
    }
}

impl OwnModels {
    /// Takes the entries of a document that was checked.
    pub(crate) fn of(entries: Vec<ModelEntry>) -> Self {
        let mut own = Self::default();
        for entry in entries {
            if entry.is_whole() {
                own.whole.extend(entry.whole());
            } else {
                own.stated.extend(stated(entry));
            }
        }
        if !own.whole.is_empty() {
            own.catalogue = Some(Arc::new(
                Catalogue::embedded().extended(own.whole.iter().cloned()),
            ));
        }
        own
    }

    /// The embedded catalogue with the policy's entries before it.
    #[must_use]
    pub fn catalogue(&self) -> &Catalogue {
        self.catalogue.as_deref().unwrap_or_else(|| Catalogue::embedded())
    }

    /// The first short entry with a name that matches, and that name; upper and lower case are alike.
    #[must_use]
    pub fn stated(&self, name: &str) -> Option<(&Stated, &str)> {
        if self.stated.is_empty() {
            return None;
        }
        let name = name.to_ascii_lowercase();
        self.stated.iter().find_map(|stated| {
            let pattern = stated
                .names
                .iter()
                .find(|pattern| wildcard(&pattern.to_ascii_lowercase(), &name))?;
            Some((stated, pattern.as_str()))
        })
    }
}

/// Bounds of a model from its weights and its cache.
fn stated(entry: ModelEntry) -> Option<Stated> {
    let weights = entry.weights?.0;
    let length = entry.max_model_len;
    let least = sketch(weights, entry.kv_bytes_per_token, length);
    let (vocabulary, width) = LARGEST;
    let most = Model {
        parameters: parameters(weights, 1_005),
        vocab_size: Some(vocabulary),
        intermediate_size: Some(width),
        num_key_value_heads: 1,
        num_hidden_layers: 1,
        ..least.clone()
    };
    Some(Stated {
        names: entry.names?,
        knows_cache: entry.kv_bytes_per_token.is_some(),
        knows_length: length.is_some(),
        least: Arc::new(least),
        most: Arc::new(most),
    })
}

/// Parameters of two bytes that come to so many thousandths of the weights. The estimate of unpacked weights spans 0.8
/// percent below and 1.5 above, so 988 and 1005 make two percent either way.
fn parameters(weights: Mib, thousandths: u128) -> u64 {
    let bytes = u128::from(weights.get()) << 20;
    u64::try_from(bytes.saturating_mul(thousandths) / 2_000).unwrap_or(u64::MAX)
}

fn sketch(weights: Mib, cache: Option<u64>, length: Option<u64>) -> Model {
    Model {
        id: String::new(),
        names: Vec::new(),
        kind: if cache.is_some() {
            Kind::Decoder
        } else {
            // Without its cache only the weights are compared.
            Kind::Encoder
        },
        architecture: None,
        parameters: parameters(weights, 988),
        draft_parameters: None,
        num_hidden_layers: LAYERS,
        hidden_size: 0,
        num_attention_heads: MANY_HEADS,
        num_key_value_heads: MANY_HEADS,
        head_dim: None,
        intermediate_size: None,
        vocab_size: None,
        // Where it is not stated, one block has to fit.
        max_position_embeddings: length.unwrap_or(1),
        torch_dtype: Dtype::Bfloat16,
        tie_word_embeddings: None,
        experts: None,
        latent: None,
        full_attention_layers: None,
        attention_layers: None,
        sliding_window: None,
        attention_chunk_size: None,
        global_head_dim: None,
        num_global_key_value_heads: None,
        num_kv_shared_layers: None,
        recurrent: None,
        tower: false,
        released: None,
        checkpoint_bytes: None,
        variants: Vec::new(),
        kv_bytes_per_token: cache,
        publications: BTreeMap::new(),
        source: "the policy".to_owned(),
        confidence: Confidence::Partly,
        note: None,
    }
}
