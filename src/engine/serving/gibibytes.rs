//! Sizes that an engine takes as a decimal number of GiB.

use crate::engine::argparse::value;

/// Digits of a number that are looked at; with 2^30 their product stays below 2^128.
const MOST_DIGITS: u32 = 28;

/// The bytes of a number of GiB that Python's `float()` takes (`0.5`, `1e1`, `1_0`), rounded down.
///
/// Rounded down, for this is memory that a device is spared. The engines truncate as well (vLLM and SGLang:
/// `int(gb * 1024**3)`). `None` for what is no number, negative, not finite, or beyond 2^64 bytes.
pub(in crate::engine) fn gibibytes_in_bytes(text: &str) -> Option<u64> {
    if !value::is_python_float(text) {
        return None;
    }
    let text = value::ascii_digits(text);
    let text = text.trim();
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if !text.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let mut power = value::python_int(exponent)?;
    let (mut number, mut digits, mut after_point) = (0_u128, 0, false);
    for c in mantissa.chars() {
        let digit = match c {
            '.' => {
                after_point = true;
                continue;
            }
            '_' => continue,
            _ => c.to_digit(10)?,
        };
        if digits < MOST_DIGITS {
            number = number * 10 + u128::from(digit);
            digits += u32::from(number > 0);
            power = power.saturating_sub(i128::from(after_point));
        } else if !after_point {
            power = power.saturating_add(1);
        }
    }
    if number == 0 {
        return Some(0);
    }
    if negative {
        return None;
    }
    let bytes = number.checked_mul(1 << 30)?;
    let scale = u32::try_from(power.unsigned_abs())
        .ok()
        .and_then(|power| 10_u128.checked_pow(power));
    let bytes = match (scale, power < 0) {
        (Some(scale), true) => bytes / scale,
        (Some(scale), false) => bytes.checked_mul(scale)?,
        (None, true) => 0,
        (None, false) => return None,
    };
    u64::try_from(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::gibibytes_in_bytes;

    #[test]
    fn decimal_gibibytes_are_exact() {
        const GIB: u64 = 1 << 30;
        for (text, bytes) in [
            ("10", Some(10 * GIB)),
            ("0", Some(0)),
            ("-0.0", Some(0)),
            ("0.5", Some(GIB / 2)),
            (".25", Some(GIB / 4)),
            ("1.", Some(GIB)),
            (" +1_0 ", Some(10 * GIB)),
            ("1e1", Some(10 * GIB)),
            ("2.5E-1", Some(GIB / 4)),
            // 0.1 GiB is 107374182.4 bytes.
            ("0.1", Some(107_374_182)),
            ("0.10000000000000000000000000000000000000009", Some(107_374_182)),
            ("0.0000000000000000000000000000000000000000000001", Some(0)),
            ("1e-400", Some(0)),
            ("0e999999999999", Some(0)),
            ("17179869183", Some(17_179_869_183 * GIB)),
            ("17179869184", None),
            ("100000000000000000000000000000000000000", None),
            ("1e400", None),
            ("-1", None),
            ("inf", None),
            ("nan", None),
            ("", None),
            ("10GiB", None),
            ("１", Some(GIB)),
        ] {
            assert_eq!(gibibytes_in_bytes(text), bytes, "{text}");
        }
    }
}
