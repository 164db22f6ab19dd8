//! NIM: variables before 2.0, the operator's services and pipelines. From 2.0 on `variables.rs` tests it.

use serde_json::{Value, json};

use super::{Maps, check, env, gpus, templates};

#[test]
fn before_two_variables_and_profiles_say_the_sizes() {
    let image = "nvcr.io/nim/meta/llama-3.1-8b-instruct:1.3.3";
    check(
        json!({"image": image, "env": env(&[("NIM_TENSOR_PARALLEL_SIZE", "2"), ("NIM_MAX_MODEL_LEN", "4096")])}),
        "nim meta/llama-3.1-8b-instruct unknown - unresolved 2/1/1=2 len=4096",
    );
    check(
        json!({"image": image, "env": env(&[("NIM_MODEL_PROFILE", "tensorrt_llm-h100-fp8-tp2-pp1-latency")])}),
        "nim meta/llama-3.1-8b-instruct unknown - unresolved 2/1/1=2",
    );
}

#[test]
fn the_ranks_of_a_group_are_spread_over_its_pods() {
    let variables = |nodes: &str| {
        env(&[
            ("NIM_TENSOR_PARALLEL_SIZE", "8"),
            ("NIM_PIPELINE_PARALLEL_SIZE", "2"),
            ("NIM_NUM_COMPUTE_NODES", nodes),
        ])
    };
    let image = "nvcr.io/nim/deepseek-ai/deepseek-r1:1.7.3";
    check(
        json!({"image": image, "env": variables("2"), "resources": gpus(8)}),
        "nim deepseek-ai/deepseek-r1 unknown - unresolved 8/2/1=8",
    );
    check(
        json!({"image": image, "env": variables("0"), "resources": gpus(8)}),
        "nim deepseek-ai/deepseek-r1 unknown - unresolved 8/2/1=16 starts=unknown",
    );
}

fn service(more: Value) -> Value {
    let mut spec =
        json!({"image": {"repository": "nvcr.io/nim/org/m", "tag": "1.7.3"}, "resources": gpus(8)});
    for (name, value) in more.as_object().unwrap() {
        spec[name] = value.clone();
    }
    spec
}

#[test]
fn a_service_over_several_nodes_has_a_pod_for_each_stage() {
    let object = |spec: Value| json!({"apiVersion": "apps.nvidia.com/v1alpha1", "kind": "NIMService", "metadata": {"name": "x"}, "spec": spec});
    let found = |more: Value| templates(&object(service(more)), &Maps::default());
    assert_eq!(
        found(json!({"replicas": 2})),
        ["spec x2: nim org/m unknown - unresolved 1/1/1=1"]
    );
    assert_eq!(
        found(json!({"multiNode": {"parallelism": {"pp": 2, "tp": 8}}})),
        ["spec x2: nim org/m unknown - unresolved 8/2/1=8"]
    );
    assert_eq!(
        found(json!({"replicas": 2, "multiNode": {"parallelism": {"pp": 2}}})),
        ["spec x4: nim org/m unknown - unresolved 8/2/1=8"]
    );
}

#[test]
fn a_pipeline_is_as_many_services_as_are_enabled() {
    let one = |name: &str, enabled: bool| json!({"name": name, "enabled": enabled, "spec": service(json!({"resources": gpus(1)}))});
    let object = json!({"apiVersion": "apps.nvidia.com/v1alpha1", "kind": "NIMPipeline", "metadata": {"name": "x"},
        "spec": {"services": [one("a", true), one("b", false), one("c", true)]}});
    assert_eq!(
        templates(&object, &Maps::default()),
        [
            "spec.services[0].spec x1: nim org/m unknown - unresolved 1/1/1=1",
            "spec.services[2].spec x1: nim org/m unknown - unresolved 1/1/1=1",
        ]
    );
}
