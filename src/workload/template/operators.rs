//! Kinds without a pod template: their operators make container, image and command line.

use serde_json::{Value, json};

use super::super::controller::{Malformed, ObjectRef};
use super::super::pod::Made;
use super::{Template, template_at};
use crate::finding::FieldPath;

/// A container that an operator makes.
#[derive(Default)]
struct Container {
    name: String,
    image: String,
    resources: Value,
    env: Value,
    commands: Option<Vec<Vec<String>>>,
    by: &'static str,
    desired: u32,
    max: Option<u32>,
    /// The ConfigMap that is mounted at [`CONFIG`].
    config: Option<String>,
    /// Pods over which the ranks are spread.
    spread_over: u32,
}

/// Where KAITO mounts its own configuration.
const CONFIG: &str = "/mnt/config";

pub(super) fn templates(reference: &ObjectRef, object: &Value) -> Result<Vec<Template>, Malformed> {
    let group = reference.api_version.split('/').next().unwrap_or_default();
    let spec = FieldPath::new("spec");
    let (path, container) = match (group, reference.kind.as_str()) {
        ("production-stack.vllm.ai", "VLLMRuntime") => (spec, vllm_runtime(object)),
        ("apps.nvidia.com", "NIMService") => {
            let service = object
                .get("spec")
                .and_then(|spec| nim_service(&reference.name, spec));
            (spec, service)
        }
        ("apps.nvidia.com", "NIMPipeline") => return pipeline(object),
        ("kaito.sh", "InferenceSet") => (spec, kaito(object, "/spec/template")),
        // Its fields stand beside the metadata.
        ("kaito.sh", "Workspace") if object.get("tuning").is_some() => {
            (FieldPath::new("tuning"), tuning(object))
        }
        ("kaito.sh", "Workspace") => (FieldPath::new("inference"), kaito(object, "")),
        ("kubeai.org", "Model") => (spec, kubeai(object)),
        _ => return Ok(Vec::new()),
    };
    container.into_iter().map(|made| template(made, &path)).collect()
}

fn template(made: Container, path: &FieldPath) -> Result<Template, Malformed> {
    let mut container = json!({
        "name": made.name,
        "image": made.image,
        "resources": made.resources,
        "env": made.env,
    });
    let mut volumes = Value::Null;
    if let Some(name) = &made.config {
        container["volumeMounts"] = json!([{"name": "config", "mountPath": CONFIG}]);
        volumes = json!([{"name": "config", "configMap": {"name": name}}]);
    }
    let pod = json!({"containers": [container], "volumes": volumes});
    let mut template = template_at(&pod, None, path, made.desired, made.max)?;
    if let Some(container) = template.pod.spec.containers.first_mut() {
        container.spread_over = made.spread_over;
        container.made = made.commands.map(|commands| Made {
            commands,
            by: made.by.to_owned(),
            ..Made::default()
        });
    }
    Ok(template)
}

/// NIM Operator: several services in one object, of which some may be switched off.
fn pipeline(object: &Value) -> Result<Vec<Template>, Malformed> {
    let mut found = Vec::new();
    let services = object.pointer("/spec/services").and_then(Value::as_array);
    for (index, service) in services.into_iter().flatten().enumerate() {
        if service.get("enabled") == Some(&Value::Bool(false)) {
            continue;
        }
        let name = text(service, "/name").unwrap_or_default();
        let path = FieldPath::new("spec")
            .field("services")
            .index(index)
            .field("spec");
        let made = service.get("spec").and_then(|spec| nim_service(name, spec));
        if let Some(made) = made {
            found.push(template(made, &path)?);
        }
    }
    Ok(found)
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
        ..Container::default()
    })
}

/// NIM Operator: the image starts by itself, with the variables of the object. Over several nodes each stage of the
/// pipeline has a pod.
fn nim_service(name: &str, spec: &Value) -> Option<Container> {
    let repository = text(spec, "/image/repository")?;
    let tag = word(spec, "/image/tag");
    let mut resources = spec.get("resources").cloned().unwrap_or_else(|| json!({}));
    if spec.get("draResources").is_some() {
        resources["claims"] = json!([{"name": "gpu"}]);
    }
    let own = spec.get("env").and_then(Value::as_array).cloned();
    let mut env = own.unwrap_or_default();
    let mut pods = 0;
    if let Some(parallelism) = spec.pointer("/multiNode/parallelism") {
        for (field, variable) in [
            ("/tp", "NIM_TENSOR_PARALLEL_SIZE"),
            ("/pp", "NIM_PIPELINE_PARALLEL_SIZE"),
        ] {
            let size = word(parallelism, field);
            env.extend(size.map(|size| json!({"name": variable, "value": size})));
        }
        pods = count(parallelism, "/pp").unwrap_or(1);
        // Without a size of its own a stage takes every device of its pod.
        let devices = resources
            .get("limits")
            .and_then(|limits| word(limits, "/nvidia.com~1gpu"));
        if let (None, Some(devices)) = (count(parallelism, "/tp"), devices) {
            env.push(json!({"name": "NIM_TENSOR_PARALLEL_SIZE", "value": devices}));
        }
    }
    Some(Container {
        name: format!("{name}-ctr"),
        image: tag.map_or_else(|| repository.to_owned(), |tag| format!("{repository}:{tag}")),
        resources,
        env: Value::Array(env),
        desired: count(spec, "/replicas").unwrap_or(1).saturating_mul(pods.max(1)),
        max: count(spec, "/scale/hpa/maxReplicas"),
        spread_over: pods,
        ..Container::default()
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
    let config = text(object, &format!("{below}/inference/config")).map(str::to_owned);
    let file = match &config {
        Some(_) => format!(" --kaito-config-file={CONFIG}/inference_config.yaml"),
        None => String::new(),
    };
    let script =
        format!("python3 /workspace/vllm/inference_api.py --model={preset} $(options of the preset){file}");
    Some(Container {
        name: "workspace".to_owned(),
        resources: json!({"limits": {resource: "1"}}),
        commands: Some(vec![vec!["/bin/sh".to_owned(), "-c".to_owned(), script]]),
        by: "KAITO makes the command line from its preset",
        desired: count(object, "/spec/replicas")
            .or_else(|| count(object, "/resource/count"))
            .unwrap_or(1),
        config,
        ..Container::default()
    })
}

/// KAITO: a model is trained further by a script of its own, which Accelerate starts.
fn tuning(object: &Value) -> Option<Container> {
    text(object, "/tuning/preset/name")?;
    let words = ["accelerate", "launch", "/workspace/tfs/fine_tuning.py"];
    Some(Container {
        name: "workspace".to_owned(),
        resources: json!({"limits": {"nvidia.com/gpu": "1"}}),
        commands: Some(vec![words.into_iter().map(str::to_owned).collect()]),
        by: "KAITO makes the command line from its preset",
        desired: 1,
        ..Container::default()
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
        ..Container::default()
    })
}
