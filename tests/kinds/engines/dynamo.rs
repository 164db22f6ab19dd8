//! NVIDIA Dynamo: graphs of both API versions, ranks over several nodes, options of its TensorRT-LLM worker.

use serde_json::{Value, json};

use super::{Maps, check, env, gpus, templates};

fn graph(service: Value) -> Value {
    json!({"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "metadata": {"name": "x"},
        "spec": {"envs": env(&[("FRACTION", "0.5")]), "services": {"W": service}}})
}

#[test]
fn ranks_are_spread_over_the_nodes_of_a_service() {
    for (module, args, expected) in [
        (
            "dynamo.sglang",
            &[
                "--model-path",
                "m",
                "--tp-size",
                "8",
                "--mem-fraction-static",
                "0.82",
            ][..],
            "sglang m of-free 0.82 flag 8/1/1=4",
        ),
        (
            "dynamo.vllm",
            &[
                "--model",
                "m",
                "--tensor-parallel-size",
                "8",
                "--gpu-memory-utilization",
                "0.7",
            ],
            "vllm m of-total 0.7 flag 8/1/1=4",
        ),
        (
            "dynamo.trtllm",
            &["--model-path", "m", "--tensor-parallel-size", "8"],
            "trtllm m of-free-after-weights 0.9 default 8/1/1=4",
        ),
    ] {
        let service = json!({"replicas": 3, "multinode": {"nodeCount": 2}, "resources": {"limits": {"gpu": "4"}},
            "extraPodSpec": {"mainContainer": {"image": "registry.example/runtime:1", "command": ["python3", "-m", module], "args": args}}});
        assert_eq!(
            templates(&graph(service), &Maps::default()),
            [format!("spec.services.W x6: {expected}")]
        );
    }
    // More than all nodes have.
    let service = json!({"multinode": {"nodeCount": 2}, "resources": {"limits": {"gpu": "2"}}, "extraPodSpec": {"mainContainer": {
        "image": "registry.example/runtime:1", "command": ["python3", "-m", "dynamo.vllm"], "args": ["--model", "m", "--tensor-parallel-size", "8"]}}});
    let found = templates(&graph(service), &Maps::default());
    assert!(found[0].contains("8/1/1=4 starts=unknown"), "{found:?}");
    // The operator sees neither short names nor the words of the command.
    for (command, args) in [
        (
            &["python3", "-m", "dynamo.vllm"][..],
            &["--model", "m", "-tp", "8"][..],
        ),
        (
            &[
                "python3",
                "-m",
                "dynamo.vllm",
                "--model",
                "m",
                "--tensor-parallel-size",
                "8",
            ],
            &[],
        ),
    ] {
        let service = json!({"multinode": {"nodeCount": 2}, "resources": {"limits": {"gpu": "4"}}, "extraPodSpec": {"mainContainer": {
            "image": "registry.example/runtime:1", "command": command, "args": args}}});
        let found = templates(&graph(service), &Maps::default());
        assert!(found[0].contains("8/1/1=8 starts=unknown"), "{found:?}");
    }
}

#[test]
fn variables_of_the_graph_reach_its_services() {
    let service = json!({"resources": {"limits": {"gpu": "1"}}, "extraPodSpec": {"mainContainer": {
        "image": "registry.example/runtime:1", "command": ["python3", "-m", "dynamo.vllm"],
        "args": ["--model", "m", "--gpu-memory-utilization=$(FRACTION)"]}}});
    assert_eq!(
        templates(&graph(service), &Maps::default()),
        ["spec.services.W x1: vllm m of-total 0.5 flag 1/1/1=1"]
    );
}

#[test]
fn components_hold_the_templates_of_their_pods() {
    let object = json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": {"name": "x"},
        "spec": {"components": [
            {"name": "Frontend", "type": "frontend", "podTemplate": {"spec": {"containers": [
                {"name": "main", "image": "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.3.1"}]}}},
            {"name": "Worker", "type": "worker", "replicas": 2, "multinode": {"nodeCount": 2}, "podTemplate": {"spec": {
                "containers": [{"name": "main", "image": "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.3.1", "resources": gpus(2),
                    "command": ["python3", "-m", "dynamo.vllm"], "args": ["--model", "m", "--tensor-parallel-size", "4"]}]}}}]}});
    assert_eq!(
        templates(&object, &Maps::default()),
        [
            "spec.components[0].podTemplate x1: none - none - default 1/1/1=0",
            "spec.components[1].podTemplate x4: vllm m of-total 0.92 default 4/1/1=2",
        ]
    );
}

#[test]
fn the_worker_of_tensorrt_llm_reads_options_variables_and_overrides() {
    let worker = |args: &[&str], variables: &[(&str, &str)]| {
        json!({"image": "nvcr.io/nvidia/ai-dynamo/tensorrtllm-runtime:1.0.0", "command": ["python3", "-m", "dynamo.trtllm"],
            "args": args, "env": env(variables)})
    };
    check(
        worker(
            &[],
            &[
                ("DYN_TRTLLM_MODEL", "org/m"),
                ("DYN_TRTLLM_TENSOR_PARALLEL_SIZE", "2"),
                ("DYN_TRTLLM_MAX_SEQ_LEN", "4096"),
                ("DYN_TRTLLM_FREE_GPU_MEMORY_FRACTION", "0.6"),
            ],
        ),
        "trtllm org/m of-free-after-weights 0.6 env 2/1/1=2 len=4096",
    );
    // An entry of the override stands for the file's and the option's as a whole.
    let overridden = "{'tensor_parallel_size': 2, 'kv_cache_config': {'free_gpu_memory_fraction': 0.25}}";
    check(
        worker(
            &[
                "--model-path",
                "m",
                "--free-gpu-memory-fraction",
                "0.7",
                "--override-engine-args",
                overridden,
            ],
            &[],
        ),
        "trtllm m of-free-after-weights 0.25 flag 2/1/1=2",
    );
    check(
        worker(
            &["--model-path", "m", "--free-gpu-memory-fraction", "0.7"],
            &[(
                "DYN_TRTLLM_OVERRIDE_ENGINE_ARGS",
                "{\"kv_cache_config\": {\"dtype\": \"fp8\"}}",
            )],
        ),
        "trtllm m of-free-after-weights 0.9 default 1/1/1=1 kv=fp8",
    );
}
