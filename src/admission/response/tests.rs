use serde_json::{Value, json};

use super::*;
use crate::decision::PlacementRow;
use crate::finding::Finding;
use crate::policy::Evidence;
use crate::units::{Mib, Share};

fn object() -> ObjectRef {
    ObjectRef {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: "team-a".to_owned(),
        name: "chat".to_owned(),
    }
}

fn printed(answer: &Answer<'_>) -> Value {
    serde_json::from_slice(&answer.encode()).unwrap()
}

#[test]
fn what_is_not_ours_is_admitted_in_a_few_bytes() {
    assert_eq!(
        printed(&Answer::admit("u-1")),
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
               "response": {"uid": "u-1", "allowed": true}})
    );
}

#[test]
fn a_denial_names_every_finding_with_its_field() {
    let verdict = Verdict {
        judged: true,
        policy: "built-in-default".to_owned(),
        findings: vec![
            Finding::new(
                Code::Vg103,
                FieldPath::new("spec.containers[0].env[1]"),
                "is not read",
            ),
            Finding::new(
                Code::Vg201,
                FieldPath::new("spec.containers[0].args[3]"),
                "device is full",
            ),
        ],
        placement: vec![PlacementRow {
            node: "gpu-1".to_owned(),
            device: None,
            evidence: Evidence::Any,
            promised: Mib::new(91_347),
            budget: Mib::new(73_403),
            promised_fraction: Share::from_ppm(1_120_000),
            budget_fraction: Share::from_ppm(900_000),
        }],
        denied_by: vec![Code::Vg201],
        ..Verdict::default()
    };
    let object = object();
    let value = printed(&Answer::of("u-2", &object, &verdict));
    let response = &value["response"];
    assert_eq!(response["allowed"], false);
    let status = &response["status"];
    assert_eq!(
        (&status["code"], &status["reason"]),
        (&json!(403), &json!("Forbidden"))
    );
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .starts_with("VG201: device is full")
    );
    assert_eq!(
        status["details"],
        json!({"name": "chat", "group": "apps", "kind": "Deployment", "causes": [
            {"reason": "VG201", "message": "device is full", "field": "spec.containers[0].args[3]"},
            {"reason": "VG103", "message": "is not read", "field": "spec.containers[0].env[1]"},
        ]})
    );
    assert_eq!(
        response["auditAnnotations"],
        json!({"verdict": "deny", "codes": "VG103,VG201", "denied-by": "VG201", "policy": "built-in-default", "evidence": "any",
               "node": "gpu-1", "promised-after": "91347 MiB", "budget": "73403 MiB"})
    );
    assert!(response.get("patch").is_none());
}

#[test]
fn a_denial_is_never_without_a_text() {
    let object = object();
    let value = printed(&Answer::of("u", &object, &Verdict::default()));
    assert!(
        !value["response"]["status"]["message"]
            .as_str()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn warnings_are_few_short_and_one_line() {
    let long = "ä".repeat(300);
    let finding = |code, text: &str| Finding::new(code, FieldPath::default(), text);
    let verdict = Verdict {
        admit: true,
        judged: true,
        findings: vec![
            finding(Code::Vg103, &long),
            finding(Code::Vg104, "two\nlines\u{7}"),
            finding(Code::Vg107, "third"),
            finding(Code::Vg109, "fourth"),
        ],
        ..Verdict::default()
    };
    let object = object();
    let value = printed(&Answer::of("u", &object, &verdict));
    let warnings = value["response"]["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 3);
    assert_eq!(warnings[0].as_str().unwrap().chars().count(), 120);
    assert!(warnings[0].as_str().unwrap().ends_with('…'));
    assert_eq!(warnings[1], "VG104: two lines\u{fffd}");
    let value = printed(&Answer::admit_with_warning("u", &"x".repeat(121)));
    assert_eq!(
        value["response"]["warnings"][0].as_str().unwrap().chars().count(),
        120
    );
}

#[test]
fn a_patch_is_base64_text() {
    let operations: json_patch::Patch =
        serde_json::from_value(json!([{"op": "add", "path": "/spec/x", "value": 1}])).unwrap();
    let verdict = Verdict {
        admit: true,
        patches: operations.0,
        ..Verdict::default()
    };
    let object = object();
    let value = printed(&Answer::of("u", &object, &verdict));
    let patch = STANDARD
        .decode(value["response"]["patch"].as_str().unwrap())
        .unwrap();
    assert_eq!(
        serde_json::from_slice::<Value>(&patch).unwrap(),
        json!([{"op": "add", "path": "/spec/x", "value": 1}])
    );
    assert_eq!(value["response"]["patchType"], "JSONPatch");
}

#[test]
fn a_malformed_object_is_invalid_not_forbidden() {
    let malformed = Malformed {
        path: "spec.containers[0].resources.limits[nvidia.com/gpu]".to_owned(),
        message: "\"one\" is not a quantity: write an integer".to_owned(),
    };
    let object = object();
    let value = printed(&Answer::malformed("u", &object, &malformed));
    let status = &value["response"]["status"];
    assert_eq!(
        (&status["code"], &status["reason"]),
        (&json!(422), &json!("Invalid"))
    );
    assert_eq!(status["details"]["causes"][0]["field"], malformed.path.as_str());
}
