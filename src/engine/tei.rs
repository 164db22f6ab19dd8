//! Text Embeddings Inference: weights and the activations of one batch, on one device; no option for memory.

use std::borrow::Cow;

use super::image::Image;
use super::plain::Options;
use super::reader::{Context, Reader, asks_for_accelerator};
use super::{Engine, MemoryKind, MemorySource, Reading};
use crate::finding::{Code, Finding};
use crate::invocation::prefix::Program;
use crate::invocation::{Command, Word};
use crate::workload::pod::EnvVar;

/// Variables of other engines that manifests give to this one, and what the router reads instead. It reads those that
/// are named as its options (`MODEL_ID`, `MAX_BATCH_TOKENS`). (huggingface/text-embeddings-inference, `router/src/main.rs`.)
const UNREAD: [(&str, Option<&str>); 9] = [
    ("MODEL", Some("--model-id")),
    ("MODEL_NAME", Some("--model-id")),
    ("MODEL_PATH", Some("--model-id")),
    ("QUANTIZATION", None),
    ("MAX_MODEL_LEN", None),
    ("MAX_NUM_SEQS", Some("--max-batch-requests")),
    ("MAX_NUM_BATCHED_TOKENS", Some("--max-batch-tokens")),
    ("GPU_MEMORY_UTILIZATION", None),
    ("TENSOR_PARALLEL_SIZE", None),
];

/// VG103: variables that the router does not read. A variable that an argument or a policy uses is read after all.
fn unread_variables(context: &Context<'_>) -> Vec<Finding> {
    let container = context.placed.container;
    let words = container.command.iter().chain(&container.args).flatten();
    if context.invocation.commands.len() > 1 || context.rule.is_some_and(|rule| !rule.entrypoint.is_empty()) {
        return Vec::new();
    }
    let is_used = |name: &str| {
        context.rule.is_some_and(|rule| rule.variables.contains_key(name))
            || words.clone().any(|text| text.contains(name))
    };
    let find = |(index, variable): (usize, &EnvVar)| {
        let (name, instead) = UNREAD.iter().find(|(name, _)| *name == variable.name)?;
        if is_used(name) {
            return None;
        }
        let instead = match instead {
            Some(option) => format!("set {option} in args instead"),
            None => "it has no such option".to_owned(),
        };
        let path = context.path.field("env").index(index);
        let message = format!("text-embeddings-inference does not read the variable {name}: {instead}");
        Some(Finding::new(Code::Vg103, path, message))
    };
    container
        .env
        .iter()
        .enumerate()
        .filter_map(find)
        .take(UNREAD.len())
        .collect()
}

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
        let words = command.words.get(first..).unwrap_or_default();
        let mut reading = context.blank(Engine::Tei, MemoryKind::Estimated);
        reading.command = Some("router".to_owned());
        reading.memory.source = MemorySource::Estimate;
        let variable = |name| context.variable(command, name).and_then(Result::ok);
        reading.model = reading
            .option(words, &["--model-id"])
            .or_else(|| variable("MODEL_ID"));
        reading.dtype = reading
            .option(words, &["--dtype"])
            .or_else(|| variable("DTYPE"))
            .or_else(|| Some("auto".to_owned()));
        reading.kv_cache_dtype = Some("auto".to_owned());
        let options = Options {
            context,
            command,
            words,
        };
        reading.serving.max_num_batched_tokens =
            options.count(&mut reading, &["--max-batch-tokens"], "MAX_BATCH_TOKENS");
        reading.serving.max_num_seqs =
            options.count(&mut reading, &["--max-batch-requests"], "MAX_BATCH_REQUESTS");
        let cpu = context.image.tag.is_some_and(|tag| tag.starts_with("cpu"));
        if cpu && !asks_for_accelerator(context.placed.container) {
            reading.memory.kind = MemoryKind::None;
            reading.parallelism.devices = 0;
        }
        reading.findings.extend(unread_variables(context));
        reading.findings.extend(context.floating_image());
        context.finish(command, reading)
    }
}
