//! Whether a node that does not exist yet could take a pod, by what is known of it: a selector of its labels, or a node of
//! the same pool.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::candidates::{is_of_condition, node_matches};
use crate::device::{GpuNode, Labels};
use crate::policy::Selector;
use crate::workload::pod::{PodSpec, Requirement};

/// A node's own name as a label. <https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetesiohostname>
const HOST_NAME: &str = "kubernetes.io/hostname";

/// What the label of a node's name is where nobody can know it: no label has such a value.
const NEW_NAME: &str = "(a new node)";

/// Whether a node that is added beside `node` and is like it would take a pod. Its name is another one, and what a condition
/// has put on `node` is not on it. Autoscalers take a node of a group as the example of the next in the same way.
#[must_use]
pub fn like(node: &GpuNode, spec: &PodSpec) -> bool {
    if names_its_node(spec) {
        return false;
    }
    let mut metadata = node.metadata.clone();
    metadata.name = Arc::from(NEW_NAME);
    let mut labels = node.labels.to_map();
    labels.insert(HOST_NAME.to_owned(), NEW_NAME.to_owned());
    let taints = node.taints.iter().filter(|taint| !is_of_condition(taint));
    let newcomer = GpuNode {
        metadata,
        labels: Labels::from(&labels),
        taints: taints.cloned().collect(),
        cordoned: false,
        ready: true,
        pools: Vec::new(),
        notes: Vec::new(),
        advertised: node.advertised,
    };
    node_matches(spec, &newcomer).is_possible()
}

/// Whether some node with labels by `pool` could take a pod. Labels that the pool does not speak of can be any, and taints
/// are taken to be tolerated; `exists` tells of names that nodes have already.
#[must_use]
pub fn labelled(pool: &Selector, spec: &PodSpec, exists: &dyn Fn(&str) -> bool) -> bool {
    if names_its_node(spec) {
        return false;
    }
    let mut wanted = Wanted::default();
    for (key, value) in pool.labels.iter().chain(&spec.node_selector) {
        wanted.is_one_of(key, [value.as_str()].into());
    }
    wanted.require(&pool.expressions);
    let required = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|affinity| {
            affinity
                .required_during_scheduling_ignored_during_execution
                .as_ref()
        });
    let Some(required) = required else {
        return wanted.can_be(exists);
    };
    required.node_selector_terms.iter().any(|term| {
        // A term of nothing matches no node.
        if term.match_expressions.is_empty() && term.match_fields.is_empty() {
            return false;
        }
        let names = term
            .match_fields
            .iter()
            .all(|field| match field.values.as_slice() {
                [name] if field.key == "metadata.name" => match field.operator.as_str() {
                    "In" => !exists(name),
                    "NotIn" => true,
                    _ => false,
                },
                _ => false,
            });
        let mut with_term = wanted.clone();
        with_term.require(&term.match_expressions);
        names && with_term.can_be(exists)
    })
}

fn names_its_node(spec: &PodSpec) -> bool {
    spec.node_name.as_deref().is_some_and(|name| !name.is_empty())
}

/// What is wanted of each label.
#[derive(Clone, Debug, Default)]
struct Wanted<'a>(BTreeMap<&'a str, OfLabel<'a>>);

/// What is wanted of one label.
#[derive(Clone, Debug, Default)]
struct OfLabel<'a> {
    /// Its value is in each of these.
    lists: Vec<BTreeSet<&'a str>>,
    /// Its value is in none of these.
    not: BTreeSet<&'a str>,
    present: bool,
    absent: bool,
    /// It is an integer above this.
    above: Option<i64>,
    /// It is an integer below this.
    below: Option<i64>,
    /// An operator or a bound that nothing satisfies.
    impossible: bool,
}

impl<'a> Wanted<'a> {
    fn of(&mut self, key: &'a str) -> &mut OfLabel<'a> {
        self.0.entry(key).or_default()
    }

    fn is_one_of(&mut self, key: &'a str, values: BTreeSet<&'a str>) {
        self.of(key).lists.push(values);
    }

    fn require(&mut self, requirements: &'a [Requirement]) {
        for Requirement {
            key,
            operator,
            values,
        } in requirements
        {
            let listed = values.iter().map(String::as_str);
            let label = self.of(key);
            let bound = match values.as_slice() {
                [bound] => bound.parse::<i64>().ok(),
                _ => None,
            };
            match (operator.as_str(), bound) {
                ("In", _) => label.lists.push(listed.collect()),
                ("NotIn", _) => label.not.extend(listed),
                ("Exists", _) => label.present = true,
                ("DoesNotExist", _) => label.absent = true,
                ("Gt", Some(bound)) => label.above = label.above.max(Some(bound)),
                ("Lt", Some(bound)) => {
                    label.below = Some(label.below.map_or(bound, |other| other.min(bound)));
                }
                _ => label.impossible = true,
            }
        }
    }

    fn can_be(&self, exists: &dyn Fn(&str) -> bool) -> bool {
        self.0.iter().all(|(key, label)| {
            let is_free = |value: &str| *key != HOST_NAME || !exists(value);
            label.can_be(&is_free)
        })
    }
}

impl OfLabel<'_> {
    /// Whether one value, or none, is all that is wanted.
    fn can_be(&self, is_free: &dyn Fn(&str) -> bool) -> bool {
        let numbers = self.above.is_some() || self.below.is_some();
        if self.impossible {
            return false;
        }
        if self.absent {
            return !self.present && !numbers && self.lists.is_empty();
        }
        let shortest = self.lists.iter().min_by_key(|list| list.len());
        let Some(shortest) = shortest else {
            // Any word that is in no list, or any number between the bounds.
            let first = i128::from(self.above.unwrap_or(i64::MIN)) + 1;
            let last = i128::from(self.below.unwrap_or(i64::MAX)) - 1;
            return !numbers || first <= last;
        };
        shortest.iter().any(|value| {
            let number = value.parse::<i64>().ok();
            let within = !numbers
                || number.is_some_and(|number| {
                    self.above.is_none_or(|bound| number > bound)
                        && self.below.is_none_or(|bound| number < bound)
                });
            within
                && !self.not.contains(value)
                && is_free(value)
                && self.lists.iter().all(|list| list.contains(value))
        })
    }
}

#[cfg(test)]
#[allow(
    clippy::needless_pass_by_value,
    reason = "JSON literals read better without borrows"
)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::device::Identity;
    use crate::workload::pod::Taint;

    fn spec(spec: Value) -> PodSpec {
        serde_json::from_value(spec).unwrap()
    }

    fn requirement(key: &str, operator: &str, values: &[&str]) -> Requirement {
        Requirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: values.iter().map(ToString::to_string).collect(),
        }
    }

    fn terms(terms: Value) -> PodSpec {
        spec(json!({ "affinity": { "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms },
        } } }))
    }

    fn requires(key: &str, operator: &str, values: &[&str]) -> PodSpec {
        terms(json!([{ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] }]))
    }

    /// Nodes of the pool `big` in zones `a` and `b`, never old, with a number.
    fn pool() -> Selector {
        Selector {
            labels: [("pool".to_owned(), "big".to_owned())].into(),
            expressions: vec![
                requirement("zone", "In", &["a", "b"]),
                requirement("age", "NotIn", &["old"]),
                requirement("number", "Exists", &[]),
                requirement("spot", "DoesNotExist", &[]),
            ],
        }
    }

    #[test]
    fn labels_that_the_pool_leaves_open_can_be_any_and_others_are_as_it_says() {
        let could = |spec: &PodSpec| labelled(&pool(), spec, &|name| name == "gpu-1");
        assert!(could(&spec(json!({}))));
        for (selector, can_be) in [
            (json!({"pool": "big"}), true),
            (json!({"pool": "small"}), false),
            (json!({"zone": "b", "unheard": "of"}), true),
            (json!({"zone": "c"}), false),
            (json!({"age": "new"}), true),
            (json!({"age": "old"}), false),
            (json!({"number": "7"}), true),
            (json!({"spot": "true"}), false),
            // A new node is none of those that are there.
            (json!({"kubernetes.io/hostname": "gpu-1"}), false),
            (json!({"kubernetes.io/hostname": "gpu-2"}), true),
        ] {
            assert_eq!(
                could(&spec(json!({"nodeSelector": selector}))),
                can_be,
                "{selector}"
            );
        }
        for (key, operator, values, can_be) in [
            ("zone", "In", vec!["c", "b"], true),
            ("zone", "NotIn", vec!["a"], true),
            ("zone", "NotIn", vec!["a", "b"], false),
            ("zone", "DoesNotExist", vec![], false),
            ("age", "DoesNotExist", vec![], true),
            ("age", "In", vec!["old"], false),
            ("spot", "Exists", vec![], false),
            ("spot", "DoesNotExist", vec![], true),
            ("number", "Gt", vec!["5"], true),
            ("zone", "Gt", vec!["5"], false),
            ("spot", "Lt", vec!["5"], false),
            ("number", "Gt", vec!["9223372036854775807"], false),
            ("number", "Lt", vec!["-9223372036854775808"], false),
            ("number", "Gt", vec!["five"], false),
            ("number", "Near", vec!["5"], false),
            ("kubernetes.io/hostname", "NotIn", vec!["gpu-1"], true),
            ("kubernetes.io/hostname", "In", vec!["gpu-1"], false),
        ] {
            assert_eq!(
                could(&requires(key, operator, &values)),
                can_be,
                "{key} {operator} {values:?}"
            );
        }
        let between = |low: &str, high: &str| {
            could(&terms(json!([{"matchExpressions": [
                {"key": "number", "operator": "Gt", "values": [low]},
                {"key": "number", "operator": "Lt", "values": [high]},
            ]}])))
        };
        assert!(between("5", "7") && !between("5", "6"));
    }

    #[test]
    fn one_term_of_several_is_enough_and_a_term_of_nothing_matches_nothing() {
        let could = |list: Value| labelled(&pool(), &terms(list), &|name| name == "gpu-1");
        let zone =
            |zone: &str| json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]});
        assert!(could(json!([zone("c"), zone("a")])));
        assert!(!could(json!([zone("c")])) && !could(json!([{}])) && !could(json!([])));
        let named = |operator: &str, name: &str| json!([{"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]}]}]);
        assert!(could(named("NotIn", "gpu-1")) && could(named("In", "gpu-9")));
        assert!(!could(named("In", "gpu-1")) && !could(named("Exists", "gpu-9")));
    }

    #[test]
    fn a_newcomer_has_a_name_of_its_own_and_no_condition() {
        let taint = |key: &str| Taint {
            key: key.to_owned(),
            value: String::new(),
            effect: "NoSchedule".to_owned(),
        };
        let mut node = GpuNode {
            metadata: Identity {
                name: Arc::from("gpu-1"),
                uid: Box::from("u1"),
            },
            labels: Labels::from(
                &[("zone", "a"), (HOST_NAME, "gpu-1")]
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into(),
            ),
            taints: vec![taint("node.kubernetes.io/disk-pressure")],
            cordoned: true,
            ready: false,
            pools: Vec::new(),
            notes: Vec::new(),
            advertised: crate::device::Advertised::default(),
        };
        assert!(like(&node, &spec(json!({"nodeSelector": {"zone": "a"}}))));
        assert!(!like(&node, &spec(json!({"nodeSelector": {"zone": "b"}}))));
        assert!(!like(&node, &spec(json!({"nodeSelector": {HOST_NAME: "gpu-1"}}))));
        assert!(!like(&node, &spec(json!({"nodeName": "gpu-1"}))));
        assert!(like(&node, &requires(HOST_NAME, "NotIn", &["gpu-1"])));
        assert!(like(&node, &requires(HOST_NAME, "Exists", &[])));
        node.taints.push(taint("dedicated"));
        assert!(!like(&node, &spec(json!({}))));
        assert!(like(
            &node,
            &spec(json!({"tolerations": [{"key": "dedicated", "operator": "Exists"}]}))
        ));
    }
}
