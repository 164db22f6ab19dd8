//! JSON values that are stricter than `serde_json::Value`'s own: a duplicate field is an error, because one of the two
//! would be dropped silently.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Reads any value.
pub(super) struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i128<E: de::Error>(self, value: i128) -> Result<Value, E> {
        integer(value).ok_or_else(|| E::custom(format_args!("the integer {value} does not fit into 64 bits")))
    }

    fn visit_u128<E: de::Error>(self, value: u128) -> Result<Value, E> {
        i128::try_from(value)
            .ok()
            .and_then(integer)
            .ok_or_else(|| E::custom(format_args!("the integer {value} does not fit into 64 bits")))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        // kubectl sends YAML on as JSON, where `1e3` and `3.0` have become the integers 1000 and 3.
        if let Ok(whole) = value.to_string().parse::<i64>() {
            return Ok(whole.into());
        }
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom(format_args!("{value} is not a finite number; JSON has none such")))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: de::Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key_seed(Key)? {
            if map.contains_key(&key) {
                return Err(de::Error::custom(format_args!(
                    "duplicate field {key:?}: only one can be meant"
                )));
            }
            let value = entries.next_value_seed(Self)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

fn integer(value: i128) -> Option<Value> {
    i64::try_from(value)
        .map(Value::from)
        .or_else(|_| u64::try_from(value).map(Value::from))
        .ok()
}

/// Reads the key of a mapping. JSON has string keys only; kubectl turns the numbers and booleans of YAML into text.
pub(super) struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Key {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name (text, a number or a boolean)")
    }

    fn visit_bool<E: de::Error>(self, key: bool) -> Result<String, E> {
        Ok(key.to_string())
    }

    fn visit_i64<E: de::Error>(self, key: i64) -> Result<String, E> {
        Ok(key.to_string())
    }

    fn visit_u64<E: de::Error>(self, key: u64) -> Result<String, E> {
        Ok(key.to_string())
    }

    fn visit_f64<E: de::Error>(self, key: f64) -> Result<String, E> {
        Ok(key.to_string())
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<String, E> {
        Ok(key.to_owned())
    }

    fn visit_string<E: de::Error>(self, key: String) -> Result<String, E> {
        Ok(key)
    }
}
