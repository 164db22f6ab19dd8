//! Values as Python reads them: `int()`, `float()`, `json.loads()`.

use std::collections::{BTreeSet, HashMap};

use super::table::{Kind, OptionInfo};

/// The value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// The option stands there without a value.
    Flag,
    /// Text, a float or JSON that the parser accepts.
    Text,
    /// An integer, after its suffix; what is beyond 128 bits is the largest one.
    Int(i128),
    /// Explicitly nothing (`None`, or an empty word).
    Unset,
    /// It depends on something that cannot be read.
    Unresolved,
    /// The parser refuses it.
    Refused(Refusal),
}

/// Why the parser refuses a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is not of the option's type.
    Type,
    /// It is none of the option's choices.
    NotAChoice,
    /// It is an object with a key that is none of the option's.
    UnknownKey,
}

/// Reads `text` as `option` does. `human_int` reads an integer with the engine's suffixes, `json` says why the engine
/// refuses a text that the option takes as JSON.
pub(crate) fn read(
    option: &OptionInfo,
    text: &str,
    human_int: &dyn Fn(&str) -> Option<i128>,
    json: &dyn Fn(&str) -> Option<Refusal>,
) -> Value {
    if option.optional && (text.is_empty() || text == "None") {
        return if option.refuses_none() {
            Value::Refused(Refusal::NotAChoice)
        } else {
            Value::Unset
        };
    }
    let value = match option.kind {
        Kind::Text | Kind::Gone => Some(Value::Text),
        Kind::Boolean => ["true", "false"]
            .iter()
            .any(|word| text.eq_ignore_ascii_case(word))
            .then_some(Value::Text),
        Kind::Int => python_int(text).map(Value::Int),
        Kind::Float => is_python_float(text).then_some(Value::Text),
        Kind::HumanIntOrAuto if text.trim().eq_ignore_ascii_case("auto") => Some(Value::Int(-1)),
        Kind::HumanInt | Kind::HumanIntOrAuto => human_int(text).map(Value::Int),
        Kind::KeyValues if text.is_empty() => Some(Value::Unset),
        Kind::KeyValues => are_key_values(text).then_some(Value::Text),
        Kind::ObjectOrKeyValues if !is_braced(text) => are_key_values(text).then_some(Value::Text),
        Kind::JsonOrText if !is_braced(text) => Some(Value::Text),
        Kind::Json | Kind::JsonOrText | Kind::Object | Kind::ObjectOrKeyValues => {
            Some(json(text).map_or(Value::Text, Value::Refused))
        }
    };
    match value {
        None => Value::Refused(Refusal::Type),
        // What is compared is the number, however it is written.
        Some(Value::Int(int)) if !option.choices.is_empty() && option.refuses(&int.to_string()) => {
            Value::Refused(Refusal::NotAChoice)
        }
        Some(Value::Int(int)) => Value::Int(int),
        Some(_) if option.refuses(text) => Value::Refused(Refusal::NotAChoice),
        Some(value) => value,
    }
}

/// `a=1,b=2`, each key once or with the same number again.
fn are_key_values(text: &str) -> bool {
    let mut known: HashMap<String, i128> = HashMap::new();
    text.split(',').all(|item| {
        let Some((key, number)) = item.split_once('=') else {
            return false;
        };
        let Some(number) = python_int(number) else {
            return false;
        };
        *known.entry(key.trim().to_lowercase()).or_insert(number) == number
    })
}

/// Whether it stands in braces, which tells an object from text.
fn is_braced(text: &str) -> bool {
    let text = text.trim();
    text.len() > 1 && text.starts_with('{') && text.ends_with('}')
}

/// The keys of a JSON object; `None` for what is none.
pub(crate) fn object_keys(text: &str) -> Option<BTreeSet<String>> {
    let map: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).ok()?;
    Some(map.into_iter().map(|(key, _)| key).collect())
}

/// Python's `json.loads` also takes `NaN` and `Infinity`.
pub(crate) fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
        || ["NaN", "Infinity"].iter().any(|word| text.contains(word))
}

/// Digits that Python's `int()` takes at most.
const LONGEST_INT: usize = 4300;

/// `int(text)`; `None` where it raises. What is beyond 128 bits becomes the largest integer of that sign.
#[must_use]
pub fn python_int(text: &str) -> Option<i128> {
    let text = text.trim();
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if digits.len() > LONGEST_INT {
        return None;
    }
    let mut sum: i128 = 0;
    let mut digit_before = false;
    for c in digits.chars() {
        if c == '_' {
            if !digit_before {
                return None;
            }
            digit_before = false;
        } else {
            sum = sum
                .saturating_mul(10)
                .saturating_add(i128::from(decimal_digit(c)?));
            digit_before = true;
        }
    }
    digit_before.then_some(if negative { -sum } else { sum })
}

/// The value of a decimal digit of any script, which Python accepts in numbers.
fn decimal_digit(c: char) -> Option<u8> {
    if c.is_ascii() {
        return c.to_digit(10).and_then(|digit| u8::try_from(digit).ok());
    }
    // Scripts keep their digits in runs of ten that begin at a multiple of 16 or at 6 beyond one; the full-width and
    // the Arabic ones are those that a keyboard gives.
    let zero = [0xFF10, 0x0660, 0x06F0, 0x0966]
        .into_iter()
        .find(|zero| (*zero..*zero + 10).contains(&u32::from(c)))?;
    u8::try_from(u32::from(c) - zero).ok()
}

/// Text in which digits of other scripts are ASCII ones.
#[must_use]
pub fn ascii_digits(text: &str) -> String {
    text.chars()
        .map(|c| decimal_digit(c).map_or(c, |digit| char::from(b'0' + digit)))
        .collect()
}

/// Whether `float(text)` succeeds.
#[must_use]
pub fn is_python_float(text: &str) -> bool {
    let ascii;
    let text = if text.is_ascii() {
        text.trim()
    } else {
        ascii = ascii_digits(text);
        ascii.trim()
    };
    let body = text.strip_prefix(['-', '+']).unwrap_or(text);
    if ["nan", "inf", "infinity"]
        .iter()
        .any(|word| body.eq_ignore_ascii_case(word))
    {
        return true;
    }
    let (mantissa, exponent) = match body.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (body, None),
    };
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| {
        let bytes = text.as_bytes();
        let well = |(i, b): (usize, &u8)| match b {
            b'0'..=b'9' => true,
            b'_' => {
                i > 0 && bytes[i - 1].is_ascii_digit() && bytes.get(i + 1).is_some_and(u8::is_ascii_digit)
            }
            _ => false,
        };
        bytes.iter().enumerate().all(well)
    };
    let exponent_is_well = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    !(whole.is_empty() && part.is_empty()) && digits(whole) && digits(part) && exponent_is_well
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_numbers() {
        for text in [".3", "3e-1", " 0.3 ", "1_0.5", "nan", "-inf", "５.０", "1."] {
            assert!(is_python_float(text), "{text}");
        }
        for text in ["", ".", "0,3", "1_", "_1", "1__0", "0.3f", "e1", "1e", "½"] {
            assert!(!is_python_float(text), "{text}");
        }
        assert_eq!(python_int("+1_000"), Some(1000));
        assert_eq!(python_int("1_"), None);
        assert_eq!(python_int("-2"), Some(-2));
    }
}
