//! Base rules that the API server holds by itself (`vramgate policy export-vap`): they stand while vramgate is down, and refuse
//! nothing that vramgate admits.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::api::eventually;
use crate::scenario::Scenario;

const POLICY: &str = "
apiVersion: vramgate.io/v1alpha1
kind: GpuSharingPolicy
metadata: {name: NAME}
spec:
  priority: 5
  match: {namespaces: {matchLabels: {kubernetes.io/metadata.name: NAME}}}
  codes: {error: [VG503]}
  mig: {profiles: [1g.10gb]}
  access:
    privileged: deny
    devicePaths: deny
    runtimeClasses: [base-rules]
    exempt: {images: ['*/launcher'], pods: {matchLabels: {role: agent}}}
---
apiVersion: vramgate.io/v1alpha1
kind: GpuSharingPolicy
metadata: {name: NAME-above}
spec:
  priority: 9
  match: {namespaces: {matchLabels: {kubernetes.io/metadata.name: NAME}}, pods: {matchLabels: {tier: free}}}
  mode: shadow
";

/// The cluster by which `vramgate check` judges: every slice that pods could ask for, more of them than there are pods.
const CLUSTER: &str = r#"
apiVersion: v1
kind: Node
metadata:
  name: mig-1
  labels:
    nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB
    nvidia.com/gpu.memory: "81920"
    nvidia.com/gpu.count: "1"
    nvidia.com/mig.capable: "true"
    nvidia.com/mig.strategy: mixed
    nvidia.com/mig-1g.10gb.product: NVIDIA-A100-SXM4-80GB-MIG-1g.10gb
    nvidia.com/mig-1g.10gb.count: "2"
    nvidia.com/mig-1g.10gb.memory: "9728"
    nvidia.com/mig-1g.10gb.replicas: "1"
    nvidia.com/mig-1g.10gb.sharing-strategy: none
    nvidia.com/mig-3g.40gb.product: NVIDIA-A100-SXM4-80GB-MIG-3g.40gb
    nvidia.com/mig-3g.40gb.count: "1"
    nvidia.com/mig-3g.40gb.memory: "40192"
    nvidia.com/mig-3g.40gb.replicas: "1"
    nvidia.com/mig-3g.40gb.sharing-strategy: none
status:
  capacity: {cpu: "999", memory: 9999Gi, pods: "999", nvidia.com/mig-1g.10gb: "2", nvidia.com/mig-3g.40gb: "1"}
  allocatable: {cpu: "999", memory: 9999Gi, pods: "999", nvidia.com/mig-1g.10gb: "2", nvidia.com/mig-3g.40gb: "1"}
  conditions:
  - {type: Ready, status: "True"}
---
apiVersion: v1
kind: Node
metadata:
  name: whole-1
  labels:
    nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3
    nvidia.com/gpu.memory: "81559"
    nvidia.com/gpu.count: "8"
    nvidia.com/gpu.replicas: "1"
    nvidia.com/gpu.sharing-strategy: none
status:
  capacity: {cpu: "999", memory: 9999Gi, pods: "999", nvidia.com/gpu: "8"}
  allocatable: {cpu: "999", memory: 9999Gi, pods: "999", nvidia.com/gpu: "8"}
  conditions:
  - {type: Ready, status: "True"}
"#;

/// `vramgate …` in a directory: what it printed.
fn vramgate(directory: &std::path::Path, args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_vramgate"))
        .args(args)
        .current_dir(directory)
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Puts the rules of this namespace into force; those of the built-in default would be everybody's.
fn guard(s: &Scenario) -> std::path::PathBuf {
    let directory = s.cluster.directory.join(s.name);
    fs::create_dir_all(directory.join("policies")).unwrap();
    fs::write(
        directory.join("policies/policy.yaml"),
        POLICY.replace("NAME", s.name),
    )
    .unwrap();
    let list = vramgate(&directory, &["policy", "export-vap", "policies", "-o", "json"]);
    let mut list: Value = serde_json::from_str(&list).unwrap();
    let items = list["items"].as_array_mut().unwrap();
    items.retain(|item| !item["metadata"]["name"].as_str().unwrap().contains("built-in"));
    assert_eq!(
        items.len(),
        8,
        "deny and warn of the one, audit and warn of the other: {items:?}"
    );
    let applied = s.kubectl(&["apply", "-f", "-"], Some(&list));
    assert!(!applied.contains("rror"), "{applied}");
    let class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "base-rules"}, "handler": "nvidia"});
    let applied = s.kubectl(&["apply", "-f", "-"], Some(&class));
    assert!(!applied.contains("rror"), "{applied}");
    directory
}

fn pod(s: &Scenario, name: &str, container: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": s.name}, "spec": {"containers": [container]}})
}

fn pods(s: &Scenario) -> String {
    format!("/api/v1/namespaces/{}/pods?dryRun=All", s.name)
}

/// Whether a base rule refused it: the text says whose it is.
fn is_refused(s: &Scenario, pod: &Value) -> Option<String> {
    let answer = s.api().post(&pods(s), pod);
    let text = answer.text();
    (!answer.is_success() && text.contains("ValidatingAdmissionPolicy")).then_some(text)
}

#[test]
fn g20_base_rules_stand_while_vramgate_is_down() {
    let s = Scenario::alone("base-rules-down");
    guard(&s);
    let sees = json!({"name": "c", "image": "vllm/vllm-openai:v0.20.0", "args": ["--model=example-org/chat-7b"],
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]});
    let ghost = pod(&s, "ghost", &sees);
    s.cluster.with_vramgate(crate::vramgate::Vramgate::kill);
    eventually("the base rules are in force", 30, || is_refused(&s, &ghost));
    let text = is_refused(&s, &ghost).expect("a pod that sees every device is refused");
    assert!(
        text.contains("VG501") && text.contains("policy base-rules-down"),
        "{text}"
    );
    let other = pod(
        &s,
        "other",
        &json!({"name": "c", "image": "registry.example/app:1",
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}),
    );
    // Each of the two bindings comes into force for itself.
    eventually("a program that is not known is told of", 30, || {
        let answer = s
            .api()
            .post(&pods(&s), &other)
            .admitted("a program that is not known");
        answer
            .warnings
            .iter()
            .any(|warning| warning.contains("VG501"))
            .then_some(())
    });
    let mut free = ghost.clone();
    free["metadata"]["labels"] = json!({"tier": "free"});
    s.api()
        .post(&pods(&s), &free)
        .admitted("one under the policy above, in shadow");
    let web = pod(&s, "web", &json!({"name": "web", "image": "nginx:1"}));
    s.api()
        .post(&pods(&s), &web)
        .admitted("a pod without a GPU")
        .without_warning("a pod without a GPU", "VG");
    let closed = json!({"name": "c", "image": "vllm/vllm-openai:v0.20.0", "args": ["--model=example-org/chat-7b"],
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]});
    s.api()
        .post(&pods(&s), &pod(&s, "closed", &closed))
        .admitted("an engine that is shut out");
    s.cluster.with_vramgate(crate::vramgate::Vramgate::start);
}

/// Numbers that are the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % u64::try_from(most).unwrap()).unwrap()
    }

    fn one(&mut self, of: &[Value]) -> Value {
        of[self.below(of.len())].clone()
    }
}

fn set(container: &mut Value, field: &str, value: Value) {
    if !value.is_null() {
        container[field] = value;
    }
}

fn random_container(dice: &mut Dice, name: &str) -> Value {
    // Rare by chance alone: an engine that nothing but the variable shows a device.
    if dice.below(8) == 0 {
        return json!({"name": name, "image": "vllm/vllm-openai:v0.20.0", "args": ["--model=example-org/chat-7b"],
            "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]});
    }
    let images = [
        json!("vllm/vllm-openai:v0.20.0"),
        json!("vllm/vllm-openai"),
        json!("docker.io/vllm/vllm-openai:v0.11.0"),
        json!("registry.example/app:1"),
        json!("registry.example/launcher:1"),
        json!("registry.example/my-vllm:1"),
        json!("nvcr.io/nvidia/k8s/dcgm-exporter:4"),
        json!("nginx"),
    ];
    let mut container = json!({"name": name, "image": dice.one(&images)});
    let args = [
        Value::Null,
        json!(["--model=example-org/chat-7b"]),
        json!(["--model", "example-org/chat-7b", "--tensor-parallel-size", "2"]),
        json!(["--model", "example-org/chat-7b", "--help"]),
        json!(["--model=example-org/chat-7b", "--device", "cpu"]),
        json!(["serve"]),
    ];
    set(&mut container, "args", dice.one(&args));
    let commands = [
        Value::Null,
        Value::Null,
        Value::Null,
        json!(["sleep", "9"]),
        json!(["vllm", "serve", "m"]),
    ];
    set(&mut container, "command", dice.one(&commands));
    let variable = |value: &str| json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}]);
    let env = [
        Value::Null,
        variable("all"),
        variable("0"),
        variable(" void "),
        variable(""),
        variable("$(OTHER)"),
        json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]),
        json!([{"name": "VLLM_TARGET_DEVICE", "value": "cpu"}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]),
    ];
    set(&mut container, "env", dice.one(&env));
    let limits = [
        Value::Null,
        Value::Null,
        json!({"cpu": "1", "memory": "1Gi"}),
        json!({"nvidia.com/gpu": 1}),
        json!({"nvidia.com/mig-1g.10gb": "1"}),
        json!({"nvidia.com/mig-1g.10gb": 2}),
        json!({"nvidia.com/mig-1g.10gb": "0"}),
        json!({"nvidia.com/mig-3g.40gb": 1}),
        json!({"nvidia.com/mig-1g.10gb": 1, "nvidia.com/mig-3g.40gb": 1}),
        json!({"nvidia.com/mig-1g.10gb": 1, "nvidia.com/mig-3g.40gb": 0}),
    ];
    let limits = dice.one(&limits);
    if !limits.is_null() {
        container["resources"] = json!({"limits": limits});
    }
    let security = [
        Value::Null,
        Value::Null,
        Value::Null,
        json!({"privileged": true}),
        json!({"privileged": false}),
    ];
    set(&mut container, "securityContext", dice.one(&security));
    let mounts = [
        Value::Null,
        Value::Null,
        json!([{"name": "host", "mountPath": "/host"}]),
        json!([{"name": "empty", "mountPath": "/tmp"}]),
    ];
    set(&mut container, "volumeMounts", dice.one(&mounts));
    container
}

fn random_pod(s: &Scenario, dice: &mut Dice, number: usize) -> Value {
    let mut containers = vec![random_container(dice, "one")];
    if dice.below(3) == 0 {
        containers.push(random_container(dice, "two"));
    }
    let paths = [
        "/dev/nvidia0",
        "/dev",
        "//dev//nvidiactl",
        "/dev/shm",
        "/dev.d/nvidia0",
        "/var/log",
    ];
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{number}"), "namespace": s.name},
        "spec": {"containers": containers, "volumes": [
            {"name": "host", "hostPath": {"path": paths[dice.below(paths.len())]}}, {"name": "empty", "emptyDir": {}}]}});
    let labels = [
        Value::Null,
        Value::Null,
        Value::Null,
        json!({"tier": "free"}),
        json!({"role": "agent"}),
    ];
    set(&mut pod["metadata"], "labels", dice.one(&labels));
    if dice.below(4) == 0 {
        let container = random_container(dice, "before");
        pod["spec"]["initContainers"] = json!([container]);
    }
    if dice.below(4) == 0 {
        pod["spec"]["runtimeClassName"] = json!("base-rules");
    }
    pod
}

#[test]
fn g20_base_rules_refuse_nothing_that_vramgate_admits() {
    let s = Scenario::alone("base-rules-random");
    let directory = guard(&s);
    let two = pod(
        &s,
        "two",
        &json!({"name": "c", "image": "registry.example/app:1", "resources": {"limits": {"nvidia.com/mig-1g.10gb": 2}}}),
    );
    for kind in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
        s.kubectl(&["delete", kind, "--all"], None);
    }
    eventually("the base rules are in force", 30, || is_refused(&s, &two));
    let mut dice = Dice(20);
    let pods: Vec<Value> = (0..400).map(|number| random_pod(&s, &mut dice, number)).collect();
    let refused: Vec<Option<String>> = pods.iter().map(|pod| is_refused(&s, pod)).collect();
    s.cluster.register_again();

    fs::write(directory.join("cluster.txt"), CLUSTER).unwrap();
    let text: Vec<String> = pods.iter().map(ToString::to_string).collect();
    fs::write(directory.join("pods.txt"), text.join("\n")).unwrap();
    let answers = vramgate(
        &directory,
        &[
            "check",
            "pods.txt",
            "--cluster-state",
            "cluster.txt",
            "--policy-dir",
            "policies",
            "-o",
            "json",
        ],
    );
    let answers: Value = serde_json::from_str(&answers).unwrap();
    let denied: BTreeSet<&str> = answers["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| item["verdict"] == "deny")
        .map(|item| item["object"]["name"].as_str().unwrap())
        .collect();
    let mut codes = BTreeSet::new();
    let mut too_hard = Vec::new();
    for (pod, text) in pods.iter().zip(&refused) {
        let Some(text) = text else { continue };
        if !denied.contains(pod["metadata"]["name"].as_str().unwrap()) {
            too_hard.push(format!("{text}\n{pod}"));
        }
        let at = text.find("VG").unwrap();
        codes.insert(text[at..at + 5].to_owned());
    }
    assert!(
        too_hard.is_empty(),
        "vramgate admits what a base rule refuses:\n{}",
        too_hard.join("\n\n")
    );
    let expected = ["VG305", "VG306", "VG501", "VG502", "VG503"].map(str::to_owned);
    assert!(expected.iter().all(|code| codes.contains(code)), "{codes:?}");
    let count = refused.iter().flatten().count();
    assert!((60..360).contains(&count), "{count} of 400 were refused");
    assert!(
        count * 2 > denied.len(),
        "the base rules hold a part that is worth having: {count} of {}",
        denied.len()
    );
}
