//! Changes that bring a cluster back within its budgets: each is applied to the object as it stands in the cluster, and the
//! cluster is read anew with the pods that come of it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

mod kit;

use std::collections::BTreeMap;
use std::sync::Arc;

use kit::{H100, L40S, gpu_node, pod_of, vllm};
use serde_json::{Value, json};
use vramgate::decision::{Operation, Question, judge, prepare};
use vramgate::ledger::Ledger;
use vramgate::manifest::{Object, Origin};
use vramgate::plan::{Allowed, Plan, plan};
use vramgate::policy::PolicySet;
use vramgate::snapshot::Snapshot;
use vramgate::workload::Workload;

const ANY: Allowed = Allowed {
    fractions: true,
    placement: true,
};
const FRACTIONS: Allowed = Allowed {
    fractions: true,
    placement: false,
};

fn object(value: &Value) -> Object {
    Object {
        origin: Origin {
            bytes: 0..0,
            source: Arc::from("test"),
            line: 1,
            item: String::new(),
        },
        value: value.clone(),
    }
}

fn snapshot(objects: &[Value]) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for value in objects {
        snapshot.add(&object(value)).unwrap();
    }
    snapshot
}

fn ledger(snapshot: &Snapshot) -> Ledger {
    let mut ledger = Ledger::new(Arc::new(PolicySet::built_in()));
    snapshot.fill(&mut ledger);
    ledger
}

fn planned(objects: &[Value], allowed: Allowed) -> Plan {
    let snapshot = snapshot(objects);
    plan(&snapshot, ledger(&snapshot), allowed)
}

/// An object with so many running pods on nodes, owned through a ReplicaSet.
fn deployed(name: &str, container: &Value, nodes: &[&str]) -> Vec<Value> {
    let mut deployment = kit::deployment(name, u32::try_from(nodes.len()).unwrap(), container);
    deployment["metadata"]["uid"] = json!(format!("uid-{name}"));
    let mut objects = vec![deployment];
    for (index, node) in nodes.iter().enumerate() {
        let mut pod = pod_of(&format!("{name}-5d-{index}"), json!([container]));
        pod["metadata"]["labels"] = json!({"app": name, "pod-template-hash": "5d"});
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet",
            "name": format!("{name}-5d"), "uid": format!("uid-{name}-5d"), "controller": true}]);
        objects.push(running(pod, node));
    }
    objects
}

fn running(mut pod: Value, node: &str) -> Value {
    pod["metadata"]["uid"] = json!(format!("uid-{}", pod["metadata"]["name"].as_str().unwrap()));
    pod["spec"]["nodeName"] = json!(node);
    pod["status"] = json!({"phase": "Running"});
    pod
}

fn fraction(value: &str) -> Value {
    vllm(kit::VLLM, Some(value))
}

/// Applies a plan: the objects as patched, their pods made anew from them. Where they come to stand is up to the decision,
/// unless they `stay` where they only take less.
fn applied(objects: &[Value], plan: &Plan, stay: bool) -> Vec<Value> {
    let mut objects = objects.to_vec();
    for change in &plan.changes {
        let at = objects
            .iter()
            .position(|object| {
                object["kind"] == *change.object.kind
                    && object["metadata"]["name"] == *change.object.name
                    && object["metadata"]["namespace"] == *change.object.namespace
            })
            .unwrap();
        json_patch::patch(&mut objects[at], &change.patch).unwrap();
        let owner = objects[at].clone();
        if change.anew {
            objects[at]["metadata"]["uid"] = json!("anew");
            continue;
        }
        let name = owner["metadata"]["name"].as_str().unwrap().to_owned();
        let spec = owner["spec"]["template"]["spec"].clone();
        for pod in objects
            .iter_mut()
            .filter(|object| object["kind"] == "Pod" && object["metadata"]["labels"]["app"] == *name.as_str())
        {
            let node = pod["spec"]["nodeName"].clone();
            pod["spec"] = spec.clone();
            pod["status"] = json!({});
            if stay && change.title.starts_with("lower") {
                pod["spec"]["nodeName"] = node;
            }
        }
    }
    objects
}

/// What holds of every plan: each changed object, patched as it stands in the cluster, is admitted to what the others leave,
/// and with all changes every device is within its budget.
fn holds(objects: &[Value], plan: &Plan) {
    let after = applied(objects, plan, false);
    // The pods of changed objects have to find places; everybody else stays.
    let read = snapshot(&after);
    let cluster = ledger(&read);
    let left: Vec<_> = plan
        .remaining
        .iter()
        .map(|left| (&left.device.node, &left.device.resource))
        .collect();
    for view in cluster.over_budget() {
        assert!(
            left.contains(&(&view.node, &view.resource)),
            "{} {} stays at {}: {plan:#?}",
            view.node,
            view.resource,
            view.bound_share
        );
    }
    for view in cluster.devices() {
        if !left.contains(&(&view.node, &view.resource)) && plan.remaining.is_empty() {
            assert!(
                !view.sharing.is_shared() || view.promised_share <= view.budget_share,
                "{} is promised {}: {plan:#?}",
                view.node,
                view.promised_share
            );
        }
    }
    // An object is judged among the others as they are then, pod by pod where the plan has them.
    let after = applied(objects, plan, true);
    for change in &plan.changes {
        let patched = after
            .iter()
            .find(|object| {
                object["kind"] == *change.object.kind && object["metadata"]["name"] == *change.object.name
            })
            .unwrap();
        let others: Vec<Value> = after
            .iter()
            .filter(|object| {
                *object != patched
                    && (change.anew || object["metadata"]["labels"]["app"] != *change.object.name.as_str())
            })
            .cloned()
            .collect();
        let read = snapshot(&others);
        let cluster = ledger(&read);
        let question = Question {
            operation: Operation::Create,
            workload: Workload::read(patched).unwrap().unwrap(),
            old: None,
            namespace_labels: BTreeMap::new(),
            by_node: false,
            scale_only: false,
            dry_run: true,
        };
        let verdict = judge(&prepare(question, cluster.policies(), &read), &cluster);
        assert!(verdict.admit, "{}: {:#?}", change.title, verdict.findings);
    }
}

fn titles(plan: &Plan) -> Vec<String> {
    let changes = plan.changes.iter();
    changes
        .map(|change| format!("{} {}: {}", change.object.kind, change.object.name, change.title))
        .collect()
}

#[test]
fn within_budget_there_is_nothing_to_do() {
    let mut objects = vec![gpu_node("a", "NVIDIA-H100-80GB-HBM3", H100, 1, 4)];
    objects.extend(deployed("chat", &fraction("0.30"), &["a", "a", "a"]));
    assert_eq!(planned(&objects, ANY), Plan::default());
}

#[test]
fn one_object_loses_as_little_as_is_enough() {
    // 0.40 + 2 x 0.30 = 1.00: 0.10 too much. One pod loses 0.10, or two lose 0.05 each: the same loss, and the larger
    // holder is named first.
    let mut objects = vec![gpu_node("a", "NVIDIA-H100-80GB-HBM3", H100, 1, 4)];
    objects.extend(deployed("large", &fraction("0.40"), &["a"]));
    objects.extend(deployed("small", &fraction("0.30"), &["a", "a"]));
    let plan = planned(&objects, ANY);
    assert_eq!(
        titles(&plan),
        ["Deployment large: lower its memory fraction from 0.40 to 0.300"]
    );
    assert_eq!(plan.remaining, []);
    holds(&objects, &plan);
    assert_eq!(planned(&objects, ANY), plan, "the same on every run");
}

#[test]
fn who_can_go_elsewhere_as_it_is_goes() {
    let mut objects = vec![
        gpu_node("a", "NVIDIA-H100-80GB-HBM3", H100, 1, 4),
        gpu_node("b", "NVIDIA-H100-80GB-HBM3", H100, 1, 4),
    ];
    objects.extend(deployed("large", &fraction("0.60"), &["a"]));
    objects.extend(deployed("small", &fraction("0.50"), &["a"]));
    let plan = planned(&objects, ANY);
    assert_eq!(
        titles(&plan),
        ["Deployment small: send it to nodes with kubernetes.io/hostname=b, which take it as it is"]
    );
    holds(&objects, &plan);
    let plan = planned(&objects, FRACTIONS);
    assert_eq!(
        titles(&plan),
        ["Deployment large: lower its memory fraction from 0.60 to 0.400"]
    );
    holds(&objects, &plan);
}

#[test]
fn several_are_brought_down_to_one_fraction_where_no_single_one_is_enough() {
    // 3 x 0.60 = 1.80: no one of them can go down by 0.90.
    let mut objects = vec![gpu_node("a", "NVIDIA-H100-80GB-HBM3", H100, 1, 4)];
    for name in ["one", "two", "three"] {
        objects.extend(deployed(name, &fraction("0.60"), &["a"]));
    }
    let plan = planned(&objects, ANY);
    let each = |name: &str| format!("Deployment {name}: lower its memory fraction from 0.60 to 0.300");
    let mut found = titles(&plan);
    found.sort();
    assert_eq!(found, [each("one"), each("three"), each("two")]);
    holds(&objects, &plan);
}

#[test]
fn a_pod_is_made_anew_and_an_owner_that_is_not_there_is_named() {
    let mut objects = vec![gpu_node("a", "NVIDIA-H100-80GB-HBM3", H100, 1, 4)];
    objects.push(running(kit::pod("bare", "0.70"), "a"));
    let mut others = deployed("chat", &fraction("0.40"), &["a"]);
    objects.push(others.remove(1));
    let plan = planned(&objects, ANY);
    assert_eq!(
        titles(&plan),
        ["Pod bare: lower its memory fraction from 0.70 to 0.500"]
    );
    assert!(plan.changes[0].anew && plan.changes[0].made_by.is_none());
    holds(&objects, &plan);
    let mut objects = vec![gpu_node("a", "NVIDIA-H100-80GB-HBM3", H100, 1, 4)];
    objects.extend(deployed("chat", &fraction("0.70"), &["a"]).pop());
    objects.extend(deployed("more", &fraction("0.40"), &["a"]).pop());
    let plan = planned(&objects, ANY);
    assert_eq!(plan.changes[0].made_by.as_deref(), Some("Deployment team-a/chat"));
}

#[test]
fn what_nothing_helps_is_told_with_its_reason() {
    let ollama = json!({"name": "server", "image": "ollama/ollama:0.5.7",
        "resources": {"limits": {"nvidia.com/gpu": "1"}}});
    let mut objects = vec![gpu_node("a", "NVIDIA-H100-80GB-HBM3", H100, 1, 2)];
    for name in ["one", "two"] {
        objects.extend(deployed(name, &ollama, &["a"]));
    }
    objects.extend(deployed("three", &fraction("0.60"), &["a"]));
    let plan = planned(&objects, ANY);
    println!("{plan:#?}");
    holds(&objects, &plan);
    for left in &plan.remaining {
        assert!(left.why.contains("Deployment team-a/"), "{}", left.why);
    }
}

/// Runs the command on a cluster: its exit code and what it prints.
fn command(objects: &[Value], arguments: &[&str]) -> (Option<i32>, String) {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let file = std::env::temp_dir().join(format!("vramgate-plan-{}-{number}.json", std::process::id()));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    std::fs::write(&file, list.to_string()).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_vramgate"))
        .args(["plan", "--cluster-state"])
        .arg(&file)
        .args(arguments)
        .output()
        .unwrap();
    std::fs::remove_file(&file).unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_command_prints_what_to_run_and_the_page_shows_it() {
    let mut objects = vec![gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 1, 4)];
    objects.extend(deployed("large", &fraction("0.40"), &["gpu-1"]));
    objects.extend(deployed("small", &fraction("0.30"), &["gpu-1", "gpu-1"]));
    let (code, text) = command(&objects, &[]);
    assert_eq!(code, Some(0), "{text}");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/plan.md");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains(&text), "docs/plan.md lacks\n{text}");
    let (code, lines) = command(&objects, &["-o", "patch"]);
    let line = text.lines().find(|line| line.contains("kubectl")).unwrap().trim();
    assert_eq!(code, Some(0));
    assert!(lines.lines().any(|other| other == line), "{lines}");
    let (code, document) = command(&objects, &["-o", "json"]);
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(code, Some(0));
    assert_eq!(document["kind"], "Plan");
    assert_eq!(document["changes"][0]["object"]["name"], "large");
    assert_eq!(document["changes"][0]["patch"][0]["value"], "0.300");
    assert_eq!(document["remaining"], json!([]));
    // Nothing is planned of a pod that only another node could help, and there is none.
    let (code, text) = command(&objects, &["--only", "placement"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("Still above budget:") && text.contains("no other node has room"),
        "{text}"
    );
    objects.truncate(1);
    let (code, text) = command(&objects, &[]);
    assert_eq!(
        (code, text.as_str()),
        (
            Some(0),
            "No device is above its budget; nothing is to be changed.\n"
        )
    );
}

/// A small generator of numbers that are the same on every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % most as u64).unwrap()
    }
}

#[test]
fn every_plan_holds() {
    let (mut solved, mut left) = (0, 0);
    for seed in 1..=300_u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let nodes = 1 + dice.below(4);
        let mut objects = Vec::new();
        let names: Vec<String> = (0..nodes).map(|index| format!("n{index}")).collect();
        // The kubelet gives no slot twice.
        let mut free: Vec<u32> = Vec::new();
        for name in &names {
            let (product, memory) = if dice.below(2) == 0 {
                ("NVIDIA-H100-80GB-HBM3", H100)
            } else {
                ("NVIDIA-L40S", L40S)
            };
            let devices = 1 + u32::try_from(dice.below(2)).unwrap();
            let slots = 2 + u32::try_from(dice.below(4)).unwrap();
            free.push(devices * slots);
            objects.push(gpu_node(name, product, memory, devices, slots));
        }
        for index in 0..=dice.below(5) {
            let value = ["0.15", "0.30", "0.45", "0.60", "0.85"][dice.below(5)];
            let replicas = 1 + dice.below(3);
            let mut stand: Vec<&str> = Vec::new();
            for _ in 0..replicas {
                let node = dice.below(nodes);
                if free[node] > 0 {
                    free[node] -= 1;
                    stand.push(&names[node]);
                }
            }
            if stand.is_empty() {
                continue;
            }
            let container = match dice.below(8) {
                0 => json!({"name": "server", "image": "example.com/own/server:1",
                    "resources": {"limits": {"nvidia.com/gpu": "1"}}}),
                1 => vllm("vllm/vllm-openai:v0.6.3", Some(value)),
                _ => fraction(value),
            };
            objects.extend(deployed(&format!("app{index}"), &container, &stand));
        }
        let plan = planned(&objects, if dice.below(3) == 0 { FRACTIONS } else { ANY });
        holds(&objects, &plan);
        solved += usize::from(!plan.changes.is_empty() && plan.remaining.is_empty());
        left += usize::from(!plan.remaining.is_empty());
    }
    println!("{solved} solved, {left} not");
    assert!(solved > 50, "{solved} solved, {left} not");
}
