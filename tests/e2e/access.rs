//! Containers that reach GPUs without asking for one: the API server's own conditions send them here.

use serde_json::json;

use crate::manifests::{GpuNode, Pod};
use crate::scenario::Scenario;

#[test]
fn c12_access_without_a_request_is_told_and_counted() {
    let s = Scenario::new("c12");
    s.node(GpuNode::h100("c12-n1").slots(4));
    let sees = |name: &str, devices: &str| {
        Pod::vllm(name, "0.30")
            .asks_nothing()
            .env("NVIDIA_VISIBLE_DEVICES", devices)
    };
    s.create(&sees("sees-all", "all"))
        .denied("a pod that sees every device", &["VG501", "void"]);
    // By the variable alone, whatever the image.
    s.create(&sees("other-image", "0").image("registry.example/app:1").args(&[]))
        .admitted("a program that is not known")
        .says("a program that is not known", "VG501");
    s.delete("other-image", 0);
    s.wait_gone("other-image", 20);
    s.create(&sees("shut-out", "void"))
        .admitted("an engine without a device")
        .says("an engine without a device", "VG504");
    // By its image alone; then it counts where it stands, though it was only told.
    s.create(&Pod::vllm("by-image", "0.50").asks_nothing())
        .admitted("an engine that asks for no GPU")
        .says("an engine that asks for no GPU", "VG504");
    s.wait_running(2, 20);
    let device = s.wait_top("c12-n1", "0.50");
    assert_eq!(device["usedSlots"], 0, "{device}");
    s.create(&Pod::vllm("asks", "0.50"))
        .denied("a pod beside it", &["VG201", "by-image"]);

    // What makes such pods is told when it is applied.
    let container = sees("maker", "all").to_json();
    let maker = |name: &str, variables: serde_json::Value| {
        let mut container = container["spec"]["containers"][0].clone();
        container["env"] = variables;
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}}})
    };
    let variable = json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]);
    s.create_workload(&maker("maker", variable), "").denied(
        "a Deployment whose pods see every device",
        &["VG501", "/spec/template/spec/containers/0/env/0"],
    );
    let mut daily = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "daily"}, "spec": {
        "schedule": "@daily", "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [
            {"name": "c", "image": "registry.example/app:1", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}]}}}}}});
    s.create_workload(&daily, "")
        .admitted("a CronJob of a program that is not known")
        .says("a CronJob of a program that is not known", "VG501");
    daily["metadata"]["name"] = json!("nightly");
    daily["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["env"] = json!([]);
    s.create_workload(&daily, "")
        .admitted("a CronJob without a GPU")
        .without_warning("a CronJob without a GPU", "VG");

    // A variable that only `envFrom` sets is seen where its source is about GPUs.
    for name in ["gpu-settings", "settings"] {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"NVIDIA_VISIBLE_DEVICES": "all"}});
        s.api()
            .post("/api/v1/namespaces/c12/configmaps", &map)
            .admitted("a ConfigMap");
    }
    let from = |name: &str, source: serde_json::Value| {
        let mut pod = s.placed(&Pod::without_gpu(name));
        pod["spec"]["containers"][0]["envFrom"] = json!([source]);
        s.api().post("/api/v1/namespaces/c12/pods?dryRun=All", &pod)
    };
    from("by-name", json!({"configMapRef": {"name": "gpu-settings"}}))
        .admitted("a ConfigMap about GPUs")
        .says("a ConfigMap about GPUs", "VG501");
    from("of-no-name", json!({"configMapRef": {"name": "settings"}}))
        .admitted("a ConfigMap that nobody looks into")
        .without_warning("a ConfigMap that nobody looks into", "VG");
    from(
        "by-prefix",
        json!({"prefix": "OTHER_", "configMapRef": {"name": "gpu-settings"}}),
    )
    .admitted("other names")
    .without_warning("other names", "VG");
    from(
        "missing",
        json!({"prefix": "NVIDIA_", "secretRef": {"name": "s", "optional": true}}),
    )
    .admitted("a Secret, which is not read");

    // A path of a device, and everything that reaches none: no warning, and no error of a condition.
    let mut mounts = s.placed(&Pod::without_gpu("mounts"));
    mounts["spec"]["volumes"] = json!([{"name": "gpu", "hostPath": {"path": "/dev/nvidia0"}}]);
    mounts["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "gpu", "mountPath": "/dev/nvidia0"}]);
    let pods = "/api/v1/namespaces/c12/pods";
    s.api()
        .post(pods, &mounts)
        .admitted("a pod with a device path")
        .says("a pod with a device path", "VG502");
    s.create(&Pod::without_gpu("web"))
        .admitted("a pod without a GPU")
        .without_warning("a pod without a GPU", "VG5");
}
