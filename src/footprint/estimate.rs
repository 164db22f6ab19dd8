//! From a plan to an answer: what an engine's module says of its parts, put together.

use super::cache::Cache;
use super::interval::{Interval, product};
use super::plan::{CacheType, Length, Plan};
use super::{Answer, Unknown, vllm};
use crate::engine::Engine;
use crate::model::{Dtype, Format};
use crate::units::Mib;

/// The part of a unified memory by which pools differed between two starts with the same arguments.
const UNIFIED_PART: u64 = 7;

/// One named part of a footprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it is.
    pub name: &'static str,
    /// How much.
    pub bytes: Interval,
    /// Where the number comes from.
    pub source: &'static str,
}

/// What is left for the KV cache, in bytes; negative where that much is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// By what everything else may take at most, its parts erring independently.
    pub lower: i128,
    /// By the expectation.
    pub expected: i128,
    /// By the lower estimate of everything else.
    pub upper: i128,
}

/// How much a plan wants of each device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// What the engine may use, in bytes.
    pub budget: u64,
    /// The parts inside the budget without the pool.
    pub parts: Vec<Part>,
    /// What the process takes outside of it.
    pub outside: Interval,
    /// What is left for the KV cache.
    pub pool: Pool,
    /// Bytes of one token in layers that keep all tokens.
    pub row_bytes: u64,
    /// What one request of the longest context needs.
    pub need: Interval,
    /// The longest context in tokens.
    pub length: u64,
    /// Tokens that the pool holds: by its lower, usual and upper size.
    pub tokens: (u64, u64, u64),
    /// Whether it fits.
    pub answer: Answer,
}

/// What an engine's module says of a plan.
pub(super) struct Frame {
    pub(super) parts: Vec<Part>,
    pub(super) outside: Interval,
    pub(super) bound: Bound,
    /// What must be left of the device beside the budget for an answer without doubt, in bytes.
    pub(super) beside: u64,
    /// Why an answer can never be without doubt, whatever the numbers say.
    pub(super) open: bool,
}

/// What bounds an engine's memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    /// A budget of so much of the device, as the label tells its total and as the engine sees it at least; the pool is
    /// what is left of it.
    Budget { most: u64, least: u64 },
    /// A pool of so many bytes, taken whatever is left: what must hold is the sum.
    Pool(u64),
}

/// Whether the memory of an engine is modelled at all.
#[must_use]
pub const fn is_modelled(engine: Engine) -> bool {
    matches!(engine, Engine::Vllm)
}

/// Estimates a plan.
pub fn estimate(plan: &Plan<'_>) -> Result<Estimate, Unknown> {
    let frame = match plan.engine {
        Engine::Vllm => vllm::frame(plan)?,
        other => return Err(Unknown::new(format!("the memory of {other} is not modelled"))),
    };
    Ok(settle(plan, frame))
}

impl Bound {
    /// The plan's fraction of its device.
    pub(super) fn of_total(plan: &Plan<'_>) -> Result<Self, Unknown> {
        let Some(fraction) = &plan.fraction else {
            return Err(Unknown::new("its memory fraction is not known"));
        };
        let of = |total: Mib| bytes(fraction.of(total));
        Ok(Self::Budget {
            most: of(plan.device.total),
            least: of(plan.device.least_total.min(plan.device.total)),
        })
    }
}

/// Bytes of so many MiB.
pub(super) fn bytes(mib: Mib) -> u64 {
    product(&[mib.get(), 1 << 20])
}

fn settle(plan: &Plan<'_>, frame: Frame) -> Estimate {
    let pool = pool(plan, &frame);
    let (least, usual) = cache_elements(plan);
    let cache = Cache::of(plan, usual);
    let length = plan.longest();
    let asked = if plan.length == Length::Auto {
        plan.block().min(length)
    } else {
        length
    };
    let need = cache.need(plan, asked);
    let need = need.widened(Cache::of(plan, least).need(plan, asked));
    let tokens = |pool: i128| cache.tokens(plan, u64::try_from(pool).unwrap_or(0), length.max(1));
    let (most, beside) = match frame.bound {
        Bound::Budget { most, least } => {
            let total = bytes(plan.device.least_total.min(plan.device.total));
            (most, total.saturating_sub(least))
        }
        Bound::Pool(_) => (bytes(plan.device.total), u64::MAX),
    };
    let answer = if pool.upper < i128::from(need.lower()) {
        Answer::DoesNotFit
    } else if pool.lower >= i128::from(need.upper()) && beside >= frame.beside && !frame.open {
        Answer::Fits
    } else {
        Answer::Doubtful
    };
    Estimate {
        budget: most,
        parts: frame.parts,
        outside: frame.outside,
        pool,
        row_bytes: cache.row_bytes(),
        need,
        length,
        tokens: (tokens(pool.lower), tokens(pool.expected), tokens(pool.upper)),
        answer,
    }
}

fn pool(plan: &Plan<'_>, frame: &Frame) -> Pool {
    let used = sum(&frame.parts);
    let doubt = i128::from(doubt(&frame.parts));
    match frame.bound {
        Bound::Budget { most, least } => {
            // Other processes and the page cache count as used where memory is the host's.
            let shifting = if plan.device.class.unified {
                i128::from(bytes(plan.device.total) / UNIFIED_PART)
            } else {
                0
            };
            let left = |budget: u64, used: u64| i128::from(budget) - i128::from(used);
            Pool {
                lower: left(least, used.expected()) - doubt - shifting,
                expected: left(least, used.expected()),
                upper: left(most, used.lower()) + shifting,
            }
        }
        Bound::Pool(pool) => {
            let left = |total: Mib, used: u64, outside: u64| {
                i128::from(bytes(total)) - i128::from(used) - i128::from(outside)
            };
            let least = plan.device.least_total.min(plan.device.total);
            let usual = left(least, used.expected(), frame.outside.expected());
            let pool = i128::from(pool);
            Pool {
                lower: pool.min(usual - doubt),
                expected: pool.min(usual),
                upper: pool.min(left(plan.device.total, used.lower(), frame.outside.lower())),
            }
        }
    }
}

fn sum(parts: &[Part]) -> Interval {
    parts
        .iter()
        .fold(Interval::ZERO, |sum, part| sum.plus(part.bytes))
}

/// By how much the sum of all parts may exceed its expectation: the root of the sum of squares, since the parts err
/// independently of each other. A refusal does not rest on it, but on the plain sum of the least amounts.
fn doubt(parts: &[Part]) -> u64 {
    let squares = parts.iter().fold(0_u128, |sum, part| {
        let excess = u128::from(part.bytes.upper().saturating_sub(part.bytes.expected()));
        sum.saturating_add(excess.saturating_mul(excess))
    });
    u64::try_from(squares.isqrt()).unwrap_or(u64::MAX)
}

/// The least and the usual size of a cached element in sixteenths of a byte.
fn cache_elements(plan: &Plan<'_>) -> (u64, u64) {
    let usual = match plan.cache_type {
        CacheType::Auto if plan.dtype == Some(Dtype::Float32) => CacheType::Float32,
        other => other,
    };
    // Checkpoints of ModelOpt may declare an 8-bit cache.
    let declared = plan.cache_type == CacheType::Auto && plan.format == Format::Nvfp4;
    let least = if declared { CacheType::Fp8 } else { usual };
    (least.sixteenths(), usual.sixteenths())
}

impl Estimate {
    /// A part by name.
    #[must_use]
    pub fn part(&self, name: &str) -> Option<Interval> {
        self.parts
            .iter()
            .find(|part| part.name == name)
            .map(|part| part.bytes)
    }

    /// Everything inside the budget but the pool.
    #[must_use]
    pub fn used(&self) -> Interval {
        sum(&self.parts)
    }

    /// The budget in MiB.
    #[must_use]
    pub fn budget_mib(&self) -> Mib {
        Mib::from_bytes_down(self.budget)
    }
}
