//! Frameworks without a server of their own: PyTorch's launcher is recognised, Python code is not looked into.

use std::borrow::Cow;

use super::image::Image;
use super::reader::{Context, Reader};
use super::{Engine, MemoryKind, MemorySource, Reading};
use crate::invocation::prefix::Program;
use crate::invocation::{Command, Word};

/// The reader of `torchrun` and `accelerate launch`.
pub(super) struct Frameworks;

impl Reader for Frameworks {
    fn engine(&self) -> Engine {
        Engine::Pytorch
    }

    fn entrypoint(&self, _image: &Image<'_>) -> Option<Vec<Cow<'static, str>>> {
        None
    }

    fn runs(&self, program: Program<'_>, words: &[Word<'_>]) -> bool {
        match program {
            Program::Binary("torchrun")
            | Program::Module("torch.distributed.run" | "torch.distributed.launch") => true,
            Program::Binary("accelerate") => words.get(1).is_some_and(|word| word.text == "launch"),
            _ => false,
        }
    }

    fn read(&self, context: &Context<'_>, command: &Command<'_>, _first: usize) -> Reading {
        let mut reading = context.blank(Engine::Pytorch, MemoryKind::Uncapped);
        reading.memory.source = MemorySource::EngineAuto;
        reading.parallelism.devices = context.slots().unwrap_or(1);
        context.finish(command, reading)
    }
}
