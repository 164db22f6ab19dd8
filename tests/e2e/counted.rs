//! The level `counted`: what nodes advertise, what stored pods carry, and what the real scheduler and the API server's own
//! quota make of it.

use serde_json::json;

use crate::api::eventually;
use crate::manifests::{self, GpuNode, Pod};
use crate::scenario::{ADVERTISED_WITHIN, Scenario, advertised, counted};
use crate::vramgate::Vramgate;

fn node(s: &Scenario, name: &str) -> serde_json::Value {
    s.api().get(&format!("/api/v1/nodes/{name}")).body
}

#[track_caller]
fn wait_advertised(s: &Scenario, name: &str, number: Option<u64>) {
    let within = ADVERTISED_WITHIN.as_secs();
    eventually(&format!("{name} advertises {number:?}"), within, || {
        (advertised(&node(s, name)) == number).then_some(())
    });
}

fn set_status(s: &Scenario, name: &str, number: &serde_json::Value) {
    let lists = json!({"vramgate.io/gpu-ppm": number});
    s.api()
        .patch(
            &format!("/api/v1/nodes/{name}/status"),
            &json!({"status": {"capacity": lists, "allocatable": lists}}),
        )
        .admitted("a change of the node's status");
}

#[test]
fn three_tenths_fit_three_times_and_the_authors_own_value_says_nothing() {
    let s = Scenario::new("ppm");
    s.node(GpuNode::h100("ppm-n1").slots(8));
    assert_eq!(advertised(&node(&s, "ppm-n1")), Some(900_000));
    for (name, written) in [("a", "1"), ("b", "900000"), ("c", "0")] {
        s.create(&Pod::vllm(name, "0.30").carrying(written))
            .admitted(name);
    }
    s.wait_running(3, 30);
    for pod in s.list() {
        assert_eq!(counted(&pod), Some(300_000), "{pod:#}");
    }
    s.create(&Pod::vllm("d", "0.30")).denied("the fourth", &["VG201"]);
    let mut with_init = s.placed(&Pod::without_gpu("init"));
    with_init["spec"]["initContainers"] = json!([{"name": "first", "image": "registry.k8s.io/pause:3.10",
        "resources": {"limits": {"vramgate.io/gpu-ppm": "900000"}}}]);
    let stored = s.api().post("/api/v1/namespaces/ppm/pods", &with_init);
    let stored = stored.admitted("a pod whose init container writes a value");
    let limits = &stored.body["spec"]["initContainers"][0]["resources"]["limits"];
    assert!(limits["vramgate.io/gpu-ppm"].is_null(), "{limits}");
    let web = s.create(&Pod::without_gpu("web").carrying("900000"));
    let web = web.admitted("a pod without a GPU, of which the value is taken away");
    assert_eq!(counted(&web.body), None);
}

#[test]
fn a_number_that_the_kubelet_resets_or_that_is_taken_away_comes_back() {
    let s = Scenario::new("ppm-reset");
    s.node(GpuNode::l40s("ppm-reset-n1").gpus(2).slots(4));
    wait_advertised(&s, "ppm-reset-n1", Some(1_800_000));
    for number in [json!("0"), json!(null), json!("5"), json!("9000000")] {
        set_status(&s, "ppm-reset-n1", &number);
        wait_advertised(&s, "ppm-reset-n1", Some(1_800_000));
    }
    // Another number of devices.
    s.offer("ppm-reset-n1", 4, &["nvidia.com/gpu.count=1"]);
    wait_advertised(&s, "ppm-reset-n1", Some(900_000));
    // No device any more.
    let labels = [
        "present",
        "product",
        "memory",
        "count",
        "replicas",
        "sharing-strategy",
    ];
    let labels: Vec<String> = labels
        .iter()
        .map(|name| format!("nvidia.com/gpu.{name}-"))
        .collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    s.offer("ppm-reset-n1", 0, &labels);
    wait_advertised(&s, "ppm-reset-n1", None);
}

#[test]
fn c19_pods_older_than_the_installation_are_taken_off_and_new_ones_go_elsewhere() {
    let s = Scenario::alone("c19");
    s.node(GpuNode::h100("c19-n1").slots(8));
    for kind in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
        s.kubectl(&["delete", kind, "--all"], None);
    }
    eventually("nobody judges pods", 15, || {
        let answer = s.dry_run(&Pod::vllm("probe", "0.30"));
        (answer.is_success() && counted(&answer.body).is_none()).then_some(())
    });
    for name in ["old-1", "old-2", "old-3"] {
        s.create(&Pod::vllm(name, "0.30")).admitted(name);
    }
    s.wait_running(3, 30);
    wait_advertised(&s, "c19-n1", Some(0));
    s.cluster.register_again();
    s.node(GpuNode::h100("c19-n2").slots(8));
    for name in ["new-1", "new-2"] {
        s.create(&Pod::vllm(name, "0.30")).admitted(name);
    }
    let greedy = Pod::vllm("new-3", "0.30").carrying("1");
    s.create(&greedy).admitted("a pod with a value of its author's");
    s.wait_running(6, 30);
    for pod in s.list() {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let (place, carried) = if name.starts_with("old") {
            ("c19-n1", None)
        } else {
            ("c19-n2", Some(300_000))
        };
        assert_eq!(pod["spec"]["nodeName"], place, "{name}");
        assert_eq!(counted(&pod), carried, "{name}");
    }
    s.create(&Pod::vllm("late", "0.01").on_node("c19-n1"))
        .denied("onto the node of the old ones", &["VG201"]);
    // As an old one ends, its part is advertised again.
    s.delete("old-1", 0);
    wait_advertised(&s, "c19-n1", Some(300_000));
    s.create_eventually(&Pod::vllm("late", "0.30").on_node("c19-n1"), 15);
    s.wait_running(6, 30);
}

#[test]
fn a_pod_that_went_around_mutation_is_refused_and_the_number_goes_at_uninstall() {
    let s = Scenario::alone("ppm-around");
    s.node(GpuNode::h100("ppm-around-n1").slots(8));
    s.kubectl(&["delete", "mutatingwebhookconfigurations", "--all"], None);
    eventually("nobody mutates pods", 15, || {
        let answer = s.dry_run(&Pod::vllm("probe", "0.30").carrying("300000"));
        let passes = answer.is_success();
        let other = s.dry_run(&Pod::vllm("probe", "0.30").carrying("299999"));
        (passes && !other.is_success()).then_some(())
    });
    s.create(&Pod::vllm("low", "0.30").carrying("100000"))
        .denied("a lower value", &["VG214", "100000", "300000"]);
    s.create(&Pod::vllm("none", "0.30"))
        .denied("no value", &["VG214", "300000"]);
    s.create(&Pod::vllm("right", "0.30").carrying("300000"))
        .admitted("the right value");
    s.cluster.register_again();

    // Uninstalled while nobody writes the numbers again.
    s.cluster.with_vramgate(Vramgate::kill);
    let text = s
        .cluster
        .with_vramgate(|vramgate| vramgate.uninstall_node_resources())
        .unwrap();
    assert!(
        text.contains("ppm-around-n1: vramgate.io/gpu-ppm removed"),
        "{text}"
    );
    assert_eq!(advertised(&node(&s, "ppm-around-n1")), None);
    let text = s
        .cluster
        .with_vramgate(|vramgate| vramgate.uninstall_node_resources())
        .unwrap();
    assert!(
        text.contains("0 of "),
        "a second time there is nothing to do: {text}"
    );
    s.wait_running(1, 20);
    s.cluster.with_vramgate(Vramgate::start);
    wait_advertised(&s, "ppm-around-n1", Some(900_000));
}

#[test]
fn a_resource_quota_counts_shares() {
    let s = Scenario::new("ppm-quota");
    s.node(GpuNode::h100("ppm-quota-n1").slots(8));
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpu-memory"},
        "spec": {"hard": {"requests.vramgate.io/gpu-ppm": "500000"}}});
    s.api()
        .post("/api/v1/namespaces/ppm-quota/resourcequotas", &quota)
        .admitted("a quota of half a device");
    let path = "/api/v1/namespaces/ppm-quota/resourcequotas/gpu-memory";
    eventually("the quota is worked out", 20, || {
        (!s.api().get(path).body["status"]["hard"].is_null()).then_some(())
    });
    s.create(&Pod::vllm("a", "0.20")).admitted("a fifth");
    s.create(&Pod::vllm("b", "0.30")).admitted("three tenths");
    let refused = s.create(&Pod::vllm("c", "0.05"));
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(refused.text().contains("exceeded quota"), "{}", refused.text());
    eventually("its use", 20, || {
        let used = &s.api().get(path).body["status"]["used"]["requests.vramgate.io/gpu-ppm"];
        (used == "500k").then_some(())
    });
    s.wait_running(2, 20);
}

/// Nothing but the scheduler holds the fourth pod back, and a node that comes later takes it.
#[test]
fn a_pod_without_room_waits_for_a_node_of_a_pool_that_grows() {
    let s = Scenario::new("growth");
    let node = |name: &str| GpuNode::h100(name).slots(8).label("e2e/pool", "growth");
    s.node(node("growth-n1"));
    for name in ["a", "b", "c"] {
        s.create(&Pod::vllm(name, "0.30")).admitted(name);
    }
    s.wait_running(3, 30);
    let waits = s.create(&Pod::vllm("waits", "0.30"));
    let waits = waits.admitted("a pod that waits for a node");
    let told = waits.warnings.iter().any(|text| {
        text.contains("VG201") && text.contains("waits until an autoscaler adds one of placement.growth")
    });
    assert!(told, "{:?}", waits.warnings);
    assert_eq!(counted(&waits.body), Some(300_000));
    let deployment = manifests::deployment("more", 2, &Pod::vllm("more", "0.30").on(s.name));
    let answer = s.create_workload(&deployment, "");
    let answer = answer.admitted("a Deployment whose pods wait as well");
    assert!(
        answer.warnings.iter().any(|text| text.contains("VG201")),
        "{:?}",
        answer.warnings
    );
    eventually("its pods exist", 20, || (s.list().len() == 6).then_some(()));
    // The scheduler has tried each of them, and found no node.
    eventually("three pods cannot be scheduled", 30, || {
        let pods = s.list();
        let tried = pods.iter().filter(|pod| {
            let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            conditions.into_iter().any(|one| one["reason"] == "Unschedulable")
        });
        (tried.count() == 3).then_some(())
    });
    assert_eq!(s.running(), 3);
    // Who could not stand there is refused still.
    let elsewhere = Pod::vllm("elsewhere", "0.30").on_node("growth-n1");
    s.create(&elsewhere).denied(
        "a pod of a node that is there",
        &["VG201", "none of them would take the pod"],
    );
    s.unknown_node(&node("growth-n2"));
    s.wait_running(6, 60);
    for name in ["growth-n1", "growth-n2"] {
        let on_it = s
            .list()
            .iter()
            .filter(|pod| pod["spec"]["nodeName"] == name)
            .count();
        assert_eq!(on_it, 3, "{name}");
    }
}

/// The API server fills priorities into pods, not into templates: those are looked up by their class.
#[test]
fn a_template_has_the_priority_of_its_class() {
    let s = Scenario::new("ppm-class");
    s.node(GpuNode::h100("ppm-class-n1").slots(8));
    for (name, value) in [
        ("ppm-class-low", 10),
        ("ppm-class-middle", 100),
        ("ppm-class-high", 1_000),
    ] {
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value});
        s.api()
            .post("/apis/scheduling.k8s.io/v1/priorityclasses", &class)
            .admitted("a class");
    }
    for name in ["a", "b", "c"] {
        s.create_eventually(&Pod::vllm(name, "0.30").priority("ppm-class-middle"), 20);
    }
    s.wait_running(3, 30);
    let of_class =
        |class: &str| manifests::deployment("chat", 1, &Pod::vllm("chat", "0.30").on(s.name).priority(class));
    eventually("the low class is known and makes nobody go", 30, || {
        let answer = s.create_workload(&of_class("ppm-class-low"), "?dryRun=All");
        answer.text().contains("VG201").then_some(())
    });
    let answer = s.create_workload(&of_class("ppm-class-high"), "");
    let answer = answer.admitted("one whose pod makes another go");
    assert!(
        answer.warnings.iter().any(|text| text.contains("VG201")),
        "{:?}",
        answer.warnings
    );
    eventually("its pod runs in the place of another", 60, || {
        let runs = |pod: &&serde_json::Value| {
            pod["spec"]["priorityClassName"] == "ppm-class-high" && pod["status"]["phase"] == "Running"
        };
        (s.list().iter().filter(runs).count() == 1).then_some(())
    });
    assert_eq!(s.running(), 3);
}
