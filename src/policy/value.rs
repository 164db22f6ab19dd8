//! Values of a policy document that are more than a word: fractions, amounts of memory, codes.
//!
//! Fractions are decimals with at most six places, so that no rounding hides in a policy.

use std::fmt;
use std::sync::LazyLock;

use serde::de::{self, Deserialize, Deserializer, Visitor};

use super::error::nearest;
use crate::finding::Code;
use crate::units::{Fraction, Mib, PPM, Share};

/// Millionths of a plain decimal with at most six places, or what is wrong with it.
fn decimal(text: &str) -> Result<u64, String> {
    let plain = |text: &str| -> Option<u64> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        if whole.is_empty() && part.is_empty() {
            return None;
        }
        let part = part.trim_end_matches('0');
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(part) || part.len() > 6 {
            return None;
        }
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let millionths: u64 = format!("{part:0<6}").parse().ok()?;
        whole.checked_mul(PPM)?.checked_add(millionths)
    };
    if let Some(ppm) = plain(text) {
        return Ok(ppm);
    }
    if let Some(percent) = text.strip_suffix('%').and_then(|number| plain(number.trim_end())) {
        return Err(format!(
            "{text:?} is a percentage: write {}",
            Share::from_ppm(percent / 100).decimals(2)
        ));
    }
    if text.contains(',') && plain(&text.replace(',', ".")).is_some() {
        return Err(format!("{text:?} has a comma: write {}", text.replace(',', ".")));
    }
    if memory(text).is_some() {
        return Err(format!(
            "{text:?} is an amount of memory, and a fraction of the device is meant, such as 0.90"
        ));
    }
    if text.strip_prefix('-').is_some_and(|rest| plain(rest).is_some()) {
        return Err(format!("{text} is below 0"));
    }
    Err(format!(
        "{text:?} is not a decimal fraction with at most six places, such as 0.90"
    ))
}

/// MiB of a quantity with a unit, where it has one and is whole.
fn memory(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64, u64); 10] = [
        ("MiB", 1, 1),
        ("Mi", 1, 1),
        ("GiB", 1024, 1),
        ("Gi", 1024, 1),
        ("MB", 1_000_000, 1 << 20),
        ("GB", 1_000_000_000, 1 << 20),
        ("Ki", 1, 1024),
        ("M", 1_000_000, 1 << 20),
        ("G", 1_000_000_000, 1 << 20),
        ("B", 1, 1 << 20),
    ];
    let (unit, times, by) = UNITS.iter().find(|(unit, ..)| text.ends_with(unit))?;
    let number: u64 = text.strip_suffix(unit)?.trim_end().parse().ok()?;
    Some(number.checked_mul(*times)?.div_ceil(*by))
}

/// Accepts a number in any spelling and hands over its text.
struct NumberText(&'static str);

impl Visitor<'_> for NumberText {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
        Ok(text.trim().to_owned())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<String, E> {
        Ok(number.to_string())
    }
}

/// A part of a device, above 0 and at most 1.
pub(crate) fn device_fraction_of(text: &str) -> Result<Fraction, String> {
    let ppm = decimal(text)?;
    if ppm == 0 {
        return Err(format!(
            "{text} is not above 0: it is a fraction of the device, such as 0.90"
        ));
    }
    if ppm > PPM {
        let percent = text
            .parse::<u64>()
            .ok()
            .filter(|percent| (10..=100).contains(percent));
        let meant = percent.map(|percent| Share::from_ppm(percent * 10_000).decimals(2));
        return Err(match meant {
            Some(meant) => {
                format!("{text} is above 1: it is a fraction of the device; {text} percent is {meant}")
            }
            None => format!("{text} is above 1: it is a fraction of the device, such as 0.90"),
        });
    }
    Fraction::parse(text).map_err(|error| format!("{text} {error}"))
}

/// Reads a [`Fraction`].
pub(crate) fn device_fraction<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Fraction, D::Error> {
    let text = deserializer.deserialize_any(NumberText("a fraction of the device such as 0.90"))?;
    device_fraction_of(&text).map_err(de::Error::custom)
}

/// A part of a device, above 0 and at most 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFraction(pub Fraction);

impl<'de> Deserialize<'de> for DeviceFraction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        device_fraction(deserializer).map(Self)
    }
}

/// A part of a device that is kept back: 0, or less than all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReserveFraction(pub Share);

impl<'de> Deserialize<'de> for ReserveFraction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = deserializer.deserialize_any(NumberText("a fraction of the device such as 0.015"))?;
        let ppm = decimal(&text).map_err(de::Error::custom)?;
        if ppm >= PPM {
            return Err(de::Error::custom(format!(
                "{text} keeps the whole device back: it has to be below 1"
            )));
        }
        Ok(Self(Share::from_ppm(ppm)))
    }
}

/// MiB, a whole number without unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MibCount(pub Mib);

impl<'de> Deserialize<'de> for MibCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = deserializer.deserialize_any(NumberText("a whole number of MiB"))?;
        if let Ok(mib) = text.parse::<u64>() {
            return Ok(Self(Mib::new(mib)));
        }
        Err(de::Error::custom(match memory(&text) {
            Some(mib) => format!("{text:?} has a unit: the field counts MiB, write {mib}"),
            None => format!("{text:?} is not a whole number of MiB, such as 512"),
        }))
    }
}

/// A finding code by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeName(pub Code);

/// Every code's name.
static CODE_NAMES: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| Code::ALL.iter().map(|code| code.as_str()).collect());

impl<'de> Deserialize<'de> for CodeName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(|_| {
            let near = nearest(&text, &CODE_NAMES).map(|near| format!("; did you mean {near}?"));
            let hint = near.unwrap_or_else(|| "; the codes stand in docs/codes/README.md".to_owned());
            de::Error::custom(format!("{text:?} is no finding code{hint}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact_or_refused() {
        for (text, ppm) in [
            ("0.90", 900_000),
            (".9", 900_000),
            ("1", 1_000_000),
            ("0.123456000", 123_456),
            ("0", 0),
        ] {
            assert_eq!(decimal(text), Ok(ppm), "{text}");
        }
        for text in [
            "0.1234567",
            "9e-1",
            "",
            ".",
            "abc",
            "nan",
            ".inf",
            "1_0",
            "+0.5",
            " 0.5",
            "99999999999999999999",
        ] {
            assert!(decimal(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn amounts_with_units_are_understood_only_to_say_what_to_write() {
        for (text, mib) in [
            ("512Mi", 512),
            ("2GiB", 2048),
            ("1 GB", 954),
            ("1024Ki", 1),
            ("1G", 954),
            ("5MiB", 5),
        ] {
            assert_eq!(memory(text), Some(mib), "{text}");
        }
        assert_eq!(memory("512"), None);
        assert_eq!(memory("1.5Gi"), None);
    }
}
