//! SGLang: command lines whose reading changed between releases, ways to start it, and edits of its fraction read again.
//!
//! `tests/sglang_oracle.rs` compares many more lines with the releases' own parsers, where those cases are at hand.

#![allow(clippy::too_many_lines, clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use vramgate::engine::sglang::options::{self, Entrypoint};
use vramgate::engine::sglang::parse::{ParseError, parse};
use vramgate::engine::{self, ImageRule, LookUp, Reading, Sources, Version};
use vramgate::invocation::Word;
use vramgate::units::Fraction;
use vramgate::workload::pod::Pod;

fn file(path: &str) -> Result<&'static str, String> {
    match path {
        "/f.yaml" => {
            Ok("mem-fraction-static: 0.5\ntp-size: 4\ndisable-cuda-graph: true\nskip-server-warmup: false\n")
        }
        "/model.YML" => Ok("model-path: from/file\ncontext-length: 8k\n"),
        "/under.yaml" => Ok("tensor_parallel_size: 4\n"),
        "/list.yaml" => Ok("cuda-graph-bs: [1, 2, 4]\n"),
        "/negatable.yaml" => Ok("lora-strict-loading: true\n"),
        "/true.yaml" => Ok("tp-size: true\n"),
        "/false.yaml" => Ok("tp-size: false\n"),
        "/mapping.yaml" => Ok("mm-process-config: {image: {size: 1}}\n"),
        "/empty.yaml" => Ok("# nothing\n"),
        "/model.json" => Ok("{}"),
        _ => Err("there is no such file".to_owned()),
    }
}

/// `model fraction tensor/pipeline/data length`, or the kind of error.
fn reading(version: &str, line: &str) -> String {
    let release = Version::parse(version).unwrap();
    let position = options::releases()
        .iter()
        .position(|known| *known == release)
        .unwrap();
    let entrypoint = if line.starts_with("serve") {
        Entrypoint::Serve
    } else {
        Entrypoint::LaunchServer
    };
    // `__` stands for a space within a word.
    let texts: Vec<String> = line.split(' ').map(|word| word.replace("__", " ")).collect();
    let words: Vec<Word<'_>> = texts.iter().map(|text| Word::literal(text)).collect();
    let parsed = parse(position, entrypoint, &words, &file);
    match &parsed.error {
        Some(ParseError::Ambiguous(word)) => format!("ambiguous {word}"),
        Some(ParseError::Unrecognized(words)) => format!("unrecognized {}", words.join(" ")),
        Some(ParseError::InvalidValue { option, .. }) => format!("invalid {option}"),
        Some(ParseError::FlagTakesNoValue(option)) => format!("no value {option}"),
        Some(ParseError::MissingValue(option)) => format!("missing {option}"),
        Some(ParseError::MissingModel(_)) => "no model".to_owned(),
        Some(ParseError::Other(_)) => "other".to_owned(),
        None => {
            let int = |option| parsed.int(option).map_or("-".to_owned(), |int| int.to_string());
            format!(
                "{} {} {}/{}/{} {}",
                parsed.text("--model-path").unwrap_or("-"),
                parsed.text("--mem-fraction-static").unwrap_or("-"),
                int("--tp-size"),
                int("--pp-size"),
                int("--dp-size"),
                int("--context-length"),
            )
        }
    }
}

#[test]
fn lines_are_read_by_release() {
    let cases: &[(&str, &[(&str, &str)])] = &[
        (
            "--model-path m",
            &[
                ("0.4.1", "m - 1/-/1 -"),
                ("0.4.6.post5", "m - 1/1/1 -"),
                ("0.5.23", "m - 1/1/1 -"),
            ],
        ),
        // Spellings: prefixes and aliases, no underscores, the last one wins.
        (
            "--model m --mem 0.3 --tp 2 --mem-fraction-static=0.25",
            &[("0.4.1", "m 0.25 2/-/1 -"), ("0.5.15.post1", "m 0.25 2/1/1 -")],
        ),
        (
            "--model m --tensor-parallel-size 2 --data-parallel-size=4",
            &[("0.4.9.post6", "m - 2/1/4 -"), ("0.5.23", "m - 2/1/4 -")],
        ),
        (
            "--model m --pp 2",
            &[("0.4.6.post5", "m - 1/2/1 -"), ("0.5.3.post3", "ambiguous --pp")],
        ),
        (
            "--model m --context 8192",
            &[
                ("0.5.15.post1", "m - 1/1/1 8192"),
                ("0.5.23", "ambiguous --context"),
            ],
        ),
        (
            "--model m --tp_size 2",
            &[("0.5.10.post1", "unrecognized --tp_size 2")],
        ),
        ("--model m -tp 2", &[("0.5.10.post1", "unrecognized -tp 2")]),
        (
            "--model m --ep 2",
            &[("0.4.9.post6", "ambiguous --ep"), ("0.5.3.post3", "m - 1/1/1 -")],
        ),
        ("-h", &[("0.5.23", "other")]),
        // Values.
        (
            "--model m --context-length 128k",
            &[
                ("0.5.6.post2", "invalid --context-length"),
                ("0.5.10.post1", "m - 1/1/1 128000"),
            ],
        ),
        (
            "--model m --context-length 32Ki --mem-fraction-static -0.5",
            &[("0.5.15.post1", "m -0.5 1/1/1 32768")],
        ),
        (
            "--model m --mem-fraction-static 30%",
            &[("0.5.23", "invalid --mem-fraction-static")],
        ),
        (
            "--model m --mem-fraction-static",
            &[("0.5.23", "missing --mem-fraction-static")],
        ),
        (
            "--model m --disable-cuda-graph true",
            &[("0.5.3.post3", "unrecognized true")],
        ),
        (
            "--model m --disable-cuda-graph=true",
            &[("0.5.3.post3", "no value --disable-cuda-graph")],
        ),
        ("--model m --lora-paths --tp 2", &[("0.5.3.post3", "m - 2/1/1 -")]),
        (
            "--model m --cuda-graph-bs --tp 2",
            &[("0.5.3.post3", "missing --cuda-graph-bs")],
        ),
        (
            "--model m --cuda-graph-bs 1 2 x",
            &[("0.5.3.post3", "invalid --cuda-graph-bs")],
        ),
        (
            "--model m --kv-cache-dtype bf16",
            &[
                ("0.5.3.post3", "invalid --kv-cache-dtype"),
                ("0.5.23", "m - 1/1/1 -"),
            ],
        ),
        // The file of `--config`: a word of its own, before the command line.
        (
            "--model m --config /f.yaml --tp 2",
            &[
                ("0.4.9.post6", "unrecognized --config /f.yaml"),
                ("0.5.3.post3", "m 0.5 2/1/1 -"),
                // A deprecated flag is more than a plain one there.
                ("0.5.15.post1", "other"),
            ],
        ),
        (
            "--tp 2 --config /f.yaml --model m",
            &[("0.5.10.post1", "m 0.5 2/1/1 -")],
        ),
        ("--model m --config=/f.yaml", &[("0.5.10.post1", "m - 1/1/1 -")]),
        (
            "--config /model.YML",
            &[
                ("0.5.6.post2", "invalid --context-length"),
                ("0.5.10.post1", "from/file - 1/1/1 8000"),
            ],
        ),
        (
            "--model m --config /under.yaml",
            &[("0.5.23", "unrecognized --tensor_parallel_size 4")],
        ),
        (
            "--model m --config /list.yaml",
            &[("0.5.10.post1", "m - 1/1/1 -")],
        ),
        ("--model m --config /negatable.yaml", &[("0.5.23", "other")]),
        (
            "--model m --config /true.yaml",
            &[
                ("0.5.6.post2", "missing --tp-size"),
                ("0.5.10.post1", "invalid --tp-size"),
            ],
        ),
        (
            "--model m --config /false.yaml",
            &[
                ("0.5.6.post2", "m - 1/1/1 -"),
                ("0.5.10.post1", "invalid --tp-size"),
            ],
        ),
        (
            "--model m --config /mapping.yaml",
            &[
                ("0.5.10.post1", "invalid --mm-process-config"),
                ("0.5.23", "m - 1/1/1 -"),
            ],
        ),
        ("serve m --model-type other", &[("0.5.23", "other")]),
        ("--model m --config /empty.yaml", &[("0.5.23", "m - 1/1/1 -")]),
        ("--model m --config /model.json", &[("0.5.23", "other")]),
        (
            "--model m --config /f.yaml --config /f.yaml",
            &[("0.5.10.post1", "other")],
        ),
        // `sglang serve`.
        (
            "serve m --tp 2",
            &[
                ("0.5.3.post3", "other"),
                ("0.5.15.post1", "no model"),
                ("0.5.23", "m - 2/1/1 -"),
            ],
        ),
        ("serve --model-path=m", &[("0.5.6.post2", "m - 1/1/1 -")]),
        (
            "serve --model m",
            &[("0.5.10.post1", "no model"), ("0.5.15.post1", "m - 1/1/1 -")],
        ),
        ("serve --model-p m", &[("0.5.23", "no model")]),
        ("serve --config /model.YML", &[("0.5.23", "no model")]),
        ("serve --model-type llm m", &[("0.5.23", "m - 1/1/1 -")]),
        (
            "serve --model-path m --model-type=llm",
            &[
                ("0.5.6.post2", "unrecognized --model-type=llm"),
                ("0.5.10.post1", "m - 1/1/1 -"),
            ],
        ),
        ("serve m --model-type", &[("0.5.23", "missing --model-type")]),
        ("serve m -h", &[("0.5.23", "other")]),
    ];
    for (line, results) in cases {
        for (version, expected) in *results {
            assert_eq!(reading(version, line), *expected, "{version} {line}");
        }
    }
}

struct Maps(BTreeMap<String, BTreeMap<String, String>>);

impl Sources for Maps {
    fn config_map(&self, _namespace: &str, name: &str) -> LookUp<'_> {
        self.0.get(name).map_or(LookUp::Missing, LookUp::Found)
    }
}

fn read(container: &Value) -> Reading {
    read_with(container, &[])
}

fn read_with(container: &Value, rules: &[ImageRule]) -> Reading {
    let mut container = container.clone();
    if container.get("resources").is_none() {
        container["resources"] = json!({"limits": {"nvidia.com/gpu": 2}});
    }
    container["name"] = json!("server");
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "team"},
        "spec": {
            "containers": [container],
            "volumes": [{"name": "config", "configMap": {"name": "files"}}],
        },
    }))
    .unwrap();
    let files = BTreeMap::from([(
        "engine.yaml".to_owned(),
        "mem-fraction-static: 0.45\ntp-size: 2\n".to_owned(),
    )]);
    let maps = Maps(BTreeMap::from([("files".to_owned(), files)]));
    let placed = engine::containers(&pod).next().unwrap();
    let mut readings = engine::read(&pod, placed, &maps, rules);
    assert_eq!(readings.len(), 1, "{container}: {readings:#?}");
    readings.remove(0)
}

fn name<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value).unwrap().as_str().unwrap().to_owned()
}

/// `model fraction source tp/pp/dp=devices starts codes`
fn summary(reading: &Reading) -> String {
    let codes: Vec<&str> = reading
        .findings
        .iter()
        .map(|finding| finding.code.as_str())
        .collect();
    let p = reading.parallelism;
    format!(
        "{} {} {} {}/{}/{}={} {} {}",
        reading.model.as_deref().unwrap_or("-"),
        reading.memory.value.as_deref().unwrap_or("-"),
        name(&reading.memory.source),
        p.tensor,
        p.pipeline,
        p.data,
        p.devices,
        name(&reading.starts),
        codes.join(",")
    )
    .trim_end()
    .to_owned()
}

/// The container with the fraction that the reading's edit writes.
fn edited(container: &Value, reading: &Reading, fraction: &str) -> Option<Value> {
    let edit = reading.fraction_edit.as_ref()?;
    let mut container = container.clone();
    let value = json!(format!("{}{fraction}{}", edit.before, edit.after));
    match edit.pointer.strip_suffix("/-") {
        Some(list) => container.pointer_mut(list)?.as_array_mut()?.push(value),
        None if edit.add => container[edit.pointer.trim_start_matches('/')] = json!([value]),
        None => *container.pointer_mut(&edit.pointer)? = value,
    }
    Some(container)
}

/// Reads a container, applies the edit and reads again.
fn check(container: &Value, expected: &str, editable: bool) {
    let reading = read(container);
    assert_eq!(summary(&reading), expected, "{container}\n{reading:#?}");
    let changed = edited(container, &reading, "0.123");
    assert_eq!(changed.is_some(), editable, "{container}");
    let Some(changed) = changed else {
        return;
    };
    let again = read(&changed);
    assert_eq!(again.memory.value.as_deref(), Some("0.123"), "edited: {changed}");
    assert_eq!(name(&again.memory.source), "flag", "edited: {changed}");
    assert_eq!(again.memory.fraction.as_ref().map(Fraction::ppm), Some(123_000));
    assert_eq!(again.model, reading.model, "edited: {changed}");
}

const IMAGE: &str = "lmsysorg/sglang:v0.5.10.post1-cu129";
const LAUNCH: [&str; 3] = ["python3", "-m", "sglang.launch_server"];

fn launched(args: &[&str]) -> Value {
    json!({"image": IMAGE, "command": LAUNCH, "args": args})
}

#[test]
fn argument_lists_are_read_and_edited() {
    for (args, expected) in [
        (&["--model-path", "m"][..], "m - engine-auto 1/1/1=1 yes"),
        (
            &["--model-path", "m", "--mem-fraction-static", "0.4"],
            "m 0.4 flag 1/1/1=1 yes",
        ),
        (
            &["--model-path", "m", "--mem=0.4", "--tp=2"],
            "m 0.4 flag 2/1/1=2 yes",
        ),
        (
            &["--model-path", "m", "--tp", "2", "--dp", "2"],
            "m - engine-auto 2/1/2=4 unknown",
        ),
        (
            &[
                "--model-path",
                "m",
                "--tp",
                "2",
                "--dp",
                "2",
                "--enable-dp-attention",
            ],
            "m - engine-auto 2/1/2=2 yes",
        ),
        (
            &[
                "--model-path",
                "m",
                "--tp",
                "4",
                "--nnodes",
                "2",
                "--node-rank",
                "1",
            ],
            "m - engine-auto 4/1/1=2 yes",
        ),
        (
            &["--model-path", "m", "--tp", "8", "--nnodes", "$(GROUP)"],
            "m - engine-auto 8/1/1=8 no VG107",
        ),
        (
            &["--model-path", "m", "--base-gpu-id", "1"],
            "m - engine-auto 1/1/1=1 yes",
        ),
        (
            &["--model-path", "m", "--base-gpu-id", "2"],
            "m - engine-auto 1/1/1=1 unknown",
        ),
        (
            &["--model-path", "m", "--tp", "2", "--gpu-id-step", "2"],
            "m - engine-auto 2/1/1=2 unknown",
        ),
        // The fraction must lie between 0 and 1; the parser takes any number.
        (
            &["--model-path", "m", "--mem-fraction-static", "1.0"],
            "m 1.0 flag 1/1/1=1 unknown VG101",
        ),
        (
            &["--model-path", "m", "--mem-fraction-static", "0"],
            "m 0 flag 1/1/1=1 unknown VG101",
        ),
        (
            &["--model-path", "m", "--mem-fraction-static", "40"],
            "m 40 flag 1/1/1=1 unknown VG101",
        ),
        (
            &["--model-path", "m", "--mem-fraction-static=nan"],
            "m nan flag 1/1/1=1 unknown VG101",
        ),
        (
            &["--model-path", "m", "--mem-fraction-static", "40%"],
            "m 40% flag 1/1/1=1 no VG101",
        ),
        // Refused by this release.
        (
            &["--model-path", "m", "--mem_fraction_static", "0.4"],
            "m - engine-auto 1/1/1=1 no VG107,VG108",
        ),
        (
            &["--model-path", "m", "--pp", "2"],
            "m - engine-auto 1/1/1=1 no VG107",
        ),
        (
            &["--model-path", "m", "--gpu-memory-utilization", "0.4"],
            "m - engine-auto 1/1/1=1 no VG107",
        ),
        (&["--tp", "2"], "- - engine-auto 2/1/1=2 no VG107"),
    ] {
        check(&launched(args), expected, true);
    }
    // What was meant is read; the engine refuses it as it is.
    check(
        &launched(&["--model-path", "m", "--mem-fraction-static 0.4"]),
        "m 0.4 flag 1/1/1=1 no VG104",
        false,
    );
}

#[test]
fn releases_come_from_tags() {
    let line = |image: &str, args: &[&str]| {
        summary(&read(&json!({"image": image, "command": LAUNCH, "args": args})))
    };
    let context = ["--model-path", "m", "--context-length", "8k"];
    assert_eq!(
        line("lmsysorg/sglang:v0.5.3-cu126", &context),
        "m - engine-auto 1/1/1=1 no VG107"
    );
    assert_eq!(
        line("lmsysorg/sglang:v0.5.12", &context),
        "m - engine-auto 1/1/1=1 yes"
    );
    // A release between two that were read: what one of its neighbours takes is not refused.
    assert_eq!(
        line("lmsysorg/sglang:v0.5.8", &context),
        "m - engine-auto 1/1/1=1 yes"
    );
    assert_eq!(
        line("lmsysorg/sglang:latest", &context),
        "m - engine-auto 1/1/1=1 yes VG109"
    );
    assert_eq!(
        line("lmsysorg/sglang@sha256:00", &context),
        "m - engine-auto 1/1/1=1 yes"
    );
    let reading = read(&launched(&context));
    assert_eq!(reading.version, Version::parse("0.5.10.post1"));
    assert_eq!(reading.max_model_len, Some(8000));
}

#[test]
fn defaults_and_types_are_told() {
    let reading = read(&launched(&[
        "--model-path",
        "m",
        "--disable-cuda-graph",
        "--quantization",
        "fp8",
        "--kv-cache-dtype=fp8_e5m2",
    ]));
    assert!(reading.eager);
    assert_eq!(reading.command.as_deref(), Some("launch-server"));
    assert_eq!(reading.quantization.as_deref(), Some("fp8"));
    assert_eq!(reading.dtype.as_deref(), Some("auto"));
    assert_eq!(reading.kv_cache_dtype.as_deref(), Some("fp8_e5m2"));
    assert_eq!(reading.max_model_len, None);
    assert_eq!(name(&reading.memory.kind), "of-free");
    let cpu = launched(&["--model-path", "m", "--device", "cpu"]);
    let mut old = cpu.clone();
    old["image"] = json!("lmsysorg/sglang:v0.5.2-xeon");
    assert_eq!(name(&read(&old).starts), "no");
    let cpu = read(&cpu);
    assert_eq!(name(&cpu.starts), "yes");
    assert_eq!(
        (name(&cpu.memory.kind), cpu.parallelism.devices),
        ("none".to_owned(), 0)
    );
}

#[test]
fn other_forms_are_read_and_edited() {
    let mount = json!([{"name": "config", "mountPath": "/etc/engine"}]);
    for (container, expected, editable) in [
        (
            json!({"image": "lmsysorg/sglang:v0.5.23", "command": ["sglang", "serve", "m", "--tp", "2"]}),
            "m - engine-auto 2/1/1=2 yes",
            true,
        ),
        (
            json!({"image": IMAGE, "command": ["sglang", "serve"], "args": ["m"]}),
            "m - engine-auto 1/1/1=1 no VG107",
            true,
        ),
        (
            json!({"image": IMAGE, "command": ["sglang", "serve"], "args": ["--model-path", "m", "--mem-frac=0.3"]}),
            "m 0.3 flag 1/1/1=1 yes",
            true,
        ),
        // The image runs what its arguments name.
        (
            json!({"image": IMAGE, "args": ["python3", "-m", "sglang.launch_server", "--model-path", "m"]}),
            "m - engine-auto 1/1/1=1 yes",
            true,
        ),
        (
            json!({"image": IMAGE, "args": ["--model-path", "m"]}),
            "m - engine-auto 1/1/1=1 no",
            true,
        ),
        (
            json!({"image": IMAGE, "command": ["bash", "-c"],
                "args": ["export TP=2; exec python3 -m sglang.launch_server --model-path m --tp $TP --mem-fraction-static 0.6 --port 80"]}),
            "m 0.6 flag 2/1/1=2 yes",
            true,
        ),
        (
            json!({"image": IMAGE, "command": ["sh", "-c", "python3 -m sglang.launch_server --model-path m && echo done"]}),
            "m - engine-auto 1/1/1=1 yes",
            true,
        ),
        (
            json!({"image": IMAGE, "command": ["sh", "-c", "python3 -m sglang.launch_server --model-path m --mem-fraction-static $(cat /f)"]}),
            "m - unresolved 1/1/1=1 yes",
            true,
        ),
        (
            json!({"image": IMAGE, "command": LAUNCH, "args": ["--model-path", "m", "--config", "/etc/engine/engine.yaml"],
                "volumeMounts": mount}),
            "m 0.45 config-file 2/1/1=2 yes",
            true,
        ),
        (
            json!({"image": IMAGE, "command": LAUNCH, "args": ["--config", "/elsewhere.yaml"]}),
            "- - unresolved 1/1/1=1 unknown",
            true,
        ),
        (
            json!({"image": "nvcr.io/nvidia/ai-dynamo/sglang-runtime:0.7.0",
                "command": ["python3", "-m", "dynamo.sglang", "--model-path", "m", "--endpoint", "dyn://a.b.c", "--mem-fraction-static", "0.5"]}),
            "m 0.5 flag 1/1/1=1 yes",
            true,
        ),
        (
            json!({"image": "a/sglang:0.5.15-gpu-py312-cu130-ubuntu24.04-sagemaker", "env": [
                {"name": "SM_SGLANG_MODEL_PATH", "value": "m"},
                {"name": "SM_SGLANG_TP_SIZE", "value": "2"},
                {"name": "SM_SGLANG_DISABLE_CUDA_GRAPH", "value": "True"},
                {"name": "SM_SGLANG_TRUST_REMOTE_CODE", "value": "false"},
                {"name": "SM_SGLANG_MEM_FRACTION_STATIC", "value": "0.55"},
            ]}),
            "m 0.55 env 2/1/1=2 yes",
            false,
        ),
        (
            json!({"image": "a/sglang:0.5.15-gpu-py312-cu130-ubuntu24.04-sagemaker", "args": ["--tp", "2"]}),
            "/opt/ml/model - engine-auto 1/1/1=1 yes",
            false,
        ),
    ] {
        check(&container, expected, editable);
    }
}

#[test]
fn a_policy_says_which_variables_an_image_reads() {
    let rule = ImageRule {
        images: vec!["registry.example/*".to_owned()],
        engine: Some("sglang".to_owned()),
        version: Some("0.5.15.post1".to_owned()),
        entrypoint: ["sglang", "serve"].map(str::to_owned).to_vec(),
        variables: [
            ("FRACTION", "mem-fraction-static"),
            ("TP", "--tp-size"),
            ("EAGER", "--disable-cuda-graph"),
        ]
        .map(|(variable, option)| (variable.to_owned(), option.to_owned()))
        .into(),
    };
    let container = json!({"image": "registry.example/llm:1", "args": ["--model", "m", "--tp", "2"], "env": [
        {"name": "FRACTION", "value": "0.2"}, {"name": "TP", "value": "4"}, {"name": "EAGER", "value": "1"},
    ]});
    let reading = read_with(&container, std::slice::from_ref(&rule));
    assert_eq!(summary(&reading), "m 0.2 env 2/1/1=2 yes");
    assert!(reading.eager);
    assert_eq!(reading.memory.path.as_str(), "spec.containers[0].env[0]");
    let changed = edited(&container, &reading, "0.123").unwrap();
    let again = read_with(&changed, std::slice::from_ref(&rule));
    assert_eq!(summary(&again), "m 0.123 flag 2/1/1=2 yes");
}

#[test]
fn findings_name_the_place() {
    let finding = |args: &[&str]| {
        let reading = read(&launched(args));
        let finding = &reading.findings[0];
        (finding.path.as_str().to_owned(), finding.message.clone())
    };
    let (path, message) = finding(&["--model-path", "m", "--mem-fraction-static", "1"]);
    assert_eq!(path, "spec.containers[0].args[3]");
    assert!(message.contains("is not below 1"), "{message}");
    let (path, message) = finding(&["--model-path", "m", "--tensor-parallel-size=two"]);
    assert_eq!(path, "spec.containers[0].args[2]");
    assert!(message.contains("SGLang 0.5.10.post1"), "{message}");
    let (path, _) = finding(&["--model-path", "m", "--mem_fraction_static", "0.4"]);
    assert_eq!(path, "spec.containers[0].args[2]");
}

fn words() -> impl Strategy<Value = Vec<String>> {
    let word = prop_oneof![
        3 => proptest::sample::select(vec![
            "--model-path", "--model", "m", "--mem-fraction-static", "--mem", "0.4", "--tp", "2", "--tp-size=2",
            "--config", "/f.yaml", "/model.YML", "--", "-", "-h", "-1", "--lora-paths", "--cuda-graph-bs", "serve",
            "--model-type", "--model-type=llm", "", " ", "--=", "-=x", "--mem=", "--no-lora-strict-loading", "\u{ff15}",
        ]).prop_map(str::to_owned),
        1 => "\\PC{0,12}",
        1 => "--[a-z_-]{0,12}(=\\PC{0,4})?",
    ];
    proptest::collection::vec(word, 0..24)
}

proptest! {
    /// Any words are read by every release without a panic, and every place is one of a given word.
    #[test]
    fn any_line_is_read(texts in words(), serve in any::<bool>()) {
        let given: Vec<Word<'_>> = texts.iter().map(|text| Word::literal(text)).collect();
        let entrypoint = if serve { Entrypoint::Serve } else { Entrypoint::LaunchServer };
        for position in 0..options::releases().len() {
            let parsed = parse(position, entrypoint, &given, &file);
            for setting in &parsed.settings {
                prop_assert!(setting.place.word < given.len());
                let text = &given[setting.place.word].text;
                prop_assert!(text.is_char_boundary(setting.place.offset.min(text.len())));
            }
        }
    }

    /// Any files are read without a panic.
    #[test]
    fn any_config_file_is_read(body in "(\\PC|\n){0,80}") {
        let given = ["--model-path", "m", "--config", "c.yaml"].map(Word::literal);
        let file = |_: &str| Ok(body.as_str());
        let parsed = parse(options::releases().len() - 1, Entrypoint::LaunchServer, &given, &file);
        prop_assert!(parsed.error.is_some() || parsed.text("--model-path").is_some());
    }

    /// Any container is read without a panic, and an edit takes effect where one is offered for a line that is known.
    #[test]
    fn any_edit_takes_effect(texts in words()) {
        let container = json!({"image": IMAGE, "command": LAUNCH, "args": texts});
        let reading = read(&container);
        if let Some(changed) = edited(&container, &reading, "0.123") {
            let again = read(&changed);
            let stops = texts.iter().any(|text| text == "--");
            let same = again.memory.value.as_deref() == Some("0.123");
            prop_assert!(same || stops || name(&reading.starts) != "yes", "{} {}", container, changed);
        }
    }
}

#[test]
fn long_lines_take_linear_time() {
    let mut texts = vec!["--model-path".to_owned(), "m".to_owned()];
    for index in 0..50_000 {
        texts.push(format!("--mem-fraction-static=0.{}", index % 9 + 1));
        texts.push("--tp".to_owned());
        texts.push("2".to_owned());
    }
    let given: Vec<Word<'_>> = texts.iter().map(|text| Word::literal(text)).collect();
    let parsed = parse(
        options::releases().len() - 1,
        Entrypoint::LaunchServer,
        &given,
        &file,
    );
    assert_eq!(parsed.error, None);
    assert_eq!(parsed.settings.len(), 100_001);
}
