//! Text Generation Inference: arguments, variables, the images of cloud vendors.

use serde_json::json;

use super::{check, env, gpus};

const IMAGE: &str = "ghcr.io/huggingface/text-generation-inference:2.3.1";

#[test]
fn every_option_has_a_variable_and_the_option_wins() {
    check(
        json!({"image": IMAGE, "env": env(&[("MODEL_ID", "org/m"), ("NUM_SHARD", "2"), ("QUANTIZE", "awq"),
            ("CUDA_MEMORY_FRACTION", "0.5"), ("MAX_TOTAL_TOKENS", "4096"), ("KV_CACHE_DTYPE", "fp8_e5m2")])}),
        "tgi org/m until-left 0.5 env 2/1/1=2 len=4096 q=awq kv=fp8_e5m2",
    );
    check(
        json!({"image": IMAGE, "args": ["--cuda-memory-fraction=0.3", "--num-shard", "1"],
            "env": env(&[("MODEL_ID", "org/m"), ("CUDA_MEMORY_FRACTION", "0.5"), ("NUM_SHARD", "2")])}),
        "tgi org/m until-left 0.3 flag 1/1/1=1",
    );
}

#[test]
fn the_start_script_splits_its_arguments_and_a_command_does_not() {
    check(
        json!({"image": IMAGE, "args": ["--model-id=org/m", "--quantize bitsandbytes-nf4"], "resources": gpus(1)}),
        "tgi org/m until-left 1.0 default 1/1/1=1 q=bitsandbytes-nf4",
    );
    check(
        json!({"image": IMAGE, "command": ["sh", "-c", "text-generation-launcher --model-id org/m --sharded false"]}),
        "tgi org/m until-left 1.0 default 1/1/1=1",
    );
}

#[test]
fn shards_are_the_visible_devices_unless_stated() {
    check(
        json!({"image": IMAGE, "args": ["--model-id", "m"], "resources": gpus(4)}),
        "tgi m until-left 1.0 default 4/1/1=4",
    );
    check(
        json!({"image": IMAGE, "args": ["--model-id", "m", "--num-shard", "4"]}),
        "tgi m until-left 1.0 default 4/1/1=4 starts=unknown",
    );
}

#[test]
fn an_image_for_the_cpu_takes_no_device() {
    check(
        json!({"image": "ghcr.io/huggingface/text-generation-inference:3.3.4-intel-cpu", "args": ["--model-id", "m"], "resources": {}}),
        "tgi m none 1.0 default 1/1/1=0",
    );
}

#[test]
fn images_of_vendors_are_known() {
    // Named after the framework, with TGI's release behind that of the framework.
    let image = "763104351884.dkr.ecr.us-east-1.amazonaws.com/huggingface-pytorch-tgi-inference:2.4.0-tgi3.0.1-gpu-py311";
    check(
        json!({"image": image, "env": env(&[("HF_MODEL_ID", "org/m"), ("SM_NUM_GPUS", "2"), ("HF_MODEL_QUANTIZE", "gptq")])}),
        "tgi org/m until-left 1.0 default 2/1/1=2 q=gptq",
    );
    let read = super::read(&super::pod(&json!({"image": image})), &super::Maps::default());
    assert_eq!(read[0].version.unwrap().to_string(), "3.0.1");
    check(
        json!({"image": "us-docker.pkg.dev/x/huggingface-text-generation-inference-cu124.2-3.ubuntu2204",
            "args": ["--model-id=$(MODEL)"], "env": env(&[("MODEL", "org/m")]), "resources": gpus(1)}),
        "tgi org/m until-left 1.0 default 1/1/1=1 VG109",
    );
}
