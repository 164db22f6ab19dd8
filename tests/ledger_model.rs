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
            share: kit::share(L40S, thousandths),
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
        share: kit::share(L40S, thousandths),
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

/// Pods on one node with several devices, some of which were seen on one.
mod devices {
    use super::*;

    const DEVICES: usize = 3;
    const SLOTS: usize = 3;
    const BUDGET: u64 = 900_000;

    #[derive(Clone, Debug)]
    enum Step {
        /// A pod of so many thousandths is asked for; where it is admitted it runs on a device with a free slot.
        Create(u64, usize),
        /// The status of a pod tells its device.
        Show(usize),
        /// The status tells nothing any more.
        Hide(usize),
        Delete(usize),
        /// The webhook starts anew: it knows what the watch tells.
        Restart,
    }

    #[derive(Clone, Debug)]
    struct Runs {
        object: Value,
        share: u64,
        device: usize,
        shown: bool,
    }

    fn step() -> impl Strategy<Value = Step> {
        let index = || any::<prop::sample::Index>().prop_map(|index| index.index(64));
        prop_oneof![
            6 => (50_u64..=600, 0..DEVICES).prop_map(|(f, device)| Step::Create(f, device)),
            5 => index().prop_map(Step::Show),
            1 => index().prop_map(Step::Hide),
            2 => index().prop_map(Step::Delete),
            1 => Just(Step::Restart),
        ]
    }

    /// The most that can come together on a device that the new pod may get, over every way to put it and those pods
    /// whose device is not shown on free slots.
    fn worst(pods: &[Runs], new: u64) -> u64 {
        fn descend(
            hidden: &[u64],
            sums: &mut [u64; DEVICES],
            slots: &mut [usize; DEVICES],
            open: &[usize],
        ) -> u64 {
            let Some((first, rest)) = hidden.split_first() else {
                return open.iter().map(|device| sums[*device]).max().unwrap_or(0);
            };
            let mut worst = 0;
            for device in open {
                if slots[*device] < SLOTS {
                    sums[*device] += first;
                    slots[*device] += 1;
                    worst = worst.max(descend(rest, sums, slots, open));
                    sums[*device] -= first;
                    slots[*device] -= 1;
                }
            }
            worst
        }
        let (mut sums, mut slots) = ([0; DEVICES], [0; DEVICES]);
        for pod in pods.iter().filter(|pod| pod.shown) {
            sums[pod.device] += pod.share;
            slots[pod.device] += 1;
        }
        let open: Vec<usize> = (0..DEVICES).filter(|device| slots[*device] < SLOTS).collect();
        let mut hidden: Vec<u64> = pods
            .iter()
            .filter(|pod| !pod.shown)
            .map(|pod| pod.share)
            .collect();
        hidden.push(new);
        descend(&hidden, &mut sums, &mut slots, &open)
    }

    fn with_status(pod: &Runs, slot: usize) -> Value {
        let mut object = pod.object.clone();
        if pod.shown {
            object["status"]["containerStatuses"] = json!([{
                "name": "server",
                "allocatedResourcesStatus": [{
                    "name": "nvidia.com/gpu",
                    "resources": [{"resourceID": format!("GPU-{}::{slot}", pod.device), "health": "Healthy"}],
                }],
            }]);
        }
        object
    }

    fn cluster() -> Cluster {
        let mut cluster = Cluster::new();
        cluster.gpu_node(
            "n0",
            "NVIDIA-L40S",
            L40S,
            u32::try_from(DEVICES).unwrap(),
            u32::try_from(SLOTS).unwrap(),
        );
        cluster
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

        /// Whatever the status tells and whenever: a pod is admitted exactly when it fits on each device that it may get,
        /// wherever those stand of whom nothing is known; and what really stands on a device is never above its budget.
        #[test]
        fn a_mix_of_seen_and_unseen_holders_is_exact(steps in prop::collection::vec(step(), 1..24)) {
            let mut cluster = cluster();
            let mut pods: Vec<Runs> = Vec::new();
            for (count, step) in steps.into_iter().enumerate() {
                let picked = |index: usize| (!pods.is_empty()).then(|| index % pods.len().max(1));
                match step {
                    Step::Create(thousandths, first) => {
                        let name = format!("p{count}");
                        let mut object = pod(&name, &format!("0.{thousandths:03}"));
                        object["metadata"]["uid"] = json!(name);
                        let share = kit::share(L40S, thousandths);
                        let has_slot = pods.len() < DEVICES * SLOTS;
                        let expected = has_slot && worst(&pods, share) <= BUDGET;
                        let admitted = cluster.create(&object).admit;
                        prop_assert_eq!(admitted, expected, "{} beside {:?}", share, pods);
                        if admitted {
                            // The kubelet takes whichever device it likes.
                            let used = |device| pods.iter().filter(|pod| pod.device == device).count();
                            let device = (0..DEVICES)
                                .map(|step| (first + step) % DEVICES)
                                .find(|device| used(*device) < SLOTS)
                                .unwrap();
                            let object = cluster.running(&object, "n0");
                            pods.push(Runs { object, share, device, shown: false });
                        }
                    }
                    Step::Show(index) | Step::Hide(index) => {
                        let Some(index) = picked(index) else { continue };
                        pods[index].shown = matches!(step, Step::Show(_));
                        cluster.see(&with_status(&pods[index], index));
                    }
                    Step::Delete(index) => {
                        let Some(index) = picked(index) else { continue };
                        let gone = pods.remove(index);
                        cluster.ledger.remove_pod(gone.object["metadata"]["uid"].as_str().unwrap());
                    }
                    Step::Restart => {
                        cluster = self::cluster();
                        for (slot, pod) in pods.iter().enumerate() {
                            cluster.see(&with_status(pod, slot));
                        }
                    }
                }
                for device in 0..DEVICES {
                    let sum: u64 = pods.iter().filter(|pod| pod.device == device).map(|pod| pod.share).sum();
                    prop_assert!(sum <= BUDGET, "device {} holds {}: {:?}", device, sum, pods);
                }
                // The view says what the ledger knows, and never less than what really is.
                let fullest = (0..DEVICES)
                    .map(|device| pods.iter().filter(|pod| pod.device == device).map(|pod| pod.share).sum::<u64>())
                    .max();
                let views = cluster.ledger.devices_of("n0");
                prop_assert!(Some(views[0].promised_share.ppm()) >= fullest);
                let all_shown = !pods.is_empty() && pods.iter().all(|pod| pod.shown);
                prop_assert_eq!(views[0].evidence == vramgate::policy::Evidence::Observed, all_shown);
                if all_shown {
                    prop_assert_eq!(Some(views[0].promised_share.ppm()), fullest);
                    let rows = cluster.ledger.devices();
                    let used = pods.iter().map(|pod| pod.device).collect::<std::collections::BTreeSet<_>>();
                    let spare = usize::from(used.len() < DEVICES);
                    prop_assert_eq!(rows.len(), used.len() + spare);
                    prop_assert_eq!(rows.iter().map(|row| row.slots).sum::<u32>(), 9);
                }
            }
        }
    }
}

/// Pods on one node with several devices: some take a slot, of which some were seen on a device, and some reach every
/// device without asking.
mod reach {
    use super::*;

    const DEVICES: usize = 2;
    const SLOTS: usize = 2;
    const BUDGET: u64 = 900_000;

    #[derive(Clone, Debug)]
    enum Step {
        /// A pod of so many thousandths, whether it reaches every device, its tenant, and the first device that the
        /// kubelet tries.
        Create(u64, bool, usize, usize),
        Show(usize),
        Hide(usize),
        Delete(usize),
    }

    #[derive(Clone, Debug)]
    struct Runs {
        object: Value,
        share: u64,
        tenant: usize,
        /// `None` where it reaches them all.
        device: Option<usize>,
        shown: bool,
    }

    fn step() -> impl Strategy<Value = Step> {
        let index = || any::<prop::sample::Index>().prop_map(|index| index.index(64));
        let create = (
            50_u64..=500,
            prop::bool::weighted(0.25),
            prop::bool::weighted(0.3),
            0..DEVICES,
        );
        prop_oneof![
            6 => create.prop_map(|(f, everywhere, other, device)| {
                Step::Create(f, everywhere, usize::from(other), device)
            }),
            5 => index().prop_map(Step::Show),
            1 => index().prop_map(Step::Hide),
            2 => index().prop_map(Step::Delete),
        ]
    }

    /// Every way in which the kubelet may have placed those pods whose device is not shown: by device the sum of shares and
    /// the slots.
    fn ways(pods: &[Runs]) -> Vec<[(u64, usize); DEVICES]> {
        let mut ways = vec![[(0, 0); DEVICES]];
        // What was seen takes its slots first.
        let rank = |pod: &&Runs| (pod.device.is_some(), !pod.shown);
        let mut ordered: Vec<&Runs> = pods.iter().collect();
        ordered.sort_by_key(rank);
        for pod in ordered {
            let mut next = Vec::new();
            for way in ways {
                let put = |devices: &mut dyn Iterator<Item = usize>, slots: usize| {
                    let mut way = way;
                    for device in devices {
                        way[device].0 += pod.share;
                        way[device].1 += slots;
                    }
                    way
                };
                match pod.device {
                    None => next.push(put(&mut (0..DEVICES), 0)),
                    Some(device) if pod.shown => next.push(put(&mut std::iter::once(device), 1)),
                    Some(_) => next.extend(
                        (0..DEVICES)
                            .filter(|device| way[*device].1 < SLOTS)
                            .map(|device| put(&mut std::iter::once(device), 1)),
                    ),
                }
            }
            ways = next;
        }
        ways
    }

    /// Whether the pod fits on each device that it may come to, whatever the kubelet did with the others.
    fn fits(pods: &[Runs], new: &Runs, apart: bool) -> bool {
        let slots = pods.iter().filter(|pod| pod.device.is_some()).count();
        if new.device.is_some() && slots >= DEVICES * SLOTS {
            return false;
        }
        // Those whose device is not shown may stand elsewhere, so only what was seen fills a device.
        let shown = |device: usize| {
            let there = move |pod: &&Runs| pod.shown && pod.device == Some(device);
            pods.iter().filter(there)
        };
        let open: Vec<usize> = (0..DEVICES)
            .filter(|device| new.device.is_none() || shown(*device).count() < SLOTS)
            .collect();
        let after: Vec<Runs> = pods.iter().chain([new]).cloned().collect();
        let memory = ways(&after)
            .iter()
            .all(|way| open.iter().all(|device| way[*device].0 <= BUDGET));
        let foreign = |pod: &Runs| pod.tenant != new.tenant;
        let closed = if pods.iter().all(|pod| pod.shown) {
            open.iter().any(|device| shown(*device).any(foreign))
        } else {
            // As long as nothing tells where one of them is, a foreign holder closes the node.
            pods.iter().any(foreign)
        };
        memory && !(apart && closed)
    }

    fn with_status(pod: &Runs, slot: usize) -> Value {
        let mut object = pod.object.clone();
        if let (Some(device), true) = (pod.device, pod.shown) {
            object["status"]["containerStatuses"] = json!([{
                "name": "server",
                "allocatedResourcesStatus": [{
                    "name": "nvidia.com/gpu",
                    "resources": [{"resourceID": format!("GPU-{device}::{slot}"), "health": "Healthy"}],
                }],
            }]);
        }
        object
    }

    fn mixes_exactly(steps: Vec<Step>, apart: bool) -> Result<(), TestCaseError> {
        let rule = if apart { "sameNamespace" } else { "any" };
        let mut cluster = Cluster::with_policy(&format!(
            "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: model}}\n\
             spec: {{device: {{tenants: {rule}}}, access: {{visibleDevices: ignore}}}}\n"
        ));
        cluster.gpu_node(
            "n0",
            "NVIDIA-L40S",
            L40S,
            u32::try_from(DEVICES).unwrap(),
            u32::try_from(SLOTS).unwrap(),
        );
        let mut pods: Vec<Runs> = Vec::new();
        for (count, step) in steps.into_iter().enumerate() {
            let picked = |index: usize| (!pods.is_empty()).then(|| index % pods.len().max(1));
            match step {
                Step::Create(thousandths, everywhere, tenant, first) => {
                    let tenant = if apart { tenant } else { 0 };
                    let of = neighbour(&format!("p{count}"), thousandths, everywhere, tenant, None);
                    let used = |device| pods.iter().filter(|pod| pod.device == Some(device)).count();
                    let device = (0..DEVICES)
                        .map(|step| (first + step) % DEVICES)
                        .find(|device| used(*device) < SLOTS);
                    let mut new = Runs {
                        share: of.share,
                        tenant,
                        device: (!everywhere).then(|| device.unwrap_or_default()),
                        shown: false,
                        object: of.object,
                    };
                    let admitted = cluster.create(&new.object).admit;
                    prop_assert_eq!(admitted, fits(&pods, &new, apart), "{:?} beside {:?}", new, pods);
                    if admitted {
                        new.object = cluster.running(&new.object, "n0");
                        pods.push(new);
                    }
                }
                Step::Show(index) | Step::Hide(index) => {
                    let Some(index) = picked(index) else { continue };
                    if pods[index].device.is_some() {
                        pods[index].shown = matches!(step, Step::Show(_));
                        cluster.see(&with_status(&pods[index], index));
                    }
                }
                Step::Delete(index) => {
                    let Some(index) = picked(index) else { continue };
                    let gone = pods.remove(index);
                    cluster
                        .ledger
                        .remove_pod(gone.object["metadata"]["uid"].as_str().unwrap());
                }
            }
            let sums: Vec<u64> = (0..DEVICES)
                .map(|device| {
                    let there = |pod: &&Runs| pod.device.is_none_or(|on| on == device);
                    pods.iter().filter(there).map(|pod| pod.share).sum()
                })
                .collect();
            prop_assert!(sums.iter().all(|sum| *sum <= BUDGET), "{sums:?}: {pods:?}");
            for device in 0..DEVICES {
                let there = |pod: &&Runs| pod.device.is_none_or(|on| on == device);
                let tenants: std::collections::BTreeSet<usize> =
                    pods.iter().filter(there).map(|pod| pod.tenant).collect();
                prop_assert!(tenants.len() <= 1, "{device} is shared by {tenants:?}: {pods:?}");
            }
            let view = &cluster.ledger.devices_of("n0")[0];
            prop_assert!(Some(&view.promised_share.ppm()) >= sums.iter().max());
            // What is worked out bit by bit is what a start anew finds.
            let mut anew = Cluster::with_policy(&format!(
                "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {{name: model}}\n\
                 spec: {{device: {{tenants: {rule}}}, access: {{visibleDevices: ignore}}}}\n"
            ));
            anew.gpu_node("n0", "NVIDIA-L40S", L40S, 2, 2);
            for (slot, pod) in pods.iter().enumerate() {
                anew.see(&with_status(pod, slot));
            }
            prop_assert_eq!(&cluster.ledger.devices_of("n0"), &anew.ledger.devices_of("n0"));
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

        /// Holders on every device beside such as were seen on one and such as may be on any: exact for each device.
        #[test]
        fn holders_on_every_device_mix_with_seen_and_unseen_ones(steps in prop::collection::vec(step(), 1..16)) {
            mixes_exactly(steps, false)?;
        }

        /// The same with tenants: a holder that was seen closes its device alone where each one was.
        #[test]
        fn tenants_meet_on_no_device_that_one_may_come_to(steps in prop::collection::vec(step(), 1..16)) {
            mixes_exactly(steps, true)?;
        }
    }
}
