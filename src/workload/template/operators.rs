//! Kinds without a pod template: their operators make container, image and command line.

use serde_json::{Value, json};

use super::super::controller::{Malformed, ObjectRef};
use super::super::pod::Made;
use super::{Template, template_at};
use crate::finding::FieldPath;

/// A container that an operator makes.
struct Container {
    name: String,
    image: String,
    resources: Value,
    env: Value,
    commands: Option<Vec<Vec<String>>>,
    by: &'static str,
    desired: u32,
    max: Option<u32>,
}

pub(super) fn templates(reference: &ObjectRef, object: &Value) -> Result<Vec<Template>, Malformed> {
    let group = reference.api_version.split('/').next().unwrap_or_default();
    let container = match (group, reference.kind.as_str()) {
        ("production-stack.vllm.ai", "VLLMRuntime") => vllm_runtime(object),
        ("apps.nvidia.com", "NIMService") => nim_service(reference, object),
        ("kaito.sh", "InferenceSet") => kaito(object, "/spec/template"),
        ("kaito.sh", "Workspace") => kaito(object, ""),
        ("kubeai.org", "Model") => kubeai(object),
        _ => None,
    };
    let Some(made) = container else {
        return Ok(Vec::new());
    };
    let pod = json!({"containers": [{
        "name": made.name,
        "image": made.image,
        "resources": made.resources,
        "env": made.env,
    }]});
    let path = FieldPath::new("spec");
    let mut template = template_at(&pod, None, &path, made.desired, made.max)?;
    if let (Some(commands), Some(container)) = (made.commands, template.pod.spec.containers.first_mut()) {
        container.made = Some(Made {
            commands,
            by: made.by.to_owned(),
            ..Made::default()
        });
    }
    Ok(vec![template])
}

fn text<'v>(object: &'v Value, pointer: &str) -> Option<&'v str> {
    object.pointer(pointer).and_then(Value::as_str)
}

/// A value as one word: numbers and texts alike.
fn word(object: &Value, pointer: &str) -> Option<String> {
    match object.pointer(pointer)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn count(object: &Value, pointer: &str) -> Option<u32> {
    let count = object.pointer(pointer)?.as_u64()?;
    Some(u32::try_from(count).unwrap_or(u32::MAX))
}

fn list(object: &Value, pointer: &str) -> Vec<String> {
    let items = object.pointer(pointer).and_then(Value::as_array);
    items
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// production-stack: camel-case fields that become options with the same names.
fn vllm_runtime(object: &Value) -> Option<Container> {
    let model = text(object, "/spec/model/modelURL")?;
    let mut words = vec!["vllm".to_owned(), "serve".to_owned(), model.to_owned()];
    for (pointer, option) in [
        ("/spec/model/maxModelLen", "max-model-len"),
        ("/spec/model/dtype", "dtype"),
        ("/spec/model/maxNumSeqs", "max-num-seqs"),
        ("/spec/vllmConfig/tensorParallelSize", "tensor-parallel-size"),
        ("/spec/vllmConfig/pipelineParallelSize", "pipeline-parallel-size"),
        ("/spec/vllmConfig/gpuMemoryUtilization", "gpu-memory-utilization"),
        ("/spec/vllmConfig/maxLoras", "max-loras"),
    ] {
        words.extend(word(object, pointer).map(|value| format!("--{option}={value}")));
    }
    if object.pointer("/spec/model/enableLoRA") == Some(&Value::Bool(true)) {
        words.push("--enable-lora".to_owned());
    }
    words.extend(list(object, "/spec/vllmConfig/extraArgs"));
    let resource = text(object, "/spec/deploymentConfig/resources/gpuType").unwrap_or("nvidia.com/gpu");
    let gpus = word(object, "/spec/deploymentConfig/resources/gpu");
    let image = text(object, "/spec/deploymentConfig/image/name").unwrap_or_default();
    let registry = text(object, "/spec/deploymentConfig/image/registry");
    Some(Container {
        name: "vllm".to_owned(),
        image: registry.map_or_else(|| image.to_owned(), |registry| format!("{registry}/{image}")),
        resources: gpus.map_or(Value::Null, |gpus| json!({"limits": {resource: gpus}})),
        env: object
            .pointer("/spec/vllmConfig/env")
            .cloned()
            .unwrap_or(Value::Null),
        commands: Some(vec![words]),
        by: "the operator of production-stack makes the command line from the object",
        desired: count(object, "/spec/deploymentConfig/replicas").unwrap_or(1),
        max: None,
    })
}

/// NIM Operator: the image starts by itself, with the variables of the object.
fn nim_service(reference: &ObjectRef, object: &Value) -> Option<Container> {
    let repository = text(object, "/spec/image/repository")?;
    let tag = text(object, "/spec/image/tag");
    let mut resources = object
        .pointer("/spec/resources")
        .cloned()
        .unwrap_or_else(|| json!({}));
    if object.pointer("/spec/draResources").is_some() {
        resources["claims"] = json!([{"name": "gpu"}]);
    }
    Some(Container {
        name: format!("{}-ctr", reference.name),
        image: tag.map_or_else(|| repository.to_owned(), |tag| format!("{repository}:{tag}")),
        resources,
        env: object.pointer("/spec/env").cloned().unwrap_or(Value::Null),
        commands: None,
        by: "",
        desired: count(object, "/spec/replicas").unwrap_or(1),
        max: count(object, "/spec/scale/hpa/maxReplicas"),
    })
}

/// KAITO: a preset, whose options are the operator's.
fn kaito(object: &Value, below: &str) -> Option<Container> {
    let preset = text(object, &format!("{below}/inference/preset/name"))?;
    if preset.contains(|c: char| !(c.is_ascii_alphanumeric() || ".-_/".contains(c))) {
        return None;
    }
    let profile = text(object, &format!("{below}/resource/partition/profile"));
    let resource = profile.map_or_else(
        || "nvidia.com/gpu".to_owned(),
        |profile| format!("nvidia.com/mig-{profile}"),
    );
    let script =
        format!("python3 /workspace/vllm/inference_api.py --model={preset} $(options of the preset)");
    Some(Container {
        name: "workspace".to_owned(),
        image: String::new(),
        resources: json!({"limits": {resource: "1"}}),
        env: Value::Null,
        commands: Some(vec![vec!["/bin/sh".to_owned(), "-c".to_owned(), script]]),
        by: "KAITO makes the command line from its preset",
        desired: count(object, "/spec/replicas").unwrap_or(1),
        max: None,
    })
}

/// KubeAI: an engine by name, a URL, arguments, and a resource profile with a number of devices.
fn kubeai(object: &Value) -> Option<Container> {
    let url = text(object, "/spec/url")?;
    let (scheme, model) = url.split_once("://")?;
    let model = model.split('?').next().unwrap_or(model);
    let args = list(object, "/spec/args");
    let mut env: Vec<Value> = Vec::new();
    let variables = object.pointer("/spec/env").and_then(Value::as_object);
    for (name, value) in variables.into_iter().flatten() {
        env.push(json!({"name": name, "value": value}));
    }
    let commands = match text(object, "/spec/engine")? {
        "VLLM" => {
            let start = ["python3", "-m", "vllm.entrypoints.openai.api_server"];
            let model = if scheme == "hf" { model } else { "/model" };
            let words = start.iter().map(|word| (*word).to_owned());
            vec![words.chain([format!("--model={model}")]).chain(args).collect()]
        }
        "OLlama" => vec![
            vec!["ollama".to_owned(), "serve".to_owned()],
            vec!["ollama".to_owned(), "pull".to_owned(), model.to_owned()],
        ],
        _ => Vec::new(),
    };
    let profile = text(object, "/spec/resourceProfile").unwrap_or_default();
    let (kind, devices) = profile.split_once(':').unwrap_or((profile, "1"));
    let resources = if kind.starts_with("nvidia-gpu") {
        json!({"limits": {"nvidia.com/gpu": devices}})
    } else {
        Value::Null
    };
    Some(Container {
        name: "server".to_owned(),
        image: text(object, "/spec/image").unwrap_or_default().to_owned(),
        resources,
        env: Value::Array(env),
        commands: Some(commands),
        by: "KubeAI makes the command line from the object",
        desired: count(object, "/spec/replicas")
            .or_else(|| count(object, "/spec/minReplicas"))
            .unwrap_or(1),
        max: count(object, "/spec/maxReplicas"),
    })
}
