//! KServe: predictors by their model format, and the server for models of Hugging Face.

use serde_json::{Value, json};

use super::{Maps, check, gpus, templates};

fn predictor(format: &str, args: &[&str]) -> Vec<String> {
    let object = json!({"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "metadata": {"name": "x"},
        "spec": {"predictor": {"model": {"modelFormat": {"name": format}, "args": args, "resources": gpus(1)}}}});
    templates(&object, &Maps::default())
}

#[test]
fn formats_have_their_runtimes() {
    for (format, expected) in [
        ("huggingface", "vllm /mnt/models of-total 0.92 default 1/1/1=1"),
        ("triton", "triton /mnt/models unknown - unresolved 1/1/1=1"),
        ("pytorch", "pytorch - uncapped - engine-auto 1/1/1=1"),
        (
            "tensorflow",
            "tensorflow /mnt/models uncapped - engine-auto 1/1/1=1",
        ),
        ("sklearn", "unknown - unknown - unresolved 1/1/1=1 starts=unknown"),
    ] {
        let found = predictor(format, &[]);
        assert_eq!(found, [format!("spec.predictor x1: {expected}")], "{format}");
    }
}

#[test]
fn the_server_of_hugging_face_is_vllm_unless_told_otherwise() {
    let container = |args: &[&str]| -> Value {
        json!({"image": "kserve/huggingfaceserver:v0.15.0-gpu", "args": args, "resources": gpus(1)})
    };
    check(
        container(&[
            "--model_id=org/m",
            "--gpu-memory-utilization=0.5",
            "--backend=vllm",
        ]),
        "vllm org/m of-total 0.5 flag 1/1/1=1",
    );
    check(
        container(&["--model_id=org/m", "--backend=huggingface", "--task", "fill_mask"]),
        "pytorch org/m uncapped - engine-auto 1/1/1=1",
    );
}
