//! `check --against OLD`: the input is what a change makes of OLD.
//!
//! What OLD holds stands in the cluster before anything is judged, so that an object which is in both is an UPDATE of the one in
//! OLD. What the change removes still holds its memory: `kubectl apply`, Argo CD and Flux remove last.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Cluster, Judged};
use crate::cli::Failure;
use crate::cli::state::Applied;
use crate::decision::Verdict;
use crate::demand::Demand;
use crate::demand::weigh::{Rules, weigh};
use crate::document::{
    Asked, ChangeKind, ChangeSummary, ContainerChange, DeviceChange, Explained, ObjectChange, TakenOfDevice,
};
use crate::engine::{LookUp, Sources};
use crate::manifest::Object;
use crate::policy::NodeView;
use crate::workload::{ObjectRef, Workload, asks_for_gpu};

/// Refusals for which it is tried whether they stand once what is removed is gone. Each takes a copy of the cluster.
const MOST_TRIED: usize = 16;
/// Kinds of device that are told of one container.
const MOST_DEVICES: usize = 3;

/// Group, kind, namespace and name.
type Key = (String, String, String, String);
/// Kind, namespace and name.
type Name = (String, String, String);

/// What was there before the change.
#[derive(Default)]
pub(super) struct Before {
    values: BTreeMap<Key, Value>,
    /// What the input holds.
    kept: BTreeSet<Key>,
    /// What there was, and what of the input is as it was.
    known: BTreeSet<Name>,
    same: BTreeSet<Name>,
    /// The data of ConfigMaps that the input changes, as it was.
    maps: BTreeMap<(String, String), BTreeMap<String, String>>,
    /// Workloads that ask for GPUs and are not in the input.
    removed: Vec<Workload>,
    pub(super) summary: ChangeSummary,
    tried: usize,
}

impl Before {
    /// Of these objects, and of an input with those.
    pub(super) fn new(old: &[Object], new: &[Object]) -> Self {
        let values = old.iter().map(|object| (key(object), object.value.clone()));
        let mut before = Self {
            values: values.collect(),
            kept: new.iter().map(key).collect(),
            ..Self::default()
        };
        let is_same = |object: &&Object| before.kind(object) == ChangeKind::Unchanged;
        let without_group = |object: &Object| {
            let (_, kind, namespace, name) = key(object);
            (kind, namespace, name)
        };
        let same = new.iter().filter(is_same).map(without_group).collect();
        let changed: BTreeSet<Key> = new
            .iter()
            .filter(|object| before.kind(object) == ChangeKind::Changed)
            .map(key)
            .collect();
        let maps = old.iter().filter(|object| changed.contains(&key(object)));
        let maps = maps.filter(|object| (object.api_version(), object.kind()) == ("v1", "ConfigMap"));
        let maps = maps.map(|object| {
            let data = object.value.get("data").and_then(Value::as_object);
            let entries = data.into_iter().flatten();
            let entries = entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
            let (_, _, namespace, name) = key(object);
            ((namespace, name), entries.collect())
        });
        before.maps = maps.collect();
        before.known = old.iter().map(without_group).collect();
        before.same = same;
        before
    }

    /// What becomes of an object that is no workload.
    pub(super) fn kind_of(&self, object: &ObjectRef) -> ChangeKind {
        let name = named(&object.kind, &object.namespace, &object.name);
        if self.same.contains(&name) {
            ChangeKind::Unchanged
        } else if self.known.contains(&name) {
            ChangeKind::Changed
        } else {
            ChangeKind::New
        }
    }

    /// Whether the input holds an object as it was.
    pub(super) fn is_same(&self, kind: &str, namespace: &str, name: &str) -> bool {
        self.same.contains(&named(kind, namespace, name))
    }

    /// Puts the workloads into the cluster as if they had been admitted.
    pub(super) fn stand(
        &mut self,
        objects: Vec<Applied>,
        cluster: &mut Cluster,
        failures: &mut Vec<Failure>,
    ) {
        for object in objects.into_iter().filter_map(Applied::into_object) {
            let removed = !self.kept.contains(&key(&object));
            let mut workload = match cluster.snapshot.read(&object) {
                Ok(Some(workload)) => workload,
                Ok(None) => continue,
                Err(error) => {
                    failures.push(error.into());
                    continue;
                }
            };
            let known = cluster.snapshot.existing(&workload).is_some();
            cluster.snapshot.adopt(&mut workload);
            cluster.snapshot.prioritize(&mut workload);
            if removed && asks(&workload) {
                self.summary.removed.push(workload.object.clone());
                self.removed.push(workload.clone());
            }
            if known {
                // Its pods are there already, whatever they were made of.
                cluster.snapshot.restate(workload);
            } else {
                cluster.snapshot.join(workload, &mut cluster.ledger);
            }
        }
    }

    /// What becomes of an object of the input.
    pub(super) fn kind(&self, object: &Object) -> ChangeKind {
        match self.values.get(&key(object)) {
            None => ChangeKind::New,
            Some(old) if *old == object.value => ChangeKind::Unchanged,
            Some(_) => ChangeKind::Changed,
        }
    }

    /// Counts an object.
    pub(super) fn count(&mut self, kind: ChangeKind) {
        let summary = &mut self.summary;
        *match kind {
            ChangeKind::New => &mut summary.new,
            ChangeKind::Changed => &mut summary.changed,
            ChangeKind::Unchanged => &mut summary.unchanged,
        } += 1;
    }

    /// What has to go first so that a refused object is admitted; `None` where that does not help.
    pub(super) fn first(
        &mut self,
        cluster: &Cluster,
        workload: &Workload,
        old: Option<&Workload>,
    ) -> Option<String> {
        if self.removed.is_empty() || self.tried == MOST_TRIED {
            return None;
        }
        self.tried += 1;
        let mut without = Cluster {
            snapshot: cluster.snapshot.clone(),
            ledger: cluster.ledger.clone(),
            applied: Vec::new(),
        };
        for removed in &self.removed {
            without.snapshot.withdraw(removed, &mut without.ledger);
        }
        let (Verdict { admit, .. }, _) = without.judge(workload, old.cloned());
        let names: Vec<String> = self.summary.removed.iter().take(3).map(name).collect();
        let more = match self.removed.len() {
            0..=3 => String::new(),
            many => format!(" and {} more", many - 3),
        };
        admit.then(|| {
            format!(
                "it is admitted once what the change removes is gone: delete {}{more} first",
                names.join(", ")
            )
        })
    }
}

/// Whether any template of an object asks for a GPU.
pub(super) fn asks(workload: &Workload) -> bool {
    workload.split().iter().any(|set| asks_for_gpu(&set.pod))
}

fn name(object: &ObjectRef) -> String {
    format!("{} {}/{}", object.kind, object.namespace, object.name)
}

fn key(object: &Object) -> Key {
    let group = object
        .api_version()
        .rsplit_once('/')
        .map_or("", |(group, _)| group);
    let namespace = or_default(object.namespace());
    let generated = object
        .value
        .pointer("/metadata/generateName")
        .and_then(Value::as_str);
    let name = match object.name() {
        "" => generated.unwrap_or_default(),
        name => name,
    };
    [group, object.kind(), namespace, name].map(str::to_owned).into()
}

fn named(kind: &str, namespace: &str, name: &str) -> Name {
    [kind, or_default(namespace), name].map(str::to_owned).into()
}

fn or_default(namespace: &str) -> &str {
    if namespace.is_empty() {
        "default"
    } else {
        namespace
    }
}

/// The change of an object that is no workload: an autoscaler, or what configures GPUs. `None` where neither it nor what it scales
/// differs, so that nothing is to be told of it.
pub(super) fn of_other(
    before: Option<&mut Before>,
    judged: Judged,
    scales: Option<(&str, &str)>,
    tell_all: bool,
) -> Option<Judged> {
    let Some(before) = before else {
        return Some(judged);
    };
    let object = &judged.object;
    let kind = before.kind_of(object);
    let stays = scales.is_none_or(|(kind, name)| before.is_same(kind, &object.namespace, name));
    before.count(kind);
    (kind != ChangeKind::Unchanged || !stays || tell_all).then(|| Judged {
        change: Some(ObjectChange {
            kind,
            containers: Vec::new(),
            through: Vec::new(),
            first: None,
        }),
        ..judged
    })
}

/// The change of a workload, with what it means for each container. One that stays as it is counts as changed where a ConfigMap
/// changes what it takes.
pub(super) fn of_workload(
    before: &Before,
    kind: ChangeKind,
    cluster: &Cluster,
    old: Option<&Workload>,
    new: &Workload,
) -> ObjectChange {
    let compared = match kind {
        ChangeKind::New => false,
        ChangeKind::Changed => true,
        ChangeKind::Unchanged => !before.maps.is_empty(),
    };
    let containers = match old.filter(|_| compared) {
        Some(old) => containers(before, cluster, old, new),
        None => Vec::new(),
    };
    let through = kind == ChangeKind::Unchanged && !containers.is_empty();
    let namespace = &new.object.namespace;
    let maps = before.maps.keys().filter(|(of, _)| through && of == namespace);
    ObjectChange {
        kind: if through { ChangeKind::Changed } else { kind },
        containers,
        through: maps
            .map(|(namespace, name)| format!("{namespace}/{name}"))
            .collect(),
        first: None,
    }
}

/// ConfigMaps as they were before the change.
struct Earlier<'a> {
    maps: &'a BTreeMap<(String, String), BTreeMap<String, String>>,
    now: &'a dyn Sources,
}

impl Sources for Earlier<'_> {
    fn config_map(&self, namespace: &str, name: &str) -> LookUp<'_> {
        match self.maps.get(&(namespace.to_owned(), name.to_owned())) {
            Some(data) => LookUp::Found(data),
            None => self.now.config_map(namespace, name),
        }
    }
}

/// What is known of the containers of one template.
struct Side {
    containers: Vec<(String, Asked)>,
    demand: Option<Demand>,
}

fn containers(before: &Before, cluster: &Cluster, old: &Workload, new: &Workload) -> Vec<ContainerChange> {
    let mut changes = Vec::new();
    let sets = old.split();
    for after in new.split() {
        let Some(set) = sets.iter().find(|set| set.template == after.template) else {
            continue;
        };
        let (then, now) = (
            side(cluster, set, &before.maps),
            side(cluster, &after, &BTreeMap::new()),
        );
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in then.containers.iter().chain(&now.containers) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        for name in names {
            let asked = |side: &Side| {
                let mut of_it = side.containers.iter().filter(|(known, _)| known == name);
                of_it.next().map(|(_, asked)| asked.clone())
            };
            let change = ContainerChange {
                container: name.to_owned(),
                old: asked(&then),
                new: asked(&now),
                devices: devices(cluster, name, (set, &then), (&after, &now)),
            };
            let moved = change.devices.iter().any(|device| device.old != device.new);
            if change.old != change.new || moved {
                changes.push(change);
            }
        }
    }
    changes
}

fn side(
    cluster: &Cluster,
    workload: &Workload,
    maps: &BTreeMap<(String, String), BTreeMap<String, String>>,
) -> Side {
    let policies = cluster.ledger.policies();
    let labels = cluster.snapshot.namespace_labels(&workload.object.namespace);
    let pod = &workload.pod;
    let policy = policies.for_pod(&labels, pod, None);
    let now = cluster.snapshot.sources(policy.read_config_maps);
    let earlier = Earlier { maps, now };
    let sources: &dyn Sources = if policy.read_config_maps { &earlier } else { now };
    let explained = Explained::new(workload, sources, &labels, policies);
    let containers = explained.containers.into_iter().map(|container| {
        let asked = Asked {
            engine: container.engine,
            kind: container.memory_kind(),
            value: container.memory_value().map(str::to_owned),
            source: container.memory_source(),
            version: container.version,
        };
        (container.name, asked)
    });
    Side {
        containers: containers.collect(),
        demand: Demand::read_amounts(&workload.pod, &labels, policies, sources).ok(),
    }
}

/// What a container takes of each kind of device of the cluster, those where nothing changes included.
fn devices(
    cluster: &Cluster,
    container: &str,
    (old, then): (&Workload, &Side),
    (new, now): (&Workload, &Side),
) -> Vec<DeviceChange> {
    let policies = cluster.ledger.policies();
    let mut told: Vec<DeviceChange> = Vec::new();
    for node in cluster.snapshot.gpu_nodes(policies) {
        let device_policy = policies.for_device(&node.labels);
        let taken = |workload: &Workload, side: &Side| -> Vec<Option<TakenOfDevice>> {
            let Some(demand) = &side.demand else {
                return vec![None; node.pools.len()];
            };
            let labels = cluster.snapshot.namespace_labels(&workload.object.namespace);
            let node_labels = node.labels.to_map();
            let there = NodeView::new(&node_labels, &node.pools);
            let policy = policies.for_pod(&labels, &workload.pod, Some(there));
            let rules = Rules {
                pod: &policy,
                device: &device_policy.device,
                namespace: &workload.object.namespace,
            };
            let weighed = weigh(demand, &node.pools, rules);
            let of_pool = weighed.standings.iter().map(|standing| {
                let mut holds = standing.holds.iter().filter(|hold| hold.container == container);
                holds.next().map(|hold| TakenOfDevice {
                    request: hold.request,
                    overhead: hold.overhead,
                    share: hold.share,
                })
            });
            of_pool.collect()
        };
        let (before, after) = (taken(old, then), taken(new, now));
        for ((pool, old), new) in node.pools.iter().zip(before).zip(after) {
            let device = match &*pool.product {
                "" => pool.resource.to_string(),
                product if pool.resource.starts_with("nvidia.com/mig-") => {
                    format!("{} of {product}", pool.resource)
                }
                product => product.to_owned(),
            };
            let change = DeviceChange { device, old, new };
            let asked = change.old.is_some() || change.new.is_some();
            if asked && told.len() < MOST_DEVICES && !told.contains(&change) {
                told.push(change);
            }
        }
    }
    told
}
