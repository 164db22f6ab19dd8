use proptest::prelude::*;

use super::*;
use crate::model::mutation::mutate;
use crate::model::{Format, Kind, Model};

/// Writes a header as `gguf-py` does.
#[derive(Clone, Default)]
struct Builder {
    keys: Vec<Vec<u8>>,
    tensors: Vec<Vec<u8>>,
    next: u64,
}

fn string(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

impl Builder {
    fn key(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        let mut bytes = string(key);
        bytes.extend(kind.to_le_bytes());
        bytes.extend(value);
        self.keys.push(bytes);
        self
    }

    fn u32(self, key: &str, value: u32) -> Self {
        self.key(key, 4, &value.to_le_bytes())
    }

    fn text(self, key: &str, value: &str) -> Self {
        self.key(key, 8, &string(value))
    }

    fn list(self, key: &str, kind: u32, length: u64, items: &[u8]) -> Self {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend(length.to_le_bytes());
        bytes.extend(items);
        self.key(key, 9, &bytes)
    }

    fn raw_tensor(mut self, name: &str, dimensions: &[u64], kind: u32, offset: u64) -> Self {
        let mut bytes = string(name);
        bytes.extend(u32::try_from(dimensions.len()).unwrap().to_le_bytes());
        for size in dimensions {
            bytes.extend(size.to_le_bytes());
        }
        bytes.extend(kind.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        self.tensors.push(bytes);
        self
    }

    fn tensor(self, name: &str, dimensions: &[u64], kind: u32) -> Self {
        let offset = self.next;
        let elements: u64 = dimensions.iter().product();
        let size = TensorType::from_number(kind)
            .unwrap()
            .bytes(dimensions[0], elements)
            .unwrap();
        let mut this = self.raw_tensor(name, dimensions, kind, offset);
        this.next = (offset + size).next_multiple_of(32);
        this
    }

    fn build(&self) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3_u32.to_le_bytes());
        bytes.extend((self.tensors.len() as u64).to_le_bytes());
        bytes.extend((self.keys.len() as u64).to_le_bytes());
        for part in self.keys.iter().chain(&self.tensors) {
            bytes.extend(part);
        }
        bytes
    }
}

/// A small Llama: 2 layers, 8 heads of 32, 2 of them for keys.
fn keys() -> Builder {
    let tokens: Vec<u8> = (0..512)
        .flat_map(|number| string(&format!("t{number}")))
        .collect();
    Builder::default()
        .text("general.architecture", "llama")
        .text("general.name", "Small")
        .u32("general.file_type", 15)
        .u32("llama.block_count", 2)
        .u32("llama.embedding_length", 256)
        .u32("llama.feed_forward_length", 512)
        .u32("llama.attention.head_count", 8)
        .u32("llama.attention.head_count_kv", 2)
        .u32("llama.context_length", 8192)
        .key("llama.rope.freq_base", 6, &10_000_f32.to_le_bytes())
        .key("llama.flag", 7, &[1])
        .key("llama.long", 12, &[0; 8])
        .list("tokenizer.ggml.tokens", 8, 512, &tokens)
        .list("tokenizer.ggml.scores", 6, 2, &[0; 8])
}

fn small() -> Builder {
    let mut builder = keys().tensor("token_embd.weight", &[256, 512], 12);
    for layer in 0..2 {
        builder = builder
            .tensor(&format!("blk.{layer}.attn_norm.weight"), &[256], 0)
            .tensor(&format!("blk.{layer}.attn_q.weight"), &[256, 256], 12)
            .tensor(&format!("blk.{layer}.attn_k.weight"), &[256, 64], 12)
            .tensor(&format!("blk.{layer}.attn_v.weight"), &[256, 64], 14);
    }
    builder.tensor("output.weight", &[256, 512], 14)
}

fn model(builder: &Builder) -> Result<Model, String> {
    let gguf = parse(&builder.build(), None).map_err(|error| error.to_string())?;
    gguf.model("small").map_err(|error| error.to_string())
}

#[test]
fn a_header_gives_its_entry_exactly() {
    let model = model(&small()).unwrap();
    let layer = 256 + 256 * 256 + 2 * 256 * 64;
    assert_eq!(model.parameters, 2 * 512 * 256 + 2 * layer);
    // Q4_K has 144 bytes for 256 elements, Q6_K 210, F32 four each.
    let bytes = 512 * 144 + 2 * (1024 + 256 * 144 + 64 * 144 + 64 * 210) + 512 * 210;
    assert_eq!(model.checkpoint_bytes, Some(bytes));
    assert_eq!(model.released, Some(Format::GgufQ4K));
    assert_eq!(
        (model.num_hidden_layers, model.hidden_size, model.head_dim),
        (2, 256, Some(32))
    );
    assert_eq!((model.num_attention_heads, model.num_key_value_heads), (8, 2));
    assert_eq!(
        (model.vocab_size, model.max_position_embeddings),
        (Some(512), 8192)
    );
    assert_eq!(model.tie_word_embeddings, Some(false));
    assert_eq!(model.kind, Kind::Decoder);
}

#[test]
fn heads_by_layer_and_experts_are_read() {
    let heads: Vec<u8> = [0_u32, 2].iter().flat_map(|heads| heads.to_le_bytes()).collect();
    let builder = Builder::default()
        .text("general.architecture", "granitehybrid")
        .u32("granitehybrid.block_count", 2)
        .u32("granitehybrid.embedding_length", 256)
        .u32("granitehybrid.attention.head_count", 8)
        .list("granitehybrid.attention.head_count_kv", 4, 2, &heads)
        .u32("granitehybrid.context_length", 8192)
        .u32("granitehybrid.vocab_size", 512)
        .u32("granitehybrid.expert_count", 8)
        .u32("granitehybrid.expert_used_count", 2)
        .u32("granitehybrid.feed_forward_length", 64)
        .u32("granitehybrid.ssm.state_size", 16)
        .u32("granitehybrid.ssm.conv_kernel", 4)
        .u32("granitehybrid.ssm.inner_size", 512)
        .u32("granitehybrid.ssm.group_count", 1)
        .tensor("token_embd.weight", &[256, 512], 30);
    let model = model(&builder).unwrap();
    assert_eq!(
        (model.attention_layers, model.full_attention_layers),
        (Some(1), Some(1))
    );
    let recurrent = model.recurrent.unwrap();
    assert_eq!(recurrent.layers, 1);
    assert_eq!(recurrent.state_bytes, Some(4 * (3 * (512 + 2 * 16) + 512 * 16)));
    let experts = model.experts.unwrap();
    assert_eq!(
        (experts.count, experts.active, experts.intermediate_size),
        (8, 2, 64)
    );
    assert_eq!(model.released, Some(Format::GgufF16));
    assert_eq!(model.tie_word_embeddings, Some(true));
}

#[test]
fn windows_follow_the_architecture() {
    let of = |architecture: &str| {
        let key = |name: &str| format!("{architecture}.{name}");
        Builder::default()
            .text("general.architecture", architecture)
            .u32(&key("block_count"), 26)
            .u32(&key("embedding_length"), 1152)
            .u32(&key("attention.head_count"), 4)
            .u32(&key("attention.head_count_kv"), 1)
            .u32(&key("attention.key_length"), 256)
            .u32(&key("attention.sliding_window"), 512)
            .u32(&key("context_length"), 32768)
            .tensor("token_embd.weight", &[1152, 10], 8)
    };
    let model = model(&of("gemma3")).unwrap();
    assert_eq!(
        (model.full_attention_layers, model.sliding_window, model.head_dim),
        (Some(4), Some(512), Some(256))
    );
}

#[test]
fn what_is_cut_off_is_an_error_at_every_byte() {
    let bytes = small().build();
    assert!(parse(&bytes, None).is_ok());
    for length in 0..bytes.len() {
        let error = parse(&bytes[..length], None).unwrap_err();
        assert!(error.offset <= length as u64, "{length}: {error}");
    }
}

#[test]
fn the_file_must_hold_its_tensors() {
    let builder = small();
    let bytes = builder.build();
    let begin = (bytes.len() as u64).next_multiple_of(32);
    let last: u64 = 512 * 210;
    let end = begin + builder.next - last.next_multiple_of(32) + last;
    assert!(parse(&bytes, Some(end)).is_ok());
    let error = parse(&bytes, Some(end - 1)).unwrap_err();
    assert!(
        error.to_string().contains(&format!("end at byte {end}")),
        "{error}"
    );
}

#[test]
fn lies_are_refused() {
    let refused = |builder: &Builder, what: &str| {
        let error = model(builder).unwrap_err();
        assert!(error.contains(what), "{error:?} does not say {what:?}");
    };
    let lying = |at: usize, what: &str| {
        let mut bytes = small().build();
        bytes[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
        let error = parse(&bytes, None).unwrap_err().to_string();
        assert!(error.contains(what), "{error:?} does not say {what:?}");
    };
    lying(8, "the number of tensors is 18446744073709551615");
    lying(16, "the number of keys is 18446744073709551615");
    lying(24, "a key has a length of 18446744073709551615");
    refused(
        &keys().key("x", 8, &u64::MAX.to_le_bytes()),
        "18446744073709551615 bytes",
    );
    refused(
        &keys().list("x", 4, u64::MAX, &[]),
        "the length of a list is 18446744073709551615",
    );
    refused(
        &keys().list("x", 8, 1 << 40, &[]),
        "the length of a list is 1099511627776",
    );
    refused(&keys().key("x", 13, &[]), "13 is no type of a value");
    refused(&keys().key("x", 7, &[2]), "2 is no truth value");
    refused(
        &keys().text("general.architecture", "llama"),
        "\"general.architecture\" stands twice",
    );
    refused(
        &keys().tensor("a", &[32], 0).tensor("a", &[32], 0),
        "\"a\" stands twice",
    );
    refused(&keys().raw_tensor("a", &[0], 0, 0), "the dimension 0");
    refused(&keys().raw_tensor("a", &[], 0, 0), "0 dimensions");
    refused(&keys().raw_tensor("a", &[1; 5], 0, 0), "5 dimensions");
    refused(&keys().raw_tensor("a", &[1 << 40, 1 << 40], 0, 0), "cannot be");
    refused(
        &keys().raw_tensor("a", &[1 << 62], 0, 0),
        "rows of 4611686018427387904",
    );
    refused(&keys().raw_tensor("a", &[33], 2, 0), "no blocks of Q4_0");
    refused(&keys().raw_tensor("a", &[32], 4, 0), "type 4");
    refused(&keys().raw_tensor("a", &[32], 0, 32), "begins at 32");
    let half = 1 << 60;
    refused(
        &keys()
            .raw_tensor("a", &[half], 28, 0)
            .raw_tensor("b", &[half], 28, half * 8),
        "larger than any",
    );
    // Lists in lists: each but the innermost has one item.
    let mut nested = Vec::new();
    for _ in 0..1000 {
        nested.extend(9_u32.to_le_bytes());
        nested.extend(1_u64.to_le_bytes());
    }
    refused(&keys().key("x", 9, &nested), "more than 4 deep");
}

#[test]
fn contradictions_name_the_key() {
    let refused = |builder: Builder, what: &str| {
        let error = model(&builder.tensor("token_embd.weight", &[256, 512], 12)).unwrap_err();
        assert!(error.contains(what), "{error:?} does not say {what:?}");
    };
    let base = || {
        Builder::default()
            .text("general.architecture", "llama")
            .u32("llama.block_count", 2)
            .u32("llama.embedding_length", 256)
            .u32("llama.context_length", 8192)
    };
    refused(Builder::default(), "general.architecture: is absent");
    refused(
        Builder::default().text("general.architecture", "clip"),
        "projector",
    );
    refused(base(), "llama.attention.head_count: is absent");
    refused(
        base().u32("llama.attention.head_count", 0),
        "llama.attention.head_count",
    );
    refused(
        base().u32("llama.attention.head_count", 7),
        "llama.attention.key_length: is absent",
    );
    refused(
        base().key("llama.attention.head_count", 5, &(-1_i32).to_le_bytes()),
        "-1 is not from 0",
    );
    refused(
        base().text("llama.attention.head_count", "8"),
        "neither a whole number",
    );
    refused(
        base().list("llama.attention.head_count", 0, 3, &[8, 8, 8]),
        "3 values for 2 layers",
    );
    refused(
        base()
            .u32("llama.attention.head_count", 8)
            .u32("llama.attention.head_count_kv", 3),
        "3 does not divide head_count",
    );
    refused(
        base()
            .u32("llama.attention.head_count", 8)
            .u32("llama.expert_count", 8),
        "expert_used_count: is absent",
    );
    refused(
        base()
            .u32("llama.attention.head_count", 8)
            .u32("llama.expert_count", 8)
            .u32("llama.expert_used_count", 9),
        "9 is more than expert_count",
    );
    refused(
        Builder::default()
            .text("general.architecture", "llama")
            .u32("llama.block_count", 4_000_000_000),
        "llama.block_count: 4000000000 is not from 0 to 10000",
    );
    refused(
        base()
            .u32("llama.attention.head_count", 8)
            .u32("llama.ssm.state_size", 16),
        "nothing tells which these are",
    );
}

#[test]
fn other_versions_say_what_they_are() {
    let with_version = |version: [u8; 4]| {
        let mut bytes = small().build();
        bytes[4..8].copy_from_slice(&version);
        parse(&bytes, None).unwrap_err().to_string()
    };
    assert!(with_version(3_u32.to_be_bytes()).contains("big-endian"));
    assert!(with_version(1_u32.to_le_bytes()).contains("version 1"));
    assert!(with_version(9_u32.to_le_bytes()).contains("version 9"));
    assert!(
        parse(b"GGML", None)
            .unwrap_err()
            .to_string()
            .contains("no GGUF file")
    );
    let mut second = small().build();
    second[4] = 2;
    assert!(parse(&second, None).is_ok());
}

#[test]
fn a_split_file_is_told() {
    let part = |number: u16, builder: Builder| {
        let builder =
            builder
                .key("split.count", 2, &2_u16.to_le_bytes())
                .key("split.no", 2, &number.to_le_bytes());
        parse(&builder.build(), None).unwrap()
    };
    let mut first = part(0, small());
    assert_eq!(first.split(), Some((0, 2)));
    let second = part(1, Builder::default().tensor("blk.9.x", &[256, 2], 12));
    let before = first.parameters;
    first.add(&second).unwrap();
    assert_eq!(first.parameters, before + 512);
    assert!(first.model("small").is_ok());
    assert_eq!(parse(&small().build(), None).unwrap().split(), None);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&bytes, None);
    }

    #[test]
    fn changed_headers_never_panic(changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..6)) {
        let mut bytes = small().build();
        for (at, byte) in changes {
            let length = bytes.len();
            bytes[usize::from(at) % length] = byte;
        }
        if let Ok(gguf) = parse(&bytes, None) {
            let _ = gguf.model("small");
        }
    }
}

/// A million changed headers; by hand: `cargo test --lib model:: -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn a_million_changed_headers() {
    let valid = small().build();
    // Most of the middle is the vocabulary.
    let accepted = mutate(&valid, 700, 1_000_000, &mut |bytes| {
        parse(bytes, None).is_ok_and(|gguf| gguf.model("small").is_ok())
    });
    assert!(accepted > 0);
}
