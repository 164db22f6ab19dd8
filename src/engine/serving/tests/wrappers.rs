//! Programs of other projects that start vLLM: they go through the same reading.

use serde_json::json;

use super::{line, reading, variables};

#[test]
fn wrappers_of_vllm_say_the_same() {
    let kaito = "python3 /workspace/vllm/inference_api.py --max-num-seqs 8 --cpu-offload-gb 1 \
                 --kaito-config-file /files/f.yaml";
    for (container, file, expected) in [
        (
            json!({"image": "kserve/huggingfaceserver:v0.15.0-gpu",
                   "args": ["--model_id=a/b", "--max-num-seqs=8", "--max_num_batched_tokens=1", "--enable-lora"]}),
            "",
            "seqs=8 lora=1x16",
        ),
        (
            json!({"image": "mcr.microsoft.com/aks/kaito/kaito-base:0.1.0", "command": ["/bin/sh", "-c", kaito]}),
            "vllm:\n  max-num-seqs: 4\n  block-size: 32\n",
            "seqs=4 block=32 offload=1073741824",
        ),
        (
            json!({"image": "runpod/worker-v1-vllm:v2.7.0", "env": variables(&[
                ("MODEL_NAME", "a/b"), ("MAX_NUM_SEQS", "8"), ("ENABLE_EXPERT_PARALLEL", "true"),
                ("CPU_OFFLOAD_GB", "0.5"), ("VLLM_EXTRA_ARGS", "--block-size 32")])}),
            "",
            "seqs=8 block=32 offload=536870912 ep=yes",
        ),
        (
            json!({"image": "public.ecr.aws/x/vllm:0.11.0-gpu-sagemaker", "env": variables(&[
                ("SM_VLLM_MODEL", "a/b"), ("SM_VLLM_MAX_NUM_SEQS", "8"),
                ("SM_VLLM_LIMIT_MM_PER_PROMPT", "{\"image\": 0}"), ("SM_VLLM_BLOCK_SIZE", "secret:n")])}),
            "",
            "seqs=8 text=yes no=image ?block-size",
        ),
        (
            json!({"image": "deepjavalibrary/djl-serving:0.33.0-lmi", "env": variables(&[
                ("HF_MODEL_ID", "a/b"), ("OPTION_MAX_ROLLING_BATCH_SIZE", "8"),
                ("OPTION_MAX_NUM_BATCHED_TOKENS", "4096")])}),
            "",
            "seqs=8 tokens=4096",
        ),
    ] {
        let reading = reading(&container, file);
        assert_eq!(reading.engine.as_str(), "vllm", "{container}");
        assert_eq!(line(&reading), expected, "{container}");
    }
}
