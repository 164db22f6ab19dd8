//! Formats of weights: how many bits a parameter takes, scales and zeros included.

use std::fmt;

use thiserror::Error;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A format of weights. Text models pack every linear layer but the output; what stays unpacked beyond that differs by
/// publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
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

/// What a quantisation that is stated on a command line tells of the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// They have this format.
    Format(Format),
    /// They have the format in which the checkpoint is stored: look at the name of the model (`none`, `auto`).
    Checkpoint,
    /// They are packed in the way that the checkpoint's own configuration tells: look at the name of the model, and where
    /// that tells nothing, their size is unknown (`compressed-tensors`).
    Packed,
    /// They have one whose bits follow from nothing that is stated (`exl2`): their size is unknown.
    Unsized,
}

/// A quantisation of a name that no engine is known to have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{value:?} is not a known quantisation: write one of {}", Format::WORDS.join(", "))]
pub struct UnknownFormat {
    /// The beginning of the text.
    pub value: String,
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

    /// What [`Format::parse`] reads beside the engines' own names.
    pub const WORDS: [&str; 18] = [
        "none",
        "fp8",
        "nvfp4",
        "mxfp4",
        "awq-int4",
        "gptq-int4",
        "autoround-int4",
        "w4a16",
        "w8a8-int8",
        "int4",
        "bnb-4bit",
        "fp4+fp8",
        "gguf",
        "gguf-q4",
        "gguf-q4_k_m",
        "gguf-q5_0",
        "gguf-q8_0",
        "gguf-f16",
    ];

    /// Reads a quantisation as it stands on a command line: a format's own name here, or the name that vLLM, SGLang, TGI
    /// or LMDeploy has for it. Upper and lower case are alike, and so are `-` and `_`.
    ///
    /// Sources: the lists of methods in vLLM's `model_executor/layers/quantization`, SGLang's `server_args`, TGI's
    /// `Quantization`. TGI's `bitsandbytes` is 8-bit while vLLM's is 4-bit; it is read as the smaller.
    ///
    /// # Errors
    ///
    /// When no engine is known to have a method of this name.
    pub fn parse(text: &str) -> Result<Told, UnknownFormat> {
        let mut name = text.trim().chars().take(40).collect::<String>();
        name.make_ascii_lowercase();
        let own = name.replace('_', "-");
        if let Some(format) = Self::ALL
            .iter()
            .find(|format| format.as_str().replace('_', "-") == own)
        {
            return Ok(Told::Format(*format));
        }
        Ok(match own.as_str() {
            "awq-marlin" | "awq" | "cpu-awq" => Told::Format(Self::Awq4),
            "gptq" | "gptq-marlin" | "gptq-marlin-24" | "gptq-bitblas" | "marlin" => {
                Told::Format(Self::Gptq4)
            }
            "auto-round" | "autoround" => Told::Format(Self::AutoRound4),
            "fbgemm-fp8" | "ptpc-fp8" | "modelopt" | "modelopt-fp8" | "modelopt-mxfp8" | "w8a8-fp8"
            | "mxfp8" | "fp8-per-tensor" | "fp8-per-block" => Told::Format(Self::Fp8),
            "modelopt-fp4" | "petit-nvfp4" | "fp4" => Told::Format(Self::Nvfp4),
            "w8a8" | "int8" | "experts-int8" | "tpu-int8" | "eetq" => Told::Format(Self::Int8),
            "w4afp8" | "w4a8" => Told::Format(Self::W4a16),
            "4bit" | "rtn" => Told::Format(Self::Int4),
            "bitsandbytes" | "bnb" | "nf4" | "bitsandbytes-nf4" | "bitsandbytes-fp4" => {
                Told::Format(Self::Bnb4)
            }
            "gguf-q4" => Told::Format(Self::GgufQ4K),
            "gguf-q5" => Told::Format(Self::GgufQ5K),
            "gguf-q6" => Told::Format(Self::GgufQ6K),
            "gguf-q8" => Told::Format(Self::GgufQ8_0),
            "bf16" | "bfloat16" | "fp16" => Told::Format(Self::Float16),
            "fp32" => Told::Format(Self::Float32),
            "none" | "null" | "auto" | "hf" | "unquant" => Told::Checkpoint,
            "compressed-tensors" | "inc" | "torchao" | "moe-wna16" | "quark" | "modelopt-mixed"
            | "modelslim" | "ipex" | "neuron-quant" => Told::Packed,
            "exl2" | "exl3" | "aqlm" | "hqq" | "qoq" | "bitblas" | "deepspeedfp" | "fp-quant" | "quip" => {
                Told::Unsized
            }
            _ => return Err(UnknownFormat { value: name }),
        })
    }

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

    /// Whether weights are integers of four bits.
    #[must_use]
    pub const fn is_four_bit_integer(self) -> bool {
        matches!(
            self,
            Self::Awq4 | Self::Gptq4 | Self::AutoRound4 | Self::W4a16 | Self::Int4
        )
    }

    /// Whether weights are packed into fewer than 16 bits.
    #[must_use]
    pub const fn is_packed(self) -> bool {
        !matches!(self, Self::Float32 | Self::Float16 | Self::GgufF16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_and_every_word_is_read() {
        for format in Format::ALL {
            assert_eq!(Format::parse(format.as_str()), Ok(Told::Format(format)));
            assert_eq!(
                Format::parse(&format.as_str().to_ascii_uppercase()),
                Ok(Told::Format(format))
            );
        }
        for word in Format::WORDS {
            assert!(Format::parse(word).is_ok(), "{word}");
        }
    }

    #[test]
    fn engines_have_names_of_their_own() {
        for (text, told) in [
            ("awq_marlin", Told::Format(Format::Awq4)),
            ("gptq_marlin", Told::Format(Format::Gptq4)),
            ("fbgemm_fp8", Told::Format(Format::Fp8)),
            ("modelopt", Told::Format(Format::Fp8)),
            ("modelopt_fp4", Told::Format(Format::Nvfp4)),
            ("auto-round", Told::Format(Format::AutoRound4)),
            ("w8a8_int8", Told::Format(Format::Int8)),
            ("w4afp8", Told::Format(Format::W4a16)),
            ("experts_int8", Told::Format(Format::Int8)),
            ("bitsandbytes-nf4", Told::Format(Format::Bnb4)),
            ("eetq", Told::Format(Format::Int8)),
            (" FP8 ", Told::Format(Format::Fp8)),
            ("gguf-q4", Told::Format(Format::GgufQ4K)),
            ("compressed-tensors", Told::Packed),
            ("none", Told::Checkpoint),
            ("torchao", Told::Packed),
            ("exl2", Told::Unsized),
        ] {
            assert_eq!(Format::parse(text), Ok(told), "{text}");
        }
    }

    #[test]
    fn what_no_engine_has_is_an_error_that_lists_the_words() {
        for text in ["", "fp9", "awqq", "q4_k_m_l", &"x".repeat(10_000)] {
            let error = Format::parse(text).unwrap_err();
            assert!(error.value.len() <= 40);
            assert!(error.to_string().contains("awq-int4, gptq-int4"), "{error}");
        }
    }
}
