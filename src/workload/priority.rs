//! Priorities of pods, as the API server fills them in.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::null::as_absent;
use super::pod::{Metadata, PodSpec};

/// Classes that every cluster has (`pkg/apis/scheduling/types.go` of Kubernetes).
const SYSTEM: [(&str, i32); 2] = [
    ("system-cluster-critical", 2_000_000_000),
    ("system-node-critical", 2_000_001_000),
];

/// A class, as far as it decides.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PriorityClass {
    /// Name.
    #[serde(deserialize_with = "as_absent")]
    pub metadata: Metadata,
    /// The priority of its pods: the larger the more important.
    #[serde(deserialize_with = "as_absent")]
    pub value: i32,
    /// Whether pods that name no class are of this one.
    #[serde(deserialize_with = "as_absent")]
    pub global_default: bool,
    /// `Never` where its pods end no others.
    pub preemption_policy: Option<String>,
}

/// The classes of a cluster, by name.
#[derive(Clone, Debug, Default)]
pub struct Priorities(BTreeMap<String, PriorityClass>);

impl Priorities {
    /// A class appeared or changed.
    pub fn set(&mut self, class: PriorityClass) {
        self.0.insert(class.metadata.name.clone(), class);
    }

    /// A class is gone.
    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &PriorityClass> {
        self.0.values()
    }

    /// Gives a pod that was written by hand, or is still to be made from a template, the priority of its class, or of the
    /// class that is the default. A class that is not known leaves it open.
    pub fn fill(&self, spec: &mut PodSpec) {
        let (priority, preemption_policy) = self.of(spec);
        spec.preemption_policy = preemption_policy.map(str::to_owned);
        spec.priority = priority;
    }

    /// The priority that a pod has or will have, and whether it ends others for it.
    #[must_use]
    pub fn of<'s>(&'s self, spec: &'s PodSpec) -> (Option<i32>, Option<&'s str>) {
        let own_policy = spec.preemption_policy.as_deref();
        if spec.priority.is_some() {
            return (spec.priority, own_policy);
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
            let policy = own_policy.or(class.preemption_policy.as_deref());
            return (Some(class.value), policy);
        }
        let system = SYSTEM.iter().find(|(known, _)| name == Some(*known));
        (system.map(|(_, value)| *value), own_policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(classes: &str, spec: &str) -> (Option<i32>, Option<String>) {
        let classes: Vec<PriorityClass> = serde_json::from_str(classes).unwrap();
        let mut priorities = Priorities::default();
        for class in classes {
            priorities.set(class);
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
