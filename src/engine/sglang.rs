//! SGLang: a fraction of what is free when it starts (`--mem-fraction-static`), worked out by itself where not given.

use std::borrow::Cow;

use super::image::Image;
use super::reader::{Context, Flag, Reader};
use super::{Engine, MemoryKind, MemorySource, Parallelism, Reading, Unresolved};
use crate::invocation::prefix::{Program, program};
use crate::invocation::{Command, Word};

mod config_file;
pub mod options;
pub mod parse;
mod serve;
pub mod value;

/// The reader of SGLang's command lines.
pub(super) struct Sglang;

/// Its parser takes unique prefixes.
const FRACTION: [&str; 8] = [
    "--mem-fraction-static",
    "--mem-fraction-stati",
    "--mem-fraction-stat",
    "--mem-fraction-st",
    "--mem-fraction",
    "--mem-frac",
    "--mem-f",
    "--mem",
];

impl Reader for Sglang {
    fn engine(&self) -> Engine {
        Engine::Sglang
    }

    fn entrypoint(&self, image: &Image<'_>) -> Option<Vec<Cow<'static, str>>> {
        // The image has no entrypoint of its own; the command carries it.
        (image.name() == "sglang").then(Vec::new)
    }

    fn runs(&self, program: Program<'_>, words: &[Word<'_>]) -> bool {
        match program {
            Program::Module(name) => matches!(
                name,
                "sglang.launch_server" | "sglang_router.launch_server" | "dynamo.sglang"
            ),
            Program::Binary("sglang") => words.get(1).is_some_and(|word| word.text == "serve"),
            _ => false,
        }
    }

    fn read(&self, context: &Context<'_>, command: &Command<'_>, first: usize) -> Reading {
        let words = command.words.get(first..).unwrap_or_default();
        let mut reading = context.blank(Engine::Sglang, MemoryKind::OfFree);
        reading.version = reading.version.or_else(|| context.image.version());
        reading.command = Some(match program(&command.words) {
            Some((Program::Binary(_), _)) => "serve".to_owned(),
            _ => "launch-server".to_owned(),
        });
        reading.memory.source = MemorySource::EngineAuto;
        if let Some(flag) = Flag::last(words, &FRACTION) {
            reading.memory.path = flag.word.item.path(&context.path);
            if flag.known {
                reading.memory.value = Some(flag.text.to_owned());
                reading.memory.source = MemorySource::Flag;
            } else {
                reading.memory.source = MemorySource::Unresolved;
                reading.unresolved.push(Unresolved {
                    field: "mem-fraction-static".to_owned(),
                    reason: flag
                        .word
                        .reason
                        .as_deref()
                        .unwrap_or("its value is not known")
                        .to_owned(),
                    decides_memory: true,
                });
            }
        }
        reading.model = reading.option(words, &["--model-path", "--model"]).or_else(|| {
            let positional = words
                .get(1)
                .filter(|_| words.first().is_some_and(|word| word.text == "serve"));
            positional
                .filter(|word| !word.text.starts_with('-'))
                .map(|word| word.text.clone().into_owned())
        });
        let tensor = reading
            .count(words, &["--tp", "--tp-size", "--tensor-parallel-size"])
            .unwrap_or(1);
        let pipeline = reading
            .count(words, &["--pp-size", "--pipeline-parallel-size"])
            .unwrap_or(1);
        let data = reading
            .count(words, &["--dp", "--dp-size", "--data-parallel-size"])
            .unwrap_or(1);
        let nodes = reading.count(words, &["--nnodes"]).unwrap_or(1);
        let attention = words.iter().any(|word| word.text == "--enable-dp-attention");
        let world = tensor
            .saturating_mul(pipeline)
            .saturating_mul(if attention { 1 } else { data });
        let mut devices = world.div_ceil(nodes);
        // The size of the group is not known before it exists: the ranks beyond this pod's devices are elsewhere.
        if reading
            .unresolved
            .iter()
            .any(|unresolved| unresolved.field == "nnodes")
            && let Some(slots) = context.slots()
        {
            devices = devices.min(slots);
        }
        reading.parallelism = Parallelism {
            tensor,
            pipeline,
            data,
            data_local: data,
            devices,
        };
        reading.max_model_len = reading
            .option(words, &["--context-length"])
            .and_then(|text| text.parse().ok());
        reading.quantization = reading.option(words, &["--quantization"]);
        reading.dtype = reading
            .option(words, &["--dtype"])
            .or_else(|| Some("auto".to_owned()));
        reading.kv_cache_dtype = reading
            .option(words, &["--kv-cache-dtype"])
            .or_else(|| Some("auto".to_owned()));
        reading.eager = words.iter().any(|word| word.text == "--disable-cuda-graph");
        if Flag::last(words, &["--device"]).is_some_and(|flag| flag.text == "cpu") {
            reading.memory.kind = MemoryKind::None;
            reading.parallelism.devices = 0;
        }
        reading.findings.extend(context.floating_image());
        context.finish(command, reading)
    }
}
