//! Which nodes a pod can stand on, as kube-scheduler's filters decide it from the pod's and the node's own fields.
//!
//! Three answers, because "no node now" and "no node ever" are different verdicts: a cordoned or NotReady node counts as
//! one that could serve the pod later. Nothing is allocated, so thousands of nodes can be asked for each review.

use std::fmt;

use crate::device::GpuNode;
use crate::workload::pod::{NodeSelectorTerm, PodSpec, Requirement, Taint, Toleration};

/// Taint of a cordoned node.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Taint of a node whose kubelet reports not ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// What the taints that Kubernetes itself puts on and takes off by a node's condition begin with (`not-ready`,
/// `unreachable`, `disk-pressure`, …).
const OF_CONDITIONS: [&str; 2] = ["node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"];

/// Whether a node can take a pod, devices aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit<'a> {
    /// It can.
    Now,
    /// It cannot now, but could serve the pod later.
    Later(Wait<'a>),
    /// It never can, as pod and node are written.
    Never(Mismatch<'a>),
}

/// What a pod would have to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait<'a> {
    /// The node is cordoned.
    Cordoned,
    /// The node's kubelet does not report ready.
    NotReady,
    /// Kubernetes has put this taint on the node because of a condition.
    Condition(&'a Taint),
}

/// Why a node can never take a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch<'a> {
    /// `spec.nodeName` names another node.
    NodeName(&'a str),
    /// The node lacks a label of `spec.nodeSelector`, or has it with another value.
    NodeSelector(&'a str, &'a str),
    /// No term of the required node affinity matches.
    Affinity,
    /// A taint that the pod does not tolerate.
    Taint(&'a Taint),
}

impl Fit<'_> {
    /// Whether the node could ever serve the pod.
    #[must_use]
    pub const fn is_possible(self) -> bool {
        !matches!(self, Self::Never(_))
    }
}

#[cfg(test)]
thread_local! {
    static ASKED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How often this thread has held a node against a pod.
#[cfg(test)]
pub(crate) fn asked() -> usize {
    ASKED.get()
}

/// Whether `node` can take a pod of `spec`.
///
/// A pod that names its node skips the scheduler: cordon and `NoSchedule` taints do not hold it back, but its node
/// selector, its affinity and `NoExecute` taints do, as the kubelet checks them.
#[must_use]
pub fn node_matches<'a>(spec: &'a PodSpec, node: &'a GpuNode) -> Fit<'a> {
    #[cfg(test)]
    ASKED.with(|asked| asked.set(asked.get() + 1));
    let named = spec.node_name.as_deref().filter(|name| !name.is_empty());
    if let Some(name) = named
        && name != node.name()
    {
        return Fit::Never(Mismatch::NodeName(name));
    }
    let labels = &node.labels;
    if let Some((key, value)) = spec
        .node_selector
        .iter()
        .find(|(key, value)| labels.get(key) != Some(value))
    {
        return Fit::Never(Mismatch::NodeSelector(key, value));
    }
    if let Some(mut terms) = required_terms(spec)
        && !terms.any(|term| term_matches(term, node))
    {
        return Fit::Never(Mismatch::Affinity);
    }
    let mut wait = None;
    for taint in node
        .taints
        .iter()
        .filter(|taint| binds(spec, taint) != Bound::Not && !is_tolerated(spec, taint))
    {
        if !is_of_condition(taint) {
            return Fit::Never(Mismatch::Taint(taint));
        }
        wait.get_or_insert(match taint.key.as_str() {
            UNSCHEDULABLE => Wait::Cordoned,
            NOT_READY => Wait::NotReady,
            _ => Wait::Condition(taint),
        });
    }
    // Spec and condition can be ahead of the taints that follow from them.
    if node.cordoned && named.is_none() && !tolerates_schedule_taint(spec, UNSCHEDULABLE) {
        return Fit::Later(Wait::Cordoned);
    }
    if !node.ready && !tolerates_schedule_taint(spec, NOT_READY) {
        return Fit::Later(Wait::NotReady);
    }
    wait.map_or(Fit::Now, Fit::Later)
}

/// The alternatives of which the node has to match one; `None` where the pod requires none.
pub(crate) fn required_terms(spec: &PodSpec) -> Option<impl Iterator<Item = &NodeSelectorTerm>> {
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity
        .required_during_scheduling_ignored_during_execution
        .as_ref()?;
    Some(required.node_selector_terms.iter())
}

/// How a taint holds a pod off that does not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// It does not.
    Not,
    /// While the node has the condition that it tells of.
    Passing,
    /// For as long as it is there.
    Lasting,
}

/// See [`Bound`]. A pod that names its node skips the scheduler.
pub(crate) fn binds(spec: &PodSpec, taint: &Taint) -> Bound {
    let named = spec.node_name.as_deref().is_some_and(|name| !name.is_empty());
    match taint.effect.as_str() {
        "NoExecute" => {}
        "NoSchedule" if !named => {}
        _ => return Bound::Not,
    }
    if is_of_condition(taint) {
        Bound::Passing
    } else {
        Bound::Lasting
    }
}

/// A term with neither expressions nor fields matches no node.
fn term_matches(term: &NodeSelectorTerm, node: &GpuNode) -> bool {
    let labels = &node.labels;
    (!term.match_expressions.is_empty() || !term.match_fields.is_empty())
        && term
            .match_expressions
            .iter()
            .all(|wanted| label_matches(wanted, labels.get(&wanted.key)))
        && term.match_fields.iter().all(|wanted| field_matches(wanted, node))
}

/// One requirement on a label. An operator that does not exist matches nothing, as it does in the scheduler.
#[must_use]
pub(crate) fn label_matches(wanted: &Requirement, value: Option<&str>) -> bool {
    let is_listed = |value: &str| wanted.values.iter().any(|listed| listed == value);
    match wanted.operator.as_str() {
        "In" => value.is_some_and(is_listed),
        "NotIn" => !value.is_some_and(is_listed),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(value, &wanted.values).is_some_and(std::cmp::Ordering::is_gt),
        "Lt" => compare(value, &wanted.values).is_some_and(std::cmp::Ordering::is_lt),
        _ => false,
    }
}

/// A label against the one integer of `Gt` and `Lt`; `None` where either is no integer.
fn compare(value: Option<&str>, values: &[String]) -> Option<std::cmp::Ordering> {
    let [bound] = values else { return None };
    let value: i64 = value?.parse().ok()?;
    Some(value.cmp(&bound.parse().ok()?))
}

/// `metadata.name` is the only field, `In` and `NotIn` with one value the only operators.
fn field_matches(wanted: &Requirement, node: &GpuNode) -> bool {
    let [name] = wanted.values.as_slice() else {
        return false;
    };
    wanted.key == "metadata.name"
        && match wanted.operator.as_str() {
            "In" => name == node.name(),
            "NotIn" => name != node.name(),
            _ => false,
        }
}

pub(crate) fn is_of_condition(taint: &Taint) -> bool {
    OF_CONDITIONS.iter().any(|prefix| taint.key.starts_with(prefix))
}

pub(crate) fn is_tolerated(spec: &PodSpec, taint: &Taint) -> bool {
    spec.tolerations
        .iter()
        .any(|toleration| tolerates(toleration, &taint.key, &taint.value, &taint.effect))
}

fn tolerates_schedule_taint(spec: &PodSpec, key: &str) -> bool {
    spec.tolerations
        .iter()
        .any(|toleration| tolerates(toleration, key, "", "NoSchedule"))
}

/// An empty effect is every effect, an empty key every key. `Gt` and `Lt` compare the taint's value with the
/// toleration's, as integers.
fn tolerates(toleration: &Toleration, key: &str, value: &str, effect: &str) -> bool {
    (toleration.effect.is_empty() || toleration.effect == effect)
        && (toleration.key.is_empty() || toleration.key == key)
        && match toleration.operator.as_str() {
            "" | "Equal" => toleration.value == value,
            "Exists" => true,
            "Gt" => compare(Some(value), std::slice::from_ref(&toleration.value))
                .is_some_and(std::cmp::Ordering::is_gt),
            "Lt" => compare(Some(value), std::slice::from_ref(&toleration.value))
                .is_some_and(std::cmp::Ordering::is_lt),
            _ => false,
        }
}

impl fmt::Display for Wait<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cordoned => f.write_str("it is cordoned"),
            Self::NotReady => f.write_str("it is not ready"),
            Self::Condition(taint) => write!(f, "it has the taint {}:{}", taint.key, taint.effect),
        }
    }
}

impl fmt::Display for Mismatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeName(name) => write!(f, "the pod names node {name}"),
            Self::NodeSelector(key, value) => {
                write!(f, "it lacks the label {key}={value} of the node selector")
            }
            Self::Affinity => f.write_str("no term of the required node affinity matches it"),
            Self::Taint(taint) if taint.value.is_empty() => {
                write!(
                    f,
                    "the pod does not tolerate its taint {}:{}",
                    taint.key, taint.effect
                )
            }
            Self::Taint(taint) => {
                write!(
                    f,
                    "the pod does not tolerate its taint {}={}:{}",
                    taint.key, taint.value, taint.effect
                )
            }
        }
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
    use crate::device::{Identity, Labels};

    fn node() -> GpuNode {
        let labels = [("zone", "a"), ("nvidia.com/gpu.count", "8"), ("empty", "")];
        GpuNode {
            metadata: Identity {
                name: "node-1".into(),
                ..Identity::default()
            },
            labels: Labels::from(
                &labels
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into(),
            ),
            taints: Vec::new(),
            cordoned: false,
            ready: true,
            pools: Vec::new(),
            notes: Vec::new(),
            advertised: crate::device::Advertised::default(),
        }
    }

    fn spec(spec: Value) -> PodSpec {
        serde_json::from_value(spec).unwrap()
    }

    fn taint(key: &str, value: &str, effect: &str) -> Taint {
        Taint {
            key: key.to_owned(),
            value: value.to_owned(),
            effect: effect.to_owned(),
        }
    }

    fn terms(terms: Value) -> PodSpec {
        spec(json!({ "affinity": { "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms },
        } } }))
    }

    /// Whether a node affinity of this one requirement lets the pod onto the node.
    fn requires(list: &str, key: &str, operator: &str, values: Value) -> bool {
        let pod = terms(json!([{ list: [{ "key": key, "operator": operator, "values": values }] }]));
        match node_matches(&pod, &node()) {
            Fit::Now => true,
            Fit::Never(Mismatch::Affinity) => false,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_plain_pod_goes_to_any_plain_node() {
        assert_eq!(node_matches(&spec(json!({})), &node()), Fit::Now);
        let preferred = json!({ "affinity": { "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1, "preference": {} }],
        } } });
        assert_eq!(node_matches(&spec(preferred), &node()), Fit::Now);
    }

    #[test]
    fn node_selectors_are_exact() {
        let fit =
            |selector: Value| node_matches(&spec(json!({ "nodeSelector": selector })), &node()).is_possible();
        assert!(fit(json!({ "zone": "a", "nvidia.com/gpu.count": "8" })));
        assert!(fit(json!({ "empty": "" })));
        assert!(!fit(json!({ "zone": "b" })));
        assert!(!fit(json!({ "zone": "a", "missing": "" })));
        let pod = spec(json!({ "nodeSelector": { "zone": "b" } }));
        let node = node();
        assert_eq!(
            node_matches(&pod, &node),
            Fit::Never(Mismatch::NodeSelector("zone", "b"))
        );
    }

    #[test]
    fn operators_on_labels() {
        for (key, operator, values, fits) in [
            ("zone", "In", json!(["b", "a"]), true),
            ("zone", "In", json!(["b"]), false),
            ("zone", "In", json!([]), false),
            ("missing", "In", json!([""]), false),
            ("zone", "NotIn", json!(["b"]), true),
            ("zone", "NotIn", json!(["a"]), false),
            ("missing", "NotIn", json!(["a"]), true),
            ("empty", "Exists", json!([]), true),
            ("missing", "Exists", json!([]), false),
            ("zone", "DoesNotExist", json!([]), false),
            ("missing", "DoesNotExist", json!([]), true),
            ("nvidia.com/gpu.count", "Gt", json!(["7"]), true),
            ("nvidia.com/gpu.count", "Gt", json!(["8"]), false),
            ("nvidia.com/gpu.count", "Lt", json!(["9"]), true),
            ("nvidia.com/gpu.count", "Lt", json!(["8"]), false),
            ("nvidia.com/gpu.count", "Gt", json!(["-1"]), true),
            ("nvidia.com/gpu.count", "Gt", json!(["seven"]), false),
            ("nvidia.com/gpu.count", "Gt", json!(["1", "2"]), false),
            ("zone", "Gt", json!(["1"]), false),
            ("missing", "Lt", json!(["1"]), false),
            ("zone", "in", json!(["a"]), false),
        ] {
            assert_eq!(
                requires("matchExpressions", key, operator, values.clone()),
                fits,
                "{key} {operator} {values}"
            );
        }
    }

    #[test]
    fn fields_know_the_name_alone() {
        for (key, operator, values, fits) in [
            ("metadata.name", "In", json!(["node-1"]), true),
            ("metadata.name", "In", json!(["node-2"]), false),
            ("metadata.name", "NotIn", json!(["node-2"]), true),
            ("metadata.name", "NotIn", json!(["node-1"]), false),
            ("metadata.name", "In", json!(["node-1", "node-2"]), false),
            ("metadata.name", "Exists", json!([]), false),
            ("metadata.namespace", "In", json!(["node-1"]), false),
        ] {
            assert_eq!(
                requires("matchFields", key, operator, values.clone()),
                fits,
                "{key} {operator} {values}"
            );
        }
    }

    #[test]
    fn one_term_must_match_in_full() {
        let is = |value: &str| json!({ "key": "zone", "operator": "In", "values": [value] });
        let named = json!({ "key": "metadata.name", "operator": "In", "values": ["node-1"] });
        let fit = |list: Value| node_matches(&terms(list), &node()).is_possible();
        assert!(fit(
            json!([{ "matchExpressions": [is("b")] }, { "matchExpressions": [is("a")] }])
        ));
        assert!(fit(
            json!([{ "matchExpressions": [is("a")], "matchFields": [named] }])
        ));
        assert!(!fit(
            json!([{ "matchExpressions": [is("b")], "matchFields": [named] }])
        ));
        assert!(!fit(json!([{ "matchExpressions": [is("a"), is("b")] }])));
        assert!(!fit(json!([{}])), "an empty term matches nothing");
        assert!(!fit(json!([])), "no term matches nothing");
    }

    #[test]
    fn tolerations() {
        let gpu = taint("nvidia.com/gpu", "present", "NoSchedule");
        for (toleration, fits) in [
            (
                json!({ "key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule" }),
                true,
            ),
            (json!({ "key": "nvidia.com/gpu", "operator": "Exists" }), true),
            (
                json!({ "key": "nvidia.com/gpu", "operator": "Equal", "value": "present" }),
                true,
            ),
            (json!({ "key": "nvidia.com/gpu", "value": "present" }), true),
            (json!({ "operator": "Exists" }), true),
            (json!({ "operator": "Exists", "effect": "NoSchedule" }), true),
            (json!({ "operator": "Exists", "effect": "NoExecute" }), false),
            (json!({ "key": "nvidia.com/gpu" }), false),
            (json!({ "key": "nvidia.com/gpu", "value": "absent" }), false),
            (json!({ "key": "nvidia.com", "operator": "Exists" }), false),
            (json!({ "key": "nvidia.com/gpu", "operator": "exists" }), false),
        ] {
            let mut node = node();
            node.taints = vec![gpu.clone()];
            let pod = spec(json!({ "tolerations": [{ "key": "other", "operator": "Exists" }, toleration] }));
            let wanted = if fits {
                Fit::Now
            } else {
                Fit::Never(Mismatch::Taint(&gpu))
            };
            assert_eq!(node_matches(&pod, &node), wanted, "{toleration}");
        }
    }

    #[test]
    fn tolerations_can_compare_integers() {
        let fits = |operator: &str, value: &str| {
            let mut node = node();
            node.taints = vec![taint("sla", "950", "NoSchedule")];
            let toleration = json!({ "key": "sla", "operator": operator, "value": value });
            node_matches(&spec(json!({ "tolerations": [toleration] })), &node).is_possible()
        };
        assert!(fits("Gt", "900") && !fits("Gt", "950") && fits("Lt", "951") && !fits("Lt", "x"));
    }

    #[test]
    fn preferences_hold_nobody_back_and_evictions_do() {
        let plain = spec(json!({}));
        let mut node = node();
        node.taints = vec![taint("a", "", "PreferNoSchedule")];
        assert_eq!(node_matches(&plain, &node), Fit::Now);
        node.taints.push(taint("b", "", "NoExecute"));
        assert_eq!(
            node_matches(&plain, &node),
            Fit::Never(Mismatch::Taint(&node.taints[1]))
        );
    }

    #[test]
    fn a_cordoned_or_not_ready_node_is_one_for_later() {
        let plain = spec(json!({}));
        let mut node = node();
        node.cordoned = true;
        assert_eq!(node_matches(&plain, &node), Fit::Later(Wait::Cordoned));
        node.cordoned = false;
        node.taints = vec![taint(UNSCHEDULABLE, "", "NoSchedule")];
        assert_eq!(node_matches(&plain, &node), Fit::Later(Wait::Cordoned));
        node.taints = vec![taint(NOT_READY, "", "NoExecute")];
        assert_eq!(node_matches(&plain, &node), Fit::Later(Wait::NotReady));
        node.taints = vec![taint("node.kubernetes.io/unreachable", "", "NoSchedule")];
        assert_eq!(
            node_matches(&plain, &node),
            Fit::Later(Wait::Condition(&node.taints[0]))
        );
        node.taints.clear();
        node.ready = false;
        assert_eq!(node_matches(&plain, &node), Fit::Later(Wait::NotReady));
        assert!(node_matches(&plain, &node).is_possible());
    }

    #[test]
    fn what_never_fits_weighs_more_than_what_waits() {
        let plain = spec(json!({}));
        let mut node = node();
        node.cordoned = true;
        node.taints = vec![
            taint(UNSCHEDULABLE, "", "NoSchedule"),
            taint("team", "b", "NoSchedule"),
        ];
        assert_eq!(
            node_matches(&plain, &node),
            Fit::Never(Mismatch::Taint(&node.taints[1]))
        );
    }

    #[test]
    fn daemon_set_pods_go_to_their_cordoned_node() {
        let pod = spec(json!({
            "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
                { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["node-1"] }] },
            ] } } },
            "tolerations": [{ "key": UNSCHEDULABLE, "operator": "Exists", "effect": "NoSchedule" }],
        }));
        let mut cordoned = node();
        cordoned.cordoned = true;
        cordoned.taints = vec![taint(UNSCHEDULABLE, "", "NoSchedule")];
        assert_eq!(node_matches(&pod, &cordoned), Fit::Now);
        let mut other = node();
        other.metadata.name = "node-2".into();
        assert_eq!(node_matches(&pod, &other), Fit::Never(Mismatch::Affinity));
    }

    #[test]
    fn a_pod_that_names_its_node_skips_the_scheduler() {
        let pod = spec(json!({ "nodeName": "node-1" }));
        let mut node = node();
        node.cordoned = true;
        node.taints = vec![
            taint("nvidia.com/gpu", "", "NoSchedule"),
            taint(UNSCHEDULABLE, "", "NoSchedule"),
        ];
        assert_eq!(node_matches(&pod, &node), Fit::Now);
        node.taints.push(taint("maintenance", "", "NoExecute"));
        assert_eq!(
            node_matches(&pod, &node),
            Fit::Never(Mismatch::Taint(&node.taints[2]))
        );
        let elsewhere = spec(json!({ "nodeName": "node-2" }));
        assert_eq!(
            node_matches(&elsewhere, &node),
            Fit::Never(Mismatch::NodeName("node-2"))
        );
        let unset = spec(json!({ "nodeName": "" }));
        assert_eq!(node_matches(&unset, &self::node()), Fit::Now);
        let selecting = spec(json!({ "nodeName": "node-1", "nodeSelector": { "zone": "b" } }));
        assert_eq!(
            node_matches(&selecting, &node),
            Fit::Never(Mismatch::NodeSelector("zone", "b"))
        );
    }

    #[test]
    fn reasons_are_phrases() {
        assert_eq!(Wait::Cordoned.to_string(), "it is cordoned");
        assert_eq!(
            Mismatch::Taint(&taint("team", "b", "NoSchedule")).to_string(),
            "the pod does not tolerate its taint team=b:NoSchedule"
        );
        assert_eq!(
            Mismatch::NodeName("node-2").to_string(),
            "the pod names node node-2"
        );
    }
}
