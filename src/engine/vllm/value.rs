//! Values as vLLM reads them: Python's numbers, and its own suffixed integers and compilation configuration.

use super::options::OptionInfo;
use crate::engine::Version;
use crate::engine::argparse::value;

pub use crate::engine::argparse::value::{Refusal, Value, ascii_digits, is_python_float, python_int};

/// Reads `text` as `option` does in the release `version`.
pub(super) fn read(option: &OptionInfo, version: Version, text: &str) -> Value {
    value::read(option, text, &|text| human_int(text, version), &|text| {
        if option.name == "--compilation-config" {
            compilation_config(text, version)
        } else {
            value::is_json(text)
        }
    })
}

/// Until 0.9.1 a level 0 to 3 or a JSON object, later an object only; its key `level` is gone in 0.19.1.
fn compilation_config(text: &str, version: Version) -> bool {
    if version < Version::new(0, 9, 2) && python_int(text).is_some() {
        return matches!(text.trim(), "0" | "1" | "2" | "3");
    }
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(serde_json::Value::Object(map)) => match map.get("level") {
            None => true,
            Some(level) => {
                version < Version::new(0, 18, 0) && !(level.is_object() && version > Version::new(0, 9, 2))
            }
        },
        _ => false,
    }
}

/// An integer with vLLM's suffixes: small letters are powers of 1000 and allow a decimal part, capitals powers of 1024.
fn human_int(text: &str, version: Version) -> Option<i128> {
    let trimmed = text.trim();
    let Some(suffix) = trimmed.chars().last().filter(char::is_ascii_alphabetic) else {
        return python_int(trimmed);
    };
    let number = &trimmed[..trimmed.len() - 1];
    let factor: i128 = match suffix {
        'k' => 1000,
        'K' => 1 << 10,
        'm' => 1_000_000,
        'M' => 1 << 20,
        'g' => 1_000_000_000,
        'G' => 1 << 30,
        't' if version >= Version::new(0, 14, 0) => 1_000_000_000_000,
        'T' if version >= Version::new(0, 14, 0) => 1 << 40,
        _ => return None,
    };
    let (whole, part) = match number.split_once('.') {
        Some((_, part)) if part.is_empty() || suffix.is_ascii_uppercase() => return None,
        Some(halves) => halves,
        None => (number, ""),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) {
        return None;
    }
    let whole: i128 = whole.parse().unwrap_or(i128::MAX);
    let mut sum = whole.saturating_mul(factor);
    let mut place = factor;
    for digit in part.bytes() {
        place /= 10;
        sum = sum.saturating_add(place.saturating_mul(i128::from(digit - b'0')));
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Version = Version::new(0, 33, 0);

    #[test]
    fn suffixed_integers() {
        for (text, value) in [
            ("1k", Some(1000)),
            ("1K", Some(1024)),
            ("25.6k", Some(25_600)),
            ("1.5K", None),
            ("0.0001k", Some(0)),
            (" 2g ", Some(2_000_000_000)),
            ("4_000", Some(4000)),
            ("10Gi", None),
            ("1e3", None),
            ("+4k", None),
            ("k", None),
            ("", None),
            ("1T", Some(1 << 40)),
        ] {
            assert_eq!(human_int(text, NEW), value, "{text}");
        }
        assert_eq!(human_int("1T", Version::new(0, 12, 0)), None);
    }
}
