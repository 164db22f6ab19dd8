//! Room for many pods that are alike. Nodes that are alike and equally full take equally many, so ten thousand pods on a
//! thousand nodes are counted by the few groups that such nodes fall into.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::demand::Standing;
use crate::ledger::Ledger;
use crate::ledger::nodes::NodeEntry;
use crate::ledger::room::Load;
use crate::ledger::search::{Ask, Overlay};
use crate::placement::candidates::{Fit, node_matches};
use crate::workload::pod::PodSpec;

/// Pods that are counted on one node at most; a kubelet takes far fewer.
const MOST_ON_A_NODE: u32 = 1_024;

/// What nodes of a group have in common: whether they must be waited for, kind, loads, and slots that can be used.
type Alike<'l> = (bool, usize, &'l [Load], u32);

/// Nodes of one kind, equally full, on which the pods may stand.
struct Group {
    class: usize,
    nodes: Vec<Arc<str>>,
}

/// The nodes that match the pods, ready ones first.
pub(super) struct Ground(Vec<Group>);

/// Where so many pods found a place.
#[derive(Debug, Default)]
pub(super) struct Filled {
    /// How many did.
    pub(super) count: u32,
    /// Nodes with the number of pods there.
    pub(super) places: Vec<(Arc<str>, u32)>,
}

impl Filled {
    fn put(&mut self, node: &Arc<str>, pods: u32) {
        self.count = self.count.saturating_add(pods);
        self.places.push((node.clone(), pods));
    }
}

impl Ground {
    pub(super) fn of(ledger: &Ledger, base: &Overlay<'_>, spec: &PodSpec) -> Self {
        let mut groups: BTreeMap<Alike<'_>, Vec<Arc<str>>> = BTreeMap::new();
        let named = ledger.nodes.named(spec);
        let all = named.is_none().then(|| ledger.nodes.iter());
        let named = named.iter().flatten();
        let named = named.filter_map(|name| Some((name, ledger.nodes.get(name)?)));
        for (name, entry) in named.chain(all.into_iter().flatten()) {
            let later = match node_matches(spec, &entry.node) {
                Fit::Now => false,
                Fit::Later(_) => true,
                Fit::Never(_) => continue,
            };
            let usable = entry.node.pools.iter().map(|pool| pool.usable_slots).sum();
            let key = (later, entry.class, base.loads(name, entry), usable);
            groups.entry(key).or_default().push(name.clone());
        }
        Self(
            groups
                .into_iter()
                .map(|((_, class, ..), nodes)| Group { class, nodes })
                .collect(),
        )
    }

    /// Places `wanted` pods.
    pub(super) fn fill(&self, ask: &Ask, base: &Overlay<'_>, wanted: u32) -> Filled {
        let mut filled = Filled::default();
        for (group, standings) in self.asked(ask) {
            let left = wanted - filled.count;
            if left == 0 {
                break;
            }
            let capacity = group
                .nodes
                .first()
                .and_then(|name| Some((name, base.entry(name)?)))
                .map_or(0, |(name, entry)| capacity(base, name, entry, standings, left));
            if capacity == 0 {
                continue;
            }
            for name in &group.nodes {
                let pods = capacity.min(wanted - filled.count);
                if pods == 0 {
                    break;
                }
                filled.put(name, pods);
            }
        }
        filled
    }

    /// The ledger with those pods.
    pub(super) fn with<'l>(ask: &Ask, base: &Overlay<'l>, filled: &Filled) -> Overlay<'l> {
        let mut overlay = base.clone();
        for (name, pods) in &filled.places {
            let weighed = base.entry(name).and_then(|entry| ask.weighed.get(&entry.class));
            if let Some(weighed) = weighed {
                overlay.add(name, &times(&weighed.standings, *pods));
            }
        }
        overlay
    }

    /// One pod on each node, and the nodes without memory for it.
    pub(super) fn on_each(&self, ask: &Ask, base: &Overlay<'_>) -> (Filled, Vec<Arc<str>>) {
        let mut filled = Filled::default();
        let mut full = Vec::new();
        for (group, standings) in self.asked(ask) {
            if has_memory(group, base, standings) {
                for name in &group.nodes {
                    filled.put(name, 1);
                }
            } else {
                full.extend(group.nodes.iter().cloned());
            }
        }
        full.sort_unstable();
        (filled, full)
    }

    /// A node that has memory for one of the pods and a free slot, but no memory, for a second.
    pub(super) fn first_without_room_for_two(&self, ask: &Ask, base: &Overlay<'_>) -> Option<Arc<str>> {
        self.asked(ask).find_map(|(group, standings)| {
            let name = group.nodes.first()?;
            let fits = base.fits(name, base.entry(name)?, &times(standings, 2));
            (fits.slots && !fits.memory && has_memory(group, base, standings)).then(|| name.clone())
        })
    }

    /// Whether the pods can go to a single device only.
    pub(super) fn is_one_device(&self, ask: &Ask, ledger: &Ledger) -> bool {
        let mut asked = self.asked(ask);
        let (Some((group, standings)), None) = (asked.next(), asked.next()) else {
            return false;
        };
        let devices = ledger.nodes.class(group.class).map_or(0, |class| {
            let pools = class.pools.iter().zip(standings);
            pools
                .filter(|(_, standing)| !standing.is_empty())
                .map(|(pool, _)| pool.devices)
                .sum()
        });
        group.nodes.len() == 1 && devices == 1
    }

    fn asked<'a>(&'a self, ask: &'a Ask) -> impl Iterator<Item = (&'a Group, &'a [Standing])> {
        self.0.iter().filter_map(|group| {
            let weighed = ask.weighed.get(&group.class)?;
            Some((group, weighed.standings.as_slice()))
        })
    }
}

fn has_memory(group: &Group, base: &Overlay<'_>, standings: &[Standing]) -> bool {
    let first = group.nodes.first();
    first
        .and_then(|name| Some(base.fits(name, base.entry(name)?, standings).but_for_slots()))
        .unwrap_or(true)
}

fn times(standings: &[Standing], pods: u32) -> Vec<Standing> {
    standings.iter().map(|standing| standing.times(pods)).collect()
}

/// How many such pods a node takes, at most `most`.
fn capacity(
    base: &Overlay<'_>,
    name: &Arc<str>,
    entry: &NodeEntry,
    standings: &[Standing],
    most: u32,
) -> u32 {
    let by_slots = entry
        .node
        .pools
        .iter()
        .zip(base.loads(name, entry))
        .zip(standings)
        .filter_map(|((pool, load), standing)| {
            let free = pool.usable_slots.saturating_sub(load.slots);
            free.checked_div(standing.slots)
        })
        .min()
        // Pods that reach devices without asking take no slot.
        .unwrap_or(most);
    let (mut low, mut high) = (0, by_slots.min(most).min(MOST_ON_A_NODE));
    // What takes so many takes fewer as well.
    while low < high {
        let middle = (low + high).div_ceil(2);
        if base.fits(name, entry, &times(standings, middle)).all() {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}
