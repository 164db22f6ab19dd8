//! Creations at the same moment, and a webhook that is killed between them.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::api::{Answer, eventually};
use crate::cluster::progress;
use crate::manifests::{self, GpuNode, Pod};
use crate::scenario::Scenario;

/// Pods of 0.30 that a device's budget of 0.90 holds.
const PLACES: usize = 3;

fn ten(prefix: &str) -> Vec<Pod> {
    (1..=10)
        .map(|number| Pod::vllm(&format!("{prefix}-{number}"), "0.30"))
        .collect()
}

#[test]
fn race_ten_pods_for_three_places() {
    let s = Scenario::new("race");
    let node = "race-n1";
    s.node(GpuNode::h100(node).slots(10));
    for round in 1..=5 {
        let answers = s.create_at_once(&ten(&format!("round{round}")));
        let answers: Vec<_> = answers
            .into_iter()
            .map(|answer| answer.expect("the API server answers"))
            .collect();
        let admitted = answers.iter().filter(|answer| answer.is_success()).count();
        assert_eq!(admitted, PLACES, "round {round}");
        for answer in answers.into_iter().filter(|answer| !answer.is_success()) {
            answer.denied("one of the seven others", &["VG201", "24468 MiB"]);
        }
        s.wait_running(PLACES, 20);
        s.wait_top(node, "0.90");
        s.clear(node);
    }
}

#[test]
fn crash_what_was_created_before_is_counted_afterwards() {
    let s = Scenario::alone("crash");
    s.node(GpuNode::h100("crash-n1").slots(10));
    for name in ["a", "b", "c"] {
        s.create(&Pod::vllm(name, "0.30")).admitted(name);
        s.cluster.with_vramgate(|vramgate| {
            vramgate.kill();
            vramgate.start();
        });
    }
    s.create(&Pod::vllm("d", "0.30"))
        .denied("the fourth, three restarts later", &["VG201", "24468 MiB"]);
    s.wait_running(PLACES, 20);
    s.create(&Pod::vllm("d", "0.30"))
        .denied("the fourth, when all run", &["VG201", "24468 MiB"]);
}

/// What a killed process had reserved counts until its pods are found not to exist: never more than the places, and all
/// of them again once that is known.
#[test]
fn crash_in_the_middle_of_a_burst_keeps_the_budget() {
    let s = Scenario::alone("crash-burst");
    let node = "crash-burst-n1";
    s.node(GpuNode::h100(node).slots(10));
    for (round, delay) in [4, 12, 30, 80].into_iter().enumerate() {
        let answers = std::thread::scope(|scope| {
            let killer = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(delay));
                s.cluster.with_vramgate(|vramgate| {
                    vramgate.kill();
                    vramgate.start_with(&["--reservation-ttl", "2s"]);
                });
            });
            let answers = s.create_at_once(&ten(&format!("before{round}")));
            killer.join().unwrap();
            answers
        });
        let before = successes(&answers);
        assert!(
            before <= PLACES,
            "round {round}: {before} admitted around the kill"
        );
        assert_eq!(
            s.list().len(),
            before,
            "what was admitted exists, and nothing else"
        );
        // The rest of the places can be had, and at no time one more.
        let began = Instant::now();
        let mut after = 0;
        for wave in 0.. {
            let answers = s.create_at_once(&ten(&format!("after{round}-{wave}")));
            after += successes(&answers);
            assert_eq!(
                s.list().len(),
                before + after,
                "round {round}: what was admitted exists"
            );
            assert!(before + after <= PLACES, "round {round}: {before} and {after}");
            if before + after == PLACES {
                break;
            }
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "round {round}: only {before} and {after} could be had"
            );
            std::thread::sleep(Duration::from_millis(200));
        }
        progress(&format!(
            "crash-burst: killed after {delay} ms, {before} admitted before, {after} after, all within {:.1} s",
            began.elapsed().as_secs_f32()
        ));
        let refused = s.create_at_once(&ten(&format!("full{round}")));
        assert_eq!(successes(&refused), 0, "round {round}: one more than the places");
        s.wait_running(PLACES, 20);
        s.clear(node);
    }
    s.cluster.with_vramgate(|vramgate| {
        vramgate.kill();
        vramgate.start();
    });
}

fn successes(answers: &[Result<Answer, String>]) -> usize {
    let answered = answers.iter().flatten();
    answered.filter(|answer| answer.is_success()).count()
}

/// Quota is checked after the webhooks: each try of a ReplicaSet is admitted here and refused there.
#[test]
fn c06_tries_that_quota_refuses_do_not_fill_the_device() {
    let s = Scenario::new("c06");
    s.node(GpuNode::h100("c06-n1").slots(10));
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "one-gpu"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "1"}}});
    s.kubectl(&["apply", "-f", "-"], Some(&quota));
    s.wait_shown(&["get", "resourcequota", "one-gpu", "-o", "yaml"], &["used:"], 20);
    let deployment = manifests::deployment("greedy", 2, &Pod::vllm("greedy", "0.30").on(s.name));
    s.create_workload(&deployment, "")
        .admitted("two replicas, of which quota lets one through");
    s.wait_running(1, 20);
    s.wait_not_created(&["exceeded quota"], 20);
    // Another tenant asks for what is left beside one running pod and one pod that is being tried.
    let other = "c06-other";
    manifests::namespace(s.api(), other);
    let path = format!("/api/v1/namespaces/{other}/pods");
    let mut tenant = Pod::vllm("tenant", "0.30").on(s.name).to_json();
    // Its first tries come within milliseconds of each other, while each may still be on its way into the store for 100 ms.
    eventually("no more than one try is counted", 2, || {
        let dry = s.api().post(&format!("{path}?dryRun=All"), &tenant);
        dry.is_success().then_some(())
    });
    // The ReplicaSet goes on trying for a minute. It wants one more pod: never more than that, at any time from then on.
    let until = Instant::now() + Duration::from_mins(1);
    while Instant::now() < until {
        let dry = s.api().post(&format!("{path}?dryRun=All"), &tenant);
        dry.admitted("another tenant's pod while quota refuses the owner's");
        std::thread::sleep(Duration::from_millis(500));
    }
    assert_eq!(s.list().len(), 1, "quota holds");

    let answer = s.api().post(&path, &tenant);
    tenant["metadata"]["name"] = "second".into();
    let second = s.api().post(&path, &tenant);
    s.api().delete(&format!("/api/v1/namespaces/{other}"), 0);
    answer.admitted("another tenant's pod");
    assert!(
        second.is_success() || second.text().contains("VG201"),
        "{}",
        second.text()
    );
}
