//! The object of a review: built without `metadata.managedFields`, which decide nothing at admission
//! and are often half of the bytes.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::workload::Malformed;

/// The object as a JSON value, less what nothing reads.
pub(super) fn lean(raw: &RawValue) -> Result<Value, serde_json::Error> {
    let mut parser = serde_json::Deserializer::from_str(raw.get());
    let value = Without {
        skipped: &[],
        below: Some(("metadata", &["managedFields"])),
    }
    .deserialize(&mut parser)?;
    parser.end()?;
    Ok(value)
}

/// Reads a map and skips some of its keys, and some keys of one map below it.
struct Without {
    skipped: &'static [&'static str],
    below: Option<(&'static str, &'static [&'static str])>,
}

impl<'de> DeserializeSeed<'de> for Without {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Without {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if self.skipped.contains(&key.as_str()) {
                entries.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = match self.below {
                Some((name, skipped)) if name == key => {
                    entries.next_value_seed(Without { skipped, below: None })?
                }
                _ => entries.next_value()?,
            };
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }

    // `metadata: null` is an absent field; anything else that is no map is left to the reader's own error.
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ScaleObject {
    spec: Option<ScaleSpec>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ScaleSpec {
    replicas: Option<i64>,
}

/// `spec.replicas` of an `autoscaling/v1` Scale; absent means 0 there.
pub(super) fn replicas(raw: &RawValue) -> Result<u32, Malformed> {
    let malformed = |message: String| Malformed {
        path: "spec.replicas".to_owned(),
        message,
    };
    let scale: ScaleObject = serde_json::from_str(raw.get()).map_err(|error| malformed(error.to_string()))?;
    let replicas = scale.spec.unwrap_or_default().replicas.unwrap_or(0);
    u32::try_from(replicas).map_err(|_| {
        malformed(format!(
            "{replicas} is not a number of pods: write an integer from 0 to {}",
            i32::MAX
        ))
    })
}
