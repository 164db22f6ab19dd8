//! llama.cpp's server: its images, own builds, wrappers, and llama-swap.

use serde_json::json;

use super::{Maps, all, check, env, gpus, whole};

#[test]
fn arguments_follow_the_entrypoint_of_each_image() {
    for image in [
        "ghcr.io/ggml-org/llama.cpp:server-cuda-b9843",
        "ghcr.io/ggerganov/llama.cpp:server-cuda",
    ] {
        check(
            json!({"image": image, "args": ["-m", "/m.gguf", "-ngl", "99", "-c", "4096", "-ctk", "q8_0"], "resources": gpus(1)}),
            "llama.cpp /m.gguf estimated - estimate 1/1/1=1 len=4096 kv=q8_0",
        );
    }
    check(
        json!({"image": "ghcr.io/ggml-org/llama.cpp:full-cuda", "args": ["--server", "-hf", "org/m:Q4_K_M"], "resources": gpus(1)}),
        "llama.cpp org/m:Q4_K_M uncapped - engine-auto 1/1/1=1",
    );
}

#[test]
fn own_builds_and_wrappers_are_known_by_their_program() {
    let line = "llama.cpp /m.gguf estimated - estimate 1/1/1=1 len=4096";
    for command in [
        &[
            "/app/build/bin/llama-server",
            "-m",
            "/m.gguf",
            "-ngl",
            "33",
            "-c",
            "4096",
        ][..],
        // What it was called before.
        &["/server", "-m", "/m.gguf", "-ngl", "33", "-c", "4096"],
        &[
            "/usr/libexec/ramalama/ramalama-serve-core",
            "llama-server",
            "--model",
            "/m.gguf",
            "-ngl",
            "33",
            "-c",
            "4096",
        ],
        &[
            "python3",
            "-m",
            "llama_cpp.server",
            "--model",
            "/m.gguf",
            "--n_gpu_layers",
            "33",
            "--n_ctx",
            "4096",
        ],
    ] {
        check(
            json!({"image": "registry.example/llama:1", "command": command, "resources": gpus(1)}),
            line,
        );
    }
    // Another server of that name.
    check(
        json!({"image": "registry.example/x:1", "command": ["/server", "--port", "80"], "resources": gpus(1)}),
        "unknown - unknown - unresolved 1/1/1=1 starts=unknown",
    );
}

#[test]
fn variables_stand_for_options() {
    check(
        json!({"image": "ghcr.io/ggml-org/llama.cpp:server-cuda13", "env": env(&[("LLAMA_ARG_MODEL", "/m.gguf"),
            ("LLAMA_ARG_CTX_SIZE", "4096"), ("LLAMA_ARG_N_GPU_LAYERS", "99"), ("LLAMA_ARG_SPLIT_MODE", "none")])}),
        "llama.cpp /m.gguf estimated - estimate 1/1/1=1 len=4096",
    );
}

#[test]
fn an_item_of_several_words_is_refused_and_read_as_meant() {
    check(
        json!({"image": "ghcr.io/ggml-org/llama.cpp:server-cuda", "args": ["-m /m.gguf", "--ctx-size", "4096", "-ngl 99"],
            "resources": gpus(1)}),
        "llama.cpp /m.gguf estimated - estimate 1/1/1=1 len=4096 starts=no VG104",
    );
}

#[test]
fn a_value_behind_an_equals_sign_is_refused() {
    let image = "ghcr.io/ggml-org/llama.cpp:server-cuda";
    let container = json!({"image": image, "args": ["-m", "/m.gguf", "--ctx-size=4096", "-ngl", "99"], "resources": gpus(1)});
    check(
        container.clone(),
        "llama.cpp /m.gguf estimated - estimate 1/1/1=1 len=4096 starts=no VG107",
    );
    let reading = &super::read(&super::pod(&container), &Maps::default())[0];
    assert_eq!(reading.findings[0].path.as_str(), "spec.containers[0].args[2]");
    assert_eq!(
        reading.findings[0].message,
        "llama-server does not know --ctx-size=, and does not start with it; write --ctx-size 4096 as two items"
    );
    // As two items it starts.
    check(
        json!({"image": image, "args": ["-m", "/m.gguf", "--ctx-size", "4096", "-ngl", "99"], "resources": gpus(1)}),
        "llama.cpp /m.gguf estimated - estimate 1/1/1=1 len=4096",
    );
    // The bindings' own parser takes both.
    check(
        json!({"image": "x:1", "command": ["python3", "-m", "llama_cpp.server", "--model=/m.gguf", "--n_ctx=4096",
            "--n_gpu_layers=33"], "resources": gpus(1)}),
        "llama.cpp /m.gguf estimated - estimate 1/1/1=1 len=4096",
    );
}

#[test]
fn the_image_for_the_cpu_takes_no_device() {
    check(
        json!({"image": "ghcr.io/ggml-org/llama.cpp:server", "args": ["-m", "/m.gguf", "-c", "4096"], "resources": {}}),
        "llama.cpp /m.gguf none - engine-auto 1/1/1=0 len=4096",
    );
}

#[test]
fn llama_swap_is_read_from_its_configuration() {
    let swap = |config: &str| {
        let pod = serde_json::from_value(json!({"spec": {
            "containers": [{"name": "server", "image": "ghcr.io/mostlygeek/llama-swap:v190-cuda", "resources": gpus(1),
                "volumeMounts": [{"name": "c", "mountPath": "/app/config.yaml", "subPath": "config.yaml"}]}],
            "volumes": [{"name": "c", "configMap": {"name": "swap"}}]}}))
        .unwrap();
        let maps = Maps::default().with("swap", &[("config.yaml", config)]);
        let readings = super::read(&pod, &maps);
        assert_eq!(readings.len(), 1);
        let why: Vec<String> = readings[0]
            .unresolved
            .iter()
            .map(|one| one.reason.clone())
            .collect();
        (whole(&readings[0]), why.join("; "))
    };
    let server = "/app/llama-server -hf org/m:Q4 --ctx-size 4096 -ngl 99 --port ${PORT}";
    let (line, why) = swap(&format!(
        "models:\n  m:\n    cmd: |\n      # note\n      {server}\n    ttl: 60\n"
    ));
    assert_eq!(line, "llama.cpp org/m:Q4 estimated - estimate 1/1/1=1 len=4096");
    assert_eq!(why, "llama-swap starts the server when its model is asked for");
    let (line, why) = swap(&format!(
        "models:\n  m: {{cmd: \"{server}\"}}\n  n: {{cmd: \"{server}\"}}\n"
    ));
    assert_eq!(line, "llama.cpp - uncapped - engine-auto 1/1/1=1");
    assert_eq!(why, "llama-swap loads one of 2 models when it is asked for");
    let (line, why) = swap("models:\n  m:\n    cmd: docker run --gpus all vllm/vllm-openai\n");
    assert_eq!(line, "unknown - unknown - unresolved 1/1/1=1");
    assert_eq!(why, "llama-swap starts docker, which is not followed");
    // A macro's value is not known.
    let (_, why) = swap("models:\n  m:\n    cmd: llama-server -m /m.gguf -c ${size} -ngl 99\n");
    assert!(why.contains("a macro of llama-swap is not followed"), "{why}");
    // A volume that holds no ConfigMap, or none at all.
    let container = json!({"image": "ghcr.io/mostlygeek/llama-swap:v190-cuda", "resources": gpus(1)});
    assert_eq!(all(&container), ["llama.cpp - uncapped - engine-auto 1/1/1=1"]);
}
