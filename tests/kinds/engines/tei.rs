//! Text Embeddings Inference: one device, no option for memory.

use serde_json::json;

use super::{check, env, gpus};

const IMAGE: &str = "ghcr.io/huggingface/text-embeddings-inference:89-1.7";

#[test]
fn options_and_variables_name_the_model() {
    check(
        json!({"image": IMAGE, "args": ["--model-id", "org/m", "--dtype", "float16", "--port=80"]}),
        "tei org/m estimated - estimate 1/1/1=1 dt=float16",
    );
    check(
        json!({"image": IMAGE, "env": env(&[("MODEL_ID", "org/m")])}),
        "tei org/m estimated - estimate 1/1/1=1",
    );
    check(
        json!({"image": "x/tei:2.0", "command": ["text-embeddings-router"], "env": env(&[("HF_MODEL_ID", "org/m")])}),
        "tei org/m estimated - estimate 1/1/1=1",
    );
}

#[test]
fn without_a_device_the_cpu_image_takes_none() {
    check(
        json!({"image": "ghcr.io/huggingface/text-embeddings-inference:cpu-1.5", "args": ["--model-id", "m"], "resources": {}}),
        "tei m none - estimate 1/1/1=0",
    );
}

#[test]
fn an_item_of_several_words_is_refused() {
    check(
        json!({"image": IMAGE, "args": ["--model-id org/m", "--max-batch-tokens 4096"], "resources": gpus(1)}),
        "tei org/m estimated - estimate 1/1/1=1 starts=no VG104",
    );
}
