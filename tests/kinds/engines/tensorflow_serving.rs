//! TensorFlow Serving: its image, its program, a stated share.

use serde_json::json;

use super::{check, env, gpus};

#[test]
fn tensorflow_serving_takes_what_it_is_told_or_nearly_all() {
    check(
        json!({"image": "tensorflow/serving:2.14.1-gpu", "env": env(&[("MODEL_NAME", "resnet")]), "resources": gpus(1)}),
        "tensorflow /models/resnet uncapped - engine-auto 1/1/1=1",
    );
    check(
        json!({"image": "x:1", "command": ["/usr/bin/tensorflow_model_server", "--model_base_path=/m",
            "--per_process_gpu_memory_fraction=0.5"], "resources": gpus(1)}),
        "tensorflow /m of-total 0.5 flag 1/1/1=1",
    );
}
