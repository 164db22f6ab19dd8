//! KServe: the predictor of an InferenceService, with the runtime that serves it where that is known.

use serde_json::{Value, json};

use super::super::controller::{Malformed, ObjectRef};
use super::super::pod::Made;
use super::{Bases, Origin, Template, count, template_at};
use crate::finding::FieldPath;

mod joined;
pub(super) mod llm;
mod runtime;

/// Fields of a predictor that name a model: `model`, which says its format, or one called after a format.
pub const MODEL_FIELDS: &[&str] = &[
    "model",
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
    let own = FieldPath::new("spec");
    let path = own.field("predictor");
    let Some(predictor) = count::map(spec, &own, "predictor")? else {
        return Ok(Vec::new());
    };
    let Some((field, model)) = model(predictor, &path)? else {
        return Ok(Vec::new());
    };
    let model_at = path.field(field);
    let joined = runtime::joined(reference, object, predictor, (&model, &model_at), bases)?;
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
    let format = model.get("modelFormat").map(|format| text(format, "name"));
    let format = format.unwrap_or_default().to_ascii_lowercase();
    let runtime = text(&model, "runtime").to_ascii_lowercase();
    let start = start(&runtime, &format);
    let mut container = model.clone();
    container["name"] = json!("kserve-container");
    let mut pod = predictor.clone();
    pod["containers"] = json!([container]);
    let number = |name: &str| count::field(predictor, &path, name);
    let desired = number("minReplicas")?.unwrap_or(1);
    let mut template = template_at(&pod, None, &path, true, desired).map_err(|malformed| {
        let server = path.field("containers[0]").to_string();
        let below = malformed.path.strip_prefix(&server).map(str::to_owned);
        Malformed {
            path: below.map_or(malformed.path, |below| format!("{model_at}{below}")),
            message: malformed.message,
        }
    })?;
    template.max = number("maxReplicas")?;
    let server = FieldPath::new("spec").field("containers").index(0);
    template.layout.put(server, Origin::own(model_at.clone()));
    template
        .layout
        .opened_by("the serving runtime, which is not in the input, adds to its pods");
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
        let before = command.len();
        let args = container.args.clone().unwrap_or_default();
        let field = model_at.field("args");
        let origins = (0..args.len()).map(|index| ((0, before + index), Origin::own(field.index(index))));
        let origins = origins.collect();
        command.extend(args);
        if container.command.is_none() {
            container.made = Some(Made {
                origins,
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

/// What a runtime of this name starts, or the one that is chosen for this format where none is named; nothing where that
/// is not known.
fn start(runtime: &str, format: &str) -> &'static [&'static str] {
    if runtime.contains("vllm") || format == "vllm" {
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
    }
}

/// The model of a predictor and the field that holds it, also where its format is the name of the field.
fn model(predictor: &Value, at: &FieldPath) -> Result<Option<(&'static str, Value)>, Malformed> {
    for field in MODEL_FIELDS {
        let Some(model) = count::map(predictor, at, field)? else {
            continue;
        };
        let mut model = model.clone();
        if let Some(fields) = model.as_object_mut().filter(|_| *field != "model") {
            fields.insert("modelFormat".to_owned(), json!({"name": field}));
        }
        return Ok(Some((field, model)));
    }
    Ok(None)
}
