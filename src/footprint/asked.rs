//! What the cache must hold by engines that count tokens instead of vLLM's groups of pages.

use super::Unknown;
use super::cache::Cache;
use super::estimate::cache_elements;
use super::interval::{Interval, product, scaled};
use super::plan::{CacheType, Plan};
use crate::model::Kind;

/// Room for scales beside elements of 8 bits and fewer, in thousandths: two 16-bit numbers for each head of 128 and more
/// (LMDeploy's `quant_policy`; SGLang and TensorRT-LLM scale by tensor and need less).
const SCALES: u64 = 1_050;

/// What is asked of the cache of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// Bytes of one request of the longest context.
    pub(super) need: Interval,
    /// Bytes of one token in layers that keep all tokens.
    pub(super) row_bytes: u64,
    /// The least pool with which the engine starts, in bytes.
    pub(super) starts_with: u64,
}

/// Tokens for which local layers have room, in thousandths of those of the others; all of them at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LocalPart {
    /// Usually.
    pub(super) expected: u64,
}

impl LocalPart {
    /// Every layer keeps every token.
    pub(super) const ALL: Self = Self { expected: 1_000 };
}

impl Asked {
    /// Nothing: what runs caches no tokens.
    pub(super) const NOTHING: Self = Self {
        need: Interval::ZERO,
        row_bytes: 0,
        starts_with: 0,
    };

    /// One request of the longest context of a plan, by rows of tokens. The engine starts with a pool of one token, whose
    /// row is that of the smallest element that the cache may have. `page` is the number of tokens that are given out at
    /// once.
    pub(super) fn by_tokens(plan: &Plan<'_>, local: LocalPart, page: u64) -> Self {
        if plan.model.kind == Kind::Encoder {
            return Self::NOTHING;
        }
        let (least, usual) = cache_elements(plan);
        let small = Cache::of(plan, least);
        let cache = Cache::of(plan, usual);
        let length = plan.longest();
        let paged = length.checked_next_multiple_of(page.max(1)).unwrap_or(u64::MAX);
        let (_, reach) = cache.local();
        let rows = |cache: &Cache, full: u64, near: u64| {
            let (local, _) = cache.local();
            product(&[cache.row_bytes(), full]).saturating_add(product(&[local, near]))
        };
        let lower = rows(&small, length, reach.min(length));
        let near = scaled(length, local.expected, 1_000).max(reach.min(length));
        let expected = rows(&cache, paged, near);
        let most = rows(&cache, paged, paged);
        let most = match plan.cache_type {
            CacheType::Auto | CacheType::Float32 | CacheType::Float16 => most,
            _ => scaled(most, SCALES, 1_000),
        };
        // A draft head has one layer more.
        let draft = if plan.has_draft_layer() {
            product(&[cache.row_bytes(), paged]) / u64::from(plan.model.num_hidden_layers).max(1)
        } else {
            0
        };
        Self {
            need: Interval::new(lower, expected.saturating_add(draft), most.saturating_add(draft)),
            row_bytes: cache.row_bytes(),
            starts_with: rows(&small, 1, 1).max(1),
        }
    }

    /// Tokens of all requests together that a pool of so many bytes holds, where they are `length` tokens long.
    pub(super) fn tokens(&self, pool_bytes: u64, length: u64) -> u64 {
        let need = u128::from(self.need.expected());
        if need == 0 {
            return 0;
        }
        let tokens = u128::from(pool_bytes) * u128::from(length.max(1)) / need;
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }
}

/// Bytes of so many tokens in all layers, as a stated limit of the pool gives them out.
pub(super) fn stated_pool(plan: &Plan<'_>, asked: &Asked) -> Option<u64> {
    let tokens = plan.serving.max_total_tokens?;
    let bytes = u128::from(asked.need.upper()) * u128::from(tokens) / u128::from(plan.longest().max(1));
    Some(u64::try_from(bytes).unwrap_or(u64::MAX))
}

/// Refuses models whose cache an engine is not known to size.
pub(super) fn without_states(plan: &Plan<'_>) -> Result<(), Unknown> {
    if plan.model.recurrent.is_some() {
        return Err(Unknown::new(format!(
            "how {} sizes the states of recurrent layers is not known",
            plan.engine
        )));
    }
    Ok(())
}

/// Refuses files that an engine does not load.
pub(super) fn without_gguf(plan: &Plan<'_>) -> Result<(), Unknown> {
    if plan.format.is_gguf() {
        return Err(Unknown::new(format!(
            "{} loads no GGUF files; what it would load instead is not known",
            plan.engine
        )));
    }
    Ok(())
}
