//! LMDeploy: a fraction of what is free once the weights are loaded (`--cache-max-entry-count`).

use std::borrow::Cow;

use super::image::Image;
use super::reader::{Context, Reader};
use super::{Engine, MemoryKind, MemorySource, Parallelism, Reading};
use crate::invocation::prefix::Program;
use crate::invocation::{Command, Word};

/// The reader of `lmdeploy serve api_server`.
pub(super) struct Lmdeploy;

impl Reader for Lmdeploy {
    fn engine(&self) -> Engine {
        Engine::Lmdeploy
    }

    fn entrypoint(&self, image: &Image<'_>) -> Option<Vec<Cow<'static, str>>> {
        // The image has no entrypoint of its own.
        (image.name() == "lmdeploy").then(Vec::new)
    }

    fn runs(&self, program: Program<'_>, words: &[Word<'_>]) -> bool {
        let at = match program {
            Program::Binary("lmdeploy") => 1,
            Program::Module("lmdeploy") => words
                .iter()
                .position(|word| word.text == "lmdeploy")
                .map_or(usize::MAX, |at| at + 1),
            _ => return false,
        };
        words.get(at).is_some_and(|word| word.text == "serve")
    }

    fn read(&self, context: &Context<'_>, command: &Command<'_>, first: usize) -> Reading {
        let words = command.words.get(first..).unwrap_or_default();
        let mut reading = context.blank(Engine::Lmdeploy, MemoryKind::OfFreeAfterWeights);
        reading.version = reading.version.or_else(|| context.image.version());
        reading.command = words.get(1).map(|word| word.text.replace('_', "-"));
        reading.memory.value = Some("0.8".to_owned());
        if let Some(text) = reading.option(words, &["--cache-max-entry-count"]) {
            reading.memory.value = Some(text);
            reading.memory.source = MemorySource::Flag;
        } else if let Some(unresolved) = reading.unresolved.last_mut() {
            unresolved.decides_memory = true;
            reading.memory.value = None;
            reading.memory.source = MemorySource::Unresolved;
        }
        reading.model = words
            .get(2)
            .filter(|word| !word.text.starts_with('-'))
            .map(|word| word.text.clone().into_owned());
        let tensor = reading.count(words, &["--tp"]).unwrap_or(1);
        let data = reading.count(words, &["--dp"]).unwrap_or(1);
        let devices = tensor.max(data);
        reading.parallelism = Parallelism {
            tensor,
            data,
            data_local: data,
            devices,
            ..Parallelism::default()
        };
        reading.max_model_len = reading
            .option(words, &["--session-len"])
            .and_then(|text| text.parse().ok());
        reading.dtype = reading
            .option(words, &["--dtype"])
            .or_else(|| Some("auto".to_owned()));
        reading.quantization = reading
            .option(words, &["--model-format"])
            .filter(|format| format != "hf");
        reading.kv_cache_dtype = Some(
            match reading.option(words, &["--quant-policy"]).as_deref() {
                Some("4") => "int4",
                Some("8") => "int8",
                _ => "auto",
            }
            .to_owned(),
        );
        reading.findings.extend(context.floating_image());
        context.finish(command, reading)
    }
}
