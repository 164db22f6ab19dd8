//! llama.cpp's server: weights of the offloaded layers and the KV cache of its context; no fraction.

use std::borrow::Cow;

use super::image::Image;
use super::plain::{self, Options};
use super::provenance::plain::{self as provenance, Entry, Otherwise};
use super::reader::{Context, Reader};
use super::{Engine, MemoryKind, MemorySource, Reading, Starts};
use super::{near, unread};
use crate::finding::{Code, Finding};
use crate::invocation::prefix::Program;
use crate::invocation::{Command, Word};

mod serving;
mod swap;

/// Options whose misspelling is told; there are others.
const OPTIONS: &[&str] = &[
    "--n-gpu-layers",
    "--gpu-layers",
    "--ctx-size",
    "--parallel",
    "--cache-type-k",
    "--cache-type-v",
    "--batch-size",
    "--ubatch-size",
    "--split-mode",
    "--tensor-split",
    "--main-gpu",
    "--hf-repo",
    "--hf-file",
    "--hf-repo-v",
    "--hf-file-v",
    "--n-cpu-moe",
    "--cpu-moe",
    "--flash-attn",
    "--fit-target",
    "--fit-ctx",
];

/// Where values stand.
const PROVENANCE: [Entry; 11] = [
    Entry::new("model", &["--model", "-m"], &[], Otherwise::Nothing),
    Entry::new(
        "model",
        &["--hf-repo", "-hf", "-hfr"],
        &["LLAMA_ARG_MODEL", "LLAMA_ARG_HF_REPO"],
        Otherwise::Nothing,
    ),
    Entry::new(
        "memory",
        &[],
        &[],
        Otherwise::Engine("the weights, cache and buffers of what the other options say"),
    ),
    Entry::new(
        "gpu-layers",
        &["--gpu-layers", "-ngl", "--n-gpu-layers", "--n_gpu_layers"],
        &["LLAMA_ARG_N_GPU_LAYERS"],
        Otherwise::Engine("fitted to the memory that is free"),
    ),
    Entry::new(
        "max-model-len",
        &["--ctx-size", "-c", "--n_ctx"],
        &["LLAMA_ARG_CTX_SIZE"],
        Otherwise::Engine("fitted to the memory that is free"),
    ),
    Entry::new("dtype", &[], &[], Otherwise::Model),
    Entry::new(
        "kv-cache-dtype",
        &["--cache-type-k", "-ctk"],
        &["LLAMA_ARG_CACHE_TYPE_K"],
        Otherwise::Default("auto"),
    ),
    Entry::new(
        "value-cache-dtype",
        &["--cache-type-v", "-ctv"],
        &["LLAMA_ARG_CACHE_TYPE_V"],
        Otherwise::Default("f16"),
    ),
    Entry::new(
        "max-num-seqs",
        &["--parallel", "-np", "--n-parallel"],
        &["LLAMA_ARG_N_PARALLEL"],
        Otherwise::Nothing,
    ),
    Entry::new(
        "max-num-batched-tokens",
        &["--ubatch-size", "-ub", "--n_ubatch"],
        &["LLAMA_ARG_UBATCH"],
        Otherwise::Nothing,
    ),
    Entry::new(
        "flash-attention",
        &["--flash-attn", "-fa"],
        &["LLAMA_ARG_FLASH_ATTN"],
        Otherwise::Nothing,
    ),
];

/// The reader of `llama-server`.
pub(super) struct LlamaCpp;

impl Reader for LlamaCpp {
    fn engine(&self) -> Engine {
        Engine::LlamaCpp
    }

    fn entrypoint(&self, image: &Image<'_>) -> Option<Vec<Cow<'static, str>>> {
        let kind = |prefix: &str| image.tag.is_some_and(|tag| tag.starts_with(prefix));
        if image.name() == swap::PROGRAM {
            return Some(swap::ENTRYPOINT.map(Cow::Borrowed).to_vec());
        }
        if image.name() != "llama.cpp" {
            return None;
        }
        // The image with all tools chooses one by its first argument.
        let program = if kind("server") {
            "llama-server"
        } else if kind("full") {
            "tools.sh"
        } else {
            return None;
        };
        Some(vec![Cow::Borrowed(program)])
    }

    fn runs(&self, program: Program<'_>, words: &[Word<'_>]) -> bool {
        match program {
            Program::Binary("llama-server" | "llama-cli" | swap::PROGRAM)
            | Program::Module("llama_cpp.server") => true,
            // What the server was called before, where it is given a model of its format.
            Program::Binary("server") => words.iter().any(|word| word.text.ends_with(".gguf")),
            Program::Binary("tools.sh") => {
                let tool = words.get(1).map(|word| &*word.text);
                matches!(tool, Some("--server" | "-s" | "--run" | "-r"))
            }
            _ => false,
        }
    }

    fn read(&self, context: &Context<'_>, command: &Command<'_>, first: usize) -> Reading {
        let program = crate::invocation::prefix::program(&command.words).map(|(program, _)| program);
        let meant = plain::meant(command.words.get(first..).unwrap_or_default());
        let words = &*meant;
        if program == Some(Program::Binary(swap::PROGRAM)) {
            return swap::read(self, context, command, words);
        }
        let mut reading = context.blank(Engine::LlamaCpp, MemoryKind::Estimated);
        reading.command = Some("server".to_owned());
        let options = Options {
            context,
            command,
            words,
        };
        let layers = options.text(
            &mut reading,
            &["--gpu-layers", "-ngl", "--n-gpu-layers", "--n_gpu_layers"],
            "LLAMA_ARG_N_GPU_LAYERS",
        );
        let length = options.text(
            &mut reading,
            &["--ctx-size", "-c", "--n_ctx"],
            "LLAMA_ARG_CTX_SIZE",
        );
        reading.max_model_len = length
            .as_deref()
            .and_then(|text| text.trim().parse().ok())
            .filter(|length| *length != 0);
        reading.model = reading
            .option(words, &["--model", "-m"])
            .or_else(|| reading.option(words, &["--hf-repo", "-hf", "-hfr"]))
            .or_else(|| options.text(&mut reading, &[], "LLAMA_ARG_MODEL"))
            .or_else(|| options.text(&mut reading, &[], "LLAMA_ARG_HF_REPO"));
        // What is not set is fitted to the memory that is free, less a gigabyte.
        let fits_itself =
            layers.as_deref().is_none_or(|layers| layers == "auto") || reading.max_model_len.is_none();
        reading.memory.kind = if fits_itself {
            MemoryKind::Uncapped
        } else {
            MemoryKind::Estimated
        };
        reading.memory.source = if fits_itself {
            MemorySource::EngineAuto
        } else {
            MemorySource::Estimate
        };
        reading.dtype = Some("auto".to_owned());
        reading.kv_cache_dtype = options
            .text(
                &mut reading,
                &["--cache-type-k", "-ctk"],
                "LLAMA_ARG_CACHE_TYPE_K",
            )
            .or_else(|| Some("auto".to_owned()));
        let keys = reading.kv_cache_dtype.clone().filter(|keys| keys != "auto");
        reading.serving = serving::of(
            options,
            &mut reading,
            layers.as_deref(),
            length.as_deref(),
            keys.as_deref(),
        );
        reading.provenance = provenance::of(options, &PROVENANCE);
        // Without a choice it splits over every visible device.
        let split = options.text(&mut reading, &["--split-mode", "-sm"], "LLAMA_ARG_SPLIT_MODE");
        reading.parallelism.devices = if split.as_deref() == Some("none") {
            1
        } else {
            context.slots().unwrap_or(1)
        };
        let server = program.is_none_or(|program| matches!(program, Program::Binary(_)));
        if server {
            let unread = unread::variables(context, &reading, &unread::LLAMA_CPP);
            reading.findings.extend(unread);
            reading
                .findings
                .extend(near::of_plain(context, "llama-server", words, OPTIONS));
            if let Some(word) = joined(words) {
                reading.starts = Starts::No;
                reading.findings.push(refused(context, word));
            }
        }
        if !context.asks() && is_for_cpu(&context.image) {
            reading.memory.kind = MemoryKind::None;
            reading.parallelism.devices = 0;
        }
        plain::tell_split(context, matches!(meant, Cow::Owned(_)), &mut reading);
        reading.findings.extend(context.floating_image());
        context.finish(command, reading)
    }
}

/// The image with the server for the CPU: the others name their devices (`server-cuda`, `server-vulkan`).
fn is_for_cpu(image: &Image<'_>) -> bool {
    let Some(tag) = image.tag.filter(|_| image.name() == "llama.cpp") else {
        return false;
    };
    let build = tag.strip_prefix("server").or_else(|| tag.strip_prefix("full"));
    build.is_some_and(|rest| rest.is_empty() || rest.starts_with("-b"))
}

/// An option with its value behind `=`, which the server's parser does not know (`common/arg.cpp`: whole words are
/// looked up, and the value is the next one).
fn joined<'w, 'a>(words: &'w [Word<'a>]) -> Option<&'w Word<'a>> {
    words.iter().find(|word| {
        let name = word.text.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| {
            OPTIONS.contains(&name) || PROVENANCE.iter().any(|entry| entry.options.contains(&name))
        })
    })
}

/// VG107 for such an option.
fn refused(context: &Context<'_>, word: &Word<'_>) -> Finding {
    let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
    let shown = crate::finding::shortened(value, 40);
    Finding::new(
        Code::Vg107,
        word.path(&context.path),
        format!(
            "llama-server does not know {name}=, and does not start with it; write {name} {shown} as two items"
        ),
    )
}
