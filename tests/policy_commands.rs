//! `vramgate policy …` as those who write policies meet it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by a panic"
)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// A folder of its own for each test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("vramgate-policy-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }

    /// `vramgate policy …` in this folder: exit code, standard output, standard error.
    fn policy(&self, args: &[&str]) -> (i32, String, String) {
        let output: Output = Command::new(env!("CARGO_BIN_EXE_vramgate"))
            .arg("policy")
            .args(args)
            .current_dir(&self.0)
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (
            output.status.code().unwrap(),
            text(output.stdout),
            text(output.stderr),
        )
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn policy(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: {name}}}\nspec: {spec}\n"
    )
}

const CLUSTER: &str = r#"apiVersion: v1
kind: Namespace
metadata: {name: a, labels: {team: a}}
---
apiVersion: v1
kind: Node
metadata:
  name: n1
  labels:
    pool: shared
    nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3-SHARED
    nvidia.com/gpu.memory: "81559"
    nvidia.com/gpu.count: "1"
    nvidia.com/gpu.replicas: "4"
    nvidia.com/gpu.sharing-strategy: time-slicing
status:
  capacity: {cpu: "32", memory: 256Gi, pods: "110", nvidia.com/gpu: "4"}
  allocatable: {cpu: "32", memory: 250Gi, pods: "110", nvidia.com/gpu: "4"}
  conditions:
  - {type: Ready, status: "True"}
"#;

fn pod(namespace: &str, name: &str, fraction: &str, node: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {namespace}, labels: {{app: {name}}}}}\nspec:\n  {node}\n  containers:\n  \
         - name: server\n    image: vllm/vllm-openai:v0.20.0\n    args: [--model, example-org/chat-7b, --gpu-memory-utilization, \"{fraction}\"]\n    \
         resources: {{limits: {{nvidia.com/gpu: 1}}}}\n"
    )
}

#[test]
fn lint_tells_each_thing_in_its_place_and_the_exit_code_is_a_promise() {
    let folder = Folder::new();
    folder.write("ok.yaml", &policy("ok", "{priority: 1, device: {budget: 0.85}}"));
    let (code, text, _) = folder.policy(&["lint", "ok.yaml"]);
    assert_eq!((code, text.as_str()), (0, "1 file: 0 errors, 0 warnings\n"));

    folder.write(
        "bad.yaml",
        &policy("bad", "{device: {bugdet: 1}, codes: {error: [VG999]}}"),
    );
    let (code, text, _) = folder.policy(&["lint", "bad.yaml"]);
    assert_eq!(code, 1);
    assert!(text.contains("bad.yaml:4:17: error: spec.device.bugdet: is no field of spec.device; did you mean budget? [invalid]"), "{text}");
    assert!(
        text.contains("VG999") && text.ends_with("1 file: 2 errors, 0 warnings\n"),
        "{text}"
    );
    assert_eq!(folder.policy(&["lint", "--fail-on", "never", "bad.yaml"]).0, 0);
    assert_eq!(folder.policy(&["lint", "missing.yaml"]).0, 2);
    folder.write("none.yaml", "a: [\n");
    assert_eq!(folder.policy(&["lint", "none.yaml"]).0, 1);

    // Warnings, each with its rule.
    let set = [
        policy("first", "{priority: 5, match: {}, device: {perSlot: fairShare}}"),
        policy("second", "{priority: 5, match: {nodes: {matchLabels: {pool: x}}}, device: {reserve: {atLeastMiB: 2}}}"),
        policy("third", "{priority: 9, match: {pods: {matchLabels: {app: a}}}, mode: shadow}"),
        policy("fourth", "{priority: 9, match: {namespaces: {matchLabels: {team: a}}}, codes: {error: [VG306]}}"),
        policy("fifth", "{match: {nodes: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: DoesNotExist}]}}}"),
        policy("sixth", "{match: {nodes: {matchLabels: {nvidia.com/gpu.sharing-strategy: timeslicing}}}, defaults: {gpuMemoryUtilization: 0.95}}"),
    ]
    .join("---\n");
    folder.write("set.yaml", &set);
    let (code, text, _) = folder.policy(&["lint", "set.yaml"]);
    assert_eq!(code, 0, "{text}");
    for expected in [
        "it never applies: first (set.yaml:3) matches everything that it matches and has the same priority (5) and comes first by name",
        "2 is 2 MiB; write 2048 if GiB are meant [unit]",
        "it and fourth (set.yaml:18) can match the same pod and have the same priority (9): the other one applies, because its name comes first",
        "VG306 as error has no effect: mig.profiles is any [no-effect]",
        "no node can match: what is asked of the label a excludes itself",
        "did you mean time-slicing? [never-matches]",
        "0.95 is above the budget of the device (0.90)",
        "[resets]",
    ] {
        assert!(text.contains(expected), "{expected:?} is not in\n{text}");
    }
    assert_eq!(folder.policy(&["lint", "--fail-on", "warning", "set.yaml"]).0, 1);
    folder.write("cluster.txt", CLUSTER);
    let (_, text, _) = folder.policy(&["lint", "set.yaml", "--cluster-state", "cluster.txt", "-o", "json"]);
    let result: Value = serde_json::from_str(&text).unwrap();
    let remarks = result["items"].as_array().unwrap();
    let nothing = remarks
        .iter()
        .find(|one| one["rule"] == "matches-nothing" && one["policy"] == "second");
    let nothing = nothing.unwrap_or_else(|| panic!("{text}"));
    assert_eq!(
        nothing["message"],
        "matches none of the nodes of this cluster: the label pool is there shared"
    );
    assert_eq!(
        (nothing["file"].as_str(), nothing["severity"].as_str()),
        (Some("set.yaml"), Some("warning"))
    );
}

const SUITE: &str = "\
# Suite

```yaml cluster
CLUSTER```

## A pod

```yaml manifest
POD```

```verdict
EXPECTED
```
";

#[test]
fn suites_pass_fail_and_are_rewritten() {
    let folder = Folder::new();
    folder.write(
        "policy.yaml",
        &policy("small", "{priority: 1, device: {budget: 0.40}}"),
    );
    let suite = |expected: &str| {
        SUITE
            .replace("CLUSTER", CLUSTER)
            .replace("POD", &pod("a", "chat", "0.50", "restartPolicy: Always"))
            .replace("EXPECTED", expected)
    };
    folder.write("small.md", &suite("admit Pod a/chat"));
    folder.write("README.md", "Only words.\n");
    let (code, text, _) = folder.policy(&["test"]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("FAILED   small.md:26 A pod"), "{text}");
    assert!(
        text.contains("    - admit Pod a/chat\n    + deny Pod a/chat: VG201"),
        "{text}"
    );
    assert!(text.contains("0 passed, 1 failed"), "{text}");
    let (code, text, _) = folder.policy(&["test", "-o", "junit", "."]);
    assert_eq!(code, 1);
    assert!(
        text.contains("<testsuite name=\"small.md\" tests=\"1\" failures=\"1\" errors=\"0\">"),
        "{text}"
    );

    let (code, _, _) = folder.policy(&["test", "--update", "small.md"]);
    assert_eq!(code, 0);
    assert_eq!(folder.read("small.md"), suite("deny Pod a/chat: VG201"));
    let (code, text, _) = folder.policy(&["test", "small.md", "-o", "json"]);
    assert_eq!(code, 0);
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(result["kind"], "PolicyTestResult");
    assert_eq!(result["items"][0]["status"], "passed");

    // What cannot be used is named with the line of the suite.
    folder.write(
        "broken.md",
        &suite("x").replace("kind: Pod", "kind: Pod\n  bad: ["),
    );
    let (code, _, errors) = folder.policy(&["test", "broken.md"]);
    assert_eq!(code, 2);
    assert!(errors.starts_with("error: broken.md:"), "{errors}");
    let (code, _, errors) = folder.policy(&["test", "README.md"]);
    assert_eq!(code, 2);
    assert!(errors.contains("has no case"), "{errors}");
}

#[test]
fn explain_names_the_policy_the_selector_that_failed_and_each_value_with_its_line() {
    let folder = Folder::new();
    let policies = [
        policy("other", "{priority: 9, match: {namespaces: {matchLabels: {team: b}}}}"),
        policy("shared", "{priority: 5, match: {nodes: {matchLabels: {pool: shared}}}, device: {budget: 0.80}, codes: {error: [VG103]}}"),
    ]
    .join("---\n");
    folder.write("policies/set.yaml", &policies);
    folder.write("cluster.yaml", CLUSTER);
    folder.write("pod.yaml", &pod("a", "chat", "0.50", "restartPolicy: Always"));
    let args = [
        "explain",
        "pod.yaml",
        "--cluster-state",
        "cluster.yaml",
        "--policy-dir",
        "policies",
    ];
    let (code, text, errors) = folder.policy(&args);
    assert_eq!(code, 0, "{errors}");
    for expected in [
        "Pod a/chat\n",
        "before a node is known (engines, models, sources, access): built-in-default",
        "no  other (priority 9, policies/set.yaml:3): match.namespaces: the label team is \"a\", and \"b\" is asked for",
        "no  shared (priority 5, policies/set.yaml:8): match.nodes needs a node, and none is known yet",
        "  on n1: shared\n",
        "yes shared (priority 5, policies/set.yaml:8): match.nodes (pool=shared) holds",
        "    its devices: shared\n",
        "spec.device.budget  0.80",
        "policies/set.yaml:9",
    ] {
        assert!(text.contains(expected), "{expected:?} is not in\n{text}");
    }
    let (_, text, _) = folder.policy(&[&args[..], &["-o", "json"]].concat());
    let result: Value = serde_json::from_str(&text).unwrap();
    let shared = result["policies"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["policy"] == "shared");
    let values = shared.unwrap()["values"].as_array().unwrap();
    let of = |field: &str| values.iter().find(|one| one["field"] == field).unwrap();
    assert_eq!(of("spec.device.budget")["origin"], "policies/set.yaml:9");
    assert_eq!(of("spec.mode")["origin"], "built-in default");
    // What the policy moves to another list has left the one of the default.
    assert!(
        !of("spec.codes.warning")["value"]
            .as_str()
            .unwrap()
            .contains("VG103")
    );
}

#[test]
fn diff_tells_whose_verdict_changes() {
    let folder = Folder::new();
    folder.write(
        "old/p.yaml",
        &policy("p", "{priority: 1, device: {budget: 0.90}}"),
    );
    folder.write(
        "new/p.yaml",
        &policy("p", "{priority: 1, device: {budget: 0.70}}"),
    );
    let on = "nodeName: n1";
    let pods = [
        pod("a", "one", "0.30", on),
        pod("a", "two", "0.30", on),
        pod("b", "three", "0.20", on),
    ]
    .concat();
    folder.write("state.yaml", &format!("{CLUSTER}{pods}"));
    let (code, text, errors) = folder.policy(&["diff", "old", "new", "--cluster-state", "state.yaml"]);
    assert_eq!(code, 1, "{errors}");
    assert!(text.contains("node n1: budget 0.90 -> 0.70 (p -> p)"), "{text}");
    assert!(text.contains("Pod a/one"), "{text}");
    assert!(
        text.contains("3 from admit to deny, 0 from deny to admit, 0 with other findings, 0 the same"),
        "{text}"
    );
    let (code, text, _) = folder.policy(&[
        "diff",
        "new",
        "old",
        "--cluster-state",
        "state.yaml",
        "-o",
        "json",
    ]);
    assert_eq!(code, 1);
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(result["items"][0]["change"], "deny-to-admit");
    assert_eq!(result["items"][0]["old"]["findings"][0]["code"], "VG201");
    let (code, text, _) = folder.policy(&["diff", "old", "old", "--cluster-state", "state.yaml"]);
    assert_eq!(
        (code, text.as_str()),
        (
            0,
            "0 from admit to deny, 0 from deny to admit, 0 with other findings, 3 the same\n"
        )
    );
    assert_eq!(
        folder
            .policy(&["diff", "old", "missing", "--cluster-state", "state.yaml"])
            .0,
        2
    );
}

#[test]
fn export_prints_objects_for_kubectl_and_says_what_is_left_out() {
    let folder = Folder::new();
    folder.write(
        "p.yaml",
        &policy(
            "light",
            "{priority: 1, match: {namespaces: {matchLabels: {team: a}}}, mig: {profiles: [1g.10gb]}}",
        ),
    );
    folder.write(
        "q.yaml",
        &policy(
            "nodes",
            "{priority: 2, match: {nodes: {matchLabels: {pool: x}}}, mig: {profiles: [1g.10gb]}}",
        ),
    );
    let (code, text, notes) = folder.policy(&["export-vap", "p.yaml", "q.yaml"]);
    assert_eq!(code, 0, "{notes}");
    assert!(
        text.starts_with(
            "---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\n"
        ),
        "{text}"
    );
    assert!(text.contains("name: vramgate-light-deny"), "{text}");
    assert_eq!(notes.lines().count(), 1, "{notes}");
    assert!(
        notes.contains("not exported: policy nodes: match.nodes"),
        "{notes}"
    );
    let (_, json, _) = folder.policy(&["export-vap", "-o", "json"]);
    let list: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(list["kind"], "List");
}
