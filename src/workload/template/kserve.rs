//! KServe: the predictor of an InferenceService, with the runtime that serves it where that is known.

use serde_json::{Value, json};

use super::super::controller::{Malformed, ObjectRef};
use super::super::pod::Made;
use super::{Bases, Template, template_at};
use crate::finding::FieldPath;

pub(super) mod llm;
mod runtime;

/// Formats that a predictor may name as a field of its own, in the place of `model`.
const FORMATS: [&str; 10] = [
    "huggingface",
    "triton",
    "tensorflow",
    "pytorch",
    "onnx",
    "sklearn",
    "xgboost",
    "lightgbm",
    "pmml",
    "paddle",
];

/// An InferenceService whose predictor names a model and a runtime instead of containers.
pub(super) fn predictor(
    reference: &ObjectRef,
    object: &Value,
    spec: &Value,
    bases: &Bases,
) -> Result<Vec<Template>, Malformed> {
    let Some(predictor) = spec.get("predictor") else {
        return Ok(Vec::new());
    };
    let Some(model) = model(predictor) else {
        return Ok(Vec::new());
    };
    let joined = runtime::joined(reference, object, predictor, &model, bases)?;
    if !joined.is_empty() {
        return Ok(joined);
    }
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
    let runtime = text(&model, "runtime").to_ascii_lowercase();
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
    } else if runtime.contains("torchserve") || runtime.is_empty() && format == "pytorch" {
        &["torchserve", "--start", "--model-store=/mnt/models/model-store"]
    } else if runtime.contains("tensorflow") || runtime.is_empty() && format == "tensorflow" {
        &["tensorflow_model_server", "--model_base_path=/mnt/models"]
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
            command.push(format!("--model_name={}", reference.name));
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
                ..Made::default()
            });
        }
    }
    Ok(vec![template])
}

/// The model of a predictor, also where its format is the name of the field.
fn model(predictor: &Value) -> Option<Value> {
    if let Some(model) = predictor.get("model") {
        return Some(model.clone());
    }
    let (format, model) = FORMATS
        .into_iter()
        .find_map(|format| Some((format, predictor.get(format)?)))?;
    let mut model = model.clone();
    model
        .as_object_mut()?
        .insert("modelFormat".to_owned(), json!({"name": format}));
    Some(model)
}
