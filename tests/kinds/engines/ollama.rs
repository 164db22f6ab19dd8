//! Ollama: variables, scripts that pull a model, side-cars.

use serde_json::json;

use super::{all, check, env, gpus};

const IMAGE: &str = "ollama/ollama:0.6.2";

#[test]
fn variables_say_length_and_cache() {
    check(
        json!({"image": IMAGE, "env": env(&[("OLLAMA_CONTEXT_LENGTH", "8192"), ("OLLAMA_KV_CACHE_TYPE", "q8_0")]), "resources": gpus(1)}),
        "ollama - uncapped - engine-auto 1/1/1=1 len=8192 kv=q8_0",
    );
    let secret = json!({"image": IMAGE, "resources": gpus(1), "env": [{"name": "OLLAMA_KV_CACHE_TYPE",
        "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]});
    let reading = &super::read(&super::pod(&secret), &super::Maps::default())[0];
    assert_eq!(reading.kv_cache_dtype, None);
    let fields: Vec<&str> = reading.unresolved.iter().map(|one| one.field.as_str()).collect();
    assert_eq!(fields, ["model", "OLLAMA_KV_CACHE_TYPE"]);
}

#[test]
fn a_script_names_the_model_that_it_pulls() {
    check(
        json!({"image": IMAGE, "command": ["/bin/sh", "-c"], "args": ["ollama serve & sleep 5; ollama pull llama3; wait"], "resources": gpus(1)}),
        "ollama llama3 uncapped - engine-auto 1/1/1=1 starts=unknown",
    );
}

#[test]
fn a_client_beside_it_takes_nothing() {
    let client = json!({"image": IMAGE, "command": ["ollama", "pull", "llama3"], "resources": {}});
    assert_eq!(all(&client), ["none - none - default 1/1/1=0"]);
}
