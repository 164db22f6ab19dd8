//! Images that turn variables into options of vLLM: `RunPod` and `SageMaker`.

use serde_json::json;

use super::{check, env};

#[test]
fn variables_are_options() {
    check(
        json!({"image": "runpod/worker-v1-vllm:v2.7.0stable-cuda12.1.0", "env": env(&[("MODEL_NAME", "org/m"),
            ("GPU_MEMORY_UTILIZATION", "0.85"), ("TENSOR_PARALLEL_SIZE", "2"), ("MAX_MODEL_LEN", "8192"), ("QUANTIZATION", "awq")])}),
        "vllm org/m of-total 0.85 env 2/1/1=2 len=8192 q=awq",
    );
    check(
        json!({"image": "763104351884.dkr.ecr.us-east-1.amazonaws.com/vllm:0.11.0-gpu-py312-sagemaker", "env": env(&[
            ("SM_VLLM_MODEL", "org/m"), ("SM_VLLM_GPU_MEMORY_UTILIZATION", "0.8"), ("SM_VLLM_TENSOR_PARALLEL_SIZE", "2")])}),
        "vllm org/m of-total 0.8 env 2/1/1=2",
    );
}
