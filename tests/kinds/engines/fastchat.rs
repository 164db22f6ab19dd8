//! FastChat's worker, whose command line is vLLM's with a few options of its own.

use serde_json::json;

use super::check;

fn worker(args: &str, expected: &str) {
    let command: Vec<&str> = ["python3", "-m", "fastchat.serve.vllm_worker"]
        .into_iter()
        .chain(args.split(' '))
        .collect();
    check(
        json!({"image": "registry.example/fastchat:0.2.36", "command": command}),
        expected,
    );
    let script = format!("exec {}", command.join(" "));
    check(
        json!({"image": "registry.example/fastchat:0.2.36", "command": ["sh", "-c", script]}),
        expected,
    );
}

#[test]
fn its_own_options_stand_for_those_of_vllm() {
    worker(
        "--model-path org/m --gpu-memory-utilization 0.4 --num-gpus 2 --port 21002",
        "vllm org/m of-total 0.4 flag 2/1/1=2",
    );
    worker(
        "--model-path=org/m --gpu_memory_utilization 0.4 --num-gpus=2 --max-model-len 2048 --model-names a,b",
        "vllm org/m of-total 0.4 flag 2/1/1=2 len=2048",
    );
}

#[test]
fn its_own_options_win_wherever_they_stand() {
    worker(
        "--model-path org/m --num-gpus 2 --model org/other --tensor-parallel-size 1 --gpu-memory-utilization 0.4",
        "vllm org/m of-total 0.4 flag 2/1/1=2",
    );
    // One GPU is the default, which leaves vLLM's own option as it is.
    worker(
        "--model-path org/m --tensor-parallel-size 2 --num-gpus 1 --gpu-memory-utilization 0.4",
        "vllm org/m of-total 0.4 flag 2/1/1=2",
    );
}

#[test]
fn values_that_are_not_known_stay_so() {
    check(
        json!({"image": "registry.example/fastchat:0.2.36", "command": ["sh", "-c",
            "python3 -m fastchat.serve.vllm_worker --model-path $(cat /m) --gpu-memory-utilization 0.4"]}),
        "vllm - of-total 0.4 flag 1/1/1=1",
    );
}
