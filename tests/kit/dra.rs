//! Objects of dynamic resource allocation for tests.

use serde_json::{Value, json};

use super::{Cluster, VLLM, pod_of};

pub const V1: &str = "resource.k8s.io/v1";

/// The classes that NVIDIA's driver installs.
pub fn classes(cluster: &mut Cluster) {
    for (name, kind, extended) in [
        ("gpu.nvidia.com", "gpu", json!("nvidia.com/gpu")),
        ("mig.nvidia.com", "mig", json!(null)),
    ] {
        cluster.resource(&json!({"apiVersion": V1, "kind": "DeviceClass", "metadata": {"name": name}, "spec": {
            "extendedResourceName": extended,
            "selectors": [{"cel": {"expression": format!(
                "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == '{kind}'"
            )}}],
        }}));
    }
}

pub fn gpu(name: &str, product: &str, memory: &str) -> Value {
    json!({"name": name, "attributes": {"type": {"string": "gpu"}, "productName": {"string": product},
        "uuid": {"string": format!("GPU-{name}")}}, "capacity": {"memory": {"value": memory}}})
}

pub fn mig(name: &str, profile: &str, memory: &str) -> Value {
    json!({"name": name, "attributes": {"type": {"string": "mig"}, "profile": {"string": profile},
        "productName": {"string": "NVIDIA H100 80GB HBM3"}, "parentUUID": {"string": "GPU-0"}},
        "capacity": {"memory": {"value": memory}}})
}

pub fn slice(node: &str, devices: Value) -> Value {
    json!({"apiVersion": V1, "kind": "ResourceSlice", "metadata": {"name": format!("{node}-slice")}, "spec": {
        "driver": "gpu.nvidia.com", "nodeName": node, "devices": devices,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
    }})
}

/// A node whose devices only ResourceSlices show.
pub fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {
        "kubernetes.io/hostname": name, "nvidia.com/gpu.present": "true"}},
        "status": {"capacity": {"cpu": "64"}, "allocatable": {"cpu": "64"},
            "conditions": [{"type": "Ready", "status": "True"}]}})
}

/// One H100 on one node, and NVIDIA's classes.
pub fn h100() -> Cluster {
    let mut cluster = Cluster::new();
    classes(&mut cluster);
    cluster.node(&node("n1"));
    cluster.resource(&slice(
        "n1",
        json!([gpu("gpu-0", "NVIDIA H100 80GB HBM3", "81559Mi")]),
    ));
    cluster
}

pub fn request(exactly: Value) -> Value {
    json!({"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}})
}

pub fn claim(name: &str, spec: Value) -> Value {
    json!({"apiVersion": V1, "kind": "ResourceClaim", "metadata": {"name": name, "namespace": "team-a"}, "spec": spec})
}

pub fn template(name: &str, spec: Value) -> Value {
    json!({"apiVersion": V1, "kind": "ResourceClaimTemplate", "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"spec": spec}})
}

pub fn allocated(mut claim: Value, results: Value) -> Value {
    claim["status"] = json!({"allocation": {"devices": {"results": results}}});
    claim
}

pub fn result(pool: &str, device: &str) -> Value {
    json!({"request": "gpu", "driver": "gpu.nvidia.com", "pool": pool, "device": device})
}

/// A container that gets its devices by the entry `gpu`.
pub fn container(name: &str, model: &str, fraction: Option<&str>) -> Value {
    let mut args = vec!["--model".to_owned(), model.to_owned()];
    args.extend(["--max-model-len", "4096", "--max-num-seqs", "64"].map(str::to_owned));
    if let Some(fraction) = fraction {
        args.extend(["--gpu-memory-utilization".to_owned(), fraction.to_owned()]);
    }
    json!({"name": name, "image": VLLM, "args": args, "resources": {"claims": [{"name": "gpu"}]}})
}

pub const SMALL: &str = "Qwen/Qwen3-0.6B";
pub const LARGE: &str = "Qwen/Qwen2.5-72B-Instruct";
pub const MIDDLE: &str = "Qwen/Qwen2.5-7B-Instruct";

pub fn by(entry: Value, name: &str, containers: Value) -> Value {
    let mut pod = pod_of(name, containers);
    let mut entry = entry;
    entry["name"] = json!("gpu");
    pod["spec"]["resourceClaims"] = json!([entry]);
    pod
}

pub fn by_template(name: &str, containers: Value) -> Value {
    by(json!({"resourceClaimTemplateName": "one"}), name, containers)
}

pub fn by_claim(name: &str, fraction: &str) -> Value {
    by(
        json!({"resourceClaimName": "shared"}),
        name,
        json!([container("server", SMALL, Some(fraction))]),
    )
}
