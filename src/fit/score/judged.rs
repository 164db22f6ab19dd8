//! One case: the answer, beside what was measured.

use std::fmt::Write as _;

use serde::Serialize;

use super::case::{Case, Outcome};
use crate::device::catalogue::Catalogue as Products;
use crate::engine::{Engine, Releases};
use crate::fit::{Figures, Fitting, Named, Question, Verdict, ask};
use crate::model::name::{Found, find};
use crate::model::{Catalogue, Format, Model, Told};

const GIB: f64 = (1_u64 << 30) as f64;
/// By how much measured sizes may exceed what the arguments allow: they are printed with two decimals.
const ROUNDED: f64 = 1.01;

/// A case with its answer.
pub(super) struct Judged<'c> {
    pub(super) case: &'c Case,
    pub(super) outcome: Outcome,
    /// Whether the total of the device was printed.
    pub(super) has_total: bool,
    /// Whether its memory is the host's.
    pub(super) unified: bool,
    /// The answer; the reason where there is none.
    fitting: Result<Fitting, String>,
    /// The model as the catalogue has it.
    model: Option<&'c Model>,
}

/// A case that is told by itself, and why.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Miss {
    /// Its name.
    pub id: String,
    /// What was not right with it.
    pub kind: &'static str,
    /// What became of the start.
    pub outcome: String,
    /// The figures, in words.
    pub figures: String,
}

/// Asks a case as the command line would.
pub(super) fn judge<'c>(case: &'c Case, catalogue: &'c Catalogue, products: &Products) -> Judged<'c> {
    let (device, has_total) = case.device();
    let named = Named::parse(products, &device).map_err(|error| error.to_string());
    let unified = named.as_ref().is_ok_and(|named| named.device.class.unified);
    let fitting = named.and_then(|named| answer(case, &named, catalogue, products));
    let model = fitting
        .as_ref()
        .ok()
        .and_then(|fitting| catalogue.get(fitting.model.id.as_deref()?));
    Judged {
        case,
        // Cases without one are not read.
        outcome: case.outcome().unwrap_or(Outcome::OtherFailure),
        has_total,
        unified,
        fitting,
        model,
    }
}

fn answer(case: &Case, named: &Named, catalogue: &Catalogue, products: &Products) -> Result<Fitting, String> {
    let engine =
        Engine::from_name(&case.engine).ok_or_else(|| format!("engine: {:?} is none", case.engine))?;
    // Releases of other engines are texts of many kinds.
    let releases = match case.engine_version.as_deref().map(Releases::parse) {
        Some(Ok(releases)) => releases,
        Some(Err(error)) if engine == Engine::Vllm => return Err(error.to_string()),
        _ => Releases::default(),
    };
    let quantization = match case.quantisation.as_str() {
        "unknown" => Told::Unsized,
        text => Format::parse(text).map_err(|error| error.to_string())?,
    };
    let by_text = matches!(find(catalogue, &case.model), Found::Known { .. });
    let model = match (&case.facts, by_text) {
        (Some(facts), false) => facts,
        _ => &case.model,
    };
    let arguments = case.arguments(engine)?;
    ask(&Question {
        catalogue,
        products,
        model: Some(model),
        quantization: Some(quantization),
        device: named,
        devices: case.gpu.count,
        engine,
        releases,
        arguments: &arguments,
    })
    .map_err(|error| error.to_string())
}

impl Judged<'_> {
    pub(super) fn verdict(&self) -> Verdict {
        self.fitting
            .as_ref()
            .map_or(Verdict::Unknown, |fitting| fitting.verdict)
    }

    fn figures(&self) -> Option<&Figures> {
        self.fitting.as_ref().ok()?.figures.as_ref()
    }

    fn measured(&self, name: &str) -> Option<f64> {
        self.case.measured.get(name).copied()
    }

    /// Whether its weights are packed.
    pub(super) fn is_packed(&self) -> bool {
        let format = self
            .fitting
            .as_ref()
            .ok()
            .and_then(|fitting| fitting.model.format);
        format.is_some_and(Format::is_packed)
    }

    /// Whether it is a text model with attention in every layer.
    pub(super) fn is_text(&self) -> bool {
        self.model
            .is_some_and(|model| !model.tower && model.recurrent.is_none())
    }

    /// Whether every layer keeps every token.
    fn is_pure_attention(&self) -> bool {
        self.model.is_some_and(|model| {
            model.recurrent.is_none()
                && model.sliding_window.is_none()
                && model.attention_chunk_size.is_none()
                && model.full_attention_layers.is_none()
                && model.attention_layers.is_none()
        })
    }

    /// Error of the weights in per cent, with its sign.
    pub(super) fn weights_error(&self) -> Option<f64> {
        let measured = self.measured("weights_gib").filter(|size| *size > 0.0)?;
        let expected = self.figures()?.weights().expected() as f64 / GIB;
        Some((expected / measured - 1.0) * 100.0)
    }

    /// Error of the tokens that follow from the measured pool, in per cent: pure attention only.
    pub(super) fn tokens_error(&self) -> Option<f64> {
        let tokens = self.measured("kv_tokens").filter(|tokens| *tokens > 0.0)?;
        let pool = self.measured("kv_gib").filter(|size| *size > 0.0)?;
        let row = self.figures()?.estimate.row_bytes;
        (self.is_pure_attention() && row > 0).then(|| (pool * GIB / row as f64 / tokens - 1.0) * 100.0)
    }

    /// The measured pool in GiB: as printed, or by its tokens.
    fn measured_pool(&self) -> Option<f64> {
        let by_tokens = || {
            let row = self.figures()?.estimate.row_bytes;
            let tokens = self.measured("kv_tokens")?;
            self.is_pure_attention().then_some(tokens * row as f64 / GIB)
        };
        self.measured("kv_gib").or_else(by_tokens)
    }

    /// Error of the pool that follows from the arguments, in GiB, and its part of the device in per cent. Cases without
    /// a printed total, of unified memory or with figures against their arguments do not count.
    pub(super) fn pool_error(&self) -> Option<(f64, f64)> {
        let total = self.case.gpu.total_gib?;
        if self.unified || self.is_contradictory() {
            return None;
        }
        let expected = self.figures()?.estimate.pool.expected as f64 / GIB;
        let error = expected - self.measured_pool()?;
        Some((error, error / total * 100.0))
    }

    /// Whether the measured figures cannot come of the arguments that the log shows.
    pub(super) fn is_contradictory(&self) -> bool {
        self.excess().is_some() || self.shortfall().is_some()
    }

    /// Tokens of the measured pool and of the longest context by the arguments, where a start that succeeded has fewer
    /// than the engine demands of one.
    fn shortfall(&self) -> Option<(f64, f64)> {
        if self.outcome != Outcome::Ran || self.case.engine != "vllm" || !self.is_pure_attention() {
            return None;
        }
        let tokens = self.measured("kv_tokens")?;
        let length = self.figures()?.estimate.length as f64;
        (tokens > 0.0 && tokens < length).then_some((tokens, length))
    }

    /// Measured weights and pool, and the budget by the arguments, in GiB, where the first exceeds the second.
    fn excess(&self) -> Option<(f64, f64)> {
        if !self.has_total {
            return None;
        }
        let least = self.figures()?.weights().lower() as f64 / GIB;
        let measured = self.measured("weights_gib").unwrap_or(least) + self.measured_pool()?;
        let budget = self.figures()?.estimate.budget as f64 / GIB;
        (measured > budget * ROUNDED).then_some((measured, budget))
    }

    fn told(&self, kind: &'static str, figures: String) -> Miss {
        Miss {
            id: self.case.id.clone(),
            kind,
            outcome: self.case.outcome.clone(),
            figures,
        }
    }

    /// A case that was answered wrongly, or not surely.
    pub(super) fn miss(&self) -> Option<Miss> {
        if !self.has_total || self.is_contradictory() {
            return None;
        }
        let kind = match (self.verdict(), self.outcome) {
            (Verdict::Fits, Outcome::Failed) => "called fit but failed",
            (Verdict::DoesNotFit, Outcome::Ran) => "refused but ran",
            (Verdict::Doubtful, Outcome::Ran | Outcome::Failed) => "doubtful",
            _ => return None,
        };
        Some(self.told(kind, self.in_words()))
    }

    /// Sizes in GiB: least, expected and most.
    fn in_words(&self) -> String {
        let Some(figures) = self.figures() else {
            return String::new();
        };
        let estimate = &figures.estimate;
        let three = |lower: f64, expected: f64, upper: f64| format!("{lower:.2}/{expected:.2}/{upper:.2}");
        let weights = figures.weights();
        let pool = three(
            estimate.pool.lower as f64 / GIB,
            estimate.pool.expected as f64 / GIB,
            estimate.pool.upper as f64 / GIB,
        );
        let need = estimate.need;
        let need = three(
            need.lower() as f64 / GIB,
            need.expected() as f64 / GIB,
            need.upper() as f64 / GIB,
        );
        let mut text = format!("weights {:.2}", weights.expected() as f64 / GIB);
        if let Some(measured) = self.measured("weights_gib") {
            let _ = write!(text, " (measured {measured:.2})");
        }
        let _ = write!(text, ", pool {pool}");
        if let Some(measured) = self.measured_pool() {
            let _ = write!(text, " (measured {measured:.2})");
        }
        let _ = write!(text, ", one request {need}");
        if let Some(needed) = self.measured("needed_gib") {
            let _ = write!(text, " (needed {needed:.2})");
        }
        text
    }

    /// A case whose figures exceed what its arguments allow.
    pub(super) fn contradiction(&self) -> Option<Miss> {
        let figures = match (self.excess(), self.shortfall()) {
            (Some((measured, budget)), _) => {
                format!("weights and pool {measured:.2} GiB, allowed {budget:.2}")
            }
            (None, Some((tokens, length))) => {
                format!("it ran with a pool of {tokens:.0} tokens, and one request has {length:.0}")
            }
            (None, None) => return None,
        };
        Some(self.told(self.verdict().as_str(), figures))
    }

    /// A case without an answer.
    pub(super) fn without_answer(&self) -> Option<Miss> {
        let reason = match &self.fitting {
            Ok(fitting) if fitting.verdict == Verdict::Unknown => fitting.reason.clone(),
            Ok(_) => return None,
            Err(reason) => reason.clone(),
        };
        Some(self.told("unknown", reason))
    }

    /// A case whose model was found as another one than it is.
    pub(super) fn other_model(&self) -> Option<Miss> {
        let facts = self.case.facts.as_deref()?;
        let fitting = self.fitting.as_ref().ok()?;
        let id = fitting.model.id.as_deref()?;
        (id != facts).then(|| {
            self.told(
                "other model",
                format!("{:?} is {id}, facts {facts}", self.case.model),
            )
        })
    }
}
