//! Records that replicas share, against an API server of our own on loopback: compare-and-swap, answers that do not come,
//! a watch that is late, and the election of the replica that keeps house.

#![cfg(feature = "server")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at once"
)]
#![allow(missing_docs, reason = "a test is no library")]
#![allow(
    dead_code,
    reason = "the server and the recorder are those of tests/cluster_watch.rs"
)]

#[path = "cluster_watch/api_server.rs"]
mod api_server;
#[path = "cluster_watch/recorder.rs"]
mod recorder;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::oneshot;
use vramgate::cluster::{
    Candidate, Cluster, Freshness, KubernetesStore, Leadership, Metrics, Term, Timing, Watched,
};
use vramgate::ledger::{Ledger, Moment};
use vramgate::record::{Entry, NodeRecord, Taken};
use vramgate::store::{Store, Stored, Version, WriteError};

use api_server::ApiServer;
use recorder::ByLabel;

fn record(pods: &[&str]) -> NodeRecord {
    let entry = |name: &&str| Entry {
        uid: format!("uid-{name}"),
        namespace: "team".to_owned(),
        name: (*name).to_owned(),
        since: "2026-01-02T03:04:05Z".to_owned(),
        takes: vec![Taken {
            resource: "nvidia.com/gpu".to_owned(),
            slots: 1,
            shares_ppm: vec![300_000],
            ..Taken::default()
        }],
        ..Entry::default()
    };
    NodeRecord {
        reservations: pods.iter().map(entry).collect(),
        ..NodeRecord::default()
    }
}

struct Running {
    api: ApiServer,
    ledger: Arc<Mutex<Ledger>>,
    freshness: Arc<Freshness>,
    metrics: Metrics,
    store: KubernetesStore,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Running {
    async fn start(api: ApiServer) -> Self {
        let timing = Timing {
            first_retry: Duration::from_millis(10),
            longest_retry: Duration::from_millis(100),
            absent_retry: Duration::from_millis(30),
            record: Duration::from_millis(300),
            ..Timing::default()
        };
        let ledger = Arc::new(Mutex::new(Ledger::new(Arc::default())));
        let clock = Arc::new(|| Moment(1_000_000));
        let client = api.client().await;
        let mut cluster = Cluster::new(client, Arc::clone(&ledger), Arc::new(ByLabel), clock, timing);
        let store = cluster.share_records();
        let (freshness, metrics) = (cluster.freshness(), cluster.metrics());
        let task = tokio::spawn(async move {
            let stopped = cluster.run().await;
            panic!("{stopped}");
        });
        Self {
            api,
            ledger,
            freshness,
            metrics,
            store,
            task,
        }
    }

    /// With one node, `gpu-1`.
    async fn ready() -> Self {
        let api = ApiServer::start().await;
        api.set(
            "nodes",
            json!({"metadata": {"name": "gpu-1", "uid": "uid-of-gpu-1"},
            "status": {"capacity": {"nvidia.com/gpu": "1"}, "allocatable": {"nvidia.com/gpu": "1"}}}),
        );
        let running = Self::start(api).await;
        running.until_ready().await;
        running
    }

    async fn until_ready(&self) {
        tokio::time::timeout(Duration::from_secs(5), self.freshness.ready())
            .await
            .expect("not ready in time");
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap()
    }

    /// Counts what this replica wrote or read itself, as its recorder does.
    fn count(&self, stored: &Stored) {
        self.ledger()
            .set_record("gpu-1", &stored.record, &stored.version.0, Moment(1_000_000));
    }

    fn version(&self) -> Option<String> {
        self.ledger().record_version("gpu-1").map(str::to_owned)
    }

    async fn until_version(&self, what: &str, wanted: &Stored) {
        until(what, || self.version().as_ref() == Some(&wanted.version.0)).await;
    }

    /// Whether exactly these pods are counted.
    fn counts_pods(&self, pods: &[&str]) -> bool {
        let ledger = self.ledger();
        ["a", "b", "c", "d"]
            .iter()
            .all(|name| ledger.holds(&format!("uid-{name}")) == pods.contains(name))
    }

    fn counts(&self, line: &str) -> bool {
        let mut registry = prometheus_client::registry::Registry::with_prefix("vramgate");
        self.metrics.register(&mut registry, Arc::clone(&self.freshness));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text.lines().any(|known| known == line)
    }
}

async fn until(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(5), "{what}: not so in time");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_record_is_made_changed_and_removed_over_the_version_that_was_counted() {
    let running = Running::ready().await;
    let store = &running.store;
    assert_eq!(store.read("gpu-1").await.unwrap(), None);
    let first = store.write("gpu-1", &record(&["a"]), None).await.unwrap();
    let object = running.api.object("gpuledgers", "/gpu-1").unwrap();
    assert_eq!(
        object["metadata"]["ownerReferences"],
        json!([{"apiVersion": "v1", "kind": "Node", "name": "gpu-1", "uid": "uid-of-gpu-1"}])
    );
    assert_eq!(object["status"]["summary"]["reservations"], 1);
    let second = store
        .write("gpu-1", &record(&["a", "b"]), Some(&first.version))
        .await
        .unwrap();
    assert_eq!(store.read("gpu-1").await.unwrap(), Some(second.clone()));
    // Who has not counted the second must not write over it, nor make the first once more.
    for over in [Some(&first.version), None] {
        let error = store.write("gpu-1", &record(&["c"]), over).await.unwrap_err();
        assert!(matches!(error, WriteError::Conflict { .. }), "{error}");
    }
    let error = store.remove("gpu-1", &first.version).await.unwrap_err();
    assert!(matches!(error, WriteError::Conflict { .. }), "{error}");
    store.remove("gpu-1", &second.version).await.unwrap();
    assert_eq!(store.read("gpu-1").await.unwrap(), None);
    let error = store
        .write("gpu-1", &record(&[]), Some(&second.version))
        .await
        .unwrap_err();
    assert!(matches!(error, WriteError::Conflict { .. }), "{error}");
    for (call, result, times) in [
        ("write", "conflict", 1),
        ("create", "conflict", 1),
        ("write", "done", 2),
    ] {
        let line = format!("vramgate_ledger_calls_total{{call=\"{call}\",result=\"{result}\"}} {times}");
        assert!(running.counts(&line), "{line}");
    }
}

#[tokio::test]
async fn what_cannot_have_been_written_is_told_from_what_may_have_been() {
    let running = Running::ready().await;
    let (api, store) = (&running.api, &running.store);
    let error = store
        .write("no-such-node", &record(&["a"]), None)
        .await
        .unwrap_err();
    assert!(matches!(error, WriteError::Refused { .. }), "{error}");
    let error = store.write("../pods/x", &record(&["a"]), None).await.unwrap_err();
    assert!(matches!(error, WriteError::Refused { .. }), "{error}");
    let stored = store.write("gpu-1", &record(&["a"]), None).await.unwrap();
    for (code, is_refused) in [(403, true), (422, true), (429, true), (500, false), (503, false)] {
        api.refuse("PUT gpuledgers", Some(code));
        let error = store
            .write("gpu-1", &record(&["b"]), Some(&stored.version))
            .await
            .unwrap_err();
        assert_eq!(
            matches!(error, WriteError::Refused { .. }),
            is_refused,
            "{code}: {error}"
        );
        assert_eq!(
            matches!(error, WriteError::Unknown { .. }),
            !is_refused,
            "{code}: {error}"
        );
    }
    api.refuse("PUT gpuledgers", None);
    api.slow("gpu-1", Duration::from_secs(1));
    let began = Instant::now();
    let error = store
        .write("gpu-1", &record(&["b"]), Some(&stored.version))
        .await
        .unwrap_err();
    assert!(matches!(error, WriteError::Unknown { .. }), "{error}");
    assert!(
        began.elapsed() < Duration::from_millis(900),
        "{:?}",
        began.elapsed()
    );
    let error = store.read("gpu-1").await.unwrap_err();
    assert!(
        error.to_string().contains("did not answer within 300 ms"),
        "{error}"
    );
}

#[tokio::test]
async fn nobody_there_means_that_nothing_was_written() {
    let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "it", "user": {}}]});
    let path = std::env::temp_dir().join(format!("vramgate-nobody-{}", std::process::id()));
    std::fs::write(&path, text.to_string()).unwrap();
    let client = vramgate::cluster::connect(Some(&path)).await.unwrap();
    std::fs::remove_file(path).unwrap();
    let clock = Arc::new(|| Moment(0));
    let ledger = Arc::new(Mutex::new(Ledger::new(Arc::default())));
    let mut cluster = Cluster::new(client, ledger, Arc::new(ByLabel), clock, Timing::default());
    let store = cluster.share_records();
    let error = store
        .write("gpu-1", &record(&["a"]), Some(&Version("7".to_owned())))
        .await
        .unwrap_err();
    assert!(matches!(error, WriteError::Refused { .. }), "{error}");
}

#[tokio::test]
async fn without_its_definition_it_is_not_ready_and_says_how_to_install_it() {
    let api = ApiServer::start().await;
    api.refuse("gpuledgers", Some(404));
    let running = Running::start(api).await;
    // Pods wait for the records: who was admitted for another node than its own is counted by both.
    until("only the records and pods are missing", || {
        running.freshness.waiting_for() == [Watched::Pods, Watched::GpuLedgers]
    })
    .await;
    until("the remedy is told", || {
        running
            .freshness
            .reasons()
            .join("; ")
            .contains("vramgate crds | kubectl apply")
    })
    .await;
    let error = running.store.read("gpu-1").await.unwrap_err();
    assert!(error.to_string().contains("vramgate crds"), "{error}");
    running.api.refuse("gpuledgers", None);
    running.until_ready().await;
}

#[tokio::test]
async fn the_records_of_others_are_followed_and_own_ones_are_not_taken_back() {
    let running = Running::ready().await;
    let (api, store) = (&running.api, &running.store);
    // What another replica writes.
    let first = store.write("gpu-1", &record(&["a"]), None).await.unwrap();
    running.until_version("the watch tells it", &first).await;
    assert!(running.counts_pods(&["a"]));

    // The watch hangs behind: what this replica writes meanwhile is counted at once.
    api.hold("gpuledgers", true);
    let second = store
        .write("gpu-1", &record(&["a", "b"]), Some(&first.version))
        .await
        .unwrap();
    let third = store
        .write("gpu-1", &record(&["b"]), Some(&second.version))
        .await
        .unwrap();
    running.count(&third);
    assert!(running.counts_pods(&["b"]));
    api.hold("gpuledgers", false);
    // Made, written, and both that were held back.
    until("the watch has told it", || {
        running.counts("vramgate_watch_events_total{watch=\"gpuledgers\",type=\"applied\"} 4")
    })
    .await;
    assert!(running.counts_pods(&["b"]) && running.version() == Some(third.version.0.clone()));
    let fourth = store
        .write("gpu-1", &record(&["b", "c"]), Some(&third.version))
        .await
        .unwrap();
    running.until_version("the watch goes on", &fourth).await;
    // A late answer to an own write is older than what the watch told.
    running.count(&third);
    assert!(running.counts_pods(&["b", "c"]));

    store.remove("gpu-1", &fourth.version).await.unwrap();
    until("it is gone", || running.version().is_none()).await;
    assert!(
        running.counts_pods(&["b", "c"]),
        "a record that a hand removed frees nobody's memory"
    );
    let again = store.write("gpu-1", &record(&["d"]), None).await.unwrap();
    running.until_version("made again", &again).await;
}

#[tokio::test]
async fn a_list_after_a_lost_watch_notes_what_is_gone() {
    let running = Running::ready().await;
    let (api, store) = (&running.api, &running.store);
    let stored = store.write("gpu-1", &record(&["a"]), None).await.unwrap();
    running.until_version("the watch tells it", &stored).await;
    api.delete_unseen("gpuledgers", "", "gpu-1");
    api.expire("gpuledgers", true);
    api.cut("gpuledgers", false);
    until("the list does not name it", || running.version().is_none()).await;
}

#[tokio::test]
async fn a_list_does_not_take_away_what_was_written_while_it_was_read() {
    let running = Running::ready().await;
    let (api, store) = (&running.api, &running.store);
    let stored = store.write("gpu-1", &record(&["a"]), None).await.unwrap();
    running.until_version("the watch tells it", &stored).await;
    api.delete_unseen("gpuledgers", "", "gpu-1");
    // The list is older than what this process writes now, and says that there is none.
    api.slow_list("gpuledgers", Some(Duration::from_millis(300)));
    api.expire("gpuledgers", true);
    api.cut("gpuledgers", false);
    let lists = api.requests("LIST gpuledgers");
    until("a list begins", || api.requests("LIST gpuledgers") > lists).await;
    api.hold("gpuledgers", true);
    let again = store.write("gpu-1", &record(&["b"]), None).await.unwrap();
    running.count(&again);
    until("the list is read", || {
        running.counts("vramgate_lists_total{watch=\"gpuledgers\"} 2")
    })
    .await;
    assert_eq!(running.version(), Some(again.version.0));
    assert!(running.ledger().holds("uid-b"));
}

#[tokio::test]
async fn a_record_that_cannot_be_read_frees_nothing_and_is_named() {
    let running = Running::ready().await;
    let stored = running.store.write("gpu-1", &record(&["a"]), None).await.unwrap();
    running.until_version("the watch tells it", &stored).await;
    running.api.set(
        "gpuledgers",
        json!({"metadata": {"name": "gpu-1"}, "status": {"holders": [{"takes": [{"slots": -1}]}]}}),
    );
    until("it is counted", || {
        running.counts("vramgate_unreadable_objects_total{watch=\"gpuledgers\"} 1")
    })
    .await;
    assert!(running.counts_pods(&["a"]) && running.version() == Some(stored.version.0));
    let error = running.store.read("gpu-1").await.unwrap_err().to_string();
    assert!(
        error.contains("status.holders[0].takes[0].slots") && error.contains("delete the GpuLedger"),
        "{error}"
    );
}

/// A replica that stands for election.
struct Replica {
    leadership: Leadership,
    stop: Option<oneshot::Sender<()>>,
    task: tokio::task::JoinHandle<()>,
}

/// A Lease knows whole seconds.
const TERM: Term = Term {
    lease: Duration::from_secs(1),
    renew: Duration::from_millis(600),
    retry: Duration::from_millis(60),
};

impl Replica {
    async fn start(api: &ApiServer) -> Self {
        let candidate = Candidate::new(api.client().await, TERM);
        let leadership = candidate.leadership();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(candidate.run(async {
            let _ = stopped.await;
        }));
        Self {
            leadership,
            stop: Some(stop),
            task,
        }
    }

    async fn leads(&mut self) {
        tokio::time::timeout(Duration::from_secs(5), self.leadership.gained())
            .await
            .expect("it does not lead in time");
    }
}

#[tokio::test]
async fn one_of_two_leads_and_the_other_follows_it() {
    let api = ApiServer::start().await;
    let mut first = Replica::start(&api).await;
    first.leads().await;
    let mut second = Replica::start(&api).await;
    tokio::time::sleep(TERM.lease + TERM.retry * 3).await;
    assert!(first.leadership.is_leader() && !second.leadership.is_leader());

    // Told to end, it gives the Lease back: nobody waits for its end.
    let began = Instant::now();
    first.stop.take().unwrap().send(()).unwrap();
    second.leads().await;
    assert!(began.elapsed() < TERM.lease, "{:?}", began.elapsed());
    assert!(!first.leadership.is_leader());

    // Ended without a word, it is succeeded when its Lease is over, and not before.
    let mut third = Replica::start(&api).await;
    tokio::time::sleep(TERM.retry * 3).await;
    second.task.abort();
    let began = Instant::now();
    third.leads().await;
    let waited = began.elapsed();
    assert!(
        waited + TERM.retry * 3 > TERM.lease && waited < TERM.lease * 2,
        "{waited:?}"
    );
    let lease = api.object("leases", "default/vramgate").unwrap();
    assert_eq!(lease["spec"]["leaseTransitions"], 3);
}

#[tokio::test]
async fn a_leader_that_cannot_renew_stops_before_another_can_begin() {
    let api = ApiServer::start().await;
    let mut first = Replica::start(&api).await;
    first.leads().await;
    let second = Replica::start(&api).await;
    api.refuse("PUT leases", Some(503));
    let began = Instant::now();
    until("it gives up", || !first.leadership.is_leader()).await;
    assert!(began.elapsed() < TERM.renew + TERM.retry, "{:?}", began.elapsed());
    assert!(!second.leadership.is_leader());
    api.refuse("PUT leases", None);
    until("one of them leads again", || {
        first.leadership.is_leader() || second.leadership.is_leader()
    })
    .await;
    assert_ne!(first.leadership.is_leader(), second.leadership.is_leader());
}
