//! Frameworks without a server of their own: their launchers, images and variables are recognised, Python code is not
//! looked into.

use std::borrow::Cow;

use super::image::Image;
use super::ollama;
use super::reader::{Context, Flag, Reader};
use super::{Engine, MemoryKind, MemorySource, Reading, Resolvable, Starts, Unresolved};
use crate::invocation::prefix::Program;
use crate::invocation::{Certainty, Command, Word};
use crate::units::Fraction;

/// Variables that only Ollama's server reads; its clients read `OLLAMA_HOST` as well.
const OLLAMA: [&str; 9] = [
    "OLLAMA_CONTEXT_LENGTH",
    "OLLAMA_FLASH_ATTENTION",
    "OLLAMA_GPU_OVERHEAD",
    "OLLAMA_KEEP_ALIVE",
    "OLLAMA_KV_CACHE_TYPE",
    "OLLAMA_MAX_LOADED_MODELS",
    "OLLAMA_MODELS",
    "OLLAMA_NUM_PARALLEL",
    "OLLAMA_SCHED_SPREAD",
];

/// JAX's new and old name of its fraction.
const JAX_FRACTION: [&str; 2] = ["XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"];

/// The reader of `torchrun` and `accelerate launch`.
pub(super) struct Frameworks;

impl Reader for Frameworks {
    fn engine(&self) -> Engine {
        Engine::Pytorch
    }

    fn entrypoint(&self, _image: &Image<'_>) -> Option<Vec<Cow<'static, str>>> {
        None
    }

    fn runs(&self, program: Program<'_>, words: &[Word<'_>]) -> bool {
        match program {
            Program::Binary("torchrun" | "deepspeed" | "torchserve")
            | Program::Module(
                "torch.distributed.run"
                | "torch.distributed.launch"
                | "accelerate.commands.launch"
                | "deepspeed.launcher.runner",
            ) => true,
            Program::Binary("accelerate") => words.get(1).is_some_and(|word| word.text == "launch"),
            _ => false,
        }
    }

    fn read(&self, context: &Context<'_>, command: &Command<'_>, first: usize) -> Reading {
        let words = command.words.get(first..).unwrap_or_default();
        let mut reading = context.blank(Engine::Pytorch, MemoryKind::Uncapped);
        reading.memory.source = MemorySource::EngineAuto;
        // A process for each device, where the number is stated (`gpu` and `auto` are every one). Processes beside the one
        // slot of a container stand on its device together, as clients of MPS do; DeepSpeed's number is one of devices.
        let slots = context.slots();
        let names = ["--nproc_per_node", "--nproc-per-node", "--num_gpus"];
        let names = if slots == Some(1) { &names[2..] } else { &names };
        let stated = Flag::last(words, names).filter(|flag| flag.known);
        let processes = stated.and_then(|flag| flag.text.trim().parse().ok());
        reading.parallelism.devices = processes
            .filter(|count| *count > 0)
            .unwrap_or_else(|| slots.unwrap_or(1));
        let launched = launched(context, command, words);
        reading.processes = launched.processes;
        if slots == Some(1) && launched.on_this_node {
            reading.apart = launched.processes.unwrap_or(0);
        }
        reading.findings.extend(context.floating_image());
        context.finish(command, reading)
    }
}

/// What a launcher starts in this container.
struct Launched {
    /// Processes; `None` where it starts one for each device, or where the number cannot be read (a file of `accelerate
    /// config` that is not given here, TorchServe's workers).
    processes: Option<u32>,
    /// Whether the number is one of this node's alone, and each process takes the device of its number.
    on_this_node: bool,
}

/// Reads what a launcher starts; `arguments` are its own.
fn launched(context: &Context<'_>, command: &Command<'_>, arguments: &[Word<'_>]) -> Launched {
    let before = command.words.len().saturating_sub(arguments.len());
    let program = |names: &[&str]| {
        let mut words = command.words.iter().take(before);
        words.any(|word| {
            let name = word.text.rsplit('/').next().unwrap_or_default();
            word.certainty == Certainty::Known && names.contains(&name)
        })
    };
    let number = |names: &[&str]| {
        let flag = Flag::last(arguments, names)?;
        flag.known.then(|| flag.text.trim().parse::<u32>().ok()).flatten()
    };
    let elsewhere = |processes: Option<u32>| Launched {
        processes,
        on_this_node: false,
    };
    if program(&["accelerate", "accelerate.commands.launch"]) {
        // Of all machines together; a file of its configuration may say how many those are.
        let machines = number(&["--num_machines", "--num-machines"]).unwrap_or(1).max(1);
        let all = number(&["--num_processes", "--num-processes"]);
        return elsewhere(all.map(|all| all.div_ceil(machines)));
    }
    if program(&["deepspeed", "deepspeed.launcher.runner"]) {
        return elsewhere(number(&["--num_gpus"]));
    }
    if program(&["torchserve"]) {
        return elsewhere(None);
    }
    let names = ["--nproc_per_node", "--nproc-per-node"];
    let processes = match Flag::last(arguments, &names) {
        // `gpu` and `auto` count devices.
        Some(_) => number(&names),
        // The launcher's parser takes its defaults from variables of this prefix, else one process.
        None => match context.variable(command, "PET_NPROC_PER_NODE") {
            Some(Ok(text)) => text.trim().parse().ok(),
            Some(Err(_)) => None,
            None => Some(1),
        },
    };
    Launched {
        processes,
        on_this_node: true,
    }
}

/// A server of Transformers' own, which grows as it likes.
pub(super) fn transformers(context: &Context<'_>, command: &Command<'_>, model: Option<String>) -> Reading {
    let mut reading = uncapped(context, Engine::Pytorch);
    reading.model = model;
    reading.parallelism.devices = context.slots().unwrap_or(1);
    reading.findings.extend(context.floating_image());
    context.finish(command, reading)
}

/// A program that is not known, in an environment that is a framework's.
pub(super) fn by_environment(context: &Context<'_>) -> Option<Reading> {
    let environment = &context.invocation.environment;
    let has = |name: &str| environment.get(name).is_some();
    let starts_with = |prefix: &str| {
        environment
            .variables()
            .iter()
            .any(|variable| variable.name.starts_with(prefix))
    };
    let image = context.image.name();
    let mut reading = if OLLAMA.iter().any(|name| has(name)) {
        let mut reading = uncapped(context, Engine::Ollama);
        reading.processes = Some(ollama::processes(context, &Command::default()));
        reading
    } else if starts_with("XLA_CLIENT_") || starts_with("XLA_PYTHON_CLIENT_") || image.starts_with("jax") {
        jax(context)
    } else if has("TF_FORCE_GPU_ALLOW_GROWTH") || image.starts_with("tensorflow") {
        uncapped(context, Engine::Tensorflow)
    } else if has("PYTORCH_ALLOC_CONF") || has("PYTORCH_CUDA_ALLOC_CONF") || is_pytorch(image) {
        pytorch(context)
    } else {
        return None;
    };
    reading.parallelism.devices = context.slots().unwrap_or(1);
    reading.resolvable = Resolvable::Partial;
    reading.unresolved.push(Unresolved {
        field: "argv".to_owned(),
        reason: "the program is not known; its image and variables are those of the framework".to_owned(),
        decides_memory: false,
    });
    reading.findings.extend(context.floating_image());
    Some(context.finish(&Command::default(), reading))
}

/// Images that are called after the framework: `pytorch`, `pytorch-training`, `huggingface-pytorch-inference`.
fn is_pytorch(image: &str) -> bool {
    let mut parts = image.split(['-', '_']);
    parts.next() == Some("pytorch") || image.starts_with("huggingface-pytorch-")
}

fn uncapped(context: &Context<'_>, engine: Engine) -> Reading {
    let mut reading = context.blank(engine, MemoryKind::Uncapped);
    reading.memory.source = MemorySource::EngineAuto;
    reading.dtype = Some("auto".to_owned());
    reading.kv_cache_dtype = Some("auto".to_owned());
    reading
}

/// Three quarters of the device are taken at the first operation, unless a variable says otherwise.
fn jax(context: &Context<'_>) -> Reading {
    let mut reading = uncapped(context, Engine::Jax);
    let none = Command::default();
    let text = |name: &str| context.variable(&none, name);
    let off = |name: &str, values: &[&str]| match text(name) {
        Some(Ok(text)) => values.contains(&text.trim().to_ascii_lowercase().as_str()),
        _ => false,
    };
    let grows = off("XLA_PYTHON_CLIENT_PREALLOCATE", &["false", "0"])
        || off("XLA_PYTHON_CLIENT_ALLOCATOR", &["platform"]);
    let mut stated = JAX_FRACTION.iter().filter_map(|name| text(name));
    let first = stated.next();
    if stated.next().is_some() {
        // It refuses to guess which of the two names is meant.
        reading.starts = Starts::No;
    }
    if grows {
        return reading;
    }
    reading.memory.kind = MemoryKind::OfTotal;
    match first {
        None => {
            reading.memory.source = MemorySource::Default;
            reading.memory.value = Some("0.75".to_owned());
        }
        Some(Ok(text)) => {
            reading.memory.source = MemorySource::Env;
            reading.memory.value = Some(text);
        }
        Some(Err(reason)) => {
            reading.memory.source = MemorySource::Unresolved;
            reading.unresolved.push(Unresolved {
                field: JAX_FRACTION[0].to_owned(),
                reason,
                decides_memory: true,
            });
        }
    }
    reading.memory.path = context.path.field("env");
    reading.memory.fraction = reading
        .memory
        .value
        .as_deref()
        .and_then(|text| Fraction::parse(text).ok());
    reading
}

/// It grows; its allocator can be told a bound, which leaves out the context and what extensions take.
fn pytorch(context: &Context<'_>) -> Reading {
    let mut reading = uncapped(context, Engine::Pytorch);
    let none = Command::default();
    let settings = ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"]
        .into_iter()
        .find_map(|name| context.variable(&none, name));
    let Some(Ok(settings)) = settings else {
        return reading;
    };
    let bound = settings
        .split(',')
        .find_map(|setting| setting.trim().strip_prefix("per_process_memory_fraction:"));
    if let Some(bound) = bound {
        reading.memory.kind = MemoryKind::OfTotal;
        reading.memory.source = MemorySource::Env;
        reading.memory.value = Some(bound.trim().to_owned());
        reading.memory.fraction = Fraction::parse(bound).ok();
        reading.memory.path = context.path.field("env");
    }
    reading
}
