//! Text Embeddings Inference: weights and the activations of one batch, on one device; no option for memory.

use std::borrow::Cow;

use super::image::Image;
use super::plain::{self, Options};
use super::provenance::plain::{self as provenance, Entry, Otherwise};
use super::reader::{Context, Reader, asks_for_accelerator};
use super::{Engine, MemoryKind, MemorySource, Reading};
use super::{near, unread};
use crate::invocation::prefix::Program;
use crate::invocation::{Command, Word};

/// Options whose misspelling is told; there are others.
const OPTIONS: &[&str] = &[
    "--max-batch-tokens",
    "--max-batch-requests",
    "--max-client-batch-size",
    "--max-concurrent-requests",
    "--model-id",
    "--pooling",
];

/// Where values stand.
const PROVENANCE: [Entry; 6] = [
    Entry::new(
        "model",
        &["--model-id"],
        &["MODEL_ID", "HF_MODEL_ID"],
        Otherwise::Nothing,
    ),
    Entry::new(
        "memory",
        &[],
        &[],
        Otherwise::Engine("the weights and the activations of one batch"),
    ),
    Entry::new("dtype", &["--dtype"], &["DTYPE"], Otherwise::Default("auto")),
    Entry::new(
        "kv-cache-dtype",
        &[],
        &[],
        Otherwise::Engine("TEI keeps no cache of keys and values"),
    ),
    Entry::new(
        "max-num-batched-tokens",
        &["--max-batch-tokens"],
        &["MAX_BATCH_TOKENS"],
        Otherwise::Nothing,
    ),
    Entry::new(
        "max-num-seqs",
        &["--max-batch-requests"],
        &["MAX_BATCH_REQUESTS"],
        Otherwise::Nothing,
    ),
];

/// The reader of TEI's router.
pub(super) struct Tei;

impl Reader for Tei {
    fn engine(&self) -> Engine {
        Engine::Tei
    }

    fn entrypoint(&self, image: &Image<'_>) -> Option<Vec<Cow<'static, str>>> {
        image
            .name()
            .contains("text-embeddings-inference")
            .then(|| vec![Cow::Borrowed("text-embeddings-router")])
    }

    fn runs(&self, program: Program<'_>, _words: &[Word<'_>]) -> bool {
        matches!(program, Program::Binary("text-embeddings-router"))
    }

    fn read(&self, context: &Context<'_>, command: &Command<'_>, first: usize) -> Reading {
        let meant = plain::meant(command.words.get(first..).unwrap_or_default());
        let words = &*meant;
        let mut reading = context.blank(Engine::Tei, MemoryKind::Estimated);
        reading.command = Some("router".to_owned());
        reading.memory.source = MemorySource::Estimate;
        let options = Options {
            context,
            command,
            words,
        };
        // The image for SageMaker calls it otherwise.
        reading.model = options
            .text(&mut reading, &["--model-id"], "MODEL_ID")
            .or_else(|| options.text(&mut reading, &["--model-id"], "HF_MODEL_ID"));
        reading.dtype = options
            .text(&mut reading, &["--dtype"], "DTYPE")
            .or_else(|| Some("auto".to_owned()));
        reading.kv_cache_dtype = Some("auto".to_owned());
        reading.serving.max_num_batched_tokens =
            options.count(&mut reading, &["--max-batch-tokens"], "MAX_BATCH_TOKENS");
        reading.serving.max_num_seqs =
            options.count(&mut reading, &["--max-batch-requests"], "MAX_BATCH_REQUESTS");
        reading.provenance = provenance::of(options, &PROVENANCE);
        let cpu = context.image.tag.is_some_and(|tag| tag.starts_with("cpu"));
        if cpu && !asks_for_accelerator(context.placed.container) {
            reading.memory.kind = MemoryKind::None;
            reading.parallelism.devices = 0;
        }

        let unread = unread::variables(context, &reading, &unread::TEI);
        reading.findings.extend(unread);
        reading
            .findings
            .extend(near::of_plain(context, "TEI", words, OPTIONS));

        plain::tell_split(context, matches!(meant, Cow::Owned(_)), &mut reading);
        reading.findings.extend(context.floating_image());
        context.finish(command, reading)
    }
}
