//! What a developer sees of a denied pod who did not ask for it by hand: the Events of whatever makes it.

use std::time::Duration;

use serde_json::Value;

use crate::api::eventually;
use crate::manifests::{self, GpuNode, Pod};
use crate::scenario::Scenario;

/// Events of one reason, as the API server has them.
fn events(s: &Scenario, reason: &str) -> Vec<Value> {
    let all = s.api().get(&format!("/api/v1/namespaces/{}/events", s.name)).body["items"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    all.into_iter()
        .filter(|event| event["reason"] == reason)
        .collect()
}

fn written(s: &Scenario, result: &str) -> u64 {
    let text = s.cluster.with_vramgate(|vramgate| vramgate.metrics());
    let name = format!("vramgate_denial_events_total{{result=\"{result}\"}} ");
    let line = text.lines().find(|line| line.starts_with(&name));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
        .unwrap_or(0)
}

#[test]
fn n01_a_deployment_tells_why_its_pods_are_denied() {
    let s = Scenario::new("n01");
    s.node(GpuNode::h100("n01-n1").slots(4));
    // With no pods there is nothing to refuse, and a change of scale never is.
    s.create_workload(
        &manifests::deployment("chat", 0, &Pod::vllm("chat", "0.30").on(s.name)),
        "",
    )
    .admitted("a Deployment without pods");
    for index in 0..2 {
        s.create(&Pod::vllm(&format!("other-{index}"), "0.40").on(s.name))
            .admitted("0.40");
    }
    s.wait_running(2, 30);
    let before = written(&s, "written");
    s.kubectl(&["scale", "deployment", "chat", "--replicas=1"], None);
    let event = eventually("the Deployment tells why", 30, || {
        events(&s, "GpuMemoryDenied").into_iter().next()
    });
    assert_eq!(event["involvedObject"]["kind"], "Deployment");
    assert_eq!(event["involvedObject"]["name"], "chat");
    assert_eq!(event["related"]["kind"], "ReplicaSet");
    assert_eq!(event["type"], "Warning");
    let message = event["message"].as_str().unwrap();
    println!("{message}");
    assert!(message.starts_with("VG201: container "), "{message}");
    assert!(
        message.contains("n01-n1 has promised 0.80 of its budget 0.90"),
        "{message}"
    );
    assert!(
        message.contains("fix: lower the memory fraction of container"),
        "{message}"
    );
    assert!(message.len() <= 1_024, "{}", message.len());
    assert!(written(&s, "written") > before);
    // As a developer lists it, beside what the ReplicaSet's controller says.
    let shown = s.kubectl(&["describe", "deployment", "chat"], None);
    assert!(
        shown.contains("GpuMemoryDenied") && shown.contains("VG201"),
        "{shown}"
    );
    s.wait_not_created(&["VG201", "n01-n1 has promised"], 30);
    // The controller tries again and again; the reason is told a few times.
    std::thread::sleep(Duration::from_secs(15));
    let told = events(&s, "GpuMemoryDenied").len();
    assert!((1..=3).contains(&told), "{told}");
}

#[test]
fn n02_nothing_is_told_of_a_dry_run_or_a_pod_of_nobody() {
    let s = Scenario::new("n02");
    s.node(GpuNode::h100("n02-n1").slots(4));
    s.create(&Pod::vllm("bare", "0.95").on(s.name))
        .denied("0.95 is above 0.90", &["VG201"]);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(events(&s, "GpuMemoryDenied"), Vec::<Value>::new());
}
