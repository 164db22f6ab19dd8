//! Kinds with pod templates in schemas of their own: what `check` and the webhook say of them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    clippy::too_many_lines,
    reason = "a test fails by a panic"
)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

mod broken;
mod operators;
mod provenance;
mod reviews;
mod updates;
mod verdicts;

/// A node with `devices` H100, each in four time-sliced slots.
pub(crate) fn node(name: &str, devices: u32) -> Value {
    let slots = (devices * 4).to_string();
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name,
            "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED",
            "nvidia.com/gpu.memory": "81559",
            "nvidia.com/gpu.count": devices.to_string(),
            "nvidia.com/gpu.replicas": "4",
            "nvidia.com/gpu.sharing-strategy": "time-slicing"}},
        "status": {"capacity": {"nvidia.com/gpu": slots}, "allocatable": {"nvidia.com/gpu": slots},
            "conditions": [{"type": "Ready", "status": "True"}]}})
}

/// A vLLM container with a fraction.
pub(crate) fn server(fraction: &str) -> Value {
    json!({"name": "server", "image": "vllm/vllm-openai:v0.20.0",
        "args": ["--model=example-org/chat-7b", format!("--gpu-memory-utilization={fraction}")],
        "resources": {"limits": {"nvidia.com/gpu": 1}}})
}

pub(crate) fn template(fraction: &str) -> Value {
    json!({"spec": {"containers": [server(fraction)]}})
}

pub(crate) fn object(api_version: &str, kind: &str, spec: Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "big", "namespace": "llm"}, "spec": spec})
}

pub(crate) fn leader_worker_set(replicas: u32, size: u32, leader: &str, worker: &str) -> Value {
    object(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        json!({"replicas": replicas, "leaderWorkerTemplate": {"size": size,
            "leaderTemplate": template(leader), "workerTemplate": template(worker)}}),
    )
}

/// Runs the program with objects as its files.
pub(crate) fn run(arguments: &[&str], files: &[(&str, &[Value])]) -> Output {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder: PathBuf =
        std::env::temp_dir().join(format!("vramgate-custom-{}-{number}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for (name, objects) in files {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        fs::write(folder.join(name), list.to_string()).unwrap();
    }
    let output = Command::new(env!("CARGO_BIN_EXE_vramgate"))
        .args(arguments)
        .current_dir(&folder)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    fs::remove_dir_all(&folder).unwrap();
    output
}

/// The items of `check` for objects against a cluster.
pub(crate) fn check(state: &[Value], input: &[Value]) -> Vec<Value> {
    let output = run(
        &[
            "check",
            "--cluster-state",
            "state.json",
            "input.json",
            "-o",
            "json",
        ],
        &[("state.json", state), ("input.json", input)],
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let document: Value = serde_json::from_str(&text)
        .unwrap_or_else(|_| panic!("no JSON: {text}{}", String::from_utf8_lossy(&output.stderr)));
    document["items"].as_array().unwrap().clone()
}

/// The item of one object on one node with one device.
pub(crate) fn judged(object: &Value) -> Value {
    let items = check(&[node("gpu-a", 1)], std::slice::from_ref(object));
    assert_eq!(items.len(), 1, "{items:#?}");
    items[0].clone()
}

/// `deny VG201 error PATH` of each finding behind the verdict.
pub(crate) fn lines(item: &Value) -> Vec<String> {
    let findings = item["findings"].as_array().unwrap().iter().map(|finding| {
        format!(
            "{} {} {}",
            finding["code"].as_str().unwrap(),
            finding["severity"].as_str().unwrap(),
            finding["path"].as_str().unwrap()
        )
    });
    std::iter::once(item["verdict"].as_str().unwrap().to_owned())
        .chain(findings)
        .collect()
}

/// Applies every fix of an item to the object; each changed object must be admitted. The titles.
pub(crate) fn fixes_hold(state: &[Value], object: &Value, item: &Value) -> Vec<String> {
    let findings = item["findings"].as_array().unwrap();
    let fixes = findings
        .iter()
        .flat_map(|finding| finding["fixes"].as_array().unwrap());
    fixes
        .map(|fix| {
            let patch: json_patch::Patch = serde_json::from_value(fix["patch"].clone()).unwrap();
            let mut changed = object.clone();
            json_patch::patch(&mut changed, &patch).unwrap_or_else(|error| panic!("{fix}: {error}"));
            let again = check(state, std::slice::from_ref(&changed));
            assert_eq!(again[0]["verdict"], "admit", "{fix}: {again:#?}");
            fix["title"].as_str().unwrap().to_owned()
        })
        .collect()
}
