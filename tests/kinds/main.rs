//! Kinds of invocations: scripts, operators' objects, servers with a repository of models, and what is told about them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    clippy::too_many_lines,
    clippy::needless_pass_by_value,
    clippy::format_collect,
    reason = "a test"
)]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vramgate::engine::{self, LookUp, Reading, Sources};
use vramgate::workload::pod::Pod;

mod dependence;
mod engines;
mod forms;
mod groups;
mod handed_on;
mod images;
mod lints;
mod ray;
mod runtimes;
mod scripts;
mod shells;
mod triton;
mod variables;

/// ConfigMaps by name.
#[derive(Default)]
pub(crate) struct Maps(BTreeMap<String, BTreeMap<String, String>>);

impl Maps {
    pub(crate) fn with(mut self, name: &str, data: &[(&str, &str)]) -> Self {
        let data = data
            .iter()
            .map(|(key, text)| ((*key).to_owned(), (*text).to_owned()));
        self.0.insert(name.to_owned(), data.collect());
        self
    }
}

impl Sources for Maps {
    fn config_map(&self, _namespace: &str, name: &str) -> LookUp<'_> {
        self.0.get(name).map_or(LookUp::Missing, LookUp::Found)
    }
}

/// A pod with this one container, which asks for two devices unless it says otherwise.
pub(crate) fn pod(container: &Value) -> Pod {
    let mut container = container.clone();
    if container.get("resources").is_none() {
        container["resources"] = json!({"limits": {"nvidia.com/gpu": 2}});
    }
    container["name"] = json!("server");
    serde_json::from_value(json!({"spec": {"containers": [container]}})).unwrap()
}

pub(crate) fn read(pod: &Pod, maps: &Maps) -> Vec<Reading> {
    engine::containers(pod)
        .flat_map(|placed| engine::read(pod, placed, maps, &[]))
        .collect()
}

pub(crate) fn name<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value)
        .unwrap()
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// `engine model value source tensor/pipeline/data=devices starts`.
pub(crate) fn line(reading: &Reading) -> String {
    let sizes = reading.parallelism;
    format!(
        "{} {} {} {} {}/{}/{}={} {}",
        reading.engine,
        reading.model.as_deref().unwrap_or("-"),
        reading.memory.value.as_deref().unwrap_or("-"),
        name(&reading.memory.source),
        sizes.tensor,
        sizes.pipeline,
        sizes.data,
        sizes.devices,
        name(&reading.starts),
    )
}

pub(crate) fn lines(readings: &[Reading]) -> Vec<String> {
    readings.iter().map(line).collect()
}
