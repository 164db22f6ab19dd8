//! Servers that are none of the engines: unknown, whatever their options look like.

use serde_json::{Value, json};

use super::{all, gpus};

#[test]
fn what_is_not_known_is_not_guessed() {
    let args: &[(&str, Value)] = &[
        (
            "michaelf34/infinity:0.0.70",
            json!({"args": ["v2", "--model-id", "org/m"]}),
        ),
        ("ghcr.io/speaches-ai/speaches:0.8.2-cuda", json!({})),
        ("fedirz/faster-whisper-server:0.6.0-cuda", json!({})),
        ("onerahmet/openai-whisper-asr-webservice:v1.7.1-gpu", json!({})),
        ("yanwk/comfyui-boot:cu124", json!({})),
        ("universonic/stable-diffusion-webui:full", json!({})),
        (
            "jupyter/minimal-notebook:cuda",
            json!({"command": ["start-notebook.sh"]}),
        ),
        (
            "localai/localai:v2.25.0-cublas-cuda12",
            json!({"args": ["phi-2"]}),
        ),
        (
            "xprobe/xinference:v1.2.2",
            json!({"command": ["xinference-local", "-H", "0.0.0.0"]}),
        ),
        (
            "alpindale/aphrodite-openai:v0.6.0",
            json!({"command": ["python3", "-m", "aphrodite.endpoints.openai.api_server", "--gpu-memory-utilization", "0.6"]}),
        ),
        (
            "mlcaidev/mlc-llm:1",
            json!({"command": ["mlc_llm", "serve", "m"]}),
        ),
        (
            "registry.example/ctransformers:1",
            json!({"command": ["python", "app.py"]}),
        ),
        (
            "tabbyml/tabby:0.21",
            json!({"args": ["serve", "--model", "m", "--device", "cuda"]}),
        ),
    ];
    for (image, container) in args {
        let mut container = container.clone();
        container["image"] = json!(image);
        container["resources"] = gpus(1);
        let found = all(&container);
        assert!(
            found.len() == 1 && found[0].starts_with("unknown - unknown - unresolved 1/1/1=1"),
            "{image}: {found:?}"
        );
    }
}
