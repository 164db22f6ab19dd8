//! What pods say in the words of HAMi, KAI and Volcano: counted where a policy trusts the system, told elsewhere.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

mod kit;

use kit::{Cluster, H100, VLLM, finding, golden, has, pod, pod_of};
use serde_json::{Value, json};
use vramgate::finding::{Code, Severity};
use vramgate::message;
use vramgate::workload::asks_for_gpu;

const NODE: &str = "gpu-1";
const L40S: u32 = 46_068;

fn trusting(system: &str) -> Cluster {
    Cluster::with_policy(&format!(
        "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: trusting}}\nspec:\n  \
         otherSharing: {{{system}: trust}}\n"
    ))
}

fn h100(mut cluster: Cluster) -> Cluster {
    cluster.gpu_node(NODE, "NVIDIA-H100-80GB-HBM3", H100, 1, 4);
    cluster
}

fn two_l40s(mut cluster: Cluster) -> Cluster {
    cluster.gpu_node(NODE, "NVIDIA-L40S", L40S, 2, 3);
    cluster
}

/// A pod on one slot whose engine would take nearly all of a device, with what HAMi bounds it by.
fn hami(name: &str, limits: &Value) -> Value {
    let mut object = pod(name, "0.90");
    for (resource, amount) in limits.as_object().unwrap() {
        object["spec"]["containers"][0]["resources"]["limits"][resource] = amount.clone();
    }
    object
}

fn annotated(mut object: Value, annotations: &Value) -> Value {
    object["metadata"]["annotations"] = annotations.clone();
    object
}

/// A pod that takes no slot of the device plugin.
fn without_slot(name: &str, annotations: &Value) -> Value {
    let container = json!({"name": "server", "image": VLLM, "args": ["--model", "Qwen/Qwen3-0.6B"]});
    annotated(pod_of(name, json!([container])), annotations)
}

#[test]
fn what_nobody_trusts_is_told_and_counts_for_nothing() {
    let object = annotated(
        hami(
            "chat",
            &json!({"nvidia.com/gpumem": "20000", "nvidia.com/gpucores": "30"}),
        ),
        &json!({"gpu-memory": "20000"}),
    );
    let mut cluster = h100(Cluster::new());
    let verdict = cluster.create(&object);
    assert!(verdict.admit, "{:#?}", verdict.findings);
    let told: Vec<_> = verdict
        .findings
        .iter()
        .filter(|finding| finding.code == Code::Vg108)
        .collect();
    assert_eq!(told.len(), 3, "{told:#?}");
    assert!(told.iter().all(|finding| finding.severity == Severity::Info));
    golden("vg108-other-sharing", &message::report(&verdict, ""));
    assert!(
        has(&cluster.create(&pod("other", "0.30")), Code::Vg201),
        "it counts with the fraction of its engine"
    );
    // Even where the policy makes errors of near misses.
    let strict = "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: strict}\nspec:\n  \
                  codes: {error: [VG108]}\n";
    let verdict = h100(Cluster::with_policy(strict)).create(&object);
    assert!(verdict.admit, "{:#?}", verdict.findings);
}

#[test]
fn a_trusted_amount_is_the_demand() {
    let mut cluster = h100(trusting("hami"));
    for name in ["a", "b", "c"] {
        let verdict = cluster.create(&hami(name, &json!({"nvidia.com/gpumem": "24000"})));
        assert!(
            verdict.admit && !has(&verdict, Code::Vg108),
            "{:#?}",
            verdict.findings
        );
    }
    // 4 x 24000 of 81559 MiB.
    let verdict = cluster.create(&hami("d", &json!({"nvidia.com/gpumem": "24000"})));
    assert!(!verdict.admit);
    let found = finding(&verdict, Code::Vg201);
    assert!(found.message.contains("24000 MiB"), "{}", found.message);
    assert_eq!(
        found.path.as_str(),
        "spec.containers[0].resources.limits[nvidia.com/gpumem]"
    );
    assert!(
        !found
            .fixes
            .iter()
            .any(|fix| fix.title.contains("memory fraction")),
        "another fraction of the engine changes nothing: {:#?}",
        found.fixes
    );
    assert!(
        cluster
            .create(&hami("d", &json!({"nvidia.com/gpumem": "1000"})))
            .admit
    );

    // A part of the device, with the overhead of its engine.
    let mut cluster = h100(trusting("hami"));
    for name in ["a", "b"] {
        assert!(
            cluster
                .create(&hami(name, &json!({"nvidia.com/gpumem-percentage": "40"})))
                .admit
        );
    }
    assert!(has(
        &cluster.create(&hami("c", &json!({"nvidia.com/gpumem-percentage": "40"}))),
        Code::Vg201
    ));
    // Who trusts HAMi does not trust KAI.
    let kai = annotated(pod("kai", "0.90"), &json!({"gpu-memory": "1000"}));
    assert!(
        !h100(trusting("hami"))
            .create(&hami("x", &json!({})))
            .findings
            .iter()
            .any(|f| f.code == Code::Vg108)
    );
    let mut cluster = h100(trusting("hami"));
    assert!(cluster.create(&pod("first", "0.50")).admit);
    assert!(has(&cluster.create(&kai), Code::Vg201));
    let mut cluster = h100(trusting("kai"));
    assert!(cluster.create(&pod("first", "0.50")).admit);
    assert!(cluster.create(&kai).admit);
}

#[test]
fn an_amount_that_cannot_be_read_is_not_zero() {
    let mut cluster = h100(trusting("hami"));
    let verdict = cluster.create(&hami("a", &json!({"nvidia.com/gpumem": "8Gi"})));
    assert!(verdict.admit);
    assert_eq!(finding(&verdict, Code::Vg108).severity, Severity::Warning);
    golden("vg108-other-sharing-unreadable", &message::report(&verdict, ""));
    assert!(
        has(&cluster.create(&pod("b", "0.10")), Code::Vg201),
        "the engine's own fraction counts"
    );
}

#[test]
fn an_engine_without_a_bound_has_one_by_its_guard() {
    let container = json!({"name": "train", "image": "pytorch/pytorch:2.6.0", "command": ["python", "train.py"],
        "resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "8000"}}});
    let object = pod_of("train", json!([container]));
    assert!(!h100(Cluster::new()).create(&object).admit);
    let mut cluster = h100(trusting("hami"));
    let verdict = cluster.create(&object);
    assert!(verdict.admit, "{:#?}", verdict.findings);
    assert!(!has(&verdict, Code::Vg206) && !has(&verdict, Code::Vg106));
    assert!(cluster.create(&pod("beside", "0.70")).admit);
}

#[test]
fn what_the_scheduler_gave_is_evidence() {
    let given = |name: &str, device: &str, mib: u32| {
        let text = format!("{device},NVIDIA,{mib},0:;");
        annotated(
            hami(name, &json!({"nvidia.com/gpumem": mib.to_string()})),
            &json!({"hami.io/vgpu-devices-allocated": text, "hami.io/vgpu-node": NODE}),
        )
    };
    let try_large = |mut cluster: Cluster| {
        cluster.running(&given("a", "GPU-1", 14_000), NODE);
        cluster.running(&given("b", "GPU-2", 16_000), NODE);
        cluster.try_create(&pod("c", "0.45"))
    };
    let verdict = try_large(two_l40s(trusting("hami")));
    assert!(verdict.admit, "each has its device: {:#?}", verdict.findings);
    assert!(!try_large(two_l40s(Cluster::new())).admit);
    // On one device they meet.
    let mut cluster = two_l40s(trusting("hami"));
    cluster.running(&given("a", "GPU-1", 14_000), NODE);
    cluster.running(&given("b", "GPU-1", 16_000), NODE);
    let verdict = cluster.try_create(&pod("c", "0.45"));
    assert!(has(&verdict, Code::Vg201), "{:#?}", verdict.findings);
    // What is written before there is a node was not given by a scheduler.
    let mut cluster = h100(trusting("hami"));
    assert!(cluster.create(&pod("first", "0.50")).admit);
    let forged = annotated(
        pod("forged", "0.90"),
        &json!({"hami.io/vgpu-devices-allocated": "GPU-1,NVIDIA,1,0:;"}),
    );
    assert!(has(&cluster.create(&forged), Code::Vg201));
}

#[test]
fn who_takes_no_slot_holds_where_it_runs() {
    let annotations = json!({"nvidia.com/container.server.gpu-memory.limit": "20Gi"});
    let object = without_slot("kai", &annotations);
    let decoded = serde_json::from_value(object.clone()).unwrap();
    assert!(!asks_for_gpu(&decoded), "it is not ours to judge");

    // Nobody trusts it: an engine that has asked for no GPU takes what its own fraction says.
    let mut cluster = h100(Cluster::new());
    cluster.running(&object, NODE);
    assert!(!cluster.try_create(&pod("c", "0.60")).admit);

    let mut cluster = h100(trusting("kai"));
    let running = cluster.running(&object, NODE);
    let verdict = cluster.try_create(&pod("c", "0.80"));
    assert!(!verdict.admit, "{:#?}", verdict.findings);
    let text = message::refusal(&verdict);
    assert!(text.contains("/kai (server) 20480 MiB"), "{text}");
    golden("vg201-beside-another-system", &text);
    assert!(cluster.try_create(&pod("c", "0.60")).admit);
    // It takes none of the four slots.
    for name in ["1", "2", "3", "4"] {
        assert!(cluster.create(&pod(name, "0.12")).admit, "{name}");
    }
    let verdict = cluster.try_create(&pod("5", "0.05"));
    assert!(has(&verdict, Code::Vg209), "{:#?}", verdict.findings);
    // It ends.
    let mut ended = running;
    ended["status"]["phase"] = json!("Succeeded");
    let mut cluster = h100(trusting("kai"));
    cluster.running(&object, NODE);
    cluster.see(&ended);
    assert!(cluster.try_create(&pod("c", "0.80")).admit);
}

#[test]
fn without_a_known_device_it_counts_on_each_and_with_one_there() {
    let amount = ("nvidia.com/container.server.gpu-memory.limit", "20Gi");
    let mut cluster = two_l40s(trusting("kai"));
    cluster.running(&without_slot("kai", &json!({amount.0: amount.1})), NODE);
    assert!(has(&cluster.try_create(&pod("c", "0.60")), Code::Vg201));
    assert!(cluster.try_create(&pod("c", "0.40")).admit);
    // Beside three holders that fill the slots of a device as well.
    let mut cluster = two_l40s(trusting("kai"));
    for name in ["x", "y"] {
        assert!(cluster.create(&pod(name, "0.20")).admit);
    }
    cluster.running(&without_slot("kai", &json!({amount.0: amount.1})), NODE);
    assert!(
        has(&cluster.try_create(&pod("z", "0.20")), Code::Vg201),
        "three of 0.20 and it may share one device"
    );

    let devices = "nvidia.com/container.server.gpus.devices";
    let mut cluster = two_l40s(trusting("kai"));
    for (name, device) in [("a", "GPU-1"), ("b", "GPU-2")] {
        cluster.running(
            &without_slot(name, &json!({amount.0: amount.1, devices: device})),
            NODE,
        );
    }
    assert!(cluster.try_create(&pod("c", "0.40")).admit, "one on each device");
    assert!(has(&cluster.try_create(&pod("c", "0.60")), Code::Vg201));
    let mut cluster = two_l40s(trusting("kai"));
    for name in ["a", "b"] {
        cluster.running(
            &without_slot(name, &json!({amount.0: amount.1, devices: "GPU-1"})),
            NODE,
        );
    }
    assert!(
        has(&cluster.try_create(&pod("c", "0.40")), Code::Vg201),
        "both on one"
    );
}

#[test]
fn volcano_holds_by_its_resources() {
    let mut object = without_slot("v", &json!({"volcano.sh/vgpu-ids-new": "GPU-1,NVIDIA,30000,0:"}));
    object["spec"]["containers"][0]["resources"] =
        json!({"limits": {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "30000"}});
    for (system, fits) in [("volcano", false), ("hami", true)] {
        let mut cluster = h100(trusting(system));
        cluster.running(&object, NODE);
        assert_eq!(cluster.try_create(&pod("c", "0.60")).admit, fits, "{system}");
    }
}
