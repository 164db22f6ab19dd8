//! Text Generation Inference: takes memory until a part of the device is left (`CUDA_MEMORY_FRACTION`).

use std::borrow::Cow;

use super::image::Image;
use super::reader::{Context, Reader};
use super::{Engine, MemoryKind, MemorySource, Parallelism, Reading, Unresolved};
use crate::invocation::prefix::Program;
use crate::invocation::{Command, Word};

/// The reader of TGI's launcher. Every option has a variable of its own; the option wins.
pub(super) struct Tgi;

impl Reader for Tgi {
    fn engine(&self) -> Engine {
        Engine::Tgi
    }

    fn entrypoint(&self, image: &Image<'_>) -> Option<Vec<Cow<'static, str>>> {
        image
            .name()
            .contains("text-generation-inference")
            .then(|| vec![Cow::Borrowed("text-generation-launcher")])
    }

    fn runs(&self, program: Program<'_>, _words: &[Word<'_>]) -> bool {
        matches!(program, Program::Binary("text-generation-launcher"))
    }

    fn read(&self, context: &Context<'_>, command: &Command<'_>, first: usize) -> Reading {
        let words = command.words.get(first..).unwrap_or_default();
        let mut reading = context.blank(Engine::Tgi, MemoryKind::UntilLeft);
        reading.version = reading.version.or_else(|| context.image.version());
        reading.command = Some("launcher".to_owned());
        reading.memory.value = Some("1.0".to_owned());
        let option = |reading: &mut Reading, flag: &str, name: &str| {
            if let Some(text) = reading.option(words, &[flag]) {
                return Some((text, MemorySource::Flag));
            }
            match context.variable(command, name)? {
                Ok(text) => Some((text, MemorySource::Env)),
                Err(reason) => {
                    let field = flag.trim_start_matches('-').to_owned();
                    let decides_memory = name == "CUDA_MEMORY_FRACTION";
                    reading.unresolved.push(Unresolved {
                        field,
                        reason,
                        decides_memory,
                    });
                    None
                }
            }
        };
        if let Some((text, source)) = option(&mut reading, "--cuda-memory-fraction", "CUDA_MEMORY_FRACTION") {
            reading.memory.value = Some(text);
            reading.memory.source = source;
        } else if reading
            .unresolved
            .iter()
            .any(|unresolved| unresolved.field == "cuda-memory-fraction")
        {
            reading.memory.value = None;
            reading.memory.source = MemorySource::Unresolved;
        }
        reading.model = option(&mut reading, "--model-id", "MODEL_ID").map(|(text, _)| text);
        reading.quantization = option(&mut reading, "--quantize", "QUANTIZE").map(|(text, _)| text);
        reading.dtype =
            Some(option(&mut reading, "--dtype", "DTYPE").map_or("auto".to_owned(), |(text, _)| text));
        reading.kv_cache_dtype = Some(
            option(&mut reading, "--kv-cache-dtype", "KV_CACHE_DTYPE")
                .map_or("auto".to_owned(), |(text, _)| text),
        );
        reading.max_model_len = option(&mut reading, "--max-total-tokens", "MAX_TOTAL_TOKENS")
            .and_then(|(text, _)| text.parse().ok());
        let shards =
            option(&mut reading, "--num-shard", "NUM_SHARD").and_then(|(text, _)| text.trim().parse().ok());
        // Without it TGI takes every visible device.
        let tensor = shards.or_else(|| context.slots()).unwrap_or(1).max(1);
        reading.parallelism = Parallelism {
            tensor,
            devices: tensor,
            ..Parallelism::default()
        };
        reading.findings.extend(context.floating_image());
        context.finish(command, reading)
    }
}
