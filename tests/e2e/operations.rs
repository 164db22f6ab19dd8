//! Clusters as they are: whole GPUs, hand-written labels, nodes that are away, other vendors' devices, dry runs.

use serde_json::Value;

use crate::manifests::{self, GpuNode, Pod};
use crate::scenario::Scenario;

#[test]
fn c01_ranks_beyond_the_devices_are_refused() {
    let s = Scenario::new("c01");
    s.node(GpuNode::h100("c01-n1").gpus(2));
    let wide = Pod::vllm("wide", "0.90").args(&[
        "meta-llama/Llama-3.3-70B-Instruct",
        "--quantization",
        "fp8",
        "--max-model-len=4096",
        "--tensor-parallel-size",
        "2",
    ]);
    s.create(&wide.clone().named("narrow").asks("nvidia.com/gpu", 1))
        .denied("two ranks on one GPU", &["VG105", "2"]);
    s.create(&wide.asks("nvidia.com/gpu", 2))
        .admitted("two ranks on two GPUs");
    s.wait_running(1, 20);
}

#[test]
fn a_model_that_does_not_fit_is_refused_and_a_shorter_context_admitted() {
    let s = Scenario::new("fit");
    s.node(GpuNode::h100("fit-n1").gpus(2));
    let serving = |name: &str, arguments: &[&str]| Pod::vllm(name, "0.90").args(arguments);
    // 131 GiB of weights.
    s.create(&serving("large", &["meta-llama/Llama-3.3-70B-Instruct"]))
        .denied(
            "weights above the device",
            &["VG701", "llama-3.3-70b", "81559 MiB"],
        );
    // One request of 262144 tokens takes 24 GiB, and 57 are weights.
    let long = ["Qwen/Qwen3-30B-A3B-Instruct-2507", "--max-num-seqs=64"];
    s.create(&serving("long", &long))
        .denied("no cache for one request", &["VG702", "262144 tokens"]);
    let mut short = long.to_vec();
    short.push("--max-model-len=16384");
    s.create(&serving("short", &short)).admitted("a shorter context");
    s.wait_running(1, 20);
}

#[test]
fn c08_a_pod_with_a_node_name_is_judged_for_that_node() {
    let s = Scenario::new("c08-bound");
    s.node(GpuNode::h100("c08-bound-n1").slots(4));
    s.node(GpuNode::h100("c08-bound-n2").slots(4));
    for name in ["a", "b", "c"] {
        s.create(&Pod::vllm(name, "0.30").bound_to("c08-bound-n1"))
            .admitted(name);
    }
    s.create(&Pod::vllm("d", "0.30").bound_to("c08-bound-n1"))
        .denied("onto the full node", &["VG201", "24468 MiB", "c08-bound-n1"]);
    s.create(&Pod::vllm("d", "0.30").bound_to("c08-bound-n2"))
        .admitted("onto the free node");
    s.wait_running(4, 20);
}

#[test]
fn c08_a_daemon_set_is_judged_for_each_node() {
    let s = Scenario::new("c08-daemon");
    for node in ["c08-daemon-n1", "c08-daemon-n2"] {
        s.node(GpuNode::h100(node).slots(4).label("e2e/daemon", "yes"));
    }
    s.node(GpuNode::h100("c08-daemon-n3").slots(4));
    let daemon = |name: &str, fraction: &str| {
        let mut set = manifests::daemon_set(name, &Pod::vllm(name, fraction).on(s.name));
        set["spec"]["template"]["spec"]["nodeSelector"]["e2e/daemon"] = "yes".into();
        set
    };
    s.create_workload(&daemon("agent", "0.40"), "")
        .admitted("a daemon of 0.40");
    s.wait_running(2, 20);
    s.create_workload(&daemon("second", "0.60"), "")
        .denied("a daemon of 0.60 beside it", &["VG201"]);
    s.create(&Pod::vllm("large", "0.60").on_node("c08-daemon-n1"))
        .denied("0.60 beside 0.40", &["VG201"]);
    s.create(&Pod::vllm("medium", "0.50").on_node("c08-daemon-n2"))
        .admitted("0.50 beside 0.40");

    // A node joins that is full already: the daemon's pod is refused there, the event says so, the others stay.
    s.create(&Pod::vllm("full", "0.60").on_node("c08-daemon-n3"))
        .admitted("0.60 on a free node");
    s.wait_running(4, 20);
    let text = s.kubectl(&["label", "node", "c08-daemon-n3", "e2e/daemon=yes"], None);
    assert!(text.contains("labeled"), "{text}");
    s.wait_shown(
        &["describe", "daemonset", "agent"],
        &["FailedCreate", "VG201", "c08-daemon-n3"],
        20,
    );
    assert_eq!(s.running(), 4, "the other nodes keep theirs");
    // Its place is free again: the daemon's pod comes.
    s.delete("full", 0);
    s.wait_running(4, 60);
    assert!(!s.exists("full"));
}

#[test]
fn c08_a_mirror_pod_is_counted_and_never_refused() {
    let s = Scenario::new("c08-mirror");
    let node = "c08-mirror-n1";
    s.node(GpuNode::h100(node).slots(8));
    for name in ["a", "b", "c"] {
        s.create(&Pod::vllm(name, "0.30")).admitted(name);
    }
    s.wait_running(3, 20);
    let uid = s.api().get(&format!("/api/v1/nodes/{node}")).body["metadata"]["uid"]
        .as_str()
        .unwrap()
        .to_owned();
    let mirror = Pod::vllm("static", "0.30").mirror(node, &uid);
    // The annotation alone proves nothing.
    s.create(&mirror)
        .denied("a mirror pod that no node creates", &["VG201"]);
    s.create_as_node(node, &mirror)
        .admitted("the node's own mirror pod");
    // It is counted: with one of the three gone, 0.90 is still promised.
    s.delete("a", 0);
    s.wait_gone("a", 10);
    s.wait_top(node, "0.90");
    s.create(&Pod::vllm("d", "0.30"))
        .denied("beside the mirror pod", &["VG201", "static"]);
}

#[test]
fn c10_hand_written_product_labels_are_known() {
    let s = Scenario::new("c10");
    for (node, product) in [
        ("c10-n1", "A100-SXM4-80GB"),
        ("c10-n2", "H100-SXM5-80GB"),
        ("c10-n3", "L40S-48GB"),
    ] {
        let hand_made = GpuNode::bare(node)
            .label("nvidia.com/gpu.product", product)
            .resource("nvidia.com/gpu", 1);
        s.node(hand_made);
        s.create(&Pod::vllm(&format!("on-{node}"), "0.90").on_node(node))
            .admitted(product)
            .says("facts are missing", "VG704");
    }
    s.wait_running(3, 20);
    // With sharing facts beside it the total comes from the product: 46068 MiB, the lower variant.
    let shared = GpuNode::bare("c10-n4")
        .label("nvidia.com/gpu.product", "L40S-48GB")
        .label("nvidia.com/gpu.count", "1")
        .label("nvidia.com/gpu.replicas", "4")
        .label("nvidia.com/gpu.sharing-strategy", "time-slicing")
        .resource("nvidia.com/gpu", 4);
    s.node(shared);
    for name in ["a", "b", "c"] {
        s.create(&Pod::vllm(name, "0.30").on_node("c10-n4"))
            .admitted(name);
    }
    s.create(&Pod::vllm("d", "0.30").on_node("c10-n4"))
        .denied("the fourth", &["VG201", "13821 MiB"]);
}

#[test]
fn c11_nodes_that_are_away_are_waited_for() {
    let s = Scenario::new("c11");
    s.node(GpuNode::h100("c11-cordoned").slots(4).cordoned());
    s.node(GpuNode::h100("c11-away").slots(4).not_ready());
    for (name, node) in [("for-cordoned", "c11-cordoned"), ("for-away", "c11-away")] {
        s.create_eventually(&Pod::vllm(name, "0.30").on_node(node), 10);
    }
    // Their memory is counted all the same.
    s.create(&Pod::vllm("second", "0.30").on_node("c11-cordoned"))
        .admitted("second");
    s.create(&Pod::vllm("third", "0.30").on_node("c11-cordoned"))
        .admitted("third");
    s.create(&Pod::vllm("fourth", "0.30").on_node("c11-cordoned"))
        .denied("the fourth", &["VG201"]);
    for pod in s.list() {
        assert_eq!(pod["status"]["phase"], "Pending", "{}", pod["metadata"]["name"]);
    }
    let text = s.kubectl(&["uncordon", "c11-cordoned"], None);
    assert!(text.contains("uncordoned"), "{text}");
    s.wait_running(3, 30);
}

#[test]
fn c11_unhealthy_devices_are_not_promised() {
    let s = Scenario::new("c11-sick");
    // One of two devices is unhealthy: three of six slots are left, and they are one device.
    s.node(
        GpuNode::l40s("c11-sick-n1")
            .gpus(2)
            .slots(3)
            .allocatable("nvidia.com/gpu", 3),
    );
    for name in ["a", "b", "c"] {
        s.create(&Pod::vllm(name, "0.30").on_node("c11-sick-n1"))
            .admitted(name);
    }
    // The fourth waits for a slot as for any other resource, and gets no memory of the device that is unhealthy.
    s.create(&Pod::vllm("d", "0.30").on_node("c11-sick-n1"))
        .admitted("the fourth");
    s.wait_running(3, 20);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(s.running(), 3);
    // The only GPU is unhealthy: a pod waits for it.
    s.unknown_node(&GpuNode::h100("c11-sick-n2").allocatable("nvidia.com/gpu", 0));
    s.create_eventually(&Pod::vllm("patient", "0.90").on_node("c11-sick-n2"), 10);
}

#[test]
fn c13_a_dry_run_says_the_same_and_leaves_nothing() {
    let s = Scenario::new("c13");
    let node = "c13-n1";
    s.node(GpuNode::h100(node).slots(4));
    for name in ["a", "b"] {
        s.create(&Pod::vllm(name, "0.30")).admitted(name);
    }
    s.wait_running(2, 20);
    for _ in 0..4 {
        s.dry_run(&Pod::vllm("third", "0.30"))
            .admitted("a dry run of the third");
    }
    let text = s.kubectl(
        &["create", "--dry-run=server", "-f", "-"],
        Some(&s.placed(&Pod::vllm("third", "0.30"))),
    );
    assert!(text.contains("created (server dry run)"), "{text}");
    s.wait_top(node, "0.60");
    s.create(&Pod::vllm("third", "0.30"))
        .admitted("the third after its dry runs");
    let dry = s
        .dry_run(&Pod::vllm("fourth", "0.30"))
        .denied("a dry run of the fourth", &["VG201", "24468 MiB"]);
    let real = s
        .create(&Pod::vllm("fourth", "0.30"))
        .denied("the fourth", &["VG201", "24468 MiB"]);
    assert_eq!(dry.text(), real.text(), "the same words");
    s.wait_top(node, "0.90");
}

#[test]
fn c15_other_vendors_devices_are_not_ours() {
    let s = Scenario::new("c15");
    let resources = [
        "amd.com/gpu",
        "gpu.intel.com/i915",
        "google.com/tpu",
        "aws.amazon.com/neuron",
    ];
    let node = resources.iter().fold(GpuNode::bare("c15-n1"), |node, resource| {
        node.resource(resource, 8)
    });
    s.unknown_node(&node);
    for (number, resource) in resources.into_iter().enumerate() {
        let name = format!("pod-{number}");
        let pod = Pod::vllm(&name, "7").asks(resource, 1);
        let answer = s.create(&pod).admitted(resource);
        assert_untouched(&s.placed(&pod), &answer.body);
        assert!(
            answer.warnings.iter().all(|warning| !warning.contains("VG")),
            "{:?}",
            answer.warnings
        );
    }
    s.wait_running(4, 20);
}

/// Neither annotations nor the parts that a mutation would write differ from what was sent.
#[track_caller]
pub fn assert_untouched(sent: &Value, stored: &Value) {
    assert_eq!(stored["metadata"]["annotations"], Value::Null, "{stored}");
    for field in ["image", "args", "env"] {
        let pointer = format!("/spec/containers/0/{field}");
        assert_eq!(stored.pointer(&pointer), sent.pointer(&pointer), "{field}");
    }
    assert_eq!(stored["spec"]["affinity"], Value::Null, "{stored}");
    assert_eq!(
        stored["spec"]["nodeSelector"], sent["spec"]["nodeSelector"],
        "{stored}"
    );
}

#[test]
fn c16_ordinary_jobs_on_whole_devices_pass() {
    let s = Scenario::new("c16");
    s.node(GpuNode::h100("c16-n1").gpus(8));
    s.node(GpuNode::h100("c16-n2").gpus(8));
    let training = Pod::with_image("train", "pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime")
        .args(&["torchrun", "--nproc-per-node=4", "train.py"])
        .asks("nvidia.com/gpu", 4)
        .on(s.name);
    s.create_workload(&manifests::job("train", &training), "")
        .admitted("a PyTorch Job")
        .without_warning("a whole device is its own", "VG106");
    let own =
        Pod::with_image("simulation", "registry.example/physics/simulation:3").asks("nvidia.com/gpu", 8);
    s.create(&own)
        .admitted("an unknown program on eight")
        .without_warning("a whole device is its own", "VG106");
    s.wait_running(2, 30);
}
