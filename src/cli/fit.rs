//! `vramgate fit`: whether a model fits a device under an engine's arguments.

use std::path::PathBuf;

use super::args::{Fit, Output};
use super::output::clean;
use super::{Failure, Outcome, input, output};
use crate::device::catalogue::Catalogue as Products;
use crate::document::FitDocument;
use crate::engine::{Engine, Releases};
use crate::fit::{Named, Question, Verdict, ask};
use crate::model::{Catalogue, Format, Model, Told, check};

mod bar;
mod score;
mod several;
mod text;

pub(super) use several::{Asked, Several};

/// Engines whose arguments are read.
const ENGINES: [&str; 7] = ["vllm", "sglang", "tgi", "tei", "trtllm", "llama.cpp", "lmdeploy"];
/// Largest file of models: some 100,000 entries.
const MAX_MODELS_BYTES: u64 = 64 << 20;

/// Answers, or scores.
pub(super) fn run(args: &Fit) -> Result<Outcome, Failure> {
    let own = own_models(&args.models)?;
    let extended;
    let catalogue = if own.is_empty() {
        Catalogue::embedded()
    } else {
        extended = Catalogue::embedded().extended(own);
        &extended
    };
    if args.score.is_empty() {
        answer(args, catalogue)
    } else {
        score::run(&args.score, catalogue, args.output)
    }
}

fn answer(args: &Fit, catalogue: &Catalogue) -> Result<Outcome, Failure> {
    let mut failures = Vec::new();
    let products = Products::embedded();
    let device = args.device.as_deref().and_then(|text| {
        let named = Named::parse(products, text).map_err(|error| Failure::new(format!("--{error}")));
        kept(named, &mut failures)
    });
    let engine = kept(engine(&args.engine), &mut failures);
    let quantization = args
        .quantization
        .as_deref()
        .and_then(|text| kept(quantization(text), &mut failures));
    let mut notes = Vec::new();
    let releases = releases(args.engine_version.as_deref(), engine, &mut notes);
    let releases = kept(releases, &mut failures);
    let (Some(device), Some(engine), Some(releases), true) = (device, engine, releases, failures.is_empty())
    else {
        return Err(Failure::joined(failures));
    };
    let mut fitting = ask(&Question {
        catalogue,
        products,
        model: args.model.as_deref(),
        quantization,
        device: &device,
        devices: args.devices,
        engine,
        releases,
        arguments: &args.arguments,
    })
    .map_err(|error| Failure::new(error.to_string()))?;
    fitting.notes.splice(0..0, notes);
    if fitting.verdict == Verdict::Unknown {
        output::note(&format!("unknown: {}", clean(&fitting.reason)));
    }
    match args.output {
        Output::Json => output::print_json(&FitDocument::new(&fitting, &device))?,
        Output::Text => output::print(&text::render(&fitting, &device))?,
    }
    Ok(if fitting.verdict == Verdict::DoesNotFit {
        Outcome::Refused
    } else {
        Outcome::Passed
    })
}

/// Keeps what went wrong, so that everything that is wrong is told at once.
pub(super) fn kept<T>(result: Result<T, Failure>, failures: &mut Vec<Failure>) -> Option<T> {
    result.map_err(|failure| failures.push(failure)).ok()
}

pub(super) fn engine(name: &str) -> Result<Engine, Failure> {
    let found = Engine::from_name(name).filter(|engine| ENGINES.contains(&engine.as_str()));
    found.ok_or_else(|| {
        let name = crate::message::cut(name, 40);
        let hint = crate::policy::nearest(&name, &ENGINES).map_or_else(
            || format!("; known are {}", ENGINES.join(", ")),
            |near| format!("; did you mean {near}?"),
        );
        Failure::new(format!(
            "--engine: {name:?} is no engine whose arguments are read{hint}"
        ))
    })
}

fn quantization(text: &str) -> Result<Told, Failure> {
    Format::parse(text).map_err(|error| Failure::new(format!("--quantization: {error}")))
}

/// The release. Only vLLM's and SGLang's are numbers that decide; another engine's may be any text.
pub(super) fn releases(
    text: Option<&str>,
    engine: Option<Engine>,
    notes: &mut Vec<String>,
) -> Result<Releases, Failure> {
    let Some(text) = text else {
        return Ok(Releases::default());
    };
    match Releases::parse(text) {
        Ok(releases) => Ok(releases),
        Err(error) if matches!(engine, Some(Engine::Vllm) | None) => {
            Err(Failure::new(format!("--engine-version: {error}")))
        }
        Err(error) => {
            notes.push(format!("the release is taken as unknown: {error}"));
            Ok(Releases::default())
        }
    }
}

/// Entries of `--models`.
fn own_models(files: &[PathBuf]) -> Result<Vec<Model>, Failure> {
    let mut models: Vec<Model> = Vec::new();
    input::each(files, MAX_MODELS_BYTES, &mut |source| {
        models.extend(entries(&source.name, &source.bytes)?);
        Ok(())
    })?;
    Ok(models)
}

/// The entries of one file: a list, as `model add` prints it and `spec.models` of a policy holds it, one entry alone, or
/// either in JSON.
fn entries(name: &str, bytes: &[u8]) -> Result<Vec<Model>, Failure> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Shape {
        List(Vec<serde_json::Value>),
        One(serde_json::Map<String, serde_json::Value>),
    }
    let fail = |problem: String| {
        Failure::new(format!(
            "{name}: {problem}; give a list of entries as `vramgate model add` prints them"
        ))
    };
    let text = std::str::from_utf8(bytes).map_err(|error| fail(format!("is no UTF-8 text ({error})")))?;
    let shape: Shape =
        serde_saphyr::from_str(text).map_err(|error| fail(format!("is no list of models ({error})")))?;
    let values = match shape {
        Shape::List(values) => values,
        Shape::One(value) => vec![serde_json::Value::Object(value)],
    };
    let mut models = Vec::with_capacity(values.len());
    for (index, value) in values.into_iter().enumerate() {
        let model: Model = serde_path_to_error::deserialize(value).map_err(|error| {
            let path = error.path().to_string();
            let at = if path == "." {
                String::new()
            } else {
                format!(".{path}")
            };
            fail(format!("[{index}]{at}: {}", error.inner()))
        })?;
        if model.id.trim().is_empty() {
            return Err(fail(format!("[{index}].id: is empty")));
        }
        check(&model).map_err(|error| Failure::new(format!("{name}: [{index}].{error}")))?;
        models.push(model);
    }
    Ok(models)
}

#[cfg(test)]
mod tests;
