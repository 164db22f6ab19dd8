//! `vramgate fit` as a user meets it: answers, texts, the JSON document, and input that cannot be used.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by a panic"
)]

use std::process::{Command, Output, Stdio};

use serde_json::Value;

mod kit;

use kit::golden;

fn fit(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vramgate"))
        .arg("fit")
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The document, and the exit code.
fn json(args: &[&str]) -> (Value, i32) {
    let mut all = vec!["-o", "json"];
    all.extend(args);
    let output = fit(&all);
    let code = output.status.code().unwrap();
    let document = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{args:?}: {error}: {}", stderr(&output)));
    (document, code)
}

/// What is told of input that cannot be used.
fn refused(args: &[&str]) -> String {
    let output = fit(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stdout(&output));
    assert!(output.stdout.is_empty(), "{args:?}");
    let text = stderr(&output);
    assert!(text.len() < 4_000, "{args:?}: {} bytes", text.len());
    text
}

/// Texts in `tests/texts/` with their exit code and command line, in which `~` stands for a blank within a word.
const TEXTS: [(&str, i32, &str); 15] = [
    (
        "fit-fits",
        0,
        "--model meta-llama/Llama-3.1-8B-Instruct --device l40s --engine-version 0.11.0 -- --max-model-len 32768",
    ),
    (
        "fit-doubtful",
        0,
        "--model Qwen/Qwen3-32B --device NVIDIA-H100-80GB-HBM3 --engine-version 0.11.0 -- --max-model-len=16384",
    ),
    (
        "fit-does-not-fit",
        1,
        "--model RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic --device h100-80gb-sxm --engine-version 0.11.0",
    ),
    (
        "fit-weights-alone-too-large",
        1,
        "--model meta-llama/Llama-3.3-70B-Instruct --device l40s --engine-version 0.11.0",
    ),
    (
        "fit-mig-profile",
        0,
        "--model google/gemma-3-1b-it --device 1g.10gb@a100-80gb --engine-version 0.20.0 -- --enforce-eager --max-num-seqs 16",
    ),
    (
        "fit-too-few-devices",
        1,
        "--model openai/gpt-oss-120b --device h100-80gb-sxm --devices 1 --engine-version 0.11 -- -tp 2",
    ),
    (
        "fit-two-ranks",
        0,
        "--model openai/gpt-oss-120b --device RTX~PRO~6000=97280 --devices 4 --engine-version 0.11-0.12 -- -tp 2",
    ),
    (
        "fit-unknown-model",
        0,
        "--model meta-llama/Llama-3.1-9B-Instruct --device l4 --engine-version 0.20.0",
    ),
    (
        "fit-part-of-a-path",
        0,
        "--model /models/Qwen2.5-7B-Instruct-AWQ --device 24000 --engine-version 0.20.0",
    ),
    (
        "fit-option-of-a-newer-release",
        0,
        "--model Qwen/Qwen3-8B --device l4 --engine-version 0.6.3 -- --kv-cache-memory-bytes 5G --max-model-len 8192",
    ),
    (
        "fit-fraction-out-of-range",
        0,
        "--model Qwen/Qwen3-8B --device l4 --engine-version 0.11.0 -- --gpu-memory-utilization 1.5",
    ),
    (
        "fit-sglang",
        0,
        "--engine sglang --model Qwen/Qwen3-8B --device l40s --engine-version 0.5.0",
    ),
    (
        "fit-llama-cpp",
        0,
        "--engine llama.cpp --device rtx-4090 -- -hf Qwen/Qwen3-8B-GGUF:Q4_K_M -c 8192",
    ),
    (
        "fit-tei",
        0,
        "--engine tei --model BAAI/bge-m3 --device 1g.10gb@a100-80gb",
    ),
    (
        "fit-encoder",
        0,
        "--model BAAI/bge-m3 --device t4 --engine-version 0.11.0",
    ),
];

#[test]
fn texts_read_as_a_user_would_want_them() {
    for (name, code, line) in TEXTS {
        let words: Vec<String> = line
            .split_whitespace()
            .map(|word| word.replace('~', " "))
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = fit(&words);
        assert_eq!(output.status.code(), Some(code), "{name}: {}", stderr(&output));
        let text = stdout(&output);
        for line in text.lines().filter(|line| line.starts_with('[')) {
            assert_eq!(line.chars().count(), 66, "{name}: {line}");
        }
        golden(name, &text);
    }
}

#[test]
fn a_document_has_every_field_with_its_type() {
    let (document, code) = json(&[
        "--model",
        "meta-llama/Llama-3.1-8B-Instruct",
        "--device",
        "a100-80gb",
        "--engine-version",
        "0.11.0",
        "--",
        "--max-model-len",
        "32768",
    ]);
    assert_eq!(code, 0);
    assert_eq!(document["apiVersion"], "vramgate.io/v1alpha1");
    assert_eq!(document["kind"], "Fit");
    assert_eq!(document["answer"], "fits");
    assert_eq!(document["model"]["id"], "llama-3.1-8b");
    assert_eq!(document["model"]["certain"], true);
    assert_eq!(document["model"]["format"], "float16");
    assert_eq!(document["engine"]["version"], "0.11.0");
    assert_eq!(document["device"]["totalMiB"], 81_920);
    // 32 layers x 8 heads x 128 wide x keys and values x 2 bytes.
    assert_eq!(document["kvBytesPerToken"], 131_072);
    assert_eq!(document["needMiB"]["expected"], 4_096);
    for sizes in [
        "weightsMiB",
        "activationMiB",
        "overheadMiB",
        "needMiB",
        "kvPoolMiB",
        "kvTokens",
        "sequences",
    ] {
        let of = |name: &str| {
            document[sizes][name]
                .as_i64()
                .unwrap_or_else(|| panic!("{sizes}.{name}: {}", document[sizes]))
        };
        assert!(
            of("lower") <= of("expected") && of("expected") <= of("upper"),
            "{sizes}"
        );
    }
    assert_eq!(document["largestMaxModelLen"], 131_072);
    let fraction = |name: &str| document[name].as_str().unwrap().parse::<f64>().unwrap();
    assert!(fraction("smallestFraction") < fraction("largestFraction"));
    assert_eq!(document["smallestMigProfile"], "3g.40gb");
    assert!(document["smallestProduct"].is_string());
    let parts = document["parts"].as_array().unwrap();
    assert!(parts.iter().all(|part| {
        part["name"].is_string()
            && part["lowerMiB"].as_u64() <= part["expectedMiB"].as_u64()
            && part["expectedMiB"].as_u64() <= part["upperMiB"].as_u64()
            && part["source"].is_string()
    }));
    assert_eq!(parts[0]["name"], "weights");
    assert!(document["notes"].as_array().unwrap().is_empty());
}

#[test]
fn unknown_has_no_numbers_and_says_why_on_standard_error() {
    let output = fit(&["--model", "no-one/knows-this", "--device", "l4", "-o", "json"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).starts_with("unknown: model \"no-one/knows-this\": "));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["answer"], "unknown");
    assert_eq!(document["model"]["id"], Value::Null);
    for field in [
        "budgetMiB",
        "weightsMiB",
        "activationMiB",
        "overheadMiB",
        "kvBytesPerToken",
        "kvPoolMiB",
        "kvTokens",
        "needMiB",
        "maxModelLen",
        "largestMaxModelLen",
        "possibleMaxModelLen",
        "smallestFraction",
        "largestFraction",
        "sequences",
        "smallestMigProfile",
        "smallestProduct",
    ] {
        assert_eq!(document.get(field), Some(&Value::Null), "{field}");
    }
    assert_eq!(document["parts"], Value::Array(Vec::new()));
}

#[test]
fn the_smallest_fraction_and_the_longest_context_hold_when_they_are_asked() {
    let model = [
        "--model",
        "Qwen/Qwen3-8B",
        "--device",
        "l4",
        "--engine-version",
        "0.11.0",
    ];
    let ask = |arguments: &[&str]| {
        let mut all = model.to_vec();
        all.push("--");
        all.extend(arguments);
        json(&all).0
    };
    let first = ask(&["--max-model-len", "8192"]);
    let fraction = first["smallestFraction"].as_str().unwrap();
    let again = ask(&["--max-model-len", "8192", "--gpu-memory-utilization", fraction]);
    assert_eq!(again["answer"], "fits", "{fraction}");
    let smaller = format!("{:.3}", fraction.parse::<f64>().unwrap() - 0.001);
    let again = ask(&["--max-model-len", "8192", "--gpu-memory-utilization", &smaller]);
    assert_ne!(again["answer"], "fits", "{smaller}");
    let longest = first["largestMaxModelLen"].as_u64().unwrap();
    assert!(longest < 40_960);
    assert_eq!(ask(&["--max-model-len", &longest.to_string()])["answer"], "fits");
    assert_ne!(
        ask(&["--max-model-len", &(longest + 16).to_string()])["answer"],
        "fits"
    );
    let possible = first["possibleMaxModelLen"].as_u64().unwrap();
    assert_eq!(
        ask(&["--max-model-len", &(possible + 16).to_string()])["answer"],
        "does-not-fit"
    );
}

#[test]
fn every_form_of_a_device_is_read() {
    let total = |device: &str| {
        let (document, _) = json(&["--model", "Qwen/Qwen3-0.6B", "--device", device]);
        (
            document["device"]["totalMiB"].as_u64().unwrap(),
            document["device"]["product"].as_str().map(str::to_owned),
        )
    };
    let h100 = Some("h100-80gb-sxm".to_owned());
    for (device, expected) in [
        ("81559", (81_559, None)),
        ("81559MiB", (81_559, None)),
        ("81559 MiB", (81_559, None)),
        ("h100-80gb-sxm", (81_559, h100.clone())),
        ("NVIDIA-H100-80GB-HBM3", (81_559, h100.clone())),
        ("NVIDIA-H100-80GB-HBM3-SHARED", (81_559, h100.clone())),
        ("H100-SXM5-80GB=70000", (70_000, h100.clone())),
        ("1g.10gb@h100-80gb-sxm=9984 MiB", (9_984, h100.clone())),
        ("RTX 3090=24125", (24_125, Some("rtx-3090".to_owned()))),
        ("RTX 4070 Ti=12000", (12_000, Some("RTX 4070 Ti".to_owned()))),
        (
            "A100 40GB MIG 1g.5gb=4864",
            (4_864, Some("A100 40GB MIG 1g.5gb".to_owned())),
        ),
        ("80GB class=81000", (81_000, Some("80GB class".to_owned()))),
    ] {
        assert_eq!(total(device), expected, "{device}");
    }
    let (document, _) = json(&["--model", "Qwen/Qwen3-0.6B", "--device", "1g.10gb@a100-80gb"]);
    assert_eq!(document["device"]["profile"], "1g.10gb");
}

#[test]
fn devices_that_are_none_are_refused_with_a_remedy() {
    for (device, part) in [
        ("h100", "did you mean h100-80gb-sxm"),
        ("1g.99gb@a100-80gb", "a100-80gb has 1g.10gb"),
        ("0", "has a total of 0 MiB"),
        ("-81559", "is no whole number of MiB"),
        ("99999999999999999999999999", "no device has"),
        ("l40s=80GB", "is no whole number of MiB"),
        ("", "is empty"),
        (&"x".repeat(10_240), "has more than 200 bytes"),
    ] {
        let text = refused(&["--model", "Qwen/Qwen3-8B", &format!("--device={device}")]);
        assert!(
            text.contains(part) && text.contains("write a product such as"),
            "{device:.30}: {text}"
        );
    }
}

#[test]
fn options_that_cannot_be_used_are_refused() {
    let with = |more: &[&str]| {
        let mut all = vec!["--device", "l4"];
        all.extend(more);
        refused(&all)
    };
    assert!(with(&[]).contains("model: none is named; give --model ID"));
    assert!(with(&["--model", " "]).contains("model: none is named"));
    assert!(with(&["--model=--help"]).contains("begins with a dash"));
    assert!(with(&["--model", "m", "--devices", "0"]).contains("devices: 0 is no number"));
    assert!(with(&["--model", "m", "--devices=-1"]).contains("--devices"));
    assert!(with(&["--model", "m", "--devices", "99999999999"]).contains("--devices"));
    assert!(with(&["--model", "m", "--engine", "ollama"]).contains("known are vllm, sglang"));
    assert!(with(&["--model", "m", "--engine-version", "newest"]).contains("write one such as 0.11.0"));
    assert!(with(&["--model", "m", "--quantization", "q9"]).contains("awq-int4"));
    assert!(with(&["--model", "m", "--models", "/no/such/file"]).contains("does not exist"));
    assert!(with(&["--model", "m", "--score", "x"]).contains("cannot be used with"));
    assert!(refused(&["--model", "m"]).contains("--device"));
    // All that is wrong is told at once.
    let text = with(&[
        "--model",
        "m",
        "--quantization",
        "q9",
        "--engine-version",
        "newest",
    ]);
    assert_eq!(text.lines().count(), 2, "{text}");
}

#[test]
fn names_that_are_hostile_are_unknown_and_short() {
    for model in [
        "x".repeat(10_240),
        "$(MODEL)".to_owned(),
        "https://example.com/model".to_owned(),
        "a\u{1b}[2Jb".to_owned(),
        "../../etc/passwd".to_owned(),
        "{{ .Values.model }}".to_owned(),
    ] {
        let output = fit(&["--model", &model, "--device", "l4"]);
        assert_eq!(output.status.code(), Some(0), "{model:.40}: {}", stderr(&output));
        let text = stdout(&output);
        assert!(text.contains("\nUnknown: "), "{model:.40}: {text}");
        assert!(text.len() < 2_000 && !text.contains('\u{1b}'), "{model:.40}");
    }
}

#[test]
fn sizes_without_measure_neither_panic_nor_fit() {
    let huge = u64::MAX.to_string();
    for arguments in [
        vec!["--max-model-len", huge.as_str()],
        vec!["--max-model-len", "-5"],
        vec!["--max-model-len", "0"],
        vec!["--tensor-parallel-size", "99999999"],
        vec!["--tensor-parallel-size", "0"],
        vec!["--max-num-seqs", huge.as_str()],
        vec!["--max-num-batched-tokens", huge.as_str()],
        vec!["--block-size", "0"],
        vec!["--gpu-memory-utilization", "nan"],
        vec!["--gpu-memory-utilization", "0"],
        vec!["--kv-cache-dtype", "fp99"],
        vec!["--hf-overrides", "{\"num_hidden_layers\": 1}"],
        vec!["--config", "/etc/vllm.yaml"],
    ] {
        let mut all = vec![
            "--model",
            "Qwen/Qwen3-8B",
            "--device",
            "24000",
            "--engine-version",
            "0.11.0",
            "--",
        ];
        all.extend(&arguments);
        let (document, code) = json(&all);
        if arguments[0] != "--block-size" {
            assert_ne!(
                document["answer"], "fits",
                "{arguments:?}: {}",
                document["reason"]
            );
        }
        assert!(code < 2, "{arguments:?}");
    }
}

#[test]
fn arguments_and_options_may_contradict_each_other() {
    let base = [
        "--model",
        "Qwen/Qwen3-8B",
        "--device",
        "l40s",
        "--engine-version",
        "0.11.0",
    ];
    let with = |more: &[&str]| {
        let mut all = base.to_vec();
        all.extend(more);
        json(&all).0
    };
    let told = |document: &Value, part: &str| {
        let notes = document["notes"].as_array().unwrap();
        assert!(
            notes.iter().any(|note| note.as_str().unwrap().contains(part)),
            "{part}: {notes:?}"
        );
    };
    // The arguments are what the engine reads.
    let document = with(&["--", "--model", "Qwen/Qwen3-4B"]);
    assert_eq!(document["model"]["id"], "qwen3-4b");
    told(&document, "--model \"Qwen/Qwen3-8B\" is not used");
    // What is stated of the weights wins over their name.
    assert_eq!(
        with(&["--quantization", "awq-int4"])["model"]["format"],
        "awq-int4"
    );
    assert_eq!(with(&["--", "--quantization", "fp8"])["model"]["format"], "fp8");
    // More devices than ranks.
    let document = with(&["--devices", "2"]);
    assert_eq!((&document["ranks"], &document["devices"]), (&1.into(), &2.into()));
    told(&document, "only what the arguments say counts");
    // Fewer devices than ranks.
    let document = with(&["--devices", "1", "--", "-tp", "4"]);
    assert_eq!(document["answer"], "does-not-fit");
    assert!(document["reason"].as_str().unwrap().starts_with("VG105: "));
    assert!(document["weightsMiB"]["expected"].is_u64());
    // An option that the release does not have.
    let document = with(&["--", "--no-such-option"]);
    told(&document, "VG107: ");
    told(&document, "does not start with these arguments");
    // No release.
    let (document, _) = json(&["--model", "Qwen/Qwen3-8B", "--device", "l40s"]);
    told(&document, "give --engine-version");
}

#[test]
fn models_of_ones_own_are_found_first() {
    let folder = std::env::temp_dir().join(format!("vramgate-fit-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("own.yaml");
    let entry = "\
- id: chat-7b
  names: [example-org/chat-7b]
  parameters: 7615616512
  numHiddenLayers: 28
  hiddenSize: 3584
  numAttentionHeads: 28
  numKeyValueHeads: 4
  headDim: 128
  intermediateSize: 18944
  vocabSize: 152064
  maxPositionEmbeddings: 32768
  torchDtype: bfloat16
  tieWordEmbeddings: false
  source: its own files
  confidence: verified
";
    std::fs::write(&path, entry).unwrap();
    let own = path.display().to_string();
    let args = [
        "--model",
        "example-org/chat-7b",
        "--device",
        "l4",
        "--engine-version",
        "0.11.0",
    ];
    assert_eq!(json(&args).0["answer"], "unknown");
    let mut all = args.to_vec();
    all.extend(["--models", own.as_str()]);
    let (document, _) = json(&all);
    assert_eq!(document["model"]["id"], "chat-7b");
    assert_eq!(document["model"]["source"], "its own files");
    assert_ne!(document["answer"], "unknown");
    std::fs::write(&path, entry.replace("parameters", "parameter")).unwrap();
    let text = refused(&all);
    assert!(text.contains("own.yaml: [0].parameter: unknown field"), "{text}");
    let _ = std::fs::remove_dir_all(&folder);
}
