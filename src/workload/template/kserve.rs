//! KServe: the predictor of an InferenceService, and the base configuration of an LLMInferenceService.

use serde_json::{Value, json};

use super::super::controller::{Malformed, ObjectRef};
use super::super::pod::Made;
use super::{Template, template_at};
use crate::finding::FieldPath;

/// An InferenceService whose predictor names a model and a runtime instead of containers.
pub(super) fn predictor(object: &ObjectRef, spec: &Value) -> Result<Vec<Template>, Malformed> {
    let Some(predictor) = spec.get("predictor") else {
        return Ok(Vec::new());
    };
    let Some(model) = predictor.get("model") else {
        return Ok(Vec::new());
    };
    let text = |value: &Value, name: &str| {
        value
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let format = model
        .get("modelFormat")
        .map(|format| text(format, "name"))
        .unwrap_or_default()
        .to_ascii_lowercase();
    let runtime = text(model, "runtime").to_ascii_lowercase();
    let start: &[&str] = if runtime.contains("vllm") || format == "vllm" {
        &[
            "python3",
            "-m",
            "vllm.entrypoints.openai.api_server",
            "--model=/mnt/models",
        ]
    } else if runtime.contains("huggingface") || runtime.is_empty() && format == "huggingface" {
        &["python3", "-m", "huggingfaceserver"]
    } else if runtime.contains("triton") || format == "triton" || format == "tensorrt" {
        &["tritonserver", "--model-store=/mnt/models"]
    } else if runtime.contains("sglang") {
        &[
            "python3",
            "-m",
            "sglang.launch_server",
            "--model-path=/mnt/models",
        ]
    } else {
        &[]
    };
    let mut container = model.clone();
    container["name"] = json!("kserve-container");
    let mut pod = predictor.clone();
    pod["containers"] = json!([container]);
    let number = |name: &str| {
        predictor
            .get(name)
            .and_then(Value::as_u64)
            .map(|number| u32::try_from(number).unwrap_or(u32::MAX))
    };
    let path = FieldPath::new("spec").field("predictor");
    let desired = number("minReplicas").unwrap_or(1);
    let mut template = template_at(&pod, None, &path, desired, number("maxReplicas"))?;
    for container in &mut template.pod.spec.containers {
        let runtime = if runtime.is_empty() {
            "that serves the model's format"
        } else {
            &runtime
        };
        let mut command: Vec<String> = start.iter().map(|word| (*word).to_owned()).collect();
        if start.contains(&"huggingfaceserver") {
            command.push(format!("--model_name={}", object.name));
        }
        command.extend(container.args.clone().unwrap_or_default());
        if container.command.is_none() {
            container.made = Some(Made {
                commands: if start.is_empty() {
                    Vec::new()
                } else {
                    vec![command]
                },
                by: format!("the serving runtime {runtime} makes the command line"),
                doubtful: false,
            });
        }
    }
    Ok(vec![template])
}

/// The container `main` of an LLMInferenceService: the base configuration starts vLLM with the object's model and
/// parallelism, then `VLLM_ADDITIONAL_ARGS`, then the container's own arguments.
pub(super) fn complete(object: &Value, found: &mut [Template]) {
    let Some(spec) = object.get("spec") else { return };
    let uri = spec.pointer("/model/uri").and_then(Value::as_str);
    let name = spec.pointer("/model/name").and_then(Value::as_str);
    let model = match uri {
        Some(uri) => uri.strip_prefix("hf://").unwrap_or(match name {
            Some(name) if uri.contains("://") => name,
            _ => uri,
        }),
        None => name.unwrap_or_default(),
    };
    if model.is_empty() || model.contains(['\'', '"', '\\', '$', '`']) {
        return;
    }
    for template in found {
        let prefill = template.path.as_str().starts_with("spec.prefill");
        let part = if prefill { spec.get("prefill") } else { Some(spec) };
        let mut line = vec![format!("exec vllm serve {model}")];
        for (field, option) in [
            ("tensor", "--tensor-parallel-size"),
            ("pipeline", "--pipeline-parallel-size"),
            ("data", "--data-parallel-size"),
            ("dataLocal", "--data-parallel-size-local"),
        ] {
            let size = part.and_then(|part| part.get("parallelism")?.get(field)?.as_u64());
            line.extend(size.map(|size| format!("{option} {size}")));
        }
        line.push("${VLLM_ADDITIONAL_ARGS:-} $@".to_owned());
        let line = line.join(" ");
        for container in &mut template.pod.spec.containers {
            let own = container
                .command
                .as_ref()
                .is_some_and(|command| !command.is_empty());
            if container.name != "main" || own {
                continue;
            }
            let mut command: Vec<String> = ["/bin/bash", "-c", &line, "--"]
                .iter()
                .map(|word| (*word).to_owned())
                .collect();
            command.extend(container.args.clone().unwrap_or_default());
            container.made = Some(Made {
                commands: vec![command],
                by: "the LLMInferenceServiceConfig of the cluster makes image and command line".to_owned(),
                doubtful: false,
            });
        }
    }
}
