//! The cluster while vramgate is down, and a cluster that was over its budget before vramgate came.

use serde_json::Value;

use crate::api::eventually;
use crate::cluster::shared;
use crate::manifests::{self, GpuNode, Pod};
use crate::scenario::Scenario;

#[test]
fn c17_a_cluster_comes_up_while_the_webhook_is_down() {
    let coming_up = &shared().coming_up;
    assert_eq!(
        coming_up.registered,
        Ok(()),
        "the registrations were there, with nobody behind them"
    );
    assert_eq!(
        coming_up.ready_nodes, 2,
        "nodes are Ready, and a Deployment without GPU rolled out"
    );
    assert!(
        coming_up.gpu_pod.contains("failed calling webhook"),
        "a GPU pod waits: {}",
        coming_up.gpu_pod
    );
}

#[test]
fn c17_without_vramgate_only_gpu_pods_wait() {
    let s = Scenario::alone("c17");
    let node = "c17-n1";
    s.node(GpuNode::h100(node).slots(4));
    s.create_workload(
        &manifests::deployment("web", 1, &Pod::without_gpu("web").on(s.name)),
        "",
    )
    .admitted("a Deployment without GPU");
    s.create_workload(
        &manifests::deployment("chat", 1, &Pod::vllm("chat", "0.20").on(s.name)),
        "",
    )
    .admitted("a GPU Deployment");
    s.wait_running(2, 30);

    s.cluster.with_vramgate(crate::vramgate::Vramgate::kill);
    let does = |arguments: &[&str], done: &str| {
        let text = s.kubectl(arguments, None);
        assert!(
            text.contains(done),
            "kubectl {arguments:?} while vramgate is down:\n{text}"
        );
    };
    does(&["scale", "deployment/web", "--replicas=3"], "scaled");
    s.wait_running(4, 30);
    does(
        &["taint", "node", node, "e2e/maintenance=now:PreferNoSchedule"],
        "tainted",
    );
    does(
        &[
            "create",
            "configmap",
            "settings",
            "--from-literal=mig-configs=none",
        ],
        "created",
    );
    does(
        &["autoscale", "deployment/chat", "--min=1", "--max=3", "--cpu=80%"],
        "autoscaled",
    );
    does(&["set", "env", "deployment/web", "GREETING=hello"], "env updated");
    // The step of an autoscaler, and one of a person; then a whole Deployment: all stored, and their pods wait.
    does(&["scale", "deployment/chat", "--replicas=2"], "scaled");
    let late = manifests::deployment("late", 1, &Pod::vllm("late", "0.20").on(s.name));
    s.create_workload(&late, "")
        .admitted("a GPU Deployment is stored");
    let answer = s.create(&Pod::vllm("bare", "0.20"));
    assert!(!answer.is_success(), "a GPU pod waits");
    assert!(
        answer.text().contains("failed calling webhook"),
        "{}",
        answer.text()
    );
    let other = Pod::vllm("other-vendor", "0.20").asks("amd.com/gpu", 1);
    s.create(&other).admitted("another vendor's pod");
    s.wait_not_created(&["failed calling webhook"], 20);
    let chat: Vec<Value> = s
        .list()
        .into_iter()
        .filter(|pod| pod["metadata"]["labels"]["app"] == "chat")
        .collect();
    assert_eq!(chat.len(), 1, "the running GPU pod stays");

    s.cluster.with_vramgate(crate::vramgate::Vramgate::start);
    // Three pods without GPU, two of chat, one of late.
    s.wait_running(6, 60);
    s.create(&Pod::vllm("bare", "0.30")).admitted("0.90 in all");
    s.create(&Pod::vllm("more", "0.10"))
        .denied("above the budget", &["VG201"]);
    let chat = chat[0]["metadata"]["name"].as_str().unwrap();
    s.cluster.with_vramgate(crate::vramgate::Vramgate::kill);
    s.delete(chat, 0);
    s.wait_gone(chat, 10);
    s.cluster.with_vramgate(crate::vramgate::Vramgate::start);
}

#[test]
fn c18_a_cluster_above_its_budget_can_always_go_down_or_back() {
    let s = Scenario::alone("c18");
    let node = "c18-n1";
    s.node(GpuNode::h100(node).slots(8));
    // What other scenarios left above its budget is gone, and the metric learns it within seconds.
    let over_budget_before = eventually("nothing else is above its budget", 20, || {
        Some(s.over_budget()).filter(|count| *count == 0)
    });

    // Before the installation: no registration, and too many pods.
    let registrations = s
        .cluster
        .with_vramgate(|vramgate| vramgate.registrations())
        .unwrap();
    s.cluster
        .kubectl(&["delete", "-f", "-"], Some(&registrations))
        .unwrap();
    let nonsense = Pod::vllm("nonsense", "7");
    eventually("nobody judges any more", 20, || {
        s.dry_run(&nonsense).is_success().then_some(())
    });
    let deployment = manifests::deployment("chat", 4, &Pod::vllm("chat", "0.30").on(s.name));
    s.create_workload(&deployment, "")
        .admitted("a Deployment before the installation");
    s.wait_running(4, 30);
    s.cluster
        .kubectl(&["apply", "-f", "-"], Some(&registrations))
        .unwrap();
    eventually("pods are judged again", 20, || {
        (!s.dry_run(&nonsense).is_success()).then_some(())
    });

    // It shows: in `top`, in a metric, in an Event.
    let device = s.wait_top(node, "1.2");
    assert_eq!(device["promisedMiB"], 4 * 24_468, "{device}");
    let table = s
        .cluster
        .with_vramgate(|vramgate| vramgate.top_table(&s.snapshot()));
    assert!(table.contains(node), "{table}");
    eventually("the metric counts the node", 20, || {
        (s.over_budget() == over_budget_before + 1).then_some(())
    });
    eventually("an Event about the node", 20, || {
        (!s.budget_events(node).is_empty()).then_some(())
    });

    // Nothing that goes down or back is held up; new pods are judged as any other, and the change says so.
    s.create(&Pod::vllm("new", "0.10"))
        .denied("a new pod", &["VG201"]);
    let text = s.kubectl(
        &["set", "image", "deployment/chat", "vllm=vllm/vllm-openai:v0.20.1"],
        None,
    );
    assert!(
        text.contains("image updated"),
        "a roll back goes through:\n{text}"
    );
    assert!(
        text.contains("Warning: ") && text.contains("VG20"),
        "it says what its pods will meet:\n{text}"
    );
    s.wait_not_created(&["VG201"], 30);
    let text = s.kubectl(&["rollout", "undo", "deployment/chat"], None);
    assert!(text.contains("rolled back"), "{text}");
    let text = s.kubectl(&["scale", "deployment/chat", "--replicas=2"], None);
    assert!(text.contains("scaled"), "{text}");
    s.wait_running(2, 60);
    s.wait_top(node, "0.60");
    eventually("the metric forgets the node", 20, || {
        (s.over_budget() == over_budget_before).then_some(())
    });
    s.create_eventually(&Pod::vllm("new", "0.30"), 10);
    let text = s.kubectl(&["delete", "deployment/chat", "--wait=false"], None);
    assert!(text.contains("deleted"), "{text}");
    s.wait_running(1, 30);
}
