//! Triton Inference Server: what it takes stands in its model repository, which is not read.

use std::borrow::Cow;

use super::image::Image;
use super::reader::{Context, Reader};
use super::{Engine, MemoryKind, MemorySource, Parallelism, Reading, Resolvable, Unresolved};
use crate::invocation::prefix::{Program, base_name};
use crate::invocation::{Command, Word};

/// Options that name the model repository.
const REPOSITORY: [&str; 3] = ["--model-repository", "--model-store", "--model_repo"];

/// The reader of `tritonserver`.
pub(super) struct Triton;

impl Reader for Triton {
    fn engine(&self) -> Engine {
        Engine::Triton
    }

    fn entrypoint(&self, image: &Image<'_>) -> Option<Vec<Cow<'static, str>>> {
        image
            .name()
            .contains("tritonserver")
            .then(|| vec![Cow::Borrowed("nvidia_entrypoint.sh")])
    }

    fn runs(&self, program: Program<'_>, words: &[Word<'_>]) -> bool {
        match program {
            Program::Binary("tritonserver") => true,
            // Start scripts of the TensorRT-LLM back end, whatever they are called.
            Program::PythonFile(path) => {
                base_name(path) == "launch_triton_server.py"
                    || words
                        .iter()
                        .any(|word| word.text.starts_with("--triton_model_repo_dir"))
            }
            _ => false,
        }
    }

    fn read(&self, context: &Context<'_>, command: &Command<'_>, first: usize) -> Reading {
        let words = command.words.get(first..).unwrap_or_default();
        let mut reading = context.blank(Engine::Triton, MemoryKind::Unknown);
        reading.memory.source = MemorySource::Unresolved;
        reading.command = Some("tritonserver".to_owned());
        reading.resolvable = Resolvable::None;
        reading.model = reading.option(words, &REPOSITORY);
        let tensor = reading
            .count(words, &["--tp", "--tensor_parallel_size"])
            .unwrap_or(1);
        let pipeline = reading
            .count(words, &["--pp", "--pipeline_parallel_size"])
            .unwrap_or(1);
        let world = reading.count(words, &["--world_size"]).unwrap_or(1);
        let ranks = tensor.saturating_mul(pipeline).max(world);
        // The launcher spreads its ranks over the pods of a group; a worker of one has no sizes of its own.
        let group = words
            .first()
            .is_some_and(|word| matches!(&*word.text, "leader" | "worker"));
        let slots = context.slots().unwrap_or(1);
        reading.parallelism = Parallelism {
            tensor,
            pipeline,
            devices: if group { slots } else { ranks },
            ..Parallelism::default()
        };
        reading.unresolved.push(Unresolved {
            field: "argv".to_owned(),
            reason: "what Triton's back ends take stands in the model repository, which is not read"
                .to_owned(),
            decides_memory: true,
        });
        reading.dtype = Some("auto".to_owned());
        reading.kv_cache_dtype = Some("auto".to_owned());
        reading.findings.extend(context.floating_image());
        context.finish(command, reading)
    }
}
