//! Mixtures of experts, in the spellings of the families.

use serde_json::Value;

use super::layers::Feed;
use super::narrow;
use super::read::{ConfigError, Fields, WIDTH, shown};
use crate::model::Experts;

/// Experts; widths in the space that they work in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mixture {
    pub(super) count: u128,
    active: u128,
    shared: u128,
    pub(super) width: u128,
    /// Width of all shared experts together.
    pub(super) shared_width: u128,
}

impl Mixture {
    /// The experts as the entry has them.
    pub(super) fn of_entry(&self, feeds: &[Feed]) -> Result<Experts, ConfigError> {
        let is_expert = |feed: &Feed| *feed == Feed::Experts;
        let first = feeds.iter().position(is_expert).unwrap_or(feeds.len());
        let with = feeds.iter().filter(|feed| is_expert(feed)).count();
        // Of the layers from the first with experts on, one in so many has them, rounded to the nearest.
        let rest = feeds.len().saturating_sub(first);
        let every = (2 * rest + with).checked_div(2 * with).unwrap_or(1).max(1);
        // `first` alone counts as dense what only waits for its turn (Llama 4: the second, the fourth, ...).
        let first_dense = if first < every { 0 } else { first };
        Ok(Experts {
            count: narrow("num_experts", self.count)?,
            active: narrow("num_experts_per_tok", self.active)?,
            shared: narrow("n_shared_experts", self.shared)?,
            intermediate_size: narrow("moe_intermediate_size", self.width)?,
            first_dense: narrow("first_k_dense_replace", first_dense as u128)?,
            every: narrow("moe_layer_freq", every as u128)?,
        })
    }
}

/// Reads the experts; none where there are none.
pub(super) fn mixture(
    fields: &Fields<'_>,
    intermediate: Option<u128>,
) -> Result<Option<Mixture>, ConfigError> {
    let most = 1 << 16;
    let first = |names: &[&'static str]| -> Result<Option<(&'static str, u128)>, ConfigError> {
        for name in names.iter().copied() {
            if let Some(number) = fields.number(name, 0, most)?.filter(|number| *number > 0) {
                return Ok(Some((name, u128::from(number))));
            }
        }
        Ok(None)
    };
    let count = first(&[
        "n_routed_experts",
        "num_local_experts",
        "num_experts",
        "moe_num_experts",
        "n_experts",
    ])?;
    let Some((count_name, count)) = count else {
        return Ok(None);
    };
    if count == 1 {
        return Ok(None);
    }
    let active = first(&[
        "num_experts_per_tok",
        "num_experts_per_token",
        "experts_per_token",
        "top_k_experts",
        "moe_topk",
        "moe_k",
        "moe_top_k",
    ])?;
    let Some((active_name, active)) = active else {
        return Err(fields.absent("num_experts_per_tok"));
    };
    if active > count {
        return Err(fields.error(
            active_name,
            format!("{active} is more than {count_name}, which is {count}; one of the two is wrong"),
        ));
    }
    let width = match fields.number("moe_intermediate_size", 1, WIDTH)? {
        Some(width) => Some(width),
        None => match fields.number("expert_intermediate_size", 1, WIDTH)? {
            Some(width) => Some(width),
            None => fields.number("expert_ffn_hidden_size", 1, WIDTH)?,
        },
    };
    let width = width
        .map(u128::from)
        .or(intermediate)
        .ok_or_else(|| fields.absent("moe_intermediate_size"))?;
    let shared = first(&[
        "n_shared_experts",
        "num_shared_experts",
        "moe_num_shared_experts",
        "num_shared_expert",
    ])?;
    let mut total = None;
    for name in [
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "shared_intermediate_size",
    ] {
        total = total.or(fields.count(name)?.filter(|width| *width > 0));
    }
    // Llama 4 has one shared expert in each of these layers and no field for it.
    let is_llama = fields.value("intermediate_size_mlp").is_some();
    let shared = match shared {
        Some((_, shared)) => shared,
        None => u128::from(total.is_some() || is_llama),
    };
    Ok(Some(Mixture {
        count,
        active,
        shared,
        width,
        shared_width: total.unwrap_or(shared * width),
    }))
}

/// Which layers have experts, where experts there are.
pub(super) fn feeds(fields: &Fields<'_>, family: &str, count: usize) -> Result<Vec<Feed>, ConfigError> {
    let of = |is_expert: bool| if is_expert { Feed::Experts } else { Feed::Dense };
    if let Some(Value::Array(_)) = fields.value("moe_layer_freq") {
        let items = fields.by_layer("moe_layer_freq", count)?.unwrap_or_default();
        let feeds = items.iter().map(|item| match item.as_u64() {
            Some(flag @ (0 | 1)) => Ok(of(flag == 1)),
            _ => Err(fields.error(
                "moe_layer_freq",
                format!("{} is neither 0 nor 1; correct the list", shown(item)),
            )),
        });
        return feeds.collect();
    }
    if let Some(items) = fields.list("moe_layers")?
        && !items.is_empty()
    {
        let mut feeds = vec![Feed::Dense; count];
        for item in items {
            let index = item.as_u64().and_then(|index| usize::try_from(index).ok());
            match index.and_then(|index| feeds.get_mut(index)) {
                Some(feed) => *feed = Feed::Experts,
                None => {
                    return Err(fields.error(
                        "moe_layers",
                        format!("{} is none of the {count} layers", shown(item)),
                    ));
                }
            }
        }
        return Ok(feeds);
    }
    let most = 10_000;
    let first_dense = match fields.number("first_k_dense_replace", 0, most)? {
        Some(first) => first,
        None => fields.number("moe_layer_start_index", 0, most)?.unwrap_or(0),
    };
    let dense_only = fields.list("mlp_only_layers")?.unwrap_or_default();
    let mut every = 1;
    for name in [
        "moe_layer_freq",
        "decoder_sparse_step",
        "interleave_moe_layer_step",
        "moe_layer_interval",
        "expert_layer_period",
    ] {
        if let Some(step) = fields.number(name, 1, most)? {
            every = step;
        }
    }
    let offset = fields.number("expert_layer_offset", 0, most)?;
    // DeepSeek counts `moe_layer_freq` from layer zero, the others from one.
    let counts_from_zero =
        family.starts_with("deepseek") || family.starts_with("kimi") || family.starts_with("glm");
    let layers = 0..count as u64;
    Ok(layers
        .map(|layer| {
            let is_step = match offset {
                Some(offset) => layer % every == offset,
                None if counts_from_zero => layer % every == 0,
                None => (layer + 1) % every == 0,
            };
            let is_dense = dense_only.iter().any(|item| item.as_u64() == Some(layer));
            of(layer >= first_dense && is_step && !is_dense)
        })
        .collect())
}
