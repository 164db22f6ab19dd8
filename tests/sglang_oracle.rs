//! Command lines against what the parsers of eight SGLang releases make of them, value by value.
//!
//! The cases stand beside the repository (`../shared/cases`); where they are absent the test says so and passes.
//! `tests/sglang_cases.rs` holds cases that are always there.

#![allow(
    clippy::float_cmp,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    clippy::float_arithmetic,
    reason = "a test"
)]

use std::path::PathBuf;

use serde_json::Value;
use vramgate::engine::Version;
use vramgate::engine::sglang::options::{self, Entrypoint, Kind};
use vramgate::engine::sglang::parse::{ParseError, Parsed, parse};
use vramgate::engine::sglang::value;
use vramgate::invocation::Word;

fn oracle() -> Option<Value> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/cases/sglang-argv-oracle.yaml");
    let path = std::env::var_os("VRAMGATE_SGLANG_ORACLE").map_or(path, PathBuf::from);
    let text = std::fs::read_to_string(&path).ok()?;
    let mut limits = serde_saphyr::Options::default();
    limits.budget = None;
    Some(serde_saphyr::from_str_with_options(&text, limits).unwrap())
}

fn float(text: &str) -> f64 {
    let plain: String = value::ascii_digits(text.trim()).replace('_', "");
    plain.parse().unwrap()
}

/// Whether the parsed line has `expected` for the option of this field; `None` where the release has no such option.
fn same(parsed: &Parsed<'_>, position: usize, field: &str, expected: &Value) -> Option<bool> {
    let option = options::option(position, &format!("--{}", field.replace('_', "-")))?;
    if let Value::Bool(on) = expected {
        return Some(parsed.flag(option.name) == *on);
    }
    Some(match option.kind {
        Kind::Int | Kind::HumanInt => {
            let number = match expected {
                Value::Null => None,
                other => value::python_int(other.as_str().unwrap_or(&other.to_string())),
            };
            parsed.int(option.name) == number
        }
        Kind::Float => {
            let number = expected.as_str().map(float);
            let got = parsed.text(option.name).map(float);
            match (number, got) {
                (Some(a), Some(b)) => a == b || a.is_nan() && b.is_nan(),
                (a, b) => a.is_none() && b.is_none(),
            }
        }
        // Texts whose default the table does not hold: only what is set is compared.
        _ if parsed.last(option.name).is_none() && option.default.is_none() => true,
        _ => parsed.text(option.name) == expected.as_str(),
    })
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

/// Whether the error names what the release's own one names.
fn same_error(error: &ParseError, position: usize, expected: &Value) -> bool {
    if expected["error"] != error_name(error) {
        return false;
    }
    let canonical = |text: &str| options::option(position, text).map(|option| option.name);
    match error {
        ParseError::Unrecognized(words) => {
            let expected: Vec<&str> = expected["words"]
                .as_array()
                .unwrap()
                .iter()
                .map(|word| word.as_str().unwrap())
                .collect();
            *words == expected
        }
        ParseError::Ambiguous(option) => expected["option"] == option.split('=').next().unwrap(),
        ParseError::InvalidValue { option, .. } | ParseError::FlagTakesNoValue(option) => {
            canonical(expected["option"].as_str().unwrap()) == Some(option)
        }
        ParseError::MissingValue(option) => expected["option"] == option.as_str(),
        ParseError::MissingModel(_) | ParseError::Other(_) => true,
    }
}

struct Count {
    pairs: usize,
    values: usize,
    errors: usize,
    wrong: Vec<String>,
}

fn compare(oracle: &Value, case: &Value, versions: &[&str], count: &mut Count) {
    let argv: Vec<&str> = case["argv"]
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect();
    let words: Vec<Word<'_>> = argv.iter().map(|text| Word::literal(text)).collect();
    let entrypoint = if case["entrypoint"] == "serve" {
        Entrypoint::Serve
    } else {
        Entrypoint::LaunchServer
    };
    let file = |path: &str| {
        let config = &case["config"];
        if config["path"] == path {
            Ok(config["body"].as_str().unwrap())
        } else {
            Err("no such file".to_owned())
        }
    };
    let at = |version: &Value| {
        versions
            .iter()
            .position(|known| *known == version.as_str().unwrap())
            .unwrap()
    };
    for result in case["results"].as_array().unwrap() {
        for version in &versions[at(&result["from"])..=at(&result["to"])] {
            let release = Version::parse(version).unwrap();
            let position = options::releases()
                .iter()
                .position(|known| *known == release)
                .unwrap();
            let parsed = parse(position, entrypoint, &words, &file);
            count.pairs += 1;
            let label = format!("{} {version} {argv:?}", case["id"].as_str().unwrap());
            match (&parsed.error, result.get("error")) {
                (None, None) => {
                    let defaults = oracle["defaults"][*version].as_object().unwrap();
                    let mut good = true;
                    for (field, default) in defaults {
                        let expected = result["values"].get(field).unwrap_or(default);
                        if same(&parsed, position, field, expected) != Some(true) {
                            good = false;
                            let got: Vec<_> = parsed.settings.iter().map(|s| (s.option, &*s.text)).collect();
                            count
                                .wrong
                                .push(format!("{label}: {field} {expected}, got {got:?}"));
                        }
                    }
                    count.values += usize::from(good);
                }
                (Some(error), Some(_)) if same_error(error, position, result) => count.errors += 1,
                (got, expected) => count
                    .wrong
                    .push(format!("{label}: error {expected:?}, got {got:?}")),
            }
        }
    }
}

#[test]
fn command_lines_are_read_as_each_release_reads_them() {
    let Some(oracle) = oracle() else {
        println!("skipped: ../shared/cases/sglang-argv-oracle.yaml is not there");
        return;
    };
    let versions: Vec<&str> = oracle["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|version| version.as_str().unwrap())
        .collect();
    let mut count = Count {
        pairs: 0,
        values: 0,
        errors: 0,
        wrong: Vec::new(),
    };
    for case in oracle["cases"].as_array().unwrap() {
        compare(&oracle, case, &versions, &mut count);
    }
    for line in &count.wrong {
        println!("{line}");
    }
    println!("{} pairs, {} differences", count.pairs, count.wrong.len());
    println!(
        "{} accepted with the right values, {} refused with the right error",
        count.values, count.errors
    );
    assert!(count.wrong.is_empty());
    assert!(count.pairs > 1000);
}
