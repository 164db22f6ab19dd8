//! The life of a reservation: each way in which it ends, and what becomes of it when nodes change under it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

mod kit;

use kit::{Cluster, H100, L40S, VLLM, deployment, gpu_node, has, pod, vllm};
use serde_json::{Value, json};
use vramgate::finding::Code;
use vramgate::ledger::{Moment, Stale};
use vramgate::policy::Evidence;
use vramgate::units::Share;

/// One H100 with eight slots; of 0.45 exactly two fit.
fn one_node() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 1, 8);
    cluster
}

fn with_uid(name: &str, uid: &str) -> Value {
    let mut object = pod(name, "0.45");
    object["metadata"]["uid"] = json!(uid);
    object
}

fn owned(name: &str, uid: &str) -> Value {
    let mut object = with_uid(name, uid);
    object["metadata"]["generateName"] = json!("chat-");
    object["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "chat", "uid": "rs", "controller": true}]);
    object
}

/// A device on which two reservations leave no room for a third.
fn full() -> Cluster {
    let mut cluster = one_node();
    assert!(cluster.create(&with_uid("a", "uid-a")).admit);
    assert!(cluster.create(&with_uid("b", "uid-b")).admit);
    assert!(!cluster.try_create(&with_uid("c", "uid-c")).admit);
    cluster
}

fn has_room(cluster: &mut Cluster) -> bool {
    cluster.try_create(&with_uid("c", "uid-c")).admit
}

#[test]
fn it_ends_when_its_pod_is_seen_and_the_pod_counts() {
    let mut cluster = full();
    assert_eq!(cluster.ledger.reserved(), 2);
    cluster.see(&with_uid("a", "uid-a"));
    assert_eq!(cluster.ledger.reserved(), 1);
    assert!(!has_room(&mut cluster));
    // Also where the first that is seen of it is its end.
    let mut over = with_uid("b", "uid-b");
    over["status"] = json!({"phase": "Failed"});
    cluster.see(&over);
    assert_eq!(cluster.ledger.reserved(), 0);
    assert!(has_room(&mut cluster));
}

#[test]
fn it_ends_when_the_caller_is_gone_before_the_answer() {
    let mut cluster = full();
    cluster.ledger.release("uid-a");
    assert_eq!(cluster.ledger.reserved(), 1);
    assert!(has_room(&mut cluster));
    // A pod that was seen meanwhile stays.
    cluster.see(&with_uid("b", "uid-b"));
    cluster.ledger.release("uid-b");
    assert!(cluster.create(&with_uid("c", "uid-c")).admit);
    assert!(!cluster.try_create(&with_uid("d", "uid-d")).admit);
}

#[test]
fn it_ends_when_a_newer_pod_of_its_name_is_created() {
    let mut cluster = full();
    // A client that tries again: each time another UID.
    for attempt in 0..5 {
        assert!(cluster.create(&with_uid("a", &format!("uid-a{attempt}"))).admit);
        assert_eq!(cluster.ledger.reserved(), 2);
    }
    // The same name elsewhere is another pod.
    let mut elsewhere = with_uid("a", "uid-e");
    elsewhere["metadata"]["namespace"] = json!("team-b");
    assert!(!cluster.create(&elsewhere).admit);
}

#[test]
fn it_ends_when_its_owner_can_no_longer_mean_it() {
    let mut cluster = one_node();
    let told = |stale: Vec<Stale>| -> Vec<String> { stale.into_iter().map(|stale| stale.uid).collect() };
    assert!(!cluster.ledger.has_waiting("rs"));
    assert!(cluster.create(&owned("chat-1", "uid-1")).admit);
    assert!(cluster.ledger.has_waiting("rs"));
    // One more is created by an owner of one: the first was not stored. An owner of two means both.
    assert_eq!(
        told(
            cluster
                .ledger
                .surplus("rs", 1, Moment(u64::MAX), Moment(u64::MAX))
        ),
        ["uid-1"]
    );
    assert!(
        cluster
            .ledger
            .surplus("rs", 2, Moment(u64::MAX), Moment(u64::MAX))
            .is_empty()
    );
    // What may be on its way to the store is left alone.
    assert!(cluster.ledger.surplus("rs", 1, Moment(0), Moment(0)).is_empty());
    assert!(cluster.create(&owned("chat-2", "uid-2")).admit);
    // The oldest goes first. Pods that are seen count towards what is wanted, those that terminate do not.
    assert_eq!(
        told(
            cluster
                .ledger
                .surplus("rs", 2, Moment(u64::MAX), Moment(u64::MAX))
        ),
        ["uid-1"]
    );
    let mut seen = owned("chat-2", "uid-2");
    cluster.see(&seen);
    assert_eq!(
        told(
            cluster
                .ledger
                .surplus("rs", 2, Moment(u64::MAX), Moment(u64::MAX))
        ),
        ["uid-1"]
    );
    seen["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    cluster.see(&seen);
    assert!(
        cluster
            .ledger
            .surplus("rs", 2, Moment(u64::MAX), Moment(u64::MAX))
            .is_empty()
    );
}

#[test]
fn it_ends_when_it_is_old_and_its_pod_does_not_exist() {
    let mut cluster = full();
    assert!(cluster.ledger.stale(Moment(0)).is_empty());
    let stale = cluster.ledger.stale(Moment(u64::MAX));
    assert_eq!(stale.len(), 2);
    // Whose existence cannot be told is only asked for again: nothing ends by age alone.
    assert_eq!(cluster.ledger.stale(Moment(u64::MAX)), stale);
    assert!(!has_room(&mut cluster));
    cluster.ledger.release(&stale[0].uid);
    assert!(has_room(&mut cluster));
}

/// The API server takes another generated name where the first is taken (`RetryGenerateName`): two reviews, one pod.
#[test]
fn a_generated_name_that_was_taken_leaves_a_reservation_that_time_ends() {
    let mut cluster = one_node();
    cluster.see(&with_uid("chat-x", "uid-older"));
    assert!(cluster.create(&with_uid("chat-x", "uid-first-try")).admit);
    assert_eq!(cluster.ledger.reserved(), 1);
    let stale = cluster.ledger.stale(Moment(u64::MAX));
    assert_eq!(
        (stale[0].name.as_str(), stale[0].uid.as_str()),
        ("chat-x", "uid-first-try")
    );
    // The live GET shows a pod of that name with another UID.
    cluster.ledger.release(&stale[0].uid);
    assert!(cluster.create(&with_uid("chat-y", "uid-second-try")).admit);
    assert!(!has_room(&mut cluster));
}

/// A quota that refuses an owner's pod again and again, for a minute at the pace of the controller's back-off and faster.
#[test]
fn an_owner_whose_pods_are_never_stored_has_one_reservation() {
    let mut cluster = one_node();
    for attempt in 0..200 {
        let uid = format!("uid-{attempt}");
        // As the webhook does before it judges.
        for stale in cluster
            .ledger
            .surplus("rs", 1, Moment(u64::MAX), Moment(u64::MAX))
        {
            cluster.ledger.release(&stale.uid);
        }
        assert!(cluster.create(&owned(&format!("chat-{attempt}"), &uid)).admit);
        assert_eq!(cluster.ledger.reserved(), 1);
        assert!(
            cluster.try_create(&with_uid("other", "uid-other")).admit,
            "another tenant has room"
        );
    }
}

fn zone(name: &str, zone: &str) -> Value {
    let mut node = gpu_node(name, "NVIDIA-L40S", L40S, 1, 4);
    node["metadata"]["labels"]["zone"] = json!(zone);
    node
}

#[test]
fn it_follows_its_node_through_labels_and_absence() {
    let mut cluster = Cluster::new();
    cluster.node(&zone("n0", "a"));
    let in_zone = |name: &str, zone: &str| {
        let mut object = with_uid(name, &format!("uid-{name}"));
        object["spec"]["nodeSelector"] = json!({"zone": zone});
        object
    };
    for name in ["a", "b"] {
        assert!(cluster.create(&in_zone(name, "a")).admit);
    }
    assert!(!cluster.try_create(&in_zone("c", "a")).admit);
    // Relabelled: they wait for a node of their zone and hold nothing of this one.
    cluster.node(&zone("n0", "b"));
    assert!(cluster.try_create(&in_zone("c", "b")).admit);
    assert_eq!(cluster.ledger.devices()[0].promised_share, Share::ZERO);
    assert_eq!(cluster.ledger.reserved(), 2);
    // Labelled back, or gone and there again: they have their places first.
    for _ in 0..2 {
        cluster.node(&zone("n0", "a"));
        assert!(!cluster.try_create(&in_zone("c", "a")).admit);
        cluster.ledger.remove_node("n0");
        assert_eq!(cluster.ledger.reserved(), 2);
    }
    cluster.node(&zone("n0", "a"));
    assert!(!cluster.try_create(&in_zone("c", "a")).admit);
    // Another such node takes them both when the first is gone.
    cluster.node(&zone("n1", "a"));
    cluster.ledger.remove_node("n0");
    assert!(!cluster.try_create(&in_zone("c", "a")).admit);
}

#[test]
fn a_node_that_is_cut_otherwise_keeps_no_places_for_what_it_no_longer_offers() {
    let mut cluster = Cluster::new();
    let small = "nvidia.com/mig-1g.10gb";
    let shared = |count: u32| {
        let mut node = kit::mig_node("mig-1", &[("1g.10gb", 9_984, count)]);
        node["metadata"]["labels"][format!("{small}.replicas")] = json!("4");
        node["metadata"]["labels"][format!("{small}.sharing-strategy")] = json!("time-slicing");
        for list in ["capacity", "allocatable"] {
            node["status"][list][small] = json!((count * 4).to_string());
        }
        node
    };
    let asks = |name: &str| {
        let mut container = vllm(VLLM, Some("0.40"));
        container["resources"] = json!({"limits": {small: "1"}});
        let mut object = kit::pod_of(name, json!([container]));
        object["metadata"]["uid"] = json!(format!("uid-{name}"));
        object
    };
    cluster.node(&shared(1));
    assert!(cluster.create(&asks("a")).admit && cluster.create(&asks("b")).admit);
    assert!(!cluster.try_create(&asks("c")).admit);
    // Cut into other profiles: nobody offers what they ask for, so a further one is told that.
    cluster.node(&kit::mig_node("mig-1", &[("3g.40gb", 40_192, 2)]));
    let verdict = cluster.try_create(&asks("c"));
    assert!(has(&verdict, Code::Vg302), "{:#?}", verdict.findings);
    assert!(
        cluster
            .ledger
            .devices()
            .iter()
            .all(|device| device.promised_share == Share::ZERO)
    );
    // And back.
    cluster.node(&shared(1));
    assert!(!cluster.try_create(&asks("c")).admit);
    cluster.ledger.release("uid-a");
    assert!(cluster.try_create(&asks("c")).admit);
}

#[test]
fn devices_that_vanish_under_running_pods_are_reported_as_over_committed() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("gpu-1", "NVIDIA-L40S", L40S, 2, 4);
    for index in 0..6 {
        let mut object = pod(&format!("p{index}"), "0.22");
        object["metadata"]["uid"] = json!(format!("uid-{index}"));
        assert!(cluster.create(&object).admit);
        cluster.running(&object, "gpu-1");
    }
    assert!(cluster.ledger.over_budget().is_empty());
    // One device left: all six are on it as far as anybody can tell.
    cluster.gpu_node("gpu-1", "NVIDIA-L40S", L40S, 1, 8);
    let over = cluster.ledger.over_budget();
    assert_eq!(over.len(), 1);
    assert!(over[0].is_over() && over[0].promised_share > Share::from_ppm(1_300_000));
    assert!(cluster.ledger.devices()[0].is_over(), "top shows the same");
    assert!(!cluster.try_create(&pod("more", "0.05")).admit);
    // Fewer slots than pods: what is there still counts in full.
    cluster.gpu_node("gpu-1", "NVIDIA-L40S", L40S, 1, 2);
    let device = &cluster.ledger.devices()[0];
    assert_eq!((device.slots, device.slots_taken), (2, 6));
    assert!(device.is_over());
    // Two devices again, and all is well.
    cluster.gpu_node("gpu-1", "NVIDIA-L40S", L40S, 2, 4);
    assert!(cluster.ledger.over_budget().is_empty());
    assert_eq!(cluster.ledger.devices()[0].evidence, Evidence::Any);
}

/// A workload and its pods are one demand: whoever asks again about it takes them out first.
#[test]
fn a_workload_and_its_pods_are_counted_once() {
    let mut cluster = one_node();
    let two = deployment("chat", 2, &vllm(VLLM, Some("0.45")));
    for index in 0..2 {
        let mut object = pod(&format!("chat-abc-{index}"), "0.45");
        object["metadata"]["uid"] = json!(format!("uid-{index}"));
        object["metadata"]["labels"] = json!({"pod-template-hash": "abc"});
        object["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "chat-abc", "uid": "rs", "controller": true}]);
        assert!(cluster.create(&object).admit);
    }
    assert!(cluster.try_create(&two).admit);
    let mut three = two.clone();
    three["spec"]["replicas"] = json!(3);
    assert!(!cluster.update(&two, &three).admit);
    // The ReplicaSet between them has an owner and is not judged again.
    let mut set = two.clone();
    set["kind"] = json!("ReplicaSet");
    set["metadata"]["name"] = json!("chat-abc");
    set["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat", "uid": "d", "controller": true}]);
    set["spec"]["replicas"] = json!(9);
    assert!(!cluster.create(&set).judged);
}

fn cron(policy: Option<&str>, fraction: &str) -> Value {
    let mut object = json!({
        "apiVersion": "batch/v1", "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": "team-a"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {
            "parallelism": 2, "completions": 2,
            "template": {"spec": {"restartPolicy": "Never", "containers": [vllm(VLLM, Some(fraction))]}},
        }}},
    });
    if let Some(policy) = policy {
        object["spec"]["concurrencyPolicy"] = json!(policy);
    }
    object
}

#[test]
fn runs_of_a_cron_job_that_may_overlap_are_told() {
    let mut cluster = one_node();
    for policy in [None, Some("Allow")] {
        let nightly = cron(policy, "0.30");
        let verdict = cluster.try_create(&nightly);
        assert!(verdict.admit);
        let found = kit::finding(&verdict, Code::Vg203);
        assert_eq!(found.path.to_string(), "spec.concurrencyPolicy");
        for fix in &found.fixes {
            let again = cluster.try_create(&kit::apply(&nightly, fix));
            assert!(again.admit && !has(&again, Code::Vg203), "{}", fix.title);
        }
        assert_eq!(found.fixes.len(), 2, "{:#?}", found.fixes);
        kit::golden("vg203-cron-job", &vramgate::message::report(&verdict, ""));
    }
    for policy in ["Forbid", "Replace"] {
        assert!(!has(
            &cluster.try_create(&cron(Some(policy), "0.30")),
            Code::Vg203
        ));
    }
    assert!(!has(&cluster.try_create(&cron(None, "0.20")), Code::Vg203));
    // Without a slot the later run waits: that is no matter of memory.
    let mut narrow = Cluster::new();
    narrow.gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 1, 3);
    assert!(!has(&narrow.try_create(&cron(None, "0.30")), Code::Vg203));
    let mut suspended = cron(None, "0.30");
    suspended["spec"]["suspend"] = json!(true);
    assert!(!has(&cluster.try_create(&suspended), Code::Vg203));
}

#[test]
fn more_pods_that_ask_for_less_stand_beside_those_of_before() {
    let of = |kind: &str, replicas: u32, fraction: &str, more: Value| {
        let mut object = deployment("chat", replicas, &vllm(VLLM, Some(fraction)));
        object["kind"] = json!(kind);
        for (key, value) in more.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        object
    };
    let one_by_one = json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}});
    let below = |partition: u32| json!({"updateStrategy": {"rollingUpdate": {"partition": partition}}});
    // Two of 0.40 run; five of 0.15 are 0.75.
    for (kind, more, told) in [
        (
            "Deployment",
            one_by_one.clone(),
            Some("5 pods as they were stand at 0.40, and 2 of 5 fit"),
        ),
        (
            "StatefulSet",
            json!({}),
            Some("2 pods as they were stand at 0.40 beside 3 new at 0.15, and 2 of 5 fit"),
        ),
        (
            "ReplicaSet",
            json!({}),
            Some("2 pods as they were stand at 0.40 beside 3 new at 0.15, and 2 of 5 fit"),
        ),
        (
            "StatefulSet",
            below(3),
            Some("3 pods as they were stand at 0.40 beside 2 new at 0.15, and 2 of 5 fit"),
        ),
    ] {
        let mut cluster = one_node();
        let (before, after) = (
            of(kind, 2, "0.40", more.clone()),
            of(kind, 5, "0.15", more.clone()),
        );
        let verdict = cluster.update(&before, &after);
        assert!(verdict.admit, "{kind}");
        let Some(told) = told else { continue };
        let found = kit::finding(&verdict, Code::Vg203);
        assert!(found.message.contains(told), "{kind}: {}", found.message);
        for fix in &found.fixes {
            let changed = kit::apply(&after, fix);
            assert!(
                !has(&cluster.update(&before, &changed), Code::Vg203),
                "{kind}: {}",
                fix.title
            );
        }
        assert_eq!(found.fixes.len(), 1);
        // The same number, or as large as before: nothing new stands beside anything.
        assert!(!has(
            &cluster.update(&before, &of(kind, 2, "0.15", more.clone())),
            Code::Vg203
        ));
        let small = of(kind, 2, "0.10", more.clone());
        assert!(!has(
            &cluster.update(&small, &of(kind, 5, "0.15", more)),
            Code::Vg203
        ));
    }
}
