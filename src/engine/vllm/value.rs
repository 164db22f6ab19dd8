//! Values as vLLM reads them: Python's numbers, and its own suffixed integers and compilation configuration.

use super::keys;
use super::options::{Kind, OptionInfo};
use crate::engine::Version;
use crate::engine::argparse::value;

pub use crate::engine::argparse::value::{Refusal, Value, ascii_digits, is_python_float, python_int};

/// Reads `text` as `option` does in the release `version`.
pub(super) fn read(option: &OptionInfo, version: Version, text: &str) -> Value {
    let read = value::read(option, text, &|text| human_int(text, version), &|text| {
        json(option, version, text)
    });
    let pairs = match option.name {
        "--lora-modules" => lora_module(text, version),
        "--prompt-adapters" => text.is_empty() || text.matches('=').count() == 1,
        _ => true,
    };
    match read {
        // Its parser splits what is not there.
        Value::Unset if option.name == "--prompt-adapters" => Value::Refused(Refusal::Type),
        Value::Text if !pairs => Value::Refused(Refusal::Type),
        read => read,
    }
}

/// Why a release refuses a text that an option takes as JSON.
fn json(option: &OptionInfo, version: Version, text: &str) -> Option<Refusal> {
    if option.name == "--compilation-config" && !compilation_config(text, version) {
        return Some(Refusal::Type);
    }
    if option.kind == Kind::Json || option.kind == Kind::JsonOrText {
        return (!value::is_json(text)).then_some(Refusal::Type);
    }
    match (value::object_keys(text), keys::of(option.name, version)) {
        // The compilation configuration has other forms, which are judged above.
        (None, _) => (option.name != "--compilation-config").then_some(Refusal::Type),
        (Some(_), None) => None,
        (Some(written), Some(known)) => {
            let strange = written.iter().any(|key| !known.contains(&&**key));
            strange.then_some(Refusal::UnknownKey)
        }
    }
}

/// `name=path`, or JSON with a name and a path.
fn lora_module(text: &str, version: Version) -> bool {
    if text.is_empty() || text.contains('=') && !text.contains(',') {
        // Without a limit, several signs make more than a name and a path.
        return version >= Version::new(0, 30, 0) || text.matches('=').count() < 2;
    }
    value::object_keys(text).is_some_and(|keys| {
        let known = |key: &String| match &**key {
            "name" | "path" | "base_model_name" => true,
            "is_3d_lora_weight" => version >= Version::new(0, 23, 0),
            _ => false,
        };
        ["name", "path"].iter().all(|key| keys.contains(*key)) && keys.iter().all(known)
    })
}

/// Until 0.9.1 a level 0 to 3 or an object (of Python's own notation until 0.8.5), later a JSON object only; its key
/// `level` is gone in 0.19.1, and `mode` is one of four, by number or name.
fn compilation_config(text: &str, version: Version) -> bool {
    if version < Version::new(0, 9, 2) && python_int(text).is_some() {
        return matches!(text, "0" | "1" | "2" | "3");
    }
    let text = text.trim();
    if version < Version::new(0, 9, 0) && text.starts_with('{') && text.ends_with('}') {
        return true;
    }
    let Ok(serde_json::Value::Object(map)) = serde_json::from_str::<serde_json::Value>(text) else {
        return false;
    };
    let level = map.get("level").is_none_or(|level| {
        version < Version::new(0, 18, 0) && (version < Version::new(0, 9, 1) || is_integer(level))
    });
    let mode = map.get("mode").is_none_or(|mode| match mode {
        serde_json::Value::String(name) => {
            let modes = ["NONE", "STOCK_TORCH_COMPILE", "DYNAMO_TRACE_ONCE", "VLLM_COMPILE"];
            modes.iter().any(|mode| name.eq_ignore_ascii_case(mode))
        }
        serde_json::Value::Bool(_) => true,
        mode => mode
            .as_f64()
            .is_some_and(|mode| [0.0, 1.0, 2.0, 3.0].contains(&mode)),
    });
    level && (mode || version < Version::new(0, 11, 1))
}

/// Whether pydantic takes it for an integer, or for none at all.
fn is_integer(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Null | serde_json::Value::Bool(_) => true,
        serde_json::Value::Number(number) => number.as_f64().is_some_and(|number| number.fract() == 0.0),
        serde_json::Value::String(text) => python_int(text).is_some(),
        serde_json::Value::Array(_) | serde_json::Value::Object(_) => false,
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
