//! Priorities of pods, as the API server fills them in.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::workload::pod::{Metadata, PodSpec};

/// Classes that every cluster has (`pkg/apis/scheduling/types.go` of Kubernetes).
const SYSTEM: [(&str, i32); 2] = [
    ("system-cluster-critical", 2_000_000_000),
    ("system-node-critical", 2_000_001_000),
];

/// A class, as far as it decides.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PriorityClass {
    pub(super) metadata: Metadata,
    value: i32,
    global_default: bool,
    preemption_policy: Option<String>,
}

/// The classes of a cluster, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Priorities(BTreeMap<String, PriorityClass>);

impl Priorities {
    pub(super) fn add(&mut self, class: PriorityClass) {
        self.0.insert(class.metadata.name.clone(), class);
    }

    /// Gives a pod that was written by hand the priority of its class, or of the class that is the default. A class that is
    /// not known leaves it open.
    pub(super) fn fill(&self, spec: &mut PodSpec) {
        if spec.priority.is_some() {
            return;
        }
        let name = spec
            .priority_class_name
            .as_deref()
            .filter(|name| !name.is_empty());
        let class = match name {
            Some(name) => self.0.get(name),
            // Of several defaults the API server takes the lowest.
            None => self
                .0
                .values()
                .filter(|class| class.global_default)
                .min_by_key(|class| class.value),
        };
        if let Some(class) = class {
            spec.priority = Some(class.value);
            if spec.preemption_policy.is_none() {
                spec.preemption_policy.clone_from(&class.preemption_policy);
            }
        } else if let Some(name) = name {
            let system = SYSTEM.iter().find(|(known, _)| *known == name);
            spec.priority = system.map(|(_, value)| *value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(classes: &str, spec: &str) -> (Option<i32>, Option<String>) {
        let classes: Vec<PriorityClass> = serde_json::from_str(classes).unwrap();
        let mut priorities = Priorities::default();
        for class in classes {
            priorities.add(class);
        }
        let mut spec: PodSpec = serde_json::from_str(spec).unwrap();
        priorities.fill(&mut spec);
        (spec.priority, spec.preemption_policy)
    }

    #[test]
    fn a_pod_has_the_priority_of_its_class() {
        let classes = r#"[{"metadata":{"name":"high"},"value":1000},
            {"metadata":{"name":"calm"},"value":7,"preemptionPolicy":"Never","globalDefault":true}]"#;
        assert_eq!(
            filled(classes, r#"{"priorityClassName":"high"}"#),
            (Some(1000), None)
        );
        assert_eq!(filled(classes, "{}"), (Some(7), Some("Never".to_owned())));
        assert_eq!(
            filled(classes, r#"{"priority":3,"priorityClassName":"high"}"#),
            (Some(3), None)
        );
        assert_eq!(filled(classes, r#"{"priorityClassName":"other"}"#), (None, None));
        assert_eq!(
            filled("[]", r#"{"priorityClassName":"system-node-critical"}"#),
            (Some(2_000_001_000), None)
        );
        assert_eq!(filled("[]", "{}"), (None, None));
    }
}
