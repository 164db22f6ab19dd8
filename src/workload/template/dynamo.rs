//! NVIDIA Dynamo: a graph of services, each with a main container and its resources in the operator's shorthand.

use serde_json::{Value, json};

use super::super::controller::Malformed;
use super::super::pod::Made;
use super::{Origin, Template, count, template_at};
use crate::finding::FieldPath;

pub(super) fn templates(spec: &Value) -> Result<Vec<Template>, Malformed> {
    let mut found = Vec::new();
    let own = FieldPath::new("spec");
    let services = count::map(spec, &own, "services")?.and_then(Value::as_object);
    for (name, service) in services.into_iter().flatten() {
        let path = own.field("services").field(name);
        if !service.is_object() {
            return Err(count::wrong(&path, service, "an object"));
        }
        let pod = count::map(service, &path, "extraPodSpec")?.cloned();
        let mut pod = pod.unwrap_or_else(|| json!({}));
        let pod_at = path.field("extraPodSpec");
        let main = count::map(&pod, &pod_at, "mainContainer")?.cloned();
        let mut main = main.unwrap_or_else(|| json!({}));
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
        let list = count::list(&pod, &pod_at, "containers")?.to_vec();
        let at = FieldPath::new("spec").field("containers").index(list.len());
        pod["containers"] = list.into_iter().chain([main]).collect();
        let desired = count::field(service, &path, "replicas")?.unwrap_or(1);
        let mut template = template_at(&pod, None, &pod_at, true, desired)?;
        template.path = path.clone();
        let main_at = pod_at.field("mainContainer");
        template.layout.put(at.clone(), Origin::own(main_at.clone()));
        if main_env_is_added(service, &pod) {
            template
                .layout
                .put(at.field("env"), Origin::own(path.field("envs")));
        }
        template.layout.opened_by("the Dynamo operator adds to its pods");
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
                    origins: [((0, 2), Origin::own(main_at.field("args")))].into(),
                    ..Made::default()
                });
            }
        }
        found.push(template);
    }
    Ok(found)
}

/// Whether the variables of the main container are those of the service.
fn main_env_is_added(service: &Value, pod: &Value) -> bool {
    service.get("envs").is_some() && pod.pointer("/mainContainer/env").is_none()
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
