//! What the cluster room asks of the other rooms: somebody who takes the facts, and somebody who can read objects.

use std::collections::{BTreeMap, BTreeSet};

use crate::device::{GpuNode, is_slot_resource};
use crate::engine::{Sources, containers};
use crate::ledger::{Ledger, Moment, Stale};
use crate::units::Mib;
use crate::workload::pod::{Node, Pod, Resources};

/// A device group above its budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverBudget {
    /// Name of the node.
    pub node: String,
    /// The extended resource whose devices are over budget (`nvidia.com/gpu`).
    pub resource: String,
    /// What is promised on the fullest device.
    pub promised: Mib,
    /// What may be promised on it.
    pub budget: Mib,
    /// The whole of it in a sentence or two, for the Event.
    pub sentence: String,
}

/// Takes facts about the cluster. The ledger in the product, a recorder in tests. Each call is made under the lock that
/// the reviews share, so each must be short.
pub trait Facts: Send + 'static {
    /// A node with NVIDIA resources appeared or changed.
    fn set_node(&mut self, node: GpuNode);
    /// A node is gone, or has no NVIDIA resources any more.
    fn remove_node(&mut self, name: &str);
    /// A pod that counts was seen.
    fn set_pod(&mut self, pod: &Pod, sources: &dyn Sources);
    /// A pod is gone, or does not count any more.
    fn remove_pod(&mut self, uid: &str);
    /// A namespace appeared, or its labels changed (`None`: it is gone).
    fn set_namespace(&mut self, _name: &str, _labels: Option<&BTreeMap<String, String>>) {}
    /// Reservations older than `before`.
    fn stale(&self, before: Moment) -> Vec<Stale>;
    /// A reservation whose pod does not exist.
    fn release(&mut self, uid: &str);
    /// Devices above their budget, at most one entry per node and resource.
    fn over_budget(&self) -> Vec<OverBudget> {
        Vec::new()
    }
}

impl Facts for Ledger {
    fn set_node(&mut self, node: GpuNode) {
        Ledger::set_node(self, node);
    }

    fn remove_node(&mut self, name: &str) {
        Ledger::remove_node(self, name);
    }

    fn set_pod(&mut self, pod: &Pod, sources: &dyn Sources) {
        Ledger::set_pod(self, pod, sources);
    }

    fn remove_pod(&mut self, uid: &str) {
        Ledger::remove_pod(self, uid);
    }

    fn stale(&self, before: Moment) -> Vec<Stale> {
        Ledger::stale(self, before)
    }

    fn release(&mut self, uid: &str) {
        Ledger::release(self, uid);
    }

    fn set_namespace(&mut self, name: &str, labels: Option<&BTreeMap<String, String>>) {
        match labels {
            Some(labels) => Ledger::set_namespace(self, name, labels.clone()),
            None => Ledger::remove_namespace(self, name),
        }
    }

    fn over_budget(&self) -> Vec<OverBudget> {
        let over = Ledger::over_budget(self).into_iter();
        over.map(|device| OverBudget {
            node: device.node.to_string(),
            resource: device.resource.to_string(),
            promised: device.promised,
            budget: device.budget,
            sentence: format!(
                "{} on {}: {} of a device is promised to {} holders, its budget is {} ({} of {}); pods on it can run out of \
                 GPU memory",
                device.resource,
                device.node,
                device.promised_share,
                device.holders.len(),
                device.budget_share,
                device.promised,
                device.budget
            ),
        })
        .collect()
    }
}

/// Reads objects by the policies in force. Called outside the ledger's lock.
pub trait Reader: Send + Sync + 'static {
    /// The devices of a node; `None` for a node that has none and costs nothing.
    fn node(&self, node: &Node) -> Option<GpuNode>;

    /// Whether a pod holds device memory or says so itself. Any other pod is dropped right after decoding.
    fn counts(&self, pod: &Pod) -> bool {
        asks_for_slots(pod)
            || pod
                .metadata
                .annotations
                .keys()
                .any(|key| key.starts_with("vramgate.io/"))
    }

    /// Names of the ConfigMaps that a reading of the pod could use.
    fn config_maps(&self, pod: &Pod) -> BTreeSet<String> {
        named_config_maps(pod)
    }

    /// Whether the policy of the pod lets its ConfigMaps be read.
    fn may_read_config_maps(&self, _pod: &Pod, _namespace_labels: &BTreeMap<String, String>) -> bool {
        true
    }
}

fn asks_for_slots(pod: &Pod) -> bool {
    let names_slot = |resources: &Resources| {
        let mut amounts = resources.limits.iter().chain(&resources.requests);
        amounts.any(|(name, amount)| is_slot_resource(name) && amount.0 != "0")
    };
    containers(pod).any(|placed| names_slot(&placed.container.resources))
}

/// ConfigMaps of environment variables and volumes.
fn named_config_maps(pod: &Pod) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for placed in containers(pod) {
        for source in placed
            .container
            .env
            .iter()
            .filter_map(|variable| variable.value_from.as_ref())
        {
            names.extend(source.config_map_key_ref.as_ref().map(|key| key.name.clone()));
        }
        for source in &placed.container.env_from {
            names.extend(source.config_map_ref.as_ref().map(|whole| whole.name.clone()));
        }
    }
    for volume in &pod.spec.volumes {
        names.extend(volume.config_map.as_ref().map(|whole| whole.name.clone()));
    }
    names.remove("");
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Plain;

    impl Reader for Plain {
        fn node(&self, _node: &Node) -> Option<GpuNode> {
            None
        }
    }

    fn pod(json: serde_json::Value) -> Pod {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_pod_counts_by_its_slots_or_by_its_annotations() {
        let limits = |name: &str, amount: &str| {
            pod(
                serde_json::json!({"spec": {"containers": [{"name": "a", "resources": {"limits": {name: amount}}}]}}),
            )
        };
        assert!(Plain.counts(&limits("nvidia.com/gpu", "1")));
        assert!(Plain.counts(&limits("nvidia.com/mig-1g.10gb", "2")));
        assert!(!Plain.counts(&limits("nvidia.com/gpu", "0")));
        assert!(!Plain.counts(&limits("cpu", "4")));
        let init = serde_json::json!({"spec": {"initContainers": [
            {"name": "a", "resources": {"limits": {"nvidia.com/gpu.shared": 1}}}]}});
        assert!(Plain.counts(&pod(init)));
        let declared =
            serde_json::json!({"metadata": {"annotations": {"vramgate.io/gpu-memory.main": "20Gi"}}});
        assert!(Plain.counts(&pod(declared)));
        assert!(!Plain.counts(&Pod::default()));
    }

    #[test]
    fn config_maps_of_variables_and_volumes_are_named_once() {
        let pod = pod(serde_json::json!({"spec": {
            "containers": [{"name": "a",
                "env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "one", "key": "x"}}},
                        {"name": "Y", "value": "plain"}],
                "envFrom": [{"configMapRef": {"name": "two"}}, {"secretRef": {"name": "not-this"}}]}],
            "volumes": [{"name": "v", "configMap": {"name": "one"}}, {"name": "w", "configMap": {"name": "three"}}]}}));
        let names: Vec<_> = Plain.config_maps(&pod).into_iter().collect();
        assert_eq!(names, ["one", "three", "two"]);
    }
}
