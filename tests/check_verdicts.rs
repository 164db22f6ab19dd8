//! `vramgate check` with real verdicts: objects are applied in order, and what was admitted is met by what follows.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by a panic"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

fn example(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples")
        .join(name)
        .display()
        .to_string()
}

fn pod(name: &str, fraction: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: llm}}
spec:
  containers:
  - name: server
    image: vllm/vllm-openai:v0.20.0
    args: [--model, example-org/chat-7b, --gpu-memory-utilization, \"{fraction}\"]
    resources: {{limits: {{nvidia.com/gpu: 1}}}}
"
    )
}

fn deployment(name: &str, replicas: u32, fraction: &str, surge: u32) -> String {
    format!(
        "---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: llm}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  strategy: {{rollingUpdate: {{maxSurge: {surge}, maxUnavailable: 1}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers:
      - name: server
        image: vllm/vllm-openai:v0.20.0
        args: [--model, example-org/chat-7b, --gpu-memory-utilization, \"{fraction}\"]
        resources: {{limits: {{nvidia.com/gpu: 1}}}}
"
    )
}

/// One node with one H100 and four time-sliced slots, on which every pod may stand.
const NODE: &str = r#"---
apiVersion: v1
kind: Node
metadata:
  name: gpu-a
  labels:
    nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3-SHARED
    nvidia.com/gpu.memory: "81559"
    nvidia.com/gpu.count: "1"
    nvidia.com/gpu.replicas: "4"
    nvidia.com/gpu.sharing-strategy: time-slicing
status:
  capacity: {nvidia.com/gpu: "4"}
  allocatable: {nvidia.com/gpu: "4"}
  conditions: [{type: Ready, status: "True"}]
"#;

struct Checked {
    code: i32,
    text: String,
    items: Vec<Value>,
}

impl Checked {
    fn verdicts(&self) -> Vec<(&str, &str)> {
        self.items
            .iter()
            .map(|item| {
                (
                    item["object"]["name"].as_str().unwrap(),
                    item["verdict"].as_str().unwrap(),
                )
            })
            .collect()
    }

    fn codes(&self, index: usize) -> Vec<&str> {
        self.items[index]["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|finding| finding["code"].as_str().unwrap())
            .collect()
    }
}

/// Checks `input` against `state`, in both formats.
fn check(state: &str, input: &str, more: &[&str]) -> Checked {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder: PathBuf =
        std::env::temp_dir().join(format!("vramgate-verdicts-{}-{number}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("state.yaml"), state).unwrap();
    fs::write(folder.join("input.yaml"), input).unwrap();
    let run = |format: &str| {
        Command::new(env!("CARGO_BIN_EXE_vramgate"))
            .args([
                "check",
                "--cluster-state",
                "state.yaml",
                "input.yaml",
                "-o",
                format,
            ])
            .args(more)
            .current_dir(&folder)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    let (json, text) = (run("json"), run("text"));
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(json.status.code(), text.status.code());
    let document: Value = serde_json::from_slice(&json.stdout)
        .unwrap_or_else(|_| panic!("no JSON: {}", String::from_utf8_lossy(&json.stderr)));
    assert_eq!(document["apiVersion"], "vramgate.io/v1alpha1");
    Checked {
        code: json.status.code().unwrap(),
        text: String::from_utf8(text.stdout).unwrap(),
        items: document["items"].as_array().unwrap().clone(),
    }
}

#[test]
fn the_fourth_pod_is_refused_and_the_three_holders_are_named() {
    let input = ["a", "b", "c", "d"].map(|name| pod(name, "0.30")).concat();
    let checked = check(NODE, &input, &[]);
    assert_eq!(
        checked.verdicts(),
        [("a", "admit"), ("b", "admit"), ("c", "admit"), ("d", "deny")]
    );
    assert_eq!(checked.code, 1);
    assert_eq!(checked.codes(3), ["VG201"]);
    let finding = &checked.items[3]["findings"][0];
    assert_eq!(finding["severity"], "error");
    let holders: Vec<_> = finding["holders"]
        .as_array()
        .unwrap()
        .iter()
        .map(|holder| holder["name"].clone())
        .collect();
    assert_eq!(holders, ["a", "b", "c"]);
    assert!(finding["message"].as_str().unwrap().len() < 256);
    let place = &checked.items[2]["placement"][0];
    assert_eq!(
        (&place["node"], &place["device"]),
        (&"gpu-a".into(), &"nvidia.com/gpu[0]".into())
    );
    assert_eq!(
        (&place["promisedFraction"], &place["budgetFraction"]),
        (&"0.90".into(), &"0.90".into())
    );
    assert_eq!(
        (&place["promisedMiB"], &place["budgetMiB"]),
        (&73_404.into(), &73_403.into())
    );
    assert!(checked.text.contains("deny   Pod llm/d\n"), "{}", checked.text);
    assert!(checked.text.contains("llm/a"), "{}", checked.text);
    assert!(checked.text.contains("3 admitted, 1 denied"), "{}", checked.text);
}

#[test]
fn a_proposed_fix_makes_the_object_pass() {
    let three = ["a", "b", "c"].map(|name| pod(name, "0.20")).concat();
    let refused = check(NODE, &format!("{three}{}", pod("d", "0.40")), &[]);
    assert_eq!(refused.verdicts()[3], ("d", "deny"));
    let fixes = refused.items[3]["findings"][0]["fixes"].as_array().unwrap();
    let patch = fixes
        .iter()
        .map(|fix| &fix["patch"])
        .find(|patch| !patch.as_array().unwrap().is_empty())
        .unwrap();
    let value = patch[0]["value"].as_str().unwrap();
    let passing = check(NODE, &format!("{three}{}", pod("d", value)), &[]);
    assert_eq!(passing.verdicts()[3], ("d", "admit"), "0.40 -> {value}");
    assert_eq!(passing.code, 0);
}

#[test]
fn a_deployments_replicas_join_as_holders() {
    let input = format!("{}{}", deployment("chat", 2, "0.30", 0), pod("late", "0.40"));
    let checked = check(NODE, &input, &[]);
    assert_eq!(checked.verdicts(), [("chat", "admit"), ("late", "deny")]);
    let input = format!("{}{}", deployment("chat", 2, "0.30", 0), pod("late", "0.30"));
    assert_eq!(check(NODE, &input, &[]).code, 0);
    let checked = check(NODE, &deployment("chat", 4, "0.30", 0), &[]);
    assert_eq!((checked.verdicts(), checked.code), (vec![("chat", "deny")], 1));
    assert_eq!(checked.codes(0), ["VG201"]);
}

#[test]
fn a_refused_object_does_not_join() {
    let input = format!("{}{}{}", pod("a", "0.60"), pod("b", "0.40"), pod("c", "0.30"));
    let checked = check(NODE, &input, &[]);
    assert_eq!(
        checked.verdicts(),
        [("a", "admit"), ("b", "deny"), ("c", "admit")]
    );
}

#[test]
fn an_object_of_the_snapshot_is_changed_and_its_own_pods_make_room() {
    let running = ["x", "y", "z"]
        .map(|suffix| {
            pod(&format!("chat-77-{suffix}"), "0.30").replace(
                "namespace: llm}\nspec:\n",
                "namespace: llm, labels: {app: chat, pod-template-hash: '77'}, ownerReferences: \
                 [{apiVersion: apps/v1, kind: ReplicaSet, name: chat-77, uid: r, controller: true}]}\n\
                 spec:\n  nodeName: gpu-a\n",
            )
        })
        .concat();
    let state = format!("{NODE}{running}{}", deployment("chat", 3, "0.30", 0));
    // The same again, and less: nothing of it is new.
    for (replicas, fraction) in [(3, "0.30"), (2, "0.30"), (3, "0.20")] {
        let checked = check(&state, &deployment("chat", replicas, fraction, 0), &[]);
        assert_eq!(checked.verdicts(), [("chat", "admit")], "{}", checked.text);
    }
    let checked = check(&state, &deployment("chat", 4, "0.30", 0), &[]);
    assert_eq!(checked.verdicts(), [("chat", "deny")], "{}", checked.text);
    // Others meet the pods that stand there.
    assert_eq!(
        check(&state, &pod("late", "0.10"), &[]).verdicts(),
        [("late", "deny")]
    );
    let input = format!("{}{}", deployment("chat", 2, "0.30", 0), pod("late", "0.30"));
    assert_eq!(
        check(&state, &input, &[]).verdicts(),
        [("chat", "admit"), ("late", "admit")]
    );
}

#[test]
fn context_is_read_first_wherever_it_stands() {
    let input = format!("{}{NODE}", pod("a", "0.30"));
    let empty = NODE.replace("gpu-a", "gpu-z").replace("\"4\"", "\"0\"");
    let checked = check(&empty, &input, &[]);
    assert_eq!(checked.verdicts(), [("a", "admit")]);
    assert_eq!(checked.items[0]["placement"][0]["node"], "gpu-a");

    let by_reference = pod("a", "$(FRACTION)").replace(
        "    resources:",
        "    env: [{name: FRACTION, valueFrom: {configMapKeyRef: {name: settings, key: fraction}}}]\n    resources:",
    );
    let settings = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: llm}\ndata: {fraction: '0.30'}\n";
    let checked = check(NODE, &format!("{by_reference}{settings}"), &[]);
    assert_eq!(
        checked.items[0]["placement"][0]["promisedFraction"], "0.30",
        "{}",
        checked.text
    );
    let checked = check(NODE, &by_reference, &[]);
    assert_eq!(checked.verdicts(), [("a", "deny")]);
    assert!(checked.codes(0).contains(&"VG102"), "{}", checked.text);
}

#[test]
fn a_policy_of_the_input_applies() {
    let policy = "---\napiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: half}\n\
                  spec: {device: {budget: \"0.50\"}}\n";
    let input = format!("{}{}{policy}", pod("a", "0.30"), pod("b", "0.30"));
    assert_eq!(
        check(NODE, &input, &[]).verdicts(),
        [("a", "admit"), ("b", "deny")]
    );
    let shadow = "---\napiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: shadow}\n\
                  spec: {mode: warn}\n";
    let input = format!("{}{}{shadow}", pod("a", "0.60"), pod("b", "0.60"));
    let checked = check(NODE, &input, &[]);
    assert_eq!(
        (checked.verdicts(), checked.code),
        (vec![("a", "admit"), ("b", "admit")], 0)
    );
    assert_eq!(checked.items[1]["findings"][0]["severity"], "warning");
    assert_eq!(check(NODE, &input, &["--fail-on", "warning"]).code, 1);
}

#[test]
fn the_examples_do_what_their_comments_say() {
    let run = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_vramgate"))
            .args(args)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        (
            output.status.code().unwrap(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let cluster = example("cluster.yaml");
    let (code, text) = run(&["check", "--cluster-state", &cluster, &example("pods.yaml")]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("3 admitted, 1 denied"), "{text}");
    let (code, text) = run(&["check", "--cluster-state", &cluster, &example("deployment.yaml")]);
    assert_eq!(code, 0, "{text}");
    let (code, text) = run(&["check", "--cluster-state", &cluster, &example("mistakes.yaml")]);
    assert_eq!(code, 1, "{text}");
    for code in ["VG103", "VG207", "VG101", "VG205"] {
        assert!(text.contains(code), "{code} is not in: {text}");
    }
    let (code, text) = run(&["explain", &example("mistakes.yaml")]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("VG103"), "{text}");
}

#[test]
fn a_fraction_of_free_memory_is_counted_and_fixed_like_one_of_the_total() {
    let sglang = |name: &str, more: &str| {
        let pod = pod(name, "0.30").replace("vllm/vllm-openai:v0.20.0", "lmsysorg/sglang:v0.5.10.post1");
        let line = "    command: [python3, -m, sglang.launch_server]\n    args: [--model-path, m";
        let args = "    args: [--model, example-org/chat-7b, --gpu-memory-utilization, \"0.30\"";
        pod.replace(args, &format!("{line}{more}"))
    };
    let fraction = |value: &str| format!(", --mem-fraction-static={value}");
    let input = [
        sglang("a", &fraction("0.40")),
        sglang("b", &fraction("0.60")),
        sglang("c", ""),
    ]
    .concat();
    let checked = check(NODE, &input, &[]);
    assert_eq!(checked.verdicts(), [("a", "admit"), ("b", "deny"), ("c", "deny")]);
    // Without a fraction it works one out from the whole device.
    assert_eq!(
        (checked.codes(1), checked.codes(2)),
        (vec!["VG201"], vec!["VG207"])
    );
    let patch = |index: usize| {
        let fixes = checked.items[index]["findings"][0]["fixes"].as_array().unwrap();
        let patch = fixes.iter().find_map(|fix| fix["patch"].get(0)).unwrap();
        patch["value"]
            .as_str()
            .unwrap()
            .trim_start_matches("--mem-fraction-static=")
            .to_owned()
    };
    let passing = [sglang("a", &fraction("0.40")), sglang("b", &fraction(&patch(1)))].concat();
    assert_eq!(
        check(NODE, &passing, &[]).verdicts(),
        [("a", "admit"), ("b", "admit")]
    );
}

#[test]
fn a_pod_is_judged_with_what_the_policy_changes_in_it() {
    let mps = NODE.replace("time-slicing", "mps");
    let input = format!(
        "{}{}",
        pod("a", "0.20"),
        pod("b", "0.20").replace("kind: Pod", "kind: Pod # the second")
    );
    let checked = check(&mps, &input, &[]);
    assert_eq!(checked.verdicts(), [("a", "admit"), ("b", "admit")]);
    for item in &checked.items {
        assert_eq!(item["patches"][0]["path"], "/spec/containers/0/env");
        assert_eq!(item["patches"][0]["value"][0]["value"], "0=16952M");
        // The record of what was set, and the share that kube-scheduler counts: 0.20 with its overhead is 0.20.
        assert_eq!(item["patches"].as_array().map(Vec::len), Some(4));
        for (at, list) in [(2, "limits"), (3, "requests")] {
            let path = item["patches"][at]["path"].as_str().unwrap();
            assert!(
                path.starts_with(&format!("/spec/containers/0/resources/{list}")),
                "{path}"
            );
        }
    }
    // Objects that make pods are judged so and left as they are.
    let checked = check(&mps, &deployment("d", 3, "0.20", 1), &[]);
    assert_eq!(checked.verdicts(), [("d", "admit")]);
    assert_eq!(checked.items[0]["patches"], serde_json::json!([]));
}

#[test]
fn what_configures_gpus_is_judged_wherever_it_stands() {
    let map = |name: &str, key: &str, text: &str| {
        let text = text.replace('\n', "\n    ");
        format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: gpu-operator}}\ndata:\n  {key}: |\n    {text}\n"
        )
    };
    let state = [
        NODE.to_owned(),
        pod("runs", "0.30").replace("spec:", "spec:\n  nodeName: gpu-a"),
    ]
    .concat();
    let node = NODE.replace(
        "  labels:\n",
        "  labels:\n    nvidia.com/mig.config: all-1g.12gb\n    nvidia.com/device-plugin.config: two\n",
    );
    let input = [
        pod("asks", "0.30"),
        node,
        map("mig", "config.yaml", "version: v1\nmig-configs:\n  all-1g.10gb:\n  - devices: all\n    mig-enabled: true\n    mig-devices: {1g.10gb: 7}"),
        map("plugin", "two", "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 2}"),
        map("broken", "k", "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 1}"),
        map("settings", "k", "sharing: none"),
    ]
    .concat();
    let checked = check(&state, &input, &[]);
    assert_eq!(
        checked.verdicts(),
        [
            ("asks", "admit"),
            ("gpu-a", "admit"),
            ("mig", "admit"),
            ("plugin", "admit"),
            ("broken", "deny")
        ],
        "{}",
        checked.text
    );
    assert_eq!(checked.code, 1);
    // The node shows four slots where its configuration says two.
    assert_eq!(checked.codes(0), ["VG704"], "{}", checked.text);
    assert!(
        checked
            .text
            .contains("ConfigMap gpu-operator/plugin says time-slicing with 2 slots"),
        "{}",
        checked.text
    );
    assert_eq!(checked.codes(1), ["VG603", "VG604"]);
    assert!(checked.text.contains("llm/runs"), "{}", checked.text);
    assert_eq!(checked.codes(4), ["VG602"]);
}

#[test]
fn claims_and_what_they_mean_are_context_too() {
    let slice = |memory: &str| {
        format!(
            "---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: dra-a}}
spec:
  driver: gpu.nvidia.com
  nodeName: dra-a
  pool: {{name: dra-a, generation: 1, resourceSliceCount: 1}}
  devices:
  - name: gpu-0
    attributes: {{type: {{string: gpu}}, productName: {{string: NVIDIA L40S}}}}
    capacity: {{memory: {{value: {memory}}}}}
---
apiVersion: v1
kind: Node
metadata: {{name: dra-a}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: gpu.nvidia.com}}
spec:
  extendedResourceName: nvidia.com/gpu
  selectors: [{{cel: {{expression: device.driver == 'gpu.nvidia.com'}}}}]
"
        )
    };
    let by_claim = |name: &str, fraction: &str| {
        pod(name, fraction).replace(
            "    resources: {limits: {nvidia.com/gpu: 1}}",
            "    resources: {claims: [{name: gpu}]}\n  resourceClaims: [{name: gpu, resourceClaimName: shared}]",
        )
    };
    let claim = "---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shared, namespace: llm}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}
";
    let input = format!(
        "{}{}{}{claim}",
        by_claim("a", "0.50"),
        by_claim("b", "0.50"),
        by_claim("c", "0.40")
    );
    let checked = check(&slice("46068Mi"), &input, &[]);
    assert_eq!(
        checked.verdicts(),
        [("a", "admit"), ("b", "deny"), ("c", "admit")]
    );
    assert_eq!(checked.codes(1), ["VG201"]);
    // The node has no label and no capacity, and its slice offers what the class stands for.
    let checked = check(&slice("46068Mi"), &pod("d", "0.95"), &[]);
    assert_eq!(checked.verdicts(), [("d", "admit")], "{}", checked.text);
    assert!(checked.codes(0).is_empty(), "{}", checked.text);
}

/// A policy that gives an engine without a fraction its fair share of a shared device.
const FAIR: &str = "---\napiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: fair}\n\
                    spec: {defaults: {gpuMemoryUtilization: fairShare}}\n";

fn without_fraction(object: &str) -> String {
    object.replace(", --gpu-memory-utilization, \"0.30\"", "")
}

/// The share of the pods of `name` among the holders of a refusal.
fn refused_beside(checked: &Checked, index: usize, name: &str) -> Vec<String> {
    let holders = checked.items[index]["findings"][0]["holders"].as_array();
    let holders = holders.unwrap_or_else(|| panic!("{}", checked.text));
    holders
        .iter()
        .filter(|holder| holder["name"].as_str().unwrap().starts_with(name))
        .map(|holder| holder["share"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn replicas_join_with_what_the_policy_gives_their_pods() {
    let chat = without_fraction(&deployment("chat", 2, "0.30", 0));
    // Two fair shares of four leave nearly half of the budget; two pods at the engine's default would leave nothing.
    let input = format!("{FAIR}{chat}{}", pod("late", "0.40"));
    let checked = check(NODE, &input, &[]);
    assert_eq!(
        checked.verdicts(),
        [("chat", "admit"), ("late", "admit")],
        "{}",
        checked.text
    );
    let input = format!("{FAIR}{chat}{}", pod("late", "0.60"));
    let checked = check(NODE, &input, &[]);
    assert_eq!(
        checked.verdicts(),
        [("chat", "admit"), ("late", "deny")],
        "{}",
        checked.text
    );
    assert_eq!(refused_beside(&checked, 1, "chat").len(), 2, "{}", checked.text);
    // As many pods by themselves count the same.
    let alone = ["chat-0", "chat-1"]
        .map(|name| without_fraction(&pod(name, "0.30")))
        .concat();
    let by_themselves = check(NODE, &format!("{FAIR}{alone}{}", pod("late", "0.60")), &[]);
    assert_eq!(
        refused_beside(&checked, 1, "chat"),
        refused_beside(&by_themselves, 2, "chat")
    );
    // The same object again is an UPDATE that asks for no more.
    let checked = check(NODE, &format!("{FAIR}{chat}{chat}{}", pod("late", "0.40")), &[]);
    assert_eq!(
        checked.verdicts(),
        [("chat", "admit"), ("chat", "admit"), ("late", "admit")]
    );
}

#[test]
fn pods_of_a_daemon_set_join_with_what_each_node_makes_of_them() {
    // The pod on the node with two slots gets its half, the one on the node with four its quarter.
    let two = NODE.replace("gpu-a", "gpu-two").replace("\"4\"", "\"2\"");
    let state = format!("{NODE}{two}");
    let daemon = without_fraction(&deployment("agent", 1, "0.30", 0))
        .replace("kind: Deployment", "kind: DaemonSet")
        .replace("  replicas: 1\n", "")
        .replace(
            "  strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}\n",
            "",
        );
    let on = |node: &str, fraction: &str| {
        pod("late", fraction).replace(
            "spec:\n",
            &format!("spec:\n  nodeSelector: {{kubernetes.io/hostname: {node}}}\n"),
        )
    };
    let state = state
        .replace(
            "nvidia.com/gpu.count",
            "kubernetes.io/hostname: NAME\n    nvidia.com/gpu.count",
        )
        .replacen("NAME", "gpu-a", 1)
        .replacen("NAME", "gpu-two", 1);
    for (node, fits, not) in [("gpu-a", "0.60", "0.75"), ("gpu-two", "0.40", "0.60")] {
        let checked = check(&state, &format!("{FAIR}{daemon}{}", on(node, fits)), &[]);
        assert_eq!(
            checked.verdicts(),
            [("agent", "admit"), ("late", "admit")],
            "{node}: {}",
            checked.text
        );
        let checked = check(&state, &format!("{FAIR}{daemon}{}", on(node, not)), &[]);
        assert_eq!(
            checked.verdicts(),
            [("agent", "admit"), ("late", "deny")],
            "{node}: {}",
            checked.text
        );
    }
}
