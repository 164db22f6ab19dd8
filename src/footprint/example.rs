//! Models and plans for tests.

use std::collections::BTreeMap;

use super::device::{Class, Device};
use super::plan::{CacheType, Length, Plan};
use crate::engine::{Engine, Releases, Serving};
use crate::model::{Confidence, Dtype, Experts, Format, Kind, Model};
use crate::units::Mib;

/// A model of 32 or so equal layers: layers, width, heads, key heads, width of the MLP, vocabulary, context.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) parameters: u64,
    pub(super) layers: u32,
    pub(super) hidden: u32,
    pub(super) heads: u32,
    pub(super) key_heads: u32,
    pub(super) head: u32,
    pub(super) intermediate: u32,
    pub(super) vocabulary: u32,
    pub(super) length: u64,
    pub(super) tied: bool,
}

pub(super) fn decoder(id: &str, shape: Shape) -> Model {
    Model {
        id: id.to_owned(),
        names: Vec::new(),
        kind: Kind::Decoder,
        architecture: None,
        parameters: shape.parameters,
        draft_parameters: None,
        num_hidden_layers: shape.layers,
        hidden_size: shape.hidden,
        num_attention_heads: shape.heads,
        num_key_value_heads: shape.key_heads,
        head_dim: Some(shape.head),
        intermediate_size: Some(shape.intermediate),
        vocab_size: Some(shape.vocabulary),
        max_position_embeddings: shape.length,
        torch_dtype: Dtype::Bfloat16,
        tie_word_embeddings: Some(shape.tied),
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
        kv_bytes_per_token: None,
        publications: BTreeMap::new(),
        source: "a test".to_owned(),
        confidence: Confidence::Verified,
        note: None,
    }
}

#[allow(clippy::too_many_arguments, reason = "an encoder's shape has so many numbers")]
pub(super) fn encoder(
    id: &str,
    architecture: &str,
    parameters: u64,
    layers: u32,
    hidden: u32,
    intermediate: u32,
    vocabulary: u32,
    length: u64,
) -> Model {
    let heads = hidden.div_ceil(64).max(12);
    let shape = Shape {
        parameters,
        layers,
        hidden,
        heads,
        key_heads: heads,
        head: hidden / heads,
        intermediate,
        vocabulary,
        length,
        tied: true,
    };
    Model {
        kind: Kind::Encoder,
        architecture: Some(architecture.to_owned()),
        torch_dtype: Dtype::Float32,
        tie_word_embeddings: None,
        ..decoder(id, shape)
    }
}

/// Llama 3.1 8B.
pub(super) fn llama_8b() -> Model {
    decoder(
        "llama-3.1-8b",
        Shape {
            parameters: 8_030_261_248,
            layers: 32,
            hidden: 4_096,
            heads: 32,
            key_heads: 8,
            head: 128,
            intermediate: 14_336,
            vocabulary: 128_256,
            length: 131_072,
            tied: false,
        },
    )
}

/// Llama 3.1 70B.
pub(super) fn llama_70b() -> Model {
    decoder(
        "llama-3.1-70b",
        Shape {
            parameters: 70_553_706_496,
            layers: 80,
            hidden: 8_192,
            heads: 64,
            key_heads: 8,
            head: 128,
            intermediate: 28_672,
            vocabulary: 128_256,
            length: 131_072,
            tied: false,
        },
    )
}

/// Qwen2.5 32B, of which QwQ 32B has the shape.
pub(super) fn qwen_32b() -> Model {
    decoder(
        "qwen2.5-32b",
        Shape {
            parameters: 32_763_876_352,
            layers: 64,
            hidden: 5_120,
            heads: 40,
            key_heads: 8,
            head: 128,
            intermediate: 27_648,
            vocabulary: 152_064,
            length: 32_768,
            tied: false,
        },
    )
}

/// Qwen3 30B-A3B.
pub(super) fn qwen_30b_a3b() -> Model {
    Model {
        experts: Some(Experts {
            count: 128,
            active: 8,
            shared: 0,
            intermediate_size: 768,
            first_dense: 0,
            every: 1,
        }),
        ..decoder(
            "qwen3-30b-a3b",
            Shape {
                parameters: 30_532_122_624,
                layers: 48,
                hidden: 2_048,
                heads: 32,
                key_heads: 4,
                head: 128,
                intermediate: 6_144,
                vocabulary: 151_936,
                length: 40_960,
                tied: false,
            },
        )
    }
}

/// Qwen3 235B-A22B.
pub(super) fn qwen_235b() -> Model {
    Model {
        experts: Some(Experts {
            count: 128,
            active: 8,
            shared: 0,
            intermediate_size: 1_536,
            first_dense: 0,
            every: 1,
        }),
        ..decoder(
            "qwen3-235b-a22b",
            Shape {
                parameters: 235_093_634_560,
                layers: 94,
                hidden: 4_096,
                heads: 64,
                key_heads: 4,
                head: 128,
                intermediate: 12_288,
                vocabulary: 151_936,
                length: 40_960,
                tied: false,
            },
        )
    }
}

/// open_llama 7B.
pub(super) fn open_llama_7b() -> Model {
    decoder(
        "open-llama-7b",
        Shape {
            parameters: 6_738_415_616,
            layers: 32,
            hidden: 4_096,
            heads: 32,
            key_heads: 32,
            head: 128,
            intermediate: 11_008,
            vocabulary: 32_000,
            length: 2_048,
            tied: false,
        },
    )
}

/// TriLM 3.9B: 30 layers of 122,683,392 parameters, embedding and output, and 61 norms.
pub(super) fn trilm() -> Model {
    decoder(
        "trilm-3.9b",
        Shape {
            parameters: 30 * 122_683_392 + 2 * 50_688 * 3_072 + 61 * 3_072,
            layers: 30,
            hidden: 3_072,
            heads: 24,
            key_heads: 24,
            head: 128,
            intermediate: 9_216,
            vocabulary: 50_688,
            length: 2_048,
            tied: false,
        },
    )
}

/// Qwen2.5 0.5B.
pub(super) fn qwen_half_b() -> Model {
    decoder(
        "qwen2.5-0.5b",
        Shape {
            parameters: 494_032_768,
            layers: 24,
            hidden: 896,
            heads: 14,
            key_heads: 2,
            head: 64,
            intermediate: 4_864,
            vocabulary: 151_936,
            length: 32_768,
            tied: true,
        },
    )
}

/// Command R, 35B, whose heads share nothing.
pub(super) fn command_r() -> Model {
    decoder(
        "command-r-35b",
        Shape {
            parameters: 34_980_831_232,
            layers: 40,
            hidden: 8_192,
            heads: 64,
            key_heads: 64,
            head: 128,
            intermediate: 22_528,
            vocabulary: 256_000,
            length: 131_072,
            tied: true,
        },
    )
}

/// bge-small-en-v1.5.
pub(super) fn bge_small() -> Model {
    encoder(
        "bge-small-en-v1.5",
        "BertModel",
        33_360_512,
        12,
        384,
        1_536,
        30_522,
        512,
    )
}

/// A plan on one device of which the engine sees so many MiB, everything else as the engine has it.
pub(super) fn plan(model: &Model, format: Format, engine: Engine, mib: u64) -> Plan<'_> {
    Plan {
        model,
        format,
        publisher: None,
        engine,
        releases: Releases::default(),
        device: Device::exactly(Mib::new(mib), Class::default()),
        tensor: 1,
        pipeline: 1,
        data: 1,
        devices: 1,
        fraction: None,
        fraction_is_default: false,
        length: Length::Declared,
        positions: model.max_position_embeddings,
        dtype: None,
        cache_type: CacheType::Auto,
        eager: false,
        adapts: false,
        serving: Serving::default(),
        draft: None,
    }
}
