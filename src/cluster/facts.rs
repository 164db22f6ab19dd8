//! What the cluster room asks of the other rooms: somebody who takes the facts, and somebody who can read objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::configuration::ConfigMap;
use crate::demand::access::may_reach;
use crate::demand::sieve;
use crate::device::GpuNode;
use crate::dra::objects::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use crate::engine::{self, NoSources, Sources};
use crate::ledger::advertised::Advertisement;
use crate::ledger::{Ledger, Moment, Stale};
use crate::policy::ConfigMapName;
use crate::record::NodeRecord;
use crate::store::Version;
use crate::units::Mib;
use crate::workload::pod::{Node, Pod};
use crate::workload::priority::PriorityClass;
use crate::workload::slots;
use crate::workload::text::Cut;

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
    /// Pods are listed anew: what happened before may have been missed. Told when the list begins and when it is complete.
    fn relisted_pods(&mut self) {}
    /// A pod that counts was seen.
    fn set_pod(&mut self, pod: &Pod, sources: &dyn Sources);
    /// The same of a pod that names no ConfigMap. Pods of the same `template` differ in nothing but their identity, node and
    /// status, so what one of them takes can be read once.
    fn set_replica(&mut self, pod: &Pod, _template: u64) {
        self.set_pod(pod, &NoSources);
    }
    /// A pod is gone, or does not count any more.
    fn remove_pod(&mut self, uid: &str);
    /// A namespace appeared, or its labels changed (`None`: it is gone).
    fn set_namespace(&mut self, _name: &str, _labels: Option<&BTreeMap<String, String>>) {}
    /// A ResourceSlice appeared or changed.
    fn set_resource_slice(&mut self, _slice: &ResourceSlice) {}
    /// A ResourceSlice is gone.
    fn remove_resource_slice(&mut self, _name: &str) {}
    /// A DeviceClass appeared or changed.
    fn set_device_class(&mut self, _class: DeviceClass) {}
    /// A DeviceClass is gone.
    fn remove_device_class(&mut self, _name: &str) {}
    /// A ResourceClaim appeared or changed.
    fn set_resource_claim(&mut self, _claim: ResourceClaim) {}
    /// A ResourceClaim is gone.
    fn remove_resource_claim(&mut self, _namespace: &str, _name: &str) {}
    /// A ResourceClaimTemplate appeared or changed.
    fn set_claim_template(&mut self, _template: ResourceClaimTemplate) {}
    /// A ResourceClaimTemplate is gone.
    fn remove_claim_template(&mut self, _namespace: &str, _name: &str) {}
    /// A PriorityClass appeared or changed.
    fn set_priority_class(&mut self, _class: PriorityClass) {}
    /// A PriorityClass is gone.
    fn remove_priority_class(&mut self, _name: &str) {}
    /// The record of a node, as all replicas see it in this version. One that is older than what is known already, by a
    /// write of this process for instance, takes nothing back.
    fn set_record(&mut self, _node: &str, _record: &NodeRecord, _version: &Version, _now: Moment) {}
    /// A node's record is gone, whose last version this was.
    fn remove_record(&mut self, _node: &str, _version: &Version) {}
    /// The records that are known, with their versions.
    fn record_versions(&self) -> Vec<(Box<str>, Version)> {
        Vec::new()
    }
    /// Reservations older than `before`.
    fn stale(&self, before: Moment) -> Vec<Stale>;
    /// A reservation whose pod does not exist.
    fn release(&mut self, uid: &str);
    /// UPDATEs admitted before `before` that were not seen: they were not stored. All of that time was told.
    fn end_raises(&mut self, _before: Moment) {}
    /// What so many nodes behind `after` are to advertise, and where to go on.
    fn advertisements(&self, _after: Option<&str>, _most: usize) -> (Vec<Advertisement>, Option<Arc<str>>) {
        (Vec::new(), None)
    }
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

    fn relisted_pods(&mut self) {
        Ledger::end_histories(self);
    }

    fn set_pod(&mut self, pod: &Pod, sources: &dyn Sources) {
        Ledger::set_pod(self, pod, sources);
    }

    fn set_replica(&mut self, pod: &Pod, template: u64) {
        Ledger::set_replica(self, pod, template);
    }

    fn remove_pod(&mut self, uid: &str) {
        Ledger::remove_pod(self, uid);
    }

    fn set_resource_slice(&mut self, slice: &ResourceSlice) {
        Ledger::set_resource_slice(self, slice);
    }

    fn remove_resource_slice(&mut self, name: &str) {
        Ledger::remove_resource_slice(self, name);
    }

    fn set_device_class(&mut self, class: DeviceClass) {
        Ledger::set_device_class(self, class);
    }

    fn remove_device_class(&mut self, name: &str) {
        Ledger::remove_device_class(self, name);
    }

    fn set_resource_claim(&mut self, claim: ResourceClaim) {
        Ledger::set_resource_claim(self, claim);
    }

    fn remove_resource_claim(&mut self, namespace: &str, name: &str) {
        Ledger::remove_resource_claim(self, namespace, name);
    }

    fn set_claim_template(&mut self, template: ResourceClaimTemplate) {
        Ledger::set_claim_template(self, template);
    }

    fn remove_claim_template(&mut self, namespace: &str, name: &str) {
        Ledger::remove_claim_template(self, namespace, name);
    }

    fn set_priority_class(&mut self, class: PriorityClass) {
        Ledger::set_priority_class(self, class);
    }

    fn remove_priority_class(&mut self, name: &str) {
        Ledger::remove_priority_class(self, name);
    }

    fn set_record(&mut self, node: &str, record: &NodeRecord, version: &Version, now: Moment) {
        Ledger::set_record(self, node, record, &version.0, now);
    }

    fn remove_record(&mut self, node: &str, version: &Version) {
        Ledger::remove_record(self, node, &version.0);
    }

    fn record_versions(&self) -> Vec<(Box<str>, Version)> {
        let nodes = self.recorded_nodes().into_iter();
        let versions = nodes.filter_map(|node| {
            let version = self.record_version(&node)?.to_owned();
            Some((Box::from(&*node), Version(version)))
        });
        versions.collect()
    }

    fn stale(&self, before: Moment) -> Vec<Stale> {
        Ledger::stale(self, before)
    }

    fn release(&mut self, uid: &str) {
        Ledger::release(self, uid);
    }

    fn end_raises(&mut self, before: Moment) {
        Ledger::end_raises(self, before);
    }

    fn set_namespace(&mut self, name: &str, labels: Option<&BTreeMap<String, String>>) {
        match labels {
            Some(labels) => Ledger::set_namespace(self, name, labels.clone()),
            None => Ledger::remove_namespace(self, name),
        }
    }

    fn advertisements(&self, after: Option<&str>, most: usize) -> (Vec<Advertisement>, Option<Arc<str>>) {
        Ledger::advertisements(self, after, most)
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

    /// Whether a pod is counted at all: the same test that decides whether a review of it is judged. Any other pod is
    /// dropped right after decoding.
    fn counts(&self, pod: &Pod) -> bool {
        slots::asks_for_gpu(pod) || may_reach(pod, |class| self.shows_all(class))
    }

    /// Whether a pod of this text may be one that counts. What it is not asked of is decoded.
    fn may_count(&self, text: &Cut<'_>) -> bool {
        sieve::may_count(text)
    }

    /// Whether some policy says that a runtime class shows every device.
    fn shows_all(&self, _runtime_class: &str) -> bool {
        false
    }

    /// Names of the ConfigMaps that a reading of the pod could use.
    fn config_maps(&self, pod: &Pod) -> BTreeSet<String> {
        engine::config_maps(pod)
    }

    /// The ConfigMaps beside which nodes are read. They are followed; asked again whenever everything is read anew.
    fn node_config_maps(&self) -> BTreeSet<ConfigMapName> {
        BTreeSet::new()
    }

    /// Takes such a ConfigMap as it is now, or that there is none. Whether nodes are to be read again.
    fn take_node_config_map(&self, _name: &ConfigMapName, _map: Option<&ConfigMap>) -> bool {
        false
    }

    /// Whether the policy of the pod lets its ConfigMaps be read.
    fn may_read_config_maps(&self, _pod: &Pod, _namespace_labels: &BTreeMap<String, String>) -> bool {
        true
    }
}
