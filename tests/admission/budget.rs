//! The real decision behind the wire: many at once, and exactly as many as fit.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use vramgate::server::LedgerDecider;
use vramgate::server::backend::Clock;

use crate::client::{Answered, validate};
use crate::fake::{Running, pod_review};
use crate::kit::{self, Cluster, H100};

fn review(name: &str, dry_run: bool) -> Value {
    let mut review = pod_review(name);
    let uid = review["request"]["object"]["metadata"]["uid"].take();
    review["request"]["object"] = kit::pod(name, "0.28");
    review["request"]["object"]["metadata"]["uid"] = uid;
    review["request"]["dryRun"] = json!(dry_run);
    review
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_ten_at_once_exactly_as_many_are_admitted_as_fit() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 1, 10);
    let ledger = Arc::new(Mutex::new(cluster.ledger));
    let server = Running::over(Arc::new(LedgerDecider::new(ledger.clone(), Clock::start()))).await;
    let shared = server.trust.http2(server.address).await;
    let ask = |name: String, dry_run: bool| {
        let (trust, address, mut shared) = (server.trust.clone(), server.address, shared.clone());
        tokio::spawn(async move {
            let review = review(&name, dry_run);
            let answer = if name.ends_with('1') {
                trust.ask(address, &review).await
            } else {
                Answered::of(shared.send_request(validate(&review)).await.unwrap()).await
            };
            (name, answer.review())
        })
    };

    let trials: Vec<_> = (0..10)
        .map(|number| ask(format!("trial-{number}"), true))
        .collect();
    for trial in trials {
        assert_eq!(
            trial.await.unwrap().1["allowed"],
            true,
            "a dry run takes no place"
        );
    }
    assert_eq!(ledger.lock().unwrap().reserved(), 0);

    let asked: Vec<_> = (0..10)
        .map(|number| ask(format!("chat-{number}"), false))
        .collect();
    let mut admitted = BTreeSet::new();
    for one in asked {
        let (name, answer) = one.await.unwrap();
        if answer["allowed"] == true {
            admitted.insert(name);
        } else {
            let text = answer["status"]["message"].as_str().unwrap();
            assert!(
                text.starts_with("VG201: ") && text.lines().next().unwrap().len() < 256,
                "{text}"
            );
            assert_eq!(answer["auditAnnotations"]["verdict"], "deny");
        }
    }
    assert_eq!(admitted.len(), 3, "{admitted:?}");
    assert_eq!(ledger.lock().unwrap().reserved(), 3);
}

#[tokio::test]
async fn a_ledger_whose_lock_was_poisoned_still_answers() {
    let mut cluster = Cluster::new();
    cluster.gpu_node("gpu-1", "NVIDIA-H100-80GB-HBM3", H100, 1, 4);
    let ledger = Arc::new(Mutex::new(cluster.ledger));
    let poisoned = ledger.clone();
    let panicked = std::thread::spawn(move || {
        let _held = poisoned.lock().unwrap();
        panic!("the test wants a poisoned lock");
    });
    assert!(panicked.join().is_err() && ledger.is_poisoned());
    let server = Running::over(Arc::new(LedgerDecider::new(ledger.clone(), Clock::start()))).await;
    let answer = server
        .trust
        .ask(server.address, &review("chat", false))
        .await
        .review();
    assert_eq!(answer["allowed"], true, "{answer}");
    assert!(!ledger.is_poisoned());
}
