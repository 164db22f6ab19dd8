//! KAITO: workspaces, whose fields stand beside the metadata, and sets of inference services.

use serde_json::{Value, json};

use super::{Maps, templates};

fn workspace(more: Value) -> Value {
    let mut object = json!({"apiVersion": "kaito.sh/v1beta1", "kind": "Workspace", "metadata": {"name": "x"},
        "resource": {"instanceType": "Standard_NC24ads_A100_v4"}});
    for (name, value) in more.as_object().unwrap() {
        object[name] = value.clone();
    }
    object
}

#[test]
fn a_workspace_serves_its_preset() {
    let plain = workspace(json!({"inference": {"preset": {"name": "phi-4-mini-instruct"}}}));
    assert_eq!(
        templates(&plain, &Maps::default()),
        ["inference x1: vllm phi-4-mini-instruct of-total - unresolved 1/1/1=1 starts=unknown"]
    );
}

#[test]
fn its_configuration_wins() {
    let config = workspace(json!({"inference": {"preset": {"name": "phi-4"}, "config": "settings"}}));
    let maps = Maps::default().with(
        "settings",
        &[(
            "inference_config.yaml",
            "vllm:\n  gpu-memory-utilization: 0.6\n  max-model-len: 4096\n",
        )],
    );
    assert_eq!(
        templates(&config, &maps),
        ["inference x1: vllm phi-4 of-total 0.6 flag 1/1/1=1 len=4096"]
    );
}

#[test]
fn a_template_and_a_tuning_are_read_as_what_they_start() {
    let own = workspace(
        json!({"inference": {"template": {"spec": {"containers": [{"name": "server", "image": "x:1",
        "command": ["vllm", "serve", "m"], "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}}}),
    );
    assert_eq!(
        templates(&own, &Maps::default()),
        ["inference.template x1: vllm m of-total 0.92 default 1/1/1=1"]
    );
    let tuning = workspace(json!({"tuning": {"preset": {"name": "phi-4"}, "method": "qlora"}}));
    assert_eq!(
        templates(&tuning, &Maps::default()),
        ["tuning x1: pytorch - uncapped - engine-auto 1/1/1=1"]
    );
}
