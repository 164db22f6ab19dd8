//! Several nodes and a scheduler that is free in its choice.

use std::collections::BTreeMap;

use crate::api::eventually;
use crate::manifests::{GpuNode, Pod};
use crate::scenario::Scenario;

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

    // Which node a pod takes is the scheduler's choice at this level. Where it took one twice, that shows.
    let mut by_node: BTreeMap<String, usize> = BTreeMap::new();
    for pod in s.list() {
        *by_node
            .entry(pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned())
            .or_default() += 1;
    }
    crate::cluster::progress(&format!("s12: the scheduler placed {by_node:?}"));
    for (node, count) in by_node.iter().filter(|(_, count)| **count > PLACES_PER_NODE) {
        s.wait_top(node, &format!("{}.{:02}", count * 28 / 100, count * 28 % 100));
        eventually(&format!("the metric counts {node}"), 15, || {
            (s.over_budget() >= 1).then_some(())
        });
        eventually(&format!("an Event about {node}"), 15, || {
            (!s.budget_events(node).is_empty()).then_some(())
        });
    }
}
