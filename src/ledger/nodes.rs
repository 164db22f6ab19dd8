//! Nodes by kind: all nodes that offer the same devices under the same policies are one [`Class`], so that a demand is
//! weighed once for thousands of nodes and a place is found by its room instead of by looking at each node.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::apart::Apart;
use super::room::{self, Load, Room};
use crate::demand::Standing;
use crate::device::{Advertised, GpuNode, Pool};
use crate::policy::{DevicePolicy, NodeView, PolicyRef, PolicySet, Signature};
use crate::units::Share;
use crate::workload::pod::PodSpec;

mod common;
mod named;

use common::Common;
use named::Hosts;

/// A node and what is accounted on it.
#[derive(Clone, Debug)]
pub(crate) struct NodeEntry {
    pub(crate) node: GpuNode,
    pub(crate) class: usize,
    /// By pool, as accounted: what admissions are judged against.
    pub(crate) loads: Vec<Load>,
    /// Holders that are accounted here.
    pub(crate) accounted: BTreeSet<Arc<str>>,
}

impl NodeEntry {
    /// Whether it is watched how its device plugin gives out slots.
    pub(crate) fn is_watched(&self) -> bool {
        self.loads.iter().any(Load::has_history)
    }
}

/// Nodes that are alike.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    /// Pools, with the slots that a healthy node of this kind has.
    pub(crate) pools: Vec<Pool>,
    /// Policy of the devices.
    pub(crate) device_policy: PolicyRef,
    /// What policies see of the labels.
    signature: Signature,
    /// Labels of the node that made the class: they stand for all in the choice of a pod's policy.
    pub(crate) labels: BTreeMap<String, String>,
    /// By pool: nodes in order of their room, and among those without a free slot in that of what a slot more would leave.
    by_room: Vec<BTreeSet<(Room, Arc<str>)>>,
    pub(crate) members: BTreeSet<Arc<str>>,
    /// What they have in common.
    common: Common,
}

impl Class {
    /// As policies select it.
    pub(crate) fn view(&self) -> NodeView<'_> {
        NodeView::new(&self.labels, &self.pools)
    }

    /// Whether a node of this kind may suit the constraints of a pod. `false` is certain, `true` is not.
    pub(crate) fn may_suit(&self, spec: &PodSpec) -> bool {
        self.common.may_suit(spec)
    }

    /// The values of a label, if every node of this kind has it.
    pub(crate) fn values_on_all(&self, label: &str) -> Option<impl ExactSizeIterator<Item = &str>> {
        self.common.values_on_all(label)
    }

    /// Whether some node of this kind has a label with this value.
    pub(crate) fn has_label(&self, label: &str, value: &str) -> bool {
        self.common.having(label, value) > 0
    }

    /// The pools of this kind that offer a resource.
    pub(crate) fn pool_index(&self, resource: &str) -> Option<usize> {
        self.pools.iter().position(|pool| &*pool.resource == resource)
    }

    /// Whether a healthy node of this kind takes the standings, one for each of its pools, while nobody is there.
    pub(crate) fn holds_when_empty(&self, standings: &[Standing]) -> bool {
        let policy = &self.device_policy.device;
        let mut pools = self.pools.iter().zip(standings);
        pools.all(|(pool, standing)| room::fits(pool, policy, &Load::of(pool), standing).but_for_slots())
    }

    /// Nodes in which a hold of `needed` fits on the pool, least room first.
    pub(crate) fn with_room(&self, pool: usize, needed: Share) -> impl Iterator<Item = &Arc<str>> {
        let least = (Room::at_least(needed), Arc::from(""));
        self.by_room
            .get(pool)
            .into_iter()
            .flat_map(move |set| set.range(least.clone()..))
            .map(|(_, name)| name)
    }

    /// Nodes with most room first, whatever it is, of those with a free slot or of those without; each with what it has at
    /// most for one hold more, slots aside.
    pub(crate) fn roomiest(&self, pool: usize, has_slot: bool) -> impl Iterator<Item = (Share, &Arc<str>)> {
        let first = (Room::at_least(Share::from_ppm(1)), Arc::from(""));
        let (from, to) = if has_slot {
            (Bound::Included(first), Bound::Unbounded)
        } else {
            (Bound::Unbounded, Bound::Excluded(first))
        };
        self.by_room
            .get(pool)
            .into_iter()
            .flat_map(move |set| set.range((from.clone(), to.clone())).rev())
            .map(|(room, name)| (room.but_for_slots, name))
    }
}

/// All GPU nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes {
    entries: Apart<NodeEntry>,
    classes: Vec<Class>,
    hosts: Hosts,
    /// Nodes of which something could not be read.
    noted: BTreeSet<Arc<str>>,
}

impl Nodes {
    pub(crate) fn get(&self, name: &str) -> Option<&NodeEntry> {
        self.entries.get(name)
    }

    /// A node's name as it is kept here.
    pub(crate) fn name(&self, name: &str) -> Option<&Arc<str>> {
        self.entries.get_key_value(name).map(|(name, _)| name)
    }

    pub(crate) fn class(&self, index: usize) -> Option<&Class> {
        self.classes.get(index)
    }

    pub(crate) fn classes(&self) -> impl Iterator<Item = (usize, &Class)> {
        self.classes
            .iter()
            .enumerate()
            .filter(|(_, class)| !class.members.is_empty())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &NodeEntry)> {
        self.entries.iter()
    }

    /// Nodes of which something could not be read.
    pub(crate) fn noted(&self) -> impl Iterator<Item = (&Arc<str>, &NodeEntry)> {
        self.noted
            .iter()
            .filter_map(|name| self.entries.get_key_value(name))
    }

    /// The only nodes on which a pod may stand, where its constraints name them. That it may stand there is not said.
    pub(crate) fn named(&self, spec: &PodSpec) -> Option<BTreeSet<Arc<str>>> {
        self.hosts.named(spec)
    }

    /// Those of a kind among some nodes, least room first, as [`Class::with_room`] has all of the kind; in order of their names
    /// where no pool tells the room.
    pub(crate) fn in_order(
        &self,
        names: BTreeSet<Arc<str>>,
        class: usize,
        pool: Option<usize>,
    ) -> Vec<Arc<str>> {
        let Some(policy) = self.class(class).map(|class| &class.device_policy.device) else {
            return Vec::new();
        };
        let room = |entry: &NodeEntry| pool.map(|pool| entry_room(entry, pool, policy).now);
        let of_kind = names.into_iter().filter_map(|name| {
            let entry = self.get(&name).filter(|entry| entry.class == class)?;
            Some((room(entry), name))
        });
        let ordered: BTreeSet<(Option<Share>, Arc<str>)> = of_kind.collect();
        ordered.into_iter().map(|(_, name)| name).collect()
    }

    /// Puts a node in, empty; the caller accounts its holders again.
    pub(crate) fn set(&mut self, node: GpuNode, policies: &PolicySet) {
        let name: Arc<str> = Arc::from(node.name());
        let before = self
            .remove(&name)
            .filter(|before| before.node.pools == node.pools);
        self.hosts.add(&name, &node);
        if !node.notes.is_empty() {
            self.noted.insert(name.clone());
        }
        let class = self.class_of(&node, policies);
        let mut loads: Vec<Load> = node.pools.iter().map(Load::of).collect();
        // What was watched of it is true still. Of others the caller ends it where pods stand there already.
        for (load, before) in loads
            .iter_mut()
            .zip(before.iter().flat_map(|before| &before.loads))
        {
            *load = std::mem::take(load).with_history_of(before);
        }
        let entry = NodeEntry {
            node,
            class,
            loads,
            accounted: BTreeSet::new(),
        };
        if let Some(class) = self.classes.get_mut(class) {
            class.members.insert(name.clone());
            class.common.add(&entry.node);
            for (index, set) in class.by_room.iter_mut().enumerate() {
                set.insert((
                    entry_room(&entry, index, &class.device_policy.device),
                    name.clone(),
                ));
            }
        }
        self.entries.insert(name, entry);
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<NodeEntry> {
        let (key, entry) = self.entries.remove_entry(name)?;
        self.hosts.remove(&key, &entry.node);
        self.noted.remove(name);
        if let Some(class) = self.classes.get_mut(entry.class) {
            class.members.remove(name);
            class.common.remove(&entry.node);
            let policy = class.device_policy.clone();
            for (index, set) in class.by_room.iter_mut().enumerate() {
                set.remove(&(entry_room(&entry, index, &policy.device), Arc::from(name)));
            }
        }
        Some(entry)
    }

    fn class_of(&mut self, node: &GpuNode, policies: &PolicySet) -> usize {
        let pools: Vec<Pool> = node
            .pools
            .iter()
            .map(|pool| Pool {
                usable_slots: pool.slots,
                ..pool.clone()
            })
            .collect();
        let signature = policies.node_signature(&node.labels);
        let device_policy = policies.for_device(&node.labels);
        let known = self.classes.iter().position(|class| {
            class.pools == pools
                && class.signature == signature
                && Arc::ptr_eq(&class.device_policy, &device_policy)
        });
        if let Some(known) = known {
            return known;
        }
        let class = Class {
            by_room: vec![BTreeSet::new(); pools.len()],
            pools,
            device_policy,
            signature,
            labels: node.labels.to_map(),
            members: BTreeSet::new(),
            common: Common::default(),
        };
        // Nodes that change again and again must not leave a kind behind each time.
        let deserted = self
            .classes
            .iter_mut()
            .enumerate()
            .find(|(_, class)| class.members.is_empty());
        if let Some((index, deserted)) = deserted {
            *deserted = class;
            return index;
        }
        self.classes.push(class);
        self.classes.len() - 1
    }

    /// A node's status says something else of the counted resource.
    pub(crate) fn show(&mut self, name: &str, advertised: Advertised) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.node.advertised = advertised;
        }
    }

    /// The nodes behind a name, in order.
    pub(crate) fn behind(&self, name: Option<&str>) -> impl Iterator<Item = (&Arc<str>, &NodeEntry)> {
        self.entries.behind(name)
    }

    /// Kinds that are kept, those without nodes included.
    #[cfg(test)]
    pub(crate) fn class_count(&self) -> usize {
        self.classes.len()
    }

    /// Accounts a holder on a node.
    pub(crate) fn account(&mut self, name: &str, uid: &Arc<str>, standings: &[Standing]) {
        self.change(name, |entry| {
            entry.accounted.insert(uid.clone());
            for (load, standing) in entry.loads.iter_mut().zip(standings) {
                load.add(standing);
            }
        });
    }

    /// Takes a holder off a node.
    pub(crate) fn discharge(&mut self, name: &str, uid: &str, standings: &[Standing]) {
        self.change(name, |entry| {
            if entry.accounted.remove(uid) {
                for (load, standing) in entry.loads.iter_mut().zip(standings) {
                    load.remove(standing);
                }
            }
        });
    }

    /// Nothing can be told any more of where slots of a node are, until nobody is there.
    pub(crate) fn end_history(&mut self, name: &str) {
        if self.get(name).is_some_and(NodeEntry::is_watched) {
            self.change(name, |entry| entry.loads.iter_mut().for_each(Load::end_history));
        }
    }

    /// Nobody is bound to a node.
    pub(crate) fn begin_history(&mut self, name: &str) {
        if self.get(name).is_some_and(NodeEntry::is_watched) {
            self.change(name, |entry| entry.loads.iter_mut().for_each(Load::begin_history));
        }
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut NodeEntry)) {
        let Some((key, _)) = self.entries.get_key_value(name) else {
            return;
        };
        let key = key.clone();
        let Some(entry) = self.entries.get_mut(name) else {
            return;
        };
        let Some(class) = self.classes.get_mut(entry.class) else {
            return;
        };
        let policy = class.device_policy.clone();
        let before: Vec<Room> = (0..class.by_room.len())
            .map(|index| entry_room(entry, index, &policy.device))
            .collect();
        change(entry);
        for (index, (set, before)) in class.by_room.iter_mut().zip(before).enumerate() {
            let after = entry_room(entry, index, &policy.device);
            if after != before {
                set.remove(&(before, key.clone()));
                set.insert((after, key.clone()));
            }
        }
    }
}

fn entry_room(entry: &NodeEntry, pool: usize, policy: &DevicePolicy) -> Room {
    match (entry.node.pools.get(pool), entry.loads.get(pool)) {
        (Some(pool), Some(load)) => room::room(pool, policy, load),
        _ => Room::default(),
    }
}
