//! What a record that replicas share costs a review.
//!
//! ```text
//! cargo bench --bench ledger
//! ```
//!
//! Reviews that reserve, so many at a time, against a store in memory whose writes take two milliseconds, as one of the
//! API server does: requests a second, writes for each request, and how long a request waits. Nothing is ever refused:
//! each request's pod goes again once it is admitted. Then the same for one request at a time as a ratio to one write.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::float_arithmetic,
    clippy::cast_precision_loss,
    clippy::indexing_slicing,
    reason = "a bench prints, and its figures are measurements"
)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use serde_json::json;
use vramgate::decision::{Operation, Question};
use vramgate::device::catalogue::Catalogue;
use vramgate::device::inventory;
use vramgate::engine::NoSources;
use vramgate::ledger::{Ledger, Moment};
use vramgate::policy::{MissingFacts, PolicySet};
use vramgate::record::NodeRecord;
use vramgate::server::{Clock, Decider, LedgerDecider, Recorder};
use vramgate::store::memory::{Fault, Weather};
use vramgate::store::{MemoryStore, Store, Version};
use vramgate::workload::Workload;

/// How long the store takes for a write.
const WRITE: Duration = Duration::from_millis(2);
/// How long each row is measured.
const ROW: Duration = Duration::from_secs(2);
const SLOTS: u32 = 512;

struct TwoMilliseconds;

impl Weather for TwoMilliseconds {
    fn before(&self) -> BoxFuture<'_, Fault> {
        Box::pin(async {
            tokio::time::sleep(WRITE).await;
            Fault::None
        })
    }

    fn after(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

fn ledger(nodes: usize) -> Ledger {
    let mut ledger = Ledger::new(Arc::new(PolicySet::built_in()));
    for index in 0..nodes {
        let node = json!({
            "metadata": {"name": format!("n{index}"), "labels": {
                "nvidia.com/gpu.product": "NVIDIA-L40S-SHARED", "nvidia.com/gpu.memory": "4000000",
                "nvidia.com/gpu.count": "1", "nvidia.com/gpu.replicas": SLOTS.to_string(),
                "nvidia.com/gpu.sharing-strategy": "time-slicing",
            }},
            "status": {
                "capacity": {"nvidia.com/gpu": SLOTS.to_string()},
                "allocatable": {"nvidia.com/gpu": SLOTS.to_string()},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        let node = serde_json::from_value(node).unwrap();
        ledger.set_node(inventory::read(&node, MissingFacts::Exclusive, Catalogue::embedded()).unwrap());
    }
    ledger
}

/// So small a part of so large a device that 256 of them are far from the budget.
fn question(uid: &str) -> Question {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": uid, "namespace": "team", "uid": uid},
        "spec": {"containers": [{"name": "c", "image": "tensorflow/serving:2.16.1-gpu",
            "args": ["--model_name=m", "--per_process_gpu_memory_fraction=0.001"],
            "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
    });
    Question {
        operation: Operation::Create,
        workload: Workload::read(&pod).unwrap().unwrap(),
        old: None,
        namespace_labels: BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), "team".to_owned())]),
        by_node: false,
        scale_only: false,
        dry_run: false,
    }
}

struct Row {
    requests: usize,
    writes: u64,
    conflicts: u64,
    waits: Vec<Duration>,
    elapsed: Duration,
    refused: usize,
}

async fn measure(replicas: usize, concurrency: usize) -> Row {
    let store = Arc::new(MemoryStore::with_weather(Arc::new(TwoMilliseconds)));
    let sides: Vec<_> = (0..replicas)
        .map(|_| {
            let ledger = Arc::new(Mutex::new(ledger(1)));
            let recorder = Arc::new(Recorder::new(
                ledger.clone(),
                store.clone(),
                Arc::new(|| Moment(0)),
            ));
            let decider = LedgerDecider::new(ledger, Clock::start()).with_recorder(recorder.clone());
            (recorder, Arc::new(decider))
        })
        .collect();
    let count = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    let clients = (0..concurrency).map(|client| {
        let decider = sides[client % replicas].1.clone();
        let count = count.clone();
        tokio::spawn(async move {
            let (mut waits, mut refused) = (Vec::new(), 0);
            while started.elapsed() < ROW {
                let uid = format!("u{}", count.fetch_add(1, Ordering::Relaxed));
                let question = question(&uid);
                let asked = Instant::now();
                let until = tokio::time::Instant::now() + Duration::from_secs(10);
                let decision = decider.decide(question, &NoSources, until).await;
                waits.push(asked.elapsed());
                refused += usize::from(!decision.verdict.admit);
                decider.release(&uid);
            }
            (waits, refused)
        })
    });
    let mut row = Row {
        requests: 0,
        writes: 0,
        conflicts: 0,
        waits: Vec::new(),
        elapsed: Duration::ZERO,
        refused: 0,
    };
    for client in clients.collect::<Vec<_>>() {
        let (waits, refused) = client.await.unwrap();
        row.waits.extend(waits);
        row.refused += refused;
    }
    row.elapsed = started.elapsed();
    row.requests = row.waits.len();
    row.writes = store.writes();
    row.conflicts = sides
        .iter()
        .map(|(recorder, _)| recorder.tally().conflicts.load(Ordering::Relaxed))
        .sum();
    row.waits.sort_unstable();
    row
}

fn at(sorted: &[Duration], percent: usize) -> f64 {
    sorted[(sorted.len() - 1) * percent / 100].as_secs_f64() * 1e3
}

async fn one_write() -> Vec<Duration> {
    let store = MemoryStore::with_weather(Arc::new(TwoMilliseconds));
    let (record, mut over) = (NodeRecord::default(), None::<Version>);
    let mut waits = Vec::new();
    let started = Instant::now();
    while started.elapsed() < ROW {
        let asked = Instant::now();
        over = Some(store.write("n0", &record, over.as_ref()).await.unwrap().version);
        waits.push(asked.elapsed());
    }
    waits.sort_unstable();
    waits
}

fn main() {
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("started without --bench: nothing is measured");
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let write = one_write().await;
        println!(
            "one write alone: p50 {:.2} ms, p99 {:.2} ms",
            at(&write, 50),
            at(&write, 99)
        );
        println!("replicas concurrency requests/s writes/request conflicts p50 ms p99 ms");
        let mut alone = 0.0;
        for replicas in [1, 2] {
            for concurrency in [1, 2, 4, 8, 16, 32, 64, 128, 256] {
                if concurrency < replicas {
                    continue;
                }
                let row = measure(replicas, concurrency).await;
                assert_eq!(row.refused, 0, "nothing is to be refused here");
                let (p50, p99) = (at(&row.waits, 50), at(&row.waits, 99));
                if replicas == 1 && concurrency == 1 {
                    alone = p50;
                }
                println!(
                    "{replicas:8} {concurrency:11} {:10.0} {:14.3} {:9} {p50:6.2} {p99:6.2}",
                    row.requests as f64 / row.elapsed.as_secs_f64(),
                    row.writes as f64 / row.requests as f64,
                    row.conflicts,
                );
            }
        }
        println!(
            "a verdict with reservation, one at a time, against one write: p50 {:.2}x",
            alone / at(&write, 50)
        );
    });
}
