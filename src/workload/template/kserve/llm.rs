//! An LLMInferenceService: pods of one service, of its workers, and of its prefill part, on base configurations.

use serde_json::{Value, json};

use super::super::super::controller::{Malformed, ObjectRef};
use super::super::super::pod::Made;
use super::super::{Bases, Origin, Template, count, merge, template_at};
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
        let replicas = count::field(part, &path, "replicas")?.unwrap_or(1);
        let max = count::field(part, &path, "maxReplicas")?;
        let sizes = Sizes::of(part, &path)?;
        let line = Line {
            text: line(&model, &sizes),
            options: options(&path),
        };
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
            let workers = replicas.saturating_mul(sizes.group().saturating_sub(1).max(1));
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

/// Sizes under `parallelism`.
struct Sizes {
    tensor: Option<u32>,
    pipeline: Option<u32>,
    data: Option<u32>,
    data_local: Option<u32>,
}

/// Fields under `parallelism`, each with vLLM's option.
const OPTIONS: [(&str, &str); 4] = [
    ("tensor", "--tensor-parallel-size"),
    ("pipeline", "--pipeline-parallel-size"),
    ("data", "--data-parallel-size"),
    ("dataLocal", "--data-parallel-size-local"),
];

impl Sizes {
    fn of(part: &Value, path: &FieldPath) -> Result<Self, Malformed> {
        let at = path.field("parallelism");
        let sizes = count::map(part, path, "parallelism")?.unwrap_or(&Value::Null);
        let size = |name: &str| count::field(sizes, &at, name);
        Ok(Self {
            tensor: size("tensor")?,
            pipeline: size("pipeline")?,
            data: size("data")?,
            data_local: size("dataLocal")?,
        })
    }

    /// Pods of one group: pipeline stages, or data-parallel ranks over those of one pod.
    fn group(&self) -> u32 {
        let or_one = |size: Option<u32>| size.unwrap_or(1).max(1);
        if or_one(self.pipeline) > 1 {
            or_one(self.pipeline)
        } else {
            or_one(self.data).div_ceil(or_one(self.data_local))
        }
    }
}

/// A line that the controller makes, and the fields that its options come from.
struct Line {
    text: String,
    options: Vec<(&'static str, Origin)>,
}

fn options(part: &FieldPath) -> Vec<(&'static str, Origin)> {
    let own = |path: FieldPath| Origin::own(path);
    let sizes = OPTIONS.map(|(field, option)| (option, own(part.field("parallelism").field(field))));
    let model = FieldPath::new("spec").field("model");
    sizes.into_iter().chain([("model", own(model))]).collect()
}

/// The line of the controller's own base configuration: vLLM with the object's model and parallelism, then
/// `VLLM_ADDITIONAL_ARGS`, then the container's own arguments.
fn line(model: &str, sizes: &Sizes) -> String {
    let mut line = vec![format!("exec vllm serve {model}")];
    let sizes = [sizes.tensor, sizes.pipeline, sizes.data, sizes.data_local];
    for ((_, option), size) in OPTIONS.iter().zip(sizes) {
        line.extend(size.map(|size| format!("{option} {size}")));
    }
    line.push("${VLLM_ADDITIONAL_ARGS:-} $@".to_owned());
    line.join(" ")
}

fn server(pod: &Value) -> Option<&Value> {
    let containers = pod.get("containers")?.as_array()?;
    containers
        .iter()
        .find(|container| container.get("name") == Some(&json!(SERVER)))
}

fn template(
    pod: &Value,
    own: Option<&Value>,
    path: &FieldPath,
    (desired, max): (u32, Option<u32>),
    line: &Line,
) -> Result<Template, Malformed> {
    let mut template = template_at(pod, None, path, true, desired)?;
    template.max = max;
    template
        .layout
        .opened_by("the LLMInferenceServiceConfig of the cluster adds to its pods");
    let command_of = |pod: &Value| {
        let command = server(pod)?.get("command")?;
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
    for (at, container) in template.pod.spec.containers.iter_mut().enumerate() {
        if container.name != SERVER {
            continue;
        }
        let args = container.args.clone().unwrap_or_default();
        let command = if of_base {
            container.command.clone().unwrap_or_default()
        } else {
            ["/bin/bash", "-c", line.text.as_str(), "--"]
                .iter()
                .map(|word| (*word).to_owned())
                .collect()
        };
        container.command = None;
        // Arguments of the object follow the controller's line; those of a base configuration stand there.
        let before = command.len();
        let is_own = own.and_then(|pod| server(pod)?.get("args")).is_some();
        let field = path.field("containers").index(at).field("args");
        let origins = (0..args.len())
            .filter(|_| is_own)
            .map(|index| ((0, before + index), Origin::own(field.index(index))));
        container.made = Some(Made {
            origins: origins.collect(),
            options: line.options.clone(),
            commands: vec![command.into_iter().chain(args).collect()],
            by: "the LLMInferenceServiceConfig of the cluster makes image and command line".to_owned(),
            ..Made::default()
        });
    }
    Ok(template)
}
