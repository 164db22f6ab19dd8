//! Numbers and texts of an object, with an error that names the field where they are something else.

use serde_json::{Map, Value};

use super::super::controller::Malformed;
use super::super::pod::Container;
use crate::finding::{FieldPath, shortened};

/// Characters of a wrong value that are repeated.
const LONGEST: usize = 80;

/// Says that a field holds something else than what is wanted.
pub(super) fn wrong(path: &FieldPath, value: &Value, wanted: &str) -> Malformed {
    Malformed {
        path: path.to_string(),
        message: format!("{} is not {wanted}", shortened(&value.to_string(), LONGEST)),
    }
}

/// A number of pods, groups or devices; `None` where the field is absent or null.
pub(super) fn of(value: Option<&Value>, path: &FieldPath) -> Result<Option<u32>, Malformed> {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let count = value.as_u64().and_then(|number| i32::try_from(number).ok());
    match count.and_then(|number| u32::try_from(number).ok()) {
        Some(count) => Ok(Some(count)),
        None => Err(wrong(
            path,
            value,
            "a whole number from 0 to 2147483647, without quotes",
        )),
    }
}

/// The same of a field of a map.
pub(super) fn in_map(map: &Map<String, Value>, at: &FieldPath, name: &str) -> Result<Option<u32>, Malformed> {
    of(map.get(name), &at.field(name))
}

/// The same of a field of something that should be a map.
pub(super) fn field(value: &Value, at: &FieldPath, name: &str) -> Result<Option<u32>, Malformed> {
    of(value.get(name), &at.field(name))
}

/// A whole number or a part of `whole` (`25%`), rounded up or down.
pub(super) fn or_percent(
    value: &Value,
    at: &FieldPath,
    name: &str,
    whole: u32,
    round_up: bool,
) -> Result<Option<u32>, Malformed> {
    let Some(value) = value.get(name).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let count = serde_json::from_value::<super::super::rollout::CountOrPercent>(value.clone());
    match count {
        Ok(count) => Ok(Some(count.of(whole, round_up))),
        Err(_) => Err(wrong(
            &at.field(name),
            value,
            "a whole number such as 1 or a percentage such as \"25%\"",
        )),
    }
}

/// A yes or no; no where it is absent.
pub(super) fn flag(value: &Value, at: &FieldPath, name: &str) -> Result<bool, Malformed> {
    match value.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(other) => Err(wrong(&at.field(name), other, "true or false")),
    }
}

/// A text; `None` where it is absent.
pub(super) fn text<'v>(value: &'v Value, at: &FieldPath, name: &str) -> Result<Option<&'v str>, Malformed> {
    match value.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(wrong(&at.field(name), other, "a text")),
    }
}

/// The items of a list; none where it is absent.
pub(super) fn list<'v>(value: &'v Value, at: &FieldPath, name: &str) -> Result<&'v [Value], Malformed> {
    match value.get(name) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(other) => Err(wrong(&at.field(name), other, "a list")),
    }
}

/// A map below another one; `None` where it is absent.
pub(super) fn map<'v>(value: &'v Value, at: &FieldPath, name: &str) -> Result<Option<&'v Value>, Malformed> {
    match value.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(map @ Value::Object(_)) => Ok(Some(map)),
        Some(other) => Err(wrong(&at.field(name), other, "an object")),
    }
}

/// Whole devices that a container asks for.
pub(super) fn devices(container: &Container) -> u32 {
    let limits = container.resources.limits.iter();
    let counts = limits.filter(|(name, _)| crate::device::is_slot_resource(name));
    counts
        .filter_map(|(_, quantity)| quantity.0.parse().ok())
        .max()
        .unwrap_or(1)
}
