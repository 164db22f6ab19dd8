//! From vLLM's options to a [`Reading`].

use super::options::{self, Entrypoint};
use super::parse::{ParseError, Parsed};
use super::{Start, findings, wrapper};
use crate::engine::argparse::yaml::Files;
use crate::engine::edit;
use crate::engine::line::LineView;
use crate::engine::reader::Context;
use crate::engine::variables;
use crate::engine::{
    Engine, MemoryKind, MemoryRequest, MemorySource, Reading, Resolvable, Starts, Unresolved, Version,
};
use crate::invocation::{Command, Word};

mod meaning;
mod memory;
mod parallelism;
mod provenance;
mod releases;
mod serving;
mod without_effect;

pub(super) use crate::engine::argparse::releases::Refused;
use releases::{Target, parse_for};

/// The option that decides.
pub(super) const FRACTION: &str = "--gpu-memory-utilization";

/// A command line with the words that stand for it.
pub(super) struct Line<'w> {
    pub(super) parsed: Parsed<'w>,
    pub(super) words: &'w [Word<'w>],
    /// Indices of words that a policy's variables put in, with the index of each variable in the environment.
    pub(super) from_variables: Vec<(usize, usize)>,
    /// Whether every release that could be meant refuses it.
    pub(super) refused: Refused,
    /// Whether words had to be split to read what was meant.
    pub(super) split: bool,
}

impl<'w> Line<'w> {
    pub(super) fn view(&self) -> LineView<'_, 'w> {
        LineView {
            engine: "vLLM",
            parsed: &self.parsed,
            words: self.words,
            from_variables: &self.from_variables,
            split: self.split,
        }
    }
}

pub(super) fn read(context: &Context<'_>, command: &Command<'_>, first: usize, start: Start) -> Reading {
    let words = command.words.get(first..).unwrap_or_default();
    let (name, entrypoint, lenient) = match subcommand(start, words) {
        Ok(way) => way,
        Err(name) => return client(context, command, name),
    };
    let words = match (start, entrypoint) {
        // The subcommand of a program that takes the options without the parser of `serve`.
        (Start::Cli, Entrypoint::ApiServer) => words.get(1..).unwrap_or_default(),
        _ => words,
    };
    let version = context.version().or_else(|| super::version_of(&context.image));
    let look_up = |path: &str| context.file(path);
    let config = Files::new(&look_up);
    let settled = without_effect::without_effect(words, entrypoint);
    let words = settled.as_ref().map_or(words, |settled| &settled.words);
    let wrapped = wrapper::words(start, context, words);
    let words = wrapped.as_deref().unwrap_or(words);
    let (with_variables, from_variables) = {
        let at = match entrypoint {
            Entrypoint::ApiServer => 0,
            Entrypoint::Serve if words.get(1).is_some_and(|word| !word.text.starts_with('-')) => 2,
            Entrypoint::Serve => 1.min(words.len()),
        };
        let known = wrapper::variables(start, context);
        variables::put(context, words, at, known, &|option| is_flag(option, entrypoint))
    };
    let words = with_variables.as_deref().unwrap_or(words);
    // An image of unknown release starts the module in old ones and `serve` in new ones.
    let either = version.is_none() && command.words.first().is_some_and(|word| word.item.is_elsewhere());
    let target = Target {
        version,
        entrypoint,
        either,
    };
    let (mut parsed, mut refused) = parse_for(target, words, &config);
    let original_error = parsed.error.clone();
    // Several words in one item: what was meant is read from the split line, whether it starts from the line as it is.
    let meant;
    let mut split = false;
    let mut line_words = words;
    if let Some(words) = findings::split_items(words, &parsed) {
        meant = words;
        let (reread, _) = parse_for(target, &meant, &config);
        if original_error.is_some() {
            refused = Refused::Yes;
        }
        parsed = reread;
        parsed.error = original_error;
        split = true;
        line_words = &meant;
    }
    let line = Line {
        parsed,
        words: line_words,
        from_variables,
        refused,
        split,
    };
    let mut reading = reading(context, command, &line, version, name, lenient);
    if let Some(settled) = &settled {
        settled.note(&mut reading);
    }
    if start == Start::Wrapper(wrapper::HUGGINGFACE) {
        let written = command.words.get(first..).unwrap_or_default();
        reading.findings.extend(wrapper::dropped(context, written));
    }
    if start == Start::Wrapper(wrapper::KAITO)
        && let Some(unread) = wrapper::unread_file(context, command.words.get(first..).unwrap_or_default())
    {
        reading.unresolved.push(unread);
        if reading.resolvable == Resolvable::Full {
            reading.resolvable = Resolvable::Partial;
        }
    }
    // Without the option the script measures what is free and takes nearly all of it.
    if start == Start::Wrapper(wrapper::KAITO) && reading.memory.source == MemorySource::Default {
        reading.memory.source = MemorySource::EngineAuto;
        reading.memory.value = None;
        reading.memory.fraction = None;
    }
    if context.explains {
        let given = command.words.get(first..).unwrap_or_default();
        reading.provenance = provenance::of(context, command, &line, &reading, start, given);
    }
    reading
}

/// A program of vLLM that uses no device.
fn client(context: &Context<'_>, command: &Command<'_>, name: String) -> Reading {
    let mut reading = context.blank(Engine::None, MemoryKind::None);
    reading.command = Some(name);
    reading.parallelism.devices = 0;
    context.finish(command, reading)
}

/// The name of the command in the reading, the parser, and whether options beyond the server's are taken.
fn subcommand(start: Start, words: &[Word<'_>]) -> Result<(String, Entrypoint, bool), String> {
    let word = |index: usize| words.get(index).map_or("", |word| &*word.text);
    match start {
        Start::ApiServer => Ok(("api-server".to_owned(), Entrypoint::ApiServer, false)),
        Start::RunBatch => Ok(("run-batch".to_owned(), Entrypoint::ApiServer, true)),
        Start::Client => Err("bench serve".to_owned()),
        Start::Wrapper(name) => Ok((name.to_owned(), Entrypoint::ApiServer, true)),
        Start::Cli => match (word(0), word(1)) {
            ("-v" | "--version" | "-h" | "--help", _) => Err(word(0).to_owned()),
            // Only as the last word: before, it may be the value of an option.
            _ if words
                .last()
                .is_some_and(|word| matches!(&*word.text, "-h" | "--help")) =>
            {
                Err(format!("{} --help", word(0)))
            }
            ("chat" | "complete" | "collect-env", _) => Err(word(0).to_owned()),
            ("launch", _) => Err(format!("launch {}", word(1))),
            ("bench", "latency" | "throughput" | "startup") => {
                Ok((format!("bench {}", word(1)), Entrypoint::ApiServer, true))
            }
            ("bench", _) => Err(format!("bench {}", word(1))),
            ("run-batch" | "preload", _) => Ok((word(0).to_owned(), Entrypoint::ApiServer, true)),
            _ => Ok(("serve".to_owned(), Entrypoint::Serve, false)),
        },
    }
}

fn reading(
    context: &Context<'_>,
    command: &Command<'_>,
    line: &Line<'_>,
    version: Option<Version>,
    name: String,
    lenient: bool,
) -> Reading {
    let parsed = &line.parsed;
    let mut reading = context.blank(Engine::Vllm, MemoryKind::OfTotal);
    reading.version = version;
    reading.command = Some(name);
    reading.memory = memory(context, line, version, &mut reading.unresolved);
    let view = line.view();
    // The default model is used only where nothing unreadable can name another one.
    let named = parsed.positional.is_some() || parsed.last("--model").is_some();
    let defaulted = !lenient && parsed.open.is_none() && parsed.unread_config.is_none();
    reading.model = parsed.model().filter(|_| named || defaulted).map(str::to_owned);
    if !named && !defaulted && !lenient {
        reading.unresolved.push(Unresolved {
            field: "model".to_owned(),
            reason: view.open_reason(),
            decides_memory: false,
        });
    }
    if let Some(positional) = &parsed.positional {
        view.note_unresolved(positional, "model", false, &mut reading.unresolved);
    }
    for (option, field) in [
        ("--model", "model"),
        ("--tensor-parallel-size", "tensor-parallel-size"),
        ("--pipeline-parallel-size", "pipeline-parallel-size"),
        ("--data-parallel-size", "data-parallel-size"),
        ("--max-model-len", "max-model-len"),
        ("--quantization", "quantization"),
        ("--dtype", "dtype"),
        ("--kv-cache-dtype", "kv-cache-dtype"),
    ] {
        if let Some(setting) = parsed.last(option) {
            view.note_unresolved(setting, field, false, &mut reading.unresolved);
        }
    }
    reading.meaning = meaning::of(context, command, parsed, version);
    reading.parallelism = parallelism::of(context, command, parsed);
    reading.serving = serving::of(context, command, &view, version, &mut reading.unresolved);
    reading.max_model_len = parsed.int("--max-model-len");
    reading.quantization = parsed.text("--quantization").map(str::to_owned);
    reading.dtype = parsed.text("--dtype").map(str::to_owned);
    reading.kv_cache_dtype = parsed.text("--kv-cache-dtype").map(str::to_owned);
    reading.eager = is_eager(parsed);
    if is_off_gpu(context, parsed) {
        reading.memory.kind = MemoryKind::None;
        reading.memory.fraction = None;
        reading.parallelism.devices = 0;
    }
    let open = parsed.open.is_some() || parsed.unread_config.is_some();
    reading.starts = match line.refused {
        Refused::Yes | Refused::Perhaps
            if lenient && parsed.error.as_ref().is_some_and(ParseError::is_about_words) =>
        {
            Starts::Yes
        }
        Refused::Yes => Starts::No,
        Refused::Perhaps => Starts::Unknown,
        Refused::No if open => Starts::Unknown,
        Refused::No => Starts::Yes,
    };
    if reading.starts == Starts::Yes && memory::hangs_on_memory(context, &reading) {
        reading.starts = Starts::Unknown;
    }
    if let Some(reason) = &context.invocation.opaque {
        reading.unresolved.push(Unresolved {
            field: "argv".to_owned(),
            reason: reason.clone(),
            decides_memory: false,
        });
        reading.resolvable = Resolvable::Partial;
    }
    reading.findings = findings::of(context, line, &reading, lenient);
    let edit = |option| edit::option(context, command, &view, option);
    reading.fraction_edit = edit(FRACTION);
    reading.length_edit = edit("--max-model-len");
    reading.tensor_edit = edit("--tensor-parallel-size");
    context.finish(command, reading)
}

/// The fraction and where it comes from.
fn memory(
    context: &Context<'_>,
    line: &Line<'_>,
    version: Option<Version>,
    unresolved: &mut Vec<Unresolved>,
) -> MemoryRequest {
    // 0.92 since 0.20.0; of an unknown release the larger one.
    let default = if version.is_some_and(|version| version < Version::new(0, 20, 0)) {
        "0.9"
    } else {
        "0.92"
    };
    let default = (MemorySource::Default, Some(default));
    line.view()
        .memory(context, MemoryKind::OfTotal, FRACTION, default, unresolved)
}

/// Whether an option takes no value.
pub(super) fn is_flag(option: &str, entrypoint: Entrypoint) -> bool {
    let newest = options::releases().len().saturating_sub(1);
    options::release(newest, entrypoint)
        .and_then(|release| release.named(option))
        .is_some_and(|option| option.arity == options::Arity::Flag)
}

/// Whether no CUDA graphs are captured.
fn is_eager(parsed: &Parsed<'_>) -> bool {
    if parsed.flag("--enforce-eager") {
        return true;
    }
    if parsed
        .last("--optimization-level")
        .is_some_and(|setting| setting.text == "0")
    {
        return true;
    }
    let Some(config) = parsed.last("--compilation-config") else {
        return false;
    };
    let json: serde_json::Value = serde_json::from_str(&config.text).unwrap_or_default();
    json.get("cudagraph_mode")
        .and_then(serde_json::Value::as_str)
        .is_some_and(|mode| mode.eq_ignore_ascii_case("none"))
}

/// Whether it runs on the CPU, or on devices that nobody asks for here.
fn is_off_gpu(context: &Context<'_>, parsed: &Parsed<'_>) -> bool {
    if parsed.text("--device") == Some("cpu") && parsed.last("--device").is_some() {
        return true;
    }
    let container = context.placed.container;
    let cpu_variable = container.env.iter().any(|variable| {
        matches!(
            &*variable.name,
            "VLLM_CPU_KVCACHE_SPACE" | "VLLM_CPU_OMP_THREADS_BIND"
        )
    });
    !context.asks() && (context.is_for_other_devices() || cpu_variable)
}
