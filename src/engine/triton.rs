//! Triton Inference Server: what it takes stands in its model repository, which is read where ConfigMaps or the start
//! script hold it.

use std::borrow::Cow;

use super::image::Image;
use super::provenance::plain as provenance;
use super::reader::{Context, Reader};
use super::{Engine, MemoryKind, Parallelism, Reading, Resolvable};
use crate::finding::Code;
use crate::invocation::prefix::{Program, base_name};
use crate::invocation::{Certainty, Command, Word};

pub(in crate::engine) mod backend;
mod pbtxt;
mod repository;

use backend::Takes;

/// Engines of one server that are read.
const MOST_INSTANCES: usize = 16;

/// Options that name the model repository.
const REPOSITORY: [&str; 3] = ["--model-repository", "--model-store", "--model_repo"];

/// The reader of `tritonserver`.
pub(super) struct Triton;

impl Reader for Triton {
    fn engine(&self) -> Engine {
        Engine::Triton
    }

    fn entrypoint(&self, image: &Image<'_>) -> Option<Vec<Cow<'static, str>>> {
        image
            .name()
            .contains("tritonserver")
            .then(|| vec![Cow::Borrowed("nvidia_entrypoint.sh")])
    }

    fn runs(&self, program: Program<'_>, words: &[Word<'_>]) -> bool {
        match program {
            Program::Binary("tritonserver") => true,
            // Start scripts of the TensorRT-LLM back end, whatever they are called.
            Program::PythonFile(path) => {
                let has = |text: &str| words.iter().any(|word| word.text == text);
                base_name(path) == "launch_triton_server.py"
                    || words
                        .iter()
                        .any(|word| word.text.starts_with("--triton_model_repo_dir"))
                    || base_name(path) == "server.py" && has("exec") && has("--engine=trtllm")
            }
            _ => false,
        }
    }

    fn read(&self, context: &Context<'_>, command: &Command<'_>, first: usize) -> Reading {
        let words = command.words.get(first..).unwrap_or_default();
        let mut reading = whole(context, words);
        let reason = match &reading.model {
            Some(_) => "no ConfigMap holds it".to_owned(),
            None => "its place is not known".to_owned(),
        };
        unknown(&mut reading, words, &reason);
        context.finish(command, reading)
    }

    /// One reading for each engine that the models start, and one for all that take whatever they can get.
    fn read_all(&self, context: &Context<'_>, command: &Command<'_>, first: usize) -> Vec<Reading> {
        let words = command.words.get(first..).unwrap_or_default();
        let folders = values(words, &REPOSITORY);
        let Some(folders) = folders.filter(|folders| !folders.is_empty()) else {
            return vec![self.read(context, command, first)];
        };
        // In explicit mode only these are loaded when it starts; others may be later.
        let explicit = values(words, &["--model-control-mode"])
            .is_some_and(|modes| modes.last().is_some_and(|mode| mode == "explicit"));
        let named = values(words, &["--load-model"]).unwrap_or_default();
        let named = (explicit && !named.iter().any(|name| name == "*")).then_some(named);
        let repository = repository::read(context, &folders, named.as_deref());
        let mut unread = repository.unread;
        if named.as_ref().is_some_and(Vec::is_empty) {
            unread.get_or_insert("models are loaded when they are asked for".to_owned());
        }
        let mut readings = Vec::new();
        let mut anything = Vec::new();
        for model in &repository.models {
            match backend::takes(context, command, model) {
                Ok(Takes::Nothing) => {}
                Ok(Takes::Anything(devices)) => anything.push((model.name.clone(), devices)),
                Ok(Takes::Engines(engines)) => readings.extend(engines),
                Err(reason) => {
                    unread.get_or_insert(reason);
                }
            }
        }
        if readings.len() > MOST_INSTANCES {
            readings.clear();
            unread = Some(format!("it starts more than {MOST_INSTANCES} engines"));
        }
        if !anything.is_empty() {
            readings.push(backend::anything(context, command, &anything));
        }
        if let Some(reason) = &unread {
            let mut reading = whole(context, words);
            unknown(&mut reading, words, reason);
            readings.push(context.finish(command, reading));
        } else if readings.is_empty() {
            // No model takes anything of a device.
            let mut reading = whole(context, words);
            reading.memory.kind = MemoryKind::None;
            reading.parallelism.devices = 0;
            readings.push(context.finish(command, reading));
        }
        // Of the image it is told once.
        let floating = context.floating_image();
        for (index, reading) in readings.iter_mut().enumerate() {
            reading.findings.retain(|finding| finding.code != Code::Vg109);
            if index == 0 {
                reading.findings.extend(floating.clone());
            }
        }
        readings
    }
}

/// The values of an option that may be given several times; `None` where one of them is not known.
fn values(words: &[Word<'_>], names: &[&str]) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word.certainty == Certainty::Many {
            return None;
        }
        let (name, value) = match word.text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (&*word.text, None),
        };
        if !names.contains(&name) {
            continue;
        }
        let (value, certainty) = match value {
            Some(value) => (value, word.certainty),
            None => words.next().map(|next| (&*next.text, next.certainty))?,
        };
        if certainty != Certainty::Known {
            return None;
        }
        found.push(value.to_owned());
    }
    Some(found)
}

/// Ranks that `mpirun` in front of the server starts, where the container's command begins with it.
fn ranks_of_mpi(context: &Context<'_>) -> u32 {
    let container = context.placed.container;
    let words: Vec<&str> = container
        .command
        .iter()
        .chain(&container.args)
        .flatten()
        .map(String::as_str)
        .collect();
    // A script is one item; a launcher in exec form is the first.
    let script: Vec<&str>;
    let words = match words.as_slice() {
        [shell, _, text] if matches!(base_name(shell), "sh" | "bash") => {
            script = text.split_whitespace().collect();
            script.as_slice()
        }
        words => words,
    };
    let Some(start) = words
        .iter()
        .position(|word| matches!(base_name(word), "mpirun" | "mpiexec"))
    else {
        return 1;
    };
    let own = words[start..]
        .iter()
        .take_while(|word| base_name(word) != "tritonserver");
    let own: Vec<&&str> = own.collect();
    let count = own
        .windows(2)
        .filter(|pair| matches!(*pair[0], "-n" | "-np" | "--np"))
        .find_map(|pair| pair[1].parse().ok());
    // Each rank may be written with its server: `-n 1 tritonserver … : -n 1 tritonserver …`.
    let servers = words
        .iter()
        .filter(|word| base_name(word) == "tritonserver")
        .count();
    let servers = u32::try_from(servers).unwrap_or(u32::MAX);
    count.unwrap_or(1).max(servers)
}

/// Whether a launcher spreads its ranks over the pods of a group; a worker of one has no sizes of its own.
fn is_of_group(words: &[Word<'_>]) -> bool {
    let role = words.first();
    role.is_some_and(|word| matches!(&*word.text, "leader" | "worker"))
}

/// Models of which nothing is known, where the launcher may still say over how many devices they are spread.
fn unknown(reading: &mut Reading, words: &[Word<'_>], reason: &str) {
    backend::unknown(reading, reason);
    let sizes = reading.parallelism;
    if is_of_group(words) || sizes.tensor.saturating_mul(sizes.pipeline) > 1 {
        reading.resolvable = Resolvable::Partial;
    }
}

/// The server as a whole.
fn whole(context: &Context<'_>, words: &[Word<'_>]) -> Reading {
    let mut reading = context.blank(Engine::Triton, MemoryKind::Unknown);
    reading.command = Some("tritonserver".to_owned());
    reading.model = reading.option(words, &REPOSITORY);
    reading
        .provenance
        .extend(provenance::in_words(context, "model", words, &REPOSITORY));
    let tensor = reading
        .count(words, &["--tp", "--tensor_parallel_size"])
        .unwrap_or(1);
    let pipeline = reading
        .count(words, &["--pp", "--pipeline_parallel_size"])
        .unwrap_or(1);
    let world = reading.count(words, &["--world_size"]).unwrap_or(1);
    let ranks = tensor
        .saturating_mul(pipeline)
        .max(world)
        .max(ranks_of_mpi(context));
    let group = is_of_group(words);
    let slots = context.slots().unwrap_or(1);
    reading.parallelism = Parallelism {
        tensor,
        pipeline,
        devices: if group { slots } else { ranks },
        ..Parallelism::default()
    };
    reading.dtype = Some("auto".to_owned());
    reading.kv_cache_dtype = Some("auto".to_owned());
    reading.findings.extend(context.floating_image());
    reading
}
