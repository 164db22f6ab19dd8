//! A document as a tree that remembers where each value stands, and a serde deserializer over it.
//!
//! serde stops at the first error. With the whole document in memory an erroneous value can be taken out and the rest
//! read again, so that one look at a file gives all of its errors; and numbers keep the text in which they were
//! written, which a float would lose.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_saphyr::{Location, Spanned};

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

    fn get(&self, path: &Path) -> Option<&Self> {
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

/// Why a tree is not what was expected, and where.
#[derive(Clone, Debug)]
pub(crate) struct TreeError {
    /// From the value up to the root.
    reversed: Vec<Step>,
    pub(crate) fault: Fault,
}

#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// A sentence without a subject: `is …`.
    Other(String),
    /// The last step of the path is no field; these are.
    UnknownField(&'static [&'static str]),
    /// The value is none of these words.
    UnknownWord(String, &'static [&'static str]),
}

impl TreeError {
    fn new(fault: Fault) -> Self {
        Self {
            reversed: Vec::new(),
            fault,
        }
    }

    fn below(mut self, step: Step) -> Self {
        self.reversed.push(step);
        self
    }

    /// From the root to the value.
    pub(crate) fn path(&self) -> Vec<Step> {
        self.reversed.iter().rev().cloned().collect()
    }
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", path_text(&self.path()), self.fault)
    }
}

impl std::error::Error for TreeError {}

impl de::Error for TreeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(Fault::Other(message.to_string()))
    }

    fn invalid_type(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        if matches!(found, de::Unexpected::UnitVariant) {
            return Self::new(Fault::Other(
                "lacks its value: write it as a map with one entry".to_owned(),
            ));
        }
        let expected = expected.to_string();
        let expected = match expected.as_str() {
            "i64" | "u64" | "u32" | "u8" => "a whole number",
            "a boolean" => "true or false",
            "a string" => "a text (put it in quotes)",
            "a sequence" => "a list",
            other => other,
        };
        Self::new(Fault::Other(format!("is {}, not {expected}", found_text(found))))
    }

    fn invalid_value(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::new(Fault::UnknownField(expected)).below(Step::Key(field.to_owned()))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::new(Fault::UnknownWord(variant.to_owned(), expected))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(Fault::Other(format!("lacks the field {field}")))
    }
}

fn found_text(found: de::Unexpected<'_>) -> String {
    match found {
        de::Unexpected::Str(text) => format!("{text:?}"),
        de::Unexpected::Unsigned(number) => number.to_string(),
        de::Unexpected::Signed(number) => number.to_string(),
        de::Unexpected::Bool(value) => value.to_string(),
        de::Unexpected::Unit | de::Unexpected::Option => "empty".to_owned(),
        de::Unexpected::Seq => "a list".to_owned(),
        de::Unexpected::Map => "a map".to_owned(),
        other => other.to_string(),
    }
}

impl<'de> Deserializer<'de> for &'de Tree {
    type Error = TreeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError> {
        match &self.shape {
            Shape::Null | Shape::Removed => visitor.visit_unit(),
            Shape::Bool(value) => visitor.visit_bool(*value),
            Shape::Number(text) => {
                if let Ok(number) = text.parse::<u64>() {
                    visitor.visit_u64(number)
                } else if let Ok(number) = text.parse::<i64>() {
                    visitor.visit_i64(number)
                } else {
                    visitor.visit_borrowed_str(text)
                }
            }
            Shape::Text(text) => visitor.visit_borrowed_str(text),
            Shape::List(items) => visitor.visit_seq(Items {
                items: items.iter().enumerate(),
            }),
            Shape::Map(entries) => visitor.visit_map(Entries {
                entries: entries.iter(),
                current: None,
            }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError> {
        match self.shape {
            Shape::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, TreeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, TreeError> {
        match &self.shape {
            Shape::Text(text) => visitor.visit_borrowed_str(text),
            Shape::Number(text) => Err(de::Error::custom(format!(
                "is the number {text}, not a text: put it in quotes"
            ))),
            _ => self.deserialize_any(visitor),
        }
    }

    /// A struct is written as a map and never as a list of its values.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TreeError> {
        match &self.shape {
            Shape::List(_) => Err(de::Error::invalid_type(de::Unexpected::Seq, &visitor)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TreeError> {
        match &self.shape {
            Shape::Text(text) => visitor.visit_enum(de::value::StrDeserializer::<TreeError>::new(text)),
            Shape::Map(entries) if entries.len() == 1 => visitor.visit_enum(Choice {
                key: &entries[0].key,
                value: &entries[0].value,
            }),
            Shape::Number(text) => Err(de::Error::unknown_variant(text, variants)),
            Shape::Bool(value) => Err(de::Error::unknown_variant(&value.to_string(), variants)),
            Shape::Null | Shape::Removed => Err(de::Error::unknown_variant("", variants)),
            Shape::List(_) => Err(de::Error::custom(format!(
                "is a list, not one of {}",
                variants.join(", ")
            ))),
            Shape::Map(_) => Err(de::Error::custom(format!(
                "is a map, not one of {}",
                variants.join(", ")
            ))),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

struct Items<'de> {
    items: std::iter::Enumerate<std::slice::Iter<'de, Tree>>,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = TreeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, TreeError> {
        let Some((index, item)) = self.items.find(|(_, item)| item.shape != Shape::Removed) else {
            return Ok(None);
        };
        seed.deserialize(item)
            .map(Some)
            .map_err(|error| error.below(Step::Item(index)))
    }
}

struct Entries<'de> {
    entries: std::slice::Iter<'de, Entry>,
    current: Option<&'de Entry>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = TreeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, TreeError> {
        self.current = self.entries.next();
        let Some(entry) = self.current else {
            return Ok(None);
        };
        let key: de::value::BorrowedStrDeserializer<'de, TreeError> =
            de::value::BorrowedStrDeserializer::new(&entry.key);
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, TreeError> {
        let Some(entry) = self.current.take() else {
            return Err(de::Error::custom("is read in the wrong order"));
        };
        seed.deserialize(&entry.value)
            .map_err(|error| error.below(Step::Key(entry.key.clone())))
    }
}

/// `{assume: "0.90"}`: a word that carries a value.
struct Choice<'de> {
    key: &'de str,
    value: &'de Tree,
}

impl<'de> de::EnumAccess<'de> for Choice<'de> {
    type Error = TreeError;
    type Variant = ChoiceValue<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, ChoiceValue<'de>), TreeError> {
        let word: de::value::StrDeserializer<'_, TreeError> = self.key.into_deserializer();
        Ok((
            seed.deserialize(word)?,
            ChoiceValue {
                key: self.key,
                value: self.value,
            },
        ))
    }
}

struct ChoiceValue<'de> {
    key: &'de str,
    value: &'de Tree,
}

impl<'de> de::VariantAccess<'de> for ChoiceValue<'de> {
    type Error = TreeError;

    fn unit_variant(self) -> Result<(), TreeError> {
        Err(de::Error::custom(format!(
            "carries a value, and {} stands alone",
            self.key
        )))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, TreeError> {
        seed.deserialize(self.value)
            .map_err(|error| error.below(Step::Key(self.key.to_owned())))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, TreeError> {
        self.value.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, TreeError> {
        self.value.deserialize_any(visitor)
    }
}
