//! An amount that is known between two bounds.

use crate::units::Mib;

/// Bytes of a GiB.
pub(super) const GIB: u64 = 1 << 30;
/// Bytes of a hundredth of a GiB, the unit of most measured constants, rounded down.
pub(super) const CENTI: u64 = GIB / 100;

/// Bytes: at least `lower`, at most `upper`, most likely `expected`. `lower <= expected <= upper`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    lower: u64,
    expected: u64,
    upper: u64,
}

impl Interval {
    /// Nothing.
    pub const ZERO: Self = Self::exactly(0);

    /// Known exactly.
    #[must_use]
    pub const fn exactly(bytes: u64) -> Self {
        Self {
            lower: bytes,
            expected: bytes,
            upper: bytes,
        }
    }

    /// From three numbers in any order: the smallest bounds below, the largest above.
    #[must_use]
    pub fn new(lower: u64, expected: u64, upper: u64) -> Self {
        Self {
            lower: lower.min(expected).min(upper),
            expected,
            upper: upper.max(expected).max(lower),
        }
    }

    /// From least, usual and most in hundredths of a GiB.
    pub(super) fn of_hundredths((lower, expected, upper): (u64, u64, u64)) -> Self {
        Self::new(lower * CENTI, expected * CENTI, upper * CENTI)
    }

    /// The least, in bytes.
    #[must_use]
    pub const fn lower(self) -> u64 {
        self.lower
    }

    /// The most likely, in bytes.
    #[must_use]
    pub const fn expected(self) -> u64 {
        self.expected
    }

    /// The most, in bytes.
    #[must_use]
    pub const fn upper(self) -> u64 {
        self.upper
    }

    /// The least in MiB, rounded up as everything that is asked.
    #[must_use]
    pub const fn lower_mib(self) -> Mib {
        Mib::from_bytes_up(self.lower)
    }

    /// The most likely in MiB, rounded up.
    #[must_use]
    pub const fn expected_mib(self) -> Mib {
        Mib::from_bytes_up(self.expected)
    }

    /// The most in MiB, rounded up.
    #[must_use]
    pub const fn upper_mib(self) -> Mib {
        Mib::from_bytes_up(self.upper)
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            lower: self.lower.saturating_add(other.lower),
            expected: self.expected.saturating_add(other.expected),
            upper: self.upper.saturating_add(other.upper),
        }
    }

    /// Less an exact number of bytes; zero where that is more.
    #[must_use]
    pub fn less(self, bytes: u64) -> Self {
        Self {
            lower: self.lower.saturating_sub(bytes),
            expected: self.expected.saturating_sub(bytes),
            upper: self.upper.saturating_sub(bytes),
        }
    }

    /// Whichever is larger, bound by bound.
    #[must_use]
    pub fn or_more(self, other: Self) -> Self {
        Self {
            lower: self.lower.max(other.lower),
            expected: self.expected.max(other.expected),
            upper: self.upper.max(other.upper),
        }
    }

    /// The least of both to the most of both, with the expectation of `self`.
    #[must_use]
    pub fn widened(self, other: Self) -> Self {
        Self {
            lower: self.lower.min(other.lower),
            expected: self.expected,
            upper: self.upper.max(other.upper),
        }
    }

    /// Bounds in thousandths of an expectation: `around(x, 985, 1020)` is 0.985 x to 1.02 x.
    #[must_use]
    pub fn around(expected: u64, lower_thousandths: u64, upper_thousandths: u64) -> Self {
        Self::new(
            scaled(expected, lower_thousandths, 1_000),
            expected,
            scaled(expected, upper_thousandths, 1_000),
        )
    }
}

/// `amount x numerator / denominator`, rounded up; the largest number where it does not fit.
#[must_use]
pub(super) fn scaled(amount: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(amount) * u128::from(numerator);
    let divisor = u128::from(denominator.max(1));
    u64::try_from(product.div_ceil(divisor)).unwrap_or(u64::MAX)
}

/// The product of sizes; the largest number where it does not fit.
#[must_use]
pub(super) fn product(factors: &[u64]) -> u64 {
    factors.iter().copied().fold(1, u64::saturating_mul)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_keep_their_order() {
        let interval = Interval::new(5, 3, 4);
        assert_eq!(
            (interval.lower(), interval.expected(), interval.upper()),
            (3, 3, 5)
        );
        let sum = interval.plus(Interval::exactly(1)).less(2);
        assert_eq!((sum.lower(), sum.expected(), sum.upper()), (2, 2, 4));
    }

    #[test]
    fn scaling_rounds_up_and_never_wraps() {
        assert_eq!(scaled(3, 1, 2), 2);
        assert_eq!(scaled(u64::MAX, 3, 1), u64::MAX);
        assert_eq!(scaled(1, 1, 0), 1);
        assert_eq!(product(&[1 << 40, 1 << 40]), u64::MAX);
    }
}
