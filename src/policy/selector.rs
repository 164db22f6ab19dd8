//! For which pods and devices a policy applies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::expression::{Expression, NodeView, Outcome, PodView};
use crate::device::LabelSet;
use crate::workload::pod::Requirement;

/// A Kubernetes label selector: all of it must match; an empty one matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// Labels that must be equal.
    pub labels: BTreeMap<String, String>,
    /// Further requirements: `In`, `NotIn`, `Exists`, `DoesNotExist`.
    pub expressions: Vec<Requirement>,
}

impl Selector {
    /// Whether all of it matches, with Kubernetes' meaning: `NotIn` holds for a label that is absent.
    #[must_use]
    pub fn matches(&self, labels: &impl LabelSet) -> bool {
        self.labels
            .iter()
            .all(|(key, value)| labels.value(key) == Some(value))
            && self
                .expressions
                .iter()
                .all(|requirement| holds(requirement, labels))
    }

    /// Whether no labels match both, as far as single keys tell.
    #[must_use]
    pub fn excludes(&self, other: &Self) -> bool {
        let keys = || self.keys().chain(other.keys());
        keys().any(|key| match (self.values_of(key), other.values_of(key)) {
            (Some(one), Some(other)) => one.is_disjoint(&other),
            _ => false,
        })
    }

    fn keys(&self) -> impl Iterator<Item = &str> {
        let of_expressions = self.expressions.iter().map(|requirement| &requirement.key);
        self.labels.keys().chain(of_expressions).map(String::as_str)
    }

    /// The values that a label may have to match; `None` where any may, or it may be absent.
    fn values_of(&self, key: &str) -> Option<BTreeSet<&str>> {
        let equal = self.labels.get(key).map(|value| BTreeSet::from([value.as_str()]));
        let among = self
            .expressions
            .iter()
            .filter(|requirement| requirement.key == key && requirement.operator == "In")
            .map(|requirement| requirement.values.iter().map(String::as_str).collect());
        equal
            .into_iter()
            .chain(among)
            .reduce(|one: BTreeSet<&str>, other| one.intersection(&other).copied().collect())
    }

    /// Whether it asks for nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.expressions.is_empty()
    }
}

fn holds(requirement: &Requirement, labels: &impl LabelSet) -> bool {
    let value = labels.value(&requirement.key);
    let is_listed = |value: &str| requirement.values.iter().any(|listed| listed == value);
    match requirement.operator.as_str() {
        "In" => value.is_some_and(is_listed),
        "NotIn" => !value.is_some_and(is_listed),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        // A policy file with another operator is refused when it is read.
        _ => false,
    }
}

/// For what a policy applies: all that is given has to match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    /// Labels of the namespace.
    pub namespaces: Option<Selector>,
    /// Labels of the pod.
    pub pods: Option<Selector>,
    /// Labels of the node.
    pub nodes: Option<Selector>,
    /// A condition in CEL.
    pub expression: Option<Arc<Expression>>,
}

impl Matches {
    /// Whether the policy applies to a pod. Without a node, a policy that selects nodes does not. Selectors come first: an
    /// expression is asked only where they match.
    #[must_use]
    pub(crate) fn pod(
        &self,
        namespace_labels: &BTreeMap<String, String>,
        pod: PodView<'_>,
        node: Option<NodeView<'_>>,
    ) -> Outcome {
        let all = |selector: &Option<Selector>, labels: &BTreeMap<String, String>| {
            selector.as_ref().is_none_or(|selector| selector.matches(labels))
        };
        let is_node = self
            .nodes
            .as_ref()
            .is_none_or(|nodes| node.is_some_and(|node| nodes.matches(node.labels)));
        if !(is_node && all(&self.namespaces, namespace_labels) && all(&self.pods, pod.labels)) {
            return Outcome::No;
        }
        match &self.expression {
            Some(expression) => expression.of(namespace_labels, pod, node),
            None => Outcome::Yes,
        }
    }

    /// Whether the policy can apply only where a node is given.
    #[must_use]
    pub fn needs_node(&self) -> bool {
        self.nodes.is_some() || self.expression.as_ref().is_some_and(|cel| cel.needs_node())
    }

    /// Whether the policy speaks for the devices of a node: it selects by nodes alone, and they match.
    #[must_use]
    pub fn device(&self, node_labels: &impl LabelSet) -> bool {
        self.by_nodes_alone() && self.nodes.as_ref().is_none_or(|nodes| nodes.matches(node_labels))
    }

    /// Whether neither namespaces nor pods nor an expression take part.
    #[must_use]
    pub fn by_nodes_alone(&self) -> bool {
        self.namespaces.is_none() && self.pods.is_none() && self.expression.is_none()
    }
}
