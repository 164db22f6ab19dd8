//! How many pods and nodes are under each policy.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Ledger;

impl Ledger {
    /// How many of `most` pods behind `after`, by UID, are under each policy by name, and where to go on. A pod without a
    /// place is under the policy that applies without a node.
    #[must_use]
    pub fn pods_by_policy(
        &self,
        after: Option<&str>,
        most: usize,
    ) -> (BTreeMap<String, u64>, Option<Arc<str>>) {
        let mut counts = BTreeMap::new();
        let mut last = None;
        let mut looked_at = 0;
        for (uid, holder) in self.holders.behind(after).take(most) {
            looked_at += 1;
            last = Some(uid.clone());
            // Another replica admitted it, and what it is was not seen yet.
            if holder.foreign {
                continue;
            }
            let place = holder.node.as_deref().or(holder.place.as_deref());
            let entry = place.and_then(|node| self.nodes.get(node));
            let class = entry.and_then(|entry| self.nodes.class(entry.class));
            let labels = self.namespace_labels(&holder.namespace);
            let policy = self
                .policies
                .for_pod(&labels, holder.view(), class.map(super::nodes::Class::view));
            *counts.entry(policy.name.clone()).or_default() += 1;
        }
        (counts, last.filter(|_| looked_at == most))
    }

    /// How many nodes have their devices under each policy, by its name.
    #[must_use]
    pub fn nodes_by_policy(&self) -> BTreeMap<String, u64> {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for (_, class) in self.nodes.classes() {
            let count = u64::try_from(class.members.len()).unwrap_or(u64::MAX);
            *counts.entry(class.device_policy.name.clone()).or_default() += count;
        }
        counts
    }
}
