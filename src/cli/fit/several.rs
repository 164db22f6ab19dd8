//! Several models of one command line, each with the answer of a fit: `MODEL[=COUNT]`.

use super::super::output::{self, clean};
use super::super::{Failure, mig::number};
use super::{engine, kept, releases};
use crate::device::catalogue::Catalogue as Products;
use crate::engine::Engine;
use crate::fit::{Fitting, Named, Question, ask};
use crate::message::cut;
use crate::model::Catalogue;

/// Models as they are written, and what serves them.
pub(in crate::cli) struct Several<'a> {
    /// The option that names them, as in `--models`.
    pub(in crate::cli) flag: &'static str,
    /// Each `MODEL[=COUNT]`.
    pub(in crate::cli) models: &'a [String],
    /// The name of the engine.
    pub(in crate::cli) engine: &'a str,
    /// Its release.
    pub(in crate::cli) engine_version: Option<&'a str>,
    /// What follows its command.
    pub(in crate::cli) arguments: &'a [String],
    /// The device.
    pub(in crate::cli) device: &'a Named,
}

/// A model with its answer.
pub(in crate::cli) struct Asked<'a> {
    /// The option and the model, for errors.
    pub(in crate::cli) place: String,
    /// As it was written, without its count.
    pub(in crate::cli) model: &'a str,
    /// How many.
    pub(in crate::cli) count: u32,
    /// What serves it.
    pub(in crate::cli) engine: Engine,
    /// The answer.
    pub(in crate::cli) fitting: Fitting,
}

impl Several<'_> {
    /// Asks for each of them, and tells everything that is wrong at once. Engine arguments without a model are an error.
    pub(in crate::cli) fn each<T>(
        &self,
        mut take: impl FnMut(&Asked<'_>) -> Result<T, Failure>,
    ) -> Result<Vec<T>, Failure> {
        if self.models.is_empty() {
            return if self.arguments.is_empty() {
                Ok(Vec::new())
            } else {
                let flag = self.flag;
                Err(Failure::new(format!(
                    "ENGINE ARGS: stand behind -- without {flag}, so no engine is started with them; add {flag}, or leave \
                     them out"
                )))
            };
        }
        let engine = engine(self.engine)?;
        let mut notes = Vec::new();
        let releases = releases(self.engine_version, Some(engine), &mut notes)?;
        for note in &notes {
            output::note(&format!("note: {}", clean(note)));
        }
        let mut failures = Vec::new();
        let mut taken = Vec::new();
        for text in self.models {
            let (model, count) = match text.rsplit_once('=') {
                Some((model, count)) => (model.trim(), kept(number(&cut(text, 60), count), &mut failures)),
                None => (text.trim(), Some(1)),
            };
            let Some(count) = count else { continue };
            let place = format!("{} {:?}", self.flag, cut(model, 60));
            let answer = ask(&Question {
                catalogue: Catalogue::embedded(),
                products: Products::embedded(),
                model: Some(model),
                quantization: None,
                device: self.device,
                devices: None,
                engine,
                releases,
                arguments: self.arguments,
            });
            let asked = answer
                .map_err(|error| Failure::new(format!("{place}: {error}")))
                .and_then(|fitting| {
                    take(&Asked {
                        place,
                        model,
                        count,
                        engine,
                        fitting,
                    })
                });
            taken.extend(kept(asked, &mut failures));
        }
        if failures.is_empty() {
            Ok(taken)
        } else {
            Err(Failure::joined(failures))
        }
    }
}
