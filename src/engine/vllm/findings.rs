//! What to tell about a command line of vLLM by itself.

use super::options;
use super::parse::Parsed;
use super::reading::{FRACTION, Line, Refused};
use crate::engine::fraction::{self, Limit};
use crate::engine::reader::Context;
use crate::engine::refusals::{self, refused_option, several_words};
use crate::engine::{MemorySource, Reading};
use crate::finding::{Code, Finding};
use crate::invocation::{VariableOrigin, Word};

/// Variables that other images read and vLLM does not, with the option that was meant.
const UNREAD: [(&str, &str); 22] = [
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
];

pub(super) fn of(context: &Context<'_>, line: &Line<'_>, reading: &Reading, lenient: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let fraction = fraction::unusable(context, &line.view(), FRACTION, Limit::One);
    let several = several_words(context, &line.view());
    let explained = fraction.is_some() || several.is_some();
    findings.extend(fraction);
    // A wrapper may read variables of its own.
    if !lenient {
        findings.extend(unread_variables(context, reading));
    }
    findings.extend(several);
    match &line.parsed.error {
        _ if explained || line.refused == Refused::No => {}
        Some(error) if lenient && error.is_about_words() => {}
        Some(error) => findings.push(refused_option(context, &line.view(), error)),
        None => findings.extend(refused_values(context, line)),
    }
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

/// VG103: variables that the plain image does not read.
fn unread_variables(context: &Context<'_>, reading: &Reading) -> Vec<Finding> {
    let container = context.placed.container;
    let declared = |name: &str| context.rule.is_some_and(|rule| rule.variables.contains_key(name));
    // What the command line or another variable uses is read after all, and so is what a script of unknown content may.
    let words = container.command.iter().chain(&container.args).flatten();
    let used = |name: &str| {
        words.clone().any(|text| text.contains(name))
            || container.env.iter().any(|other| {
                let value = other.value.as_deref().unwrap_or_default();
                other.name != name && value.contains('$') && value.contains(name)
            })
    };
    // A start script of the platform's own, or a program that runs before, may read them.
    let others_run = context.invocation.commands.len() > 1;
    if others_run || context.rule.is_some_and(|rule| !rule.entrypoint.is_empty()) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut compared: Vec<&str> = Vec::new();
    for variable in context.invocation.environment.variables() {
        // Each name is compared with every word, and once; nobody reads more than these.
        if findings.len() >= 8 {
            break;
        }
        let VariableOrigin::Env(index) = variable.origin else {
            continue;
        };
        let name = &*variable.name;
        let Some((_, option)) = UNREAD.iter().find(|(unread, _)| *unread == name) else {
            continue;
        };
        if compared.contains(&name) {
            continue;
        }
        compared.push(name);
        if declared(name) || used(name) {
            continue;
        }
        let applies = match (*option, reading.memory.source) {
            (FRACTION, MemorySource::Default) => match &reading.memory.value {
                Some(value) => format!("the default {value} of each device applies"),
                None => "the default applies".to_owned(),
            },
            ("--model", _) => match &reading.model {
                Some(model) => format!("the model is {model}"),
                None => "the command line decides".to_owned(),
            },
            _ => "the command line and the defaults apply".to_owned(),
        };
        let path = context.path.field("env").index(index);
        let message =
            format!("vLLM does not read the variable {name}: {applies}; set {option} in args instead");
        findings.push(Finding::new(Code::Vg103, path, message));
    }
    findings
}

/// The words that were meant, where an item holds several; `None` where each item is one.
pub(super) fn split_items<'w>(words: &[Word<'w>], parsed: &Parsed<'_>) -> Option<Vec<Word<'w>>> {
    refusals::split_items(words, &|name| is_option(&name.replace('_', "-"), parsed))
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
