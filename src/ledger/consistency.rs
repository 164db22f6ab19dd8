//! After any history: what the ledger keeps for speed equals what is worked out from its holders and nodes anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::room::Load;
use super::search::{Ask, steps};
use super::{Extent, Ledger, Moment};
use crate::decision::{Operation, Question, judge, prepare};
use crate::device::catalogue::Catalogue;
use crate::device::inventory;
use crate::engine::NoSources;
use crate::placement::candidates::{Fit, node_matches};
use crate::policy::{MissingFacts, PolicySet, file};
use crate::record::{Entry, NodeRecord, Taken};
use crate::units::Share;
use crate::workload::Workload;

mod bounds;
mod late;

const NODES: [&str; 4] = ["n0", "n1", "n2", "n3"];
/// Questions that one change of a few pods and nodes may ask; what it takes is thousands below.
const MOST_ASKED: u64 = 1_000_000;

impl Ledger {
    /// Panics where something that is kept differs from what it stands for.
    pub(crate) fn assert_consistent(&self) {
        self.assert_loads();
        self.assert_classes();
        self.assert_holders();
    }

    fn assert_loads(&self) {
        for (name, entry) in self.nodes.iter() {
            let here: Vec<_> = self
                .holders()
                .filter(|holder| holder.place.as_ref() == Some(name))
                .collect();
            let uids: BTreeSet<Arc<str>> = here.iter().map(|holder| holder.uid.clone()).collect();
            assert_eq!(entry.accounted, uids, "accounted on {name}");
            let class = self.nodes.class(entry.class).expect("its class");
            let kept = entry.loads.iter();
            let mut loads: Vec<Load> = kept.map(|kept| Load::default().with_history_of(kept)).collect();
            for holder in here {
                let standings = self.standings_on(holder, class, name);
                assert_eq!(
                    holder.standings, standings,
                    "standings of {} on {name}",
                    holder.uid
                );
                for (load, standing) in loads.iter_mut().zip(&standings) {
                    load.add(standing);
                }
            }
            assert_eq!(entry.loads, loads, "loads of {name}");
        }
    }

    fn assert_classes(&self) {
        for (index, class) in self.nodes.classes() {
            let members: BTreeSet<Arc<str>> = self
                .nodes
                .iter()
                .filter(|(_, entry)| entry.class == index)
                .map(|(name, _)| name.clone())
                .collect();
            assert_eq!(class.members, members, "members of class {index}");
            for pool in 0..class.pools.len() {
                let by_room = || {
                    let parts = [true, false].into_iter();
                    parts.flat_map(|has_slot| class.roomiest(pool, has_slot).map(|(_, name)| name))
                };
                let kept: BTreeSet<&Arc<str>> = by_room().collect();
                assert_eq!(kept.len(), by_room().count(), "each node once");
                assert_eq!(kept, members.iter().collect(), "nodes by room in class {index}");
                for name in &members {
                    let entry = self.nodes.get(name).expect("a member");
                    let (of_node, policy) = (&entry.node.pools[pool], &class.device_policy.device);
                    let room = super::room::room(of_node, policy, &entry.loads[pool]).now;
                    let found = |least: Share| class.with_room(pool, least).any(|other| other == name);
                    assert!(
                        found(room) && !found(Share::from_ppm(room.ppm() + 1)),
                        "room of {name}"
                    );
                }
            }
        }
        for (name, _) in self.nodes.iter().filter(|(name, _)| self.is_over(name)) {
            assert!(
                self.crowded.contains(name),
                "{name} is above its budget and forgotten"
            );
        }
        assert!(
            self.nodes.class_count() <= NODES.len() + 1,
            "kinds without nodes are forgotten"
        );
    }

    fn assert_holders(&self) {
        let mut bound: BTreeMap<Arc<str>, BTreeSet<Arc<str>>> = BTreeMap::new();
        for holder in self.holders() {
            if let Some(node) = &holder.node {
                bound.entry(node.clone()).or_default().insert(holder.uid.clone());
            }
            let named = self
                .named(&holder.namespace, &holder.name)
                .any(|other| other.uid == holder.uid);
            assert!(named, "{} has its name", holder.uid);
            assert_eq!(self.raised.contains(&holder.uid), holder.raise.is_some());
            assert_eq!(self.unseen.contains(&holder.uid), !holder.seen);
            let is_tentative = holder.place.is_some() && holder.place != holder.node;
            assert_eq!(self.tentative.contains(&holder.uid), is_tentative);
            let waits = holder.movable() && holder.place.is_none();
            assert_eq!(
                self.unplaced.contains(&(holder.order, holder.uid.clone())),
                waits,
                "{} waits",
                holder.uid
            );
            if let Some(place) = &holder.place {
                let entry = self
                    .nodes
                    .get(place)
                    .unwrap_or_else(|| panic!("{} stands on {place}", holder.uid));
                if holder.node.as_ref() != Some(place) && !holder.foreign {
                    let spec = holder
                        .constraints
                        .as_ref()
                        .expect("what moves knows where it may stand");
                    let never = matches!(node_matches(spec, &entry.node), Fit::Never(_));
                    assert!(!never, "{} may not stand on {place}", holder.uid);
                }
            }
            if let Some(node) = holder.node.as_ref().filter(|node| self.nodes.get(node).is_some()) {
                assert!(
                    holder.place.is_some(),
                    "{} is bound to {node} and counts nowhere",
                    holder.uid
                );
            }
            if let Some(node) = &holder.node {
                let is_away = holder.place.is_some() && holder.place.as_ref() != Some(node);
                assert_eq!(self.away.contains(&holder.uid), is_away, "{} is away", holder.uid);
            }
            if holder.foreign {
                let at = self.records.place_of(&holder.uid);
                let at = at.filter(|at| self.nodes.get(at).is_some());
                assert_eq!(
                    holder.place.as_ref(),
                    at,
                    "{} is where its record says",
                    holder.uid
                );
            }
            if waits {
                let ask = Ask::of(self, holder).expect("constraints");
                let place = super::search::Overlay::new(self).find(&ask, &BTreeSet::new());
                assert_eq!(place, None, "{} waits although a place is free", holder.uid);
            }
        }
        assert_eq!(self.bound, bound);
        assert!(
            self.away
                .iter()
                .all(|uid| self.holder(uid).is_some_and(|holder| holder.node.is_some()))
        );
        assert_eq!(self.names.len(), self.holders.keys().count());
        assert!(self.unplaced.iter().all(|(_, uid)| self.holder(uid).is_some()));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Create {
        fraction: u64,
        only: Option<usize>,
        again: bool,
    },
    /// The watch shows it, unbound or bound to a node of the scheduler's choice.
    See(usize, Option<usize>),
    /// Its status tells the slots that its container got, or tells nothing any more.
    Status(usize, Option<(usize, usize)>),
    Terminating(usize),
    Ended(usize),
    Deleted(usize),
    Release(usize),
    /// Another image or fraction, in place.
    Update(usize, u64),
    Node(usize, usize),
    NodeGone(usize),
    Policies(usize),
    Namespace(bool),
    Raises,
    /// A record is read: entries of pods that are known and of some that are not.
    Record(usize, Vec<(usize, u64, u32)>),
    RecordGone(usize),
    /// What is to be written is stored.
    Written(usize),
    /// What waits for a record and does not fit is given back, and moves that no record has are undone.
    Withdraw(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let index = || any::<prop::sample::Index>().prop_map(|index| index.index(16));
    prop_oneof![
        8 => (50_u64..=900, prop::option::weighted(0.3, 0..NODES.len()), prop::bool::weighted(0.2))
            .prop_map(|(fraction, only, again)| Step::Create { fraction, only, again }),
        8 => (index(), prop::option::weighted(0.7, 0..NODES.len())).prop_map(|(pod, node)| Step::See(pod, node)),
        5 => (index(), prop::option::weighted(0.8, (0_usize..3, 0_usize..4)))
            .prop_map(|(pod, slot)| Step::Status(pod, slot)),
        1 => index().prop_map(Step::Terminating),
        1 => index().prop_map(Step::Ended),
        2 => index().prop_map(Step::Deleted),
        1 => index().prop_map(Step::Release),
        2 => (index(), 50_u64..=900).prop_map(|(pod, fraction)| Step::Update(pod, fraction)),
        4 => (0..NODES.len(), 0..SHAPES).prop_map(|(node, shape)| Step::Node(node, shape)),
        2 => (0..NODES.len()).prop_map(Step::NodeGone),
        1 => (0_usize..6).prop_map(Step::Policies),
        1 => any::<bool>().prop_map(Step::Namespace),
        1 => Just(Step::Raises),
        5 => (0..NODES.len(), prop::collection::vec((index(), 0_u64..700_000, 0_u32..3), 0..4))
            .prop_map(|(node, entries)| Step::Record(node, entries)),
        1 => (0..NODES.len()).prop_map(Step::RecordGone),
        4 => (0..NODES.len()).prop_map(Step::Written),
        2 => (0..NODES.len()).prop_map(Step::Withdraw),
    ]
}

const SHAPES: usize = 9;

fn node(name: &str, shape: usize) -> Value {
    let (devices, slots) = match shape {
        1 => (1, 8),
        2 => (1, 1),
        3 => (2, 3),
        _ => (1, 4),
    };
    let shared = slots > 1;
    let product = if shared {
        "NVIDIA-L40S-SHARED"
    } else {
        "NVIDIA-L40S"
    };
    let count = devices * slots;
    let mut node = json!({
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name,
            "nvidia.com/gpu.product": product,
            "nvidia.com/gpu.memory": "46068",
            "nvidia.com/gpu.count": devices.to_string(),
            "nvidia.com/gpu.replicas": slots.to_string(),
            "nvidia.com/gpu.sharing-strategy": if shared { "time-slicing" } else { "none" },
        }},
        "spec": {},
        "status": {
            "capacity": {"nvidia.com/gpu": count.to_string()},
            "allocatable": {"nvidia.com/gpu": count.to_string()},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    match shape {
        4 => node["spec"]["unschedulable"] = json!(true),
        5 => node["status"]["allocatable"]["nvidia.com/gpu"] = json!("1"),
        6 => {
            node["metadata"]["labels"]["nvidia.com/gpu.memory"] = Value::Null;
            let labels = node["metadata"]["labels"].as_object_mut().unwrap();
            labels.remove("nvidia.com/gpu.memory");
        }
        7 => node["metadata"]["labels"]["kubernetes.io/hostname"] = json!("other"),
        8 => {
            for list in ["capacity", "allocatable"] {
                node["status"][list] = json!({"nvidia.com/gpu.shared": "4"});
            }
        }
        _ => {}
    }
    node
}

fn policies(choice: usize) -> Arc<PolicySet> {
    let document = |spec: &str| {
        format!(
            "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: p}}\nspec: {spec}\n"
        )
    };
    let text = match choice {
        1 => document("{match: {}, device: {budget: \"0.50\"}}"),
        2 => document(
            "{match: {nodes: {matchLabels: {kubernetes.io/hostname: n1}}}, device: {budget: \"0.70\"}}",
        ),
        3 => document(
            "{match: {namespaces: {matchLabels: {tier: gold}}}, overheadMiB: {vllm: {\">=0.20\": 4000}}}",
        ),
        4 => document("{match: {}, device: {evidence: [any]}}"),
        5 => document("{match: {}, device: {evidence: [observed]}}"),
        _ => return Arc::new(PolicySet::built_in()),
    };
    let documents = file::parse(&text, "test").unwrap_or_else(|errors| panic!("{errors}"));
    Arc::new(PolicySet::from_documents(documents).unwrap_or_else(|errors| panic!("{errors}")))
}

struct Run {
    ledger: Ledger,
    pods: Vec<Value>,
    count: u64,
    version: u64,
}

impl Run {
    fn new() -> Self {
        let mut ledger = Ledger::new(policies(0));
        for name in &NODES[..3] {
            set_node(&mut ledger, &node(name, 0));
        }
        Self {
            ledger,
            pods: Vec::new(),
            count: 0,
            version: 0,
        }
    }

    fn review(&mut self, operation: Operation, object: &Value, old: Option<&Value>) -> bool {
        let read = |value: &Value| Workload::read(value).unwrap().unwrap();
        let question = Question {
            operation,
            workload: read(object),
            old: old.map(read),
            namespace_labels: self.ledger.namespace_labels("team"),
            by_node: false,
            scale_only: false,
            dry_run: false,
        };
        let prepared = prepare(question, self.ledger.policies(), &NoSources);
        let mut verdict = judge(&prepared, &self.ledger);
        self.count += 1;
        if let Some(reservation) = verdict.reservation.take() {
            let uid = reservation.uid.clone();
            self.ledger.commit(reservation, Moment(self.count));
            if self.count.is_multiple_of(3) {
                self.ledger.await_record(&uid);
            }
        }
        verdict.admit
    }

    fn see(&mut self, pod: &Value) {
        let pod = serde_json::from_value(pod.clone()).unwrap();
        self.ledger.set_pod(&pod, &NoSources);
    }

    fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    /// Another replica's record of a node.
    fn record(&mut self, node: &str, entries: &[(usize, u64, u32)]) {
        let entry = |(pod, ppm, moves): &(usize, u64, u32)| Entry {
            uid: self
                .pick(*pod)
                .filter(|_| moves % 2 == 0)
                .and_then(|pod| self.pods[pod]["metadata"]["uid"].as_str().map(str::to_owned))
                .unwrap_or_else(|| format!("foreign-{pod}")),
            namespace: "team".to_owned(),
            name: format!("foreign-{pod}"),
            moves: *moves,
            takes: vec![Taken {
                resource: "nvidia.com/gpu".to_owned(),
                slots: 1,
                shares_ppm: vec![*ppm],
                ..Taken::default()
            }],
            ..Entry::default()
        };
        let record = NodeRecord {
            reservations: entries.iter().map(entry).collect(),
            ..NodeRecord::default()
        };
        let version = self.next_version();
        self.ledger
            .set_record(node, &record, &version, Moment(self.count));
    }

    /// This replica's record of a node, in both extents.
    fn write(&mut self, node: &str) {
        for extent in [Extent::Additions, Extent::Exact] {
            let Some(draft) = self.ledger.draft(node, extent, "now") else {
                continue;
            };
            if extent == Extent::Exact && !draft.first.is_empty() {
                continue;
            }
            let version = self.next_version();
            self.ledger
                .set_record(node, &draft.record, &version, Moment(self.count));
            let again = self.ledger.draft(node, extent, "later");
            // Its own entries may have made places move.
            if let Some(again) = again.filter(|again| again.record == draft.record) {
                assert!(!again.changed, "what was written is what is to be written");
            }
        }
    }

    /// The pod that an index of any size stands for, if there are pods.
    fn pick(&self, index: usize) -> Option<usize> {
        index.checked_rem(self.pods.len())
    }

    fn take(&mut self, step: &Step) {
        let count = self.pods.len();
        let pick = |index: usize| index.checked_rem(count);
        match step {
            Step::Create {
                fraction,
                only,
                again,
            } => {
                let name = match pick(usize::try_from(*fraction).unwrap()).filter(|_| *again) {
                    Some(index) => self.pods[index]["metadata"]["name"].as_str().unwrap().to_owned(),
                    None => format!("p{}", self.count),
                };
                let pod = pod(&name, self.count, *fraction, only.map(|index| NODES[index]));
                if self.review(Operation::Create, &pod, None) {
                    self.pods.push(pod);
                }
            }
            Step::See(index, to) => {
                let Some(index) = pick(*index) else { return };
                if let (Some(to), true) = (to, self.pods[index]["spec"]["nodeName"].is_null()) {
                    self.pods[index]["spec"]["nodeName"] = json!(NODES[*to]);
                }
                let pod = self.pods[index].clone();
                self.see(&pod);
            }
            Step::Status(index, slot) => {
                let Some(index) = pick(*index) else { return };
                let slots =
                    slot.map(|(device, slot)| json!([{"resourceID": format!("GPU-{device}::{slot}")}]));
                self.pods[index]["status"] = json!({"containerStatuses": [{"name": "c", "allocatedResourcesStatus": [
                    {"name": "nvidia.com/gpu", "resources": slots},
                ]}]});
                let pod = self.pods[index].clone();
                self.see(&pod);
            }
            Step::Terminating(index) => {
                let Some(index) = pick(*index) else { return };
                self.pods[index]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                let pod = self.pods[index].clone();
                self.see(&pod);
            }
            Step::Ended(index) => {
                let Some(index) = pick(*index) else { return };
                let mut pod = self.pods.remove(index);
                pod["status"]["phase"] = json!("Succeeded");
                self.see(&pod);
            }
            Step::Deleted(index) | Step::Release(index) => {
                let Some(index) = pick(*index) else { return };
                let uid = self.pods[index]["metadata"]["uid"].as_str().unwrap().to_owned();
                if matches!(step, Step::Deleted(_)) {
                    self.pods.remove(index);
                    self.ledger.remove_pod(&uid);
                } else {
                    self.ledger.release(&uid);
                }
            }
            Step::Update(index, fraction) => {
                let Some(index) = pick(*index) else { return };
                let old = self.pods[index].clone();
                let mut new = old.clone();
                new["spec"]["containers"][0]["args"] = args(*fraction);
                if self.review(Operation::Update, &new, Some(&old)) {
                    self.pods[index] = new;
                }
            }
            Step::Node(index, shape) => set_node(&mut self.ledger, &node(NODES[*index], *shape)),
            Step::NodeGone(index) => self.ledger.remove_node(NODES[*index]),
            Step::Namespace(gold) => {
                let labels = gold.then(|| ("tier".to_owned(), "gold".to_owned()));
                self.ledger.set_namespace("team", labels.into_iter().collect());
            }
            Step::Raises => self.ledger.end_raises(Moment(self.count.saturating_sub(2))),
            Step::Record(index, entries) => self.record(NODES[*index], entries),
            Step::RecordGone(index) => {
                let version = self.next_version();
                self.ledger.remove_record(NODES[*index], &version);
            }
            Step::Written(index) => self.write(NODES[*index]),
            Step::Withdraw(index) => {
                self.ledger.withdraw(NODES[*index]);
                self.ledger.assert_consistent();
                self.ledger.undo_moves(NODES[*index]);
            }
            Step::Policies(choice) => self.ledger.set_policies(policies(*choice)),
        }
    }
}

fn args(fraction: u64) -> Value {
    json!([
        "--model",
        "m",
        "--gpu-memory-utilization",
        format!("0.{fraction:03}")
    ])
}

fn pod(name: &str, uid: u64, fraction: u64, only: Option<&str>) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", "uid": format!("u{uid}")},
        "spec": {"containers": [{"name": "c", "image": "vllm/vllm-openai:v0.20.0", "args": args(fraction),
            "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
    });
    if let Some(only) = only {
        pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": only});
    }
    pod
}

fn set_node(ledger: &mut Ledger, node: &Value) {
    let node = serde_json::from_value(node.clone()).unwrap();
    ledger.set_node(inventory::read(&node, MissingFacts::Exclusive, Catalogue::embedded()).unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn what_is_kept_is_what_would_be_worked_out(steps in prop::collection::vec(step(), 1..40)) {
        let mut run = Run::new();
        for step in steps {
            steps::within(MOST_ASKED, || run.take(&step));
            run.ledger.assert_consistent();
        }
    }
}
