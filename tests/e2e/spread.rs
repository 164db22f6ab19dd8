//! Evidence of the grade `spread` end to end: what the device plugin's ConfigMap says, while pods are watched from an empty
//! node on.

use serde_json::{Value, json};

use crate::api::eventually;
use crate::manifests::{GpuNode, Pod};
use crate::scenario::Scenario;

const NODE: &str = "spread-n1";
const MAPS: &str = "/api/v1/namespaces/spread/configmaps";
const PACKED: &str = "flags: {plugin: {sharedDevicesAllocationPolicy: packed}}\n";

/// Three slots on each device, and the plugin's flags.
fn plugin(flags: &str) -> Value {
    let text = format!(
        "version: v1\n{flags}sharing:\n  timeSlicing:\n    resources:\n    - {{name: nvidia.com/gpu, replicas: 3}}\n"
    );
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "device-plugin-configs"}, "data": {"shared": text}})
}

/// What the record of the node says of how its holders' devices are known.
#[track_caller]
fn wait_grade(s: &Scenario, grade: &str) {
    let path = format!("/apis/vramgate.io/v1alpha1/gpuledgers/{NODE}");
    eventually(&format!("the grade is {grade}"), 30, || {
        (s.api().get(&path).body["status"]["devices"][0]["evidence"] == grade).then_some(())
    });
}

#[test]
fn s13_the_device_plugins_config_map_lets_a_third_holder_in_and_takes_it_back() {
    let s = Scenario::alone("spread");
    s.api().post(MAPS, &plugin("")).admitted("the ConfigMap");
    let node = GpuNode::l40s(NODE)
        .gpus(2)
        .slots(3)
        .label("e2e/spread", "here")
        .label("nvidia.com/device-plugin.config", "shared");
    s.node(node);
    wait_grade(&s, "spread");
    // 0.30, 0.30 and 0.45 on one device would be above 0.90; by twos they are not.
    for (name, fraction) in [("a", "0.30"), ("b", "0.30"), ("c", "0.45"), ("d", "0.30")] {
        s.create(&Pod::vllm(name, fraction)).admitted(name);
    }
    s.wait_running(4, 30);
    wait_grade(&s, "spread");
    s.create(&Pod::vllm("e", "0.20")).denied(
        "a fifth, which could be a third on one device",
        &["VG201", "evidence spread"],
    );
    let metrics = s.cluster.with_vramgate(|vramgate| vramgate.metrics());
    assert!(
        metrics.contains("vramgate_shared_pools{evidence=\"spread\"} 1"),
        "{metrics}"
    );

    // Another configuration: nothing can be told any more, not even when the old one comes back beside pods that run.
    let map = format!("{MAPS}/device-plugin-configs");
    s.api()
        .patch(&map, &plugin(PACKED))
        .admitted("a change of the ConfigMap");
    wait_grade(&s, "any");
    s.create(&Pod::vllm("e", "0.05"))
        .denied("three of them can be on one device", &["VG201", "evidence any"]);
    s.api().patch(&map, &plugin("")).admitted("a change back");
    let text = "a node that is watched from empty on";
    eventually("the text says what would raise the grade", 20, || {
        s.dry_run(&Pod::vllm("e", "0.05"))
            .text()
            .contains(text)
            .then_some(())
    });
    wait_grade(&s, "any");
    s.clear_pods();
    wait_grade(&s, "spread");

    // One that starts beside pods that run has not seen where they went.
    for (name, fraction) in [("a", "0.30"), ("b", "0.30"), ("c", "0.45")] {
        s.create_eventually(&Pod::vllm(name, fraction), 20);
    }
    s.wait_running(3, 30);
    s.cluster.with_vramgate(|vramgate| {
        vramgate.kill();
        vramgate.start();
    });
    s.create(&Pod::vllm("d", "0.10"))
        .denied("after a restart", &["VG201", "evidence any"]);
    s.clear_pods();
    wait_grade(&s, "spread");
    for (name, fraction) in [("a", "0.30"), ("b", "0.30"), ("c", "0.45")] {
        s.create_eventually(&Pod::vllm(name, fraction), 20);
    }
}
