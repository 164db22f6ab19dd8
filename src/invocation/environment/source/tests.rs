//! Values of variables that the pod itself holds.

use serde_json::{Value, json};

use crate::engine::{NoSources, containers};
use crate::invocation::Environment;
use crate::workload::pod::Pod;

/// The value of `X` in the first container of a pod, or why it is not known.
fn value(source: &Value) -> Result<String, String> {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "web-0", "namespace": "llm", "labels": {"share": "0.2"},
                     "annotations": {"example.com/len": "2048"}},
        "spec": {"containers": [
            {"name": "server", "env": [{"name": "X", "valueFrom": source}, {"name": "Y", "value": "$(X)"}],
             "resources": {"limits": {"cpu": "2500m", "memory": "3Gi", "nvidia.com/gpu": "1"},
                           "requests": {"cpu": "1", "hugepages-2Mi": "4Mi"}}},
            {"name": "side", "resources": {"limits": {"memory": "1G"}}},
        ]},
    }))
    .unwrap();
    let placed = containers(&pod).next().unwrap();
    let environment = Environment::read(&pod, placed.container, &NoSources);
    let of = |name: &str| {
        environment
            .get(name)
            .unwrap()
            .value
            .clone()
            .map(std::borrow::Cow::into_owned)
    };
    assert_eq!(
        of("X").is_ok(),
        of("Y").is_ok(),
        "what is put in is known as far as its source"
    );
    of("X")
}

#[test]
fn fields_of_the_pod_are_known_as_far_as_it_says_them() {
    for (path, expected) in [
        ("metadata.name", Ok("web-0")),
        ("metadata.namespace", Ok("llm")),
        ("metadata.labels['share']", Ok("0.2")),
        ("metadata.annotations['example.com/len']", Ok("2048")),
        ("metadata.labels['other']", Err("metadata.labels['other']")),
        ("spec.nodeName", Err("spec.nodeName")),
        ("status.podIP", Err("status.podIP")),
        ("metadata.uid", Err("metadata.uid")),
    ] {
        let got = value(&json!({"fieldRef": {"fieldPath": path}}));
        match expected {
            Ok(text) => assert_eq!(got.as_deref(), Ok(text), "{path}"),
            Err(field) => {
                let reason = format!("the field {field} is not known before the pod runs");
                assert_eq!(got, Err(reason), "{path}");
            }
        }
    }
}

#[test]
fn resources_are_whole_units_of_the_divisor_rounded_up() {
    for (reference, expected) in [
        (json!({"resource": "limits.cpu"}), "3"),
        (json!({"resource": "limits.cpu", "divisor": "1m"}), "2500"),
        (json!({"resource": "limits.cpu", "divisor": "0"}), "3"),
        (json!({"resource": "requests.cpu", "divisor": 1}), "1"),
        (json!({"resource": "limits.memory"}), "3221225472"),
        (json!({"resource": "limits.memory", "divisor": "1Mi"}), "3072"),
        (json!({"resource": "limits.memory", "divisor": "2G"}), "2"),
        // The API server sets the request from the limit.
        (json!({"resource": "requests.memory", "divisor": "1Gi"}), "3"),
        (
            json!({"resource": "requests.hugepages-2Mi", "divisor": "1Mi"}),
            "4",
        ),
        (
            json!({"containerName": "server", "resource": "limits.memory", "divisor": "1Gi"}),
            "3",
        ),
        (
            json!({"containerName": "side", "resource": "limits.memory", "divisor": "1Mi"}),
            "954",
        ),
    ] {
        let got = value(&json!({"resourceFieldRef": reference}));
        assert_eq!(got.as_deref(), Ok(expected), "{reference}");
    }
}

#[test]
fn resources_that_the_pod_does_not_say_are_unknown_with_the_reason() {
    for (reference, reason) in [
        (
            json!({"resource": "limits.ephemeral-storage"}),
            "limits.ephemeral-storage is not set, so the node or a LimitRange decides it",
        ),
        (
            json!({"containerName": "side", "resource": "limits.cpu"}),
            "limits.cpu is not set, so the node or a LimitRange decides it",
        ),
        (
            json!({"containerName": "gone", "resource": "limits.cpu"}),
            "the pod has no container gone, whose limits.cpu is asked for",
        ),
        (
            json!({"resource": "limits.nvidia.com/gpu"}),
            "the resource field limits.nvidia.com/gpu is none that a variable can have",
        ),
        (
            json!({"resource": "limits.memory", "divisor": "x"}),
            "limits.memory: \"x\" is not a quantity: it has no number; write for example 1, 500m or 4Gi",
        ),
        (
            json!({"resource": "limits.memory", "divisor": "-1"}),
            "limits.memory: -1 is below zero",
        ),
    ] {
        let got = value(&json!({"resourceFieldRef": reference}));
        assert_eq!(got, Err(reason.to_owned()), "{reference}");
    }
}
