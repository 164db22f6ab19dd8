//! vLLM: how it is started, and what its command line says.
//!
//! [`parse`] reads the words as a release does; this module finds out which release and which words, and
//! `reading` turns the outcome into a [`Reading`].

use std::borrow::Cow;

use super::image::Image;
use super::other;
use super::read::RUNS_ARGUMENTS;
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
            _ if runs_its_arguments(image) => &[RUNS_ARGUMENTS],
            Some(version) if version < SERVE_IMAGE => {
                &["python3", "-m", "vllm.entrypoints.openai.api_server"]
            }
            _ => &["vllm", "serve"],
        };
        Some(words.iter().copied().map(Cow::Borrowed).collect())
    }

    fn is_own_server(&self, image: &Image<'_>) -> bool {
        wrapper::entrypoint(image).is_some() || image.name().starts_with("vllm-openai")
    }

    fn runs(&self, program: Program<'_>, words: &[Word<'_>]) -> bool {
        Start::of(program, words).is_some()
    }

    fn read(&self, context: &Context<'_>, command: &Command<'_>, first: usize) -> Reading {
        let program = crate::invocation::prefix::program(&command.words).map(|(program, _)| program);
        let start = program.and_then(|program| Start::of(program, &command.words));
        let words = command.words.get(first..).unwrap_or_default();
        if start == Some(Start::Wrapper(wrapper::HUGGINGFACE)) && wrapper::serves_without_vllm(words) {
            let mut reading = other::transformers(context, command, wrapper::model_of(words));
            reading.command = Some(wrapper::HUGGINGFACE.to_owned());
            return reading;
        }
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
    /// A benchmark that asks a server.
    Client,
    /// A program of another project that takes vLLM's options beside its own.
    Wrapper(&'static str),
}

impl Start {
    fn of(program: Program<'_>, words: &[Word<'_>]) -> Option<Self> {
        match program {
            Program::Binary("vllm" | "vllm-rs" | "lmcache_vllm")
            | Program::Module("vllm" | "vllm.entrypoints.cli.main" | "vllm.scripts") => Some(Self::Cli),
            Program::Module("vllm.entrypoints.openai.api_server" | "vllm.entrypoints.api_server") => {
                Some(Self::ApiServer)
            }
            Program::Module("vllm.entrypoints.openai.run_batch") => Some(Self::RunBatch),
            // The console script, handed to an interpreter.
            Program::PythonFile(path) if path.ends_with("/bin/vllm") => Some(Self::Cli),
            Program::PythonFile(path) if path.ends_with("entrypoints/openai/api_server.py") => {
                Some(Self::ApiServer)
            }
            // Scripts of the project's repository from before `vllm bench`.
            Program::PythonFile(path) if path.ends_with("benchmark_throughput.py") => {
                Some(Self::Wrapper("bench throughput"))
            }
            Program::PythonFile(path) if path.ends_with("benchmark_latency.py") => {
                Some(Self::Wrapper("bench latency"))
            }
            Program::PythonFile(path) if path.ends_with("benchmark_serving.py") => Some(Self::Client),
            Program::PythonFile(path) if path.ends_with("vllm/inference_api.py") => {
                Some(Self::Wrapper(wrapper::KAITO))
            }
            Program::Module(wrapper::FASTCHAT) => Some(Self::Wrapper(wrapper::FASTCHAT)),
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

/// Images whose entrypoint is the server: the project's own and those that vendors build from its Dockerfile, or on top of
/// its image as AWS does for its Deep Learning Containers (`vllm/x86_64` of aws/deep-learning-containers: the module in old
/// releases, `vllm serve` in new ones).
fn is_server_image(image: &Image<'_>) -> bool {
    let name = image.name();
    let llm_d = ["llm-d", "llm-d-cuda", "llm-d-rocm", "llm-d-xpu", "llm-d-cpu"].contains(&name);
    name.starts_with("vllm-") || name == "vllm" || llm_d
}

/// Images that hold vLLM and whose entrypoint runs the arguments as a program: NVIDIA's (`nvidia_entrypoint.sh`, which
/// ends in `exec "$@"`), AMD's and the one for TPU (none; their command is a shell).
fn runs_its_arguments(image: &Image<'_>) -> bool {
    let mut folders = image.repository.rsplit('/');
    let (name, owner) = (
        folders.next().unwrap_or_default(),
        folders.next().unwrap_or_default(),
    );
    match owner {
        "nvidia" => name == "vllm",
        "rocm" => !name.starts_with("vllm-openai"),
        _ => name == "vllm-tpu",
    }
}

/// The release that an image's tag names. Only tags of images that are called after vLLM count, and those that name
/// vLLM themselves (`rocm6.4.1_vllm_0.10.1_20250909`): others number themselves.
pub(super) fn version_of(image: &Image<'_>) -> Option<Version> {
    if let Some(version) = image.tag.and_then(named_in) {
        return Some(version);
    }
    let name = image.name();
    // Dynamo's image numbers Dynamo, that of LMCache numbers LMCache.
    let numbers_itself = name == "vllm-runtime" || image.repository.contains("lmcache/");
    if !(name == "vllm" || name.starts_with("vllm-")) || numbers_itself {
        return None;
    }
    // `nvcr.io/nvidia/vllm:25.09-py3` counts months; vendors' own numbers begin above zero too.
    let most = u16::from(name == "vllm-openai");
    image.version().filter(|version| version.0[0] <= most)
}

/// The release that stands behind vLLM's name in a tag.
fn named_in(tag: &str) -> Option<Version> {
    tag.match_indices("vllm").find_map(|(at, name)| {
        let rest = tag[at + name.len()..].trim_start_matches(['_', '-']);
        Version::parse(rest).filter(|version| version.0[0] == 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_from_tags() {
        for (reference, expected) in [
            ("vllm/vllm-openai:v0.11.0-x86_64", Some("0.11.0")),
            ("vllm/vllm-openai:v0.10.1.1", Some("0.10.1.1")),
            ("vllm/vllm-openai:v0.8.5.post1", Some("0.8.5.post1")),
            ("docker.io/vllm/vllm-openai:v0.19.0@sha256:00", Some("0.19.0")),
            (
                "rocm/vllm:rocm6.2_mi300_ubuntu20.04_py3.9_vllm_0.6.4",
                Some("0.6.4"),
            ),
            ("rocm/vllm:rocm6.4.1_vllm_0.9.0.1_20250605", Some("0.9.0.1")),
            ("registry.example/ai/serving:vllm-v0.7.3-cu124", Some("0.7.3")),
            ("registry.example/ai/serving:vllm0.8.4", Some("0.8.4")),
            ("rocm/vllm-dev:nightly", None),
            ("nvcr.io/nvidia/vllm:25.09-py3", None),
            ("nvcr.io/nvidia/tritonserver:25.03-vllm-python-py3", None),
            ("nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.7.0", None),
            ("lmcache/vllm-openai:v0.3.9", None),
            ("registry.example/vllm-cuda-rhel9:3.2.1", None),
        ] {
            let version = version_of(&Image::parse(reference));
            let version = version.map(|version| version.to_string());
            assert_eq!(version.as_deref(), expected, "{reference}");
        }
    }
}
