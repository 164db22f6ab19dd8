//! Sums over the cluster for graphs: cheap enough to be read at each scrape, and of few series however large it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Ledger;
use crate::units::Share;

/// Shared devices of one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How many there are.
    pub devices: u64,
    /// What may be promised of all of them together.
    pub budget: Share,
    /// The sum of the shares of those who are accounted on them.
    pub promised: Share,
}

impl Ledger {
    /// By extended resource: all shared devices.
    #[must_use]
    pub fn totals(&self) -> BTreeMap<Arc<str>, Totals> {
        let mut totals: BTreeMap<Arc<str>, Totals> = BTreeMap::new();
        for (_, entry) in self.nodes.iter() {
            let Some(class) = self.nodes.class(entry.class) else {
                continue;
            };
            let budget = class.device_policy.device.budget;
            let pools = entry.node.pools.iter().zip(&entry.loads);
            for (pool, load) in pools.filter(|(pool, _)| pool.sharing.is_shared()) {
                let devices = u64::from(pool.devices);
                let total = totals.entry(pool.resource.clone()).or_default();
                total.devices = total.devices.saturating_add(devices);
                total.budget = total.budget.plus(budget.times(devices));
                total.promised = total.promised.plus(load.sum(devices));
            }
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{self, Limits};
    use crate::policy::PolicySet;
    use crate::snapshot::Snapshot;

    #[test]
    fn sums_are_those_of_the_single_devices() {
        let text = include_bytes!("../../examples/cluster.yaml");
        let mut snapshot = Snapshot::default();
        let pod = br#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "team", "uid": "uid-a"},
            "spec": {"nodeName": "gpu-node-1", "containers": [{"name": "engine", "image": "vllm/vllm-openai:v0.11.0",
            "args": ["m", "--gpu-memory-utilization=0.30"], "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}"#;
        for text in [&text[..], &pod[..]] {
            manifest::read(text, "example", Limits::SNAPSHOT, &mut |object| {
                snapshot.add(&object)
            })
            .unwrap();
        }
        let mut ledger = Ledger::new(Arc::new(PolicySet::default()));
        snapshot.fill(&mut ledger);
        let total = ledger.totals()["nvidia.com/gpu"];
        let devices: Vec<_> = ledger
            .devices()
            .into_iter()
            .filter(|device| device.sharing.is_shared())
            .collect();
        let promised: Share = devices
            .iter()
            .flat_map(|device| &device.holders)
            .map(|holder| holder.share)
            .sum();
        assert!(promised > Share::ZERO);
        assert_eq!(total.promised, promised);
        assert_eq!(
            total.devices,
            devices
                .iter()
                .map(|device| u64::from(device.devices))
                .sum::<u64>()
        );
        assert_eq!(total.budget, Share::from_ppm(900_000).times(total.devices));
    }
}
