//! What to tell about a command line of vLLM by itself.

use std::borrow::Cow;

use super::options;
use super::parse::{ParseError, Parsed};
use super::reading::{self, FRACTION, Line, Refused};
use super::value::{self, Refusal, Value};
use crate::engine::reader::Context;
use crate::engine::{MemorySource, Reading};
use crate::finding::{Code, FieldPath, Finding, Number};
use crate::invocation::{Certainty, VariableOrigin, Word};
use crate::units::Fraction;

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
    let fraction = unusable_fraction(context, line);
    let several = several_words(context, line);
    let explained = fraction.is_some() || several.is_some();
    findings.extend(fraction);
    // A wrapper may read variables of its own.
    if !lenient {
        findings.extend(unread_variables(context, reading));
    }
    findings.extend(several);
    match &line.parsed.error {
        _ if explained || line.refused == Refused::No => {}
        Some(error) if lenient && reading::is_about_words(error) => {}
        Some(error) => findings.push(refused_option(context, line, error)),
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

/// VG101: a fraction that is no fraction.
fn unusable_fraction(context: &Context<'_>, line: &Line<'_>) -> Option<Finding> {
    let setting = line.parsed.last(FRACTION);
    let setting = match setting {
        // The flag without a value is refused as such.
        None => return missing_fraction(context, line),
        Some(setting) if setting.value == Value::Unresolved => return None,
        Some(setting) => setting,
    };
    let text = &*setting.text;
    let reason = match (setting.value, Fraction::parse(&value::ascii_digits(text))) {
        (Value::Refused(_), Ok(_)) => "is not a number".to_owned(),
        (_, Ok(_)) => return None,
        (_, Err(reason)) => reason.to_string(),
    };
    let path = reading::path_of(context, line, setting);
    let remedy = match text.trim().replace(',', ".").trim_end_matches('%') {
        "" => "write a decimal fraction above 0 and at most 1, such as 0.30".to_owned(),
        text => match meant(text) {
            Some(meant) => format!("write a decimal fraction above 0 and at most 1 (was {meant} meant?)"),
            None => "write a decimal fraction above 0 and at most 1, such as 0.30".to_owned(),
        },
    };
    let shown: String = text.chars().take(40).collect();
    Some(
        Finding::new(
            Code::Vg101,
            path,
            format!("{FRACTION} {shown:?} {reason}; {remedy}"),
        )
        .number("value", Number::Text(text.to_owned())),
    )
}

/// The fraction that a comma, a percentage or a value in tenths stands for.
fn meant(text: &str) -> Option<String> {
    let fraction = Fraction::parse(text).ok();
    if let Some(fraction) = fraction {
        return Some(fraction.text().to_owned());
    }
    let percent: u32 = text
        .trim()
        .parse()
        .ok()
        .filter(|percent| (2..=100).contains(percent))?;
    Fraction::from_ppm(percent.checked_mul(10_000)?).map(|fraction| fraction.text().to_owned())
}

fn missing_fraction(context: &Context<'_>, line: &Line<'_>) -> Option<Finding> {
    let Some(ParseError::MissingValue(word)) = &line.parsed.error else {
        return None;
    };
    if word != FRACTION {
        return None;
    }
    let path = line
        .words
        .iter()
        .rev()
        .find(|given| given.text.replace('_', "-") == *word)
        .map_or_else(
            || context.path.field("args"),
            |given| given.item.path(&context.path),
        );
    let message =
        format!("{FRACTION} has no value; write a decimal fraction above 0 and at most 1, such as 0.30");
    Some(Finding::new(Code::Vg101, path, message))
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
    for variable in context.invocation.environment.variables() {
        // Each is compared with every word; nobody reads more than these.
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

/// VG104: an item of an exec-form list that holds several words.
fn several_words(context: &Context<'_>, line: &Line<'_>) -> Option<Finding> {
    if !line.split {
        return None;
    }
    let container = context.placed.container;
    let lists = [("command", &container.command), ("args", &container.args)];
    for (list, items) in lists {
        for (index, text) in items.iter().flatten().enumerate() {
            if holds_several(text) {
                let path = context.path.field(list).index(index);
                let shown: String = text.chars().take(80).collect();
                let message = format!(
                    "{shown:?} is one argument to the engine, not several; write each word as an item of its own"
                );
                return Some(Finding::new(Code::Vg104, path, message));
            }
        }
    }
    None
}

/// Whether an item begins like an option and goes on after a space.
fn holds_several(text: &str) -> bool {
    let text = text.trim_start();
    match text.split_once([' ', '\n']) {
        Some((first, rest)) => {
            !rest.trim().is_empty()
                && first.starts_with('-')
                && first.len() > 1
                && (!first.contains('=') || rest.trim_start().starts_with("--"))
                && first.bytes().skip(1).any(|b| b.is_ascii_alphabetic())
        }
        None => false,
    }
}

/// The words that were meant, where an item holds several; `None` where each item is one.
pub(super) fn split_items<'w>(words: &[Word<'w>], parsed: &Parsed<'_>) -> Option<Vec<Word<'w>>> {
    let whole =
        |word: &Word<'_>| word.span.as_ref().is_some_and(|span| span.start == 0) || word.span.is_none();
    let splits = |word: &Word<'_>| {
        word.certainty == Certainty::Known
            && whole(word)
            && holds_several(&word.text)
            && is_option(&word.text, parsed)
    };
    if !words.iter().any(splits) {
        return None;
    }
    let mut out = Vec::with_capacity(words.len() + 8);
    for word in words {
        if splits(word) {
            for part in word.text.split_whitespace() {
                let part = part.trim_matches(['"', '\'']);
                out.push(Word {
                    text: Cow::Owned(part.to_owned()),
                    span: None,
                    ..word.clone()
                });
            }
        } else {
            out.push(word.clone());
        }
    }
    Some(out)
}

fn is_option(text: &str, parsed: &Parsed<'_>) -> bool {
    let first = text.split_whitespace().next().unwrap_or_default();
    let name = first
        .split_once('=')
        .map_or(first, |(name, _)| name)
        .replace('_', "-");
    let position = options::releases()
        .iter()
        .position(|version| *version == parsed.release)
        .unwrap_or_default();
    let known = |position: usize| {
        options::release(position, parsed.entrypoint)
            .is_some_and(|release| release.starting_with(&name).next().is_some())
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
        Finding::new(Code::Vg107, reading::path_of(context, line, setting), message)
    };
    refused
        .iter()
        .filter(|setting| setting.option != FRACTION)
        .map(finding)
        .collect()
}

/// VG107: an option that this release refuses.
fn refused_option(context: &Context<'_>, line: &Line<'_>, error: &ParseError) -> Finding {
    let release = line.parsed.release;
    let place = |text: &str| -> FieldPath {
        let found = line.words.iter().find(|word| {
            let name = word.text.split_once('=').map_or(&*word.text, |(name, _)| name);
            *word.text == *text
                || name.replace('_', "-") == text.split_once('=').map_or(text, |(name, _)| name)
        });
        found.map_or_else(
            || context.path.field("args"),
            |word| word.item.path(&context.path),
        )
    };
    let (word, message) = match error {
        ParseError::Ambiguous(word) => (
            word.as_str(),
            format!("{word} is a prefix of several options of vLLM {release}; write the option in full"),
        ),
        ParseError::Unrecognized(words) => {
            let word = words.iter().find(|word| word.starts_with('-')).or(words.first());
            let word = word.map_or("", String::as_str);
            (
                word,
                format!(
                    "vLLM {release} does not know {word:?} and does not start with it; remove or correct it"
                ),
            )
        }
        ParseError::InvalidValue {
            option,
            text,
            refusal,
        } => {
            let text: String = text.chars().take(60).collect();
            let why = match refusal {
                Refusal::Type => "is not of its type",
                Refusal::NotAChoice => "is not one of its choices",
            };
            (
                *option,
                format!("{option} {text:?} {why} in vLLM {release}, which does not start with it"),
            )
        }
        ParseError::FlagTakesNoValue(option) => (
            *option,
            format!("{option} takes no value in vLLM {release}; write it alone or leave it out"),
        ),
        ParseError::MissingValue(option) => (
            option.as_str(),
            format!("{option} has no value; vLLM {release} does not start without one"),
        ),
        ParseError::MissingModel(why) => ("--model", format!("vLLM {release} has no model to serve: {why}")),
        ParseError::Other(why) => (
            "",
            format!("vLLM {release} does not serve with this command line: {why}"),
        ),
    };
    Finding::new(Code::Vg107, place(word), message)
}
