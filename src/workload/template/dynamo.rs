//! NVIDIA Dynamo: a graph of services, each with a main container and its resources in the operator's shorthand.

use serde_json::{Value, json};

use super::super::controller::Malformed;
use super::super::pod::Made;
use super::{Template, template_at};
use crate::finding::FieldPath;

pub(super) fn templates(spec: &Value) -> Result<Vec<Template>, Malformed> {
    let mut found = components(spec)?;
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
        environment(spec.get("envs"), service.get("envs"), fields);
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
        let mut template = template_at(&pod, None, &path, pods(service), None)?;
        if let Some(main) = template.pod.spec.containers.last_mut() {
            main.spread_over = nodes(service);
            let command = main.command.clone().unwrap_or_default();
            let args = main.args.clone().unwrap_or_default();
            let by = "the Dynamo operator makes the command line".to_owned();
            if command.is_empty() && args.is_empty() && is_frontend {
                main.made = Some(frontend());
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

/// From `v1beta1` on each component holds the template of its pods, whose container `main` the operator completes.
fn components(spec: &Value) -> Result<Vec<Template>, Malformed> {
    let mut found = Vec::new();
    let components = spec.get("components").and_then(Value::as_array);
    for (index, component) in components.into_iter().flatten().enumerate() {
        let Some(template) = component.get("podTemplate") else {
            continue;
        };
        let path = FieldPath::new("spec")
            .field("components")
            .index(index)
            .field("podTemplate");
        let mut pod = template.get("spec").cloned().unwrap_or_else(|| json!({}));
        let containers = pod.get_mut("containers").and_then(Value::as_array_mut);
        for main in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            if main.get("name").and_then(Value::as_str) == Some("main") {
                environment(spec.get("env"), component.get("env"), main);
            }
        }
        let mut template = template_at(&pod, template.get("metadata"), &path, pods(component), None)?;
        let is_frontend = component.get("type").and_then(Value::as_str) == Some("frontend");
        for main in &mut template.pod.spec.containers {
            if main.name != "main" {
                continue;
            }
            main.spread_over = nodes(component);
            if is_frontend && main.command.is_none() && main.args.is_none() {
                main.made = Some(frontend());
            }
        }
        found.push(template);
    }
    Ok(found)
}

/// What the operator gives a front end without a command.
fn frontend() -> Made {
    let words = ["python3", "-m", "dynamo.frontend"];
    Made {
        commands: vec![words.into_iter().map(str::to_owned).collect()],
        by: "the Dynamo operator makes the command line".to_owned(),
        ..Made::default()
    }
}

/// Nodes over which the ranks of a service are spread, a pod on each.
fn nodes(service: &Value) -> u32 {
    let nodes = service.pointer("/multinode/nodeCount").and_then(Value::as_u64);
    nodes.map_or(0, |nodes| u32::try_from(nodes).unwrap_or(u32::MAX))
}

/// Pods of a service in the steady state.
fn pods(service: &Value) -> u32 {
    let replicas = service.get("replicas").and_then(Value::as_u64).unwrap_or(1);
    let replicas = u32::try_from(replicas).unwrap_or(u32::MAX);
    replicas.saturating_mul(nodes(service).max(1))
}

/// Variables of the graph, then those of the service, stand before the container's own of the same name.
fn environment(graph: Option<&Value>, service: Option<&Value>, main: &mut serde_json::Map<String, Value>) {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let outer: Vec<Value> = list(graph).into_iter().chain(list(service)).collect();
    if outer.is_empty() {
        return;
    }
    let own = list(main.get("env"));
    main.insert("env".to_owned(), outer.into_iter().chain(own).collect());
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
