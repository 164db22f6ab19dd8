//! TensorRT-LLM (`trtllm-serve`): a fraction of what is free once the weights are loaded.

use std::borrow::Cow;

use super::image::Image;
use super::reader::{Context, Reader};
use super::{Engine, MemoryKind, MemorySource, Parallelism, Reading, Starts, Unresolved};
use crate::invocation::prefix::Program;
use crate::invocation::{Command, Word};

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
        }
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
                    if let Some(fraction) = fraction_of(text) {
                        reading.memory.value = Some(fraction);
                        reading.memory.source = MemorySource::ConfigFile;
                    }
                }
                Err(reason) => {
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
        let size = |reading: &mut Reading, names: &[&str]| reading.count(words, names).unwrap_or(1);
        let tensor = size(
            &mut reading,
            &["--tp_size", "--tensor_parallel_size", "--tensor-parallel-size"],
        );
        let pipeline = size(
            &mut reading,
            &[
                "--pp_size",
                "--pipeline_parallel_size",
                "--pipeline-parallel-size",
            ],
        );
        let devices = tensor.saturating_mul(pipeline);
        reading.parallelism = Parallelism {
            tensor,
            pipeline,
            devices,
            ..Parallelism::default()
        };
        reading.max_model_len = reading
            .option(words, &["--max_seq_len", "--max-seq-len"])
            .and_then(|text| text.parse().ok());
        reading.dtype = Some("auto".to_owned());
        reading.kv_cache_dtype = Some("auto".to_owned());
        reading.findings.extend(context.floating_image());
        context.finish(command, reading)
    }
}

/// `kv_cache_config.free_gpu_memory_fraction` of the options' file.
fn fraction_of(text: &str) -> Option<String> {
    let file: serde_json::Value = serde_saphyr::from_str(text).ok()?;
    let fraction = file.get("kv_cache_config")?.get("free_gpu_memory_fraction")?;
    Some(
        fraction
            .as_str()
            .map_or_else(|| fraction.to_string(), str::to_owned),
    )
}
