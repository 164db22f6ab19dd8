//! What is told about variables that an engine does not read, and about names that are nearly right.

use serde_json::{Value, json};
use vramgate::engine::{self, ImageRule, Reading};
use vramgate::finding::Finding;
use vramgate::workload::pod::Pod;

use super::{Maps, pod, read};

fn container(image: &str, command: &[&str], args: &[&str], env: &[(&str, &str)]) -> Value {
    let env: Vec<Value> = env
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    let mut container =
        json!({"image": image, "args": args, "env": env, "resources": {"limits": {"nvidia.com/gpu": 1}}});
    if !command.is_empty() {
        container["command"] = json!(command);
    }
    container
}

fn told(readings: &[Reading]) -> Vec<String> {
    let of = |finding: &Finding| format!("{} {}: {}", finding.code.as_str(), finding.path, finding.message);
    readings
        .iter()
        .flat_map(|reading| &reading.findings)
        .map(of)
        .collect()
}

#[test]
fn variables_that_an_engine_does_not_read_are_told() {
    let sglang = &["python3", "-m", "sglang.launch_server", "--model-path", "m"][..];
    let tgi = "ghcr.io/huggingface/text-generation-inference:3.3.4";
    let tei = "ghcr.io/huggingface/text-embeddings-inference:cuda-1.9";
    let llama = "ghcr.io/ggml-org/llama.cpp:server-cuda-b6000";
    let lmdeploy = &["lmdeploy", "serve", "api_server", "m"][..];
    for (image, command, env, expected) in [
        (
            "lmsysorg/sglang:v0.5.3",
            sglang,
            ("MEM_FRACTION_STATIC", "0.3"),
            "SGLang does not read the variable MEM_FRACTION_STATIC: what it works out from the device applies; set --mem-fraction-static in args instead",
        ),
        (
            "lmsysorg/sglang:v0.5.3",
            sglang,
            ("MODEL_PATH", "other"),
            "SGLang does not read the variable MODEL_PATH: the model is m; set --model-path in args instead",
        ),
        (
            tgi,
            &[][..],
            ("GPU_MEMORY_UTILIZATION", "0.3"),
            "TGI does not read the variable GPU_MEMORY_UTILIZATION: the default 1.0 of each device applies; set --cuda-memory-fraction in args instead",
        ),
        (
            tgi,
            &[],
            ("TENSOR_PARALLEL_SIZE", "2"),
            "TGI does not read the variable TENSOR_PARALLEL_SIZE: the command line and the defaults apply; set --num-shard in args instead",
        ),
        (
            tei,
            &[],
            ("CUDA_MEMORY_FRACTION", "0.3"),
            "TEI does not read the variable CUDA_MEMORY_FRACTION: the command line and the defaults apply; it has no option for that; take the variable out",
        ),
        (
            llama,
            &[],
            ("CTX_SIZE", "4096"),
            "llama-server does not read the variable CTX_SIZE: the command line and the defaults apply; set --ctx-size in args instead",
        ),
        (
            "openmmlab/lmdeploy:v0.10.0",
            lmdeploy,
            ("CACHE_MAX_ENTRY_COUNT", "0.3"),
            "LMDeploy does not read the variable CACHE_MAX_ENTRY_COUNT: the default 0.8 of each device applies; set --cache-max-entry-count in args instead",
        ),
    ] {
        let container = container(image, command, &[], &[env]);
        let readings = read(&pod(&container), &Maps::default());
        let vg103: Vec<String> = told(&readings)
            .into_iter()
            .filter(|text| text.starts_with("VG103"))
            .collect();
        assert_eq!(
            vg103,
            [format!("VG103 spec.containers[0].env[0]: {expected}")],
            "{image}"
        );
    }
    // What it reads, what the command line uses, and what a policy declares is no slip.
    for (image, command, args, env) in [
        (tgi, &[][..], &[][..], ("CUDA_MEMORY_FRACTION", "0.3")),
        (tei, &[], &[], ("MAX_BATCH_TOKENS", "512")),
        (llama, &[], &[], ("LLAMA_ARG_CTX_SIZE", "4096")),
        (llama, &[], &["--ctx-size", "$(CTX_SIZE)"], ("CTX_SIZE", "4096")),
        (
            "own/llama:1",
            &["python3", "-m", "llama_cpp.server"],
            &[],
            ("N_CTX", "4096"),
        ),
        (
            "own/lm:1",
            &["sh", "-c"],
            &["lmdeploy serve api_server m --tp $TP"],
            ("TP", "1"),
        ),
        (
            "own/sg:1",
            &["sh", "-c"],
            &["python3 prepare.py && python3 -m sglang.launch_server --model-path m"],
            ("TP_SIZE", "1"),
        ),
    ] {
        let readings = read(&pod(&container(image, command, args, &[env])), &Maps::default());
        assert!(
            !told(&readings).iter().any(|text| text.starts_with("VG103")),
            "{image} {args:?}"
        );
    }
    let pod = pod(&container(tgi, &[], &[], &[("MODEL_NAME", "m")]));
    let rule = ImageRule {
        images: vec!["*text-generation-inference*".to_owned()],
        variables: [("MODEL_NAME".to_owned(), "--model-id".to_owned())].into(),
        ..ImageRule::default()
    };
    let placed = engine::containers(&pod).next().unwrap();
    assert!(told(&engine::read(&pod, placed, &Maps::default(), &[rule])).is_empty());
}

#[test]
fn misspelt_options_are_told_with_the_right_spelling() {
    let vllm = "vllm/vllm-openai:v0.11.0";
    let sglang = &["python3", "-m", "sglang.launch_server", "--model-path", "m"][..];
    for (image, command, args, expected) in [
        (
            vllm,
            &[][..],
            &["--model=m", "--gpu-memory-utilisation", "0.2"][..],
            &[
                "VG107 spec.containers[0].args[1]: vLLM 0.11.0 does not know \"--gpu-memory-utilisation\" and does not start with it; write --gpu-memory-utilization",
                "VG108 spec.containers[0].args[1]: --gpu-memory-utilisation is no option of vLLM 0.11.0, which has --gpu-memory-utilization; write --gpu-memory-utilization",
            ][..],
        ),
        (
            vllm,
            &[],
            &["--model=m", "--max_model_length=4096"],
            &[
                "VG107 spec.containers[0].args[1]: vLLM 0.11.0 does not know \"--max-model-length=4096\" and does not start with it; write --max-model-len",
                "VG108 spec.containers[0].args[1]: --max-model-length is no option of vLLM 0.11.0, which has --max-model-len; write --max-model-len",
            ],
        ),
        (
            vllm,
            &[],
            &["--model=m", "--quite-another-thing"],
            &[
                "VG107 spec.containers[0].args[1]: vLLM 0.11.0 does not know \"--quite-another-thing\" and does not start with it; remove or correct it",
            ],
        ),
        (
            "lmsysorg/sglang:v0.5.3",
            sglang,
            &["--mem_fraction_static", "0.4"],
            &[
                "VG107 spec.containers[0].args[0]: SGLang 0.5.3.post3 does not know \"--mem_fraction_static\" and does not start with it; write --mem-fraction-static",
                "VG108 spec.containers[0].args[0]: --mem_fraction_static is no option of SGLang 0.5.3.post3, which has --mem-fraction-static; write --mem-fraction-static",
            ],
        ),
        (
            "ghcr.io/huggingface/text-generation-inference:3.3.4",
            &[],
            &["--model-id", "m", "--cuda-memory-fractions=0.5"],
            &[
                "VG108 spec.containers[0].args[2]: --cuda-memory-fractions is no option of TGI, which has --cuda-memory-fraction; write --cuda-memory-fraction",
            ],
        ),
        (
            "ghcr.io/ggml-org/llama.cpp:server-cuda-b6000",
            &[],
            &["--ctx-sizes", "4096", "--ubatch-size", "512"],
            &[
                "VG108 spec.containers[0].args[0]: --ctx-sizes is no option of llama-server, which has --ctx-size; write --ctx-size",
            ],
        ),
        (
            "openmmlab/lmdeploy:v0.10.0",
            &["lmdeploy", "serve", "api_server", "m"],
            &["--cache-max-entry-counts", "0.5"],
            &[
                "VG108 spec.containers[0].args[0]: --cache-max-entry-counts is no option of LMDeploy, which has --cache-max-entry-count; write --cache-max-entry-count",
            ],
        ),
        (
            "ghcr.io/huggingface/text-embeddings-inference:cuda-1.9",
            &[],
            &["--max-batch-token=100", "--json-output"],
            &[
                "VG108 spec.containers[0].args[0]: --max-batch-token is no option of TEI, which has --max-batch-tokens; write --max-batch-tokens",
            ],
        ),
    ] {
        let readings = read(&pod(&container(image, command, args, &[])), &Maps::default());
        assert_eq!(told(&readings), expected, "{args:?}");
    }
}

#[test]
fn annotations_that_are_nearly_right_are_told_once() {
    let pod = |annotations: Value| -> Pod {
        let container = |name: &str| {
            json!({"name": name, "image": "vllm/vllm-openai:v0.11.0", "args": ["--model=m"],
            "resources": {"limits": {"nvidia.com/gpu": 1}}})
        };
        serde_json::from_value(json!({"metadata": {"annotations": annotations}, "spec": {
            "containers": [{"name": "proxy", "image": "envoy:1"}, container("chat"), container("embed")]}}))
        .unwrap()
    };
    for (key, expected) in [
        (
            "vramgate.io/gpu-memmory.embed",
            Some("nothing reads that name; write vramgate.io/gpu-memory.embed"),
        ),
        (
            "vramgates.io/gpu-memory.chat",
            Some("nothing reads that name; write vramgate.io/gpu-memory.chat"),
        ),
        (
            "vramgate.io/gpu-memory.chatt",
            Some("nothing reads that name; write vramgate.io/gpu-memory.chat"),
        ),
        (
            "vramgate.io/gpu-memory",
            Some("it names no container; write vramgate.io/gpu-memory.CONTAINER"),
        ),
        (
            "vramgate.io/gpu-memory.quite-other",
            Some("no container has that name; write vramgate.io/gpu-memory.CONTAINER"),
        ),
        (
            "vramgate.io/gpu-memory.proxi",
            Some("nothing reads that name; write vramgate.io/gpu-memory.proxy"),
        ),
        ("vramgate.io/gpu-memory.chat", None),
        ("vramgate.io/owner", None),
        ("example.org/gpu-memory.chat", None),
        ("gpu-memory", None),
    ] {
        let pod = pod(json!({key: "8Gi"}));
        let all: Vec<String> = told(&read(&pod, &Maps::default()));
        let expected = expected.map(|text| {
            format!("VG108 metadata.annotations[{key}]: the annotation {key} has no effect: {text}")
        });
        assert_eq!(all, Vec::from_iter(expected), "{key}");
    }
}
