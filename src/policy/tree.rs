//! A document as a tree that remembers where each value stands, and a serde deserializer over it.
//!
//! serde stops at the first error. With the whole document in memory an erroneous value can be taken out and the rest
//! read again, so that one look at a file gives all of its errors; and numbers keep the text in which they were
//! written, which a float would lose.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

mod deserialize;
mod load;
mod view;

pub(crate) use deserialize::{Fault, TreeError};
pub(crate) use load::{Limits, Unreadable, load};
pub(crate) use view::View;

/// Line and column, both counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) line: u64,
    pub(crate) column: u64,
}

/// One step of the way to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Item(usize),
}

/// The way to a value, from the root.
pub(crate) type Path = [Step];

/// `spec.engines[0].variables["A.B"]`.
pub(crate) fn path_text(path: &Path) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Item(index) => text.extend(["[", &index.to_string(), "]"]),
            Step::Key(key)
                if key
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') =>
            {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(key);
            }
            Step::Key(key) => text.extend(["[", &format!("{key:?}"), "]"]),
        }
    }
    text
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tree {
    pub(crate) at: Option<Position>,
    bytes: Option<(usize, usize)>,
    shape: Shape,
}

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Null,
    Bool(bool),
    /// The text as written.
    Number(String),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<Entry>),
    /// An item of a list that was taken out; the others keep their index.
    Removed,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    key: String,
    at: Option<Position>,
    value: Tree,
}

fn position(location: Location) -> Option<Position> {
    (location.line() > 0).then(|| Position {
        line: location.line(),
        column: location.column(),
    })
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned {
            value,
            referenced,
            defined,
        } = Spanned::<Shape>::deserialize(deserializer)?;
        let bytes = defined
            .span()
            .byte_offset()
            .zip(defined.span().byte_len())
            .and_then(|(start, length)| {
                let start = usize::try_from(start).ok()?;
                Some((start, start.checked_add(usize::try_from(length).ok()?)?))
            });
        Ok(Self {
            at: position(referenced),
            bytes,
            shape: value,
        })
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyShape;
        impl<'de> Visitor<'de> for AnyShape {
            type Value = Shape;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a YAML value")
            }

            fn visit_unit<E>(self) -> Result<Shape, E> {
                Ok(Shape::Null)
            }

            fn visit_none<E>(self) -> Result<Shape, E> {
                Ok(Shape::Null)
            }

            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Shape, D::Error> {
                Shape::deserialize(deserializer)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Shape, E> {
                Ok(Shape::Bool(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Shape, E> {
                Ok(Shape::Number(value.to_string()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Shape, E> {
                Ok(Shape::Number(value.to_string()))
            }

            fn visit_i128<E>(self, value: i128) -> Result<Shape, E> {
                Ok(Shape::Number(value.to_string()))
            }

            fn visit_u128<E>(self, value: u128) -> Result<Shape, E> {
                Ok(Shape::Number(value.to_string()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Shape, E> {
                Ok(Shape::Number(value.to_string()))
            }

            fn visit_str<E>(self, value: &str) -> Result<Shape, E> {
                Ok(Shape::Text(value.to_owned()))
            }

            fn visit_string<E>(self, value: String) -> Result<Shape, E> {
                Ok(Shape::Text(value))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Shape, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element::<Tree>()? {
                    list.push(item);
                }
                Ok(Shape::List(list))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shape, A::Error> {
                let mut entries = Vec::new();
                while let Some(key) = map.next_key::<Spanned<String>>()? {
                    let at = position(key.referenced);
                    entries.push(Entry {
                        key: key.value,
                        at,
                        value: map.next_value()?,
                    });
                }
                Ok(Shape::Map(entries))
            }
        }
        deserializer.deserialize_any(AnyShape)
    }
}

impl Tree {
    /// A tree without positions, from JSON.
    pub(crate) fn from_json(value: &serde_json::Value) -> Self {
        let shape = match value {
            serde_json::Value::Null => Shape::Null,
            serde_json::Value::Bool(value) => Shape::Bool(*value),
            serde_json::Value::Number(number) => Shape::Number(number.to_string()),
            serde_json::Value::String(text) => Shape::Text(text.clone()),
            serde_json::Value::Array(items) => Shape::List(items.iter().map(Self::from_json).collect()),
            serde_json::Value::Object(map) => Shape::Map(
                map.iter()
                    .map(|(key, value)| Entry {
                        key: key.clone(),
                        at: None,
                        value: Self::from_json(value),
                    })
                    .collect(),
            ),
        };
        Self {
            at: None,
            bytes: None,
            shape,
        }
    }

    /// Gives each number the text that it has in the source, which reading it as a float has lost (`0.90`).
    pub(crate) fn restore_numbers(&mut self, source: &str) {
        let is_number = matches!(self.shape, Shape::Number(_));
        match &mut self.shape {
            // The parser hands `.nan`, and a number too large for a float, over as a text.
            Shape::Number(text) | Shape::Text(text)
                if is_number || matches!(text.as_str(), ".nan" | ".inf" | "-.inf") =>
            {
                let written = self
                    .bytes
                    .and_then(|(start, end)| source.get(start..end))
                    .map(str::trim);
                if let Some(written) =
                    written.filter(|written| !written.is_empty() && !written.starts_with(['"', '\'']))
                {
                    written.clone_into(text);
                }
            }
            Shape::List(items) => items.iter_mut().for_each(|item| item.restore_numbers(source)),
            Shape::Map(entries) => entries
                .iter_mut()
                .for_each(|entry| entry.value.restore_numbers(source)),
            Shape::Null | Shape::Bool(_) | Shape::Number(_) | Shape::Text(_) | Shape::Removed => {}
        }
    }

    /// The text of a scalar below a map.
    pub(crate) fn text_of(&self, key: &str) -> Option<&str> {
        let Shape::Map(entries) = &self.shape else {
            return None;
        };
        match &entries.iter().find(|entry| entry.key == key)?.value.shape {
            Shape::Text(text) | Shape::Number(text) => Some(text),
            _ => None,
        }
    }

    /// Where the value at `path` stands, or the nearest one above it that exists; the key of a map's entry counts as its place
    /// where the value is itself a map or list.
    pub(crate) fn find(&self, path: &Path) -> Option<Position> {
        let mut here = self;
        let mut at = self.at;
        for step in path {
            match (&here.shape, step) {
                (Shape::Map(entries), Step::Key(key)) => {
                    let Some(entry) = entries.iter().find(|entry| &entry.key == key) else {
                        return at;
                    };
                    here = &entry.value;
                    let nested = matches!(here.shape, Shape::Map(_) | Shape::List(_));
                    at = if nested {
                        entry.at.or(here.at)
                    } else {
                        here.at.or(entry.at)
                    };
                }
                (Shape::List(items), Step::Item(index)) => {
                    let Some(item) = items.get(*index) else { return at };
                    here = item;
                    at = item.at.or(at);
                }
                _ => return at,
            }
        }
        at
    }

    /// Where the key of the entry at `path` stands.
    pub(crate) fn find_key(&self, path: &Path) -> Option<Position> {
        let (last, above) = path.split_last()?;
        let Step::Key(key) = last else {
            return self.find(path);
        };
        let Shape::Map(entries) = &self.get(above)?.shape else {
            return None;
        };
        entries.iter().find(|entry| &entry.key == key)?.at
    }

    /// The value at `path`.
    pub(crate) fn get(&self, path: &Path) -> Option<&Self> {
        path.iter()
            .try_fold(self, |here, step| match (&here.shape, step) {
                (Shape::Map(entries), Step::Key(key)) => entries
                    .iter()
                    .find(|entry| &entry.key == key)
                    .map(|entry| &entry.value),
                (Shape::List(items), Step::Item(index)) => items.get(*index),
                _ => None,
            })
    }

    /// Takes the value at `path` out. Whether something was taken out.
    pub(crate) fn remove(&mut self, path: &Path) -> bool {
        let Some((last, above)) = path.split_last() else {
            return false;
        };
        let mut here = self;
        for step in above {
            let next = match (&mut here.shape, step) {
                (Shape::Map(entries), Step::Key(key)) => entries
                    .iter_mut()
                    .find(|entry| &entry.key == key)
                    .map(|entry| &mut entry.value),
                (Shape::List(items), Step::Item(index)) => items.get_mut(*index),
                _ => None,
            };
            let Some(next) = next else { return false };
            here = next;
        }
        match (&mut here.shape, last) {
            (Shape::Map(entries), Step::Key(key)) => {
                let before = entries.len();
                entries.retain(|entry| &entry.key != key);
                entries.len() < before
            }
            (Shape::List(items), Step::Item(index)) => {
                let Some(item) = items.get_mut(*index) else {
                    return false;
                };
                std::mem::replace(&mut item.shape, Shape::Removed) != Shape::Removed
            }
            _ => false,
        }
    }
}
