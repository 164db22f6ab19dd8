//! What a verdict on configuration needs of the cluster. Taken out of the ledger first, so that documents are read and
//! geometries searched without holding it up.

use std::sync::Arc;

use super::ConfigurationQuestion;
use crate::configuration::Configuration;
use crate::device::DeviceKind;
use crate::device::config::plugin::CONFIG_LABEL;
use crate::ledger::Ledger;
use crate::policy::{PolicyRef, PolicySet};

/// See the module.
#[derive(Clone, Debug)]
pub struct Surroundings {
    pub(super) policies: Arc<PolicySet>,
    /// GPU nodes, where the question is about a ConfigMap.
    pub(super) nodes: Vec<NodeFacts>,
    /// Pods that hold devices of the Node that the question is about, as `NAMESPACE/NAME`.
    pub(super) bound: Vec<String>,
}

/// One GPU node.
#[derive(Clone, Debug)]
pub(super) struct NodeFacts {
    pub(super) name: Arc<str>,
    /// The key of the device plugin's configuration that its label names.
    pub(super) key: Option<String>,
    /// Policy of its devices.
    pub(super) policy: PolicyRef,
    /// Products as its labels name them.
    pub(super) products: Vec<Arc<str>>,
    /// Whether MIG is on for some GPU.
    pub(super) has_mig: bool,
}

impl Surroundings {
    /// What the question needs of the ledger.
    #[must_use]
    pub fn of(question: &ConfigurationQuestion, ledger: &Ledger) -> Self {
        let policies = Arc::clone(ledger.policies());
        let (mut nodes, mut bound) = (Vec::new(), Vec::new());
        match &question.object {
            Configuration::ConfigMap(_) => {
                for (name, entry) in ledger.nodes.iter() {
                    let labels = &entry.node.labels;
                    let pools = &entry.node.pools;
                    let is_cut = labels
                        .get("nvidia.com/gpu.product")
                        .is_some_and(|product| product.contains("-MIG-"));
                    let mut products: Vec<Arc<str>> = pools.iter().map(|pool| pool.product.clone()).collect();
                    products.dedup();
                    nodes.push(NodeFacts {
                        name: name.clone(),
                        key: labels.get(CONFIG_LABEL).map(str::to_owned),
                        policy: policies.for_device(labels),
                        products,
                        has_mig: is_cut || pools.iter().any(|pool| matches!(pool.device, DeviceKind::Mig(_))),
                    });
                }
            }
            Configuration::Node(node) => {
                let holders = ledger.bound_to(&node.name);
                bound.extend(holders.map(|holder| format!("{}/{}", holder.namespace, holder.name)));
            }
        }
        Self {
            policies,
            nodes,
            bound,
        }
    }
}
