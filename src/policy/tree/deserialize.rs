//! serde's view of a [`Tree`]: types are read out of it, and an error knows the way to the value that it is about.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::{Entry, Shape, Step, Tree, path_text};

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
