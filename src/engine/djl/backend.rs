//! The engine inside, and the options that it is given.

use std::borrow::Cow;

use super::settings::{Setting, Settings, Source};
use super::{provenance, unknown};
use crate::engine::reader::{Context, Reader};
use crate::engine::vllm::{self, wrapper};
use crate::engine::{
    Engine, MemoryKind, MemorySource, Parallelism, Reading, Resolvable, Unresolved, Version,
};
use crate::invocation::{Certainty, Command, Item, Word};
use crate::units::Fraction;

/// Copies of one model that are read.
const MOST_COPIES: u32 = 16;

/// Names that DJL has for options of vLLM (`vllm_rb_properties.py`).
const RENAMED: [(&str, &str); 7] = [
    ("model_id", "--model"),
    ("tensor_parallel_degree", "--tensor-parallel-size"),
    ("pipeline_parallel_degree", "--pipeline-parallel-size"),
    ("max_rolling_batch_size", "--max-num-seqs"),
    ("max_rolling_batch_prefill_tokens", "--max-num-batched-tokens"),
    ("quantize", "--quantization"),
    ("cpu_offload_gb_per_gpu", "--cpu-offload-gb"),
];

/// What serves the model.
enum Inside {
    Vllm,
    TensorRtLlm,
    /// Transformers without a cache of a stated size.
    Transformers,
}

/// A reading for each copy of the model.
pub(super) fn readings(context: &Context<'_>, command: &Command<'_>, settings: &Settings) -> Vec<Reading> {
    // Without any option the file decides everything.
    if let (Some(reason), true) = (&settings.unread, settings.text("model_id").is_none()) {
        return vec![unknown(context, command, reason.clone())];
    }
    let sizes = match Sizes::of(context, settings) {
        Ok(sizes) => sizes,
        Err(reason) => return vec![unknown(context, command, reason)],
    };
    let mut reading = match inside(context, settings) {
        Ok(Inside::Vllm) => vllm(context, command, settings, &sizes),
        Ok(Inside::TensorRtLlm) => tensor_rt_llm(context, settings, &sizes),
        Ok(Inside::Transformers) => transformers(context, settings, &sizes),
        Err(reason) => return vec![unknown(context, command, reason)],
    };
    reading.command = Some("djl-serving".to_owned());
    reading.without_edits();
    provenance::add(context, settings, &mut reading);
    if let Some(reason) = &settings.unread {
        reading.unresolved.push(Unresolved {
            field: "serving.properties".to_owned(),
            reason: reason.clone(),
            decides_memory: false,
        });
        reading.resolvable = Resolvable::Partial;
    }
    if reading.engine != Engine::Vllm {
        reading.findings.extend(context.floating_image());
        reading = context.finish(command, reading);
    }
    let copies = usize::try_from(sizes.copies).unwrap_or(1);
    let mut readings = vec![reading; copies];
    // Of the copies the first tells what is found.
    for copy in readings.iter_mut().skip(1) {
        copy.findings.clear();
    }
    readings
}

/// Degrees of parallelism, and how often the model is loaded.
struct Sizes {
    tensor: u32,
    pipeline: u32,
    copies: u32,
}

impl Sizes {
    /// Without a degree the model lies on every device; with one it is loaded as often as there is room for.
    fn of(context: &Context<'_>, settings: &Settings) -> Result<Self, String> {
        let slots = context.slots().unwrap_or(1);
        let degree = |name: &str| match (settings.text(name), settings.reason(name)) {
            (Some(text), _) => match text.trim() {
                "" | "max" => Ok(None),
                number => match number.parse::<u32>() {
                    Ok(number) if number > 0 => Ok(Some(number)),
                    _ => Err(format!(
                        "{name} is {number:.20}, which is neither max nor a number from 1 on"
                    )),
                },
            },
            (None, Some(reason)) => Err(format!("{name}: {reason}")),
            (None, None) => Ok(None),
        };
        let pipeline = degree("pipeline_parallel_degree")?.unwrap_or(1);
        let stated = degree("tensor_parallel_degree")?;
        let tensor = stated.unwrap_or((slots / pipeline).max(1));
        let room = slots / tensor.saturating_mul(pipeline).max(1);
        let most = degree("maxworkers").ok().flatten().unwrap_or(MOST_COPIES);
        Ok(Self {
            tensor,
            pipeline,
            copies: room.min(most).clamp(1, MOST_COPIES),
        })
    }

    fn parallelism(&self) -> Parallelism {
        Parallelism {
            tensor: self.tensor,
            pipeline: self.pipeline,
            devices: self.tensor.saturating_mul(self.pipeline),
            ..Parallelism::default()
        }
    }
}

/// Which engine it is, or why that is not known.
fn inside(context: &Context<'_>, settings: &Settings) -> Result<Inside, String> {
    for name in ["engine", "entrypoint", "rolling_batch", "async_mode"] {
        if let Some(reason) = settings.reason(name) {
            return Err(format!("{name} decides which engine runs: {reason}"));
        }
    }
    let lower = |name: &str| settings.text(name).map(|text| text.trim().to_ascii_lowercase());
    match lower("engine").as_deref() {
        None | Some("" | "python" | "mpi") => {}
        Some("pytorch" | "deepspeed" | "fastertransformer") => return Ok(Inside::Transformers),
        Some(other) => return Err(format!("the engine {other:.40} of DJL is none that is known")),
    }
    if let Some(handler) = lower("entrypoint") {
        if handler.contains("lmi_vllm") {
            return Ok(Inside::Vllm);
        } else if handler.contains("tensorrt_llm") {
            return Ok(Inside::TensorRtLlm);
        } else if handler.contains("deepspeed")
            || handler.contains("stable_diffusion")
            || handler.contains("stable-diffusion")
        {
            return Ok(Inside::Transformers);
        } else if !handler.contains("huggingface") {
            return Err(format!("the handler {handler:.60} is none that is known"));
        }
    }
    let is_asynchronous = lower("async_mode").is_some_and(|mode| mode == "true");
    match lower("rolling_batch").as_deref() {
        Some("vllm" | "lmi-dist") => Ok(Inside::Vllm),
        Some("trtllm") => Ok(Inside::TensorRtLlm),
        Some("disable" | "false") if is_asynchronous => by_image(context),
        Some("disable" | "false" | "scheduler") => Ok(Inside::Transformers),
        None | Some("" | "auto" | "true") => by_image(context),
        Some(other) => Err(format!("the rolling batch {other:.40} is none that is known")),
    }
}

/// What the image holds: its tag says so.
fn by_image(context: &Context<'_>) -> Result<Inside, String> {
    let tag = context.image.tag.unwrap_or_default().to_ascii_lowercase();
    let has = |part: &str| tag.contains(part);
    if has("tensorrt") || has("trtllm") {
        Ok(Inside::TensorRtLlm)
    } else if has("lmi") || has("deepspeed") {
        Ok(Inside::Vllm)
    } else {
        Err("the image does not say which engine it holds".to_owned())
    }
}

fn vllm(context: &Context<'_>, command: &Command<'_>, settings: &Settings, sizes: &Sizes) -> Reading {
    let mut words = vec![Word::literal(wrapper::DJL)];
    for (name, setting) in &settings.options {
        words.extend(word(name, setting, sizes));
    }
    if !settings.options.contains_key("tensor_parallel_degree") {
        words.push(Word {
            text: Cow::Owned(format!("--tensor-parallel-size={}", sizes.tensor)),
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
    if reading.memory.source == MemorySource::Flag
        && let Some(setting) = settings.options.get("gpu_memory_utilization")
    {
        (reading.memory.source, reading.memory.path) = place(context, setting);
    }
    reading
}

/// The word of vLLM's command line that an option becomes; none for what is DJL's own.
fn word<'w>(name: &str, setting: &Setting, sizes: &Sizes) -> Option<Word<'w>> {
    let renamed = RENAMED.iter().find(|(own, _)| *own == name);
    let option = match renamed {
        Some((_, option)) => (*option).to_owned(),
        None => wrapper::option_called(name)?,
    };
    let item = match setting.source {
        Source::Variable(index) => Item::Variable(index),
        Source::File | Source::Script => Item::Elsewhere,
    };
    let text = match &setting.value {
        Ok(value) if wrapper::is_flag(&option) => match value.trim().to_ascii_lowercase().as_str() {
            "true" => option,
            _ => return None,
        },
        Ok(value) => {
            let value = match (name, value.trim()) {
                ("tensor_parallel_degree", "max" | "") => sizes.tensor.to_string(),
                ("dtype", "fp16") => "float16".to_owned(),
                ("dtype", "bf16") => "bfloat16".to_owned(),
                ("dtype", "fp32") => "float32".to_owned(),
                (_, value) => value.to_owned(),
            };
            format!("{option}={value}")
        }
        Err(reason) => {
            let known = option.len() + 1;
            return Some(Word {
                text: Cow::Owned(format!("{option}=")),
                certainty: Certainty::From(known),
                reason: Some(Cow::Owned(reason.clone())),
                item,
                ..Word::literal("")
            });
        }
    };
    Some(Word {
        text: Cow::Owned(text),
        item,
        ..Word::literal("")
    })
}

/// Where an option stands, for its request.
fn place(context: &Context<'_>, setting: &Setting) -> (MemorySource, crate::finding::FieldPath) {
    match setting.source {
        Source::File => (MemorySource::ConfigFile, context.path.clone()),
        Source::Script => (MemorySource::Env, context.path.clone()),
        Source::Variable(index) => (MemorySource::Env, context.path_of_variable(index)),
    }
}

/// A value of the model as text; what is not known is noted.
fn text(reading: &mut Reading, settings: &Settings, name: &str) -> Option<String> {
    if let Some(reason) = settings.reason(name) {
        reading.unresolved.push(Unresolved {
            field: name.to_owned(),
            reason: reason.to_owned(),
            decides_memory: false,
        });
    }
    settings.text(name).map(|text| text.trim().to_owned())
}

/// Its share is one of what is free after the weights: 0.95 in the own runtime of older images, 0.9 of the LLM API's
/// from 0.33 on; of an unknown release the larger.
fn tensor_rt_llm(context: &Context<'_>, settings: &Settings, sizes: &Sizes) -> Reading {
    let mut reading = context.blank(Engine::TensorRtLlm, MemoryKind::OfFreeAfterWeights);
    let is_new = context
        .image
        .version()
        .is_some_and(|version| version >= Version::new(0, 33, 0));
    let names = ["free_gpu_memory_fraction", "kv_cache_free_gpu_mem_fraction"];
    let stated = names.into_iter().find_map(|name| settings.options.get(name));
    match stated {
        None => reading.memory.value = Some(if is_new { "0.9" } else { "0.95" }.to_owned()),
        Some(setting) => {
            (reading.memory.source, reading.memory.path) = place(context, setting);
            match &setting.value {
                Ok(value) => reading.memory.value = Some(value.clone()),
                Err(reason) => {
                    reading.memory.source = MemorySource::Unresolved;
                    reading.unresolved.push(Unresolved {
                        field: names[0].to_owned(),
                        reason: reason.clone(),
                        decides_memory: true,
                    });
                }
            }
        }
    }
    reading.memory.fraction = reading
        .memory
        .value
        .as_deref()
        .and_then(|text| Fraction::parse(text).ok());
    common(&mut reading, settings, sizes);
    reading.max_model_len = text(&mut reading, settings, "max_seq_len").and_then(|text| text.parse().ok());
    reading.quantization = text(&mut reading, settings, "quantize");
    reading.serving.max_num_batched_tokens =
        text(&mut reading, settings, "max_num_tokens").and_then(|text| text.parse().ok());
    reading
}

fn transformers(context: &Context<'_>, settings: &Settings, sizes: &Sizes) -> Reading {
    let mut reading = context.blank(Engine::Pytorch, MemoryKind::Uncapped);
    reading.memory.source = MemorySource::EngineAuto;
    common(&mut reading, settings, sizes);
    reading.quantization = text(&mut reading, settings, "quantize");
    reading
}

fn common(reading: &mut Reading, settings: &Settings, sizes: &Sizes) {
    reading.model = text(reading, settings, "model_id");
    reading.dtype = Some(text(reading, settings, "dtype").unwrap_or_else(|| "auto".to_owned()));
    reading.kv_cache_dtype =
        Some(text(reading, settings, "kv_cache_dtype").unwrap_or_else(|| "auto".to_owned()));
    reading.serving.max_num_seqs =
        text(reading, settings, "max_rolling_batch_size").and_then(|text| text.parse().ok());
    reading.parallelism = sizes.parallelism();
}
