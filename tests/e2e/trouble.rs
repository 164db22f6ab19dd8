//! Two replicas behind one address while pods come and go all the time and the ground under them shakes: the API server
//! restarts, etcd forgets what watches would go on from, connections are cut.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use axum::http::Method;
use serde_json::Value;

use crate::api::{eventually, with_grace};
use crate::balancer::Balancer;
use crate::cluster::{free_port, progress};
use crate::manifests::{GpuNode, Pod};
use crate::replicas::{PLACES_PER_NODE, Replicas, create_until_full, wait_ledger_equals_pods};
use crate::scenario::Scenario;

/// Who creates and deletes at the same time.
const WORKERS: usize = 4;

/// What happened under the load.
#[derive(Default)]
pub struct Seen {
    admitted: AtomicU32,
    refused: AtomicU32,
    deleted: AtomicU32,
    /// Calls that came to nothing: no answer, or one that is no verdict on memory.
    lost: AtomicU32,
    done: AtomicBool,
}

impl Seen {
    fn count(counter: &AtomicU32) {
        counter.fetch_add(1, Ordering::SeqCst);
    }

    fn admitted(&self) -> u32 {
        self.admitted.load(Ordering::SeqCst)
    }

    pub fn sentence(&self) -> String {
        let read = |counter: &AtomicU32| counter.load(Ordering::SeqCst);
        format!(
            "{} admitted, {} deleted, {} refused for the sum, {} calls came to nothing",
            read(&self.admitted),
            read(&self.deleted),
            read(&self.refused),
            read(&self.lost)
        )
    }
}

/// Creates pods, and deletes the oldest of its own whenever it holds two or is refused, until it is told to stop.
fn work(s: &Scenario, worker: usize, seen: &Seen) {
    let pods = format!("/api/v1/namespaces/{}/pods", s.name);
    let mut own: VecDeque<String> = VecDeque::new();
    for number in 0.. {
        if seen.done.load(Ordering::SeqCst) {
            return;
        }
        let name = format!("w{worker}-{number}");
        let body = s.placed(&Pod::vllm(&name, "0.28"));
        let mut delete = own.len() > 2;
        match s.api().try_change(&Method::POST, &pods, &body) {
            Some(answer) if answer.is_success() => {
                Seen::count(&seen.admitted);
                own.push_back(name);
            }
            Some(answer) if answer.text().contains("VG201") => {
                Seen::count(&seen.refused);
                delete = true;
            }
            // It may be stored all the same.
            _ => {
                Seen::count(&seen.lost);
                own.push_back(name);
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        while delete {
            let Some(oldest) = own.pop_front() else { break };
            let path = format!("{pods}/{oldest}");
            match s.api().try_change(&Method::DELETE, &path, &with_grace(0)) {
                Some(answer) if answer.is_success() => {
                    Seen::count(&seen.deleted);
                    delete = false;
                }
                Some(answer) if answer.status == 404 => {}
                _ => {
                    own.push_front(oldest);
                    std::thread::sleep(Duration::from_millis(20));
                    delete = !seen.done.load(Ordering::SeqCst);
                }
            }
        }
    }
}

/// Looks all the time that no node has more pods than its device holds, and that there are no more than places.
fn watch_budget(s: &Scenario, places: usize, seen: &Seen) {
    let path = format!("/api/v1/namespaces/{}/pods", s.name);
    while !seen.done.load(Ordering::SeqCst) {
        if let Some(answer) = s.api().get_ok(&path) {
            let pods = answer.body["items"].as_array().cloned().unwrap_or_default();
            assert!(pods.len() <= places, "{} pods for {places} places", pods.len());
            let mut on_node: BTreeMap<&str, usize> = BTreeMap::new();
            for node in pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()) {
                *on_node.entry(node).or_default() += 1;
            }
            assert!(
                on_node.values().all(|count| *count <= PLACES_PER_NODE),
                "a node is above its budget: {on_node:?}"
            );
        }
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// Does something while pods come and go all the time; what it is given waits, for so many seconds at most, until pods are
/// admitted again.
pub fn under_load(
    s: &Scenario,
    places: usize,
    seconds: u64,
    shake: impl FnOnce(&dyn Fn(&str), &Seen),
) -> Seen {
    let seen = Seen::default();
    std::thread::scope(|scope| {
        // However this ends, the others are told.
        let _stops = Stops(&seen.done);
        for worker in 0..WORKERS {
            let seen = &seen;
            scope.spawn(move || work(s, worker, seen));
        }
        scope.spawn(|| watch_budget(s, places, &seen));
        let goes_on = |what: &str| {
            let before = seen.admitted();
            eventually(&format!("pods are admitted again {what}"), seconds, || {
                (seen.admitted() >= before + 6).then_some(())
            });
            progress(&format!("{}: {what}: {}", s.name, seen.sentence()));
        };
        shake(&goes_on, &seen);
    });
    seen
}

/// Watches of a replica that failed for a reason.
fn failures(replicas: &Replicas, which: usize, reason: &str) -> u64 {
    let text = replicas.with(which, |replica| replica.metrics());
    let lines = text.lines().filter(|line| {
        line.starts_with("vramgate_watch_failures_total{") && line.contains(&format!("reason=\"{reason}\""))
    });
    lines
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum()
}

#[test]
fn trouble_under_load_nothing_is_lost_and_no_node_goes_above_its_budget() {
    let s = Scenario::alone("trouble");
    let nodes = ["trouble-n1", "trouble-n2", "trouble-n3"];
    for node in nodes {
        s.node(GpuNode::l40s(node).slots(8));
    }
    let places = nodes.len() * PLACES_PER_NODE;
    // The replicas reach the API server by a line that can be cut; the scheduler and this test do not.
    let text = std::fs::read_to_string(s.cluster.directory.join("vramgate.kubeconfig")).unwrap();
    let mut kubeconfig: Value = serde_json::from_str(&text).unwrap();
    let server = kubeconfig["clusters"][0]["cluster"]["server"].as_str().unwrap();
    let port = server.rsplit(':').next().unwrap().parse().unwrap();
    let line = Balancer::start(free_port(), vec![port]);
    kubeconfig["clusters"][0]["cluster"]["server"] = format!("https://127.0.0.1:{}", line.port()).into();
    let by_line = s.cluster.directory.join("by-line.kubeconfig");
    std::fs::write(&by_line, kubeconfig.to_string()).unwrap();
    let replicas = Replicas::start_as(s.cluster, &by_line);

    let seen = under_load(&s, places, 30, |goes_on, _| {
        goes_on("at first");
        s.cluster.restart_apiserver(Duration::from_millis(300));
        goes_on("after a restart of the API server");
        for which in 0..replicas.all.len() {
            assert!(failures(&replicas, which, "connection") > 0, "its watches broke");
        }
        let before: Vec<u64> = (0..2).map(|which| failures(&replicas, which, "gone")).collect();
        line.cut();
        s.cluster.compact_etcd();
        s.cluster.restart_apiserver(Duration::from_millis(300));
        line.mend();
        goes_on("after watches expired");
        for (which, before) in before.into_iter().enumerate() {
            eventually("the watch was answered that it is too old", 20, || {
                (failures(&replicas, which, "gone") > before).then_some(())
            });
        }
        for round in 0..3 {
            let before: Vec<u64> = (0..2)
                .map(|which| failures(&replicas, which, "connection"))
                .collect();
            line.cut();
            std::thread::sleep(Duration::from_millis(300 * round));
            line.mend();
            goes_on("after all connections were cut");
            for (which, before) in before.into_iter().enumerate() {
                assert!(failures(&replicas, which, "connection") > before, "they were");
            }
        }
    });

    progress(&format!("trouble: {}", seen.sentence()));
    wait_ledger_equals_pods(&s, &nodes);
    // Nothing is held that nobody has: every place can be had, and no more.
    s.clear_pods();
    wait_ledger_equals_pods(&s, &nodes);
    let pods: Vec<Pod> = (0..places + 3)
        .map(|number| Pod::vllm(&format!("last-{number}"), "0.28"))
        .collect();
    create_until_full(&s, &pods, places);
    s.wait_running(places, 30);
    wait_ledger_equals_pods(&s, &nodes);
    drop(replicas);
    drop(line);
}

/// Tells threads to stop when the one that leads them ends, well or not.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
