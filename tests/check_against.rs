//! `vramgate check NEW --against OLD`: what a change does to the memory of a cluster.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by a panic"
)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::slice::from_ref;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

mod kit;

struct Folder(PathBuf);

impl Folder {
    /// With one node whose H100 has four slots.
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("vramgate-against-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let folder = Self(path);
        let node = kit::gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", kit::H100, 1, 4);
        folder.write("cluster.yaml", &node.to_string());
        folder
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn check(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_vramgate"))
            .current_dir(&self.0)
            .args(["check", "--cluster-state", "cluster.yaml"])
            .args(args)
            .env_remove("KUBECONFIG")
            .output()
            .unwrap()
    }

    fn change(&self, old: &[Value], new: &[Value], args: &[&str]) -> Output {
        let list =
            |objects: &[Value]| json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
        self.write("old.json", &list(old));
        self.write("new.json", &list(new));
        self.check(&[&["new.json", "--against", "old.json"], args].concat())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// One server without a rollout surge, so that an update takes no second place.
fn server(name: &str, image: &str, fraction: Option<&str>) -> Value {
    let mut object = kit::deployment(name, 1, &kit::vllm(image, fraction));
    object["spec"]["strategy"] = json!({"type": "Recreate"});
    object
}

const OLD: &str = "vllm/vllm-openai:v0.19.0";
const NEW: &str = "vllm/vllm-openai:v0.20.0";

#[test]
fn an_image_that_raises_the_default_is_named_with_both_numbers() {
    let folder = Folder::new();
    let mut whole = kit::gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", kit::H100, 1, 1);
    whole["metadata"]["name"] = json!("whole");
    folder.write("cluster.yaml", &whole.to_string());
    let (old, new) = (server("chat", OLD, None), server("chat", NEW, None));
    let output = folder.change(from_ref(&old), from_ref(&new), &["-o", "json"]);
    let document = json_of(&output);
    let change = &document["items"][0]["change"];
    assert_eq!(change["kind"], "changed");
    let container = &change["containers"][0];
    assert_eq!(container["container"], "server");
    for (side, version, value) in [("old", "0.19.0", "0.9"), ("new", "0.20.0", "0.92")] {
        assert_eq!(container[side]["version"], version, "{container:#}");
        assert_eq!(
            container[side]["value"].as_str().unwrap().trim_end_matches('0'),
            value,
            "{container:#}"
        );
        assert_eq!(container[side]["source"], "default");
    }
    let device = &container["devices"][0];
    assert_eq!(device["device"], "NVIDIA-H100-80GB-HBM3");
    let share = |side: &str| device[side]["share"].as_str().unwrap().to_owned();
    assert_ne!(share("old"), share("new"), "{device:#}");
    let told = text(&folder.change(&[old], &[new], &[]));
    kit::golden("check-against-image", &told);
    for number in ["0.19.0 -> 0.20.0", "0.9", "0.92"] {
        assert!(told.contains(number), "{number}: {told}");
    }
}

#[test]
fn what_is_the_same_is_told_only_when_asked() {
    let folder = Folder::new();
    let (one, two) = (server("one", NEW, Some("0.30")), server("two", NEW, Some("0.30")));
    let mut more = two.clone();
    more["spec"]["template"]["spec"]["containers"][0]["args"][3] = json!("0.40");
    let old = [one.clone(), two];
    let new = [one, more, server("three", NEW, Some("0.10"))];
    let output = folder.change(&old, &new, &["-o", "json"]);
    let document = json_of(&output);
    let told = |document: &Value| -> Vec<String> {
        let items = document["items"].as_array().unwrap().iter();
        items
            .map(|item| {
                let change = item["change"]["kind"].as_str().unwrap();
                format!(
                    "{} {change} {}",
                    item["object"]["name"].as_str().unwrap(),
                    item["verdict"].as_str().unwrap()
                )
            })
            .collect()
    };
    assert_eq!(told(&document), ["two changed admit", "three new admit"]);
    assert_eq!(
        document["change"],
        json!({"new": 1, "changed": 1, "unchanged": 1, "removed": []})
    );
    let all = json_of(&folder.change(&old, &new, &["-o", "json", "--all"]));
    assert_eq!(
        told(&all),
        ["one unchanged admit", "two changed admit", "three new admit"]
    );
    assert_eq!(folder.check(&["new.json", "--all"]).status.code(), Some(2));
}

#[test]
fn the_holders_of_a_change_are_those_before_it() {
    let folder = Folder::new();
    let three: Vec<Value> = ["a", "b", "c"].map(|name| server(name, NEW, Some("0.30"))).into();
    // Each asks for a little more; together they are over the budget, and the last one is refused.
    let more: Vec<Value> = ["a", "b", "c"].map(|name| server(name, NEW, Some("0.31"))).into();
    let output = folder.change(&three, &more, &["-o", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let document = json_of(&output);
    let verdicts: Vec<&str> = document["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["verdict"].as_str().unwrap())
        .collect();
    assert!(verdicts.contains(&"deny"), "{verdicts:?}");
    // To ask for less is never refused.
    let less: Vec<Value> = ["a", "b", "c"].map(|name| server(name, NEW, Some("0.29"))).into();
    assert_eq!(folder.change(&three, &less, &[]).status.code(), Some(0));
}

#[test]
fn what_a_change_removes_holds_until_it_is_gone() {
    let folder = Folder::new();
    let old = [server("a", NEW, Some("0.50")), server("b", NEW, Some("0.30"))];
    // A rename: the new name finds no room beside the old one.
    let new = [
        server("renamed", NEW, Some("0.50")),
        server("b", NEW, Some("0.30")),
    ];
    let output = folder.change(&old, &new, &[]);
    assert_eq!(output.status.code(), Some(1));
    kit::golden("check-against-removed", &text(&output));
    assert!(
        text(&output).contains("delete Deployment team-a/a first"),
        "{}",
        text(&output)
    );
    let document = json_of(&folder.change(&old, &new, &["-o", "json"]));
    assert_eq!(document["change"]["removed"][0]["name"], "a");
    assert!(
        document["items"][0]["change"]["first"]
            .as_str()
            .unwrap()
            .contains("delete Deployment team-a/a first")
    );
    // Where it would not help either, nothing of the kind is said.
    let new = [
        server("renamed", NEW, Some("0.95")),
        server("b", NEW, Some("0.30")),
    ];
    let document = json_of(&folder.change(&old, &new, &["-o", "json"]));
    assert!(document["items"][0]["change"]["first"].is_null(), "{document:#}");
}

#[test]
fn pods_that_run_already_are_not_counted_a_second_time() {
    let folder = Folder::new();
    let old = server("a", NEW, Some("0.50"));
    let mut pod = kit::pod("a-1", "0.50");
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "a", "uid": "u", "controller": true}]);
    pod["spec"]["nodeName"] = json!("gpu-1");
    pod["status"] = json!({"phase": "Running"});
    let node = kit::gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", kit::H100, 1, 4);
    let mut running = old.clone();
    running["metadata"]["uid"] = json!("u");
    let state = json!({"apiVersion": "v1", "kind": "List", "items": [node, running, pod]});
    folder.write("cluster.yaml", &state.to_string());
    let output = folder.change(
        from_ref(&old),
        &[old.clone(), server("b", NEW, Some("0.35"))],
        &[],
    );
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let output = folder.change(
        from_ref(&old),
        &[old.clone(), server("b", NEW, Some("0.45"))],
        &[],
    );
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
}

#[test]
fn folders_are_compared_and_a_bad_one_is_an_error() {
    let folder = Folder::new();
    folder.write("base/a.yaml", &server("a", NEW, Some("0.30")).to_string());
    folder.write("head/a.yaml", &server("a", NEW, Some("0.60")).to_string());
    let output = folder.check(&["head", "--against", "base", "-o", "github"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(
        text(&output).contains("::notice file=head/a.yaml,line=1,title=GPU memory changes::Deployment team-a/a: container server: "),
        "{}",
        text(&output)
    );
    assert_eq!(
        folder.check(&["head", "--against", "nowhere"]).status.code(),
        Some(2)
    );
    assert_eq!(folder.check(&["-", "--against", "-"]).status.code(), Some(2));
}

fn autoscaler(most: u32) -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a", "namespace": "team-a"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}, "maxReplicas": most},
    })
}

#[test]
fn an_autoscaler_is_told_when_it_or_what_it_scales_changes() {
    let folder = Folder::new();
    let told = |old: &[Value], new: &[Value]| -> Vec<String> {
        let document = json_of(&folder.change(old, new, &["-o", "json"]));
        let items = document["items"].as_array().unwrap().iter();
        let kinds = items
            .map(|item| format!("{} {}", item["object"]["kind"], item["change"]["kind"]).replace('"', ""));
        kinds.collect()
    };
    let (a, more) = (server("a", NEW, Some("0.30")), server("a", NEW, Some("0.40")));
    assert!(told(&[a.clone(), autoscaler(4)], &[a.clone(), autoscaler(4)]).is_empty());
    assert_eq!(
        told(&[a.clone(), autoscaler(2)], &[a.clone(), autoscaler(4)]),
        ["HorizontalPodAutoscaler changed"]
    );
    assert_eq!(
        told(&[a.clone(), autoscaler(2)], &[more, autoscaler(2)]),
        ["Deployment changed", "HorizontalPodAutoscaler unchanged"]
    );
    assert_eq!(
        told(&[], &[a, autoscaler(2)]),
        ["Deployment new", "HorizontalPodAutoscaler new"]
    );
}

#[test]
fn a_value_that_changes_in_a_config_map_is_a_change_of_who_takes_it() {
    let folder = Folder::new();
    let map = |fraction: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "team-a"},
            "data": {"fraction": fraction},
        })
    };
    let mut taker = server("taker", NEW, Some("$(FRACTION)"));
    taker["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{"name": "FRACTION", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "fraction"}}}]);
    let other = server("other", NEW, Some("0.30"));
    let both = |fraction: &str| [map(fraction), taker.clone(), other.clone()];
    let told = |new: &str| {
        let output = folder.change(&both("0.30"), &both(new), &["-o", "json"]);
        let document = json_of(&output);
        assert_eq!(document["items"].as_array().unwrap().len(), 1, "{document:#}");
        let item = document["items"][0].clone();
        assert_eq!(item["object"]["name"], "taker");
        assert_eq!(item["change"]["kind"], "changed");
        assert_eq!(item["change"]["through"], json!(["team-a/settings"]));
        let container = &item["change"]["containers"][0];
        assert_eq!(
            (&container["old"]["value"], &container["new"]["value"]),
            (&json!("0.30"), &json!(new))
        );
        item["verdict"].as_str().unwrap().to_owned()
    };
    assert_eq!(told("0.50"), "admit");
    assert_eq!(told("0.70"), "deny");
    let same = json_of(&folder.change(&both("0.30"), &both("0.30"), &["-o", "json"]));
    assert_eq!(same["items"], json!([]));
}
