//! NVIDIA Dynamo: a graph of services, each with a main container and its resources in the operator's shorthand.

use serde_json::{Value, json};

use super::super::controller::Malformed;
use super::super::pod::Made;
use super::{Template, template_at};
use crate::finding::FieldPath;

pub(super) fn templates(spec: &Value) -> Result<Vec<Template>, Malformed> {
    let mut found = Vec::new();
    let services = spec.get("services").and_then(Value::as_object);
    for (name, service) in services.into_iter().flatten() {
        let path = FieldPath::new("spec").field("services").field(name);
        let mut pod = service.get("extraPodSpec").cloned().unwrap_or_else(|| json!({}));
        let mut main = pod.get("mainContainer").cloned().unwrap_or_else(|| json!({}));
        let Some(fields) = main.as_object_mut() else {
            continue;
        };
        fields.insert("name".to_owned(), json!("mainContainer"));
        resources(service, fields);
        if let Some(more) = service.get("envs") {
            fields.entry("env").or_insert_with(|| more.clone());
        }
        let folder = main
            .get("workingDir")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let is_frontend = service
            .get("componentType")
            .and_then(Value::as_str)
            .is_some_and(|kind| kind == "frontend");
        let list = pod
            .get("containers")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        pod["containers"] = list.into_iter().chain([main]).collect();
        let replicas = service.get("replicas").and_then(Value::as_u64).unwrap_or(1);
        let desired = u32::try_from(replicas)
            .unwrap_or(u32::MAX)
            .saturating_mul(nodes_of(service).unwrap_or(1));
        let mut template = template_at(&pod, None, &path, desired, None)?;
        if let Some(main) = template.pod.spec.containers.last_mut() {
            let command = main.command.clone().unwrap_or_default();
            let args = main.args.clone().unwrap_or_default();
            let by = "the Dynamo operator makes the command line".to_owned();
            if command.is_empty() && args.is_empty() && is_frontend {
                main.made = Some(Made {
                    commands: vec![
                        ["python3", "-m", "dynamo.frontend"]
                            .into_iter()
                            .map(str::to_owned)
                            .collect(),
                    ],
                    by,
                    ..Made::default()
                });
            } else if command.is_empty() && !args.is_empty() {
                let line = args.join(" ");
                let launched = launcher(&line, &folder);
                main.made = Some(Made {
                    doubtful: launched.is_some(),
                    commands: vec![vec![
                        "/bin/sh".to_owned(),
                        "-c".to_owned(),
                        launched.unwrap_or(line),
                    ]],
                    by,
                    ..Made::default()
                });
            }
        }
        found.push(template);
    }
    Ok(found)
}

/// Nodes of one replica, where there are several.
fn nodes_of(component: &Value) -> Option<u32> {
    let nodes = component.pointer("/multinode/nodeCount")?.as_u64()?;
    u32::try_from(nodes).ok().filter(|nodes| *nodes > 1)
}

/// What the operator adds to the command line of an engine that spans nodes
/// (`deploy/operator/internal/dynamo/backend_vllm.go` and `backend_sglang.go` of ai-dynamo/dynamo).
pub(super) fn over_nodes(spec: &Value, found: &mut [Template]) {
    for template in found {
        let path = template.path.to_string();
        let Some((nodes, template)) = component_of(spec, &path).and_then(nodes_of).zip(Some(template)) else {
            continue;
        };
        for container in &mut template.pod.spec.containers {
            let gpus = container.resources.limits.get("nvidia.com/gpu");
            let gpus = gpus.and_then(|gpus| gpus.0.parse::<u64>().ok()).unwrap_or(1);
            let mut words: Vec<String> = if let Some(made) = container.made.take() {
                made.commands.into_iter().next().unwrap_or_default()
            } else {
                let written = container.command.iter().chain(&container.args);
                written.flatten().cloned().collect()
            };
            let over =
                [("dynamo.vllm", false), ("dynamo.sglang", true)]
                    .into_iter()
                    .any(|(module, always)| {
                        let flags = flags(&words, nodes, gpus, always);
                        flags.is_some_and(|flags| insert(&mut words, module, &flags))
                    });
            if over || container.command.is_none() {
                container.made = Some(Made {
                    commands: vec![words],
                    by: "the Dynamo operator makes the command line".to_owned(),
                    ..Made::default()
                });
            }
        }
    }
}

/// The service or component that a template belongs to.
fn component_of<'v>(spec: &'v Value, path: &str) -> Option<&'v Value> {
    if let Some(rest) = path.strip_prefix("spec.components[") {
        let index: usize = rest.split(']').next()?.parse().ok()?;
        return spec.get("components")?.get(index);
    }
    match path.strip_prefix("spec.services.") {
        Some(name) => spec.get("services")?.get(name),
        None => Some(spec),
    }
}

/// Options for an engine whose ranks do not fit the `gpus` of one node: those of a node of many where its ranks are one
/// group, and the replicas of this node where they are several.
fn flags(words: &[String], nodes: u32, gpus: u64, always: bool) -> Option<String> {
    let spread = format!("--nnodes {nodes} --node-rank 0");
    if always {
        return Some(spread);
    }
    let written: Vec<&str> = words.iter().flat_map(|word| word.split_whitespace()).collect();
    let size = |name: &str| {
        let value = written.iter().enumerate().find_map(|(index, word)| {
            let rest = word.strip_prefix(name)?;
            match rest.strip_prefix('=') {
                Some(value) => Some(value),
                None if rest.is_empty() => written.get(index + 1).copied(),
                None => None,
            }
        });
        value
            .and_then(|value| value.parse::<u64>().ok())
            .unwrap_or(1)
            .max(1)
    };
    let ranks = size("--tensor-parallel-size").saturating_mul(size("--pipeline-parallel-size"));
    if ranks > gpus {
        return Some(format!("--distributed-executor-backend mp {spread}"));
    }
    let replicas = size("--data-parallel-size");
    (ranks.saturating_mul(replicas) > gpus).then(|| format!("--data-parallel-size-local {}", gpus / ranks))
}

/// Puts options behind the module of a command line or of a script; false where it starts another one.
fn insert(words: &mut Vec<String>, module: &str, flags: &str) -> bool {
    if let Some(at) = words.iter().position(|word| word == module) {
        let flags = flags.split(' ').map(str::to_owned);
        words.splice(at + 1..=at, flags);
        return true;
    }
    let script = words.iter_mut().find_map(|word| {
        let at = word.find(module)? + module.len();
        word[at..].starts_with(char::is_whitespace).then_some((word, at))
    });
    match script {
        Some((word, at)) => {
            word.insert_str(at, &format!(" {flags}"));
            true
        }
        None => false,
    }
}

/// `python3 components/main.py` in the folder of a back end is that back end's module.
fn launcher(line: &str, folder: &str) -> Option<String> {
    let backend = folder.rsplit_once("backends/")?.1.trim_end_matches('/');
    let module = ["vllm", "sglang", "trtllm"]
        .into_iter()
        .find(|module| *module == backend)?;
    let (before, after) = line.split_once("components/main.py")?;
    before
        .trim_start()
        .starts_with("python")
        .then(|| format!("{before}-m dynamo.{module}{after}"))
}

/// `gpu: "1"` of a service means the NVIDIA resource of its main container.
fn resources(service: &Value, main: &mut serde_json::Map<String, Value>) {
    for part in ["limits", "requests"] {
        let Some(count) = service
            .get("resources")
            .and_then(|resources| resources.get(part)?.get("gpu"))
        else {
            continue;
        };
        let resources = main.entry("resources").or_insert_with(|| json!({}));
        // A request without a limit is completed by the operator.
        for part in ["limits", part] {
            if let Some(list) = resources.as_object_mut() {
                let list = list.entry(part).or_insert_with(|| json!({}));
                if let Some(list) = list.as_object_mut() {
                    list.entry("nvidia.com/gpu").or_insert_with(|| count.clone());
                }
            }
        }
    }
}
