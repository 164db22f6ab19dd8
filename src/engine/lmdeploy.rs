//! LMDeploy: a fraction of what is free once the weights are loaded (`--cache-max-entry-count`).

use std::borrow::Cow;

use super::image::Image;
use super::plain::{self, Options};
use super::provenance::plain::{self as provenance, Entry, Otherwise};
use super::reader::{Context, Reader};
use super::{Engine, MemoryKind, MemorySource, Parallelism, Reading};
use super::{near, unread};
use crate::invocation::prefix::Program;
use crate::invocation::{Certainty, Command, Word};

/// Options whose misspelling is told; there are others.
const OPTIONS: &[&str] = &[
    "--cache-max-entry-count",
    "--session-len",
    "--max-batch-size",
    "--quant-policy",
    "--model-format",
    "--model-name",
    "--cache-block-seq-len",
    "--max-prefill-token-num",
    "--chat-template",
];

/// Options without a value (`lmdeploy/cli/utils.py`, `lmdeploy/cli/serve.py`).
const FLAGS: &[&str] = &[
    "--allow-credentials",
    "--ssl",
    "--trust-remote-code",
    "--enable-prefix-caching",
    "--eager-mode",
    "--disable-vision-encoder",
    "--disable-fastapi-docs",
    "--allow-terminate-by-client",
    "--enable-abort-handling",
    "--enable-microbatch",
    "--enable-eplb",
    "--enable-return-routed-experts",
    "--enable-metrics",
    "--async",
];

/// Where values stand.
const PROVENANCE: [Entry; 10] = [
    Entry::new(
        "memory",
        &["--cache-max-entry-count"],
        &[],
        Otherwise::Default("0.8"),
    ),
    Entry::new("tensor-parallel-size", &["--tp"], &[], Otherwise::Default("1")),
    Entry::new("data-parallel-size", &["--dp"], &[], Otherwise::Default("1")),
    Entry::new("max-model-len", &["--session-len"], &[], Otherwise::Model),
    Entry::new("quantization", &["--model-format"], &[], Otherwise::Model),
    Entry::new("dtype", &["--dtype"], &[], Otherwise::Default("auto")),
    Entry::new(
        "kv-cache-dtype",
        &["--quant-policy"],
        &[],
        Otherwise::Default("auto"),
    ),
    Entry::new("max-num-seqs", &["--max-batch-size"], &[], Otherwise::Nothing),
    Entry::new(
        "max-num-batched-tokens",
        &["--max-prefill-token-num"],
        &[],
        Otherwise::Nothing,
    ),
    Entry::new("block-size", &["--cache-block-seq-len"], &[], Otherwise::Nothing),
];

/// The reader of `lmdeploy serve api_server`.
pub(super) struct Lmdeploy;

impl Reader for Lmdeploy {
    fn engine(&self) -> Engine {
        Engine::Lmdeploy
    }

    fn entrypoint(&self, image: &Image<'_>) -> Option<Vec<Cow<'static, str>>> {
        // The image has no entrypoint of its own.
        (image.name() == "lmdeploy").then(Vec::new)
    }

    fn runs(&self, program: Program<'_>, words: &[Word<'_>]) -> bool {
        let at = match program {
            Program::Binary("lmdeploy") => 1,
            Program::Module("lmdeploy") => words
                .iter()
                .position(|word| word.text == "lmdeploy")
                .map_or(usize::MAX, |at| at + 1),
            _ => return false,
        };
        words.get(at).is_some_and(|word| word.text == "serve")
    }

    fn read(&self, context: &Context<'_>, command: &Command<'_>, first: usize) -> Reading {
        let meant = plain::meant(command.words.get(first..).unwrap_or_default());
        let words = &*meant;
        let mut reading = context.blank(Engine::Lmdeploy, MemoryKind::OfFreeAfterWeights);
        reading.version = reading.version.or_else(|| context.image.version());
        reading.command = words.get(1).map(|word| word.text.replace('_', "-"));
        reading.memory.value = Some("0.8".to_owned());
        if let Some(text) = reading.option(words, &["--cache-max-entry-count"]) {
            reading.memory.value = Some(text);
            reading.memory.source = MemorySource::Flag;
        } else if let Some(unresolved) = reading.unresolved.last_mut() {
            unresolved.decides_memory = true;
            reading.memory.value = None;
            reading.memory.source = MemorySource::Unresolved;
        }
        let model = plain::positional(words.get(2..).unwrap_or_default(), FLAGS);
        reading.model = model
            .filter(|word| word.certainty == Certainty::Known)
            .map(|word| word.text.clone().into_owned());
        if let Some(word) = model.filter(|word| word.certainty != Certainty::Known) {
            let reason = word.reason.as_deref().unwrap_or("it is not known");
            plain::note(&mut reading, "model", reason.to_owned());
        }
        let tensor = reading.count(words, &["--tp"]).unwrap_or(1);
        let data = reading.count(words, &["--dp"]).unwrap_or(1);
        let devices = tensor.max(data);
        reading.parallelism = Parallelism {
            tensor,
            data,
            data_local: data,
            devices,
            ..Parallelism::default()
        };
        reading.max_model_len = reading
            .option(words, &["--session-len"])
            .and_then(|text| text.parse().ok());
        reading.dtype = reading
            .option(words, &["--dtype"])
            .or_else(|| Some("auto".to_owned()));
        reading.quantization = reading
            .option(words, &["--model-format"])
            .filter(|format| format != "hf");
        let policy = reading.option(words, &["--quant-policy"]);
        let cache = match policy.as_deref().map(str::trim) {
            Some("4") => "int4",
            Some("8") => "int8",
            None | Some("0") => "auto",
            Some(_) => {
                let reason = "its value is none of 0, 4 and 8".to_owned();
                plain::note(&mut reading, "quant-policy", reason);
                "auto"
            }
        };
        reading.kv_cache_dtype = Some(cache.to_owned());
        let options = Options {
            context,
            command,
            words,
        };
        serving(options, &mut reading);
        if let Some(word) = model.filter(|_| reading.model.is_some()) {
            reading
                .provenance
                .extend(provenance::positional(context, "model", word));
        }
        reading.provenance.extend(provenance::of(options, &PROVENANCE));

        let unread = unread::variables(context, &reading, &unread::LMDEPLOY);
        reading.findings.extend(unread);
        reading
            .findings
            .extend(near::of_plain(context, "LMDeploy", words, OPTIONS));

        plain::tell_split(context, matches!(meant, Cow::Owned(_)), &mut reading);
        reading.findings.extend(context.floating_image());
        context.finish(command, reading)
    }
}

/// Batches and blocks (`lmdeploy/cli/utils.py`).
fn serving(options: Options<'_>, reading: &mut Reading) {
    reading.serving.max_num_seqs = options.count(reading, &["--max-batch-size"], "");
    reading.serving.max_num_batched_tokens = options.count(reading, &["--max-prefill-token-num"], "");
    reading.serving.block_size = options.count(reading, &["--cache-block-seq-len"], "");
    reading.serving.expert_parallel = options
        .count(reading, &["--ep"], "")
        .is_some_and(|ranks| ranks > 1);
    if options.has(&["--adapters"]) {
        let reason = "the rank is that of the adapters, which are not read";
        plain::note(reading, "adapters", reason.to_owned());
    }
}
