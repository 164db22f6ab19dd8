//! KubeAI: each of its engines.

use serde_json::json;

use super::{Maps, templates};

#[test]
fn engines_are_read_where_they_are_known() {
    for (engine, url, expected) in [
        ("VLLM", "hf://org/m", "vllm org/m of-total 0.92 default 1/1/1=1"),
        ("OLlama", "ollama://m", "ollama m uncapped - engine-auto 1/1/1=1"),
        (
            "FasterWhisper",
            "hf://org/m",
            "unknown - unknown - unresolved 1/1/1=1",
        ),
        ("Infinity", "hf://org/m", "unknown - unknown - unresolved 1/1/1=1"),
    ] {
        let object = json!({"apiVersion": "kubeai.org/v1", "kind": "Model", "metadata": {"name": "x"},
            "spec": {"engine": engine, "url": url, "resourceProfile": "nvidia-gpu-l4:1", "minReplicas": 1}});
        assert_eq!(
            templates(&object, &Maps::default()),
            [format!("spec x1: {expected}")],
            "{engine}"
        );
    }
}
