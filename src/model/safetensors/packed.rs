//! What tensors mean: parameters behind packed ones, the format, and the shape of the model as far as names tell it.

use super::{SafetensorsError, Tensor, Tensors};
use crate::model::{Format, Model};

/// Scales of bitsandbytes' 8-bit weights.
const BNB_SCALES: &str = ".SCB";
/// Ends of names that hold what packing needs, and no parameters.
const AUXILIARY: [&str; 22] = [
    ".qzeros",
    ".scales",
    ".g_idx",
    ".weight_scale",
    ".weight_scale_2",
    ".weight_scale_inv",
    ".input_scale",
    ".weight_global_scale",
    ".input_global_scale",
    ".weight_zero_point",
    ".weight_g_idx",
    ".weight_shape",
    ".k_scale",
    ".v_scale",
    ".absmax",
    ".quant_map",
    ".nested_absmax",
    ".nested_quant_map",
    BNB_SCALES,
    ".weight_format",
    ".inv_freq",
    ".pre_quant_scale",
];

/// Prefixes of the text model's layers, with and without a tower beside them.
const PREFIXES: [&str; 4] = [
    "model.language_model.",
    "language_model.model.",
    "language_model.",
    "model.",
];

fn bits_of(format: Format) -> Option<u64> {
    match format {
        Format::Awq4 | Format::Gptq4 | Format::AutoRound4 | Format::W4a16 | Format::Int4 => Some(4),
        Format::Gptq8 | Format::Int8 => Some(8),
        _ => None,
    }
}

impl Tensor {
    fn elements(&self) -> u128 {
        self.shape.iter().map(|size| u128::from(*size)).product()
    }

    fn dimension(&self, at: usize) -> Option<u128> {
        self.shape.get(at).map(|size| u128::from(*size))
    }
}

/// Shape of a checkpoint as its names tell it; absent where they do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Width of the embedding.
    pub hidden_size: Option<u64>,
    /// Rows of the embedding, padding included.
    pub vocab_size: Option<u64>,
    /// Layers, draft layers included.
    pub layers: u64,
    /// Query heads times their width.
    pub query_width: Option<u64>,
    /// Key heads times their width.
    pub kv_width: Option<u64>,
    /// Width of a dense MLP.
    pub intermediate_size: Option<u64>,
    /// Experts of a layer.
    pub experts: u64,
}

impl Tensors {
    /// Parameters, those behind packed tensors counted one by one. `format` is what `config.json` says, which tells how
    /// many are in a word.
    ///
    /// # Errors
    /// Names a packed tensor whose parameters cannot be told.
    pub fn parameters(&self, format: Option<Format>) -> Result<u64, SafetensorsError> {
        let mut total = 0_u128;
        for (name, tensor) in &self.by_name {
            total += self.parameters_of(name, tensor, format).ok_or_else(|| {
                SafetensorsError::new(format!(
                    "{name:?}: is packed, and nothing tells how many parameters are in a word; give the config.json with \
                     its quantization_config as well"
                ))
            })?;
        }
        u64::try_from(total).map_err(|_| SafetensorsError::new("has more parameters than any model"))
    }

    fn parameters_of(&self, name: &str, tensor: &Tensor, format: Option<Format>) -> Option<u128> {
        let is_auxiliary = AUXILIARY.iter().any(|end| name.ends_with(end))
            || name.contains(".quant_state.")
            || name.ends_with("_scales") && tensor.dtype == "U8";
        if is_auxiliary {
            return Some(0);
        }
        let elements = tensor.elements();
        if let Some(module) = name.strip_suffix(".qweight") {
            return self.parameters_of_words(module, tensor).or_else(|| {
                let bits = format.and_then(bits_of)?;
                Some(elements * 32 / u128::from(bits))
            });
        }
        if name.ends_with(".weight_packed") {
            return match tensor.dtype.as_str() {
                // NVFP4 and MXFP4: two in a byte.
                "U8" => Some(elements * 2),
                _ => format
                    .and_then(bits_of)
                    .map(|bits| elements * 32 / u128::from(bits)),
            };
        }
        if name.ends_with("_blocks") && tensor.dtype == "U8" {
            return Some(elements * 2);
        }
        if tensor.dtype == "U8" && name.ends_with(".weight") {
            let is_half = self.contains(&format!("{name}.absmax")) || self.contains(&format!("{name}_scale"));
            return is_half.then_some(elements * 2);
        }
        if tensor.dtype == "U8" && tensor.shape.len() > 1 {
            return None;
        }
        Some(elements)
    }

    /// AWQ packs along the outputs, GPTQ along the inputs; scales and group indices show the unpacked side.
    fn parameters_of_words(&self, module: &str, words: &Tensor) -> Option<u128> {
        let scales = self.by_name.get(&format!("{module}.scales"))?;
        let (rows, columns) = (words.dimension(0)?, words.dimension(1)?);
        let outputs = scales.dimension(1)?;
        if outputs != columns {
            return Some(rows * outputs);
        }
        let inputs = self.by_name.get(&format!("{module}.g_idx"))?.dimension(0)?;
        Some(inputs * outputs)
    }

    /// The format that names and types show; none where everything is unpacked.
    #[must_use]
    pub fn format(&self) -> Option<Format> {
        let has = |end: &str, dtype: &str| {
            self.by_name
                .iter()
                .any(|(name, tensor)| name.ends_with(end) && tensor.dtype == dtype)
        };
        if has(".qweight", "I32") {
            let is_gptq = self.by_name.keys().any(|name| name.ends_with(".g_idx"));
            return Some(if is_gptq { Format::Gptq4 } else { Format::Awq4 });
        }
        if has(".weight_packed", "U8") {
            return Some(Format::Nvfp4);
        }
        if has(".weight_packed", "I32") {
            return Some(Format::W4a16);
        }
        if has("_blocks", "U8") {
            return Some(Format::Mxfp4);
        }
        if has(".weight", "U8") {
            let is_bnb = self.by_name.keys().any(|name| name.ends_with(".absmax"));
            return Some(if is_bnb { Format::Bnb4 } else { Format::Nvfp4 });
        }
        if has(".weight", "I8") {
            let is_bnb = has(BNB_SCALES, "F32") || has(BNB_SCALES, "F16");
            return Some(if is_bnb { Format::Bnb8 } else { Format::Int8 });
        }
        has(".weight", "F8_E4M3").then_some(Format::Fp8)
    }

    /// The shape of the text model, from standard names and unpacked tensors.
    #[must_use]
    pub fn shape(&self) -> Shape {
        let mut shape = Shape::default();
        for (name, tensor) in &self.by_name {
            let inner = PREFIXES
                .iter()
                .find_map(|prefix| name.strip_prefix(prefix))
                .unwrap_or(name);
            let is_plain = matches!(tensor.dtype.as_str(), "BF16" | "F16" | "F32" | "F8_E4M3");
            let rows = tensor.shape.first().copied().filter(|_| is_plain);
            if inner == "embed_tokens.weight" {
                shape.vocab_size = rows;
                shape.hidden_size = tensor.shape.get(1).copied().filter(|_| is_plain);
                continue;
            }
            let Some((number, part)) = inner
                .strip_prefix("layers.")
                .and_then(|rest| rest.split_once('.'))
            else {
                continue;
            };
            let Ok(number) = number.parse::<u32>() else {
                continue;
            };
            shape.layers = shape.layers.max(u64::from(number) + 1);
            match part {
                "self_attn.q_proj.weight" => shape.query_width = shape.query_width.max(rows),
                "self_attn.k_proj.weight" => shape.kv_width = shape.kv_width.max(rows),
                "mlp.gate_proj.weight" => shape.intermediate_size = shape.intermediate_size.max(rows),
                _ => {
                    let expert = part
                        .split_once("experts.")
                        .and_then(|(_, rest)| rest.split_once('.'));
                    if let Some(number) = expert.and_then(|(number, _)| number.parse::<u32>().ok()) {
                        shape.experts = shape.experts.max(u64::from(number) + 1);
                    }
                }
            }
        }
        shape
    }
}

impl Shape {
    /// What the names tell, in words; empty where they tell nothing.
    #[must_use]
    pub fn in_words(&self) -> String {
        let mut words = Vec::new();
        if self.layers > 0 {
            words.push(format!("{} layers", self.layers));
        }
        for (name, value) in [
            ("hidden_size", self.hidden_size),
            ("vocab_size", self.vocab_size),
            ("query width", self.query_width),
            ("key width", self.kv_width),
            ("intermediate_size", self.intermediate_size),
            ("experts", Some(self.experts).filter(|experts| *experts > 0)),
        ] {
            words.extend(value.map(|value| format!("{name} {value}")));
        }
        words.join(", ")
    }

    /// The first field in which a model differs from these tensors: both come from one checkpoint, or they do not.
    #[must_use]
    pub fn contradiction(&self, model: &Model) -> Option<String> {
        let differs = |name: &str, tensors: Option<u64>, stated: u64| {
            tensors
                .filter(|number| *number != stated)
                .map(|number| format!("{name}: config.json says {stated}, and the tensors say {number}"))
        };
        let width = u64::from(model.head_width());
        let heads = u64::from(model.num_attention_heads);
        let is_ordinary =
            model.latent.is_none() && model.global_head_dim.is_none() && model.kv_bytes_per_token.is_none();
        differs("hidden_size", self.hidden_size, model.hidden_size.into())
            .or_else(|| {
                let stated = u64::from(model.num_hidden_layers);
                differs(
                    "num_hidden_layers",
                    Some(self.layers).filter(|layers| *layers > 0 && *layers < stated),
                    stated,
                )
            })
            .or_else(|| {
                let wide = self
                    .query_width
                    .filter(|query| is_ordinary && *query != 2 * heads * width);
                differs("num_attention_heads x head_dim", wide, heads * width)
            })
            .or_else(|| {
                let kv = self.kv_width.filter(|_| is_ordinary);
                differs(
                    "num_key_value_heads x head_dim",
                    kv,
                    u64::from(model.num_key_value_heads) * width,
                )
            })
            .or_else(|| {
                let count = model.experts.map_or(0, |experts| u64::from(experts.count));
                differs(
                    "num_experts",
                    Some(self.experts).filter(|experts| *experts > 0),
                    count,
                )
            })
    }
}
