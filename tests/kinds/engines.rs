//! Each engine by the forms in which manifests start it: a file for each.

use serde_json::{Value, json};
use vramgate::engine::Reading;
use vramgate::workload::template;

use super::{Maps, name, pod, read};

mod djl;
mod dynamo;
mod fastchat;
mod frameworks;
mod kaito;
mod kserve;
mod kubeai;
mod llama_cpp;
mod lmdeploy;
mod nim;
mod ollama;
mod ray;
mod tei;
mod tensorflow_serving;
mod tensorrt_llm;
mod tgi;
mod triton;
mod unknown;
mod wrappers;

/// `engine model kind value source tensor/pipeline/data=devices`, then what is not as usual: the length, the
/// quantisation, types other than `auto`, a start that is not certain, codes.
fn whole(reading: &Reading) -> String {
    let text = |value: &Option<String>| value.as_deref().unwrap_or("-").to_owned();
    let sizes = reading.parallelism;
    let mut out = format!(
        "{} {} {} {} {} {}/{}/{}={}",
        reading.engine,
        text(&reading.model),
        name(&reading.memory.kind),
        text(&reading.memory.value),
        name(&reading.memory.source),
        sizes.tensor,
        sizes.pipeline,
        sizes.data,
        sizes.devices,
    );
    let mut add = |label: &str, value: String| out.extend([" ", label, &value]);
    if let Some(length) = reading.max_model_len {
        add("len=", length.to_string());
    }
    if reading.quantization.is_some() {
        add("q=", text(&reading.quantization));
    }
    for (label, value) in [("dt=", &reading.dtype), ("kv=", &reading.kv_cache_dtype)] {
        if value.as_deref().is_some_and(|value| value != "auto") {
            add(label, text(value));
        }
    }
    let starts = name(&reading.starts);
    if starts != "yes" {
        add("starts=", starts);
    }
    for finding in &reading.findings {
        add("", finding.code.as_str().to_owned());
    }
    out
}

fn env(pairs: &[(&str, &str)]) -> Value {
    pairs
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect()
}

fn gpus(count: u32) -> Value {
    json!({"limits": {"nvidia.com/gpu": count}})
}

/// What one container starts, which asks for two devices unless it says otherwise.
fn all(container: &Value) -> Vec<String> {
    read(&pod(container), &Maps::default())
        .iter()
        .map(whole)
        .collect()
}

/// The same where it is one engine.
fn check(container: Value, expected: &str) {
    assert_eq!(all(&container), [expected], "{container}");
}

/// `path xDESIRED: reading` of each template of an object.
fn templates(object: &Value, maps: &Maps) -> Vec<String> {
    let (_, templates) = template::templates(object).unwrap();
    let line = |template: &template::Template| {
        let readings: Vec<String> = read(&template.pod, maps).iter().map(whole).collect();
        format!(
            "{} x{}: {}",
            template.path,
            template.desired,
            readings.join(" + ")
        )
    };
    templates.iter().map(line).collect()
}
