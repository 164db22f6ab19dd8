//! The device plugin's ConfigMap: one configuration per key, and the label by which a node names its key.

use std::collections::{BTreeMap, BTreeSet};

use super::{PluginConfig, Reading, read};
use crate::configuration::ConfigMap;
use crate::device::config::Document;

/// The label by which a node names its configuration.
pub const CONFIG_LABEL: &str = "nvidia.com/device-plugin.config";

/// Every configuration of a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginConfigMap {
    /// `NAMESPACE/NAME`, for messages.
    pub name: String,
    configs: BTreeMap<String, Reading>,
    /// Keys whose values are not read.
    binary: BTreeSet<String>,
}

/// What the label of a node leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named<'a> {
    /// No label, and what the plugin falls back to hangs on its own flags; or a value that is not read. Nothing is known.
    Nothing,
    /// The ConfigMap lacks the key: the plugin keeps what it had.
    Missing(&'a str),
    /// The plugin refuses the configuration: it keeps what it had, or does not start.
    Refused(&'a str),
    /// The configuration.
    Config(&'a str, &'a PluginConfig),
}

impl PluginConfigMap {
    /// Reads the values of a ConfigMap.
    #[must_use]
    pub fn read(map: &ConfigMap) -> Self {
        Self {
            name: format!("{}/{}", map.namespace, map.name),
            configs: map
                .data
                .iter()
                .map(|(key, text)| (key.clone(), read(text)))
                .collect(),
            binary: map.binary.clone(),
        }
    }

    /// The same of a ConfigMap that nobody names: `None` where none of its values is meant for the device plugin.
    #[must_use]
    pub fn recognized(map: &ConfigMap) -> Option<Self> {
        let is_plugin = |text: &String| matches!(Document::read(text), Some(Document::Plugin(_)));
        map.data.values().any(is_plugin).then(|| Self::read(map))
    }

    /// Whether it has the key.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.configs.contains_key(key)
    }

    /// What a node's labels lead to.
    #[must_use]
    pub fn of<'a>(&'a self, labels: &'a BTreeMap<String, String>) -> Named<'a> {
        let Some(key) = labels.get(CONFIG_LABEL).filter(|key| !key.is_empty()) else {
            return Named::Nothing;
        };
        match self.configs.get(key) {
            None if self.binary.contains(key) => Named::Nothing,
            None => Named::Missing(key),
            Some(Reading { config: None, .. }) => Named::Refused(key),
            Some(Reading {
                config: Some(config), ..
            }) => Named::Config(key, config),
        }
    }
}
