//! Dynamic Resource Allocation: devices that pods get by claim (`resource.k8s.io`).
//!
//! [`Dra`] keeps what the cluster says: the devices of NVIDIA's driver by kind, classes, claims and templates. A pod's
//! claim is resolved to requests, and each request to the kinds of devices that could be allocated to it. A claim that
//! is allocated names its devices: evidence of the grade `observed`.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::device::{DeviceKind, FactNote, Pool, Sharing};
use crate::units::Mib;

pub(crate) mod devices;
pub mod objects;
pub(crate) mod resolve;
mod selector;

pub use devices::DRIVER;
use devices::Kind;
use objects::{ClaimSpec, DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use selector::Answer;

/// What an extended resource begins with that stands for any DeviceClass.
pub(crate) const IMPLICIT: &str = "deviceclass.resource.kubernetes.io/";
/// Devices of one slice that are read; the API server allows 128.
const MOST_DEVICES: usize = 1_024;

/// Namespace and name of an object, or pool and name of a device.
pub(crate) type Key = (Arc<str>, Arc<str>);

/// What the cluster says of claims and their devices. See the module.
#[derive(Clone, Debug, Default)]
pub struct Dra {
    /// Slices of NVIDIA's driver, by name.
    slices: BTreeMap<Arc<str>, Slice>,
    /// Names of slices by pool: only those of the newest generation count.
    pools: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Devices by pool and name.
    devices: BTreeMap<Key, Placed>,
    /// How many devices of a kind each node has.
    kinds: BTreeMap<Arc<Kind>, BTreeMap<Arc<str>, u32>>,
    classes: BTreeMap<Arc<str>, DeviceClass>,
    claims: BTreeMap<Key, ResourceClaim>,
    /// The claims that each device is allocated to, access for monitoring included: device by pool and name, claim by
    /// namespace and name.
    allocations: BTreeMap<Key, BTreeSet<Key>>,
    templates: BTreeMap<Key, ClaimSpec>,
}

/// A slice.
#[derive(Clone, Debug)]
struct Slice {
    pool: Arc<str>,
    generation: i64,
    node: Arc<str>,
    devices: Vec<(Arc<str>, Arc<Kind>)>,
}

/// A device and its node.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) node: Arc<str>,
    pub(crate) kind: Arc<Kind>,
}

impl Dra {
    /// A slice appeared or changed. Returns the nodes whose devices may be others now.
    pub(crate) fn set_slice(&mut self, slice: &ResourceSlice) -> BTreeSet<Arc<str>> {
        let mut touched = self.remove_slice(&slice.metadata.name);
        if slice.spec.driver != DRIVER {
            return touched;
        }
        let pool: Arc<str> = Arc::from(slice.spec.pool.name.as_str());
        let name: Arc<str> = Arc::from(slice.metadata.name.as_str());
        let node = slice.spec.node_name.as_deref().unwrap_or_default();
        let devices = slice.spec.devices.iter().take(MOST_DEVICES);
        let devices = devices
            .map(|device| (Arc::from(device.name.as_str()), self.kind(Kind::of(device))))
            .collect();
        self.slices.insert(
            name.clone(),
            Slice {
                pool: pool.clone(),
                generation: slice.spec.pool.generation,
                node: Arc::from(node),
                devices,
            },
        );
        self.pools.entry(pool.clone()).or_default().insert(name);
        touched.extend(self.publish(&pool));
        touched
    }

    /// A slice is gone.
    pub(crate) fn remove_slice(&mut self, name: &str) -> BTreeSet<Arc<str>> {
        let Some(slice) = self.slices.remove(name) else {
            return BTreeSet::new();
        };
        if let Some(names) = self.pools.get_mut(&slice.pool) {
            names.remove(name);
        }
        let mut touched = self.publish(&slice.pool);
        touched.insert(slice.node);
        touched
    }

    /// A kind that is known already, or this one.
    fn kind(&self, kind: Kind) -> Arc<Kind> {
        match self.kinds.get_key_value(&kind) {
            Some((known, _)) => known.clone(),
            None => Arc::new(kind),
        }
    }

    /// Works out the devices of a pool anew.
    fn publish(&mut self, pool: &Arc<str>) -> BTreeSet<Arc<str>> {
        let mut touched = BTreeSet::new();
        let first: Key = (pool.clone(), Arc::from(""));
        let old: Vec<Key> = self
            .devices
            .range(first..)
            .take_while(|((of, _), _)| of == pool)
            .map(|(key, _)| key.clone())
            .collect();
        for key in old {
            let Some(Placed { node, kind }) = self.devices.remove(&key) else {
                continue;
            };
            if let Some(nodes) = self.kinds.get_mut(&kind) {
                let left = nodes.get_mut(&node).map_or(0, |count| {
                    *count = count.saturating_sub(1);
                    *count
                });
                if left == 0 {
                    nodes.remove(&node);
                }
                if nodes.is_empty() {
                    self.kinds.remove(&kind);
                }
            }
            touched.insert(node);
        }
        let names = self.pools.get(pool).cloned().unwrap_or_default();
        if names.is_empty() {
            self.pools.remove(pool);
        }
        let slices = || names.iter().filter_map(|name| self.slices.get(name));
        let newest = slices().map(|slice| slice.generation).max();
        let current: Vec<(Arc<str>, Arc<str>, Arc<Kind>)> = slices()
            .filter(|slice| Some(slice.generation) == newest)
            .flat_map(|slice| {
                let node = &slice.node;
                let devices = slice.devices.iter();
                devices.map(move |(name, kind)| (node.clone(), name.clone(), kind.clone()))
            })
            .collect();
        for (node, name, kind) in current {
            touched.insert(node.clone());
            // Of two devices with one name the first counts, in both tables.
            let Entry::Vacant(place) = self.devices.entry((pool.clone(), name)) else {
                continue;
            };
            place.insert(Placed {
                node: node.clone(),
                kind: kind.clone(),
            });
            let count = self.kinds.entry(kind).or_default().entry(node).or_default();
            *count = count.saturating_add(1);
        }
        touched
    }

    /// A class appeared or changed. Returns the nodes that it may give other resources.
    pub(crate) fn set_class(&mut self, class: DeviceClass) -> BTreeSet<Arc<str>> {
        self.classes
            .insert(Arc::from(class.metadata.name.as_str()), class);
        self.nodes()
    }

    /// A class is gone.
    pub(crate) fn remove_class(&mut self, name: &str) -> BTreeSet<Arc<str>> {
        match self.classes.remove(name) {
            Some(_) => self.nodes(),
            None => BTreeSet::new(),
        }
    }

    fn nodes(&self) -> BTreeSet<Arc<str>> {
        self.kinds.values().flat_map(BTreeMap::keys).cloned().collect()
    }

    /// A claim appeared or changed.
    pub(crate) fn set_claim(&mut self, claim: ResourceClaim) {
        let of = key(&claim.metadata.namespace, &claim.metadata.name);
        self.forget_allocation(&of);
        for device in allocated(&claim) {
            self.allocations.entry(device).or_default().insert(of.clone());
        }
        self.claims.insert(of, claim);
    }

    /// A claim is gone.
    pub(crate) fn remove_claim(&mut self, namespace: &str, name: &str) {
        let of = key(namespace, name);
        self.forget_allocation(&of);
        self.claims.remove(&of);
    }

    fn forget_allocation(&mut self, claim: &Key) {
        let devices = self.claims.get(claim).into_iter().flat_map(allocated);
        for device in devices {
            if let Entry::Occupied(mut claims) = self.allocations.entry(device) {
                claims.get_mut().remove(claim);
                if claims.get().is_empty() {
                    claims.remove();
                }
            }
        }
    }

    /// A template appeared or changed.
    pub(crate) fn set_template(&mut self, template: ResourceClaimTemplate) {
        let of = key(&template.metadata.namespace, &template.metadata.name);
        self.templates.insert(of, template.spec.spec);
    }

    /// A template is gone.
    pub(crate) fn remove_template(&mut self, namespace: &str, name: &str) {
        self.templates.remove(&key(namespace, name));
    }

    /// Nodes that have devices of a kind.
    pub(crate) fn nodes_of(&self, kind: &Kind) -> impl Iterator<Item = &Arc<str>> {
        self.kinds.get(kind).into_iter().flat_map(BTreeMap::keys)
    }

    /// The node of a device.
    pub(crate) fn node_of(&self, pool: &Arc<str>, device: &Arc<str>) -> Option<&Arc<str>> {
        let placed = self.devices.get(&(pool.clone(), device.clone()))?;
        (!placed.node.is_empty()).then_some(&placed.node)
    }

    /// The devices, by pool and name.
    pub(crate) fn devices(&self) -> impl Iterator<Item = (&Key, &Placed)> {
        self.devices.iter()
    }

    /// The device of a pool, as far as a slice describes it.
    pub(crate) fn device(&self, of: &Key) -> Option<&Placed> {
        self.devices.get(of)
    }

    /// The claims, by namespace and name, that a device is allocated to.
    pub(crate) fn claims_on(&self, device: &Key) -> impl Iterator<Item = &Key> {
        self.allocations.get(device).into_iter().flatten()
    }

    /// The devices that are allocated, each with its claims.
    pub(crate) fn allocated(&self) -> impl Iterator<Item = &Key> {
        self.allocations.keys()
    }

    /// What a claim may be for that nobody has seen, as far as the classes tell.
    pub(crate) fn may_be_for(&self) -> MayBeFor {
        let others = || self.classes.keys().filter(|class| !self.is_nvidias(class));
        if others().count() == self.classes.len() || !others().all(|class| is_of_domain(class)) {
            MayBeFor::Anything
        } else if others().next().is_some() {
            MayBeFor::GpusAndChannels
        } else {
            MayBeFor::Gpus
        }
    }

    /// The kinds of devices that there are.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds.keys()
    }

    /// Whether a kind is of a class: no where a selector excludes it.
    fn is_of(class: &DeviceClass, kind: &Kind) -> Answer {
        let selectors = class.spec.selectors.iter();
        let answers = selectors.map(|selector| resolve::answer(selector, kind));
        answers.min().unwrap_or(Answer::Yes)
    }

    /// Whether a class is one of NVIDIA's GPUs, as far as its selectors and its name tell without any device. NVIDIA's other
    /// driver, of ComputeDomains (`compute-domain.nvidia.com`), has classes of the same domain.
    fn is_nvidias(&self, class: &str) -> bool {
        let is_named = class == "nvidia.com" || class.ends_with(".nvidia.com");
        let Some(known) = self.classes.get(class) else {
            return is_named && !is_of_domain(class);
        };
        let selectors = known.spec.selectors.iter();
        let expressions = selectors.filter_map(|selector| selector.cel.as_ref());
        let mut expressions = expressions.map(|cel| cel.expression.as_str());
        let (mut names_ours, mut names_any) = (false, false);
        for expression in &mut expressions {
            names_ours |= expression.contains(DRIVER);
            names_any |= expression.contains("device.driver");
        }
        names_ours || is_named && !names_any
    }

    /// Whether a class stands for this extended resource: then no node's capacity shows it, and the scheduler allocates.
    pub(crate) fn backs(&self, resource: &str) -> bool {
        self.classes
            .iter()
            .any(|(name, class)| stands_for(name, class).any(|stands| stands == resource))
    }

    /// The pools that ResourceSlices make of a node's devices: whole devices of each extended resource that a class
    /// stands for, and that the node does not offer by capacity.
    pub(crate) fn pools(&self, node: &str, notes: &mut Vec<FactNote>) -> Vec<Pool> {
        let here: Vec<(&Kind, u32)> = self
            .kinds
            .iter()
            .filter_map(|(kind, nodes)| Some((kind.as_ref(), *nodes.get(node)?)))
            .collect();
        if here.is_empty() {
            return Vec::new();
        }
        let mut pools: BTreeMap<String, Pool> = BTreeMap::new();
        for (name, class) in &self.classes {
            for resource in stands_for(name, class) {
                let devices = here
                    .iter()
                    .filter(|(kind, _)| Self::is_of(class, kind) != Answer::No);
                let Some(pool) = pool(&resource, devices.copied(), notes) else {
                    continue;
                };
                pools.entry(resource).or_insert(pool);
            }
        }
        pools.into_values().collect()
    }
}

/// One pool of devices, taken together.
fn pool<'k>(
    resource: &str,
    devices: impl Iterator<Item = (&'k Kind, u32)>,
    notes: &mut Vec<FactNote>,
) -> Option<Pool> {
    let resource: Arc<str> = Arc::from(resource);
    let mut pool: Option<Pool> = None;
    for (kind, count) in devices {
        let Some(pool) = &mut pool else {
            pool = Some(Pool {
                resource: resource.clone(),
                device: kind.device.clone(),
                product: kind.product.clone(),
                total: kind.total,
                sharing: Sharing::Exclusive,
                bounds_containers: false,
                allocation: None,
                devices: count,
                slots: count,
                usable_slots: count,
            });
            continue;
        };
        pool.devices = pool.devices.saturating_add(count);
        pool.slots = pool.devices;
        pool.usable_slots = pool.devices;
        if (pool.total, &pool.device) != (kind.total, &kind.device) && pool.total.is_some() {
            pool.total = None;
            pool.device = DeviceKind::Gpu;
            notes.push(FactNote {
                resource: resource.clone(),
                message: format!(
                    "the ResourceSlices of the node have devices of several sizes that {resource} may stand for: which \
                     one a pod gets is open, so whether a model fits it is not judged"
                ),
            });
        }
    }
    pool
}

/// The extended resources that a class stands for.
fn stands_for<'c>(name: &str, class: &'c DeviceClass) -> impl Iterator<Item = String> + use<'c> {
    let explicit = class.spec.extended_resource_name.clone();
    let explicit = explicit.filter(|name| !name.is_empty());
    explicit.into_iter().chain([format!("{IMPLICIT}{name}")])
}

/// What a claim may be for that does not exist yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MayBeFor {
    /// Devices of GPUs alone.
    Gpus,
    /// Those, or what NVIDIA's driver of ComputeDomains offers, which no engine can run on.
    GpusAndChannels,
    Anything,
}

/// Whether a class is one that NVIDIA's driver of ComputeDomains installs.
fn is_of_domain(class: &str) -> bool {
    class.starts_with("compute-domain-") && class.ends_with(".nvidia.com")
}

/// The devices of NVIDIA's driver that are allocated to a claim.
fn allocated(claim: &ResourceClaim) -> impl Iterator<Item = Key> {
    let allocation = claim.status.allocation.iter();
    let results = allocation.flat_map(|allocation| &allocation.devices.results);
    results
        .filter(|result| result.driver == DRIVER)
        .map(|result| (Arc::from(result.pool.as_str()), Arc::from(result.device.as_str())))
}

fn key(namespace: &str, name: &str) -> Key {
    let namespace = if namespace.is_empty() {
        "default"
    } else {
        namespace
    };
    (Arc::from(namespace), Arc::from(name))
}

/// A limit of memory that claims or classes set for their users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// The part of a device that the claim consumes; nothing enforces it.
    Capacity(Mib),
    /// What MPS lets each process pin.
    Mps(Mib),
}
