//! A cluster as `kubectl get nodes,pods -A -o json` prints it: GPU nodes of two sorts with pods on them.
//!
//! Of ten nodes seven share four GPUs each by time-slicing, in 16 slots of which ten are taken by a fifth of a GPU
//! each, and three give eight whole GPUs, of which six are taken.

use std::io::Write;

use serde_json::{Value, json};

use crate::Outcome;
use crate::review::{self, Kind};

fn is_shared(number: usize) -> bool {
    number % 10 < 7
}

fn node(number: usize) -> Value {
    let name = format!("gpu-{number:05}");
    let (product, gpus, resource, slots, strategy, replicas) = if is_shared(number) {
        (
            "NVIDIA-H100-80GB-HBM3",
            "4",
            "nvidia.com/gpu.shared",
            "16",
            "time-slicing",
            "4",
        )
    } else {
        ("NVIDIA-H100-80GB-HBM3", "8", "nvidia.com/gpu", "8", "none", "1")
    };
    let amounts = json!({"cpu": "96", "memory": "1056432184Ki", "pods": "110", resource: slots});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": format!("cccccccc-0000-4000-8000-{number:012}"),
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "gpu-h100",
                "topology.kubernetes.io/zone": format!("zone-{}", number % 3),
                "nvidia.com/cuda.driver-version.full": "580.95.05",
                "nvidia.com/cuda.driver-version.major": "580",
                "nvidia.com/gpu.compute.major": "9",
                "nvidia.com/gpu.compute.minor": "0",
                "nvidia.com/gpu.count": gpus,
                "nvidia.com/gpu.family": "hopper",
                "nvidia.com/gpu.memory": "81559",
                "nvidia.com/gpu.mode": "compute",
                "nvidia.com/gpu.present": "true",
                "nvidia.com/gpu.product": product,
                "nvidia.com/gpu.replicas": replicas,
                "nvidia.com/gpu.sharing-strategy": strategy,
                "nvidia.com/mig.capable": "true",
                "nvidia.com/mig.strategy": "single",
                "nvidia.com/mps.capable": "false",
            },
        },
        "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

fn holders(number: usize) -> impl Iterator<Item = Value> {
    let (kind, count) = if is_shared(number) {
        (Kind::SharedDryRun, 10)
    } else {
        (Kind::WholeGpu, 6)
    };
    (0..count).map(move |holder| {
        let mut pod = review::pod(kind, "tenants", &format!("engine-{number:05}-{holder:02}"));
        pod["metadata"]["uid"] = json!(format!("dddddddd-0000-4000-8000-{number:08}{holder:04}"));
        pod["metadata"]["creationTimestamp"] = json!("2026-01-04T12:00:00Z");
        pod["spec"]["nodeName"] = json!(format!("gpu-{number:05}"));
        pod["status"] = json!({"phase": "Running"});
        pod
    })
}

/// Every object of the cluster, nodes first.
pub(crate) fn objects(nodes: usize) -> impl Iterator<Item = Value> {
    (0..nodes).map(node).chain((0..nodes).flat_map(holders))
}

/// Writes the whole cluster, one `List`, object by object: a large one is no tree in memory.
pub(crate) fn write(nodes: usize, mut out: impl Write) -> Outcome<()> {
    out.write_all(br#"{"apiVersion":"v1","kind":"List","items":["#)?;
    for (index, object) in objects(nodes).enumerate() {
        if index > 0 {
            out.write_all(b",\n")?;
        }
        serde_json::to_writer(&mut out, &object)?;
    }
    out.write_all(b"]}\n")?;
    out.flush()?;
    Ok(())
}
