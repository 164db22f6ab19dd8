use serde_json::{Value, json};

use super::*;
use crate::manifest::{Limits, Origin, objects};

fn object(value: Value) -> Object {
    Object {
        origin: Origin {
            source: "state.yaml".into(),
            line: 1,
            item: String::new(),
            bytes: 0..0,
        },
        value,
    }
}

fn snapshot(objects: Vec<Value>) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for value in objects {
        snapshot.add(&object(value)).unwrap();
    }
    snapshot
}

fn gpu_template(labels: &Value) -> Value {
    json!({"metadata": {"labels": labels}, "spec": {"containers": [
        {"name": "server", "image": "engine:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}})
}

fn pod(name: &str, owner: Option<(&str, &str)>, hash: &str) -> Value {
    let mut pod = gpu_template(&json!({"pod-template-hash": hash}));
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = name.into();
    pod["metadata"]["namespace"] = "llm".into();
    if let Some((kind, name)) = owner {
        pod["metadata"]["ownerReferences"] = json!([{"kind": kind, "name": name, "controller": true}]);
    }
    pod
}

fn deployment(replicas: u32) -> Workload {
    let value = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "chat", "namespace": "llm"},
        "spec": {"replicas": replicas, "template": gpu_template(&json!({"app": "chat"}))}});
    Workload::read(&value).unwrap().unwrap()
}

fn node(name: &str, slots: u32) -> Value {
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED", "nvidia.com/gpu.memory": "81559",
            "nvidia.com/gpu.count": "1", "nvidia.com/gpu.replicas": slots.to_string(),
            "nvidia.com/gpu.sharing-strategy": "time-slicing"}},
        "status": {"capacity": {"nvidia.com/gpu": slots.to_string()}, "allocatable": {"nvidia.com/gpu": slots.to_string()},
            "conditions": [{"type": "Ready", "status": "True"}]}})
}

#[test]
fn context_is_told_from_what_is_judged() {
    let mut snapshot = Snapshot::default();
    for (version, kind, expected) in [
        ("v1", "Node", true),
        ("v1", "Namespace", true),
        ("v1", "ConfigMap", true),
        ("vramgate.io/v1alpha1", "GpuSharingPolicy", true),
        ("v1", "ResourceQuota", true),
        ("scheduling.k8s.io/v1", "PriorityClass", true),
        ("v1", "Pod", false),
        ("apps/v1", "Deployment", false),
        ("example.com/v1", "Node", false),
        ("v1", "Service", false),
    ] {
        let value = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}});
        assert_eq!(
            snapshot.add_context(&object(value)).unwrap(),
            expected,
            "{version} {kind}"
        );
    }
}

#[test]
fn config_map_values_are_kept_verbatim_and_what_is_missing_is_unknown() {
    let snapshot = snapshot(vec![
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"},
        "data": {"fraction": " 0.30\n", "empty": ""}, "binaryData": {"x": "AAA="}}),
    ]);
    let LookUp::Found(data) = snapshot.config_map("default", "settings") else {
        panic!("not found")
    };
    assert_eq!(data.get("fraction").map(String::as_str), Some(" 0.30\n"));
    assert_eq!(data.len(), 2);
    assert!(matches!(
        snapshot.config_map("other", "settings"),
        LookUp::NotRead(_)
    ));
    assert!(matches!(
        snapshot.sources(false).config_map("default", "settings"),
        LookUp::NotRead(_)
    ));
}

#[test]
fn unreadable_context_names_place_object_and_field() {
    let mut snapshot = Snapshot::default();
    for (value, expected) in [
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": 1}}),
            "state.yaml:1: ConfigMap \"a\": data.x: invalid type: integer `1`, expected a string",
        ),
        (
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"labels": {}}}),
            "state.yaml:1: the Node has no metadata.name",
        ),
    ] {
        assert_eq!(snapshot.add(&object(value)).unwrap_err().to_string(), expected);
    }
}

#[test]
fn labels_of_a_namespace_always_hold_its_name() {
    let snapshot = snapshot(vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "llm", "labels": {"team": "a"}}}),
    ]);
    assert_eq!(snapshot.namespace_labels("llm").len(), 2);
    assert_eq!(
        snapshot.namespace_labels("other")["kubernetes.io/metadata.name"],
        "other"
    );
}

#[test]
fn pods_without_a_gpu_are_not_kept() {
    let mut idle = pod("idle", None, "");
    idle["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": 1}});
    let snapshot = snapshot(vec![idle, pod("busy", None, "")]);
    assert!(snapshot.workload(WorkloadKind::Pod, "llm", "idle").is_none());
    assert_eq!(
        snapshot.workload(WorkloadKind::Pod, "llm", "busy").unwrap().uid,
        "Pod/llm/busy"
    );
}

#[test]
fn a_deployments_pods_are_found_through_its_replica_sets() {
    let snapshot = snapshot(vec![
        pod("chat-77-a", Some(("ReplicaSet", "chat-77")), "77"),
        pod("chat-78-b", Some(("ReplicaSet", "chat-78")), "78"),
        pod("chat-other-77", Some(("ReplicaSet", "chat-other-77")), "77"),
        pod("alone", None, ""),
    ]);
    let names: Vec<_> = snapshot
        .owned(&deployment(2))
        .map(|pod| pod.object.name.clone())
        .collect();
    assert_eq!(names, ["chat-77-a", "chat-78-b"]);
}

#[test]
fn a_change_keeps_identity_and_node() {
    let mut running = pod("chat", None, "");
    running["metadata"]["uid"] = "u-1".into();
    running["spec"]["nodeName"] = "gpu-a".into();
    running["status"] = json!({"phase": "Running"});
    let snapshot = snapshot(vec![running]);
    let mut changed = Workload::read(&pod("chat", None, "")).unwrap().unwrap();
    snapshot.adopt(&mut changed);
    assert_eq!(changed.uid, "u-1");
    assert_eq!(changed.pod.metadata.uid, "u-1");
    assert_eq!(changed.pod.spec.node_name.as_deref(), Some("gpu-a"));
    let mut new = Workload::read(&pod("other", None, "")).unwrap().unwrap();
    snapshot.adopt(&mut new);
    assert_eq!(new.pod.metadata.uid, "Pod/llm/other");
}

fn holders(ledger: &Ledger) -> Vec<String> {
    let mut names: Vec<String> = ledger
        .devices()
        .into_iter()
        .flat_map(|row| row.holders)
        .map(|holder| holder.name.to_string())
        .collect();
    names.sort();
    names
}

#[test]
fn an_admitted_workload_holds_by_its_replicas_in_place_of_its_pods() {
    let mut snapshot = snapshot(vec![
        node("gpu-a", 4),
        pod("chat-77-a", Some(("ReplicaSet", "chat-77")), "77"),
    ]);
    let mut ledger = Ledger::new(Arc::new(PolicySet::built_in()));
    snapshot.fill(&mut ledger);
    assert_eq!(holders(&ledger), ["chat-77-a"]);
    snapshot.join(deployment(2), &mut ledger);
    assert_eq!(holders(&ledger), ["chat-0", "chat-1"]);
    snapshot.join(deployment(1), &mut ledger);
    assert_eq!(holders(&ledger), ["chat-0"]);
}

#[test]
fn replicas_beyond_the_slots_of_the_cluster_are_not_made() {
    let mut snapshot = snapshot(vec![node("gpu-a", 4), node("gpu-b", 2)]);
    let mut ledger = Ledger::new(Arc::new(PolicySet::built_in()));
    snapshot.fill(&mut ledger);
    snapshot.join(deployment(1_000_000), &mut ledger);
    assert_eq!(holders(&ledger).len(), 6);
}

#[test]
fn a_daemon_set_has_one_pod_on_each_node() {
    let mut snapshot = snapshot(vec![node("gpu-a", 4), node("gpu-b", 4)]);
    let mut ledger = Ledger::new(Arc::new(PolicySet::built_in()));
    snapshot.fill(&mut ledger);
    let value = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent", "namespace": "llm"},
        "spec": {"template": gpu_template(&json!({}))}});
    snapshot.join(Workload::read(&value).unwrap().unwrap(), &mut ledger);
    let rows: Vec<_> = ledger
        .devices()
        .iter()
        .map(|row| (row.node.to_string(), row.holders.len()))
        .collect();
    assert_eq!(rows, [("gpu-a".to_owned(), 1), ("gpu-b".to_owned(), 1)]);
}

#[test]
fn more_pods_than_the_limit_are_an_error_that_says_so() {
    let mut snapshot = Snapshot {
        pods_seen: MAX_PODS - 1,
        ..Snapshot::default()
    };
    snapshot.add(&object(pod("last", None, ""))).unwrap();
    let error = snapshot
        .add(&object(pod("one-too-many", None, "")))
        .unwrap_err()
        .to_string();
    assert!(error.contains("more than 100000 pods"), "{error}");
}

#[test]
fn the_example_cluster_is_readable() {
    let text = include_bytes!("../../examples/cluster.yaml");
    let mut snapshot = Snapshot::default();
    for object in objects(text, "examples/cluster.yaml", Limits::SNAPSHOT).unwrap() {
        snapshot.add(&object).unwrap();
    }
    let policies = PolicySet::built_in();
    let nodes: Vec<_> = snapshot.gpu_nodes(&policies).collect();
    assert_eq!(
        nodes.iter().map(GpuNode::name).collect::<Vec<_>>(),
        ["gpu-node-1", "gpu-node-2"]
    );
    assert_eq!(nodes[0].pools[0].slots, 4);
    assert!(nodes[0].pools[0].sharing.is_shared() && !nodes[1].pools[0].sharing.is_shared());
    assert!(
        nodes.iter().all(|node| node.notes.is_empty()),
        "{:?}",
        nodes.iter().map(|n| &n.notes).collect::<Vec<_>>()
    );
}
