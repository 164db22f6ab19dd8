//! TensorRT-LLM (`trtllm-serve`): a fraction of what is free once the weights are loaded.

use std::borrow::Cow;

use serde_json::Value;

use super::image::Image;
use super::plain::{self, Options};
use super::provenance::file;
use super::reader::{Context, Reader};
use super::{Engine, MemoryKind, MemorySource, Parallelism, Reading, Starts, Unresolved};
use crate::invocation::prefix::Program;
use crate::invocation::{Certainty, Command, Word};

mod provenance;
mod serving;

/// Options without a value (`tensorrt_llm/commands/serve.py`).
const FLAGS: &[&str] = &[
    "--trust_remote_code",
    "--enable_chunked_prefill",
    "--enable_attention_dp",
    "--fail_fast_on_attention_window_too_large",
    "--enable_metrics",
    "--no-telemetry",
];

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
        let meant = plain::meant(command.words.get(first..).unwrap_or_default());
        let mut words = &*meant;
        if words.first().is_some_and(|word| word.text == "trtllm-serve") {
            words = &words[1..];
        }
        if words.first().is_some_and(|word| word.text == "serve") {
            words = &words[1..];
        }
        // It leads requests to servers that run elsewhere.
        if words.first().is_some_and(|word| word.text == "disaggregated") {
            let mut reading = context.blank(Engine::None, MemoryKind::None);
            reading.command = Some("disaggregated".to_owned());
            reading.parallelism.devices = 0;
            return context.finish(command, reading);
        }
        let on_line = Options {
            context,
            command,
            words,
        };
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
        if let Some(file) = on_line
            .text(&mut reading, &files, "DYN_TRTLLM_EXTRA_ENGINE_ARGS")
            .filter(|file| !file.is_empty())
        {
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
                        let keys = ("kv_cache_config", "free_gpu_memory_fraction");
                        reading.memory.value = Some(file::as_written(text, keys, &fraction));
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
        overridden(on_line, &mut options, &mut reading);
        let stated = on_line.text(&mut reading, &["--model-path", "--model"], "DYN_TRTLLM_MODEL");
        reading.model = stated.or_else(|| {
            let word = plain::positional(words, FLAGS)?;
            (word.certainty == Certainty::Known).then(|| word.text.clone().into_owned())
        });
        reading.parallelism = parallelism(on_line, &options, &mut reading);
        let length = on_line.text(
            &mut reading,
            &["--max_seq_len", "--max-seq-len"],
            "DYN_TRTLLM_MAX_SEQ_LEN",
        );
        reading.max_model_len = word(&options, "/max_seq_len")
            .or(length)
            .and_then(|text| text.parse().ok());
        reading.dtype = word(&options, "/dtype").or_else(|| Some("auto".to_owned()));
        reading.kv_cache_dtype = word(&options, "/kv_cache_config/dtype").or_else(|| Some("auto".to_owned()));
        serving::of(on_line, &options, &mut reading);
        provenance::add(on_line, &files, &options, &mut reading);
        plain::tell_split(context, matches!(meant, Cow::Owned(_)), &mut reading);
        reading.findings.extend(context.floating_image());
        context.finish(command, reading)
    }
}

/// `--override-engine-args`: a dictionary of Python whose entries take the place of the file's, each as a whole.
///
/// Source: ai-dynamo/dynamo `components/src/dynamo/trtllm/backend_args.py`.
fn overridden(on_line: Options<'_>, options: &mut Value, reading: &mut Reading) {
    let names = ["--override-engine-args", "--override_engine_args"];
    let Some(text) = on_line.text(reading, &names, "DYN_TRTLLM_OVERRIDE_ENGINE_ARGS") else {
        return;
    };
    // A dictionary with single quotes is a map of YAML as well.
    let Ok(Value::Object(entries)) = serde_saphyr::from_str::<Value>(&text) else {
        if !text.trim().is_empty() {
            reading.serving.open = true;
            let reason = format!("{:.60} is no dictionary that is read", text.trim());
            plain::note(reading, "override-engine-args", reason);
        }
        return;
    };
    if let Some(cache) = entries.get("kv_cache_config") {
        let fraction = word(cache, "/free_gpu_memory_fraction");
        reading.memory.source = match fraction {
            Some(_) => MemorySource::Flag,
            None => MemorySource::Default,
        };
        reading.memory.value = Some(fraction.unwrap_or_else(|| "0.9".to_owned()));
    }
    match options {
        Value::Object(known) => known.extend(entries),
        other => *other = Value::Object(entries),
    }
}

/// Parallel sizes, of the file before those of the command line.
fn parallelism(on_line: Options<'_>, options: &Value, reading: &mut Reading) -> Parallelism {
    let context = on_line.context;
    let size = |reading: &mut Reading, key: &str, names: &[&str]| {
        let number = |text: String| text.parse::<u32>().ok().filter(|number| *number > 0);
        let variable = match key {
            "/tensor_parallel_size" => "DYN_TRTLLM_TENSOR_PARALLEL_SIZE",
            "/pipeline_parallel_size" => "DYN_TRTLLM_PIPELINE_PARALLEL_SIZE",
            _ => "",
        };
        let stated = on_line.count(reading, names, variable);
        let stated = stated.and_then(|size| u32::try_from(size).ok());
        word(options, key).and_then(number).or(stated).unwrap_or(1)
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
