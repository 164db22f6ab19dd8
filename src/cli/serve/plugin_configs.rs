//! The device plugin's ConfigMaps of a live cluster, those and only those that policies name. They are asked for every half
//! minute, which needs no more than `get` on them; where one changes, nodes are read again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::cluster::{LookUps, Refresh};
use crate::configuration::ConfigMap;
use crate::device::config::plugin::PluginConfigMap;
use crate::engine::{LookUp, Sources};
use crate::ledger::Ledger;
use crate::policy::ConfigMapName;

/// Time between two looks.
const EVERY: Duration = Duration::from_secs(30);

/// What was read last.
#[derive(Debug, Default)]
pub(super) struct PluginConfigs(Mutex<BTreeMap<ConfigMapName, Arc<PluginConfigMap>>>);

impl PluginConfigs {
    /// The ConfigMap as it was read last; `None` where it never was.
    pub(super) fn get(&self, name: &ConfigMapName) -> Option<Arc<PluginConfigMap>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(name).cloned()
    }

    /// Reads every ConfigMap that a policy names. Whether any of them changed. One that cannot be read now stays as it was;
    /// one that is gone is forgotten.
    pub(super) async fn read(&self, look_ups: &LookUps, ledger: &Mutex<Ledger>) -> bool {
        let named: BTreeSet<ConfigMapName> = {
            let ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
            let policies = ledger.policies().iter();
            policies
                .filter_map(|policy| policy.device.plugin_config.clone())
                .collect()
        };
        let mut changed = false;
        for name in named {
            let wanted = BTreeSet::from([name.name.clone()]);
            let looked_up = look_ups.config_maps(&name.namespace, &wanted, true).await;
            let read = match looked_up.config_map(&name.namespace, &name.name) {
                LookUp::Found(data) => Some(Arc::new(PluginConfigMap::read(&ConfigMap {
                    namespace: name.namespace.clone(),
                    name: name.name.clone(),
                    data: data.clone(),
                    binary: BTreeSet::new(),
                }))),
                LookUp::Missing => None,
                LookUp::NotRead(reason) => {
                    tracing::warn!(config_map = %name, "the device plugin's configuration is not read: {reason}");
                    continue;
                }
            };
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let before = match read.clone() {
                Some(read) => known.insert(name.clone(), read),
                None => known.remove(&name),
            };
            drop(known);
            if before != read {
                tracing::info!(
                    config_map = %name,
                    found = read.is_some(),
                    "the device plugin's configuration was read"
                );
                changed = true;
            }
        }
        changed
    }

    /// Looks again and again, and has the nodes read anew where something changed.
    pub(super) async fn follow(
        self: Arc<Self>,
        look_ups: LookUps,
        ledger: Arc<Mutex<Ledger>>,
        refresh: Refresh,
    ) {
        loop {
            tokio::time::sleep(EVERY).await;
            if self.read(&look_ups, &ledger).await {
                refresh.request();
            }
        }
    }
}
