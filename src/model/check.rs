//! Whether an entry that somebody wrote can be that of a model.
//!
//! What an entry says decides verdicts, and a zero or a slip of some digits in it would let anything fit. The bounds are
//! those within which `config.json` and GGUF files are read.

use thiserror::Error;

use super::Model;

/// More layers, heads, experts or a wider head than any model has.
const MOST_LAYERS: u64 = 1 << 16;
/// A wider model than any.
const WIDEST: u64 = 1 << 22;
/// A larger vocabulary than any.
const LARGEST_VOCABULARY: u64 = 1 << 28;
/// A longer context than any.
const LONGEST: u64 = 1 << 36;
/// More parameters than any model has: a thousand times the largest that was published.
const MOST_PARAMETERS: u64 = 1 << 50;

/// A field that no model has so.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: {problem}; {remedy}")]
pub struct ModelError {
    /// The field, as the entry spells it.
    field: &'static str,
    problem: String,
    remedy: &'static str,
}

impl ModelError {
    /// The field, as the entry spells it; a point stands before one of an object within.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        self.field
    }

    /// What is wrong with it, and what to write.
    #[must_use]
    pub fn told(&self) -> String {
        format!("{}; {}", self.problem, self.remedy)
    }
}

/// Refuses entries with sizes that no model has: zero, more than any, a part larger than its whole, and fewer parameters
/// than the embedding alone has.
///
/// # Errors
///
/// [`ModelError`] names the first such field, its value and what it must be.
pub fn check(model: &Model) -> Result<(), ModelError> {
    let some = |value: Option<u32>| value.map(u64::from);
    let experts = model.experts.as_ref();
    let latent = model.latent.as_ref();
    for (field, value, most) in [
        ("parameters", Some(model.parameters), MOST_PARAMETERS),
        (
            "numHiddenLayers",
            Some(model.num_hidden_layers.into()),
            MOST_LAYERS,
        ),
        ("hiddenSize", Some(model.hidden_size.into()), WIDEST),
        (
            "numAttentionHeads",
            Some(model.num_attention_heads.into()),
            MOST_LAYERS,
        ),
        (
            "numKeyValueHeads",
            Some(model.num_key_value_heads.into()),
            MOST_LAYERS,
        ),
        ("headDim", some(model.head_dim), MOST_LAYERS),
        ("intermediateSize", some(model.intermediate_size), WIDEST),
        ("vocabSize", some(model.vocab_size), LARGEST_VOCABULARY),
        (
            "maxPositionEmbeddings",
            Some(model.max_position_embeddings),
            LONGEST,
        ),
        ("slidingWindow", some(model.sliding_window), LONGEST),
        ("attentionChunkSize", some(model.attention_chunk_size), LONGEST),
        ("globalHeadDim", some(model.global_head_dim), MOST_LAYERS),
        (
            "numGlobalKeyValueHeads",
            some(model.num_global_key_value_heads),
            MOST_LAYERS,
        ),
        (
            "experts.count",
            experts.map(|experts| experts.count.into()),
            MOST_LAYERS,
        ),
        (
            "experts.active",
            experts.map(|experts| experts.active.into()),
            MOST_LAYERS,
        ),
        (
            "experts.intermediateSize",
            experts.map(|experts| experts.intermediate_size.into()),
            WIDEST,
        ),
        (
            "experts.every",
            experts.map(|experts| experts.every.into()),
            MOST_LAYERS,
        ),
        (
            "latent.kvLoraRank",
            latent.map(|latent| latent.kv_lora_rank.into()),
            WIDEST,
        ),
        (
            "latent.qkRopeHeadDim",
            latent.map(|latent| latent.qk_rope_head_dim.into()),
            WIDEST,
        ),
        ("checkpointBytes", model.checkpoint_bytes, 4 * MOST_PARAMETERS),
        ("kvBytesPerToken", model.kv_bytes_per_token, LONGEST),
    ] {
        let problem = match value {
            Some(0) => "is 0".to_owned(),
            Some(value) if value > most => format!("is {value}, and no model has more than {most}"),
            _ => continue,
        };
        return Err(ModelError {
            field,
            problem,
            remedy: "write the model's own number, as `vramgate model add` prints it",
        });
    }
    parts_of_the_whole(model)
}

/// What counts some of the layers or parameters is not more than all of them.
fn parts_of_the_whole(model: &Model) -> Result<(), ModelError> {
    // However the rest is shaped, the embedding stands once.
    let least = u128::from(model.vocab_size.unwrap_or(0)) * u128::from(model.hidden_size);
    if u128::from(model.parameters) < least {
        return Err(ModelError {
            field: "parameters",
            problem: format!(
                "is {}, and an embedding of vocabSize x hiddenSize alone has {least}",
                model.parameters
            ),
            remedy: "write the number of all parameters, not that of billions",
        });
    }
    let layers = u64::from(model.num_hidden_layers);
    let some = |value: Option<u32>| value.map(u64::from);
    for (field, value, of, most) in [
        (
            "fullAttentionLayers",
            some(model.full_attention_layers),
            "numHiddenLayers",
            layers,
        ),
        (
            "attentionLayers",
            some(model.attention_layers),
            "numHiddenLayers",
            layers,
        ),
        (
            "numKvSharedLayers",
            some(model.num_kv_shared_layers),
            "numHiddenLayers",
            layers,
        ),
        (
            "recurrent.layers",
            model.recurrent.map(|recurrent| recurrent.layers.into()),
            "numHiddenLayers",
            layers,
        ),
        (
            "experts.active",
            model.experts.map(|experts| experts.active.into()),
            "experts.count",
            model.experts.map_or(0, |experts| experts.count.into()),
        ),
        (
            "draftParameters",
            model.draft_parameters,
            "parameters",
            model.parameters,
        ),
    ] {
        if let Some(value) = value.filter(|value| *value > most) {
            return Err(ModelError {
                field,
                problem: format!("is {value}, and {of} is {most}"),
                remedy: "write a part of it",
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Catalogue;
    use super::*;

    fn broken(change: impl FnOnce(&mut Model)) -> String {
        let mut model = Catalogue::embedded().get("deepseek-v3").cloned().unwrap();
        change(&mut model);
        check(&model).unwrap_err().to_string()
    }

    #[test]
    fn every_model_of_the_catalogue_can_be_one() {
        for model in Catalogue::embedded().iter() {
            assert_eq!(check(model), Ok(()), "{}", model.id);
        }
    }

    #[test]
    fn zeros_and_sizes_without_measure_are_told_by_field() {
        for (text, field) in [
            (broken(|model| model.parameters = 0), "parameters: is 0; write"),
            (
                broken(|model| model.num_hidden_layers = 0),
                "numHiddenLayers: is 0",
            ),
            (broken(|model| model.hidden_size = 0), "hiddenSize: is 0"),
            (
                broken(|model| model.num_attention_heads = 0),
                "numAttentionHeads: is 0",
            ),
            (
                broken(|model| model.num_key_value_heads = 0),
                "numKeyValueHeads: is 0",
            ),
            (broken(|model| model.vocab_size = Some(0)), "vocabSize: is 0"),
            (
                broken(|model| model.max_position_embeddings = 0),
                "maxPositionEmbeddings: is 0",
            ),
            (
                broken(|model| model.kv_bytes_per_token = Some(0)),
                "kvBytesPerToken: is 0",
            ),
            (
                broken(|model| model.parameters = u64::MAX),
                "parameters: is 18446744073709551615, and no model",
            ),
            (
                broken(|model| model.max_position_embeddings = u64::MAX),
                "maxPositionEmbeddings: is 1844",
            ),
            (
                broken(|model| model.num_key_value_heads = u32::MAX),
                "numKeyValueHeads: is 4294967295",
            ),
            (
                broken(|model| model.vocab_size = Some(u32::MAX)),
                "vocabSize: is 4294967295",
            ),
            (
                broken(|model| model.parameters = 671),
                "parameters: is 671, and an embedding",
            ),
            (
                broken(|model| model.full_attention_layers = Some(99)),
                "fullAttentionLayers: is 99, and numHiddenLayers is 61",
            ),
            (
                broken(|model| model.draft_parameters = Some(u64::MAX)),
                "draftParameters: is 18446744073709551615, and parameters is",
            ),
        ] {
            assert!(text.starts_with(field), "{text}");
        }
    }
}
