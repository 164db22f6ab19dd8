//! Changes of objects that exist: what asks for no more is never refused, and own pods are not counted twice.

use serde_json::{Value, json};

use super::{check, leader_worker_set, lines, node, object, server};

/// A pod of the cluster that a controller made for an object, with the labels that tell so.
fn running(name: &str, fraction: &str, owner: (&str, &str), labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "llm", "uid": name, "labels": labels,
            "ownerReferences": [{"apiVersion": "v1", "kind": owner.0, "name": owner.1, "uid": "o", "controller": true}]},
        "spec": {"nodeName": "gpu-a", "containers": [server(fraction)]}, "status": {"phase": "Running"}})
}

fn group_in_the_cluster(fraction: &str) -> Vec<Value> {
    let labels = json!({"leaderworkerset.sigs.k8s.io/name": "big"});
    vec![
        node("gpu-a", 1),
        leader_worker_set(1, 2, fraction, fraction),
        running("big-0", fraction, ("StatefulSet", "big"), labels.clone()),
        running("big-0-1", fraction, ("StatefulSet", "big-0"), labels),
    ]
}

#[test]
fn own_pods_are_taken_out_before_a_change_is_judged() {
    let state = group_in_the_cluster("0.4");
    for (new, verdict) in [
        (leader_worker_set(1, 2, "0.45", "0.45"), "admit"),
        (leader_worker_set(1, 2, "0.45", "0.5"), "deny"),
        (leader_worker_set(1, 3, "0.4", "0.4"), "deny"),
        (leader_worker_set(2, 1, "0.4", "0.4"), "admit"),
    ] {
        let items = check(&state, std::slice::from_ref(&new));
        assert_eq!(items[0]["verdict"], verdict, "{new:#} {items:#?}");
    }
}

#[test]
fn a_change_that_asks_for_no_more_is_let_through() {
    // The cluster is beyond its budget already.
    let mut state = group_in_the_cluster("0.6");
    let mut new = leader_worker_set(1, 2, "0.6", "0.6");
    new["spec"]["startupPolicy"] = json!("LeaderReady");
    for new in [
        new,
        leader_worker_set(1, 2, "0.6", "0.55"),
        leader_worker_set(1, 1, "0.6", "0.6"),
    ] {
        let items = check(&state, std::slice::from_ref(&new));
        assert_eq!(items[0]["verdict"], "admit", "{items:#?}");
    }
    // What the leader gives up the workers may take: the sum on each kind of device counts.
    let items = check(&state, &[leader_worker_set(1, 2, "0.5", "0.7")]);
    assert_eq!(items[0]["verdict"], "admit", "{items:#?}");
    // Not so where that is a device that the leader did not reach.
    let mut far = leader_worker_set(1, 2, "0.5", "0.7");
    let pinned = |host: &str| json!({"kubernetes.io/hostname": host});
    let mut old = leader_worker_set(1, 2, "0.6", "0.6");
    for object in [&mut far, &mut old] {
        let both = &mut object["spec"]["leaderWorkerTemplate"];
        both["leaderTemplate"]["spec"]["nodeSelector"] = pinned("gpu-b");
        both["workerTemplate"]["spec"]["nodeSelector"] = pinned("gpu-a");
    }
    let mut other = node("gpu-b", 1);
    other["metadata"]["labels"]["nvidia.com/gpu.memory"] = json!("81000");
    state[1] = old;
    state.push(other);
    state.push(running("elsewhere", "0.3", ("Job", "x"), json!({})));
    let items = check(&state, &[far]);
    assert_eq!(items[0]["verdict"], "deny", "{items:#?}");
}

#[test]
fn pods_of_every_kind_are_known_as_own() {
    let cases = [
        (
            object(
                "jobset.x-k8s.io/v1alpha2",
                "JobSet",
                json!({"replicatedJobs": [{"name": "a", "template": {"spec": {"parallelism": 1,
                    "template": {"spec": {"containers": [server("0.5")]}}}}}]}),
            ),
            ("Job", "big-a-0"),
            json!({"jobset.sigs.k8s.io/jobset-name": "big"}),
            "/spec/replicatedJobs/0/template/spec/template/spec/containers/0/args/1",
        ),
        (
            object(
                "argoproj.io/v1alpha1",
                "Rollout",
                json!({"replicas": 1, "strategy": {"canary": {"maxSurge": 0, "maxUnavailable": 1}},
                    "template": {"spec": {"containers": [server("0.5")]}}}),
            ),
            ("ReplicaSet", "big-5d"),
            json!({"rollouts-pod-template-hash": "5d"}),
            "/spec/template/spec/containers/0/args/1",
        ),
        (
            object(
                "serving.kserve.io/v1beta1",
                "InferenceService",
                json!({"predictor": {"containers": [server("0.5")]}}),
            ),
            ("ReplicaSet", "big-predictor-5d"),
            json!({"serving.kserve.io/inferenceservice": "big", "pod-template-hash": "5d"}),
            "/spec/predictor/containers/0/args/1",
        ),
        (
            object(
                "ray.io/v1",
                "RayCluster",
                json!({"headGroupSpec": {"template": {"spec": {"containers": [server("0.5")]}}}}),
            ),
            ("RayCluster", "big"),
            json!({"ray.io/cluster": "big"}),
            "/spec/headGroupSpec/template/spec/containers/0/args/1",
        ),
    ];
    for (old, owner, labels, pointer) in cases {
        let mut new = old.clone();
        *new.pointer_mut(pointer).unwrap() = json!("--gpu-memory-utilization=0.8");
        let pod = running("own", "0.5", owner, labels);
        let items = check(&[node("gpu-a", 1), old, pod], std::slice::from_ref(&new));
        assert_eq!(lines(&items[0])[0], "admit", "{new:#} {items:#?}");
    }
}
