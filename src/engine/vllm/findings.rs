//! What to tell about a command line of vLLM by itself.

use super::options;
use super::parse::Parsed;
use super::reading::{FRACTION, Line, Refused};
use crate::engine::fraction::{self, Limit};
use crate::engine::near;
use crate::engine::reader::Context;
use crate::engine::refusals::{self, several_words};
use crate::engine::sizes;
use crate::engine::unread::{self, Unread};
use crate::engine::{MemorySource, Reading};
use crate::finding::{Code, Finding};
use crate::invocation::Word;

/// Variables that other images read and vLLM does not, with the option that was meant.
const UNREAD: Unread = Unread {
    engine: "vLLM",
    variables: &[
        ("GPU_MEMORY_UTILIZATION", FRACTION),
        ("VLLM_GPU_MEMORY_UTILIZATION", FRACTION),
        ("GPU_MEM_UTILIZATION", FRACTION),
        ("MODEL_NAME", "--model"),
        ("MODEL_ID", "--model"),
        ("MODEL_PATH", "--model"),
        ("MODEL", "--model"),
        ("VLLM_MODEL", "--model"),
        ("MAX_MODEL_LEN", "--max-model-len"),
        ("VLLM_MAX_MODEL_LEN", "--max-model-len"),
        ("TENSOR_PARALLEL_SIZE", "--tensor-parallel-size"),
        ("VLLM_TENSOR_PARALLEL_SIZE", "--tensor-parallel-size"),
        ("PIPELINE_PARALLEL_SIZE", "--pipeline-parallel-size"),
        ("DATA_PARALLEL_SIZE", "--data-parallel-size"),
        ("QUANTIZATION", "--quantization"),
        ("VLLM_QUANTIZATION", "--quantization"),
        ("DTYPE", "--dtype"),
        ("KV_CACHE_DTYPE", "--kv-cache-dtype"),
        ("MAX_NUM_SEQS", "--max-num-seqs"),
        ("MAX_NUM_BATCHED_TOKENS", "--max-num-batched-tokens"),
        ("ENFORCE_EAGER", "--enforce-eager"),
        ("SWAP_SPACE", "--swap-space"),
    ],
    memory: FRACTION,
    model: "--model",
};

/// Parallel sizes; none of a front end's own engines is a meaningful number of them.
const SIZES: [(&str, i128); 6] = [
    ("--tensor-parallel-size", 1),
    ("--pipeline-parallel-size", 1),
    ("--prefill-context-parallel-size", 1),
    ("--data-parallel-size", 1),
    ("--data-parallel-size-local", 0),
    ("--nnodes", 1),
];

pub(super) fn of(context: &Context<'_>, line: &Line<'_>, reading: &Reading, lenient: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let fraction = fraction::unusable(context, &line.view(), FRACTION, Limit::One);
    let several = several_words(context, &line.view());
    let explained = fraction.is_some() || several.is_some();
    findings.extend(fraction);
    // A wrapper may read variables of its own.
    if !lenient {
        findings.extend(unread::variables(context, reading, &UNREAD));
    }
    findings.extend(several);
    match &line.parsed.error {
        _ if explained || line.refused == Refused::No => {}
        Some(error) => {
            let near = |name: &str| nearest(name, &line.parsed);
            // A program around the engine has options of its own.
            if !(lenient && error.is_about_words()) {
                findings.extend(refusals::refused(context, &line.view(), error, &near));
            }
        }
        None => {
            findings.extend(refused_values(context, line));
            if !lenient {
                findings.extend(refused_together(context, line));
            }
        }
    }
    let refused = line.parsed.refused_by_config();
    let is_told =
        |option: &str| line.refused != Refused::No && refused.iter().any(|setting| setting.option == option);
    findings.extend(sizes::findings(context, &line.view(), &SIZES, &is_told));
    if let Some(floating) = context.floating_image() {
        let defaulted = reading.memory.source == MemorySource::Default && reading.version.is_none();
        let assumed = "The larger default 0.92 (since vLLM 0.20.0; 0.9 before) is counted.";
        findings.push(if defaulted {
            floating.detail(assumed)
        } else {
            floating
        });
    }
    findings
}

/// The words that were meant, where an item holds several; `None` where each item is one.
pub(super) fn split_items<'w>(words: &[Word<'w>], parsed: &Parsed<'_>) -> Option<Vec<Word<'w>>> {
    refusals::split_items(words, &|name| is_option(&name.replace('_', "-"), parsed))
}

/// The option of the release that a misspelt one was meant to be.
fn nearest(name: &str, parsed: &Parsed<'_>) -> Option<&'static str> {
    let position = options::releases()
        .iter()
        .position(|version| *version == parsed.release)
        .unwrap_or_default();
    let release = options::release(position, parsed.entrypoint)?;
    // An underscore is a dash in these names.
    let name = name.replace('_', "-");
    near::nearest(release.starting_with("-").map(|spelling| spelling.text), &name, 3)
}

/// Whether any release has an option that begins so.
fn is_option(name: &str, parsed: &Parsed<'_>) -> bool {
    let position = options::releases()
        .iter()
        .position(|version| *version == parsed.release)
        .unwrap_or_default();
    let known = |position: usize| {
        options::release(position, parsed.entrypoint)
            .is_some_and(|release| release.starting_with(name).next().is_some())
    };
    known(position) || (0..options::releases().len()).rev().any(known)
}

/// VG107: options that the parser takes and the server refuses together.
fn refused_together(context: &Context<'_>, line: &Line<'_>) -> Option<Finding> {
    let why = line.parsed.refused_together()?;
    let option = why.split(' ').next().unwrap_or_default();
    let path = match line.parsed.last(option) {
        Some(setting) => line.view().path_of(context, setting),
        None => context.path.field("args"),
    };
    let release = line.parsed.release;
    let message = format!("vLLM {release} does not serve with this command line: {why}");
    Some(Finding::new(Code::Vg107, path, message))
}

/// VG107: values that the parser takes and the typed configuration refuses.
fn refused_values(context: &Context<'_>, line: &Line<'_>) -> Vec<Finding> {
    let refused = line.parsed.refused_by_config();
    let finding = |setting: &&super::parse::Setting<'_>| {
        let text: String = setting.text.chars().take(60).collect();
        let release = line.parsed.release;
        let message = format!(
            "{} {text:?} is out of range in vLLM {release}, which does not start with it",
            setting.option
        );
        Finding::new(Code::Vg107, line.view().path_of(context, setting), message)
    };
    refused
        .iter()
        .filter(|setting| setting.option != FRACTION)
        .map(finding)
        .collect()
}
