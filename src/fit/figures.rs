//! The numbers of an answer: the estimate, and what it says the other way round.

use super::device::Named;
use crate::device::catalogue::Catalogue;
use crate::footprint::inverse::{self, Surely};
use crate::footprint::{Answer, Unknown};
use crate::footprint::{Estimate, Interval, Length, Plan, estimate};
use crate::units::{Fraction, Mib};

/// Parts that are told as activations, by the engines' names for them.
const ACTIVATION: [&str; 2] = ["activation", "compute"];

/// What an answer rests on, for each device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// The estimate.
    pub estimate: Estimate,
    /// What is left of the device beside budget and overhead, by the expectation; zero where nothing is.
    pub free: Mib,
    /// Longest context of which one request surely fits, in tokens.
    pub longest: Option<u64>,
    /// Longest context of which one request may fit, in tokens.
    pub longest_possible: Option<u64>,
    /// Smallest fraction with which the plan surely fits; `None` where none does or the engine has no fraction.
    pub smallest_fraction: Option<Fraction>,
    /// Largest fraction that leaves room for what the process takes outside; `None` as above.
    pub largest_fraction: Option<Fraction>,
    /// Whether the engine has a memory fraction at all.
    pub has_fraction: bool,
    /// Requests of the longest context at once: by the lower, the expected and the upper pool.
    pub sequences: (u64, u64, u64),
    /// Smallest MIG profile of the device's product on which the plan surely fits.
    pub smallest_profile: Option<String>,
    /// Smallest product of the catalogue on which the plan surely fits, with as many devices.
    pub smallest_product: Option<String>,
}

impl Figures {
    pub(super) fn of(plan: &Plan<'_>, named: &Named, products: &Catalogue) -> Result<Self, Unknown> {
        let estimate = estimate(plan)?;
        let inside = Mib::from_bytes_up(estimate.budget).max(estimate.used().expected_mib());
        let taken = inside.plus(estimate.outside.expected_mib());
        let has_fraction = plan.fraction.is_some() && plan.serving.kv_cache_bytes.is_none();
        let profile = named
            .product
            .as_ref()
            .and_then(|product| inverse::smallest_profile(plan, product, Surely::Fits));
        let product = inverse::smallest_product(plan, products.products(), Surely::Fits);
        // Where the engine shortens the context, what is needed is one block, and no request.
        let sequences = if plan.length == Length::Auto {
            let mut whole = plan.clone();
            whole.length = Length::Declared;
            inverse::sequences(&self::estimate(&whole)?)
        } else {
            inverse::sequences(&estimate)
        };
        Ok(Self {
            free: plan.device.total.less(taken),
            longest: inverse::longest(plan, Surely::Fits),
            longest_possible: inverse::longest(plan, Surely::MayFit),
            smallest_fraction: inverse::smallest_fraction(plan, Surely::Fits).filter(|_| has_fraction),
            largest_fraction: inverse::largest_fraction(plan).filter(|_| has_fraction),
            has_fraction,
            sequences,
            smallest_profile: profile.map(|profile| profile.name.clone()),
            smallest_product: product.map(|product| product.id.clone()),
            estimate,
        })
    }

    /// The answer of the estimate.
    #[must_use]
    pub const fn answer(&self) -> Answer {
        self.estimate.answer
    }

    /// Weights of each device.
    #[must_use]
    pub fn weights(&self) -> Interval {
        self.estimate.part("weights").unwrap_or(Interval::ZERO)
    }

    /// Activations of each device: the peak of a forward pass.
    #[must_use]
    pub fn activation(&self) -> Interval {
        ACTIVATION
            .iter()
            .find_map(|name| self.estimate.part(name))
            .unwrap_or(Interval::ZERO)
    }
}
