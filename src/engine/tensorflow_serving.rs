//! TensorFlow Serving: nearly all of each device at the first load, or the share that is stated.
//!
//! Source: tensorflow/serving `tensorflow_serving/model_servers/main.cc` (a fraction of 0.0, the default, stands for what
//! TensorFlow chooses) and `tensorflow_serving/tools/docker/Dockerfile` (the start script's variables).

use std::borrow::Cow;

use super::image::Image;
use super::plain::Options;
use super::provenance::plain::{self as provenance, Entry, Otherwise};
use super::reader::{Context, Reader};
use super::{Engine, MemoryKind, MemorySource, Reading};
use crate::invocation::prefix::Program;
use crate::invocation::{Command, Word};
use crate::units::Fraction;

/// Where values stand.
const PROVENANCE: [Entry; 2] = [
    Entry::new(
        "model",
        &["--model_base_path"],
        &["MODEL_NAME"],
        Otherwise::Nothing,
    ),
    Entry::new(
        "memory",
        &["--per_process_gpu_memory_fraction"],
        &[],
        Otherwise::Engine("nearly all of each device"),
    ),
];

/// The reader of `tensorflow_model_server`.
pub(super) struct TensorflowServing;

impl Reader for TensorflowServing {
    fn engine(&self) -> Engine {
        Engine::Tensorflow
    }

    fn entrypoint(&self, image: &Image<'_>) -> Option<Vec<Cow<'static, str>>> {
        let is_it = image.repository.ends_with("tensorflow/serving");
        is_it.then(|| vec![Cow::Borrowed("tensorflow_model_server")])
    }

    fn runs(&self, program: Program<'_>, _words: &[Word<'_>]) -> bool {
        matches!(
            program,
            Program::Binary("tensorflow_model_server" | "tf_serving_entrypoint.sh")
        )
    }

    fn read(&self, context: &Context<'_>, command: &Command<'_>, first: usize) -> Reading {
        let words = command.words.get(first..).unwrap_or_default();
        let mut reading = context.blank(Engine::Tensorflow, MemoryKind::Uncapped);
        reading.memory.source = MemorySource::EngineAuto;
        reading.command = Some("model-server".to_owned());
        reading.dtype = Some("auto".to_owned());
        reading.kv_cache_dtype = Some("auto".to_owned());
        let options = Options {
            context,
            command,
            words,
        };
        reading.model = options.text(&mut reading, &["--model_base_path"], "");
        if reading.model.is_none() {
            let name = options.text(&mut reading, &[], "MODEL_NAME");
            reading.model = name.map(|name| format!("/models/{name}"));
        }
        let share = options.text(&mut reading, &["--per_process_gpu_memory_fraction"], "");
        let fraction = share.as_deref().and_then(|share| Fraction::parse(share).ok());
        if fraction.as_ref().is_some_and(|fraction| fraction.ppm() > 0) {
            reading.memory.kind = MemoryKind::OfTotal;
            reading.memory.source = MemorySource::Flag;
            reading.memory.value = share;
            reading.memory.fraction = fraction;
        }
        reading.parallelism.devices = context.slots().unwrap_or(1);
        reading.provenance = provenance::of(options, &PROVENANCE);
        reading.findings.extend(context.floating_image());
        context.finish(command, reading)
    }
}
