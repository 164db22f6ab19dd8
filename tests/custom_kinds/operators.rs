//! Kinds to whose pods an operator adds: what can be read is told, and nothing is refused.

use serde_json::{Value, json};

use super::{check, judged, leader_worker_set, lines, node, object, server};

fn gpus() -> Value {
    json!({"limits": {"nvidia.com/gpu": "1"}})
}

/// Far too much for the device, in the words of each kind; with the path of what asks for it.
fn too_much() -> Vec<(Value, &'static str)> {
    let main = json!({"containers": [{"name": "main", "image": "vllm/vllm-openai:v0.20.0", "resources": gpus(),
        "args": ["--gpu-memory-utilization=0.5"]}]});
    vec![
        (
            object(
                "serving.kserve.io/v1alpha2",
                "LLMInferenceService",
                json!({"model": {"uri": "hf://example-org/chat-7b", "name": "chat"}, "replicas": 2, "template": main}),
            ),
            "spec.template.containers[0]",
        ),
        (
            object(
                "serving.kserve.io/v1beta1",
                "InferenceService",
                json!({"predictor": {"minReplicas": 2, "model": {"modelFormat": {"name": "huggingface"},
                    "resources": gpus(), "args": ["--model_id=example-org/chat-7b", "--gpu-memory-utilization=0.5"]}}}),
            ),
            "spec.predictor.model",
        ),
        (
            object(
                "kubeai.org/v1",
                "Model",
                json!({"engine": "VLLM", "url": "hf://example-org/chat-7b", "image": "vllm/vllm-openai:v0.20.0",
                    "args": ["--gpu-memory-utilization=0.5"], "resourceProfile": "nvidia-gpu-h100:1", "minReplicas": 2}),
            ),
            "spec.args[0]",
        ),
        (
            object(
                "apps.nvidia.com/v1alpha1",
                "NIMService",
                json!({"image": {"repository": "nvcr.io/nim/meta/llama-3.1-8b-instruct", "tag": "1.8.4"},
                    "replicas": 2, "resources": gpus(),
                    "env": [{"name": "NIM_KVCACHE_PERCENT", "value": "0.5"}]}),
            ),
            "spec",
        ),
        (
            object(
                "nvidia.com/v1alpha1",
                "DynamoGraphDeployment",
                json!({"services": {"Worker": {"replicas": 2, "resources": {"limits": {"gpu": "1"}},
                    "extraPodSpec": {"mainContainer": {"image": "registry.example/vllm-runtime:1",
                        "args": ["python3 -m dynamo.vllm --model m --gpu-memory-utilization 0.5"]}}}}}),
            ),
            "spec.services.Worker.extraPodSpec.mainContainer",
        ),
        (
            object(
                "nvidia.com/v1beta1",
                "DynamoGraphDeployment",
                json!({"components": [{"name": "Worker", "type": "worker", "replicas": 2, "podTemplate": {"spec": {
                    "containers": [{"name": "main", "image": "registry.example/vllm-runtime:1", "resources": gpus(),
                        "command": ["python3", "-m", "dynamo.vllm"],
                        "args": ["--model", "m", "--gpu-memory-utilization", "0.5"]}]}}}]}),
            ),
            "spec.components[0].podTemplate.spec.containers[0]",
        ),
        (
            object(
                "production-stack.vllm.ai/v1alpha1",
                "VLLMRuntime",
                json!({"model": {"modelURL": "example-org/chat-7b"}, "vllmConfig": {"gpuMemoryUtilization": "0.5"},
                    "deploymentConfig": {"replicas": 2, "resources": {"gpu": "1"},
                        "image": {"name": "vllm/vllm-openai:v0.20.0"}}}),
            ),
            "spec.vllmConfig.gpuMemoryUtilization",
        ),
    ]
}

#[test]
fn what_an_operator_adds_to_is_never_refused() {
    for (object, path) in too_much() {
        let item = judged(&object);
        let lines = lines(&item);
        assert_eq!(lines[0], "admit", "{item:#}");
        assert!(
            lines[1..].iter().all(|line| !line.contains(" error ")),
            "{item:#}"
        );
        let told = lines
            .iter()
            .find(|line| line.starts_with("VG2") || line.starts_with("VG102"));
        assert!(told.is_some_and(|line| line.contains(path)), "{path}: {lines:#?}");
        // Nothing of it is changed by a policy, and no change is proposed.
        assert_eq!(item["patches"], json!([]));
        for finding in item["findings"].as_array().unwrap() {
            assert_eq!(finding["fixes"], json!([]), "{finding:#}");
        }
    }
}

#[test]
fn a_runtime_of_the_input_makes_a_service_whole() {
    let runtime = json!({"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ServingRuntime",
        "metadata": {"name": "vllm", "namespace": "llm"},
        "spec": {"supportedModelFormats": [{"name": "vLLM", "autoSelect": true}], "containers": [{
            "name": "kserve-container", "image": "vllm/vllm-openai:v0.20.0",
            "command": ["python3", "-m", "vllm.entrypoints.openai.api_server"],
            "args": ["--model=/mnt/models", "--gpu-memory-utilization=0.5"]}]}});
    let service = |replicas: u32| {
        object(
            "serving.kserve.io/v1beta1",
            "InferenceService",
            json!({"predictor": {"minReplicas": replicas,
                "model": {"modelFormat": {"name": "vLLM"}, "resources": gpus()}}}),
        )
    };
    // The runtime may stand behind the service.
    let items = check(&[node("gpu-a", 1)], &[service(2), runtime.clone()]);
    assert_eq!(items.len(), 1, "{items:#?}");
    assert_eq!(items[0]["verdict"], "deny", "{items:#?}");
    let items = check(&[node("gpu-a", 1), runtime], &[service(1)]);
    assert_eq!(lines(&items[0]), ["admit"], "{items:#?}");
}

#[test]
fn a_version_that_is_not_known_is_read_and_not_refused() {
    let mut group = leader_worker_set(1, 2, "0.6", "0.6");
    assert_eq!(judged(&group)["verdict"], "deny");
    group["apiVersion"] = json!("leaderworkerset.x-k8s.io/v7");
    let item = judged(&group);
    assert_eq!(item["verdict"], "admit", "{item:#}");
    assert_eq!(item["findings"][0]["code"], "VG201", "{item:#}");
    // Another group is another kind.
    group["apiVersion"] = json!("example.org/v1");
    assert!(check(&[node("gpu-a", 1)], &[group]).is_empty());
}

#[test]
fn what_belongs_to_another_object_is_judged_with_that() {
    let mut group = leader_worker_set(1, 2, "0.6", "0.6");
    group["metadata"]["ownerReferences"] = json!([{"apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService", "name": "chat", "uid": "u", "controller": true}]);
    assert!(check(&[node("gpu-a", 1)], &[group]).is_empty());
}

#[test]
fn a_list_of_many_kinds_is_judged_in_its_order() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "late", "namespace": "llm"},
        "spec": {"containers": [server("0.4")]}});
    let other = json!({"apiVersion": "example.org/v1", "kind": "Fleet", "metadata": {"name": "x"}, "spec": {"a": [1]}});
    let nested = json!({"apiVersion": "v1", "kind": "List", "items": [leader_worker_set(1, 2, "0.3", "0.3"), other, pod]});
    let items = check(&[node("gpu-a", 1)], &[nested]);
    let verdicts: Vec<_> = items
        .iter()
        .map(|item| {
            format!(
                "{} {}",
                item["object"]["kind"].as_str().unwrap(),
                item["verdict"].as_str().unwrap()
            )
        })
        .collect();
    // The pods of what was admitted are met by what follows.
    assert_eq!(verdicts, ["LeaderWorkerSet admit", "Pod deny"]);
}
