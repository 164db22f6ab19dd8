//! Bytes of the KV cache, by kind of layer.
//!
//! Sizes follow vLLM's own arithmetic, which its start-up messages reproduce to the byte: pages of one block, layers in
//! groups of one size, and for each kind of layer its own number of tokens (`docs/estimator.md`, cache).

use super::interval::{Interval, product, scaled};
use super::plan::{CacheType, Plan};
use super::shape::attention_layers;
use crate::model::{Kind, Model};

/// Parts of a byte in which elements are counted: FP4 with a scale for each 16 takes 9 of them.
const SIXTEENTHS: u64 = 16;
/// Bytes of a sparse indexer's row for each layer and token.
const INDEXER_ROW: u64 = 132;
/// Bytes of the packed 8-bit row of a latent layer.
const PACKED_LATENT_ROW: u64 = 656;
/// Frames of audio that an encoder hands to cross-attention.
const AUDIO_FRAMES: u64 = 1_500;
/// State of a recurrent layer where the facts lack it: between none and what the largest known ones have.
const UNKNOWN_STATE: (u64, u64, u64) = (0, 2 << 20, 6 << 20);
/// Pages that prefix caching keeps of a recurrent state beside the running one.
const STATE_COPIES: u64 = 2;
/// Largest block to which recurrent models were seen to raise theirs, in tokens.
const RAISED_BLOCK: u64 = 1_600;

/// Layers of one kind on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layers {
    count: u64,
    /// Bytes of one token in one of them.
    row_bytes: u64,
}

/// How the layers of a stage cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cache {
    full: Layers,
    /// Layers that look back a window or a chunk.
    local: Layers,
    reach: Reach,
    /// Recurrent layers and the bytes of one state.
    recurrent: (u64, Interval),
    /// Layers of a draft head or a draft model, which keep all tokens.
    draft: Layers,
    /// Whether that is a head whose layers are not known.
    guessed_draft: bool,
    block: u64,
    encoder: bool,
    audio: bool,
}

/// How far local layers look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// This many tokens back.
    Window(u64),
    /// Within chunks of this many tokens.
    Chunk(u64),
}

impl Cache {
    /// The layers of the largest stage, with an element of this many sixteenths of a byte.
    pub(super) fn of(plan: &Plan<'_>, element: u64) -> Self {
        let model = plan.model;
        let stages = u64::from(plan.pipeline.max(1));
        let on_stage = |layers: u64| layers.div_ceil(stages);
        let (full, local, reach) = counts(model);
        let state = model.recurrent.map_or(Interval::ZERO, |recurrent| {
            let (lower, expected, upper) = UNKNOWN_STATE;
            recurrent
                .state_bytes
                .map_or_else(|| Interval::new(lower, expected, upper), Interval::exactly)
        });
        let by_rank = |bytes: u64| bytes.div_ceil(plan.tensor());
        Self {
            full: Layers {
                count: on_stage(full),
                row_bytes: full_row(plan, element),
            },
            local: Layers {
                count: on_stage(local),
                row_bytes: head_row(
                    plan,
                    u64::from(model.num_key_value_heads),
                    u64::from(model.head_width()),
                    element,
                ),
            },
            reach,
            recurrent: (
                on_stage(model.recurrent.map_or(0, |recurrent| u64::from(recurrent.layers))),
                Interval::new(
                    by_rank(state.lower()),
                    by_rank(state.expected()),
                    by_rank(state.upper()),
                ),
            ),
            draft: plan.draft.map_or_else(
                || Layers {
                    count: u64::from(plan.has_draft_layer()),
                    row_bytes: full_row(plan, element),
                },
                |draft| {
                    let plan = plan.of_draft(draft);
                    Layers {
                        count: attention_layers(draft),
                        row_bytes: full_row(&plan, element),
                    }
                },
            ),
            guessed_draft: plan.draft.is_none(),
            block: plan.block(),
            encoder: model.kind == Kind::Encoder,
            audio: model
                .architecture
                .as_deref()
                .is_some_and(|name| name.starts_with("Whisper")),
        }
    }

    /// Whether every token of every layer is kept, so that tokens are bytes divided.
    pub(super) const fn is_uniform(&self) -> bool {
        self.local.count == 0 && self.recurrent.0 == 0
    }

    /// Bytes of one token in the layers that keep all tokens.
    pub(super) const fn row_bytes(&self) -> u64 {
        self.full.count.saturating_mul(self.full.row_bytes)
    }

    /// Bytes of one token in all layers that look back a window or a chunk, and the tokens that one of them looks back.
    pub(super) const fn local(&self) -> (u64, u64) {
        let (Reach::Window(tokens) | Reach::Chunk(tokens)) = self.reach;
        (self.local.count.saturating_mul(self.local.row_bytes), tokens)
    }

    /// Bytes of all recurrent states of one running request.
    pub(super) fn states(&self) -> Interval {
        let (layers, state) = self.recurrent;
        let of = |bytes: u64| bytes.saturating_mul(layers);
        Interval::new(of(state.lower()), of(state.expected()), of(state.upper()))
    }

    /// Bytes that one sequence of `length` tokens takes.
    pub(super) fn need(&self, plan: &Plan<'_>, length: u64) -> Interval {
        if self.encoder {
            return Interval::ZERO;
        }
        let blocks = |tokens: u64| tokens.div_ceil(self.block).saturating_mul(self.block);
        let all = blocks(length);
        let draft = product(&[self.draft.count, self.draft.row_bytes, all]);
        let least_draft = if self.guessed_draft { 0 } else { draft };
        if self.is_uniform() {
            let cross = if self.audio { blocks(AUDIO_FRAMES) } else { 0 };
            let one = product(&[self.row_bytes(), all.saturating_add(cross)]);
            return Interval::new(
                one.saturating_add(least_draft),
                one.saturating_add(draft),
                one.saturating_add(draft),
            );
        }
        let near = |batch: u64| {
            let tokens = match self.reach {
                Reach::Window(window) => {
                    let seen = window.saturating_sub(1).saturating_add(batch);
                    blocks(seen.min(length)).saturating_add(self.block)
                }
                Reach::Chunk(chunk) => blocks(chunk.saturating_add(batch).min(length)),
            };
            tokens.min(all.saturating_add(self.block))
        };
        let batch = plan.batch_tokens();
        let (states, state) = self.recurrent;
        let size = group_size([self.full.count, self.local.count, states]);
        let padded = |layers: u64| layers.next_multiple_of(size);
        let of = |layers: Layers, count: u64, tokens: u64| product(&[count, layers.row_bytes, tokens]);
        let state_bytes = |one: u64, copies: u64| product(&[padded(states), one, copies]);

        // Least: every kind its own length and no padding.
        let lower = of(self.full, self.full.count, all)
            .saturating_add(of(self.local, self.local.count, near(batch.lower()).min(all)))
            .saturating_add(product(&[states, state.lower()]))
            .saturating_add(least_draft);
        let grouped = of(self.full, padded(self.full.count), all)
            .saturating_add(of(self.local, padded(self.local.count), near(batch.expected())))
            .saturating_add(state_bytes(state.expected(), 1))
            .saturating_add(draft);
        let drafted = plan
            .serving
            .draft
            .as_ref()
            .and_then(|draft| draft.tokens)
            .unwrap_or(0);
        let raised = if states > 0 {
            product(&[self.row_bytes(), RAISED_BLOCK.min(length)])
        } else {
            0
        };
        let widest = of(self.full, padded(self.full.count), all)
            .saturating_add(of(
                self.local,
                padded(self.local.count),
                if plan.may_keep_all() {
                    all
                } else {
                    near(batch.upper())
                },
            ))
            .saturating_add(state_bytes(state.upper(), 1 + STATE_COPIES + drafted.min(16)))
            .saturating_add(draft.saturating_add(draft - least_draft))
            .saturating_add(raised);
        let whole = of(self.full, self.full.count, all).saturating_add(of(self.local, self.local.count, all));
        if plan.keeps_all() {
            let states = product(&[states, state.expected()]);
            return Interval::new(whole, whole.saturating_add(states), widest.max(whole));
        }
        Interval::new(lower, grouped, widest)
    }

    /// Tokens of all requests together that a pool of so many bytes holds, where requests are `length` tokens long.
    pub(super) fn tokens(&self, plan: &Plan<'_>, pool_bytes: u64, length: u64) -> u64 {
        if self.encoder {
            return 0;
        }
        if self.is_uniform() {
            let rows = self
                .row_bytes()
                .saturating_add(product(&[self.draft.count, self.draft.row_bytes]));
            let block_bytes = rows.saturating_mul(self.block).max(1);
            return (pool_bytes / block_bytes).saturating_mul(self.block);
        }
        let need = self.need(plan, length).expected().max(1);
        let tokens = u128::from(pool_bytes) * u128::from(length) / u128::from(need);
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }
}

/// Layers with a full cache, layers with a local one, and how far those look.
fn counts(model: &Model) -> (u64, u64, Reach) {
    let all = attention_layers(model);
    // The last layers use the caches of earlier ones; kinds alternate, so each loses its part.
    let shared = u64::from(model.num_kv_shared_layers.unwrap_or(0)).min(all);
    let keeping = |layers: u64| (layers.saturating_mul(all - shared)).div_ceil(all.max(1));
    let cached = all - shared;
    // A stated size is that of all layers, whatever their kinds.
    if model.kv_bytes_per_token.is_some() {
        return (cached, 0, Reach::Window(0));
    }
    let reach = match (model.attention_chunk_size, model.sliding_window) {
        (Some(chunk), _) => Some(Reach::Chunk(u64::from(chunk))),
        (None, Some(window)) => Some(Reach::Window(u64::from(window))),
        (None, None) => None,
    };
    match (reach, model.full_attention_layers) {
        (Some(reach), full) => {
            let full = keeping(u64::from(full.unwrap_or(0))).min(cached);
            (full, cached - full, reach)
        }
        (None, _) => (cached, 0, Reach::Window(0)),
    }
}

/// Bytes of one token in one layer of full attention.
fn full_row(plan: &Plan<'_>, element: u64) -> u64 {
    let model = plan.model;
    if let Some(latent) = &model.latent {
        let elements = u64::from(latent.kv_lora_rank) + u64::from(latent.qk_rope_head_dim);
        let row = scaled(elements, element, SIXTEENTHS);
        // Rows of a sparse model are packed in their own way when they are 8 bits wide.
        let row = if latent.indexer && element == CacheType::Fp8.sixteenths() {
            PACKED_LATENT_ROW
        } else {
            row
        };
        return row + if latent.indexer { INDEXER_ROW } else { 0 };
    }
    if let Some(bytes) = model.kv_bytes_per_token {
        // Stated for all layers at 16 bits.
        let layers = attention_layers(model).max(1);
        let heads = plan.tensor().min(u64::from(model.num_key_value_heads)).max(1);
        return scaled(bytes, element, layers * heads * 2 * SIXTEENTHS);
    }
    let local_exists = model.full_attention_layers.is_some();
    let heads = match model.num_global_key_value_heads {
        Some(heads) if local_exists => heads,
        _ => model.num_key_value_heads,
    };
    let width = match model.global_head_dim {
        Some(width) if local_exists => width,
        _ => model.head_width(),
    };
    head_row(plan, u64::from(heads), u64::from(width), element)
}

/// Keys and values of one token in one layer on one rank: heads divide over ranks, and each rank has at least one.
fn head_row(plan: &Plan<'_>, heads: u64, width: u64, element: u64) -> u64 {
    let heads = heads.div_ceil(plan.tensor()).max(1);
    scaled(product(&[2, heads, width]), element, SIXTEENTHS)
}

/// Layers of one group: the smallest kind, or the largest where that is less than half as many again.
fn group_size(counts: [u64; 3]) -> u64 {
    let present = || counts.into_iter().filter(|count| *count > 0);
    let least = present().min().unwrap_or(1);
    let most = present().max().unwrap_or(1);
    if most.saturating_mul(2) < least.saturating_mul(3) {
        most
    } else {
        least
    }
}
