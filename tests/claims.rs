//! Devices by dynamic resource claims.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test ends at the first surprise"
)]

mod kit;

use kit::dra::{
    LARGE, MIDDLE, SMALL, V1, allocated, by, by_claim, by_template, claim, classes, container, gpu, h100,
    mig, node, request, result, slice, template,
};
use kit::{Cluster, H100, deployment, finding, fixes_hold, golden, has, pod_of};
use proptest::prelude::*;
use serde_json::{Value, json};
use vramgate::finding::{Code, Severity};
use vramgate::message;
use vramgate::policy::Evidence;
use vramgate::units::Mib;

#[test]
fn d1_a_whole_gpu_by_template_is_the_pods_own() {
    let mut cluster = h100();
    cluster.resource(&template(
        "one",
        request(json!({"deviceClassName": "gpu.nvidia.com"})),
    ));
    let with = |fraction, model| by_template("chat", json!([container("server", model, fraction)]));
    // The default of a whole GPU, and anything up to all of it.
    for fraction in [None, Some("0.95")] {
        let verdict = cluster.create(&with(fraction, SMALL));
        assert!(verdict.admit && verdict.judged, "{:?}", verdict.findings);
        assert!(verdict.findings.is_empty(), "{:?}", verdict.findings);
        assert!(
            verdict.reservation.is_none(),
            "the scheduler counts whole devices"
        );
    }
    let verdict = cluster.create(&with(Some("1.5"), SMALL));
    assert!(
        !verdict.admit && has(&verdict, Code::Vg101),
        "{:?}",
        verdict.findings
    );
    assert_eq!(fixes_hold(&mut cluster, &with(Some("1.5"), SMALL), &verdict), 1);
    let verdict = cluster.create(&with(Some("0.90"), LARGE));
    assert!(!verdict.admit);
    golden("d1-too-large-for-the-claim", &message::refusal(&verdict));
    assert_eq!(
        finding(&verdict, Code::Vg701).path.as_str(),
        "spec.containers[0].args[7]"
    );
    // Two ranks and one device.
    let mut two = with(Some("0.90"), SMALL);
    two["spec"]["containers"][0]["args"]
        .as_array_mut()
        .unwrap()
        .push(json!("--tensor-parallel-size=2"));
    let verdict = cluster.create(&two);
    assert!(!verdict.admit && has(&verdict, Code::Vg105));
    cluster.resource(&template(
        "one",
        request(json!({"deviceClassName": "gpu.nvidia.com", "count": 2})),
    ));
    assert!(cluster.create(&two).admit);
    // What nobody can read is its own affair on a device of its own.
    let mut other = with(None, SMALL);
    other["spec"]["containers"][0]["image"] = json!("example.org/training:1");
    assert!(cluster.create(&other).admit);
}

#[test]
fn d1_the_workload_that_makes_such_pods_is_told_at_once() {
    let mut cluster = h100();
    cluster.resource(&template(
        "one",
        request(json!({"deviceClassName": "gpu.nvidia.com"})),
    ));
    let mut chat = deployment("chat", 2, &container("server", LARGE, Some("0.90")));
    chat["spec"]["template"]["spec"]["resourceClaims"] =
        json!([{"name": "gpu", "resourceClaimTemplateName": "one"}]);
    let verdict = cluster.create(&chat);
    assert!(!verdict.admit);
    let path = finding(&verdict, Code::Vg701).path.to_string();
    assert_eq!(path, "spec.template.spec.containers[0].args[7]");
}

#[test]
fn d2_a_model_that_is_too_large_for_a_mig_device() {
    let mut cluster = Cluster::new();
    classes(&mut cluster);
    cluster.node(&node("n1"));
    cluster.resource(&slice(
        "n1",
        json!([
            mig("gpu-0-mig-1g10gb-19-0", "1g.10gb", "9984Mi"),
            mig("gpu-0-mig-2g20gb-14-2", "2g.20gb", "20096Mi"),
        ]),
    ));
    let of = |profile: &str| {
        request(
            json!({"deviceClassName": "mig.nvidia.com", "selectors": [{"cel": {"expression":
        format!("device.attributes['gpu.nvidia.com'].profile == '{profile}'")}}]}),
        )
    };
    cluster.resource(&template("one", of("1g.10gb")));
    let pod = by_template("chat", json!([container("server", MIDDLE, Some("0.90"))]));
    let verdict = cluster.create(&pod);
    assert!(!verdict.admit);
    let text = message::refusal(&verdict);
    golden("d2-too-large-for-the-mig-claim", &text);
    assert!(text.contains("2g.20gb"), "{text}");
    // What the text proposes.
    cluster.resource(&template("one", of("2g.20gb")));
    let verdict = cluster.create(&pod);
    assert!(
        verdict.admit && !has(&verdict, Code::Vg301),
        "{:?}",
        verdict.findings
    );
    // A claim that may be given either is let through, and told.
    cluster.resource(&template(
        "one",
        request(json!({"deviceClassName": "mig.nvidia.com"})),
    ));
    let verdict = cluster.create(&pod);
    assert!(verdict.admit);
    let told = finding(&verdict, Code::Vg301);
    assert_eq!(told.severity, Severity::Warning);
    assert!(
        told.message.contains("may be given MIG 1g.10gb"),
        "{}",
        told.message
    );
    // So is one whose selector cannot be evaluated; where every device of the class is too small, it does not matter.
    let odd = request(
        json!({"deviceClassName": "mig.nvidia.com", "selectors": [{"cel": {"expression":
        "device.attributes['gpu.nvidia.com'].profile.matches('^1g')"}}]}),
    );
    cluster.resource(&template("one", odd));
    assert!(cluster.create(&pod).admit);
    cluster.resource(&slice(
        "n1",
        json!([mig("gpu-0-mig-1g10gb-19-0", "1g.10gb", "9984Mi")]),
    ));
    let verdict = cluster.create(&pod);
    assert!(!verdict.admit);
    assert!(
        finding(&verdict, Code::Vg301)
            .details
            .iter()
            .any(|detail| detail.contains("could not be evaluated"))
    );
}

#[test]
fn the_first_of_several_that_there_is() {
    let mut cluster = h100();
    let of = |class: &str| json!({"name": class.split('.').next(), "deviceClassName": class});
    cluster.resource(&template(
        "one",
        json!({"devices": {"requests": [{"name": "gpu", "firstAvailable":
        [of("mig.nvidia.com"), of("gpu.nvidia.com")]}]}}),
    ));
    cluster.resource(&slice(
        "n2",
        json!([mig("gpu-0-mig-1g10gb-19-0", "1g.10gb", "9984Mi")]),
    ));
    let pod = by_template("chat", json!([container("server", MIDDLE, Some("0.90"))]));
    let verdict = cluster.create(&pod);
    assert!(verdict.admit, "{:?}", verdict.findings);
    assert_eq!(finding(&verdict, Code::Vg301).severity, Severity::Warning);
    let large = by_template("chat", json!([container("server", LARGE, Some("0.90"))]));
    assert!(!cluster.create(&large).admit, "it fits neither");
}

#[test]
fn d3_pods_that_share_a_claim_share_its_device() {
    let mut cluster = h100();
    let shared = claim("shared", request(json!({"deviceClassName": "gpu.nvidia.com"})));
    cluster.resource(&shared);
    let first = cluster.create(&by_claim("a", "0.50"));
    assert!(first.admit && first.reservation.is_some(), "{:?}", first.findings);
    // Before the watch shows the first one, and before the claim is allocated.
    let verdict = cluster.create(&by_claim("b", "0.50"));
    assert!(!verdict.admit);
    golden("d3-above-the-budget-of-the-claim", &message::refusal(&verdict));
    assert_eq!(finding(&verdict, Code::Vg201).holders.len(), 1);
    assert_eq!(fixes_hold(&mut cluster, &by_claim("b", "0.50"), &verdict), 1);
    assert!(cluster.create(&by_claim("b", "0.40")).admit);
    assert!(!cluster.create(&by_claim("c", "0.02")).admit);
    // The same claim name in another namespace is another claim.
    let mut elsewhere = by_claim("c", "0.40");
    elsewhere["metadata"]["namespace"] = json!("team-b");
    assert!(cluster.create(&elsewhere).admit);
    // Allocated, the device is known.
    cluster.resource(&allocated(shared.clone(), json!([result("n1", "gpu-0")])));
    let verdict = cluster.create(&by_claim("c", "0.02"));
    assert!(!verdict.admit);
    let full = finding(&verdict, Code::Vg201);
    assert!(
        full.details.iter().any(|detail| detail.contains("gpu-0 of n1")),
        "{:?}",
        full.details
    );
    let devices = cluster.ledger.devices();
    let device = devices
        .iter()
        .find(|device| device.id.as_deref() == Some("gpu-0"))
        .expect("its row");
    assert_eq!((device.promised_share.ppm(), device.holders.len()), (900_000, 2));
    assert_eq!(device.evidence, Evidence::Observed);
    // Who goes makes room.
    let uid = cluster.create(&by_claim("z", "0.95"));
    assert!(!uid.admit);
    let held: Vec<String> = cluster
        .ledger
        .stale(vramgate::ledger::Moment(u64::MAX))
        .into_iter()
        .filter(|stale| stale.name == "a")
        .map(|stale| stale.uid)
        .collect();
    cluster.ledger.release(&held[0]);
    let verdict = cluster.create(&by_claim("c", "0.50"));
    assert!(verdict.admit, "{:?}", verdict.findings);
    let row = &verdict.placement[0];
    assert_eq!(
        (row.node.as_str(), row.evidence, row.promised_fraction.ppm()),
        ("n1", Evidence::Observed, 900_000)
    );
}

#[test]
fn d3_what_was_admitted_alone_is_counted_as_it_is() {
    let mut cluster = h100();
    cluster.resource(&claim(
        "shared",
        request(json!({"deviceClassName": "gpu.nvidia.com"})),
    ));
    let entry = || json!({"resourceClaimName": "shared"});
    // Alone on its device, an engine that nobody can read is its owner's affair; nobody can join it.
    let mut odd = container("server", SMALL, None);
    odd["image"] = json!("example.org/training:1");
    assert!(cluster.create(&by(entry(), "odd", json!([odd]))).admit);
    let verdict = cluster.create(&by_claim("b", "0.10"));
    assert!(
        !verdict.admit && has(&verdict, Code::Vg201),
        "{:?}",
        verdict.findings
    );
    // And one that cannot be read joins nobody.
    let mut cluster = h100();
    cluster.resource(&claim(
        "shared",
        request(json!({"deviceClassName": "gpu.nvidia.com"})),
    ));
    assert!(cluster.create(&by_claim("a", "0.10")).admit);
    let mut odd = container("server", SMALL, None);
    odd["image"] = json!("example.org/training:1");
    let verdict = cluster.create(&by(entry(), "odd", json!([odd])));
    assert!(
        !verdict.admit && has(&verdict, Code::Vg106),
        "{:?}",
        verdict.findings
    );
    // Nor does the default of a whole GPU.
    let pod = by(entry(), "c", json!([container("server", SMALL, None)]));
    let verdict = cluster.create(&pod);
    assert!(!verdict.admit && has(&verdict, Code::Vg207) && has(&verdict, Code::Vg201));
    assert_eq!(fixes_hold(&mut cluster, &pod, &verdict), 1);
}

#[test]
fn d3_containers_and_replicas_share_as_pods_do() {
    let mut cluster = h100();
    cluster.resource(&template(
        "one",
        request(json!({"deviceClassName": "gpu.nvidia.com"})),
    ));
    let two = |fraction| {
        by_template(
            "two",
            json!([
                container("a", SMALL, Some(fraction)),
                container("b", SMALL, Some(fraction))
            ]),
        )
    };
    assert!(cluster.create(&two("0.45")).admit);
    let verdict = cluster.create(&two("0.46"));
    assert!(
        !verdict.admit && has(&verdict, Code::Vg201),
        "{:?}",
        verdict.findings
    );
    assert_eq!(fixes_hold(&mut cluster, &two("0.46"), &verdict), 1);
    // One that ends before the other starts shares nothing.
    let mut warm = two("0.90");
    warm["spec"]["initContainers"] = json!([warm["spec"]["containers"][0].clone()]);
    warm["spec"]["containers"].as_array_mut().unwrap().remove(0);
    let verdict = cluster.create(&warm);
    assert!(verdict.admit, "{:?}", verdict.findings);
    // Requests of their own are devices of their own.
    let mut own = two("0.90");
    cluster.resource(&template(
        "one",
        json!({"devices": {"requests": [
            {"name": "x", "exactly": {"deviceClassName": "gpu.nvidia.com"}},
            {"name": "y", "exactly": {"deviceClassName": "gpu.nvidia.com"}},
        ]}}),
    ));
    assert!(!cluster.create(&own).admit, "both get both");
    for (index, request) in ["x", "y"].into_iter().enumerate() {
        own["spec"]["containers"][index]["resources"]["claims"][0]["request"] = json!(request);
    }
    let verdict = cluster.create(&own);
    assert!(verdict.admit, "{:?}", verdict.findings);
    // All replicas of a Deployment use the claim that its template names.
    cluster.resource(&claim(
        "shared",
        request(json!({"deviceClassName": "gpu.nvidia.com"})),
    ));
    let replicas = |count| {
        let mut chat = deployment("chat", count, &container("server", SMALL, Some("0.30")));
        chat["spec"]["template"]["spec"]["resourceClaims"] =
            json!([{"name": "gpu", "resourceClaimName": "shared"}]);
        chat
    };
    assert!(cluster.create(&replicas(3)).admit);
    let verdict = cluster.create(&replicas(4));
    assert!(!verdict.admit);
    golden("d3-replicas-of-one-claim", &message::refusal(&verdict));
    assert_eq!(fixes_hold(&mut cluster, &replicas(4), &verdict), 1);
}

#[test]
fn d4_an_engine_takes_more_than_its_claim_consumes() {
    let mut cluster = Cluster::new();
    classes(&mut cluster);
    cluster.node(&node("n1"));
    let mut device = gpu("gpu-0", "NVIDIA H100 80GB HBM3", "81559Mi");
    device["allowMultipleAllocations"] = json!(true);
    device["capacity"]["memory"]["requestPolicy"] =
        json!({"default": "1Gi", "validRange": {"min": "1Mi", "step": "1Mi"}});
    cluster.resource(&slice("n1", json!([device])));
    let asks = |memory: &str| {
        request(json!({"deviceClassName": "gpu.nvidia.com", "capacity": {"requests": {"memory": memory}}}))
    };
    cluster.resource(&template("one", asks("8Gi")));
    let with = |fraction| by_template("chat", json!([container("server", SMALL, fraction)]));
    let verdict = cluster.create(&with(Some("0.30")));
    assert!(!verdict.admit);
    golden("d4-more-than-the-claim-consumes", &message::refusal(&verdict));
    assert_eq!(fixes_hold(&mut cluster, &with(Some("0.30")), &verdict), 1);
    // 0.30 of 81559 MiB and 640 MiB of overhead are 25108 MiB.
    cluster.resource(&template("one", asks("25108Mi")));
    let verdict = cluster.create(&with(Some("0.30")));
    assert!(verdict.admit, "{:?}", verdict.findings);
    cluster.resource(&template("one", asks("25107Mi")));
    assert!(!cluster.create(&with(Some("0.30"))).admit);
    let verdict = cluster.create(&with(None));
    assert!(!verdict.admit && has(&verdict, Code::Vg401) && has(&verdict, Code::Vg207));
    // A claim that names no amount consumes the default of the device.
    cluster.resource(&template(
        "one",
        request(json!({"deviceClassName": "gpu.nvidia.com"})),
    ));
    let verdict = cluster.create(&with(Some("0.10")));
    assert!(has(&verdict, Code::Vg401) && finding(&verdict, Code::Vg401).message.contains("1024 MiB"));
}

#[test]
fn mps_limits_of_claims_and_classes_are_read() {
    let mut cluster = h100();
    let with_limit = |limit: Value| {
        let mut spec = request(json!({"deviceClassName": "gpu.nvidia.com"}));
        spec["devices"]["config"] = json!([{"requests": ["gpu"], "opaque": {"driver": "gpu.nvidia.com", "parameters": {
            "apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig",
            "sharing": {"strategy": "MPS", "mpsConfig": limit}}}}]);
        spec
    };
    let pod = |fraction| by_template("chat", json!([container("server", SMALL, Some(fraction))]));
    cluster.resource(&template(
        "one",
        with_limit(json!({"defaultPinnedDeviceMemoryLimit": "20Gi"})),
    ));
    let verdict = cluster.create(&pod("0.30"));
    assert!(!verdict.admit);
    golden("d4-above-the-mps-limit-of-the-claim", &message::refusal(&verdict));
    assert_eq!(fixes_hold(&mut cluster, &pod("0.30"), &verdict), 1);
    assert!(cluster.create(&pod("0.20")).admit);
    cluster.resource(&template(
        "one",
        with_limit(json!({"defaultPerDevicePinnedMemoryLimit": {"0": "10Gi"}})),
    ));
    assert!(!cluster.create(&pod("0.20")).admit);
    cluster.resource(&template(
        "one",
        with_limit(json!({"defaultActiveThreadPercentage": 50})),
    ));
    assert!(cluster.create(&pod("0.30")).admit);
    // What a device is given by its number wins over the default; that of another device does not count.
    for (limit, admit) in [
        (
            json!({"defaultPinnedDeviceMemoryLimit": "10Gi", "defaultPerDevicePinnedMemoryLimit": {"0": "40Gi"}}),
            true,
        ),
        (
            json!({"defaultPinnedDeviceMemoryLimit": "40Gi", "defaultPerDevicePinnedMemoryLimit": {"0": "10Gi"}}),
            false,
        ),
        (
            json!({"defaultPinnedDeviceMemoryLimit": "40Gi", "defaultPerDevicePinnedMemoryLimit": {"1": "10Gi"}}),
            true,
        ),
        (json!({"defaultPerDevicePinnedMemoryLimit": {"1": "10Gi"}}), true),
        (
            json!({"defaultPinnedDeviceMemoryLimit": "40Gi", "defaultPerDevicePinnedMemoryLimit": {"GPU-1": "10Gi"}}),
            false,
        ),
        (
            json!({"defaultPinnedDeviceMemoryLimit": 10_737_418_240_u64}),
            false,
        ),
    ] {
        cluster.resource(&template("one", with_limit(limit.clone())));
        assert_eq!(cluster.create(&pod("0.30")).admit, admit, "{limit}");
    }
    cluster.resource(&template("one", with_limit(json!("odd"))));
    assert!(cluster.create(&pod("0.30")).admit);
}

#[test]
fn d5_an_extended_resource_that_a_class_stands_for() {
    let mut cluster = h100();
    for resource in [
        "nvidia.com/gpu",
        "deviceclass.resource.kubernetes.io/gpu.nvidia.com",
    ] {
        let with = |model: &str, fraction, count: u32| {
            let mut container = container("server", model, fraction);
            container["resources"] = json!({"limits": {resource: count.to_string()}});
            pod_of("chat", json!([container]))
        };
        // No node's capacity shows it, and it is a whole device: the default is right.
        let verdict = cluster.create(&with(SMALL, None, 1));
        assert!(
            verdict.admit && verdict.findings.is_empty(),
            "{resource}: {:?}",
            verdict.findings
        );
        assert_eq!(verdict.placement[0].node, "n1");
        let verdict = cluster.create(&with(LARGE, Some("0.90"), 1));
        assert!(
            !verdict.admit && has(&verdict, Code::Vg701),
            "{:?}",
            verdict.findings
        );
        let verdict = cluster.create(&with(SMALL, None, 2));
        assert!(
            !verdict.admit && has(&verdict, Code::Vg703),
            "{:?}",
            verdict.findings
        );
    }
    let device = &cluster.ledger.devices()[0];
    assert_eq!(
        (device.devices, device.total.map(Mib::get)),
        (1, Some(u64::from(H100)))
    );
    // Without any device the pod waits; a resource that nothing stands for is refused as ever.
    cluster.ledger.remove_resource_slice("n1-slice");
    let of = |resource: &str| {
        let mut container = container("server", SMALL, None);
        container["resources"] = json!({"limits": {resource: "1"}});
        pod_of("chat", json!([container]))
    };
    let verdict = cluster.create(&of("nvidia.com/gpu"));
    assert!(
        verdict.admit && !has(&verdict, Code::Vg302),
        "{:?}",
        verdict.findings
    );
    assert!(!cluster.create(&of("nvidia.com/mig-1g.10gb")).admit);
    // Capacity says more than a class.
    cluster.resource(&slice(
        "n1",
        json!([gpu("gpu-0", "NVIDIA H100 80GB HBM3", "81559Mi")]),
    ));
    cluster.gpu_node("n1", "NVIDIA-H100-80GB-HBM3", H100, 1, 4);
    let verdict = cluster.create(&of("nvidia.com/gpu"));
    assert!(
        !verdict.admit && has(&verdict, Code::Vg207),
        "{:?}",
        verdict.findings
    );
    // A class that is gone takes its resource along.
    cluster.node(&node("n1"));
    assert!(cluster.create(&of("nvidia.com/gpu")).admit);
    cluster.ledger.remove_device_class("gpu.nvidia.com");
    assert!(has(&cluster.create(&of("nvidia.com/gpu")), Code::Vg302));
}

#[test]
fn claims_for_the_devices_of_others_are_not_ours() {
    let mut cluster = h100();
    cluster.resource(
        &json!({"apiVersion": V1, "kind": "DeviceClass", "metadata": {"name": "nic.example.com"}, "spec": {
        "selectors": [{"cel": {"expression": "device.driver == 'nic.example.com'"}}]}}),
    );
    cluster.resource(&template(
        "one",
        request(json!({"deviceClassName": "nic.example.com"})),
    ));
    let pod = by_template("chat", json!([container("server", SMALL, Some("1.5"))]));
    let verdict = cluster.create(&pod);
    assert!(verdict.admit && !verdict.judged, "{:?}", verdict.findings);
    // Access for monitoring consumes nothing.
    cluster.resource(&template(
        "one",
        request(json!({"deviceClassName": "gpu.nvidia.com", "adminAccess": true})),
    ));
    assert!(!cluster.create(&pod).judged);
    // A class that nobody knows and whose name says nothing.
    cluster.resource(&template("one", request(json!({"deviceClassName": "fpga"}))));
    assert!(!cluster.create(&pod).judged);
    // One of any driver's devices may be a GPU.
    cluster
        .resource(&json!({"apiVersion": V1, "kind": "DeviceClass", "metadata": {"name": "any"}, "spec": {}}));
    cluster.resource(&template("one", request(json!({"deviceClassName": "any"}))));
    assert!(cluster.create(&pod).judged);
}

#[test]
fn what_is_not_known_yet_is_told() {
    let mut cluster = h100();
    let pod = by_template("chat", json!([container("server", SMALL, Some("0.90"))]));
    let verdict = cluster.create(&pod);
    assert!(verdict.admit && verdict.judged);
    let told = finding(&verdict, Code::Vg704);
    assert!(
        told.message.contains("ResourceClaimTemplate one is not known"),
        "{}",
        told.message
    );
    // A claim of a class without devices waits for one.
    cluster.resource(&template(
        "one",
        request(json!({"deviceClassName": "mig.nvidia.com"})),
    ));
    let verdict = cluster.create(&pod);
    assert!(verdict.admit);
    assert_eq!(finding(&verdict, Code::Vg209).severity, Severity::Info);
    // A device that was allocated and is published no more.
    cluster.resource(&allocated(
        claim("shared", request(json!({"deviceClassName": "gpu.nvidia.com"}))),
        json!([result("n1", "gpu-7")]),
    ));
    assert!(has(&cluster.create(&by_claim("a", "0.30")), Code::Vg209));
}

#[test]
fn what_takes_all_it_can_get_takes_the_mps_limit_of_its_claim() {
    for (limit, admitted) in [("20Gi", 3), ("30Gi", 2), ("70Gi", 1)] {
        let mut spec = request(json!({"deviceClassName": "gpu.nvidia.com"}));
        spec["devices"]["config"] = json!([{"opaque": {"driver": "gpu.nvidia.com", "parameters": {
            "kind": "GpuConfig",
            "sharing": {"strategy": "MPS", "mpsConfig": {"defaultPinnedDeviceMemoryLimit": limit}}}}}]);
        let mut cluster = h100();
        cluster.resource(&claim("shared", spec));
        for index in 0..4 {
            let mut pod = by_claim(&format!("train-{index}"), "0.10");
            let container = &mut pod["spec"]["containers"][0];
            container["image"] = json!("pytorch/pytorch:2.8.0");
            container["command"] = json!(["python", "train.py"]);
            container["args"] = json!([]);
            let verdict = cluster.create(&pod);
            assert_eq!(
                verdict.admit,
                index < admitted,
                "{limit} {index}: {:#?}",
                verdict.findings
            );
        }
    }
}

#[test]
fn who_shares_a_claim_is_summed_up_though_no_slice_describes_the_device() {
    let of_class = |class: &str| claim("shared", request(json!({"deviceClassName": class})));
    let gone = allocated(of_class("gpu.nvidia.com"), json!([result("n1", "gpu-7")]));
    for claim in [gone, of_class("mig.nvidia.com")] {
        let mut cluster = h100();
        cluster.resource(&claim);
        assert!(cluster.create(&by_claim("a", "0.45")).admit);
        assert!(cluster.create(&by_claim("b", "0.45")).admit);
        let verdict = cluster.create(&by_claim("c", "0.45"));
        assert!(!verdict.admit, "{:#?}", verdict.findings);
        let text = &finding(&verdict, Code::Vg201).message;
        assert!(text.contains("asks 0.45 of it by ResourceClaim shared"), "{text}");
    }
}

#[test]
fn a_name_that_two_slices_have_is_one_device() {
    let mut cluster = h100();
    let published = |name: &str, memory: &str| {
        let mut slice = slice("n9", json!([gpu("gpu-0", "NVIDIA H100 80GB HBM3", memory)]));
        slice["metadata"]["name"] = json!(name);
        slice
    };
    let totals = |cluster: &Cluster| -> Vec<Option<Mib>> {
        let devices = cluster.ledger.devices();
        let of_node = devices.iter().filter(|device| &*device.node == "n9");
        of_node.map(|device| device.total).collect()
    };
    cluster.resource(&published("a", "10Gi"));
    cluster.resource(&published("b", "81559Mi"));
    assert_eq!(totals(&cluster), [Some(Mib::new(10_240))]);
    cluster.resource(&claim(
        "shared",
        request(
            json!({"deviceClassName": "gpu.nvidia.com", "selectors": [{"cel": {
        "expression": "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('20Gi')) < 0"}}]}),
        ),
    ));
    assert!(!has(&cluster.create(&by_claim("a", "0.30")), Code::Vg209));
    // With the first slice the small device is gone, and nothing of it is left.
    cluster.ledger.remove_resource_slice("a");
    assert_eq!(totals(&cluster), [Some(Mib::new(u64::from(H100)))]);
    assert!(has(&cluster.create(&by_claim("b", "0.30")), Code::Vg209));
}

#[test]
fn slices_of_older_generations_do_not_count() {
    let mut cluster = h100();
    cluster.resource(&template(
        "one",
        request(json!({"deviceClassName": "gpu.nvidia.com"})),
    ));
    let pod = by_template("chat", json!([container("server", MIDDLE, Some("0.90"))]));
    assert!(cluster.create(&pod).admit);
    let mut newer = slice("n1", json!([gpu("gpu-0", "Tesla T4", "15360Mi")]));
    newer["metadata"]["name"] = json!("n1-newer");
    newer["spec"]["pool"]["generation"] = json!(2);
    cluster.resource(&newer);
    assert!(
        !cluster.create(&pod).admit,
        "the H100 is none of the newest generation"
    );
    cluster.ledger.remove_resource_slice("n1-newer");
    assert!(cluster.create(&pod).admit);
    // Versions before v1 say the same in other words.
    cluster.resource(&json!({"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceSlice", "metadata": {"name": "n1-slice"},
        "spec": {"driver": "gpu.nvidia.com", "nodeName": "n1", "pool": {"name": "n1", "generation": 3},
            "devices": [{"name": "gpu-0", "basic": {"attributes": {"type": {"string": "gpu"}, "productName": {"string": "Tesla T4"}},
                "capacity": {"memory": {"value": "15360Mi"}}}}]}}));
    cluster.resource(&template(
        "one",
        json!({"devices": {"requests": [{"name": "gpu", "deviceClassName": "gpu.nvidia.com"}]}}),
    ));
    assert!(!cluster.create(&pod).admit);
}

#[test]
fn a_pod_may_have_slots_and_claims() {
    let mut cluster = h100();
    cluster.resource(&template(
        "one",
        request(json!({"deviceClassName": "gpu.nvidia.com"})),
    ));
    cluster.gpu_node("shared", "NVIDIA-H100-80GB-HBM3", H100, 1, 4);
    let mut by_slot = container("slot", SMALL, Some("0.30"));
    by_slot["resources"] = json!({"limits": {"nvidia.com/gpu": "1"}});
    let pod = |model| by_template("both", json!([by_slot, container("claim", model, Some("0.90"))]));
    assert!(cluster.try_create(&pod(SMALL)).admit);
    let verdict = cluster.try_create(&pod(LARGE));
    assert!(
        !verdict.admit && has(&verdict, Code::Vg701),
        "{:?}",
        verdict.findings
    );
}

#[test]
fn thousands_of_devices_are_weighed_by_kind() {
    let (few, many) = (weighed(100), weighed(1_000));
    // One device at a time it would be ten times as much.
    assert!(many <= 3 * few, "{few} bytes allocated, then {many}");
}

/// What it allocates in all, in bytes, to admit a pod to a cluster of so many nodes with eight devices each.
fn weighed(nodes: usize) -> u64 {
    let mut cluster = Cluster::new();
    classes(&mut cluster);
    for index in 0..nodes {
        let name = format!("n{index}");
        let devices: Vec<Value> = (0..8)
            .map(|device| gpu(&format!("gpu-{device}"), "NVIDIA H100 80GB HBM3", "81559Mi"))
            .collect();
        cluster.node(&node(&name));
        cluster.resource(&slice(&name, json!(devices)));
    }
    cluster.resource(&template(
        "one",
        request(json!({"deviceClassName": "gpu.nvidia.com"})),
    ));
    let pod = by_template("chat", json!([container("server", SMALL, Some("0.90"))]));
    // What is read once in a process is read.
    assert!(cluster.try_create(&pod).admit);
    let cost = allocation_counter::measure(|| assert!(cluster.try_create(&pod).admit));
    assert_eq!(
        cluster
            .ledger
            .devices()
            .iter()
            .filter(|device| device.id.is_some())
            .count(),
        8 * nodes
    );
    cost.bytes_total
}

#[test]
fn who_uses_a_claim_has_asked_for_its_devices() {
    let mut cluster = h100();
    cluster.resource(&claim(
        "shared",
        request(json!({"deviceClassName": "gpu.nvidia.com"})),
    ));
    let sees_all = json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]);
    let mut pod = by_claim("a", "0.50");
    pod["spec"]["containers"][0]["env"] = sees_all.clone();
    let verdict = cluster.try_create(&pod);
    assert!(verdict.admit, "{}", message::refusal(&verdict));
    assert!(!has(&verdict, Code::Vg501) && !has(&verdict, Code::Vg504));
    // Another container of the pod that uses none has not.
    let beside = json!({"name": "beside", "image": "busybox", "env": sees_all});
    pod["spec"]["containers"].as_array_mut().unwrap().push(beside);
    let verdict = cluster.try_create(&pod);
    assert!(has(&verdict, Code::Vg501) && !has(&verdict, Code::Vg504));
}

#[test]
fn odd_objects_break_nothing() {
    for results in [
        json!([]),
        json!([{}]),
        json!([{"request": "other", "driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-0"}]),
        json!([{"request": "gpu", "driver": "nic.example.com", "pool": "n1", "device": "gpu-0"}]),
    ] {
        let mut cluster = h100();
        cluster.resource(&allocated(
            claim("shared", request(json!({"deviceClassName": "gpu.nvidia.com"}))),
            results,
        ));
        assert!(cluster.create(&by_claim("a", "0.50")).admit);
    }
    for exactly in [
        json!({}),
        json!(null),
        json!({"deviceClassName": ""}),
        json!({"deviceClassName": "gpu.nvidia.com", "count": -1}),
        json!({"deviceClassName": "gpu.nvidia.com", "count": 0}),
        json!({"deviceClassName": "gpu.nvidia.com", "count": 9_000_000_000_000_u64}),
        json!({"deviceClassName": "gpu.nvidia.com", "allocationMode": "All"}),
        json!({"deviceClassName": "gpu.nvidia.com", "capacity": {"requests": {"memory": "much"}}}),
        json!({"deviceClassName": "gpu.nvidia.com", "selectors": [{}, {"cel": null}, {"cel": {"expression": "("}}]}),
    ] {
        let mut cluster = h100();
        cluster.resource(&template("one", request(exactly.clone())));
        let pod = by_template("chat", json!([container("server", SMALL, Some("0.90"))]));
        drop(cluster.create(&pod));
        let mut many = deployment("chat", 2_147_483_647, &container("server", SMALL, Some("0.90")));
        many["spec"]["template"]["spec"]["resourceClaims"] =
            json!([{"name": "gpu", "resourceClaimTemplateName": "one"}]);
        drop(cluster.create(&many));
    }
    // Entries that no container uses, containers that use none, names that nobody has.
    let mut cluster = h100();
    cluster.resource(&claim(
        "shared",
        request(json!({"deviceClassName": "gpu.nvidia.com"})),
    ));
    let mut pod = by_claim("a", "0.50");
    pod["spec"]["containers"][0]["resources"] = json!(null);
    let verdict = cluster.create(&pod);
    assert!(verdict.admit);
    assert!(has(&verdict, Code::Vg504));
    pod["spec"]["containers"][0]["resources"] =
        json!({"claims": [{"name": "other"}, {"name": "gpu", "request": "other"}]});
    assert!(cluster.create(&pod).admit);
}

#[derive(Clone, Debug)]
enum Step {
    /// A pod of so many thousandths that uses the claim.
    Create(u64),
    /// The API server shows it, bound or not.
    See(usize, bool),
    Delete(usize),
    Release(usize),
    /// The claim is allocated, or not any more.
    Allocate(bool),
    Reload,
}

fn step() -> impl Strategy<Value = Step> {
    let index = || any::<prop::sample::Index>().prop_map(|index| index.index(64));
    prop_oneof![
        6 => (20_u64..=700).prop_map(Step::Create),
        3 => (index(), any::<bool>()).prop_map(|(pod, bound)| Step::See(pod, bound)),
        2 => index().prop_map(Step::Delete),
        1 => index().prop_map(Step::Release),
        1 => any::<bool>().prop_map(Step::Allocate),
        1 => Just(Step::Reload),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whoever comes when, and whatever is seen of them: a pod joins a claim exactly when all fit on its device.
    #[test]
    fn who_shares_a_claim_fits_on_its_device(steps in prop::collection::vec(step(), 1..24)) {
        let mut cluster = h100();
        let shared = claim("shared", request(json!({"deviceClassName": "gpu.nvidia.com"})));
        cluster.resource(&shared);
        // Object, thousandths, and whether the API server has shown it.
        let mut pods: Vec<(Value, u64, bool)> = Vec::new();
        for (count, step) in steps.into_iter().enumerate() {
            let picked = |index: usize| (!pods.is_empty()).then(|| index % pods.len().max(1));
            match step {
                Step::Create(thousandths) => {
                    let name = format!("p{count}");
                    let mut pod = by_claim(&name, &format!("0.{thousandths:03}"));
                    pod["metadata"]["uid"] = json!(name);
                    pod["spec"]["containers"][0]["args"][1] = json!("example-org/chat");
                    let others: u64 = pods.iter().map(|(_, thousandths, _)| kit::share(H100, *thousandths)).sum();
                    let expected = pods.is_empty() || others + kit::share(H100, thousandths) <= 900_000;
                    let verdict = cluster.create(&pod);
                    prop_assert_eq!(verdict.admit, expected, "{} beside {}: {:?}", thousandths, others, verdict.findings);
                    if verdict.admit {
                        pods.push((pod, thousandths, false));
                    }
                }
                Step::See(index, bound) => {
                    let Some(index) = picked(index) else { continue };
                    let (pod, _, seen) = &mut pods[index];
                    *seen = true;
                    if bound {
                        *pod = cluster.running(pod, "n1");
                    } else {
                        cluster.see(pod);
                    }
                }
                Step::Delete(index) => {
                    let Some(index) = picked(index) else { continue };
                    let (pod, _, _) = pods.remove(index);
                    cluster.ledger.remove_pod(pod["metadata"]["uid"].as_str().unwrap());
                }
                Step::Release(index) => {
                    let Some(index) = picked(index) else { continue };
                    // One that was seen stays.
                    cluster.ledger.release(pods[index].0["metadata"]["uid"].as_str().unwrap());
                    if !pods[index].2 {
                        pods.remove(index);
                    }
                }
                Step::Allocate(true) => cluster.resource(&allocated(shared.clone(), json!([result("n1", "gpu-0")]))),
                Step::Allocate(false) => cluster.resource(&shared),
                Step::Reload => {
                    let policies = cluster.ledger.policies().clone();
                    cluster.ledger.set_policies(policies);
                }
            }
        }
    }
}
