//! The fraction that an engine's option sets, as far as it is one.

use super::argparse::ParseError;
use super::argparse::value::{self, Value};
use super::line::LineView;
use super::reader::Context;
use crate::finding::{Code, Finding, Number};
use crate::units::Fraction;

/// The largest fraction that an engine takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// Up to the whole device.
    One,
    /// Less than the whole.
    BelowOne,
}

impl Limit {
    fn phrase(self) -> &'static str {
        match self {
            Self::One => "above 0 and at most 1",
            Self::BelowOne => "above 0 and below 1",
        }
    }

    /// Whether the engine can work with this fraction.
    pub(super) fn admits(self, fraction: &Fraction) -> bool {
        self == Self::One || fraction.ppm() < Fraction::one().ppm()
    }
}

/// VG101: a value of `option` that is no usable fraction.
pub(super) fn unusable(
    context: &Context<'_>,
    line: &LineView<'_, '_>,
    option: &str,
    limit: Limit,
) -> Option<Finding> {
    let setting = line.parsed.last(option);
    let setting = match setting {
        // The flag without a value is refused as such.
        None => return missing(context, line, option, limit),
        Some(setting) if setting.value == Value::Unresolved => return None,
        Some(setting) => setting,
    };
    let text = &*setting.text;
    let reason = match (setting.value, Fraction::parse(&value::ascii_digits(text))) {
        (Value::Refused(_), Ok(_)) => "is not a number".to_owned(),
        (_, Ok(fraction)) if !limit.admits(&fraction) => "is not below 1".to_owned(),
        (_, Ok(_)) => return None,
        (_, Err(reason)) => reason.to_string(),
    };
    let path = line.path_of(context, setting);
    let phrase = limit.phrase();
    let remedy = match text.trim().replace(',', ".").trim_end_matches('%') {
        "" => format!("write a decimal fraction {phrase}, such as 0.30"),
        text => match meant(text) {
            Some(meant) => format!("write a decimal fraction {phrase} (was {meant} meant?)"),
            None => format!("write a decimal fraction {phrase}, such as 0.30"),
        },
    };
    let shown: String = text.chars().take(40).collect();
    Some(
        Finding::new(
            Code::Vg101,
            path,
            format!("{option} {shown:?} {reason}; {remedy}"),
        )
        .number("value", Number::Text(text.to_owned())),
    )
}

/// The fraction that a comma, a percentage or a value in tenths stands for.
fn meant(text: &str) -> Option<String> {
    let fraction = Fraction::parse(text).ok();
    if let Some(fraction) = fraction {
        return Some(fraction.text().to_owned());
    }
    let percent: u32 = text
        .trim()
        .parse()
        .ok()
        .filter(|percent| (2..=100).contains(percent))?;
    Fraction::from_ppm(percent.checked_mul(10_000)?).map(|fraction| fraction.text().to_owned())
}

fn missing(context: &Context<'_>, line: &LineView<'_, '_>, option: &str, limit: Limit) -> Option<Finding> {
    let Some(ParseError::MissingValue(word)) = &line.parsed.error else {
        return None;
    };
    if word != option {
        return None;
    }
    let path = line
        .words
        .iter()
        .rev()
        .find(|given| given.text.replace('_', "-") == *word)
        .map_or_else(|| context.path.field("args"), |given| given.path(&context.path));
    let phrase = limit.phrase();
    let message = format!("{option} has no value; write a decimal fraction {phrase}, such as 0.30");
    Some(Finding::new(Code::Vg101, path, message))
}
