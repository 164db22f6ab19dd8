use proptest::prelude::*;

use super::*;
use crate::finding::{Code, Severity};
use crate::policy::spec::LabelOperator;
use crate::policy::{
    DefaultFraction, Enforcement, Evidence, Matches, MissingFacts, Mode, MpsMemoryLimit, MpsRules, PerSlot,
    Selector, ThreadPercentage, UnknownRule,
};
use crate::units::{Mib, Share};
use crate::workload::pod::Requirement;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn pod(labels: &Labels) -> PodView<'_> {
    PodView::labelled(labels)
}

/// A node with these labels and no devices.
#[allow(
    clippy::unnecessary_wraps,
    reason = "every caller has a node that may be missing"
)]
fn on(labels: &Labels) -> Option<NodeView<'_>> {
    Some(NodeView::new(labels, &[]))
}

fn set_of(specs: &[(&str, &str)]) -> PolicySet {
    let document = |(name, spec): &(&str, &str)| {
        format!(
            "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: {name}}}\nspec: {spec}\n"
        )
    };
    let text = specs.iter().map(document).collect::<Vec<_>>().join("---\n");
    PolicySet::from_documents(file::parse(&text, "test").unwrap()).unwrap()
}

/// The values of the design's built-in default, one by one.
#[test]
fn the_built_in_default_has_the_documented_values() {
    let set = PolicySet::built_in();
    assert_eq!(set.names().collect::<Vec<_>>(), ["built-in-default"]);
    let policy = set.for_device(&Labels::new());
    assert_eq!(policy.priority, -1000);
    assert_eq!(policy.matches, Matches::default());
    assert_eq!(policy.mode, Mode::Enforce);
    assert_eq!(policy.device.budget, Share::from_ppm(900_000));
    assert_eq!(policy.device.reserve.fraction, Share::from_ppm(15_000));
    assert_eq!(policy.device.reserve.at_least, Mib::new(512));
    assert_eq!(policy.device.reserve.mig, Mib::new(256));
    assert_eq!(policy.device.per_slot, PerSlot::None);
    assert_eq!(
        policy.device.evidence,
        [Evidence::Observed, Evidence::Spread, Evidence::Any]
    );
    assert_eq!(policy.enforcement, Enforcement::Counted);
    assert_eq!(policy.missing_facts, MissingFacts::Exclusive);
    assert!(policy.growth.is_empty() && policy.engines.is_empty());
    let overheads = &policy.overheads;
    let vllm = [
        overheads.vllm_before_0_7,
        overheads.vllm_before_0_20,
        overheads.vllm_since_0_20,
        overheads.vllm_eager_before_0_20,
        overheads.vllm_unknown_version,
        overheads.vllm_tp2,
        overheads.vllm_tp4,
        overheads.vllm_tp8,
    ];
    assert_eq!(vllm.map(Mib::get), [2560, 1664, 640, 640, 1664, 1600, 1600, 2200]);
    assert_eq!([overheads.sglang, overheads.other].map(Mib::get), [2048, 640]);
    let unknown = [
        &policy.unknown.exclusive,
        &policy.unknown.time_sliced,
        &policy.unknown.mps,
        &policy.unknown.mig,
    ];
    assert_eq!(
        unknown,
        [
            &UnknownRule::Admit,
            &UnknownRule::Deny,
            &UnknownRule::ClientLimit,
            &UnknownRule::Admit
        ]
    );
    assert_eq!(policy.default_fraction, DefaultFraction::None);
    assert!(!policy.toolkit_limit);
    assert!(policy.trusted_systems.is_empty() && policy.trusted_namespaces.is_empty());
    assert_eq!(
        policy.mps,
        MpsRules {
            memory_limit: MpsMemoryLimit::Footprint,
            thread_percentage: ThreadPercentage::FairShare,
            replaces: false,
        }
    );
    assert!(policy.read_config_maps);
    assert_eq!(policy.messages, crate::policy::Messages::default());
    for code in Code::ALL {
        let by_unknown = matches!(code, Code::Vg102 | Code::Vg106);
        let listed = policy.severities.get(code).copied();
        assert_eq!(listed, (!by_unknown).then(|| code.default_severity()), "{code}");
    }
}

#[test]
fn higher_priority_wins_then_the_name_and_the_built_in_default_is_last() {
    let set = set_of(&[
        ("zebra", "{priority: 5}"),
        ("b", "{}"),
        ("low", "{priority: -5000}"),
        ("a", "{}"),
        ("top", "{priority: 10, match: {pods: {matchLabels: {app: x}}}}"),
    ]);
    assert_eq!(
        set.names().collect::<Vec<_>>(),
        ["top", "zebra", "a", "b", "low", "built-in-default"]
    );
    let none = Labels::new();
    assert_eq!(
        set.for_pod(&none, pod(&labels(&[("app", "x")])), None).name,
        "top"
    );
    assert_eq!(set.for_pod(&none, pod(&none), None).name, "zebra");
    assert_eq!(set.for_device(&none).name, "zebra");
}

#[test]
fn what_a_policy_leaves_out_comes_from_the_built_in_default_only() {
    let set = set_of(&[
        (
            "first",
            "{priority: 2, mode: shadow, device: {reserve: {migMiB: 300}}, codes: {warning: [VG201]}}",
        ),
        (
            "second",
            "{priority: 1, device: {budget: 0.5}, overheadMiB: {other: 1}}",
        ),
    ]);
    let policy = set.for_device(&Labels::new());
    assert_eq!(policy.name, "first");
    assert_eq!(policy.device.budget, Share::from_ppm(900_000));
    assert_eq!(policy.device.reserve.mig, Mib::new(300));
    assert_eq!(policy.device.reserve.at_least, Mib::new(512));
    assert_eq!(policy.overheads.other, Mib::new(640));
    assert_eq!(policy.severity(Code::Vg201), Severity::Warning);
    assert_eq!(policy.severity(Code::Vg205), Severity::Error);
}

#[test]
fn devices_follow_policies_that_select_by_nodes_alone() {
    let set = set_of(&[
        (
            "team",
            "{priority: 9, match: {namespaces: {matchLabels: {team: a}}, nodes: {matchLabels: {pool: p}}}}",
        ),
        ("pods", "{priority: 8, match: {pods: {matchLabels: {app: x}}}}"),
        (
            "pool",
            "{priority: 7, match: {nodes: {matchLabels: {pool: p}}}, device: {budget: 0.8}}",
        ),
        (
            "cel",
            "{priority: 99, match: {expression: \"pod.labels.app == 'y' || false\", pods: {matchLabels: {cel: here}}}, \
             mode: shadow}",
        ),
    ]);
    let (team, app, pool) = (
        labels(&[("team", "a")]),
        labels(&[("app", "x")]),
        labels(&[("pool", "p")]),
    );
    let none = Labels::new();
    assert!(set.depends_on_nodes());
    assert_eq!(set.for_device(&pool).name, "pool");
    assert_eq!(set.for_device(&none).name, "built-in-default");
    assert_eq!(set.for_pod(&team, pod(&none), on(&pool)).name, "team");
    assert_eq!(set.for_pod(&team, pod(&none), None).name, "built-in-default");
    assert_eq!(set.for_pod(&none, pod(&app), on(&pool)).name, "pods");
    assert_eq!(set.for_pod(&none, pod(&none), on(&pool)).name, "pool");
    assert_eq!(set.for_pod(&none, pod(&none), on(&none)).name, "built-in-default");
}

#[test]
fn expressions_select_pods_behind_the_selectors() {
    let set = set_of(&[
        (
            "asked",
            "{priority: 9, match: {pods: {matchLabels: {app: x}}, expression: \"pod.labels.tier == 'gold'\"}}",
        ),
        (
            "nodes",
            "{priority: 8, match: {expression: \"node.labels.pool == 'p'\"}}",
        ),
    ]);
    let none = Labels::new();
    let name = |pairs: &[(&str, &str)], node: Option<&Labels>| {
        let labels = labels(pairs);
        let (policy, failed) = set.for_pod_told(&none, pod(&labels), node.and_then(on));
        (policy.name.clone(), failed)
    };
    let applies = |name: &str| (name.to_owned(), None);
    assert_eq!(name(&[("app", "x"), ("tier", "gold")], None), applies("asked"));
    assert_eq!(
        name(&[("app", "x"), ("tier", "iron")], None),
        applies("built-in-default")
    );
    // The selectors come first, so that an expression may build on them.
    assert_eq!(name(&[("app", "y")], None), applies("built-in-default"));
    let why = "pod.labels has no \"tier\"; ask \"tier\" in pod.labels first".to_owned();
    assert_eq!(name(&[("app", "x")], None), ("asked".to_owned(), Some(why)));
    let (here, there) = (labels(&[("pool", "p")]), labels(&[("pool", "q")]));
    assert_eq!(name(&[], Some(&here)), applies("nodes"));
    assert_eq!(name(&[], Some(&there)), applies("built-in-default"));
    let why = "node.labels has no \"pool\"; ask \"pool\" in node.labels first".to_owned();
    assert_eq!(name(&[], Some(&none)), ("nodes".to_owned(), Some(why)));
    assert!(set.depends_on_nodes());
    // Nodes that differ in what is asked are of different kinds, and those that differ otherwise are not.
    let other = labels(&[("pool", "p"), ("zone", "z")]);
    assert_eq!(set.node_signature(&here), set.node_signature(&other));
    assert_ne!(set.node_signature(&here), set.node_signature(&there));
    assert_ne!(set.node_signature(&here), set.node_signature(&none));
    assert_eq!(set.for_device(&here).name, "built-in-default");
    // Some pod may be under it, so nodes advertise by it.
    let milder = set_of(&[
        ("all", "{priority: 1, mode: warn}"),
        (
            "few",
            "{priority: 2, match: {expression: \"pod.namespace == 'a'\"}}",
        ),
    ]);
    assert!(milder.counts_on(&none));
}

#[test]
fn engine_rules_are_those_of_the_pods_policy() {
    let set = set_of(&[(
        "ours",
        "{match: {namespaces: {matchLabels: {team: a}}}, engines: [{images: [r.example/llm/*], engine: vllm, version: \"0.11.0\", \
         entrypoint: [vllm, serve], variables: {GPU_MEMORY_UTILIZATION: --gpu-memory-utilization}}]}",
    )]);
    let none = Labels::new();
    assert!(set.engine_rules(&none, pod(&none)).is_empty());
    let rules = set.engine_rules(&labels(&[("team", "a")]), pod(&none));
    assert_eq!(rules.len(), 1);
    assert_eq!(rules[0].engine.as_deref(), Some("vllm"));
    assert_eq!(rules[0].version.as_deref(), Some("0.11.0"));
    assert_eq!(rules[0].entrypoint, ["vllm", "serve"]);
    assert_eq!(
        rules[0].variables["GPU_MEMORY_UTILIZATION"],
        "--gpu-memory-utilization"
    );
}

#[test]
fn policies_are_shared_and_not_copied() {
    let set = PolicySet::built_in();
    let none = Labels::new();
    assert!(Arc::ptr_eq(
        &set.for_device(&none),
        &PolicySet::default().for_pod(&none, pod(&none), None)
    ));
}

#[test]
fn selectors_mean_what_kubernetes_means() {
    let requirement = |key: &str, operator: LabelOperator, values: &[&str]| Requirement {
        key: key.to_owned(),
        operator: operator.as_str().to_owned(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    };
    let here = labels(&[("tier", "gpu"), ("empty", "")]);
    for (key, operator, values, holds) in [
        ("tier", LabelOperator::In, &["gpu", "cpu"][..], true),
        ("tier", LabelOperator::In, &["cpu"], false),
        ("gone", LabelOperator::In, &["gpu"], false),
        ("tier", LabelOperator::NotIn, &["gpu"], false),
        ("tier", LabelOperator::NotIn, &["cpu"], true),
        ("gone", LabelOperator::NotIn, &["gpu"], true),
        ("empty", LabelOperator::Exists, &[], true),
        ("gone", LabelOperator::Exists, &[], false),
        ("empty", LabelOperator::DoesNotExist, &[], false),
        ("gone", LabelOperator::DoesNotExist, &[], true),
    ] {
        let selector = Selector {
            labels: Labels::new(),
            expressions: vec![requirement(key, operator, values)],
        };
        assert_eq!(selector.matches(&here), holds, "{key} {operator:?} {values:?}");
    }
    assert!(Selector::default().matches(&here));
    assert!(
        Selector {
            labels: labels(&[("tier", "gpu")]),
            expressions: Vec::new()
        }
        .matches(&here)
    );
    assert!(
        !Selector {
            labels: labels(&[("tier", "gpu"), ("gone", "")]),
            expressions: Vec::new()
        }
        .matches(&here)
    );
    let unknown = Requirement {
        key: "tier".to_owned(),
        operator: "Gt".to_owned(),
        values: vec!["0".to_owned()],
    };
    assert!(
        !Selector {
            labels: Labels::new(),
            expressions: vec![unknown]
        }
        .matches(&here)
    );
}

proptest! {
    /// The policy that is found matches, and none that comes before it does, however the policies are ordered.
    #[test]
    fn the_first_that_matches_applies(
        policies in prop::collection::vec((-3_i64..3, "[a-c]{1,3}", prop::option::of(0_u8..3), prop::option::of(0_u8..3)), 0..8),
        pod in 0_u8..3,
        node in prop::option::of(0_u8..3),
    ) {
        let selector = |value: u8| Selector { labels: labels(&[("k", &value.to_string())]), expressions: Vec::new() };
        let mut named = BTreeMap::new();
        for (priority, name, pods, nodes) in policies {
            let mut policy = (*BUILT_IN).as_ref().clone();
            policy.priority = priority;
            policy.name.clone_from(&name);
            policy.matches = Matches { pods: pods.map(selector), nodes: nodes.map(selector), ..Matches::default() };
            named.insert(name, policy);
        }
        let set = PolicySet::new(named.values().cloned().collect());
        let pod = labels(&[("k", &pod.to_string())]);
        let node = node.map(|node| labels(&[("k", &node.to_string())]));
        let none = Labels::new();
        let expected = named
            .values()
            .filter(|policy| policy.matches.pods.as_ref().is_none_or(|pods| pods.matches(&pod)))
            .filter(|policy| policy.matches.nodes.as_ref().is_none_or(|nodes| node.as_ref().is_some_and(|node| nodes.matches(node))))
            .max_by_key(|policy| (policy.priority, std::cmp::Reverse(policy.name.clone())))
            .map_or("built-in-default", |policy| policy.name.as_str());
        prop_assert_eq!(&set.for_pod(&none, self::pod(&pod), node.as_ref().and_then(on)).name, expected);
        prop_assert!(set.for_device(node.as_ref().unwrap_or(&none)).matches.by_nodes_alone());
    }

    /// Nor does any text at all.
    #[test]
    fn no_other_text_does_either(text in "\\PC{0,80}") {
        if let Err(errors) = file::parse(&text, "t") {
            prop_assert!(!errors.0.is_empty());
        }
    }

    /// Whatever the text, reading it ends with documents or with errors that have a place.
    #[test]
    fn no_text_makes_the_reader_fail(text in "(apiVersion: vramgate.io/v1alpha1\n|kind: GpuSharingPolicy\n|metadata: \\{name: a\\}\n|spec: |[{}\\[\\],:\"'&*|>-]|mode|device: \\{budget: |0\\.9|é|\n| ){0,30}") {
        if let Err(errors) = file::parse(&text, "t") {
            prop_assert!(!errors.0.is_empty());
        }
    }
}
