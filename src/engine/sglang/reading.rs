//! From SGLang's options to a [`Reading`].

use super::options::{self, Arity, Entrypoint};
use super::parse::{Parsed, parse_with};
use super::{Start, findings, sagemaker};
use crate::engine::argparse::releases::{Refused, parse_for};
use crate::engine::argparse::yaml::Files;
use crate::engine::fraction::Limit;
use crate::engine::line::LineView;
use crate::engine::reader::Context;
use crate::engine::{
    Engine, MemoryKind, MemorySource, Reading, Resolvable, Starts, Unresolved, Version, edit, variables,
};
use crate::finding::Code;
use crate::invocation::{Command, Word};

mod parallelism;
mod provenance;
mod serving;

/// The option that decides.
pub(super) const FRACTION: &str = "--mem-fraction-static";

pub(super) fn read(context: &Context<'_>, command: &Command<'_>, first: usize, start: Start) -> Reading {
    let given = command.words.get(first..).unwrap_or_default();
    let (name, entrypoint, lenient) = match way_in(context, start, given) {
        Way::Server(name, entrypoint, lenient) => (name, entrypoint, lenient),
        Way::Diffusion => return diffusion(context, command),
        Way::Nothing(name) => {
            let mut reading = context.blank(Engine::None, MemoryKind::None);
            reading.command = Some(name);
            reading.parallelism.devices = 0;
            return context.finish(command, reading);
        }
    };
    let version = context.version().or_else(|| super::version_of(&context.image));
    let by_script = starts_by_script(context, command);
    let (own, from_variables) = if by_script {
        let (words, from) = sagemaker::words(context);
        (Some(words), from)
    } else {
        let at = match entrypoint {
            Entrypoint::LaunchServer => 0,
            Entrypoint::Serve if given.get(1).is_some_and(|word| !word.text.starts_with('-')) => 2,
            Entrypoint::Serve => 1.min(given.len()),
        };
        variables::put(context, given, at, Vec::new(), &is_flag)
    };
    let words = own.as_deref().unwrap_or(given);
    let look_up = |path: &str| context.file(path);
    let config = Files::new(&look_up);
    let releases = options::releases();
    let as_release = |words| {
        parse_for(releases, version, |position| {
            parse_with(position, entrypoint, words, &config)
        })
    };
    let (mut parsed, mut refused) = as_release(words);
    // Several words in one item: what was meant is read from the split line, whether it starts from the line as it is.
    let meant = findings::split_items(words);
    if let Some(meant) = &meant {
        let error = parsed.error.take();
        if error.is_some() {
            refused = Refused::Yes;
        }
        parsed = parse_for(releases, version, |position| {
            parse_with(position, entrypoint, meant, &config)
        })
        .0;
        parsed.error = error;
    }
    let line = LineView {
        engine: "SGLang",
        parsed: &parsed,
        words: meant.as_deref().unwrap_or(words),
        from_variables: &from_variables,
        split: meant.is_some(),
    };
    let mut reading = reading(context, &line, version);
    reading.command = Some(name.to_owned());
    reading.findings = findings::of(context, &line, &reading, refused, lenient);
    reading.starts = starts(context, &line, refused, lenient, &reading);
    if start == Start::Entrypoint {
        without_program(context, &mut reading);
    } else if context
        .placed
        .container
        .command
        .as_ref()
        .is_some_and(|command| !command.is_empty())
    {
        note_opaque(context, &mut reading);
    }
    // The script does not look at arguments.
    if !by_script {
        let edit = |option| edit::option(context, command, &line, option);
        reading.fraction_edit = edit(FRACTION);
        reading.length_edit = edit("--context-length");
        reading.tensor_edit = edit("--tp-size");
    }
    if context.explains {
        reading.provenance = provenance::of(context, &line, &reading, by_script);
    }
    context.finish(command, reading)
}

/// What a command line starts.
enum Way {
    /// The server: the name of the command in the reading, the parser, and whether options beyond the server's are taken.
    Server(&'static str, Entrypoint, bool),
    /// The server for image and video models.
    Diffusion,
    /// A program that uses no device.
    Nothing(String),
}

fn way_in(context: &Context<'_>, start: Start, words: &[Word<'_>]) -> Way {
    let is = |index: usize, text: &str| words.get(index).is_some_and(|word| word.text == text);
    match start {
        Start::Wrapper(name) => Way::Server(name, Entrypoint::LaunchServer, true),
        Start::Diffusion => Way::Diffusion,
        Start::Client(name) => Way::Nothing(name.to_owned()),
        Start::LaunchServer | Start::Entrypoint => {
            let chosen = context.invocation.environment.get(sagemaker::SERVER);
            let other = chosen
                .and_then(|variable| variable.value.as_deref().ok())
                .is_some_and(|server| server.eq_ignore_ascii_case("diffusion"));
            if other && sagemaker::is_image(&context.image) {
                Way::Diffusion
            } else {
                Way::Server("launch-server", Entrypoint::LaunchServer, false)
            }
        }
        Start::Cli => {
            let client = ["version", "killall", "render"].iter().find(|name| is(0, name));
            let diffusion = (1..words.len()).any(|index| {
                is(index, "--model-type=diffusion") || is(index, "--model-type") && is(index + 1, "diffusion")
            });
            match client {
                Some(name) => Way::Nothing((*name).to_owned()),
                None if is(0, "generate") || diffusion => Way::Diffusion,
                None => Way::Server("serve", Entrypoint::Serve, false),
            }
        }
    }
}

/// Whether the image's own start script makes the command line.
fn starts_by_script(context: &Context<'_>, command: &Command<'_>) -> bool {
    let by_image = command.words.first().is_some_and(|word| word.item.is_elsewhere());
    by_image && sagemaker::is_image(&context.image)
}

/// The server for image and video models takes what its pipeline needs; its options do not bound that.
fn diffusion(context: &Context<'_>, command: &Command<'_>) -> Reading {
    let mut reading = context.blank(Engine::Sglang, MemoryKind::Uncapped);
    reading.version = context.version().or_else(|| super::version_of(&context.image));
    reading.command = Some("diffusion".to_owned());
    reading.starts = Starts::Unknown;
    reading.resolvable = Resolvable::Partial;
    reading.parallelism.devices = context.slots().unwrap_or(1);
    reading.findings.extend(context.floating_image());
    context.finish(command, reading)
}

fn reading(context: &Context<'_>, line: &LineView<'_, '_>, version: Option<Version>) -> Reading {
    let parsed = line.parsed;
    let mut reading = context.blank(Engine::Sglang, MemoryKind::OfFree);
    reading.version = version;
    let default = (MemorySource::EngineAuto, None);
    reading.memory = line.memory(
        context,
        MemoryKind::OfFree,
        FRACTION,
        default,
        &mut reading.unresolved,
    );
    reading.memory.fraction = reading
        .memory
        .fraction
        .filter(|fraction| Limit::BelowOne.admits(fraction));
    reading.model = parsed.text("--model-path").map(str::to_owned);
    let open = parsed.open.is_some() || parsed.unread_config.is_some();
    if parsed.last("--model-path").is_none() && open {
        reading.unresolved.push(Unresolved {
            field: "model".to_owned(),
            reason: line.open_reason(),
            decides_memory: false,
        });
    }
    for (option, field) in [
        ("--model-path", "model"),
        ("--tp-size", "tp-size"),
        ("--pp-size", "pp-size"),
        ("--dp-size", "dp-size"),
        ("--nnodes", "nnodes"),
        ("--context-length", "context-length"),
        ("--quantization", "quantization"),
        ("--dtype", "dtype"),
        ("--kv-cache-dtype", "kv-cache-dtype"),
    ] {
        if let Some(setting) = parsed.last(option) {
            line.note_unresolved(setting, field, false, &mut reading.unresolved);
        }
    }
    reading.parallelism = parallelism::of(context, parsed);
    reading.serving = serving::of(line, &mut reading.unresolved);
    reading.max_model_len = parsed.int("--context-length");
    reading.quantization = parsed.text("--quantization").map(str::to_owned);
    reading.dtype = parsed.text("--dtype").map(str::to_owned);
    reading.kv_cache_dtype = parsed.text("--kv-cache-dtype").map(str::to_owned);
    reading.eager = parsed.flag("--disable-cuda-graph")
        || parsed.flag("--disable-decode-cuda-graph") && parsed.flag("--disable-prefill-cuda-graph");
    if is_cpu(context, parsed) {
        reading.memory.kind = MemoryKind::None;
        reading.memory.fraction = None;
        reading.parallelism.devices = 0;
    }
    reading
}

fn starts(
    context: &Context<'_>,
    line: &LineView<'_, '_>,
    refused: Refused,
    lenient: bool,
    reading: &Reading,
) -> Starts {
    let parsed = line.parsed;
    let about_words = || {
        parsed
            .error
            .as_ref()
            .is_some_and(super::parse::ParseError::is_about_words)
    };
    match refused {
        Refused::Yes | Refused::Perhaps if lenient && about_words() => {}
        Refused::Yes => return Starts::No,
        Refused::Perhaps => return Starts::Unknown,
        Refused::No => {}
    }
    if ends_on_cpu(parsed, reading) {
        return Starts::No;
    }
    // The parser takes any number; what the engine makes of it hangs on device and model. So do ranks without a device.
    let unusable = reading.findings.iter().any(|finding| finding.code == Code::Vg101);
    let visible = parallelism::visible(parsed, reading.parallelism.devices);
    let open = parsed.open.is_some() || parsed.unread_config.is_some();
    if open || unusable || context.slots().is_some_and(|slots| visible > slots) {
        Starts::Unknown
    } else {
        Starts::Yes
    }
}

/// Options without a program: the project's own image has nothing that would take them, another one may.
fn without_program(context: &Context<'_>, reading: &mut Reading) {
    note_opaque(context, reading);
    if context.image.repository.ends_with("lmsysorg/sglang") {
        reading.starts = Starts::No;
    } else if reading.starts == Starts::Yes {
        reading.starts = Starts::Unknown;
    }
}

fn note_opaque(context: &Context<'_>, reading: &mut Reading) {
    if let Some(reason) = &context.invocation.opaque {
        reading.unresolved.push(Unresolved {
            field: "argv".to_owned(),
            reason: reason.clone(),
            decides_memory: false,
        });
        reading.resolvable = Resolvable::Partial;
    }
}

/// Releases that compare the memory of a device that is none when they work out a fraction (sgl-project/sglang#11103).
const NEEDS_FRACTION_ON_CPU: std::ops::RangeInclusive<Version> =
    Version::new(0, 5, 2)..=Version::new(0, 5, 3);

/// Whether the release ends on a CPU because the fraction is left to it.
fn ends_on_cpu(parsed: &Parsed<'_>, reading: &Reading) -> bool {
    let release = reading
        .version
        .is_some_and(|version| NEEDS_FRACTION_ON_CPU.contains(&version));
    let on_cpu = parsed.last("--device").is_some_and(|device| device.text == "cpu");
    release && on_cpu && reading.memory.source == MemorySource::EngineAuto
}

fn is_flag(option: &str) -> bool {
    let newest = options::releases().len().saturating_sub(1);
    options::option(newest, option).is_some_and(|option| option.arity == Arity::Flag)
}

fn is_cpu(context: &Context<'_>, parsed: &Parsed<'_>) -> bool {
    if let Some(device) = parsed.last("--device") {
        return device.text == "cpu";
    }
    let image = &context.placed.container.image;
    !context.asks() && ["cpu", "xeon"].iter().any(|kind| image.contains(kind))
}
