//! The steps of a decision do not grow with the cluster: nodes that are held against a pod are counted, in a small cluster and in a
//! large one of the same kinds.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Operation, Question, judge_mutated, prepare};
use crate::device::catalogue::Catalogue;
use crate::device::inventory;
use crate::engine::NoSources;
use crate::ledger::{Ledger, Moment};
use crate::placement::candidates::asked;
use crate::policy::{MissingFacts, PolicySet};
use crate::workload::Workload;

/// Nodes of the small cluster, more of each kind than a joint search looks at, or a refusal compares; the large one has eight
/// times as many.
const FEW: usize = 160;

/// Every second node shares its GPU, the others give eight whole ones. One slot of each is taken.
fn cluster(nodes: usize) -> Ledger {
    let mut ledger = Ledger::new(Arc::new(PolicySet::built_in()));
    for number in 0..nodes {
        let shared = number % 2 == 0;
        let (product, replicas, slots) = if shared {
            ("NVIDIA-L40S-SHARED", "4", "4")
        } else {
            ("NVIDIA-A100-SXM4-80GB", "1", "8")
        };
        let name = format!("n{number:05}");
        let node = json!({
            "metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name,
                "nvidia.com/gpu.product": product,
                "nvidia.com/gpu.memory": "46068",
                "nvidia.com/gpu.count": if shared { "1" } else { "8" },
                "nvidia.com/gpu.replicas": replicas,
                "nvidia.com/gpu.sharing-strategy": if shared { "time-slicing" } else { "none" },
            }},
            "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
            "status": {"capacity": {"nvidia.com/gpu": slots}, "allocatable": {"nvidia.com/gpu": slots},
                       "conditions": [{"type": "Ready", "status": "True"}]},
        });
        let node = serde_json::from_value(node).unwrap();
        ledger.set_node(inventory::read(&node, MissingFacts::Exclusive, Catalogue::embedded()).unwrap());
        let held = pod(
            &format!("held-{number}"),
            if shared { "0.5" } else { "0.9" },
            &json!({"nodeName": name}),
        );
        ledger.set_pod(&serde_json::from_value(held).unwrap(), &NoSources);
    }
    ledger
}

fn pod(name: &str, fraction: &str, rest: &Value) -> Value {
    let mut spec = json!({
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "containers": [{
            "name": "vllm", "image": "vllm/vllm-openai:v0.11.0",
            "args": ["--model", "/models/m", "--gpu-memory-utilization", fraction],
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
        }],
    });
    for (field, value) in rest.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "a", "uid": format!("uid-{name}")}, "spec": spec,
    })
}

/// How many nodes are held against the pod, the reservation included, and whether it is admitted.
fn steps(ledger: &mut Ledger, pod: &Value) -> (usize, bool) {
    let question = Question {
        operation: Operation::Create,
        workload: Workload::read(pod).unwrap().unwrap(),
        old: None,
        namespace_labels: [("kubernetes.io/metadata.name".to_owned(), "a".to_owned())].into(),
        by_node: false,
        scale_only: false,
        dry_run: false,
    };
    let prepared = prepare(question, &Arc::clone(ledger.policies()), &NoSources);
    let before = asked();
    let verdict = judge_mutated(&prepared, ledger);
    if let Some(reservation) = verdict.reservation {
        ledger.commit(reservation, Moment(1));
    }
    (asked() - before, verdict.admit)
}

#[test]
fn nodes_are_not_held_against_a_pod_one_by_one() {
    let required = |term: Value| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}});
    let expression = |key: &str, operator: &str, values: &[&str]| {
        required(json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}))
    };
    let last = format!("n{:05}", FEW - 2);
    let pods = [
        ("plain", "0.3", json!({})),
        (
            "of one kind",
            "0.3",
            json!({"nodeSelector": {"nvidia.com/gpu.sharing-strategy": "time-slicing"}}),
        ),
        (
            "of the other",
            "0.9",
            json!({"nodeSelector": {"nvidia.com/gpu.sharing-strategy": "none"}}),
        ),
        (
            "by affinity",
            "0.3",
            expression("nvidia.com/gpu.product", "NotIn", &["NVIDIA-A100-SXM4-80GB"]),
        ),
        (
            "too large for what is left",
            "0.9",
            json!({"nodeSelector": {"nvidia.com/gpu.sharing-strategy": "time-slicing"}}),
        ),
        ("of no zone", "0.3", json!({"nodeSelector": {"zone": "nowhere"}})),
        (
            "of no host",
            "0.3",
            json!({"nodeSelector": {"kubernetes.io/hostname": "nowhere"}}),
        ),
        ("without toleration", "0.3", json!({"tolerations": []})),
        (
            "of a host",
            "0.3",
            json!({"nodeSelector": {"kubernetes.io/hostname": last}}),
        ),
        (
            "of a host, full",
            "0.6",
            json!({"nodeSelector": {"kubernetes.io/hostname": last}}),
        ),
        (
            "of hosts",
            "0.3",
            expression("kubernetes.io/hostname", "In", &["n00000", &last]),
        ),
        (
            "of a daemon set",
            "0.3",
            required(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [last]}]})),
        ),
    ];
    let mut small = cluster(FEW);
    let mut large = cluster(8 * FEW);
    for (name, fraction, rest) in pods {
        let pod = pod(&name.replace([' ', ','], "-"), fraction, &rest);
        let (of_small, admitted) = steps(&mut small, &pod);
        assert_eq!(steps(&mut large, &pod), (of_small, admitted), "{name}");
    }
}
