//! Templates in schemas of their own, judged as the policy will change their pods, by their claims, and with fixes that
//! are written where their fields stand.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test ends at the first surprise"
)]

mod kit;

use kit::{Cluster, H100, VLLM, deployment, finding, fixes_hold, gpu_node, has, mig_node, mps_node, pod};
use serde_json::{Value, json};
use vramgate::finding::Code;

const PRODUCT: &str = "NVIDIA-H100-80GB-HBM3";
const FAIR: &str = "{defaults: {gpuMemoryUtilization: fairShare}}";
const LEADER: &str = "spec.leaderWorkerTemplate.leaderTemplate.spec.containers[0]";

fn cluster(policy: &str, nodes: &[Value]) -> Cluster {
    let mut cluster = Cluster::with_policy(&format!(
        "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: test}}\nspec: {policy}\n"
    ));
    for node in nodes {
        cluster.node(node);
    }
    cluster
}

/// A group of a leader and its workers, `size` pods in all.
fn group(size: u32, leader: &Value, worker: &Value) -> Value {
    json!({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
        "metadata": {"name": "big", "namespace": "team-a"},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": size,
            "leaderTemplate": {"spec": {"containers": [leader]}},
            "workerTemplate": {"spec": {"containers": [worker]}}}}})
}

fn rollout(replicas: u32, container: &Value) -> Value {
    let mut rollout = deployment("big", replicas, container);
    rollout["apiVersion"] = json!("argoproj.io/v1alpha1");
    rollout["kind"] = json!("Rollout");
    rollout
}

fn container(fraction: Option<&str>, resource: &str) -> Value {
    let mut container = kit::vllm(VLLM, fraction);
    container["resources"] = json!({"limits": {resource: "1"}});
    container
}

#[test]
fn a_template_is_judged_with_the_fraction_that_its_pods_will_get() {
    let bare = container(None, "nvidia.com/gpu");
    let sliced = gpu_node("n1", PRODUCT, H100, 1, 4);
    for object in [group(4, &bare, &bare), rollout(4, &bare)] {
        let mut fair = cluster(FAIR, std::slice::from_ref(&sliced));
        let verdict = fair.try_create(&object);
        assert!(verdict.admit, "{:#?}", verdict.findings);
        assert!(has(&verdict, Code::Vg103) && !has(&verdict, Code::Vg207));
        assert_eq!(verdict.patches, [], "the object itself is left as it is");
        // Beside somebody else four of a quarter are too many, however they come to it.
        let other = pod("other", "0.30");
        fair.running(&other, "n1");
        let verdict = fair.try_create(&object);
        assert!(
            !verdict.admit && has(&verdict, Code::Vg201),
            "{:#?}",
            verdict.findings
        );
        assert!(fixes_hold(&mut fair, &object, &verdict) > 0);
        // Without the policy nobody adds a fraction.
        let mut plain = cluster("{}", std::slice::from_ref(&sliced));
        assert!(!plain.try_create(&object).admit);
    }
}

#[test]
fn a_template_is_judged_on_the_nodes_that_its_pods_will_be_kept_to() {
    let nodes = [
        gpu_node("sliced", PRODUCT, H100, 1, 4),
        gpu_node("whole", PRODUCT, H100, 8, 1),
    ];
    let bare = container(None, "nvidia.com/gpu");
    let group = group(2, &bare, &bare);
    let verdict = cluster("{}", &nodes).try_create(&group);
    assert!(
        verdict.admit && !has(&verdict, Code::Vg207),
        "{:#?}",
        verdict.findings
    );
    // An UPDATE compares pods with pods as they were stored.
    let mut fewer = group.clone();
    fewer["spec"]["leaderWorkerTemplate"]["size"] = json!(1);
    let verdict = cluster("{}", &nodes).update(&group, &fewer);
    assert!(
        verdict.admit && verdict.findings.is_empty(),
        "{:#?}",
        verdict.findings
    );
}

#[test]
fn limits_and_users_of_mps_clients_are_told_at_their_fields() {
    let mut mps = cluster("{}", &[mps_node("mps", PRODUCT, H100, 1, 4)]);
    let worker = container(Some("0.20"), "nvidia.com/gpu");
    let mut leader = worker.clone();
    leader["env"] = json!([{"name": "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "value": "0=1000M"}]);
    let limited = group(2, &leader, &worker);
    let verdict = mps.try_create(&limited);
    assert!(!verdict.admit);
    let path = finding(&verdict, Code::Vg401).path.to_string();
    assert!(path.starts_with(LEADER), "{path}");
    assert!(fixes_hold(&mut mps, &limited, &verdict) > 0);

    let mut other = pod("other", "0.20");
    other["spec"]["securityContext"] = json!({"runAsUser": 1000});
    mps.running(&other, "mps");
    let mut leader = worker.clone();
    leader["securityContext"] = json!({"runAsUser": 1001});
    let verdict = mps.try_create(&group(2, &leader, &worker));
    assert_eq!(
        finding(&verdict, Code::Vg404).path.to_string(),
        format!("{LEADER}.securityContext.runAsUser")
    );
}

#[test]
fn another_slice_is_written_where_the_resource_stands() {
    let mut slices = cluster(
        "{mig: {profiles: [2g.20gb]}}",
        &[mig_node("cut", &[("1g.10gb", 9_984, 3), ("2g.20gb", 20_096, 2)])],
    );
    let leader = container(Some("0.90"), "nvidia.com/mig-1g.10gb");
    let worker = container(Some("0.90"), "nvidia.com/mig-2g.20gb");
    let group = group(2, &leader, &worker);
    let verdict = slices.try_create(&group);
    assert!(!verdict.admit);
    assert_eq!(
        finding(&verdict, Code::Vg306).path.to_string(),
        format!("{LEADER}.resources.limits[nvidia.com/mig-1g.10gb]")
    );
    assert_eq!(fixes_hold(&mut slices, &group, &verdict), 1);
}

/// One H100 that a ResourceSlice shows, one node with time-sliced slots, and a claim template for one GPU.
fn with_claims() -> Cluster {
    const V1: &str = "resource.k8s.io/v1";
    let mut cluster = cluster("{}", &[gpu_node("sliced", PRODUCT, H100, 1, 4)]);
    cluster.node(&json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1", "nvidia.com/gpu.present": "true"}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}}));
    cluster.resource(
        &json!({"apiVersion": V1, "kind": "DeviceClass", "metadata": {"name": "gpu.nvidia.com"},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]}}),
    );
    cluster.resource(&json!({"apiVersion": V1, "kind": "ResourceSlice", "metadata": {"name": "n1-slice"}, "spec": {
        "driver": "gpu.nvidia.com", "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "attributes": {"type": {"string": "gpu"},
            "productName": {"string": "NVIDIA H100 80GB HBM3"}}, "capacity": {"memory": {"value": "81559Mi"}}}]}}));
    cluster.resource(&json!({"apiVersion": V1, "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one", "namespace": "team-a"},
        "spec": {"spec": {"devices": {"requests": [
            {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}}}));
    cluster
}

fn by_claim(fraction: &str) -> Value {
    let mut container = kit::vllm(VLLM, Some(fraction));
    container["name"] = json!("claiming");
    container["resources"] = json!({"claims": [{"name": "gpu"}]});
    container
}

fn entries() -> Value {
    json!([{"name": "gpu", "resourceClaimTemplateName": "one"}])
}

#[test]
fn claims_of_each_template_are_judged() {
    let mut cluster = with_claims();
    let by_slot = container(Some("0.20"), "nvidia.com/gpu");
    let of = |fraction: &str| {
        let mut group = group(2, &by_claim(fraction), &by_slot);
        group["spec"]["leaderWorkerTemplate"]["leaderTemplate"]["spec"]["resourceClaims"] = entries();
        group
    };
    let verdict = cluster.try_create(&of("0.90"));
    assert!(verdict.admit && verdict.judged, "{:#?}", verdict.findings);
    assert_eq!(verdict.findings, []);
    let verdict = cluster.try_create(&of("1.5"));
    assert!(!verdict.admit, "{:#?}", verdict.findings);
    let path = finding(&verdict, Code::Vg101).path.to_string();
    assert!(path.starts_with(LEADER), "{path}");
    assert_eq!(fixes_hold(&mut cluster, &of("1.5"), &verdict), 1);
    // Where no template asks for a slot.
    let mut claims_alone = group(1, &by_claim("1.5"), &by_claim("0.90"));
    for template in ["leaderTemplate", "workerTemplate"] {
        claims_alone["spec"]["leaderWorkerTemplate"][template]["spec"]["resourceClaims"] = entries();
    }
    let verdict = cluster.try_create(&claims_alone);
    assert!(
        !verdict.admit && has(&verdict, Code::Vg101),
        "{:#?}",
        verdict.findings
    );
}

#[test]
fn claims_and_slots_of_one_template_are_judged_together() {
    let mut cluster = with_claims();
    let of = |slot: &str, claim: &str| {
        let mut chat = deployment("chat", 1, &container(Some(slot), "nvidia.com/gpu"));
        let spec = &mut chat["spec"]["template"]["spec"];
        spec["containers"].as_array_mut().unwrap().push(by_claim(claim));
        spec["resourceClaims"] = entries();
        chat
    };
    assert!(cluster.try_create(&of("0.20", "0.90")).admit);
    // What its claims take more is more, though its slots stay as they are.
    let verdict = cluster.update(&of("0.20", "0.90"), &of("0.20", "1.5"));
    assert!(!verdict.admit, "{:#?}", verdict.findings);
    // A change of one of them alone is proposed only where it is enough.
    for (slot, claim) in [("0.20", "1.5"), ("1.5", "0.90"), ("1.5", "1.5")] {
        let object = of(slot, claim);
        let verdict = cluster.try_create(&object);
        assert!(!verdict.admit, "{slot} {claim}");
        let held = fixes_hold(&mut cluster, &object, &verdict);
        assert_eq!(held > 0, slot == "0.20" || claim == "0.90", "{slot} {claim}");
    }
}
