//! What pods declare of their memory by annotation: counted where a policy trusts their namespace, told elsewhere, and never
//! lowered once a pod is created.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

mod kit;

use std::io::Write as _;
use std::process::{Command, Stdio};

use kit::{Cluster, H100, apply, deployment, finding, golden, has, pod, pod_of, vllm};
use serde_json::{Value, json};
use vramgate::finding::{Code, Severity};
use vramgate::message;

const NODE: &str = "gpu-1";
const KEY: &str = "vramgate.io/gpu-memory.server";

fn policy(rest: &str) -> String {
    format!(
        "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: trusting}}\nspec:\n  \
         declarations: {{trust: [team-a]}}\n{rest}"
    )
}

fn cluster(rest: &str) -> Cluster {
    h100(Cluster::with_policy(&policy(rest)))
}

fn h100(mut cluster: Cluster) -> Cluster {
    cluster.gpu_node(NODE, "NVIDIA-H100-80GB-HBM3", H100, 1, 4);
    cluster
}

fn declaring(mut object: Value, amount: &str) -> Value {
    object["metadata"]["annotations"] = json!({KEY: amount});
    object
}

/// A pod on one slot of whose image nothing is known.
fn trainer(name: &str) -> Value {
    pod_of(
        name,
        json!([{"name": "server", "image": "registry.example/trainer:1.4",
            "resources": {"limits": {"nvidia.com/gpu": "1"}}}]),
    )
}

fn in_namespace(mut object: Value, namespace: &str) -> Value {
    object["metadata"]["namespace"] = json!(namespace);
    object
}

#[test]
fn what_nobody_trusts_is_told_and_counts_for_nothing() {
    let object = declaring(pod("chat", "0.80"), "1Gi");
    let mut built_in = h100(Cluster::new());
    let verdict = built_in.create(&object);
    assert!(verdict.admit, "{:#?}", verdict.findings);
    assert_eq!(finding(&verdict, Code::Vg108).severity, Severity::Warning);
    golden("vg108-declaration", &message::report(&verdict, ""));
    assert!(
        has(&built_in.create(&pod("other", "0.30")), Code::Vg201),
        "it counts with the fraction of its engine"
    );
    // Another namespace under a policy that trusts one.
    let verdict = cluster("").create(&in_namespace(object, "team-b"));
    assert!(has(&verdict, Code::Vg108));
    // A declaration alone makes no unknown amount a known one.
    let verdict = h100(Cluster::new()).create(&declaring(trainer("train"), "1Gi"));
    assert!(!verdict.admit && has(&verdict, Code::Vg106) && has(&verdict, Code::Vg108));
}

#[test]
fn a_trusted_quantity_is_the_demand_without_overhead() {
    let mut cluster = cluster("");
    // Three are 73125 of 73403 MiB; with an overhead of 640 each they would be more.
    for name in ["a", "b", "c"] {
        let verdict = cluster.create(&declaring(trainer(name), "24375Mi"));
        assert!(
            verdict.admit && verdict.findings.is_empty(),
            "{:#?}",
            verdict.findings
        );
    }
    let verdict = cluster.create(&declaring(trainer("d"), "24375Mi"));
    assert!(!verdict.admit);
    let found = finding(&verdict, Code::Vg201);
    assert!(found.message.contains("24375 MiB"), "{}", found.message);
    assert_eq!(
        found.path.as_str(),
        "metadata.annotations[vramgate.io/gpu-memory.server]"
    );
}

#[test]
fn a_trusted_fraction_counts_with_the_overhead_of_its_engine() {
    let rest = "  overheadMiB: {other: 20000}\n";
    let mut by_fraction = cluster(rest);
    assert!(by_fraction.create(&declaring(trainer("a"), "0.30")).admit);
    let verdict = by_fraction.create(&declaring(trainer("b"), "0.30"));
    assert!(has(&verdict, Code::Vg201), "{:#?}", verdict.findings);
    // The same in MiB, three times.
    let mut by_quantity = cluster(rest);
    for name in ["a", "b", "c"] {
        assert!(by_quantity.create(&declaring(trainer(name), "24467Mi")).admit);
    }
    // And without overhead.
    let mut without = cluster("  overheadMiB: {other: 0}\n");
    for name in ["a", "b"] {
        assert!(without.create(&declaring(trainer(name), "0.30")).admit);
    }
}

#[test]
fn the_declaration_comes_before_the_invocation() {
    let mut cluster = cluster("");
    // Higher and lower than the engine's own.
    assert!(cluster.create(&declaring(pod("a", "0.80"), "8Gi")).admit);
    assert!(cluster.create(&pod("b", "0.60")).admit);
    assert!(has(
        &cluster.create(&declaring(pod("c", "0.05"), "30Gi")),
        Code::Vg201
    ));
    // Nor does a default that is meant for a whole GPU matter.
    let verdict = cluster.create(&declaring(pod_of("d", json!([vllm(kit::VLLM, None)])), "4Gi"));
    assert!(
        verdict.admit && !has(&verdict, Code::Vg207),
        "{:#?}",
        verdict.findings
    );
}

#[test]
fn a_template_declares_for_its_pods() {
    let mut cluster = cluster("");
    let object = |replicas: u32| {
        let mut object = deployment("train", replicas, &trainer("x")["spec"]["containers"][0]);
        object["spec"]["strategy"] = json!({"type": "Recreate"});
        object["spec"]["template"]["metadata"]["annotations"] = json!({KEY: "24375Mi"});
        object
    };
    assert!(cluster.try_create(&object(3)).admit);
    let verdict = cluster.try_create(&object(4));
    assert!(!verdict.admit);
    assert_eq!(
        finding(&verdict, Code::Vg201).path.as_str(),
        "spec.template.metadata.annotations[vramgate.io/gpu-memory.server]"
    );
    // What the Deployment declares of itself is not its pods'.
    let mut outside = object(1);
    outside["spec"]["template"]["metadata"]["annotations"] = json!({});
    outside["metadata"]["annotations"] = json!({KEY: "1Gi"});
    assert!(has(&cluster.try_create(&outside), Code::Vg106));
}

#[test]
fn a_value_that_cannot_be_read_counts_for_nothing() {
    for bad in ["30 GiB", "30", "1.5", "0", ""] {
        let verdict = cluster("").create(&declaring(pod("chat", "0.80"), bad));
        let found = finding(&verdict, Code::Vg108);
        assert!(
            verdict.admit && found.message.contains("has no effect"),
            "{bad}: {found:#?}"
        );
        assert!(found.message.chars().count() < 256);
    }
    let strict = cluster("  codes: {error: [VG108]}\n").create(&declaring(pod("chat", "0.80"), "30"));
    assert!(!strict.admit, "severity is the policy's");
}

/// The pod runs, whoever admitted it, and is changed.
fn change(cluster: &mut Cluster, before: &Value, after: &Value) -> (Value, vramgate::decision::Verdict) {
    let old = cluster.running(before, NODE);
    let mut new = old.clone();
    new["metadata"]["annotations"] = after["metadata"]["annotations"].clone();
    let verdict = cluster.update(&old, &new);
    (new, verdict)
}

#[test]
fn what_is_declared_is_never_lowered_after_creation() {
    let of = |amount: &str| declaring(trainer("train"), amount);
    let mut cluster = cluster("");
    let (new, verdict) = change(&mut cluster, &of("30Gi"), &of("8Gi"));
    assert!(
        !verdict.admit && verdict.denied_by == [Code::Vg111],
        "{verdict:#?}"
    );
    assert!(verdict.reservation.is_none());
    golden("vg111-lowered", &message::report(&verdict, ""));
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/codes/VG111.md")).unwrap();
    let found = finding(&verdict, Code::Vg111);
    assert!(page.contains(&format!("VG111: {}", found.message)));

    for (before, after, admitted) in [
        (of("30Gi"), trainer("train"), false),
        (of("30Gi"), of("rubbish"), false),
        (of("30Gi"), of("0.90"), false),
        (of("0.30"), of("60Gi"), false),
        (of("0.30"), of("0.29"), false),
        (trainer("train"), of("60Gi"), false),
        (of("30Gi"), of("30Gi"), true),
        (of("30Gi"), of("30720Mi"), true),
        (of("30Gi"), of("40Gi"), true),
        (of("0.30"), of("0.40"), true),
        (trainer("train"), of("rubbish"), true),
    ] {
        let mut cluster = self::cluster("");
        let (new, verdict) = change(&mut cluster, &before, &after);
        assert_eq!(
            verdict.admit, admitted,
            "{before} {after} {:#?}",
            verdict.findings
        );
        assert_eq!(has(&verdict, Code::Vg111), !admitted);
        if !admitted {
            let found = finding(&verdict, Code::Vg111);
            assert!(found.message.chars().count() < 256);
            let fixed = apply(&new, &found.fixes[0]);
            let mut old = new.clone();
            old["metadata"]["annotations"] = before["metadata"]["annotations"].clone();
            assert!(cluster.update(&old, &fixed).admit, "{}", found.fixes[0].title);
        }
    }
    let fixed = apply(&new, &found.fixes[0]);
    assert_eq!(fixed["metadata"]["annotations"][KEY], "30Gi");

    // A larger amount needs its place.
    let mut full = self::cluster("");
    full.running(&declaring(trainer("other"), "40Gi"), NODE);
    let (_, verdict) = change(&mut full, &of("30Gi"), &of("60Gi"));
    assert!(
        !verdict.admit && has(&verdict, Code::Vg201),
        "{:#?}",
        verdict.findings
    );

    // What counts for nothing may be changed, and what has ended holds nothing.
    let (_, verdict) = change(&mut h100(Cluster::new()), &of("30Gi"), &trainer("train"));
    assert!(verdict.admit && !has(&verdict, Code::Vg111));
    let mut ended = of("30Gi");
    ended["metadata"]["uid"] = json!("ended");
    ended["spec"]["nodeName"] = json!(NODE);
    ended["status"] = json!({"phase": "Succeeded"});
    let mut after = ended.clone();
    after["metadata"]["annotations"] = json!({});
    assert!(!has(&self::cluster("").update(&ended, &after), Code::Vg111));
}

#[test]
fn the_mode_decides_and_what_was_admitted_goes_on_counting() {
    let mut cluster = cluster("  mode: warn\n");
    let mut first = declaring(trainer("first"), "60Gi");
    first["metadata"]["uid"] = json!("first");
    assert!(cluster.create(&first).admit);
    let first = cluster.running(&first, NODE);
    let second = declaring(trainer("second"), "30Gi");
    assert!(has(&cluster.try_create(&second), Code::Vg201));
    let mut lowered = first.clone();
    lowered["metadata"]["annotations"] = json!({KEY: "1Gi"});
    let verdict = cluster.update(&first, &lowered);
    assert!(verdict.admit && verdict.would_deny, "{:#?}", verdict.findings);
    assert_eq!(finding(&verdict, Code::Vg111).severity, Severity::Warning);
    cluster.see(&lowered);
    let verdict = cluster.create(&second);
    assert!(has(&verdict, Code::Vg201), "{verdict:#?}");
}

/// A pod whose device comes by a claim.
#[test]
fn a_claim_counts_what_is_declared() {
    use kit::dra;
    let documents = vramgate::policy::file::parse(&policy(""), "test").unwrap();
    let policies = vramgate::policy::PolicySet::from_documents(documents).unwrap();
    let mut cluster = dra::h100();
    cluster.ledger.set_policies(std::sync::Arc::new(policies));
    cluster.resource(&dra::claim(
        "shared",
        dra::request(json!({"deviceClassName": "gpu.nvidia.com"})),
    ));
    let object = |name: &str| declaring(dra::by_claim(name, "0.05"), "50Gi");
    assert!(cluster.create(&object("a")).admit);
    let verdict = cluster.create(&object("b"));
    assert!(!verdict.admit, "{:#?}", verdict.findings);
    assert!(cluster.create(&dra::by_claim("c", "0.05")).admit);

    let old = cluster.running(&object("a"), "n1");
    let mut new = old.clone();
    new["metadata"]["annotations"] = json!({});
    let verdict = cluster.update(&old, &new);
    assert!(
        !verdict.admit && has(&verdict, Code::Vg111),
        "{:#?}",
        verdict.findings
    );
}

fn explain(object: &Value, args: &[&str]) -> String {
    let folder = std::env::temp_dir().join(format!("vramgate-declarations-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("policy.yaml"), policy("")).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_vramgate"))
        .args(["explain", "-", "--policy-dir"])
        .arg(&folder)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(object.to_string().as_bytes())
        .unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn explain_names_the_annotation() {
    let object = declaring(pod("chat", "0.80"), "30Gi");
    let text = explain(&object, &[]);
    assert!(
        text.contains("30Gi exactly") && text.contains("annotation"),
        "{text}"
    );
    let of = |object: &Value| -> Value {
        let document: Value = serde_json::from_str(&explain(object, &["-o", "json"])).unwrap();
        document["items"][0]["containers"][0].clone()
    };
    let container = of(&object);
    assert_eq!(
        container["memory"],
        json!({"kind": "absolute", "value": "30Gi", "source": "annotation"})
    );
    let provenance = &container["provenance"]["memory"];
    assert_eq!(provenance["from"], "annotation", "{provenance}");
    assert_eq!(
        provenance["path"],
        "metadata.annotations[vramgate.io/gpu-memory.server]"
    );
    // Where it counts for nothing, the invocation's value stands.
    let container = of(&in_namespace(object, "team-b"));
    assert_eq!(container["memory"]["value"], "0.80");
    let told: Vec<&str> = container["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["code"].as_str().unwrap())
        .collect();
    assert!(told.contains(&"VG108"), "{told:?}");
}
