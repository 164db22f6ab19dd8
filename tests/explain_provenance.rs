//! What `vramgate explain` says of where values come from, to the letter.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by a panic"
)]

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::json;

const INPUT: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: llm}
data:
  share: "0.35"
  vllm.yaml: |
    max-num-seqs: 16
    enforce-eager: true
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat, namespace: llm}
spec:
  replicas: 1
  selector: {matchLabels: {app: chat}}
  template:
    metadata: {labels: {app: chat}}
    spec:
      containers:
      - name: server
        image: vllm/vllm-openai:v0.11.0
        args:
        - --model=example-org/chat-7b
        - --max-model-len
        - "8192"
        - --gpu-memory-utilization=$(SHARE)
        - --config
        - /etc/vllm/vllm.yaml
        env:
        - name: SHARE
          valueFrom: {configMapKeyRef: {name: settings, key: share}}
        resources: {limits: {nvidia.com/gpu: 1}}
        volumeMounts: [{name: settings, mountPath: /etc/vllm}]
      - name: second
        image: lmsysorg/sglang:v0.5.3.post3
        command: [sh, -c]
        args:
        - |
          export TOKENS=2048
          exec python3 -m sglang.launch_server --model-path example-org/chat-1b \
            --context-length $TOKENS
        resources: {limits: {nvidia.com/gpu: 1}}
      volumes: [{name: settings, configMap: {name: settings}}]
"#;

fn explain(arguments: &[&str]) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_vramgate"))
        .args(["explain", "-"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(INPUT.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn in_text_there_is_a_line_for_each_value_that_somebody_wrote() {
    let text = explain(&[]);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/texts/explain-provenance.txt");
    if std::env::var_os("UPDATE_TEXTS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap();
    assert_eq!(
        text, expected,
        "{path} differs; run with UPDATE_TEXTS=1 and look at the change"
    );
}

#[test]
fn in_json_it_is_a_map_by_value() {
    let document: serde_json::Value = serde_json::from_str(&explain(&["-o", "json"])).unwrap();
    let provenance = &document["items"][0]["containers"][0]["provenance"];
    assert_eq!(
        provenance["max-model-len"],
        json!({"value": "8192", "from": "flag", "path": "spec.containers[0].args[2]",
               "detail": "--max-model-len 8192"})
    );
    assert_eq!(
        provenance["eager"],
        json!({"value": "on", "from": "config-file", "path": "spec.containers[0].args[5]",
               "detail": "line 2 of /etc/vllm/vllm.yaml (ConfigMap llm/settings key vllm.yaml)"})
    );
    assert_eq!(
        provenance["dtype"],
        json!({"value": "auto", "from": "default", "path": null, "detail": "default of 0.11.0"})
    );
}
