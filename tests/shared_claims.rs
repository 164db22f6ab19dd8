//! Devices that several claims, templates or waiting pods share.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test ends at the first surprise"
)]

mod kit;

use kit::dra::{
    MIDDLE, SMALL, V1, allocated, by, by_claim, by_template, claim, classes, container, gpu, h100, mig, node,
    request, result, slice, template,
};
use kit::{Cluster, finding, fixes_hold, golden, has, pod_of};
use proptest::prelude::*;
use serde_json::{Value, json};
use vramgate::cluster::Facts;
use vramgate::finding::{Code, Severity};
use vramgate::ledger::Moment;
use vramgate::message;
use vramgate::policy::Evidence;

fn of_gpu() -> Value {
    request(json!({"deviceClassName": "gpu.nvidia.com"}))
}

fn in_namespace(mut object: Value, namespace: &str) -> Value {
    object["metadata"]["namespace"] = json!(namespace);
    object
}

/// A pod by a claim of this name.
fn by_name(name: &str, of: &str, fraction: &str) -> Value {
    by(
        json!({"resourceClaimName": of}),
        name,
        json!([container("server", SMALL, Some(fraction))]),
    )
}

/// A program that takes all the memory that it can get.
fn open(name: &str, of: &str) -> Value {
    let mut pod = by_name(name, of, "0.10");
    let container = &mut pod["spec"]["containers"][0];
    container["image"] = json!("pytorch/pytorch:2.8.0");
    container["command"] = json!(["python", "train.py"]);
    container["args"] = json!([]);
    pod
}

fn detail<'v>(verdict: &'v vramgate::decision::Verdict, code: Code, words: &str) -> &'v str {
    let details = &finding(verdict, code).details;
    let found = details.iter().find(|detail| detail.contains(words));
    found.unwrap_or_else(|| panic!("{words:?} stands in none of {details:#?}"))
}

/// The row of a device in `top`.
fn row(cluster: &Cluster, id: &str) -> vramgate::ledger::devices::DeviceView {
    let devices = cluster.ledger.devices();
    let found = devices
        .into_iter()
        .find(|device| device.id.as_deref() == Some(id));
    found.expect("its row")
}

// Claims that do not exist yet.

#[test]
fn who_waits_for_a_claim_is_counted_once_it_appears() {
    let mut cluster = h100();
    // Another class than NVIDIA's: what the claim will be for, nobody knows.
    cluster
        .resource(&json!({"apiVersion": V1, "kind": "DeviceClass", "metadata": {"name": "nic.example.com"}}));
    for name in ["a", "b"] {
        let verdict = cluster.create(&by_claim(name, "0.40"));
        assert!(verdict.admit, "{:#?}", verdict.findings);
        assert!(verdict.reservation.is_some(), "it is kept from its admission on");
        assert_eq!(finding(&verdict, Code::Vg704).severity, Severity::Warning);
    }
    // They are told, though nothing says that the claim is for a GPU.
    let verdict = cluster.create(&by_claim("c", "0.40"));
    assert!(verdict.admit && !has(&verdict, Code::Vg201));
    let told = detail(&verdict, Code::Vg704, "containers wait for ResourceClaim shared");
    assert!(
        told.contains("1.20 of its device") && told.contains("do not fit"),
        "{told}"
    );
    golden("claim-that-does-not-exist", &message::report(&verdict, ""));
    // Two of them are seen, one is still on its way.
    for name in ["a", "b"] {
        let mut pod = by_claim(name, "0.40");
        pod["metadata"]["uid"] = json!(if name == "a" { "uid-1" } else { "uid-2" });
        cluster.see(&pod);
    }
    cluster.resource(&claim("shared", of_gpu()));
    let verdict = cluster.create(&by_claim("d", "0.10"));
    assert!(!verdict.admit, "{:#?}", verdict.findings);
    assert_eq!(finding(&verdict, Code::Vg201).holders.len(), 3);
    // Each goes with its pod.
    cluster.ledger.remove_pod("uid-1");
    cluster.ledger.release("uid-3");
    let verdict = cluster.create(&by_claim("d", "0.45"));
    assert!(verdict.admit, "{:#?}", verdict.findings);
    assert!(!cluster.create(&by_claim("e", "0.10")).admit);
}

#[test]
fn who_waits_for_a_claim_that_can_only_be_for_a_gpu_is_summed_up_at_once() {
    let mut cluster = h100();
    assert!(cluster.create(&by_claim("a", "0.50")).admit);
    let pod = by_claim("b", "0.50");
    let verdict = cluster.create(&pod);
    assert!(!verdict.admit, "{:#?}", verdict.findings);
    golden("claim-that-does-not-exist-is-full", &message::refusal(&verdict));
    assert_eq!(fixes_hold(&mut cluster, &pod, &verdict), 1);
    assert!(cluster.create(&by_claim("b", "0.40")).admit);
    // Other names and other namespaces are other claims.
    assert!(cluster.create(&by_name("c", "other", "0.50")).admit);
    assert!(
        cluster
            .create(&in_namespace(by_claim("d", "0.50"), "team-b"))
            .admit
    );
    // What cannot be told is neither nothing nor all of it: it is said.
    let mut odd = by_claim("odd", "0.10");
    odd["spec"]["containers"][0]["image"] = json!("example.org/training:1");
    odd["spec"]["containers"][0]["args"] = json!([]);
    let verdict = cluster.create(&odd);
    assert!(verdict.admit, "{:#?}", verdict.findings);
    let verdict = cluster.create(&by_claim("e", "0.01"));
    assert!(!verdict.admit);
    detail(&verdict, Code::Vg201, "is not known and not in the sum");
    // The claim is there: now it counts as on any shared device.
    cluster.resource(&claim("shared", of_gpu()));
    let verdict = cluster.create(&by_claim("e", "0.01"));
    assert!(!verdict.admit && finding(&verdict, Code::Vg201).holders.len() == 3);
}

#[test]
fn what_nobody_can_read_is_let_through_until_the_claim_is_there() {
    let mut cluster = h100();
    for name in ["a", "b", "c"] {
        let verdict = cluster.create(&open(name, "shared"));
        assert!(verdict.admit, "{:#?}", verdict.findings);
    }
    let verdict = cluster.create(&by_claim("d", "0.80"));
    assert!(verdict.admit, "{:#?}", verdict.findings);
    detail(
        &verdict,
        Code::Vg704,
        "what container server takes of it is not known",
    );
    cluster.resource(&claim("shared", of_gpu()));
    assert!(!cluster.create(&by_claim("e", "0.10")).admit);
}

#[test]
fn channels_of_compute_domains_are_no_gpus() {
    let mut cluster = h100();
    let channel = json!({"deviceClassName": "compute-domain-default-channel.nvidia.com"});
    let with_channel = |name: &str| {
        let mut pod = by_template(name, json!([container("server", SMALL, Some("0.90"))]));
        let spec = &mut pod["spec"];
        let claims = spec["containers"][0]["resources"]["claims"]
            .as_array_mut()
            .unwrap();
        claims.push(json!({"name": "channel"}));
        let entries = spec["resourceClaims"].as_array_mut().unwrap();
        entries.push(json!({"name": "channel", "resourceClaimName": "shared-channel"}));
        pod
    };
    cluster.resource(&template("one", of_gpu()));
    cluster.resource(&claim("shared-channel", request(channel)));
    // Known by its name alone, and by its selectors.
    for is_known in [false, true] {
        if is_known {
            cluster.resource(&json!({"apiVersion": V1, "kind": "DeviceClass",
                "metadata": {"name": "compute-domain-default-channel.nvidia.com"}, "spec": {"selectors": [{"cel": {"expression":
                "device.driver == 'compute-domain.nvidia.com' && device.attributes['compute-domain.nvidia.com'].type == 'channel'"}}]}}));
        }
        for name in ["a", "b"] {
            let verdict = cluster.create(&with_channel(&format!("{name}-{is_known}")));
            assert!(
                verdict.admit && verdict.findings.is_empty(),
                "{:#?}",
                verdict.findings
            );
        }
    }
    // Before it exists, it may be one, where the container may get its GPU otherwise.
    cluster.ledger.remove_resource_claim("team-a", "shared-channel");
    for name in ["c", "d"] {
        let verdict = cluster.create(&with_channel(name));
        assert!(
            verdict.admit && has(&verdict, Code::Vg704),
            "{:#?}",
            verdict.findings
        );
    }
    // An engine cannot run on a channel.
    assert!(cluster.create(&by_claim("e", "0.60")).admit);
    assert!(!cluster.create(&by_claim("f", "0.60")).admit);
}

#[test]
fn requests_of_a_claim_that_does_not_exist_are_devices_of_their_own() {
    let mut cluster = h100();
    let with = |name: &str, request: &str| {
        let mut pod = by_claim(name, "0.60");
        pod["spec"]["containers"][0]["resources"]["claims"][0]["request"] = json!(request);
        pod
    };
    assert!(cluster.create(&with("a", "x")).admit);
    assert!(cluster.create(&with("b", "y")).admit);
    assert!(!cluster.create(&with("c", "x")).admit);
    // Who names none gets both.
    assert!(!cluster.create(&by_claim("d", "0.60")).admit);
    assert!(cluster.create(&by_claim("d", "0.30")).admit);
    assert!(!cluster.create(&with("e", "y")).admit);
}

#[test]
fn containers_of_a_pod_wait_for_a_template_together() {
    let mut cluster = h100();
    let two = |fraction| {
        by_template(
            "two",
            json!([
                container("a", SMALL, Some(fraction)),
                container("b", SMALL, Some(fraction))
            ]),
        )
    };
    let verdict = cluster.create(&two("0.60"));
    assert!(
        !verdict.admit && has(&verdict, Code::Vg201),
        "{:#?}",
        verdict.findings
    );
    assert_eq!(fixes_hold(&mut cluster, &two("0.60"), &verdict), 1);
    let verdict = cluster.create(&two("0.40"));
    assert!(verdict.admit && verdict.reservation.is_none());
    // All pods of a workload wait for the claim that they name.
    let mut chat = kit::deployment("chat", 3, &container("server", SMALL, Some("0.40")));
    chat["spec"]["template"]["spec"]["resourceClaims"] =
        json!([{"name": "gpu", "resourceClaimName": "shared"}]);
    let verdict = cluster.create(&chat);
    assert!(!verdict.admit, "{:#?}", verdict.findings);
    assert_eq!(fixes_hold(&mut cluster, &chat, &verdict), 1);
}

// Claims that are allocated the same device.

/// A device that several claims may have.
fn shareable(name: &str) -> Value {
    let mut device = gpu(name, "NVIDIA H100 80GB HBM3", "81559Mi");
    device["allowMultipleAllocations"] = json!(true);
    device
}

fn on(name: &str, spec: Value, device: &str) -> Value {
    allocated(claim(name, spec), json!([result("n1", device)]))
}

fn with_shareable(mut cluster: Cluster, devices: Value) -> Cluster {
    classes(&mut cluster);
    cluster.node(&node("n1"));
    cluster.resource(&slice("n1", devices));
    cluster
}

#[test]
fn claims_that_are_allocated_one_device_are_summed_up_on_it() {
    let mut cluster = with_shareable(Cluster::new(), json!([shareable("gpu-0"), shareable("gpu-1")]));
    cluster.resource(&on("one", of_gpu(), "gpu-0"));
    cluster.resource(&on("two", of_gpu(), "gpu-0"));
    cluster.resource(&on("three", of_gpu(), "gpu-1"));
    cluster.resource(&in_namespace(on("four", of_gpu(), "gpu-0"), "team-b"));
    assert!(cluster.create(&by_name("a", "one", "0.50")).admit);
    let pod = by_name("b", "two", "0.50");
    let verdict = cluster.create(&pod);
    assert!(!verdict.admit, "{:#?}", verdict.findings);
    golden("two-claims-of-one-device", &message::refusal(&verdict));
    assert_eq!(fixes_hold(&mut cluster, &pod, &verdict), 1);
    assert!(cluster.create(&by_name("b", "two", "0.30")).admit);
    assert!(
        cluster.create(&by_name("c", "three", "0.80")).admit,
        "another device"
    );
    // Whatever namespace its claim is of; names of others are not told.
    let theirs = in_namespace(by_name("d", "four", "0.20"), "team-b");
    let verdict = cluster.create(&theirs);
    assert!(!verdict.admit);
    let full = finding(&verdict, Code::Vg201);
    assert!(
        full.holders.len() == 2 && full.holders.iter().all(|held| held.name.is_none()),
        "{full:#?}"
    );
    let device = row(&cluster, "gpu-0");
    assert_eq!((device.promised_share.ppm(), device.holders.len()), (800_000, 2));
    // Who goes makes room, and so does a claim that loses the device.
    cluster.resource(&claim("two", of_gpu()));
    assert!(cluster.create(&theirs).admit);
    cluster.ledger.remove_resource_claim("team-a", "one");
    let device = row(&cluster, "gpu-0");
    assert_eq!((device.promised_share.ppm(), device.holders.len()), (200_000, 1));
}

#[test]
fn two_claims_of_one_pod_may_be_one_device() {
    let mut cluster = with_shareable(Cluster::new(), json!([shareable("gpu-0")]));
    cluster.resource(&on("one", of_gpu(), "gpu-0"));
    cluster.resource(&on("two", of_gpu(), "gpu-0"));
    let pod = |fraction: &str| {
        let mut second = container("b", SMALL, Some(fraction));
        second["resources"] = json!({"claims": [{"name": "other"}]});
        let mut pod = pod_of("both", json!([container("a", SMALL, Some(fraction)), second]));
        pod["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": "one"},
            {"name": "other", "resourceClaimName": "two"}]);
        pod
    };
    let verdict = cluster.create(&pod("0.50"));
    assert!(!verdict.admit, "{:#?}", verdict.findings);
    assert_eq!(fixes_hold(&mut cluster, &pod("0.50"), &verdict), 1);
    assert!(cluster.create(&pod("0.40")).admit);
    // One container that has the device twice has it once.
    let mut cluster = with_shareable(Cluster::new(), json!([shareable("gpu-0")]));
    cluster.resource(&on("one", of_gpu(), "gpu-0"));
    cluster.resource(&on("two", of_gpu(), "gpu-0"));
    let mut twice = pod("0.50");
    twice["spec"]["containers"].as_array_mut().unwrap().truncate(1);
    twice["spec"]["containers"][0]["resources"] = json!({"claims": [{"name": "gpu"}, {"name": "other"}]});
    let verdict = cluster.create(&twice);
    assert!(verdict.admit, "{:#?}", verdict.findings);
    assert_eq!(row(&cluster, "gpu-0").promised_share.ppm(), 500_000);
}

#[test]
fn an_engine_with_access_for_monitoring_takes_memory_all_the_same() {
    let mut cluster = h100();
    let mut monitor = on("monitor", of_gpu(), "gpu-0");
    monitor["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = json!(true);
    monitor["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = json!(true);
    cluster.resource(&monitor);
    cluster.resource(&on("shared", of_gpu(), "gpu-0"));
    assert!(cluster.create(&by_claim("a", "0.60")).admit);
    // A monitor is nobody's business.
    let mut exporter = by_name("exporter", "monitor", "0.10");
    exporter["spec"]["containers"][0]["image"] = json!("example.org/exporter:1");
    exporter["spec"]["containers"][0]["args"] = json!([]);
    let verdict = cluster.create(&exporter);
    assert!(verdict.admit && !verdict.judged, "{:#?}", verdict.findings);
    assert_eq!(row(&cluster, "gpu-0").holders.len(), 1);
    // An engine is.
    let verdict = cluster.create(&by_name("b", "monitor", "0.40"));
    assert!(
        !verdict.admit && has(&verdict, Code::Vg201),
        "{:#?}",
        verdict.findings
    );
    assert!(cluster.create(&by_name("b", "monitor", "0.20")).admit);
    assert!(!cluster.create(&by_claim("c", "0.20")).admit);
    assert_eq!(row(&cluster, "gpu-0").promised_share.ppm(), 800_000);
}

#[test]
fn claims_that_were_made_for_pods_are_summed_up_as_well() {
    let mut cluster = with_shareable(Cluster::new(), json!([shareable("gpu-0")]));
    cluster.resource(&template("one", of_gpu()));
    let pod = |name: &str, fraction: &str| {
        let mut pod = by_template(name, json!([container("server", SMALL, Some(fraction))]));
        pod["metadata"]["uid"] = json!(name);
        pod
    };
    for name in ["a", "b"] {
        let mut pod = pod(name, "0.40");
        assert!(cluster.create(&pod).admit);
        pod["status"] =
            json!({"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": format!("{name}-gpu-1")}]});
        pod["spec"]["nodeName"] = json!("n1");
        cluster.see(&pod);
        cluster.resource(&on(&format!("{name}-gpu-1"), of_gpu(), "gpu-0"));
    }
    assert_eq!(row(&cluster, "gpu-0").promised_share.ppm(), 800_000);
    // An UPDATE is judged among those who are there.
    let mut other = pod("b", "0.40");
    other["spec"]["containers"][0]["args"][7] = json!("0.60");
    let verdict = cluster.update(&pod("b", "0.40"), &other);
    assert!(
        !verdict.admit && has(&verdict, Code::Vg201),
        "{:#?}",
        verdict.findings
    );
    let mut less = pod("b", "0.40");
    less["spec"]["containers"][0]["args"][7] = json!("0.30");
    assert!(cluster.update(&pod("b", "0.40"), &less).admit);
}

#[test]
fn slots_that_a_class_stands_for_are_summed_up_with_claims_for_their_device() {
    let mut cluster = with_shareable(Cluster::new(), json!([shareable("gpu-0"), shareable("gpu-1")]));
    // The scheduler makes a claim for the slot and names it in the status of the pod.
    let mut server = container("server", SMALL, Some("0.60"));
    server["resources"] = json!({"limits": {"nvidia.com/gpu": "1"}});
    let mut pod = pod_of("slots", json!([server]));
    pod["metadata"]["uid"] = json!("slots");
    assert!(cluster.create(&pod).admit);
    let mut made = on("slots-extended-resources-x", of_gpu(), "gpu-0");
    made["spec"]["devices"]["requests"][0]["name"] = json!("container-0-request-0");
    made["status"]["allocation"]["devices"]["results"][0]["request"] = json!("container-0-request-0");
    cluster.resource(&made);
    cluster.resource(&on("here", of_gpu(), "gpu-0"));
    cluster.resource(&on("elsewhere", of_gpu(), "gpu-1"));
    pod["spec"]["nodeName"] = json!("n1");
    cluster.see(&pod);
    assert!(row(&cluster, "gpu-0").holders.is_empty(), "nothing tells it yet");
    pod["status"] = json!({"extendedResourceClaimStatus": {
        "resourceClaimName": "slots-extended-resources-x",
        "requestMappings": [{"containerName": "server", "resourceName": "nvidia.com/gpu",
            "requestName": "container-0-request-0"}],
    }});
    cluster.see(&pod);
    assert_eq!(row(&cluster, "gpu-0").promised_share.ppm(), 600_000);

    let verdict = cluster.create(&by_name("a", "here", "0.40"));
    assert!(!verdict.admit, "{:#?}", verdict.findings);
    let full = finding(&verdict, Code::Vg201);
    assert_eq!(full.holders.len(), 1);
    assert_eq!(
        fixes_hold(&mut cluster, &by_name("a", "here", "0.40"), &verdict),
        1
    );
    assert!(cluster.create(&by_name("b", "elsewhere", "0.40")).admit);
    assert!(cluster.create(&by_name("a", "here", "0.30")).admit);
    assert_eq!(row(&cluster, "gpu-0").promised_share.ppm(), 900_000);

    // A container or a resource that the status does not map has none of the claim's devices.
    for (container, resource) in [("other", "nvidia.com/gpu"), ("server", "nvidia.com/other")] {
        let mut other = pod.clone();
        let mapping = &mut other["status"]["extendedResourceClaimStatus"]["requestMappings"][0];
        mapping["containerName"] = json!(container);
        mapping["resourceName"] = json!(resource);
        cluster.see(&other);
        assert_eq!(row(&cluster, "gpu-0").promised_share.ppm(), 300_000);
    }
    // It goes with its pod.
    cluster.see(&pod);
    assert!(!cluster.create(&by_name("c", "here", "0.40")).admit);
    cluster.ledger.remove_pod("slots");
    assert!(cluster.create(&by_name("c", "here", "0.40")).admit);
}

#[test]
fn partitions_of_a_gpu_are_devices_with_memory_of_their_own() {
    let devices = json!([
        mig("gpu-0-mig-2g20gb-14-0", "2g.20gb", "20096Mi"),
        mig("gpu-0-mig-2g20gb-14-2", "2g.20gb", "20096Mi")
    ]);
    let mut cluster = with_shareable(Cluster::new(), devices);
    let of_mig = || request(json!({"deviceClassName": "mig.nvidia.com"}));
    cluster.resource(&on("one", of_mig(), "gpu-0-mig-2g20gb-14-0"));
    cluster.resource(&on("two", of_mig(), "gpu-0-mig-2g20gb-14-0"));
    cluster.resource(&on("three", of_mig(), "gpu-0-mig-2g20gb-14-2"));
    assert!(cluster.create(&by_name("a", "one", "0.50")).admit);
    assert!(cluster.create(&by_name("b", "three", "0.50")).admit);
    let verdict = cluster.create(&by_name("c", "two", "0.50"));
    assert!(!verdict.admit);
    let text = &finding(&verdict, Code::Vg201).message;
    assert!(text.contains("asks 10048 MiB"), "{text}");
}

#[test]
fn who_shares_a_claim_keeps_within_what_it_consumes() {
    let mut cluster = with_shareable(Cluster::new(), json!([shareable("gpu-0")]));
    let spec =
        request(json!({"deviceClassName": "gpu.nvidia.com", "capacity": {"requests": {"memory": "30Gi"}}}));
    for with_device in [false, true] {
        let mut cluster = cluster_of(&mut cluster);
        let shared = claim("shared", spec.clone());
        cluster.resource(&if with_device {
            let mut shared = allocated(shared, json!([result("n1", "gpu-0")]));
            shared["status"]["allocation"]["devices"]["results"][0]["consumedCapacity"] =
                json!({"memory": "30Gi"});
            shared
        } else {
            shared
        });
        assert!(cluster.create(&by_claim("a", "0.20")).admit);
        let verdict = cluster.create(&by_claim("b", "0.20"));
        assert!(!verdict.admit, "{:#?}", verdict.findings);
        if !with_device {
            golden(
                "d4-together-more-than-the-claim-consumes",
                &message::refusal(&verdict),
            );
        }
        assert_eq!(fixes_hold(&mut cluster, &by_claim("b", "0.20"), &verdict), 1);
        let verdict = cluster.create(&by_claim("b", "0.15"));
        assert!(verdict.admit, "{:#?}", verdict.findings);
    }
}

/// Another cluster with the same ledger as this one has now.
fn cluster_of(of: &mut Cluster) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.ledger = of.ledger.clone();
    cluster
}

// MPS by the configuration of a claim.

fn mps(limits: Value) -> Value {
    let mut spec = of_gpu();
    spec["devices"]["config"] = json!([{"opaque": {"driver": "gpu.nvidia.com", "parameters": {
        "apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig",
        "sharing": {"strategy": "MPS", "mpsConfig": limits}}}}]);
    spec
}

#[test]
fn top_and_over_budget_know_the_devices_of_claims_and_their_limits() {
    let mut cluster = h100();
    cluster.resource(&on(
        "shared",
        mps(json!({"defaultPinnedDeviceMemoryLimit": "20Gi"})),
        "gpu-0",
    ));
    for name in ["a", "b", "c"] {
        let verdict = cluster.create(&open(name, "shared"));
        assert!(verdict.admit, "{:#?}", verdict.findings);
    }
    let device = row(&cluster, "gpu-0");
    assert_eq!(device.sharing.as_str(), "mps");
    let requests: Vec<u64> = device.holders.iter().map(|holder| holder.request.get()).collect();
    assert_eq!(requests, [20_480; 3]);
    assert_eq!(
        (device.promised.get(), device.evidence),
        (61_440, Evidence::Observed)
    );
    assert!(cluster.ledger.over_budget().is_empty());
    // The limit is raised while they run.
    cluster.resource(&on(
        "shared",
        mps(json!({"defaultPinnedDeviceMemoryLimit": "30Gi"})),
        "gpu-0",
    ));
    let over = cluster.ledger.over_budget();
    assert_eq!(over.len(), 1);
    assert_eq!((&*over[0].node, over[0].promised.get()), ("n1", 92_160));
    let told = Facts::over_budget(&cluster.ledger);
    assert_eq!(
        (told[0].node.as_str(), told[0].resource.as_str()),
        ("n1", "gpu.nvidia.com")
    );
    golden("over-budget-by-claim", &told[0].sentence);
    cluster.ledger.release("uid-3");
    assert!(cluster.ledger.over_budget().is_empty());
}

#[test]
fn the_fullest_device_of_a_node_is_told_once() {
    let mut cluster = with_shareable(
        Cluster::new(),
        json!([shareable("gpu-0"), shareable("gpu-1"), shareable("gpu-2")]),
    );
    for index in 0..6 {
        let name = format!("c{index}");
        // Each is alone on its device when it is admitted.
        cluster.resource(&claim(&name, of_gpu()));
        let fraction = ["0.60", "0.70", "0.40"][index % 3];
        let verdict = cluster.create(&by_name(&name, &name, fraction));
        assert!(verdict.admit, "{:#?}", verdict.findings);
        cluster.resource(&on(&name, of_gpu(), &format!("gpu-{}", index % 3)));
    }
    let over = cluster.ledger.over_budget();
    let shares: Vec<u64> = over.iter().map(|device| device.promised_share.ppm()).collect();
    assert_eq!(shares, [1_400_000]);
}

#[test]
fn a_limit_of_mps_holds_for_each_process_by_itself() {
    let mut cluster = h100();
    cluster.resource(&template(
        "one",
        mps(json!({"defaultPinnedDeviceMemoryLimit": "20Gi"})),
    ));
    // Two engines in one container: 0.20 are 16312 MiB and 640 MiB of overhead, each within 20 GiB.
    let mut pod = by_template("two", json!([container("server", SMALL, None)]));
    let serve = |port: u32| {
        format!("vllm serve {SMALL} --max-model-len 4096 --gpu-memory-utilization 0.20 --port {port}")
    };
    pod["spec"]["containers"][0]["command"] =
        json!(["sh", "-c", format!("{} & {}", serve(8000), serve(8001))]);
    pod["spec"]["containers"][0]["args"] = json!([]);
    let verdict = cluster.create(&pod);
    assert!(
        verdict.admit && !has(&verdict, Code::Vg401),
        "{:#?}",
        verdict.findings
    );
    // Two containers under one claim: each within, both on the device.
    let both = |fraction| {
        by_template(
            "both",
            json!([
                container("a", SMALL, Some(fraction)),
                container("b", SMALL, Some(fraction))
            ]),
        )
    };
    assert!(cluster.create(&both("0.20")).admit);
    let verdict = cluster.create(&both("0.30"));
    let above = verdict
        .findings
        .iter()
        .filter(|finding| finding.code == Code::Vg401);
    assert_eq!(above.count(), 2);
    // Without a limit on each device what takes all it can get is bounded by nothing.
    let mut pod = open("a", "shared");
    let second = pod["spec"]["containers"][0].clone();
    pod["spec"]["containers"].as_array_mut().unwrap().push(second);
    pod["spec"]["containers"][1]["name"] = json!("second");
    cluster.resource(&claim(
        "shared",
        mps(json!({"defaultPerDevicePinnedMemoryLimit": {"1": "10Gi"}})),
    ));
    assert!(has(&cluster.create(&pod), Code::Vg206));
    cluster.resource(&claim(
        "shared",
        mps(json!({"defaultPerDevicePinnedMemoryLimit": {"0": "10Gi"}})),
    ));
    let verdict = cluster.create(&pod);
    assert!(verdict.admit, "{:#?}", verdict.findings);
}

#[test]
fn a_model_that_wants_more_than_the_mps_limit_of_its_claim() {
    let mut cluster = h100();
    let engine = json!([{"name": "server", "image": "nvcr.io/nvidia/tensorrt-llm/release:1.0.0",
        "command": ["trtllm-serve", MIDDLE, "--max_seq_len", "4096"], "resources": {"claims": [{"name": "gpu"}]}}]);
    let pod = by_template("chat", engine);
    cluster.resource(&template(
        "one",
        mps(json!({"defaultPinnedDeviceMemoryLimit": "10Gi"})),
    ));
    let verdict = cluster.create(&pod);
    assert!(!verdict.admit, "{:#?}", verdict.findings);
    let text = message::refusal(&verdict);
    golden("d4-model-above-the-mps-limit", &text);
    // What the text proposes.
    assert!(text.contains("raise it to 14634 MiB or more"), "{text}");
    for limit in ["14634Mi", "40Gi"] {
        cluster.resource(&template(
            "one",
            mps(json!({"defaultPinnedDeviceMemoryLimit": limit})),
        ));
        let verdict = cluster.create(&pod);
        assert!(verdict.admit, "{limit}: {:#?}", verdict.findings);
    }
}

// Tenants.

#[test]
fn tenants_do_not_share_a_device_by_their_claims() {
    let policy = "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: p}\nspec: {device: {tenants: \
                  sameNamespace}}\n";
    let mut cluster = with_shareable(
        Cluster::with_policy(policy),
        json!([shareable("gpu-0"), shareable("gpu-1")]),
    );
    cluster.resource(&on("one", of_gpu(), "gpu-0"));
    cluster.resource(&in_namespace(on("two", of_gpu(), "gpu-0"), "team-b"));
    cluster.resource(&in_namespace(on("free", of_gpu(), "gpu-1"), "team-b"));
    let theirs = |of: &str| in_namespace(by_name(of, of, "0.20"), "team-b");
    assert!(cluster.create(&by_name("a", "one", "0.20")).admit);
    let verdict = cluster.create(&theirs("two"));
    assert!(!verdict.admit, "{:#?}", verdict.findings);
    golden("tenants-of-one-device-by-claim", &message::refusal(&verdict));
    // Before a device is chosen: as long as one is free of others, it may be that.
    cluster.resource(&in_namespace(template("one", of_gpu()), "team-b"));
    let by_template = in_namespace(
        by_template("t", json!([container("server", SMALL, Some("0.20"))])),
        "team-b",
    );
    assert!(cluster.create(&by_template).admit);
    cluster.resource(&on("three", of_gpu(), "gpu-1"));
    assert!(cluster.create(&by_name("c", "three", "0.20")).admit);
    let verdict = cluster.create(&by_template);
    assert!(!verdict.admit, "{:#?}", verdict.findings);
    golden("no-device-free-of-tenants-by-claim", &message::refusal(&verdict));
    // The same tenant may.
    cluster.resource(&on("four", of_gpu(), "gpu-0"));
    assert!(cluster.create(&by_name("d", "four", "0.20")).admit);
    // Of devices that one claim alone may have, nobody else is there.
    let mut whole = with_shareable(
        Cluster::with_policy(policy),
        json!([gpu("gpu-0", "NVIDIA H100 80GB HBM3", "81559Mi")]),
    );
    whole.resource(&on("one", of_gpu(), "gpu-0"));
    assert!(whole.create(&by_name("a", "one", "0.20")).admit);
    whole.resource(&in_namespace(template("one", of_gpu()), "team-b"));
    assert!(whole.create(&by_template).admit);
}

// Versions.

#[test]
fn every_version_of_the_api_says_the_same() {
    for version in ["v1", "v1beta2", "v1beta1"] {
        let api = format!("resource.k8s.io/{version}");
        let old = version == "v1beta1";
        let mut cluster = Cluster::new();
        cluster.node(&node("n1"));
        let mut device = shareable("gpu-0");
        device["capacity"]["memory"]["requestPolicy"] = json!({"default": "20Gi"});
        if old {
            let mut basic = device.clone();
            basic.as_object_mut().unwrap().remove("name");
            device = json!({"name": "gpu-0", "basic": basic});
        }
        let mut published = slice("n1", json!([device]));
        published["apiVersion"] = json!(api);
        cluster.resource(&published);
        cluster.resource(
            &json!({"apiVersion": api, "kind": "DeviceClass", "metadata": {"name": "gpu.nvidia.com"},
            "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]}}),
        );
        let exactly =
            json!({"deviceClassName": "gpu.nvidia.com", "capacity": {"requests": {"memory": "30Gi"}}});
        let of = |wanted: &Value| {
            if old {
                let mut flat = wanted.clone();
                flat["name"] = json!("gpu");
                json!({"devices": {"requests": [flat]}})
            } else {
                request(wanted.clone())
            }
        };
        cluster.resource(&template("one", of(&exactly)));
        let alone = |fraction| by_template("alone", json!([container("server", SMALL, Some(fraction))]));
        assert!(cluster.create(&alone("0.30")).admit, "{version}");
        assert!(has(&cluster.create(&alone("0.40")), Code::Vg401), "{version}");
        // What a claim consumes that names nothing.
        cluster.resource(&template(
            "one",
            of(&json!({"deviceClassName": "gpu.nvidia.com"})),
        ));
        assert!(has(&cluster.create(&alone("0.30")), Code::Vg401), "{version}");
        // Allocations.
        for name in ["x", "y"] {
            let mut on = on(name, of(&exactly), "gpu-0");
            on["status"]["allocation"]["devices"]["results"][0]["consumedCapacity"] =
                json!({"memory": "30Gi"});
            cluster.resource(&on);
        }
        assert!(cluster.create(&by_name("x", "x", "0.35")).admit, "{version}");
        let verdict = cluster.create(&by_name("y", "y", "0.35"));
        assert!(verdict.admit, "{version}: {:#?}", verdict.findings);
        let device = row(&cluster, "gpu-0");
        assert_eq!(
            (device.promised_share.ppm(), device.holders.len()),
            (700_000, 2),
            "{version}"
        );
    }
}

// Templates of one object.

fn jobs(fractions: &[&str]) -> Value {
    let jobs: Vec<Value> = fractions
        .iter()
        .enumerate()
        .map(|(index, fraction)| {
            let spec = json!({"restartPolicy": "Never", "containers": [container("server", SMALL, Some(fraction))],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]});
            json!({"name": format!("job-{index}"), "replicas": 1, "template": {"spec": {"parallelism": 1, "completions": 1,
                "template": {"spec": spec}}}})
        })
        .collect();
    json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": "set", "namespace": "team-a"}, "spec": {"replicatedJobs": jobs}})
}

#[test]
fn templates_that_name_one_claim_are_judged_together() {
    // Allocated, not allocated, and not there.
    for claim in [
        Some(on("shared", of_gpu(), "gpu-0")),
        Some(claim("shared", of_gpu())),
        None,
    ] {
        let mut cluster = h100();
        if let Some(claim) = &claim {
            cluster.resource(claim);
        }
        assert!(cluster.create(&jobs(&["0.40", "0.40"])).admit);
        let object = jobs(&["0.50", "0.50"]);
        let verdict = cluster.create(&object);
        assert!(!verdict.admit, "{:#?}", verdict.findings);
        assert!(fixes_hold(&mut cluster, &object, &verdict) > 0);
        let text = message::refusal(&verdict);
        if claim.as_ref().is_some_and(|claim| claim["status"].is_null()) {
            golden("d3-templates-of-one-claim", &text);
        }
        // Others on the claim are counted beside both.
        assert!(cluster.create(&by_claim("a", "0.20")).admit);
        assert!(!cluster.create(&jobs(&["0.40", "0.40"])).admit);
        assert!(cluster.create(&jobs(&["0.40", "0.20"])).admit);
        // More of either is more.
        let verdict = cluster.update(&jobs(&["0.40", "0.20"]), &jobs(&["0.40", "0.40"]));
        assert!(!verdict.admit, "{:#?}", verdict.findings);
        assert!(
            cluster
                .update(&jobs(&["0.40", "0.40"]), &jobs(&["0.40", "0.20"]))
                .admit
        );
    }
}

#[test]
fn a_template_with_slots_meets_the_claims_of_the_others() {
    let mut cluster = h100();
    cluster.gpu_node("sliced", "NVIDIA-H100-80GB-HBM3", kit::H100, 1, 4);
    cluster.resource(&claim("shared", of_gpu()));
    let with_slot = |fraction: &str| {
        let mut object = jobs(&[fraction, "0.50"]);
        let mut slot = container("slot", SMALL, Some("0.20"));
        slot["resources"] = json!({"limits": {"nvidia.com/gpu": "1"}});
        let spec = &mut object["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"];
        spec["containers"].as_array_mut().unwrap().push(slot);
        object
    };
    let verdict = cluster.try_create(&with_slot("0.50"));
    assert!(
        !verdict.admit && has(&verdict, Code::Vg201),
        "{:#?}",
        verdict.findings
    );
    let verdict = cluster.try_create(&with_slot("0.40"));
    assert!(verdict.admit, "{:#?}", verdict.findings);
}

#[test]
fn init_containers_of_another_template_end_before_its_others_begin() {
    let mut cluster = h100();
    cluster.resource(&claim("shared", of_gpu()));
    let mut object = jobs(&["0.40", "0.40"]);
    for index in 0..2 {
        let spec = &mut object["spec"]["replicatedJobs"][index]["template"]["spec"]["template"]["spec"];
        let mut warm = spec["containers"][0].clone();
        warm["name"] = json!("warm");
        spec["initContainers"] = json!([warm]);
    }
    let verdict = cluster.create(&object);
    assert!(verdict.admit, "{:#?}", verdict.findings);
}

#[test]
fn a_thousand_users_of_a_claim_on_many_kinds_are_summed_up_within_bounds() {
    // The API server lets 256 pods use a claim.
    let (few, many) = (summed_up(250), summed_up(1_000));
    assert!(many <= 6 * few, "{few} bytes allocated, then {many}");
}

/// What it allocates in all, in bytes, to refuse one more user of a claim that so many use, with the fixes that are tried.
fn summed_up(users: usize) -> u64 {
    let devices: Vec<Value> = (0..64)
        .map(|index| gpu(&format!("gpu-{index}"), &format!("GPU {index}"), "81559Mi"))
        .collect();
    let mut cluster = with_shareable(Cluster::new(), json!(devices));
    cluster.resource(&claim("shared", of_gpu()));
    for index in 0..users {
        let mut pod = by_claim(&format!("p{index}"), "0.0001");
        pod["metadata"]["uid"] = json!(format!("p{index}"));
        cluster.running(&pod, "n1");
    }
    let one = by_claim("one", "0.0001");
    let cost = allocation_counter::measure(|| assert!(has(&cluster.try_create(&one), Code::Vg201)));
    cost.bytes_total
}

// What is not known is not nothing.

#[test]
fn holders_of_a_device_of_unknown_size_are_told_by_their_share() {
    let mut cluster = h100();
    cluster.resource(&on("shared", of_gpu(), "gpu-7"));
    assert!(cluster.create(&by_claim("a", "0.50")).admit);
    let verdict = cluster.create(&by_claim("b", "0.50"));
    assert!(!verdict.admit);
    let text = message::refusal(&verdict);
    assert!(!text.contains(" 0 MiB"), "{text}");
    golden("d3-device-of-unknown-size", &text);
    let held = &finding(&verdict, Code::Vg201).holders[0];
    assert_eq!((held.request, held.share.ppm()), (None, 500_000));
    // A slot of a node that does not tell its size.
    let mut odd = kit::gpu_node("odd", "Some-GPU", kit::H100, 1, 4);
    odd["metadata"]["labels"]
        .as_object_mut()
        .unwrap()
        .remove("nvidia.com/gpu.memory");
    let mut cluster = Cluster::new();
    cluster.node(&odd);
    assert!(cluster.create(&kit::pod("a", "0.50")).admit);
    let verdict = cluster.create(&kit::pod("b", "0.50"));
    assert!(!verdict.admit);
    assert_eq!(finding(&verdict, Code::Vg201).holders[0].request, None);
}

#[test]
fn a_reservation_is_given_back_with_its_pod() {
    let mut cluster = h100();
    cluster.resource(&claim("shared", of_gpu()));
    assert!(cluster.create(&by_name("a", "other", "0.50")).admit);
    let stale = cluster.ledger.stale(Moment(u64::MAX));
    assert_eq!(stale.len(), 1);
    cluster.ledger.release(&stale[0].uid);
    assert!(cluster.create(&by_name("b", "other", "0.60")).admit);
}

#[derive(Clone, Debug)]
enum Step {
    /// A pod of so many thousandths by one of three claims.
    Create(usize, u64),
    Delete(usize),
    /// A claim is allocated one of two devices, is there without, or is not there.
    Allocate(usize, usize),
    Free(usize),
    Forget(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_usize..3, 20_u64..=700).prop_map(|(claim, thousandths)| Step::Create(claim, thousandths)),
        2 => (0_usize..64).prop_map(Step::Delete),
        3 => (0_usize..3, 0_usize..2).prop_map(|(claim, device)| Step::Allocate(claim, device)),
        1 => (0_usize..3).prop_map(Step::Free),
        1 => (0_usize..3).prop_map(Step::Forget),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whichever claims are there and allocated: a pod joins exactly when all who get the same device fit on it, by
    /// whichever claims they do.
    #[test]
    fn who_gets_one_device_fits_on_it(steps in prop::collection::vec(step(), 1..32)) {
        let mut cluster = with_shareable(Cluster::new(), json!([shareable("gpu-0"), shareable("gpu-1")]));
        let name = |claim: usize| format!("c{claim}");
        // Of each claim the device that it is allocated.
        let mut claims: [Option<usize>; 3] = [None; 3];
        let mut pods: Vec<(String, usize, u64)> = Vec::new();
        for (count, step) in steps.into_iter().enumerate() {
            match step {
                Step::Create(claim, thousandths) => {
                    let meets = |other: usize| other == claim || claims[claim].is_some() && claims[other] == claims[claim];
                    let others: Vec<u64> = pods
                        .iter()
                        .filter(|(_, other, _)| meets(*other))
                        .map(|(_, _, thousandths)| kit::share(kit::H100, *thousandths))
                        .collect();
                    let sum = others.iter().sum::<u64>() + kit::share(kit::H100, thousandths);
                    let expected = others.is_empty() || sum <= 900_000;
                    let mut pod = by_name(&format!("p{count}"), &name(claim), &format!("0.{thousandths:03}"));
                    pod["metadata"]["uid"] = json!(format!("p{count}"));
                    pod["spec"]["containers"][0]["args"][1] = json!("example-org/chat");
                    let verdict = cluster.create(&pod);
                    prop_assert_eq!(verdict.admit, expected, "{} beside {:?}: {:?}", thousandths, others, verdict.findings);
                    if verdict.admit {
                        pods.push((format!("p{count}"), claim, thousandths));
                    }
                }
                Step::Delete(index) => {
                    if !pods.is_empty() {
                        let (uid, _, _) = pods.remove(index % pods.len());
                        cluster.ledger.remove_pod(&uid);
                    }
                }
                Step::Allocate(of, device) => {
                    claims[of] = Some(device);
                    cluster.resource(&on(&name(of), of_gpu(), &format!("gpu-{device}")));
                }
                Step::Free(of) => {
                    claims[of] = None;
                    cluster.resource(&claim(&name(of), of_gpu()));
                }
                Step::Forget(of) => {
                    claims[of] = None;
                    cluster.ledger.remove_resource_claim("team-a", &name(of));
                }
            }
            for device in 0..2 {
                let there = pods.iter().filter(|(_, of, _)| claims[*of] == Some(device));
                let there: Vec<u64> = there.map(|(_, _, thousandths)| *thousandths).collect();
                let row = row(&cluster, &format!("gpu-{device}"));
                prop_assert_eq!(row.holders.len(), there.len());
                let over = there.len() > 1 && there.iter().map(|one| kit::share(kit::H100, *one)).sum::<u64>() > 900_000;
                prop_assert_eq!(row.is_over(), over);
            }
            let over: Vec<bool> = (0..2).map(|device| row(&cluster, &format!("gpu-{device}")).is_over()).collect();
            prop_assert_eq!(!cluster.ledger.over_budget().is_empty(), over.contains(&true));
        }
    }
}
