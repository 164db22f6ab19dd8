//! NVIDIA NIM: the image starts its engine by itself, from variables and a profile.

use std::borrow::Cow;

use super::image::Image;
use super::plain::Options;
use super::reader::{Context, Reader};
use super::vllm::wrapper::{self, NIM};
use super::{Engine, MemoryKind, MemorySource, Parallelism, Reading, Resolvable, Unresolved, Version, vllm};
use crate::finding::Code;
use crate::invocation::prefix::{Program, base_name};
use crate::invocation::{Certainty, Command, Item, Word};
use crate::units::Fraction;

mod provenance;

/// The reader of NIM containers.
pub(super) struct Nim;

impl Reader for Nim {
    fn engine(&self) -> Engine {
        Engine::Nim
    }

    fn entrypoint(&self, image: &Image<'_>) -> Option<Vec<Cow<'static, str>>> {
        image
            .repository
            .split('/')
            .any(|part| part == "nim")
            .then(Vec::new)
    }

    fn runs(&self, program: Program<'_>, _words: &[Word<'_>]) -> bool {
        matches!(program, Program::Binary(NIM))
    }

    fn read(&self, context: &Context<'_>, command: &Command<'_>, first: usize) -> Reading {
        let version = context.version().or_else(|| context.image.version());
        // `nim-serve` behind the image's own entrypoint.
        let words = command.words.get(first..).unwrap_or_default();
        let words = match words.split_first() {
            Some((program, rest)) if base_name(&program.text) == NIM => rest,
            _ => words,
        };
        let is_two = version.is_some_and(|version| version >= Version::new(2, 0, 0));
        let mut reading = if is_two {
            two(context, command, words, version)
        } else {
            one(context, command, version)
        };
        reading.model = model(context, command).or(reading.model);
        if context.explains {
            provenance::add(context, command, &mut reading);
        }
        reading.findings.retain(|finding| finding.code != Code::Vg109);
        reading.findings.extend(context.floating_image());
        context.finish(command, reading)
    }
}

/// The model: the image of one holds it whatever the variables say; the generic ones take any.
fn model(context: &Context<'_>, command: &Command<'_>) -> Option<String> {
    let variable = |name: &str| context.variable(command, name).and_then(Result::ok);
    if let Some(name) = model_of_image(context) {
        return Some(name.to_owned());
    }
    let model = variable("NIM_MODEL_NAME").or_else(|| variable("NIM_MODEL_PATH"));
    model.map(|model| model.strip_prefix("hf://").unwrap_or(&model).to_owned())
}

/// The model that the image is of; `None` for the generic ones.
fn model_of_image<'c>(context: &Context<'c>) -> Option<&'c str> {
    let (_, name) = context.image.repository.split_once("nim/").unwrap_or_default();
    let generic = name.is_empty()
        || ["llm-nim", "llm", "multi-llm", "vllm", "sglang", "trtllm"].contains(&context.image.name());
    (!generic).then_some(name)
}

fn blank(context: &Context<'_>, version: Option<Version>) -> Reading {
    let mut reading = context.blank(Engine::Nim, MemoryKind::Unknown);
    reading.version = version;
    reading.resolvable = Resolvable::Partial;
    reading.memory.source = MemorySource::Unresolved;
    reading.dtype = Some("auto".to_owned());
    reading.kv_cache_dtype = Some("auto".to_owned());
    reading
}

/// Why the share that variables state is not known, or that none is stated.
fn undecided(reading: &mut Reading, share: Option<&str>) {
    reading.memory.kind = MemoryKind::Unknown;
    reading.memory.source = MemorySource::Unresolved;
    reading.memory.value = None;
    reading.memory.fraction = None;
    reading.resolvable = Resolvable::Partial;
    reading.unresolved.push(Unresolved {
        field: "argv".to_owned(),
        reason: match share {
            Some(value) => format!("the image decides what a share of {value} means"),
            None => "the image chooses its engine and options by a profile".to_owned(),
        },
        decides_memory: true,
    });
}

/// A number of the profile's readable name: `…-tp2-pp1`.
fn in_profile(context: &Context<'_>, command: &Command<'_>, letters: &str) -> Option<u32> {
    let profile = context.variable(command, "NIM_MODEL_PROFILE")?.ok()?;
    let mut parts = profile.split(['-', '_', ':']);
    parts.find_map(|part| part.strip_prefix(letters)?.parse().ok())
}

/// Before 2.0 the image chooses among several engines.
fn one(context: &Context<'_>, command: &Command<'_>, version: Option<Version>) -> Reading {
    let variable = |name: &str| context.variable(command, name).and_then(Result::ok);
    let mut reading = blank(context, version);
    let share = [
        "NIM_GPU_MEM_FRACTION",
        "NIM_KVCACHE_PERCENT",
        "NIM_KV_CACHE_PERCENT",
    ]
    .into_iter()
    .find_map(variable);
    undecided(&mut reading, share.as_deref());
    reading.max_model_len = variable("NIM_MAX_MODEL_LEN").and_then(|text| text.trim().parse().ok());
    let size = |name: &str, letters: &str| {
        let stated = variable(name).and_then(|text| text.trim().parse::<u32>().ok());
        stated
            .or_else(|| in_profile(context, command, letters))
            .unwrap_or(1)
            .max(1)
    };
    let tensor = size("NIM_TENSOR_PARALLEL_SIZE", "tp");
    let pipeline = size("NIM_PIPELINE_PARALLEL_SIZE", "pp");
    reading.parallelism = Parallelism {
        tensor,
        pipeline,
        devices: tensor.saturating_mul(pipeline).div_ceil(nodes(context, command)),
        ..Parallelism::default()
    };
    reading
}

/// Pods of a group over which the image spreads its ranks; one where no variable says so.
fn nodes(context: &Context<'_>, command: &Command<'_>) -> u32 {
    let stated = context
        .variable(command, "NIM_NUM_COMPUTE_NODES")
        .and_then(Result::ok);
    stated
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(1)
        .max(1)
}

/// Variables from 2.0 on, with the option of vLLM that each one sets.
///
/// Source: docs.nvidia.com NIM LLM 2.0 "Advanced Configuration": words of `nim-serve` come before those of
/// `NIM_PASSTHROUGH_ARGS`, those before `NIM_*`, and those before the runtime configuration and the profile.
const VARIABLES: [(&str, &str); 5] = [
    ("NIM_GPU_MEM_FRACTION", "--gpu-memory-utilization"),
    ("NIM_MAX_MODEL_LEN", "--max-model-len"),
    ("NIM_TENSOR_PARALLEL_SIZE", "--tensor-parallel-size"),
    ("NIM_PIPELINE_PARALLEL_SIZE", "--pipeline-parallel-size"),
    ("NIM_MAX_NUM_SEQS", "--max-num-seqs"),
];

/// From 2.0 on it is vLLM (some images SGLang), with words from three places, of which the last wins.
fn two(context: &Context<'_>, command: &Command<'_>, own: &[Word<'_>], version: Option<Version>) -> Reading {
    let mut words = vec![Word::literal(NIM)];
    let unknown = |text: String, at: usize, reason: String| Word {
        text: Cow::Owned(text),
        certainty: Certainty::From(at),
        reason: Some(Cow::Owned(reason)),
        ..Word::literal("")
    };
    let item = |name: &str| {
        let position = context.invocation.environment.position(name);
        position.map_or(Item::Elsewhere, Item::Variable)
    };
    for (name, option) in VARIABLES {
        match context.variable(command, name) {
            Some(Ok(value)) => words.push(Word {
                text: Cow::Owned(format!("{option}={value}")),
                item: item(name),
                ..Word::literal("")
            }),
            Some(Err(reason)) => words.push(Word {
                item: item(name),
                ..unknown(format!("{option}="), option.len() + 1, reason)
            }),
            None => {}
        }
    }
    match context.variable(command, "NIM_PASSTHROUGH_ARGS") {
        Some(Ok(text)) => {
            let item = item("NIM_PASSTHROUGH_ARGS");
            words.extend(
                wrapper::split(&text)
                    .into_iter()
                    .map(|word| Word { item, ..word }),
            );
        }
        Some(Err(reason)) => words.push(Word {
            certainty: Certainty::Many,
            reason: Some(Cow::Owned(reason)),
            ..Word::literal("NIM_PASSTHROUGH_ARGS")
        }),
        None => {}
    }
    words.extend(own.iter().cloned());
    let share = |name: &str| context.variable(command, name).and_then(Result::ok);
    // The images with SGLang have its option, which is one of what is free.
    let mut sglang = blank(context, version);
    if let Some(fraction) = sglang.option(&words, &["--mem-fraction-static"]) {
        sglang.memory.kind = MemoryKind::OfFree;
        sglang.memory.source = MemorySource::Env;
        sglang.memory.fraction = Fraction::parse(&fraction).ok();
        sglang.memory.value = Some(fraction);
        sglang.memory.path = context.path.field("env");
        let tensor = sglang.count(&words, &["--tp-size", "--tp", "--tensor-parallel-size"]);
        sglang.parallelism.tensor = tensor.or_else(|| in_profile(context, command, "tp")).unwrap_or(1);
        sglang.parallelism.devices = sglang.parallelism.tensor;
        chosen_by_profile(&mut sglang);
        let options = Options {
            context,
            command,
            words: &words,
        };
        sglang.provenance = provenance::sglang(options);
        return sglang;
    }
    let started = Command {
        words,
        variables: command.variables.clone(),
        conditional: command.conditional,
        ..Command::default()
    };
    let mut reading = vllm::Vllm.read(context, &started, 1);
    reading.engine = Engine::Nim;
    reading.version = version;
    reading.command = None;
    reading.fraction_edit = None;
    if reading.memory.source == MemorySource::Flag {
        reading.memory.source = MemorySource::Env;
        reading.memory.path = context.path.field("env");
        chosen_by_profile(&mut reading);
    } else if reading.memory.source == MemorySource::Default {
        // The runtime configuration and the profile come before the engine's default.
        undecided(
            &mut reading,
            share("NIM_KV_CACHE_PERCENT")
                .or_else(|| share("NIM_KVCACHE_PERCENT"))
                .as_deref(),
        );
    }
    let says = |option: &str| started.words.iter().any(|word| word.text.starts_with(option));
    let sizes = &mut reading.parallelism;
    if let Some(tensor) = in_profile(context, command, "tp").filter(|_| !says("--tensor") && !says("-tp")) {
        sizes.tensor = tensor.max(1);
        sizes.devices = sizes.devices.max(1).saturating_mul(sizes.tensor);
    }
    if let Some(pipeline) = in_profile(context, command, "pp").filter(|_| !says("--pipeline") && !says("-pp"))
    {
        sizes.pipeline = pipeline.max(1);
        sizes.devices = sizes.devices.max(1).saturating_mul(sizes.pipeline);
    }
    reading
}

/// What is stated is known; everything else hangs on the profile.
fn chosen_by_profile(reading: &mut Reading) {
    reading.resolvable = Resolvable::Partial;
    reading.unresolved.push(Unresolved {
        field: "argv".to_owned(),
        reason: "the image chooses its other options by a profile".to_owned(),
        decides_memory: false,
    });
}
