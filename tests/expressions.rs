//! Policies that select by an expression: which rules a pod is judged by, and what becomes of an expression that fails.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

mod kit;

use kit::{Cluster, H100, deployment, finding, golden, has, pod, vllm};
use serde_json::{Value, json};
use vramgate::finding::{Code, Severity};
use vramgate::message;

const PRODUCT: &str = "NVIDIA-H100-80GB-HBM3";
const IMAGE: &str = "vllm/vllm-openai:v0.11.0";

fn policy(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: {name}}}\nspec:\n  {}\n",
        spec.replace('\n', "\n  ")
    )
}

fn cluster(text: &str) -> Cluster {
    let mut cluster = Cluster::with_policy(text);
    cluster.gpu_node("gpu-1", PRODUCT, H100, 1, 4);
    cluster
}

fn labelled(mut object: Value, labels: &Value) -> Value {
    object["metadata"]["labels"] = labels.clone();
    object
}

/// A device is full: under the policy that the expression selects this is a warning, else a denial.
#[test]
fn the_expression_decides_whose_rules_apply() {
    for (expression, selected) in [
        ("pod.labels.tier == 'trial'", true),
        ("pod.namespace == 'team-that-is-not'", false),
        ("container.image.startsWith('vllm/')", true),
        ("container.image.startsWith('ollama/')", false),
        ("request.count > 1", false),
        ("request.resource == 'nvidia.com/gpu'", true),
        ("gpu.sharing == 'timeSliced' && gpu.slotsPerDevice == 4", true),
        ("gpu.memoryMiB < 80000", false),
        ("'nvidia.com/gpu.product' in node.labels", true),
        (
            "node.labels['nvidia.com/gpu.product'].startsWith('NVIDIA-L40S')",
            false,
        ),
    ] {
        let spec = format!("mode: warn\nmatch: {{expression: \"{expression}\"}}");
        let mut cluster = cluster(&policy("trial", &spec));
        let of = |name: &str| labelled(pod(name, "0.60"), &json!({"tier": "trial"}));
        assert!(cluster.create(&of("first")).admit, "{expression}");
        let second = cluster.create(&of("second"));
        assert!(has(&second, Code::Vg201), "{expression}");
        assert_eq!(second.admit, selected, "{expression}");
        assert!(!has(&second, Code::Vg903), "{expression}");
    }
}

#[test]
fn templates_are_selected_as_their_pods_are() {
    let text = policy(
        "trial",
        "mode: warn\nmatch: {expression: \"container.name == 'server' && pod.labels.app == 'llm'\"}",
    );
    let mut cluster = cluster(&text);
    let mut object = deployment("llm", 2, &vllm(IMAGE, Some("0.60")));
    object["spec"]["template"]["metadata"]["labels"] = json!({"app": "llm"});
    object["spec"]["selector"]["matchLabels"] = json!({"app": "llm"});
    let verdict = cluster.check(&object);
    assert!(verdict.admit && has(&verdict, Code::Vg201), "{verdict:?}");
    object["spec"]["template"]["metadata"]["labels"] = json!({"app": "other"});
    assert!(!cluster.check(&object).admit);
}

/// What cannot be told is not taken for "no": the policy applies, and its mode says what becomes of the failure.
#[test]
fn an_expression_that_fails_follows_the_mode() {
    let spec = |mode: &str| {
        policy(
            "search",
            &format!(
                "mode: {mode}\nunknown: {{timeSliced: admit}}\nmatch: {{expression: \"pod.labels.team == 'search'\"}}"
            ),
        )
    };
    let object = pod("bare", "0.30");
    let denied = cluster(&spec("enforce")).create(&object);
    assert!(!denied.admit);
    assert_eq!(finding(&denied, Code::Vg903).severity, Severity::Error);
    let text = message::refusal(&denied);
    assert!(text.lines().next().unwrap().chars().count() < 256);
    golden("vg903-expression", &text);
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/codes/VG903.md")).unwrap();
    assert!(page.contains(text.lines().next().unwrap()));
    for mode in ["warn", "shadow"] {
        let let_through = cluster(&spec(mode)).create(&object);
        assert!(let_through.admit, "{mode}");
        assert!(has(&let_through, Code::Vg903), "{mode}");
    }
    // It says what to do: ask for the label first, or write it.
    let asked = spec("enforce").replace("pod.labels.team ==", "'team' in pod.labels && pod.labels.team ==");
    let verdict = cluster(&asked).create(&object);
    assert!(verdict.admit && !has(&verdict, Code::Vg903));
    let written = labelled(object, &json!({"team": "search"}));
    let verdict = cluster(&spec("enforce")).create(&written);
    assert!(verdict.admit && !has(&verdict, Code::Vg903));
}

/// Its severity is the policy's, as that of every code.
#[test]
fn a_policy_may_make_its_own_failure_a_warning() {
    let text = policy(
        "search",
        "codes: {warning: [VG903]}\nmatch: {expression: \"pod.labels.team == 'search'\"}",
    );
    let verdict = cluster(&text).create(&pod("bare", "0.30"));
    assert!(verdict.admit);
    assert_eq!(finding(&verdict, Code::Vg903).severity, Severity::Warning);
}

/// The rules of the policy apply as well: an engine of its own is known.
#[test]
fn the_rules_of_a_policy_apply_where_its_expression_fails() {
    let text = policy(
        "own",
        "mode: warn\nengines: [{images: [registry.example.com/*], engine: vllm, version: \"0.11.0\"}]\n\
         match: {expression: \"pod.labels.team == 'search'\"}",
    );
    let mut object = pod("bare", "0.30");
    object["spec"]["containers"][0]["image"] = json!("registry.example.com/llm:1");
    let verdict = cluster(&text).create(&object);
    assert!(!has(&verdict, Code::Vg106), "{verdict:?}");
    assert!(has(&verdict, Code::Vg903));
}

/// On a kind of node where the expression can be told, the pod may go there: the failure elsewhere is a warning.
#[test]
fn a_failure_on_one_kind_of_node_does_not_deny_where_another_takes_the_pod() {
    let text = policy("zones", "match: {expression: \"node.labels.zone == 'a'\"}");
    let zone = |cluster: &mut Cluster, name: &str, zone: Option<&str>| {
        let mut node = kit::gpu_node(name, PRODUCT, H100, 1, 4);
        if let Some(zone) = zone {
            node["metadata"]["labels"]["zone"] = json!(zone);
        }
        cluster.node(&node);
    };
    let mut both = Cluster::with_policy(&text);
    zone(&mut both, "gpu-1", Some("b"));
    zone(&mut both, "gpu-2", None);
    let verdict = both.create(&pod("p", "0.30"));
    assert!(verdict.admit, "{verdict:?}");
    assert_eq!(finding(&verdict, Code::Vg903).severity, Severity::Warning);
    let mut one = Cluster::with_policy(&text);
    zone(&mut one, "gpu-2", None);
    assert!(!one.create(&pod("p", "0.30")).admit);
}

/// Nodes that differ in a label that an expression asks for are of different kinds, so each has its own rules.
#[test]
fn nodes_are_told_apart_by_the_labels_that_are_asked_for() {
    let text = policy(
        "blue",
        "mode: warn\nmatch: {expression: \"'pool' in node.labels && node.labels.pool == 'blue'\"}",
    );
    let mut cluster = Cluster::with_policy(&text);
    for (name, pool) in [("gpu-1", "red"), ("gpu-2", "blue")] {
        let mut node = kit::gpu_node(name, PRODUCT, H100, 1, 4);
        node["metadata"]["labels"]["pool"] = json!(pool);
        cluster.node(&node);
    }
    let to = |pool: &str| {
        let mut object = pod(&format!("to-{pool}"), "0.95");
        object["spec"]["nodeSelector"] = json!({"pool": pool});
        object
    };
    assert!(!cluster.check(&to("red")).admit);
    assert!(cluster.check(&to("blue")).admit);
}

/// What a holder counts for follows the policy of its expression too, when it was admitted and when it is seen.
#[test]
fn holders_are_weighed_by_the_policy_that_selects_them() {
    for (slots, fits) in [(1, false), (2, true)] {
        let text = policy(
            "large",
            &format!(
                "overheadMiB: {{vllm: {{\">=0.20\": 20000}}}}\n\
                 match: {{expression: \"container.image.startsWith('vllm/') && request.count == {slots}\"}}"
            ),
        );
        for seen in [false, true] {
            let mut cluster = cluster(&text);
            if seen {
                cluster.running(&pod("first", "0.40"), "gpu-1");
            } else {
                assert!(cluster.create(&pod("first", "0.40")).admit);
            }
            // With 20000 MiB beside each, two of 0.40 are above the budget; else they fit.
            let second = cluster.create(&pod("second", "0.40"));
            assert_eq!(second.admit, fits, "{slots} {seen}");
        }
    }
}
