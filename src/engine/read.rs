//! Finds the engines of a container: by the programs that its invocation starts, else by its image.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeSet;

use super::image::{self, Image};
use super::reader::{Context, Reader};
use super::{
    Engine, ImageRule, MemoryKind, MemorySource, Placed, Reading, Resolvable, Sources, Starts, Unresolved,
    annotations, dependence, djl, llama_cpp, lmdeploy, nim, ollama, other, provenance, ray, sglang, tei,
    tensorflow_serving, tensorrt_llm, tgi, triton, vllm,
};
use crate::finding::{Code, Finding};
use crate::invocation::{self, Certainty, Command, Word, files, prefix};
use crate::workload::pod::{Container, Pod};

/// Every engine that is read. A new one is its module and a line here. The first that knows a program reads it: NIM's starts vLLM, which knows the same name.
const READERS: [&dyn Reader; 14] = [
    &nim::Nim,
    &vllm::Vllm,
    &djl::Djl,
    &sglang::Sglang,
    &tgi::Tgi,
    &tei::Tei,
    &tensorrt_llm::TensorRtLlm,
    &triton::Triton,
    &llama_cpp::LlamaCpp,
    &ollama::Ollama,
    &lmdeploy::Lmdeploy,
    &ray::RayWorker,
    &other::Frameworks,
    &tensorflow_serving::TensorflowServing,
];

/// Engines that one container may start. Real ones start one or two; each reading carries the edits of its script, so a
/// script of a megabyte with thousands of engines would otherwise take gigabytes.
const MOST_ENGINES: usize = 16;

/// What one container starts: a reading for each engine in it, at least one.
///
/// `rules` are what the policy says of images; the first that matches counts.
#[must_use]
pub fn read(pod: &Pod, placed: Placed<'_>, sources: &dyn Sources, rules: &[ImageRule]) -> Vec<Reading> {
    read_once(pod, placed, sources, rules, false).readings
}

/// The same as [`read`], with [`Reading::provenance`] and [`Reading::depends_on`] filled in.
#[must_use]
pub fn explain(pod: &Pod, placed: Placed<'_>, sources: &dyn Sources, rules: &[ImageRule]) -> Vec<Reading> {
    let mut read = read_once(pod, placed, sources, rules, true);
    dependence::note(&mut read, pod, placed, sources, rules);
    read.readings
}

/// A container as it is read once.
pub(super) struct Read {
    pub(super) readings: Vec<Reading>,
    /// The words of each engine's command.
    pub(super) lines: Vec<dependence::Line>,
    /// Whether an engine asks for variables that are not set.
    pub(super) asks: bool,
}

pub(super) fn read_once(
    pod: &Pod,
    placed: Placed<'_>,
    sources: &dyn Sources,
    rules: &[ImageRule],
    explains: bool,
) -> Read {
    let container = placed.container;
    let image = Image::parse(&container.image);
    let rule = rules.iter().find(|rule| {
        rule.images
            .iter()
            .any(|pattern| image::matches(pattern, &container.image))
    });
    let stated = rule
        .and_then(|rule| rule.engine.as_deref())
        .and_then(Engine::from_name);
    let by_image = READERS.iter().copied().find(|reader| match stated {
        Some(engine) => reader.engine() == engine,
        None => reader.entrypoint(&image).is_some(),
    });
    let stated_entrypoint = rule.filter(|rule| !rule.entrypoint.is_empty());
    let entrypoint = match stated_entrypoint {
        Some(rule) => Some(
            rule.entrypoint
                .iter()
                .map(|word| Cow::Borrowed(word.as_str()))
                .collect(),
        ),
        None => by_image.and_then(|reader| entrypoint_of(reader, &image, stated.is_some())),
    };
    let (entrypoint, doubt) = settled(
        container,
        &image,
        by_image,
        stated_entrypoint.is_some(),
        entrypoint,
    );
    let invocation = invocation::read(pod, placed, sources, entrypoint);
    let context = Context {
        pod,
        placed,
        path: placed.path(),
        image,
        invocation: &invocation,
        sources,
        rule,
        explains,
        asks: Cell::new(false),
    };
    let mut readings = Vec::with_capacity(1);
    let mut lines = Vec::new();
    for command in &invocation.commands {
        if let Some((reader, first)) = reader_of(command) {
            let before = readings.len();
            readings.extend(reader.read_all(&context, command, first));
            let limits = context.limits(command);
            for reading in readings.iter_mut().skip(before) {
                reading.limits.clone_from(&limits);
            }
            lines.push(dependence::line(command));
            if readings.len() > MOST_ENGINES {
                return too_many(&context);
            }
        }
    }
    // An engine that joins another one's ranks (a Ray worker) is none of its own beside it, and a client is none at all.
    if readings
        .iter()
        .any(|reading| !matches!(reading.engine, Engine::None | Engine::RayWorker))
    {
        readings.retain(|reading| !matches!(reading.engine, Engine::None | Engine::RayWorker));
    }
    if readings.is_empty() {
        readings.extend(whole_line_in_one_word(&context));
    }
    if readings.is_empty() {
        let mut reading = without_command(&context, by_image);
        reading.limits = context.limits(&Command::default());
        readings.push(reading);
    }
    if let Some(first) = readings.first_mut() {
        first.findings.extend(annotations::near_misses(pod, placed));
    }
    if let Some(doubt) = doubt {
        for reading in &mut readings {
            doubt.note(reading);
        }
    }
    for reading in &mut readings {
        dependence::without_actions(&context, reading);
        if dependence::is_blind(&context, reading) {
            reading.resolvable = Resolvable::None;
        }
    }
    if explains {
        readings.iter_mut().for_each(provenance::complete);
    }
    Read {
        readings,
        lines,
        asks: context.asks.get(),
    }
}

fn too_many(context: &Context<'_>) -> Read {
    let reason = format!("it starts more than {MOST_ENGINES} engines, which is not followed");
    let mut reading = unknown(context, reason);
    reading.limits = context.limits(&Command::default());
    Read {
        readings: vec![reading],
        lines: Vec::new(),
        asks: false,
    }
}

/// What an image starts, as far as its engine's reader knows it; the usual start of the engine where a policy states that.
fn entrypoint_of(reader: &dyn Reader, image: &Image<'_>, is_stated: bool) -> Option<Vec<Cow<'static, str>>> {
    let known = reader.entrypoint(image);
    known
        .or_else(|| is_stated.then(|| default_entrypoint(reader.engine())))
        .filter(|words| !words.is_empty())
}

/// What is assumed of a container whose arguments are not those of a known entrypoint.
#[derive(Clone, Copy)]
enum Doubt {
    /// The entrypoint is not known, and the options are vLLM's.
    Guessed,
    /// The image runs its arguments as a program, and they are options only.
    NoProgram,
}

impl Doubt {
    fn note(self, reading: &mut Reading) {
        let reason = match self {
            Self::Guessed => {
                reading.starts = Starts::Unknown;
                "the image's entrypoint is not known; its arguments are vLLM's"
            }
            Self::NoProgram => {
                reading.starts = Starts::No;
                reading.without_edits();
                "the image runs its arguments as a program, and they are options only; name the program"
            }
        };
        reading.resolvable = Resolvable::Partial;
        reading.unresolved.push(Unresolved {
            field: "argv".to_owned(),
            reason: reason.to_owned(),
            decides_memory: false,
        });
    }
}

/// The entrypoint that the arguments speak for, and what is assumed by that.
fn settled<'e>(
    container: &Container,
    image: &Image<'_>,
    by_image: Option<&'static dyn Reader>,
    stated: bool,
    entrypoint: Option<Vec<Cow<'e, str>>>,
) -> (Option<Vec<Cow<'e, str>>>, Option<Doubt>) {
    let replaced = container
        .command
        .as_ref()
        .is_some_and(|command| !command.is_empty());
    if replaced || stated {
        return (entrypoint, None);
    }
    let program = arguments_are_a_program(container);
    // A program of its own among the arguments is run by images that are not the projects' own servers.
    if program && by_image.is_some_and(|reader| !reader.is_own_server(image)) {
        return (Some(vec![Cow::Borrowed(RUNS_ARGUMENTS)]), None);
    }
    let runs_arguments = matches!(entrypoint.as_deref(), Some([word]) if word == RUNS_ARGUMENTS);
    let first = container.args.as_ref().and_then(|args| args.first());
    if let Some(reader) = by_image.filter(|_| runs_arguments)
        && first.is_some_and(|first| first.starts_with('-'))
    {
        return (Some(default_entrypoint(reader.engine())), Some(Doubt::NoProgram));
    }
    // Options that no other engine has, given to an image whose entrypoint is not known.
    let unknown = entrypoint.is_none() && by_image.is_none() && container.made.is_none();
    if unknown && !program && has_vllm_options(container) {
        return (Some(default_entrypoint(Engine::Vllm)), Some(Doubt::Guessed));
    }
    (entrypoint, None)
}

/// The entrypoint of an image that runs its arguments as a program.
pub(super) const RUNS_ARGUMENTS: &str = "exec";

/// Whether a container's arguments begin with a program that starts an engine, or with a shell and its script.
fn arguments_are_a_program(container: &Container) -> bool {
    let Some(args) = &container.args else {
        return false;
    };
    let mut words: Vec<Word<'_>> = args.iter().map(|text| Word::literal(text)).collect();
    prefix::strip(&mut words, &mut prefix::Handed::default());
    let is_shell = |words: &[Word<'_>]| {
        let text = |index: usize| words.get(index).map_or("", |word| &*word.text);
        matches!(prefix::base_name(text(0)), "sh" | "bash") && words.len() > 1
    };
    if is_shell(&words) {
        return true;
    }
    let command = Command {
        words,
        ..Command::default()
    };
    reader_of(&command).is_some()
}

fn has_vllm_options(container: &Container) -> bool {
    let replaced = container
        .command
        .as_ref()
        .is_some_and(|command| !command.is_empty());
    let names = ["--gpu-memory-utilization", "--gpu_memory_utilization"];
    !replaced
        && container
            .args
            .iter()
            .flatten()
            .any(|word| names.iter().any(|name| word.starts_with(name)))
}

/// Names of the ConfigMaps of the pod's namespace that its containers' readings could use.
#[must_use]
pub fn config_maps(pod: &Pod) -> BTreeSet<String> {
    super::containers(pod)
        .flat_map(|placed| config_maps_of(pod, placed.container))
        .collect()
}

/// The same of one container.
pub(super) fn config_maps_of(pod: &Pod, container: &Container) -> BTreeSet<String> {
    let of_variables = container.env.iter().filter_map(|variable| {
        let key = variable.value_from.as_ref()?.config_map_key_ref.as_ref()?;
        Some(key.name.as_str())
    });
    let whole = container
        .env_from
        .iter()
        .filter_map(|from| Some(from.config_map_ref.as_ref()?.name.as_str()));
    of_variables
        .chain(whole)
        .chain(files::config_maps(pod, container))
        .map(str::to_owned)
        .collect()
}

fn reader_of(command: &Command<'_>) -> Option<(&'static dyn Reader, usize)> {
    let (program, first) = prefix::program(&command.words)?;
    let reader = READERS
        .iter()
        .copied()
        .find(|reader| reader.runs(program, &command.words))?;
    Some((reader, first))
}

fn default_entrypoint(engine: Engine) -> Vec<Cow<'static, str>> {
    let words: &[&str] = match engine {
        Engine::Vllm => &["vllm", "serve"],
        Engine::Sglang => &["python3", "-m", "sglang.launch_server"],
        _ => &[],
    };
    words.iter().copied().map(Cow::Borrowed).collect()
}

/// `command: ["python3 -m vllm… --model m"]`: nothing of that name can be executed. What was meant is read, and it
/// does not start.
fn whole_line_in_one_word(context: &Context<'_>) -> Option<Reading> {
    let command = context.invocation.commands.first()?;
    let word = command.words.first()?;
    if word.certainty != Certainty::Known || !word.text.trim().contains(' ') {
        return None;
    }
    let mut words: Vec<Word<'_>> = word
        .text
        .split_whitespace()
        .map(|text| Word {
            text: Cow::Borrowed(text),
            span: None,
            ..word.clone()
        })
        .collect();
    words.extend(command.words.iter().skip(1).cloned());
    let meant = Command {
        words,
        ..Command::default()
    };
    let (reader, first) = reader_of(&meant)?;
    let mut reading = reader.read(context, &meant, first);
    reading.starts = Starts::No;
    reading.without_edits();
    let shown: String = word.text.chars().take(80).collect();
    let message =
        format!("{shown:?} is one word, and no program has that name; write each word as an item of its own");
    reading
        .findings
        .push(Finding::new(Code::Vg104, word.path(&context.path), message));
    Some(reading)
}

/// No program of an engine was found.
fn without_command(context: &Context<'_>, by_image: Option<&'static dyn Reader>) -> Reading {
    let invocation = context.invocation;
    let container = context.placed.container;
    let replaced = container.made.is_some()
        || container
            .command
            .as_ref()
            .is_some_and(|command| !command.is_empty());
    // The image starts the engine by itself.
    if let Some(reader) = by_image
        && !replaced
        && invocation.opaque.is_some()
        && reader.engine() != Engine::RayWorker
    {
        let words = invocation
            .commands
            .first()
            .map(|command| command.words.clone())
            .unwrap_or_default();
        return reader.read(
            context,
            &Command {
                words,
                ..Command::default()
            },
            0,
        );
    }
    if let Some(reader) = by_image
        && invocation.commands.is_empty()
        && invocation.opaque.is_none()
        && !replaced
    {
        return reader.read(context, &Command::default(), 0);
    }
    // A script in Triton's image starts Triton, and its memory stands elsewhere anyway.
    if let Some(reader) = by_image
        && reader.engine() == Engine::Triton
        && !invocation.commands.iter().all(|command| is_harmless(command))
    {
        return reader.read(context, &Command::default(), 0);
    }
    let harmless = !invocation.commands.is_empty()
        && invocation.opaque.is_none()
        && invocation.commands.iter().all(|command| is_harmless(command));
    if harmless || !context.asks() && (by_image.is_none() || invocation.opaque.is_none()) {
        let mut reading = context.blank(Engine::None, MemoryKind::None);
        reading.parallelism.devices = 0;
        return context.finish(&Command::default(), reading);
    }
    other::by_environment(context).unwrap_or_else(|| unknown(context, why_unknown(context)))
}

/// Why no engine could be told from the programs.
fn why_unknown(context: &Context<'_>) -> String {
    let program = context
        .invocation
        .commands
        .iter()
        .rev()
        .find(|command| !is_harmless(command))
        .and_then(|command| command.words.first());
    match (&context.invocation.opaque, program) {
        (Some(reason), _) => reason.clone(),
        (None, Some(word)) => format!("{} is no engine that is known", word.text),
        (None, None) => "no program is known".to_owned(),
    }
}

/// Something runs, and what it takes cannot be read.
fn unknown(context: &Context<'_>, reason: String) -> Reading {
    let mut reading = context.blank(Engine::Unknown, MemoryKind::Unknown);
    reading.memory.source = MemorySource::Unresolved;
    reading.resolvable = Resolvable::None;
    // The image starts what it holds, and nothing refuses that.
    let container = context.placed.container;
    if container.command.is_some() || container.args.is_some() {
        reading.starts = Starts::Unknown;
    }
    reading.parallelism.devices = context.slots().unwrap_or(1);
    reading.unresolved.push(Unresolved {
        field: "argv".to_owned(),
        reason,
        decides_memory: true,
    });
    context.finish(&Command::default(), reading)
}

/// Programs of the shell's daily use, which take no device memory.
fn is_harmless(command: &Command<'_>) -> bool {
    const NAMES: [&str; 63] = [
        "[",
        "apk",
        "apt",
        "apt-get",
        "aws",
        "awk",
        "base64",
        "basename",
        "cat",
        "chmod",
        "chown",
        "command",
        "cp",
        "curl",
        "cut",
        "date",
        "df",
        "dirname",
        "echo",
        "env",
        "exec",
        "find",
        "free",
        "git",
        "grep",
        "gsutil",
        "hash",
        "head",
        "hf",
        "hostname",
        "huggingface-cli",
        "id",
        "jq",
        "kill",
        "ls",
        "ln",
        "mkdir",
        "mktemp",
        "mv",
        "nvidia-smi",
        "pip",
        "pip3",
        "pkill",
        "printenv",
        "printf",
        "ps",
        "pwd",
        "rm",
        "rsync",
        "sed",
        "sleep",
        "sort",
        "stat",
        "sync",
        "tail",
        "tar",
        "tee",
        "touch",
        "type",
        "uv",
        "wget",
        "which",
        "xargs",
    ];
    match prefix::program(&command.words) {
        Some((prefix::Program::Binary(name), _)) => {
            NAMES.binary_search(&name).is_ok() || NAMES.contains(&name)
        }
        Some((prefix::Program::Module(name), _)) => matches!(name, "pip" | "http.server" | "huggingface_hub"),
        _ => false,
    }
}
