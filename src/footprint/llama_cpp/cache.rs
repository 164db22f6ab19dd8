//! The KV cache of the whole context, which is allocated when the server starts ("KV self size" of the logs).

use super::super::Unknown;
use super::super::cache;
use super::super::interval::{Interval, product, scaled};
use super::super::plan::{CacheType, Length, Plan};
use super::super::shape::attention_layers;
use super::placing::Placing;
use crate::model::Kind;

/// Cells come in multiples of this.
const CELLS: u64 = 256;
/// Slots where none are stated: one in older releases, four since there is a choice.
const SLOTS: (u64, u64) = (1, 4);
/// The shortest context that a release takes where none is stated: 512 at first, 4096 later, the trained one now.
const UNSTATED: u64 = 512;
/// Bytes of a stated 16-bit state in the 32 bits that are used here, in halves: least and most.
const STATE_HALVES: (u64, u64) = (1, 4);

/// What each layer caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cache {
    /// Bytes of a token in all layers that keep all tokens: by the narrowest and the widest reading of the types.
    full: (u64, u64),
    /// The same of layers that look back `reach` tokens.
    local: (u64, u64),
    reach: u64,
    states: Interval,
    encoder: bool,
}

impl Cache {
    pub(super) fn of(plan: &Plan<'_>) -> Result<Self, Unknown> {
        let values = match plan.serving.value_cache_dtype.as_deref() {
            None => plan.cache_type,
            Some(text) => CacheType::parse(text).ok_or_else(|| {
                Unknown::new(format!("the type {text:?} of cached values is not known here"))
            })?,
        };
        let (key_least, key_most) = sixteenths(plan.cache_type);
        let (value_least, value_most) = sixteenths(values);
        let mut least = rows(plan, key_least, value_least);
        let mut most = rows(plan, key_most, value_most);
        if let Some(latent) = &plan.model.latent {
            // One row serves as both; some releases keep its compressed part a second time, as values.
            let keys = |element| cache::Cache::of(plan, element).row_bytes();
            let again = scaled(u64::from(latent.kv_lora_rank), value_most, 16);
            least = (keys(key_least), 0);
            most = (
                keys(key_most).saturating_add(product(&[attention_layers(plan.model), again])),
                0,
            );
        }
        let own = cache::Cache::of(plan, key_most);
        let (_, reach) = own.local();
        Ok(Self {
            full: (least.0, most.0),
            local: (least.1, most.1),
            reach,
            states: own.states(),
            encoder: plan.model.kind == Kind::Encoder,
        })
    }

    /// Bytes of one token on the device, in layers that keep all tokens.
    pub(super) fn row_bytes(&self, placing: &Placing) -> u64 {
        placing.of_layers(Interval::exactly(self.full.0)).expected()
    }

    /// Bytes of the whole context on the fullest device.
    pub(super) fn on_device(&self, plan: &Plan<'_>, placing: &Placing) -> Interval {
        let longest = plan.longest();
        let is_stated = plan.length != Length::Declared || plan.serving.trained_context;
        let shortest = if is_stated { longest } else { longest.min(UNSTATED) };
        let slots = plan.serving.max_num_seqs;
        let (few, usual) = slots.map_or(SLOTS, |slots| (slots, slots));
        let padded = |slots: u64| {
            let slots = slots.max(1);
            let each = longest.div_ceil(slots).checked_next_multiple_of(CELLS);
            each.unwrap_or(u64::MAX).saturating_mul(slots)
        };
        let cells = padded(1);
        // Slots that are not stated share one cache; stated ones may have a part each.
        let most_cells = padded(slots.unwrap_or(1)).max(cells);
        let full = Interval::new(
            product(&[self.full.0, shortest]),
            product(&[self.full.0, cells]),
            product(&[self.full.1, most_cells]),
        );
        if self.encoder {
            // Newer builds allocate none for models that cache nothing.
            return placing.of_layers(Interval::new(0, full.expected(), full.upper()));
        }
        let batch = plan.serving.max_num_batched_tokens.unwrap_or(CELLS * 2);
        let near = |slots: u64, batch: u64| self.reach.saturating_mul(slots.max(1)).saturating_add(batch);
        let local = Interval::new(
            if plan.serving.full_length_cache {
                product(&[self.local.0, shortest])
            } else {
                product(&[self.local.0, near(1, 0).min(shortest)])
            },
            if plan.serving.full_length_cache {
                product(&[self.local.0, cells])
            } else {
                product(&[self.local.0, near(usual, batch).min(cells)])
            },
            // Releases before May 2025 keep all tokens in every layer.
            product(&[self.local.1, most_cells]),
        );
        let (least_halves, most_halves) = STATE_HALVES;
        let states = Interval::new(
            scaled(self.states.lower(), least_halves * few.max(1), 2),
            self.states.expected().saturating_mul(usual.max(1)),
            scaled(self.states.upper(), most_halves * usual.max(1), 2),
        );
        let all = full.plus(local).plus(states);
        let mixed = local != Interval::ZERO || states != Interval::ZERO;
        let on_device = placing.of_layers(all);
        if !mixed || placing.is_whole() {
            return on_device;
        }
        // Which kinds of layers lie there is not known: at most all of the kind that takes most, beside their part.
        let one_kind = full.upper().max(local.upper()).max(states.upper());
        let lower = if placing.is_split() { on_device.lower() } else { 0 };
        Interval::new(
            lower,
            on_device.expected(),
            on_device.upper().saturating_add(one_kind).min(all.upper()),
        )
    }
}

/// Bytes of a token in all full and all local layers, with keys and values of so many sixteenths of a byte.
fn rows(plan: &Plan<'_>, keys: u64, values: u64) -> (u64, u64) {
    let by_keys = cache::Cache::of(plan, keys);
    let by_values = cache::Cache::of(plan, values);
    let half = |keys: u64, values: u64| keys.saturating_add(values).div_ceil(2);
    (
        half(by_keys.row_bytes(), by_values.row_bytes()),
        half(by_keys.local().0, by_values.local().0),
    )
}

/// Sizes of an element that a type can mean, in sixteenths of a byte: q4_0 and iq4_nl take 4.5 bits, q4_1 5; q5_0 5.5 and
/// q5_1 6.
const fn sixteenths(cache_type: CacheType) -> (u64, u64) {
    match cache_type {
        CacheType::Q4 => (9, 10),
        CacheType::Q5 => (11, 12),
        other => (other.sixteenths(), other.sixteenths()),
    }
}
