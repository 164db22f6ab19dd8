//! Every change that a refusal proposes is applied to the object as it was submitted and judged again: it has to pass.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

mod kit;

use std::collections::BTreeMap;

use kit::{Cluster, H100, L40S, apply, gpu_node, mig_node, pod_of};
use serde_json::{Value, json};
use vramgate::decision::Verdict;
use vramgate::finding::Code;
use vramgate::message;

/// A small generator of numbers that are the same on every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % most as u64).unwrap()
    }

    fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

fn mps(name: &str) -> Value {
    let mut node = gpu_node(name, "NVIDIA-H100-80GB-HBM3", H100, 1, 4);
    node["metadata"]["labels"]["nvidia.com/gpu.sharing-strategy"] = json!("mps");
    node
}

fn slices(name: &str, replicas: u32) -> Value {
    let mut node = gpu_node(name, "NVIDIA-H100-80GB-HBM3", H100, 1, 1);
    let labels = node["metadata"]["labels"].as_object_mut().unwrap();
    let suffix = if replicas > 1 { "-SHARED" } else { "" };
    for (key, value) in [
        ("nvidia.com/mig.strategy", "mixed".to_owned()),
        ("nvidia.com/mig.capable", "true".to_owned()),
        ("nvidia.com/gpu.replicas", "0".to_owned()),
        ("nvidia.com/mig-1g.10gb.count", "3".to_owned()),
        ("nvidia.com/mig-1g.10gb.replicas", replicas.to_string()),
        ("nvidia.com/mig-1g.10gb.memory", "9984".to_owned()),
        (
            "nvidia.com/mig-1g.10gb.product",
            format!("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb{suffix}"),
        ),
        (
            "nvidia.com/mig-1g.10gb.sharing-strategy",
            if replicas > 1 { "time-slicing" } else { "none" }.to_owned(),
        ),
    ] {
        labels.insert(key.to_owned(), json!(value));
    }
    for list in ["capacity", "allocatable"] {
        node["status"][list] =
            json!({"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": (3 * replicas).to_string()});
    }
    node
}

const POLICIES: [&str; 4] = [
    "",
    "spec: {device: {perSlot: fairShare}}",
    "spec: {unknown: {timeSliced: warn}, codes: {warning: [VG207]}}",
    "spec: {device: {budget: \"0.8\"}, unknown: {exclusive: deny}}",
];

fn cluster(dice: &mut Dice) -> Cluster {
    let policy = POLICIES[dice.below(POLICIES.len())];
    let mut cluster = if policy.is_empty() {
        Cluster::new()
    } else {
        Cluster::with_policy(&format!(
            "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: p}}\n{policy}\n"
        ))
    };
    for index in 0..=dice.below(3) {
        let name = format!("n{index}");
        match dice.below(9) {
            0 => cluster.gpu_node(&name, "NVIDIA-H100-80GB-HBM3", H100, 1, 4),
            1 => cluster.gpu_node(&name, "NVIDIA-L40S", L40S, 2, 3),
            2 => cluster.gpu_node(&name, "NVIDIA-L40S", L40S, 1, 8),
            3 => cluster.gpu_node(&name, "NVIDIA-H100-80GB-HBM3", H100, 2, 1),
            4 => cluster.node(&mps(&name)),
            5 => cluster.node(&slices(&name, 2)),
            6 => cluster.node(&mig_node(
                &name,
                &[("2g.20gb", 20_096, 2), ("3g.40gb", 40_448, 1)],
            )),
            7 => cluster.gpu_node(&name, "NVIDIA-H100-80GB-HBM3", H100, 4, 1),
            _ => cluster.node(&slices(&name, 1)),
        }
    }
    for index in 0..dice.below(5) {
        let fraction = dice.one(&["0.10", "0.2", "0.30", "0.45"]);
        let _ = cluster.create(&kit::pod(&format!("held-{index}"), fraction));
    }
    cluster
}

const FRACTIONS: [&str; 12] = [
    "0.30", "0.5", ".45", "0.95", "1.0", "9e-1", "0,3", "nan", "0", "1.5", "0.123456", "$(SHARE)",
];

/// Half of them are known to nobody, so that amounts alone decide.
const MODELS: [&str; 10] = [
    "m",
    "m",
    "m",
    "m",
    "m",
    "Qwen/Qwen3-0.6B",
    "Qwen/Qwen3-8B",
    "meta-llama/Llama-2-7b-chat-hf",
    "RedHatAI/Llama-2-13b-chat-hf-FP8",
    "meta-llama/Llama-3.3-70B-Instruct",
];

fn container(dice: &mut Dice, name: &str) -> Value {
    let image = dice.one(&[
        "vllm/vllm-openai:v0.6.3",
        "vllm/vllm-openai:v0.11.0",
        "vllm/vllm-openai:v0.20.0",
        "vllm/vllm-openai:latest",
    ]);
    let fraction = FRACTIONS[dice.below(FRACTIONS.len())];
    let flag = dice.one(&["--gpu-memory-utilization", "--gpu_memory_utilization"]);
    let tail = match dice.below(6) {
        0 => String::new(),
        1 => format!(" --tensor-parallel-size {}", 1 + dice.below(3)),
        _ => " --max-model-len 4096".to_owned(),
    };
    let option = match dice.below(4) {
        0 => String::new(),
        1 => format!("{flag}={fraction}"),
        _ => format!("{flag} {fraction}"),
    };
    let model = MODELS[dice.below(MODELS.len())];
    let line = format!("--model {model}{tail} {option}");
    let words = || -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
    let server = ["python3", "-m", "vllm.entrypoints.openai.api_server"];
    let mut container = match dice.below(7) {
        0 => json!({"args": words()}),
        1 => json!({"command": server, "args": words()}),
        2 => {
            json!({"command": server.iter().map(|word| (*word).to_owned()).chain(words()).collect::<Vec<_>>()})
        }
        3 => {
            json!({"command": ["sh", "-c", format!("exec python3 -m vllm.entrypoints.openai.api_server {line}")]})
        }
        4 => json!({
            "command": ["/bin/bash", "-c"],
            "args": [format!("export A=1 && \\\n  python3 -m vllm.entrypoints.openai.api_server {line} # served\n")],
        }),
        5 => json!({"command": ["sleep", "1000"]}),
        _ => json!({}),
    };
    container["name"] = json!(name);
    container["image"] = json!(image);
    container["env"] = match dice.below(3) {
        0 => json!([{"name": "SHARE", "value": "0.55"}]),
        1 => json!([{"name": "SHARE", "valueFrom": {"secretKeyRef": {"name": "hush", "key": "share"}}}]),
        _ => json!([]),
    };
    let resource = dice.one(&["nvidia.com/gpu", "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"]);
    let slots = if dice.chance(15) { 2 } else { 1 };
    container["resources"] = json!({"limits": {resource: slots}});
    if dice.chance(30) {
        container["resources"]["requests"] = json!({resource: slots.to_string()});
    }
    if dice.chance(5) {
        container["resources"]["limits"]["nvidia.com/gpu"] = json!("1");
        container["resources"]["limits"]["nvidia.com/mig-1g.10gb"] = json!("1");
        container["resources"].as_object_mut().unwrap().remove("requests");
    }
    container
}

fn spec(dice: &mut Dice) -> Value {
    let containers: Vec<Value> = (0..=usize::from(dice.chance(25)))
        .map(|index| container(dice, &format!("c{index}")))
        .collect();
    let mut spec = json!({"containers": containers});
    if dice.chance(15) {
        let mut first = container(dice, "first");
        if dice.chance(50) {
            first["restartPolicy"] = json!("Always");
        }
        spec["initContainers"] = json!([first]);
    }
    spec
}

fn object(dice: &mut Dice) -> Value {
    let spec = spec(dice);
    let count = 1 + dice.below(12);
    let metadata = json!({"name": "mine", "namespace": "team-a"});
    let template = json!({"metadata": {"labels": {"app": "mine"}}, "spec": spec});
    let apps = |kind: &str, mut spec: Value| {
        spec["template"] = template.clone();
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec})
    };
    match dice.below(7) {
        0 => apps("StatefulSet", json!({"replicas": count})),
        1 => apps(
            "DaemonSet",
            json!({"updateStrategy": {"rollingUpdate": {"maxSurge": dice.below(2)}}}),
        ),
        2 => json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
            "spec": {"parallelism": count, "completions": 1 + dice.below(12), "template": template}}),
        3 => json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata,
            "spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": {"parallelism": count, "template": template}}}}),
        4 | 5 => apps(
            "Deployment",
            json!({"replicas": count, "strategy": {"rollingUpdate": {"maxUnavailable": dice.below(2)}}}),
        ),
        _ => pod_of("mine", spec["containers"].clone()),
    }
}

/// What holds of every verdict's text.
fn text_holds(verdict: &Verdict, object: &Value) {
    for finding in &verdict.findings {
        let headline = message::headline(finding);
        assert!(headline.len() < 256, "{}: {headline}", headline.len());
        assert!(!headline.ends_with('…'), "not complete: {headline}");
        assert!(!headline.ends_with('.'), "{headline}");
        for text in std::iter::once(&finding.message).chain(&finding.details) {
            assert!(!text.contains("  ") && !text.trim().is_empty(), "{text:?}");
            assert!(!text.contains("1844674407"), "an overflow: {text}");
        }
        let path = finding.path.as_str();
        assert!(!path.is_empty(), "{headline}");
        assert!(path.starts_with("spec"), "{path}: {headline}");
    }
    let warnings = message::warnings(verdict);
    assert!(warnings.len() <= 3, "{object:#}");
    assert!(warnings.iter().all(|warning| warning.chars().count() <= 120));
    assert_eq!(verdict.admit, message_has_no_error(verdict));
}

fn message_has_no_error(verdict: &Verdict) -> bool {
    !verdict
        .findings
        .iter()
        .any(|finding| finding.severity == vramgate::finding::Severity::Error)
}

const FIT: [Code; 3] = [Code::Vg301, Code::Vg701, Code::Vg702];

/// What was proposed, by code: kinds of objects, first words of titles, and refusals.
#[derive(Default)]
struct Proposed {
    tried: BTreeMap<(Code, String), usize>,
    verbs: BTreeMap<(Code, String), usize>,
    refused: BTreeMap<Code, usize>,
}

/// Judges objects in clusters of a seed, and each again with every change that is proposed.
fn propose(seeds: u64, make: fn(&mut Dice) -> (Cluster, Value)) -> Proposed {
    let mut proposed = Proposed::default();
    for seed in 1..=seeds {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let (mut cluster, object) = make(&mut dice);
        let verdict = cluster.try_create(&object);
        text_holds(&verdict, &object);
        for finding in &verdict.findings {
            if !verdict.admit {
                *proposed.refused.entry(finding.code).or_default() += 1;
            }
            for fix in finding.fixes.iter().filter(|fix| !fix.patch.is_empty()) {
                let changed = apply(&object, fix);
                let again = cluster.try_create(&changed);
                let gone = finding.code != Code::Vg203
                    || !again.findings.iter().any(|other| other.code == Code::Vg203);
                // Beside an error of another kind a change of the rollout answers the rollout alone.
                let refused_for_more = finding.code == Code::Vg203 && !verdict.admit;
                assert!(
                    (again.admit || refused_for_more) && gone,
                    "seed {seed}: {} ({}) does not help: {:#?}\n{object:#}\n{changed:#}",
                    fix.title,
                    finding.code,
                    again.findings
                );
                let kind = object["kind"].as_str().unwrap().to_owned();
                *proposed.tried.entry((finding.code, kind)).or_default() += 1;
                let verb = fix.title.split(' ').next().unwrap_or_default().to_owned();
                *proposed.verbs.entry((finding.code, verb)).or_default() += 1;
                let is_doubtful = fix.title.ends_with("may start or not");
                let doubts = again.findings.iter().any(|other| {
                    FIT.contains(&other.code)
                        && other
                            .details
                            .iter()
                            .any(|detail| detail.starts_with("between the lower"))
                });
                assert_eq!(
                    is_doubtful, doubts,
                    "seed {seed}: {}: {:#?}",
                    fix.title, again.findings
                );
            }
        }
    }
    proposed
}

#[test]
fn every_proposed_change_passes() {
    let Proposed {
        tried,
        verbs,
        refused,
    } = propose(1_500, |dice| (cluster(dice), object(dice)));
    println!("{tried:?}\n{refused:?}\n{verbs:?}");
    // A larger fraction, a shorter context, another slice, more devices.
    for (code, verb) in [
        (Code::Vg701, "raise"),
        (Code::Vg301, "shorten"),
        (Code::Vg301, "ask"),
        (Code::Vg701, "ask"),
    ] {
        assert!(verbs.contains_key(&(code, verb.to_owned())), "{code} {verb}");
    }
    for code in [
        Code::Vg101,
        Code::Vg102,
        Code::Vg105,
        Code::Vg201,
        Code::Vg203,
        Code::Vg207,
        Code::Vg301,
        Code::Vg401,
        Code::Vg701,
    ] {
        assert!(
            tried.keys().any(|(of, _)| *of == code),
            "no fix of {code} was tried"
        );
    }
}

/// Nodes that a pod has to ask for or to tolerate beside those that it goes to by itself.
fn of_pools(dice: &mut Dice) -> (Cluster, Value) {
    let mut cluster = cluster(dice);
    for index in 0..=dice.below(3) {
        let name = format!("other-{index}");
        let (product, memory) = if dice.chance(50) {
            ("NVIDIA-H100-80GB-HBM3", H100)
        } else {
            ("NVIDIA-L40S", L40S)
        };
        let slots = 1 + u32::try_from(dice.below(4)).unwrap();
        let mut node = gpu_node(&name, product, memory, 1 + u32::from(dice.chance(50)), slots);
        node["metadata"]["labels"]["node-role"] = json!(dice.one(&["training", "serving"]));
        if dice.chance(60) {
            let effect = dice.one(&["NoSchedule", "NoExecute", "PreferNoSchedule"]);
            node["spec"]["taints"] = json!([{"key": "example.com/for", "value": "others", "effect": effect}]);
        }
        cluster.node(&node);
    }
    let mut object = object(dice);
    let kind = object["kind"].as_str().unwrap().to_owned();
    let spec = match kind.as_str() {
        "Pod" => &mut object["spec"],
        "CronJob" => &mut object["spec"]["jobTemplate"]["spec"]["template"]["spec"],
        _ => &mut object["spec"]["template"]["spec"],
    };
    match dice.below(5) {
        0 => spec["nodeSelector"] = json!({"kubernetes.io/hostname": "n0"}),
        1 => spec["nodeSelector"] = json!({"nvidia.com/gpu.present": "true", "node-role": "none"}),
        2 => spec["tolerations"] = json!([{"key": "example.com/else", "operator": "Exists"}]),
        3 => {
            spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n0", "other-0"]}]}]}}});
        }
        _ => {}
    }
    (cluster, object)
}

#[test]
fn every_other_pool_takes_the_object_as_it_is() {
    let Proposed { verbs, .. } = propose(600, of_pools);
    println!("{verbs:?}");
    let sent = verbs.get(&(Code::Vg201, "send".to_owned()));
    assert!(sent.is_some(), "{verbs:?}");
}

/// Nodes with slices of several kinds, policies about them, and containers that ask for what there is and what there is not.
fn of_slices(dice: &mut Dice) -> (Cluster, Value) {
    let policy = dice.one(&[
        "{}",
        "{}",
        "{mig: {profiles: [2g.20gb, 3g.40gb]}}",
        "{mig: {profiles: [1g.10gb]}}",
        "{codes: {warning: [VG302]}}",
    ]);
    let mut cluster = Cluster::with_policy(&format!(
        "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: p}}\nspec: {policy}\n"
    ));
    for index in 0..=dice.below(3) {
        let name = format!("n{index}");
        match dice.below(6) {
            0 => cluster.node(&slices(&name, 1)),
            1 => cluster.node(&slices(&name, 2)),
            2 => cluster.node(&mig_node(
                &name,
                &[("2g.20gb", 20_096, 2), ("3g.40gb", 40_448, 1)],
            )),
            3 => cluster.node(&mig_node(&name, &[("1g.10gb", 9_984, 4), ("3g.40gb", 40_448, 1)])),
            4 => cluster.gpu_node(&name, "NVIDIA-H100-80GB-HBM3", H100, 4, 1),
            _ => {
                let mut single = gpu_node(&name, "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", 9_984, 7, 1);
                single["metadata"]["labels"]["nvidia.com/mig.strategy"] = json!("single");
                cluster.node(&single);
            }
        }
    }
    let resource = |dice: &mut Dice| {
        dice.one(&[
            "nvidia.com/mig-1g.10gb",
            "nvidia.com/mig-2g.20gb",
            "nvidia.com/mig-3g.40gb",
            "nvidia.com/mig-1g.20gb",
            "nvidia.com/mig-1g10gb",
            "nvidia.com/mig-1c.3g.40gb",
            "nvidia.com/gpu.shared",
            "nvidia.com/gpu",
        ])
        .to_owned()
    };
    let mut object = object(dice);
    let pointers = [
        "/spec/containers",
        "/spec/template/spec/containers",
        "/spec/jobTemplate/spec/template/spec/containers",
    ];
    for pointer in pointers {
        for container in object
            .pointer_mut(pointer)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            let slots = if dice.chance(30) { 2 } else { 1 };
            let mut limits = json!({resource(dice): slots});
            if dice.chance(20) {
                limits[resource(dice)] = json!(1);
            }
            container["resources"] = json!({"limits": limits});
            if dice.chance(50) {
                container["args"] = json!([
                    "--model",
                    "Qwen/Qwen3-0.6B",
                    "--max-model-len",
                    "4096",
                    "-tp",
                    slots.to_string()
                ]);
                container["image"] = json!(kit::VLLM);
                container.as_object_mut().unwrap().remove("command");
            }
        }
    }
    (cluster, object)
}

#[test]
fn every_change_of_slices_passes() {
    let Proposed {
        tried,
        verbs,
        refused,
    } = propose(1_500, of_slices);
    println!("{tried:?}\n{refused:?}\n{verbs:?}");
    for code in [Code::Vg302, Code::Vg303, Code::Vg305, Code::Vg306] {
        assert!(
            tried.keys().any(|(of, _)| *of == code),
            "no fix of {code} was tried"
        );
    }
}
