//! The webhook's way to the same verdicts: what is decoded from a review of each kind, and when it is asked about.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use vramgate::admission::{Asked, Review};
use vramgate::decision::{Verdict, judge, prepare};
use vramgate::device::catalogue::Catalogue;
use vramgate::device::inventory;
use vramgate::engine::NoSources;
use vramgate::ledger::Ledger;
use vramgate::policy::{MissingFacts, PolicySet};
use vramgate::workload::CustomKind;

use super::{leader_worker_set, node, object, server, template};

fn body(object: &Value, old: Option<&Value>) -> Vec<u8> {
    let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap();
    let kind = object["kind"].as_str().unwrap();
    let plural = CustomKind::of(group, kind).unwrap().plural;
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "review", "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": plural},
        "namespace": "llm", "name": "big", "operation": if old.is_some() { "UPDATE" } else { "CREATE" },
        "object": object, "oldObject": old, "userInfo": {"username": "somebody"}}})
    .to_string()
    .into_bytes()
}

fn answered(object: &Value, old: Option<&Value>) -> Verdict {
    let body = body(object, old);
    let mut review = Review::decode(&body).unwrap();
    let Asked::Workload(question) = review.question(BTreeMap::new()).unwrap() else {
        panic!("{object:#} is not ours")
    };
    assert!(question.dry_run, "a workload reserves nothing");
    assert_eq!(question.workload.object.namespace, "llm");
    assert!(
        question
            .workload
            .pods()
            .all(|pod| pod.metadata.namespace == "llm")
    );
    let mut ledger = Ledger::new(Arc::new(PolicySet::built_in()));
    let node = serde_json::from_value(node("gpu-a", 1)).unwrap();
    let node = inventory::read(&node, MissingFacts::Exclusive, Catalogue::embedded()).unwrap();
    ledger.set_node(node);
    let prepared = prepare(*question, ledger.policies(), &NoSources);
    judge(&prepared, &ledger)
}

/// Objects that are refused where their kind can be refused at all; `false` where an operator adds to them.
fn too_large() -> Vec<(Value, bool)> {
    let ray = json!({"headGroupSpec": {"template": template("0.95")}});
    let gpus = json!({"limits": {"nvidia.com/gpu": "1"}});
    let args = json!(["--gpu-memory-utilization=0.95"]);
    let of = |version: &str, kind: &str, spec: Value| object(version, kind, spec);
    vec![
        (leader_worker_set(1, 2, "0.5", "0.5"), true),
        (
            of(
                "jobset.x-k8s.io/v1alpha2",
                "JobSet",
                json!({"replicatedJobs": [{"name": "a", "replicas": 2,
                "template": {"spec": {"template": template("0.5")}}}]}),
            ),
            true,
        ),
        (of("ray.io/v1", "RayCluster", ray.clone()), true),
        (
            of("ray.io/v1", "RayService", json!({"rayClusterConfig": ray})),
            true,
        ),
        (of("ray.io/v1", "RayJob", json!({"rayClusterSpec": ray})), true),
        (
            of(
                "serving.kserve.io/v1beta1",
                "InferenceService",
                json!({"predictor": {"containers": [server("0.95")]}}),
            ),
            true,
        ),
        (
            of(
                "serving.kserve.io/v1beta1",
                "InferenceService",
                json!({"predictor": {"model": {
                "modelFormat": {"name": "huggingface"}, "args": args, "resources": gpus}}}),
            ),
            false,
        ),
        (
            of(
                "serving.kserve.io/v1alpha2",
                "LLMInferenceService",
                json!({"model": {"uri": "hf://a/b", "name": "b"},
                "template": {"containers": [{"name": "main", "image": "vllm/vllm-openai:v0.20.0", "args": args,
                    "resources": gpus}]}}),
            ),
            false,
        ),
        (
            of(
                "argoproj.io/v1alpha1",
                "Rollout",
                json!({"template": template("0.95")}),
            ),
            true,
        ),
        (
            of(
                "serving.knative.dev/v1",
                "Service",
                json!({"template": template("0.95")}),
            ),
            true,
        ),
        (
            of(
                "apps.nvidia.com/v1alpha1",
                "NIMService",
                json!({"image": {"repository": "nvcr.io/nim/meta/llama-3.1-8b-instruct",
                "tag": "1.8.4"}, "resources": gpus}),
            ),
            false,
        ),
        (
            of(
                "kubeai.org/v1",
                "Model",
                json!({"engine": "VLLM", "url": "hf://a/b", "image": "vllm/vllm-openai:v0.20.0",
                "args": args, "resourceProfile": "nvidia-gpu-h100:1"}),
            ),
            false,
        ),
        (
            of(
                "nvidia.com/v1alpha1",
                "DynamoGraphDeployment",
                json!({"services": {"W": {
                "resources": {"limits": {"gpu": "1"}}, "extraPodSpec": {"mainContainer": {"image": "a/vllm-runtime:1",
                    "args": ["python3 -m dynamo.vllm --model m --gpu-memory-utilization 0.95"]}}}}}),
            ),
            false,
        ),
        (
            of(
                "production-stack.vllm.ai/v1alpha1",
                "VLLMRuntime",
                json!({"model": {"modelURL": "a/b"},
                "vllmConfig": {"gpuMemoryUtilization": "0.95"},
                "deploymentConfig": {"resources": {"gpu": "1"}, "image": {"name": "vllm/vllm-openai:v0.20.0"}}}),
            ),
            false,
        ),
    ]
}

#[test]
fn every_kind_is_decoded_and_judged() {
    for kind in CustomKind::ALL {
        assert!(
            too_large().iter().any(|(object, _)| object["kind"] == kind.kind),
            "{}",
            kind.kind
        );
    }
    for (object, refusable) in too_large() {
        let verdict = answered(&object, None);
        assert!(verdict.judged && !verdict.findings.is_empty(), "{object:#}");
        assert_eq!(verdict.admit, !refusable, "{object:#} {:#?}", verdict.findings);
        assert!(verdict.patches.is_empty() && verdict.reservation.is_none());
        assert!(verdict.malformed.is_none());
    }
}

#[test]
fn what_asks_for_no_more_than_before_is_let_through() {
    for (object, _) in too_large() {
        let mut new = object.clone();
        new["spec"]["somethingElse"] = json!(1);
        let verdict = answered(&new, Some(&object));
        assert!(verdict.admit, "{new:#}");
        new["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
        let verdict = answered(&new, None);
        assert!(verdict.admit && !verdict.judged, "{new:#}");
        let mut owned = object.clone();
        owned["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "u", "controller": true}]);
        assert!(!answered(&owned, None).judged, "{owned:#}");
    }
}

#[test]
fn an_object_that_cannot_be_read_is_let_through_with_a_reason() {
    let mut object = leader_worker_set(1, 2, "0.5", "0.5");
    let container = &mut object["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][0];
    container["resources"]["limits"]["nvidia.com/gpu"] = json!("1.5");
    let verdict = answered(&object, None);
    assert!(verdict.admit);
    let malformed = verdict.malformed.unwrap();
    assert_eq!(
        malformed.path,
        "spec.leaderWorkerTemplate.workerTemplate.spec.containers[0].resources.limits[nvidia.com/gpu]"
    );
    object["spec"]["replicas"] = json!("many");
    let body = body(&object, None);
    let mut review = Review::decode(&body).unwrap();
    let error = review.question(BTreeMap::new()).unwrap_err();
    assert_eq!(error.path, "spec.replicas");
}
