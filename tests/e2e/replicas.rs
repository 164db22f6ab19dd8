//! Several replicas behind one address, one ledger: killed, cut off and late, they never give a place away twice.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::eventually;
use crate::balancer::Balancer;
use crate::cluster::{Cluster, progress};
use crate::manifests::{GpuNode, Pod};
use crate::scenario::{Scenario, counted};
use crate::vramgate::Vramgate;

pub const LEDGERS: &str = "/apis/vramgate.io/v1alpha1/gpuledgers";

/// Pods of 0.28 that a device's budget of 0.90 holds.
pub const PLACES_PER_NODE: usize = 3;

/// Two replicas in the place of the one that the other scenarios use.
pub struct Replicas {
    cluster: &'static Cluster,
    pub all: Vec<Mutex<Vramgate>>,
    balancer: Option<Balancer>,
}

/// An old reservation is looked up early, so that a scenario need not wait a minute for what a kill left behind.
const OPTIONS: [&str; 2] = ["--reservation-ttl", "5s"];

impl Replicas {
    pub fn start(cluster: &'static Cluster) -> Self {
        Self::start_as(cluster, &cluster.directory.join("vramgate.kubeconfig"))
    }

    /// The same with another way to the API server.
    pub fn start_as(cluster: &'static Cluster, kubeconfig: &Path) -> Self {
        let port = cluster.with_vramgate(|vramgate| {
            vramgate.kill();
            vramgate.port()
        });
        let mut all: Vec<Vramgate> = ["replica-a", "replica-b"]
            .map(|name| Vramgate::replica(&cluster.directory, name))
            .into();
        for replica in &mut all {
            replica.start_as(kubeconfig, &OPTIONS);
        }
        let balancer = Balancer::start(port, all.iter().map(Vramgate::port).collect());
        Self {
            cluster,
            all: all.into_iter().map(Mutex::new).collect(),
            balancer: Some(balancer),
        }
    }

    pub fn with<T>(&self, which: usize, what: impl FnOnce(&mut Vramgate) -> T) -> T {
        what(
            &mut self.all[which]
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner),
        )
    }

    /// SIGKILL, and a new process at once.
    fn restart(&self, which: usize) {
        self.with(which, |replica| {
            replica.kill();
            replica.start_with(&OPTIONS);
        });
    }

    /// Which of them says that it leads.
    pub fn leaders(&self) -> Vec<usize> {
        let leads = |which: &usize| {
            let metrics = self.with(*which, |replica| replica.try_metrics());
            metrics.is_some_and(|text| text.contains("\nvramgate_leader 1"))
        };
        (0..self.all.len()).filter(leads).collect()
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        drop(self.balancer.take());
        for which in 0..self.all.len() {
            self.with(which, |replica| {
                if std::thread::panicking() {
                    progress(&replica.tail(40));
                }
                if replica.is_running() {
                    replica.kill();
                }
            });
        }
        self.cluster.with_vramgate(Vramgate::start);
    }
}

/// How many reviews of pods each replica has answered, over its kills: read again and again, since a process that is
/// killed takes its counters with it.
struct Shares<'a> {
    replicas: &'a Replicas,
    /// What each had answered before.
    base: Vec<u64>,
    /// What processes that are gone had answered, and what the one that runs has.
    seen: Mutex<Vec<(u64, u64)>>,
    done: AtomicBool,
}

impl<'a> Shares<'a> {
    fn new(replicas: &'a Replicas) -> Self {
        let base: Vec<u64> = (0..replicas.all.len())
            .map(|which| {
                let port = replicas.with(which, |replica| replica.status_port());
                crate::vramgate::pod_reviews(port).unwrap_or_default()
            })
            .collect();
        Self {
            replicas,
            seen: Mutex::new(base.iter().map(|base| (0, *base)).collect()),
            base,
            done: AtomicBool::new(false),
        }
    }

    /// Reads until it is told to stop. Ports are asked without the lock of the process, so a kill is not held up.
    fn watch(&self) {
        let ports: Vec<u16> = (0..self.replicas.all.len())
            .map(|which| self.replicas.with(which, |replica| replica.status_port()))
            .collect();
        while !self.done.load(Ordering::SeqCst) {
            for (which, port) in ports.iter().enumerate() {
                let Some(now) = crate::vramgate::pod_reviews(*port) else {
                    continue;
                };
                let mut seen = self.seen.lock().unwrap();
                let (before, last) = &mut seen[which];
                if now < *last {
                    *before += *last;
                }
                *last = now;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn counts(&self) -> Vec<u64> {
        let seen = self.seen.lock().unwrap();
        let both = seen.iter().zip(&self.base);
        both.map(|((before, last), base)| before + last - base).collect()
    }
}

/// What the records of the nodes hold: nodes by UID of the pod, and the UIDs of pods that were not seen.
fn ledger(s: &Scenario, nodes: &[&str]) -> (BTreeMap<String, Vec<String>>, BTreeSet<String>) {
    let mut entries: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut reservations = BTreeSet::new();
    for node in nodes {
        let answer = s.api().get(&format!("{LEDGERS}/{node}"));
        let list = |field: &str| {
            answer.body["status"][field]
                .as_array()
                .cloned()
                .unwrap_or_default()
        };
        let uid = |entry: &Value| entry["uid"].as_str().unwrap().to_owned();
        for entry in list("holders").iter().chain(&list("reservations")) {
            entries.entry(uid(entry)).or_default().push((*node).to_owned());
        }
        reservations.extend(list("reservations").iter().map(uid));
    }
    (entries, reservations)
}

/// The pods that exist, by UID, with the node that each is bound to.
fn pods(s: &Scenario) -> BTreeMap<String, Vec<String>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    s.list()
        .iter()
        .map(|pod| {
            (
                text(&pod["metadata"]["uid"]),
                vec![text(&pod["spec"]["nodeName"])],
            )
        })
        .collect()
}

/// Waits until the records name each pod once, on its own node, and nobody else.
#[track_caller]
pub fn wait_ledger_equals_pods(s: &Scenario, nodes: &[&str]) {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let ((entries, reservations), pods) = (ledger(s, nodes), pods(s));
        if entries == pods && reservations.is_empty() {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "the ledger is not the pods:\nledger {entries:#?}\nreservations {reservations:?}\npods {pods:#?}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Creates all at once, and what was not admitted again and again, as controllers do, until as many exist as there are
/// places. At no time are there more.
pub fn create_until_full(s: &Scenario, pods: &[Pod], places: usize) -> Vec<usize> {
    let mut waiting: Vec<Pod> = pods.to_vec();
    let mut admitted_in_wave = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(90);
    loop {
        let answers = s.create_at_once(&waiting);
        let mut refused = Vec::new();
        for (pod, answer) in waiting.into_iter().zip(answers) {
            // A second try finds what the first has stored without an answer.
            let exists = answer.is_ok_and(|answer| answer.is_success() || answer.status == 409);
            if !exists {
                refused.push(pod);
            }
        }
        admitted_in_wave.push(pods.len() - refused.len());
        let stored = s.count_stored();
        assert!(stored <= places, "{stored} pods for {places} places");
        waiting = refused;
        if stored == places {
            break;
        }
        assert!(
            Instant::now() < deadline,
            "only {stored} of {places} places could be had: {admitted_in_wave:?}"
        );
        std::thread::sleep(Duration::from_millis(300));
    }
    // All who are left are refused, and by the sum; what else may have happened to a call is over soon.
    let deadline = Instant::now() + Duration::from_secs(90);
    while !waiting.is_empty() {
        let answers = s.create_at_once(&waiting);
        let mut others = Vec::new();
        for (pod, answer) in waiting.into_iter().zip(answers) {
            match answer {
                Ok(answer) if answer.text().contains("VG201") => {
                    answer.denied("one of those that are left", &["VG201"]);
                }
                Ok(answer) if answer.is_success() => panic!("one more was admitted: {}", answer.body),
                Ok(answer) => others.push((pod, answer.text())),
                Err(error) => others.push((pod, error)),
            }
        }
        let texts: Vec<&String> = others.iter().map(|(_, text)| text).collect();
        assert!(Instant::now() < deadline, "other answers: {texts:?}");
        waiting = others.into_iter().map(|(pod, _)| pod).collect();
    }
    assert_eq!(s.count_stored(), places);
    admitted_in_wave
}

fn rounds() -> usize {
    let told = std::env::var("VRAMGATE_E2E_ROUNDS").ok();
    told.map_or(2, |text| text.parse().expect("VRAMGATE_E2E_ROUNDS is a number"))
}

#[test]
fn replicas_sixty_pods_for_fifteen_places_while_one_is_killed() {
    let s = Scenario::alone("rep");
    let nodes = ["rep-n1", "rep-n2", "rep-n3", "rep-n4", "rep-n5"];
    for node in nodes {
        s.node(GpuNode::l40s(node).slots(8));
    }
    let replicas = Replicas::start(s.cluster);
    let places = nodes.len() * PLACES_PER_NODE;
    let mut answered = vec![0; replicas.all.len()];
    for round in 0..rounds() {
        let pods: Vec<Pod> = (1..=60)
            .map(|number| Pod::vllm(&format!("round{round}-{number}"), "0.28"))
            .collect();
        let shares = Shares::new(&replicas);
        let waves = std::thread::scope(|scope| {
            scope.spawn(|| shares.watch());
            scope.spawn(|| {
                // Somewhere within the burst: after some of its answers, or after some time.
                let which = round % 2;
                let began = Instant::now();
                while round % 4 < 2 && shares.counts()[which] < 22 && began.elapsed() < Duration::from_secs(3)
                {
                    std::thread::sleep(Duration::from_millis(1));
                }
                if round % 4 >= 2 {
                    std::thread::sleep(Duration::from_millis(10 + 35 * u64::try_from(round % 7).unwrap()));
                }
                progress(&format!(
                    "replicas round {round}: killed after {} ms, when each had answered {:?}",
                    began.elapsed().as_millis(),
                    shares.counts()
                ));
                replicas.restart(which);
            });
            let waves = create_until_full(&s, &pods, places);
            shares.done.store(true, Ordering::SeqCst);
            waves
        });
        let counts = shares.counts();
        progress(&format!(
            "replicas round {round}: admitted after each wave {waves:?}, reviews answered by each {counts:?}"
        ));
        for (all, count) in answered.iter_mut().zip(counts) {
            *all += count;
        }
        s.wait_running(places, 30);
        wait_ledger_equals_pods(&s, &nodes);
        assert_three_each(&s, &nodes);
        s.clear_pods();
        wait_ledger_equals_pods(&s, &nodes);
    }
    let all: u64 = answered.iter().sum();
    assert!(
        answered.iter().all(|count| count * 5 >= all),
        "each answers at least a fifth: {answered:?}"
    );
}

/// The scheduler counts memory: no node has more pods than its device holds, and as many are placed as there are places.
#[track_caller]
fn assert_three_each(s: &Scenario, nodes: &[&str]) {
    let mut by_node: BTreeMap<String, usize> = BTreeMap::new();
    for node in pods(s).into_values().flatten() {
        *by_node.entry(node).or_default() += 1;
    }
    let three_each: BTreeMap<String, usize> = nodes
        .iter()
        .map(|node| ((*node).to_owned(), PLACES_PER_NODE))
        .collect();
    assert_eq!(by_node, three_each);
    for pod in s.list() {
        assert_eq!(counted(&pod), Some(280_000), "{pod:#}");
    }
}

#[test]
fn replicas_the_lead_goes_over_when_its_holder_is_killed() {
    let s = Scenario::alone("rep-lead");
    let replicas = Replicas::start(s.cluster);
    let lease = || {
        s.api()
            .get("/apis/coordination.k8s.io/v1/namespaces/vramgate/leases/vramgate")
            .body
    };
    // The Lease of the process before them ends first.
    let leader = eventually("one of them leads", 30, || match replicas.leaders().as_slice() {
        [leader] => Some(*leader),
        _ => None,
    });
    let holder = lease()["spec"]["holderIdentity"].clone();
    replicas.with(leader, Vramgate::kill);
    let began = Instant::now();
    eventually("the other leads", 30, || {
        (replicas.leaders() == [1 - leader]).then_some(())
    });
    let took = began.elapsed();
    progress(&format!(
        "rep-lead: the lead went over {:.1} s after a kill",
        took.as_secs_f32()
    ));
    // The time of a Lease, two tries and a busy machine.
    assert!(took < Duration::from_secs(15 + 2 * 2 + 2), "{took:?}");
    assert_ne!(lease()["spec"]["holderIdentity"], holder);

    // Told to end, it gives the lead back, and the other does not wait for the end of the Lease.
    replicas.with(leader, |replica| replica.start_with(&OPTIONS));
    replicas.with(1 - leader, |replica| replica.terminate());
    let began = Instant::now();
    eventually("the first leads again", 30, || {
        (replicas.leaders() == [leader]).then_some(())
    });
    progress(&format!(
        "rep-lead: the lead went over {:.1} s after a request to end",
        began.elapsed().as_secs_f32()
    ));
    assert!(
        lease()["spec"]["holderIdentity"]
            .as_str()
            .is_some_and(|holder| !holder.is_empty())
    );
}

#[test]
fn replicas_lose_nothing_when_the_control_plane_restarts_under_load() {
    let s = Scenario::alone("rep-plane");
    let nodes = ["rep-plane-n1", "rep-plane-n2"];
    for node in nodes {
        s.node(GpuNode::l40s(node).slots(8));
    }
    let replicas = Replicas::start(s.cluster);
    let places = nodes.len() * PLACES_PER_NODE;
    for (round, compacted) in [(0, false), (1, true)] {
        let pods: Vec<Pod> = (1..=20)
            .map(|number| Pod::vllm(&format!("round{round}-{number}"), "0.28"))
            .collect();
        let waves = std::thread::scope(|scope| {
            scope.spawn(|| {
                // In the middle of it: some are stored, and some are not.
                let began = Instant::now();
                while s.count_stored() == 0 && began.elapsed() < Duration::from_secs(5) {
                    std::thread::sleep(Duration::from_millis(2));
                }
                if compacted {
                    // Watches that start from before it are answered with 410.
                    s.cluster.compact_etcd();
                }
                s.cluster.restart_apiserver(Duration::from_millis(300));
            });
            create_until_full(&s, &pods, places)
        });
        progress(&format!(
            "rep-plane round {round}: admitted after each wave {waves:?}"
        ));
        s.wait_running(places, 60);
        wait_ledger_equals_pods(&s, &nodes);
        assert_three_each(&s, &nodes);
        s.clear_pods();
        wait_ledger_equals_pods(&s, &nodes);
    }
    drop(replicas);
}

/// What the page about replicas shows is what kubectl prints.
#[test]
fn replicas_kubectl_shows_the_ledger() {
    let s = Scenario::new("rep-show");
    let node = "rep-show-n1";
    s.node(GpuNode::h100(node).slots(10));
    for name in ["a", "b"] {
        s.create(&Pod::vllm(name, "0.30")).admitted(name);
    }
    s.wait_running(2, 20);
    let mut tries = 0;
    let text = eventually("kubectl shows the record", 60, || {
        // What kubectl has learned of the API server can be from before the definition.
        tries += 1;
        let cache = s.cluster.directory.join(format!("kubectl-cache-{tries}"));
        let cache = format!("--cache-dir={}", cache.display());
        let text = s.kubectl(&["get", "gpuledgers.vramgate.io", node, &cache], None);
        let shown = text.contains("1 nvidia.com/gpu   0.90     0.60       2         0");
        if !shown && tries % 20 == 1 {
            progress(&format!("rep-show: not yet: {text}"));
        }
        shown.then_some(text)
    });
    progress(&format!("rep-show:\n{text}"));
    let header = text
        .lines()
        .next()
        .unwrap()
        .split_whitespace()
        .collect::<Vec<_>>();
    assert_eq!(
        header,
        [
            "NAME",
            "DEVICES",
            "BUDGET",
            "PROMISED",
            "HOLDERS",
            "RESERVATIONS",
            "AGE"
        ]
    );
    let owner = s.api().get(&format!("{LEDGERS}/{node}")).body["metadata"]["ownerReferences"][0].clone();
    assert_eq!((&owner["kind"], &owner["name"]), (&json!("Node"), &json!(node)));
    s.api().delete(&format!("/api/v1/nodes/{node}"), 0);
    eventually("the record goes with its node", 60, || {
        (s.api().get(&format!("{LEDGERS}/{node}")).status == 404).then_some(())
    });
}
