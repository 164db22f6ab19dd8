//! What stands outside the pod and can change until it starts: `resolvable`, and the objects that a reading hangs on.

use serde_json::{Value, json};
use vramgate::engine;
use vramgate::workload::template;

use super::{Maps, line, name, pod};

/// `resolvable: objects`, of the first reading.
fn told(container: &Value, maps: &Maps) -> String {
    told_of(&pod(container), maps)
}

fn told_of(pod: &vramgate::workload::pod::Pod, maps: &Maps) -> String {
    let placed = engine::containers(pod).next().unwrap();
    let reading = engine::explain(pod, placed, maps, &[]).remove(0);
    format!("{}: {}", name(&reading.resolvable), reading.depends_on.join(", "))
}

fn maps() -> Maps {
    Maps::default()
        .with(
            "settings",
            &[
                ("SHARE", "0.3"),
                ("MODEL_ID", "org/m"),
                ("TOKEN", "x"),
                ("run.sh", "vllm serve org/m\n"),
            ],
        )
        .with("other", &[("vllm.yaml", "max-model-len: 4096\n")])
}

fn vllm(args: &[&str], more: Value) -> Value {
    let mut container = json!({"image": "vllm/vllm-openai:v0.11.0", "args": args});
    for (field, value) in more.as_object().unwrap() {
        container[field] = value.clone();
    }
    container
}

fn key(variable: &str, map: &str, key: &str) -> Value {
    json!({"name": variable, "valueFrom": {"configMapKeyRef": {"name": map, "key": key, "optional": true}}})
}

#[test]
fn a_value_that_stands_in_a_config_map_is_known_and_partial() {
    let plain = ["--model=org/m", "--gpu-memory-utilization=0.3"];
    let through = ["--model=org/m", "--gpu-memory-utilization=$(SHARE)"];
    let settings = json!([key("SHARE", "settings", "SHARE")]);
    let whole = json!([{"configMapRef": {"name": "settings"}}]);
    for (container, expected) in [
        (vllm(&plain, json!({})), "full: "),
        (
            vllm(&through, json!({"env": settings})),
            "partial: ConfigMap default/settings",
        ),
        (
            vllm(&through, json!({"envFrom": whole})),
            "partial: ConfigMap default/settings",
        ),
        // Nothing takes the variable in.
        (vllm(&plain, json!({"env": settings})), "full: "),
        (vllm(&plain, json!({"envFrom": whole})), "full: "),
        // The later one of the same name wins.
        (
            vllm(
                &through,
                json!({"envFrom": whole, "env": [{"name": "SHARE", "value": "0.2"}]}),
            ),
            "full: ",
        ),
        // An option that memory does not hang on is a value of the engine as well.
        (
            vllm(
                &["--model=org/m", "--served-model-name=$(SHARE)"],
                json!({"env": settings}),
            ),
            "partial: ConfigMap default/settings",
        ),
        // One that is absent now can be there when the pod starts.
        (
            vllm(&through, json!({"env": [key("SHARE", "absent", "SHARE")]})),
            "partial: ConfigMap default/absent",
        ),
        // A Secret that memory does not hang on.
        (
            vllm(
                &["--model=org/m", "--api-key=$(KEY)"],
                json!({"env": [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}),
            ),
            "full: ",
        ),
        // One that it hangs on.
        (
            vllm(
                &through,
                json!({"env": [{"name": "SHARE", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}),
            ),
            "partial: ",
        ),
    ] {
        assert_eq!(told(&container, &maps()), expected, "{container}");
    }
}

#[test]
fn engines_that_are_told_by_variables_hang_on_the_objects_that_set_them() {
    let tei = |from: Value| json!({"image": "ghcr.io/huggingface/text-embeddings-inference:1.5", "args": ["--auto-truncate"], "envFrom": from});
    let settings = json!({"configMapRef": {"name": "settings"}});
    let absent = json!({"configMapRef": {"name": "absent", "optional": true}});
    for (from, expected) in [
        (json!([settings]), "partial: ConfigMap default/settings"),
        (
            json!([settings, absent]),
            "partial: ConfigMap default/settings, ConfigMap default/absent",
        ),
        (json!([absent]), "partial: ConfigMap default/absent"),
    ] {
        assert_eq!(told(&tei(from.clone()), &maps()), expected, "{from}");
    }
    let of = |image: &str| json!({"image": image, "args": ["--model=org/m"], "envFrom": [absent]});
    for (image, expected) in [
        (
            "runpod/worker-v1-vllm:v2.7.0stable-cuda12.1.0",
            "partial: ConfigMap default/absent",
        ),
        // vLLM itself reads a few (`VLLM_USE_V1`).
        ("vllm/vllm-openai:v0.11.0", "partial: ConfigMap default/absent"),
    ] {
        assert_eq!(told(&of(image), &maps()), expected, "{image}");
    }
}

#[test]
fn files_of_config_maps_count_where_they_are_read() {
    let mut volumes = pod(&json!({"image": "vllm/vllm-openai:v0.11.0",
        "command": ["sh", "/run/run.sh"],
        "volumeMounts": [{"name": "run", "mountPath": "/run"}, {"name": "cfg", "mountPath": "/cfg"}]}));
    volumes.spec.volumes = serde_json::from_value(json!([
        {"name": "run", "configMap": {"name": "settings"}}, {"name": "cfg", "configMap": {"name": "other"}}]))
    .unwrap();
    assert_eq!(told_of(&volumes, &maps()), "partial: ConfigMap default/settings");
    let container = &mut volumes.spec.containers[0];
    container.command = None;
    container.args = Some(
        ["org/m", "--config", "/cfg/vllm.yaml"]
            .map(str::to_owned)
            .to_vec(),
    );
    assert_eq!(told_of(&volumes, &maps()), "partial: ConfigMap default/other");
}

#[test]
fn many_config_maps_are_asked_for_in_bounded_time() {
    let names: Vec<String> = (0..2000).map(|n| format!("map-{n}")).collect();
    let env: Vec<Value> = names.iter().map(|name| key("SHARE", name, "SHARE")).collect();
    let mut all = Maps::default();
    for name in &names {
        all = all.with(name, &[("SHARE", "0.3")]);
    }
    let container = vllm(
        &["--model=org/m", "--gpu-memory-utilization=$(SHARE)"],
        json!({"env": env}),
    );
    assert_eq!(told(&container, &all), "partial: 1984 other ConfigMaps");
}

#[test]
fn names_that_kserve_fills_in_hang_on_the_service() {
    let runtime = |args: Value| {
        json!({"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ServingRuntime", "metadata": {"name": "r"},
               "spec": {"containers": [{"name": "kserve-container", "image": "vllm/vllm-openai:v0.11.0", "args": args}]}})
    };
    let service = "partial: the InferenceService for which ServingRuntime r is filled in";
    for (args, expected, read) in [
        (
            json!(["--model=/mnt/models"]),
            "full: ",
            "vllm /mnt/models 0.9 default 1/1/1=1 yes",
        ),
        (
            json!(["--model=/mnt/models", "--served-model-name={{.Name}}"]),
            service,
            "vllm /mnt/models 0.9 default 1/1/1=1 yes",
        ),
        (
            json!(["--model=/mnt/{{ .Name }}", "--gpu-memory-utilization=0.3"]),
            service,
            "vllm - 0.3 flag 1/1/1=1 yes",
        ),
        (
            json!([
                "--model=/mnt/models",
                "--gpu-memory-utilization={{.Annotations.share}}"
            ]),
            service,
            "vllm /mnt/models - unresolved 1/1/1=1 yes",
        ),
    ] {
        let (_, templates) = template::templates(&runtime(args.clone())).unwrap();
        let pod = &templates[0].pod;
        assert_eq!(told_of(pod, &maps()), expected, "{args}");
        let readings = super::read(pod, &maps());
        assert_eq!(line(&readings[0]), read, "{args}");
    }
}

#[test]
fn nothing_is_known_where_neither_model_nor_amount_is() {
    let one = |script: &str| told(&json!({"image": "x", "command": ["sh", "-c", script]}), &maps());
    assert_eq!(one("vllm serve $(cat /m)"), "none: ");
    assert_eq!(
        one("vllm serve $(cat /m) --gpu-memory-utilization 0.3"),
        "partial: "
    );
    assert_eq!(one("vllm serve $(cat /m) -tp 2"), "partial: ");
    assert_eq!(one("vllm serve org/m --max-model-len $(cat /l)"), "partial: ");
    assert_eq!(one("ollama serve"), "none: ");
    assert_eq!(one("ollama serve & ollama pull m:1b; wait"), "full: ");
}
