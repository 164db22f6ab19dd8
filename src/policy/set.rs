//! Every policy in force, and which one applies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use super::error::{PolicyError, PolicyErrors};
use super::expression::{NodeView, Outcome, PodFacts, PodView};
use super::file::{self, Document};
use super::{AccessPolicy, OwnModels, Policy, PolicyRef, SharingSystem};
use crate::device::LabelSet;
use crate::engine::ImageRule;
use crate::workload::pod::Pod;

/// Labels by key.
type Labels = BTreeMap<String, String>;

/// Every policy in force, in order of precedence: higher priority first, then by name; the built-in default last,
/// whatever its number.
#[derive(Clone, Debug)]
pub struct PolicySet {
    policies: Vec<PolicyRef>,
    built_in: PolicyRef,
}

static BUILT_IN: LazyLock<PolicyRef> = LazyLock::new(|| Arc::new(file::built_in()));

/// What the policies in force see of a node's labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    /// Whether each node selector matches.
    selected: Vec<bool>,
    /// The values of labels that expressions ask for.
    asked: Vec<Option<String>>,
}

impl Default for PolicySet {
    fn default() -> Self {
        Self::built_in()
    }
}

impl PolicySet {
    /// The built-in default alone.
    #[must_use]
    pub fn built_in() -> Self {
        Self {
            policies: Vec::new(),
            built_in: Arc::clone(&BUILT_IN),
        }
    }

    /// These policies before the built-in default. Names are taken to be unique, as
    /// [`from_documents`](Self::from_documents) checks.
    #[must_use]
    pub fn new(mut policies: Vec<Policy>) -> Self {
        policies.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.name.cmp(&b.name)));
        Self {
            policies: policies.into_iter().map(Arc::new).collect(),
            ..Self::built_in()
        }
    }

    /// The policies of every file together; two of the same name are an error.
    pub fn from_documents(documents: Vec<Document>) -> Result<Self, PolicyErrors> {
        let mut places: BTreeMap<&str, &Document> = BTreeMap::new();
        let mut errors = Vec::new();
        for document in &documents {
            let Some(first) = places.get(document.policy.name.as_str()) else {
                places.insert(&document.policy.name, document);
                continue;
            };
            let line = first.line.map(|line| format!(":{line}")).unwrap_or_default();
            errors.push(PolicyError {
                source: Arc::clone(&document.source),
                line: document.name_at.map(|(line, _)| line),
                column: document.name_at.map(|(_, column)| column),
                field: "metadata.name".to_owned(),
                message: format!(
                    "{:?} is the name of another policy too, at {}{line}; names are unique",
                    document.policy.name, first.source
                ),
            });
        }
        if !errors.is_empty() {
            return Err(PolicyErrors(errors));
        }
        Ok(Self::new(
            documents.into_iter().map(|document| document.policy).collect(),
        ))
    }

    /// The policy of a pod: the first whose selectors all match and whose expression does not deny it. `node` is that on
    /// which the pod would stand; where there is none yet, policies that select nodes do not match.
    #[must_use]
    pub fn for_pod<'a>(
        &self,
        namespace_labels: &Labels,
        pod: impl Into<PodView<'a>>,
        node: Option<NodeView<'_>>,
    ) -> PolicyRef {
        Arc::clone(self.of_pod(namespace_labels, pod.into(), node).0)
    }

    /// The same, and why its expression fails where it applies only because of that.
    #[must_use]
    pub(crate) fn for_pod_told<'a>(
        &self,
        namespace_labels: &Labels,
        pod: impl Into<PodView<'a>>,
        node: Option<NodeView<'_>>,
    ) -> (PolicyRef, Option<String>) {
        let (policy, why) = self.of_pod(namespace_labels, pod.into(), node);
        (Arc::clone(policy), why)
    }

    fn of_pod(
        &self,
        namespace: &Labels,
        pod: PodView<'_>,
        node: Option<NodeView<'_>>,
    ) -> (&PolicyRef, Option<String>) {
        for policy in &self.policies {
            match policy.matches.pod(namespace, pod, node) {
                Outcome::No => {}
                Outcome::Yes => return (policy, None),
                Outcome::Failed(why) => return (policy, Some(why)),
            }
        }
        (&self.built_in, None)
    }

    /// What has to be kept of a pod beside its labels, to find its policy later on; `None` where no expression asks for it.
    #[must_use]
    pub(crate) fn facts(&self, pod: &Pod) -> Option<Arc<PodFacts>> {
        let mut asked = self
            .policies
            .iter()
            .filter_map(|policy| policy.matches.expression.as_ref());
        asked
            .any(|expression| expression.needs_facts())
            .then(|| Arc::new(PodFacts::of(pod)))
    }

    /// The policy of the devices of a node: the first of those that select by nodes alone.
    #[must_use]
    pub fn for_device(&self, node_labels: &impl LabelSet) -> PolicyRef {
        let found = self
            .policies
            .iter()
            .find(|policy| policy.matches.device(node_labels));
        Arc::clone(found.unwrap_or(&self.built_in))
    }

    /// The platform's own images, as the policy of the pod names them. Invocations are read before any node is
    /// considered, so policies that select nodes have no part in this.
    #[must_use]
    pub fn engine_rules<'a>(&self, namespace_labels: &Labels, pod: impl Into<PodView<'a>>) -> &[ImageRule] {
        &self.of_pod(namespace_labels, pod.into(), None).0.engines
    }

    /// The models that the policy of the pod states. Which model a container loads is read before any node is considered,
    /// as its invocation is.
    #[must_use]
    pub fn models<'a>(&self, namespace_labels: &Labels, pod: impl Into<PodView<'a>>) -> &OwnModels {
        &self.of_pod(namespace_labels, pod.into(), None).0.models
    }

    /// What the policy of the pod says of access without a request; read before any node is considered.
    #[must_use]
    pub fn access<'a>(&self, namespace_labels: &Labels, pod: impl Into<PodView<'a>>) -> &AccessPolicy {
        &self.of_pod(namespace_labels, pod.into(), None).0.access
    }

    /// Whether a node advertises memory: whether some pod there could be under a policy by which kube-scheduler counts it.
    #[must_use]
    pub fn counts_on(&self, node_labels: &impl LabelSet) -> bool {
        for policy in self.iter() {
            let matches = &policy.matches;
            let is_here = matches
                .nodes
                .as_ref()
                .is_none_or(|nodes| nodes.matches(node_labels));
            if !is_here {
                continue;
            }
            if policy.counts() {
                return true;
            }
            // It applies to every pod of the node, and those behind it to none.
            if matches.by_nodes_alone() {
                return false;
            }
        }
        // The built-in default matches everything, so this is not reached.
        false
    }

    /// Every runtime class that some policy says shows all devices.
    pub fn runtime_classes(&self) -> impl Iterator<Item = &str> {
        self.iter()
            .flat_map(|policy| &policy.access.runtime_classes)
            .map(String::as_str)
    }

    /// The other sharing systems whose amounts count for the pod. Amounts are read before any node is considered, as
    /// invocations are.
    #[must_use]
    pub fn trusted_systems<'a>(
        &self,
        namespace_labels: &Labels,
        pod: impl Into<PodView<'a>>,
    ) -> &BTreeSet<SharingSystem> {
        &self.of_pod(namespace_labels, pod.into(), None).0.trusted_systems
    }

    /// Whether any policy trusts any of them.
    #[must_use]
    pub fn trusts_any_system(&self) -> bool {
        self.iter().any(|policy| !policy.trusted_systems.is_empty())
    }

    /// Whether the policy of a pod can differ from node to node.
    #[must_use]
    pub fn depends_on_nodes(&self) -> bool {
        self.policies.iter().any(|policy| policy.matches.needs_node())
    }

    /// What policies see of a node's labels: nodes with the same answer are treated alike.
    #[must_use]
    pub(crate) fn node_signature(&self, labels: &impl LabelSet) -> Signature {
        let matches = || self.policies.iter().map(|policy| &policy.matches);
        let selectors = matches().filter_map(|matches| matches.nodes.as_ref());
        let asked = matches().filter_map(|matches| matches.expression.as_ref());
        let keys: BTreeSet<&str> = asked.flat_map(|expression| expression.node_labels()).collect();
        Signature {
            selected: selectors.map(|nodes| nodes.matches(labels)).collect(),
            asked: keys
                .into_iter()
                .map(|key| labels.value(key).map(str::to_owned))
                .collect(),
        }
    }

    /// The policies in order of precedence, the built-in default last.
    pub fn iter(&self) -> impl Iterator<Item = &PolicyRef> {
        self.policies.iter().chain(std::iter::once(&self.built_in))
    }

    /// Their names, in the same order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|policy| policy.name.as_str())
    }
}

#[cfg(test)]
mod tests;
