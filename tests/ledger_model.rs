//! The ledger against a plain model: a list of pods, and a search through every way to place them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends at the first surprise"
)]

mod kit;

use kit::{Cluster, L40S, pod};
use proptest::prelude::*;
use serde_json::{Value, json};

const NODES: [&str; 3] = ["n0", "n1", "n2"];
const SLOTS: u32 = 4;

/// The share of a fraction on an L40S, worked out anew: the larger of itself and of what it takes with its overhead.
fn share(thousandths: u64) -> u64 {
    let total = u64::from(L40S);
    let request = (total * thousandths).div_ceil(1_000);
    let reserve = (total * 15).div_ceil(1_000).max(512);
    let with_overhead = (900_000 * (request + 640)).div_ceil(total - reserve);
    with_overhead.max(thousandths * 1_000)
}

#[derive(Clone, Debug)]
enum Step {
    /// A pod of so many thousandths, on any node or on one.
    Create(u64, Option<usize>),
    /// The scheduler binds a waiting pod to the place that admission found, or (wilfully) to another.
    Bind(usize, Option<usize>),
    /// A pod goes.
    Delete(usize),
    /// A caller goes away before the answer.
    Release(usize),
    /// A node is deleted and comes back.
    NodeAgain(usize),
    /// The policies are read again.
    Reload,
}

#[derive(Clone, Debug)]
struct Known {
    object: Value,
    share: u64,
    only: Option<usize>,
    bound: Option<usize>,
}

fn step(wilful: bool) -> impl Strategy<Value = Step> {
    let bind = if wilful {
        prop::option::of(0_usize..3).boxed()
    } else {
        Just(None).boxed()
    };
    prop_oneof![
        5 => (50_u64..=900, prop::option::weighted(0.3, 0_usize..3)).prop_map(|(f, only)| Step::Create(f, only)),
        3 => (any::<prop::sample::Index>(), bind).prop_map(|(i, to)| Step::Bind(i.index(64), to)),
        1 => any::<prop::sample::Index>().prop_map(|i| Step::Delete(i.index(64))),
        1 => any::<prop::sample::Index>().prop_map(|i| Step::Release(i.index(64))),
        1 => (0_usize..3).prop_map(Step::NodeAgain),
        1 => Just(Step::Reload),
    ]
}

fn cluster() -> Cluster {
    let mut cluster = Cluster::new();
    for name in NODES {
        cluster.gpu_node(name, "NVIDIA-L40S", L40S, 1, SLOTS);
    }
    cluster
}

/// Whether all pods can stand together, each bound one where it is; every way is tried.
fn possible(pods: &[Known]) -> bool {
    fn descend(pods: &[Known], sums: [u64; 3], slots: [u32; 3]) -> bool {
        let Some((first, rest)) = pods.split_first() else {
            return true;
        };
        (0..3)
            .filter(|node| first.bound.or(first.only).is_none_or(|fixed| fixed == *node))
            .any(|node| {
                let (mut sums, mut slots) = (sums, slots);
                sums[node] += first.share;
                slots[node] += 1;
                sums[node] <= 900_000 && slots[node] <= SLOTS && descend(rest, sums, slots)
            })
    }
    descend(pods, [0; 3], [0; 3])
}

fn place_of(cluster: &Cluster, name: &str) -> Option<usize> {
    let devices = cluster.ledger.devices();
    let device = devices
        .iter()
        .find(|device| device.holders.iter().any(|holder| *holder.name == *name))?;
    NODES.iter().position(|node| *node == &*device.node)
}

struct Run {
    cluster: Cluster,
    pods: Vec<Known>,
    count: usize,
}

impl Run {
    fn create(&mut self, thousandths: u64, only: Option<usize>) -> (bool, Known) {
        let name = format!("p{}", self.count);
        self.count += 1;
        let mut object = pod(&name, &format!("0.{thousandths:03}"));
        object["metadata"]["uid"] = json!(format!("uid-{name}"));
        if let Some(only) = only {
            object["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": NODES[only]});
        }
        let known = Known {
            object: object.clone(),
            share: share(thousandths),
            only,
            bound: None,
        };
        let admitted = self.cluster.create(&object).admit;
        if admitted {
            self.pods.push(known.clone());
        }
        (admitted, known)
    }

    fn bind(&mut self, index: usize, to: Option<usize>) {
        if self.pods.is_empty() {
            return;
        }
        let index = index % self.pods.len();
        let found = place_of(
            &self.cluster,
            self.pods[index].object["metadata"]["name"].as_str().unwrap(),
        );
        let pod = &mut self.pods[index];
        if pod.bound.is_some() {
            return;
        }
        let Some(node) = pod.only.or(to).or(found) else {
            return;
        };
        pod.bound = Some(node);
        pod.object = self.cluster.running(&pod.object.clone(), NODES[node]);
    }

    fn delete(&mut self, index: usize) {
        if !self.pods.is_empty() {
            let pod = self.pods.remove(index % self.pods.len());
            self.cluster
                .ledger
                .remove_pod(pod.object["metadata"]["uid"].as_str().unwrap());
        }
    }

    fn node_again(&mut self, index: usize) {
        self.cluster.ledger.remove_node(NODES[index]);
        self.cluster.gpu_node(NODES[index], "NVIDIA-L40S", L40S, 1, SLOTS);
    }

    fn reload(&mut self) {
        let policies = self.cluster.ledger.policies().clone();
        self.cluster.ledger.set_policies(policies);
    }

    /// Only a pod that was never seen can be given back.
    fn release(&mut self, index: usize) {
        if self.pods.is_empty() {
            return;
        }
        let index = index % self.pods.len();
        if self.pods[index].bound.is_none() {
            let pod = self.pods.remove(index);
            self.cluster
                .ledger
                .release(pod.object["metadata"]["uid"].as_str().unwrap());
        }
    }
}

fn run() -> Run {
    Run {
        cluster: cluster(),
        pods: Vec::new(),
        count: 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Where the scheduler takes the places that admission found, a pod is admitted exactly when some placement of all
    /// pods exists, and no device is ever above its budget.
    #[test]
    fn admits_exactly_what_can_stand_together(steps in prop::collection::vec(step(false), 1..16)) {
        let mut run = run();
        for step in steps {
            match step {
                Step::Create(thousandths, only) => {
                    let before = run.pods.clone();
                    let (admitted, new) = run.create(thousandths, only);
                    let mut with_new = before;
                    with_new.push(new);
                    prop_assert_eq!(admitted, possible(&with_new), "{:?}", with_new);
                }
                Step::Bind(index, to) => run.bind(index, to),
                Step::Delete(index) => run.delete(index),
                Step::Release(index) => run.release(index),
                // Who waits is placed again as well as it goes, which is not always as well as it was.
                Step::NodeAgain(_) | Step::Reload => {}
            }
            prop_assert!(run.cluster.ledger.over_budget().is_empty());
        }
    }

    /// However the scheduler packs them, the pods admitted are never more than some placement can hold.
    #[test]
    fn never_admits_more_than_a_placement_holds(steps in prop::collection::vec(step(true), 1..16)) {
        let mut run = run();
        for step in steps {
            match step {
                // Pods that may stand anywhere: a selector would make the scheduler's choice part of the question.
                Step::Create(thousandths, _) => {
                    run.create(thousandths, None);
                    let free: Vec<Known> = run.pods.iter().map(|pod| Known { bound: None, ..pod.clone() }).collect();
                    prop_assert!(possible(&free), "{:?}", free);
                }
                Step::Bind(index, to) => run.bind(index, to),
                Step::Delete(index) => run.delete(index),
                Step::Release(index) => run.release(index),
                Step::NodeAgain(index) => run.node_again(index),
                Step::Reload => run.reload(),
            }
        }
    }

    /// A question leaves nothing behind, and what is taken back was never there.
    #[test]
    fn asking_and_giving_back_leave_no_trace(steps in prop::collection::vec(step(false), 1..10), last in 50_u64..=900) {
        let mut run = run();
        for step in steps {
            match step {
                Step::Create(thousandths, only) => drop(run.create(thousandths, only)),
                Step::Bind(index, to) => run.bind(index, to),
                Step::Delete(index) => run.delete(index),
                Step::Release(index) => run.release(index),
                Step::NodeAgain(index) => run.node_again(index),
                Step::Reload => run.reload(),
            }
        }
        let sums = |run: &Run| {
            run.cluster.ledger.devices().iter().map(|d| d.promised_share.ppm()).sum::<u64>()
        };
        let before = run.cluster.ledger.devices();
        run.cluster.try_create(&pod("question", &format!("0.{last:03}")));
        prop_assert_eq!(run.cluster.ledger.devices(), before);
        let sum = sums(&run);
        let (admitted, new) = run.create(last, None);
        if admitted {
            run.cluster.ledger.release(new.object["metadata"]["uid"].as_str().unwrap());
        }
        prop_assert_eq!(sums(&run), sum);
    }
}

/// Devices of the three nodes, and slots of each device: two of the nodes are exact, on one any two holders may meet.
const KINDS: [(u32, u32); 3] = [(1, 4), (2, 2), (1, 3)];

/// A pod beside others: it asks for a slot or reaches every device without asking, and is of one of two tenants.
#[derive(Clone, Debug)]
struct Neighbour {
    name: String,
    share: u64,
    everywhere: bool,
    tenant: usize,
    only: Option<usize>,
    bound: Option<usize>,
    object: Value,
}

/// Whether a node's holders respect budget, slots and tenants whatever the kubelet does.
fn respects(node: usize, here: &[&Neighbour]) -> bool {
    let (devices, slots) = KINDS[node];
    let everywhere: u64 = here
        .iter()
        .filter(|one| one.everywhere)
        .map(|one| one.share)
        .sum();
    let mut others: Vec<u64> = here
        .iter()
        .filter(|one| !one.everywhere)
        .map(|one| one.share)
        .collect();
    others.sort_unstable_by(|a, b| b.cmp(a));
    let taken = others.len();
    let meeting = if devices == 1 { taken } else { slots as usize };
    let sum = everywhere + others.into_iter().take(meeting).sum::<u64>();
    let alike = here.windows(2).all(|two| two[0].tenant == two[1].tenant);
    sum <= 900_000 && taken <= (devices * slots) as usize && alike
}

/// Whether all can stand together, each bound one where it is; every way is tried.
fn neighbours_fit(pods: &[Neighbour]) -> bool {
    fn descend<'p>(rest: &'p [Neighbour], nodes: &mut [Vec<&'p Neighbour>; 3]) -> bool {
        let Some((first, rest)) = rest.split_first() else {
            return true;
        };
        for node in 0..3 {
            if first.bound.or(first.only).is_some_and(|fixed| fixed != node) {
                continue;
            }
            nodes[node].push(first);
            if respects(node, &nodes[node]) && descend(rest, nodes) {
                return true;
            }
            nodes[node].pop();
        }
        false
    }
    descend(pods, &mut [Vec::new(), Vec::new(), Vec::new()])
}

#[derive(Clone, Debug)]
enum Move {
    /// Thousandths, everywhere, tenant, the only node.
    Create(u64, bool, usize, Option<usize>),
    Bind(usize),
    Delete(usize),
    Release(usize),
}

fn neighbour(
    name: &str,
    thousandths: u64,
    everywhere: bool,
    tenant: usize,
    only: Option<usize>,
) -> Neighbour {
    let mut object = pod(name, &format!("0.{thousandths:03}"));
    object["metadata"]["uid"] = json!(format!("uid-{name}"));
    object["metadata"]["namespace"] = json!(["team-a", "team-b"].get(tenant));
    if everywhere {
        let container = object["spec"]["containers"][0].as_object_mut().unwrap();
        container.remove("resources");
        container.insert(
            "env".to_owned(),
            json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]),
        );
    }
    if let Some(only) = only {
        object["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": NODES.get(only)});
    }
    Neighbour {
        name: name.to_owned(),
        share: share(thousandths),
        everywhere,
        tenant,
        only,
        bound: None,
        object,
    }
}

fn moves() -> impl Strategy<Value = Move> {
    let only = prop::option::weighted(0.3, 0_usize..3);
    let create = (
        50_u64..=700,
        prop::bool::weighted(0.35),
        prop::bool::weighted(0.25),
        only,
    );
    prop_oneof![
        5 => create.prop_map(|(f, everywhere, other, only)| Move::Create(f, everywhere, usize::from(other), only)),
        2 => any::<prop::sample::Index>().prop_map(|i| Move::Bind(i.index(64))),
        1 => any::<prop::sample::Index>().prop_map(|i| Move::Delete(i.index(64))),
        1 => any::<prop::sample::Index>().prop_map(|i| Move::Release(i.index(64))),
    ]
}

/// What is left over when the same steps are taken under a policy that tells tenants apart, and under one that does not.
fn neighbours_are_admitted_exactly(steps: Vec<Move>, apart: bool) -> Result<(), TestCaseError> {
    let rule = if apart { "sameNamespace" } else { "any" };
    let mut cluster = Cluster::with_policy(&format!(
        "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: model}}\n\
         spec: {{device: {{tenants: {rule}}}, access: {{visibleDevices: ignore}}}}\n"
    ));
    for (name, (devices, slots)) in NODES.into_iter().zip(KINDS) {
        cluster.gpu_node(name, "NVIDIA-L40S", L40S, devices, slots);
    }
    let mut pods: Vec<Neighbour> = Vec::new();
    for (count, step) in steps.into_iter().enumerate() {
        match step {
            Move::Create(thousandths, everywhere, tenant, only) => {
                let tenant = if apart { tenant } else { 0 };
                let new = neighbour(&format!("p{count}"), thousandths, everywhere, tenant, only);
                let admitted = cluster.create(&new.object).admit;
                pods.push(new);
                prop_assert_eq!(admitted, neighbours_fit(&pods), "{:?}", pods);
                if !admitted {
                    pods.pop();
                }
            }
            _ if pods.is_empty() => {}
            Move::Bind(index) => {
                let index = index % pods.len();
                let found = place_of(&cluster, &pods[index].name);
                if let (None, Some(node)) = (pods[index].bound, found) {
                    let object = pods[index].object.clone();
                    cluster.running(&object, NODES[node]);
                    pods[index].bound = Some(node);
                }
            }
            Move::Delete(index) => {
                let gone = pods.remove(index % pods.len());
                cluster.ledger.remove_pod(&format!("uid-{}", gone.name));
            }
            Move::Release(index) => {
                let index = index % pods.len();
                if pods[index].bound.is_none() {
                    let gone = pods.remove(index);
                    cluster.ledger.release(&format!("uid-{}", gone.name));
                }
            }
        }
        prop_assert!(cluster.ledger.over_budget().is_empty());
        // Where the ledger has them they respect every rule as well.
        let places: Vec<Option<usize>> = pods.iter().map(|one| place_of(&cluster, &one.name)).collect();
        for node in 0..3 {
            let here = pods
                .iter()
                .zip(&places)
                .filter(|(_, place)| **place == Some(node));
            let here: Vec<&Neighbour> = here.map(|(one, _)| one).collect();
            prop_assert!(respects(node, &here), "{node}: {here:?}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Pods that reach devices without asking count on each device of a node, whichever places the others take: admitted
    /// exactly when some placement of all exists.
    #[test]
    fn access_without_a_request_is_counted_exactly(steps in prop::collection::vec(moves(), 1..14)) {
        neighbours_are_admitted_exactly(steps, false)?;
    }

    /// The same with tenants that may not meet.
    #[test]
    fn tenants_are_kept_apart_exactly(steps in prop::collection::vec(moves(), 1..14)) {
        neighbours_are_admitted_exactly(steps, true)?;
    }
}
