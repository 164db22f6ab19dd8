//! YAML as Python's PyYAML loads it: the files that `--config` names.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::rc::Rc;

use super::ConfigFile;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// Why a file gives no words: the process ends with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    Yaml,
    NotAMapping,
}

/// A YAML value as PyYAML loads it (YAML 1.1), in the order of the file.
#[derive(Debug)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Node;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("YAML")
            }
            fn visit_unit<E>(self) -> Result<Node, E> {
                Ok(Node::Null)
            }
            fn visit_none<E>(self) -> Result<Node, E> {
                Ok(Node::Null)
            }
            fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
                Ok(Node::Bool(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
                Ok(Node::Text(value.to_string()))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
                Ok(Node::Text(value.to_string()))
            }
            fn visit_i128<E>(self, value: i128) -> Result<Node, E> {
                Ok(Node::Text(value.to_string()))
            }
            fn visit_u128<E>(self, value: u128) -> Result<Node, E> {
                Ok(Node::Text(value.to_string()))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
                // The debug form always has a point or an exponent, like Python's repr().
                Ok(Node::Text(format!("{value:?}").to_lowercase()))
            }
            fn visit_str<E>(self, value: &str) -> Result<Node, E> {
                Ok(Node::Text(value.to_owned()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
                let mut list = Vec::new();
                while let Some(node) = seq.next_element()? {
                    list.push(node);
                }
                Ok(Node::List(list))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
                let mut entries: Vec<(String, Node)> = Vec::new();
                let mut places: HashMap<String, usize> = HashMap::new();
                while let Some((key, node)) = map.next_entry::<Node, Node>()? {
                    if matches!(key, Node::List(_) | Node::Map(_)) {
                        return Err(serde::de::Error::custom("found unhashable key"));
                    }
                    let key = key.text();
                    match places.entry(key) {
                        Entry::Occupied(place) => entries[*place.get()].1 = node,
                        Entry::Vacant(place) => {
                            entries.push((place.key().clone(), node));
                            place.insert(entries.len() - 1);
                        }
                    }
                }
                Ok(Node::Map(entries))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

impl Node {
    /// Python's `str()`.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Null => "None".to_owned(),
            Self::Bool(true) => "True".to_owned(),
            Self::Bool(false) => "False".to_owned(),
            Self::Text(text) => text.clone(),
            Self::List(list) => {
                format!("[{}]", list.iter().map(Self::repr).collect::<Vec<_>>().join(", "))
            }
            Self::Map(map) => {
                let entries = map.iter().map(|(key, node)| format!("'{key}': {}", node.repr()));
                format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
            }
        }
    }

    fn repr(&self) -> String {
        match self {
            Self::Text(text) => format!("'{text}'"),
            other => other.text(),
        }
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        use serde_json::Value;
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Text(text) => match text.parse::<serde_json::Number>() {
                Ok(number) => Value::Number(number),
                Err(_) => Value::String(text.clone()),
            },
            Self::List(list) => Value::Array(list.iter().map(Self::json).collect()),
            Self::Map(map) => {
                Value::Object(map.iter().map(|(key, node)| (key.clone(), node.json())).collect())
            }
        }
    }
}

/// What a file holds.
type Entries = Result<Option<Vec<(String, Node)>>, Unreadable>;

/// The same of a file; the outer error is why its text is not known.
type Loaded = Result<Rc<Entries>, String>;

/// The file of `--config`, loaded once however many releases read it.
pub(crate) struct Files<'c, 's> {
    look_up: &'c ConfigFile<'s>,
    /// The name and what it holds, of the one that was asked for last: a command line names one.
    last: RefCell<Option<(String, Loaded)>>,
}

impl<'c, 's> Files<'c, 's> {
    pub(crate) fn new(look_up: &'c ConfigFile<'s>) -> Self {
        Self {
            look_up,
            last: RefCell::new(None),
        }
    }

    /// The entries of the file at `path`.
    pub(crate) fn entries(&self, path: &str) -> Loaded {
        let mut last = self.last.borrow_mut();
        if let Some((known, entries)) = &*last
            && known == path
        {
            return entries.clone();
        }
        let read = (self.look_up)(path).map(|body| Rc::new(entries(body)));
        *last = Some((path.to_owned(), read.clone()));
        read
    }
}

/// The entries of a file that holds a mapping, in the order of the file; `None` where it holds nothing.
fn entries(body: &str) -> Entries {
    let mut options = serde_saphyr::Options::default();
    options.legacy_octal_numbers = true;
    options.duplicate_keys = serde_saphyr::DuplicateKeyPolicy::LastWins;
    let node: Option<Node> =
        serde_saphyr::from_str_with_options(body, options).map_err(|_| Unreadable::Yaml)?;
    match node {
        Some(Node::Map(map)) => Ok(Some(map)),
        None | Some(Node::Null) => Ok(None),
        Some(_) => Err(Unreadable::NotAMapping),
    }
}
