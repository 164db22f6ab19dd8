//! The device plugin's ConfigMaps of a live cluster, those and only those that policies name. They are watched; one that
//! the role lets nobody watch is asked for every half minute, which needs no more than `get` on it. Where one changes,
//! nodes are read again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::cluster::{LookUps, Refresh};
use crate::configuration::ConfigMap;
use crate::device::config::plugin::PluginConfigMap;
use crate::engine::{LookUp, Sources};
use crate::policy::{ConfigMapName, PolicySet};

/// Time between two looks at what is not watched.
const EVERY: Duration = Duration::from_secs(30);

/// What was read last.
#[derive(Debug, Default)]
pub(super) struct PluginConfigs(Mutex<Read>);

#[derive(Debug, Default)]
struct Read {
    maps: BTreeMap<ConfigMapName, Arc<PluginConfigMap>>,
    /// Those of which a watch told.
    watched: BTreeSet<ConfigMapName>,
}

/// Those that policies name.
pub(super) fn named(policies: &PolicySet) -> BTreeSet<ConfigMapName> {
    policies
        .iter()
        .filter_map(|policy| policy.device.plugin_config.clone())
        .collect()
}

impl PluginConfigs {
    fn lock(&self) -> MutexGuard<'_, Read> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ConfigMap as it was read last; `None` where it never was.
    pub(super) fn get(&self, name: &ConfigMapName) -> Option<Arc<PluginConfigMap>> {
        self.lock().maps.get(name).cloned()
    }

    /// Takes what a watch told. Whether it is something new.
    pub(super) fn take_watched(&self, name: &ConfigMapName, map: Option<&ConfigMap>) -> bool {
        self.lock().watched.insert(name.clone());
        self.take(name, map)
    }

    fn take(&self, name: &ConfigMapName, map: Option<&ConfigMap>) -> bool {
        let read = map.map(|map| Arc::new(PluginConfigMap::read(map)));
        let found = read.is_some();
        let mut known = self.lock();
        let before = known.maps.get(name);
        if before == read.as_ref() {
            return false;
        }
        match read {
            Some(read) => known.maps.insert(name.clone(), read),
            None => known.maps.remove(name),
        };
        drop(known);
        tracing::info!(config_map = %name, found, "the device plugin's configuration was read");
        true
    }

    /// Asks for every ConfigMap that a policy names and no watch tells of. Whether any of them changed. One that cannot be
    /// read now stays as it was; one that is gone is forgotten.
    pub(super) async fn ask(&self, look_ups: &LookUps, policies: &PolicySet) -> bool {
        let mut changed = false;
        for name in named(policies) {
            if self.lock().watched.contains(&name) {
                continue;
            }
            let wanted = BTreeSet::from([name.name.clone()]);
            let looked_up = look_ups.config_maps(&name.namespace, &wanted, true).await;
            changed |= match looked_up.config_map(&name.namespace, &name.name) {
                LookUp::Found(data) => {
                    let map = ConfigMap {
                        namespace: name.namespace.clone(),
                        name: name.name.clone(),
                        data: data.clone(),
                        binary: BTreeSet::new(),
                    };
                    self.take(&name, Some(&map))
                }
                LookUp::Missing => self.take(&name, None),
                LookUp::NotRead(reason) => {
                    tracing::warn!(config_map = %name, "the device plugin's configuration is not read: {reason}");
                    false
                }
            };
        }
        changed
    }

    /// Asks again and again, and has the nodes read anew where something changed.
    pub(super) async fn keep_asking<P>(self: Arc<Self>, look_ups: LookUps, policies: P, nodes: Refresh)
    where
        P: Fn() -> Arc<PolicySet> + Send,
    {
        loop {
            tokio::time::sleep(EVERY).await;
            if self.ask(&look_ups, &policies()).await {
                nodes.request();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(replicas: u32) -> ConfigMap {
        ConfigMap {
            namespace: "gpu".to_owned(),
            name: "plugin".to_owned(),
            data: BTreeMap::from([(
                "sliced".to_owned(),
                format!(
                    "version: v1\nsharing: {{timeSlicing: {{resources: [{{name: nvidia.com/gpu, replicas: {replicas}}}]}}}}\n"
                ),
            )]),
            binary: BTreeSet::new(),
        }
    }

    #[test]
    fn only_what_is_new_has_nodes_read_again() {
        let name = ConfigMapName {
            namespace: "gpu".to_owned(),
            name: "plugin".to_owned(),
        };
        let configs = PluginConfigs::default();
        assert!(!configs.take_watched(&name, None) && configs.get(&name).is_none());
        assert!(configs.take_watched(&name, Some(&map(4))));
        assert!(!configs.take_watched(&name, Some(&map(4))));
        assert!(configs.take_watched(&name, Some(&map(2))));
        assert!(configs.get(&name).is_some_and(|read| read.has("sliced")));
        assert!(configs.take_watched(&name, None) && configs.get(&name).is_none());
    }
}
