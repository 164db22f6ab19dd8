//! Command lines whose reading changed between releases of vLLM, and forms that are easily misread.
//!
//! `tests/argv_oracle.rs` compares many more with the releases' own parsers, where those cases are at hand.

#![allow(clippy::too_many_lines, clippy::unwrap_used, clippy::panic, reason = "a test")]

use vramgate::engine::Version;
use vramgate::engine::vllm::options::{self, Entrypoint};
use vramgate::engine::vllm::parse::{ParseError, parse};
use vramgate::invocation::Word;

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
        Entrypoint::ApiServer
    };
    // `__` stands for a space within a word.
    let texts: Vec<String> = line.split(' ').map(|word| word.replace("__", " ")).collect();
    let words: Vec<Word<'_>> = texts.iter().map(|text| Word::literal(text)).collect();
    let file = |path: &str| match path {
        "/f.yaml" => Ok("gpu_memory_utilization: 0.5\ntensor-parallel-size: 4\nenforce-eager: true\n"),
        "/m.yml" => Ok("model: from/file\n"),
        _ => Err("there is no such file".to_owned()),
    };
    let parsed = parse(position, entrypoint, &words, &file);
    match &parsed.error {
        Some(ParseError::Ambiguous(_)) => "ambiguous".to_owned(),
        Some(ParseError::Unrecognized(words)) => format!("unrecognized {}", words.join(" ")),
        Some(ParseError::InvalidValue { option, .. }) => format!("invalid {option}"),
        Some(ParseError::FlagTakesNoValue(option)) => format!("no value {option}"),
        Some(ParseError::MissingValue(option)) => format!("missing {option}"),
        Some(ParseError::MissingModel(_)) => "no model".to_owned(),
        Some(ParseError::Other(_)) => "other".to_owned(),
        None => {
            let refused = match (parsed.refused_by_config().is_empty(), parsed.refused_together()) {
                (true, None) => String::new(),
                (true, Some(why)) => format!(" {why}"),
                (false, _) => " refused".to_owned(),
            };
            let int = |option| parsed.int(option).map_or("-".to_owned(), |int| int.to_string());
            format!(
                "{} {} {}/{}/{} {}{refused}",
                parsed.model().unwrap_or("-"),
                parsed.text("--gpu-memory-utilization").unwrap_or("-"),
                int("--tensor-parallel-size"),
                int("--pipeline-parallel-size"),
                int("--data-parallel-size"),
                int("--max-model-len"),
            )
        }
    }
}

#[test]
fn lines_are_read_by_release() {
    let cases: &[(&str, &[(&str, &str)])] = &[
        (
            "serve m",
            &[
                ("0.6.3.post1", "m 0.9 1/1/- -"),
                ("0.19.1", "m 0.9 1/1/1 -"),
                ("0.20.0", "m 0.92 1/1/1 -"),
            ],
        ),
        (
            "serve",
            &[
                ("0.7.3", "no model"),
                ("0.9.1", "facebook/opt-125m 0.9 1/1/1 -"),
                ("0.33.0", "Qwen/Qwen3-0.6B 0.92 1/1/1 -"),
            ],
        ),
        // Choices that say nothing of memory, by release; a number is compared as one.
        (
            "serve m --lora-dtype float32",
            &[
                ("0.6.3.post1", "m 0.9 1/1/- -"),
                ("0.10.2", "invalid --lora-dtype"),
                ("0.12.0", "m 0.9 1/1/1 -"),
            ],
        ),
        (
            "serve m --mamba-cache-dtype bfloat16",
            &[
                ("0.20.0", "invalid --mamba-cache-dtype"),
                ("0.23.0", "m 0.92 1/1/1 -"),
            ],
        ),
        ("serve m --block-size 016", &[("0.11.0", "m 0.9 1/1/1 -")]),
        ("serve m --block-size 17", &[("0.11.0", "invalid --block-size")]),
        (
            "serve m --collect-detailed-traces model,worker",
            &[
                ("0.19.1", "m 0.9 1/1/1 -"),
                ("0.33.0", "invalid --collect-detailed-traces"),
            ],
        ),
        (
            "serve m --enable-chunked-prefill=yes",
            &[
                ("0.7.3", "invalid --enable-chunked-prefill"),
                ("0.8.5.post1", "no value --enable-chunked-prefill"),
            ],
        ),
        // JSON is an object where a configuration is read from it, with the keys of the release.
        (
            "serve m --structured-outputs-config 3",
            &[("0.19.1", "invalid --structured-outputs-config")],
        ),
        (
            r#"serve m --kv-events-config {"no_such_key":1}"#,
            &[
                ("0.11.2", "m 0.9 1/1/1 -"),
                ("0.19.1", "invalid --kv-events-config"),
            ],
        ),
        (
            r#"serve m --kv-events-config {"publisher":"zmq"}"#,
            &[("0.19.1", "m 0.9 1/1/1 -")],
        ),
        (
            "serve m --compilation-config {'level':3}",
            &[
                ("0.8.5.post1", "m 0.9 1/1/1 -"),
                ("0.9.1", "invalid --compilation-config"),
            ],
        ),
        (
            "serve m --hf-overrides {x}",
            &[("0.19.1", "invalid --hf-overrides")],
        ),
        ("serve m --hf-overrides x", &[("0.19.1", "m 0.9 1/1/1 -")]),
        ("serve m --lora-modules a=/b", &[("0.19.1", "m 0.9 1/1/1 -")]),
        (
            r#"serve m --lora-modules {"name":"a","path":"/b"}"#,
            &[("0.19.1", "m 0.9 1/1/1 -")],
        ),
        (
            r#"serve m --lora-modules {"name":"a"}"#,
            &[("0.19.1", "invalid --lora-modules")],
        ),
        // Options that the server refuses together.
        (
            "serve m --enable-auto-tool-choice",
            &[
                (
                    "0.11.0",
                    "m 0.9 1/1/1 - --enable-auto-tool-choice needs --tool-call-parser",
                ),
                (
                    "0.6.3.post1",
                    "m 0.9 1/1/- - --enable-auto-tool-choice needs --tool-call-parser",
                ),
            ],
        ),
        (
            "serve m --enable-auto-tool-choice --tool-call-parser hermes",
            &[("0.11.0", "m 0.9 1/1/1 -")],
        ),
        (
            "serve m --headless --api-server-count 2",
            &[(
                "0.12.0",
                "m 0.9 1/1/1 - --headless and an --api-server-count above 1 exclude each other",
            )],
        ),
        (
            "serve m --headless --api-server-count 1",
            &[("0.12.0", "m 0.9 1/1/1 -"), ("0.16.0", "other")],
        ),
        (
            "serve m --data-parallel-external-lb --data-parallel-hybrid-lb",
            &[
                ("0.12.0", "m 0.9 1/1/1 -"),
                (
                    "0.18.1",
                    "m 0.9 1/1/1 - more than one way to balance between data-parallel ranks",
                ),
            ],
        ),
        ("serve m --model facebook/opt-125m", &[("0.7.3", "m 0.9 1/1/- -")]),
        // Spellings: underscores, prefixes, `=`, the last one wins.
        (
            "serve m --gpu_memory-utilization=0.4",
            &[("0.6.3.post1", "m 0.4 1/1/- -"), ("0.33.0", "m 0.4 1/1/1 -")],
        ),
        (
            "serve m --gpu-mem 0.4 --gpu_mem=0.2",
            &[("0.11.0", "m 0.2 1/1/1 -")],
        ),
        (
            "serve m --gpu.x 0.4",
            &[("0.8.5.post1", "unrecognized --gpu.x 0.4")],
        ),
        (
            "serve m --device-memory-utilization 0.4",
            &[
                ("0.30.0", "unrecognized --device-memory-utilization 0.4"),
                ("0.33.0", "m 0.4 1/1/1 -"),
            ],
        ),
        ("serve m -t 2 -pp 3", &[("0.11.0", "m 0.9 2/3/1 -")]),
        ("serve m -tp2", &[("0.11.0", "unrecognized -tp2")]),
        ("serve m -n2", &[("0.12.0", "m 0.9 1/1/1 -")]),
        ("serve m --tp 2", &[("0.11.0", "unrecognized --tp 2")]),
        (
            "serve m --data-parallel 2",
            &[("0.8.5.post1", "m 0.9 1/1/2 -"), ("0.9.1", "ambiguous")],
        ),
        (
            "serve m -quantization=fp8",
            &[("0.7.3", "invalid --quantization"), ("0.10.2", "m 0.9 1/1/1 -")],
        ),
        (
            "serve --model m",
            &[
                ("0.11.0", "no model"),
                ("0.11.2", "m 0.9 1/1/1 -"),
                ("0.12.0", "m 0.9 1/1/1 -"),
            ],
        ),
        (
            "serve m -O3",
            &[("0.9.1", "m 0.9 1/1/1 -"), ("0.9.2", "m 0.9 1/1/1 -")],
        ),
        (
            "serve m -O.mode=3 -O.a.b x",
            &[
                ("0.11.2", "m 0.9 1/1/1 -"),
                ("0.12.0", "m 0.9 1/1/1 -"),
                ("0.14.1", "unrecognized x"),
            ],
        ),
        // Values.
        (
            // None is a choice there, and no text is None.
            "serve m --quantization null",
            &[
                ("0.7.3", "invalid --quantization"),
                ("0.8.5.post1", "invalid --quantization"),
            ],
        ),
        (
            "serve m --max-model-len 4k",
            &[
                ("0.7.3", "invalid --max-model-len"),
                ("0.8.5.post1", "m 0.9 1/1/1 4000"),
            ],
        ),
        (
            "serve m --max-model-len 4K --max-model-len 1T",
            &[
                ("0.12.0", "invalid --max-model-len"),
                ("0.16.0", "m 0.9 1/1/1 1099511627776"),
            ],
        ),
        (
            "serve m --max-model-len auto",
            &[
                ("0.12.0", "invalid --max-model-len"),
                ("0.33.0", "m 0.92 1/1/1 -1"),
            ],
        ),
        (
            "serve m --gpu-memory-utilization -1",
            &[("0.11.0", "m -1 1/1/1 -"), ("0.12.0", "m -1 1/1/1 - refused")],
        ),
        (
            "serve m --gpu-memory-utilization -0.5",
            &[("0.9.1", "m -0.5 1/1/1 -"), ("0.11.0", "other")],
        ),
        (
            "serve m --gpu-memory-utilization=-0.5",
            &[("0.11.0", "m -0.5 1/1/1 -"), ("0.33.0", "m -0.5 1/1/1 - refused")],
        ),
        (
            "serve m --gpu-memory-utilization 1.5",
            &[("0.6.3.post1", "m 1.5 1/1/- - refused")],
        ),
        (
            "serve m --gpu-memory-utilization 0,3",
            &[("0.11.0", "invalid --gpu-memory-utilization")],
        ),
        (
            "serve m --gpu-memory-utilization nan",
            &[("0.11.0", "m nan 1/1/1 -"), ("0.12.0", "m nan 1/1/1 - refused")],
        ),
        (
            "serve m -tp 0",
            &[("0.20.0", "m 0.92 0/1/1 -"), ("0.25.1", "m 0.92 0/1/1 - refused")],
        ),
        // Words in places of their own.
        (
            "serve --served-model-name a m",
            &[("0.16.0", "Qwen/Qwen3-0.6B 0.9 1/1/1 -"), ("0.19.1", "no model")],
        ),
        ("serve m --enforce-eager true", &[("0.11.0", "unrecognized true")]),
        (
            "serve m --enforce-eager=true",
            &[("0.11.0", "no value --enforce-eager")],
        ),
        (
            "serve m -- --gpu-memory-utilization 0.4",
            &[("0.11.0", "unrecognized --gpu-memory-utilization 0.4")],
        ),
        (
            "serve m --gpu-memory-utilization",
            &[("0.11.0", "missing --gpu-memory-utilization")],
        ),
        (
            "serve m --gpu-memory-utilization__0.4",
            &[
                ("0.8.5.post1", "unrecognized --gpu-memory-utilization 0.4"),
                ("0.11.0", "other"),
            ],
        ),
        (
            "serve --model m",
            &[
                ("0.7.3", "no model"),
                ("0.11.0", "no model"),
                ("0.12.0", "m 0.9 1/1/1 -"),
            ],
        ),
        (
            "serve m --model=n",
            &[("0.11.0", "m 0.9 1/1/1 -"), ("0.12.0", "unrecognized m")],
        ),
        (
            "serve m --swap-space 4",
            &[
                ("0.16.0", "m 0.9 1/1/1 -"),
                ("0.18.1", "unrecognized --swap-space 4"),
            ],
        ),
        // The module takes the model as an option, and since 0.10 one stray word.
        (
            "--model m",
            &[("0.6.3.post1", "m 0.9 1/1/- -"), ("0.33.0", "m 0.92 1/1/1 -")],
        ),
        (
            "m",
            &[
                ("0.9.1", "unrecognized m"),
                ("0.10.2", "Qwen/Qwen3-0.6B 0.9 1/1/1 -"),
            ],
        ),
        // The file of --config: below the command line, above the default.
        (
            "serve m --config /f.yaml",
            &[("0.6.4.post1", "unrecognized True"), ("0.11.0", "m 0.5 4/1/1 -")],
        ),
        (
            "serve m --gpu-memory-utilization 0.7 --config /f.yaml",
            &[("0.11.0", "m 0.7 4/1/1 -")],
        ),
        ("serve m --config=/f.yaml", &[("0.11.0", "m 0.9 1/1/1 -")]),
        (
            "serve --config /m.yml",
            &[("0.7.3", "no model"), ("0.11.0", "from/file 0.9 1/1/1 -")],
        ),
        (
            "serve m --config /f.yaml --config /f.yaml",
            &[("0.11.0", "other")],
        ),
        (
            "--model m --config /f.yaml",
            &[("0.9.1", "missing --model"), ("0.10.2", "m 0.5 4/1/1 -")],
        ),
        // Dotted keys, and levels of -O.
        (
            "serve m --speculative-config.model d",
            &[
                ("0.8.5.post1", "unrecognized --speculative-config.model d"),
                ("0.11.0", "m 0.9 1/1/1 -"),
            ],
        ),
        (
            "serve m -O3",
            &[
                ("0.6.3.post1", "unrecognized -O3"),
                ("0.11.0", "m 0.9 1/1/1 -"),
                ("0.33.0", "m 0.92 1/1/1 -"),
            ],
        ),
    ];
    for (line, releases) in cases {
        for (version, expected) in *releases {
            assert_eq!(reading(version, line), *expected, "{version}: {line}");
        }
    }
}
