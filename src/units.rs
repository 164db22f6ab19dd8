//! Quantities with their unit in the type: [`Mib`] of device memory, a [`Fraction`] that somebody wrote, and a
//! [`Share`] of a device that may be added up.
//!
//! All sums are exact integers. A request rounds up and a capacity rounds down, so rounding can refuse a borderline
//! case but never admit one.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// One part in a million: the resolution of [`Fraction`] and [`Share`].
pub const PPM: u64 = 1_000_000;

/// Device memory in MiB (2^20 bytes), the unit of `nvidia-smi` and of the label `nvidia.com/gpu.memory`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Mib(u64);

impl Mib {
    /// No memory.
    pub const ZERO: Self = Self(0);

    /// This many MiB.
    #[must_use]
    pub const fn new(mib: u64) -> Self {
        Self(mib)
    }

    /// Bytes, rounded up to a whole MiB (for what is asked).
    #[must_use]
    pub const fn from_bytes_up(bytes: u64) -> Self {
        Self(bytes.div_ceil(1 << 20))
    }

    /// Bytes, rounded down to a whole MiB (for what is there).
    #[must_use]
    pub const fn from_bytes_down(bytes: u64) -> Self {
        Self(bytes >> 20)
    }

    /// The number of MiB.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The sum; `u64::MAX` MiB where it would overflow, which is larger than any device.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, zero where `other` is larger.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `n` times as much.
    #[must_use]
    pub const fn times(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }
}

impl fmt::Display for Mib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MiB", self.0)
    }
}

impl std::iter::Sum for Mib {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Self::plus)
    }
}

/// A fraction of one device, greater than zero and at most one, with the text in which it was written.
///
/// Six decimals are exact; further digits round up to the next millionth.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fraction {
    ppm: u32,
    text: Arc<str>,
}

/// Why a text is not a usable [`Fraction`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FractionError {
    /// Not a decimal number.
    #[error("is not a number")]
    NotANumber,
    /// `nan`, `inf`, or a number whose exponent no device has a use for.
    #[error("is not finite")]
    NotFinite,
    /// Zero or below.
    #[error("is not above 0")]
    NotPositive,
    /// More than the whole device.
    #[error("is above 1")]
    AboveOne,
}

impl Fraction {
    /// The whole device.
    #[must_use]
    pub fn one() -> Self {
        Self {
            ppm: 1_000_000,
            text: Arc::from("1.0"),
        }
    }

    /// Reads decimal text as Python's `float()` does, without ever going through a float: `0.9`, `.9`, `9e-1`,
    /// ` 0.9 `, `1_0e-2`.
    pub fn parse(text: &str) -> Result<Self, FractionError> {
        let ppm = decimal_to_ppm(text)?;
        Ok(Self {
            ppm,
            text: Arc::from(text.trim()),
        })
    }

    /// A fraction in millionths, `1..=1_000_000`, written with three decimals (more where it needs them).
    #[must_use]
    pub fn from_ppm(ppm: u32) -> Option<Self> {
        if ppm == 0 || u64::from(ppm) > PPM {
            return None;
        }
        Some(Self {
            ppm,
            text: Arc::from(Share(u64::from(ppm)).decimals(3)),
        })
    }

    /// Millionths of the device.
    #[must_use]
    pub const fn ppm(&self) -> u32 {
        self.ppm
    }

    /// The text as written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What this fraction asks of a device with `total`, rounded up: `ceil(total x fraction)`, as vLLM's
    /// `request_memory` computes it.
    #[must_use]
    pub fn of(&self, total: Mib) -> Mib {
        Mib(mul_div_up(total.0, u64::from(self.ppm), PPM))
    }

    /// What this fraction leaves to promise of a device with `total`, rounded down.
    #[must_use]
    pub fn of_down(&self, total: Mib) -> Mib {
        self.share().of_down(total)
    }

    /// The same as a [`Share`], which can be added up.
    #[must_use]
    pub fn share(&self) -> Share {
        Share(u64::from(self.ppm))
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Millionths of one device. A sum of fractions: it may exceed one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share(u64);

impl Share {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// One whole device.
    pub const WHOLE: Self = Self(PPM);

    /// This many millionths.
    #[must_use]
    pub const fn from_ppm(ppm: u64) -> Self {
        Self(ppm)
    }

    /// Millionths of a device.
    #[must_use]
    pub const fn ppm(self) -> u64 {
        self.0
    }

    /// The sum.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, zero where `other` is larger.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `n` times as much.
    #[must_use]
    pub const fn times(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }

    /// One `n`-th, rounded down; the whole where `n` is zero.
    #[must_use]
    pub const fn divided_by(self, n: u64) -> Self {
        match self.0.checked_div(n) {
            Some(part) => Self(part),
            None => self,
        }
    }

    /// `part` of `whole`, rounded up; more than any budget where `whole` is zero.
    #[must_use]
    pub fn ratio_up(part: Mib, whole: Mib) -> Self {
        Self(mul_div_up(part.0, PPM, whole.0))
    }

    /// `part` of `whole`, rounded down; nothing where `whole` is zero.
    #[must_use]
    pub fn ratio_down(part: Mib, whole: Mib) -> Self {
        let product = u128::from(part.0) * u128::from(PPM);
        let parts = product.checked_div(u128::from(whole.0)).unwrap_or(0);
        Self(u64::try_from(parts).unwrap_or(u64::MAX))
    }

    /// The same in whole thousandths, rounded down, as a fraction is proposed.
    #[must_use]
    pub const fn to_thousandths_down(self) -> Self {
        Self(self.0 / 1_000 * 1_000)
    }

    /// `self x part / whole`, rounded up; more than any budget where `whole` is zero.
    #[must_use]
    pub fn scaled_up(self, part: Mib, whole: Mib) -> Self {
        Self(mul_div_up(part.0, self.0, whole.0))
    }

    /// The MiB that this share is of `total`, rounded down.
    #[must_use]
    pub fn of_down(self, total: Mib) -> Mib {
        let product = u128::from(total.0) * u128::from(self.0) / u128::from(PPM);
        Mib(u64::try_from(product).unwrap_or(u64::MAX))
    }

    /// As a number of devices for a graph, which decides nothing.
    #[must_use]
    #[allow(
        clippy::float_arithmetic,
        clippy::cast_precision_loss,
        reason = "a point of a graph decides nothing"
    )]
    pub fn as_devices(self) -> f64 {
        self.0 as f64 / PPM as f64
    }

    /// As a decimal with at least `least` places, without needless zeros beyond them.
    #[must_use]
    pub fn decimals(self, least: usize) -> String {
        let mut digits = format!("{:06}", self.0 % PPM);
        while digits.len() > least && digits.ends_with('0') {
            digits.pop();
        }
        let whole = self.0 / PPM;
        if digits.is_empty() {
            whole.to_string()
        } else {
            format!("{whole}.{digits}")
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.decimals(2))
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.decimals(2))
    }
}

impl std::iter::Sum for Share {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Self::plus)
    }
}

/// `ceil(a * b / c)`, saturating; `u64::MAX` where `c` is zero.
fn mul_div_up(a: u64, b: u64, c: u64) -> u64 {
    if c == 0 {
        return u64::MAX;
    }
    let product = u128::from(a) * u128::from(b);
    u64::try_from(product.div_ceil(u128::from(c))).unwrap_or(u64::MAX)
}

/// Millionths of a decimal text, rounded up.
fn decimal_to_ppm(text: &str) -> Result<u32, FractionError> {
    let text = text.trim();
    let (negative, body) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = body.to_ascii_lowercase();
    if matches!(lower.as_str(), "nan" | "inf" | "infinity") {
        return Err(FractionError::NotFinite);
    }
    let (mantissa, exponent) = match lower.split_once('e') {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (lower.as_str(), None),
    };
    let exponent = match exponent {
        Some(digits) => parse_exponent(digits)?,
        None => 0,
    };
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && part.is_empty() {
        return Err(FractionError::NotANumber);
    }
    let mut digits = Vec::with_capacity(whole.len() + part.len());
    push_digits(whole, &mut digits)?;
    let before_point = i64::try_from(digits.len()).unwrap_or(i64::MAX);
    push_digits(part, &mut digits)?;
    let leading_zeros = digits.iter().take_while(|digit| **digit == 0).count();
    let significant = &digits[leading_zeros..];
    if significant.is_empty() || negative {
        return Err(FractionError::NotPositive);
    }
    // The place of the first significant digit, counted in powers of ten: 0.9 has 0, 1.0 has 1, 0.09 has -1.
    let place = before_point
        .saturating_sub(i64::try_from(leading_zeros).unwrap_or(i64::MAX))
        .saturating_add(exponent);
    // Python's float() turns into infinity beyond 1.8e308; either way no device has that much.
    if place > 309 {
        return Err(FractionError::NotFinite);
    }
    if place > 1 {
        return Err(FractionError::AboveOne);
    }
    let mut ppm: u64 = 0;
    let wanted = place.saturating_add(6);
    for index in 0..wanted.max(0) {
        let digit = usize::try_from(index)
            .ok()
            .and_then(|index| significant.get(index))
            .copied()
            .unwrap_or(0);
        ppm = ppm.saturating_mul(10).saturating_add(u64::from(digit));
    }
    let consumed = usize::try_from(wanted.max(0)).unwrap_or(usize::MAX);
    if significant.iter().skip(consumed).any(|digit| *digit != 0) {
        ppm = ppm.saturating_add(1);
    }
    if ppm > PPM {
        return Err(FractionError::AboveOne);
    }
    u32::try_from(ppm).map_err(|_| FractionError::AboveOne)
}

fn parse_exponent(text: &str) -> Result<i64, FractionError> {
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let mut values = Vec::with_capacity(digits.len());
    push_digits(digits, &mut values)?;
    if values.is_empty() {
        return Err(FractionError::NotANumber);
    }
    let magnitude = values.iter().fold(0_i64, |sum, digit| {
        sum.saturating_mul(10).saturating_add(i64::from(*digit))
    });
    let magnitude = magnitude.min(1_000_000);
    Ok(if negative { -magnitude } else { magnitude })
}

/// Decimal digits with Python's `_` between two digits.
fn push_digits(text: &str, into: &mut Vec<u8>) -> Result<(), FractionError> {
    let mut last_was_digit = false;
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' => {
                into.push(byte - b'0');
                last_was_digit = true;
            }
            b'_' if last_was_digit => last_was_digit = false,
            _ => return Err(FractionError::NotANumber),
        }
    }
    if !text.is_empty() && !last_was_digit {
        return Err(FractionError::NotANumber);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_exact_to_six_decimals_and_round_up_beyond() {
        for (text, ppm) in [
            ("0.30", 300_000),
            (".9", 900_000),
            ("9e-1", 900_000),
            (" 0.3 ", 300_000),
            ("1", 1_000_000),
            ("1.000000", 1_000_000),
            ("0.3333333", 333_334),
            ("1e-12", 1),
            ("0.1_5", 150_000),
            ("+0.5", 500_000),
            ("10e-1", 1_000_000),
            ("00000000000000.25", 250_000),
        ] {
            assert_eq!(Fraction::parse(text).map(|f| f.ppm()), Ok(ppm), "{text}");
        }
    }

    #[test]
    fn unusable_fractions_say_why() {
        for (text, why) in [
            ("", FractionError::NotANumber),
            (".", FractionError::NotANumber),
            ("0,3", FractionError::NotANumber),
            ("abc", FractionError::NotANumber),
            ("0.3.4", FractionError::NotANumber),
            ("1_", FractionError::NotANumber),
            ("1e", FractionError::NotANumber),
            ("nan", FractionError::NotFinite),
            ("NaN", FractionError::NotFinite),
            ("-inf", FractionError::NotFinite),
            ("1e309", FractionError::NotFinite),
            ("1e99999999999999999999", FractionError::NotFinite),
            ("0", FractionError::NotPositive),
            ("-0.5", FractionError::NotPositive),
            ("0e5", FractionError::NotPositive),
            ("1.0000001", FractionError::AboveOne),
            ("30", FractionError::AboveOne),
        ] {
            assert_eq!(Fraction::parse(text), Err(why), "{text:?}");
        }
    }

    #[test]
    fn requests_round_up_and_budgets_round_down() {
        let h100 = Mib::new(81_559);
        let fraction = Fraction::parse("0.30").unwrap();
        assert_eq!(fraction.of(h100), Mib::new(24_468));
        assert_eq!(Fraction::parse("0.90").unwrap().of_down(h100), Mib::new(73_403));
        assert_eq!(Share::from_ppm(300_000).times(3), Share::from_ppm(900_000));
        assert_eq!(Share::ratio_up(Mib::new(1), Mib::ZERO), Share::from_ppm(u64::MAX));
        assert_eq!(Share::ratio_down(Mib::new(1), Mib::ZERO), Share::ZERO);
        assert_eq!(
            Share::ratio_down(Mib::new(2), Mib::new(3)).to_thousandths_down(),
            Share::from_ppm(666_000)
        );
    }

    #[test]
    fn shares_print_as_decimals() {
        assert_eq!(Share::from_ppm(900_000).to_string(), "0.90");
        assert_eq!(Share::from_ppm(1_200_000).to_string(), "1.20");
        assert_eq!(Share::from_ppm(225_500).to_string(), "0.2255");
        assert_eq!(Fraction::from_ppm(225_000).unwrap().text(), "0.225");
    }
}
