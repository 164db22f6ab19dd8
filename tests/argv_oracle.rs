//! Command lines against what the parsers of thirteen vLLM releases make of them, value by value.
//!
//! The cases stand beside the repository (`../shared/cases`); where they are absent the test says so and passes.
//! `tests/argv_cases.rs` holds cases that are always there.

#![allow(
    clippy::too_many_lines,
    clippy::float_cmp,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    clippy::float_arithmetic,
    reason = "a test"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use vramgate::engine::Version;
use vramgate::engine::vllm::options::{self, Entrypoint};
use vramgate::engine::vllm::parse::{ParseError, Parsed, parse};
use vramgate::engine::vllm::value::{self, Value as Read};
use vramgate::invocation::Word;

fn oracle() -> Option<Value> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/cases/vllm-argv-oracle.yaml");
    let path = std::env::var_os("VRAMGATE_ARGV_ORACLE").map_or(path, PathBuf::from);
    let text = std::fs::read_to_string(&path).ok()?;
    let mut limits = serde_saphyr::Options::default();
    limits.budget = None;
    Some(serde_saphyr::from_str_with_options(&text, limits).unwrap())
}

/// The values that decide about memory and devices; `true` where it is an integer.
const FIELDS: [(&str, &str); 10] = [
    ("model", "text"),
    ("tensor_parallel_size", "int"),
    ("pipeline_parallel_size", "int"),
    ("data_parallel_size", "int"),
    ("gpu_memory_utilization", "float"),
    ("max_model_len", "int"),
    ("dtype", "text"),
    ("quantization", "text"),
    ("kv_cache_dtype", "text"),
    ("enforce_eager", "flag"),
];

fn float(text: &str) -> String {
    let plain: String = value::ascii_digits(text.trim()).replace('_', "");
    let number: f64 = plain.parse().unwrap();
    format!("{number:?}").to_lowercase()
}

fn read(parsed: &Parsed<'_>, field: &str, kind: &str) -> Value {
    let option = format!("--{}", field.replace('_', "-"));
    match kind {
        "flag" => Value::Bool(parsed.flag(&option)),
        "int" => match parsed.int(&option) {
            None => Value::Null,
            Some(int) => i64::try_from(int).map_or_else(|_| Value::String(int.to_string()), Value::from),
        },
        "float" => parsed
            .text(&option)
            .map_or(Value::Null, |text| Value::String(float(text))),
        _ if field == "model" => parsed.model().map_or(Value::Null, Value::from),
        _ => match parsed.last(&option) {
            Some(setting) if setting.value == Read::Unset => Value::Null,
            _ => parsed.text(&option).map_or(Value::Null, Value::from),
        },
    }
}

fn same(field: &str, expected: &Value, got: &Value) -> bool {
    // Both sides print a float; Python writes the exponent with a sign.
    if field == "gpu_memory_utilization" {
        let number = |value: &Value| value.as_str().and_then(|text| text.parse::<f64>().ok());
        return match (number(expected), number(got)) {
            (Some(a), Some(b)) => a == b || a.is_nan() && b.is_nan(),
            (a, b) => a.is_none() && b.is_none(),
        };
    }
    if let (Some(a), Some(b)) = (expected.as_str(), got.as_str())
        && field == "max_model_len"
    {
        // What is beyond 128 bits is kept as the largest integer.
        return value::python_int(a) == value::python_int(b);
    }
    expected == got
}

fn error_name(error: &ParseError) -> &'static str {
    match error {
        ParseError::Ambiguous(_) => "ambiguous-option",
        ParseError::Unrecognized(_) => "unrecognized-arguments",
        ParseError::InvalidValue { .. } | ParseError::FlagTakesNoValue(_) => "invalid-value",
        ParseError::MissingValue(_) => "missing-value",
        ParseError::MissingModel(_) => "missing-model",
        ParseError::Other(_) => "other",
    }
}

#[test]
fn command_lines_are_read_as_each_release_reads_them() {
    let Some(oracle) = oracle() else {
        println!("skipped: ../shared/cases/vllm-argv-oracle.yaml is not there");
        return;
    };
    let versions: Vec<&str> = oracle["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_str().unwrap())
        .collect();
    let mut pairs = 0;
    let mut kinds = 0;
    let mut refusals = 0;
    let mut wrong = Vec::new();
    for case in oracle["cases"].as_array().unwrap() {
        let argv: Vec<&str> = case["argv"]
            .as_array()
            .unwrap()
            .iter()
            .map(|w| w.as_str().unwrap())
            .collect();
        let words: Vec<Word<'_>> = argv.iter().map(|text| Word::literal(text)).collect();
        let entrypoint = case["entrypoint"].as_str().unwrap();
        let side = if entrypoint == "serve" {
            Entrypoint::Serve
        } else {
            Entrypoint::ApiServer
        };
        let file = |path: &str| {
            let config = &case["config"];
            if config["path"] == path {
                Ok(config["body"].as_str().unwrap())
            } else {
                Err("no such file".to_owned())
            }
        };
        let results = case["results"].as_array().unwrap();
        let at = |version: &Value| {
            versions
                .iter()
                .position(|v| *v == version.as_str().unwrap())
                .unwrap()
        };
        for (index, version) in versions.iter().enumerate() {
            let result = results
                .iter()
                .find(|r| (at(&r["from"])..=at(&r["to"])).contains(&index))
                .unwrap();
            let release = Version::parse(version).unwrap();
            let position = options::releases().iter().position(|v| *v == release).unwrap();
            let parsed = parse(position, side, &words, &file);
            pairs += 1;
            let expected_error = result["error"].as_str();
            let got_error = parsed.error.as_ref().map(error_name);
            let label = format!("{} {version} {argv:?}", case["id"].as_str().unwrap());
            if expected_error.is_some() != got_error.is_some() {
                wrong.push(format!(
                    "{label}: error {expected_error:?}, got {:?}",
                    parsed.error
                ));
                continue;
            }
            if expected_error.is_some() {
                kinds += usize::from(expected_error == got_error);
                if expected_error != got_error {
                    println!(
                        "another kind of error: {label}: {expected_error:?}, got {:?}",
                        parsed.error
                    );
                }
                continue;
            }
            let defaults = &oracle["defaults"][*version]["serve"];
            let mut good = true;
            for (field, kind) in FIELDS {
                let Some(default) = defaults.get(field) else {
                    continue;
                };
                let expected = result["values"].get(field).unwrap_or(default);
                let got = read(&parsed, field, kind);
                if !same(field, expected, &got) {
                    good = false;
                    wrong.push(format!("{label}: {field} {expected}, got {got}"));
                }
            }
            let mut expected: Vec<String> =
                result["refused_by_config"].as_array().map_or(Vec::new(), |list| {
                    list.iter()
                        .map(|v| v.as_str().unwrap().replace('_', "-"))
                        .collect()
                });
            let mut got: Vec<String> = parsed
                .refused_by_config()
                .iter()
                .map(|s| s.option.trim_start_matches('-').to_owned())
                .collect();
            expected.sort();
            got.sort();
            got.dedup();
            if good && expected == got {
                refusals += 1;
            } else if good {
                wrong.push(format!(
                    "{label}: refused by the typed configuration {expected:?}, got {got:?}"
                ));
            }
        }
    }
    let mut by_case: BTreeMap<&str, usize> = BTreeMap::new();
    for line in &wrong {
        *by_case.entry(line.split(' ').next().unwrap()).or_default() += 1;
        println!("{line}");
    }
    println!(
        "{pairs} pairs, {} differences in {} cases",
        wrong.len(),
        by_case.len()
    );
    println!("{refusals} accepted with the right values, {kinds} refused with the right kind of error");
    assert!(wrong.is_empty());
}
