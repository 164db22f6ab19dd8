//! Several nodes and a scheduler that counts memory.

use std::collections::BTreeMap;

use serde_json::json;

use crate::api::eventually;
use crate::manifests::{GpuNode, Pod};
use crate::scenario::{Scenario, counted};

/// Pods of 0.28 that a device's budget of 0.90 holds.
const PLACES_PER_NODE: usize = 3;

#[test]
fn s12_the_number_admitted_on_five_nodes_is_exact() {
    let s = Scenario::new("s12");
    let nodes = ["s12-n1", "s12-n2", "s12-n3", "s12-n4", "s12-n5"];
    for node in nodes {
        s.node(GpuNode::l40s(node).slots(8));
    }
    let pods: Vec<Pod> = (1..=17)
        .map(|number| Pod::vllm(&format!("pod-{number}"), "0.28"))
        .collect();
    let answers = s.create_at_once(&pods);
    let answers: Vec<_> = answers
        .into_iter()
        .map(|answer| answer.expect("the API server answers"))
        .collect();
    let admitted = answers.iter().filter(|answer| answer.is_success()).count();
    assert_eq!(
        admitted,
        nodes.len() * PLACES_PER_NODE,
        "of 17 pods on five nodes with three places each"
    );
    for answer in answers.into_iter().filter(|answer| !answer.is_success()) {
        answer.denied("one of the two that are left", &["VG201"]);
    }
    s.wait_running(admitted, 30);
    s.create(&Pod::vllm("late", "0.28"))
        .denied("one more, when all are bound", &["VG201"]);

    let mut by_node: BTreeMap<String, usize> = BTreeMap::new();
    for pod in s.list() {
        assert_eq!(counted(&pod), Some(280_000), "{pod:#}");
        *by_node
            .entry(pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned())
            .or_default() += 1;
    }
    // The scheduler counts memory itself.
    let three_each: BTreeMap<String, usize> = nodes
        .iter()
        .map(|node| ((*node).to_owned(), PLACES_PER_NODE))
        .collect();
    assert_eq!(by_node, three_each);
    for node in nodes {
        s.wait_top(node, "0.84");
    }

    // A pod of a higher priority takes the place of one of them.
    s.api()
        .post(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            &json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "s12-critical"},
                "value": 1_000_000}),
        )
        .admitted("a priority class");
    let answer = s.create(&Pod::vllm("critical", "0.28").priority("s12-critical"));
    let named = answer
        .warnings
        .iter()
        .any(|text| text.contains("VG201") && text.contains("pod-") && text.contains("s12-n"));
    assert!(named, "{:?}", answer.warnings);
    answer.admitted("a pod of a higher priority");
    eventually("the scheduler preempts one", 40, || {
        let pods = s.list();
        let runs = |name: &str| {
            pods.iter()
                .any(|pod| pod["metadata"]["name"] == name && pod["status"]["phase"] == "Running")
        };
        (runs("critical") && pods.len() == admitted).then_some(())
    });
    s.create(&Pod::vllm("late", "0.28"))
        .denied("one more, of no priority", &["VG201"]);
    s.api()
        .delete("/apis/scheduling.k8s.io/v1/priorityclasses/s12-critical", 0);
}
