//! The search for a place: on one node, or for several pods together.
//!
//! Never optimistic: every answer is a placement in which each device stays within its budget. Exact for small sets of
//! pods that are not bound yet; for large ones a place can be missed, never invented.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::history::More;
use super::nodes::{Class, NodeEntry};
use super::room::{self, Fits, Load, Nameless};
use super::{Holder, Ledger};
use crate::demand::Standing;
use crate::demand::weigh::Weighed;
use crate::device::Pool;
use crate::placement::candidates::{Fit, node_matches};
use crate::policy::{DevicePolicy, Evidence};
use crate::units::Share;
use crate::workload::pod::PodSpec;

/// Pods that are moved together to make room for one more; beyond this the search does not try.
const MOST_MOVED: usize = 48;
/// Steps of one joint search, which is made under the ledger's lock. Ten pods on ten nodes are exhausted within it.
const MOST_STEPS: u32 = 5_000;
/// Nodes that one joint search looks at, each as often as it is asked: many nodes that a pod's constraints rule out make a
/// step long. Enough to ask 48 pods once for each of 8,000 nodes.
const MOST_LOOKED_AT: u32 = 400_000;
/// Nodes over which sums are taken before a joint search.
const MOST_SUMMED: usize = 512;

/// A pod that looks for a place: where it may stand, and what it takes there.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) spec: Arc<PodSpec>,
    /// By class: what it takes there; absent where that kind of node cannot take it.
    pub(crate) weighed: BTreeMap<usize, Weighed>,
}

impl Ask {
    /// The same question for a holder that is already known.
    pub(crate) fn of(ledger: &Ledger, holder: &Holder) -> Option<Self> {
        let spec = holder.constraints.clone()?;
        let mut weighed = BTreeMap::new();
        for (index, class) in ledger.nodes.classes() {
            if holder
                .demand
                .resources()
                .any(|resource| class.pool_index(resource).is_none())
            {
                continue;
            }
            let standings = ledger.standings(holder, class);
            let shared = class
                .pools
                .iter()
                .zip(&standings)
                .any(|(pool, s)| pool.sharing.is_shared() && !s.is_empty());
            weighed.insert(
                index,
                Weighed {
                    standings,
                    findings: Vec::new(),
                    wants: None,
                    taken: Vec::new(),
                    shared,
                },
            );
        }
        Some(Self { spec, weighed })
    }

    /// The largest share that it takes on any kind of node: the order in which pods are placed together.
    fn size(&self) -> Share {
        let holds = self
            .weighed
            .values()
            .flat_map(|weighed| &weighed.standings)
            .flat_map(Standing::all_holds);
        holds.map(|hold| hold.share).max().unwrap_or(Share::ZERO)
    }
}

/// The ledger with changes that are only thought of.
#[derive(Clone, Debug)]
pub(crate) struct Overlay<'a> {
    ledger: &'a Ledger,
    changed: BTreeMap<Arc<str>, Vec<Load>>,
    /// Holders that were taken out.
    absent: BTreeSet<Arc<str>>,
    /// Nodes that were looked at since the last joint search began.
    looked_at: Cell<u32>,
}

impl<'a> Overlay<'a> {
    pub(crate) fn new(ledger: &'a Ledger) -> Self {
        Self {
            ledger,
            changed: BTreeMap::new(),
            absent: BTreeSet::new(),
            looked_at: Cell::new(0),
        }
    }

    /// The node of this name.
    pub(crate) fn entry(&self, name: &str) -> Option<&'a NodeEntry> {
        self.ledger.nodes.get(name)
    }

    /// Nodes that are thought of otherwise than they are.
    pub(crate) fn changed(&self) -> impl Iterator<Item = &Arc<str>> {
        self.changed.keys()
    }

    /// Whether a node is thought of otherwise than it is.
    pub(crate) fn changes(&self, name: &str) -> bool {
        self.changed.contains_key(name)
    }

    /// What is taken of the node's pools.
    pub(crate) fn loads<'b>(&'b self, name: &str, entry: &'b NodeEntry) -> &'b [Load] {
        self.changed.get(name).map_or(&entry.loads, |loads| loads)
    }

    fn change(&mut self, name: &str, change: impl Fn(&mut Load, &Standing), standings: &[Standing]) {
        let Some(entry) = self.ledger.nodes.get(name) else {
            return;
        };
        let loads = self
            .changed
            .entry(Arc::from(name))
            .or_insert_with(|| entry.loads.clone());
        for (load, standing) in loads.iter_mut().zip(standings) {
            change(load, standing);
        }
    }

    pub(crate) fn add(&mut self, name: &str, standings: &[Standing]) {
        self.change(name, Load::add, standings);
    }

    pub(crate) fn remove(&mut self, name: &str, standings: &[Standing]) {
        self.change(name, Load::remove, standings);
    }

    /// Takes a holder out, wherever it is accounted.
    pub(crate) fn without(&mut self, holder: &Holder) {
        if let Some(place) = &holder.place
            && self.absent.insert(holder.uid.clone())
        {
            self.remove(place, &holder.standings);
        }
    }

    /// Whether standings fit on a node as it is thought of.
    pub(crate) fn fits(&self, name: &str, entry: &NodeEntry, standings: &[Standing]) -> Fits {
        #[cfg(test)]
        steps::count();
        let Some(class) = self.ledger.nodes.class(entry.class) else {
            return Fits {
                memory: false,
                slots: false,
                tenants: false,
            };
        };
        let mut all = Fits {
            memory: true,
            slots: true,
            tenants: true,
        };
        for ((pool, load), standing) in entry
            .node
            .pools
            .iter()
            .zip(self.loads(name, entry))
            .zip(standings)
        {
            if standing.is_empty() {
                continue;
            }
            let one = room::fits(pool, &class.device_policy.device, load, standing);
            all = Fits {
                memory: all.memory && one.memory,
                slots: all.slots && one.slots,
                tenants: all.tenants && one.tenants,
            };
        }
        all
    }

    /// Whether more may meet on a device of the node than its budget.
    pub(crate) fn is_over(&self, name: &str, entry: &NodeEntry) -> bool {
        let Some(class) = self.ledger.nodes.class(entry.class) else {
            return false;
        };
        let policy = &class.device_policy.device;
        let mut pools = entry.node.pools.iter().zip(self.loads(name, entry));
        pools.any(|(pool, load)| pool.sharing.is_shared() && load.together(pool, policy) > policy.budget)
    }

    /// Slots of the pool that are taken.
    pub(crate) fn slots_taken(&self, name: &str, entry: &NodeEntry, pool: usize) -> u32 {
        self.loads(name, entry).get(pool).map_or(0, |load| load.slots)
    }

    /// The sum of shares that may meet on a device of the pool.
    pub(crate) fn together(&self, name: &str, entry: &NodeEntry, pool: usize) -> Share {
        match self.pool(name, entry, pool) {
            Some((pool, policy, load)) => load.together(pool, policy),
            None => Share::ZERO,
        }
    }

    /// The same once a standing is there, without its own shares.
    pub(crate) fn together_beside(
        &self,
        name: &str,
        entry: &NodeEntry,
        pool: usize,
        standing: &Standing,
    ) -> Share {
        match self.pool(name, entry, pool) {
            Some((pool, policy, load)) => load.together_beside(pool, policy, More::of(standing)),
            None => Share::ZERO,
        }
    }

    /// The same with a standing added.
    pub(crate) fn together_with(
        &self,
        name: &str,
        entry: &NodeEntry,
        pool: usize,
        standing: &Standing,
    ) -> Share {
        match self.pool(name, entry, pool) {
            Some((pool, policy, load)) => room::with(pool, policy, load, standing),
            None => Share::ZERO,
        }
    }

    /// How it is known where the holders of the pool stand, once a standing is there as well.
    pub(crate) fn grade(&self, name: &str, entry: &NodeEntry, pool: usize, more: &Standing) -> Evidence {
        match self.pool(name, entry, pool) {
            Some((pool, policy, load)) => load.grade(pool, policy, More::of(more)),
            None => Evidence::Any,
        }
    }

    /// How many holders of the pool may stand on one device as far as nothing tells where they are, once a standing is there
    /// as well.
    pub(crate) fn may_meet(&self, name: &str, entry: &NodeEntry, pool: usize, more: &Standing) -> usize {
        match self.pool(name, entry, pool) {
            Some((pool, policy, load)) => load.may_meet(pool, policy, More::of(more)),
            None => usize::MAX,
        }
    }

    /// A pool of a node, the policy of its devices, and what is taken of it.
    fn pool<'b>(
        &'b self,
        name: &str,
        entry: &'b NodeEntry,
        pool: usize,
    ) -> Option<(&'b Pool, &'b DevicePolicy, &'b Load)> {
        let class = self.ledger.nodes.class(entry.class)?;
        let load = self.loads(name, entry).get(pool)?;
        Some((entry.node.pools.get(pool)?, &class.device_policy.device, load))
    }

    /// A node that takes the pod as things stand: ready nodes before cordoned ones, whole devices before shared ones,
    /// and among those the one with least room to spare.
    pub(crate) fn find(&self, ask: &Ask, skip: &BTreeSet<Arc<str>>) -> Option<Arc<str>> {
        let mut later = None;
        for shared in [false, true] {
            for (index, weighed) in ask.weighed.iter().filter(|(_, weighed)| weighed.shared == shared) {
                for (name, fit) in self.places(*index, weighed, &ask.spec) {
                    if skip.contains(&name) {
                        continue;
                    }
                    if fit {
                        return Some(name);
                    }
                    later.get_or_insert(name);
                }
            }
        }
        later
    }

    /// Nodes of a kind that take the pod, and whether they do so now (else once they are ready).
    fn places<'b>(
        &'b self,
        class_index: usize,
        weighed: &'b Weighed,
        spec: &'b PodSpec,
    ) -> impl Iterator<Item = (Arc<str>, bool)> + 'b {
        let class = self.ledger.nodes.class(class_index);
        let class = class.filter(|class| class.may_suit(spec));
        let named = self.ledger.nodes.named(spec);
        let is_named = named.is_some();
        let fitting = move |name: Arc<str>| {
            self.looked_at.set(self.looked_at.get().saturating_add(1));
            #[cfg(test)]
            steps::count();
            let entry = self
                .ledger
                .nodes
                .get(&name)
                .filter(|entry| entry.class == class_index)?;
            let now = match node_matches(spec, &entry.node) {
                Fit::Now => true,
                Fit::Later(_) => false,
                Fit::Never(_) => return None,
            };
            self.fits(&name, entry, &weighed.standings)
                .all()
                .then_some((name, now))
        };
        let is_open = {
            let named = named.clone();
            move |name: &&Arc<str>| named.as_ref().is_none_or(|named| named.contains(*name))
        };
        let changed = self.changed.keys().filter(is_open).cloned();
        let first = class.and_then(|class| first_asked(class, weighed));
        let named = named.map(|named| self.ledger.nodes.in_order(named, class_index, first));
        let named = named.into_iter().flatten();
        let indexed = class
            .filter(|_| !is_named)
            .into_iter()
            .flat_map(move |class| with_room(class, weighed))
            .cloned();
        let unchanged = named
            .chain(indexed)
            .filter(|name| !self.changed.contains_key(name));
        changed.chain(unchanged).filter_map(fitting)
    }

    /// Places several pods together; the places in their order. `None` as well where that takes more than [`MOST_STEPS`]
    /// tries or [`MOST_LOOKED_AT`] nodes: then nobody moves and the pod has no place.
    pub(crate) fn place_all(&mut self, asks: &[&Ask]) -> Option<Vec<Arc<str>>> {
        let mut order: Vec<usize> = (0..asks.len()).collect();
        order.sort_by_key(|index| std::cmp::Reverse(asks.get(*index).map_or(Share::ZERO, |ask| ask.size())));
        let mut specs: Vec<&PodSpec> = Vec::new();
        for ask in asks {
            if !specs.contains(&&*ask.spec) {
                specs.push(&ask.spec);
            }
        }
        let mut joint = JointSearch {
            asks,
            specs,
            dead_ends: BTreeSet::new(),
            steps: 0,
        };
        if self.too_little(asks) {
            return None;
        }
        self.looked_at.set(0);
        let mut places = vec![None; asks.len()];
        self.descend(&mut joint, &order, &mut places)
            .then(|| places.into_iter().flatten().collect())
    }

    /// Whether the pods together take more than all their nodes have left: then no search is needed. Says nothing about
    /// nodes with several devices, whose room is not a sum.
    fn too_little(&self, asks: &[&Ask]) -> bool {
        let mut nodes: BTreeSet<&Arc<str>> = BTreeSet::new();
        let mut needed = Share::ZERO;
        for ask in asks {
            let mut least: Option<Share> = None;
            for (index, weighed) in &ask.weighed {
                let Some(class) = self.ledger.nodes.class(*index) else {
                    continue;
                };
                let asked = class.pools.iter().zip(&weighed.standings);
                let mut asked = asked.filter(|(_, standing)| !standing.is_empty());
                let is_no_sum = |(pool, standing): (&Pool, &Standing)| {
                    pool.devices != 1 || !pool.sharing.is_shared() || !standing.everywhere.is_empty()
                };
                if asked.any(is_no_sum) || nodes.len() + class.members.len() > MOST_SUMMED {
                    return false;
                }
                nodes.extend(&class.members);
                let share = weighed.standings.iter().map(Standing::share).sum();
                least = Some(least.map_or(share, |known| known.min(share)));
            }
            needed = needed.plus(least.unwrap_or(Share::ZERO));
        }
        let left = nodes.into_iter().filter_map(|name| {
            let entry = self.ledger.nodes.get(name)?;
            let budget = self.ledger.nodes.class(entry.class)?.device_policy.device.budget;
            let pools = entry
                .node
                .pools
                .iter()
                .enumerate()
                .filter(|(_, pool)| pool.sharing.is_shared());
            Some(
                pools
                    .map(|(index, _)| budget.less(self.together(name, entry, index)))
                    .sum::<Share>(),
            )
        });
        needed > left.sum()
    }

    fn descend(
        &mut self,
        joint: &mut JointSearch<'_>,
        order: &[usize],
        places: &mut [Option<Arc<str>>],
    ) -> bool {
        let Some((first, rest)) = order.split_first() else {
            return true;
        };
        let asks = joint.asks;
        let Some(ask) = asks.get(*first) else { return false };
        if joint.is_spent(self) {
            return false;
        }
        let state = (order.len(), self.state(&joint.specs));
        if joint.dead_ends.contains(&state) {
            return false;
        }
        // Nodes that are alike and equally full lead to the same end; one of them is enough.
        let mut tried: BTreeSet<Alike> = BTreeSet::new();
        let choices: Vec<(usize, Arc<str>)> = ask
            .weighed
            .iter()
            .flat_map(|(class, weighed)| {
                self.places(*class, weighed, &ask.spec)
                    .take(MOST_MOVED)
                    .map(|(name, _)| (*class, name))
            })
            .collect();
        for (class, name) in choices {
            joint.steps += 1;
            if joint.is_spent(self) {
                return false;
            }
            let Some(weighed) = ask.weighed.get(&class) else {
                continue;
            };
            let Some(entry) = self.ledger.nodes.get(&name) else {
                continue;
            };
            if !tried.insert(self.alike(&joint.specs, &name, entry)) {
                continue;
            }
            self.add(&name, &weighed.standings);
            if let Some(place) = places.get_mut(*first) {
                *place = Some(name.clone());
            }
            if self.descend(joint, rest, places) {
                return true;
            }
            self.remove(&name, &weighed.standings);
        }
        joint.dead_ends.insert(state);
        false
    }

    /// What tells a node from others for the pods of a joint search.
    fn alike(&self, specs: &[&PodSpec], name: &str, entry: &NodeEntry) -> Alike {
        let takes = specs.iter().map(|spec| match node_matches(spec, &entry.node) {
            Fit::Now => 2,
            Fit::Later(_) => 1,
            Fit::Never(_) => 0,
        });
        let loads = self.loads(name, entry).iter().map(Load::nameless);
        (entry.class, takes.collect(), loads.collect())
    }

    /// The changed nodes without their names, each with its loads before: what is left to place meets the same end in
    /// equal states, because then the nodes that are not changed are alike as well.
    fn state(&self, specs: &[&PodSpec]) -> State {
        let entries = self
            .changed
            .keys()
            .filter_map(|name| Some((name, self.ledger.nodes.get(name)?)));
        let mut state: State = entries
            .map(|(name, entry)| {
                let before = entry.loads.iter().map(Load::nameless).collect();
                (self.alike(specs, name, entry), before)
            })
            .collect();
        state.sort_unstable();
        state
    }
}

/// Class, whether each of the pods' constraints matches, and loads.
type Alike = (usize, Vec<u8>, Vec<Nameless>);

/// What the changed nodes come to, whatever their names.
type State = Vec<(Alike, Vec<Nameless>)>;

/// One joint search.
struct JointSearch<'a> {
    asks: &'a [&'a Ask],
    /// The different constraints among the pods.
    specs: Vec<&'a PodSpec>,
    /// Pods left to place and the state of the nodes from which they could not be.
    dead_ends: BTreeSet<(usize, State)>,
    steps: u32,
}

impl JointSearch<'_> {
    fn is_spent(&self, overlay: &Overlay<'_>) -> bool {
        self.steps > MOST_STEPS || overlay.looked_at.get() > MOST_LOOKED_AT
    }
}

/// The first pool of which slots are asked.
fn first_asked(class: &Class, weighed: &Weighed) -> Option<usize> {
    let mut asked = class.pools.iter().zip(&weighed.standings);
    asked.position(|(_, standing)| standing.slots > 0)
}

/// Nodes of a kind by the room on the first pool that the pod asks for.
fn with_room<'a>(class: &'a Class, weighed: &'a Weighed) -> impl Iterator<Item = &'a Arc<str>> {
    let first = first_asked(class, weighed);
    let first = first.and_then(|index| Some((index, class.pools.get(index)?, weighed.standings.get(index)?)));
    // One that asks for no slot is not kept off by a lack of slots, by which nodes are listed.
    let everyone = first.is_none().then(|| class.members.iter());
    first
        .into_iter()
        .flat_map(|(index, pool, standing)| class.with_room(index, room::needed(pool, standing)))
        .chain(everyone.into_iter().flatten())
}

/// Where a new pod goes when others move for it.
#[derive(Clone, Debug)]
pub(crate) struct Joint {
    pub(crate) place: Arc<str>,
    /// Holders and their new tentative places.
    pub(crate) moves: Vec<(Arc<str>, Arc<str>)>,
}

/// A joint placement of a new pod and everybody whose place is still tentative.
pub(crate) fn joint(ledger: &Ledger, base: &Overlay<'_>, ask: &Ask) -> Option<Joint> {
    let mut overlay = base.clone();
    let mut others: Vec<(&Holder, Ask)> = Vec::new();
    for holder in ledger
        .tentative()
        .filter(|holder| !base.absent.contains(&holder.uid))
    {
        let shared = holder.standings.iter().any(|standing| {
            standing.all_holds().next().is_some() || standing.tenant.is_some() && standing.slots > 0
        });
        if !shared {
            continue;
        }
        if others.len() >= MOST_MOVED {
            return None;
        }
        let Some(its_ask) = Ask::of(ledger, holder) else {
            continue;
        };
        overlay.without(holder);
        others.push((holder, its_ask));
    }
    let asks: Vec<&Ask> = std::iter::once(ask)
        .chain(others.iter().map(|(_, ask)| ask))
        .collect();
    let mut results = overlay.place_all(&asks)?.into_iter();
    let place = results.next()?;
    let moves = others
        .iter()
        .zip(results)
        .filter(|((holder, _), to)| holder.place.as_ref() != Some(to))
        .map(|((holder, _), to)| (holder.uid.clone(), to))
        .collect();
    Some(Joint { place, moves })
}

/// Questions whether a node takes a pod, counted so that a test fails where a call would ask on and on.
#[cfg(test)]
pub(super) mod steps {
    use std::cell::Cell;

    thread_local! {
        static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
    }

    pub(super) fn count() {
        let left = LEFT.get().checked_sub(1);
        LEFT.set(left.expect("no more questions than the test allows"));
    }

    /// What `run` gives, and how many questions it asked; panics beyond `most`.
    pub(crate) fn within<T>(most: u64, run: impl FnOnce() -> T) -> (T, u64) {
        let before = LEFT.replace(most);
        let result = run();
        (result, most - LEFT.replace(before))
    }
}
