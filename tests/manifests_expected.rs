//! Manifests as they are found in public, against readings that were worked out by hand.
//!
//! The cases stand beside the repository (`../shared/cases`); where they are absent the test says so and passes.

#![allow(
    clippy::too_many_lines,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    clippy::float_arithmetic,
    reason = "a test"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use vramgate::engine::{self, LookUp, Reading, Sources};
use vramgate::workload::pod::Pod;
use vramgate::workload::{Workload, WorkloadKind, template};

struct Maps(BTreeMap<String, BTreeMap<String, String>>);

impl Sources for Maps {
    fn config_map(&self, _namespace: &str, name: &str) -> LookUp<'_> {
        self.0.get(name).map_or(LookUp::Missing, LookUp::Found)
    }
}

fn documents(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap_or_default()
}

fn at<'v>(document: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(document, |value, step| {
        let (name, index) = match step.split_once('[') {
            Some((name, index)) => (name, Some(index.trim_end_matches(']').parse::<usize>().ok()?)),
            None => (step, None),
        };
        let value = value.get(name)?;
        index.map_or(Some(value), |index| value.get(index))
    })
}

/// The pod of a case's path, `spec.template (doc 2)`.
fn pod(documents: &[Value], path: &str, name: &str) -> Option<Pod> {
    let (path, number) = path.split_once(" (doc ").unwrap_or((path, ""));
    let path = path.split(" (").next().unwrap();
    let number: Option<usize> = number.trim_end_matches(')').parse().ok();
    let chosen = documents
        .iter()
        .enumerate()
        .filter(|(index, _)| number.is_none_or(|number| number == index + 1));
    chosen.map(|(_, document)| document).find_map(|document| {
        // What an operator makes has no name in the manifest.
        let made = name.starts_with('(');
        let of_another_schema = |workload: &Workload| matches!(workload.kind, WorkloadKind::Custom(_));
        if let Ok(read) = Workload::read(document)
            && read.as_ref().is_none_or(of_another_schema)
        {
            let (_, templates) = template::templates(document).unwrap();
            let template = templates
                .into_iter()
                .find(|template| template.path.as_str() == path)?;
            let has = engine::containers(&template.pod).any(|placed| made || placed.container.name == name);
            return has.then_some(template.pod);
        }
        let value = if path == "spec" {
            document
        } else {
            at(document, path)?
        };
        let value = if value.get("spec").is_some() {
            value.clone()
        } else {
            serde_json::json!({"spec": value})
        };
        let mut pod: Pod = serde_json::from_value(value).ok()?;
        if pod.metadata.namespace.is_empty() {
            pod.metadata.namespace.push_str("default");
        }
        let has = engine::containers(&pod).any(|placed| placed.container.name == name);
        has.then_some(pod)
    })
}

fn expected_number(value: &Value) -> Option<f64> {
    value.as_f64()
}

fn differences(expected: &Value, reading: &Reading) -> Vec<(&'static str, String)> {
    let mut out = Vec::new();
    let mut check = |field, same: bool, want: &dyn std::fmt::Debug, got: &dyn std::fmt::Debug| {
        if !same {
            out.push((field, format!("wanted {want:?}, got {got:?}")));
        }
    };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let model = text(&expected["model"]);
    // Of Triton the entries say in words what the path is.
    let in_words = expected["engine"] == "triton"
        && match (&model, &reading.model) {
            (Some(model), Some(path)) => model.split(' ').any(|word| word == path),
            _ => false,
        };
    check(
        "model",
        model == reading.model || in_words,
        &model,
        &reading.model,
    );
    let fraction = &expected["memory_fraction"];
    let want = expected_number(&fraction["value"]).or_else(|| expected_number(&fraction["assume"]));
    let got = reading
        .memory
        .value
        .as_deref()
        .and_then(|text| text.parse::<f64>().ok());
    let applies = fraction["source"] != "not-applicable";
    check("fraction", want == got || !applies, &want, &got);
    let source = match fraction["source"].as_str() {
        Some("explicit") => matches!(
            serde_json::to_value(reading.memory.source).unwrap().as_str(),
            Some("flag" | "env" | "config-file")
        ),
        Some("engine-default") => serde_json::to_value(reading.memory.source).unwrap() == "default",
        Some("unresolved") => serde_json::to_value(reading.memory.source).unwrap() == "unresolved",
        _ => true,
    };
    check("source", source, &fraction["source"], &reading.memory.source);
    for (field, key, got) in [
        ("tp", "tp", reading.parallelism.tensor),
        ("pp", "pp", reading.parallelism.pipeline),
        ("dp", "dp", reading.parallelism.data),
        ("gpus", "gpus_used_per_pod", reading.parallelism.devices),
    ] {
        if let Some(want) = expected[key].as_u64() {
            check(field, want == u64::from(got), &want, &got);
        }
    }
    let want = expected["max_model_len"].as_i64().map(i128::from);
    check(
        "max_model_len",
        want == reading.max_model_len || expected["max_model_len"].is_string(),
        &want,
        &reading.max_model_len,
    );
    for (field, got) in [
        ("dtype", &reading.dtype),
        ("kv_cache_dtype", &reading.kv_cache_dtype),
    ] {
        let want = text(&expected[field]);
        check(field, want == *got, &want, got);
    }
    let starts = serde_json::to_value(reading.starts).unwrap();
    // Where an entry says no because of devices or memory, unknown is right as well.
    let hangs = expected["starts"] == "no" && starts == "unknown";
    check(
        "starts",
        expected["starts"] == starts || hangs,
        &expected["starts"],
        &starts,
    );
    out
}

#[test]
fn manifests_are_read_as_worked_out_by_hand() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/cases");
    let Ok(text) = std::fs::read_to_string(folder.join("manifests-expected.yaml")) else {
        println!("skipped: ../shared/cases/manifests-expected.yaml is not there");
        return;
    };
    let mut limits = serde_saphyr::Options::default();
    limits.budget = None;
    let cases: Value = serde_saphyr::from_str_with_options(&text, limits).unwrap();
    let (mut containers, mut engines, mut skipped) = (0, 0, 0);
    let mut fields: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let (mut vllm, mut vllm_engine, mut vllm_whole) = (0, 0, 0);
    for (id, case) in cases["cases"].as_object().unwrap() {
        let Ok(text) = std::fs::read_to_string(folder.join("manifests").join(format!("{id}.yaml"))) else {
            println!("{id}: no manifest");
            continue;
        };
        let documents = documents(&text);
        let mut maps = BTreeMap::new();
        for document in &documents {
            if document["kind"] == "ConfigMap"
                && let Ok(data) = serde_json::from_value(document["data"].clone())
            {
                maps.insert(
                    document["metadata"]["name"]
                        .as_str()
                        .unwrap_or_default()
                        .to_owned(),
                    data,
                );
            }
        }
        let sources = Maps(maps);
        for expected_pod in case["pods"].as_array().unwrap() {
            let path = expected_pod["path"].as_str().unwrap();
            for expected in expected_pod["containers"].as_array().unwrap() {
                let name = expected["name"].as_str().unwrap();
                let Some(pod) = pod(&documents, path, name) else {
                    println!("{id} {path} {name}: no such pod in a form that is read here");
                    skipped += 1;
                    continue;
                };
                let placed = engine::containers(&pod)
                    .find(|placed| placed.container.name == name || name.starts_with('('))
                    .unwrap();
                let readings = engine::read(&pod, placed, &sources, &[]);
                containers += 1;
                let want = expected["engine"].as_str().unwrap();
                let is_vllm = want == "vllm";
                vllm += usize::from(is_vllm);
                let Some(reading) = readings.iter().find(|reading| reading.engine.as_str() == want) else {
                    println!(
                        "{id} {name}: engine {want}, got {:?}",
                        readings.iter().map(|r| r.engine).collect::<Vec<_>>()
                    );
                    continue;
                };
                engines += 1;
                if want == "none" {
                    continue;
                }
                let mut reading = reading.clone();
                reading.parallelism.devices = readings
                    .iter()
                    .filter(|other| other.engine == reading.engine)
                    .map(|r| r.parallelism.devices)
                    .sum();
                let differences = differences(expected, &reading);
                vllm_engine += usize::from(is_vllm);
                vllm_whole += usize::from(is_vllm && differences.is_empty());
                for field in [
                    "model",
                    "fraction",
                    "source",
                    "tp",
                    "pp",
                    "dp",
                    "gpus",
                    "max_model_len",
                    "dtype",
                    "kv_cache_dtype",
                    "starts",
                ] {
                    let count = fields.entry(field).or_default();
                    count.1 += 1;
                    count.0 += usize::from(!differences.iter().any(|(wrong, _)| *wrong == field));
                }
                for (field, text) in differences {
                    println!("{id} {name} ({want}): {field}: {text}");
                }
            }
        }
    }
    println!("{containers} containers ({skipped} in forms that are not read here), {engines} engines right");
    for (field, (right, all)) in &fields {
        println!("  {field}: {right} of {all}");
    }
    println!("vLLM: {vllm} containers, {vllm_engine} recognised, {vllm_whole} right in every field");
    assert!(
        vllm_whole >= 58,
        "{vllm_whole} of {vllm} containers of vLLM are right in every field"
    );
    assert!(engines >= 106, "{engines} of {containers} engines are right");
    assert!(skipped <= 1, "{skipped} containers are not read");
    for (field, (right, all)) in &fields {
        assert!(
            right + 3 >= *all,
            "{field}: {right} of {all} are right, where at most three differ"
        );
    }
}
