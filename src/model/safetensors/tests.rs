use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::model::Format;
use crate::model::mutation::mutate;

fn file(header: &str) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes
}

/// A header with tensors one behind the other.
fn header(tensors: &[(&str, &str, &[u64])]) -> String {
    let mut text = "{\"__metadata__\": {\"format\": \"pt\"}".to_owned();
    let mut next = 0;
    for (name, dtype, shape) in tensors {
        let end = next + (shape.iter().product::<u64>() * bits(dtype).unwrap()).div_ceil(8);
        write!(text, ", \"{name}\": {{\"dtype\": \"{dtype}\", \"shape\": {shape:?}, \"data_offsets\": [{next}, {end}]}}").unwrap();
        next = end;
    }
    text.push('}');
    text
}

fn tensors(list: &[(&str, &str, &[u64])]) -> Tensors {
    parse(&file(&header(list)), None).unwrap()
}

fn small() -> String {
    header(&[
        ("model.embed_tokens.weight", "BF16", &[1000, 64]),
        ("model.layers.0.self_attn.q_proj.weight", "BF16", &[128, 64]),
        ("model.layers.0.self_attn.k_proj.weight", "BF16", &[32, 64]),
        ("model.layers.1.mlp.gate_proj.weight", "BF16", &[256, 64]),
        ("model.layers.1.mlp.experts.7.gate_proj.weight", "BF16", &[96, 64]),
        ("model.norm.weight", "F32", &[64]),
    ])
}

#[test]
fn parameters_and_bytes_are_exact() {
    let bytes = file(&small());
    let tensors = parse(&bytes, None).unwrap();
    let half = 1000 * 64 + 128 * 64 + 32 * 64 + 256 * 64 + 96 * 64;
    assert_eq!(tensors.parameters(None).unwrap(), half + 64);
    assert_eq!(tensors.bytes, 2 * half + 4 * 64);
    assert_eq!(tensors.bytes_by_dtype["F32"], 256);
    assert_eq!(tensors.torch_dtype(), Some(Dtype::Bfloat16));
    assert_eq!(tensors.format(), None);
    assert_eq!(
        tensors.shape(),
        Shape {
            hidden_size: Some(64),
            vocab_size: Some(1000),
            layers: 2,
            query_width: Some(128),
            kv_width: Some(32),
            intermediate_size: Some(256),
            experts: 8,
        }
    );
    let whole = bytes.len() as u64 + tensors.bytes;
    assert!(parse(&bytes, Some(whole)).is_ok());
    assert!(
        parse(&bytes, Some(whole - 1))
            .unwrap_err()
            .to_string()
            .contains("download it again")
    );
}

#[test]
fn packed_tensors_are_counted_one_by_one() {
    let gptq = tensors(&[
        ("a.g_idx", "I32", &[256]),
        ("a.qweight", "I32", &[32, 512]),
        ("a.qzeros", "I32", &[2, 64]),
        ("a.scales", "F16", &[2, 512]),
    ]);
    assert_eq!(
        (gptq.parameters(None).unwrap(), gptq.format()),
        (256 * 512, Some(Format::Gptq4))
    );
    let awq = tensors(&[
        ("a.qweight", "I32", &[256, 64]),
        ("a.qzeros", "I32", &[2, 64]),
        ("a.scales", "F16", &[2, 512]),
    ]);
    assert_eq!(
        (awq.parameters(None).unwrap(), awq.format()),
        (256 * 512, Some(Format::Awq4))
    );
    let w4a16 = tensors(&[
        ("a.weight_packed", "I32", &[512, 32]),
        ("a.weight_scale", "BF16", &[512, 2]),
        ("a.weight_shape", "I64", &[2]),
    ]);
    assert_eq!(w4a16.parameters(Some(Format::W4a16)).unwrap(), 512 * 256);
    assert_eq!(w4a16.parameters(Some(Format::Int8)).unwrap(), 512 * 128);
    assert!(
        w4a16
            .parameters(None)
            .unwrap_err()
            .to_string()
            .contains("quantization_config")
    );
    let nvfp4 = tensors(&[
        ("a.weight", "U8", &[512, 128]),
        ("a.weight_scale", "F8_E4M3", &[512, 16]),
        ("a.weight_scale_2", "F32", &[]),
    ]);
    assert_eq!(
        (nvfp4.parameters(None).unwrap(), nvfp4.format()),
        (512 * 256, Some(Format::Nvfp4))
    );
    let mxfp4 = tensors(&[
        ("e.gate_up_proj_blocks", "U8", &[4, 64, 2, 16]),
        ("e.gate_up_proj_scales", "U8", &[4, 64, 2]),
    ]);
    assert_eq!(
        (mxfp4.parameters(None).unwrap(), mxfp4.format()),
        (4 * 64 * 64, Some(Format::Mxfp4))
    );
    let bnb = tensors(&[
        ("a.weight", "U8", &[65536, 1]),
        ("a.weight.absmax", "U8", &[2048]),
        ("a.weight.quant_map", "F32", &[16]),
        ("a.weight.quant_state.bitsandbytes__nf4", "U8", &[90]),
    ]);
    assert_eq!(
        (bnb.parameters(None).unwrap(), bnb.format()),
        (131_072, Some(Format::Bnb4))
    );
    let fp8 = tensors(&[
        ("a.weight", "F8_E4M3", &[256, 256]),
        ("a.weight_scale_inv", "F32", &[2, 2]),
    ]);
    assert_eq!(
        (fp8.parameters(None).unwrap(), fp8.format()),
        (65_536, Some(Format::Fp8))
    );
}

#[test]
fn what_is_cut_off_is_an_error_at_every_byte() {
    let bytes = file(&small());
    for length in 0..bytes.len() {
        assert!(parse(&bytes[..length], None).is_err(), "{length}");
    }
    assert!(parse(&bytes, None).is_ok());
}

#[test]
fn lies_are_refused() {
    let refused = |text: &str, what: &str| {
        let error = parse(&file(text), None).unwrap_err().to_string();
        assert!(error.contains(what), "{error:?} does not say {what:?}");
    };
    let one = |shape: &str, begin: u64, end: u64| {
        format!("{{\"a\": {{\"dtype\": \"BF16\", \"shape\": {shape}, \"data_offsets\": [{begin}, {end}]}}}}")
    };
    assert!(parse(&file(&one("[2, 3]", 0, 12)), None).is_ok());
    refused(&one("[2, 3]", 0, 13), "does not have the size");
    refused(&one("[2, 3]", 12, 0), "does not have the size");
    refused(&one("[2, 3]", 2, 14), "begins at 2");
    refused(&one("[4294967296, 4294967296]", 0, 12), "does not have the size");
    refused(&one("[9223372036854775808]", 0, 12), "does not have the size");
    refused(&one("[-2, 3]", 0, 12), "\"a\"");
    refused(&one("[2.5]", 0, 5), "\"a\"");
    refused(
        &one("[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", 0, 2),
        "more than 16 dimensions",
    );
    refused(
        &one("[2, 3]", 0, 12).replace("BF16", "BF17"),
        "\"BF17\" is not known",
    );
    let twice = one("[1]", 0, 2);
    refused(
        &format!("{}, {}", &twice[..twice.len() - 1], &twice[1..]),
        "\"a\" stands twice",
    );
    refused("{\"__metadata__\": {}, \"__metadata__\": {}}", "stands twice");
    refused("[]", "cannot be read");
    refused(
        &format!("{{\"__metadata__\": {}", "[".repeat(100_000)),
        "cannot be read",
    );
    let mut bytes = file(&small());
    bytes[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(
        parse(&bytes, None)
            .unwrap_err()
            .to_string()
            .contains("18446744073709551615")
    );
    bytes[..8].copy_from_slice(&90_000_000_u64.to_le_bytes());
    assert!(
        parse(&bytes, None)
            .unwrap_err()
            .to_string()
            .contains("90000000 bytes is expected")
    );
    let error = parse(&bytes, Some(1000)).unwrap_err().to_string();
    assert!(error.contains("the file has 1000 bytes"), "{error}");
}

#[test]
fn files_of_one_checkpoint_add_up() {
    let mut first = tensors(&[("a", "BF16", &[8])]);
    first.add(tensors(&[("b", "F32", &[8])])).unwrap();
    assert_eq!(
        (first.bytes, first.parameters(None).unwrap(), first.len()),
        (48, 16, 2)
    );
    assert!(
        first
            .add(tensors(&[("b", "F32", &[8])]))
            .unwrap_err()
            .to_string()
            .contains("\"b\"")
    );
}

#[test]
fn an_index_is_read() {
    let text = r#"{"metadata": {"total_size": 16060522496}, "weight_map": {"a": "model-00001-of-00002.safetensors",
        "b": "model-00002-of-00002.safetensors"}}"#;
    let index = parse_index(text).unwrap();
    assert_eq!(
        (index.total_bytes, index.total_parameters, index.files.len()),
        (Some(16_060_522_496), None, 2)
    );
    assert_eq!(index.missing(&tensors(&[("a", "BF16", &[8])])), Some("b"));
    assert_eq!(
        parse_index(&text.replace("16060522496", "16060522496.0"))
            .unwrap()
            .total_bytes,
        index.total_bytes
    );
    let refused = |text: &str, what: &str| {
        let error = parse_index(text).unwrap_err().to_string();
        assert!(error.contains(what), "{error:?} does not say {what:?}");
    };
    refused(&text.replace("16060522496", "-5"), "total_size");
    refused(&text.replace("16060522496", "0"), "total_size");
    refused(
        &text.replace("model-00002", "../model-00002"),
        "no name of a file",
    );
    refused(&text.replace("\"b\"", "\"a\""), "stands twice");
    refused("{\"weight_map\": {}}", "is empty");
    refused("{}", "weight_map");
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in ".{0,200}") {
        let _ = parse(&bytes, None);
        let _ = parse(&file(&text), Some(100));
        let _ = parse_index(&text);
    }

    #[test]
    fn changed_headers_never_panic(changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..4)) {
        let mut bytes = file(&small());
        for (at, byte) in changes {
            let length = bytes.len();
            bytes[usize::from(at) % length] = byte;
        }
        if let Ok(tensors) = parse(&bytes, None) {
            let _ = tensors.parameters(None);
            let _ = tensors.shape().in_words();
        }
    }
}

/// A million changed headers; by hand: `cargo test --lib model:: -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn a_million_changed_headers() {
    let valid = file(&small());
    let accepted = mutate(&valid, valid.len(), 1_000_000, &mut |bytes| {
        parse(bytes, None).is_ok_and(|tensors| tensors.parameters(None).is_ok())
    });
    assert!(accepted > 0);
}
