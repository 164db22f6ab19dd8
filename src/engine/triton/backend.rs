//! What the back ends of Triton take: the model's engine by its own rules, or whatever they can get.
//!
//! Sources: triton-inference-server/vllm_backend README (`model.json` holds vLLM's engine arguments; one engine for each
//! instance), triton-inference-server/tensorrtllm_backend `all_models/inflight_batcher_llm/tensorrt_llm/config.pbtxt`.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;

use super::repository::Model;
use crate::engine::reader::{Context, Reader};
use crate::engine::{Engine, MemoryKind, MemorySource, Origin, Reading, Resolvable, Unresolved, vllm};
use crate::invocation::{Command, Word};
use crate::units::Fraction;

/// The program that stands for the vLLM back end before vLLM's own reader.
pub(in crate::engine) const VLLM: &str = "triton-vllm-backend";

/// What a model adds to the server.
pub(super) enum Takes {
    /// Nothing of a device.
    Nothing,
    /// Whatever it can get, together with every other model of that kind; with the devices that its instances name.
    Anything(Option<BTreeSet<String>>),
    /// Engines of its own, one for each instance.
    Engines(Vec<Reading>),
}

/// What the model takes, or why that is not known.
pub(super) fn takes(
    context: &Context<'_>,
    command: &Command<'_>,
    model: &Model<'_>,
) -> Result<Takes, String> {
    let instances = model.instances()?;
    let backend = model.backend();
    let reading = match backend.as_str() {
        // It only leads from one model to the next.
        "ensemble" => return Ok(Takes::Nothing),
        "vllm" => vllm(context, command, model)?,
        "tensorrtllm" => tensorrt_llm(context, command, model),
        // The LLM API's own model of Python, with its options beside it.
        "python" if model.versioned("model.yaml").is_some() => llm_api(context, command, model)?,
        _ if instances.only_cpu => return Ok(Takes::Nothing),
        "" => return Err(format!("the model {} does not name its back end", model.name)),
        _ => return Ok(Takes::Anything(instances.devices)),
    };
    let count = usize::try_from(instances.count).unwrap_or(usize::MAX);
    if count > super::MOST_INSTANCES {
        return Err(format!(
            "the model {} has {count} instances, which is not followed",
            model.name
        ));
    }
    Ok(Takes::Engines(vec![reading; count]))
}

/// `model.json`: vLLM's engine arguments by their names in Python.
fn vllm(context: &Context<'_>, command: &Command<'_>, model: &Model<'_>) -> Result<Reading, String> {
    let name = &model.name;
    let text = model.versioned("model.json").ok_or_else(|| {
        format!("the model {name} has no model.json, in which its vLLM back end has its options")
    })?;
    let options: Value = serde_json::from_str(text)
        .map_err(|_| format!("model.json of the model {name} is not valid JSON"))?;
    let options = options
        .as_object()
        .ok_or_else(|| format!("model.json of the model {name} is no JSON object"))?;
    let mut words = vec![Word::literal(VLLM)];
    for (key, value) in options {
        let option = format!("--{}", key.replace('_', "-"));
        let text = match value {
            Value::Null | Value::Bool(false) => continue,
            Value::Bool(true) => option,
            Value::String(text) => format!("{option}={text}"),
            other => format!("{option}={other}"),
        };
        words.push(Word {
            text: Cow::Owned(text),
            ..Word::literal("")
        });
    }
    let started = Command {
        words,
        variables: command.variables.clone(),
        conditional: command.conditional,
        refused: command.refused.clone(),
        ..Command::default()
    };
    let mut reading = vllm::Vllm.read(context, &started, 1);
    reading.engine = Engine::Triton;
    reading.command = Some("tritonserver".to_owned());
    reading.fraction_edit = None;
    if reading.memory.source == MemorySource::Flag {
        reading.memory.source = MemorySource::ConfigFile;
    }
    reading.memory.path = context.path.clone();
    for one in &mut reading.provenance {
        if one.from == Origin::ConfigFile {
            one.detail = format!("the model {name}, {}", one.detail);
        }
    }
    Ok(reading)
}

/// A share of what is free after the weights; a value that a template still holds is not known.
fn of_free(context: &Context<'_>, command: &Command<'_>, stated: Option<&str>) -> Reading {
    let mut reading = context.blank(Engine::Triton, MemoryKind::OfFreeAfterWeights);
    reading.command = Some("tritonserver".to_owned());
    reading.dtype = Some("auto".to_owned());
    reading.kv_cache_dtype = Some("auto".to_owned());
    reading.memory.path = context.path.clone();
    match stated.map(str::trim).filter(|text| !text.is_empty()) {
        None => {
            reading.memory.value = Some("0.9".to_owned());
            reading.memory.source = MemorySource::Default;
        }
        Some(text) if text.contains("${") => {
            reading.memory.source = MemorySource::Unresolved;
            reading.unresolved.push(Unresolved {
                field: "kv_cache_free_gpu_mem_fraction".to_owned(),
                reason: "its place in config.pbtxt is not filled in".to_owned(),
                decides_memory: true,
            });
        }
        Some(text) => {
            reading.memory.value = Some(text.to_owned());
            reading.memory.source = MemorySource::ConfigFile;
        }
    }
    reading.memory.fraction = reading
        .memory
        .value
        .as_deref()
        .and_then(|text| Fraction::parse(text).ok());
    reading.parallelism.devices = context.slots().unwrap_or(1);
    context.finish(command, reading)
}

fn tensorrt_llm(context: &Context<'_>, command: &Command<'_>, model: &Model<'_>) -> Reading {
    let mut reading = of_free(
        context,
        command,
        model.parameter("kv_cache_free_gpu_mem_fraction"),
    );
    reading.model = model
        .parameter("gpt_model_path")
        .filter(|path| !path.contains("${"))
        .map(str::to_owned);
    reading.serving.max_total_tokens = model
        .parameter("max_tokens_in_paged_kv_cache")
        .and_then(|text| text.trim().parse().ok());
    reading
}

/// `model.yaml`: options of TensorRT-LLM's LLM API.
fn llm_api(context: &Context<'_>, command: &Command<'_>, model: &Model<'_>) -> Result<Reading, String> {
    let text = model.versioned("model.yaml").unwrap_or_default();
    let options: Value = serde_saphyr::from_str(text)
        .map_err(|_| format!("model.yaml of the model {} is not valid YAML", model.name))?;
    let word = |pointer: &str| match options.pointer(pointer)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let fraction = word("/kv_cache_config/free_gpu_memory_fraction");
    let mut reading = of_free(context, command, fraction.as_deref());
    reading.model = word("/model");
    let size = |key: &str| {
        word(key)
            .and_then(|text| text.parse::<u32>().ok())
            .filter(|size| *size > 0)
    };
    if let Some(tensor) = size("/tensor_parallel_size") {
        reading.parallelism.tensor = tensor;
        reading.parallelism.pipeline = size("/pipeline_parallel_size").unwrap_or(1);
        reading.parallelism.devices = tensor.saturating_mul(reading.parallelism.pipeline);
    }
    Ok(context.finish(command, reading))
}

/// All models that take whatever they can get are one process.
pub(super) fn anything(
    context: &Context<'_>,
    command: &Command<'_>,
    models: &[(String, Option<BTreeSet<String>>)],
) -> Reading {
    let mut reading = context.blank(Engine::Triton, MemoryKind::Uncapped);
    reading.command = Some("tritonserver".to_owned());
    reading.memory.source = MemorySource::EngineAuto;
    reading.memory.path = context.path.clone();
    let list: Vec<&str> = models.iter().map(|(name, _)| name.as_str()).collect();
    reading.model = Some(list.join(", "));
    reading.dtype = Some("auto".to_owned());
    reading.kv_cache_dtype = Some("auto".to_owned());
    // Without a list of devices an instance is put on each.
    let named: Option<BTreeSet<&String>> = models
        .iter()
        .map(|(_, devices)| devices.as_ref())
        .collect::<Option<Vec<_>>>()
        .map(|lists| lists.into_iter().flatten().collect());
    reading.parallelism.devices = match named {
        Some(named) => u32::try_from(named.len()).unwrap_or(u32::MAX).max(1),
        None => context.slots().unwrap_or(1),
    };
    context.finish(command, reading)
}

/// Models of which nothing is known.
pub(super) fn unknown(reading: &mut Reading, reason: &str) {
    reading.memory.kind = MemoryKind::Unknown;
    reading.memory.source = MemorySource::Unresolved;
    reading.resolvable = Resolvable::None;
    reading.unresolved.push(Unresolved {
        field: "argv".to_owned(),
        reason: format!(
            "what Triton's back ends take stands in the model repository, which is not read: {reason}"
        ),
        decides_memory: true,
    });
}
