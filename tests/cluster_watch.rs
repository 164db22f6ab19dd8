//! The cluster room against an API server of our own on loopback: lists in pages, watches in chunks, bookmarks, versions
//! that are gone, connections that break, objects that do not decode.

#![cfg(feature = "server")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at once"
)]
#![allow(missing_docs, reason = "a test is no library")]

#[path = "cluster_watch/api_server.rs"]
#[allow(dead_code, reason = "some of it is for tests/gpu_ledgers.rs")]
mod api_server;
#[path = "cluster_watch/recorder.rs"]
mod recorder;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vramgate::cluster::{
    Appointment, Cluster, ConnectError, Freshness, Leadership, LookUpError, LookUps, Metrics, OverBudget,
    Reader, Refresh, Timing, Watched, connect,
};
use vramgate::engine::{LookUp, Sources};
use vramgate::ledger::{Moment, Stale};
use vramgate::policy::ConfigMapName;
use vramgate::workload::WorkloadKind;
use vramgate::workload::pod::OwnerReference;

use api_server::ApiServer;
use recorder::{Beside, ByLabel, Recorder};

fn timing() -> Timing {
    Timing {
        first_retry: Duration::from_millis(10),
        longest_retry: Duration::from_millis(100),
        absent_retry: Duration::from_millis(30),
        silence: Duration::from_secs(20),
        page: 3,
        housekeeping: Duration::from_millis(20),
        advertise: Duration::from_millis(10),
        advertise_again: Duration::from_millis(500),
        reservation_ttl: Duration::from_secs(65),
        housekeeping_timeout: Duration::from_millis(200),
        listing_look_up: Duration::from_millis(300),
        first_reread: Duration::from_millis(50),
        ..Timing::default()
    }
}

struct Running {
    api: ApiServer,
    facts: Arc<Mutex<Recorder>>,
    freshness: Arc<Freshness>,
    look_ups: LookUps,
    refresh: Refresh,
    metrics: Metrics,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Running {
    async fn start(api: ApiServer, timing: Timing) -> Self {
        Self::start_with(api, timing, Arc::new(ByLabel), Leadership::alone()).await
    }

    async fn start_with(api: ApiServer, timing: Timing, reader: Arc<dyn Reader>, leader: Leadership) -> Self {
        let facts = Arc::new(Mutex::new(Recorder::default()));
        let client = api.client().await;
        let clock = Arc::new(|| Moment(1_000_000));
        let cluster = Cluster::new(client, Arc::clone(&facts), reader, clock, timing).led_by(leader);
        let (freshness, look_ups) = (cluster.freshness(), cluster.look_ups());
        let (refresh, metrics) = (cluster.refresh(), cluster.metrics());
        let task = tokio::spawn(async move {
            let stopped = cluster.run().await;
            panic!("{stopped}");
        });
        Self {
            api,
            facts,
            freshness,
            look_ups,
            refresh,
            metrics,
            task,
        }
    }

    async fn ready(api: ApiServer) -> Self {
        let running = Self::start(api, timing()).await;
        running.until_ready().await;
        running
    }

    async fn until_ready(&self) {
        tokio::time::timeout(Duration::from_secs(5), self.freshness.ready())
            .await
            .expect("not ready in time");
    }

    fn facts(&self) -> MutexGuard<'_, Recorder> {
        self.facts.lock().unwrap()
    }

    fn pods(&self) -> Vec<String> {
        self.facts()
            .pods
            .values()
            .map(|(pod, _)| pod.metadata.name.clone())
            .collect()
    }

    async fn until_pods(&self, names: &[&str]) {
        until(
            &format!("pods {names:?}"),
            || self.pods() == names,
            || format!("{:?}", self.pods()),
        )
        .await;
    }

    fn metrics(&self) -> String {
        let mut registry = prometheus_client::registry::Registry::with_prefix("vramgate");
        self.metrics.register(&mut registry, Arc::clone(&self.freshness));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    fn metric(&self, line: &str) -> bool {
        self.metrics().lines().any(|known| known == line)
    }

    fn counter(&self, name: &str) -> u64 {
        let text = self.metrics();
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        value.map_or(0, |value| value.trim().parse().unwrap())
    }
}

async fn until(what: &str, mut is: impl FnMut() -> bool, now: impl Fn() -> String) {
    let start = Instant::now();
    while !is() {
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "{what}: not so in time; now: {}",
            now()
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn gpu_pod(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "team", "uid": format!("uid-{name}"),
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]},
        "spec": {"containers": [{"name": "engine", "image": "example.com/engine:1",
            "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
        "status": {"phase": "Pending"}})
}

fn plain_pod(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "team", "uid": format!("uid-{name}")},
        "spec": {"containers": [{"name": "web", "resources": {"limits": {"cpu": "1"}}}]}})
}

fn config_map_pod(name: &str, config_map: &str) -> Value {
    let mut pod = gpu_pod(name);
    pod["spec"]["containers"][0]["envFrom"] = json!([{"configMapRef": {"name": config_map}}]);
    pod
}

fn node(name: &str, gpus: u32) -> Value {
    let mut capacity = json!({"cpu": "64"});
    if gpus > 0 {
        capacity["nvidia.com/gpu"] = gpus.to_string().into();
    }
    json!({"metadata": {"name": name}, "status": {"capacity": capacity, "allocatable": capacity}})
}

fn namespace(name: &str, label: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"stage": label}}})
}

#[tokio::test]
async fn everything_is_listed_in_pages_and_only_what_counts_is_kept() {
    let api = ApiServer::start().await;
    for index in 0..7 {
        api.set("pods", gpu_pod(&format!("gpu-{index}")));
        api.set("pods", plain_pod(&format!("plain-{index}")));
    }
    api.set("nodes", node("gpu-node", 2));
    api.set("nodes", node("cpu-node", 0));
    api.set("namespaces", namespace("team", "production"));
    let running = Running::ready(api).await;

    assert_eq!(
        running.pods(),
        ["gpu-0", "gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5", "gpu-6"]
    );
    assert_eq!(running.facts().nodes.keys().collect::<Vec<_>>(), ["gpu-node"]);
    // 14 pods in pages of 3.
    assert_eq!(running.api.requests("LIST pods"), 5);
    let labels = running.look_ups.namespace_labels("team").await;
    assert_eq!(labels["stage"], "production");
    assert_eq!(labels["kubernetes.io/metadata.name"], "team");
    assert!(
        running
            .api
            .user_agents()
            .iter()
            .all(|agent| agent.starts_with("vramgate/"))
    );
    assert!(
        !running
            .facts()
            .log
            .iter()
            .any(|entry| entry.contains("plain") || entry.contains("cpu-node"))
    );
}

#[tokio::test]
async fn not_ready_before_every_list_is_complete() {
    let api = ApiServer::start().await;
    api.set("pods", gpu_pod("a"));
    api.refuse("nodes", Some(503));
    let running = Running::start(api, timing()).await;
    let refused = |running: &Running| {
        running.counter("vramgate_watch_failures_total{watch=\"nodes\",reason=\"refused\"}")
    };
    until("nodes refused", || refused(&running) >= 1, String::new).await;
    // Pods wait for the nodes on which they find their places.
    until(
        "nodes and pods alone are missing",
        || running.freshness.waiting_for() == [Watched::Nodes, Watched::Pods],
        || format!("{:?}", running.freshness.waiting_for()),
    )
    .await;
    assert!(!running.freshness.is_ready());
    let reasons = running.freshness.reasons().join("; ");
    assert!(
        reasons.contains("nodes cannot be listed") && reasons.contains("503"),
        "{reasons}"
    );
    running.api.refuse("nodes", None);
    running.until_ready().await;
}

#[tokio::test]
async fn priority_classes_are_followed_and_a_role_without_them_will_do() {
    let api = ApiServer::start().await;
    api.refuse("priorityclasses", Some(403));
    let running = Running::ready(api).await;
    let has = |line: &str| running.facts().log.iter().any(|known| known == line);
    running.api.set(
        "priorityclasses",
        json!({"metadata": {"name": "high"}, "value": 1000}),
    );
    running.api.refuse("priorityclasses", None);
    until("the class is seen", || has("set class high 1000"), String::new).await;
    running.api.delete("priorityclasses", "", "high");
    until("the class is gone", || has("remove class high"), String::new).await;
}

const RESOURCES: [&str; 4] = [
    "resourceslices",
    "deviceclasses",
    "resourceclaims",
    "resourceclaimtemplates",
];

#[tokio::test]
async fn a_cluster_without_dynamic_resource_allocation_is_ready() {
    let api = ApiServer::start().await;
    for resource in RESOURCES {
        api.refuse(resource, Some(404));
    }
    let running = Running::ready(api).await;
    assert_eq!(running.freshness.age_of(Watched::ResourceSlices), Duration::ZERO);
    // Each version is asked for, again and again: the API server may learn of it.
    until(
        "asked again",
        || running.api.requests("LIST resourceslices") > 3,
        String::new,
    )
    .await;
    running.api.set(
        "resourceslices",
        json!({"metadata": {"name": "n1"}, "spec": {"driver": "gpu.nvidia.com"}}),
    );
    running.api.refuse("resourceslices", None);
    let has = |running: &Running, line: &str| running.facts().log.iter().any(|known| known == line);
    until("the slice is seen", || has(&running, "set slice n1"), String::new).await;
    running.api.delete("resourceslices", "", "n1");
    until(
        "the slice is gone",
        || has(&running, "remove slice n1"),
        String::new,
    )
    .await;
    running.api.set(
        "resourceclaims",
        json!({"metadata": {"name": "c", "namespace": "team"}}),
    );
    running.api.refuse("resourceclaims", None);
    until(
        "the claim is seen",
        || has(&running, "set claim team/c"),
        String::new,
    )
    .await;
    // The API is taken away, and its objects with it.
    running.api.refuse("resourceclaims", Some(404));
    running.api.cut("resourceclaims", false);
    until(
        "the claim is gone",
        || has(&running, "remove claim team/c"),
        String::new,
    )
    .await;
    assert!(running.freshness.is_ready());
}

#[tokio::test]
async fn a_role_from_before_dynamic_resource_allocation_holds_nothing_up() {
    let api = ApiServer::start().await;
    for resource in RESOURCES {
        api.refuse(resource, Some(403));
    }
    let running = Running::ready(api).await;
    until(
        "it is told",
        || {
            running.counter("vramgate_watch_failures_total{watch=\"resourceclaims\",reason=\"forbidden\"}")
                >= 1
        },
        String::new,
    )
    .await;
    running.api.set(
        "resourceclaims",
        json!({"metadata": {"name": "c", "namespace": "team"}}),
    );
    running.api.refuse("resourceclaims", None);
    let seen = || running.facts().log.iter().any(|line| line == "set claim team/c");
    until("granted, it is read", seen, String::new).await;
}

#[tokio::test]
async fn a_forbidden_list_is_tried_again_with_growing_pauses() {
    let api = ApiServer::start().await;
    api.refuse("pods", Some(403));
    let slow = Timing {
        first_retry: Duration::from_millis(40),
        longest_retry: Duration::from_secs(1),
        ..timing()
    };
    let running = Running::start(api, slow).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let asked = running.api.requests("LIST pods");
    assert!((2..=7).contains(&asked), "{asked} attempts in half a second");
    let counted = running.counter("vramgate_watch_failures_total{watch=\"pods\",reason=\"forbidden\"}");
    assert!(
        counted >= 2 && counted + 1 >= asked as u64,
        "{counted} counted of {asked}"
    );
    running.api.refuse("pods", None);
    running.until_ready().await;
}

#[tokio::test]
async fn changes_are_followed() {
    let api = ApiServer::start().await;
    api.set("nodes", node("n", 1));
    let running = Running::ready(api).await;
    running.api.set("pods", gpu_pod("b"));
    running.api.set("pods", gpu_pod("a"));
    running.until_pods(&["a", "b"]).await;
    running.api.set("pods", plain_pod("c"));
    let mut bound = gpu_pod("b");
    bound["spec"]["nodeName"] = "n".into();
    running.api.set("pods", bound);
    until(
        "b bound",
        || running.facts().pods["uid-b"].0.spec.node_name.is_some(),
        String::new,
    )
    .await;
    running.api.delete("pods", "team", "a");
    running.until_pods(&["b"]).await;
    // A node whose device plugin goes away costs nothing any more.
    running.api.set("nodes", node("n", 0));
    until("no node", || running.facts().nodes.is_empty(), String::new).await;
    running.api.set("nodes", node("n", 4));
    until("a node", || running.facts().nodes.len() == 1, String::new).await;
    running.api.delete("nodes", "", "n");
    until("no node", || running.facts().nodes.is_empty(), String::new).await;
    running.api.set("namespaces", namespace("team", "test"));
    until(
        "labels",
        || {
            running
                .facts()
                .namespaces
                .get("team")
                .is_some_and(|labels| labels["stage"] == "test")
        },
        String::new,
    )
    .await;
    assert_eq!(running.api.requests("LIST pods"), 1);
}

#[tokio::test]
async fn a_burst_of_changes_is_folded_in_batches_without_a_loss() {
    let small = Timing { batch: 7, ..timing() };
    let running = Running::start(ApiServer::start().await, small).await;
    running.until_ready().await;
    let lines: Vec<String> = (0..100)
        .map(|index| {
            let mut pod = gpu_pod(&format!("p{index:03}"));
            pod["metadata"]["resourceVersion"] = (1000 + index).to_string().into();
            format!("{{\"type\":\"ADDED\",\"object\":{pod}}}")
        })
        .collect();
    running.api.line("pods", &lines.join("\n"));
    until(
        "all",
        || running.pods().len() == 100,
        || running.pods().len().to_string(),
    )
    .await;
    assert_eq!(running.api.requests("LIST pods"), 1);
    assert!(running.metric("vramgate_watch_events_total{watch=\"pods\",type=\"applied\"} 100"));
}

#[tokio::test]
async fn a_broken_connection_is_taken_up_where_it_broke() {
    let running = Running::ready(ApiServer::start().await).await;
    running.api.set("pods", gpu_pod("a"));
    running.until_pods(&["a"]).await;
    for round in 0..3 {
        // Half a line, then nothing.
        running.api.cut("pods", true);
        running.api.set("pods", gpu_pod(&format!("b{round}")));
    }
    running.until_pods(&["a", "b0", "b1", "b2"]).await;
    // The orderly end that comes every few minutes.
    running.api.cut("pods", false);
    running.api.delete("pods", "team", "b1");
    running.until_pods(&["a", "b0", "b2"]).await;
    assert_eq!(
        running.api.requests("LIST pods"),
        1,
        "a resumed watch needs no list"
    );
}

#[tokio::test]
async fn what_vanished_during_a_disconnect_is_removed_by_the_next_list() {
    for over_http in [false, true] {
        let api = ApiServer::start().await;
        for name in ["a", "b", "c", "d"] {
            api.set("pods", gpu_pod(name));
        }
        api.set("nodes", node("n1", 1));
        api.set("nodes", node("n2", 1));
        api.set("namespaces", namespace("team", "x"));
        let running = Running::ready(api).await;
        for resource in ["pods", "nodes", "namespaces"] {
            running.api.expire(resource, over_http);
        }
        // Nothing of this is in any watch.
        running.api.set_unseen("pods", gpu_pod("e"));
        running.api.delete_unseen("pods", "team", "b");
        running.api.delete_unseen("nodes", "", "n2");
        running.api.delete_unseen("namespaces", "", "team");
        for resource in ["pods", "nodes", "namespaces"] {
            running.api.cut(resource, false);
        }
        running.until_pods(&["a", "c", "d", "e"]).await;
        until("n2 removed", || running.facts().nodes.len() == 1, String::new).await;
        until(
            "namespace removed",
            || running.facts().namespaces.is_empty(),
            String::new,
        )
        .await;
        assert!(
            running.freshness.is_ready(),
            "facts that were complete once stay in force"
        );
        // The others never left the facts while the list was read.
        let log = running.facts().log.clone();
        assert!(
            !log.iter()
                .any(|entry| ["remove uid-a", "remove uid-c", "remove uid-d"].contains(&entry.as_str())),
            "{log:?}"
        );
        assert!(running.metric("vramgate_watch_failures_total{watch=\"pods\",reason=\"gone\"} 1"));
        // The watch goes on after it.
        running.api.set("pods", gpu_pod("f"));
        running.until_pods(&["a", "c", "d", "e", "f"]).await;
    }
}

#[tokio::test]
async fn a_list_that_breaks_off_removes_nothing() {
    let api = ApiServer::start().await;
    for name in ["a", "b", "c", "d"] {
        api.set("pods", gpu_pod(name));
    }
    let running = Running::ready(api).await;
    running.api.refuse_pages_after_first("pods", true);
    running.api.expire("pods", false);
    running.api.cut("pods", false);
    until(
        "two attempts",
        || running.api.requests("LIST pods") >= 6,
        String::new,
    )
    .await;
    assert_eq!(running.pods(), ["a", "b", "c", "d"]);
    running.api.refuse_pages_after_first("pods", false);
    running.api.set("pods", gpu_pod("e"));
    running.until_pods(&["a", "b", "c", "d", "e"]).await;
}

#[tokio::test]
async fn an_object_that_does_not_decode_stops_nothing() {
    let api = ApiServer::start().await;
    let mut bad = gpu_pod("bad");
    bad["spec"]["containers"][0]["command"] = "not a list".into();
    api.set("pods", gpu_pod("a"));
    api.set("pods", bad.clone());
    api.set("pods", gpu_pod("z"));
    api.set(
        "nodes",
        json!({"metadata": {"name": "bad-node"}, "status": {"capacity": 7}}),
    );
    api.set("nodes", node("good-node", 1));
    let running = Running::ready(api).await;
    // It asks for a slot, so it counts; what it runs is not known.
    assert_eq!(running.pods(), ["a", "bad", "z"]);
    assert_eq!(running.facts().pods["uid-bad"].0.spec.containers[0].image, "");
    assert!(running.metric("vramgate_unreadable_objects_total{watch=\"pods\"} 1"));
    assert_eq!(running.facts().nodes.keys().collect::<Vec<_>>(), ["good-node"]);

    // One that was readable before keeps its facts.
    let mut worse = gpu_pod("a");
    worse["spec"]["containers"] = 5.into();
    running.api.set("pods", worse);
    running.api.set(
        "pods",
        json!({"metadata": {"name": "c", "namespace": "team", "uid": 12}}),
    );
    running.api.set(
        "nodes",
        json!({"metadata": {"name": "good-node"}, "status": {"capacity": 7}}),
    );
    running.api.set("pods", gpu_pod("y"));
    running.until_pods(&["a", "bad", "y", "z"]).await;
    assert_eq!(running.facts().pods["uid-a"].0.spec.containers.len(), 1);
    running.api.delete("pods", "team", "bad");
    running.until_pods(&["a", "y", "z"]).await;
    assert_eq!(running.facts().nodes.len(), 1);
    assert_eq!(running.api.requests("LIST pods"), 1);
}

#[tokio::test]
async fn a_line_that_is_no_event_means_a_new_list() {
    let running = Running::ready(ApiServer::start().await).await;
    running.api.set_unseen("pods", gpu_pod("a"));
    running.api.line("pods", "{\"type\":\"ADDED\",");
    running.until_pods(&["a"]).await;
    assert!(running.metric("vramgate_watch_failures_total{watch=\"pods\",reason=\"unreadable\"} 1"));
}

#[tokio::test]
async fn bookmarks_keep_the_facts_fresh_and_silence_is_noticed() {
    let short = Timing {
        silence: Duration::from_millis(500),
        ..timing()
    };
    let running = Running::start(ApiServer::start().await, short).await;
    running.until_ready().await;
    until("watched", || running.api.requests("WATCH pods") == 1, String::new).await;
    let watches = 1;
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        running.api.bookmark("pods");
    }
    until(
        "young",
        || running.freshness.age_of(Watched::Pods) < Duration::from_millis(90),
        String::new,
    )
    .await;
    assert_eq!(
        running.api.requests("WATCH pods"),
        watches,
        "bookmarks are signs of life"
    );
    until(
        "a new watch",
        || running.api.requests("WATCH pods") > watches,
        String::new,
    )
    .await;
    // The new watch starts at the bookmark, not at the list.
    assert_eq!(running.api.last_watch_version("pods"), running.api.version());
    assert!(running.counter("vramgate_watch_failures_total{watch=\"pods\",reason=\"silent\"}") >= 1);
    // An API server that is away makes the facts old.
    running.api.refuse("pods", Some(500));
    running.api.cut("pods", true);
    until(
        "old",
        || running.freshness.age() > Duration::from_millis(400),
        || format!("{:?}", running.freshness.age()),
    )
    .await;
    assert!(running.freshness.is_ready());
}

#[tokio::test]
async fn a_refresh_lists_everything_again() {
    let api = ApiServer::start().await;
    api.set("pods", gpu_pod("a"));
    api.config_map("team", "settings", &json!({"x": "1"}));
    api.set("pods", config_map_pod("b", "settings"));
    let running = Running::ready(api).await;
    running.facts().log.clear();
    running.refresh.request();
    until(
        "both again",
        || {
            let log = running.facts().log.clone();
            ["set uid-a", "set uid-b"]
                .iter()
                .all(|entry| log.contains(&(*entry).to_owned()))
        },
        || format!("{:?}", running.facts().log),
    )
    .await;
    assert_eq!(running.pods(), ["a", "b"]);
}

#[tokio::test]
async fn config_maps_beside_which_nodes_are_read_are_followed_and_nodes_read_again() {
    let api = ApiServer::start().await;
    api.set("nodes", node("n1", 1));
    let reader = Arc::new(Beside::default());
    let running = Running::start_with(
        api,
        timing(),
        Arc::clone(&reader) as Arc<dyn Reader>,
        Leadership::alone(),
    )
    .await;
    running.until_ready().await;
    // Nobody names one: none is asked for.
    assert_eq!(running.api.requests("LIST configmaps"), 0);
    assert_eq!(running.freshness.age_of(Watched::PluginConfigs), Duration::ZERO);
    // A policy that names one comes into force. That there is none is an answer.
    let name = ConfigMapName {
        namespace: "gpu".to_owned(),
        name: "plugin".to_owned(),
    };
    reader.named.lock().unwrap().insert(name);
    running.refresh.request();
    let told = || reader.told.lock().unwrap().clone();
    until("it is asked for", || told() == [None], || format!("{:?}", told())).await;
    let nodes = |running: &Running| running.api.requests("LIST nodes");
    let pods = running.api.requests("LIST pods");
    for (value, what) in [("a", "it appears"), ("b", "it changes")] {
        let before = nodes(&running);
        running.api.config_map("gpu", "plugin", &json!({"key": value}));
        until(
            what,
            || told().last() == Some(&Some(value.to_owned())),
            || format!("{:?}", told()),
        )
        .await;
        until("nodes are read again", || nodes(&running) > before, String::new).await;
    }
    let before = nodes(&running);
    running.api.delete("configmaps", "gpu", "plugin");
    until(
        "it goes",
        || told().last() == Some(&None),
        || format!("{:?}", told()),
    )
    .await;
    until("nodes are read again", || nodes(&running) > before, String::new).await;
    assert_eq!(
        running.api.requests("LIST pods"),
        pods,
        "pods are not read for it"
    );
    // What is named no more is followed no more.
    reader.named.lock().unwrap().clear();
    running.refresh.request();
    until(
        "pods again",
        || running.api.requests("LIST pods") > pods,
        String::new,
    )
    .await;
    let count = told().len();
    running.api.config_map("gpu", "plugin", &json!({"key": "c"}));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(told().len(), count);
    assert!(running.freshness.is_ready());
}

#[tokio::test]
async fn a_role_that_lets_nobody_watch_config_maps_holds_nothing_up() {
    let api = ApiServer::start().await;
    api.refuse("configmaps", Some(403));
    let reader = Arc::new(Beside::default());
    let name = ConfigMapName {
        namespace: "gpu".to_owned(),
        name: "plugin".to_owned(),
    };
    reader.named.lock().unwrap().insert(name);
    let running = Running::start_with(
        api,
        timing(),
        Arc::clone(&reader) as Arc<dyn Reader>,
        Leadership::alone(),
    )
    .await;
    running.until_ready().await;
    running.api.config_map("gpu", "plugin", &json!({"key": "a"}));
    running.api.refuse("configmaps", None);
    let told = || reader.told.lock().unwrap().clone();
    until(
        "granted, it is read",
        || told() == [Some("a".to_owned())],
        || format!("{:?}", told()),
    )
    .await;
}

#[tokio::test]
async fn config_maps_of_watched_pods_are_read_before_the_fold() {
    let api = ApiServer::start().await;
    api.config_map("team", "settings", &json!({"GPU": "0.3"}));
    api.set("pods", config_map_pod("found", "settings"));
    api.set("pods", config_map_pod("missing", "nowhere"));
    let running = Running::ready(api).await;
    let seen = |name: &str| running.facts().pods[&format!("uid-{name}")].1.clone();
    assert_eq!(seen("found"), r#"settings={"GPU": "0.3"}"#);
    assert_eq!(seen("missing"), "nowhere missing");

    // A change of conditions alone asks nothing and folds nothing.
    let asked = running.api.requests("GET configmaps");
    let folds = running.facts().log.len();
    let mut touched = config_map_pod("found", "settings");
    touched["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    running.api.set("pods", touched);
    running.api.set("pods", gpu_pod("marker"));
    running.until_pods(&["found", "marker", "missing"]).await;
    assert_eq!(running.api.requests("GET configmaps"), asked);
    assert_eq!(running.facts().log.len(), folds + 1);
}

#[tokio::test]
async fn a_slow_config_map_makes_a_pod_unknown_until_it_is_read() {
    let api = ApiServer::start().await;
    let running = Running::start(
        api,
        Timing {
            look_up: Duration::from_millis(60),
            ..timing()
        },
    )
    .await;
    running.until_ready().await;
    running.api.config_map("team", "slow", &json!({"GPU": "0.5"}));
    running.api.slow("slow", Duration::from_millis(400));
    running.api.set("pods", config_map_pod("waits", "slow"));
    running.api.set("pods", gpu_pod("other"));
    running.until_pods(&["other", "waits"]).await;
    let seen = || running.facts().pods["uid-waits"].1.clone();
    assert_eq!(
        seen(),
        "slow not read: the API server did not answer within 60 ms for configmap team/slow"
    );
    assert!(running.metric("vramgate_pods_waiting_for_config_maps 1"));
    running.api.slow("slow", Duration::ZERO);
    until("read at last", || seen() == r#"slow={"GPU": "0.5"}"#, seen).await;
    assert!(running.metric("vramgate_pods_waiting_for_config_maps 0"));
}

#[tokio::test]
async fn look_ups_of_config_maps() {
    let running = Running::ready(ApiServer::start().await).await;
    let api = &running.api;
    api.config_map("team", "one", &json!({"a": "1"}));
    api.config_map("team", "slow", &json!({"a": "2"}));
    api.slow("slow", Duration::from_secs(2));
    let names = |list: &[&str]| {
        list.iter()
            .map(|name| (*name).to_owned())
            .collect::<BTreeSet<_>>()
    };

    let start = Instant::now();
    let fetched = running
        .look_ups
        .config_maps("team", &names(&["one", "slow", "none", "../secrets/s"]), true)
        .await;
    assert!(
        start.elapsed() < Duration::from_millis(1500),
        "{:?}",
        start.elapsed()
    );
    assert!(matches!(fetched.config_map("team", "one"), LookUp::Found(data) if data["a"] == "1"));
    assert_eq!(fetched.config_map("team", "none"), LookUp::Missing);
    assert_eq!(fetched.config_map("team", "../secrets/s"), LookUp::Missing);
    assert!(
        matches!(fetched.config_map("team", "slow"), LookUp::NotRead(reason) if reason.contains("within 300 ms"))
    );
    assert!(matches!(fetched.config_map("other", "one"), LookUp::NotRead(_)));
    assert_eq!(api.requests("GET secrets"), 0);

    // What was found a moment ago is not asked for again, not even by many at once.
    let asked = api.requests("GET configmaps");
    let wanted = names(&["one"]);
    let many = (0..50).map(|_| running.look_ups.config_maps("team", &wanted, true));
    for fetched in futures::future::join_all(many).await {
        assert!(matches!(fetched.config_map("team", "one"), LookUp::Found(_)));
    }
    assert_eq!(api.requests("GET configmaps"), asked);
    // What was missing is.
    api.config_map("team", "none", &json!({"b": "3"}));
    let fetched = running
        .look_ups
        .config_maps("team", &names(&["none"]), true)
        .await;
    assert!(matches!(fetched.config_map("team", "none"), LookUp::Found(data) if data["b"] == "3"));

    // The policy's word.
    let asked = api.requests("GET configmaps");
    let fetched = running
        .look_ups
        .config_maps("team", &names(&["fresh"]), false)
        .await;
    assert!(
        matches!(fetched.config_map("team", "fresh"), LookUp::NotRead(reason) if reason.contains("policy"))
    );
    assert_eq!(api.requests("GET configmaps"), asked);

    // A refusal names the remedy.
    api.refuse("configmaps", Some(403));
    let fetched = running
        .look_ups
        .config_maps("team", &names(&["fresh"]), true)
        .await;
    assert!(
        matches!(fetched.config_map("team", "fresh"), LookUp::NotRead(reason) if reason.contains("grant"))
    );
}

#[tokio::test]
async fn a_config_map_that_changed_is_read_anew_after_a_moment() {
    let brief = Timing {
        config_map_ttl: Duration::from_millis(50),
        ..timing()
    };
    let running = Running::start(ApiServer::start().await, brief).await;
    let wanted = BTreeSet::from(["one".to_owned()]);
    for value in ["1", "2"] {
        running.api.config_map("team", "one", &json!({"a": value}));
        tokio::time::sleep(Duration::from_millis(60)).await;
        let fetched = running.look_ups.config_maps("team", &wanted, true).await;
        assert!(matches!(fetched.config_map("team", "one"), LookUp::Found(data) if data["a"] == value));
    }
}

#[tokio::test]
async fn the_labels_of_a_namespace_that_no_watch_told_of_are_asked_for() {
    let running = Running::ready(ApiServer::start().await).await;
    running
        .api
        .set_unseen("namespaces", namespace("fresh", "production"));
    assert_eq!(
        running.look_ups.namespace_labels("fresh").await["stage"],
        "production"
    );
    let unknown = running.look_ups.namespace_labels("nowhere").await;
    assert_eq!(
        unknown.iter().collect::<Vec<_>>(),
        [(&"kubernetes.io/metadata.name".to_owned(), &"nowhere".to_owned())]
    );
}

#[tokio::test]
async fn owners_say_how_many_pods_they_want() {
    let api = ApiServer::start().await;
    let object = |name: &str, spec: Value| json!({"metadata": {"name": name, "namespace": "team", "uid": format!("uid-{name}")}, "spec": spec});
    api.set("replicasets", object("rs", json!({"replicas": 3})));
    api.set("statefulsets", object("sts", json!({"replicas": 0})));
    api.set("replicationcontrollers", object("rc", json!({})));
    api.set("jobs", object("job", json!({"parallelism": 4, "completions": 9})));
    let running = Running::start(api, timing()).await;
    let owner = |api_version: &str, kind: &str, name: &str| OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        controller: true,
    };
    let wants = async |owner: &OwnerReference| running.look_ups.owner_wants("team", owner, false).await;
    let replica_set = owner("apps/v1", "ReplicaSet", "rs");
    assert_eq!(wants(&replica_set).await, Some(3));
    assert_eq!(wants(&owner("apps/v1", "StatefulSet", "sts")).await, Some(0));
    assert_eq!(wants(&owner("v1", "ReplicationController", "rc")).await, Some(1));
    assert_eq!(wants(&owner("batch/v1", "Job", "job")).await, Some(4));
    assert_eq!(wants(&owner("apps/v1", "DaemonSet", "ds")).await, None);
    assert_eq!(wants(&owner("apps/v1", "ReplicaSet", "gone")).await, None);
    let namesake = OwnerReference {
        uid: "another".to_owned(),
        ..replica_set.clone()
    };
    assert_eq!(wants(&namesake).await, None);
    let asked = running.api.requests("GET replicasets");
    assert_eq!(wants(&replica_set).await, Some(3));
    assert_eq!(running.api.requests("GET replicasets"), asked);
}

#[tokio::test]
async fn a_workload_that_is_not_there_is_said_to_be_missing() {
    let running = Running::start(ApiServer::start().await, timing()).await;
    let missing = running
        .look_ups
        .workload(WorkloadKind::Deployment, "team", "web")
        .await;
    assert!(
        matches!(&missing, Err(LookUpError::NotFound { what }) if what == "deployment team/web"),
        "{missing:?}"
    );
    running.api.slow("web", Duration::from_secs(2));
    let slow = running
        .look_ups
        .workload(WorkloadKind::ReplicaSet, "team", "web")
        .await;
    assert!(matches!(slow, Err(LookUpError::TimedOut { .. })));
}

fn reservation(name: &str, uid: &str) -> Stale {
    Stale {
        uid: uid.to_owned(),
        namespace: "team".to_owned(),
        name: name.to_owned(),
    }
}

#[tokio::test]
async fn old_reservations_end_only_when_their_pod_does_not_exist() {
    let api = ApiServer::start().await;
    let running = Running::ready(api).await;
    running.api.set_unseen("pods", gpu_pod("exists"));
    running.api.set_unseen("pods", gpu_pod("replaced"));
    running.api.slow("slow", Duration::from_secs(5));
    running.facts().reservations = vec![
        reservation("exists", "uid-exists"),
        reservation("replaced", "uid-of-the-former"),
        reservation("gone", "uid-gone"),
        reservation("slow", "uid-slow"),
    ];
    until(
        "two released",
        || running.facts().released.len() == 2,
        || format!("{:?}", running.facts().released),
    )
    .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let released: BTreeSet<_> = running.facts().released.iter().cloned().collect();
    assert_eq!(
        released.into_iter().collect::<Vec<_>>(),
        ["uid-gone", "uid-of-the-former"]
    );
    assert_eq!(
        running.facts().asked_before.get(),
        Some(Moment(1_000_000 - 65_000))
    );
    // An API server that does not answer ends no reservation.
    running.api.refuse("pods", Some(500));
    running
        .facts()
        .reservations
        .push(reservation("unknown", "uid-unknown"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!running.facts().released.contains(&"uid-unknown".to_owned()));
    running.api.refuse("pods", None);
    until(
        "released",
        || running.facts().released.contains(&"uid-unknown".to_owned()),
        String::new,
    )
    .await;
}

#[tokio::test]
async fn a_device_above_its_budget_is_told_on_its_node() {
    let running = Running::ready(ApiServer::start().await).await;
    running.facts().over_budget = vec![OverBudget {
        node: "n".to_owned(),
        resource: "nvidia.com/gpu".to_owned(),
        promised: vramgate::units::Mib::new(80_000),
        budget: vramgate::units::Mib::new(73_403),
        sentence: "80000 MiB are promised of 73403 MiB.".to_owned(),
    }];
    until("told", || running.api.posted().len() == 1, String::new).await;
    assert!(running.metric("vramgate_over_budget 1"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    running.facts().over_budget.clear();
    until("told the end", || running.api.posted().len() == 2, String::new).await;
    let posted = running.api.posted();
    assert_eq!(posted[0]["regarding"]["name"], "n");
    assert_eq!(posted[0]["note"], "80000 MiB are promised of 73403 MiB.");
    assert_eq!(
        (&posted[0]["type"], &posted[1]["type"]),
        (&json!("Warning"), &json!("Normal"))
    );
}

#[tokio::test]
async fn an_event_that_may_not_be_written_is_counted_and_stops_nothing() {
    let api = ApiServer::start().await;
    api.refuse("events", Some(403));
    let running = Running::ready(api).await;
    running.facts().over_budget = vec![OverBudget {
        node: "n".to_owned(),
        resource: "nvidia.com/gpu".to_owned(),
        promised: vramgate::units::Mib::new(2),
        budget: vramgate::units::Mib::new(1),
        sentence: "too much".to_owned(),
    }];
    until(
        "counted",
        || running.metric("vramgate_events_failed_total 1"),
        String::new,
    )
    .await;
    running.facts().reservations.push(reservation("gone", "uid-gone"));
    until(
        "housekeeping goes on",
        || running.facts().released.len() == 1,
        String::new,
    )
    .await;
}

#[tokio::test]
async fn a_version_that_no_watch_can_start_from_is_given_up() {
    let running = Running::ready(ApiServer::start().await).await;
    running.api.refuse("WATCH pods", Some(504));
    running.api.cut("pods", true);
    running.api.set_unseen("pods", gpu_pod("a"));
    until(
        "a new list",
        || running.api.requests("LIST pods") >= 2,
        String::new,
    )
    .await;
    assert!(running.api.requests("WATCH pods") >= 5);
    running.until_pods(&["a"]).await;
    running.api.refuse("WATCH pods", None);
    running.api.set("pods", gpu_pod("b"));
    running.until_pods(&["a", "b"]).await;
}

#[tokio::test]
async fn a_server_that_drops_every_watch_is_not_asked_in_a_tight_loop() {
    let running = Running::ready(ApiServer::start().await).await;
    let before = running.api.requests("WATCH pods");
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(600) {
        running.api.cut("pods", false);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let asked = running.api.requests("WATCH pods") - before;
    assert!((3..=25).contains(&asked), "{asked} watches in 0.6 s");
}

#[tokio::test]
async fn a_task_that_breaks_down_is_told_to_the_caller() {
    let api = ApiServer::start().await;
    api.set("pods", gpu_pod("a"));
    let facts = Arc::new(Mutex::new(Recorder {
        breaks_at: Some("uid-a".to_owned()),
        ..Recorder::default()
    }));
    let client = api.client().await;
    let cluster = Cluster::new(client, facts, Arc::new(ByLabel), Arc::new(|| Moment(0)), timing());
    let stopped = tokio::time::timeout(Duration::from_secs(5), cluster.run())
        .await
        .unwrap();
    assert_eq!(stopped.task, "watches pods");
    assert!(stopped.reason.contains("told to break down"), "{stopped}");
}

#[tokio::test]
async fn a_kubeconfig_with_tls_and_a_token_makes_a_client() {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let path = std::env::temp_dir().join(format!("vramgate-tls-test-{}", std::process::id()));
    let ca = path.with_extension("crt");
    std::fs::write(&ca, certified.cert.pem()).unwrap();
    let config = |token_line: &str| {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: it\ncontexts:\n- name: it\n  context: {{cluster: it, user: it}}\n\
             clusters:\n- name: it\n  cluster: {{server: \"https://127.0.0.1:9\", certificate-authority: {}}}\n\
             users:\n- name: it\n  user:\n{token_line}\n",
            ca.display()
        )
    };
    std::fs::write(&path, config("    token: secret-word")).unwrap();
    connect(Some(&path)).await.unwrap();
    // A token beside a syntax error does not get into the message.
    std::fs::write(&path, config("    token: secret-word\n   client-key: [")).unwrap();
    let error = connect(Some(&path)).await.err().expect("broken");
    assert!(matches!(error, ConnectError::Broken { .. }));
    assert!(!error.to_string().contains("secret-word"), "{error}");
    let _ = std::fs::remove_file(path);
    let _ = std::fs::remove_file(ca);
}

/// What the API server's node advertises under both lists.
async fn advertised(api: &ApiServer, name: &str) -> (Option<String>, Option<String>) {
    let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(api.client().await);
    let status = nodes.get(name).await.unwrap().status.unwrap();
    let read =
        |list: Option<
            std::collections::BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>,
        >| { list.and_then(|list| list.get("vramgate.io/gpu-ppm").map(|amount| amount.0.clone())) };
    (read(status.capacity), read(status.allocatable))
}

fn both(amount: &str) -> (Option<String>, Option<String>) {
    (Some(amount.to_owned()), Some(amount.to_owned()))
}

#[tokio::test]
async fn nodes_advertise_what_they_should_again_after_a_reset_and_no_more_often() {
    let api = ApiServer::start().await;
    api.set("nodes", node("a", 4));
    let running = Running::ready(api.clone()).await;
    let want = |amount: Option<u64>| {
        let amount = amount.map(vramgate::units::Share::from_ppm);
        running.facts().wanted.insert("a".to_owned(), amount);
    };
    let writes = || api.requests("PATCH nodes");
    let shown = || {
        running.facts().nodes["a"]
            .advertised
            .allocatable
            .map(vramgate::units::Share::ppm)
    };
    let until_shown = async |number: Option<u64>| {
        until(
            "the node advertises",
            || shown() == number,
            || format!("{:?}", shown()),
        )
        .await;
    };
    want(Some(900_000));
    until_shown(Some(900_000)).await;
    assert_eq!(advertised(&api, "a").await, both("900000"));
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(writes(), 1, "what is right is not written again");
    // A kubelet that starts again.
    let mut reset = node("a", 4);
    for list in ["capacity", "allocatable"] {
        reset["status"][list]["vramgate.io/gpu-ppm"] = json!("0");
    }
    api.set("nodes", reset);
    until_shown(Some(0)).await;
    until_shown(Some(900_000)).await;
    want(Some(600_000));
    until_shown(Some(600_000)).await;
    want(None);
    until_shown(None).await;
    assert_eq!(advertised(&api, "a").await, (None, None));
    assert!(writes() <= 6, "{}", writes());
    assert!(
        running.metric("vramgate_node_advertisements_total{result=\"removed\"} 1"),
        "{}",
        running.metrics()
    );
}

#[tokio::test]
async fn what_may_not_be_written_is_told_and_tried_ever_more_rarely() {
    let api = ApiServer::start().await;
    api.set("nodes", node("a", 4));
    api.refuse("PATCH nodes", Some(403));
    let running = Running::ready(api.clone()).await;
    let wanted = Some(vramgate::units::Share::from_ppm(900_000));
    running.facts().wanted.insert("a".to_owned(), wanted);
    tokio::time::sleep(Duration::from_millis(700)).await;
    let tries = api.requests("PATCH nodes");
    assert!((2..=8).contains(&tries), "{tries}");
    assert!(
        running.metric("vramgate_nodes_not_advertising 1"),
        "{}",
        running.metrics()
    );
    assert!(running.counter("vramgate_node_advertisements_total{result=\"forbidden\"}") >= 2);
    api.refuse("PATCH nodes", None);
    let is_shown = || running.facts().nodes["a"].advertised.capacity == wanted;
    until("it is written once it may be", is_shown, String::new).await;
}

#[tokio::test]
async fn only_the_leader_writes_to_nodes() {
    let api = ApiServer::start().await;
    api.set("nodes", node("a", 4));
    let (leads, leader) = Appointment::open();
    let running = Running::start_with(api.clone(), timing(), Arc::new(ByLabel), leader).await;
    running.until_ready().await;
    let wanted = Some(vramgate::units::Share::from_ppm(900_000));
    running.facts().wanted.insert("a".to_owned(), wanted);
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(api.requests("PATCH nodes"), 0);
    leads.set(true);
    let is_shown = || running.facts().nodes["a"].advertised.capacity == wanted;
    until("the leader writes", is_shown, String::new).await;
    leads.set(false);
    tokio::time::sleep(Duration::from_millis(50)).await;
    running.facts().wanted.insert("a".to_owned(), None);
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(api.requests("PATCH nodes"), 1);
}
