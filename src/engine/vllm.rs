//! vLLM: how it is started, and what its command line says.
//!
//! [`parse`] reads the words as a release does; this module finds out which release and which words, and
//! `reading` turns the outcome into a [`Reading`].

use std::borrow::Cow;

use super::image::Image;
use super::reader::{Context, Reader};
use super::triton::backend::VLLM as TRITON;
use super::{Engine, Reading, Version};
use crate::invocation::prefix::Program;
use crate::invocation::{Command, Word};

mod config_file;
mod findings;
mod keys;
pub mod options;
pub mod parse;
mod reading;
mod rewrite;
pub mod value;
pub(in crate::engine) mod wrapper;

/// The reader of vLLM's command lines.
pub(super) struct Vllm;

/// The first release whose image starts `vllm serve`; earlier ones start the module.
const SERVE_IMAGE: Version = Version::new(0, 11, 1);

impl Reader for Vllm {
    fn engine(&self) -> Engine {
        Engine::Vllm
    }

    fn entrypoint(&self, image: &Image<'_>) -> Option<Vec<Cow<'static, str>>> {
        let wrapped = wrapper::entrypoint(image);
        if wrapped.is_none() && !is_server_image(image) {
            return None;
        }
        let words: &[&str] = match version_of(image) {
            _ if wrapped.is_some() => wrapped.unwrap_or_default(),
            Some(version) if version < SERVE_IMAGE => {
                &["python3", "-m", "vllm.entrypoints.openai.api_server"]
            }
            _ => &["vllm", "serve"],
        };
        Some(words.iter().copied().map(Cow::Borrowed).collect())
    }

    fn runs(&self, program: Program<'_>, words: &[Word<'_>]) -> bool {
        Start::of(program, words).is_some()
    }

    fn read(&self, context: &Context<'_>, command: &Command<'_>, first: usize) -> Reading {
        let program = crate::invocation::prefix::program(&command.words).map(|(program, _)| program);
        let start = program.and_then(|program| Start::of(program, &command.words));
        reading::read(context, command, first, start.unwrap_or(Start::Cli))
    }
}

/// The ways in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// The program `vllm` with a subcommand.
    Cli,
    /// The server's module.
    ApiServer,
    /// The batch module.
    RunBatch,
    /// A program of another project that takes vLLM's options beside its own.
    Wrapper(&'static str),
}

impl Start {
    fn of(program: Program<'_>, words: &[Word<'_>]) -> Option<Self> {
        match program {
            Program::Binary("vllm" | "vllm-rs")
            | Program::Module("vllm" | "vllm.entrypoints.cli.main" | "vllm.scripts") => Some(Self::Cli),
            Program::Module("vllm.entrypoints.openai.api_server" | "vllm.entrypoints.api_server") => {
                Some(Self::ApiServer)
            }
            Program::Module("vllm.entrypoints.openai.run_batch") => Some(Self::RunBatch),
            Program::PythonFile(path) if path.ends_with("entrypoints/openai/api_server.py") => {
                Some(Self::ApiServer)
            }
            Program::PythonFile(path) if path.ends_with("vllm/inference_api.py") => {
                Some(Self::Wrapper(wrapper::KAITO))
            }
            Program::Module("huggingfaceserver") => Some(Self::Wrapper(wrapper::HUGGINGFACE)),
            Program::Binary(wrapper::RUNPOD) => Some(Self::Wrapper(wrapper::RUNPOD)),
            Program::Binary(wrapper::SAGEMAKER) => Some(Self::Wrapper(wrapper::SAGEMAKER)),
            Program::Binary(wrapper::DJL) => Some(Self::Wrapper(wrapper::DJL)),
            Program::Binary(TRITON) => Some(Self::Wrapper(TRITON)),
            Program::Binary(wrapper::NIM) => Some(Self::Wrapper(wrapper::NIM)),
            Program::Module("dynamo.vllm") => Some(Self::Wrapper("dynamo.vllm")),
            _ => None,
        }
        .filter(|_| !words.is_empty())
    }
}

/// Images whose entrypoint is the server: the project's own and those that vendors build from its Dockerfile.
fn is_server_image(image: &Image<'_>) -> bool {
    let name = image.name();
    let llm_d = ["llm-d", "llm-d-cuda", "llm-d-rocm", "llm-d-xpu", "llm-d-cpu"].contains(&name);
    name.starts_with("vllm-") || name == "vllm" || llm_d
}

/// The release that an image's tag names. Only tags of images that are called after vLLM count: others number
/// themselves.
pub(super) fn version_of(image: &Image<'_>) -> Option<Version> {
    let name = image.name();
    // Dynamo's image numbers Dynamo.
    if !(name == "vllm" || name.starts_with("vllm-")) || name == "vllm-runtime" {
        return None;
    }
    // `nvcr.io/nvidia/vllm:25.09-py3` counts months; vendors' own numbers begin above zero too.
    let most = u16::from(name == "vllm-openai");
    image.version().filter(|version| version.0[0] <= most)
}
