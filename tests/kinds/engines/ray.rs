//! Ray: groups whose command is their own, applications without an engine, engines over several pods.

use serde_json::{Value, json};

use super::{Maps, gpus, templates};

fn worker(kind: &str, annotations: &Value, serve: Option<&str>, container: Value, count: u32) -> String {
    let mut container = container;
    container["name"] = json!("w");
    container["image"] = json!("rayproject/ray-llm:2.50.1");
    container["resources"] = gpus(count);
    let cluster = json!({
        "headGroupSpec": {"template": {"spec": {"containers": [{"name": "h", "image": "rayproject/ray:2.50.1"}]}}},
        "workerGroupSpecs": [{"replicas": 2, "template": {"spec": {"containers": [container]}}}]});
    let spec = match serve {
        Some(serve) => json!({"serveConfigV2": serve, "rayClusterConfig": cluster}),
        None => cluster,
    };
    let object = json!({"apiVersion": "ray.io/v1", "kind": kind, "metadata": {"name": "x", "annotations": annotations}, "spec": spec});
    let found = templates(&object, &Maps::default());
    assert_eq!(found.len(), 2);
    found[1].split_once(": ").unwrap().1.to_owned()
}

#[test]
fn a_command_of_its_own_stands_without_the_start_of_ray() {
    let own = json!({"command": ["/bin/bash", "-lc", "--"], "args": ["ulimit -n 65536; $KUBERAY_GEN_RAY_START_CMD"]});
    let annotated = json!({"ray.io/overwrite-container-cmd": "true"});
    assert_eq!(
        worker("RayCluster", &annotated, None, own, 1),
        "ray-worker - unknown - unresolved 1/1/1=1"
    );
    let serve = json!({"command": ["vllm", "serve", "m"]});
    assert_eq!(
        worker("RayCluster", &annotated, None, serve, 1),
        "vllm m of-total 0.92 default 1/1/1=1"
    );
}

#[test]
fn an_application_of_its_own_code_is_unknown() {
    let serve = "applications:\n- name: sd\n  import_path: sd:entrypoint\n";
    assert_eq!(
        worker("RayService", &json!({}), Some(serve), json!({}), 1),
        "unknown - unknown - unresolved 1/1/1=1"
    );
}

#[test]
fn an_engine_over_several_pods_uses_the_devices_of_each() {
    let serve = "applications:\n- args:\n    llm_configs:\n    - model_loading_config: {model_id: m}\n      engine_kwargs: {tensor_parallel_size: 4, pipeline_parallel_size: 2, gpu_memory_utilization: 0.8}\n";
    assert_eq!(
        worker("RayService", &json!({}), Some(serve), json!({}), 4),
        "vllm m of-total 0.8 flag 4/2/1=4"
    );
}
