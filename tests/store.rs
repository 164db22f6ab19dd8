//! The store of records in memory: what every store must do, and what only this one can be made to do.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends at the first surprise"
)]

#[path = "store/suite.rs"]
mod suite;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;
use vramgate::engine::NoSources;
use vramgate::finding::Code;
use vramgate::message;
use vramgate::record::{Entry, NodeRecord, Taken};
use vramgate::server::Decider;
use vramgate::store::memory::{Fault, Weather};
use vramgate::store::{MemoryStore, Store};

#[tokio::test]
async fn the_store_in_memory_is_a_store() {
    suite::run(Arc::new(MemoryStore::new())).await;
}

/// Each call takes this long, and goes wrong so.
struct Slow(Duration, Fault);

impl Weather for Slow {
    fn before(&self) -> BoxFuture<'_, Fault> {
        Box::pin(async {
            tokio::time::sleep(self.0).await;
            self.1
        })
    }

    fn after(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

#[tokio::test(start_paused = true)]
async fn all_who_wait_for_a_node_share_a_write() {
    let store = Arc::new(MemoryStore::with_weather(Arc::new(Slow(
        Duration::from_millis(2),
        Fault::None,
    ))));
    let (_, recorder, decider) = suite::replica(store.clone());
    let started = Instant::now();
    let requests = (0..14).map(|index| {
        let decider = decider.clone();
        async move {
            let until = Instant::now() + Duration::from_secs(2);
            decider
                .decide(suite::create(&format!("u{index}"), "0.10"), &NoSources, until)
                .await
        }
    });
    let decisions = futures::future::join_all(requests).await;
    assert!(decisions.iter().all(|decision| decision.verdict.admit));
    assert!(
        store.writes() <= 4,
        "{} writes for 14 pods on two nodes",
        store.writes()
    );
    assert!(
        started.elapsed() <= Duration::from_millis(6),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(recorder.tally().recorded.load(Ordering::Relaxed), 14);
    assert_eq!(recorder.tally().added.load(Ordering::Relaxed), 14);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_is_a_denial_that_says_so() {
    for fault in [Fault::LostBefore, Fault::LostAfter, Fault::Late, Fault::Conflict] {
        let weather = Arc::new(Slow(Duration::from_millis(50), fault));
        let store = Arc::new(MemoryStore::with_weather(weather));
        let (ledger, _, decider) = suite::replica(store.clone());
        let until = Instant::now() + Duration::from_millis(2_400);
        let decision = decider
            .decide(suite::create("u", "0.30"), &NoSources, until)
            .await;
        assert!(
            Instant::now() <= until + Duration::from_millis(1),
            "{fault:?} hangs"
        );
        assert!(
            !decision.verdict.admit && decision.reserved.is_none(),
            "{fault:?}"
        );
        assert_eq!(decision.verdict.findings[0].code, Code::Vg902);
        let text = message::refusal(&decision.verdict);
        let line = text.lines().next().unwrap();
        assert_eq!(
            line,
            "VG902: the place that was found on node suite-n0 could not be recorded for all replicas: the store did \
             not answer in time; nothing is reserved, try again"
        );
        assert!(line.len() < 256);
        assert!(!ledger.lock().unwrap().holds("u"), "{fault:?}: it was given back");
        // A write that arrives after all holds nobody for long: what this replica knows to be gone is left out.
        store.deliver_late();
        let calm = Arc::new(MemoryStore::new());
        for (node, stored) in store.records() {
            let stored = calm.put(&node, stored.record);
            let mut ledger = ledger.lock().unwrap();
            ledger.set_record(&node, &stored.record, "1000", vramgate::ledger::Moment(0));
            assert!(!ledger.holds("u"), "{fault:?}: an old record brings it back");
        }
    }
}

/// Refuses every write.
struct Forbidden;

impl Store for Forbidden {
    fn read<'a>(
        &'a self,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Option<vramgate::store::Stored>, vramgate::store::ReadError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn write<'a>(
        &'a self,
        node: &'a str,
        _: &'a NodeRecord,
        _: Option<&'a vramgate::store::Version>,
    ) -> BoxFuture<'a, Result<vramgate::store::Stored, vramgate::store::WriteError>> {
        Box::pin(std::future::ready(Err(vramgate::store::WriteError::Refused {
            node: node.to_owned(),
            reason: "forbidden; grant update on gpuledgers/status".to_owned(),
        })))
    }

    fn remove<'a>(
        &'a self,
        node: &'a str,
        _: &'a vramgate::store::Version,
    ) -> BoxFuture<'a, Result<(), vramgate::store::WriteError>> {
        Box::pin(std::future::ready(Err(vramgate::store::WriteError::Conflict {
            node: node.to_owned(),
        })))
    }
}

#[tokio::test]
async fn a_store_that_refuses_is_told_at_once() {
    let (ledger, _, decider) = suite::replica(Arc::new(Forbidden));
    let until = Instant::now() + Duration::from_mins(1);
    let decision = decider
        .decide(suite::create("u", "0.30"), &NoSources, until)
        .await;
    let text = message::refusal(&decision.verdict);
    assert!(
        text.contains("forbidden; grant update on gpuledgers/status; nothing is reserved"),
        "{text}"
    );
    assert!(!ledger.lock().unwrap().holds("u"));
}

#[tokio::test]
async fn whoever_gives_up_leaves_nothing_behind() {
    let store = Arc::new(MemoryStore::with_weather(Arc::new(Slow(
        Duration::from_secs(9),
        Fault::None,
    ))));
    let (ledger, _, decider) = suite::replica(store.clone());
    {
        let until = Instant::now() + Duration::from_mins(1);
        let mut waits = decider.decide(suite::create("u", "0.30"), &NoSources, until);
        assert!(futures::poll!(&mut waits).is_pending());
        assert!(ledger.lock().unwrap().holds("u"));
    }
    assert!(!ledger.lock().unwrap().holds("u"));
}

/// What a hand or a broken program may write. It must cost little, and count no less than it says.
#[tokio::test]
async fn rubbish_in_a_record_is_bounded_and_counts() {
    let taken = |shares: Vec<u64>, slots: u32| Taken {
        resource: "nvidia.com/gpu".to_owned(),
        slots,
        shares_ppm: shares,
        ..Taken::default()
    };
    let entry = |uid: &str, takes: Vec<Taken>| Entry {
        uid: uid.to_owned(),
        takes,
        ..Entry::default()
    };
    let records = [
        vec![entry("many", vec![taken(vec![1; 500_000], 1)])],
        vec![entry("huge", vec![taken(vec![u64::MAX; 3], u32::MAX)])],
        vec![entry("", vec![taken(vec![800_000], 1)])],
        vec![
            entry("twice", vec![taken(vec![10], 1)]),
            entry("twice", vec![taken(vec![800_000], 1)]),
        ],
        (0..5_000)
            .map(|index| entry(&format!("e{index}"), vec![taken(vec![1_000], 1)]))
            .collect(),
    ];
    let shared = Arc::new(AtomicUsize::new(0));
    for reservations in records {
        let (ledger, _, decider) = suite::replica(Arc::new(MemoryStore::new()));
        let many = reservations.len();
        let record = NodeRecord {
            reservations,
            ..NodeRecord::default()
        };
        for node in &suite::NODES[2..] {
            let mut record = record.clone();
            for entry in record
                .reservations
                .iter_mut()
                .filter(|entry| !entry.uid.is_empty())
            {
                entry.uid = format!("{}-{node}", entry.uid);
            }
            ledger
                .lock()
                .unwrap()
                .set_record(node, &record, "7", vramgate::ledger::Moment(0));
        }
        let mut last = record.clone();
        last.reservations.clear();
        let until = Instant::now() + Duration::from_millis(300);
        let decision = decider
            .decide(suite::create("u", "0.60"), &NoSources, until)
            .await;
        let devices = ledger.lock().unwrap().devices();
        let promised: Vec<u64> = devices.iter().map(|device| device.promised_share.ppm()).collect();
        assert!(
            !decision.verdict.admit,
            "{many} entries leave no room: {promised:?}"
        );
        // All of it goes as it came: nothing is counted that nobody holds.
        for node in &suite::NODES[2..] {
            ledger
                .lock()
                .unwrap()
                .set_record(node, &last, "8", vramgate::ledger::Moment(0));
        }
        for device in ledger.lock().unwrap().devices() {
            assert_eq!(
                (device.promised_share.ppm(), device.slots_taken),
                (0, 0),
                "{many} entries"
            );
        }
        shared.fetch_add(1, Ordering::Relaxed);
    }
    assert_eq!(shared.load(Ordering::Relaxed), 5);
}

/// A newer release knows more fields than this one: they survive being written by it.
#[tokio::test]
async fn fields_of_a_newer_release_survive() {
    let text = serde_json::json!({
        "devices": [{"resource": "nvidia.com/gpu", "devices": 1, "budgetPpm": 900_000, "promisedPpm": 300_000, "colour": "red"}],
        "holders": [],
        "reservations": [{"uid": "x", "namespace": "team", "name": "x", "since": "", "mood": {"good": true},
            "takes": [{"resource": "nvidia.com/gpu", "slots": 1, "sharesPpm": [300_000], "unit": "new"}]}],
        "format": 7,
    });
    let record: NodeRecord = serde_json::from_value(text).unwrap();
    let store = Arc::new(MemoryStore::new());
    let node = suite::NODES[2];
    let stored = store.put(node, record);
    let (ledger, _, decider) = suite::replica(store.clone());
    ledger.lock().unwrap().set_record(
        node,
        &stored.record,
        &stored.version.0,
        vramgate::ledger::Moment(0),
    );
    let until = Instant::now() + Duration::from_secs(2);
    // Least room first, so it goes to the same node.
    let decision = decider
        .decide(suite::create("u", "0.30"), &NoSources, until)
        .await;
    assert!(decision.verdict.admit);
    let written = serde_json::to_value(&store.records()[node].record).unwrap();
    assert_eq!(written["format"], 7);
    assert_eq!(written["devices"][0]["colour"], "red");
    let of_x = written["reservations"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["uid"] == "x")
        .unwrap();
    assert_eq!(of_x["mood"]["good"], true);
    assert_eq!(of_x["takes"][0]["unit"], "new");
    assert_eq!(written["reservations"].as_array().unwrap().len(), 2);
}

/// An image that takes more, in place: it is in the record before it is admitted, and no longer than it may come.
#[tokio::test]
async fn what_an_update_raises_is_recorded_until_it_is_seen_or_refused() {
    for is_stored in [true, false] {
        let store = Arc::new(MemoryStore::new());
        let (ledger, recorder, decider) = suite::replica(store.clone());
        let (other, _, other_decider) = suite::replica(store.clone());
        let until = || Instant::now() + Duration::from_secs(2);
        let tell = |ledger: &std::sync::Mutex<vramgate::ledger::Ledger>| {
            for (node, stored) in store.records() {
                ledger.lock().unwrap().set_record(
                    &node,
                    &stored.record,
                    &stored.version.0,
                    vramgate::ledger::Moment(5),
                );
            }
        };
        let see = |ledger: &std::sync::Mutex<vramgate::ledger::Ledger>, fraction: &str| {
            let mut pod = suite::pod("u", fraction);
            pod["spec"]["nodeName"] = serde_json::json!(suite::NODES[2]);
            ledger
                .lock()
                .unwrap()
                .set_pod(&serde_json::from_value(pod).unwrap(), &NoSources);
        };
        assert!(
            decider
                .decide(suite::create("u", "0.20"), &NoSources, until())
                .await
                .verdict
                .admit
        );
        see(&ledger, "0.20");
        see(&other, "0.20");
        let raise = suite::update("u", "0.20", "0.70");
        assert!(decider.decide(raise, &NoSources, until()).await.verdict.admit);
        let entry = || {
            store.records()[suite::NODES[2]]
                .record
                .entries()
                .next()
                .unwrap()
                .clone()
        };
        assert_eq!(entry().takes[0].shares_ppm, [200_000]);
        assert_eq!(entry().raised[0].shares_ppm, [700_000]);
        tell(&other);
        let room = suite::create("v", "0.30");
        let decision = other_decider
            .decide(room.clone(), &NoSources, Instant::now())
            .await;
        let on = |decision: &vramgate::server::Decision| decision.verdict.placement[0].node.clone();
        assert_eq!(on(&decision), suite::NODES[3], "the other replica counts it");
        other.lock().unwrap().release("v");
        if is_stored {
            see(&ledger, "0.70");
        } else {
            ledger
                .lock()
                .unwrap()
                .end_raises(vramgate::ledger::Moment(u64::MAX));
        }
        recorder.keep_records().await;
        let takes = if is_stored { 700_000 } else { 200_000 };
        assert_eq!(entry().takes[0].shares_ppm, [takes], "stored: {is_stored}");
        assert!(entry().raised.is_empty());
    }
}
