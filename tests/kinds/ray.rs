//! Engines in a RayService, whole and on parts of a device, and worker groups that carry no options.

use serde_json::{Value, json};
use vramgate::workload::template;

use super::{Maps, lines, read};

fn service(config: &str, gpus: u32) -> Value {
    let group = |name: &str, gpus: u32| {
        let mut container = json!({"name": name, "image": "rayproject/ray-llm:2.52.0-py311-cu128"});
        if gpus > 0 {
            container["resources"] = json!({"limits": {"nvidia.com/gpu": gpus.to_string()}});
        }
        json!({"replicas": 1, "template": {"spec": {"containers": [container]}}})
    };
    json!({"apiVersion": "ray.io/v1", "kind": "RayService", "metadata": {"name": "x"}, "spec": {
        "serveConfigV2": config,
        "rayClusterConfig": {"headGroupSpec": group("head", 0), "workerGroupSpecs": [group("worker", gpus)]},
    }})
}

/// What the worker is read as, with what is not known of it.
fn worker(config: &str, gpus: u32) -> (Vec<String>, Vec<String>) {
    let (_, templates) = template::templates(&service(config, gpus)).unwrap();
    let worker = templates
        .iter()
        .find(|template| template.path.as_str().contains("workerGroupSpecs"))
        .unwrap();
    let readings = read(&worker.pod, &Maps::default());
    let reasons = readings.iter().flat_map(|reading| &reading.unresolved);
    (
        lines(&readings),
        reasons.map(|unresolved| unresolved.reason.clone()).collect(),
    )
}

fn llm(options: &str, more: &str) -> String {
    format!(
        "applications:\n- name: llm\n  import_path: ray.serve.llm:build_openai_app\n  args:\n    llm_configs:\n    \
         - model_loading_config: {{model_id: short, model_source: org/m}}\n      engine_kwargs: {{{options}}}\n{more}"
    )
}

#[test]
fn an_engine_has_the_options_of_its_entry() {
    for (options, expected) in [
        (
            "gpu_memory_utilization: 0.6, tensor_parallel_size: 2, enforce_eager: true",
            "vllm org/m 0.6 flag 2/1/1=2 yes",
        ),
        ("max_model_len: 4096", "vllm org/m 0.92 default 1/1/1=1 yes"),
    ] {
        assert_eq!(worker(&llm(options, ""), 2).0, [expected], "{options}");
    }
}

#[test]
fn engines_on_parts_of_a_device_are_as_many_as_there_is_room_for() {
    let share = "gpu_memory_utilization: 0.4";
    let one = "vllm org/m 0.4 flag 1/1/1=1 yes";
    let bundles = "      placement_group_config: {bundles: [{GPU: 0.49}]}\n";
    let replicas = |most: u32| {
        format!(
            "      deployment_config: {{autoscaling_config: {{min_replicas: 1, max_replicas: {most}}}}}\n"
        )
    };
    for (more, gpus, count) in [
        // Two halves fit one device, eight replicas or not.
        (format!("{bundles}{}", replicas(8)), 1, 2),
        (format!("{bundles}{}", replicas(8)), 2, 4),
        // Of one replica there is one.
        (format!("{bundles}{}", replicas(1)), 2, 1),
        // Not bounded: what there is room for.
        (bundles.to_owned(), 1, 2),
        (
            format!(
                "      runtime_env: {{env_vars: {{VLLM_RAY_PER_WORKER_GPUS: \"0.25\"}}}}\n{}",
                replicas(3)
            ),
            1,
            3,
        ),
        (
            "      deployment_config: {num_replicas: 2, ray_actor_options: {num_gpus: 0.5}}\n".to_owned(),
            1,
            2,
        ),
        // A whole device each.
        (
            format!(
                "      placement_group_config: {{bundles: [{{GPU: 1}}]}}\n{}",
                replicas(8)
            ),
            2,
            1,
        ),
    ] {
        assert_eq!(worker(&llm(share, &more), gpus).0, vec![one; count], "{more}");
    }
    // Ranks of one engine lie on different parts.
    let more = "      placement_group_config: {bundles: [{GPU: 0.5}, {GPU: 0.5}]}\n";
    let options = "gpu_memory_utilization: 0.4, tensor_parallel_size: 2";
    assert_eq!(
        worker(&llm(options, more), 2).0,
        ["vllm org/m 0.4 flag 2/1/1=2 yes"; 2]
    );
    // More than are followed: nothing is guessed.
    let more = "      placement_group_config: {bundles: [{GPU: 0.01}]}\n";
    let (lines, reasons) = worker(&llm(share, more), 1);
    assert_eq!(lines, ["unknown - - unresolved 1/1/1=1 yes"]);
    assert!(reasons[0].contains("more than 16 engines"), "{reasons:?}");
}

#[test]
fn engines_of_applications_of_their_own_are_found() {
    let config = "applications:\n- name: a\n  import_path: app:build\n  args:\n    options: {nested: {model: org/n, engine_kwargs: {gpu_memory_utilization: 0.3}}}\n  \
                  deployments:\n  - {name: Server, num_replicas: 2, ray_actor_options: {num_gpus: 0.5}}\n  - {name: Front, ray_actor_options: {num_cpus: 1}}\n\
                  - name: b\n  import_path: app:other\n  deployments:\n  - name: Server\n    user_config: {engine_kwargs: {model: org/o, gpu_memory_utilization: 0.2}}\n";
    assert_eq!(
        worker(config, 1).0,
        [
            "vllm org/n 0.3 flag 1/1/1=1 yes",
            "vllm org/n 0.3 flag 1/1/1=1 yes",
            "vllm org/o 0.2 flag 1/1/1=1 yes",
        ]
    );
    let config = "applications:\n- import_path: serve_vllm:app\n  runtime_env: {env_vars: {MODEL_ID: org/v, GPU_MEMORY_UTILIZATION: \"0.35\"}}\n  \
                  deployments:\n  - {name: Server, ray_actor_options: {num_gpus: 1}}\n";
    assert_eq!(worker(config, 1).0, ["vllm org/v 0.35 flag 1/1/1=1 yes"]);
}

#[test]
fn what_is_not_readable_says_why() {
    let (lines, reasons) = worker("applications: [", 1);
    assert_eq!(lines, ["unknown - - unresolved 1/1/1=1 yes"]);
    assert_eq!(reasons, ["serveConfigV2 of the object is not valid YAML"]);
    // An application of which nothing is known, and a cluster without any.
    let unknown = "the application of serveConfigV2 runs there, and its code is not read";
    assert_eq!(
        worker("applications:\n- import_path: app:build\n", 1).1,
        [unknown]
    );
    assert_eq!(worker("", 1).1, [unknown]);
}

#[test]
fn workers_of_a_head_that_serves_join_it() {
    let mut object = service("", 2);
    object["kind"] = json!("RayCluster");
    let cluster = object["spec"]["rayClusterConfig"].clone();
    object["spec"] = cluster;
    object["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["args"] = json!([
        "vllm serve org/m -tp 2 -pp 2 --gpu-memory-utilization 0.5 --distributed-executor-backend ray"
    ]);
    let (_, templates) = template::templates(&object).unwrap();
    let all: Vec<String> = templates
        .iter()
        .flat_map(|template| lines(&read(&template.pod, &Maps::default())))
        .collect();
    assert_eq!(all[1], "ray-worker - - unresolved 1/1/1=2 yes");
    assert!(all[0].starts_with("vllm org/m 0.5 flag 2/2/1="), "{all:?}");
}
