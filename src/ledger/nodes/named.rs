//! Nodes that a pod names, so that it is held against no others: pods of a DaemonSet each name one.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::device::GpuNode;
use crate::placement::candidates::required_terms;
use crate::workload::pod::{NodeSelectorTerm, PodSpec};

/// The label with the host name of a node, which is its name nearly always.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Nodes by the host name that they are labelled with: host name, node.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts(BTreeSet<(Arc<str>, Arc<str>)>);

impl Hosts {
    pub(super) fn add(&mut self, name: &Arc<str>, node: &GpuNode) {
        if let Some(host) = node.labels.text(HOSTNAME) {
            self.0.insert((host.clone(), name.clone()));
        }
    }

    pub(super) fn remove(&mut self, name: &Arc<str>, node: &GpuNode) {
        if let Some(host) = node.labels.text(HOSTNAME) {
            self.0.remove(&(host.clone(), name.clone()));
        }
    }

    fn of(&self, host: &str) -> impl Iterator<Item = Arc<str>> {
        let first = (Arc::from(host), Arc::from(""));
        self.0
            .range(first..)
            .take_while(move |(known, _)| **known == *host)
            .map(|(_, name)| name.clone())
    }

    /// The only nodes on which a pod may stand, where its constraints name them; `None` where they leave that open. That it may
    /// stand on them is not said.
    pub(super) fn named(&self, spec: &PodSpec) -> Option<BTreeSet<Arc<str>>> {
        if let Some(name) = spec.node_name.as_deref().filter(|name| !name.is_empty()) {
            return Some(BTreeSet::from([Arc::from(name)]));
        }
        if let Some(host) = spec.node_selector.get(HOSTNAME) {
            return Some(self.of(host).collect());
        }
        let mut named = BTreeSet::new();
        // One of the terms has to match.
        for term in required_terms(spec)? {
            named.extend(self.named_by(term)?);
        }
        Some(named)
    }

    fn named_by(&self, term: &NodeSelectorTerm) -> Option<Vec<Arc<str>>> {
        let by_name = term.match_fields.iter().find_map(|wanted| {
            let is_name = wanted.key == "metadata.name" && wanted.operator == "In";
            is_name.then(|| {
                wanted
                    .values
                    .iter()
                    .map(|name| Arc::from(name.as_str()))
                    .collect()
            })
        });
        by_name.or_else(|| {
            let mut wanted = term.match_expressions.iter();
            let hosts = wanted.find(|wanted| wanted.key == HOSTNAME && wanted.operator == "In")?;
            Some(hosts.values.iter().flat_map(|host| self.of(host)).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::device::inventory;
    use crate::placement::candidates::node_matches;

    fn node(name: &str, host: Option<&str>) -> GpuNode {
        let labels = host.map_or_else(|| json!({}), |host| json!({HOSTNAME: host, "zone": "a"}));
        inventory::bare(
            &serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap(),
        )
    }

    #[test]
    fn whoever_is_left_out_is_no_node_for_the_pod() {
        let nodes = [
            node("a", Some("a")),
            node("b", Some("host-b")),
            node("c", Some("host-b")),
            node("d", None),
        ];
        let mut hosts = Hosts::default();
        let gone = node("a", Some("host-b"));
        hosts.add(&Arc::from("a"), &gone);
        hosts.remove(&Arc::from("a"), &gone);
        for node in &nodes {
            hosts.add(&Arc::from(node.name()), node);
        }
        let required = |terms: Value| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
        let field = |operator: &str, names: &[&str]| json!({"matchFields": [{"key": "metadata.name", "operator": operator, "values": names}]});
        let host = |operator: &str, hosts: &[&str]| {
            json!({"matchExpressions": [{"key": "zone", "operator": "Exists"},
                                        {"key": HOSTNAME, "operator": operator, "values": hosts}]})
        };
        let cases = [
            (json!({}), None),
            (json!({"nodeName": ""}), None),
            (json!({"nodeName": "d"}), Some(vec!["d"])),
            (
                json!({"nodeSelector": {HOSTNAME: "host-b"}}),
                Some(vec!["b", "c"]),
            ),
            (json!({"nodeSelector": {HOSTNAME: "host"}}), Some(vec![])),
            (json!({"nodeSelector": {"zone": "a"}}), None),
            (required(json!([])), Some(vec![])),
            (required(json!([field("In", &["d"])])), Some(vec!["d"])),
            (required(json!([field("NotIn", &["d"])])), None),
            (
                required(json!([host("In", &["a", "host-b"])])),
                Some(vec!["a", "b", "c"]),
            ),
            (required(json!([host("NotIn", &["a"])])), None),
            (
                required(json!([host("In", &["a"]), field("In", &["b"])])),
                Some(vec!["a", "b"]),
            ),
            (required(json!([host("In", &["a"]), host("Exists", &[])])), None),
        ];
        for (spec, wanted) in cases {
            let read: PodSpec = serde_json::from_value(spec.clone()).unwrap();
            let only = hosts.named(&read);
            let told = only
                .as_ref()
                .map(|named| named.iter().map(AsRef::as_ref).collect::<Vec<&str>>());
            assert_eq!(told, wanted, "{spec}");
            for node in &nodes {
                let is_left_out = only.as_ref().is_some_and(|named| !named.contains(node.name()));
                assert!(
                    !is_left_out || !node_matches(&read, node).is_possible(),
                    "{spec} {}",
                    node.name()
                );
            }
        }
    }
}
