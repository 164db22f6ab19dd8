//! The device plugin's configuration beside what labels and capacity say.
//!
//! Labels and capacity are what is; the configuration is what was asked for. Where labels say nothing of sharing, the
//! configuration is used if capacity agrees with it. Where they differ, the labels are used and a note shows both.

use super::facts::Facts;
use crate::device::config::plugin::{Named, PluginConfig, PluginConfigMap};
use crate::device::{AllocationPolicy, FactNote, Pool, Sharing};

/// Label of the MIG strategy; discovery writes none under `none`.
const MIG_STRATEGY: &str = "nvidia.com/mig.strategy";

/// The configuration that a node names.
#[derive(Clone, Copy)]
pub(super) struct Configured<'a> {
    map: &'a PluginConfigMap,
    named: Named<'a>,
}

impl<'a> Configured<'a> {
    pub(super) fn of(map: &'a PluginConfigMap, named: Named<'a>) -> Self {
        Self { map, named }
    }

    fn config(&self) -> Option<(&'a str, &'a PluginConfig)> {
        match self.named {
            Named::Config(key, config) => Some((key, config)),
            Named::Nothing | Named::Missing(_) | Named::Refused(_) => None,
        }
    }

    /// How the resource's devices are shared, where labels say nothing and capacity agrees. `slots` is the capacity, `count`
    /// the labelled number of devices.
    pub(super) fn instead_of_labels(
        &self,
        facts: &mut Facts<'_>,
        slots: u32,
        count: Option<u32>,
    ) -> Option<(Sharing, u32)> {
        let (key, config) = self.config()?;
        let sharing = config.sharing_of(&facts.resource);
        let per_device = sharing.slots_per_device();
        let devices = slots / per_device;
        let agrees = slots.is_multiple_of(per_device)
            && devices > 0
            && count.is_none_or(|count| count == devices)
            && is_named_so(config, &facts.resource);
        agrees.then(|| {
            facts.note(format!(
                "labels {} and {} are missing: its sharing is read from {key:?} of ConfigMap {}",
                facts.label("sharing-strategy"),
                facts.label("replicas"),
                self.map.name
            ));
            (sharing, devices)
        })
    }

    /// Notes where a pool differs from the configuration; else the policy by which the plugin chooses among its devices.
    pub(super) fn agreement(&self, pool: &Pool, notes: &mut Vec<FactNote>) -> Option<AllocationPolicy> {
        let (key, config) = self.config()?;
        let expected = config.sharing_of(&pool.resource);
        let told = |sharing: Sharing| match sharing {
            Sharing::Exclusive => "no sharing".to_owned(),
            shared => format!("{} with {} slots", shared.as_str(), shared.slots_per_device()),
        };
        if expected == pool.sharing && is_named_so(config, &pool.resource) {
            return Some(config.allocation);
        }
        let map = &self.map.name;
        notes.push(FactNote {
            resource: pool.resource.clone(),
            message: if expected == pool.sharing {
                format!(
                    "the node offers {}, but {key:?} of ConfigMap {map} {} shared resources .shared; capacity is used: the \
                     plugin has not taken the configuration over, or has another",
                    pool.resource,
                    if is_renaming(config) { "renames" } else { "does not rename" },
                )
            } else {
                format!(
                    "the node shows {} for {}, but {key:?} of ConfigMap {map} says {}; what the node shows is used: the \
                     plugin has not taken the configuration over, or has another",
                    told(pool.sharing),
                    pool.resource,
                    told(expected)
                )
            },
        });
        None
    }

    /// Notes about the node as a whole, under the resource of its first pool.
    pub(super) fn note(&self, labels: &super::Labels, pools: &[Pool], notes: &mut Vec<FactNote>) {
        let Some(pool) = pools.first() else { return };
        let map = &self.map.name;
        let message = match self.named {
            Named::Nothing => return,
            Named::Missing(key) => format!(
                "label nvidia.com/device-plugin.config is {key:?}, which ConfigMap {map} does not have: the plugin keeps what \
                 it had"
            ),
            Named::Refused(key) => format!(
                "label nvidia.com/device-plugin.config is {key:?}, which the device plugin refuses (VG602 of ConfigMap {map}): \
                 it keeps what it had, or does not start"
            ),
            Named::Config(key, config) => {
                let labelled = labels.get(MIG_STRATEGY).map_or("none", String::as_str);
                let Some(strategy) = config
                    .mig_strategy
                    .filter(|strategy| strategy.as_str() != labelled)
                else {
                    return;
                };
                format!(
                    "label {MIG_STRATEGY} says {labelled}, but {key:?} of ConfigMap {map} says {}; the labels are used",
                    strategy.as_str()
                )
            }
        };
        notes.push(FactNote {
            resource: pool.resource.clone(),
            message,
        });
    }
}

fn is_renaming(config: &PluginConfig) -> bool {
    config
        .shared
        .as_ref()
        .is_some_and(|shared| shared.rename_by_default)
}

/// Whether the plugin would offer a shared resource under this name. Of what is not shared the name never ends in `.shared`.
fn is_named_so(config: &PluginConfig, resource: &str) -> bool {
    let renamed = resource.ends_with(".shared");
    let shared = config.sharing_of(resource).is_shared();
    renamed == (shared && is_renaming(config))
}
