//! From JSON, as text or as a tree, to the narrow types of one kind, with the field that cannot be read.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use serde_json::Value;

use super::controller::{Malformed, WorkloadKind};
use super::custom::CustomKind;

/// What an object is decoded from.
pub(super) trait Source<'de> {
    fn decode<T: Deserialize<'de>>(&self) -> Result<T, Malformed>;
}

pub(super) struct FromValue<'de>(pub(super) &'de Value);

impl<'de> Source<'de> for FromValue<'de> {
    fn decode<T: Deserialize<'de>>(&self) -> Result<T, Malformed> {
        T::deserialize(self.0).or_else(|_| serde_path_to_error::deserialize(self.0).map_err(Malformed::from))
    }
}

pub(super) struct FromText<'de>(pub(super) &'de str);

impl<'de> Source<'de> for FromText<'de> {
    fn decode<T: Deserialize<'de>>(&self) -> Result<T, Malformed> {
        serde_json::from_str(self.0).or_else(|_| {
            let mut text = serde_json::Deserializer::from_str(self.0);
            serde_path_to_error::deserialize(&mut text).map_err(Malformed::from)
        })
    }
}

impl From<serde_path_to_error::Error<serde_json::Error>> for Malformed {
    fn from(error: serde_path_to_error::Error<serde_json::Error>) -> Self {
        let path = match error.path().to_string() {
            root if root == "." => "object".to_owned(),
            path => path,
        };
        let inner = error.inner();
        let mut message = inner.to_string();
        // The field says where; line and column help only where the text is no JSON at all.
        if inner.is_data()
            && let Some(position) = message.rfind(" at line ")
        {
            message.truncate(position);
        }
        Self { path, message }
    }
}

/// `apiVersion` and `kind`, which the API server writes first.
#[derive(Debug, Default)]
struct TypeMeta<'de> {
    api_version: Option<Cow<'de, str>>,
    kind: Option<Cow<'de, str>>,
}

impl<'de> TypeMeta<'de> {
    /// Reads as far as it takes to know both.
    fn peek(text: &'de str) -> Result<Self, Malformed> {
        let mut types = Self::default();
        let mut json = serde_json::Deserializer::from_str(text);
        match json.deserialize_any(TypeMetaVisitor(&mut types)) {
            // The visitor leaves the rest unread once it knows both, which is an error to serde_json alone.
            Err(_) if types.api_version.is_some() && types.kind.is_some() => Ok(types),
            Ok(()) => Ok(types),
            Err(error) => Err(Malformed {
                path: "object".to_owned(),
                message: format!("is not an object whose apiVersion and kind can be read: {error}"),
            }),
        }
    }
}

struct TypeMetaVisitor<'a, 'de>(&'a mut TypeMeta<'de>);

impl<'de> Visitor<'de> for TypeMetaVisitor<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with apiVersion and kind")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while self.0.api_version.is_none() || self.0.kind.is_none() {
            match map.next_key::<Key>()? {
                Some(Key::ApiVersion) => {
                    self.0.api_version = map.next_value::<Option<Text<'de>>>()?.map(|text| text.0);
                }
                Some(Key::Kind) => self.0.kind = map.next_value::<Option<Text<'de>>>()?.map(|text| text.0),
                Some(Key::Other) => {
                    map.next_value::<de::IgnoredAny>()?;
                }
                None => return Ok(()),
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Key {
    ApiVersion,
    Kind,
    #[serde(other)]
    Other,
}

/// A text that is borrowed where nothing in it is escaped.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The kind that a version and a kind name; `None` where it is none of ours.
fn supported(api_version: Option<&str>, kind: Option<&str>) -> Result<Option<WorkloadKind>, Malformed> {
    let malformed = |path: &str, message: String| {
        Err(Malformed {
            path: path.to_owned(),
            message,
        })
    };
    let Some(kind) = kind else {
        return malformed("kind", "is missing; write for example Deployment".to_owned());
    };
    let built_in = WorkloadKind::ALL.into_iter().find(|known| known.as_str() == kind);
    let Some(kind) = built_in else {
        let (group, _) = api_version
            .unwrap_or_default()
            .split_once('/')
            .unwrap_or_default();
        return Ok(CustomKind::of(group, kind).map(WorkloadKind::Custom));
    };
    let wanted = kind.api_version();
    let Some(api_version) = api_version else {
        return malformed(
            "apiVersion",
            format!("is missing; a {} is read as {wanted}", kind.as_str()),
        );
    };
    if api_version == wanted {
        return Ok(Some(kind));
    }
    let group = |version: &str| version.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
    // Before apps/v1 these kinds were in `extensions`.
    if group(api_version) == group(wanted) || (group(api_version) == "extensions" && group(wanted) == "apps")
    {
        return malformed(
            "apiVersion",
            format!(
                "{api_version:?} is a version of {} that is not read; write {wanted}",
                kind.as_str()
            ),
        );
    }
    Ok(None)
}

/// The kind of an object that is already a tree.
pub(super) fn kind_of_value(object: &Value) -> Result<Option<WorkloadKind>, Malformed> {
    let field = |name: &str, example: &str| match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(other) => Err(Malformed {
            path: name.to_owned(),
            message: format!("{other} is not a text; write for example {example}"),
        }),
    };
    if !object.is_object() {
        return Err(Malformed {
            path: "object".to_owned(),
            message: "is not an object with apiVersion and kind".to_owned(),
        });
    }
    supported(field("apiVersion", "apps/v1")?, field("kind", "Deployment")?)
}

/// The kind of an object in JSON text, read only as far as that takes.
pub(super) fn kind_of_text(text: &str) -> Result<Option<WorkloadKind>, Malformed> {
    let types = TypeMeta::peek(text)?;
    supported(types.api_version.as_deref(), types.kind.as_deref())
}
