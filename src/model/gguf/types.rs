//! Types of tensors, and the bytes of their blocks.

use crate::model::Format;

macro_rules! types {
    ($($variant:ident, $number:literal, $name:literal, $elements:literal, $bytes:literal;)*) => {
        /// A type of tensor (`ggml_type`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "the variants are ggml's own names")]
        #[allow(non_camel_case_types, reason = "the variants are ggml's own names")]
        pub enum TensorType {
            $($variant,)*
        }

        impl TensorType {
            /// The type with a number of `ggml.h`.
            #[must_use]
            pub const fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Its name in ggml.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Elements and bytes of a block (`ggml-common.h`).
            #[must_use]
            pub const fn block(self) -> (u64, u64) {
                match self {
                    $(Self::$variant => ($elements, $bytes),)*
                }
            }
        }
    };
}

types! {
    F32, 0, "F32", 1, 4;
    F16, 1, "F16", 1, 2;
    Q4_0, 2, "Q4_0", 32, 18;
    Q4_1, 3, "Q4_1", 32, 20;
    Q5_0, 6, "Q5_0", 32, 22;
    Q5_1, 7, "Q5_1", 32, 24;
    Q8_0, 8, "Q8_0", 32, 34;
    Q8_1, 9, "Q8_1", 32, 36;
    Q2_K, 10, "Q2_K", 256, 84;
    Q3_K, 11, "Q3_K", 256, 110;
    Q4_K, 12, "Q4_K", 256, 144;
    Q5_K, 13, "Q5_K", 256, 176;
    Q6_K, 14, "Q6_K", 256, 210;
    Q8_K, 15, "Q8_K", 256, 292;
    Iq2Xxs, 16, "IQ2_XXS", 256, 66;
    Iq2Xs, 17, "IQ2_XS", 256, 74;
    Iq3Xxs, 18, "IQ3_XXS", 256, 98;
    Iq1S, 19, "IQ1_S", 256, 50;
    Iq4Nl, 20, "IQ4_NL", 32, 18;
    Iq3S, 21, "IQ3_S", 256, 110;
    Iq2S, 22, "IQ2_S", 256, 82;
    Iq4Xs, 23, "IQ4_XS", 256, 136;
    I8, 24, "I8", 1, 1;
    I16, 25, "I16", 1, 2;
    I32, 26, "I32", 1, 4;
    I64, 27, "I64", 1, 8;
    F64, 28, "F64", 1, 8;
    Iq1M, 29, "IQ1_M", 256, 56;
    Bf16, 30, "BF16", 1, 2;
    Tq1_0, 34, "TQ1_0", 256, 54;
    Tq2_0, 35, "TQ2_0", 256, 66;
    Mxfp4, 39, "MXFP4", 32, 17;
}

impl TensorType {
    /// Bytes of so many elements in rows of one length; `None` where rows are no whole blocks or the product is too
    /// large for any file.
    #[must_use]
    pub fn bytes(self, row: u64, elements: u64) -> Option<u64> {
        let (per_block, bytes) = self.block();
        if !row.is_multiple_of(per_block) {
            return None;
        }
        (elements / per_block).checked_mul(bytes)
    }

    /// The format whose weights are mostly of this type.
    #[must_use]
    pub const fn format(self) -> Format {
        match self {
            Self::F16 | Self::Bf16 => Format::GgufF16,
            Self::F32 => Format::Float32,
            Self::Q8_0 => Format::GgufQ8_0,
            Self::Q6_K => Format::GgufQ6K,
            Self::Q5_K => Format::GgufQ5K,
            Self::Q5_0 => Format::GgufQ5_0,
            Self::Q4_K => Format::GgufQ4K,
            Self::Q4_0 => Format::GgufQ4_0,
            Self::Q3_K => Format::GgufQ3K,
            Self::Q2_K => Format::GgufQ2K,
            // MXFP4 among them: `Format::Mxfp4` is not stored in such a file.
            _ => Format::Gguf,
        }
    }
}
