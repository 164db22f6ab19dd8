//! Formats of weights: how many bits a parameter takes, scales and zeros included.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A format of weights. Text models pack every linear layer but the output; what stays unpacked beyond that differs by
/// publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Format {
    /// 32-bit floats.
    #[serde(rename = "float32")]
    Float32,
    /// 16-bit floats of either kind.
    #[serde(rename = "float16")]
    Float16,
    /// 8-bit floats with scales by tensor, channel or block.
    #[serde(rename = "fp8")]
    Fp8,
    /// 8-bit integers, weights and activations.
    #[serde(rename = "w8a8-int8")]
    Int8,
    /// AWQ, 4-bit integers with zeros, groups of 128.
    #[serde(rename = "awq-int4")]
    Awq4,
    /// GPTQ, 4-bit integers with zeros, groups of 128.
    #[serde(rename = "gptq-int4")]
    Gptq4,
    /// GPTQ, 8-bit integers.
    #[serde(rename = "gptq-int8")]
    Gptq8,
    /// AutoRound, 4-bit integers.
    #[serde(rename = "autoround-int4")]
    AutoRound4,
    /// Compressed tensors, 4-bit integers without zeros, groups of 128.
    #[serde(rename = "w4a16")]
    W4a16,
    /// 4-bit integers of a kind that the name does not tell.
    #[serde(rename = "int4")]
    Int4,
    /// bitsandbytes, 4-bit NF4.
    #[serde(rename = "bnb-4bit")]
    Bnb4,
    /// bitsandbytes, 8-bit.
    #[serde(rename = "bnb-8bit")]
    Bnb8,
    /// NVIDIA's 4-bit floats, blocks of 16 with 8-bit scales.
    #[serde(rename = "nvfp4")]
    Nvfp4,
    /// 4-bit floats with blocks of 32, experts only.
    #[serde(rename = "mxfp4")]
    Mxfp4,
    /// Experts in 4-bit floats, the rest in 8-bit floats.
    #[serde(rename = "fp4+fp8")]
    Fp4Fp8,
    /// GGUF, quantisation not told.
    #[serde(rename = "gguf")]
    Gguf,
    /// GGUF, 16 bits.
    #[serde(rename = "gguf-f16")]
    GgufF16,
    /// GGUF Q8_0.
    #[serde(rename = "gguf-q8_0")]
    GgufQ8_0,
    /// GGUF Q6_K.
    #[serde(rename = "gguf-q6_k")]
    GgufQ6K,
    /// GGUF Q5_K.
    #[serde(rename = "gguf-q5_k_m")]
    GgufQ5K,
    /// GGUF Q5_0.
    #[serde(rename = "gguf-q5_0")]
    GgufQ5_0,
    /// GGUF Q4_K.
    #[serde(rename = "gguf-q4_k_m")]
    GgufQ4K,
    /// GGUF Q4_0.
    #[serde(rename = "gguf-q4_0")]
    GgufQ4_0,
    /// GGUF Q3_K.
    #[serde(rename = "gguf-q3_k_m")]
    GgufQ3K,
    /// GGUF Q2_K.
    #[serde(rename = "gguf-q2_k")]
    GgufQ2K,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 25] = [
        Self::Float32,
        Self::Float16,
        Self::Fp8,
        Self::Int8,
        Self::Awq4,
        Self::Gptq4,
        Self::Gptq8,
        Self::AutoRound4,
        Self::W4a16,
        Self::Int4,
        Self::Bnb4,
        Self::Bnb8,
        Self::Nvfp4,
        Self::Mxfp4,
        Self::Fp4Fp8,
        Self::Gguf,
        Self::GgufF16,
        Self::GgufQ8_0,
        Self::GgufQ6K,
        Self::GgufQ5K,
        Self::GgufQ5_0,
        Self::GgufQ4K,
        Self::GgufQ4_0,
        Self::GgufQ3K,
        Self::GgufQ2K,
    ];

    /// The name in JSON, in policies and in text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Float16 => "float16",
            Self::Fp8 => "fp8",
            Self::Int8 => "w8a8-int8",
            Self::Awq4 => "awq-int4",
            Self::Gptq4 => "gptq-int4",
            Self::Gptq8 => "gptq-int8",
            Self::AutoRound4 => "autoround-int4",
            Self::W4a16 => "w4a16",
            Self::Int4 => "int4",
            Self::Bnb4 => "bnb-4bit",
            Self::Bnb8 => "bnb-8bit",
            Self::Nvfp4 => "nvfp4",
            Self::Mxfp4 => "mxfp4",
            Self::Fp4Fp8 => "fp4+fp8",
            Self::Gguf => "gguf",
            Self::GgufF16 => "gguf-f16",
            Self::GgufQ8_0 => "gguf-q8_0",
            Self::GgufQ6K => "gguf-q6_k",
            Self::GgufQ5K => "gguf-q5_k_m",
            Self::GgufQ5_0 => "gguf-q5_0",
            Self::GgufQ4K => "gguf-q4_k_m",
            Self::GgufQ4_0 => "gguf-q4_0",
            Self::GgufQ3K => "gguf-q3_k_m",
            Self::GgufQ2K => "gguf-q2_k",
        }
    }

    /// Whether it is stored in a GGUF file.
    #[must_use]
    pub const fn is_gguf(self) -> bool {
        matches!(
            self,
            Self::Gguf
                | Self::GgufF16
                | Self::GgufQ8_0
                | Self::GgufQ6K
                | Self::GgufQ5K
                | Self::GgufQ5_0
                | Self::GgufQ4K
                | Self::GgufQ4_0
                | Self::GgufQ3K
                | Self::GgufQ2K
        )
    }

    /// Whether weights are packed into fewer than 16 bits.
    #[must_use]
    pub const fn is_packed(self) -> bool {
        !matches!(self, Self::Float32 | Self::Float16 | Self::GgufF16)
    }
}
