//! The format of the weights that an engine loads, from the model's name and the engine's options.

use super::Unknown;
use crate::engine::Reading;
use crate::model::{Format, Told};

/// Why nothing is told of a format without a size.
pub(crate) const UNSIZED: &str = "the quantization does not tell how many bits a weight has";

/// A format, and the option of the engine that says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled<'r> {
    /// The format.
    pub format: Format,
    /// The value of `--quantization` that names another one.
    pub overruled: Option<&'r str>,
}

/// What the name or the release tells (`named`) wins over the engine's option, since an engine refuses a checkpoint whose own
/// configuration says otherwise; then the option, then the load format. `packed` is who says that weights are packed without
/// saying how.
///
/// # Errors
///
/// Where somebody says that the weights are packed and nobody how, or names a format of unknown size.
pub fn settled<'r>(
    reading: &'r Reading,
    named: Option<Format>,
    mut packed: Option<&'r str>,
) -> Result<Settled<'r>, Unknown> {
    let option = match reading.quantization.as_deref() {
        None => None,
        Some(text) => match Format::parse(text) {
            Ok(Told::Format(format)) => Some((format, text)),
            Ok(Told::Checkpoint) => None,
            Ok(Told::Packed) => {
                packed = Some(text);
                None
            }
            Ok(Told::Unsized) => return Err(Unknown::new(format!("{text:?}: {UNSIZED}"))),
            Err(error) => return Err(Unknown::new(error.to_string())),
        },
    };
    let of = |format| Settled {
        format,
        overruled: None,
    };
    match (named.filter(|format| format.is_packed()), option) {
        (Some(named), Some((option, text))) => Ok(Settled {
            format: named,
            overruled: (named != option).then_some(text),
        }),
        (Some(named), None) => Ok(of(named)),
        (None, Some((option, _))) => Ok(of(option)),
        (None, None) => {
            if let Some(told) = packed {
                return Err(Unknown::new(format!(
                    "{told}: the checkpoint tells how its weights are packed, and the model's name does not; give its format \
                     with --quantization, such as fp8, w8a8-int8 or w4a16"
                )));
            }
            // Other load formats say where the files come from, not what is in them.
            Ok(of(match reading.serving.load_format.as_deref() {
                Some("bitsandbytes") => Format::Bnb4,
                Some("gguf") => Format::Gguf,
                _ => named.unwrap_or(Format::Float16),
            }))
        }
    }
}
