//! Ollama: loads models when asked, into whatever is free.

use std::borrow::Cow;

use super::image::Image;
use super::plain;
use super::provenance::plain as provenance;
use super::reader::{Context, Reader};
use super::{Engine, MemoryKind, MemorySource, Reading, Starts};
use crate::invocation::prefix::{Program, program};
use crate::invocation::{Command, Word};

/// The reader of `ollama serve`.
pub(super) struct Ollama;

impl Reader for Ollama {
    fn engine(&self) -> Engine {
        Engine::Ollama
    }

    fn entrypoint(&self, image: &Image<'_>) -> Option<Vec<Cow<'static, str>>> {
        (image.repository.ends_with("ollama/ollama") || image.name() == "ollama")
            .then(|| vec![Cow::Borrowed("ollama")])
    }

    fn runs(&self, program: Program<'_>, words: &[Word<'_>]) -> bool {
        // `pull` and `run` speak to a server.
        matches!(program, Program::Binary("ollama")) && words.get(1).is_none_or(|word| word.text == "serve")
    }

    fn read(&self, context: &Context<'_>, command: &Command<'_>, _first: usize) -> Reading {
        let mut reading = context.blank(Engine::Ollama, MemoryKind::Uncapped);
        reading.command = Some("serve".to_owned());
        reading.memory.source = MemorySource::EngineAuto;
        let model = context.invocation.commands.iter().find_map(|other| {
            let (Program::Binary("ollama"), _) = program(&other.words)? else {
                return None;
            };
            let asks = matches!(&*other.words.get(1)?.text, "run" | "pull");
            other.words.get(2).filter(|_| asks)
        });
        reading.model = model.map(|model| model.text.clone().into_owned());
        match model {
            Some(model) => reading
                .provenance
                .extend(provenance::positional(context, "model", model)),
            None => plain::note(
                &mut reading,
                "model",
                "models are loaded when clients ask for them".to_owned(),
            ),
        }
        reading.max_model_len = match context.variable(command, "OLLAMA_CONTEXT_LENGTH") {
            Some(Ok(text)) => text.trim().parse().ok().filter(|length| *length != 0),
            Some(Err(reason)) => {
                plain::note(&mut reading, "OLLAMA_CONTEXT_LENGTH", reason);
                None
            }
            None => None,
        };
        reading.processes = Some(processes(context, command));
        reading.dtype = Some("auto".to_owned());
        reading.kv_cache_dtype = match context.variable(command, "OLLAMA_KV_CACHE_TYPE") {
            Some(Ok(text)) if !text.trim().is_empty() => Some(text.trim().to_owned()),
            Some(Err(reason)) => {
                plain::note(&mut reading, "OLLAMA_KV_CACHE_TYPE", reason);
                None
            }
            _ => Some("auto".to_owned()),
        };
        reading.provenance.extend(context.provenance_of_variable(
            command,
            "kv-cache-dtype",
            "OLLAMA_KV_CACHE_TYPE",
        ));
        reading.provenance.extend(context.provenance_of_variable(
            command,
            "max-model-len",
            "OLLAMA_CONTEXT_LENGTH",
        ));
        if context.invocation.script {
            reading.starts = Starts::Unknown;
        }
        reading.findings.extend(context.floating_image());
        context.finish(command, reading)
    }
}

/// Each loaded model has a process of its own, and so many are loaded at once: `OLLAMA_MAX_LOADED_MODELS`, else (and for
/// 0) three for each device (Ollama's FAQ, "How does Ollama handle concurrent requests").
pub(super) fn processes(context: &Context<'_>, command: &Command<'_>) -> u32 {
    const FOR_EACH_DEVICE: u32 = 3;
    let by_default = || FOR_EACH_DEVICE.saturating_mul(context.slots().unwrap_or(1));
    match context.variable(command, "OLLAMA_MAX_LOADED_MODELS") {
        Some(Ok(text)) => match text.trim().parse() {
            Ok(models) if models > 0 => models,
            _ => by_default(),
        },
        Some(Err(_)) | None => by_default(),
    }
}
