//! From vLLM's options to a [`Reading`].

use std::borrow::Cow;

use super::options::{self, Entrypoint};
use super::parse::{self, ParseError, Parsed, Setting};
use super::value::{self, Value};
use super::{Start, edit, findings};
use crate::engine::reader::{Context, asks_for_accelerator};
use crate::engine::{
    Engine, MemoryKind, MemoryRequest, MemorySource, Parallelism, Reading, Resolvable, Starts, Unresolved,
    Version,
};
use crate::invocation::{Certainty, Command, Item, Word};
use crate::units::Fraction;

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

pub(super) fn read(context: &Context<'_>, command: &Command<'_>, first: usize, start: Start) -> Reading {
    let words = command.words.get(first..).unwrap_or_default();
    let (name, entrypoint, lenient) = match subcommand(start, words) {
        Ok(way) => way,
        Err(name) => {
            let mut reading = context.blank(Engine::None, MemoryKind::None);
            reading.command = Some(name);
            return context.finish(command, reading);
        }
    };
    let words = match (start, entrypoint) {
        // The subcommand of a program that takes the options without the parser of `serve`.
        (Start::Cli, Entrypoint::ApiServer) => words.get(1..).unwrap_or_default(),
        _ => words,
    };
    let version = context.version().or_else(|| super::version_of(&context.image));
    let config = |path: &str| config_file(context, path);
    let (with_variables, from_variables) = put_variables(context, words, entrypoint);
    let words = with_variables.as_deref().unwrap_or(words);
    // An image of unknown release starts the module in old ones and `serve` in new ones.
    let either = version.is_none()
        && command
            .words
            .first()
            .is_some_and(|word| word.item == Item::Elsewhere);
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
        parsed.error = original_error.clone();
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
    reading(context, command, &line, version, name, lenient)
}

/// The name of the command in the reading, the parser, and whether options beyond the server's are taken.
fn subcommand(start: Start, words: &[Word<'_>]) -> Result<(String, Entrypoint, bool), String> {
    let word = |index: usize| words.get(index).map_or("", |word| &*word.text);
    match start {
        Start::ApiServer => Ok(("api-server".to_owned(), Entrypoint::ApiServer, false)),
        Start::RunBatch => Ok(("run-batch".to_owned(), Entrypoint::ApiServer, true)),
        Start::Wrapper(name) => Ok((name.to_owned(), Entrypoint::ApiServer, true)),
        Start::Cli => match (word(0), word(1)) {
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

/// Which parsers may read a command line.
#[derive(Clone, Copy)]
struct Target {
    version: Option<Version>,
    entrypoint: Entrypoint,
    either: bool,
}

/// Whether a line is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// A release that it could be takes it.
    No,
    /// None of them does, but not for a common reason, and there are releases that were not read.
    Perhaps,
    /// None of them does.
    Yes,
}

/// Reads the words as the release does, and says whether every release that could be meant refuses them.
///
/// A release that was not read itself has the options of a neighbour; of an unknown one all are possible, the newest
/// first.
fn parse_for<'w>(
    target: Target,
    words: &'w [Word<'w>],
    config: &parse::ConfigFile<'_>,
) -> (Parsed<'w>, Refused) {
    let releases = options::releases();
    let newest = releases.len().saturating_sub(1);
    let (best, others) = match target.version {
        None => (newest, (0..newest).rev().collect()),
        Some(version) => match releases.binary_search(&version) {
            Ok(exact) => (exact, Vec::new()),
            Err(0) => (0, Vec::new()),
            Err(above) if above > newest => (newest, Vec::new()),
            Err(above) => {
                let [major, minor, ..] = releases[above].0;
                let same_minor = [major, minor] == [version.0[0], version.0[1]];
                if same_minor {
                    (above, vec![above - 1])
                } else {
                    (above - 1, vec![above])
                }
            }
        },
    };
    let parse_at = |position: usize| {
        if target.either && target.entrypoint == Entrypoint::Serve && releases[position] < super::SERVE_IMAGE
        {
            parse::parse(
                position,
                Entrypoint::ApiServer,
                words.get(1..).unwrap_or_default(),
                config,
            )
            .shifted(1)
        } else {
            parse::parse(position, target.entrypoint, words, config)
        }
    };
    let parsed = parse_at(best);
    let accepts = |parsed: &Parsed<'_>| parsed.error.is_none() && parsed.refused_by_config().is_empty();
    if accepts(&parsed) {
        return (parsed, Refused::No);
    }
    let mut common = parsed.error.clone();
    for other in others {
        let again = parse_at(other);
        if accepts(&again) {
            return (again, Refused::No);
        }
        common = common.and_then(|error| error.in_common(again.error.as_ref()));
    }
    let sure = target.version.is_some() || common.is_some() || parsed.error.is_none();
    (parsed, if sure { Refused::Yes } else { Refused::Perhaps })
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
    // The default model is used only where nothing unreadable can name another one.
    let named = parsed.positional.is_some() || parsed.last("--model").is_some();
    let defaulted = !lenient && parsed.open.is_none() && parsed.unread_config.is_none();
    reading.model = parsed.model().filter(|_| named || defaulted).map(str::to_owned);
    if !named && !defaulted && !lenient {
        reading.unresolved.push(Unresolved {
            field: "model".to_owned(),
            reason: open_reason(line),
            decides_memory: false,
        });
    }
    if let Some(positional) = &parsed.positional {
        note_unresolved(line, positional, "model", false, &mut reading.unresolved);
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
            note_unresolved(line, setting, field, false, &mut reading.unresolved);
        }
    }
    reading.parallelism = parallelism(context, command, parsed);
    reading.max_model_len = parsed.int("--max-model-len");
    reading.quantization = parsed.text("--quantization").map(str::to_owned);
    reading.dtype = parsed.text("--dtype").map(str::to_owned);
    reading.kv_cache_dtype = parsed.text("--kv-cache-dtype").map(str::to_owned);
    reading.eager = is_eager(parsed);
    if is_cpu(context, parsed) {
        reading.memory.kind = MemoryKind::None;
        reading.memory.fraction = None;
        reading.parallelism.devices = 0;
    }
    let open = parsed.open.is_some() || parsed.unread_config.is_some();
    reading.starts = match line.refused {
        Refused::Yes | Refused::Perhaps if lenient && parsed.error.as_ref().is_some_and(is_about_words) => {
            Starts::Yes
        }
        Refused::Yes => Starts::No,
        Refused::Perhaps => Starts::Unknown,
        Refused::No if open => Starts::Unknown,
        Refused::No => Starts::Yes,
    };
    // A rank without a device: VG105 says so.
    if reading.starts == Starts::Yes
        && context
            .slots()
            .is_some_and(|slots| reading.parallelism.devices > slots)
    {
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
    reading.fraction_edit = edit::fraction(context, command, line);
    context.finish(command, reading)
}

/// The fraction and where it comes from.
fn memory(
    context: &Context<'_>,
    line: &Line<'_>,
    version: Option<Version>,
    unresolved: &mut Vec<Unresolved>,
) -> MemoryRequest {
    let parsed = &line.parsed;
    let mut request = MemoryRequest {
        kind: MemoryKind::OfTotal,
        value: None,
        source: MemorySource::Unresolved,
        fraction: None,
        absolute: None,
        path: context.path.field("args"),
    };
    let setting = parsed.last(FRACTION);
    if let Some(setting) = setting {
        request.path = path_of(context, line, setting);
    }
    if let Some((file, reason)) = &parsed.unread_config
        && setting.is_none_or(|setting| setting.place.config)
    {
        unresolved.push(Unresolved {
            field: FRACTION[2..].to_owned(),
            reason: format!("the file {file} of --config: {reason}"),
            decides_memory: true,
        });
        return request;
    }
    let overridden = |order: usize| parsed.open.is_some_and(|open| open > order);
    match setting {
        Some(setting) if setting.value == Value::Unresolved => {
            note_unresolved(line, setting, &FRACTION[2..], true, unresolved);
        }
        Some(setting) if overridden(setting.order) => note_open(line, unresolved),
        Some(setting) => {
            request.source = if setting.place.config {
                MemorySource::ConfigFile
            } else if line
                .from_variables
                .iter()
                .any(|(word, _)| *word == setting.place.word)
            {
                MemorySource::Env
            } else {
                MemorySource::Flag
            };
            request.fraction = Fraction::parse(&value::ascii_digits(&setting.text)).ok();
            request.value = Some(setting.text.clone().into_owned());
        }
        None if parsed.open.is_some() => note_open(line, unresolved),
        None => {
            request.source = MemorySource::Default;
            // 0.92 since 0.20.0; of an unknown release the larger one.
            let default = if version.is_some_and(|version| version < Version::new(0, 20, 0)) {
                "0.9"
            } else {
                "0.92"
            };
            request.fraction = Fraction::parse(default).ok();
            request.value = Some(default.to_owned());
        }
    }
    request
}

fn note_open(line: &Line<'_>, unresolved: &mut Vec<Unresolved>) {
    let reason = open_reason(line);
    unresolved.push(Unresolved {
        field: FRACTION[2..].to_owned(),
        reason,
        decides_memory: true,
    });
}

/// Which words may set anything.
fn open_reason(line: &Line<'_>) -> String {
    if let Some((file, reason)) = &line.parsed.unread_config {
        return format!("the file {file} of --config: {reason}");
    }
    let word = line.words.iter().find(|word| word.certainty != Certainty::Known);
    match word {
        Some(Word {
            text,
            reason: Some(reason),
            ..
        }) => format!("{text} may set it: {reason}"),
        _ => "words that cannot be read may set it".to_owned(),
    }
}

fn note_unresolved(
    line: &Line<'_>,
    setting: &Setting<'_>,
    field: &str,
    decides_memory: bool,
    unresolved: &mut Vec<Unresolved>,
) {
    if setting.value != Value::Unresolved || unresolved.iter().any(|known| known.field == field) {
        return;
    }
    let reason = line
        .words
        .get(setting.place.word)
        .and_then(|word| word.reason.clone());
    let reason = reason
        .unwrap_or(Cow::Borrowed("its value is not known before the container runs"))
        .into_owned();
    unresolved.push(Unresolved {
        field: field.to_owned(),
        reason,
        decides_memory,
    });
}

/// The field that holds a value.
pub(super) fn path_of(
    context: &Context<'_>,
    line: &Line<'_>,
    setting: &Setting<'_>,
) -> crate::finding::FieldPath {
    if let Some((_, variable)) = line
        .from_variables
        .iter()
        .find(|(word, _)| *word == setting.place.word)
    {
        return match context
            .invocation
            .environment
            .variables()
            .get(*variable)
            .map(|variable| variable.origin)
        {
            Some(crate::invocation::VariableOrigin::Env(index)) => context.path.field("env").index(index),
            Some(crate::invocation::VariableOrigin::EnvFrom(index)) => {
                context.path.field("envFrom").index(index)
            }
            None => context.path.clone(),
        };
    }
    match line.words.get(setting.place.word) {
        Some(word) => word.item.path(&context.path),
        None => context.path.field("args"),
    }
}

/// Options that a policy says the image takes from variables, put before those of the command line, which win.
fn put_variables<'w>(
    context: &Context<'w>,
    words: &[Word<'w>],
    entrypoint: Entrypoint,
) -> (Option<Vec<Word<'w>>>, Vec<(usize, usize)>) {
    let Some(rule) = context.rule.filter(|rule| !rule.variables.is_empty()) else {
        return (None, Vec::new());
    };
    let at = match entrypoint {
        Entrypoint::ApiServer => 0,
        Entrypoint::Serve if words.get(1).is_some_and(|word| !word.text.starts_with('-')) => 2,
        Entrypoint::Serve => 1.min(words.len()),
    };
    let mut more = Vec::new();
    let mut from = Vec::new();
    for (name, option) in &rule.variables {
        let variables = context.invocation.environment.variables();
        let Some(index) = variables.iter().rposition(|variable| variable.name == *name) else {
            continue;
        };
        let option = if option.starts_with('-') {
            option.clone()
        } else {
            format!("--{option}")
        };
        let (text, certainty, reason) = match &variables[index].value {
            Ok(value) if is_flag(&option, entrypoint) => {
                if !matches!(
                    value.trim().to_ascii_lowercase().as_str(),
                    "1" | "true" | "yes" | "on"
                ) {
                    continue;
                }
                (option, Certainty::Known, None)
            }
            Ok(value) => (format!("{option}={value}"), Certainty::Known, None),
            Err(reason) => {
                let known = option.len() + 1;
                (
                    format!("{option}="),
                    Certainty::From(known),
                    Some(Cow::Owned(reason.clone())),
                )
            }
        };
        from.push((at + more.len(), index));
        more.push(Word {
            text: Cow::Owned(text),
            certainty,
            reason,
            ..Word::literal("")
        });
    }
    if more.is_empty() {
        return (None, Vec::new());
    }
    let mut all = words.to_vec();
    all.splice(at..at, more);
    (Some(all), from)
}

fn is_flag(option: &str, entrypoint: Entrypoint) -> bool {
    let newest = options::releases().len().saturating_sub(1);
    options::release(newest, entrypoint)
        .and_then(|release| release.named(option))
        .is_some_and(|option| option.arity == options::Arity::Flag)
}

/// Parallel sizes, and the devices of this pod: `TP x PP x PCP x local DP`, or the share of one node.
fn parallelism(context: &Context<'_>, command: &Command<'_>, parsed: &Parsed<'_>) -> Parallelism {
    let size = |option: &str| {
        let int = parsed.int(option).unwrap_or(1).max(1);
        u32::try_from(int).unwrap_or(u32::MAX)
    };
    let (tensor, pipeline) = (size("--tensor-parallel-size"), size("--pipeline-parallel-size"));
    let context_parallel = size("--prefill-context-parallel-size");
    let data = size("--data-parallel-size");
    let nodes = size("--nnodes");
    let ranked =
        parsed.int("--data-parallel-rank").is_some() && parsed.last("--data-parallel-rank").is_some();
    let data_local = match parsed.int("--data-parallel-size-local") {
        // A front end without engines of its own.
        Some(0) => 0,
        Some(local) => u32::try_from(local.max(1)).unwrap_or(u32::MAX),
        None if ranked || parsed.flag("--data-parallel-external-lb") => 1,
        None => data,
    };
    let world = tensor.saturating_mul(pipeline).saturating_mul(context_parallel);
    let mut devices = if nodes > 1 {
        world.saturating_mul(data).div_ceil(nodes)
    } else {
        world.saturating_mul(data_local)
    };
    // With Ray the ranks beyond this pod's devices are in other pods of the group.
    if let Some(slots) = context.slots()
        && devices > slots
        && spans_pods(context, command, parsed)
    {
        devices = slots;
    }
    Parallelism {
        tensor,
        pipeline,
        data,
        data_local,
        devices,
    }
}

/// Whether other pods carry a part of the ranks: Ray was started or joined before, or the group says so.
fn spans_pods(context: &Context<'_>, command: &Command<'_>, parsed: &Parsed<'_>) -> bool {
    let starts_ray = |other: &Command<'_>| {
        other.words.iter().take(2).any(|word| {
            let name = crate::invocation::prefix::base_name(&word.text);
            name == "ray" || name == "multi-node-serving.sh"
        })
    };
    let before = context
        .invocation
        .commands
        .iter()
        .filter(|other| !std::ptr::eq(*other, command));
    before.clone().any(starts_ray) || parsed.text("--data-parallel-backend") == Some("ray")
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

fn is_cpu(context: &Context<'_>, parsed: &Parsed<'_>) -> bool {
    if parsed.text("--device") == Some("cpu") && parsed.last("--device").is_some() {
        return true;
    }
    let image = &context.placed.container.image;
    !asks_for_accelerator(context.placed.container) && (image.contains("cpu") || image.contains("arm64"))
}

/// The file of `--config` where a ConfigMap is mounted; why not otherwise.
fn config_file<'s>(context: &Context<'s>, path: &str) -> Result<&'s str, String> {
    crate::invocation::files::read(context.pod, context.placed.container, context.sources, path)
}

/// Whether an error is one that a wrapper's own options explain.
pub(super) fn is_about_words(error: &ParseError) -> bool {
    matches!(
        error,
        ParseError::Unrecognized(_) | ParseError::Ambiguous(_) | ParseError::MissingModel(_)
    )
}
