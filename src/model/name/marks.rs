//! Words of a name that tell the format of the weights.
//!
//! Source: names under which RedHatAI (neuralmagic), NVIDIA, unsloth, Qwen, hugging-quants, Intel, TheBloke and bartowski
//! publish quantised copies, and llama.cpp's names of quantisations.

use crate::model::Format;

/// A word that tells of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Awq,
    Gptq,
    AutoRound,
    Bnb,
    Nvfp4,
    Mxfp4,
    Fp8,
    Fp4Fp8,
    Bits4,
    Bits8,
    W4a16,
    W8a8,
    W8a16,
    Gguf,
    Packed(Format),
    Half,
    Single,
    /// Trained for quantisation, which does not tell the format.
    Qat,
    /// Unpacked although another word tells of a format.
    Unquantized,
    /// A format whose bits the name does not tell.
    Unsized,
}

/// Words that qualify a format and tell nothing by themselves.
const QUALIFIERS: [&str; 22] = [
    "dynamic",
    "block",
    "kv",
    "ct",
    "static",
    "channel",
    "tensor",
    "token",
    "per",
    "g128",
    "128g",
    "gs128",
    "sym",
    "asym",
    "ud",
    "imatrix",
    "i1",
    "unsloth",
    "marlin",
    "quantized",
    "compressed",
    "tensors",
];

/// What the words of a name tell of the format.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    seen: Vec<Mark>,
}

/// Why the words of a name do not tell one format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unclear {
    /// They name one whose bits are not known.
    Unsized,
    /// They name two.
    Two,
}

fn mark(word: &str) -> Option<Mark> {
    Some(match word {
        "awq" => Mark::Awq,
        "gptq" | "gptqmodel" => Mark::Gptq,
        "autoround" => Mark::AutoRound,
        "bnb" | "nf4" | "bitsandbytes" => Mark::Bnb,
        "nvfp4" | "fp4" | "nvfp4a16" => Mark::Nvfp4,
        "mxfp4" => Mark::Mxfp4,
        "fp8" | "mxfp8" | "f8" | "float8" => Mark::Fp8,
        "fp4+fp8" => Mark::Fp4Fp8,
        "4bit" | "4bits" | "int4" => Mark::Bits4,
        "8bit" | "8bits" | "int8" => Mark::Bits8,
        "w4a16" | "w4afp8" | "w4a8" => Mark::W4a16,
        "w8a8" => Mark::W8a8,
        "w8a16" => Mark::W8a16,
        "gguf" => Mark::Gguf,
        "f16" | "fp16" | "bf16" | "bfloat16" | "float16" => Mark::Half,
        "f32" | "fp32" | "float32" => Mark::Single,
        "qat" => Mark::Qat,
        "unquantized" => Mark::Unquantized,
        "exl2" | "exl3" | "mlx" | "aqlm" | "hqq" | "quip" | "2bit" | "3bit" | "5bit" | "6bit" | "onnx"
        | "openvino" | "awq3" | "int2" | "int3" => Mark::Unsized,
        _ => return gguf(word),
    })
}

/// llama.cpp's names, by the bits of their kind: `q4_k_m`, `iq4_xs`, `q8_0`.
fn gguf(word: &str) -> Option<Mark> {
    let (importance, kind) = match word.strip_prefix("iq") {
        Some(rest) => (true, rest),
        None => (false, word.strip_prefix('q')?),
    };
    let (bits, rest) = (*kind.as_bytes().first()?, kind.get(1..)?);
    let known = matches!(
        rest,
        "" | "_0"
            | "_1"
            | "_k"
            | "_k_s"
            | "_k_m"
            | "_k_l"
            | "_k_xl"
            | "_k_p"
            | "_xxs"
            | "_xs"
            | "_s"
            | "_m"
            | "_l"
            | "_nl"
    );
    if !known {
        return None;
    }
    // One-bit and importance formats below four bits have sizes that no format here stands for.
    let format = match (importance, bits, rest) {
        (false, b'8', _) => Format::GgufQ8_0,
        (false, b'6', _) => Format::GgufQ6K,
        (false, b'5', "_0" | "_1") => Format::GgufQ5_0,
        (false, b'5', _) => Format::GgufQ5K,
        (false, b'4', "_0" | "_1") | (true, b'4', _) => Format::GgufQ4_0,
        (false, b'4', _) => Format::GgufQ4K,
        (false, b'3', _) => Format::GgufQ3K,
        (false, b'2', _) => Format::GgufQ2K,
        (true, b'1'..=b'3', _) | (false, b'1', _) => return Some(Mark::Unsized),
        _ => return None,
    };
    Some(Mark::Packed(format))
}

impl Marks {
    /// Takes a word, if it tells of a format.
    pub(super) fn take(&mut self, word: &str) -> bool {
        let mark = mark(word);
        self.seen.extend(mark);
        mark.is_some()
    }

    /// Whether a word tells of a format.
    pub(super) fn is_mark(word: &str) -> bool {
        mark(word).is_some()
    }

    /// Whether a word only qualifies a format; it counts as a word of the name where no format is told.
    pub(super) fn is_qualifier(word: &str) -> bool {
        QUALIFIERS.contains(&word)
    }

    /// Whether any word told of a format.
    pub(super) const fn any(&self) -> bool {
        !self.seen.is_empty()
    }

    fn has(&self, mark: Mark) -> bool {
        self.seen.contains(&mark)
    }

    /// The one format that the words tell; `None` where they tell of none.
    pub(super) fn format(&self) -> Result<Option<Format>, Unclear> {
        if !self.any() {
            return Ok(None);
        }
        if self.has(Mark::Unquantized) {
            return Ok(Some(Format::Float16));
        }
        if self.has(Mark::Unsized) {
            return Err(Unclear::Unsized);
        }
        let groups = [
            self.has(Mark::Awq) || self.has(Mark::Gptq) || self.has(Mark::AutoRound),
            self.has(Mark::Bnb),
            self.has(Mark::Nvfp4),
            self.has(Mark::Mxfp4),
            self.seen
                .iter()
                .any(|mark| matches!(mark, Mark::Packed(_) | Mark::Gguf)),
        ];
        let eight = self.has(Mark::Bits8) || self.has(Mark::W8a16);
        let packers = groups.iter().filter(|group| **group).count();
        let fp8_beside = self.has(Mark::Fp8) && (groups[0] || groups[1] || groups[4]);
        if packers > 1 || fp8_beside || (self.has(Mark::Awq) && self.has(Mark::Gptq)) {
            return Err(Unclear::Two);
        }
        let packed: Vec<Format> = self
            .seen
            .iter()
            .filter_map(|mark| match mark {
                Mark::Packed(format) => Some(*format),
                _ => None,
            })
            .collect();
        if let Some((first, rest)) = packed.split_first() {
            return if rest.iter().all(|format| format == first) {
                Ok(Some(*first))
            } else {
                Err(Unclear::Two)
            };
        }
        let format = if self.has(Mark::Gguf) {
            if self.has(Mark::Half) {
                Format::GgufF16
            } else {
                Format::Gguf
            }
        } else if self.has(Mark::Fp4Fp8) {
            Format::Fp4Fp8
        } else if self.has(Mark::Gptq) {
            if eight { Format::Gptq8 } else { Format::Gptq4 }
        } else if self.has(Mark::Awq) {
            if eight {
                return Err(Unclear::Unsized);
            }
            Format::Awq4
        } else if self.has(Mark::AutoRound) {
            if eight {
                return Err(Unclear::Unsized);
            }
            Format::AutoRound4
        } else if self.has(Mark::Bnb) {
            if eight { Format::Bnb8 } else { Format::Bnb4 }
        } else if self.has(Mark::Nvfp4) {
            Format::Nvfp4
        } else if self.has(Mark::Mxfp4) {
            Format::Mxfp4
        } else if self.has(Mark::W4a16) {
            Format::W4a16
        } else if self.has(Mark::Fp8) {
            if self.has(Mark::Bits4) {
                return Err(Unclear::Two);
            }
            Format::Fp8
        } else if self.has(Mark::W8a16) {
            Format::Gptq8
        } else if self.has(Mark::W8a8) || self.has(Mark::Bits8) {
            if self.has(Mark::Bits4) {
                return Err(Unclear::Two);
            }
            Format::Int8
        } else if self.has(Mark::Bits4) {
            Format::Int4
        } else if self.has(Mark::Half) {
            Format::Float16
        } else if self.has(Mark::Single) {
            Format::Float32
        } else {
            // Only words such as QAT, which tell that the weights are packed and not how.
            return Err(Unclear::Unsized);
        };
        Ok(Some(format))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(words: &str) -> Result<Option<Format>, Unclear> {
        let mut marks = Marks::default();
        for word in words.split(' ') {
            assert!(marks.take(word) || Marks::is_qualifier(word), "{word}");
        }
        marks.format()
    }

    #[test]
    fn words_tell_one_format() {
        for (words, expected) in [
            ("awq", Format::Awq4),
            ("awq int4", Format::Awq4),
            ("awq 4bit", Format::Awq4),
            ("w4a16 awq", Format::Awq4),
            ("gptq", Format::Gptq4),
            ("gptq int4", Format::Gptq4),
            ("gptq int8", Format::Gptq8),
            ("autoround", Format::AutoRound4),
            ("autoround gptq 4bit", Format::Gptq4),
            ("int4", Format::Int4),
            ("w4a16", Format::W4a16),
            ("qat w4a16 ct", Format::W4a16),
            ("quantized w8a8", Format::Int8),
            ("w8a8 int8", Format::Int8),
            ("w8a8 fp8", Format::Fp8),
            ("w8a16", Format::Gptq8),
            ("fp8 dynamic", Format::Fp8),
            ("fp8 kv", Format::Fp8),
            ("nvfp4", Format::Nvfp4),
            ("nvfp4 fp8", Format::Nvfp4),
            ("fp4", Format::Nvfp4),
            ("mxfp4", Format::Mxfp4),
            ("unsloth bnb 4bit", Format::Bnb4),
            ("bnb 8bit", Format::Bnb8),
            ("8bit", Format::Int8),
            ("gguf", Format::Gguf),
            ("gguf 4bit", Format::Gguf),
            ("gguf q4_k_m", Format::GgufQ4K),
            ("ud q4_k_xl", Format::GgufQ4K),
            ("iq4_xs gguf", Format::GgufQ4_0),
            ("q5_0 gguf", Format::GgufQ5_0),
            ("qat q4_0 gguf", Format::GgufQ4_0),
            ("bf16 gguf", Format::GgufF16),
            ("bf16", Format::Float16),
            ("fp32", Format::Float32),
            ("qat q4_0 unquantized", Format::Float16),
        ] {
            assert_eq!(format(words), Ok(Some(expected)), "{words}");
        }
    }

    #[test]
    fn what_is_not_one_format_is_not_guessed() {
        for words in [
            "awq fp8",
            "awq gptq",
            "gguf awq",
            "bnb nvfp4",
            "q4_k_m q8_0",
            "fp8 int4",
        ] {
            assert_eq!(format(words), Err(Unclear::Two), "{words}");
        }
        for words in ["exl2", "mlx 4bit", "iq2_xxs gguf", "qat", "awq 8bit"] {
            assert_eq!(format(words), Err(Unclear::Unsized), "{words}");
        }
        for word in [
            "q",
            "q9_0",
            "q4_x",
            "iq4_k_m_x",
            "quill",
            "qwen",
            "iq",
            "",
            "fp9",
            "7b",
        ] {
            assert!(!Marks::is_mark(word), "{word}");
        }
    }
}
