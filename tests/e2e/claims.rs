//! Devices by dynamic resource claims, allocated by the real scheduler from hand-made ResourceSlices; and devices that a
//! pod's status tells.

use serde_json::{Value, json};

use crate::api::{Answer, eventually};
use crate::manifests::{GpuNode, Pod};
use crate::scenario::Scenario;

const GROUP: &str = "/apis/resource.k8s.io/v1";

/// The classes that NVIDIA's driver installs, under names of the scenario: each sees its own devices only.
fn class(s: &Scenario, kind: &str, extended: Option<&str>) -> String {
    let name = format!("{kind}-{}.nvidia.com", s.name);
    let expression =
        format!("device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == '{kind}'");
    let mut class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]}});
    if let Some(extended) = extended {
        class["spec"]["extendedResourceName"] = json!(extended);
    }
    s.api()
        .post(&format!("{GROUP}/deviceclasses"), &class)
        .admitted("a class");
    name
}

/// A node whose devices only a ResourceSlice shows.
fn node(s: &Scenario, name: &str, devices: Value) {
    s.unknown_node(&GpuNode::bare(name).label("nvidia.com/gpu.present", "true"));
    let slice = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": {
        "driver": "gpu.nvidia.com", "nodeName": name, "devices": devices,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}}});
    s.api()
        .post(&format!("{GROUP}/resourceslices"), &slice)
        .admitted("a slice");
}

fn h100() -> Value {
    json!([{"name": "gpu-0", "attributes": {"type": {"string": "gpu"}, "uuid": {"string": "GPU-1"},
        "productName": {"string": "NVIDIA H100 80GB HBM3"}}, "capacity": {"memory": {"value": "81559Mi"}}}])
}

fn post(s: &Scenario, resource: &str, object: Value) {
    let path = format!("{GROUP}/namespaces/{}/{resource}", s.name);
    s.api().post(&path, &object).admitted(resource);
}

fn template(s: &Scenario, exactly: Value) {
    let spec = json!({"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}});
    post(
        s,
        "resourceclaimtemplates",
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one"}, "spec": {"spec": spec}}),
    );
}

/// A pod that gets its device by `entry`.
fn by(s: &Scenario, name: &str, entry: Value, args: &[&str]) -> Value {
    let mut pod = s.placed(&Pod::vllm(name, "0.30").args(args));
    pod["spec"]["containers"][0]["resources"] = json!({"claims": [{"name": "gpu"}]});
    let mut entry = entry;
    entry["name"] = json!("gpu");
    pod["spec"]["resourceClaims"] = json!([entry]);
    pod
}

fn by_template(s: &Scenario, name: &str, args: &[&str]) -> Value {
    by(s, name, json!({"resourceClaimTemplateName": "one"}), args)
}

fn create(s: &Scenario, pod: &Value) -> Answer {
    s.api().post(&format!("/api/v1/namespaces/{}/pods", s.name), pod)
}

/// Waits until vramgate judges by the objects that were created: a pod that can never be right is refused.
fn wait_known(s: &Scenario, pod: &Value, words: &[&str]) -> Answer {
    let path = format!("/api/v1/namespaces/{}/pods?dryRun=All", s.name);
    eventually("vramgate knows the claims", 20, || {
        let answer = s.api().post(&path, pod);
        let text = answer.text();
        (!answer.is_success() && words.iter().all(|word| text.contains(word))).then_some(answer)
    })
}

const SMALL: &str = "Qwen/Qwen3-0.6B";

#[test]
fn dra_d1_a_whole_gpu_by_template() {
    let s = Scenario::new("dra-d1");
    let class = class(&s, "gpu", None);
    node(&s, "dra-d1-n1", h100());
    template(&s, json!({"deviceClassName": class}));
    wait_known(
        &s,
        &by_template(
            &s,
            "large",
            &["Qwen/Qwen2.5-72B-Instruct", "--max-model-len=4096"],
        ),
        &["VG701", "claim gpu"],
    );
    create(
        &s,
        &by_template(&s, "wrong", &[SMALL, "--gpu-memory-utilization=1.5"]),
    )
    .denied("a fraction out of range", &["VG101"]);
    create(&s, &by_template(&s, "chat", &[SMALL])).admitted("the default of a whole GPU");
    s.wait_running(1, 30);
}

#[test]
fn dra_d2_a_model_too_large_for_a_mig_device() {
    let s = Scenario::new("dra-d2");
    let class = class(&s, "mig", None);
    let mig = |name: &str, profile: &str, memory: &str| {
        json!({"name": name, "attributes": {"type": {"string": "mig"}, "profile": {"string": profile},
            "productName": {"string": "NVIDIA H100 80GB HBM3"}}, "capacity": {"memory": {"value": memory}}})
    };
    node(
        &s,
        "dra-d2-n1",
        json!([
            mig("gpu-0-mig-1g10gb-19-0", "1g.10gb", "9984Mi"),
            mig("gpu-0-mig-2g20gb-14-2", "2g.20gb", "20096Mi"),
        ]),
    );
    let of = |profile: &str| {
        json!({"deviceClassName": class, "selectors": [{"cel": {"expression":
        format!("device.attributes['gpu.nvidia.com'].profile == '{profile}'")}}]})
    };
    template(&s, of("1g.10gb"));
    let args = [
        "Qwen/Qwen2.5-7B-Instruct",
        "--max-model-len=4096",
        "--max-num-seqs=64",
    ];
    wait_known(
        &s,
        &by_template(&s, "chat", &args),
        &["VG301", "9984 MiB", "mig-2g.20gb"],
    );
    s.kubectl(&["delete", "resourceclaimtemplate", "one"], None);
    template(&s, of("2g.20gb"));
    eventually("the larger slice takes it", 20, || {
        create(&s, &by_template(&s, "chat", &args))
            .is_success()
            .then_some(())
    });
    s.wait_running(1, 30);
}

#[test]
fn dra_d3_pods_share_the_device_of_one_claim() {
    let s = Scenario::new("dra-d3");
    let class = class(&s, "gpu", None);
    node(&s, "dra-d3-n1", h100());
    post(
        &s,
        "resourceclaims",
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": "shared"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": class}}]}}}),
    );
    let pod = |name: &str, fraction: &str| {
        by(
            &s,
            name,
            json!({"resourceClaimName": "shared"}),
            &[
                SMALL,
                "--max-model-len=4096",
                "--gpu-memory-utilization",
                fraction,
            ],
        )
    };
    wait_known(&s, &pod("probe", "1.5"), &["VG101"]);
    create(&s, &pod("a", "0.50")).admitted("the first");
    create(&s, &pod("b", "0.50")).denied("more than is left", &["VG201", "ResourceClaim shared", "0.40"]);
    create(&s, &pod("b", "0.40")).admitted("what the text proposes");
    create(&s, &pod("c", "0.10")).denied("a third", &["VG201", "2 holders"]);
    s.wait_running(2, 30);
    let device = eventually("the allocation is seen", 20, || {
        let rows = s.rows("dra-d3-n1").into_iter();
        rows.into_iter()
            .find(|row| row["device"] == "gpu.nvidia.com[gpu-0]" && row["usedSlots"] == 2)
    });
    assert_eq!(device["evidence"], "observed", "{device}");
    assert_eq!(device["promisedFraction"], "0.90", "{device}");
    create(&s, &pod("c", "0.10")).denied("a third, later", &["VG201", "gpu-0 of dra-d3-n1"]);
    s.delete("a", 0);
    eventually("who goes makes room", 20, || {
        create(&s, &pod("c", "0.50")).is_success().then_some(())
    });
}

/// A claim that pods may share, for one request.
fn claim(s: &Scenario, name: &str, exactly: Value) {
    post(
        s,
        "resourceclaims",
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}),
    );
}

fn by_claim(s: &Scenario, name: &str, claim: &str, fraction: &str) -> Value {
    by(
        s,
        name,
        json!({"resourceClaimName": claim}),
        &[
            SMALL,
            "--max-model-len=4096",
            "--gpu-memory-utilization",
            fraction,
        ],
    )
}

#[test]
fn dra_pods_that_are_there_before_their_claim() {
    let s = Scenario::new("dra-late");
    let class = class(&s, "gpu", None);
    node(&s, "dra-late-n1", h100());
    for name in ["a", "b"] {
        create(&s, &by_claim(&s, name, "late", "0.40")).admitted(name);
    }
    claim(&s, "late", json!({"deviceClassName": class}));
    s.wait_running(2, 30);
    let answer = wait_known(
        &s,
        &by_claim(&s, "c", "late", "0.20"),
        &["VG201", "gpu-0 of dra-late-n1"],
    );
    assert!(answer.text().contains("2 holders have 0.80"), "{}", answer.text());
    create(&s, &by_claim(&s, "c", "late", "0.10")).admitted("what is left");
    s.wait_running(3, 30);
}

#[test]
fn dra_claims_that_are_allocated_one_device() {
    let s = Scenario::new("dra-one");
    let class = class(&s, "gpu", None);
    let mut device = h100();
    device[0]["allowMultipleAllocations"] = json!(true);
    device[0]["capacity"]["memory"]["requestPolicy"] =
        json!({"default": "1Gi", "validRange": {"min": "1Mi", "step": "1Mi"}});
    node(&s, "dra-one-n1", device);
    for name in ["one", "two"] {
        claim(
            &s,
            name,
            json!({"deviceClassName": class, "capacity": {"requests": {"memory": "39Gi"}}}),
        );
        wait_known(&s, &by_claim(&s, "probe", name, "1.5"), &["VG101"]);
        create(&s, &by_claim(&s, name, name, "0.40")).admitted(name);
    }
    s.wait_running(2, 30);
    let row = eventually("both are seen on the device", 20, || {
        let rows = s.rows("dra-one-n1").into_iter();
        rows.into_iter()
            .find(|row| row["device"] == "gpu.nvidia.com[gpu-0]" && row["usedSlots"] == 2)
    });
    assert_eq!(row["promisedFraction"], "0.80", "{row}");
    wait_known(
        &s,
        &by_claim(&s, "third", "two", "0.20"),
        &["VG201", "2 claims are allocated gpu-0"],
    );
}

#[test]
fn dra_d5_a_resource_that_a_class_stands_for() {
    let s = Scenario::new("dra-d5");
    let class = class(&s, "gpu", None);
    node(&s, "dra-d5-n1", h100());
    let resource = format!("deviceclass.resource.kubernetes.io/{class}");
    let pod = |name: &str, model: &str| {
        s.placed(
            &Pod::vllm(name, "0.90")
                .args(&[model, "--max-model-len=4096"])
                .asks(&resource, 1),
        )
    };
    wait_known(&s, &pod("large", "Qwen/Qwen2.5-72B-Instruct"), &["VG701"]);
    create(&s, &pod("chat", SMALL)).admitted("a whole device");
    s.wait_running(1, 30);
}

#[test]
fn evidence_grades_change_as_status_appears() {
    let s = Scenario::new("evidence");
    s.node(GpuNode::l40s("evidence-n1").gpus(2).slots(3));
    for (name, fraction) in [("a", "0.30"), ("b", "0.35")] {
        s.create(&Pod::vllm(name, fraction)).admitted(name);
    }
    s.wait_running(2, 20);
    s.create(&Pod::vllm("c", "0.45"))
        .denied("any two may stand together", &["VG201", "evidence any"]);
    let row = s.wait_top("evidence-n1", "0.65");
    assert_eq!(
        (&row["evidence"], &row["device"]),
        (&json!("any"), &json!(null)),
        "{row}"
    );
    for (name, slot) in [("a", "GPU-1::0"), ("b", "GPU-2::1")] {
        let path = format!("/api/v1/namespaces/{}/pods/{name}", s.name);
        let image = s.api().get(&path).body["spec"]["containers"][0]["image"].clone();
        let status = json!({"status": {"containerStatuses": [{"name": "vllm", "image": image, "imageID": "", "ready": true,
            "restartCount": 0, "allocatedResourcesStatus": [
                {"name": "nvidia.com/gpu", "resources": [{"resourceID": slot, "health": "Healthy"}]}]}]}});
        s.api()
            .patch(&format!("{path}/status"), &status)
            .admitted("a status");
    }
    eventually("each has its device", 20, || {
        s.dry_run(&Pod::vllm("c", "0.45")).is_success().then_some(())
    });
    let rows = s.rows("evidence-n1");
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert!(rows.iter().all(|row| row["evidence"] == "observed"), "{rows:?}");
    s.create(&Pod::vllm("c", "0.56"))
        .denied("more than any device has left", &["VG201", "evidence observed"]);
    s.create(&Pod::vllm("c", "0.45")).admitted("what fits on each");
}
