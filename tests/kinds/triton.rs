//! Triton with a model repository that ConfigMaps or the start script hold.

use serde_json::{Value, json};
use vramgate::engine::{self, Reading};
use vramgate::workload::pod::Pod;

use super::{Maps, line, name, read};

const CONFIG: &str = "backend: \"vllm\"\ninstance_group [\n  { count: 1, kind: KIND_MODEL }\n]\n";
const MODEL: &str = r#"{"model": "org/m", "gpu_memory_utilization": 0.4, "tensor_parallel_size": 2, "enforce_eager": true,
    "disable_log_stats": false, "max_model_len": 4096}"#;

/// A server on `/models`, with the volumes and mounts of the case.
fn server(args: &[&str], mounts: &Value, volumes: &Value) -> Pod {
    let words = [&["tritonserver"], args].concat();
    serde_json::from_value(json!({"spec": {
        "containers": [{
            "name": "triton",
            "image": "nvcr.io/nvidia/tritonserver:25.09-vllm-python-py3",
            "args": words,
            "resources": {"limits": {"nvidia.com/gpu": 2}},
            "volumeMounts": mounts,
        }],
        "volumes": volumes,
    }}))
    .unwrap()
}

/// One ConfigMap with its keys under paths.
fn of_items(items: &[(&str, &str)]) -> (Value, Value) {
    let items: Vec<Value> = items
        .iter()
        .map(|(key, path)| json!({"key": key, "path": path}))
        .collect();
    (
        json!([{"name": "models", "mountPath": "/models"}]),
        json!([{"name": "models", "configMap": {"name": "repository", "items": items}}]),
    )
}

fn summary(readings: &[Reading]) -> Vec<String> {
    readings
        .iter()
        .map(|reading| format!("{} [{}]", line(reading), name(&reading.memory.kind)))
        .collect()
}

const REPOSITORY: &[&str] = &["--model-repository=/models"];
const ITEMS: &[(&str, &str)] = &[("config", "chat/config.pbtxt"), ("options", "chat/1/model.json")];

#[test]
fn a_model_of_the_vllm_back_end_takes_its_fraction() {
    let (mounts, volumes) = of_items(ITEMS);
    let maps = Maps::default().with("repository", &[("config", CONFIG), ("options", MODEL)]);
    let pod = server(REPOSITORY, &mounts, &volumes);
    let readings = read(&pod, &maps);
    assert_eq!(
        summary(&readings),
        ["triton org/m 0.4 config-file 2/1/1=2 yes [of-total]"]
    );
    assert_eq!((readings[0].max_model_len, readings[0].eager), (Some(4096), true));
    assert_eq!(readings[0].fraction_edit, None);
    assert_eq!(readings[0].command.as_deref(), Some("tritonserver"));
    // The option as a word of its own, and without an option: the release's default.
    let maps = Maps::default().with(
        "repository",
        &[("config", CONFIG), ("options", r#"{"model": "m"}"#)],
    );
    let pod = server(&["--model-store", "/models/"], &mounts, &volumes);
    assert_eq!(
        summary(&read(&pod, &maps)),
        ["triton m 0.92 default 1/1/1=1 yes [of-total]"]
    );
    // What is looked up before.
    assert!(engine::config_maps(&pod).contains("repository"));
}

#[test]
fn files_may_be_mounted_one_by_one() {
    let mounts = json!([
        {"name": "a", "mountPath": "/models/chat/config.pbtxt", "subPath": "config.pbtxt"},
        {"name": "a", "mountPath": "/models/chat/1", "subPath": "version"},
    ]);
    let volumes = json!([{"name": "a", "configMap": {"name": "files", "items": [
        {"key": "config.pbtxt", "path": "config.pbtxt"}, {"key": "model.json", "path": "version/model.json"}]}}]);
    let maps = Maps::default().with("files", &[("config.pbtxt", CONFIG), ("model.json", MODEL)]);
    let pod = server(REPOSITORY, &mounts, &volumes);
    assert!(engine::config_maps(&pod).contains("files"));
    // The image may hold other models in the same folder.
    assert_eq!(
        summary(&read(&pod, &maps)),
        [
            "triton org/m 0.4 config-file 2/1/1=2 yes [of-total]",
            "triton /models - unresolved 1/1/1=1 yes [unknown]",
        ]
    );
    // Of models that are loaded by name no others matter.
    let pod = server(
        &[
            "--model-repository=/models",
            "--model-control-mode=explicit",
            "--load-model=chat",
        ],
        &mounts,
        &volumes,
    );
    assert_eq!(
        summary(&read(&pod, &maps)),
        ["triton org/m 0.4 config-file 2/1/1=2 yes [of-total]"]
    );
    let pod = server(
        &[
            "--model-repository=/models",
            "--model-control-mode",
            "explicit",
            "--load-model",
            "other",
        ],
        &mounts,
        &volumes,
    );
    assert_eq!(
        summary(&read(&pod, &maps)),
        ["triton /models - unresolved 1/1/1=1 yes [unknown]"]
    );
}

#[test]
fn a_script_may_write_the_repository() {
    let script = format!(
        "mkdir -p /repo/chat/1\ncat > /repo/chat/config.pbtxt <<'EOF'\n{CONFIG}EOF\n\
         echo '{{\"model\": \"m\", \"gpu_memory_utilization\": 0.35}}' > /repo/chat/1/model.json\n\
         exec tritonserver --model-repository=/repo"
    );
    let mut pod = server(&[], &json!([]), &json!([]));
    pod.spec.containers[0].args = Some(vec!["bash".to_owned(), "-c".to_owned(), script]);
    assert_eq!(
        summary(&read(&pod, &Maps::default())),
        ["triton m 0.35 config-file 1/1/1=1 yes [of-total]"]
    );
}

#[test]
fn back_ends_have_their_own_kinds() {
    let parameter = |value: &str| {
        format!(
            "backend: \"tensorrtllm\"\nparameters {{ key: \"kv_cache_free_gpu_mem_fraction\" value: {{ string_value: \"{value}\" }} }}\n\
                 parameters: {{ key: \"gpt_model_path\" value: {{ string_value: \"/engines\" }} }}"
        )
    };
    let items = &[
        ("config", "m/config.pbtxt"),
        ("json", "m/1/model.json"),
        ("yaml", "m/1/model.yaml"),
    ];
    let (mounts, volumes) = of_items(items);
    for (config, more, expected) in [
        (
            "platform: \"onnxruntime_onnx\"".to_owned(),
            None,
            &["triton m - engine-auto 1/1/1=2 yes [uncapped]"][..],
        ),
        (
            "platform: \"tensorrt_plan\"".to_owned(),
            None,
            &["triton m - engine-auto 1/1/1=2 yes [uncapped]"],
        ),
        (
            "backend: \"python\"".to_owned(),
            None,
            &["triton m - engine-auto 1/1/1=2 yes [uncapped]"],
        ),
        (
            "backend: \"python\"\ninstance_group [{kind: KIND_CPU count: 4}]".to_owned(),
            None,
            &["triton /models - default 1/1/1=0 yes [none]"],
        ),
        (
            "platform: \"ensemble\"".to_owned(),
            None,
            &["triton /models - default 1/1/1=0 yes [none]"],
        ),
        (
            parameter("0.5"),
            None,
            &["triton /engines 0.5 config-file 1/1/1=2 yes [of-free-after-weights]"],
        ),
        (
            parameter(""),
            None,
            &["triton /engines 0.9 default 1/1/1=2 yes [of-free-after-weights]"],
        ),
        (
            parameter("${fraction}"),
            None,
            &["triton /engines - unresolved 1/1/1=2 yes [of-free-after-weights]"],
        ),
        (
            "backend: \"python\"\ninstance_group { kind: KIND_CPU }".to_owned(),
            Some((
                "yaml",
                "model: org/m\ntensor_parallel_size: 2\nkv_cache_config:\n  free_gpu_memory_fraction: 0.3\n",
            )),
            &["triton org/m 0.3 config-file 2/1/1=2 yes [of-free-after-weights]"],
        ),
        // One engine for each instance.
        (
            "backend: \"vllm\" instance_group [{ count: 2 kind: KIND_MODEL }]".to_owned(),
            Some(("json", r#"{"model": "a", "gpu_memory_utilization": 0.2}"#)),
            &[
                "triton a 0.2 config-file 1/1/1=1 yes [of-total]",
                "triton a 0.2 config-file 1/1/1=1 yes [of-total]",
            ],
        ),
        // What is missing or unreadable makes the whole unknown.
        (
            "backend: \"vllm\"".to_owned(),
            None,
            &["triton /models - unresolved 1/1/1=1 yes [unknown]"],
        ),
        (
            "backend: \"vllm\"".to_owned(),
            Some(("json", "{")),
            &["triton /models - unresolved 1/1/1=1 yes [unknown]"],
        ),
        (
            "backend {".to_owned(),
            None,
            &["triton /models - unresolved 1/1/1=1 yes [unknown]"],
        ),
        (
            "max_batch_size: 8".to_owned(),
            None,
            &["triton /models - unresolved 1/1/1=1 yes [unknown]"],
        ),
        (
            "backend: \"vllm\" instance_group [{ count: 900 }]".to_owned(),
            Some(("json", "{}")),
            &["triton /models - unresolved 1/1/1=1 yes [unknown]"],
        ),
    ] {
        let mut data = vec![("config", config.as_str())];
        data.extend(more);
        let maps = Maps::default().with("repository", &data);
        let readings = read(&server(REPOSITORY, &mounts, &volumes), &maps);
        assert_eq!(
            summary(&readings),
            expected,
            "{config}: {:#?}",
            readings[0].unresolved
        );
    }
}

#[test]
fn several_models_are_read_beside_each_other() {
    let (mounts, volumes) = of_items(&[
        ("v", "chat/config.pbtxt"),
        ("j", "chat/1/model.json"),
        ("old", "chat/0/model.json"),
        ("o", "embed/config.pbtxt"),
        ("o", "rank/config.pbtxt"),
    ]);
    let maps = Maps::default().with(
        "repository",
        &[
            ("v", CONFIG),
            ("j", MODEL),
            ("old", "{}"),
            ("o", "platform: \"onnxruntime_onnx\""),
        ],
    );
    let readings = read(&server(REPOSITORY, &mounts, &volumes), &maps);
    assert_eq!(
        summary(&readings),
        [
            "triton org/m 0.4 config-file 2/1/1=2 yes [of-total]",
            "triton embed, rank - engine-auto 1/1/1=2 yes [uncapped]",
        ]
    );
    // A ConfigMap that was not read says so.
    let readings = read(&server(REPOSITORY, &mounts, &volumes), &Maps::default());
    assert!(
        readings[0].unresolved[0]
            .reason
            .contains("ConfigMap default/repository does not exist")
    );
    // Nothing is loaded when it starts.
    let args = &["--model-repository=/models", "--model-control-mode=explicit"];
    let readings = read(&server(args, &mounts, &volumes), &maps);
    assert_eq!(
        summary(&readings),
        ["triton /models - unresolved 1/1/1=1 yes [unknown]"]
    );
}
