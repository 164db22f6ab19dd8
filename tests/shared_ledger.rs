//! Two replicas over one store and an API server that exists only here: whatever the order of what happens, no node is
//! promised to more pods than it can hold, nobody who was admitted falls out of the records, and nothing stays behind.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends at the first surprise"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};
use tokio::time::Instant;
use vramgate::decision::{Operation, Question, judge, prepare};
use vramgate::device::catalogue::Catalogue;
use vramgate::device::inventory;
use vramgate::engine::NoSources;
use vramgate::ledger::{Ledger, Moment};
use vramgate::policy::{MissingFacts, PolicySet};
use vramgate::server::recorder::Round;
use vramgate::server::{Clock, Decider, LedgerDecider, Recorder};
use vramgate::store::memory::{Fault, Weather};
use vramgate::store::{MemoryStore, Stored};
use vramgate::workload::Workload;

const NODES: [&str; 3] = ["n0", "n1", "n2"];
const SLOTS: u32 = 4;
const TOTAL: u64 = 46_068;
const BUDGET: u64 = 900_000;

/// The share of a fraction on an L40S, worked out anew: the larger of itself and of what it takes with its overhead.
fn share(thousandths: u64) -> u64 {
    let request = (TOTAL * thousandths).div_ceil(1_000);
    let reserve = (TOTAL * 15).div_ceil(1_000).max(512);
    let with_overhead = (900_000 * (request + 640)).div_ceil(TOTAL - reserve);
    with_overhead.max(thousandths * 1_000)
}

/// Numbers that only look random, so that a run can be repeated.
#[derive(Clone)]
struct Dice(Arc<Mutex<u64>>);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(seed | 1)))
    }

    fn below(&self, n: usize) -> usize {
        let mut state = self.0.lock().unwrap();
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        usize::try_from(*state >> 11).unwrap() % n
    }
}

/// Ready after so many polls.
struct Polls(usize);

impl Future for Polls {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

struct Storm {
    dice: Dice,
    /// One call in so many goes wrong; none where it is zero.
    one_in: Mutex<usize>,
}

impl Weather for Storm {
    fn before(&self) -> BoxFuture<'_, Fault> {
        Box::pin(async {
            Polls(self.dice.below(3)).await;
            let one_in = *self.one_in.lock().unwrap();
            if one_in == 0 || self.dice.below(one_in) > 0 {
                return Fault::None;
            }
            [Fault::Conflict, Fault::LostBefore, Fault::LostAfter, Fault::Late][self.dice.below(4)]
        })
    }

    fn after(&self) -> BoxFuture<'_, ()> {
        Box::pin(Polls(self.dice.below(3)))
    }
}

/// A process.
struct Replica {
    ledger: Arc<Mutex<Ledger>>,
    recorder: Arc<Recorder>,
    decider: Arc<LedgerDecider>,
    /// Events of pods that it was told of.
    told: usize,
}

#[derive(Clone, Debug)]
struct Pod {
    object: Value,
    share: u64,
    only: Option<usize>,
    bound: Option<usize>,
}

#[derive(Default)]
struct Api {
    /// Pods that are stored, by UID.
    stored: BTreeMap<String, Pod>,
    /// Pods that were admitted and are on their way into the store.
    on_their_way: BTreeMap<String, Pod>,
    /// Every change of a pod: the pod as it is then, or that it is gone.
    events: Vec<(String, Option<Value>)>,
    denied: usize,
    admitted: usize,
    unrecorded: usize,
}

type Task = BoxFuture<'static, ()>;

struct World {
    api: Arc<Mutex<Api>>,
    store: Arc<MemoryStore>,
    storm: Arc<Storm>,
    dice: Dice,
    replicas: Vec<Replica>,
    /// Requests by the replica that answers them.
    tasks: Vec<(usize, Task)>,
    old_records: Vec<(String, Stored)>,
    count: u64,
    now: Arc<Mutex<u64>>,
}

fn node(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name,
            "nvidia.com/gpu.product": "NVIDIA-L40S-SHARED",
            "nvidia.com/gpu.memory": TOTAL.to_string(),
            "nvidia.com/gpu.count": "1",
            "nvidia.com/gpu.replicas": SLOTS.to_string(),
            "nvidia.com/gpu.sharing-strategy": "time-slicing",
        }},
        "spec": {},
        "status": {
            "capacity": {"nvidia.com/gpu": SLOTS.to_string()},
            "allocatable": {"nvidia.com/gpu": SLOTS.to_string()},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

fn pod(uid: &str, thousandths: u64, only: Option<usize>) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("p-{uid}"), "namespace": "team", "uid": uid},
        "spec": {"containers": [{"name": "c", "image": "vllm/vllm-openai:v0.20.0",
            "args": ["--model", "m", "--gpu-memory-utilization", format!("0.{thousandths:03}")],
            "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
    });
    if let Some(only) = only {
        pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": NODES[only]});
    }
    pod
}

fn question(object: &Value, dry_run: bool) -> Question {
    Question {
        operation: Operation::Create,
        workload: Workload::read(object).unwrap().unwrap(),
        old: None,
        namespace_labels: BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), "team".to_owned())]),
        by_node: false,
        scale_only: false,
        dry_run,
    }
}

fn see(ledger: &mut Ledger, uid: &str, pod: Option<&Value>) {
    match pod {
        Some(pod) => ledger.set_pod(&serde_json::from_value(pod.clone()).unwrap(), &NoSources),
        None => ledger.remove_pod(uid),
    }
}

impl World {
    fn new(seed: u64, one_in: usize) -> Self {
        let dice = Dice::new(seed);
        let storm = Arc::new(Storm {
            dice: dice.clone(),
            one_in: Mutex::new(one_in),
        });
        let mut world = Self {
            api: Arc::default(),
            store: Arc::new(MemoryStore::with_weather(storm.clone())),
            storm,
            dice,
            replicas: Vec::new(),
            tasks: Vec::new(),
            old_records: Vec::new(),
            count: 0,
            now: Arc::default(),
        };
        for _ in 0..2 {
            let replica = world.start();
            world.replicas.push(replica);
        }
        world
    }

    /// A process that lists everything, in some order.
    fn start(&self) -> Replica {
        let mut ledger = Ledger::new(Arc::new(PolicySet::built_in()));
        ledger.share_records();
        let read_nodes = |ledger: &mut Ledger| {
            for name in NODES {
                let node = serde_json::from_value(node(name)).unwrap();
                ledger.set_node(
                    inventory::read(&node, MissingFacts::Exclusive, Catalogue::embedded()).unwrap(),
                );
            }
        };
        let read_records = |ledger: &mut Ledger| {
            for (node, stored) in self.store.records() {
                ledger.set_record(
                    &node,
                    &stored.record,
                    &stored.version.0,
                    Moment(*self.now.lock().unwrap()),
                );
            }
        };
        let api = self.api.lock().unwrap();
        let read_pods = |ledger: &mut Ledger| {
            for (uid, pod) in &api.stored {
                see(ledger, uid, Some(&pod.object));
            }
        };
        let steps: [&dyn Fn(&mut Ledger); 3] = [&read_nodes, &read_records, &read_pods];
        let order = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]][self.dice.below(6)];
        for step in order {
            steps[step](&mut ledger);
        }
        let now = Arc::clone(&self.now);
        let ledger = Arc::new(Mutex::new(ledger));
        let recorder = Arc::new(Recorder::new(
            ledger.clone(),
            self.store.clone(),
            Arc::new(move || Moment(*now.lock().unwrap())),
        ));
        let decider = LedgerDecider::new(ledger.clone(), Clock::start()).with_recorder(recorder.clone());
        Replica {
            ledger,
            recorder,
            decider: Arc::new(decider),
            told: api.events.len(),
        }
    }

    /// A request comes in; what becomes of the pod afterwards is decided by `stored`.
    fn create(&mut self, replica: usize, thousandths: u64, only: Option<usize>, stored: bool) {
        self.count += 1;
        let uid = format!("u{}", self.count);
        let object = pod(&uid, thousandths, only);
        let question = question(&object, false);
        let decider = self.replicas[replica].decider.clone();
        let (api, dice) = (self.api.clone(), self.dice.clone());
        let known = Pod {
            object: object.clone(),
            share: share(thousandths),
            only,
            bound: None,
        };
        self.tasks.push((
            replica,
            Box::pin(async move {
                let until = Instant::now() + Duration::from_secs(2);
                let decision = decider.decide(question, &NoSources, until).await;
                if !decision.verdict.admit {
                    let mut api = api.lock().unwrap();
                    let is_902 = decision.verdict.findings[0].code.as_str() == "VG902";
                    *(if is_902 {
                        &mut api.unrecorded
                    } else {
                        &mut api.denied
                    }) += 1;
                    return;
                }
                api.lock().unwrap().admitted += 1;
                if !stored {
                    // Something after us refused it, and nobody tells.
                    return;
                }
                api.lock().unwrap().on_their_way.insert(uid.clone(), known);
                Polls(dice.below(6)).await;
                let mut api = api.lock().unwrap();
                // Stored already, if a replica crashed meanwhile.
                let Some(known) = api.on_their_way.remove(&uid) else {
                    return;
                };
                api.stored.insert(uid.clone(), known);
                api.events.push((uid, Some(object)));
            }),
        ));
    }

    /// Polls some of the requests, in some order.
    async fn poll(&mut self, times: usize) {
        for _ in 0..times {
            if self.tasks.is_empty() {
                return;
            }
            let index = self.dice.below(self.tasks.len());
            let mut context = Context::from_waker(futures::task::noop_waker_ref());
            if self.tasks[index].1.as_mut().poll(&mut context).is_ready() {
                drop(self.tasks.swap_remove(index));
            }
            // The runtime bounds what one poll of its own may do.
            tokio::task::yield_now().await;
            if self.dice.below(4) == 0 {
                let records: Vec<(String, Stored)> = self.store.records().into_iter().collect();
                if !records.is_empty() {
                    self.old_records
                        .push(records[self.dice.below(records.len())].clone());
                }
            }
            self.assert_nobody_is_lost();
        }
    }

    async fn finish(&mut self) {
        for round in 0..20_000 {
            if self.tasks.is_empty() {
                return;
            }
            self.poll(8).await;
            if round % 16 == 15 {
                tokio::time::advance(Duration::from_millis(5)).await;
            }
        }
        panic!("{} requests never end", self.tasks.len());
    }

    fn tell(&mut self, replica: usize, events: usize) {
        let api = self.api.lock().unwrap();
        let replica = &mut self.replicas[replica];
        let mut ledger = replica.ledger.lock().unwrap();
        for (uid, pod) in api.events[replica.told..].iter().take(events) {
            see(&mut ledger, uid, pod.as_ref());
            replica.told += 1;
        }
    }

    /// Events were missed: what is there now is listed, and what is not is gone.
    fn list_again(&mut self, replica: usize) {
        let api = self.api.lock().unwrap();
        let replica = &mut self.replicas[replica];
        let mut ledger = replica.ledger.lock().unwrap();
        let before: BTreeSet<&String> = api.events[..replica.told].iter().map(|(uid, _)| uid).collect();
        for (uid, pod) in &api.stored {
            see(&mut ledger, uid, Some(&pod.object));
        }
        for uid in before.into_iter().filter(|uid| !api.stored.contains_key(*uid)) {
            ledger.remove_pod(uid);
        }
        replica.told = api.events.len();
    }

    fn tell_records(&mut self, replica: usize, old: bool) {
        let ledger = self.replicas[replica].ledger.clone();
        let mut ledger = ledger.lock().unwrap();
        let now = Moment(*self.now.lock().unwrap());
        if old && !self.old_records.is_empty() {
            let (node, stored) = &self.old_records[self.dice.below(self.old_records.len())];
            ledger.set_record(node, &stored.record, &stored.version.0, now);
            return;
        }
        for (node, stored) in self.store.records() {
            ledger.set_record(&node, &stored.record, &stored.version.0, now);
        }
    }

    /// All who are admitted, with the node whose record holds each.
    fn places(&self) -> BTreeMap<String, (u32, String)> {
        let mut top: BTreeMap<String, (u32, String)> = BTreeMap::new();
        for (node, stored) in self.store.records() {
            for entry in stored.record.entries() {
                let at = (entry.moves, node.clone());
                let known = top.entry(entry.uid.clone()).or_insert_with(|| at.clone());
                *known = known.clone().max(at);
            }
        }
        top
    }

    fn assert_nobody_is_lost(&self) {
        let places = self.places();
        let api = self.api.lock().unwrap();
        for uid in api.stored.keys().chain(api.on_their_way.keys()) {
            assert!(places.contains_key(uid), "{uid} stands in no record");
        }
    }

    /// No node is promised to more than it can hold.
    fn assert_within_budget(&self) {
        let places = self.places();
        let api = self.api.lock().unwrap();
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for (uid, pod) in api.stored.iter().chain(&api.on_their_way) {
            *sums.entry(&places[uid].1).or_default() += pod.share;
        }
        for (node, sum) in sums {
            assert!(
                sum <= BUDGET,
                "{node} is promised to {sum} millionths: {places:?}, {:?}",
                api.stored
                    .iter()
                    .map(|(uid, pod)| (uid, pod.bound))
                    .collect::<Vec<_>>()
            );
        }
    }

    /// The scheduler takes the place that the records say, and everybody is told.
    fn bind_as_recorded(&mut self, index: usize) {
        let places = self.places();
        {
            let mut api = self.api.lock().unwrap();
            let waiting: Vec<String> = api
                .stored
                .iter()
                .filter(|(_, pod)| pod.bound.is_none())
                .map(|(uid, _)| uid.clone())
                .collect();
            let Some(uid) = waiting.get(index % waiting.len().max(1)) else {
                return;
            };
            let to = NODES.iter().position(|node| *node == places[uid].1).unwrap();
            bind(&mut api, uid, to);
        }
        for replica in 0..2 {
            self.tell(replica, usize::MAX);
        }
    }

    /// The scheduler takes whatever has room by what is bound there.
    fn bind_elsewhere(&mut self, index: usize, first: usize) {
        let mut api = self.api.lock().unwrap();
        let waiting: Vec<(String, Pod)> = api
            .stored
            .iter()
            .filter(|(_, pod)| pod.bound.is_none())
            .map(|(uid, pod)| (uid.clone(), pod.clone()))
            .collect();
        let Some((uid, pod)) = waiting.get(index % waiting.len().max(1)) else {
            return;
        };
        let bound = |node: usize| api.stored.values().filter(move |other| other.bound == Some(node));
        let takes = |node: &usize| {
            let there: Vec<u64> = bound(*node).map(|other| other.share).collect();
            pod.only.is_none_or(|only| only == *node)
                && there.len() < 4
                && there.iter().sum::<u64>() + pod.share <= BUDGET
        };
        if let Some(to) = (0..3).map(|offset| (first + offset) % 3).find(takes) {
            bind(&mut api, uid, to);
        }
    }

    fn delete(&mut self, index: usize) {
        let mut api = self.api.lock().unwrap();
        let Some(uid) = api.stored.keys().nth(index % api.stored.len().max(1)).cloned() else {
            return;
        };
        api.stored.remove(&uid);
        api.events.push((uid, None));
    }

    async fn crash(&mut self, replica: usize) {
        self.tasks.retain(|(of, _)| *of != replica);
        // The API server refuses what nobody answered; what was answered is stored all the same.
        self.settle_on_their_way();
        self.replicas[replica] = self.start();
        tokio::task::yield_now().await;
    }

    fn settle_on_their_way(&mut self) {
        let mut api = self.api.lock().unwrap();
        for (uid, pod) in std::mem::take(&mut api.on_their_way) {
            api.events.push((uid.clone(), Some(pod.object.clone())));
            api.stored.insert(uid, pod);
        }
    }

    /// What is old is asked of the API server. Nothing is on its way: that is what the age is for.
    async fn end_old(&mut self, replica: usize) {
        self.finish().await;
        let api = self.api.lock().unwrap();
        let mut ledger = self.replicas[replica].ledger.lock().unwrap();
        for stale in ledger.stale(Moment(u64::MAX)) {
            if !api.stored.contains_key(&stale.uid) {
                ledger.release(&stale.uid);
            }
        }
    }

    /// A round of housekeeping, while others go on.
    fn keep(&mut self, replica: usize) {
        let recorder = self.replicas[replica].recorder.clone();
        self.tasks.push((
            replica,
            Box::pin(async move {
                recorder.keep_records().await;
            }),
        ));
    }

    /// Everything is told, nothing goes wrong any more, and all that is old is asked about.
    async fn come_to_rest(&mut self) {
        *self.storm.one_in.lock().unwrap() = 0;
        self.finish().await;
        self.store.deliver_late();
        for _ in 0..3 {
            for replica in 0..2 {
                self.list_again(replica);
                self.tell_records(replica, false);
                self.end_old(replica).await;
                self.replicas[replica]
                    .ledger
                    .lock()
                    .unwrap()
                    .end_raises(Moment(0));
            }
            for _ in 0..20 {
                self.keep(0);
                self.finish().await;
                self.tell_records(1, false);
            }
        }
        let recorder = self.replicas[0].recorder.clone();
        let mut round = Box::pin(async move { recorder.keep_records().await });
        let round = loop {
            let mut context = Context::from_waker(futures::task::noop_waker_ref());
            if let Poll::Ready(round) = round.as_mut().poll(&mut context) {
                break round;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(round, Round::default(), "housekeeping comes to an end");
    }

    /// The records hold exactly the pods that are there, each once.
    fn assert_records_are_the_pods(&self) {
        let mut recorded: Vec<String> = Vec::new();
        for stored in self.store.records().values() {
            assert!(
                stored.record.reservations.is_empty(),
                "{:?}",
                stored.record.reservations
            );
            recorded.extend(stored.record.entries().map(|entry| entry.uid.clone()));
        }
        recorded.sort();
        let api = self.api.lock().unwrap();
        let mut stored: Vec<String> = api.stored.keys().cloned().collect();
        stored.sort();
        assert_eq!(recorded, stored, "the records are the pods");
    }

    /// A pod is refused exactly if no placement has room for it.
    fn assert_refusals_are_right(&mut self, thousandths: u64, only: Option<usize>) {
        self.count += 1;
        let object = pod(&format!("u{}", self.count), thousandths, only);
        let api = self.api.lock().unwrap();
        let mut all: Vec<Pod> = api.stored.values().cloned().collect();
        all.push(Pod {
            object: object.clone(),
            share: share(thousandths),
            only,
            bound: None,
        });
        let is_possible = possible(&all);
        for replica in &self.replicas {
            let ledger = replica.ledger.lock().unwrap();
            let prepared = prepare(question(&object, true), ledger.policies(), &NoSources);
            let verdict = judge(&prepared, &ledger);
            assert_eq!(verdict.admit, is_possible, "{:?}", verdict.findings);
        }
    }
}

fn bind(api: &mut Api, uid: &str, to: usize) {
    let pod = api.stored.get_mut(uid).unwrap();
    pod.bound = Some(to);
    pod.object["spec"]["nodeName"] = json!(NODES[to]);
    let object = pod.object.clone();
    api.events.push((uid.to_owned(), Some(object)));
}

/// Whether all pods can stand together, each bound one where it is; every way is tried.
fn possible(pods: &[Pod]) -> bool {
    fn descend(pods: &[Pod], sums: [u64; 3], slots: [u32; 3]) -> bool {
        let Some((first, rest)) = pods.split_first() else {
            return true;
        };
        (0..3)
            .filter(|node| first.bound.or(first.only).is_none_or(|fixed| fixed == *node))
            .any(|node| {
                let (mut sums, mut slots) = (sums, slots);
                sums[node] += first.share;
                slots[node] += 1;
                sums[node] <= BUDGET && slots[node] <= SLOTS && descend(rest, sums, slots)
            })
    }
    descend(pods, [0; 3], [0; 3])
}

#[derive(Clone, Debug)]
enum Step {
    Create {
        replica: usize,
        thousandths: u64,
        only: Option<usize>,
        stored: bool,
    },
    DryRun(usize, u64),
    Poll(usize),
    Tell(usize, usize),
    TellRecords(usize, bool),
    ListAgain(usize),
    Bind(usize, usize),
    Delete(usize),
    Crash(usize),
    EndOld(usize),
    Keep(usize),
    Late,
    ClockJump(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let replica = || 0_usize..2;
    let index = || any::<prop::sample::Index>().prop_map(|index| index.index(64));
    prop_oneof![
        10 => (replica(), 100_u64..=700, prop::option::weighted(0.3, 0_usize..3), prop::bool::weighted(0.85))
            .prop_map(|(replica, thousandths, only, stored)| Step::Create { replica, thousandths, only, stored }),
        1 => (replica(), 100_u64..=700).prop_map(|(replica, thousandths)| Step::DryRun(replica, thousandths)),
        10 => (1_usize..40).prop_map(Step::Poll),
        4 => (replica(), 1_usize..5).prop_map(|(replica, events)| Step::Tell(replica, events)),
        3 => (replica(), any::<bool>()).prop_map(|(replica, old)| Step::TellRecords(replica, old)),
        1 => replica().prop_map(Step::ListAgain),
        3 => (index(), 0_usize..3).prop_map(|(pod, to)| Step::Bind(pod, to)),
        3 => index().prop_map(Step::Delete),
        1 => replica().prop_map(Step::Crash),
        1 => replica().prop_map(Step::EndOld),
        2 => replica().prop_map(Step::Keep),
        1 => Just(Step::Late),
        1 => (0_u64..10_000_000).prop_map(Step::ClockJump),
    ]
}

async fn take(world: &mut World, step: Step, is_wilful: bool) {
    match step {
        Step::Create {
            replica,
            thousandths,
            only,
            stored,
        } => world.create(replica, thousandths, only, stored),
        Step::DryRun(replica, thousandths) => {
            let question = question(&pod("dry", thousandths, None), true);
            let writes = world.store.writes();
            let decider = world.replicas[replica].decider.clone();
            let decision = decider.decide(question, &NoSources, Instant::now()).await;
            assert_eq!(decision.reserved, None);
            assert_eq!(world.store.writes(), writes, "a dry run writes nothing");
        }
        Step::Poll(times) => world.poll(times).await,
        Step::Tell(replica, events) => world.tell(replica, events),
        Step::TellRecords(replica, old) => world.tell_records(replica, old),
        Step::ListAgain(replica) => world.list_again(replica),
        Step::Bind(pod, to) if is_wilful => world.bind_elsewhere(pod, to),
        Step::Bind(pod, _) => {
            world.finish().await;
            world.bind_as_recorded(pod);
        }
        Step::Delete(pod) => world.delete(pod),
        Step::Crash(replica) => world.crash(replica).await,
        Step::EndOld(replica) => world.end_old(replica).await,
        Step::Keep(replica) => world.keep(replica),
        Step::Late => world.store.deliver_late(),
        Step::ClockJump(by) => {
            let mut now = world.now.lock().unwrap();
            *now = now.saturating_add(by);
        }
    }
}

fn run(seed: u64, one_in: usize, steps: Vec<Step>, last: (u64, Option<usize>), is_wilful: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut world = World::new(seed, one_in);
        for step in steps {
            take(&mut world, step, is_wilful).await;
            world.assert_nobody_is_lost();
            if !is_wilful {
                world.assert_within_budget();
            }
        }
        world.come_to_rest().await;
        world.assert_nobody_is_lost();
        world.assert_records_are_the_pods();
        if !is_wilful {
            world.assert_within_budget();
            world.assert_refusals_are_right(last.0, last.1);
        }
    });
}

/// The same cases in each run, unless another seed is asked for.
fn seed() -> RngSeed {
    std::env::var("PROPTEST_RNG_SEED").map_or(RngSeed::Fixed(7), |text| {
        RngSeed::Fixed(text.parse().expect("PROPTEST_RNG_SEED is a number"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 80,
        max_shrink_iters: 4_000,
        // What has to pass before anything lands must not hang on luck. PROPTEST_RNG_SEED looks elsewhere.
        rng_seed: seed(),
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_node_is_promised_twice(
        seed in any::<u64>(),
        one_in in prop_oneof![Just(0_usize), 3_usize..12],
        steps in prop::collection::vec(step(), 1..60),
        last in (100_u64..=800, prop::option::of(0_usize..3)),
    ) {
        run(seed, one_in, steps, last, false);
    }

    #[test]
    fn nobody_is_lost_when_the_scheduler_chooses(
        seed in any::<u64>(),
        one_in in prop_oneof![Just(0_usize), 3_usize..12],
        steps in prop::collection::vec(step(), 1..60),
    ) {
        run(seed, one_in, steps, (100, None), true);
    }
}
