//! A configuration of the device plugin on the nodes that name it.

use std::collections::BTreeSet;

use super::{Surroundings, finding, names};
use crate::configuration::ConfigMap;
use crate::device::config::plugin::{Mode, Reading};
use crate::finding::{Code, Finding};

/// What the plugin would refuse on the nodes whose label names this key: MPS where a GPU has MIG, and more MPS clients than a
/// product can have.
pub(super) fn on_nodes(map: &ConfigMap, key: &str, reading: &Reading, around: &Surroundings) -> Vec<Finding> {
    let shared = reading.config.as_ref().and_then(|config| config.shared.as_ref());
    let Some(shared) = shared.filter(|shared| shared.mode == Mode::Mps) else {
        return Vec::new();
    };
    let most = shared
        .resources
        .iter()
        .map(|resource| resource.replicas.get())
        .max()
        .unwrap_or(0);
    let mut with_mig = BTreeSet::new();
    let mut too_many: BTreeSet<&str> = BTreeSet::new();
    let mut least = u32::MAX;
    for node in around
        .nodes
        .iter()
        .filter(|node| node.key.as_deref() == Some(key))
    {
        // Where the policy names another ConfigMap, the node's label means a key of that one.
        let device = &node.policy.device;
        let other = device.plugin_config.as_ref().is_some_and(|name| {
            (name.namespace.as_str(), name.name.as_str()) != (&*map.namespace, &*map.name)
        });
        if other {
            continue;
        }
        if node.has_mig {
            with_mig.insert(&*node.name);
        }
        let catalogue = device.products.catalogue();
        let known = node
            .products
            .iter()
            .filter_map(|product| Some(catalogue.product(product)?.mps_max_replicas));
        if let Some(accepted) = known.min().filter(|accepted| *accepted < most) {
            least = least.min(accepted);
            too_many.insert(&*node.name);
        }
    }
    let mut findings = Vec::new();
    if !with_mig.is_empty() {
        findings.push(finding(
            Code::Vg602,
            key,
            None,
            "sharing.mps",
            &format!(
                "sharing.mps is refused on nodes with MIG ({}): the plugin's MPS is for whole GPUs; turn MIG off there, or \
                 use DRA, which can",
                names(&with_mig)
            ),
        ));
    }
    if !too_many.is_empty() {
        findings.push(finding(
            Code::Vg602,
            key,
            None,
            "sharing.mps.resources",
            &format!(
                "sharing.mps asks {most} clients of each GPU, and the plugin accepts {least} on {}: write at most {least}",
                names(&too_many)
            ),
        ));
    }
    findings
}
