//! Which model is meant, and in which format its weights are.

use std::borrow::Cow;

use crate::engine::Reading;
use crate::footprint::{self, UNSIZED};
use crate::message::{cut, one_line};
use crate::model::name::{Found, find, publisher};
use crate::model::{Catalogue, Confidence, Format, Model, Told};

/// Longest part of a name that is told.
const SHOWN: usize = 80;

/// A model as it was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Understood {
    /// The text that names it, as far as it is shown.
    pub text: String,
    /// Its id in the catalogue; `None` where it is not known.
    pub id: Option<String>,
    /// How it was found, in words; `None` where it was not.
    pub found: Option<String>,
    /// Whether the text names this model and no other.
    pub certain: bool,
    /// Format of its weights; `None` where it cannot be told.
    pub format: Option<Format>,
    /// How sure its facts are.
    pub confidence: Option<Confidence>,
    /// Where they come from.
    pub source: Option<String>,
}

/// A model with everything that an estimate needs of it.
pub(super) struct Known<'t> {
    /// Its facts, with the context that its name declares.
    pub(super) model: Model,
    /// Format of the weights.
    pub(super) format: Format,
    /// Who published them, where the name tells.
    pub(super) publisher: Option<Cow<'t, str>>,
}

/// Finds the model and settles its format. The second is the reason where that is not possible.
pub(super) fn understand<'t>(
    catalogue: &Catalogue,
    text: &'t str,
    quantization: Option<Told>,
    reading: &Reading,
    notes: &mut Vec<String>,
) -> (Understood, Result<Known<'t>, String>) {
    let mut understood = Understood {
        text: cut(&one_line(text), SHOWN),
        id: None,
        found: None,
        certain: false,
        format: None,
        confidence: None,
        source: None,
    };
    let (model, named, positions, how) = match find(catalogue, text) {
        Found::Known {
            model,
            format,
            positions,
            how,
        } => (model, format, positions, how),
        Found::Unknown { reason, nearest } => {
            let mut told = format!("model {:?}: {reason}", understood.text);
            if !nearest.is_empty() {
                told.push_str("; known names like it: ");
                told.push_str(&nearest.join(", "));
            }
            return (understood, Err(told));
        }
    };
    understood.id = Some(model.id.clone());
    understood.found = Some(how.to_string());
    understood.certain = how.is_certain();
    understood.confidence = Some(model.confidence);
    understood.source = Some(model.source.clone());
    if !understood.certain {
        notes.push(format!(
            "the model is taken for {}: it was found {how}, which is not certain",
            model.id
        ));
    }
    let format = match format(model, named, quantization, reading, notes) {
        Ok(format) => format,
        Err(reason) => return (understood, Err(reason)),
    };
    understood.format = Some(format);
    let known = Known {
        model: Model {
            max_position_embeddings: positions,
            ..model.clone()
        },
        format,
        publisher: publisher(text).map(Cow::Borrowed),
    };
    (understood, Ok(known))
}

/// The format of the weights: what is stated beside the model, else what its name tells, else what the engine is told.
///
/// A name wins over the engine's option, since an engine refuses a checkpoint whose own configuration says otherwise.
fn format(
    model: &Model,
    named: Option<Format>,
    stated: Option<Told>,
    reading: &Reading,
    notes: &mut Vec<String>,
) -> Result<Format, String> {
    match stated {
        Some(Told::Format(format)) => return Ok(format),
        Some(Told::Unsized) => return Err(UNSIZED.to_owned()),
        Some(Told::Checkpoint | Told::Packed) | None => {}
    }
    // A name without a format of its own leaves that of the release.
    let named = named.or(model.released);
    let packed = (stated == Some(Told::Packed)).then_some("--quantization");
    let settled = footprint::settled(reading, named, packed).map_err(|unknown| unknown.to_string())?;
    if let Some(text) = settled.overruled {
        notes.push(format!(
            "the weights are taken as {}, as the model's name or release tells, although the arguments say {:?}",
            settled.format,
            cut(text, 40)
        ));
    }
    Ok(settled.format)
}
