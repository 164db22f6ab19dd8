//! An LLMInferenceService: pods of one service, of its workers, and of its prefill part, on base configurations.

use serde_json::{Value, json};

use super::super::super::controller::{Malformed, ObjectRef};
use super::super::super::pod::Made;
use super::super::{Bases, Template, merge, template_at};
use crate::finding::FieldPath;

/// The container that serves the model.
const SERVER: &str = "main";

/// The templates. A part without one of its own is made by the base configurations of the controller.
pub(in super::super) fn templates(
    reference: &ObjectRef,
    own: &Value,
    bases: &Bases,
) -> Result<Vec<Template>, Malformed> {
    let spec = on_bases(reference, own, bases);
    let Some(model) = model(&spec) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    let path = FieldPath::new("spec");
    let mut parts = vec![(path.clone(), &spec, Some(own))];
    if let Some(prefill) = spec.get("prefill") {
        parts.push((path.field("prefill"), prefill, own.get("prefill")));
    }
    for (path, part, own) in parts {
        let replicas = count(part, "replicas").unwrap_or(1);
        let max = count(part, "maxReplicas");
        let line = line(&model, part);
        let empty = json!({"containers": [{"name": SERVER}]});
        let pod = part.get("template").unwrap_or(&empty);
        let own_pod = own.and_then(|own| own.get("template"));
        found.push(template(
            pod,
            own_pod,
            &path.field("template"),
            (replicas, max),
            &line,
        )?);
        if let Some(worker) = part.get("worker") {
            let workers = replicas.saturating_mul(group_size(part).saturating_sub(1).max(1));
            let own_pod = own.and_then(|own| own.get("worker"));
            found.push(template(
                worker,
                own_pod,
                &path.field("worker"),
                (workers, None),
                &line,
            )?);
        }
    }
    Ok(found)
}

/// The specification over those that `baseRefs` names, in their order.
fn on_bases(reference: &ObjectRef, own: &Value, bases: &Bases) -> Value {
    let names = own
        .get("baseRefs")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let names = names.filter_map(|base| base.get("name")?.as_str());
    let mut base = json!({});
    for configuration in names.filter_map(|name| bases.configuration(&reference.namespace, name)) {
        base = merge::merged(&base, configuration);
    }
    let mut spec = merge::merged(&base, own);
    let values = spec.clone();
    merge::fill(&mut spec, &|path| match path {
        "ObjectMeta.Name" | "Name" => Some(reference.name.clone()),
        "ObjectMeta.Namespace" | "Namespace" => Some(reference.namespace.clone()),
        _ => {
            let steps = path.strip_prefix("Spec.")?.split('.');
            let mut value = &values;
            for step in steps {
                let mut letters = step.chars();
                let first = letters.next()?.to_ascii_lowercase();
                value = value.get(first.to_string() + letters.as_str())?;
            }
            match value {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            }
        }
    });
    spec
}

/// What is given to the engine as its model; `None` where it would not be one plain word.
fn model(spec: &Value) -> Option<String> {
    let uri = spec.pointer("/model/uri").and_then(Value::as_str);
    let name = spec.pointer("/model/name").and_then(Value::as_str);
    let model = match uri {
        Some(uri) => uri.strip_prefix("hf://").unwrap_or(match name {
            Some(name) if uri.contains("://") => name,
            _ => uri,
        }),
        None => name?,
    };
    let plain = !model.is_empty() && !model.contains(['\'', '"', '\\', '$', '`', ' ', ';', '&', '|', '\n']);
    plain.then(|| model.to_owned())
}

fn count(part: &Value, name: &str) -> Option<u32> {
    let number = part.get(name)?.as_u64()?;
    Some(u32::try_from(number).unwrap_or(u32::MAX))
}

/// Pods of one group: pipeline stages, or data-parallel ranks over those of one pod.
fn group_size(part: &Value) -> u32 {
    let Some(sizes) = part.get("parallelism") else {
        return 1;
    };
    let size = |name: &str| count(sizes, name).unwrap_or(1).max(1);
    if size("pipeline") > 1 {
        size("pipeline")
    } else {
        size("data").div_ceil(size("dataLocal"))
    }
}

/// The line of the controller's own base configuration: vLLM with the object's model and parallelism, then
/// `VLLM_ADDITIONAL_ARGS`, then the container's own arguments.
fn line(model: &str, part: &Value) -> String {
    let mut line = vec![format!("exec vllm serve {model}")];
    for (field, option) in [
        ("tensor", "--tensor-parallel-size"),
        ("pipeline", "--pipeline-parallel-size"),
        ("data", "--data-parallel-size"),
        ("dataLocal", "--data-parallel-size-local"),
    ] {
        let size = part
            .get("parallelism")
            .and_then(|sizes| sizes.get(field)?.as_u64());
        line.extend(size.map(|size| format!("{option} {size}")));
    }
    line.push("${VLLM_ADDITIONAL_ARGS:-} $@".to_owned());
    line.join(" ")
}

fn template(
    pod: &Value,
    own: Option<&Value>,
    path: &FieldPath,
    (desired, max): (u32, Option<u32>),
    line: &str,
) -> Result<Template, Malformed> {
    let mut template = template_at(pod, None, path, desired, max)?;
    let command_of = |pod: &Value| {
        let containers = pod.get("containers")?.as_array()?;
        let server = containers
            .iter()
            .find(|container| container.get("name") == Some(&json!(SERVER)))?;
        let command = server.get("command")?;
        command
            .as_array()
            .is_some_and(|words| !words.is_empty())
            .then(|| command.clone())
    };
    if own.and_then(command_of).is_some() {
        return Ok(template);
    }
    // A base configuration's command counts where all of its template's actions are filled in.
    let of_base = command_of(pod).is_some_and(|command| !merge::is_open(&command));
    for container in &mut template.pod.spec.containers {
        if container.name != SERVER {
            continue;
        }
        let args = container.args.clone().unwrap_or_default();
        let command = if of_base {
            container.command.clone().unwrap_or_default()
        } else {
            ["/bin/bash", "-c", line, "--"]
                .iter()
                .map(|word| (*word).to_owned())
                .collect()
        };
        container.command = None;
        container.made = Some(Made {
            commands: vec![command.into_iter().chain(args).collect()],
            by: "the LLMInferenceServiceConfig of the cluster makes image and command line".to_owned(),
            ..Made::default()
        });
    }
    Ok(template)
}
