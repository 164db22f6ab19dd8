//! Time-sliced GPUs: what fits is let through, what does not is told why.

use serde_json::json;

use crate::api::assert_first_line;
use crate::manifests::{self, GpuNode, Pod};
use crate::scenario::Scenario;

#[test]
fn s01_four_pods_of_a_fifth_fit() {
    let s = Scenario::new("s01");
    s.node(GpuNode::h100("s01-n1").slots(4));
    for name in ["a", "b", "c", "d"] {
        s.create(&Pod::vllm(name, "0.20")).admitted(name);
    }
    s.wait_running(4, 20);
    let device = s.wait_top("s01-n1", "0.80");
    assert_eq!(device["promisedMiB"], 65_248, "{device}");
    assert_eq!(device["budgetMiB"], 73_403, "{device}");
    assert_eq!(device["totalMiB"], 81_559, "{device}");
    assert_eq!(device["slots"], 4, "{device}");
    assert_eq!(device["holders"].as_array().map(Vec::len), Some(4), "{device}");
}

#[test]
fn s02_the_fourth_pod_of_three_tenths_is_refused() {
    let s = Scenario::new("s02");
    s.node(GpuNode::h100("s02-n1").slots(4));
    for name in ["first-holder", "second-holder", "third-holder"] {
        s.create(&Pod::vllm(name, "0.30")).admitted(name);
    }
    let words = [
        "VG201",
        "24468 MiB",
        "first-holder",
        "second-holder",
        "third-holder",
    ];
    let answer = s
        .create(&Pod::vllm("fourth", "0.30"))
        .denied("the fourth pod", &words);
    let reason = answer.reason();
    assert!(
        reason.contains("nothing") || reason.contains(" 0 MiB"),
        "it says that nothing is left:\n{reason}"
    );

    // The same as a developer reads it.
    let text = s.kubectl(
        &["create", "-f", "-"],
        Some(&s.placed(&Pod::vllm("fourth", "0.30"))),
    );
    for word in words.into_iter().chain(["Forbidden"]) {
        assert!(text.contains(word), "kubectl does not show {word}:\n{text}");
    }
    assert_first_line(&text);

    s.wait_running(3, 20);
    s.wait_top("s02-n1", "0.90");
    // Bound and running, they hold the same as when they were reserved.
    s.create(&Pod::vllm("fourth", "0.30"))
        .denied("the fourth pod, later", &words);
    // A deleted pod frees its place.
    s.delete("second-holder", 0);
    s.create_eventually(&Pod::vllm("fourth", "0.30"), 10);
    s.create(&Pod::vllm("fifth", "0.30"))
        .denied("the fifth pod", &["VG201", "fourth"]);
}

#[test]
fn s02_old_releases_need_more_beside_their_fraction() {
    let s = Scenario::new("s02-old");
    s.node(GpuNode::h100("s02-old-n1").slots(4));
    let old = |name: &str| {
        Pod::vllm(name, "0.30").image("vllm/vllm-openai:v0.6.6").args(&[
            "--model",
            "Qwen/Qwen2.5-0.5B-Instruct",
            "--gpu-memory-utilization",
            "0.30",
        ])
    };
    s.create(&old("first")).admitted("the first pod");
    s.create(&old("second")).admitted("the second pod");
    s.create(&old("third"))
        .denied("the third pod", &["VG201", "2560 MiB"]);
}

#[test]
fn s03_a_deployment_that_cannot_fit_is_refused_at_once() {
    let s = Scenario::new("s03");
    s.node(GpuNode::h100("s03-n1").slots(4));
    let deployment = manifests::deployment("chat", 4, &Pod::vllm("chat", "0.30").on(s.name));
    let words = ["VG201", "1.2", "replicas to 3", "0.225", "another such device"];
    s.create_workload(&deployment, "?dryRun=All")
        .denied("four replicas of 0.30", &words);
    let text = s.kubectl(&["apply", "-f", "-"], Some(&deployment));
    for word in words {
        assert!(text.contains(word), "kubectl apply does not show {word}:\n{text}");
    }
    assert!(
        s.api().get(&s.deployment("chat")).status == 404,
        "nothing was created"
    );

    // What the text proposes is true: three replicas, a smaller fraction, a second GPU.
    let three = manifests::deployment("three", 3, &Pod::vllm("three", "0.30").on(s.name));
    s.create_workload(&three, "?dryRun=All")
        .admitted("three replicas");
    let smaller = manifests::deployment("smaller", 4, &Pod::vllm("smaller", "0.225").on(s.name));
    s.create_workload(&smaller, "?dryRun=All")
        .admitted("four replicas of 0.225");
    s.node(GpuNode::h100("s03-n2").slots(4));
    s.create_workload(&deployment, "")
        .admitted("four replicas beside a second GPU");
    s.wait_running(4, 30);
}

#[test]
fn s03_a_replica_set_is_told_what_its_deployment_was_not() {
    let s = Scenario::new("s03-scaled");
    s.node(GpuNode::h100("s03-scaled-n1").slots(4));
    let deployment = manifests::deployment("chat", 3, &Pod::vllm("chat", "0.30").on(s.name));
    s.create_workload(&deployment, "").admitted("three replicas");
    s.wait_running(3, 30);
    // A refused scale would freeze an autoscaler: it goes through, and the ReplicaSet's event has the reason.
    let scaled = s.kubectl(&["scale", "deployment/chat", "--replicas=4"], None);
    assert!(scaled.contains("scaled"), "{scaled}");
    let text = s.wait_shown(
        &["describe", "replicaset"],
        &["FailedCreate", "VG201", "24468 MiB"],
        30,
    );
    let event = text
        .lines()
        .find(|line| line.contains("FailedCreate") && line.contains("VG201"))
        .unwrap();
    assert!(event.contains("denied the request"), "{event}");
    assert_eq!(s.list().len(), 3, "the refused pod does not exist");
}

#[test]
fn s04_a_rollout_above_the_budget_is_foretold_and_goes_on_one_by_one() {
    let s = Scenario::new("s04");
    s.node(GpuNode::h100("s04-n1").slots(8));
    let deployment = manifests::deployment("chat", 4, &Pod::vllm("chat", "0.20").on(s.name));
    s.create_workload(&deployment, "")
        .admitted("four replicas of 0.20")
        .says("the rollout's peak", "VG203")
        .says("the rollout's peak", "one by one");
    s.wait_running(4, 30);

    let text = s.kubectl(
        &["set", "image", "deployment/chat", "vllm=vllm/vllm-openai:v0.20.1"],
        None,
    );
    assert!(text.contains("image updated"), "{text}");
    assert!(
        text.contains("VG203"),
        "the change of image warns as well:\n{text}"
    );
    s.wait_not_created(&["VG201", "16312 MiB"], 30);
    let text = s.kubectl(&["rollout", "status", "deployment/chat", "--timeout=90s"], None);
    assert!(text.contains("successfully rolled out"), "{text}");
    s.wait_running(4, 20);
    for pod in s
        .list()
        .iter()
        .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
    {
        assert_eq!(pod["spec"]["containers"][0]["image"], "vllm/vllm-openai:v0.20.1");
    }
}

/// Without surge a new pod has to wait for the memory of the old one, which terminates for 20 s. It is refused until then, and the
/// rollout completes.
#[test]
fn s04_a_rollout_without_surge_completes_though_pods_terminate_for_20_s() {
    let s = Scenario::new("s04-slow");
    s.node(GpuNode::h100("s04-slow-n1").slots(8));
    let pod = Pod::vllm("chat", "0.20")
        .label("e2e/terminates-in-20s", "yes")
        .on(s.name);
    let mut deployment = manifests::deployment("chat", 4, &pod);
    deployment["spec"]["strategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
    deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(30);
    s.create_workload(&deployment, "")
        .admitted("four replicas of 0.20")
        .without_warning("without surge", "VG203");
    s.wait_running(4, 30);
    let text = s.kubectl(
        &["set", "image", "deployment/chat", "vllm=vllm/vllm-openai:v0.20.1"],
        None,
    );
    assert!(
        text.contains("image updated") && !text.contains("VG203"),
        "{text}"
    );
    s.wait_not_created(&["VG201", "16312 MiB"], 30);
    let text = s.kubectl(&["rollout", "status", "deployment/chat", "--timeout=400s"], None);
    assert!(text.contains("successfully rolled out"), "{text}");
    s.wait_running(4, 60);
}

#[test]
fn s04_a_rollout_that_would_stall_is_called_so() {
    let s = Scenario::new("s04-stall");
    s.node(GpuNode::h100("s04-stall-n1").slots(8));
    let mut deployment = manifests::deployment("chat", 4, &Pod::vllm("chat", "0.20").on(s.name));
    deployment["spec"]["strategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}});
    s.create_workload(&deployment, "?dryRun=All")
        .admitted("four replicas of 0.20")
        .says("the rollout's peak", "VG203")
        .says("the rollout's peak", "stall");
    // The fixes are true.
    deployment["spec"]["strategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
    s.create_workload(&deployment, "?dryRun=All")
        .admitted("without surge")
        .without_warning("without surge", "VG203");
    let smaller = manifests::deployment("chat", 4, &Pod::vllm("chat", "0.18").on(s.name));
    s.create_workload(&smaller, "?dryRun=All")
        .admitted("0.18")
        .without_warning("0.18", "VG203");
}

#[test]
fn s04_without_a_free_slot_the_extra_pod_waits_and_nothing_is_foretold() {
    let s = Scenario::new("s04-slots");
    s.node(GpuNode::h100("s04-slots-n1").slots(4));
    let deployment = manifests::deployment("chat", 4, &Pod::vllm("chat", "0.20").on(s.name));
    s.create_workload(&deployment, "")
        .admitted("four replicas of 0.20")
        .without_warning("four slots", "VG203");
    s.wait_running(4, 30);
}

#[test]
fn s05_a_terminating_pod_still_holds_its_memory() {
    let s = Scenario::new("s05");
    s.node(GpuNode::h100("s05-n1").slots(8));
    for name in ["first", "second", "third"] {
        s.create(&Pod::vllm(name, "0.30").terminates_slowly())
            .admitted(name);
    }
    s.wait_running(3, 20);
    s.delete("second", 30);
    assert!(s.exists("second"), "it is Terminating");
    s.create(&Pod::vllm("replacement", "0.30"))
        .denied("beside a terminating pod", &["VG201", "second"]);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert!(s.exists("second"), "it is still Terminating");
    s.create(&Pod::vllm("replacement", "0.30"))
        .denied("beside a terminating pod", &["VG201", "second"]);
    s.wait_gone("second", 20);
    s.create_eventually(&Pod::vllm("replacement", "0.30"), 10);
}

#[test]
fn s06_a_default_fraction_on_shared_slots_is_refused() {
    let s = Scenario::new("s06");
    s.node(GpuNode::h100("s06-n1").slots(4));
    s.node(GpuNode::h100("s06-n2").slots(4));
    let pod = Pod::with_image("chat", "vllm/vllm-openai:latest")
        .env("MODEL_NAME", "Qwen/Qwen2.5-7B-Instruct")
        .on(s.name);
    s.create_workload(&manifests::deployment("chat", 8, &pod), "")
        .denied("the engine's default", &["VG207", "0.92"])
        .says("the variable that nobody reads", "VG103")
        .says("the variable that nobody reads", "MODEL_NAME");
    s.create(&pod)
        .denied("the same as a bare pod", &["VG207"])
        .says("the variable", "VG103");
}

#[test]
fn s07_tensor_parallel_over_shared_slots_is_refused() {
    let s = Scenario::new("s07");
    s.node(GpuNode::h100("s07-n1").slots(4));
    s.node(GpuNode::h100("s07-n2").gpus(2).slots(4));
    let pod = Pod::vllm("wide", "0.30")
        .args(&[
            "Qwen/Qwen2.5-7B-Instruct",
            "--gpu-memory-utilization",
            "0.30",
            "--tensor-parallel-size",
            "2",
        ])
        .asks("nvidia.com/gpu", 2);
    s.create(&pod).denied("two ranks over shared slots", &["VG205"]);
}

#[test]
fn s10_two_containers_of_a_pod_may_share_the_device() {
    let s = Scenario::new("s10");
    s.node(GpuNode::h100("s10-n1").slots(4));
    let half = Pod::vllm("pair", "0.50");
    let pair = half.clone().beside(&half, "second");
    s.create(&pair).denied("two halves on one GPU", &["VG201"]);
    s.node(GpuNode::h100("s10-n2").gpus(2).slots(4));
    s.create(&pair.clone().on_node("s10-n2"))
        .denied("two halves, both slots may be one GPU", &["VG201"]);
    let small = Pod::vllm("small", "0.40");
    s.create(&small.clone().beside(&small, "second"))
        .admitted("two of 0.40");
}

#[test]
fn s13_with_two_devices_any_placement_must_be_safe() {
    let s = Scenario::new("s13");
    s.node(GpuNode::l40s("s13-n1").gpus(2).slots(3));
    for name in ["a", "b", "c", "d", "e", "f"] {
        s.create(&Pod::vllm(name, "0.30").on_node("s13-n1"))
            .admitted(name);
    }
    s.wait_running(6, 20);
    s.node(GpuNode::l40s("s13-n2").gpus(2).slots(3));
    for name in ["x", "y"] {
        s.create(&Pod::vllm(name, "0.30").on_node("s13-n2"))
            .admitted(name);
    }
    // 0.30 + 0.30 + 0.45 may come to share one device; the text says what would tell more.
    s.create(&Pod::vllm("z", "0.45").on_node("s13-n2"))
        .denied("a pod that fits one placement only", &["VG201", "evidence any"])
        .says("what would raise the grade", "perSlot");
    s.create(&Pod::vllm("z", "0.30").on_node("s13-n2"))
        .admitted("a pod that fits each placement");
}
