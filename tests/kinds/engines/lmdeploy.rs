//! LMDeploy: exec form, scripts, options before the model.

use serde_json::json;

use super::{check, gpus};

const IMAGE: &str = "openmmlab/lmdeploy:v0.6.0-cu12";

#[test]
fn the_model_stands_anywhere_among_the_options() {
    for args in [
        &[
            "serve",
            "api_server",
            "org/m",
            "--tp",
            "2",
            "--cache-max-entry-count",
            "0.5",
        ][..],
        &[
            "serve",
            "api_server",
            "--tp=2",
            "--trust-remote-code",
            "--cache-max-entry-count=0.5",
            "org/m",
        ],
        &[
            "serve",
            "api_server",
            "--tp",
            "2",
            "--backend",
            "pytorch",
            "org/m",
            "--cache-max-entry-count",
            "0.5",
        ],
    ] {
        check(
            json!({"image": IMAGE, "command": ["lmdeploy"], "args": args}),
            "lmdeploy org/m of-free-after-weights 0.5 flag 2/1/1=2",
        );
    }
}

#[test]
fn a_script_starts_it_with_defaults() {
    check(
        json!({"image": "registry.example/kube-ai/lmdeploy:v0.4.2", "resources": gpus(1),
            "command": ["sh", "-c", "lmdeploy serve api_server /model/m --server-port 8000"]}),
        "lmdeploy /model/m of-free-after-weights 0.8 default 1/1/1=1",
    );
    check(
        json!({"image": IMAGE, "resources": gpus(1), "command": ["lmdeploy", "serve", "api_server", "m",
            "--quant-policy", "8", "--model-format", "awq", "--session-len", "8192", "--dtype", "float16"]}),
        "lmdeploy m of-free-after-weights 0.8 default 1/1/1=1 len=8192 q=awq dt=float16 kv=int8",
    );
}

#[test]
fn an_item_of_several_words_and_too_many_ranks_do_not_start() {
    check(
        json!({"image": IMAGE, "command": ["lmdeploy", "serve", "api_server", "m", "--tp 2"]}),
        "lmdeploy m of-free-after-weights 0.8 default 2/1/1=2 starts=no VG104",
    );
    check(
        json!({"image": IMAGE, "command": ["lmdeploy", "serve", "api_server", "m", "--tp", "4"]}),
        "lmdeploy m of-free-after-weights 0.8 default 4/1/1=4 starts=unknown",
    );
}
