//! SGLang: how it is started, and what its command line says.
//!
//! Its fraction (`--mem-fraction-static`) is one of what is free when it starts; without it the engine works one out from
//! the device. [`parse`] reads the words as a release does; `reading` turns the outcome into a [`Reading`].

use std::borrow::Cow;

use super::image::Image;
use super::reader::{Context, Reader};
use super::{Engine, Reading, Version};
use crate::invocation::prefix::Program;
use crate::invocation::{Command, Word};

mod config_file;
mod findings;
pub mod options;
pub mod parse;
mod reading;
mod sagemaker;
mod serve;
pub mod value;

/// The reader of SGLang's command lines.
pub(super) struct Sglang;

impl Reader for Sglang {
    fn engine(&self) -> Engine {
        Engine::Sglang
    }

    fn entrypoint(&self, image: &Image<'_>) -> Option<Vec<Cow<'static, str>>> {
        if !is_server_image(image) {
            return None;
        }
        // Only that for SageMaker starts the server by itself; elsewhere the command carries it.
        let words: &[&str] = if sagemaker::is_image(image) {
            &["python3", "-m", "sglang.launch_server"]
        } else {
            &[]
        };
        Some(words.iter().copied().map(Cow::Borrowed).collect())
    }

    fn is_own_server(&self, image: &Image<'_>) -> bool {
        sagemaker::is_image(image)
    }

    fn runs(&self, program: Program<'_>, words: &[Word<'_>]) -> bool {
        Start::of(program, words).is_some()
    }

    fn read(&self, context: &Context<'_>, command: &Command<'_>, first: usize) -> Reading {
        let program = crate::invocation::prefix::program(&command.words).map(|(program, _)| program);
        let start = program.and_then(|program| Start::of(program, &command.words));
        reading::read(context, command, first, start.unwrap_or(Start::Entrypoint))
    }
}

/// The ways in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// The program `sglang` with a subcommand.
    Cli,
    /// The server's module.
    LaunchServer,
    /// No program of the engine is there: what an image of unknown entrypoint is given.
    Entrypoint,
    /// A program that takes SGLang's options beside its own.
    Wrapper(&'static str),
    /// The server for image and video models, which has options of its own.
    Diffusion,
    /// A program of the project that uses no device.
    Client(&'static str),
}

impl Start {
    fn of(program: Program<'_>, words: &[Word<'_>]) -> Option<Self> {
        match program {
            Program::Binary("sglang") | Program::Module("sglang.cli.main") => Some(Self::Cli),
            Program::Module("sglang.launch_server") => Some(Self::LaunchServer),
            Program::PythonFile(path) if path.ends_with("sglang/launch_server.py") => {
                Some(Self::LaunchServer)
            }
            Program::Module("sglang_router.launch_server") => Some(Self::Wrapper("router-launch-server")),
            Program::Module("dynamo.sglang") => Some(Self::Wrapper("dynamo.sglang")),
            // Benchmarks that load the engine themselves, and those that ask a server.
            Program::Module("sglang.bench_offline_throughput") => {
                Some(Self::Wrapper("bench-offline-throughput"))
            }
            Program::Module("sglang.bench_one_batch") => Some(Self::Wrapper("bench-one-batch")),
            Program::Module("sglang.bench_serving") => Some(Self::Client("bench-serving")),
            Program::Module(
                "sglang_router.launch_router"
                | "sglang.srt.disaggregation.mini_lb"
                | "sglang.srt.disaggregation.launch_lb",
            ) => Some(Self::Client("router")),
            Program::Module("sglang.check_env") => Some(Self::Client("check-env")),
            Program::Module("sglang.multimodal_gen.runtime.launch_server") => Some(Self::Diffusion),
            _ => None,
        }
        .filter(|_| !words.is_empty())
    }
}

/// Images that hold the server: the project's own and those that vendors name after it.
fn is_server_image(image: &Image<'_>) -> bool {
    image.name() == "sglang"
}

/// The release that an image's tag names. Only tags of images that are called after SGLang count, and only those below
/// 1.0: vendors count months.
fn version_of(image: &Image<'_>) -> Option<Version> {
    let named = is_server_image(image) || ["sglang-rocm", "sgl-dev"].contains(&image.name());
    image.version().filter(|version| named && version.0[0] == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_from_tags() {
        for (reference, parts) in [
            ("lmsysorg/sglang:v0.5.3-cu126", Some([0, 5, 3, 0])),
            ("lmsysorg/sglang:v0.4.6.post5-cu124", Some([0, 4, 6, 5])),
            (
                "registry:5000/mirror/sglang:v0.5.10.post1-rocm700-mi35x",
                Some([0, 5, 10, 1]),
            ),
            ("lmsysorg/sglang:v0.5.4rc1", Some([0, 5, 4, 0])),
            ("lmsysorg/sglang@sha256:00", None),
            ("lmsysorg/sglang:latest", None),
            ("lmsysorg/sglang:dev-cu13", None),
            ("nvcr.io/nvidia/sglang:25.10-py3", None),
            ("nvcr.io/nvidia/ai-dynamo/sglang-runtime:0.7.0", None),
            ("lmsysorg/sglang-router:v0.2.1", None),
        ] {
            let version = version_of(&Image::parse(reference));
            assert_eq!(version.map(|version| version.0), parts, "{reference}");
        }
    }
}
