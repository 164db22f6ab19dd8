//! Kinds without a pod template: their operators make container, image and command line.

use serde_json::{Value, json};

use super::super::controller::{Malformed, ObjectRef};
use super::super::pod::Made;
use super::{Layout, Origin, Template, count, template_at};
use crate::finding::FieldPath;

mod nim;

/// A container that an operator makes.
#[derive(Default)]
struct Container {
    name: String,
    image: String,
    resources: Value,
    env: Value,
    /// What it executes; `None` where the image starts by itself.
    commands: Option<Vec<Vec<Word>>>,
    by: &'static str,
    desired: u32,
    max: Option<u32>,
    /// Fields of the container, each with the field of the object that it comes from.
    from: Vec<(String, FieldPath)>,
    /// The ConfigMap that is mounted at [`CONFIG`], and the field that names it.
    config: Option<(String, FieldPath)>,
    /// Pods over which the ranks are spread.
    spread_over: u32,
}

/// A word of a command line, and the field of the object that it comes from.
struct Word(String, Option<FieldPath>);

fn own(word: impl Into<String>) -> Word {
    Word(word.into(), None)
}

/// Where KAITO mounts its own configuration.
const CONFIG: &str = "/mnt/config";

pub(super) fn templates(reference: &ObjectRef, object: &Value) -> Result<Vec<Template>, Malformed> {
    let group = reference.api_version.split('/').next().unwrap_or_default();
    let made = match (group, reference.kind.as_str()) {
        ("production-stack.vllm.ai", "VLLMRuntime") => vllm_runtime(object)?,
        ("apps.nvidia.com", "NIMService") => nim::service(&reference.name, object, &FieldPath::new("spec"))?,
        ("apps.nvidia.com", "NIMPipeline") => return nim::pipeline(reference, object),
        ("kaito.sh", "InferenceSet") => kaito(object, "spec.template.")?,
        // Its fields stand beside the metadata.
        ("kaito.sh", "Workspace") => {
            let (field, made) = if at(object, "tuning").1.is_some() {
                ("tuning", tuning(object)?)
            } else {
                ("inference", kaito(object, "")?)
            };
            let path = FieldPath::new(field);
            return made
                .into_iter()
                .map(|made| template(reference, made, &path))
                .collect();
        }
        ("kubeai.org", "Model") => kubeai(object)?,
        _ => None,
    };
    let path = FieldPath::new("spec");
    made.into_iter()
        .map(|made| template(reference, made, &path))
        .collect()
}

/// The template of a container, for which the part of the object at `path` stands.
fn template(reference: &ObjectRef, made: Container, path: &FieldPath) -> Result<Template, Malformed> {
    let mut container = json!({
        "name": made.name,
        "image": made.image,
        "resources": made.resources,
        "env": made.env,
    });
    let mut volumes = Value::Null;
    let mut layout = Layout::bare(path);
    let mut put =
        |field: &str, origin: &FieldPath| layout.put(FieldPath::new(field), Origin::own(origin.clone()));
    // The operator's container stands nowhere.
    for field in ["", ".command", ".args"] {
        put(&format!("spec.containers[0]{field}"), path);
    }
    for (field, origin) in &made.from {
        put(&format!("spec.containers[0].{field}"), origin);
    }
    if let Some((name, origin)) = &made.config {
        container["volumeMounts"] = json!([{"name": "config", "mountPath": CONFIG}]);
        volumes = json!([{"name": "config", "configMap": {"name": name}}]);
        put("spec.containers[0].volumeMounts", origin);
        put("spec.volumes", origin);
    }
    layout.opened_by(&format!("the operator of {} adds to its pods", reference.kind));
    let pod = json!({"containers": [container], "volumes": volumes});
    let mut template = template_at(&pod, None, path, true, made.desired).map_err(|malformed| {
        // What the object says stands elsewhere in it.
        let below = malformed
            .path
            .strip_prefix(path.as_str())
            .unwrap_or(&malformed.path);
        let field = FieldPath::new("spec").field(below.trim_start_matches('.'));
        Malformed {
            path: layout.origin(&field).path.to_string(),
            ..malformed
        }
    })?;
    template.max = made.max;
    template.layout = layout;
    let Some(container) = template.pod.spec.containers.first_mut() else {
        return Ok(template);
    };
    container.spread_over = made.spread_over;
    if let Some(commands) = made.commands {
        let mut told = Made {
            by: made.by.to_owned(),
            ..Made::default()
        };
        for (index, words) in commands.into_iter().enumerate() {
            let mut line = Vec::with_capacity(words.len());
            for (at, Word(text, origin)) in words.into_iter().enumerate() {
                if let Some(path) = origin {
                    told.origins.insert((index, at), Origin::own(path));
                }
                line.push(text);
            }
            told.commands.push(line);
        }
        container.made = Some(told);
    }
    Ok(template)
}

/// The field at a path and what it holds.
fn at<'v>(object: &'v Value, path: &str) -> (FieldPath, Option<&'v Value>) {
    let path = FieldPath::new(path);
    let value = object.pointer(&path.to_pointer());
    (path, value.filter(|value| !value.is_null()))
}

fn text<'v>(object: &'v Value, path: &str) -> Result<Option<&'v str>, Malformed> {
    match at(object, path) {
        (_, None) => Ok(None),
        (_, Some(Value::String(text))) => Ok(Some(text)),
        (path, Some(other)) => Err(count::wrong(&path, other, "a text")),
    }
}

/// A value as one word: numbers and texts alike.
fn word(object: &Value, path: &str) -> Result<Option<String>, Malformed> {
    match at(object, path) {
        (_, None) => Ok(None),
        (_, Some(Value::String(text))) => Ok(Some(text.clone())),
        (_, Some(Value::Number(number))) => Ok(Some(number.to_string())),
        (path, Some(other)) => Err(count::wrong(&path, other, "a text or a number")),
    }
}

fn number(object: &Value, path: &str) -> Result<Option<u32>, Malformed> {
    let (path, value) = at(object, path);
    count::of(value, &path)
}

/// The words of a list, each with its field.
fn list(object: &Value, path: &str) -> Result<Vec<Word>, Malformed> {
    let items = match at(object, path) {
        (_, None) => return Ok(Vec::new()),
        (_, Some(Value::Array(items))) => items,
        (path, Some(other)) => return Err(count::wrong(&path, other, "a list of texts")),
    };
    let path = FieldPath::new(path);
    let read = |(index, item): (usize, &Value)| match item {
        Value::String(text) => Ok(Word(text.clone(), Some(path.index(index)))),
        other => Err(count::wrong(&path.index(index), other, "a text")),
    };
    items.iter().enumerate().map(read).collect()
}

/// production-stack: camel-case fields that become options with the same names.
fn vllm_runtime(object: &Value) -> Result<Option<Container>, Malformed> {
    let Some(model) = text(object, "spec.model.modelURL")? else {
        return Ok(None);
    };
    let mut words = vec![
        own("vllm"),
        own("serve"),
        Word(model.to_owned(), Some(FieldPath::new("spec.model.modelURL"))),
    ];
    for (path, option) in [
        ("spec.model.maxModelLen", "max-model-len"),
        ("spec.model.dtype", "dtype"),
        ("spec.model.maxNumSeqs", "max-num-seqs"),
        ("spec.vllmConfig.tensorParallelSize", "tensor-parallel-size"),
        ("spec.vllmConfig.pipelineParallelSize", "pipeline-parallel-size"),
        ("spec.vllmConfig.gpuMemoryUtilization", "gpu-memory-utilization"),
        ("spec.vllmConfig.maxLoras", "max-loras"),
    ] {
        let value = word(object, path)?;
        words.extend(value.map(|value| Word(format!("--{option}={value}"), Some(FieldPath::new(path)))));
    }
    if let (path, Some(enabled)) = at(object, "spec.model.enableLoRA") {
        match enabled {
            Value::Bool(false) => {}
            Value::Bool(true) => words.push(Word("--enable-lora".to_owned(), Some(path))),
            other => return Err(count::wrong(&path, other, "true or false")),
        }
    }
    words.extend(list(object, "spec.vllmConfig.extraArgs")?);
    let resource = text(object, "spec.deploymentConfig.resources.gpuType")?.unwrap_or("nvidia.com/gpu");
    let gpus = word(object, "spec.deploymentConfig.resources.gpu")?;
    let image = text(object, "spec.deploymentConfig.image.name")?.unwrap_or_default();
    let registry = text(object, "spec.deploymentConfig.image.registry")?;
    Ok(Some(Container {
        name: "vllm".to_owned(),
        image: registry.map_or_else(|| image.to_owned(), |registry| format!("{registry}/{image}")),
        resources: gpus.map_or(Value::Null, |gpus| json!({"limits": {resource: gpus}})),
        env: copied(object, "spec.vllmConfig.env"),
        commands: Some(vec![words]),
        by: "the operator of production-stack makes the command line from the object",
        desired: number(object, "spec.deploymentConfig.replicas")?.unwrap_or(1),
        from: moved(&[
            ("image", "spec.deploymentConfig.image"),
            ("resources", "spec.deploymentConfig.resources"),
            ("env", "spec.vllmConfig.env"),
        ]),
        ..Container::default()
    }))
}

fn copied(object: &Value, path: &str) -> Value {
    at(object, path).1.cloned().unwrap_or(Value::Null)
}

fn moved(fields: &[(&str, &str)]) -> Vec<(String, FieldPath)> {
    fields
        .iter()
        .map(|(field, path)| ((*field).to_owned(), FieldPath::new(*path)))
        .collect()
}

/// KAITO: a preset, whose options are the operator's.
fn kaito(object: &Value, below: &str) -> Result<Option<Container>, Malformed> {
    let name = format!("{below}inference.preset.name");
    let Some(preset) = text(object, &name)? else {
        return Ok(None);
    };
    if preset.contains(|c: char| !(c.is_ascii_alphanumeric() || ".-_/".contains(c))) {
        return Ok(None);
    }
    let profile = text(object, &format!("{below}resource.partition.profile"))?;
    let resource = profile.map_or_else(
        || "nvidia.com/gpu".to_owned(),
        |profile| format!("nvidia.com/mig-{profile}"),
    );
    let config_at = format!("{below}inference.config");
    let config = text(object, &config_at)?;
    let file = match config {
        Some(_) => format!(" --kaito-config-file={CONFIG}/inference_config.yaml"),
        None => String::new(),
    };
    let script =
        format!("python3 /workspace/vllm/inference_api.py --model={preset} $(options of the preset){file}");
    let desired = match number(object, "spec.replicas")? {
        Some(replicas) => replicas,
        None => number(object, "resource.count")?.unwrap_or(1),
    };
    Ok(Some(Container {
        name: "workspace".to_owned(),
        resources: json!({"limits": {resource: "1"}}),
        commands: Some(vec![vec![
            own("/bin/sh"),
            own("-c"),
            Word(script, Some(FieldPath::new(name))),
        ]]),
        by: "KAITO makes the command line from its preset",
        desired,
        config: config.map(|name| (name.to_owned(), FieldPath::new(config_at))),
        ..Container::default()
    }))
}

/// KAITO: a model is trained further by a script of its own, which Accelerate starts.
fn tuning(object: &Value) -> Result<Option<Container>, Malformed> {
    if text(object, "tuning.preset.name")?.is_none() {
        return Ok(None);
    }
    Ok(Some(Container {
        name: "workspace".to_owned(),
        resources: json!({"limits": {"nvidia.com/gpu": "1"}}),
        commands: Some(vec![
            ["accelerate", "launch", "/workspace/tfs/fine_tuning.py"]
                .map(own)
                .into(),
        ]),
        by: "KAITO makes the command line from its preset",
        desired: 1,
        ..Container::default()
    }))
}

/// KubeAI: an engine by name, a URL, arguments, and a resource profile with a number of devices.
fn kubeai(object: &Value) -> Result<Option<Container>, Malformed> {
    let Some((scheme, model)) = text(object, "spec.url")?.and_then(|url| url.split_once("://")) else {
        return Ok(None);
    };
    let url = || Some(FieldPath::new("spec.url"));
    let model = model.split('?').next().unwrap_or(model);
    let args = list(object, "spec.args")?;
    let mut env: Vec<Value> = Vec::new();
    let mut from = moved(&[("image", "spec.image"), ("resources", "spec.resourceProfile")]);
    match at(object, "spec.env") {
        (_, None) => {}
        (path, Some(Value::Object(variables))) => {
            for (index, (name, value)) in variables.iter().enumerate() {
                from.push((format!("env[{index}].value"), path.key(name)));
                from.push((format!("env[{index}]"), path.key(name)));
                env.push(json!({"name": name, "value": value}));
            }
        }
        (path, Some(other)) => return Err(count::wrong(&path, other, "an object of texts")),
    }
    let commands = match text(object, "spec.engine")? {
        None => return Ok(None),
        Some("VLLM") => {
            let start = ["python3", "-m", "vllm.entrypoints.openai.api_server"];
            let model = if scheme == "hf" { model } else { "/model" };
            let words = start.iter().map(|word| own(*word));
            let model = Word(format!("--model={model}"), url());
            vec![words.chain([model]).chain(args).collect()]
        }
        Some("OLlama") => vec![
            vec![own("ollama"), own("serve")],
            vec![own("ollama"), own("pull"), Word(model.to_owned(), url())],
        ],
        Some(_) => Vec::new(),
    };
    let profile = text(object, "spec.resourceProfile")?.unwrap_or_default();
    let (kind, devices) = profile.split_once(':').unwrap_or((profile, "1"));
    let resources = if kind.starts_with("nvidia-gpu") {
        json!({"limits": {"nvidia.com/gpu": devices}})
    } else {
        Value::Null
    };
    let desired = match number(object, "spec.replicas")? {
        Some(replicas) => replicas,
        None => number(object, "spec.minReplicas")?.unwrap_or(1),
    };
    Ok(Some(Container {
        name: "server".to_owned(),
        image: text(object, "spec.image")?.unwrap_or_default().to_owned(),
        resources,
        env: Value::Array(env),
        commands: Some(commands),
        by: "KubeAI makes the command line from the object",
        desired,
        max: number(object, "spec.maxReplicas")?,
        from,
        ..Container::default()
    }))
}
