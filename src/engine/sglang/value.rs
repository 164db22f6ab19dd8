//! SGLang's own integers with a suffix.

use super::options::OptionInfo;
use crate::engine::argparse::value;

pub use crate::engine::argparse::value::{Refusal, Value, ascii_digits, is_python_float, python_int};

/// Reads `text` as `option` does.
pub(super) fn read(option: &OptionInfo, text: &str) -> Value {
    value::read(option, text, &human_int, &|text| {
        (!value::is_json(text)).then_some(Refusal::Type)
    })
}

/// `k`, `M`, `G`, `T` are powers of 1000 and allow a decimal part; `Ki`, `Mi`, `Gi`, `Ti` are powers of 1024. Case counts.
fn human_int(text: &str) -> Option<i128> {
    const SUFFIXES: [(&str, i128, bool); 8] = [
        ("Ki", 1 << 10, false),
        ("Mi", 1 << 20, false),
        ("Gi", 1 << 30, false),
        ("Ti", 1 << 40, false),
        ("k", 1000, true),
        ("M", 1_000_000, true),
        ("G", 1_000_000_000, true),
        ("T", 1_000_000_000_000, true),
    ];
    let text = text.trim();
    let found = SUFFIXES
        .iter()
        .find_map(|(suffix, factor, decimal)| Some((text.strip_suffix(suffix)?, *factor, *decimal)));
    let Some((number, factor, decimal)) = found else {
        return python_int(text);
    };
    let (whole, part) = match number.split_once('.') {
        Some((_, part)) if part.is_empty() || !decimal => return None,
        Some(halves) => halves,
        None => (number, ""),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) {
        return None;
    }
    let mut sum = whole.parse().unwrap_or(i128::MAX).saturating_mul(factor);
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

    #[test]
    fn suffixed_integers() {
        for (text, value) in [
            ("4k", Some(4000)),
            ("25.6k", Some(25_600)),
            ("4K", None),
            ("1M", Some(1_000_000)),
            ("1m", None),
            ("4Mi", Some(1 << 22)),
            ("25.6Ki", None),
            ("1Ti", Some(1 << 40)),
            ("4_000", Some(4000)),
            ("1.5", None),
            ("-1", Some(-1)),
            ("-1k", None),
            ("k", None),
            ("Ki", None),
            ("", None),
        ] {
            assert_eq!(human_int(text), value, "{text}");
        }
    }
}
