//! The format of the weights, from `quantization_config`.
//!
//! Source of the names: transformers' `quantizers/auto.py`, compressed-tensors' `CompressionFormat`, ModelOpt's
//! `hf_quant_config.json`.

use serde_json::{Map, Value};

use super::read::{ConfigError, Fields, shown};
use crate::model::Format;

/// The format that the file declares; none where the weights are as `torch_dtype` says.
pub(super) fn released(fields: &Fields<'_>) -> Result<Option<Format>, ConfigError> {
    let found = fields
        .anywhere("quantization_config")
        .or_else(|| fields.anywhere("compression_config"));
    let Some((path, value)) = found else {
        return Ok(None);
    };
    let Value::Object(map) = value else {
        return Err(ConfigError::new(
            path,
            format!("{} is not an object", shown(value)),
        ));
    };
    let prefix = format!("{path}.");
    let quantization = Fields {
        own: map,
        path: &prefix,
        outer: fields.outer,
        defaults: &[],
    };
    let Some(method) = quantization.text("quant_method")? else {
        // ModelOpt's own exports say only the algorithm.
        return match algorithm(&quantization)? {
            Some(format) => Ok(Some(format)),
            None => Err(quantization.absent("quant_method")),
        };
    };
    let lower = method.to_ascii_lowercase();
    let format = match lower.as_str() {
        "awq" => by_bits(&quantization, &[(4, Format::Awq4)])?,
        "gptq" => by_bits(&quantization, &[(4, Format::Gptq4), (8, Format::Gptq8)])?,
        "auto-round" | "autoround" | "intel/auto-round" | "inc" => {
            by_bits(&quantization, &[(4, Format::AutoRound4), (8, Format::Gptq8)])?
        }
        "fp8" | "fbgemm_fp8" => {
            // DeepSeek-V4 keeps its experts in four bits below a method that says eight.
            let experts = fields
                .anywhere("expert_dtype")
                .and_then(|(_, value)| value.as_str());
            if experts == Some("fp4") {
                Format::Fp4Fp8
            } else {
                Format::Fp8
            }
        }
        "mxfp4" => Format::Mxfp4,
        "bitsandbytes" => {
            let four = quantization
                .flag("load_in_4bit")?
                .or(quantization.flag("_load_in_4bit")?);
            let eight = quantization
                .flag("load_in_8bit")?
                .or(quantization.flag("_load_in_8bit")?);
            match (four, eight) {
                (Some(true), Some(true)) => {
                    return Err(quantization.error(
                        "load_in_8bit",
                        "true contradicts load_in_4bit, which is true as well; keep one",
                    ));
                }
                (Some(true), _) => Format::Bnb4,
                (_, Some(true)) => Format::Bnb8,
                _ => return Err(quantization.absent("load_in_4bit")),
            }
        }
        "modelopt" | "modelopt_fp4" | "nvfp4" => match algorithm(&quantization)? {
            Some(format) => format,
            None if lower == "modelopt" => return Err(quantization.absent("quant_algo")),
            None => Format::Nvfp4,
        },
        "compressed-tensors" | "compressed_tensors" => return compressed(&quantization),
        "torchao" => torchao(&quantization)?,
        _ => return Err(unknown(&quantization, "quant_method", method)),
    };
    Ok(Some(format))
}

fn unknown(fields: &Fields<'_>, name: &str, text: &str) -> ConfigError {
    let short: String = text.chars().take(60).collect();
    fields.error(
        name,
        format!(
            "{short:?} is no format that vramgate knows; take quantization_config out of a copy of the file, and write \
             `released` into the entry ({})",
            Format::ALL.map(Format::as_str).join(", ")
        ),
    )
}

fn by_bits(fields: &Fields<'_>, known: &[(u64, Format)]) -> Result<Format, ConfigError> {
    let name = if fields.value("bits").is_some() {
        "bits"
    } else {
        "w_bit"
    };
    let bits = fields.number(name, 1, 64)?.ok_or_else(|| fields.absent("bits"))?;
    known
        .iter()
        .find(|(width, _)| *width == bits)
        .map(|(_, format)| *format)
        .ok_or_else(|| unknown(fields, name, &format!("{bits} bits")))
}

/// ModelOpt's name of what it did, beside the method or one level deeper.
fn algorithm(fields: &Fields<'_>) -> Result<Option<Format>, ConfigError> {
    let text = match fields.text("quant_algo")? {
        Some(text) => Some(text),
        None => match fields.child("quantization")? {
            Some(own) => Fields {
                own,
                path: fields.path,
                outer: fields.outer,
                defaults: &[],
            }
            .text("quant_algo")?,
            None => None,
        },
    };
    let Some(text) = text else { return Ok(None) };
    let upper = text.to_ascii_uppercase();
    let format = match upper.as_str() {
        "FP8" | "FP8_PER_CHANNEL_PER_TOKEN" | "FP8_PB_WO" | "FP8_PB_REAL" | "FP8_BLOCK_SCALES" => Format::Fp8,
        "NVFP4" | "NVFP4_AWQ" | "W4A16_NVFP4" => Format::Nvfp4,
        "MXFP4" | "W4A8_MXFP4_FP8" => Format::Mxfp4,
        "W4A16" | "W4A16_AWQ" | "W4A8_AWQ" => Format::Awq4,
        "W8A8_SQ_PER_CHANNEL" | "W8A16" | "INT8_SQ" => Format::Int8,
        _ => return Err(unknown(fields, "quant_algo", text)),
    };
    Ok(Some(format))
}

fn torchao(fields: &Fields<'_>) -> Result<Format, ConfigError> {
    let text = match fields.value("quant_type") {
        None => return Err(fields.absent("quant_type")),
        Some(Value::String(text)) => text.to_ascii_lowercase(),
        Some(Value::Object(by_module)) => default_type(by_module).to_ascii_lowercase(),
        Some(other) => other.to_string(),
    };
    // Both spellings: `int4_weight_only` and `Int4WeightOnlyConfig`. The weight's type stands first where
    // activations have one of their own, except that dynamic activations are named before the weight.
    let weight = text.rsplit("activation").next().unwrap_or(&text);
    if weight.contains("int4") {
        Ok(Format::Int4)
    } else if weight.contains("float8") {
        Ok(Format::Fp8)
    } else if weight.contains("int8") {
        Ok(Format::Int8)
    } else {
        Err(unknown(fields, "quant_type", &text))
    }
}

fn default_type(by_module: &Map<String, Value>) -> String {
    let default = by_module.get("default").unwrap_or(&Value::Null);
    match default
        .get("_type")
        .or_else(|| default.get("type"))
        .unwrap_or(default)
    {
        Value::String(text) => text.clone(),
        other => shown(other),
    }
}

fn compressed(fields: &Fields<'_>) -> Result<Option<Format>, ConfigError> {
    let whole = fields.text("format")?.unwrap_or_default();
    let groups = fields.child("config_groups")?;
    let mut widest: Option<Format> = None;
    for (name, group) in groups.into_iter().flatten() {
        let Value::Object(own) = group else {
            return Err(fields.error("config_groups", format!("{} is not an object", shown(group))));
        };
        let path = format!("{}config_groups.{name}.", fields.path);
        let group = Fields {
            own,
            path: &path,
            outer: fields.outer,
            defaults: &[],
        };
        let Some(weights) = group.child("weights")? else {
            continue;
        };
        let format = group.text("format")?.unwrap_or(whole);
        let path = format!("{path}weights.");
        let weights = Fields {
            own: weights,
            path: &path,
            outer: fields.outer,
            defaults: &[],
        };
        let format = of_group(&weights, format)?;
        // Groups of several widths: the widest errs on the safe side.
        if widest.is_none_or(|known| bits(known) < bits(format)) {
            widest = Some(format);
        }
    }
    match (widest, whole) {
        (Some(format), _) => Ok(Some(format)),
        (None, "nvfp4-pack-quantized") => Ok(Some(Format::Nvfp4)),
        (None, "mxfp4-pack-quantized") => Ok(Some(Format::Mxfp4)),
        (None, "float-quantized") => Ok(Some(Format::Fp8)),
        (None, "int-quantized") => Ok(Some(Format::Int8)),
        // Sparse only, or scales of the cache only.
        (None, "dense" | "sparse-24-bitmask") => Ok(None),
        (None, _) => Err(fields.absent("config_groups")),
    }
}

fn of_group(weights: &Fields<'_>, format: &str) -> Result<Format, ConfigError> {
    let bits = weights
        .number("num_bits", 1, 64)?
        .ok_or_else(|| weights.absent("num_bits"))?;
    let kind = weights.text("type")?.unwrap_or("int");
    match (bits, kind, format) {
        (4, "float", "mxfp4-pack-quantized") => Ok(Format::Mxfp4),
        (4, "float", _) => Ok(Format::Nvfp4),
        (8, "float", _) => Ok(Format::Fp8),
        (4, "int", _) => Ok(Format::W4a16),
        (8, "int", _) => Ok(Format::Int8),
        _ => Err(unknown(
            weights,
            "num_bits",
            &format!("{bits} bits of type {kind}"),
        )),
    }
}

/// Order of the formats above by width.
const fn bits(format: Format) -> u8 {
    match format {
        Format::W4a16 => 1,
        Format::Mxfp4 => 2,
        Format::Nvfp4 => 3,
        _ => 4,
    }
}
