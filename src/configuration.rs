//! Objects that configure GPUs, decoded as far as a verdict needs them: ConfigMaps, and the labels of Nodes.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use crate::workload::pod::Metadata;
use crate::workload::{Malformed, ObjectRef};

/// A ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigMap {
    /// Its namespace; `default` in a file that leaves it out.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Values, as they stand.
    pub data: BTreeMap<String, String>,
    /// Keys of `binaryData`, whose values are not read.
    pub binary: BTreeSet<String>,
}

/// A Node's name and labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeLabels {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// An object that can configure GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Configuration {
    /// It may hold a document of the device plugin or of the MIG manager.
    ConfigMap(ConfigMap),
    /// Its labels name such documents.
    Node(NodeLabels),
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenConfigMap {
    metadata: Metadata,
    data: Option<BTreeMap<String, String>>,
    #[allow(
        clippy::zero_sized_map_values,
        reason = "serde reads keys without their values into no set"
    )]
    binary_data: Option<BTreeMap<String, IgnoredAny>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WrittenNode {
    metadata: Metadata,
}

impl Configuration {
    /// Reads an object of this kind of the core group; `None` for any other kind.
    pub fn read(kind: &str, value: &Value) -> Result<Option<Self>, Malformed> {
        Self::decode(kind, Form::Value(value))
    }

    /// Reads the JSON of an object of this kind of the core group; `None` for any other kind.
    pub fn from_json(kind: &str, text: &str) -> Result<Option<Self>, Malformed> {
        Self::decode(kind, Form::Text(text))
    }

    fn decode(kind: &str, form: Form<'_>) -> Result<Option<Self>, Malformed> {
        Ok(match kind {
            "ConfigMap" => {
                let WrittenConfigMap {
                    metadata,
                    data,
                    binary_data,
                } = form.decode()?;
                Some(Self::ConfigMap(ConfigMap {
                    namespace: if metadata.namespace.is_empty() {
                        "default".to_owned()
                    } else {
                        metadata.namespace
                    },
                    name: metadata.name,
                    data: data.unwrap_or_default(),
                    binary: binary_data.unwrap_or_default().into_keys().collect(),
                }))
            }
            "Node" => {
                let WrittenNode { metadata } = form.decode()?;
                Some(Self::Node(NodeLabels {
                    name: metadata.name,
                    labels: metadata.labels,
                }))
            }
            _ => None,
        })
    }

    /// The object, for messages and documents.
    #[must_use]
    pub fn object(&self) -> ObjectRef {
        let (kind, namespace, name) = match self {
            Self::ConfigMap(map) => ("ConfigMap", map.namespace.clone(), map.name.clone()),
            Self::Node(node) => ("Node", String::new(), node.name.clone()),
        };
        ObjectRef {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            namespace,
            name,
        }
    }
}

/// What an object is decoded from.
#[derive(Clone, Copy)]
enum Form<'a> {
    Value(&'a Value),
    Text(&'a str),
}

impl Form<'_> {
    fn decode<T: DeserializeOwned>(self) -> Result<T, Malformed> {
        match self {
            Self::Value(value) => serde_path_to_error::deserialize(value),
            Self::Text(text) => {
                serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text))
            }
        }
        .map_err(Malformed::from)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_a_verdict_needs_is_read() {
        let map = json!({"metadata": {"name": "a", "managedFields": [1]}, "data": {"k": "v"}, "binaryData": {"b": "AA=="}});
        let Some(Configuration::ConfigMap(read)) = Configuration::read("ConfigMap", &map).unwrap() else {
            panic!("no ConfigMap");
        };
        assert_eq!(
            (read.namespace.as_str(), read.data["k"].as_str()),
            ("default", "v")
        );
        assert!(read.binary.contains("b"));
        let node = Configuration::from_json(
            "Node",
            r#"{"metadata": {"name": "n", "labels": null}, "spec": 4}"#,
        );
        assert!(matches!(node, Ok(Some(Configuration::Node(_)))));
        assert_eq!(Configuration::read("Secret", &map), Ok(None));
        let wrong = Configuration::read("ConfigMap", &json!({"data": {"k": 4}})).unwrap_err();
        assert_eq!(wrong.path, "data.k");
    }
}
