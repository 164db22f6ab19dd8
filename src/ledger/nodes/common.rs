//! What the nodes of one kind have in common, so that a pod whom none of them suits is told without asking each.

use std::collections::HashMap;
use std::sync::Arc;

use crate::device::{GpuNode, Labels};
use crate::placement::candidates::{Bound, binds, is_tolerated, required_terms};
use crate::workload::pod::{PodSpec, Requirement, Taint};

/// How many members have each label and taint.
#[derive(Clone, Debug, Default)]
pub(super) struct Common {
    members: usize,
    labels: HashMap<Arc<str>, HashMap<Arc<str>, usize>>,
    taints: Vec<(Taint, usize)>,
}

impl Common {
    pub(super) fn add(&mut self, node: &GpuNode) {
        self.members += 1;
        let Labels { keys, values } = &node.labels;
        for (key, value) in keys.iter().zip(values) {
            let of_key = match self.labels.get_mut(key) {
                Some(of_key) => of_key,
                None => self.labels.entry(key.clone()).or_default(),
            };
            *of_key.entry(value.clone()).or_default() += 1;
        }
        for taint in &node.taints {
            match self.taints.iter_mut().find(|(known, _)| known == taint) {
                Some((_, count)) => *count += 1,
                None => self.taints.push((taint.clone(), 1)),
            }
        }
    }

    pub(super) fn remove(&mut self, node: &GpuNode) {
        self.members = self.members.saturating_sub(1);
        let Labels { keys, values } = &node.labels;
        for (key, value) in keys.iter().zip(values) {
            let Some(of_key) = self.labels.get_mut(key) else {
                continue;
            };
            if let Some(count) = of_key.get_mut(value) {
                *count -= 1;
                if *count == 0 {
                    of_key.remove(value);
                }
            }
            if of_key.is_empty() {
                self.labels.remove(key);
            }
        }
        for (_, count) in self
            .taints
            .iter_mut()
            .filter(|(known, _)| node.taints.contains(known))
        {
            *count = count.saturating_sub(1);
        }
        self.taints.retain(|(_, count)| *count > 0);
    }

    /// Whether some member may suit a pod. `false` is certain, `true` is not.
    pub(super) fn may_suit(&self, spec: &PodSpec) -> bool {
        let selector = &spec.node_selector;
        let is_had = |(key, value): (&String, &String)| self.having(key, value) > 0;
        let by_selector = selector.iter().all(is_had);
        let by_affinity = required_terms(spec).is_none_or(|mut terms| {
            terms.any(|term| term.match_expressions.iter().all(|wanted| self.may_hold(wanted)))
        });
        let is_held_off = |(taint, count): &(Taint, usize)| {
            *count == self.members && binds(spec, taint) == Bound::Lasting && !is_tolerated(spec, taint)
        };
        by_selector && by_affinity && !self.taints.iter().any(is_held_off)
    }

    /// The values of a label, if every member has it.
    pub(super) fn values_on_all(&self, label: &str) -> Option<impl ExactSizeIterator<Item = &str>> {
        let of_label = self.labels.get(label)?;
        let having: usize = of_label.values().sum();
        (having == self.members).then(|| of_label.keys().map(AsRef::as_ref))
    }

    /// How many members have a label with this value.
    pub(super) fn having(&self, key: &str, value: &str) -> usize {
        let of_key = self.labels.get(key);
        of_key.and_then(|of_key| of_key.get(value)).copied().unwrap_or(0)
    }

    fn may_hold(&self, wanted: &Requirement) -> bool {
        let listed = || wanted.values.iter().map(|value| self.having(&wanted.key, value));
        match wanted.operator.as_str() {
            "In" => listed().any(|count| count > 0),
            "Exists" => self.labels.contains_key(wanted.key.as_str()),
            // A value that is listed twice is counted twice, which could look like all of them.
            "NotIn" => listed().all(|count| count < self.members),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::placement::candidates::node_matches;
    use crate::workload::pod::Node;

    fn node(labels: &Value, taints: &Value) -> GpuNode {
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": "n", "labels": labels}, "spec": {"taints": taints},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }))
        .unwrap();
        crate::device::inventory::bare(&node)
    }

    fn required(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": key, "operator": operator, "values": values}]},
        ]}}}})
    }

    #[test]
    fn who_suits_nobody_is_told_and_nobody_else() {
        let gpu = json!([{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]);
        let unready = json!([{"key": "gpu", "value": "yes", "effect": "NoSchedule"},
                             {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
        let tolerated = json!({"tolerations": [{"key": "gpu", "operator": "Exists"}]});
        let kinds = [
            vec![
                node(&json!({"zone": "a", "family": "x"}), &json!([])),
                node(&json!({"zone": "b", "family": "x"}), &json!([])),
            ],
            vec![
                node(&json!({"zone": "a"}), &gpu),
                node(&json!({"family": "y"}), &unready),
            ],
            vec![node(&json!({}), &json!([])), node(&json!({"zone": "c"}), &gpu)],
        ];
        let mut specs = vec![
            json!({}),
            tolerated.clone(),
            json!({"nodeSelector": {"zone": "a"}}),
            json!({"nodeSelector": {"zone": "d"}}),
            json!({"nodeSelector": {"zone": "a", "family": "y"}}),
        ];
        for key in ["zone", "family", "other"] {
            for operator in ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Other"] {
                for values in [&["a"][..], &["a", "b"], &["x", "y"], &["z"], &[]] {
                    let mut spec = required(key, operator, values);
                    specs.push(spec.clone());
                    spec["tolerations"] = tolerated["tolerations"].clone();
                    specs.push(spec);
                }
            }
        }
        specs.push(json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}}));
        let mut told: BTreeMap<bool, usize> = BTreeMap::new();
        for nodes in &kinds {
            let mut common = Common::default();
            for node in nodes {
                common.add(node);
            }
            // One that came and went leaves nothing behind.
            let other = node(&json!({"zone": "d", "family": "z"}), &json!([]));
            common.add(&other);
            common.remove(&other);
            for spec in &specs {
                let read: PodSpec = serde_json::from_value(spec.clone()).unwrap();
                let suits = nodes.iter().any(|node| node_matches(&read, node).is_possible());
                let may = common.may_suit(&read);
                assert!(may || !suits, "{spec} suits a node of {nodes:?}");
                if !suits {
                    *told.entry(may).or_default() += 1;
                }
            }
        }
        // More than half of those whom nobody suits are told so.
        let untold = told.get(&true).copied().unwrap_or(0);
        assert!(told[&false] > untold, "{told:?}");
    }
}
