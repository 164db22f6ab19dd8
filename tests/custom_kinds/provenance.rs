//! Where values come from that an operator puts into a pod: which object, and which of its fields.

use serde_json::{Value, json};

use super::{object, run, template};

/// `field value object path` of what `explain` says of the first container of the template at a place.
fn told(objects: &[Value], item: usize) -> Vec<String> {
    let output = run(
        &["explain", "input.json", "-o", "json"],
        &[("input.json", objects)],
    );
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let provenance = &document["items"][item]["containers"][0]["provenance"];
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    provenance
        .as_object()
        .unwrap_or_else(|| panic!("{document:#}"))
        .iter()
        .filter(|(_, one)| !one["path"].is_null() || one["from"] == "unresolved")
        .map(|(field, one)| {
            format!(
                "{field} {} [{}] {}",
                text(&one["value"]),
                text(&one["object"]),
                text(&one["path"])
            )
        })
        .collect()
}

fn has(told: &[String], line: &str) {
    assert!(told.iter().any(|known| known == line), "{line} in {told:#?}");
}

fn runtime(args: &Value, env: &Value) -> Value {
    json!({"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ServingRuntime",
        "metadata": {"name": "vllm", "namespace": "llm"},
        "spec": {"supportedModelFormats": [{"name": "vLLM", "autoSelect": true}], "containers": [{
            "name": "kserve-container", "image": "vllm/vllm-openai:v0.20.0",
            "command": ["python3", "-m", "vllm.entrypoints.openai.api_server"], "args": args, "env": env}]}})
}

fn service(args: &Value) -> Value {
    object(
        "serving.kserve.io/v1beta1",
        "InferenceService",
        json!({"predictor": {"model": {"modelFormat": {"name": "vLLM"}, "args": args,
            "resources": {"limits": {"nvidia.com/gpu": "1"}}}}}),
    )
}

#[test]
fn arguments_of_runtime_and_service_are_told_apart() {
    let runtime = runtime(
        &json!([
            "--model=/mnt/models",
            "--served-model-name={{.Name}}",
            "--gpu-memory-utilization=0.5",
            "--max-num-seqs=8"
        ]),
        &json!([]),
    );
    let told = told(
        &[
            runtime,
            service(&json!(["--max-model-len", "4096", "--max-num-seqs=4"])),
        ],
        1,
    );
    has(
        &told,
        "memory 0.5 [ServingRuntime vllm] spec.containers[0].args[2]",
    );
    has(
        &told,
        "model /mnt/models [ServingRuntime vllm] spec.containers[0].args[0]",
    );
    has(&told, "max-model-len 4096 [-] spec.predictor.model.args[1]");
    has(&told, "max-num-seqs 4 [-] spec.predictor.model.args[2]");
}

#[test]
fn actions_that_only_the_controller_evaluates_make_a_value_unknown() {
    let runtime = runtime(
        &json!([
            "--model=/mnt/models",
            "--gpu-memory-utilization={{if .Labels.big}}0.9{{else}}0.4{{end}}"
        ]),
        &json!([]),
    );
    let output = run(
        &["explain", "input.json", "-o", "json"],
        &[("input.json", &[runtime, service(&json!([]))])],
    );
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let container = &document["items"][1]["containers"][0];
    assert_eq!(container["memory"]["value"], Value::Null, "{container:#}");
    assert_eq!(container["memory"]["source"], "unresolved", "{container:#}");
    let unresolved = container["unresolved"].to_string();
    assert!(
        unresolved.contains("the action {{if .Labels.big}} of ServingRuntime vllm is not evaluated"),
        "{unresolved}"
    );
    let one = &container["provenance"]["memory"];
    assert_eq!(one["object"], "ServingRuntime vllm", "{one:#}");
    assert_eq!(one["path"], "spec.containers[0].args[1]");
}

#[test]
fn variables_are_those_of_the_runtime_or_of_the_service() {
    let runtime = runtime(
        &json!([
            "--model=/mnt/models",
            "--max-model-len=$(LENGTH)",
            "--gpu-memory-utilization=$(SHARE)"
        ]),
        &json!([{"name": "SHARE", "value": "{{ call .X }}"}, {"name": "LENGTH", "value": "2048"}]),
    );
    let output = run(
        &["explain", "input.json", "-o", "json"],
        &[("input.json", &[runtime, service(&json!([]))])],
    );
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let container = &document["items"][1]["containers"][0];
    assert_eq!(container["maxModelLen"], 2048, "{container:#}");
    assert!(
        container["unresolved"]
            .to_string()
            .contains("{{ call .X }} of ServingRuntime vllm is a template that is not evaluated"),
        "{container:#}"
    );
}

#[test]
fn fields_of_an_operators_object_are_named() {
    let nim = object(
        "apps.nvidia.com/v1alpha1",
        "NIMService",
        json!({"image": {"repository": "nvcr.io/nim/meta/llama-3.1-8b-instruct", "tag": "1.8.4"},
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
            "env": [{"name": "OTHER", "value": "x"}, {"name": "NIM_MAX_MODEL_LEN", "value": "8192"}]}),
    );
    has(&told(&[nim], 0), "max-model-len 8192 [-] spec.env[1]");
    let model = object(
        "kubeai.org/v1",
        "Model",
        json!({"engine": "VLLM", "url": "hf://example-org/chat-7b", "image": "vllm/vllm-openai:v0.20.0",
            "args": ["--max-model-len=64", "--gpu-memory-utilization=0.4"], "resourceProfile": "nvidia-gpu-h100:1"}),
    );
    let known = told(&[model], 0);
    has(&known, "memory 0.4 [-] spec.args[1]");
    has(&known, "model example-org/chat-7b [-] spec.url");
    let stack = object(
        "production-stack.vllm.ai/v1alpha1",
        "VLLMRuntime",
        json!({"model": {"modelURL": "example-org/chat-7b", "maxModelLen": 32},
            "vllmConfig": {"gpuMemoryUtilization": "0.5"},
            "deploymentConfig": {"resources": {"gpu": "1"}, "image": {"name": "vllm/vllm-openai:v0.20.0"}}}),
    );
    let known = told(&[stack], 0);
    has(&known, "memory 0.5 [-] spec.vllmConfig.gpuMemoryUtilization");
    has(&known, "max-model-len 32 [-] spec.model.maxModelLen");
}

#[test]
fn words_behind_what_an_operator_puts_in_keep_their_fields() {
    let args = json!([
        "--model",
        "m",
        "--tensor-parallel-size",
        "4",
        "--gpu-memory-utilization",
        "$(SHARE)"
    ]);
    let main = json!({"image": "registry.example/vllm-runtime:1", "command": ["python3", "-m", "dynamo.vllm"], "args": args,
        "env": [{"name": "SHARE", "value": "0.7"}]});
    let mut whole = main.clone();
    whole["name"] = json!("main");
    whole["resources"] = json!({"limits": {"nvidia.com/gpu": "2"}});
    let services = object(
        "nvidia.com/v1alpha1",
        "DynamoGraphDeployment",
        json!({"services": {"W": {"multinode": {"nodeCount": 2}, "resources": {"limits": {"gpu": "2"}},
            "extraPodSpec": {"mainContainer": main}}}}),
    );
    let components = object(
        "nvidia.com/v1beta1",
        "DynamoGraphDeployment",
        json!({"env": [{"name": "OTHER", "value": "x"}], "components": [{"name": "W", "multinode": {"nodeCount": 2},
            "podTemplate": {"spec": {"containers": [whole]}}}]}),
    );
    for (object, at) in [
        (services, "spec.services.W.extraPodSpec.mainContainer"),
        (components, "spec.components[0].podTemplate.spec.containers[0]"),
    ] {
        let known = told(&[object], 0);
        has(&known, &format!("tensor-parallel-size 4 [-] {at}.args[3]"));
        has(&known, &format!("memory 0.7 [-] {at}.args[5]"));
    }
}

#[test]
fn services_of_a_pipeline_and_variables_around_a_container_are_told_apart() {
    let service = json!({"image": {"repository": "nvcr.io/nim/meta/llama-3.1-8b-instruct", "tag": "1.8.4"},
        "resources": {"limits": {"nvidia.com/gpu": "8"}}, "multiNode": {"parallelism": {"pp": 2, "tp": 8}},
        "env": [{"name": "NIM_MAX_MODEL_LEN", "value": "8192"}]});
    let pipeline = object(
        "apps.nvidia.com/v1alpha1",
        "NIMPipeline",
        json!({"services": [{"name": "off", "enabled": false, "spec": service}, {"name": "on", "spec": service}]}),
    );
    let known = told(&[pipeline], 0);
    has(&known, "max-model-len 8192 [-] spec.services[1].spec.env[0]");
    has(
        &known,
        "tensor-parallel-size 8 [-] spec.services[1].spec.multiNode.parallelism.tp",
    );
}

#[test]
fn engines_of_a_ray_service_stand_in_its_configuration() {
    let serve = "applications:\n- import_path: ray.serve.llm:build_openai_app\n  args:\n    llm_configs:\n    - \
                 model_loading_config: {model_id: q, model_source: example-org/chat-7b}\n      engine_kwargs: \
                 {gpu_memory_utilization: 0.4}\n";
    let mut worker = template("0.4");
    let container = &mut worker["spec"]["containers"][0];
    container.as_object_mut().unwrap().remove("args");
    container["image"] = json!("rayproject/ray-llm:2.52.0");
    let service = object(
        "ray.io/v1",
        "RayService",
        json!({"serveConfigV2": serve, "rayClusterConfig": {
            "headGroupSpec": {"template": {"spec": {"containers": [{"name": "head", "image": "rayproject/ray-llm:2.52.0"}]}}},
            "workerGroupSpecs": [{"replicas": 1, "template": worker}]}}),
    );
    let known = told(&[service], 1);
    has(&known, "memory 0.4 [-] spec.serveConfigV2");
    has(&known, "model example-org/chat-7b [-] spec.serveConfigV2");
}

#[test]
fn the_line_of_an_llm_service_is_made_of_its_fields() {
    let service = object(
        "serving.kserve.io/v1alpha2",
        "LLMInferenceService",
        json!({"model": {"uri": "hf://example-org/chat-7b", "name": "chat"}, "parallelism": {"tensor": 2},
            "template": {"containers": [{"name": "main", "image": "vllm/vllm-openai:v0.20.0",
                "resources": {"limits": {"nvidia.com/gpu": "2"}},
                "args": ["--max-model-len=64"],
                "env": [{"name": "VLLM_ADDITIONAL_ARGS", "value": "--gpu-memory-utilization 0.5"}]}]}}),
    );
    let known = told(&[service], 0);
    has(&known, "model example-org/chat-7b [-] spec.model");
    has(&known, "tensor-parallel-size 2 [-] spec.parallelism.tensor");
    has(&known, "max-model-len 64 [-] spec.template.containers[0].args[0]");
}
