//! llama.cpp's server: weights of the offloaded layers and the KV cache of its context; no fraction.

use std::borrow::Cow;

use super::image::Image;
use super::reader::{Context, Reader};
use super::{Engine, MemoryKind, MemorySource, Reading};
use crate::invocation::prefix::Program;
use crate::invocation::{Command, Word};

/// The reader of `llama-server`.
pub(super) struct LlamaCpp;

impl Reader for LlamaCpp {
    fn engine(&self) -> Engine {
        Engine::LlamaCpp
    }

    fn entrypoint(&self, image: &Image<'_>) -> Option<Vec<Cow<'static, str>>> {
        let server = image.name() == "llama.cpp" && image.tag.is_some_and(|tag| tag.starts_with("server"));
        server.then(|| vec![Cow::Borrowed("llama-server")])
    }

    fn runs(&self, program: Program<'_>, _words: &[Word<'_>]) -> bool {
        matches!(program, Program::Binary("llama-server" | "llama-cli"))
    }

    fn read(&self, context: &Context<'_>, command: &Command<'_>, first: usize) -> Reading {
        let words = command.words.get(first..).unwrap_or_default();
        let mut reading = context.blank(Engine::LlamaCpp, MemoryKind::Estimated);
        reading.command = Some("server".to_owned());
        let variable = |name| context.variable(command, name).and_then(Result::ok);
        let layers = reading
            .option(words, &["-ngl", "--gpu-layers", "--n-gpu-layers"])
            .or_else(|| variable("LLAMA_ARG_N_GPU_LAYERS"));
        let length = reading
            .option(words, &["-c", "--ctx-size"])
            .or_else(|| variable("LLAMA_ARG_CTX_SIZE"));
        reading.max_model_len = length
            .and_then(|text| text.trim().parse().ok())
            .filter(|length| *length != 0);
        reading.model = reading
            .option(words, &["-m", "--model"])
            .or_else(|| reading.option(words, &["-hf", "--hf-repo"]))
            .or_else(|| variable("LLAMA_ARG_MODEL"));
        // What is not set is fitted to the memory that is free, less a gigabyte.
        let fits_itself =
            layers.as_deref().is_none_or(|layers| layers == "auto") || reading.max_model_len.is_none();
        reading.memory.kind = if fits_itself {
            MemoryKind::Uncapped
        } else {
            MemoryKind::Estimated
        };
        reading.memory.source = if fits_itself {
            MemorySource::EngineAuto
        } else {
            MemorySource::Estimate
        };
        reading.dtype = Some("auto".to_owned());
        reading.kv_cache_dtype = reading
            .option(words, &["-ctk", "--cache-type-k"])
            .or_else(|| variable("LLAMA_ARG_CACHE_TYPE_K"))
            .or_else(|| Some("auto".to_owned()));
        // Without a choice it splits over every visible device.
        reading.parallelism.devices = context.slots().unwrap_or(1);
        reading.findings.extend(context.floating_image());
        context.finish(command, reading)
    }
}
