//! What a Secret holds stands in nothing that vramgate says, whatever is wrong with the objects that name it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

mod kit;

use std::path::Path;
use std::process::Command;

use kit::{Cluster, H100, gpu_node};
use serde_json::{Value, json};
use vramgate::admission::Answer;
use vramgate::message;
use vramgate::workload::Workload;

/// In plain text and as the API has it.
const MARKERS: [&str; 3] = [
    "hush-0.37-hush",
    "aHVzaC0wLjM3LWh1c2g",
    "--gpu-memory-utilization=0.37",
];

fn secret() -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hush", "namespace": "team-a"},
        "stringData": {"share": MARKERS[0], "arguments": MARKERS[2]},
        "data": {"token": "aHVzaC0wLjM3LWh1c2g="}})
}

/// Pods that take from the Secret all that can be taken: the fraction, the whole command line, a token, a file.
fn objects() -> Vec<Value> {
    let from = |key: &str| json!({"secretKeyRef": {"name": "hush", "key": key}});
    let pod = |name: &str, container: Value| {
        let mut container = container;
        container["name"] = json!("server");
        container["image"] = json!(kit::VLLM);
        container["resources"] = json!({"limits": {"nvidia.com/gpu": "1"}});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "team-a"},
            "spec": {"containers": [container],
                "volumes": [{"name": "hush", "secret": {"secretName": "hush"}}]}})
    };
    vec![
        pod(
            "fraction",
            json!({"env": [{"name": "SHARE", "valueFrom": from("share")}],
                "args": ["--model", "m", "--gpu-memory-utilization", "$(SHARE)"]}),
        ),
        pod(
            "script",
            json!({"env": [{"name": "ARGUMENTS", "valueFrom": from("arguments")}],
                "command": ["sh", "-c", "exec vllm serve m $ARGUMENTS"]}),
        ),
        pod(
            "all",
            json!({"envFrom": [{"secretRef": {"name": "hush"}}],
                "args": ["--model", "m", "--api-key", "$(token)", "--gpu-memory-utilization", "0.95"]}),
        ),
        pod(
            "file",
            json!({"volumeMounts": [{"name": "hush", "mountPath": "/etc/vllm"}],
                "args": ["--config", "/etc/vllm/config.yaml"]}),
        ),
    ]
}

#[track_caller]
fn silent(what: &str, text: &str) {
    for marker in MARKERS {
        assert!(!text.contains(marker), "{what} tells {marker}:\n{text}");
    }
}

#[test]
fn no_answer_holds_it() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("a", "NVIDIA-H100-80GB-HBM3", H100, 1, 4);
    for object in objects() {
        let verdict = cluster.check(&object);
        assert!(
            !verdict.findings.is_empty(),
            "there is something to tell of {object:#}"
        );
        let workload = Workload::read(&object).unwrap().unwrap();
        let answer = Answer::of("uid", &workload.object, &verdict).encode();
        silent("the answer", &String::from_utf8(answer).unwrap());
        silent("the refusal", &message::refusal(&verdict));
        silent("the report", &message::report(&verdict, ""));
        silent("the warnings", &message::warnings(&verdict).join("\n"));
        silent("the numbers", &format!("{:?}", verdict.findings));
    }
}

fn run(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_vramgate"))
        .args(arguments)
        .current_dir(folder)
        .env("VRAMGATE_LOG", "trace")
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8(text).unwrap()
}

#[test]
fn no_command_prints_it() {
    let folder = std::env::temp_dir().join(format!("vramgate-secrets-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let list = |items: Vec<Value>| json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let mut cluster = vec![gpu_node("a", "NVIDIA-H100-80GB-HBM3", H100, 1, 4), secret()];
    for mut pod in objects() {
        pod["metadata"]["uid"] = json!(pod["metadata"]["name"]);
        pod["spec"]["nodeName"] = json!("a");
        pod["status"] = json!({"phase": "Running"});
        cluster.push(pod);
    }
    let mut input = objects();
    for object in &mut input {
        let name = format!("new-{}", object["metadata"]["name"].as_str().unwrap());
        object["metadata"]["name"] = json!(name);
    }
    input.push(secret());
    std::fs::write(folder.join("cluster.json"), list(cluster)).unwrap();
    std::fs::write(folder.join("input.json"), list(input)).unwrap();
    for arguments in [
        &["check", "input.json", "--cluster-state", "cluster.json"][..],
        &[
            "check",
            "input.json",
            "--cluster-state",
            "cluster.json",
            "-o",
            "json",
        ],
        &["explain", "input.json"],
        &["explain", "input.json", "-o", "json"],
        &["top", "--cluster-state", "cluster.json", "--holders"],
        &["top", "--cluster-state", "cluster.json", "-o", "json"],
        &["plan", "--cluster-state", "cluster.json"],
        &["plan", "--cluster-state", "cluster.json", "-o", "json"],
        &["plan", "--cluster-state", "cluster.json", "-o", "patch"],
    ] {
        let text = run(&folder, arguments);
        assert!(text.len() > 40, "{arguments:?} says something: {text}");
        silent(&arguments.join(" "), &text);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
