//! Triton: launchers, ranks of MPI, devices of instance groups. What back ends take is tested beside `triton.rs` above.

use serde_json::json;

use super::{Maps, check, gpus, whole};

const IMAGE: &str = "nvcr.io/nvidia/tritonserver:25.01-trtllm-python-py3";

#[test]
fn forms_of_the_start_are_known() {
    let line = "triton /models unknown - unresolved 1/1/1=1";
    for container in [
        json!({"image": IMAGE, "args": ["tritonserver", "--model-repository=/models"], "resources": gpus(1)}),
        json!({"image": IMAGE, "command": ["/bin/bash"], "args": ["-c", "cp a b && /opt/tritonserver/bin/tritonserver --model-store=/models"], "resources": gpus(1)}),
    ] {
        check(container, line);
    }
}

#[test]
fn ranks_of_a_launcher_are_devices() {
    let line = "triton /models unknown - unresolved 1/1/1=2";
    for command in [
        &[
            "python3",
            "/scripts/launch_triton_server.py",
            "--world_size=2",
            "--model_repo=/models",
        ][..],
        &[
            "mpirun",
            "--allow-run-as-root",
            "-n",
            "2",
            "tritonserver",
            "--model-repository=/models",
        ],
        &[
            "bash",
            "-c",
            "mpirun -np 2 tritonserver --model-repository=/models",
        ],
        &[
            "mpirun",
            "-n",
            "1",
            "tritonserver",
            "--model-repository=/models",
            ":",
            "-n",
            "1",
            "tritonserver",
            "--model-repository=/models",
        ],
    ] {
        check(json!({"image": IMAGE, "command": command}), line);
    }
    check(
        json!({"image": "registry.example/triton_trt-llm:24.05", "command": ["python3", "./server.py", "exec",
            "--engine=trtllm", "--pp=1", "--tp=2"]}),
        "triton - unknown - unresolved 2/1/1=2",
    );
    // It builds the engines and serves none.
    check(
        json!({"image": "registry.example/triton_trt-llm:24.05", "command": ["python3", "./server.py", "init", "--engine=trtllm"]}),
        "unknown - unknown - unresolved 1/1/1=2 starts=unknown",
    );
}

#[test]
fn instance_groups_name_the_devices() {
    let served = |groups: &[&str]| {
        let data: Vec<(String, String)> = groups
            .iter()
            .enumerate()
            .map(|(index, group)| {
                (
                    format!("m{index}"),
                    format!("platform: \"onnxruntime_onnx\"\n{group}"),
                )
            })
            .collect();
        let items: Vec<_> = data
            .iter()
            .map(|(key, _)| json!({"key": key, "path": format!("{key}/config.pbtxt")}))
            .collect();
        let pod = serde_json::from_value(json!({"spec": {
            "containers": [{"name": "server", "image": IMAGE, "args": ["tritonserver", "--model-repository=/models"],
                "resources": gpus(4), "volumeMounts": [{"name": "r", "mountPath": "/models"}]}],
            "volumes": [{"name": "r", "configMap": {"name": "repo", "items": items}}]}}))
        .unwrap();
        let pairs: Vec<(&str, &str)> = data.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let readings = super::read(&pod, &Maps::default().with("repo", &pairs));
        readings.iter().map(whole).collect::<Vec<_>>().join(" + ")
    };
    let one = "instance_group [ { count: 2 kind: KIND_GPU gpus: [ 0, 1 ] } ]";
    let other = "instance_group [ { kind: KIND_GPU gpus: [ 1, 2 ] } ]";
    assert_eq!(served(&[one]), "triton m0 uncapped - engine-auto 1/1/1=2");
    assert_eq!(
        served(&[one, other]),
        "triton m0, m1 uncapped - engine-auto 1/1/1=3"
    );
    // One is put on each device.
    assert_eq!(served(&[one, ""]), "triton m0, m1 uncapped - engine-auto 1/1/1=4");
    let cpu = "instance_group [ { kind: KIND_CPU } ]";
    assert_eq!(served(&[one, cpu]), "triton m0 uncapped - engine-auto 1/1/1=2");
}
