//! TensorRT-LLM: `trtllm-serve`, its file of options, several nodes.

use serde_json::json;

use super::{Maps, check, gpus, whole};

const IMAGE: &str = "nvcr.io/nvidia/tensorrt-llm/release:1.0.0";

#[test]
fn the_model_stands_anywhere_among_the_options() {
    for args in [
        &[
            "org/m",
            "--tp_size=2",
            "--kv_cache_free_gpu_memory_fraction",
            "0.8",
        ][..],
        &[
            "serve",
            "--backend",
            "pytorch",
            "--trust_remote_code",
            "--tp_size",
            "2",
            "--free_gpu_memory_fraction=0.8",
            "org/m",
        ],
    ] {
        check(
            json!({"image": IMAGE, "command": ["trtllm-serve"], "args": args}),
            "trtllm org/m of-free-after-weights 0.8 flag 2/1/1=2",
        );
    }
    check(
        json!({"image": IMAGE, "args": ["trtllm-serve", "/engine", "--max_seq_len", "4096"], "resources": gpus(1)}),
        "trtllm /engine of-free-after-weights 0.9 default 1/1/1=1 len=4096",
    );
}

#[test]
fn the_file_wins_and_its_numbers_are_told_as_written() {
    let pod = serde_json::from_value(json!({"spec": {
        "containers": [{"name": "server", "image": IMAGE, "resources": gpus(2), "command": ["trtllm-serve", "m",
            "--free_gpu_memory_fraction", "0.3", "--extra_llm_api_options", "/etc/trt/o.yaml"],
            "volumeMounts": [{"name": "c", "mountPath": "/etc/trt"}]}],
        "volumes": [{"name": "c", "configMap": {"name": "trt"}}]}}))
    .unwrap();
    let text = "tensor_parallel_size: 2\nkv_cache_config:\n  dtype: fp8\n  free_gpu_memory_fraction: 0.80\n";
    let readings = super::read(&pod, &Maps::default().with("trt", &[("o.yaml", text)]));
    assert_eq!(
        whole(&readings[0]),
        "trtllm m of-free-after-weights 0.80 config-file 2/1/1=2 kv=fp8"
    );
}

#[test]
fn ranks_of_other_nodes_are_not_counted_here() {
    check(
        json!({"image": IMAGE, "command": ["bash", "-c", "mpirun -np 4 trtllm-llmapi-launch trtllm-serve m --tp_size 4"]}),
        "trtllm m of-free-after-weights 0.9 default 4/1/1=2",
    );
    check(
        json!({"image": IMAGE, "command": ["trtllm-serve", "m", "--tp_size", "4"]}),
        "trtllm m of-free-after-weights 0.9 default 4/1/1=4 starts=unknown",
    );
}

#[test]
fn a_front_of_other_servers_takes_nothing_and_several_words_are_refused() {
    check(
        json!({"image": IMAGE, "command": ["trtllm-serve", "disaggregated", "-c", "/c.yaml"], "resources": {}}),
        "none - none - default 1/1/1=0",
    );
    check(
        json!({"image": IMAGE, "command": ["trtllm-serve", "m", "--tp_size 2"]}),
        "trtllm m of-free-after-weights 0.9 default 2/1/1=2 starts=no VG104",
    );
}
