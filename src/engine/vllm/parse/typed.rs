//! Values that the parser takes and the release's typed configuration refuses right after.

use super::super::options::{self, Entrypoint};
use super::super::value::{self, Value};
use super::{Parsed, Setting};
use crate::engine::Version;
use crate::units::{Fraction, FractionError};

/// Whether a value is refused, given whether the release checks it.
type Check = fn(&Setting<'_>, bool) -> bool;

impl<'a> Parsed<'a> {
    /// Options whose value the parser takes and the release's typed configuration refuses right after.
    #[must_use]
    pub fn refused_by_config(&self) -> Vec<&Setting<'a>> {
        let since = |minor, patch| self.release >= Version::new(0, minor, patch);
        let checks: [(&str, Check, bool); 9] = [
            ("--gpu-memory-utilization", fraction_is_refused, since(11, 1)),
            ("--tensor-parallel-size", below_one, since(21, 0)),
            ("--pipeline-parallel-size", below_one, since(21, 0)),
            ("--data-parallel-size", below_one, since(21, 0)),
            ("--max-num-batched-tokens", below_one, since(11, 1)),
            ("--max-num-seqs", below_one, since(11, 1)),
            (
                "--cpu-offload-gb",
                |s, strict| strict && s.text.trim().starts_with('-'),
                since(8, 0),
            ),
            (
                "--cpu-offload-gb",
                |s, strict| strict && s.text.trim().eq_ignore_ascii_case("nan"),
                since(11, 1),
            ),
            ("--kv-cache-dtype", unknown_kv_cache_dtype, since(31, 0)),
        ];
        checks
            .into_iter()
            .filter_map(|(option, refused, strict)| {
                let setting = self.last(option)?;
                let judged = matches!(setting.value, Value::Int(_) | Value::Text);
                (judged && refused(setting, strict)).then_some(setting)
            })
            .collect()
    }
}

fn below_one(setting: &Setting<'_>, strict: bool) -> bool {
    strict && matches!(setting.value, Value::Int(int) if int < 1)
}

/// Up to 0.11.0 only what is above 1 is refused; later everything outside `0 < fraction <= 1`.
fn fraction_is_refused(setting: &Setting<'_>, strict: bool) -> bool {
    match Fraction::parse(&value::ascii_digits(&setting.text)) {
        Ok(fraction) => fraction.ppm() == 1 && strict && underflows(&setting.text),
        Err(FractionError::AboveOne) => true,
        Err(FractionError::NotFinite) => {
            let text = setting.text.trim();
            let negative = text.starts_with('-');
            let nan = text.trim_start_matches(['-', '+']).eq_ignore_ascii_case("nan");
            strict || !(nan || negative)
        }
        Err(FractionError::NotPositive | FractionError::NotANumber) => strict,
    }
}

/// Whether Python's float of this positive decimal text is 0.0 (`1e-400`).
fn underflows(text: &str) -> bool {
    let exponent = text
        .trim()
        .split_once(['e', 'E'])
        .and_then(|(_, exponent)| value::python_int(exponent));
    exponent.is_some_and(|exponent| exponent < -340)
}

/// 0.33 takes any text and refuses it in its typed configuration; the names are those of the release before.
fn unknown_kv_cache_dtype(setting: &Setting<'_>, strict: bool) -> bool {
    let before = || {
        let position = options::releases()
            .iter()
            .position(|version| *version == Version::new(0, 30, 0))?;
        options::release(position, Entrypoint::Serve)?.named("--kv-cache-dtype")
    };
    strict && before().is_some_and(|option| option.refuses(&setting.text))
}
