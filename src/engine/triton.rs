//! Triton Inference Server: what it takes stands in its model repository, which is not read.

use std::borrow::Cow;

use super::image::Image;
use super::reader::{Context, Reader};
use super::{Engine, MemoryKind, MemorySource, Reading, Resolvable, Unresolved};
use crate::invocation::prefix::Program;
use crate::invocation::{Command, Word};

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

    fn runs(&self, program: Program<'_>, _words: &[Word<'_>]) -> bool {
        matches!(program, Program::Binary("tritonserver"))
    }

    fn read(&self, context: &Context<'_>, command: &Command<'_>, first: usize) -> Reading {
        let words = command.words.get(first..).unwrap_or_default();
        let mut reading = context.blank(Engine::Triton, MemoryKind::Unknown);
        reading.memory.source = MemorySource::Unresolved;
        reading.command = Some("tritonserver".to_owned());
        reading.resolvable = Resolvable::None;
        reading.model = reading.option(words, &["--model-repository", "--model-store"]);
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
