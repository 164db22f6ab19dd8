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
            Program::Binary("torchrun")
            | Program::Module("torch.distributed.run" | "torch.distributed.launch") => true,
            Program::Binary("accelerate") => words.get(1).is_some_and(|word| word.text == "launch"),
            _ => false,
        }
    }

    fn read(&self, context: &Context<'_>, command: &Command<'_>, _first: usize) -> Reading {
        let mut reading = context.blank(Engine::Pytorch, MemoryKind::Uncapped);
        reading.memory.source = MemorySource::EngineAuto;
        reading.parallelism.devices = context.slots().unwrap_or(1);
        reading.processes = launched(context, command);
        context.finish(command, reading)
    }
}

/// Processes that a launcher starts in this container; `None` where it starts one for each device, or where the number
/// cannot be read (a file of `accelerate config` that is not given here).
fn launched(context: &Context<'_>, command: &Command<'_>) -> Option<u32> {
    let words = &command.words;
    let accelerates = words
        .iter()
        .any(|word| word.certainty == Certainty::Known && word.text == "launch")
        && words
            .first()
            .is_some_and(|word| word.text.ends_with("accelerate"));
    let number = |names: &[&str]| {
        let flag = Flag::last(words, names)?;
        flag.known.then(|| flag.text.trim().parse::<u32>().ok()).flatten()
    };
    if accelerates {
        // Of all machines together.
        let machines = number(&["--num_machines", "--num-machines"]).unwrap_or(1).max(1);
        return number(&["--num_processes", "--num-processes"]).map(|all| all.div_ceil(machines));
    }
    let names = ["--nproc_per_node", "--nproc-per-node"];
    match Flag::last(words, &names) {
        // `gpu` and `auto` count devices.
        Some(_) => number(&names),
        // The launcher's parser takes its defaults from variables of this prefix, else one process.
        None => match context.variable(command, "PET_NPROC_PER_NODE") {
            Some(Ok(text)) => text.trim().parse().ok(),
            Some(Err(_)) => None,
            None => Some(1),
        },
    }
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
    } else if has("PYTORCH_ALLOC_CONF") || has("PYTORCH_CUDA_ALLOC_CONF") || image == "pytorch" {
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
