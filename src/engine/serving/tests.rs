//! What each engine's invocations say about serving, as one line for each case.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::engine::{self, LookUp, Reading, Sources};
use crate::workload::pod::Pod;

mod others;
mod sglang;
mod vllm;
mod wrappers;

/// Files that are mounted at `/files`.
struct Files(BTreeMap<String, String>);

impl Sources for Files {
    fn config_map(&self, _namespace: &str, name: &str) -> LookUp<'_> {
        if name == "files" {
            LookUp::Found(&self.0)
        } else {
            LookUp::NotRead("the cluster was not asked")
        }
    }
}

/// The readings of a container; `file` is the content of `/files/f.yaml`.
fn readings(mut container: Value, file: &str) -> Vec<Reading> {
    container["name"] = json!("server");
    container["resources"] = json!({"limits": {"nvidia.com/gpu": 1}});
    container["volumeMounts"] = json!([{"name": "files", "mountPath": "/files"}]);
    let pod: Pod = serde_json::from_value(json!({"spec": {
        "containers": [container],
        "volumes": [{"name": "files", "configMap": {"name": "files"}}],
    }}))
    .unwrap();
    let files = Files(BTreeMap::from([("f.yaml".to_owned(), file.to_owned())]));
    let placed = engine::containers(&pod).next().unwrap();
    engine::read(&pod, placed, &files, &[])
}

/// The one reading of a container.
fn reading(container: &Value, file: &str) -> Reading {
    let mut all = readings(container.clone(), file);
    assert_eq!(all.len(), 1, "{container}");
    all.remove(0)
}

/// Words as a test writes them: `|` separates them where one holds a blank.
fn words(line: &str) -> Vec<&str> {
    if line.contains('|') {
        line.split('|').collect()
    } else {
        line.split_whitespace().collect()
    }
}

fn variables(pairs: &[(&str, &str)]) -> Value {
    let one = |(name, value): &(&str, &str)| match value.strip_prefix("secret:") {
        Some(key) => json!({"name": name, "valueFrom": {"secretKeyRef": {"name": "s", "key": key}}}),
        None => json!({"name": name, "value": value}),
    };
    pairs.iter().map(one).collect()
}

/// All that is set, and after `?` the fields that could not be read.
fn line(reading: &Reading) -> String {
    let s = &reading.serving;
    let mut parts = Vec::new();
    let mut add =
        |name: &str, value: Option<String>| parts.extend(value.map(|value| format!("{name}={value}")));
    let number = |value: Option<u64>| value.map(|value| value.to_string());
    add("seqs", number(s.max_num_seqs));
    add("tokens", number(s.max_num_batched_tokens));
    add("total", number(s.max_total_tokens));
    add("block", number(s.block_size));
    add("kv", number(s.kv_cache_bytes));
    add("blocks", number(s.kv_cache_blocks));
    add("offload", number(s.cpu_offload_bytes));
    add("ep", s.expert_parallel.then(|| "yes".to_owned()));
    add("chunked", s.chunked_prefill.map(|chunked| chunked.to_string()));
    add(
        "lora",
        s.adapters.map(|lora| format!("{}x{}", lora.count, lora.rank)),
    );
    let text = |value: &Option<String>| value.clone().unwrap_or("-".to_owned());
    add(
        "draft",
        s.draft.as_ref().map(|draft| {
            let tokens = number(draft.tokens).unwrap_or("-".to_owned());
            format!("{}/{}/{tokens}", text(&draft.method), text(&draft.model))
        }),
    );
    add("layers", number(s.gpu_layers));
    add("text", s.text_only.then(|| "yes".to_owned()));
    add(
        "no",
        (!s.excluded_inputs.is_empty()).then(|| s.excluded_inputs.join("+")),
    );
    add("full", s.full_length_cache.then(|| "yes".to_owned()));
    add("graphs", s.estimates_graphs.map(|graphs| graphs.to_string()));
    add("format", s.load_format.clone());
    add("values", s.value_cache_dtype.clone());
    add("flash", s.flash_attention.map(|flash| flash.to_string()));
    add("trained", s.trained_context.then(|| "yes".to_owned()));
    add("over", (!s.overrides.is_empty()).then(|| s.overrides.join("+")));
    add("open", s.open.then(|| "yes".to_owned()));
    let unread: Vec<&str> = reading
        .unresolved
        .iter()
        .chain(&s.undecided)
        .map(|unresolved| {
            // What serves only is no reason to refuse a pod.
            let memory = ["gpu-memory-utilization", "mem-fraction-static", "argv"];
            assert!(
                !unresolved.decides_memory || memory.contains(&&*unresolved.field) || reading.serving.open
            );
            &*unresolved.field
        })
        .collect();
    if !unread.is_empty() {
        parts.push(format!("?{}", unread.join(",")));
    }
    parts.join(" ")
}
