//! From a plan to an answer: what an engine's module says of its parts, put together.

use super::asked::Asked;
use super::cache::Cache;
use super::interval::{Interval, product};
use super::plan::{CacheType, Length, Plan};
use super::{Answer, Unknown, llama_cpp, lmdeploy, sglang, tei, tensorrt_llm, tgi, vllm};
use crate::engine::Engine;
use crate::model::{Dtype, Format};
use crate::units::{Fraction, Mib};

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

impl Part {
    /// The weights, as they follow from shape and format.
    pub(super) const fn weights(bytes: Interval) -> Self {
        Self {
            name: "weights",
            bytes,
            source: "parameters by part, format and parallel size",
        }
    }
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
    /// Tokens of which `need` is: the longest context, or one block where the engine shortens it to what fits.
    pub asked: u64,
    /// The pool that the invocation states and that must be had whole, in bytes.
    pub stated_pool: Option<u64>,
    /// The longest context in tokens.
    pub length: u64,
    /// Tokens that the pool holds: by its lower, usual and upper size.
    pub tokens: (u64, u64, u64),
    /// Whether it fits.
    pub answer: Answer,
    /// What the numbers do not say of the engine, in words.
    pub notes: Vec<&'static str>,
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
    /// What the cache must hold; by vLLM's rules where absent.
    pub(super) asked: Option<Asked>,
    /// The most that the pool is given, in bytes, where the invocation says.
    pub(super) most_pool: Option<u64>,
    /// Whether the engine starts with less than it was asked for, whatever the device.
    pub(super) adapts: bool,
    /// What the numbers do not say.
    pub(super) notes: Vec<&'static str>,
}

/// What bounds an engine's memory.
#[derive(Clone, Debug)]
pub(super) enum Bound {
    /// A budget of so much of the device: as the label tells its total, as the engine sees it at least, and of that by
    /// the smallest fraction that is possible; the pool is what is left of it.
    Budget { most: u64, usual: u64, least: u64 },
    /// A pool of so many bytes, taken whatever is left: what must hold is the sum.
    Pool(u64),
    /// A budget that the engine works out when it starts, known between bounds; the pool is what is left of it.
    Between(Interval),
    /// The whole device: what must hold is the sum, with what lies outside.
    Device,
    /// A pool of this part of what parts and outside leave of the device.
    OfRest(Fraction),
}

/// Whether the memory of an engine is modelled at all.
#[must_use]
pub const fn is_modelled(engine: Engine) -> bool {
    matches!(
        engine,
        Engine::Vllm
            | Engine::Sglang
            | Engine::LlamaCpp
            | Engine::Tgi
            | Engine::Tei
            | Engine::TensorRtLlm
            | Engine::Lmdeploy
    )
}

/// Estimates a plan.
pub fn estimate(plan: &Plan<'_>) -> Result<Estimate, Unknown> {
    Ok(settle(plan, frame(plan)?))
}

/// What the process takes outside of what its fraction bounds.
pub(super) fn outside(plan: &Plan<'_>) -> Result<Interval, Unknown> {
    Ok(frame(plan)?.outside)
}

fn frame(plan: &Plan<'_>) -> Result<Frame, Unknown> {
    Ok(match plan.engine {
        Engine::Vllm => vllm::frame(plan)?,
        Engine::Sglang => sglang::frame(plan)?,
        Engine::LlamaCpp => llama_cpp::frame(plan)?,
        Engine::Tgi => tgi::frame(plan)?,
        Engine::Tei => tei::frame(plan)?,
        Engine::TensorRtLlm => tensorrt_llm::frame(plan)?,
        Engine::Lmdeploy => lmdeploy::frame(plan)?,
        other => return Err(Unknown::new(format!("the memory of {other} is not modelled"))),
    })
}

impl Bound {
    /// The plan's fraction of its device.
    pub(super) fn of_total(plan: &Plan<'_>) -> Result<Self, Unknown> {
        let (Some(fraction), Some(least)) = (&plan.fraction, plan.least_fraction()) else {
            return Err(Unknown::new("its memory fraction is not known"));
        };
        let least_total = plan.device.least_total.min(plan.device.total);
        Ok(Self::Budget {
            most: bytes(fraction.of(plan.device.total)),
            usual: bytes(fraction.of(least_total)),
            least: bytes(least.of(least_total)),
        })
    }
}

/// Bytes of so many MiB.
pub(super) fn bytes(mib: Mib) -> u64 {
    product(&[mib.get(), 1 << 20])
}

fn settle(plan: &Plan<'_>, frame: Frame) -> Estimate {
    let mut pool = pool(plan, &frame);
    if let Some(most) = frame.most_pool.map(i128::from) {
        pool = Pool {
            lower: pool.lower.min(most),
            expected: pool.expected.min(most),
            upper: pool.upper.min(most),
        };
    }
    let (least, usual) = cache_elements(plan);
    let cache = Cache::of(plan, usual);
    let length = plan.longest();
    let asked = if plan.length == Length::Auto {
        plan.block().min(length)
    } else {
        length
    };
    let (need, row_bytes, starts_with) = if let Some(asked) = &frame.asked {
        (asked.need, asked.row_bytes, asked.starts_with)
    } else {
        let need = cache.need(plan, asked);
        let need = need.widened(Cache::of(plan, least).need(plan, asked));
        (need, cache.row_bytes(), need.lower())
    };
    let tokens = |pool: i128| {
        let pool = u64::try_from(pool).unwrap_or(0);
        match &frame.asked {
            Some(asked) => asked.tokens(pool, length),
            None => cache.tokens(plan, pool, length.max(1)),
        }
    };
    let total = bytes(plan.device.least_total.min(plan.device.total));
    let (budget, beside) = match &frame.bound {
        Bound::Budget { most, usual, .. } => (*most, total.saturating_sub(*usual)),
        Bound::Between(budget) => (budget.expected(), total.saturating_sub(budget.upper())),
        Bound::Pool(_) | Bound::Device | Bound::OfRest(_) => (bytes(plan.device.total), u64::MAX),
    };
    // A pool of a stated size must be had whole.
    let stated_pool = match &frame.bound {
        Bound::Pool(pool) => Some(*pool),
        _ => None,
    };
    let stated = stated_pool.unwrap_or(0);
    let answer = if pool.upper < i128::from(starts_with.max(stated)) {
        if frame.adapts {
            Answer::Doubtful
        } else {
            Answer::DoesNotFit
        }
    } else if pool.lower >= i128::from(need.upper().max(stated)) && beside >= frame.beside && !frame.open {
        Answer::Fits
    } else {
        Answer::Doubtful
    };
    Estimate {
        budget,
        parts: frame.parts,
        outside: frame.outside,
        pool,
        row_bytes,
        need,
        asked,
        stated_pool,
        length,
        tokens: (tokens(pool.lower), tokens(pool.expected), tokens(pool.upper)),
        answer,
        notes: frame.notes,
    }
}

fn pool(plan: &Plan<'_>, frame: &Frame) -> Pool {
    let used = sum(&frame.parts);
    let total = plan.device.total;
    let least_total = plan.device.least_total.min(total);
    // Other processes and the page cache count as used where memory is the host's.
    let shifting = if plan.device.class.unified {
        i128::from(bytes(total) / UNIFIED_PART)
    } else {
        0
    };
    let left = |of: u64, used: u64| i128::from(of) - i128::from(used);
    let inside = i128::from(doubt(frame.parts.iter().map(|part| part.bytes)));
    let with_outside = frame.parts.iter().map(|part| part.bytes).chain([frame.outside]);
    let all = used.plus(frame.outside);
    let of_device = Pool {
        lower: left(bytes(least_total), all.expected()) - i128::from(doubt(with_outside)),
        expected: left(bytes(least_total), all.expected()),
        upper: left(bytes(total), all.lower()),
    };
    match &frame.bound {
        Bound::Budget { most, usual, least } => Pool {
            lower: left(*least, used.expected()) - inside - shifting,
            expected: left(*usual, used.expected()),
            upper: left(*most, used.lower()) + shifting,
        },
        Bound::Between(budget) => Pool {
            lower: left(budget.lower(), used.expected()) - inside - shifting,
            expected: left(budget.expected(), used.expected()),
            upper: left(budget.upper(), used.lower()) + shifting,
        },
        Bound::Pool(pool) => {
            let pool = i128::from(*pool);
            let usual = left(bytes(least_total), all.expected());
            Pool {
                lower: pool.min(usual - inside),
                expected: pool.min(usual),
                upper: pool.min(of_device.upper),
            }
        }
        Bound::Device => Pool {
            lower: of_device.lower - shifting,
            upper: of_device.upper + shifting,
            ..of_device
        },
        Bound::OfRest(fraction) => Pool {
            lower: part(fraction, of_device.lower - shifting),
            expected: part(fraction, of_device.expected),
            upper: part(fraction, of_device.upper + shifting),
        },
    }
}

/// A fraction of what is left; what is missing stays missing.
fn part(fraction: &Fraction, left: i128) -> i128 {
    let ppm = i128::from(fraction.ppm());
    if left > 0 {
        left.saturating_mul(ppm) / 1_000_000
    } else {
        left
    }
}

fn sum(parts: &[Part]) -> Interval {
    parts
        .iter()
        .fold(Interval::ZERO, |sum, part| sum.plus(part.bytes))
}

/// By how much the sum of all parts may exceed its expectation: the root of the sum of squares, since the parts err
/// independently of each other. A refusal does not rest on it, but on the plain sum of the least amounts.
fn doubt(parts: impl Iterator<Item = Interval>) -> u64 {
    let squares = parts.fold(0_u128, |sum, bytes| {
        let excess = u128::from(bytes.upper().saturating_sub(bytes.expected()));
        sum.saturating_add(excess.saturating_mul(excess))
    });
    u64::try_from(squares.isqrt()).unwrap_or(u64::MAX)
}

/// The least and the usual size of a cached element in sixteenths of a byte.
pub(super) fn cache_elements(plan: &Plan<'_>) -> (u64, u64) {
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
