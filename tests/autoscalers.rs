//! Objects that scale others: VG204 says what their maximum comes to, and never holds them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

mod kit;

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use kit::{Cluster, H100, VLLM, apply, deployment, finding, golden, gpu_node, has, vllm};
use serde_json::{Value, json};
use vramgate::finding::{Code, Number, Severity};
use vramgate::message;

const FAIR: &str = "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: fair}\n\
                    spec: {defaults: {gpuMemoryUtilization: fairShare}}\n";

fn hpa(min: u32, max: u32, kind: &str) -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "chat", "namespace": "team-a"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": "chat"},
            "minReplicas": min, "maxReplicas": max,
        },
    })
}

fn keda(max: Option<u32>) -> Value {
    let mut object = json!({
        "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
        "metadata": {"name": "chat", "namespace": "team-a"},
        "spec": {"scaleTargetRef": {"name": "chat"}, "triggers": [{"type": "cpu", "metadata": {"value": "60"}}]},
    });
    if let Some(max) = max {
        object["spec"]["maxReplicaCount"] = json!(max);
    }
    object
}

/// The Deployment of S6: no fraction, settings in a variable that nobody reads.
fn without_fraction(replicas: u32) -> Value {
    let mut container = vllm("vllm/vllm-openai:latest", None);
    container["env"] = json!([{"name": "MODEL_NAME", "value": "Qwen/Qwen3-0.6B"}]);
    deployment("chat", replicas, &container)
}

fn two_nodes(policy: Option<&str>) -> Cluster {
    let mut cluster = policy.map_or_else(Cluster::new, Cluster::with_policy);
    for name in ["gpu-1", "gpu-2"] {
        cluster.gpu_node(name, "NVIDIA-H100-80GB-HBM3", H100, 1, 4);
    }
    cluster
}

#[test]
fn c4_the_maximum_of_an_autoscaler_is_told_and_never_denied() {
    let mut cluster = two_nodes(Some(FAIR));
    let chat = without_fraction(8);
    assert!(cluster.create(&chat).admit);
    let autoscaler = hpa(2, 20, "Deployment");
    let verdict = cluster.autoscale(&autoscaler, &chat);
    assert!(verdict.admit && verdict.judged && !verdict.would_deny);
    let found = finding(&verdict, Code::Vg204);
    assert_eq!(found.severity, Severity::Warning);
    assert_eq!(found.path.to_string(), "spec.maxReplicas");
    assert_eq!(found.numbers["replicasThatFit"], Number::Count(8));
    assert_eq!(found.numbers["maxReplicas"], Number::Count(20));
    golden("vg204-horizontal", &message::report(&verdict, ""));
    let changed = apply(&autoscaler, &found.fixes[0]);
    assert_eq!(changed["spec"]["maxReplicas"], 8);
    let again = cluster.autoscale(&changed, &chat);
    assert!(again.judged && again.findings.is_empty(), "{:#?}", again.findings);
}

#[test]
fn c5_a_scaled_object_is_told_the_same_and_its_default_too() {
    let mut cluster = two_nodes(Some(FAIR));
    let chat = without_fraction(8);
    for (max, told) in [(Some(20), "20"), (None, "100")] {
        let autoscaler = keda(max);
        let verdict = cluster.autoscale(&autoscaler, &chat);
        assert!(verdict.admit);
        let found = finding(&verdict, Code::Vg204);
        assert_eq!(found.path.to_string(), "spec.maxReplicaCount");
        assert!(
            found.message.starts_with(&format!(
                "at the maximum of {told} replicas Deployment chat exceeds"
            )),
            "{}",
            found.message
        );
        let changed = apply(&autoscaler, &found.fixes[0]);
        assert!(!has(&cluster.autoscale(&changed, &chat), Code::Vg204));
        if max.is_none() {
            golden("vg204-scaled-object", &message::report(&verdict, ""));
        }
    }
}

#[test]
fn own_pods_are_not_counted_beside_the_maximum() {
    let mut cluster = two_nodes(None);
    let chat = deployment("chat", 4, &vllm(VLLM, Some("0.225")));
    for index in 0..8 {
        let mut pod = kit::pod(&format!("chat-abc-{index}"), "0.225");
        pod["metadata"]["labels"] = json!({"pod-template-hash": "abc"});
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "chat-abc", "uid": "rs", "controller": true}]);
        cluster.running(&pod, if index < 4 { "gpu-1" } else { "gpu-2" });
    }
    let verdict = cluster.autoscale(&hpa(1, 8, "Deployment"), &chat);
    assert!(
        verdict.judged && verdict.findings.is_empty(),
        "{:#?}",
        verdict.findings
    );
    // Another's are.
    cluster.running(&kit::pod("other", "0.10"), "gpu-1");
    let verdict = cluster.autoscale(&hpa(1, 8, "Deployment"), &chat);
    assert_eq!(
        finding(&verdict, Code::Vg204).numbers["replicasThatFit"],
        Number::Count(7)
    );
}

#[test]
fn a_minimum_above_what_fits_has_no_fix_by_the_maximum() {
    let mut cluster = two_nodes(None);
    let chat = deployment("chat", 1, &vllm(VLLM, Some("0.80")));
    let verdict = cluster.autoscale(&hpa(3, 9, "Deployment"), &chat);
    let found = finding(&verdict, Code::Vg204);
    assert!(found.fixes.is_empty(), "{:#?}", found.fixes);
    assert!(found.details.iter().any(|detail| detail.contains("minimum of 3")));
    let none = cluster.autoscale(
        &hpa(1, 9, "Deployment"),
        &deployment("chat", 1, &vllm(VLLM, Some("0.95"))),
    );
    assert!(none.admit);
}

#[test]
fn a_lack_of_slots_alone_is_no_lack_of_memory() {
    let mut cluster = two_nodes(None);
    let chat = deployment("chat", 1, &vllm(VLLM, Some("0.10")));
    let verdict = cluster.autoscale(&hpa(1, 20, "Deployment"), &chat);
    assert!(
        verdict.admit && !has(&verdict, Code::Vg204),
        "{:#?}",
        verdict.findings
    );
    // Whole GPUs are the scheduler's to count.
    let mut whole = Cluster::new();
    whole.gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 2, 1);
    let verdict = whole.autoscale(&hpa(1, 20, "Deployment"), &chat);
    assert!(
        verdict.admit && verdict.findings.is_empty(),
        "{:#?}",
        verdict.findings
    );
}

#[test]
fn what_does_not_concern_it_is_not_judged() {
    let mut cluster = two_nodes(None);
    let chat = deployment("chat", 1, &vllm(VLLM, Some("0.80")));
    // Another object, another kind, another namespace, a target without a GPU.
    let mut other = chat.clone();
    other["metadata"]["name"] = json!("other");
    assert!(!cluster.autoscale(&hpa(1, 9, "Deployment"), &other).judged);
    assert!(!cluster.autoscale(&hpa(1, 9, "StatefulSet"), &chat).judged);
    let mut elsewhere = chat.clone();
    elsewhere["metadata"]["namespace"] = json!("team-b");
    assert!(!cluster.autoscale(&hpa(1, 9, "Deployment"), &elsewhere).judged);
    let plain = deployment("chat", 1, &json!({"name": "web", "image": "nginx:1.29"}));
    assert!(!cluster.autoscale(&hpa(1, 9, "Deployment"), &plain).judged);
    let mut job = chat.clone();
    job["kind"] = json!("Job");
    job["apiVersion"] = json!("batch/v1");
    assert!(!cluster.autoscale(&hpa(1, 9, "Job"), &job).judged);
}

#[test]
fn groups_are_counted_by_their_replicas() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 1, 8);
    let group = json!({
        "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
        "metadata": {"name": "chat", "namespace": "team-a"},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {
            "size": 2, "workerTemplate": {"spec": {"containers": [vllm(VLLM, Some("0.20"))]}},
        }},
    });
    let mut autoscaler = hpa(1, 5, "LeaderWorkerSet");
    autoscaler["spec"]["scaleTargetRef"]["apiVersion"] = json!("leaderworkerset.x-k8s.io/v1");
    let verdict = cluster.autoscale(&autoscaler, &group);
    let found = finding(&verdict, Code::Vg204);
    // Two groups of two: 0.80.
    assert_eq!(found.numbers["replicasThatFit"], Number::Count(2));
    let changed = apply(&autoscaler, &found.fixes[0]);
    assert!(!has(&cluster.autoscale(&changed, &group), Code::Vg204));
}

/// Runs the program in a folder with these files.
fn run(arguments: &[&str], files: &[(&str, &[Value])]) -> (i32, Value) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("vramgate-autoscalers-{}-{number}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for (name, objects) in files {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        fs::write(folder.join(name), list.to_string()).unwrap();
    }
    let done = Command::new(env!("CARGO_BIN_EXE_vramgate"))
        .args(arguments)
        .args(["-o", "json"])
        .current_dir(&folder)
        .output()
        .unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let errors = String::from_utf8_lossy(&done.stderr).into_owned();
    let value = serde_json::from_str(&text).unwrap_or_else(|_| json!(errors));
    (done.status.code().unwrap(), value)
}

#[test]
fn check_judges_autoscalers_against_input_and_snapshot_in_any_order() {
    let nodes: Vec<Value> = ["gpu-1", "gpu-2"]
        .map(|name| gpu_node(name, "NVIDIA-H100-80GB-HBM3", H100, 1, 4))
        .to_vec();
    let chat = deployment("chat", 2, &vllm(VLLM, Some("0.225")));
    let with_chat: Vec<Value> = nodes.iter().cloned().chain([chat.clone()]).collect();
    let autoscaler = hpa(2, 20, "Deployment");
    let check = ["check", "--cluster-state", "state.json", "input.json"];
    for (state, input, at) in [
        (&nodes, vec![autoscaler.clone(), chat.clone()], 0),
        (&nodes, vec![chat.clone(), autoscaler.clone()], 1),
        (&with_chat, vec![autoscaler.clone()], 0),
    ] {
        let (code, result) = run(&check, &[("state.json", state), ("input.json", &input)]);
        assert_eq!(code, 0, "{result:#}");
        let items = result["items"].as_array().unwrap();
        assert_eq!(items.len(), input.len(), "{result:#}");
        let item = &items[at];
        assert_eq!(item["object"]["kind"], "HorizontalPodAutoscaler");
        assert_eq!(item["verdict"], "admit");
        assert_eq!(item["findings"][0]["code"], "VG204", "{result:#}");
        assert_eq!(item["findings"][0]["numbers"]["replicasThatFit"], 8);
    }
    // Beside a target that is refused it is judged all the same.
    let twelve = deployment("chat", 12, &vllm(VLLM, Some("0.225")));
    let (code, result) = run(
        &check,
        &[
            ("state.json", &nodes),
            ("input.json", &[twelve, autoscaler.clone()]),
        ],
    );
    assert_eq!(
        (code, &result["items"][0]["verdict"]),
        (1, &json!("deny")),
        "{result:#}"
    );
    assert_eq!(result["items"][1]["findings"][0]["code"], "VG204");
    // Without a target there is nothing to say, and what cannot be read is an error.
    let (code, result) = run(
        &check,
        &[
            ("state.json", &nodes),
            ("input.json", std::slice::from_ref(&autoscaler)),
        ],
    );
    assert_eq!((code, &result["items"]), (0, &json!([])), "{result:#}");
    let mut broken = autoscaler.clone();
    broken["spec"]["maxReplicas"] = json!("many");
    let (code, result) = run(&check, &[("state.json", &nodes), ("input.json", &[broken])]);
    assert_eq!(code, 2, "{result:#}");
    assert!(
        result.as_str().unwrap().contains("spec.maxReplicas"),
        "{result:#}"
    );
    // A warning can be made to count.
    let strict = [
        "check",
        "--cluster-state",
        "state.json",
        "input.json",
        "--fail-on",
        "warning",
    ];
    let (code, _) = run(
        &strict,
        &[
            ("state.json", &with_chat),
            ("input.json", std::slice::from_ref(&autoscaler)),
        ],
    );
    assert_eq!(code, 1);
}

#[test]
fn explain_names_the_maximum() {
    let chat = deployment("chat", 2, &vllm(VLLM, Some("0.225")));
    let (code, result) = run(
        &["explain", "input.json"],
        &[("input.json", &[hpa(2, 20, "Deployment"), chat])],
    );
    assert_eq!(code, 0, "{result:#}");
    assert_eq!(
        result["items"][0]["replicas"],
        json!({"desired": 2, "surge": 1, "max": 20})
    );
}

#[test]
fn the_pages_show_these_texts_as_they_are() {
    let read =
        |path: &str| fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    for (code, name) in [("VG203", "vg203-cron-job"), ("VG204", "vg204-horizontal")] {
        let text = read(&format!("tests/texts/{name}.txt"));
        let page = read(&format!("docs/codes/{code}.md"));
        assert!(page.contains(&text), "docs/codes/{code}.md lacks\n{text}");
    }
}

/// KEDA's ScaledJob makes Jobs from a template of its own.
#[test]
fn the_maximum_of_a_scaled_job_is_that_of_its_own_jobs() {
    let mut cluster = two_nodes(None);
    let pod = deployment("batch", 1, &vllm(VLLM, Some("0.225")))["spec"]["template"].clone();
    let scaled = |max: u32| {
        json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledJob",
            "metadata": {"name": "batch", "namespace": "team-a"},
            "spec": {"maxReplicaCount": max, "triggers": [],
                "jobTargetRef": {"parallelism": 2, "completions": 4, "template": pod}}})
    };
    // Eight places, two for each Job.
    let nothing = deployment("other", 1, &vllm(VLLM, Some("0.10")));
    let verdict = cluster.autoscale(&scaled(5), &nothing);
    assert!(verdict.admit && verdict.judged && !verdict.would_deny);
    let told = finding(&verdict, Code::Vg204);
    assert_eq!(
        told.message,
        "at the maximum of 5 Jobs ScaledJob batch exceeds the devices' budget: at most 4 fit"
    );
    golden("vg204-scaled-job", &message::report(&verdict, ""));
    let fixed = cluster.autoscale(&apply(&scaled(5), &told.fixes[0]), &nothing);
    assert!(fixed.judged && fixed.findings.is_empty(), "{:#?}", fixed.findings);
    assert!(cluster.autoscale(&scaled(4), &nothing).findings.is_empty());
}
