use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::model::Format;
use crate::model::mutation::mutate;

/// Llama-3.1-8B.
fn llama() -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128_256,
        "max_position_embeddings": 131_072, "torch_dtype": "bfloat16", "tie_word_embeddings": false
    })
}

fn with(changes: &Value) -> Value {
    let mut config = llama();
    for (name, value) in changes.as_object().unwrap() {
        config[name] = value.clone();
    }
    config
}

fn read(config: &Value) -> Result<Model, String> {
    from_config(&config.to_string(), "test").map_err(|error| error.to_string())
}

fn refused(changes: &Value, what: &str) {
    let error = read(&with(changes)).unwrap_err();
    assert!(error.contains(what), "{error:?} does not say {what:?}");
}

#[test]
fn parameters_of_a_plain_model_are_exact() {
    assert_eq!(read(&llama()).unwrap().parameters, 8_030_261_248);
}

#[test]
fn an_absent_field_is_named() {
    for name in [
        "model_type",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "max_position_embeddings",
        "torch_dtype",
        "vocab_size",
        "intermediate_size",
    ] {
        let mut config = llama();
        config.as_object_mut().unwrap().remove(name);
        let error = read(&config).unwrap_err();
        assert!(
            error.starts_with(&format!("{name}: is absent")),
            "{name}: {error}"
        );
    }
    let mut config = with(&json!({"model_type": "mistral"}));
    config.as_object_mut().unwrap().remove("num_key_value_heads");
    assert!(
        read(&config)
            .unwrap_err()
            .starts_with("num_key_value_heads: is absent")
    );
    config["model_type"] = "llama".into();
    assert_eq!(read(&config).unwrap().num_key_value_heads, 32);
}

#[test]
fn contradictions_name_field_and_value() {
    refused(
        &json!({"num_key_value_heads": 7}),
        "num_key_value_heads: 7 does not divide num_attention_heads, which is 32",
    );
    refused(
        &json!({"num_attention_heads": 24, "num_key_value_heads": 8}),
        "24 does not divide hidden_size, which is 4096",
    );
    refused(
        &json!({"num_hidden_layers": 0}),
        "num_hidden_layers: 0 is not a whole number from 1",
    );
    refused(
        &json!({"hidden_size": 1_000_000_000_000_u64}),
        "hidden_size: 1000000000000 is not",
    );
    refused(&json!({"hidden_size": -4096}), "hidden_size: -4096 is not");
    refused(&json!({"hidden_size": 4096.5}), "hidden_size: 4096.5 is not");
    refused(&json!({"hidden_size": "4096"}), "hidden_size: \"4096\" is not");
    refused(&json!({"hidden_size": [4096]}), "hidden_size: a list of 1 is not");
    refused(
        &json!({"n_embd": 2048}),
        "n_embd: 2048 contradicts hidden_size, which is 4096",
    );
    refused(
        &json!({"layer_types": ["full_attention"]}),
        "layer_types: has 1 values for 32 layers",
    );
    refused(
        &json!({"layer_types": vec!["odd"; 32]}),
        "layer_types: \"odd\" is no kind of layer",
    );
    refused(
        &json!({"layer_types": vec!["sliding_attention"; 32]}),
        "sliding_window: is absent",
    );
    refused(
        &json!({"hybrid_override_pattern": "M*-"}),
        "hybrid_override_pattern: has 3 letters for 32 layers",
    );
    refused(
        &json!({"hybrid_override_pattern": "?".repeat(32)}),
        "'?' is none of",
    );
    refused(
        &json!({"num_local_experts": 8, "num_experts_per_tok": 9}),
        "num_experts_per_tok: 9 is more than num_local_experts",
    );
    refused(&json!({"num_local_experts": 8}), "num_experts_per_tok: is absent");
    refused(&json!({"kv_lora_rank": 512}), "qk_rope_head_dim: is absent");
    refused(
        &json!({"kv_lora_rank": 512, "qk_rope_head_dim": 64}),
        "qk_nope_head_dim: is absent",
    );
    refused(
        &json!({"torch_dtype": "int8"}),
        "torch_dtype: \"int8\" is none of",
    );
    refused(
        &json!({"tie_word_embeddings": "yes"}),
        "tie_word_embeddings: \"yes\" is not",
    );
    refused(
        &json!({"num_kv_shared_layers": 32}),
        "num_kv_shared_layers: 32 of 32 layers",
    );
    refused(
        &json!({"compress_ratios": [4, 128]}),
        "compress_ratios: tells of layers with another cache",
    );
    refused(&json!({"peft_type": "LORA"}), "base_model_name_or_path");
    refused(
        &json!({"model_type": "strange", "hidden_act": "gelu"}),
        "model_type: \"strange\" is a family",
    );
    refused(
        &json!({"vision_config": {"model_type": "odd"}}),
        "vision_config.hidden_size: is a part",
    );
    refused(
        &json!({"num_local_experts": 65535, "num_experts_per_tok": 1, "intermediate_size": 4_194_304, "hidden_size": 4_194_304}),
        "which no model has",
    );
    refused(
        &json!({"attn_type_list": vec![2; 32]}),
        "attn_type_list: 2 is neither 0 nor 1",
    );
    refused(
        &json!({"attn_layer_indices": [40]}),
        "attn_layer_indices: 40 is none of the 32 layers",
    );
}

#[test]
fn what_is_no_object_is_refused() {
    let error = |text: &str| from_config(text, "test").unwrap_err().to_string();
    assert!(error("").contains("no readable JSON"));
    assert!(error("[]").contains("no JSON object"));
    assert!(error("{\"hidden_size\": 1, \"hidden_size\": 2}").contains("stands twice"));
    assert!(error(&"[".repeat(4 << 20)).contains("no readable JSON"));
    assert!(error(&" ".repeat(MAX_BYTES + 1)).contains("at most"));
    let many = format!("{{\"a\": [{}0]}}", "0,".repeat(300_000));
    assert!(error(&many).contains("more than 200000 values"));
}

#[test]
fn the_released_format_is_read() {
    let released = |quantization: Value| {
        read(&with(&json!({"quantization_config": quantization}))).map(|model| model.released)
    };
    let group = |bits: u32, kind: &str| json!({"group_0": {"weights": {"num_bits": bits, "type": kind}}});
    for (quantization, format) in [
        (
            json!({"quant_method": "awq", "bits": 4, "group_size": 128}),
            Some(Format::Awq4),
        ),
        (json!({"quant_method": "awq", "w_bit": 4}), Some(Format::Awq4)),
        (json!({"quant_method": "gptq", "bits": 4}), Some(Format::Gptq4)),
        (json!({"quant_method": "gptq", "bits": 8}), Some(Format::Gptq8)),
        (json!({"quant_method": "fp8"}), Some(Format::Fp8)),
        (json!({"quant_method": "fbgemm_fp8"}), Some(Format::Fp8)),
        (json!({"quant_method": "mxfp4"}), Some(Format::Mxfp4)),
        (
            json!({"quant_method": "auto-round", "bits": 4}),
            Some(Format::AutoRound4),
        ),
        (
            json!({"quant_method": "bitsandbytes", "load_in_4bit": true}),
            Some(Format::Bnb4),
        ),
        (
            json!({"quant_method": "bitsandbytes", "load_in_8bit": true, "load_in_4bit": false}),
            Some(Format::Bnb8),
        ),
        (
            json!({"quant_method": "modelopt", "quant_algo": "NVFP4"}),
            Some(Format::Nvfp4),
        ),
        (
            json!({"quant_method": "modelopt", "quantization": {"quant_algo": "FP8"}}),
            Some(Format::Fp8),
        ),
        (
            json!({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig"}}}),
            Some(Format::Int4),
        ),
        (
            json!({"quant_method": "torchao", "quant_type": "int8_dynamic_activation_int4_weight"}),
            Some(Format::Int4),
        ),
        (
            json!({"quant_method": "torchao", "quant_type": "float8_weight_only"}),
            Some(Format::Fp8),
        ),
        (
            json!({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": group(4, "int")}),
            Some(Format::W4a16),
        ),
        (
            json!({"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": group(8, "int")}),
            Some(Format::Int8),
        ),
        (
            json!({"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": group(8, "float")}),
            Some(Format::Fp8),
        ),
        (
            json!({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "config_groups": group(4, "float")}),
            Some(Format::Nvfp4),
        ),
        (
            json!({"quant_method": "compressed-tensors", "format": "mixed-precision", "config_groups": {
                "group_0": {"weights": {"num_bits": 4, "type": "float"}},
                "group_1": {"weights": {"num_bits": 8, "type": "float"}}}}),
            Some(Format::Fp8),
        ),
        (
            json!({"quant_method": "compressed-tensors", "format": "dense"}),
            None,
        ),
    ] {
        assert_eq!(released(quantization.clone()), Ok(format), "{quantization}");
    }
}

#[test]
fn a_format_that_is_not_known_is_named() {
    let group = |bits: u32, kind: &str| json!({"group_0": {"weights": {"num_bits": bits, "type": kind}}});
    for (quantization, what) in [
        (
            json!({"quant_method": "aqlm"}),
            "quantization_config.quant_method: \"aqlm\" is no format",
        ),
        (
            json!({"quant_method": "gptq", "bits": 3}),
            "quantization_config.bits: \"3 bits\" is no format",
        ),
        (
            json!({"quant_method": "gptq"}),
            "quantization_config.bits: is absent",
        ),
        (json!({}), "quantization_config.quant_method: is absent"),
        (json!({"quant_method": "bitsandbytes"}), "load_in_4bit: is absent"),
        (json!({"quant_method": "modelopt"}), "quant_algo: is absent"),
        (json!("awq"), "quantization_config: \"awq\" is not an object"),
        (
            json!({"quant_method": 4}),
            "quantization_config.quant_method: 4 is not a text",
        ),
        (
            json!({"quant_method": "compressed-tensors"}),
            "config_groups: is absent",
        ),
        (
            json!({"quant_method": "compressed-tensors", "config_groups": group(3, "int")}),
            "config_groups.group_0.weights.num_bits",
        ),
    ] {
        refused(&json!({"quantization_config": quantization}), what);
    }
}

#[test]
fn layers_of_every_spelling() {
    let of = |changes: Value| {
        let model = read(&with(&changes)).unwrap();
        (
            model.full_attention_layers,
            model.attention_layers,
            model.sliding_window.or(model.attention_chunk_size),
        )
    };
    assert_eq!(
        of(json!({"model_type": "mistral", "sliding_window": 4096})),
        (Some(0), None, Some(4096))
    );
    assert_eq!(
        of(json!({"model_type": "mistral", "sliding_window": 131_072})),
        (None, None, None)
    );
    assert_eq!(
        of(
            json!({"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": true, "max_window_layers": 20})
        ),
        (Some(20), None, Some(4096))
    );
    assert_eq!(
        of(json!({"sliding_window": 4096, "use_sliding_window": false})),
        (None, None, None)
    );
    assert_eq!(
        of(json!({"sliding_window": 4096, "sliding_window_pattern": "LLLG"})),
        (Some(8), None, Some(4096))
    );
    assert_eq!(
        of(json!({"model_type": "cohere2", "sliding_window": 4096})),
        (Some(8), None, Some(4096))
    );
    assert_eq!(
        of(json!({"attention_chunk_size": 8192, "no_rope_layers": []})),
        (Some(8), None, Some(8192))
    );
    let types: Vec<&str> = (0..32)
        .map(|layer| if layer % 8 == 0 { "attention" } else { "mamba" })
        .collect();
    assert_eq!(
        of(json!({
            "model_type": "granitemoehybrid", "layer_types": types, "mamba_n_heads": 128, "mamba_d_head": 64,
            "mamba_d_state": 128, "mamba_n_groups": 1, "mamba_d_conv": 4, "shared_intermediate_size": 1024
        })),
        (Some(4), Some(4), None)
    );
}

#[test]
fn blocks_of_different_heads_state_their_cache() {
    let mut blocks = vec![json!({"attention": {"n_heads_in_group": 8}, "ffn": {"ffn_mult": 5.25}}); 16];
    blocks.extend(vec![
        json!({"attention": {"no_op": true}, "ffn": {"ffn_mult": 2.625}});
        12
    ]);
    blocks.extend(vec![
        json!({"attention": {"n_heads_in_group": 16}, "ffn": {"no_op": true}});
        4
    ]);
    let model = read(&with(
        &json!({"model_type": "nemotron-nas", "block_configs": blocks}),
    ))
    .unwrap();
    assert_eq!((model.attention_layers, model.num_key_value_heads), (Some(20), 4));
    assert_eq!(model.kv_bytes_per_token, Some(2 * 2 * 128 * (16 * 4 + 4 * 2)));
    // 2 x 5.25 x 4096 / 3, as Llama's own 14336.
    assert_eq!(model.intermediate_size, Some(14336));
    let bad = json!({"block_configs": vec![json!({"attention": {"n_heads_in_group": 5}}); 32]});
    refused(&bad, "n_heads_in_group 5 does not divide 32 heads");
}

proptest! {
    #[test]
    fn arbitrary_texts_never_panic(text in ".{0,200}") {
        let _ = from_config(&text, "test");
    }

    #[test]
    fn arbitrary_values_never_panic(
        name in proptest::sample::select(vec![
            "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size",
            "intermediate_size", "num_local_experts", "num_experts_per_tok", "kv_lora_rank", "qk_rope_head_dim",
            "layer_types", "sliding_window", "full_attention_interval", "linear_num_value_heads", "block_configs",
            "vision_config", "text_config", "quantization_config", "hybrid_override_pattern", "moe_layer_freq",
            "attention_chunk_size", "no_rope_layers", "mamba_n_heads", "model_type", "num_nextn_predict_layers",
            "num_kv_shared_layers", "global_head_dim", "linear_attn_config", "hidden_size_per_layer_input",
        ]),
        number in prop_oneof![any::<i64>(), 0_i64..100, Just(4_194_304), Just(65_536), Just(268_435_456)],
        shape in 0_u8..5,
    ) {
        let value = match shape {
            0 => json!(number),
            1 => json!(number.to_string()),
            2 => json!([number]),
            3 => json!({"hidden_size": number, "num_hidden_layers": number, "intermediate_size": number}),
            _ => json!(vec![number; 32]),
        };
        let _ = read(&with(&json!({name: value})));
    }
}

/// A million changed files; by hand: `cargo test --lib model:: -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn a_million_changed_files() {
    let moe = include_str!("../../../tests/data/models/qwen3.5-35b-a3b.json");
    let latent = include_str!("../../../tests/data/models/deepseek-v3.2.json");
    let hybrid = include_str!("../../../tests/data/models/nemotron-3-nano-30b-a3b.json");
    for valid in [moe, latent, hybrid, &llama().to_string()] {
        let accepted = mutate(valid.as_bytes(), valid.len(), 250_000, &mut |bytes| {
            std::str::from_utf8(bytes).is_ok_and(|text| from_config(text, "test").is_ok())
        });
        assert!(accepted > 0);
    }
}
