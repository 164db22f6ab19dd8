//! Configurations of published models, cut down to what tells their shape, and the entries that they must give.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by a panic"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use vramgate::model::config_json::from_config;
use vramgate::model::{Confidence, Model};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/models")
}

fn expected() -> BTreeMap<String, Map<String, Value>> {
    let text = fs::read_to_string(folder().join("expected.yaml")).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

fn model(id: &str) -> Result<Model, String> {
    let text = fs::read_to_string(folder().join(format!("{id}.json"))).unwrap();
    from_config(&text, id).map_err(|error| error.to_string())
}

/// Compares what is expected; the fields of an object are compared one by one.
fn differences(expected: &Map<String, Value>, entry: &Value, path: &str, found: &mut Vec<String>) {
    for (name, value) in expected {
        let is = &entry[name];
        match value {
            Value::Object(inner) if is.is_object() => {
                differences(inner, is, &format!("{path}{name}."), found);
            }
            _ if is == value => {}
            _ => found.push(format!("{path}{name}: {is}, not {value}")),
        }
    }
}

#[test]
fn every_file_gives_its_entry() {
    let mut failures = Vec::new();
    let expected = expected();
    for (id, mut fields) in expected.clone() {
        let model = match model(&id) {
            Ok(model) => model,
            Err(error) => {
                failures.push(format!("{id}: {error}"));
                continue;
            }
        };
        let total = fields.remove("total").unwrap().as_u64().unwrap();
        if model.parameters.abs_diff(total) * 100 > total {
            let thousandths = i128::from(model.parameters) * 1000 / i128::from(total);
            failures.push(format!(
                "{id}: {} parameters, not {total} ({thousandths}/1000)",
                model.parameters
            ));
        }
        let mut entry = serde_json::to_value(&model).unwrap();
        for (outer, inner) in [
            ("experts", "firstDense"),
            ("experts", "shared"),
            ("experts", "every"),
        ] {
            if let Some(object) = entry[outer].as_object_mut() {
                object.entry(inner).or_insert(Value::from(0));
            }
        }
        let mut found = Vec::new();
        differences(&fields, &entry, "", &mut found);
        failures.extend(found.iter().map(|difference| format!("{id}: {difference}")));
        assert_eq!(model.confidence, Confidence::Verified);
        assert_eq!(model.source, format!("config.json of {id}"));
    }
    assert!(expected.len() > 50, "{}", expected.len());
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn every_file_is_expected() {
    let expected = expected();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let id = path.file_stem().unwrap().to_str().unwrap();
            assert!(expected.contains_key(id), "{id} has no expected entry");
        }
    }
}

#[test]
fn a_file_cut_off_anywhere_is_an_error() {
    let text = fs::read_to_string(folder().join("deepseek-v3.json")).unwrap();
    let text = text.trim_end();
    assert!(from_config(text, "test").is_ok());
    for length in 0..text.len() {
        assert!(from_config(&text[..length], "test").is_err(), "{length}");
    }
}
