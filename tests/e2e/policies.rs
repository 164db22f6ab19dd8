//! Policies as objects of the cluster: what the API server refuses by the definition, what takes effect without a restart,
//! and what their status says.

use serde_json::{Value, json};

use crate::api::eventually;
use crate::manifests::{GpuNode, Pod};
use crate::scenario::Scenario;

const PATH: &str = "/apis/vramgate.io/v1alpha1/gpusharingpolicies";

fn policy(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "vramgate.io/v1alpha1",
        "kind": "GpuSharingPolicy",
        "metadata": {"name": name},
        "spec": spec,
    })
}

/// The rules of the definition, each with what breaks it.
#[test]
fn p01_the_api_server_refuses_what_it_can_see_itself() {
    let s = Scenario::new("p01");
    for (name, spec, words) in [
        (
            "device beside pods",
            json!({"device": {"budget": "0.5"}, "match": {"pods": {}}}),
            "a device has one policy",
        ),
        (
            "device beside an expression",
            json!({"device": {"budget": "0.5"}, "match": {"expression": "true"}}),
            "a device has one policy",
        ),
        (
            "a code in two lists",
            json!({"codes": {"error": ["VG201"], "info": ["VG201"]}}),
            "a code has one severity",
        ),
        ("no code", json!({"codes": {"error": ["VG999"]}}), "VG999"),
        ("no budget", json!({"device": {"budget": "0"}}), "should match"),
        (
            "too much budget",
            json!({"device": {"budget": "1.01"}}),
            "should match",
        ),
        (
            "a float",
            json!({"device": {"budget": 0.5}}),
            "must be of type string",
        ),
        (
            "no memory",
            json!({"mps": {"memoryLimit": 0}}),
            "write footprint, none or",
        ),
        (
            "101 percent",
            json!({"mps": {"threadPercentage": 101}}),
            "from 1 to 100",
        ),
        (
            "two forms of a model",
            json!({"models": [{"id": "x", "weightsMiB": 3}]}),
            "an entry with id",
        ),
        (
            "every node",
            json!({"placement": {"growth": [{}]}}),
            "selects every node",
        ),
        (
            "In without values",
            json!({"match": {"pods": {"matchExpressions": [{"key": "a", "operator": "In"}]}}}),
            "In and NotIn need values",
        ),
    ] {
        let answer = s.api().post(PATH, &policy("p01", &spec));
        assert_eq!(answer.status, 422, "{name}: {}", answer.body);
        assert!(answer.body.to_string().contains(words), "{name}: {}", answer.body);
    }
    let answer = s.api().post(PATH, &policy("built-in-default", &json!({})));
    assert_eq!(answer.status, 422, "{}", answer.body);
    let strict = format!("{PATH}?fieldValidation=Strict");
    let answer = s.api().post(&strict, &policy("p01", &json!({"bugdet": 1})));
    assert_eq!(answer.status, 400, "{}", answer.body);
}

fn condition(object: &Value, kind: &str) -> (String, String) {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == kind);
    let text = |field: &str| {
        let value = found.and_then(|condition| condition[field].as_str());
        value.unwrap_or_default().to_owned()
    };
    (text("status"), text("reason"))
}

#[test]
fn p02_a_change_takes_effect_without_a_restart_and_its_status_says_so() {
    let s = Scenario::new("p02");
    s.node(GpuNode::h100("p02-n1").slots(4));
    let own = json!({"namespaces": {"matchLabels": {"kubernetes.io/metadata.name": s.name}}});
    let at = format!("{PATH}/p02");
    s.create(&Pod::vllm("first", "0.60").on_node("p02-n1"))
        .admitted("the first pod");
    s.wait_running(1, 60);
    let second = Pod::vllm("second", "0.60").on_node("p02-n1");
    s.dry_run(&second)
        .denied("under the built-in default", &["VG201"]);
    let answer = s
        .api()
        .post(PATH, &policy("p02", &json!({"match": own, "mode": "warn"})));
    assert_eq!(answer.status, 201, "{}", answer.body);
    eventually("the policy takes effect", 60, || {
        (s.dry_run(&second).status == 201).then_some(())
    });
    let shown = |kind: &str, status: &str, reason: &str| {
        eventually(&format!("{kind} is {status}, {reason}"), 60, || {
            let found = condition(&s.api().get(&at).body, kind);
            (found == (status.to_owned(), reason.to_owned())).then_some(())
        });
    };
    shown("Accepted", "True", "InForce");
    eventually("the pod is counted", 60, || {
        (s.api().get(&at).body["status"]["matchedPods"] == 1).then_some(())
    });
    // What the definition cannot see is an error of the object; its former version stays in force.
    let bad = json!({"spec": {"match": {"expression": "pods.labels.x == 'y'"}}});
    let answer = s.api().merge(&at, &bad);
    assert_eq!(answer.status, 200, "{}", answer.body);
    shown("Accepted", "False", "FormerInForce");
    assert!(s.api().get(&at).body.to_string().contains("did you mean pod?"));
    s.dry_run(&second).admitted("under the former version");
    s.api().delete(&at, 0);
    eventually("the policy is gone", 60, || {
        (s.dry_run(&second).status == 403).then_some(())
    });
}
