//! Public reports of several inference servers on one GPU, and what is said of each before it starts. The numbers are worked
//! out by hand in the comments. The texts of all stand in `tests/texts/report-*.txt`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

mod kit;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kit::{Cluster, deployment, fixes_hold, golden, gpu_node, mps_node, pod_of};
use serde_json::{Value, json};
use vramgate::decision::Verdict;
use vramgate::message;

/// A container with the words of its command line, on so many of a resource (none where that is 0).
fn container(name: &str, image: &str, words: &str, resource: &str, count: u32) -> Value {
    let mut container = json!({"name": name, "image": image});
    let words: Vec<&str> = words.split_whitespace().collect();
    if !words.is_empty() {
        container["args"] = json!(words);
    }
    if count > 0 {
        container["resources"] = json!({"limits": {resource: count.to_string()}});
    }
    container
}

fn on_gpu(image: &str, words: &str) -> Value {
    container("server", image, words, "nvidia.com/gpu", 1)
}

/// Everything that is said of an object.
fn told(verdict: &Verdict) -> String {
    let word = if verdict.admit { "admit" } else { "deny" };
    let mut promised = String::new();
    for row in &verdict.placement {
        let device = row.device.as_deref().unwrap_or("(one of its devices)");
        let (fraction, of) = (row.promised_fraction, row.budget_fraction);
        let _ = writeln!(
            promised,
            "on {} {device}: {} of {}, {fraction} of {of}",
            row.node, row.promised, row.budget
        );
    }
    format!("{word}\n{}{promised}", message::report(verdict, ""))
}

/// Judges it as it is submitted, compares all that is said with the golden text, and applies every fix.
fn report(name: &str, cluster: &mut Cluster, object: &Value) -> Verdict {
    let verdict = cluster.check(object);
    fixes_hold(cluster, object, &verdict);
    golden(&format!("report-{name}"), &told(&verdict));
    verdict
}

/// Of 79.15 GiB, as CUDA shows the card.
const A100: u32 = 81_050;
const RTX_4090: u32 = 24_564;

#[test]
fn a_second_engine_beside_one_of_three_quarters() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("a100", "NVIDIA-A100-SXM4-80GB", A100, 1, 2);
    let image = "vllm/vllm-openai:v0.6.4.post1";
    let first = on_gpu(
        image,
        "--model Qwen/Qwen2.5-72B-Instruct-AWQ --gpu-memory-utilization 0.75 --max-model-len 8192",
    );
    let verdict = cluster.create(&pod_of("large", json!([first])));
    assert!(verdict.admit, "{}", told(&verdict));
    let second = on_gpu(
        image,
        "--model Qwen/Qwen2.5-14B-Instruct-AWQ --gpu-memory-utilization 0.20 --max-model-len 4096",
    );
    report("vllm-10533", &mut cluster, &pod_of("small", json!([second])));
}

#[test]
fn a_release_that_counts_the_first_one_for_the_second() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("rtx", "NVIDIA-GeForce-RTX-4090", RTX_4090, 1, 2);
    let quarter = on_gpu(
        "vllm/vllm-openai:v0.8.4",
        "--model Qwen/Qwen2.5-1.5B-Instruct --gpu-memory-utilization 0.25 --max-model-len 2048 --max-num-seqs 16",
    );
    assert!(cluster.create(&pod_of("first", json!([quarter]))).admit);
    report("vllm-29481", &mut cluster, &pod_of("second", json!([quarter])));
}

#[test]
fn two_engines_in_one_worker() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("a10", "NVIDIA-A10", 23_028, 1, 2);
    let line = "python3 -m vllm.entrypoints.openai.api_server --model TheBloke/Mistral-7B-Instruct-v0.2-AWQ --quantization awq --gpu-memory-utilization 0.4 --max-model-len 4096";
    let script = format!("{line} --port 8001 &\nexec {line} --port 8002\n");
    let worker = json!({
        "name": "worker", "image": "vllm/vllm-openai:v0.3.0", "command": ["bash", "-c", script],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    });
    report("vllm-4242", &mut cluster, &pod_of("worker", json!([worker])));
    let ray = json!({
        "apiVersion": "ray.io/v1", "kind": "RayService", "metadata": {"name": "engines", "namespace": "team-a"},
        "spec": {
            "serveConfigV2": "applications:\n- name: llm\n  import_path: serve:app\n  deployments:\n  - name: Engine\n    num_replicas: 2\n    ray_actor_options: {num_gpus: 0.4}\n",
            "rayClusterConfig": {
                "headGroupSpec": {"template": {"spec": {"containers": [{"name": "head", "image": "rayproject/ray:2.9.0"}]}}},
                "workerGroupSpecs": [{"groupName": "gpu", "replicas": 1, "template": {"spec": {"containers": [
                    {"name": "worker", "image": "rayproject/ray-ml:2.9.0-gpu", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}}],
            },
        },
    });
    report("vllm-2248", &mut cluster, &ray);
}

#[test]
fn a_small_model_beside_one_over_four_devices() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("a100x4", "NVIDIA-A100-SXM4-40GB", 40_960, 4, 1);
    let script = "vllm serve Qwen/Qwen2.5-32B-Instruct --tensor-parallel-size 4 --gpu-memory-utilization 0.9 --max-model-len 8192 &\nexec vllm serve Qwen/Qwen2.5-1.5B-Instruct --port 8001 --max-model-len 8192\n";
    let both = json!({
        "name": "servers", "image": "vllm/vllm-openai:v0.8.2", "command": ["bash", "-c", script],
        "resources": {"limits": {"nvidia.com/gpu": "4"}},
    });
    report("vllm-15682", &mut cluster, &pod_of("both", json!([both])));
    let mut shared = Cluster::new();
    shared.gpu_node("a100x4", "NVIDIA-A100-SXM4-40GB", 40_960, 4, 2);
    let large = container(
        "large",
        "vllm/vllm-openai:v0.8.2",
        "--model Qwen/Qwen2.5-32B-Instruct --tensor-parallel-size 4 --gpu-memory-utilization 0.9 --max-model-len 8192",
        "nvidia.com/gpu",
        4,
    );
    report("vllm-15682-shared", &mut shared, &pod_of("large", json!([large])));
}

#[test]
fn graphs_beside_nine_tenths() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("rtx", "NVIDIA-GeForce-RTX-4090", RTX_4090, 1, 1);
    let server = on_gpu(
        "vllm/vllm-openai:v0.5.4",
        "--model Qwen/Qwen2-7B-Instruct --gpu-memory-utilization 0.9 --max-model-len 8192",
    );
    report("vllm-7553", &mut cluster, &pod_of("chat", json!([server])));
    let mut shared = Cluster::new();
    shared.gpu_node("rtx", "NVIDIA-GeForce-RTX-4090", RTX_4090, 1, 2);
    report("vllm-7553-shared", &mut shared, &pod_of("chat", json!([server])));
}

#[test]
fn half_a_gpu_that_renders_to_none() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("l4", "NVIDIA-L4", 23_034, 1, 4);
    let words = "--model Qwen/Qwen2.5-1.5B-Instruct --gpu-memory-utilization 0.4 --max-model-len 4096 --max-num-seqs 64";
    let none = container("vllm", "vllm/vllm-openai:v0.20.0", words, "", 0);
    report(
        "production-stack-1047",
        &mut cluster,
        &deployment("chat", 2, &none),
    );
    report(
        "production-stack-1047-with-a-slot",
        &mut cluster,
        &deployment("chat", 2, &on_gpu("vllm/vllm-openai:v0.20.0", words)),
    );
}

#[test]
fn four_ranks_on_one_device() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("h100", "NVIDIA-H100-80GB-HBM3", 81_559, 4, 1);
    let server = on_gpu(
        "vllm/vllm-openai:v0.6.3",
        "--model Qwen/Qwen2.5-32B-Instruct --tensor-parallel-size 4 --max-model-len 8192",
    );
    report("leapfrogai-1083", &mut cluster, &pod_of("chat", json!([server])));
}

#[test]
fn the_default_fraction_under_mps() {
    let mut cluster = Cluster::new();
    cluster.node(&mps_node("a100", "NVIDIA-A100-SXM4-40GB", 40_960, 1, 2));
    let server = on_gpu(
        "vllm/vllm-openai:v0.9.1",
        "--model Qwen/Qwen2.5-1.5B-Instruct --max-model-len 4096",
    );
    report(
        "production-stack-504",
        &mut cluster,
        &deployment("chat", 2, &server),
    );
}

#[test]
fn two_processes_under_one_limit() {
    let mut cluster = Cluster::new();
    cluster.node(&mps_node("a100", "NVIDIA-A100-SXM4-40GB", 40_960, 1, 2));
    let script = "vllm serve Qwen/Qwen2.5-1.5B-Instruct --gpu-memory-utilization 0.3 --max-model-len 4096 &\nexec vllm serve Qwen/Qwen2.5-0.5B-Instruct --port 8001 --gpu-memory-utilization 0.3 --max-model-len 4096\n";
    let both = json!({
        "name": "servers", "image": "vllm/vllm-openai:v0.9.1", "command": ["bash", "-c", script],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    });
    report(
        "k8s-device-plugin-720",
        &mut cluster,
        &pod_of("both", json!([both])),
    );
}

#[test]
fn unequal_parts_under_mps() {
    let mut cluster = Cluster::new();
    cluster.node(&mps_node("a100", "NVIDIA-A100-SXM4-80GB", 81_920, 1, 2));
    let server = on_gpu(
        "vllm/vllm-openai:v0.20.0",
        "--model Qwen/Qwen2.5-7B-Instruct --gpu-memory-utilization 0.6 --max-model-len 8192",
    );
    report(
        "k8s-device-plugin-1119",
        &mut cluster,
        &pod_of("large", json!([server])),
    );
}

#[test]
fn shares_that_nothing_enforces() {
    let mut cluster = Cluster::new();
    let mut node = gpu_node("gtx", "NVIDIA-GeForce-GTX-1080-Ti", 11_264, 1, 1);
    for list in ["capacity", "allocatable"] {
        node["status"][list] = json!({"aliyun.com/gpu-mem": "11264", "aliyun.com/gpu-count": "1"});
    }
    cluster.node(&node);
    for (name, amount) in [("small", 1_024), ("large", 5_000)] {
        let server = container(
            "server",
            "vllm/vllm-openai:v0.6.3",
            "--model Qwen/Qwen2.5-0.5B-Instruct --max-model-len 2048",
            "aliyun.com/gpu-mem",
            amount,
        );
        report(
            &format!("gpushare-76-{name}"),
            &mut cluster,
            &pod_of(name, json!([server])),
        );
    }
}

#[test]
fn a_fraction_for_the_parent_of_a_slice() {
    let mut cluster = Cluster::new();
    cluster.node(&kit::mig_node("h100", &[("1g.10gb", 9_984, 7)]));
    let server = container(
        "server",
        "vllm/vllm-openai:v0.20.0",
        "--model microsoft/Phi-4-mini-instruct --gpu-memory-utilization 0.84 --max-model-len 8192",
        "nvidia.com/mig-1g.10gb",
        1,
    );
    report("kaito-mig", &mut cluster, &pod_of("phi", json!([server])));
}

#[test]
fn many_requests_at_once_on_a_slice() {
    let mut cluster = Cluster::new();
    cluster.node(&kit::mig_node("h100", &[("2g.20gb", 20_096, 3)]));
    let mut server = container("ollama", "ollama/ollama:0.2.5", "", "nvidia.com/mig-2g.20gb", 1);
    server["env"] = json!([{"name": "OLLAMA_NUM_PARALLEL", "value": "64"}]);
    report("ollama-5756", &mut cluster, &pod_of("ollama", json!([server])));
}

#[test]
fn a_fraction_of_the_whole_with_the_others_inside() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("a100", "NVIDIA-A100-SXM4-80GB", 81_920, 1, 2);
    let server = on_gpu(
        "ghcr.io/huggingface/text-generation-inference:1.1.1",
        "--model-id mistralai/Mistral-7B-Instruct-v0.1 --cuda-memory-fraction 0.5",
    );
    let verdict = cluster.create(&pod_of("first", json!([server])));
    assert!(verdict.admit, "{}", told(&verdict));
    report("tgi-1245", &mut cluster, &pod_of("second", json!([server])));
}

#[test]
fn two_instances_of_a_backend() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("a100", "NVIDIA-A100-SXM4-80GB", 81_920, 1, 2);
    let model = json!({"model": "google/gemma-2b", "gpu_memory_utilization": 0.47, "max_model_len": 2048})
        .to_string();
    cluster.maps.0.insert(
        ("team-a".to_owned(), "repository".to_owned()),
        BTreeMap::from([
            (
                "config".to_owned(),
                "backend: \"vllm\"\ninstance_group [\n  { count: 2, kind: KIND_MODEL }\n]\n".to_owned(),
            ),
            ("options".to_owned(), model),
        ]),
    );
    let mut server = container(
        "triton",
        "nvcr.io/nvidia/tritonserver:24.07-vllm-python-py3",
        "tritonserver --model-repository=/models",
        "nvidia.com/gpu",
        1,
    );
    server["volumeMounts"] = json!([{"name": "models", "mountPath": "/models"}]);
    let mut pod = pod_of("gemma", json!([server]));
    pod["spec"]["volumes"] = json!([{"name": "models", "configMap": {"name": "repository", "items": [
        {"key": "config", "path": "gemma/config.pbtxt"}, {"key": "options", "path": "gemma/1/model.json"}]}}]);
    report("triton-7562", &mut cluster, &pod);
}

#[test]
fn one_of_two_devices_used() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("v100", "Tesla-V100-PCIE-16GB", 16_384, 2, 1);
    let server = container(
        "server",
        "vllm/vllm-openai:v0.6.3",
        "--model meta-llama/Llama-3.1-8B-Instruct --dtype float16 --tensor-parallel-size 1 --max-model-len 8192",
        "nvidia.com/gpu",
        2,
    );
    report("kaito-866", &mut cluster, &pod_of("llama", json!([server])));
}

#[test]
fn every_device_without_asking() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("rtx", "NVIDIA-GeForce-RTX-4090", RTX_4090, 1, 1);
    let mut server = container("ollama", "ollama/ollama:0.1.32", "", "", 0);
    server["env"] = json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]);
    server["securityContext"] = json!({"privileged": true});
    let mut object = deployment("ollama", 1, &server);
    object["spec"]["template"]["spec"]["runtimeClassName"] = json!("nvidia");
    report("ollama-3761", &mut cluster, &object);
}
