//! Text Generation Inference: takes memory until a part of the device is left (`CUDA_MEMORY_FRACTION`).

use std::borrow::Cow;

use super::image::Image;
use super::plain::{self, Options};
use super::provenance::plain::{self as provenance, Entry, Otherwise};
use super::reader::{Context, Reader};
use super::{Draft, Engine, Meaning, MemoryKind, MemorySource, Parallelism, Reading, Unresolved, Version};
use super::{edit, near, unread};
use crate::invocation::prefix::Program;
use crate::invocation::{Certainty, Command, Item, Word};
use crate::units::Fraction;

/// Options whose misspelling is told; there are others.
const OPTIONS: &[&str] = &[
    "--cuda-memory-fraction",
    "--max-total-tokens",
    "--max-input-tokens",
    "--max-input-length",
    "--max-batch-prefill-tokens",
    "--max-batch-total-tokens",
    "--kv-cache-dtype",
    "--num-shard",
    "--quantize",
    "--model-id",
    "--sharded",
    "--cuda-graphs",
    "--speculate",
    "--lora-adapters",
];

/// Where values stand.
const PROVENANCE: [Entry; 11] = [
    Entry::new(
        "model",
        &["--model-id"],
        &["MODEL_ID", "HF_MODEL_ID"],
        Otherwise::Nothing,
    ),
    Entry::new(
        "memory",
        &["--cuda-memory-fraction"],
        &["CUDA_MEMORY_FRACTION"],
        Otherwise::Default("1.0"),
    ),
    Entry::new(
        "tensor-parallel-size",
        &["--num-shard"],
        &["NUM_SHARD", "SM_NUM_GPUS"],
        Otherwise::Engine("every visible device, or one with --sharded false"),
    ),
    Entry::new(
        "max-model-len",
        &["--max-total-tokens"],
        &["MAX_TOTAL_TOKENS"],
        Otherwise::Engine("TGI works it out from the model and the memory"),
    ),
    Entry::new(
        "quantization",
        &["--quantize"],
        &["QUANTIZE", "HF_MODEL_QUANTIZE"],
        Otherwise::Model,
    ),
    Entry::new("dtype", &["--dtype"], &["DTYPE"], Otherwise::Default("auto")),
    Entry::new(
        "kv-cache-dtype",
        &["--kv-cache-dtype"],
        &["KV_CACHE_DTYPE"],
        Otherwise::Default("auto"),
    ),
    Entry::new("eager", &["--cuda-graphs"], &["CUDA_GRAPHS"], Otherwise::Nothing),
    Entry::new(
        "max-num-batched-tokens",
        &["--max-batch-prefill-tokens"],
        &["MAX_BATCH_PREFILL_TOKENS"],
        Otherwise::Nothing,
    ),
    Entry::new(
        "max-total-tokens",
        &["--max-batch-total-tokens"],
        &["MAX_BATCH_TOTAL_TOKENS"],
        Otherwise::Nothing,
    ),
    Entry::new("draft", &["--speculate"], &["SPECULATE"], Otherwise::Nothing),
];

/// The reader of TGI's launcher. Every option has a variable of its own; the option wins.
pub(super) struct Tgi;

impl Reader for Tgi {
    fn engine(&self) -> Engine {
        Engine::Tgi
    }

    fn entrypoint(&self, image: &Image<'_>) -> Option<Vec<Cow<'static, str>>> {
        let is_it = image.name().contains("text-generation-inference") || is_for_sagemaker(image);
        is_it.then(|| vec![Cow::Borrowed("text-generation-launcher")])
    }

    fn runs(&self, program: Program<'_>, _words: &[Word<'_>]) -> bool {
        matches!(program, Program::Binary("text-generation-launcher"))
    }

    fn read(&self, context: &Context<'_>, command: &Command<'_>, first: usize) -> Reading {
        let written = command.words.get(first..).unwrap_or_default();
        let words = resplit(context, written);
        let words = words.as_slice();
        let mut reading = context.blank(Engine::Tgi, MemoryKind::UntilLeft);
        // What is free less the part to be left: what others hold comes off (`get_cuda_free_memory` of its server).
        reading.meaning = Meaning::WholeDevice;
        reading.version = reading.version.or_else(|| version_of(&context.image));
        reading.command = Some("launcher".to_owned());
        reading.memory.value = Some("1.0".to_owned());
        let option = |reading: &mut Reading, flag: &str, name: &str| {
            if let Some(text) = reading.option(words, &[flag]) {
                return Some((text, MemorySource::Flag));
            }
            match context.variable(command, name)? {
                Ok(text) => Some((text, MemorySource::Env)),
                Err(reason) => {
                    let field = flag.trim_start_matches('-').to_owned();
                    let decides_memory = name == "CUDA_MEMORY_FRACTION";
                    reading.unresolved.push(Unresolved {
                        field,
                        reason,
                        decides_memory,
                    });
                    None
                }
            }
        };
        if let Some((text, source)) = option(&mut reading, "--cuda-memory-fraction", "CUDA_MEMORY_FRACTION") {
            reading.memory.value = Some(text);
            reading.memory.source = source;
        } else if reading
            .unresolved
            .iter()
            .any(|unresolved| unresolved.field == "cuda-memory-fraction")
        {
            reading.memory.value = None;
            reading.memory.source = MemorySource::Unresolved;
        }
        // The image for SageMaker calls some of them otherwise.
        reading.model = option(&mut reading, "--model-id", "MODEL_ID")
            .or_else(|| option(&mut reading, "--model-id", "HF_MODEL_ID"))
            .map(|(text, _)| text);
        reading.quantization = option(&mut reading, "--quantize", "QUANTIZE")
            .or_else(|| option(&mut reading, "--quantize", "HF_MODEL_QUANTIZE"))
            .map(|(text, _)| text);
        reading.memory.fraction = reading
            .memory
            .value
            .as_deref()
            .and_then(|text| Fraction::parse(text).ok());
        reading.dtype =
            Some(option(&mut reading, "--dtype", "DTYPE").map_or("auto".to_owned(), |(text, _)| text));
        reading.kv_cache_dtype = Some(
            option(&mut reading, "--kv-cache-dtype", "KV_CACHE_DTYPE")
                .map_or("auto".to_owned(), |(text, _)| text),
        );
        reading.max_model_len = option(&mut reading, "--max-total-tokens", "MAX_TOTAL_TOKENS")
            .and_then(|(text, _)| text.parse().ok());
        let options = Options {
            context,
            command,
            words,
        };
        serving(options, &mut reading);
        reading.provenance = provenance::of(options, &PROVENANCE);
        let shards = option(&mut reading, "--num-shard", "NUM_SHARD")
            .or_else(|| option(&mut reading, "--num-shard", "SM_NUM_GPUS"))
            .and_then(|(text, _)| text.trim().parse().ok());
        let alone = option(&mut reading, "--sharded", "SHARDED").is_some_and(|(text, _)| text == "false");
        // Without it TGI takes every visible device.
        let visible = ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"]
            .into_iter()
            .find_map(|name| context.variable(command, name))
            .and_then(Result::ok)
            .filter(|list| !matches!(list.trim(), "" | "all" | "void" | "none"))
            .and_then(|list| u32::try_from(list.split(',').count()).ok());
        let tensor = shards.or(if alone {
            Some(1)
        } else {
            visible.or_else(|| context.slots())
        });
        let tensor = tensor.unwrap_or(1).max(1);
        reading.parallelism = Parallelism {
            tensor,
            devices: tensor,
            ..Parallelism::default()
        };

        if !context.asks() && context.is_for_other_devices() {
            reading.memory.kind = MemoryKind::None;
            reading.parallelism.devices = 0;
        }

        // Parts of a word have no place of their own.
        if words.len() == written.len() {
            reading.fraction_edit = edit::plain(context, command, words, "--cuda-memory-fraction");
        }

        let unread = unread::variables(context, &reading, &unread::TGI);
        reading.findings.extend(unread);
        reading
            .findings
            .extend(near::of_plain(context, "TGI", words, OPTIONS));

        reading.findings.extend(context.floating_image());
        context.finish(command, reading)
    }
}

/// The image for SageMaker, which is called after the framework that it is built on.
fn is_for_sagemaker(image: &Image<'_>) -> bool {
    image.name().starts_with("huggingface-pytorch-tgi")
}

/// The release: of the image for SageMaker it stands behind that of the framework (`2.0.1-tgi1.1.0-gpu`).
fn version_of(image: &Image<'_>) -> Option<Version> {
    if !is_for_sagemaker(image) {
        return image.version();
    }
    let mut parts = image.tag?.split('-');
    parts.find_map(|part| Version::parse(part.strip_prefix("tgi")?))
}

/// Batches, graphs, drafts and adapters (`launcher/src/main.rs`: every option has a variable of its name).
fn serving(options: Options<'_>, reading: &mut Reading) {
    reading.serving.max_num_batched_tokens = options.count(
        reading,
        &["--max-batch-prefill-tokens"],
        "MAX_BATCH_PREFILL_TOKENS",
    );
    reading.serving.max_total_tokens =
        options.count(reading, &["--max-batch-total-tokens"], "MAX_BATCH_TOTAL_TOKENS");
    // Sizes of batches to capture; zero switches graphs off.
    reading.eager = options
        .text(reading, &["--cuda-graphs"], "CUDA_GRAPHS")
        .is_some_and(|sizes| sizes.split(',').all(|size| size.trim() == "0"));
    let drafted = options.number(reading, &["--speculate"], "SPECULATE");
    reading.serving.draft = drafted.filter(|tokens| *tokens > 0).map(|tokens| Draft {
        method: None,
        model: None,
        tokens: Some(tokens),
    });
    let adapters = options.text(reading, &["--lora-adapters"], "LORA_ADAPTERS");
    if adapters.is_some_and(|adapters| !adapters.trim().is_empty()) {
        let reason = "the rank is that of the adapters, which are not read";
        plain::note(reading, "lora-adapters", reason.to_owned());
    }
}

/// The image's start script hands its arguments on without quotes, so that each is split at blanks.
fn resplit<'w>(context: &Context<'_>, words: &[Word<'w>]) -> Vec<Word<'w>> {
    let by_image = context
        .placed
        .container
        .command
        .as_ref()
        .is_none_or(Vec::is_empty);
    let mut out = Vec::with_capacity(words.len());
    for word in words {
        let splits = by_image
            && word.certainty == Certainty::Known
            && matches!(word.item, Item::Args(_))
            && word.text.contains(char::is_whitespace);
        if splits {
            out.extend(word.text.split_whitespace().map(|text| Word {
                text: Cow::Owned(text.to_owned()),
                span: None,
                ..word.clone()
            }));
        } else {
            out.push(word.clone());
        }
    }
    out
}
