//! KubeRay: it puts its own start of Ray behind what a container says, and an application's engine stands in the
//! object, far from any container.

use serde_json::Value;

use super::super::pod::{Container, Made};
use super::Template;

/// Options of vLLM that applications read from variables of their own.
const VARIABLES: [(&str, &str); 12] = [
    ("GPU_MEMORY_UTILIZATION", "gpu-memory-utilization"),
    ("MAX_MODEL_LEN", "max-model-len"),
    ("MAX_NUM_SEQS", "max-num-seqs"),
    ("MAX_NUM_SEQ", "max-num-seqs"),
    ("MAX_NUM_BATCHED_TOKENS", "max-num-batched-tokens"),
    ("TENSOR_PARALLELISM", "tensor-parallel-size"),
    ("TENSOR_PARALLEL_SIZE", "tensor-parallel-size"),
    ("PIPELINE_PARALLELISM", "pipeline-parallel-size"),
    ("PIPELINE_PARALLEL_SIZE", "pipeline-parallel-size"),
    ("DTYPE", "dtype"),
    ("QUANTIZATION", "quantization"),
    ("KV_CACHE_DTYPE", "kv-cache-dtype"),
];

/// Adds what KubeRay makes of the first container of each group.
pub(super) fn complete(spec: &Value, found: &mut [Template]) {
    let engines = spec
        .get("serveConfigV2")
        .and_then(Value::as_str)
        .map(engines)
        .unwrap_or_default();
    let is_head = |template: &Template| template.path.as_str().contains("headGroupSpec");
    let head_runs = found
        .iter()
        .filter(|template| is_head(template))
        .filter_map(|template| template.pod.spec.containers.first())
        .any(|container| !line(container).is_empty());
    let reason = "KubeRay makes the command line";
    for template in found {
        let head = is_head(template);
        let overwritten = template
            .pod
            .metadata
            .annotations
            .get("ray.io/overwrite-container-cmd")
            .is_some_and(|text| text == "true");
        let Some(container) = template.pod.spec.containers.first_mut() else {
            continue;
        };
        if overwritten {
            continue;
        }
        let asks = !container.resources.limits.is_empty()
            && container.resources.limits.keys().any(|name| name.contains("gpu"));
        let own = line(container);
        let start = if head {
            "ray start --head"
        } else {
            "ray start --address=head:6379"
        };
        let mut made = Made {
            by: reason.to_owned(),
            ..Made::default()
        };
        if !own.is_empty() {
            made.commands = vec![
                ["/bin/bash", "-c", "--"]
                    .into_iter()
                    .map(str::to_owned)
                    .chain([format!("{own} && {start}")])
                    .collect(),
            ];
        } else if head || head_runs || !engines.is_empty() {
            made.commands = vec![start.split(' ').map(str::to_owned).collect()];
        } else {
            "a Ray worker runs what is submitted to the cluster later".clone_into(&mut made.by);
        }
        if asks && !engines.is_empty() {
            "the engine's options stand in serveConfigV2 of the object; KubeRay starts it"
                .clone_into(&mut made.by);
            made.commands.extend(engines.iter().cloned());
        }
        container.made = Some(made);
    }
}

/// What a container executes, as one line: KubeRay joins command and arguments without quoting them.
fn line(container: &Container) -> String {
    let words = container.command.iter().chain(&container.args).flatten();
    words.map(|word| word.trim()).collect::<Vec<_>>().join(" ")
}

/// The command lines that say the same as the engines of `serveConfigV2`.
fn engines(text: &str) -> Vec<Vec<String>> {
    let config: Value = serde_saphyr::from_str(text).unwrap_or_default();
    let mut lines = Vec::new();
    for application in config
        .get("applications")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let llms = application.pointer("/args/llm_configs").and_then(Value::as_array);
        for llm in llms.into_iter().flatten() {
            lines.extend(of_llm_config(llm));
        }
        if llms.is_none() {
            lines.extend(of_variables(application));
        }
    }
    lines
}

/// An entry of `llm_configs`: its `engine_kwargs` are vLLM's options with underscores.
fn of_llm_config(llm: &Value) -> Option<Vec<String>> {
    let loading = llm.get("model_loading_config")?;
    let source = loading.get("model_source").filter(|source| source.is_string());
    let model = source.or_else(|| loading.get("model_id"))?.as_str()?;
    let mut words = vec!["vllm".to_owned(), "serve".to_owned(), model.to_owned()];
    let options = llm.get("engine_kwargs").and_then(Value::as_object);
    for (name, value) in options.into_iter().flatten() {
        let name = name.replace('_', "-");
        match value {
            Value::Null | Value::Bool(false) => {}
            Value::Bool(true) => words.push(format!("--{name}")),
            Value::String(text) => words.push(format!("--{name}={text}")),
            other => words.push(format!("--{name}={other}")),
        }
    }
    Some(words)
}

/// An application of its own that gets its options by variables of their upper-case names.
fn of_variables(application: &Value) -> Option<Vec<String>> {
    let import = application.get("import_path").and_then(Value::as_str)?;
    let variables = application.pointer("/runtime_env/env_vars")?.as_object()?;
    let text = |name: &str| {
        let value = variables.get(name)?;
        Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    if !import.contains("vllm") && text("GPU_MEMORY_UTILIZATION").is_none() {
        return None;
    }
    let model = ["MODEL_ID", "MODEL", "MODEL_NAME", "MODEL_PATH"]
        .into_iter()
        .find_map(text)?;
    let mut words = vec!["vllm".to_owned(), "serve".to_owned(), model];
    for (name, option) in VARIABLES {
        words.extend(text(name).map(|value| format!("--{option}={value}")));
    }
    Some(words)
}
