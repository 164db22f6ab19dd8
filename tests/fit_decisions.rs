//! Whether a model fits the device that its pod gets: the verdict, its words, and the changes that it proposes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

mod kit;

use kit::{Cluster, H100, gpu_node, pod_of};
use serde_json::{Value, json};
use vramgate::message;

fn serve(args: &[&str], resource: &str, count: u32) -> Value {
    pod_of(
        "chat",
        json!([{
            "name": "server", "image": "vllm/vllm-openai:v0.20.0", "args": args,
            "resources": {"limits": {resource: count.to_string()}},
        }]),
    )
}

fn sliced(profile: &str, memory: u32) -> Value {
    let mut node = gpu_node("sliced", "NVIDIA-H100-80GB-HBM3", H100, 1, 1);
    let labels = node["metadata"]["labels"].as_object_mut().unwrap();
    for (key, value) in [
        ("nvidia.com/mig.strategy".to_owned(), "mixed".to_owned()),
        ("nvidia.com/mig.capable".to_owned(), "true".to_owned()),
        ("nvidia.com/gpu.replicas".to_owned(), "0".to_owned()),
        (format!("nvidia.com/mig-{profile}.count"), "7".to_owned()),
        (format!("nvidia.com/mig-{profile}.replicas"), "1".to_owned()),
        (format!("nvidia.com/mig-{profile}.memory"), memory.to_string()),
        (
            format!("nvidia.com/mig-{profile}.product"),
            format!("NVIDIA-H100-80GB-HBM3-MIG-{profile}"),
        ),
        (
            format!("nvidia.com/mig-{profile}.sharing-strategy"),
            "none".to_owned(),
        ),
    ] {
        labels.insert(key, json!(value));
    }
    for list in ["capacity", "allocatable"] {
        node["status"][list] = json!({"nvidia.com/gpu": "0", format!("nvidia.com/mig-{profile}"): "7"});
    }
    node
}

#[test]
fn look() {
    let one_g = || {
        let mut c = Cluster::new();
        c.node(&sliced("1g.10gb", 9984));
        c
    };
    let three_g = || {
        let mut c = Cluster::new();
        c.node(&sliced("3g.40gb", 40448));
        c
    };
    let seven_g = || {
        let mut c = Cluster::new();
        c.node(&sliced("7g.80gb", 81152));
        c
    };
    let whole = || {
        let mut c = Cluster::new();
        c.gpu_node("whole", "NVIDIA-H100-80GB-HBM3", H100, 8, 1);
        c
    };
    let m1 = "nvidia.com/mig-1g.10gb";
    let cases: Vec<(&str, Cluster, Value)> = vec![
        (
            "G1 2048",
            one_g(),
            serve(
                &[
                    "--model",
                    "RedHatAI/Llama-2-7b-chat-hf-FP8",
                    "--max-model-len",
                    "2048",
                    "--max-num-seqs",
                    "16",
                ],
                m1,
                1,
            ),
        ),
        (
            "G1 2048 online",
            one_g(),
            serve(
                &[
                    "--model",
                    "meta-llama/Llama-2-7b-chat-hf",
                    "--quantization",
                    "fp8",
                    "--max-model-len",
                    "2048",
                    "--max-num-seqs",
                    "16",
                ],
                m1,
                1,
            ),
        ),
        (
            "G1 4096",
            one_g(),
            serve(
                &[
                    "--model",
                    "meta-llama/Llama-2-7b-chat-hf",
                    "--quantization",
                    "fp8",
                    "--max-model-len",
                    "4096",
                    "--max-num-seqs",
                    "16",
                ],
                m1,
                1,
            ),
        ),
        (
            "G1 4096 default",
            one_g(),
            serve(
                &[
                    "--model",
                    "meta-llama/Llama-2-7b-chat-hf",
                    "--quantization",
                    "fp8",
                ],
                m1,
                1,
            ),
        ),
        (
            "G2",
            one_g(),
            serve(
                &["--model", "TheBloke/Llama-2-7B-Chat-AWQ", "--max-num-seqs", "16"],
                m1,
                1,
            ),
        ),
        (
            "G2 default",
            one_g(),
            serve(&["--model", "TheBloke/Llama-2-7B-Chat-AWQ"], m1, 1),
        ),
        (
            "G3",
            one_g(),
            serve(
                &[
                    "--model",
                    "meta-llama/Llama-2-13b-chat-hf",
                    "--quantization",
                    "fp8",
                ],
                m1,
                1,
            ),
        ),
        (
            "G4 7g 256",
            seven_g(),
            serve(
                &[
                    "--model",
                    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic",
                    "--max-model-len",
                    "4096",
                    "--max-num-seqs",
                    "256",
                ],
                "nvidia.com/mig-7g.80gb",
                1,
            ),
        ),
        (
            "G4 7g",
            seven_g(),
            serve(
                &[
                    "--model",
                    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic",
                    "--max-model-len",
                    "4096",
                ],
                "nvidia.com/mig-7g.80gb",
                1,
            ),
        ),
        (
            "G4 whole 256",
            whole(),
            serve(
                &[
                    "--model",
                    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic",
                    "--max-model-len",
                    "4096",
                    "--max-num-seqs",
                    "256",
                ],
                "nvidia.com/gpu",
                1,
            ),
        ),
        (
            "G4 whole",
            whole(),
            serve(
                &[
                    "--model",
                    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic",
                    "--max-model-len",
                    "4096",
                ],
                "nvidia.com/gpu",
                1,
            ),
        ),
        (
            "G4 two",
            whole(),
            serve(
                &[
                    "--model",
                    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic",
                    "--max-model-len",
                    "4096",
                    "-tp",
                    "2",
                ],
                "nvidia.com/gpu",
                2,
            ),
        ),
        (
            "G5",
            three_g(),
            serve(
                &[
                    "--model",
                    "Qwen/Qwen2.5-72B-Instruct-AWQ",
                    "--gpu-memory-utilization",
                    "0.95",
                    "--max-model-len",
                    "8192",
                ],
                "nvidia.com/mig-3g.40gb",
                1,
            ),
        ),
        (
            "70b 16",
            whole(),
            serve(
                &["--model", "meta-llama/Llama-3.3-70B-Instruct"],
                "nvidia.com/gpu",
                1,
            ),
        ),
        (
            "qwen3 8b .3",
            whole(),
            serve(
                &["--model", "Qwen/Qwen3-8B", "--gpu-memory-utilization", "0.27"],
                "nvidia.com/gpu",
                1,
            ),
        ),
    ];
    for (name, mut cluster, object) in cases {
        let verdict = cluster.try_create(&object);
        println!(
            "== {name}: {}\n{}",
            verdict.admit,
            message::report(&verdict, "  ")
        );
    }
}
