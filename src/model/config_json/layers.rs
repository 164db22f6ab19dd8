//! What each layer does: attention to everything, to a window or chunk, a recurrent state, or nothing.
//!
//! Source: the configuration classes of transformers (`layer_types` and what came before it, family by family).

use serde_json::Value;

use super::read::{ConfigError, Fields, shown};

/// How a layer mixes tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mixer {
    Full,
    Window,
    Chunk,
    /// Gated DeltaNet, lightning attention, Kimi's delta attention.
    Linear,
    Mamba,
    /// A short convolution (LFM2).
    Convolution,
    None,
}

/// What stands behind the mixer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Feed {
    Dense,
    Experts,
    None,
}

/// The layers in order, and the windows of those that do not see everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Layers {
    pub(super) mixers: Vec<Mixer>,
    /// Where the mixers' own pattern says it; otherwise from the fields of the experts.
    pub(super) feeds: Option<Vec<Feed>>,
    pub(super) window: Option<u64>,
    pub(super) chunk: Option<u64>,
}

impl Layers {
    pub(super) fn count(&self, mixer: Mixer) -> u128 {
        self.mixers.iter().filter(|other| **other == mixer).count() as u128
    }

    /// Layers that keep keys and values.
    pub(super) fn attention(&self) -> u128 {
        self.count(Mixer::Full) + self.count(Mixer::Window) + self.count(Mixer::Chunk)
    }

    /// Layers with a state of fixed size.
    pub(super) fn recurrent(&self) -> u128 {
        self.count(Mixer::Linear) + self.count(Mixer::Mamba) + self.count(Mixer::Convolution)
    }
}

/// Reads the pattern of the layers.
pub(super) fn layers(
    fields: &Fields<'_>,
    family: &str,
    count: usize,
    positions: u64,
) -> Result<Layers, ConfigError> {
    let mut layers = pattern(fields, family, count)?;
    if layers.mixers.contains(&Mixer::Window) {
        let window = match fields.number("sliding_window", 1, 1 << 36)? {
            Some(window) => window,
            None => fields
                .number("window_size", 1, 1 << 36)?
                .ok_or_else(|| fields.absent("sliding_window"))?,
        };
        if window >= positions {
            // A window longer than any context hides nothing (Phi-4-mini: 262144 of 131072).
            for mixer in &mut layers.mixers {
                if *mixer == Mixer::Window {
                    *mixer = Mixer::Full;
                }
            }
        } else {
            layers.window = Some(window);
        }
    }
    if layers.mixers.contains(&Mixer::Chunk) {
        let chunk = fields.number("attention_chunk_size", 1, 1 << 36)?;
        layers.chunk = Some(chunk.ok_or_else(|| fields.absent("attention_chunk_size"))?);
    }
    Ok(layers)
}

fn pattern(fields: &Fields<'_>, family: &str, count: usize) -> Result<Layers, ConfigError> {
    if let Some(text) = fields.text("hybrid_override_pattern")? {
        return hybrid(fields, text, count);
    }
    let mixers = match by_list(fields, count)? {
        Some(mixers) => mixers,
        None => by_rule(fields, family, count)?,
    };
    Ok(Layers {
        mixers,
        ..Layers::default()
    })
}

/// Nemotron-H: one letter for each layer.
fn hybrid(fields: &Fields<'_>, text: &str, count: usize) -> Result<Layers, ConfigError> {
    let name = "hybrid_override_pattern";
    let letters: Vec<char> = text.chars().filter(|letter| *letter != '|').collect();
    if letters.len() != count {
        return Err(fields.error(
            name,
            format!(
                "has {} letters for {count} layers; one of the two is wrong",
                letters.len()
            ),
        ));
    }
    let mut mixers = Vec::with_capacity(count);
    let mut feeds = Vec::with_capacity(count);
    for letter in letters {
        let (mixer, feed) = match letter {
            'M' => (Mixer::Mamba, Feed::None),
            '*' => (Mixer::Full, Feed::None),
            '-' => (Mixer::None, Feed::Dense),
            'E' => (Mixer::None, Feed::Experts),
            other => {
                return Err(fields.error(
                    name,
                    format!("{other:?} is none of M, *, - and E; correct the pattern"),
                ));
            }
        };
        mixers.push(mixer);
        feeds.push(feed);
    }
    Ok(Layers {
        mixers,
        feeds: Some(feeds),
        ..Layers::default()
    })
}

fn by_list(fields: &Fields<'_>, count: usize) -> Result<Option<Vec<Mixer>>, ConfigError> {
    for name in ["layer_types", "layers_block_type"] {
        let Some(items) = fields.by_layer(name, count)? else {
            continue;
        };
        let mixers = items.iter().map(|item| {
            Ok(match item.as_str() {
                Some("full_attention" | "attention" | "global" | "full") => Mixer::Full,
                Some("sliding_attention" | "local" | "sliding_window") => Mixer::Window,
                Some("chunked_attention") => Mixer::Chunk,
                Some("linear_attention") => Mixer::Linear,
                Some("mamba" | "mamba2") => Mixer::Mamba,
                Some("conv") => Mixer::Convolution,
                _ => {
                    return Err(fields.error(
                        name,
                        format!(
                            "{} is no kind of layer that vramgate knows; write the entry by hand",
                            shown(item)
                        ),
                    ));
                }
            })
        });
        return mixers.collect::<Result<Vec<_>, _>>().map(Some);
    }
    // MiniMax: 1 for softmax attention, 0 for lightning attention.
    if let Some(items) = fields.by_layer("attn_type_list", count)? {
        return zero_or_one(fields, "attn_type_list", items, Mixer::Full, Mixer::Linear).map(Some);
    }
    if let Some(blocks) = fields.by_layer("block_configs", count)? {
        return Ok(Some(blocks.iter().map(decilm).collect()));
    }
    // Bamba
    if let Some(items) = fields.list("attn_layer_indices")? {
        return of_indices(fields, "attn_layer_indices", items, count, 0, Mixer::Mamba).map(Some);
    }
    // Kimi-Linear numbers its layers from one.
    if let Some(own) = fields.child("linear_attn_config")? {
        let path = format!("{}linear_attn_config.", fields.path);
        let linear = Fields {
            own,
            path: &path,
            ..*fields
        };
        let items = linear
            .list("full_attn_layers")?
            .ok_or_else(|| linear.absent("full_attn_layers"))?;
        return of_indices(&linear, "full_attn_layers", items, count, 1, Mixer::Linear).map(Some);
    }
    // Llama 4: 1 for layers with rotary positions, which look back one chunk.
    if fields.value("attention_chunk_size").is_some() {
        return match fields.list("no_rope_layers")? {
            Some(items) if !items.is_empty() => {
                let items = fields.by_layer("no_rope_layers", count)?.unwrap_or(items);
                zero_or_one(fields, "no_rope_layers", items, Mixer::Chunk, Mixer::Full).map(Some)
            }
            _ => {
                let every = fields.number("no_rope_layer_interval", 1, 10_000)?.unwrap_or(4);
                Ok(Some(every_nth(count, every, Mixer::Full, Mixer::Chunk)))
            }
        };
    }
    Ok(None)
}

fn zero_or_one(
    fields: &Fields<'_>,
    name: &str,
    items: &[Value],
    one: Mixer,
    zero: Mixer,
) -> Result<Vec<Mixer>, ConfigError> {
    let mixers = items.iter().map(|item| match item.as_u64() {
        Some(1) => Ok(one),
        Some(0) => Ok(zero),
        _ => Err(fields.error(
            name,
            format!("{} is neither 0 nor 1; correct the list", shown(item)),
        )),
    });
    mixers.collect()
}

fn of_indices(
    fields: &Fields<'_>,
    name: &str,
    items: &[Value],
    count: usize,
    first: u64,
    others: Mixer,
) -> Result<Vec<Mixer>, ConfigError> {
    let mut mixers = vec![others; count];
    for item in items {
        let index = item.as_u64().and_then(|index| index.checked_sub(first));
        let layer = index
            .and_then(|index| usize::try_from(index).ok())
            .and_then(|index| mixers.get_mut(index));
        match layer {
            Some(layer) => *layer = Mixer::Full,
            None => return Err(fields.error(name, format!("{} is none of the {count} layers", shown(item)))),
        }
    }
    Ok(mixers)
}

/// One block of `DeciLM`: its attention may have been taken out, or replaced by a linear map.
fn decilm(block: &Value) -> Mixer {
    let attention = block.get("attention").unwrap_or(&Value::Null);
    let is = |name: &str| attention.get(name).and_then(Value::as_bool) == Some(true);
    if is("no_op") || is("replace_with_linear") {
        Mixer::None
    } else {
        Mixer::Full
    }
}

fn by_rule(fields: &Fields<'_>, family: &str, count: usize) -> Result<Vec<Mixer>, ConfigError> {
    let most = 10_000;
    if let Some(every) = fields.number("full_attention_interval", 1, most)? {
        return Ok(every_nth(count, every, Mixer::Full, Mixer::Linear));
    }
    if let Some(period) = fields.number("attn_layer_period", 1, most)? {
        let offset = fields.number("attn_layer_offset", 0, most)?.unwrap_or(0);
        let layers = 0..count as u64;
        return Ok(layers
            .map(|layer| {
                if layer % period == offset {
                    Mixer::Full
                } else {
                    Mixer::Mamba
                }
            })
            .collect());
    }
    for name in ["sliding_window_pattern", "_sliding_window_pattern"] {
        // EXAONE 4: `LLLG`
        if let Some(Value::String(text)) = fields.value(name) {
            if text.is_empty() || !text.chars().all(|letter| matches!(letter, 'L' | 'G')) {
                return Err(fields.error(name, "is no text of L and G; correct the pattern"));
            }
            let letters = text.chars().cycle().take(count);
            return Ok(letters
                .map(|letter| if letter == 'G' { Mixer::Full } else { Mixer::Window })
                .collect());
        }
        if let Some(every) = fields.number(name, 1, most)? {
            return Ok(every_nth(count, every, Mixer::Full, Mixer::Window));
        }
    }
    let pattern = match family {
        "gemma2" => Some(2),
        "gemma3" | "gemma3_text" => Some(6),
        "gemma3n" | "gemma3n_text" => Some(5),
        "cohere2" => Some(4),
        "gpt_oss" => {
            return Ok((0..count)
                .map(|layer| {
                    if layer % 2 == 0 {
                        Mixer::Window
                    } else {
                        Mixer::Full
                    }
                })
                .collect());
        }
        _ => None,
    };
    if let Some(every) = pattern {
        return Ok(every_nth(count, every, Mixer::Full, Mixer::Window));
    }
    if family.starts_with("gemma4") {
        return Err(fields.absent("layer_types"));
    }
    if fields.value("sliding_window").is_some() && fields.flag("use_sliding_window")? != Some(false) {
        // Qwen2: the first layers see everything.
        let full = match fields.flag("use_sliding_window")? {
            Some(_) => fields.number("max_window_layers", 0, most)?.unwrap_or(0),
            None => 0,
        };
        let layers = 0..count as u64;
        return Ok(layers
            .map(|layer| if layer < full { Mixer::Full } else { Mixer::Window })
            .collect());
    }
    let foreign = [
        "compress_ratios",
        "ssm_cfg",
        "mamba_d_state",
        "ssm_state_size",
        "state_size",
        "rwkv_version",
    ];
    if let Some(name) = foreign.into_iter().find(|name| fields.value(name).is_some()) {
        return Err(fields.error(
            name,
            "tells of layers with another cache than keys and values, and nothing tells which layers these are; write \
             the entry by hand, with kvBytesPerToken from a measured start",
        ));
    }
    Ok(vec![Mixer::Full; count])
}

fn every_nth(count: usize, every: u64, nth: Mixer, others: Mixer) -> Vec<Mixer> {
    let layers = 1..=count as u64;
    layers
        .map(|layer| if layer % every == 0 { nth } else { others })
        .collect()
}
