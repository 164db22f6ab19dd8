//! A Ray node that joins a group: what it takes stands in another pod.

use std::borrow::Cow;

use super::image::Image;
use super::reader::{Context, Reader};
use super::{Engine, MemoryKind, MemorySource, Reading, Resolvable, Unresolved};
use crate::invocation::prefix::{Program, base_name};
use crate::invocation::{Command, Word};

/// Whether a program is a script of vLLM's images and examples that starts Ray as its head or joins it:
/// `multi-node-serving.sh`, and `ray_init.sh`, as which many images carry it.
pub(super) fn is_group_script(path: &str) -> bool {
    let name = base_name(path);
    name == "multi-node-serving.sh"
        || name
            .strip_suffix(".sh")
            .is_some_and(|name| name.split(['_', '-', '.']).any(|part| part == "ray"))
}

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
            // `bash FILE worker`, `FILE worker`: scripts that start Ray by the role that they are told.
            Program::Binary(_) => {
                words.iter().take(2).any(|word| is_group_script(&word.text))
                    && (has("worker") || has("--worker"))
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
