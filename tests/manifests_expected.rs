//! Manifests as they are found in public, against readings that were worked out by hand: a case for each container.
//!
//! The cases stand beside the repository (`../shared/cases`); where they are absent there are none.

#![allow(
    clippy::too_many_lines,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::panic,
    clippy::float_arithmetic,
    reason = "a test"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;
use vramgate::document::GpuRequest;
use vramgate::engine::{self, LookUp, Reading, Sources};
use vramgate::workload::pod::{Container, Pod};
use vramgate::workload::{Workload, WorkloadKind, template};

/// Case, container and field where we read otherwise than the file says, and why.
const OTHERWISE: &[(&str, &str, &str, &str)] = &[
    (
        "aibrix-trtllm-heredoc-sed-env",
        "prefill",
        "resolvable",
        "the edit of the written file is plain text, so the pod alone says what the file holds in the end",
    ),
    (
        "dra-mps-two-containers-pinned-limit",
        "mps-ctr0",
        "engine",
        "an unnamed program that holds a GPU takes an unknown amount of it, which is not none",
    ),
    (
        "dra-mps-two-containers-pinned-limit",
        "mps-ctr1",
        "engine",
        "an unnamed program that holds a GPU takes an unknown amount of it, which is not none",
    ),
    (
        "kaito-inferenceset-mig-profile",
        "(made by the operator)",
        "model",
        "the object says the preset's name; the publisher's name stands in the operator",
    ),
    (
        "kaito-inferenceset-mig-profile",
        "(made by the operator)",
        "starts",
        "the operator makes the command line, so nothing here tells whether it starts",
    ),
    (
        "kserve-triton-runtime-template",
        "kserve-container",
        "starts",
        "its command line is whole and right, as in the other templates that the file says start",
    ),
    (
        "kuberay-deepseek-serveconfig-string",
        "ray-worker",
        "resolvable",
        "the pod carries no option of the engine; they stand in another field of the object, so it is not full",
    ),
    (
        "llama-stack-ollama-serve-pull-run-wait",
        "ollama-safety",
        "resolvable",
        "the invocation is whole; which devices a pod gets that asks for none is not part of it",
    ),
    (
        "llmd-requester-server-in-annotation",
        "inference-server",
        "engine",
        "an unnamed program that holds a GPU takes an unknown amount of it, which is not none",
    ),
    (
        "llmd-requester-server-in-annotation",
        "vllm",
        "pod",
        "a pod that stands in an annotation is judged when it is made",
    ),
    (
        "podman-cdi-resource-name-equals-all",
        "ollama",
        "gpus_requested",
        "the API server refuses the name of the resource, so it is no slot",
    ),
    (
        "silogen-ollama-built-at-start-amd",
        "llm-inference-ollama",
        "model",
        "nothing mounts the ConfigMap of its script, so the script is not known",
    ),
];

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

/// Slots that a container asks for; claims, devices of other makers and shares of other schedulers are no slots.
fn gpus(expected: &Value, container: &Container) -> Option<(&'static str, String)> {
    let asked = &expected["gpus_requested"];
    // Shorthands of operators and refused quantities stand with more words.
    let name = asked["resource"]
        .as_str()
        .map(|name| match name.split_once(" (") {
            Some((_, words)) => words.trim_end_matches(')').rsplit(' ').next().unwrap(),
            None => name,
        });
    let count = match asked["count"].as_str() {
        Some(words) => Value::from(words.split(' ').next().unwrap()),
        None => asked["count"].clone(),
    };
    let want: Vec<_> = name
        .filter(|name| name.starts_with("nvidia.com/"))
        .map(|name| (name.to_owned(), count))
        .into_iter()
        .collect();
    let got: Vec<_> = GpuRequest::of(container)
        .into_iter()
        .map(|request| (request.resource, serde_json::to_value(request.count).unwrap()))
        .collect();
    (want != got).then(|| ("gpus_requested", format!("wanted {want:?}, got {got:?}")))
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
        "resolvable",
        expected["resolvable"] == serde_json::to_value(reading.resolvable).unwrap(),
        &expected["resolvable"],
        &reading.resolvable,
    );
    // In words, and with more words where the model's files alone say it.
    let quantization = text(&expected["quantization"]).filter(|words| !words.contains(" ("));
    check(
        "quantization",
        quantization == reading.quantization,
        &quantization,
        &reading.quantization,
    );
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

/// One manifest with what its containers should be read as.
struct Manifest {
    documents: Vec<Value>,
    sources: Maps,
}

impl Manifest {
    fn read(file: &Path) -> Self {
        let text =
            std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let documents = documents(&text);
        let mut maps = BTreeMap::new();
        for document in documents
            .iter()
            .filter(|document| document["kind"] == "ConfigMap")
        {
            let name = document["metadata"]["name"].as_str().unwrap();
            maps.insert(
                name.to_owned(),
                serde_json::from_value(document["data"].clone()).unwrap(),
            );
        }
        Self {
            documents,
            sources: Maps(maps),
        }
    }

    /// What differs from what is expected of one container.
    fn differences(&self, path: &str, expected: &Value) -> Vec<(&'static str, String)> {
        let name = expected["name"].as_str().unwrap();
        let Some(pod) = pod(&self.documents, path, name) else {
            return vec![(
                "pod",
                format!("{path} has no container {name} in a form that is read"),
            )];
        };
        let placed = engine::containers(&pod)
            .find(|placed| placed.container.name == name || name.starts_with('('))
            .unwrap();
        let readings = engine::explain(&pod, placed, &self.sources, &[]);
        let want = expected["engine"].as_str().unwrap();
        let Some(reading) = readings.iter().find(|reading| reading.engine.as_str() == want) else {
            let got: Vec<_> = readings.iter().map(|reading| reading.engine).collect();
            return vec![("engine", format!("wanted {want:?}, got {got:?}"))];
        };
        let gpus = gpus(expected, placed.container);
        if want == "none" {
            return gpus.into_iter().collect();
        }
        let mut reading = reading.clone();
        reading.parallelism.devices = readings
            .iter()
            .filter(|other| other.engine == reading.engine)
            .map(|reading| reading.parallelism.devices)
            .sum();
        gpus.into_iter().chain(differences(expected, &reading)).collect()
    }
}

/// What differs beyond [`OTHERWISE`], and which of its lines no longer differ.
fn judge(id: &str, container: &str, found: &[(&'static str, String)]) -> Result<(), Failed> {
    let ours: Vec<_> = OTHERWISE
        .iter()
        .filter(|(case, name, ..)| *case == id && *name == container)
        .collect();
    let mut wrong: Vec<String> = found
        .iter()
        .filter(|(field, _)| !ours.iter().any(|(_, _, known, _)| known == field))
        .map(|(field, text)| format!("{field}: {text}"))
        .collect();
    for (_, _, field, why) in ours {
        if !found.iter().any(|(differs, _)| differs == field) {
            wrong.push(format!(
                "{field} no longer differs; strike it from the list ({why})"
            ));
        }
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n").into())
    }
}

fn main() -> ExitCode {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/cases");
    let mut trials = Vec::new();
    if let Ok(text) = std::fs::read_to_string(folder.join("manifests-expected.yaml")) {
        let mut limits = serde_saphyr::Options::default();
        limits.budget = None;
        let cases: Value = serde_saphyr::from_str_with_options(&text, limits).unwrap();
        for (id, case) in cases["cases"].as_object().unwrap() {
            let manifest = Arc::new(Manifest::read(
                &folder.join("manifests").join(format!("{id}.yaml")),
            ));
            for expected_pod in case["pods"].as_array().unwrap() {
                let path = expected_pod["path"].as_str().unwrap();
                for expected in expected_pod["containers"].as_array().unwrap() {
                    let container = expected["name"].as_str().unwrap().to_owned();
                    let (id, path) = (id.clone(), path.to_owned());
                    let (manifest, expected) = (Arc::clone(&manifest), expected.clone());
                    trials.push(Trial::test(format!("{id} {path} {container}"), move || {
                        judge(&id, &container, &manifest.differences(&path, &expected))
                    }));
                }
            }
        }
    } else {
        println!("no cases: ../shared/cases/manifests-expected.yaml is not there");
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
