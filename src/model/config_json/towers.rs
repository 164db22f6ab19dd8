//! Parameters of vision and audio towers beside the text model.

use super::read::{ConfigError, Fields, HIDDEN, INTERMEDIATE, WIDTH};

/// Parameters of vision and audio towers; an error where they cannot be told.
pub(super) fn towers(outer: &Fields<'_>, hidden: u128) -> Result<u128, ConfigError> {
    let mut total = 0;
    for name in ["vision_config", "vit_config", "audio_config"] {
        if let Some(own) = outer.child(name)?
            && !own.is_empty()
        {
            let path = format!("{name}.");
            let tower = Fields {
                own,
                path: &path,
                outer: outer.outer,
                defaults: &[],
            };
            total += one_tower(&tower, outer, hidden)?;
        }
    }
    for name in [
        "talker_config",
        "embd_layer",
        "code2wav_config",
        "token2wav_config",
    ] {
        if outer.value(name).is_some() {
            return Err(unknown_tower(outer, name));
        }
    }
    Ok(total)
}

fn unknown_tower(fields: &Fields<'_>, name: &str) -> ConfigError {
    fields.error(
        name,
        "is a part whose parameters cannot be counted from this file; give model.safetensors.index.json or the \
         *.safetensors beside config.json as well",
    )
}

fn one_tower(tower: &Fields<'_>, outer: &Fields<'_>, text_hidden: u128) -> Result<u128, ConfigError> {
    // Qwen2-VL: `hidden_size` is the width of the output, `embed_dim` the tower's own.
    let width = match tower.count("embed_dim")? {
        Some(width) => Some(width),
        None => tower.size(HIDDEN)?.map(u128::from),
    };
    let depth = match tower.count("depth")? {
        Some(depth) => Some(depth),
        None => match tower.count("num_hidden_layers")? {
            Some(depth) => Some(depth + tower.count("num_global_layers")?.unwrap_or(0)),
            None => tower.count("encoder_layers")?,
        },
    };
    let (Some(width), Some(depth)) = (width, depth) else {
        return Err(unknown_tower(tower, "hidden_size"));
    };
    if tower.value("conf_num_attention_heads").is_some() || tower.value("conf_num_hidden_layers").is_some() {
        return Err(unknown_tower(tower, "conf_num_hidden_layers"));
    }
    let inner = match tower.size(INTERMEDIATE)? {
        Some(inner) => u128::from(inner),
        None => match tower.count("encoder_ffn_dim")? {
            Some(inner) => inner,
            None => match tower.number("mlp_ratio", 1, 64)? {
                Some(ratio) => u128::from(ratio) * width,
                None => return Err(unknown_tower(tower, "intermediate_size")),
            },
        },
    };
    let is_gated = matches!(tower.text("hidden_act")?, Some("silu" | "swiglu"))
        || matches!(tower.text("model_type")?, Some("pixtral" | "gemma4_vision"));
    let matrices = if is_gated { 3 } else { 2 };
    let blocks = depth * (4 * width * width + matrices * width * inner + 9 * width + inner);
    let patch = tower
        .count("spatial_patch_size")?
        .or(tower.count("patch_size")?)
        .unwrap_or(0)
        .min(1 << 10);
    let channels = tower
        .count("num_channels")?
        .or(tower.count("in_channels")?)
        .unwrap_or(3)
        .min(1 << 10);
    let frames = tower.count("temporal_patch_size")?.unwrap_or(1).min(1 << 10);
    let mut total = blocks + patch * patch * channels * frames * width;
    total += match (
        tower.number("num_position_embeddings", 1, WIDTH)?,
        tower.number("image_size", 1, WIDTH)?,
    ) {
        (Some(rows), _) => u128::from(rows) * width,
        (None, Some(side)) if patch > 0 => (u128::from(side) / patch).pow(2) * width,
        _ => 0,
    };
    // The projector into the text model's width.
    total += if let Some(merge) = tower.count("spatial_merge_size")? {
        let rows = merge.min(1 << 8).pow(2) * width;
        let more = tower
            .list("deepstack_visual_indexes")?
            .map_or(0, |items| items.len().min(64) as u128);
        (1 + more) * (rows * rows + rows * text_hidden)
    } else {
        let outputs = tower.count("vision_output_dim")?.unwrap_or(width);
        let merge = outer.count("spatial_merge_size")?.unwrap_or(0).min(1 << 8).pow(2);
        let second = if outer.value("mm_tokens_per_image").is_some() {
            0
        } else {
            text_hidden * text_hidden
        };
        merge * width * width + outputs * text_hidden + second
    };
    Ok(total)
}
