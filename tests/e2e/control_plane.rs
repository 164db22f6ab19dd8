//! The control plane under vramgate: an API server that restarts, is not there or forbids, and other parts that refuse a
//! pod after vramgate admitted it.

use std::time::Duration;

use serde_json::json;

use crate::api::eventually;
use crate::cluster::progress;
use crate::manifests::{GpuNode, Pod};
use crate::scenario::Scenario;
use crate::vramgate::Vramgate;

#[test]
fn plane_an_api_server_that_restarts_loses_nothing() {
    let s = Scenario::alone("plane-restart");
    let node = "plane-restart-n1";
    s.node(GpuNode::h100(node).slots(10));
    for name in ["a", "b"] {
        s.create(&Pod::vllm(name, "0.30")).admitted(name);
    }
    s.wait_running(2, 20);
    s.cluster.restart_apiserver(Duration::from_millis(500));
    // What changes while no watch is there is learned from the next.
    s.delete("a", 0);
    s.create_eventually(&Pod::vllm("c", "0.30"), 20);
    eventually("the deleted pod's place is free", 60, || {
        let answer = s.create(&Pod::vllm("d", "0.30"));
        answer.is_success().then_some(())
    });
    s.create(&Pod::vllm("e", "0.30")).denied("a fourth", &["VG201"]);
    s.wait_running(3, 60);
}

#[test]
fn plane_a_process_told_to_end_in_a_burst_finishes_what_it_began() {
    let s = Scenario::alone("plane-term");
    let node = "plane-term-n1";
    s.node(GpuNode::h100(node).slots(20));
    let pods: Vec<Pod> = (0..10)
        .map(|number| Pod::vllm(&format!("p{number}"), "0.30"))
        .collect();
    let answers = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(8));
            s.cluster.with_vramgate(|vramgate| vramgate.terminate());
        });
        s.create_at_once(&pods)
    });
    let admitted = answers
        .iter()
        .flatten()
        .filter(|answer| answer.is_success())
        .count();
    assert_eq!(admitted, 3, "the lame duck answers as before");
    for answer in answers
        .into_iter()
        .filter(|answer| !answer.as_ref().unwrap().is_success())
    {
        answer.unwrap().denied("one of seven", &["VG201"]);
    }
    s.cluster.with_vramgate(|vramgate| {
        let (status, text) = vramgate.readiness().expect("the status port answers");
        assert!(status == 503 && text.contains("shutting down"), "{status} {text}");
        vramgate.kill();
        vramgate.start();
    });
    s.create(&Pod::vllm("after", "0.30"))
        .denied("after the restart", &["VG201"]);
}

#[test]
fn plane_without_permissions_or_api_server_it_says_why_it_waits() {
    let s = Scenario::new("plane-forbidden");
    let mut other = Vramgate::prepare(&s.cluster.directory);
    other.launch(&s.cluster.directory.join("nobody.kubeconfig"), &[]);
    eventually("the reason is told", 20, || {
        let (status, text) = other.readiness()?;
        (status == 503 && text.contains("nodes cannot be listed") && text.contains("grant")).then_some(())
    });
    other.kill();
    let nowhere = s.cluster.directory.join("nowhere.kubeconfig");
    let text = std::fs::read_to_string(s.cluster.directory.join("vramgate.kubeconfig")).unwrap();
    let mut kubeconfig: serde_json::Value = serde_json::from_str(&text).unwrap();
    kubeconfig["clusters"][0]["cluster"]["server"] = json!("https://127.0.0.1:1");
    std::fs::write(&nowhere, kubeconfig.to_string()).unwrap();
    other.launch(&nowhere, &[]);
    eventually("the reason is told", 20, || {
        let (status, text) = other.readiness()?;
        // Nodes are read once it is known under which policies.
        let told = text.contains("gpusharingpolicies cannot be listed") && text.contains("refused");
        (status == 503 && told).then_some(())
    });
    other.kill();
}

/// Quota refuses after the webhooks: nobody tells vramgate that a bare pod was not stored.
#[test]
fn plane_a_pod_that_was_never_stored_gives_its_place_back_in_time() {
    let s = Scenario::alone("plane-ttl");
    s.cluster.with_vramgate(|vramgate| {
        vramgate.kill();
        vramgate.start_with(&["--reservation-ttl", "3s"]);
    });
    s.node(GpuNode::h100("plane-ttl-n1").slots(10));
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "one-gpu"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "1"}}});
    s.kubectl(&["apply", "-f", "-"], Some(&quota));
    s.wait_shown(&["get", "resourcequota", "one-gpu", "-o", "yaml"], &["used:"], 20);
    s.create(&Pod::vllm("a", "0.30")).admitted("within quota");
    for name in ["b", "c"] {
        let answer = s.create(&Pod::vllm(name, "0.30"));
        assert!(answer.text().contains("exceeded quota"), "{}", answer.text());
    }
    s.create(&Pod::vllm("d", "0.30"))
        .denied("beside what may still be stored", &["VG201"]);
    s.kubectl(&["delete", "resourcequota", "one-gpu"], None);
    let started = std::time::Instant::now();
    s.create_eventually(&Pod::vllm("d", "0.30"), 20);
    progress(&format!(
        "plane-ttl: free after {:.1} s",
        started.elapsed().as_secs_f32()
    ));
    // The other one may be checked a round later.
    s.create_eventually(&Pod::vllm("e", "0.30"), 20);
    s.create(&Pod::vllm("f", "0.30"))
        .denied("a fourth: what exists is not given back", &["VG201"]);
    std::thread::sleep(Duration::from_secs(6));
    s.create(&Pod::vllm("f", "0.30")).denied("nor later", &["VG201"]);
    s.cluster.with_vramgate(|vramgate| {
        vramgate.kill();
        vramgate.start();
    });
}

#[test]
fn plane_a_policy_that_changes_the_budget_under_load() {
    let s = Scenario::alone("plane-policy");
    let node = "plane-policy-n1";
    s.node(GpuNode::h100(node).slots(10));
    let file = s.cluster.directory.join("policies/budget.yaml");
    let policy = |budget: &str| {
        let text = format!(
            "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: budget}}\nspec:\n  match: \
             {{nodes: {{matchLabels: {{kubernetes.io/hostname: {node}}}}}}}\n  device: {{budget: \"{budget}\"}}\n"
        );
        std::fs::write(&file, text).unwrap();
    };
    let pods: Vec<Pod> = (0..8)
        .map(|number| Pod::vllm(&format!("p{number}"), "0.20"))
        .collect();
    for (budget, places) in [("0.65", 3), ("0.85", 4), ("0.45", 2)] {
        policy(budget);
        // Creations go on while it comes into force; never more than the larger of the two budgets lets in.
        eventually("the budget is in force", 20, || {
            let answers = s.create_at_once(&pods);
            let admitted = answers
                .iter()
                .flatten()
                .filter(|answer| answer.is_success())
                .count();
            let all = s.list().len();
            s.clear_pods();
            assert!(
                all <= 4,
                "{all} pods of 0.20 and {admitted} admitted under {budget}"
            );
            (all == places).then_some(())
        });
    }
    for name in ["a", "b"] {
        s.create_eventually(&Pod::vllm(name, "0.20"), 10);
    }
    s.wait_running(2, 20);
    std::fs::remove_file(&file).unwrap();
    s.create_eventually(&Pod::vllm("c", "0.20"), 20);
    s.create(&Pod::vllm("d", "0.20")).admitted("0.80 of 0.90");
    s.create(&Pod::vllm("e", "0.20"))
        .denied("1.00 of 0.90", &["VG201"]);
}

/// What one process admits the other counts as well, though it was asked nothing.
#[test]
fn plane_two_processes_count_what_the_other_has_stored() {
    let s = Scenario::new("plane-two");
    let node = "plane-two-n1";
    s.node(GpuNode::h100(node).slots(10));
    let mut other = Vramgate::prepare(&s.cluster.directory);
    other.start();
    for name in ["a", "b", "c"] {
        s.create(&Pod::vllm(name, "0.30")).admitted(name);
    }
    s.wait_running(3, 20);
    let promised = |text: &str| text.contains(node);
    eventually("the other process's page shows the node", 10, || {
        other.page().filter(|text| promised(text)).map(drop)
    });
    other.kill();
}
