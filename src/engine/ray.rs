//! A Ray node that joins a group: what it takes stands in another pod.

use std::borrow::Cow;

use super::image::Image;
use super::reader::{Context, Reader};
use super::{Engine, MemoryKind, MemorySource, Reading, Resolvable, Unresolved};
use crate::invocation::prefix::{Program, base_name};
use crate::invocation::{Command, Word};

/// The reader of Ray workers.
pub(super) struct RayWorker;

impl Reader for RayWorker {
    fn engine(&self) -> Engine {
        Engine::RayWorker
    }

    fn entrypoint(&self, _image: &Image<'_>) -> Option<Vec<Cow<'static, str>>> {
        None
    }

    fn runs(&self, program: Program<'_>, words: &[Word<'_>]) -> bool {
        let has = |text: &str| words.iter().any(|word| word.text == text);
        match program {
            Program::Binary("ray") => has("start") && !has("--head"),
            // `bash FILE worker` of vLLM's own examples.
            Program::Binary("bash" | "sh") => {
                words
                    .get(1)
                    .is_some_and(|word| base_name(&word.text) == "multi-node-serving.sh")
                    && has("worker")
            }
            _ => false,
        }
    }

    fn read(&self, context: &Context<'_>, command: &Command<'_>, _first: usize) -> Reading {
        let mut reading = context.blank(Engine::RayWorker, MemoryKind::Unknown);
        reading.memory.source = MemorySource::Unresolved;
        reading.resolvable = Resolvable::Partial;
        reading.parallelism.devices = context.slots().unwrap_or(1);
        reading.unresolved.push(Unresolved {
            field: "argv".to_owned(),
            reason: "the head of the Ray group decides what its workers take".to_owned(),
            decides_memory: true,
        });
        reading.dtype = Some("auto".to_owned());
        reading.kv_cache_dtype = Some("auto".to_owned());
        context.finish(command, reading)
    }
}
