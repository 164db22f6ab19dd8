//! JSON as models' files have it: what Python writes, read with bounds.
//!
//! Python writes `NaN` and `Infinity`, which JSON has not (Nemotron-H's `time_step_limit`); they are read as texts. A
//! field that stands twice is an error, because one of the two would be dropped silently.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Reads one value of at most so many bytes and so many nodes.
pub(super) fn parse(text: &str, most_bytes: usize, most_nodes: u32) -> Result<Value, String> {
    if text.len() > most_bytes {
        return Err(format!(
            "is {} bytes long; at most {most_bytes} are read",
            text.len()
        ));
    }
    let quoted = quote_constants(text);
    let text = quoted.as_deref().unwrap_or(text);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let left = Cell::new(most_nodes);
    let value = Unique {
        left: &left,
        most_nodes,
    }
    .deserialize(&mut deserializer)
    .map_err(|error| error.to_string())?;
    deserializer.end().map_err(|error| error.to_string())?;
    Ok(value)
}

/// Puts quotes around `NaN`, `Infinity` and `-Infinity` outside of strings; `None` where there are none.
fn quote_constants(text: &str) -> Option<String> {
    if !text.contains("NaN") && !text.contains("Infinity") {
        return None;
    }
    let mut quoted = String::with_capacity(text.len() + 64);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if first == '"' {
            string_length(rest)
        } else if let Some(constant) = ["NaN", "-Infinity", "Infinity"]
            .into_iter()
            .find(|word| rest.starts_with(word))
        {
            quoted.push('"');
            quoted.push_str(constant);
            quoted.push('"');
            rest = rest.get(constant.len()..).unwrap_or_default();
            continue;
        } else {
            first.len_utf8()
        };
        quoted.push_str(rest.get(..length).unwrap_or(rest));
        rest = rest.get(length..).unwrap_or_default();
    }
    Some(quoted)
}

/// Bytes of the string at the front, quotes included; all that is left where it does not end.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[derive(Clone, Copy)]
struct Unique<'a> {
    left: &'a Cell<u32>,
    most_nodes: u32,
}

impl<'de> DeserializeSeed<'de> for Unique<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.left.get().checked_sub(1) {
            Some(left) => self.left.set(left),
            None => {
                return Err(D::Error::custom(format_args!(
                    "more than {} values; no such file of a model has so many",
                    self.most_nodes
                )));
            }
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unique<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format_args!(
                    "{key:?} stands twice; keep the one that is meant"
                )));
            }
            let value = entries.next_value_seed(self)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_python_writes_is_read() {
        let value = parse(
            r#"{"a": [0.0, Infinity, -Infinity, NaN], "NaN \" Infinity": "Infinity"}"#,
            1000,
            100,
        )
        .unwrap();
        assert_eq!(value["a"][1], "Infinity");
        assert_eq!(value["a"][2], "-Infinity");
        assert_eq!(value["NaN \" Infinity"], "Infinity");
    }

    #[test]
    fn what_is_too_much_or_twice_is_refused() {
        assert!(
            parse("{\"a\": 1, \"a\": 1}", 1000, 100)
                .unwrap_err()
                .contains("twice")
        );
        assert!(parse("[0,0,0]", 1000, 3).unwrap_err().contains("more than 3"));
        assert!(parse("[0,0,0]", 6, 30).unwrap_err().contains("at most 6"));
        assert!(parse(&"[".repeat(100_000), 1 << 20, 1 << 20).is_err());
        assert!(parse("{} {}", 100, 100).is_err());
        assert!(parse("\"NaN", 100, 100).is_err());
    }
}
