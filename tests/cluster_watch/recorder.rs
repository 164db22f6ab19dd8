//! Facts that are only written down.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use vramgate::cluster::{Facts, OverBudget, Reader};
use vramgate::configuration::ConfigMap;
use vramgate::device::{DeviceKind, GpuNode, Identity, Labels, Pool, Sharing};
use vramgate::dra::objects::{ResourceClaim, ResourceSlice};
use vramgate::engine::{LookUp, Sources};
use vramgate::ledger::advertised::Advertisement;
use vramgate::ledger::{Moment, Stale};
use vramgate::policy::ConfigMapName;
use vramgate::units::{Mib, Share};
use vramgate::workload::pod::{Node, Pod};

#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) nodes: BTreeMap<String, GpuNode>,
    /// By UID, with what its ConfigMaps were found to be.
    pub(crate) pods: BTreeMap<String, (Pod, String)>,
    pub(crate) namespaces: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) reservations: Vec<Stale>,
    pub(crate) released: Vec<String>,
    pub(crate) asked_before: Cell<Option<Moment>>,
    /// Breaks down when this pod is set.
    pub(crate) breaks_at: Option<String>,
    pub(crate) over_budget: Vec<OverBudget>,
    /// What nodes are to advertise.
    pub(crate) wanted: BTreeMap<String, Option<Share>>,
    pub(crate) log: Vec<String>,
}

impl Facts for Recorder {
    fn advertisements(&self, after: Option<&str>, most: usize) -> (Vec<Advertisement>, Option<Arc<str>>) {
        let behind = self
            .wanted
            .iter()
            .filter(|(name, _)| after.is_none_or(|after| name.as_str() > after));
        let page: Vec<Advertisement> = behind
            .take(most)
            .filter_map(|(name, wanted)| {
                Some(Advertisement {
                    node: Arc::from(name.as_str()),
                    wanted: *wanted,
                    shown: self.nodes.get(name)?.advertised,
                })
            })
            .collect();
        (page, None)
    }

    fn set_node(&mut self, node: GpuNode) {
        self.log.push(format!("set node {}", node.name()));
        self.nodes.insert(node.name().to_owned(), node);
    }

    fn remove_node(&mut self, name: &str) {
        self.log.push(format!("remove node {name}"));
        self.nodes.remove(name);
    }

    fn set_pod(&mut self, pod: &Pod, sources: &dyn Sources) {
        let uid = pod.metadata.uid.clone();
        self.log.push(format!("set {uid}"));
        assert_ne!(self.breaks_at.as_ref(), Some(&uid), "told to break down");
        let seen = ByLabel.config_maps(pod).into_iter().map(|name| {
            match sources.config_map(&pod.metadata.namespace, &name) {
                LookUp::Found(data) => format!("{name}={data:?}"),
                LookUp::Missing => format!("{name} missing"),
                LookUp::NotRead(reason) => format!("{name} not read: {reason}"),
            }
        });
        let seen = seen.collect::<Vec<_>>().join(", ");
        self.pods.insert(uid, (pod.clone(), seen));
    }

    fn set_priority_class(&mut self, class: vramgate::workload::priority::PriorityClass) {
        self.log
            .push(format!("set class {} {}", class.metadata.name, class.value));
    }

    fn remove_priority_class(&mut self, name: &str) {
        self.log.push(format!("remove class {name}"));
    }

    fn set_resource_slice(&mut self, slice: &ResourceSlice) {
        self.log.push(format!("set slice {}", slice.metadata.name));
    }

    fn remove_resource_slice(&mut self, name: &str) {
        self.log.push(format!("remove slice {name}"));
    }

    fn set_resource_claim(&mut self, claim: ResourceClaim) {
        let metadata = &claim.metadata;
        self.log
            .push(format!("set claim {}/{}", metadata.namespace, metadata.name));
    }

    fn remove_resource_claim(&mut self, namespace: &str, name: &str) {
        self.log.push(format!("remove claim {namespace}/{name}"));
    }

    fn remove_pod(&mut self, uid: &str) {
        self.log.push(format!("remove {uid}"));
        self.pods.remove(uid);
    }

    fn set_namespace(&mut self, name: &str, labels: Option<&BTreeMap<String, String>>) {
        match labels {
            Some(labels) => self.namespaces.insert(name.to_owned(), labels.clone()),
            None => self.namespaces.remove(name),
        };
    }

    fn stale(&self, before: Moment) -> Vec<Stale> {
        self.asked_before.set(Some(before));
        self.reservations
            .iter()
            .filter(|held| !self.released.contains(&held.uid))
            .cloned()
            .collect()
    }

    fn release(&mut self, uid: &str) {
        self.released.push(uid.to_owned());
    }

    fn over_budget(&self) -> Vec<OverBudget> {
        self.over_budget.clone()
    }
}

/// Reads as many whole GPUs as the capacity says.
pub(crate) struct ByLabel;

impl Reader for ByLabel {
    fn node(&self, node: &Node) -> Option<GpuNode> {
        let slots = node.status.capacity.get("nvidia.com/gpu")?.0.parse().ok()?;
        Some(GpuNode {
            metadata: Identity {
                name: node.metadata.name.as_str().into(),
                uid: node.metadata.uid.as_str().into(),
            },
            labels: Labels::from(&node.metadata.labels),
            taints: Vec::new(),
            cordoned: false,
            ready: true,
            pools: vec![Pool {
                resource: "nvidia.com/gpu".into(),
                device: DeviceKind::Gpu,
                product: "test".into(),
                total: Some(Mib::new(81_559)),
                sharing: Sharing::Exclusive,
                bounds_containers: false,
                devices: slots,
                slots,
                usable_slots: slots,
                allocation: None,
            }],
            notes: Vec::new(),
            advertised: vramgate::device::inventory::bare(node).advertised,
        })
    }
}

/// Reads nodes like [`ByLabel`], beside ConfigMaps of these names.
#[derive(Default)]
pub(crate) struct Beside {
    pub(crate) named: Mutex<BTreeSet<ConfigMapName>>,
    /// What was told of them: the value of `key`, or that there is none.
    pub(crate) told: Mutex<Vec<Option<String>>>,
}

impl Reader for Beside {
    fn node(&self, node: &Node) -> Option<GpuNode> {
        ByLabel.node(node)
    }

    fn node_config_maps(&self) -> BTreeSet<ConfigMapName> {
        self.named.lock().unwrap().clone()
    }

    fn take_node_config_map(&self, _: &ConfigMapName, map: Option<&ConfigMap>) -> bool {
        let value = map.map(|map| map.data.get("key").cloned().unwrap_or_default());
        let mut told = self.told.lock().unwrap();
        let is_new = told.last() != Some(&value);
        told.push(value);
        is_new
    }
}
