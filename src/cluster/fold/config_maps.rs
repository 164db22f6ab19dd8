//! The device plugin's ConfigMaps that policies name, each followed by itself: nobody need grant more than those.
//!
//! Nodes are read beside them, so a change of one has every node read again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;

use crate::cluster::facts::Reader;
use crate::cluster::freshness::Refresh;
use crate::cluster::projection::Decoded;
use crate::cluster::watch::{Change, Fold};
use crate::configuration::ConfigMap;
use crate::policy::ConfigMapName;

/// The part of a ConfigMap that is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::cluster) struct Values {
    data: Option<BTreeMap<String, String>>,
}

/// See the module.
pub(in crate::cluster) struct ConfigMapFold {
    reader: Arc<dyn Reader>,
    name: ConfigMapName,
    nodes: Refresh,
    /// Whether the list that is read holds it.
    listed: bool,
}

impl ConfigMapFold {
    pub(in crate::cluster) fn new(reader: Arc<dyn Reader>, name: ConfigMapName, nodes: Refresh) -> Self {
        Self {
            reader,
            name,
            nodes,
            listed: false,
        }
    }

    fn take(&self, values: Option<Values>) {
        let map = values.map(|values| ConfigMap {
            namespace: self.name.namespace.clone(),
            name: self.name.name.clone(),
            data: values.data.unwrap_or_default(),
            binary: BTreeSet::new(),
        });
        if self.reader.take_node_config_map(&self.name, map.as_ref()) {
            self.nodes.request();
        }
    }

    fn apply(&self, object: Decoded<Values>) {
        match object {
            Decoded::Whole(values) => self.take(Some(values)),
            // What was known of it stays.
            Decoded::Unreadable(_) => {}
        }
    }
}

impl Fold for ConfigMapFold {
    type Object = Values;

    fn begin(&mut self) {
        self.listed = false;
    }

    async fn listed(&mut self, items: Vec<Decoded<Values>>) {
        for item in items {
            self.listed = true;
            self.apply(item);
        }
    }

    async fn complete(&mut self) {
        if !self.listed {
            self.take(None);
        }
    }

    async fn changed(&mut self, changes: Vec<Change<Values>>) {
        for change in changes {
            match change {
                Change::Applied(object) => self.apply(object),
                Change::Deleted(_) => self.take(None),
            }
        }
    }
}
