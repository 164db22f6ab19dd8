//! Layers with a state of fixed size: their parameters, and what one request keeps in them.

use super::layers::{Layers, Mixer};
use super::read::{ConfigError, Fields};
use super::text::Text;

/// A layer with a recurrent state: its weights, and what one request keeps in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecurrentLayer {
    pub(super) parameters: u128,
    pub(super) state_bytes: Option<u128>,
}

/// Gated DeltaNet (Qwen3-Next and later), Kimi's delta attention, MiniMax's lightning attention.
pub(super) fn linear(fields: &Fields<'_>, text: &Text<'_>) -> Result<RecurrentLayer, ConfigError> {
    if let Some(value_heads) = fields.count("linear_num_value_heads")? {
        let key_heads = fields.needed("linear_num_key_heads")?;
        let key_width = fields.needed("linear_key_head_dim")?;
        let value_width = fields.needed("linear_value_head_dim")?;
        let kernel = fields.needed("linear_conv_kernel_dim")?.max(1);
        let mixed = 2 * key_heads * key_width + value_heads * value_width;
        let inner = value_heads * value_width;
        let state_width = if fields.text("mamba_ssm_dtype")? == Some("float32") {
            4
        } else {
            2
        };
        return Ok(RecurrentLayer {
            parameters: text.hidden * (mixed + inner + 2 * value_heads)
                + mixed * kernel
                + inner * text.hidden,
            state_bytes: Some((kernel - 1) * mixed * 2 + value_heads * key_width * value_width * state_width),
        });
    }
    if let Some(own) = fields.child("linear_attn_config")? {
        let path = format!("{}linear_attn_config.", fields.path);
        let own = Fields {
            own,
            path: &path,
            ..*fields
        };
        let inner = own.needed("num_heads")? * own.needed("head_dim")?;
        let kernel = own.needed("short_conv_kernel_size")?.max(1);
        let width = own.needed("head_dim")?;
        return Ok(RecurrentLayer {
            parameters: 4 * text.hidden * inner + 2 * width * (text.hidden + inner) + 3 * inner * kernel,
            state_bytes: Some((kernel - 1) * 3 * inner * 2 + inner * width * 4),
        });
    }
    let inner = text.heads * text.head_width;
    Ok(RecurrentLayer {
        parameters: 5 * text.hidden * inner,
        state_bytes: Some(inner * text.head_width * 4),
    })
}

/// Mamba-2's sizes, in both spellings.
struct Mamba {
    inner: u128,
    mixed: u128,
    heads: u128,
    kernel: u128,
    state: u128,
}

fn mamba_sizes(fields: &Fields<'_>) -> Result<Option<Mamba>, ConfigError> {
    let of = |names: [&str; 2]| -> Result<Option<u128>, ConfigError> {
        match fields.count(names[0])? {
            Some(number) => Ok(Some(number)),
            None => fields.count(names[1]),
        }
    };
    let Some(heads) = of(["mamba_num_heads", "mamba_n_heads"])? else {
        return Ok(None);
    };
    let need = |names: [&str; 2]| of(names)?.ok_or_else(|| fields.absent(names[0]));
    let inner = heads * need(["mamba_head_dim", "mamba_d_head"])?;
    let state = need(["ssm_state_size", "mamba_d_state"])?;
    let groups = need(["n_groups", "mamba_n_groups"])?;
    let kernel = need(["conv_kernel", "mamba_d_conv"])?.max(1);
    Ok(Some(Mamba {
        inner,
        mixed: inner + 2 * groups * state,
        heads,
        kernel,
        state,
    }))
}

/// Bytes of one request's Mamba-2 state: the convolution in 16 bits, the state in 32.
pub(super) fn mamba_state(fields: &Fields<'_>) -> Result<Option<u128>, ConfigError> {
    let sizes = mamba_sizes(fields)?;
    Ok(sizes.map(|sizes| (sizes.kernel - 1) * sizes.mixed * 2 + sizes.inner * sizes.state * 4))
}

pub(super) fn mamba(fields: &Fields<'_>, text: &Text<'_>, layers: &Layers) -> Result<u128, ConfigError> {
    let count = layers.count(Mixer::Mamba);
    if count == 0 {
        return Ok(0);
    }
    if let Some(sizes) = mamba_sizes(fields)? {
        let one = text.hidden * (sizes.inner + sizes.mixed + sizes.heads)
            + sizes.mixed * (sizes.kernel + 1)
            + sizes.inner * (text.hidden + 1);
        return Ok(count * one);
    }
    // Mamba-1 (Jamba).
    let inner = fields.needed("mamba_expand")? * text.hidden;
    let state = fields.needed("mamba_d_state")?;
    let rank = fields.needed("mamba_dt_rank")?;
    let kernel = fields.needed("mamba_d_conv")?;
    Ok(count * inner * (3 * text.hidden + kernel + 2 * rank + 3 * state))
}
