//! `DeciLM`: every layer is described by a block of its own (`block_configs`).

use serde_json::Value;

use super::read::{ConfigError, Fields, WIDTH, shown};

/// `DeciLM`: key and value heads of each layer.
pub(super) fn kv_heads(fields: &Fields<'_>, heads: u128) -> Result<Option<Vec<u128>>, ConfigError> {
    let Some(blocks) = fields.list("block_configs")? else {
        return Ok(None);
    };
    let by_layer = blocks.iter().map(|block| {
        let attention = block.get("attention").unwrap_or(&Value::Null);
        let is = |name: &str| attention.get(name).and_then(Value::as_bool) == Some(true);
        if is("no_op") || is("replace_with_linear") {
            return Ok(0);
        }
        let group = attention.get("n_heads_in_group").unwrap_or(&Value::Null);
        match group.as_u64().map(u128::from) {
            Some(group) if group > 0 && heads.is_multiple_of(group) => Ok(heads / group),
            _ => Err(fields.error(
                "block_configs",
                format!(
                    "n_heads_in_group {} does not divide {heads} heads; correct the block",
                    shown(group)
                ),
            )),
        }
    });
    by_layer.collect::<Result<Vec<_>, _>>().map(Some)
}

/// `DeciLM`: widths of the MLPs: two thirds of a multiple of twice the width, rounded up to 256.
pub(super) fn widths(fields: &Fields<'_>, hidden: u128) -> Result<Option<Vec<u128>>, ConfigError> {
    let Some(blocks) = fields.list("block_configs")? else {
        return Ok(None);
    };
    let widths = blocks.iter().map(|block| {
        let feed = block.get("ffn").unwrap_or(&Value::Null);
        let is = |name: &str| feed.get(name).and_then(Value::as_bool) == Some(true);
        if is("no_op") {
            return Ok(0);
        }
        if is("replace_with_linear") {
            // One matrix instead of three.
            return Ok(hidden / 3);
        }
        if let Some(width) = feed
            .get("intermediate_size")
            .and_then(Value::as_u64)
            .filter(|width| *width <= WIDTH)
        {
            return Ok(u128::from(width));
        }
        let multiple = feed.get("ffn_mult").unwrap_or(&Value::Null);
        match decimal(multiple) {
            Some((digits, scale)) if digits <= 100 * scale => {
                let width = 2 * digits * hidden / (3 * scale);
                Ok(width.next_multiple_of(256))
            }
            _ => Err(fields.error(
                "block_configs",
                format!("ffn_mult {} is no multiple; correct the block", shown(multiple)),
            )),
        }
    });
    widths.collect::<Result<Vec<_>, _>>().map(Some)
}

/// A decimal number as digits and a power of ten.
fn decimal(value: &Value) -> Option<(u128, u128)> {
    let Value::Number(number) = value else { return None };
    let text = number.to_string();
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    if whole.len() + part.len() > 24 || part.len() > 18 {
        return None;
    }
    let digits = format!("{whole}{part}").parse().ok()?;
    Some((digits, 10_u128.pow(u32::try_from(part.len()).ok()?)))
}
