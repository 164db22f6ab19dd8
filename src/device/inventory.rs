//! A node's GPU pools, read from what GPU Feature Discovery, the device plugin and the kubelet wrote into the node.
//!
//! Capacity says what there is, labels say what it means. Where they are silent the catalogue stands in, and where they
//! contradict each other the reading that promises less is taken; either way a note says which label, and what was read.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::catalogue::{Catalogue, ProductLabel};
use super::config::plugin::PluginConfigMap;
use super::{Advertised, DeviceKind, FactNote, GpuNode, Identity, Pool, is_slot_resource};
use crate::counted;
use crate::policy::MissingFacts;
use crate::quantity::Quantity;
use crate::units::Share;
use crate::workload::pod::{Node, NodeCondition, QuantityText};

mod configured;
mod facts;
mod memory;
mod mig;
mod sharing;

use configured::Configured;
use facts::Facts;

type Labels = BTreeMap<String, String>;

/// Label of the product, for whole GPUs and for every MIG resource of the node.
const PRODUCT: &str = "nvidia.com/gpu.product";
/// Labels of the driver's release, the newer one first.
const DRIVER: [&str; 2] = [
    "nvidia.com/cuda.driver-version.major",
    "nvidia.com/cuda.driver.major",
];
/// The first release of the driver with memory limits of containers (CUDA 13.4).
const FIRST_TO_BOUND: u32 = 615;
/// Label of the MIG manager's progress.
const MIG_STATE: &str = "nvidia.com/mig.config.state";

/// By what a node is read, beside its own labels and status.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// What becomes of a node without sharing facts.
    pub missing: MissingFacts,
    /// Products and MIG profiles.
    pub catalogue: &'a Catalogue,
    /// The device plugin's ConfigMap, where it was read.
    pub plugin: Option<&'a PluginConfigMap>,
}

/// Reads a node without the device plugin's configuration.
#[must_use]
pub fn read(node: &Node, missing: MissingFacts, catalogue: &Catalogue) -> Option<GpuNode> {
    read_in(
        node,
        Context {
            missing,
            catalogue,
            plugin: None,
        },
    )
}

/// Reads a node; `None` where it offers no slots of NVIDIA devices.
///
/// A resource whose capacity is zero is a leftover of an earlier configuration and no pool. With [`MissingFacts::Deny`] a
/// resource whose sharing neither a label nor the device plugin's configuration tells is no pool either, and a note says so.
#[must_use]
pub fn read_in(node: &Node, context: Context<'_>) -> Option<GpuNode> {
    let mut pools = Vec::new();
    let mut notes = Vec::new();
    let labels = &node.metadata.labels;
    let configured = context.plugin.map(|map| Configured::of(map, map.of(labels)));
    for (name, slots) in slot_resources(node, &mut notes) {
        let mut facts = Facts::new(labels, Arc::from(name), &mut notes);
        if let Some(mut pool) = pool(&mut facts, slots, context, configured) {
            pool.allocation = configured.and_then(|configured| configured.agreement(&pool, &mut notes));
            pools.push(pool);
        }
    }
    if let Some(configured) = configured {
        configured.note(labels, &pools, &mut notes);
    }
    if pools.is_empty() && notes.is_empty() {
        return None;
    }
    note_contradictions(&node.metadata.labels, &pools, &mut notes);
    mig::note(&node.metadata.labels, &pools, context.catalogue, &mut notes);
    Some(GpuNode {
        pools,
        notes,
        ..bare(node)
    })
}

/// The same, where ResourceSlices may give a node GPUs that it offers no slots of: one with a label that tells of a GPU is
/// read without pools. So is one that still advertises the counted resource, which has to be taken away.
#[must_use]
pub fn read_or_bare(node: &Node, context: Context<'_>) -> Option<GpuNode> {
    read_in(node, context)
        .or_else(|| (may_have_gpus(&node.metadata.labels) || advertised(node).is_any()).then(|| bare(node)))
}

/// A node without what it offers.
#[must_use]
pub fn bare(node: &Node) -> GpuNode {
    GpuNode {
        metadata: Identity {
            name: Arc::from(node.metadata.name.as_str()),
            uid: Box::from(node.metadata.uid.as_str()),
        },
        labels: super::Labels::from(&node.metadata.labels),
        taints: node.spec.taints.clone(),
        cordoned: node.spec.unschedulable,
        ready: is_ready(&node.status.conditions),
        pools: Vec::new(),
        notes: Vec::new(),
        advertised: advertised(node),
    }
}

/// What the node's status says of the counted resource.
fn advertised(node: &Node) -> Advertised {
    let read = |of: &BTreeMap<String, QuantityText>| {
        let text = of.get(counted::RESOURCE)?;
        Some(counted::read(&text.0).unwrap_or(Share::from_ppm(u64::MAX)))
    };
    Advertised {
        capacity: read(&node.status.capacity),
        allocatable: read(&node.status.allocatable),
    }
}

/// Whether a node's labels tell that it has GPUs, though it offers no slots of them: ResourceSlices may. These are the
/// labels by which NVIDIA's DRA driver finds its nodes.
fn may_have_gpus(labels: &BTreeMap<String, String>) -> bool {
    labels
        .get("nvidia.com/gpu.present")
        .is_some_and(|present| present == "true")
        || labels
            .range("feature.node.kubernetes.io/pci-".to_owned()..)
            .take_while(|(name, _)| name.starts_with("feature.node.kubernetes.io/pci-"))
            .any(|(name, value)| name.contains("10de") && value == "true")
}

/// Slots of one resource.
#[derive(Clone, Copy)]
struct Slots {
    capacity: u32,
    usable: u32,
}

/// Slot resources with something behind them, in order of name.
fn slot_resources<'a>(node: &'a Node, notes: &mut Vec<FactNote>) -> Vec<(&'a str, Slots)> {
    let (capacity, allocatable) = (&node.status.capacity, &node.status.allocatable);
    let mut names: Vec<&str> = capacity
        .keys()
        .chain(allocatable.keys())
        .map(String::as_str)
        .filter(|name| is_slot_resource(name))
        .collect();
    names.sort_unstable();
    names.dedup();
    let mut found = Vec::new();
    for name in names {
        let mut count = |of: &BTreeMap<String, QuantityText>, field: &str| {
            let text = of.get(name)?.0.as_str();
            let count = Quantity::parse(text)
                .ok()
                .and_then(Quantity::whole)
                .and_then(|count| u32::try_from(count).ok());
            if count.is_none() {
                notes.push(FactNote {
                    resource: Arc::from(name),
                    message: format!(
                        "status.{field}[{name}] is {text:?}, which is not a count of slots; it is not used"
                    ),
                });
            }
            count
        };
        let (there, usable) = (count(capacity, "capacity"), count(allocatable, "allocatable"));
        // Files written by hand often have only one of the two.
        let (Some(capacity), Some(usable)) = (there.or(usable), usable.or(there)) else {
            continue;
        };
        if usable > capacity {
            notes.push(FactNote {
                resource: Arc::from(name),
                message: format!(
                    "status.allocatable[{name}] is {usable}, more than the capacity {capacity}; {capacity} is used"
                ),
            });
        }
        if capacity > 0 {
            found.push((
                name,
                Slots {
                    capacity,
                    usable: usable.min(capacity),
                },
            ));
        }
    }
    found
}

fn pool(
    facts: &mut Facts<'_>,
    slots: Slots,
    context: Context<'_>,
    configured: Option<Configured<'_>>,
) -> Option<Pool> {
    let product = ProductLabel::parse(facts.labels.get(PRODUCT).map_or("", |value| value.trim()));
    let own_product = facts.text("product").map_or(product, ProductLabel::parse);
    // The resource's name tells it under the MIG strategy `mixed`, the product label under `single`.
    let profile = facts.profile().or(product.mig);
    let device = profile.map_or(DeviceKind::Gpu, |profile| DeviceKind::Mig(Arc::from(profile)));
    let known = context.catalogue.product(product.base);
    let total = memory::total(facts, &device, product.base, known);
    let (sharing, devices) = sharing::read(
        facts,
        &sharing::Offer {
            slots: slots.capacity,
            device: &device,
            product_is_shared: own_product.shared,
            mps_max_replicas: known.map(|known| known.mps_max_replicas),
            configured,
        },
        context.missing,
    )?;
    Some(Pool {
        resource: Arc::clone(&facts.resource),
        device,
        product: Arc::from(if product.base.is_empty() {
            "unknown"
        } else {
            product.base
        }),
        total,
        sharing,
        bounds_containers: bounds_containers(facts.labels),
        devices,
        slots: slots.capacity,
        usable_slots: slots.usable,
        allocation: None,
    })
}

/// Whether the label of the driver's release says one that bounds containers. What is not known bounds nothing.
fn bounds_containers(labels: &BTreeMap<String, String>) -> bool {
    let major = DRIVER.iter().find_map(|label| labels.get(*label));
    major
        .and_then(|major| major.trim().parse::<u32>().ok())
        .is_some_and(|major| major >= FIRST_TO_BOUND)
}

/// Notes on the node as a whole, each under the resource that it touches.
fn note_contradictions(labels: &BTreeMap<String, String>, pools: &[Pool], notes: &mut Vec<FactNote>) {
    if let Some(state) = labels.get(MIG_STATE).filter(|state| *state != "success")
        && let Some(pool) = pools.first()
    {
        notes.push(FactNote {
            resource: Arc::clone(&pool.resource),
            message: format!(
                "{MIG_STATE} is {state:?}: until it is \"success\", labels and capacity may be those of an earlier MIG \
                 configuration"
            ),
        });
    }
    for pool in pools {
        if let Some(plain) = pool.resource.strip_suffix(".shared")
            && pools.iter().any(|other| &*other.resource == plain)
        {
            notes.push(FactNote {
                resource: Arc::clone(&pool.resource),
                message: format!(
                    "capacity offers {plain} and {} at once: the device plugin renames a shared resource, so one of \
                     them is a leftover and its devices may be counted twice",
                    pool.resource
                ),
            });
        }
    }
}

/// Whether the kubelet reports ready. A node without the condition, as in a file written by hand, is taken as ready.
fn is_ready(conditions: &[NodeCondition]) -> bool {
    conditions
        .iter()
        .find(|condition| condition.kind == "Ready")
        .is_none_or(|ready| ready.status == "True")
}

#[cfg(test)]
mod tests;
