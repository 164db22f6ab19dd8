//! Bits of a packed parameter, by format.

use crate::model::Format;

/// Bits of one packed parameter in thousandths, scales and zeros included: least, usual, most.
///
/// AWQ and GPTQ: 4 bits and a 16-bit scale and 4-bit zero for each 128 (4.156); without zeros 4.125; NVFP4: an 8-bit scale
/// for each 16 (4.5); MXFP4: an 8-bit scale for each 32 (4.25); NF4: 4.127 with nested scales, 4.5 without; GGUF: the
/// block sizes of ggml, mixtures as their tools print them.
pub(super) const fn bits(format: Format) -> (u64, u64, u64) {
    match format {
        Format::Float32 => (32_000, 32_000, 32_000),
        Format::Float16 | Format::GgufF16 => (16_000, 16_000, 16_000),
        Format::Fp8 | Format::Int8 | Format::Gptq8 => (8_000, 8_000, 8_004),
        Format::Bnb8 => (8_000, 8_030, 8_500),
        Format::Awq4 | Format::Gptq4 => (4_125, 4_156, 4_300),
        Format::AutoRound4 => (4_063, 4_156, 4_300),
        Format::W4a16 => (4_063, 4_125, 4_500),
        Format::Int4 => (3_960, 4_156, 4_600),
        Format::Bnb4 => (4_127, 4_200, 4_500),
        Format::Nvfp4 => (4_500, 4_500, 4_530),
        Format::Mxfp4 | Format::Fp4Fp8 => (4_250, 4_250, 4_250),
        Format::Gguf => (2_600, 4_850, 8_500),
        Format::GgufQ8_0 => (8_500, 8_500, 8_700),
        Format::GgufQ6K => (6_560, 6_570, 6_700),
        Format::GgufQ5K => (5_500, 5_700, 5_800),
        Format::GgufQ5_0 => (5_500, 5_550, 5_700),
        Format::GgufQ4K => (4_500, 4_850, 5_000),
        Format::GgufQ4_0 => (4_500, 4_550, 4_700),
        Format::GgufQ3K => (3_400, 3_910, 4_300),
        Format::GgufQ2K => (2_560, 2_960, 3_400),
    }
}

/// Experts of gpt-oss are padded from 2880 to 3072 in both directions, in one, or not quite, by kernel: 13.47 and 13.72
/// GiB were measured for the smaller model, 64.4 and 66.0 for the larger, against 1 for no padding.
pub(super) const PADDED_EXPERTS: (u64, u64, u64) = (1_058, 1_080, 1_096);
