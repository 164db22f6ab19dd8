//! What selectors can match: whether any object, whether all that another one does, whether one that another one does too.
//!
//! A selector is a conjunction of demands on single labels, so each question is one about the values that a label may have,
//! label by label. What is not provable that way (an expression in CEL) is left open.

use std::collections::{BTreeMap, BTreeSet};

use crate::policy::{Matches, Selector};

/// The label that the API server puts on every namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// What one label may be.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Label {
    /// Whether it may be absent.
    absent: bool,
    values: Values,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Values {
    Only(BTreeSet<String>),
    AllBut(BTreeSet<String>),
}

impl Values {
    fn and(self, other: &Self) -> Self {
        match (self, other) {
            (Self::Only(a), Self::Only(b)) => Self::Only(a.intersection(b).cloned().collect()),
            (Self::Only(a), Self::AllBut(b)) => Self::Only(a.difference(b).cloned().collect()),
            (Self::AllBut(a), Self::Only(b)) => Self::Only(b.difference(&a).cloned().collect()),
            (Self::AllBut(a), Self::AllBut(b)) => Self::AllBut(a.union(b).cloned().collect()),
        }
    }

    fn within(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Only(a), Self::Only(b)) => a.is_subset(b),
            (Self::Only(a), Self::AllBut(b)) => a.is_disjoint(b),
            // There are always more texts than a list holds.
            (Self::AllBut(_), Self::Only(_)) => false,
            (Self::AllBut(a), Self::AllBut(b)) => b.is_subset(a),
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::Only(values) if values.is_empty())
    }
}

impl Label {
    /// Anything. The label with a namespace's name is never absent.
    fn free(key: &str) -> Self {
        Self {
            absent: key != NAMESPACE_NAME,
            values: Values::AllBut(BTreeSet::new()),
        }
    }

    fn and(self, other: &Self) -> Self {
        Self {
            absent: self.absent && other.absent,
            values: self.values.and(&other.values),
        }
    }

    fn is_impossible(&self) -> bool {
        !self.absent && self.values.is_empty()
    }

    fn within(&self, other: &Self) -> bool {
        (!self.absent || other.absent) && self.values.within(&other.values)
    }
}

/// What a selector demands, label by label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Demands(BTreeMap<String, Label>);

impl Demands {
    /// Of a selector; none demands nothing.
    pub(super) fn of(selector: Option<&Selector>) -> Self {
        let mut demands = Self::default();
        let Some(selector) = selector else { return demands };
        for (key, value) in &selector.labels {
            demands.add(key, false, Values::Only([value.clone()].into()));
        }
        for requirement in &selector.expressions {
            let values = || requirement.values.iter().cloned().collect::<BTreeSet<_>>();
            let (absent, values) = match requirement.operator.as_str() {
                "In" => (false, Values::Only(values())),
                "NotIn" => (true, Values::AllBut(values())),
                "Exists" => (false, Values::AllBut(BTreeSet::new())),
                "DoesNotExist" => (true, Values::Only(BTreeSet::new())),
                _ => continue,
            };
            demands.add(&requirement.key, absent, values);
        }
        demands
    }

    fn add(&mut self, key: &str, absent: bool, values: Values) {
        let label = self.0.remove(key).unwrap_or_else(|| Label::free(key));
        self.0
            .insert(key.to_owned(), label.and(&Label { absent, values }));
    }

    /// The label of which nothing is left.
    pub(super) fn impossible(&self) -> Option<&str> {
        let mut labels = self.0.iter();
        labels
            .find(|(_, label)| label.is_impossible())
            .map(|(key, _)| key.as_str())
    }

    /// Whether whatever matches these matches those.
    fn within(&self, those: &Self) -> bool {
        those.0.iter().all(|(key, label)| match self.0.get(key) {
            Some(own) => own.within(label),
            None => Label::free(key).within(label),
        })
    }

    /// Whether something can match both.
    fn meets(&self, other: &Self) -> bool {
        self.0.iter().all(|(key, label)| match other.0.get(key) {
            Some(theirs) => !label.clone().and(theirs).is_impossible(),
            None => true,
        })
    }
}

/// What a policy can match.
#[derive(Clone, Debug)]
pub(super) struct Reach {
    pub(super) namespaces: Demands,
    pub(super) pods: Demands,
    pub(super) nodes: Demands,
    /// Whether it needs a node to be known.
    selects_nodes: bool,
    expression: Option<String>,
    /// Whether it speaks for devices.
    pub(super) of_devices: bool,
}

impl Reach {
    pub(super) fn of(matches: &Matches) -> Self {
        Self {
            namespaces: Demands::of(matches.namespaces.as_ref()),
            pods: Demands::of(matches.pods.as_ref()),
            nodes: Demands::of(matches.nodes.as_ref()),
            selects_nodes: matches.nodes.is_some(),
            expression: matches.expression.as_ref().map(|cel| cel.source().to_owned()),
            of_devices: matches.by_nodes_alone(),
        }
    }

    /// The part of `match` that nothing can satisfy, and the label of which nothing is left.
    pub(super) fn impossible(&self) -> Option<(&'static str, &str)> {
        let parts = [
            ("namespaces", &self.namespaces),
            ("pods", &self.pods),
            ("nodes", &self.nodes),
        ];
        parts
            .into_iter()
            .find_map(|(part, demands)| demands.impossible().map(|label| (part, label)))
    }

    /// Whether it matches every pod, on every node and on none, that `other` matches.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let expression = self.expression.is_none() || self.expression == other.expression;
        let nodes = !self.selects_nodes || (other.selects_nodes && other.nodes.within(&self.nodes));
        expression && nodes && other.namespaces.within(&self.namespaces) && other.pods.within(&self.pods)
    }

    /// Whether it speaks for every node's devices for which `other` does.
    pub(super) fn covers_devices(&self, other: &Self) -> bool {
        !other.of_devices || (self.of_devices && other.nodes.within(&self.nodes))
    }

    /// Whether some pod on some node can be under both; a policy with an expression may meet any.
    pub(super) fn meets(&self, other: &Self) -> bool {
        self.namespaces.meets(&other.namespaces)
            && self.pods.meets(&other.pods)
            && self.nodes.meets(&other.nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::pod::Requirement;

    fn selector(text: &str) -> Selector {
        let mut selector = Selector::default();
        for part in text.split(' ').filter(|part| !part.is_empty()) {
            let values = |list: &str| list.split(',').map(str::to_owned).collect::<Vec<_>>();
            let (key, operator, values) = if let Some((key, list)) = part.split_once("!=") {
                (key, "NotIn", values(list))
            } else if let Some((key, list)) = part.split_once('~') {
                (key, "In", values(list))
            } else if let Some((key, value)) = part.split_once('=') {
                selector.labels.insert(key.to_owned(), value.to_owned());
                continue;
            } else if let Some(key) = part.strip_prefix('!') {
                (key, "DoesNotExist", Vec::new())
            } else {
                (part, "Exists", Vec::new())
            };
            selector.expressions.push(Requirement {
                key: key.to_owned(),
                operator: operator.to_owned(),
                values,
            });
        }
        selector
    }

    fn demands(text: &str) -> Demands {
        Demands::of(Some(&selector(text)))
    }

    #[test]
    fn what_no_object_can_have_is_found() {
        for text in ["a=1 a~2", "a~1,2 a!=1,2", "a !a", "a=1 !a"] {
            assert_eq!(demands(text).impossible(), Some("a"), "{text}");
        }
        for text in ["a=1 a~1,2", "a!=1 !a", "a a!=1", "", "a~1,2 a!=1"] {
            assert_eq!(demands(text).impossible(), None, "{text}");
        }
    }

    /// Every question against every set of labels over two keys and three values: what is proved holds for all of them.
    #[test]
    fn proofs_hold_for_every_set_of_labels() {
        let selectors: Vec<&str> = vec![
            "",
            "a",
            "!a",
            "a=1",
            "a=2",
            "a~1,2",
            "a!=1",
            "a!=1,2",
            "a a!=3",
            "a=1 b=1",
            "b",
            "!b",
            "a!=1 b",
            "a~1,2 a!=1",
            "a=1 !b",
            "a !a",
        ];
        // With one value of each that no selector names, so that what holds for these worlds holds for all.
        let mut worlds = Vec::new();
        for a in ["", "1", "2", "3", "4"] {
            for b in ["", "1", "2"] {
                let labels = [("a", a), ("b", b)];
                let labels = labels.into_iter().filter(|(_, value)| !value.is_empty());
                worlds.push(
                    labels
                        .map(|(key, value)| (key.to_owned(), value.to_owned()))
                        .collect::<BTreeMap<_, _>>(),
                );
            }
        }
        for left in &selectors {
            for right in &selectors {
                let (one, other) = (selector(left), selector(right));
                let implied = worlds
                    .iter()
                    .all(|labels| !one.matches(labels) || other.matches(labels));
                let common = worlds
                    .iter()
                    .any(|labels| one.matches(labels) && other.matches(labels));
                let impossible =
                    demands(left).impossible().is_some() || demands(right).impossible().is_some();
                if demands(left).within(&demands(right)) {
                    assert!(implied, "{left:?} within {right:?}");
                }
                if !impossible {
                    assert_eq!(
                        demands(left).meets(&demands(right)),
                        common,
                        "{left:?} meets {right:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_namespace_has_its_name() {
        assert!(demands("").within(&demands(NAMESPACE_NAME)));
        assert!(!demands("").within(&demands("team")));
    }
}
