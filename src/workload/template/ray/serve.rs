//! Engines within `serveConfigV2`: where they stand, what they are given, and how many of them share a device.
//!
//! Sources: docs.ray.io `serve/llm/user-guides/configuration.html` (fields of `llm_configs`) and
//! `serve/llm/user-guides/fractional-gpu.html` (`placement_group_config` with less than one GPU).

use serde_json::{Map, Value};

use crate::units::Fraction;

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

/// Levels of an application that are searched for engines.
const DEEPEST: u8 = 8;

/// An engine of an application.
pub(super) struct Engine {
    /// The command line that says the same.
    pub(super) words: Vec<String>,
    /// What it asks of one device, in millionths; a million where it has devices for itself.
    device_share: u32,
    /// Ranks, each on a device (or on a part of one).
    ranks: u32,
    /// Most replicas; `None` where the object does not bound them.
    replicas: Option<u32>,
}

impl Engine {
    /// How many of it one pod with `devices` may run: of an engine that shares its device with others as many as there is
    /// room for, else one.
    pub(super) fn copies(&self, devices: u32) -> usize {
        let on_each = 1_000_000_u32.checked_div(self.device_share).unwrap_or(1);
        if on_each < 2 {
            return 1;
        }
        let room = on_each.saturating_mul(devices.max(1)) / self.ranks.max(1);
        let copies = self.replicas.map_or(room, |replicas| replicas.min(room)).max(1);
        usize::try_from(copies).unwrap_or(usize::MAX)
    }
}

/// The engines of a `serveConfigV2`, or why it cannot be read.
pub(super) fn engines(text: &str) -> Result<Vec<Engine>, &'static str> {
    let config: Value =
        serde_saphyr::from_str(text).map_err(|_| "serveConfigV2 of the object is not valid YAML")?;
    let mut found = Vec::new();
    let applications = config.get("applications").and_then(Value::as_array);
    for application in applications.into_iter().flatten() {
        let before = found.len();
        let around = Around {
            share: actors_share(application),
            replicas: None,
        };
        search(application, around, 0, &mut found);
        if found.len() == before {
            found.extend(of_variables(application, around));
        }
    }
    Ok(found)
}

/// What stands around an engine and holds for it unless it says otherwise.
#[derive(Clone, Copy)]
struct Around {
    share: Option<u32>,
    replicas: Option<u32>,
}

fn search(value: &Value, around: Around, depth: u8, found: &mut Vec<Engine>) {
    if depth > DEEPEST {
        return;
    }
    match value {
        Value::Object(map) => {
            let around = Around {
                share: own_share(map).or(around.share),
                replicas: replicas(map).or(around.replicas),
            };
            if map.contains_key("model_loading_config")
                || map.get("engine_kwargs").is_some_and(Value::is_object)
            {
                found.extend(engine(map, around));
                return;
            }
            for inner in map.values() {
                search(inner, around, depth + 1, found);
            }
        }
        Value::Array(items) => {
            for inner in items {
                search(inner, around, depth + 1, found);
            }
        }
        _ => {}
    }
}

/// An entry of `llm_configs`, or another map of that form: its `engine_kwargs` are vLLM's options with underscores.
fn engine(map: &Map<String, Value>, around: Around) -> Option<Engine> {
    let options = map.get("engine_kwargs").and_then(Value::as_object);
    let named = |map: &Map<String, Value>, names: &[&str]| {
        names
            .iter()
            .find_map(|name| map.get(*name)?.as_str())
            .map(str::to_owned)
    };
    let loading = map.get("model_loading_config").and_then(Value::as_object);
    let model = loading
        .and_then(|loading| named(loading, &["model_source", "model_id"]))
        .or_else(|| named(options?, &["model"]))
        .or_else(|| named(map, &["model_source", "model_id", "model"]))?;
    let mut words = vec!["vllm".to_owned(), "serve".to_owned(), model];
    let mut ranks = 1_u32;
    for (name, value) in options.into_iter().flatten().filter(|(name, _)| *name != "model") {
        let name = name.replace('_', "-");
        if matches!(&*name, "tensor-parallel-size" | "pipeline-parallel-size")
            && let Some(size) = value.as_u64()
        {
            ranks = ranks.saturating_mul(u32::try_from(size).unwrap_or(u32::MAX));
        }
        match value {
            Value::Null | Value::Bool(false) => {}
            Value::Bool(true) => words.push(format!("--{name}")),
            Value::String(text) => words.push(format!("--{name}={text}")),
            other => words.push(format!("--{name}={other}")),
        }
    }
    Some(Engine {
        words,
        device_share: around.share.unwrap_or(1_000_000),
        ranks,
        replicas: around.replicas,
    })
}

/// What a number of GPUs below one means, in millionths; none for whole ones.
fn share_of(value: &Value) -> Option<u32> {
    let text = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => return None,
    };
    let share = Fraction::parse(&text).ok()?.ppm();
    (share > 0).then_some(share)
}

/// The part of a device that a map asks for each of its workers.
fn own_share(map: &Map<String, Value>) -> Option<u32> {
    let bundles = map
        .get("placement_group_config")
        .and_then(|group| group.get("bundles"))
        .or_else(|| map.get("placement_group_bundles"))
        .and_then(Value::as_array);
    let in_bundles = bundles
        .into_iter()
        .flatten()
        .filter_map(|bundle| share_of(bundle.get("GPU")?))
        .max();
    let options = || {
        let inner = map
            .get("deployment_config")
            .and_then(|config| config.get("ray_actor_options"));
        share_of(map.get("ray_actor_options").or(inner)?.get("num_gpus")?)
    };
    let variable = || {
        let variables = map.get("runtime_env")?.get("env_vars")?;
        share_of(variables.get("VLLM_RAY_PER_WORKER_GPUS")?)
    };
    in_bundles.or_else(variable).or_else(options)
}

/// What the only deployment of an application with devices asks for.
fn actors_share(application: &Value) -> Option<u32> {
    let deployments = application.get("deployments").and_then(Value::as_array)?;
    let mut shares = deployments
        .iter()
        .filter_map(|deployment| share_of(deployment.pointer("/ray_actor_options/num_gpus")?));
    let first = shares.next()?;
    shares.next().is_none().then_some(first)
}

/// Most replicas that a map states.
fn replicas(map: &Map<String, Value>) -> Option<u32> {
    let config = map
        .get("deployment_config")
        .and_then(Value::as_object)
        .unwrap_or(map);
    let of_scaling = config
        .get("autoscaling_config")
        .and_then(|scaling| scaling.get("max_replicas"));
    let number = of_scaling.or_else(|| config.get("num_replicas"))?.as_u64()?;
    Some(u32::try_from(number).unwrap_or(u32::MAX))
}

/// An application of its own that gets its options by variables of their upper-case names.
fn of_variables(application: &Value, around: Around) -> Option<Engine> {
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
    let size = |names: &[&str]| {
        names
            .iter()
            .find_map(|name| text(name)?.parse::<u32>().ok())
            .unwrap_or(1)
    };
    let ranks = size(&["TENSOR_PARALLEL_SIZE", "TENSOR_PARALLELISM"])
        .saturating_mul(size(&["PIPELINE_PARALLEL_SIZE", "PIPELINE_PARALLELISM"]));
    Some(Engine {
        words,
        device_share: around.share.unwrap_or(1_000_000),
        ranks,
        replicas: around.replicas,
    })
}
