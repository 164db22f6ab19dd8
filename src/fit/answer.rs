//! From a question to its answer.

use thiserror::Error;

use super::Verdict;
use super::device::Named;
use super::figures::Figures;
use super::model::{Known, Understood, understand};
use super::words;
use crate::device::catalogue::Catalogue as Products;
use crate::engine::{
    ArgumentsError, Engine, Reading, Releases, Starts, Version, arguments_name_model, read_arguments,
};
use crate::finding::Code;
use crate::footprint::{Plan, Unknown};
use crate::message::cut;
use crate::model::name::{Found, find};
use crate::model::{Catalogue, Model, Told};

/// Longest text of a finding that is told as a note.
const LONGEST_NOTE: usize = 400;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'q> {
    /// Known models.
    pub catalogue: &'q Catalogue,
    /// Known products.
    pub products: &'q Products,
    /// The model, where the arguments name none.
    pub model: Option<&'q str>,
    /// Format of its weights, where its name does not tell.
    pub quantization: Option<Told>,
    /// The device of each rank.
    pub device: &'q Named,
    /// Devices that the container gets; as many as the arguments ask for where absent.
    pub devices: Option<u32>,
    /// The engine.
    pub engine: Engine,
    /// Its release, as far as it is known.
    pub releases: Releases,
    /// What follows the command of its server.
    pub arguments: &'q [String],
}

/// An answer with all that it rests on.
#[derive(Clone, Debug)]
pub struct Fitting {
    /// The arguments as the engine reads them.
    pub reading: Reading,
    /// The releases that were reckoned with.
    pub releases: Releases,
    /// The model as it was understood.
    pub model: Understood,
    /// Devices that the engine's processes need in this container.
    pub ranks: u32,
    /// Devices that the container gets.
    pub devices: u32,
    /// Whether it fits.
    pub verdict: Verdict,
    /// Why, in one sentence with the numbers.
    pub reason: String,
    /// The numbers; `None` with [`Verdict::Unknown`].
    pub figures: Option<Figures>,
    /// What else is to be known.
    pub notes: Vec<String>,
}

/// Why a question cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AskError {
    /// Nothing names a model.
    #[error("model: none is named; give --model ID, or name one in the engine's arguments")]
    NoModel,
    /// The name would be read as an option.
    #[error("model: {0:?} begins with a dash and would be read as an option; give the model's name")]
    Option(String),
    /// The container gets no device.
    #[error("devices: 0 is no number of devices; give 1 or more, or leave it out")]
    NoDevices,
    /// The engine's arguments cannot be read.
    #[error(transparent)]
    Arguments(#[from] ArgumentsError),
}

/// Answers a question.
///
/// # Errors
///
/// [`AskError`] where nothing is asked: no model, no device, or an engine whose arguments say nothing of memory. What is
/// asked and cannot be told is no error, but [`Verdict::Unknown`].
pub fn ask(question: &Question<'_>) -> Result<Fitting, AskError> {
    if question.devices == Some(0) {
        return Err(AskError::NoDevices);
    }
    let in_arguments = arguments_name_model(question.engine, question.arguments);
    match question.model {
        None if !in_arguments => return Err(AskError::NoModel),
        Some(model) if model.trim().is_empty() && !in_arguments => return Err(AskError::NoModel),
        Some(model) if model.starts_with('-') => return Err(AskError::Option(cut(model, 40))),
        _ => {}
    }
    let reading = read_arguments(
        question.engine,
        version(&question.releases),
        question.model,
        question.arguments,
    )?;
    let mut notes = question.device.notes.clone();
    let text = if in_arguments {
        reading.model.clone().unwrap_or_default()
    } else {
        question.model.unwrap_or_default().to_owned()
    };
    if let Some(model) = question.model.filter(|model| in_arguments && *model != text) {
        notes.push(format!(
            "the arguments name the model {:?}; --model {:?} is not used",
            cut(&text, 80),
            cut(model, 80)
        ));
    }
    let ranks = reading.parallelism.devices.max(1);
    let devices = question.devices.unwrap_or(ranks);
    about_reading(&reading, question, &mut notes);
    about_devices(&reading, question, ranks, devices, &mut notes);
    let (model, known) = understand(
        question.catalogue,
        &text,
        question.quantization,
        &reading,
        &mut notes,
    );
    if let Ok(known) = &known {
        about_model(&reading, &known.model, &mut notes);
    }
    let figures = known.and_then(|known| figures(question, &reading, &known));
    let (verdict, reason, figures) = match figures {
        Ok(figures) => {
            let (verdict, reason) = if ranks > devices {
                (Verdict::DoesNotFit, words::too_few(ranks, devices))
            } else {
                (Verdict::from(figures.answer()), words::reason(&figures, &reading))
            };
            (verdict, reason, Some(figures))
        }
        // The engine stops before it looks at the model.
        Err(_) if ranks > devices => (Verdict::DoesNotFit, words::too_few(ranks, devices), None),
        Err(reason) => (Verdict::Unknown, reason, None),
    };
    // What is the reason need not be told twice.
    notes.retain(|note| *note != reason);
    if reading.starts == Starts::No {
        notes.push(
            if figures.is_some() {
                "the engine does not start with these arguments; the numbers are those of what they mean"
            } else {
                "the engine does not start with these arguments"
            }
            .to_owned(),
        );
    }
    Ok(Fitting {
        reading,
        releases: question.releases,
        model,
        ranks,
        devices,
        verdict,
        reason,
        figures,
        notes,
    })
}

fn figures(question: &Question<'_>, reading: &Reading, known: &Known<'_>) -> Result<Figures, String> {
    let told = |unknown: Unknown| unreadable(reading, &unknown);
    let mut plan = Plan::of(reading, &known.model, known.format, question.device.device).map_err(told)?;
    plan.releases = question.releases;
    plan.publisher.clone_from(&known.publisher);
    let draft = reading.serving.draft.as_ref();
    if let Some(Found::Known { model, .. }) = draft
        .and_then(|draft| draft.model.as_deref())
        .map(|text| find(question.catalogue, text))
    {
        plan.draft = Some(model);
    }
    Figures::of(&plan, question.device, question.products).map_err(told)
}

/// Why nothing can be told: what is wrong with the arguments says it better than what follows from it.
fn unreadable(reading: &Reading, unknown: &Unknown) -> String {
    let fault = reading
        .findings
        .iter()
        .find(|finding| finding.code == Code::Vg101);
    match fault {
        Some(fault) if reading.memory.fraction.is_none() => format!("{}: {}", fault.code, fault.message),
        _ => unknown.to_string(),
    }
}

/// The release as which the arguments are read: the newest that is possible, as for an image without a tag.
fn version(releases: &Releases) -> Option<Version> {
    releases.known().or_else(|| {
        let Version([major, minor, patch, post]) = releases.last?;
        // The end of a minor release stands for any of it.
        Some(if patch == u16::MAX {
            Version::new(major, minor, 0)
        } else {
            Version([major, minor, patch, post])
        })
    })
}

fn about_reading(reading: &Reading, question: &Question<'_>, notes: &mut Vec<String>) {
    for finding in &reading.findings {
        notes.push(cut(
            &format!("{}: {}", finding.code, finding.message),
            LONGEST_NOTE,
        ));
    }
    let releases = &question.releases;
    // What other engines hold does not hang on their release.
    let matters = matches!(question.engine, Engine::Vllm | Engine::Sglang);
    if matters && releases.first.is_none() && releases.last.is_none() {
        notes.push(format!(
            "the release of {} is not known, so bounds and defaults of several releases count; give --engine-version",
            question.engine
        ));
    }
}

/// What the engine refuses of a model, whatever its memory.
fn about_model(reading: &Reading, model: &Model, notes: &mut Vec<String>) {
    let engine = reading.engine;
    let tensor = reading.parallelism.tensor.max(1);
    let heads = model.num_attention_heads;
    // SGLang divides the heads by fewer ranks where replicas share them.
    let divides = match engine {
        Engine::Vllm | Engine::Tgi => true,
        Engine::Sglang => reading.parallelism.data <= 1,
        _ => false,
    };
    if divides && !heads.is_multiple_of(tensor) {
        notes.push(format!(
            "{heads} attention heads cannot be divided by the tensor parallel size {tensor}, and {engine} does not start \
             so; give a size that divides them"
        ));
    }
    let declared = model.max_position_embeddings;
    let asked = reading.max_model_len.and_then(|asked| u64::try_from(asked).ok());
    if let Some(asked) = asked.filter(|asked| *asked > declared)
        && matches!(engine, Engine::Vllm | Engine::Sglang)
    {
        notes.push(format!(
            "the model declares a context of {declared} tokens and {asked} are asked for: {engine} does not start so \
             unless the model's configuration scales its positions or a variable allows longer contexts"
        ));
    }
    if reading.max_model_len == Some(-1) {
        notes.push(
            "the longest context is what the pool holds; for the start one block of the cache is enough"
                .to_owned(),
        );
    }
}

fn about_devices(
    reading: &Reading,
    question: &Question<'_>,
    ranks: u32,
    devices: u32,
    notes: &mut Vec<String>,
) {
    if devices > ranks {
        notes.push(format!(
            "the container gets {devices} devices and the arguments use {ranks}: only what the arguments say counts \
             (tensor parallel size {}, pipeline {}, data {})",
            reading.parallelism.tensor, reading.parallelism.pipeline, reading.parallelism.data
        ));
    }
    if ranks > 1 && question.device.device.class.mig {
        notes.push(format!(
            "{}: CUDA shows a process one MIG instance only, so {ranks} ranks over instances do not start",
            Code::Vg303
        ));
    }
}

#[cfg(test)]
mod tests;
