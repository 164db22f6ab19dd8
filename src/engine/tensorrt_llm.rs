//! TensorRT-LLM (`trtllm-serve`): a fraction of what is free once the weights are loaded.

use std::borrow::Cow;

use serde_json::Value;

use super::image::Image;
use super::plain::{self, Options};
use super::reader::{Context, Reader};
use super::{Engine, MemoryKind, MemorySource, Parallelism, Reading, Starts, Unresolved};
use crate::invocation::prefix::Program;
use crate::invocation::{Command, Word};

mod provenance;
mod serving;

/// The reader of `trtllm-serve`.
pub(super) struct TensorRtLlm;

impl Reader for TensorRtLlm {
    fn engine(&self) -> Engine {
        Engine::TensorRtLlm
    }

    fn entrypoint(&self, image: &Image<'_>) -> Option<Vec<Cow<'static, str>>> {
        (image.name().starts_with("tensorrt-llm") || image.name().starts_with("trtllm")).then(Vec::new)
    }

    fn runs(&self, program: Program<'_>, _words: &[Word<'_>]) -> bool {
        matches!(
            program,
            Program::Binary("trtllm-serve" | "trtllm-llmapi-launch") | Program::Module("dynamo.trtllm")
        )
    }

    fn read(&self, context: &Context<'_>, command: &Command<'_>, first: usize) -> Reading {
        let mut words = command.words.get(first..).unwrap_or_default();
        if words.first().is_some_and(|word| word.text == "trtllm-serve") {
            words = &words[1..];
        }
        if words.first().is_some_and(|word| word.text == "serve") {
            words = &words[1..];
        }
        let mut reading = context.blank(Engine::TensorRtLlm, MemoryKind::OfFreeAfterWeights);
        reading.command = Some("serve".to_owned());
        reading.memory.value = Some("0.9".to_owned());
        let names = [
            "--free_gpu_memory_fraction",
            "--kv_cache_free_gpu_memory_fraction",
            "--free-gpu-memory-fraction",
        ];
        if let Some(text) = reading.option(words, &names) {
            reading.memory.value = Some(text);
            reading.memory.source = MemorySource::Flag;
        } else if let Some(Ok(text)) = context.variable(command, "DYN_TRTLLM_FREE_GPU_MEMORY_FRACTION") {
            reading.memory.value = Some(text);
            reading.memory.source = MemorySource::Env;
        }
        let mut options = Value::Null;
        // The file wins over the command line.
        let files = [
            "--extra_llm_api_options",
            "--config",
            "--extra-engine-args",
            "--extra_engine_args",
        ];
        if let Some(file) = reading.option(words, &files) {
            match context.file(&file) {
                Ok(text) => {
                    if let Ok(map) = serde_saphyr::from_str(text) {
                        options = map;
                    } else {
                        reading.serving.open = true;
                        let reason = format!("the file {file} is not valid YAML");
                        plain::note(&mut reading, "config", reason);
                    }
                    if let Some(fraction) = word(&options, "/kv_cache_config/free_gpu_memory_fraction") {
                        reading.memory.value = Some(fraction);
                        reading.memory.source = MemorySource::ConfigFile;
                    }
                }
                Err(reason) => {
                    reading.serving.open = true;
                    reading.starts = Starts::Unknown;
                    reading.memory.value = None;
                    reading.memory.source = MemorySource::Unresolved;
                    reading.unresolved.push(Unresolved {
                        field: "kv_cache_config.free_gpu_memory_fraction".to_owned(),
                        reason: format!("the file {file}: {reason}"),
                        decides_memory: true,
                    });
                }
            }
        }
        reading.model = reading.option(words, &["--model-path", "--model"]).or_else(|| {
            words
                .first()
                .filter(|word| !word.text.starts_with('-'))
                .map(|word| word.text.clone().into_owned())
        });
        reading.parallelism = parallelism(context, words, &options, &mut reading);
        let on_line = reading.option(words, &["--max_seq_len", "--max-seq-len"]);
        reading.max_model_len = word(&options, "/max_seq_len")
            .or(on_line)
            .and_then(|text| text.parse().ok());
        reading.dtype = word(&options, "/dtype").or_else(|| Some("auto".to_owned()));
        reading.kv_cache_dtype = word(&options, "/kv_cache_config/dtype").or_else(|| Some("auto".to_owned()));
        let on_line = Options {
            context,
            command,
            words,
        };
        serving::of(on_line, &options, &mut reading);
        provenance::add(on_line, &files, &options, &mut reading);
        reading.findings.extend(context.floating_image());
        context.finish(command, reading)
    }
}

/// Parallel sizes, of the file before those of the command line.
fn parallelism(
    context: &Context<'_>,
    words: &[Word<'_>],
    options: &Value,
    reading: &mut Reading,
) -> Parallelism {
    let size = |reading: &mut Reading, key: &str, names: &[&str]| {
        let number = |text: String| text.parse::<u32>().ok().filter(|number| *number > 0);
        let on_line = reading.count(words, names);
        word(options, key).and_then(number).or(on_line).unwrap_or(1)
    };
    let tensor = size(
        reading,
        "/tensor_parallel_size",
        &["--tp_size", "--tensor_parallel_size", "--tensor-parallel-size"],
    );
    let pipeline = size(
        reading,
        "/pipeline_parallel_size",
        &[
            "--pp_size",
            "--pipeline_parallel_size",
            "--pipeline-parallel-size",
        ],
    );
    let context_parallel = size(
        reading,
        "/context_parallel_size",
        &["--cp_size", "--context_parallel_size"],
    );
    let world = tensor.saturating_mul(pipeline).saturating_mul(context_parallel);
    // Of a world over several nodes this pod has its own devices.
    let devices = match (context.slots(), spans_nodes(context)) {
        (Some(slots), true) => world.min(slots),
        _ => world,
    };
    Parallelism {
        tensor,
        pipeline,
        devices,
        ..Parallelism::default()
    }
}

/// A value of the options' file as one word.
fn word(options: &Value, pointer: &str) -> Option<String> {
    match options.pointer(pointer)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Whether MPI starts ranks on other nodes as well.
fn spans_nodes(context: &Context<'_>) -> bool {
    let mpi = |text: &str| text.contains("trtllm-llmapi-launch") || text.contains("mpirun");
    let container = context.placed.container;
    container
        .command
        .iter()
        .chain(&container.args)
        .flatten()
        .any(|text| mpi(text))
}
