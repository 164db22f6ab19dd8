//! What configures GPUs, where it is written: ConfigMaps of the device plugin and the MIG manager, a node's label.

use serde_json::{Value, json};

use crate::api::eventually;
use crate::manifests::{self, GpuNode, Pod};
use crate::scenario::Scenario;

fn config_map(name: &str, text: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"config.yaml": text}})
}

fn mig(profiles: &str) -> String {
    format!(
        "version: v1\nmig-configs:\n  split:\n  - devices: all\n    mig-enabled: true\n    mig-devices: {{{profiles}}}\n"
    )
}

#[test]
fn g09_what_its_program_refuses_is_refused_before_it_is_stored() {
    let s = Scenario::new("g09");
    s.node(GpuNode::h100("g09-n1").slots(4));
    let maps = format!("/api/v1/namespaces/{}/configmaps", s.name);
    let create = |name: &str, text: &str| s.api().post(&maps, &config_map(name, text));
    create("impossible", &mig("1g.10gb: 8")).denied("eight of seven", &["VG601", "8 x 1g.10gb", "at most 7"]);
    create("split", &mig("1g.10gb: 7")).admitted("seven of seven");
    let sliced = |count: u32| {
        format!(
            "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {{name: gpu, replicas: {count}}}\n"
        )
    };
    create("once", &sliced(1)).denied("one replica", &["VG602", "replicas is 1", "line 5"]);
    create("twice", &sliced(2)).admitted("two replicas");
    let changed = s.api().patch(
        &format!("{maps}/twice"),
        &json!({"data": {"config.yaml": sliced(0), "other": "x"}}),
    );
    changed.denied("a change for the worse", &["VG602"]);
    // As large as a ConfigMap can be: the condition of the registration still reads all of it.
    let padding = "# padding\n".repeat(98_000);
    create("large", &format!("{padding}{}", sliced(1))).denied("a large one", &["VG602"]);
    create("others", &format!("settings: 1\n{padding}"))
        .admitted("a large one that configures no GPUs")
        .without_warning("no GPUs", "VG");
    let many: serde_json::Map<String, Value> = (0..5_000)
        .map(|n| (format!("k{n}"), json!("sharing: none")))
        .collect();
    let mut map = config_map("many", "");
    map["data"] = Value::Object(many);
    s.api()
        .post(&maps, &map)
        .admitted("many keys that configure no GPUs");
}

#[test]
fn g10_g11_a_node_label_is_judged_against_config_map_and_pods() {
    let s = Scenario::new("g10");
    let node = "g10-n1";
    s.node(GpuNode::h100(node).slots(4));
    manifests::namespace(s.api(), "gpu-operator");
    // One that a policy names is judged whatever it holds.
    s.api()
        .post(
            "/api/v1/namespaces/gpu-operator/configmaps",
            &config_map("default-mig-parted-config", "all-1g.10gb"),
        )
        .denied("a text that is no map", &["VG601", "not a map"]);
    s.api()
        .post(
            "/api/v1/namespaces/gpu-operator/configmaps",
            &config_map("default-mig-parted-config", &mig("1g.10gb: 7")),
        )
        .admitted("the MIG manager's ConfigMap");
    let label = |key: &str, value: &str| {
        s.api().patch(
            &format!("/api/v1/nodes/{node}"),
            &json!({"metadata": {"labels": {key: value}}}),
        )
    };
    label("nvidia.com/mig.config", "split")
        .admitted("a name that is there, and no pod")
        .without_warning("nothing to say", "VG");
    s.create(&Pod::vllm("chat", "0.30").on_node(node))
        .admitted("a pod");
    s.wait_running(1, 20);
    label("nvidia.com/mig.config", "spilt")
        .admitted("a name that is not there")
        .says("the name", "VG603")
        .says("the name", "split")
        .says("the pod", "VG604")
        .says("the pod", "g10/chat");
    label("e2e/other", "x")
        .admitted("another label")
        .without_warning("another label", "VG");
}

#[test]
fn c02_flags_of_the_device_plugin_are_judged() {
    let s = Scenario::new("c02");
    let plugin = |strategy: &str| {
        let pod = Pod::without_gpu("plugin")
            .image("nvcr.io/nvidia/k8s-device-plugin:v0.17.1")
            .env("MIG_STRATEGY", strategy);
        let mut set = manifests::daemon_set("plugin", &pod);
        set["spec"]["template"]["spec"]["nodeSelector"] = json!({"e2e/none": "here"});
        set
    };
    s.create_workload(&plugin("several"), "")
        .denied("a strategy that does not exist", &["VG602", "MIG_STRATEGY"]);
    s.create_workload(&plugin("mixed"), "").admitted("one that does");
}

#[test]
fn g16_a_change_of_the_device_plugins_config_map_changes_verdicts_at_once() {
    let s = Scenario::new("g16");
    // Nothing on the node tells how its four slots come about; the ConfigMap that the policy names does.
    let node = GpuNode::h100("g16-n1")
        .without_sharing_labels()
        .label("e2e/plugin-config", "here")
        .label("nvidia.com/device-plugin.config", "used")
        .resource("nvidia.com/gpu", 4);
    let maps = format!("/api/v1/namespaces/{}/configmaps", s.name);
    let sliced = |replicas: u32| {
        let text = format!(
            "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {{name: nvidia.com/gpu, replicas: {replicas}}}\n"
        );
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "device-plugin-configs"}, "data": {"used": text}})
    };
    s.unknown_node(&node);
    let whole = Pod::vllm("whole", "0.90");
    eventually("vramgate knows the node", 15, || {
        s.dry_run(&whole).is_success().then_some(())
    });
    s.create(&Pod::vllm("first", "0.60")).admitted("the first pod");
    s.wait_running(1, 20);
    let second = Pod::vllm("second", "0.60");
    // Half of the time after which what is not watched would be asked for.
    let comes_to = |what: &str, is: &dyn Fn(&str) -> bool| {
        eventually(what, 15, || is(&s.dry_run(&second).text()).then_some(()));
    };
    let denied = |text: &str| text.contains("VG201") && text.contains("first");
    let admitted = |text: &str| !text.contains("VG201");
    comes_to("no ConfigMap: a whole GPU is left", &admitted);
    s.api().post(&maps, &sliced(4)).admitted("the ConfigMap");
    comes_to("the ConfigMap appears: one GPU in four slots", &denied);
    let map = format!("{maps}/device-plugin-configs");
    s.api()
        .patch(&map, &json!({"data": {"used": "version: v1\n"}}))
        .admitted("a change of the ConfigMap");
    comes_to("the ConfigMap changes: whole GPUs", &admitted);
    s.api().patch(&map, &sliced(4)).admitted("a change back");
    comes_to("the ConfigMap changes back", &denied);
    assert!(s.api().delete(&map, 0).is_success());
    comes_to("the ConfigMap goes", &admitted);
}
