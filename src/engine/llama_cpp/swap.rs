//! llama-swap: starts one of the servers of its configuration when a request names its model, and ends the one before.
//!
//! Source: mostlygeek/llama-swap `README.md` and `config.example.yaml` (`models.NAME.cmd`, macros).

use std::borrow::Cow;

use serde_json::Value;

use crate::engine::plain;
use crate::engine::provenance::file;
use crate::engine::reader::{Context, Reader};
use crate::engine::vllm::wrapper;
use crate::engine::{Engine, MemoryKind, MemorySource, Origin, Reading, Resolvable, Unresolved};
use crate::invocation::prefix::base_name;
use crate::invocation::{Certainty, Command, Word};

/// The program.
pub(super) const PROGRAM: &str = "llama-swap";

/// The entrypoint of its images.
pub(super) const ENTRYPOINT: [&str; 3] = [PROGRAM, "-config", "/app/config.yaml"];

pub(super) fn read(
    reader: &dyn Reader,
    context: &Context<'_>,
    command: &Command<'_>,
    words: &[Word<'_>],
) -> Reading {
    let mut reading = context.blank(Engine::LlamaCpp, MemoryKind::Uncapped);
    reading.memory.source = MemorySource::EngineAuto;
    reading.command = Some(PROGRAM.to_owned());
    reading.dtype = Some("auto".to_owned());
    reading.kv_cache_dtype = Some("auto".to_owned());
    reading.parallelism.devices = context.slots().unwrap_or(1);
    let file = reading.option(words, &["--config", "-config"]);
    let lines = match file.as_deref().map(|file| servers(context, file)) {
        Some(Ok(lines)) => lines,
        Some(Err(reason)) => {
            plain::note(&mut reading, "config", reason);
            return context.finish(command, reading);
        }
        None => {
            plain::note(&mut reading, "config", "no configuration is named".to_owned());
            return context.finish(command, reading);
        }
    };
    let other = lines
        .iter()
        .filter_map(|line| line.split_whitespace().next())
        .find(|program| base_name(program) != "llama-server");
    if let Some(other) = other {
        reading.engine = Engine::Unknown;
        reading.memory.kind = MemoryKind::Unknown;
        reading.memory.source = MemorySource::Unresolved;
        reading.resolvable = Resolvable::None;
        reading.unresolved.push(Unresolved {
            field: "argv".to_owned(),
            reason: format!("llama-swap starts {other:.60}, which is not followed"),
            decides_memory: true,
        });
        return context.finish(command, reading);
    }
    if let [line] = lines.as_slice() {
        let started = Command {
            words: server(line),
            variables: command.variables.clone(),
            conditional: command.conditional,
            refused: command.refused.clone(),
            ..Command::default()
        };
        reading = reader.read(context, &started, 1);
        reading.command = Some(PROGRAM.to_owned());
        for one in &mut reading.provenance {
            if let Some(word) = one.detail.strip_prefix("the image's entrypoint") {
                let described = file::described(context, file.as_deref().unwrap_or_default());
                one.detail = format!("{described}{word}");
                one.from = Origin::ConfigFile;
                one.path = None;
            }
        }
        plain::note(
            &mut reading,
            "argv",
            "llama-swap starts the server when its model is asked for".to_owned(),
        );
    } else {
        let count = lines.len();
        let reason = format!("llama-swap loads one of {count} models when it is asked for");
        plain::note(&mut reading, "model", reason);
    }
    context.finish(command, reading)
}

/// The command line of each model, or why they are not known.
fn servers(context: &Context<'_>, file: &str) -> Result<Vec<String>, String> {
    let text = context
        .file(file)
        .map_err(|reason| format!("the file {file}: {reason}"))?;
    let config: Value =
        serde_saphyr::from_str(text).map_err(|_| format!("the file {file} is not valid YAML"))?;
    let models = config.get("models").and_then(Value::as_object);
    let lines = models.into_iter().flatten().filter_map(|(_, model)| {
        let lines = model.get("cmd")?.as_str()?.lines();
        let lines = lines.map(|line| line.trim().trim_end_matches('\\'));
        let lines: Vec<&str> = lines.filter(|line| !line.starts_with('#')).collect();
        Some(lines.join(" "))
    });
    Ok(lines.collect())
}

/// The words of a command line, in which macros are not known.
fn server(line: &str) -> Vec<Word<'static>> {
    let mut words = wrapper::split(line);
    for word in &mut words {
        if let Some(at) = word.text.find("${").filter(|_| word.text != "${PORT}") {
            word.certainty = Certainty::From(at);
            word.reason = Some(Cow::Borrowed("a macro of llama-swap is not followed"));
        }
    }
    words
}
