//! The walk over one document: single objects go to the sink, lists are opened.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::value::{Key, Strict};
use super::{ManifestError, Object, Origin};

/// How much one source may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Objects in one file, those in lists included.
    pub objects: usize,
    /// What the limit is called in its error.
    pub what: &'static str,
}

impl Limits {
    /// For an input file of `check` and `explain`.
    pub const INPUT: Self = Self {
        objects: 10_000,
        what: "an input file",
    };
    /// For a snapshot of a cluster. Its pods have a limit of their own ([`crate::snapshot::MAX_PODS`]).
    pub const SNAPSHOT: Self = Self {
        objects: 1_000_000,
        what: "a snapshot",
    };
}

type Sink<'s> = dyn FnMut(Object) -> Result<(), ManifestError> + 's;

/// The state of reading one source.
pub(super) struct Walk<'s> {
    pub(super) source: Arc<str>,
    /// Line on which the present document begins.
    pub(super) line: usize,
    /// Its bytes in the text.
    pub(super) bytes: Range<usize>,
    limits: Limits,
    seen: usize,
    sink: &'s mut Sink<'s>,
    /// The error that made a visitor stop: parsers can carry its text only.
    stopped_by: Option<ManifestError>,
    /// Errors of objects that were passed over; `None` where the first error ends the reading.
    passed_over: Option<Vec<ManifestError>>,
}

impl<'s> Walk<'s> {
    pub(super) fn new(source: &str, limits: Limits, sink: &'s mut Sink<'s>) -> Self {
        Self {
            source: source.into(),
            line: 1,
            bytes: 0..0,
            limits,
            seen: 0,
            sink,
            stopped_by: None,
            passed_over: None,
        }
    }

    /// From here on, an object or document that cannot be read does not end the reading.
    pub(super) fn pass_over(&mut self) {
        self.passed_over = Some(Vec::new());
    }

    /// Reads without passing anything over.
    pub(super) fn strictly<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let passed_over = self.passed_over.take();
        let result = read(self);
        self.passed_over = passed_over;
        result
    }

    /// Notes an error and goes on, where that is wanted; else hands it back.
    pub(super) fn excuse(&mut self, error: ManifestError) -> Result<(), ManifestError> {
        // Past the limit every further object would be the same error again.
        match &mut self.passed_over {
            Some(errors) if self.seen <= self.limits.objects => {
                errors.push(error);
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Every error of the reading that has ended so.
    pub(super) fn into_errors(self, ended: Result<(), ManifestError>) -> Vec<ManifestError> {
        let mut errors = self.passed_over.unwrap_or_default();
        errors.extend(ended.err());
        errors
    }

    /// Whether no object was met yet.
    pub(super) const fn is_untouched(&self) -> bool {
        self.seen == 0
    }

    /// The error of our own that ended the parser's work, if that was it.
    pub(super) fn take_error(&mut self) -> Option<ManifestError> {
        self.stopped_by.take()
    }

    /// Reads one document.
    pub(super) fn document<'de, D: Deserializer<'de>>(&mut self, deserializer: D) -> Result<(), D::Error> {
        Node {
            walk: self,
            item: String::new(),
        }
        .deserialize(deserializer)
        .map(|held| {
            debug_assert!(held.is_none(), "only an item of a list may lack its kind");
        })
    }

    fn origin(&self, item: &str) -> Origin {
        Origin {
            source: Arc::clone(&self.source),
            line: self.line,
            item: item.to_owned(),
            bytes: self.bytes.clone(),
        }
    }

    fn stop<E: de::Error>(&mut self, error: ManifestError) -> E {
        let text = error.to_string();
        self.stopped_by.get_or_insert(error);
        E::custom(text)
    }

    fn emit<E: de::Error>(&mut self, map: Map<String, Value>, item: &str) -> Result<(), E> {
        let origin = self.origin(item);
        self.seen += 1;
        if self.seen > self.limits.objects {
            let message = format!(
                "more than {} documents; {} may hold {}: split it",
                self.limits.objects, self.limits.what, self.limits.objects
            );
            return Err(self.stop(ManifestError::at(&origin, message)));
        }
        if let Some(message) = missing_type(&map) {
            let error = ManifestError::at(&origin, message);
            return self.excuse(error).map_err(|error| self.stop(error));
        }
        let object = Object {
            origin,
            value: Value::Object(map),
        };
        (self.sink)(object)
            .or_else(|error| self.excuse(error))
            .map_err(|error| self.stop(error))
    }
}

/// What an object lacks to be one of the Kubernetes API.
fn missing_type(map: &Map<String, Value>) -> Option<String> {
    let lacking: Vec<&str> = ["apiVersion", "kind"]
        .into_iter()
        .filter(|field| map.get(*field).and_then(Value::as_str).is_none_or(str::is_empty))
        .collect();
    if lacking.is_empty() {
        return None;
    }
    let name = map
        .get("metadata")
        .and_then(|metadata| metadata.get("name"))
        .and_then(Value::as_str);
    let which = name.map_or_else(|| "the object".to_owned(), |name| format!("the object {name:?}"));
    Some(format!(
        "{which} has no {}; an API object names both, as in \"apiVersion: v1\" and \"kind: Pod\"",
        lacking.join(" and no ")
    ))
}

/// An item of a typed list (`PodList`) that leaves its own type to the list.
type Held = (Map<String, Value>, String);

/// A place where an object or a list may stand.
struct Node<'w, 's> {
    walk: &'w mut Walk<'s>,
    item: String,
}

impl<'de> DeserializeSeed<'de> for Node<'_, '_> {
    type Value = Option<Held>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Held>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_, '_> {
    type Value = Option<Held>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an API object (a mapping with apiVersion and kind)")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Option<Held>, E> {
        Ok(None)
    }

    fn visit_none<E: de::Error>(self) -> Result<Option<Held>, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Option<Held>, A::Error> {
        let mut map = Map::new();
        // `items` at the top of an object makes it a list: that is how Kubernetes itself tells.
        let mut held: Option<Vec<Held>> = None;
        while let Some(key) = entries.next_key_seed(Key)? {
            if map.contains_key(&key) || (key == "items" && held.is_some()) {
                return Err(de::Error::custom(format_args!(
                    "duplicate field {key:?}: only one can be meant"
                )));
            }
            if key == "items" {
                held = Some(entries.next_value_seed(Items {
                    walk: &mut *self.walk,
                    item: &self.item,
                })?);
            } else {
                let value = entries.next_value_seed(Strict)?;
                map.insert(key, value);
            }
        }
        if let Some(held) = held {
            close_list(self.walk, &map, held, &self.item)?;
            return Ok(None);
        }
        if !self.item.is_empty() && missing_type(&map).is_some() {
            return Ok(Some((map, self.item)));
        }
        self.walk.emit(map, &self.item)?;
        Ok(None)
    }
}

/// Gives the items of a typed list their type: a `PodList` of `v1` holds pods of `v1`.
fn close_list<E: de::Error>(
    walk: &mut Walk<'_>,
    list: &Map<String, Value>,
    held: Vec<Held>,
    item: &str,
) -> Result<(), E> {
    if let Some(message) = missing_type(list) {
        let origin = walk.origin(item);
        return Err(walk.stop(ManifestError::at(&origin, message)));
    }
    let text = |field: &str| list.get(field).and_then(Value::as_str).unwrap_or_default();
    let kind = text("kind").strip_suffix("List").unwrap_or_default();
    for (mut map, item) in held {
        if !kind.is_empty() {
            map.entry("kind").or_insert_with(|| kind.into());
            map.entry("apiVersion")
                .or_insert_with(|| text("apiVersion").into());
        }
        walk.emit(map, &item)?;
    }
    Ok(())
}

/// The items of a list.
struct Items<'w, 's, 'i> {
    walk: &'w mut Walk<'s>,
    item: &'i str,
}

impl<'de> DeserializeSeed<'de> for Items<'_, '_, '_> {
    type Value = Vec<Held>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Held>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_, '_, '_> {
    type Value = Vec<Held>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the items of a list")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Vec<Held>, E> {
        Ok(Vec::new())
    }

    fn visit_none<E: de::Error>(self) -> Result<Vec<Held>, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<Held>, A::Error> {
        let mut held = Vec::new();
        let mut index = 0_usize;
        loop {
            let separator = if self.item.is_empty() { "" } else { "." };
            let item = format!("{}{separator}items[{index}]", self.item);
            match items.next_element_seed(Node {
                walk: &mut *self.walk,
                item,
            })? {
                None => return Ok(held),
                Some(without_type) => held.extend(without_type),
            }
            index += 1;
        }
    }
}
