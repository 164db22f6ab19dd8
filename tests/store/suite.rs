//! What every store of records must do. The one in memory and the one in the API server pass the same tests.

#![allow(dead_code, reason = "each test target uses a part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use vramgate::decision::{Operation, Question};
use vramgate::device::catalogue::Catalogue;
use vramgate::device::inventory;
use vramgate::engine::NoSources;
use vramgate::finding::Code;
use vramgate::ledger::{Ledger, Moment};
use vramgate::policy::{MissingFacts, PolicySet};
use vramgate::record::{DeviceRecord, Entry, NodeRecord, Taken};
use vramgate::server::{Clock, Decider, LedgerDecider, Recorder};
use vramgate::store::{Store, WriteError};
use vramgate::workload::Workload;

/// All of it, over a store without records of nodes whose names begin with `suite-`. Each may have a node of that name
/// where the store wants one.
pub(crate) async fn run(store: Arc<dyn Store>) {
    a_write_replaces_the_version_that_it_names_and_no_other(&*store).await;
    what_is_read_is_what_was_written(&*store).await;
    replicas_never_give_a_place_away_twice(store).await;
}

/// The nodes that [`run`] writes records of.
pub(crate) const NODES: [&str; 4] = ["suite-versions", "suite-fields", "suite-n0", "suite-n1"];

fn record(uid: &str) -> NodeRecord {
    NodeRecord {
        reservations: vec![entry(uid)],
        ..NodeRecord::default()
    }
}

fn entry(uid: &str) -> Entry {
    Entry {
        uid: uid.to_owned(),
        namespace: "team".to_owned(),
        name: "p".to_owned(),
        since: "2026-01-02T03:04:05Z".to_owned(),
        takes: vec![Taken {
            resource: "nvidia.com/gpu".to_owned(),
            slots: 1,
            shares_ppm: vec![300_000],
            ..Taken::default()
        }],
        ..Entry::default()
    }
}

async fn a_write_replaces_the_version_that_it_names_and_no_other(store: &dyn Store) {
    let node = NODES[0];
    assert_eq!(store.read(node).await.unwrap(), None);
    let first = store.write(node, &record("a"), None).await.unwrap();
    let is_conflict = |result: Result<_, WriteError>| matches!(result, Err(WriteError::Conflict { .. }));
    assert!(
        is_conflict(store.write(node, &record("b"), None).await.map(drop)),
        "there is one already"
    );
    assert_eq!(store.read(node).await.unwrap().as_ref(), Some(&first));
    let second = store
        .write(node, &record("b"), Some(&first.version))
        .await
        .unwrap();
    assert_ne!(first.version, second.version);
    assert!(
        is_conflict(
            store
                .write(node, &record("c"), Some(&first.version))
                .await
                .map(drop)
        ),
        "an old version"
    );
    assert!(
        is_conflict(store.remove(node, &first.version).await),
        "an old version"
    );
    assert_eq!(store.read(node).await.unwrap().as_ref(), Some(&second));
    store.remove(node, &second.version).await.unwrap();
    assert_eq!(store.read(node).await.unwrap(), None);
    assert!(
        is_conflict(
            store
                .write(node, &record("d"), Some(&second.version))
                .await
                .map(drop)
        ),
        "it is gone"
    );
    let again = store.write(node, &record("e"), None).await.unwrap();
    assert!(
        again.version != first.version && again.version != second.version,
        "no version comes again"
    );
    store.remove(node, &again.version).await.unwrap();
}

async fn what_is_read_is_what_was_written(store: &dyn Store) {
    let node = NODES[1];
    let mut holder = entry("h");
    holder.controller = Some("c".to_owned());
    holder.workload = Some(("Deployment".to_owned(), "d".to_owned()));
    holder.moves = 3;
    holder.raised = vec![Taken {
        resource: "nvidia.com/mig-1g.10gb.shared".to_owned(),
        slots: 2,
        shares_ppm: vec![400_000, 1],
        everywhere_ppm: vec![7],
        tenant: Some("t".to_owned()),
        ..Taken::default()
    }];
    let written = NodeRecord {
        devices: vec![DeviceRecord {
            resource: "nvidia.com/gpu".to_owned(),
            devices: 2,
            budget_ppm: 900_000,
            promised_ppm: 700_001,
            evidence: "any".to_owned(),
            ..DeviceRecord::default()
        }],
        holders: vec![holder],
        reservations: (0..200).map(|index| entry(&format!("u{index}"))).collect(),
        ..NodeRecord::default()
    };
    let stored = store.write(node, &written, None).await.unwrap();
    assert_eq!(stored.record, written);
    assert_eq!(store.read(node).await.unwrap().unwrap(), stored);
    store.remove(node, &stored.version).await.unwrap();
}

fn node(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {
            "nvidia.com/gpu.product": "NVIDIA-L40S-SHARED", "nvidia.com/gpu.memory": "46068",
            "nvidia.com/gpu.count": "1", "nvidia.com/gpu.replicas": "8",
            "nvidia.com/gpu.sharing-strategy": "time-slicing",
        }},
        "status": {
            "capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "8"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

pub(crate) fn pod(uid: &str, fraction: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": uid, "namespace": "team", "uid": uid},
        "spec": {"containers": [{"name": "c", "image": "vllm/vllm-openai:v0.20.0",
            "args": ["--model", "m", "--gpu-memory-utilization", fraction],
            "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
    })
}

pub(crate) fn create(uid: &str, fraction: &str) -> Question {
    Question {
        operation: Operation::Create,
        workload: Workload::read(&pod(uid, fraction)).unwrap().unwrap(),
        old: None,
        namespace_labels: BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), "team".to_owned())]),
        by_node: false,
        scale_only: false,
        dry_run: false,
    }
}

/// An UPDATE of its image, in place.
pub(crate) fn update(uid: &str, old: &str, new: &str) -> Question {
    Question {
        operation: Operation::Update,
        old: Workload::read(&pod(uid, old)).unwrap(),
        ..create(uid, new)
    }
}

/// A replica that has seen nothing but the nodes.
pub(crate) fn replica(store: Arc<dyn Store>) -> (Arc<Mutex<Ledger>>, Arc<Recorder>, Arc<LedgerDecider>) {
    let mut ledger = Ledger::new(Arc::new(PolicySet::built_in()));
    for name in &NODES[2..] {
        let node = serde_json::from_value(node(name)).unwrap();
        ledger.set_node(inventory::read(&node, MissingFacts::Exclusive, Catalogue::embedded()).unwrap());
    }
    let ledger = Arc::new(Mutex::new(ledger));
    let recorder = Arc::new(Recorder::new(ledger.clone(), store, Arc::new(|| Moment(0))));
    let decider = LedgerDecider::new(ledger.clone(), Clock::start()).with_recorder(recorder.clone());
    (ledger, recorder, Arc::new(decider))
}

/// Two replicas, two nodes with room for three each, twenty pods at once: six are admitted, and the records hold them.
async fn replicas_never_give_a_place_away_twice(store: Arc<dyn Store>) {
    let replicas = [replica(store.clone()), replica(store.clone())];
    let requests = (0..20_usize).map(|index| {
        let decider = replicas[index % 2].2.clone();
        async move {
            let until = Instant::now() + Duration::from_secs(20);
            let uid = format!("suite-{index}");
            (
                uid.clone(),
                decider.decide(create(&uid, "0.28"), &NoSources, until).await,
            )
        }
    });
    let mut admitted: Vec<String> = Vec::new();
    for (uid, decision) in futures::future::join_all(requests).await {
        if decision.verdict.admit {
            admitted.push(uid);
        } else {
            assert_eq!(
                decision.verdict.findings[0].code,
                Code::Vg201,
                "{:?}",
                decision.verdict.findings
            );
        }
    }
    let mut recorded: Vec<String> = Vec::new();
    for name in &NODES[2..] {
        let stored = store.read(name).await.unwrap().unwrap();
        assert_eq!(stored.record.entries().count(), 3, "{name}");
        assert_eq!(stored.record.devices[0].promised_ppm, 840_000);
        recorded.extend(stored.record.entries().map(|entry| entry.uid.clone()));
    }
    admitted.sort();
    recorded.sort();
    assert_eq!(admitted, recorded);
    // They are gone again, and a round of housekeeping says so.
    for (ledger, recorder, _) in &replicas {
        for uid in &admitted {
            ledger.lock().unwrap().release(uid);
        }
        recorder.keep_records().await;
    }
    for name in &NODES[2..] {
        let stored = store.read(name).await.unwrap().unwrap();
        assert_eq!(stored.record.entries().count(), 0, "{name}");
    }
}
