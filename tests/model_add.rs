//! `vramgate model add` as a user meets it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by a panic"
)]

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use vramgate::model::{Format, Model};

const CONFIG: &str = r#"{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64, "head_dim": 32,
    "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 1,
    "vocab_size": 1000, "max_position_embeddings": 4096, "torch_dtype": "bfloat16", "tie_word_embeddings": true}"#;

/// A folder of its own for each test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("vramgate-model-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn add(args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_vramgate"))
        .args(["model", "add"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn entry(args: &[&str], input: &[u8]) -> Model {
    let output = add(args, input);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), errors.as_str()), (Some(0), ""));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut models: Vec<Model> = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(models.len(), 1, "{text}");
    models.remove(0)
}

fn refused(args: &[&str], input: &[u8], what: &[&str]) {
    let output = add(args, input);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(output.stdout.is_empty());
    assert!(
        errors.starts_with("error: ") && errors.lines().count() == 1,
        "{errors}"
    );
    for part in what {
        assert!(errors.contains(part), "{errors:?} does not say {part:?}");
    }
}

/// A safetensors file with its data, all of it zeros.
fn safetensors(tensors: &[(&str, &str, u64, &[u64])]) -> Vec<u8> {
    let mut header = String::from("{");
    let mut next = 0;
    for (name, dtype, width, shape) in tensors {
        let end = next + shape.iter().product::<u64>() * width;
        if next > 0 {
            header.push(',');
        }
        write!(
            header,
            "\"{name}\": {{\"dtype\": \"{dtype}\", \"shape\": {shape:?}, \"data_offsets\": [{next}, {end}]}}"
        )
        .unwrap();
        next = end;
    }
    header.push('}');
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + usize::try_from(next).unwrap(), 0);
    bytes
}

/// The weights of `CONFIG`, in two files.
fn weights() -> [Vec<u8>; 2] {
    let layer = |number: u32, part: &str| format!("model.layers.{number}.{part}.weight");
    let mut names = Vec::new();
    for number in 0..2 {
        for (part, shape) in [
            ("self_attn.q_proj", [128, 64]),
            ("self_attn.k_proj", [32, 64]),
            ("self_attn.v_proj", [32, 64]),
            ("self_attn.o_proj", [64, 128]),
            ("mlp.gate_proj", [256, 64]),
            ("mlp.up_proj", [256, 64]),
            ("mlp.down_proj", [64, 256]),
        ] {
            names.push((layer(number, part), shape));
        }
    }
    let list: Vec<(&str, &str, u64, &[u64])> = names
        .iter()
        .map(|(name, shape)| (name.as_str(), "BF16", 2, shape.as_slice()))
        .collect();
    [
        safetensors(&[("model.embed_tokens.weight", "BF16", 2, &[1000, 64])]),
        safetensors(&list),
    ]
}

const PARAMETERS: u64 = 1000 * 64 + 2 * (2 * 128 * 64 + 2 * 32 * 64 + 3 * 256 * 64);

#[test]
fn a_config_gives_an_entry_for_a_policy() {
    let folder = Folder::new();
    let config = folder.write("Small-1B/config.json", CONFIG);
    let model = entry(&[&config], b"");
    assert_eq!(
        (model.id.as_str(), model.source.as_str()),
        ("small-1b", "config.json of small-1b")
    );
    let model = entry(
        &[
            &config,
            "--name",
            "org/Small-1B-Instruct",
            "--name",
            "org/Small-1B",
        ],
        b"",
    );
    assert_eq!((model.id.as_str(), model.names.len()), ("small-1b-instruct", 2));
    let model = entry(&["-", "--id", "own"], CONFIG.as_bytes());
    assert_eq!(
        (model.id.as_str(), model.head_dim, model.checkpoint_bytes),
        ("own", Some(32), None)
    );
    let output = add(&[&config, "-o", "json"], b"");
    let from_json: Model = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(from_json.id, "small-1b");
    assert!(
        !String::from_utf8(output.stdout)
            .unwrap()
            .contains(folder.0.to_str().unwrap())
    );
}

#[test]
fn config_and_weights_together_are_exact() {
    let folder = Folder::new();
    folder.write("m/config.json", CONFIG);
    let [first, second] = weights();
    let first = folder.write("m/model-00001-of-00002.safetensors", first);
    folder.write("m/model-00002-of-00002.safetensors", second);
    folder.write(
        "m/consolidated.safetensors",
        b"another layout of the same weights",
    );
    let config = folder.0.join("m/config.json").display().to_string();
    let mut map = serde_json::Map::new();
    map.insert(
        "model.embed_tokens.weight".to_owned(),
        "model-00001-of-00002.safetensors".into(),
    );
    map.insert(
        "model.layers.0.mlp.up_proj.weight".to_owned(),
        "model-00002-of-00002.safetensors".into(),
    );
    let index =
        serde_json::json!({"metadata": {"total_size": PARAMETERS * 2}, "weight_map": map}).to_string();
    let index = folder.write("m/model.safetensors.index.json", index);
    let directory = folder.0.join("m").display().to_string();
    let model = entry(&[&directory, "--id", "small"], b"");
    assert_eq!(
        (model.parameters, model.checkpoint_bytes),
        (PARAMETERS, Some(PARAMETERS * 2))
    );
    let model = entry(&[&config, &index, "--id", "small"], b"");
    assert_eq!(
        (model.parameters, model.checkpoint_bytes),
        (PARAMETERS, Some(PARAMETERS * 2))
    );
    assert_eq!(model.source, "config.json, model.safetensors.index.json of small");
    refused(
        &[&config, &first, "--id", "small"],
        b"",
        &["the tensors tell of 64000 parameters", "all of them"],
    );
    refused(
        &[&first, "--id", "small"],
        b"",
        &["hidden_size 64", "config.json"],
    );
    refused(
        &[&index, "--id", "small"],
        b"",
        &["an index of 2 files", "config.json"],
    );
    refused(
        &[&config, &config, "--id", "small"],
        b"",
        &["a second file of its kind"],
    );
    refused(
        &[&first, &first, "--id", "small"],
        b"",
        &["is in another file as well"],
    );
    let other = CONFIG.replace("\"hidden_size\": 64", "\"hidden_size\": 128");
    refused(
        &["-", &first, "--id", "small"],
        other.as_bytes(),
        &["hidden_size: config.json says 128, and the tensors say 64"],
    );
}

#[test]
fn a_tower_that_cannot_be_counted_needs_the_index() {
    let folder = Folder::new();
    let config = CONFIG.replace(
        "\"tie_word_embeddings\": true",
        "\"audio_config\": {\"conf_num_hidden_layers\": 12}",
    );
    let config = folder.write("m/config.json", config);
    refused(
        &[&config],
        b"",
        &["audio_config.", "model.safetensors.index.json"],
    );
    let index = r#"{"metadata": {"total_size": 700000}, "weight_map": {"a": "model.safetensors"}}"#;
    let index = folder.write("m/model.safetensors.index.json", index);
    let model = entry(&[&config, &index], b"");
    assert_eq!((model.parameters, model.tower), (350_000, true));
    let wrong = folder.write("n/config.json", CONFIG);
    refused(
        &[&wrong, &index],
        b"",
        &[
            "the sizes of the index tell of 350000 parameters",
            "files of different models",
        ],
    );
}

#[test]
fn a_gguf_file_is_read_by_its_content() {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend(1_u64.to_le_bytes());
    bytes.extend(6_u64.to_le_bytes());
    bytes.extend(
        [
            text("general.architecture"),
            8_u32.to_le_bytes().to_vec(),
            text("llama"),
        ]
        .concat(),
    );
    for (key, value) in [
        ("llama.block_count", 2_u32),
        ("llama.embedding_length", 64),
        ("llama.attention.head_count", 4),
        ("llama.context_length", 4096),
        ("llama.feed_forward_length", 128),
    ] {
        bytes.extend(
            [
                text(key),
                4_u32.to_le_bytes().to_vec(),
                value.to_le_bytes().to_vec(),
            ]
            .concat(),
        );
    }
    bytes.extend(text("token_embd.weight"));
    bytes.extend(2_u32.to_le_bytes());
    bytes.extend([64_u64.to_le_bytes(), 100_u64.to_le_bytes()].concat());
    bytes.extend(8_u32.to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(32) + 200 * 34, 0);
    let folder = Folder::new();
    let path = folder.write("Small-Q8_0.gguf", &bytes);
    let model = entry(&[&path], b"");
    assert_eq!(
        (model.id.as_str(), model.parameters, model.checkpoint_bytes),
        ("small-q8_0", 6400, Some(6800))
    );
    assert_eq!(model.released, Some(Format::GgufQ8_0));
    let cut = folder.write("cut.gguf", &bytes[..bytes.len() - 1]);
    refused(&[&cut], b"", &["cut.gguf", "cut off", "download it again"]);
    let config = folder.write("config.json", CONFIG);
    refused(&[&path, &config], b"", &["complete by itself"]);
    bytes[7] = 3;
    bytes[4] = 0;
    refused(&["-", "--id", "x"], &bytes, &["big-endian"]);
}

#[test]
fn input_that_cannot_be_used_says_why() {
    let folder = Folder::new();
    let config = folder.write(
        "m/config.json",
        CONFIG.replace("\"num_key_value_heads\": 1", "\"num_key_value_heads\": 3"),
    );
    refused(
        &[&config],
        b"",
        &["config.json", "num_key_value_heads: 3 does not divide"],
    );
    refused(&["-"], CONFIG.as_bytes(), &["--id", "--name NAME"]);
    refused(
        &["-", "--id", "a b"],
        CONFIG.as_bytes(),
        &["--id", "without blanks"],
    );
    refused(&["-", "--id", "x"], b"", &["-: is neither a config.json"]);
    refused(&["-", "--id", "x"], b"{", &["no readable JSON"]);
    refused(&["-", "--id", "x"], &[0xff; 100], &["is neither a config.json"]);
    refused(&["-", "-", "--id", "x"], b"", &["only once"]);
    refused(
        &["/nowhere/config.json"],
        b"",
        &["/nowhere/config.json", "check the path"],
    );
    let empty = folder.0.join("empty");
    fs::create_dir_all(&empty).unwrap();
    refused(
        &[empty.to_str().unwrap()],
        b"",
        &["neither config.json nor a *.gguf"],
    );
    let adapter = folder.write("lora/adapter_config.json", "{}");
    let lora = PathBuf::from(adapter).parent().unwrap().display().to_string();
    refused(&[&lora], b"", &["adapter"]);
    let lying = [&u64::MAX.to_le_bytes()[..], b"{}"].concat();
    refused(&["-", "--id", "x"], &lying, &["is neither"]);
    let long = [&90_000_000_u64.to_le_bytes()[..], b"{}"].concat();
    refused(
        &["-", "--id", "x"],
        &long,
        &["a header of 90000000 bytes is expected, and 2 are left"],
    );
}
