//! The inverse questions, answered by the same functions: which fraction, which length, which device.

use super::device::{Class, Device};
use super::estimate::{Estimate, estimate, outside};
use super::plan::{Length, Plan};
use super::{Answer, Unknown};
use crate::device::catalogue::{Product, Profile};
use crate::engine::Engine;
use crate::units::{Fraction, Mib};

/// Fractions are sought in steps of a thousandth.
const STEP_PPM: u32 = 1_000;
/// A fraction of the whole device.
const WHOLE: u32 = 1_000;

/// How sure an answer to an inverse question is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surely {
    /// By the upper estimate.
    Fits,
    /// By the lower estimate: with less it certainly does not.
    MayFit,
}

impl Surely {
    fn accepts(self, answer: Answer) -> bool {
        match self {
            Self::Fits => answer == Answer::Fits,
            Self::MayFit => answer != Answer::DoesNotFit,
        }
    }
}

fn accepted(plan: &Plan<'_>, surely: Surely) -> bool {
    estimate(plan).is_ok_and(|estimate| surely.accepts(estimate.answer))
}

/// The least in `least..=most` that `fits`, where whatever is above one that fits does too.
fn least(mut low: u64, most: u64, fits: impl Fn(u64) -> bool) -> Option<u64> {
    let mut high = most;
    if low > high || !fits(high) {
        return None;
    }
    while low < high {
        let middle = low.midpoint(high);
        if fits(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}

/// The smallest fraction of the device, in thousandths and in the engine's own sense, with which the plan fits. `None`
/// where no fraction does, and for engines that have no such option.
#[must_use]
pub fn smallest_fraction(plan: &Plan<'_>, surely: Surely) -> Option<Fraction> {
    if matches!(plan.engine, Engine::LlamaCpp | Engine::Tei) {
        return None;
    }
    let at = |thousandths: u64| {
        let ppm = u32::try_from(thousandths).ok()?.checked_mul(STEP_PPM)?;
        let mut changed = plan.clone();
        changed.serving.kv_cache_bytes = None;
        changed.fraction = Some(Fraction::from_ppm(ppm)?);
        changed.fraction_is_default = false;
        Some(changed)
    };
    // A fraction that leaves no room for what lies outside is doubtful again, so the search ends below it.
    let most = largest_fraction(plan)?.ppm() / STEP_PPM;
    let found = least(1, u64::from(most), |thousandths| {
        at(thousandths).is_some_and(|changed| accepted(&changed, surely))
    })?;
    Fraction::from_ppm(u32::try_from(found).ok()? * STEP_PPM)
}

/// The largest fraction of the device, in thousandths, that leaves room for what the process takes outside of it.
/// `None` where nothing is left for a budget.
#[must_use]
pub fn largest_fraction(plan: &Plan<'_>) -> Option<Fraction> {
    let stated = Plan {
        fraction: Some(Fraction::one()),
        fraction_is_default: false,
        ..plan.clone()
    };
    let outside = outside(&stated).ok()?.expected_mib();
    let left = plan
        .device
        .total
        .less(outside)
        .get()
        .saturating_mul(u64::from(WHOLE));
    let thousandths = u32::try_from(left / plan.device.total.get().max(1))
        .ok()?
        .min(WHOLE);
    Fraction::from_ppm(thousandths * STEP_PPM)
}

/// The longest context in tokens, up to what the model declares, of which one request fits. `None` where not even one
/// block does.
#[must_use]
pub fn longest(plan: &Plan<'_>, surely: Surely) -> Option<u64> {
    let block = plan.block();
    let declared = plan.positions.max(plan.longest());
    let at = |length: u64| {
        let mut changed = plan.clone();
        changed.length = Length::Tokens(length.max(1));
        accepted(&changed, surely)
    };
    if at(declared) {
        return Some(declared);
    }
    // Counted downwards from what does not fit: the first number of blocks that is too much.
    let too_many = least(1, declared.div_ceil(block), |blocks| {
        !at(blocks.saturating_mul(block).min(declared))
    })?;
    let blocks = too_many - 1;
    (blocks > 0).then(|| blocks.saturating_mul(block))
}

/// Requests of the longest context that the pool holds at once: by its lower, usual and upper size.
#[must_use]
pub fn sequences(estimate: &Estimate) -> (u64, u64, u64) {
    let of = |pool: i128, need: u64| {
        let pool = u64::try_from(pool).unwrap_or(0);
        pool.checked_div(need).unwrap_or(0)
    };
    (
        of(estimate.pool.lower, estimate.need.upper()),
        of(estimate.pool.expected, estimate.need.expected()),
        of(estimate.pool.upper, estimate.need.lower()),
    )
}

/// The smallest MIG profile of a product on which the plan fits, with its fraction; one rank only, since a process sees
/// one instance.
#[must_use]
pub fn smallest_profile<'p>(plan: &Plan<'_>, product: &'p Product, surely: Surely) -> Option<&'p Profile> {
    if plan.devices > 1 {
        return None;
    }
    let profiles = product.mig.as_ref()?.profiles.iter();
    profiles
        .filter(|profile| {
            let class = Class::of(&product.id, Some(&product.architecture));
            accepted(&on(plan, Device::of_profile(profile, class)), surely)
        })
        .min_by_key(|profile| (profile.memory, profile.compute_slices))
}

/// The product with the least memory on which the plan fits, with its fraction and as many devices.
#[must_use]
pub fn smallest_product<'p>(
    plan: &Plan<'_>,
    products: impl IntoIterator<Item = &'p Product>,
    surely: Surely,
) -> Option<&'p Product> {
    products
        .into_iter()
        .filter(|product| accepted(&on(plan, Device::of_product(product)), surely))
        .min_by_key(|product| (product.lowest_memory(), product.id.as_str()))
}

/// The same plan on another device.
fn on<'a>(plan: &Plan<'a>, device: Device) -> Plan<'a> {
    Plan {
        device,
        ..plan.clone()
    }
}

/// What is missing for one request of the longest context by the lower estimate; zero where it may fit.
pub fn missing(plan: &Plan<'_>) -> Result<Mib, Unknown> {
    let estimate = estimate(plan)?;
    let short = i128::from(estimate.need.lower()) - estimate.pool.upper;
    Ok(Mib::from_bytes_up(u64::try_from(short).unwrap_or(0)))
}
