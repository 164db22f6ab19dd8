use serde_json::{Value, json};

use super::*;
use crate::configuration::Configuration;

fn review(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut value = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
            "name": "chat",
            "namespace": "team-a",
            "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:team-a:default", "groups": ["system:authenticated"]},
            "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "chat"}, "spec": {"containers": []}},
            "oldObject": null,
            "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    });
    change(&mut value);
    value.to_string().into_bytes()
}

fn scale_review(replicas: &Value) -> Vec<u8> {
    review(|value| {
        let request = &mut value["request"];
        request["kind"] = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
        request["resource"] = json!({"group": "apps", "version": "v1", "resource": "deployments"});
        request["subResource"] = json!("scale");
        request["operation"] = json!("UPDATE");
        request["object"] = json!({"kind": "Scale", "spec": {"replicas": replicas}});
        request["oldObject"] = json!({"kind": "Scale", "spec": {}});
    })
}

#[test]
fn reads_what_an_answer_needs() {
    let body = review(|_| ());
    let review = Review::decode(&body).unwrap();
    assert_eq!(review.uid, "705ab4f5-6393-11e8-b7cc-42010a800002");
    assert!(
        matches!(review.uid, Cow::Borrowed(_)),
        "the envelope borrows from the body"
    );
    assert_eq!(review.workload_kind(), Some(WorkloadKind::Pod));
    assert_eq!(review.verb, Verb::Write(Operation::Create));
    assert_eq!((review.dry_run, review.by_node), (false, false));
    assert_eq!(review.object_ref().api_version, "v1");
}

/// What the general way makes of a body that the quick one has read.
fn by_the_general_way(body: &[u8]) -> String {
    // An escape in a name is not usual, and means the same.
    let text = String::from_utf8(body.to_vec()).unwrap();
    let escaped = text.replace("705ab4f5-6393", "\\u0037\\u0030\\u0035ab4f5-6393");
    assert!(usual::read(escaped.as_bytes()).is_none());
    told(escaped.as_bytes())
}

fn told(body: &[u8]) -> String {
    let mut review = match Review::decode(body) {
        Ok(review) => review,
        Err(error) => return error.to_string(),
    };
    let envelope = format!(
        "{} {:?} {:?} {} {} {} {:?} {} {}",
        review.uid,
        review.kind,
        review.resource,
        review.sub_resource,
        review.name,
        review.namespace,
        review.verb,
        review.dry_run,
        review.by_node
    );
    format!("{envelope} {:?}", review.question(BTreeMap::new()))
}

#[test]
fn both_ways_read_a_pod_alike() {
    let object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "chat", "labels": {"app": "chat"}, "managedFields": [{"fieldsV1": {"f:spec": {}}}]},
        "spec": {
            "nodeName": null,
            "containers": [{"name": "main", "args": ["--quote", "\"a\""], "resources": {"limits": {"nvidia.com/gpu": 1}}}],
        },
        "status": {"phase": "Pending"},
    });
    let body = review(|value| {
        value["request"]["object"] = object.clone();
        value["request"]["dryRun"] = json!(true);
        value["request"]["userInfo"]["groups"] = json!(["system:nodes"]);
    });
    assert!(usual::read(&body).is_some());
    assert_eq!(told(&body), by_the_general_way(&body));
}

#[test]
fn what_is_not_usual_is_read_by_the_general_way() {
    for change in [
        |value: &mut Value| value["request"]["operation"] = json!("UPDATE"),
        |value: &mut Value| {
            value["request"]["kind"] = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
        },
        |value: &mut Value| value["request"]["object"]["apiVersion"] = json!("v2"),
        |value: &mut Value| value["request"]["object"]["spec"] = json!(null),
        |value: &mut Value| value["request"]["object"]["spec"]["containers"] = json!([{"args": 1}]),
        |value: &mut Value| value["request"]["object"] = json!(null),
        |value: &mut Value| value["request"]["oldObject"] = json!({}),
    ] {
        let body = review(change);
        assert!(usual::read(&body).is_none(), "{}", String::from_utf8_lossy(&body));
    }
    let mut body = review(|_| ());
    body.push(b'}');
    assert!(usual::read(&body).is_none());
    assert!(Review::decode(&body).is_err());
}

#[test]
fn a_node_is_known_by_group_or_name() {
    for user in [
        json!({"groups": ["system:nodes"]}),
        json!({"username": "system:node:gpu-1"}),
    ] {
        let body = review(|value| value["request"]["userInfo"] = user);
        assert!(Review::decode(&body).unwrap().by_node);
    }
}

#[test]
fn another_version_is_named_with_what_is_accepted() {
    let body = review(|value| value["apiVersion"] = json!("admission.k8s.io/v1beta1"));
    let text = Review::decode(&body).unwrap_err().to_string();
    assert!(
        text.contains("\"admission.k8s.io/v1beta1\"") && text.contains("\"admission.k8s.io/v1\""),
        "{text}"
    );
    let body = review(|value| value["kind"] = json!("ConversionReview"));
    let text = Review::decode(&body).unwrap_err().to_string();
    assert!(
        text.contains("ConversionReview") && text.contains("AdmissionReview"),
        "{text}"
    );
    // A shape that is wrong because the version is: the version is the news.
    let body = br#"{"apiVersion":"v9","kind":"AdmissionReview","request":[]}"#;
    assert!(matches!(Review::decode(body), Err(DecodeError::Version { .. })));
    assert!(matches!(Review::decode(b"{}"), Err(DecodeError::Version { .. })));
}

#[test]
fn truncated_json_tells_where_it_ends() {
    let body = review(|_| ());
    for cut in [1, 40, body.len() / 2, body.len() - 1] {
        let text = Review::decode(&body[..cut]).unwrap_err().to_string();
        assert!(
            text.contains("EOF") && text.contains("line 1 column"),
            "cut at {cut}: {text}"
        );
    }
}

#[test]
fn what_is_missing_is_named() {
    for (field, name) in [("uid", "request.uid"), ("operation", "request.operation")] {
        let body = review(|value| {
            value["request"].as_object_mut().unwrap().remove(field);
        });
        assert_eq!(Review::decode(&body).unwrap_err(), DecodeError::Missing(name));
    }
    let body = review(|value| {
        value.as_object_mut().unwrap().remove("request");
    });
    assert_eq!(
        Review::decode(&body).unwrap_err(),
        DecodeError::Missing("request")
    );
    let body = review(|value| value["request"]["operation"] = json!("PATCH"));
    assert_eq!(
        Review::decode(&body).unwrap_err(),
        DecodeError::Operation("PATCH".to_owned())
    );
}

#[test]
fn bytes_that_are_no_json_are_an_error() {
    for body in [
        &b"\xff\xfe"[..],
        b"[]",
        b"null",
        b"NaN",
        b"\"x\"",
        b"{\"apiVersion\":1}",
    ] {
        assert!(Review::decode(body).is_err(), "{body:?}");
    }
    // Invalid UTF-8 inside the borrowed object.
    let body = review(|_| ());
    let text = String::from_utf8(body)
        .unwrap()
        .replace("\"chat\"", "\"ch\u{1}at\"");
    assert!(
        Review::decode(text.as_bytes()).is_err(),
        "a control character is not allowed in a JSON string"
    );
    let mut body = review(|_| ());
    let place = body.windows(4).rposition(|window| window == b"spec").unwrap();
    body[place] = 0xff;
    assert!(Review::decode(&body).is_err());
}

/// A review whose text `"DEEP"` becomes 100,000 nested arrays.
fn deep(change: impl FnOnce(&mut Value)) -> String {
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    String::from_utf8(review(change))
        .unwrap()
        .replace("\"DEEP\"", &nested)
}

#[test]
fn nesting_cannot_overflow_the_stack() {
    // Where nothing is read it is skipped.
    for pointer in [
        "/request/options",
        "/request/object/spec/x",
        "/request/object/metadata/managedFields",
    ] {
        let body = deep(|value| {
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            value.pointer_mut(parent).unwrap()[field] = json!("DEEP");
        });
        let asked = Review::decode(body.as_bytes()).unwrap().question(BTreeMap::new());
        assert!(matches!(asked, Ok(Asked::Workload(_))), "{pointer}: {asked:?}");
    }
    // Where something is read it is of the wrong type.
    for pointer in [
        "/request/object",
        "/request/object/spec",
        "/request/object/spec/containers",
    ] {
        let body = deep(|value| *value.pointer_mut(pointer).unwrap() = json!("DEEP"));
        let asked = Review::decode(body.as_bytes()).unwrap().question(BTreeMap::new());
        assert!(asked.is_err(), "{pointer}: {asked:?}");
    }
    // The same object under a kind that is none of ours passes.
    let body = deep(|value| value["request"]["object"] = json!("DEEP"));
    let body = body.replace("\"kind\":\"Pod\"", "\"kind\":\"Lease\"");
    let asked = Review::decode(body.as_bytes()).unwrap().question(BTreeMap::new());
    assert!(matches!(asked, Ok(Asked::NotOurs)));
}

#[test]
fn a_pod_becomes_a_question() {
    let body = review(|value| {
        value["request"]["operation"] = json!("UPDATE");
        value["request"]["oldObject"] = value["request"]["object"].clone();
        value["request"]["object"]["metadata"] = json!({"generateName": "chat-"});
    });
    let labels = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
    let asked = Review::decode(&body).unwrap().question(labels).unwrap();
    let Asked::Workload(question) = asked else {
        panic!("a pod was asked")
    };
    assert_eq!(question.operation, Operation::Update);
    assert_eq!(question.workload.object.namespace, "team-a", "from the request");
    assert_eq!(question.workload.pod.metadata.namespace, "team-a");
    assert!(question.old.is_some() && !question.dry_run && !question.scale_only);
    assert_eq!(question.namespace_labels["kubernetes.io/metadata.name"], "team-a");
    assert_eq!(question.namespace_labels["team"], "a");
}

#[test]
fn an_object_of_another_kind_than_the_request_says_is_malformed() {
    for object in [
        json!({"spec": {}}),
        json!([]),
        json!({"apiVersion": "v1", "kind": "Secret"}),
    ] {
        let body = review(|value| value["request"]["object"] = object.clone());
        let asked = Review::decode(&body).unwrap().question(BTreeMap::new());
        assert!(asked.is_err(), "{object}: {asked:?}");
    }
}

#[test]
fn other_operations_kinds_and_sub_resources_are_not_ours() {
    for change in [
        json!({"operation": "DELETE", "object": null}),
        json!({"operation": "CONNECT"}),
        json!({"subResource": "status"}),
        json!({"subResource": "binding"}),
        json!({"kind": {"group": "", "version": "v1", "kind": "Secret"}, "object": {"data": 7}}),
        json!({"kind": {"group": "x", "version": "v1", "kind": "Node"}, "object": {}}),
        json!({"kind": {"group": "", "version": "v1", "kind": "Node"}, "subResource": "status", "object": {}}),
        json!({"subResource": "scale"}),
    ] {
        let body = review(|value| {
            for (key, changed) in change.as_object().unwrap() {
                value["request"][key] = changed.clone();
            }
        });
        let asked = Review::decode(&body).unwrap().question(BTreeMap::new());
        assert!(matches!(asked, Ok(Asked::NotOurs)), "{change}: {asked:?}");
    }
}

#[test]
fn config_maps_and_nodes_are_asked_about_as_configuration() {
    let asked = |change: Value| {
        let body = review(|value| {
            for (key, changed) in change.as_object().unwrap() {
                value["request"][key] = changed.clone();
            }
        });
        match Review::decode(&body).unwrap().question(BTreeMap::new()).unwrap() {
            Asked::Configuration(question) => *question,
            other => panic!("{other:?}"),
        }
    };
    let map = asked(json!({
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"}, "namespace": "gpu-operator", "name": "m",
        "object": {"metadata": {}, "data": {"a": "x"}},
    }));
    let Configuration::ConfigMap(read) = map.object else {
        panic!("a ConfigMap was asked about");
    };
    assert_eq!(
        (read.namespace.as_str(), read.name.as_str()),
        ("gpu-operator", "m")
    );
    assert_eq!((read.data["a"].as_str(), map.old), ("x", None));
    let node = asked(json!({
        "kind": {"group": "", "version": "v1", "kind": "Node"}, "operation": "UPDATE", "namespace": "", "name": "n",
        "object": {"metadata": {"name": "n", "labels": {"a": "2"}}},
        "oldObject": {"metadata": {"name": "n", "labels": {"a": "1"}}},
    }));
    let (Configuration::Node(now), Some(Configuration::Node(old))) = (node.object, node.old) else {
        panic!("a Node was asked about");
    };
    assert_eq!((now.labels["a"].as_str(), old.labels["a"].as_str()), ("2", "1"));
}

#[test]
fn a_pod_without_object_is_malformed() {
    let body = review(|value| value["request"]["object"] = Value::Null);
    let malformed = Review::decode(&body)
        .unwrap()
        .question(BTreeMap::new())
        .unwrap_err();
    assert_eq!(malformed.path, "object");
}

#[test]
fn a_scale_names_its_workload_and_both_numbers() {
    let body = scale_review(&json!(4));
    let Asked::Scale(scale) = Review::decode(&body).unwrap().question(BTreeMap::new()).unwrap() else {
        panic!("a scale was asked");
    };
    assert_eq!(scale.kind, WorkloadKind::Deployment);
    assert_eq!(
        (scale.name.as_str(), scale.namespace.as_str()),
        ("chat", "team-a")
    );
    assert_eq!((scale.replicas, scale.old_replicas), (4, Some(0)));
}

#[test]
fn a_scale_with_an_impossible_number_names_the_field() {
    for replicas in [
        json!(-1),
        json!("4"),
        json!("NaN"),
        json!({}),
        json!(4.5),
        json!(u64::MAX),
    ] {
        let body = scale_review(&replicas);
        let malformed = Review::decode(&body)
            .unwrap()
            .question(BTreeMap::new())
            .unwrap_err();
        assert_eq!(malformed.path, "spec.replicas", "{replicas}");
    }
}

proptest::proptest! {
    /// Whatever the bytes, there is an answer and no panic.
    #[test]
    fn damaged_bytes_are_an_error_or_a_review(
        place in 0..700usize,
        byte in proptest::num::u8::ANY,
        length in 0..700usize,
        garbage in proptest::collection::vec(proptest::num::u8::ANY, 0..64),
    ) {
        let _ = Review::decode(&garbage);
        let mut body = review(|_| ());
        let place = place % body.len();
        body[place] = byte;
        for body in [&body[..], &body[..length.min(body.len())]] {
            if let Ok(mut review) = Review::decode(body) {
                let _ = review.question(BTreeMap::new());
            }
        }
    }
}
