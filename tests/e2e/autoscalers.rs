//! Objects that scale others: their maximum is told when they are applied, and they are never held.

use serde_json::{Value, json};

use crate::api::eventually;
use crate::manifests::{self, GpuNode, Pod};
use crate::scenario::Scenario;

/// Two nodes with four slots each, and a Deployment of 0.225 of which eight fit.
fn two_nodes(s: &Scenario, prefix: &str) {
    for number in 1..=2 {
        s.node(GpuNode::h100(&format!("{prefix}-n{number}")).slots(4));
    }
    let deployment = manifests::deployment("chat", 2, &Pod::vllm("chat", "0.225").on(s.name));
    s.create_workload(&deployment, "")
        .admitted("two replicas of 0.225");
    s.wait_running(2, 30);
}

fn path(s: &Scenario, version: &str, plural: &str) -> String {
    format!("/apis/{version}/namespaces/{}/{plural}", s.name)
}

#[test]
fn c04_the_maximum_of_an_autoscaler_is_told() {
    let s = Scenario::new("c04");
    two_nodes(&s, "c04");
    let hpa = |name: &str, max: u32, target: &str| {
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name},
            "spec": {"minReplicas": 2, "maxReplicas": max,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}}})
    };
    let all = path(&s, "autoscaling/v2", "horizontalpodautoscalers");
    s.api()
        .post(&all, &hpa("chat", 20, "chat"))
        .admitted("an autoscaler up to 20")
        .says("its maximum", "VG204")
        .says("its maximum", "at most 8 fit");
    // Up to what fits there is nothing to say, nor for a target that is not there or asks for no GPU.
    s.api()
        .post(&all, &hpa("eight", 8, "chat"))
        .admitted("an autoscaler up to 8")
        .without_warning("it fits", "VG204");
    s.api()
        .post(&all, &hpa("later", 20, "nobody"))
        .admitted("an autoscaler before its target")
        .without_warning("nothing is known of it", "VG");
    // By kubectl, as people see it; a change that raises the maximum is told again, one that lowers it is not.
    let patch = |max: u32| json!({"spec": {"maxReplicas": max}}).to_string();
    let raised = s.kubectl(&["patch", "hpa/eight", "--type=merge", "-p", &patch(30)], None);
    assert!(
        raised.contains("VG204") && raised.contains("at most 8 fit"),
        "{raised}"
    );
    let lowered = s.kubectl(&["patch", "hpa/eight", "--type=merge", "-p", &patch(25)], None);
    assert!(
        lowered.contains("patched") && !lowered.contains("VG204"),
        "{lowered}"
    );
}

/// KEDA's definition, as far as the API server needs it.
fn definition() -> Value {
    let open = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "scaledobjects.keda.sh"},
        "spec": {"group": "keda.sh", "scope": "Namespaced",
            "names": {"kind": "ScaledObject", "plural": "scaledobjects", "singular": "scaledobject", "listKind": "ScaledObjectList"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": open}]}})
}

#[test]
fn c05_the_maximum_of_a_scaled_object_is_told() {
    let s = Scenario::new("c05");
    two_nodes(&s, "c05");
    s.api()
        .post(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            &definition(),
        )
        .admitted("KEDA's definition");
    let all = path(&s, "keda.sh/v1alpha1", "scaledobjects");
    eventually("ScaledObjects are served", 30, || {
        s.api().is_ok(&all).then_some(())
    });
    let scaled = |name: &str, max: Value| {
        let mut object = json!({"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": name},
            "spec": {"scaleTargetRef": {"name": "chat"}, "triggers": [{"type": "cpu", "metadata": {"value": "60"}}]}});
        if !max.is_null() {
            object["spec"]["maxReplicaCount"] = max;
        }
        object
    };
    for (name, max, words) in [
        ("chat", json!(20), "maximum of 20"),
        ("default", Value::Null, "maximum of 100"),
    ] {
        s.api()
            .post(&all, &scaled(name, max))
            .admitted("a scaled object")
            .says("its maximum", "VG204")
            .says("its maximum", words);
    }
    s.api()
        .post(&all, &scaled("eight", json!(8)))
        .admitted("a scaled object up to 8")
        .without_warning("it fits", "VG204");
    // What cannot be read is let through with a word.
    s.api()
        .post(&all, &scaled("broken", json!("many")))
        .admitted("a broken scaled object")
        .says("the field", "spec.maxReplicaCount");
}
