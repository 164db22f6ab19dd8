//! Kubernetes quantities (`4Gi`, `500m`, `1e3`), exact.
//!
//! The rules are those of `k8s.io/apimachinery/pkg/api/resource`: digits with an optional point, then nothing, a decimal
//! suffix (`n u m k M G T P E`), a binary suffix (`Ki` to `Ei`) or an exponent (`e3`, `E-3`; `1E` alone is exa). What is
//! finer than a billionth rounds away from zero, and what is beyond 2^63 - 1 becomes 2^63 - 1, as there. One thing is
//! stricter: a suffix without any digit (`Gi`), which Go reads as zero, is refused.

use std::fmt;

use crate::units::Mib;

/// Billionths in one.
const NANO: i128 = 1_000_000_000;
/// The largest amount: 2^63 - 1, in billionths.
const LARGEST: i128 = (i64::MAX as i128) * NANO;

/// An amount of a resource, in billionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    nano: i128,
}

/// A text that is not a quantity. Its message names the text and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} is not a quantity: {problem}")]
pub struct QuantityError {
    /// The text as written.
    pub value: String,
    /// What is wrong with it and what would be right.
    pub problem: String,
}

/// What a suffix multiplies by, without the exponent of `e3`.
struct Scale {
    /// Billionths in one unit of the number before the suffix.
    unit: i128,
    /// Powers of ten to move the point by.
    exponent: i64,
}

impl Quantity {
    /// Reads a quantity as the API server does.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let refuse = |problem: String| {
            Err(QuantityError {
                value: text.to_owned(),
                problem,
            })
        };
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let number_end = unsigned
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(number_end);
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && part.is_empty() {
            return refuse("it has no number; write for example 1, 500m or 4Gi".to_owned());
        }
        if part.contains('.') {
            return refuse("it has two points; write for example 1.5Gi".to_owned());
        }
        let Some(scale) = Scale::of(suffix) else {
            return refuse(suffix_problem(number, suffix));
        };
        let magnitude = nano(whole.as_bytes(), part.as_bytes(), &scale);
        Ok(Self {
            nano: if negative { -magnitude } else { magnitude },
        })
    }

    /// The number, where it is a whole one that is not negative (a count of devices, a number of bytes).
    #[must_use]
    pub fn whole(self) -> Option<u64> {
        if self.nano % NANO != 0 {
            return None;
        }
        u64::try_from(self.nano / NANO).ok()
    }

    /// The quantity as bytes in MiB, rounded up (for what is asked); `None` where it is negative.
    #[must_use]
    pub fn mib_up(self) -> Option<Mib> {
        self.up(NANO << 20).map(Mib::new)
    }

    /// The quantity as bytes in MiB, rounded down (for what is there); `None` where it is negative.
    #[must_use]
    pub fn mib_down(self) -> Option<Mib> {
        u64::try_from(self.nano / (NANO << 20))
            .ok()
            .filter(|_| self.nano >= 0)
            .map(Mib::new)
    }

    /// The number in thousandths, rounded up; `None` where it is negative.
    #[must_use]
    pub fn thousandths_up(self) -> Option<u64> {
        self.up(NANO / 1000)
    }

    /// The number in ones, rounded up; `None` where it is negative.
    #[must_use]
    pub fn ones_up(self) -> Option<u64> {
        self.up(NANO)
    }

    fn up(self, unit: i128) -> Option<u64> {
        let up = i128::from(self.nano % unit != 0);
        u64::try_from(self.nano / unit + up)
            .ok()
            .filter(|_| self.nano >= 0)
    }

    /// Whether it is zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.nano == 0
    }

    /// Whether it is below zero.
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.nano < 0
    }
}

impl From<u64> for Quantity {
    fn from(whole: u64) -> Self {
        Self {
            nano: i128::from(whole).saturating_mul(NANO).min(LARGEST),
        }
    }
}

impl fmt::Display for Quantity {
    /// Plain decimal digits, without a suffix.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.nano < 0 { "-" } else { "" };
        let (whole, rest) = (self.nano.abs() / NANO, self.nano.abs() % NANO);
        if rest == 0 {
            return write!(f, "{sign}{whole}");
        }
        let digits = format!("{rest:09}");
        write!(f, "{sign}{whole}.{}", digits.trim_end_matches('0'))
    }
}

impl Scale {
    fn of(suffix: &str) -> Option<Self> {
        let decimal = |power: u32| {
            Some(Self {
                unit: 10_i128.pow(power),
                exponent: 0,
            })
        };
        let binary = |power: u32| {
            Some(Self {
                unit: NANO << power,
                exponent: 0,
            })
        };
        match suffix {
            "n" => decimal(0),
            "u" => decimal(3),
            "m" => decimal(6),
            "" => decimal(9),
            "k" => decimal(12),
            "M" => decimal(15),
            "G" => decimal(18),
            "T" => decimal(21),
            "P" => decimal(24),
            "E" => decimal(27),
            "Ki" => binary(10),
            "Mi" => binary(20),
            "Gi" => binary(30),
            "Ti" => binary(40),
            "Pi" => binary(50),
            "Ei" => binary(60),
            _ => {
                let exponent = suffix.strip_prefix(['e', 'E'])?;
                let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                    return None;
                }
                // Longer exponents are past every limit anyway, on either side.
                let size = digits.parse::<i64>().unwrap_or(i64::MAX).min(1_000_000_000);
                Some(Self {
                    unit: NANO,
                    exponent: if exponent.starts_with('-') { -size } else { size },
                })
            }
        }
    }
}

/// Billionths of `whole.part` under a scale: away from zero where it is finer, [`LARGEST`] where it is more.
fn nano(whole: &[u8], part: &[u8], scale: &Scale) -> i128 {
    let leading = whole.iter().chain(part).take_while(|byte| **byte == b'0').count();
    let significant: Vec<i128> = whole
        .iter()
        .chain(part)
        .skip(leading)
        .map(|byte| i128::from(byte - b'0'))
        .collect();
    if significant.is_empty() {
        return 0;
    }
    // How many of the significant digits stand before the point; negative where zeros follow the point first.
    let length = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let place = length(whole.len())
        .saturating_sub(length(leading))
        .saturating_add(scale.exponent);
    // Every unit is at least a billionth and at most 2^90, so these two are decided by their size alone.
    if place > 40 {
        return LARGEST;
    }
    if place < -40 {
        return 1;
    }
    let before = usize::try_from(place).unwrap_or(0);
    let zeros = usize::try_from(-place).unwrap_or(0);
    let mut total: i128 = 0;
    for index in 0..before {
        let digit = significant.get(index).copied().unwrap_or(0);
        total = total.saturating_mul(10).saturating_add(digit);
    }
    let total = total.saturating_mul(scale.unit);
    // From the last digit to the first: the floor of a floor is the floor, so nothing is lost but `inexact`.
    let mut below: i128 = 0;
    let mut inexact = false;
    let mut divide = |sum: i128| {
        inexact |= sum % 10 != 0;
        sum / 10
    };
    for digit in significant.get(before..).unwrap_or_default().iter().rev() {
        below = divide(digit * scale.unit + below);
    }
    for _ in 0..zeros {
        below = divide(below);
    }
    total
        .saturating_add(below)
        .saturating_add(i128::from(inexact))
        .min(LARGEST)
}

/// What to write instead of a suffix that does not exist.
fn suffix_problem(number: &str, suffix: &str) -> String {
    if suffix.starts_with(char::is_whitespace) {
        let rest = suffix.trim();
        return format!("it has a blank before the suffix; write {number}{rest}");
    }
    let close = match suffix.trim_end_matches(['b', 'B']).to_ascii_lowercase().as_str() {
        "k" => Some("Ki or k"),
        "ki" => Some("Ki"),
        "m" => Some("Mi or M"),
        "mi" => Some("Mi"),
        "g" => Some("Gi or G"),
        "gi" => Some("Gi"),
        "t" => Some("Ti or T"),
        "ti" => Some("Ti"),
        _ => None,
    };
    match close {
        Some(close) => format!("the suffix {suffix:?} does not exist; write {close}"),
        None => format!("the suffix {suffix:?} does not exist; use k, M, G, T, Ki, Mi, Gi, Ti or m, or none"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quantity(text: &str) -> Quantity {
        Quantity::parse(text).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn whole_amounts() {
        for (text, whole) in [
            ("0", 0),
            ("1", 1),
            ("+1", 1),
            ("-0", 0),
            ("007", 7),
            ("1.", 1),
            ("1.000", 1),
            ("1000m", 1),
            ("2000000u", 2),
            ("1000000000n", 1),
            ("1k", 1_000),
            ("1M", 1_000_000),
            ("1G", 1_000_000_000),
            ("1T", 1_000_000_000_000),
            ("1P", 1_000_000_000_000_000),
            ("1E", 1_000_000_000_000_000_000),
            ("1Ki", 1 << 10),
            ("1Mi", 1 << 20),
            ("1Gi", 1 << 30),
            ("1Ti", 1 << 40),
            ("1Pi", 1 << 50),
            ("1Ei", 1 << 60),
            ("0.5Gi", 1 << 29),
            (".5Gi", 1 << 29),
            ("1e3", 1_000),
            ("1E3", 1_000),
            ("1e+3", 1_000),
            ("1500e-2", 15),
            ("1.5e1", 15),
            ("9007199254740993", (1 << 53) + 1),
            ("9223372036854775807", i64::MAX as u64),
            ("0e99999999999999999999", 0),
        ] {
            assert_eq!(quantity(text).whole(), Some(whole), "{text}");
        }
    }

    #[test]
    fn parts_and_negative_amounts_are_no_count() {
        for text in ["0.5", "1500m", "1n", "1e-1", "-1", "-0.5Gi", "0.1Gi"] {
            assert_eq!(quantity(text).whole(), None, "{text}");
        }
        assert!(quantity("-1").is_negative());
        assert!(quantity("0.000").is_zero());
    }

    #[test]
    fn finer_than_a_billionth_rounds_away_from_zero() {
        assert_eq!(quantity("0.1n"), quantity("1n"));
        assert_eq!(quantity("-0.1n"), quantity("-1n"));
        assert_eq!(quantity("1e-400"), quantity("1n"));
        assert_eq!(quantity("0.0000000001"), quantity("1n"));
        assert_eq!(quantity("1.0000000001").to_string(), "1.000000001");
        assert_eq!(quantity("0.1Gi").to_string(), "107374182.4");
    }

    #[test]
    fn beyond_the_largest_is_the_largest() {
        for text in [
            "9223372036854775808",
            "100E",
            "8Ei",
            "1e400",
            "99999999999999999999999999999999999999999999Ei",
        ] {
            assert_eq!(quantity(text).whole(), Some(i64::MAX as u64), "{text}");
        }
    }

    #[test]
    fn bytes_in_mib() {
        for (text, up, down) in [
            ("4Gi", 4096, 4096),
            ("0.5Gi", 512, 512),
            ("0.1Gi", 103, 102),
            ("1", 1, 0),
            ("1G", 954, 953),
            ("16952Mi", 16952, 16952),
            ("0", 0, 0),
        ] {
            assert_eq!(quantity(text).mib_up(), Some(Mib::new(up)), "{text}");
            assert_eq!(quantity(text).mib_down(), Some(Mib::new(down)), "{text}");
        }
        assert_eq!(quantity("-1").mib_up(), None);
        assert_eq!(quantity("-1").mib_down(), None);
    }

    #[test]
    fn refused_texts_are_named_with_a_remedy() {
        for (text, remedy) in [
            ("", "it has no number"),
            ("Gi", "it has no number"),
            ("-", "it has no number"),
            (".", "it has no number"),
            ("--1", "it has no number"),
            ("abc", "it has no number"),
            (" 1", "it has no number"),
            ("1.2.3", "two points"),
            ("1 Gi", "write 1Gi"),
            ("1Gib", "write Gi"),
            ("1GB", "write Gi or G"),
            ("4gb", "write Gi or G"),
            ("1i", "does not exist"),
            ("1K", "write Ki or k"),
            ("0.1mi", "write Mi"),
            ("1e", "does not exist"),
            ("1e1.5", "does not exist"),
            ("1e3Gi", "does not exist"),
            ("1,5", "does not exist"),
            ("1_000", "does not exist"),
            ("1\u{661}", "does not exist"),
            ("inf", "it has no number"),
            ("0x10", "does not exist"),
        ] {
            let error = Quantity::parse(text).unwrap_err();
            assert_eq!(error.value, text);
            assert!(error.to_string().contains(remedy), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,24}") {
            let _ = Quantity::parse(&text);
        }

        #[test]
        fn printed_amounts_read_back(nano in -LARGEST..=LARGEST) {
            let quantity = Quantity { nano };
            prop_assert_eq!(Quantity::parse(&quantity.to_string()), Ok(quantity));
        }

        #[test]
        fn decimals_of_a_binary_unit_agree_with_integer_arithmetic(thousandths in 0_u64..1_000_000_000) {
            let text = format!("{}.{:03}Gi", thousandths / 1000, thousandths % 1000);
            let bytes = u128::from(thousandths) << 30;
            prop_assert_eq!(
                Quantity::parse(&text).ok().and_then(Quantity::mib_up).map(Mib::get),
                u64::try_from(bytes.div_ceil(1000 << 20)).ok()
            );
        }
    }
}
