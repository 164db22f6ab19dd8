//! Devices that a pod's status tells: evidence of the grade `observed`.
//!
//! The kubelet writes the identity of each device that a device plugin gave to a regular container into
//! `status.containerStatuses[].allocatedResourcesStatus` (KEP-4680, feature gate `ResourceHealthStatus`). NVIDIA's plugin
//! names a shared slot `GPU-<uuid>::<replica>`, anything else by its UUID.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Holder;
use crate::demand::other_systems::Given;
use crate::demand::{Claim, Demand, Seen, Standing};
use crate::device::{Pool, is_slot_resource};
use crate::engine::Role;
use crate::workload::pod::Pod;

/// The slots of one resource that one container was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Observed {
    container: String,
    resource: Arc<str>,
    /// Slots on each device.
    devices: BTreeMap<Arc<str>, u32>,
}

impl Observed {
    fn slots(&self) -> u32 {
        self.devices
            .values()
            .fold(0, |sum, slots| sum.saturating_add(*slots))
    }
}

/// Reads the status of a pod. An entry with a slot that has no identity, or that names a slot
/// twice, tells nothing.
pub(super) fn read(pod: &Pod) -> Vec<Observed> {
    let mut observed = Vec::new();
    for status in &pod.status.container_statuses {
        for resource in &status.allocated_resources_status {
            let ids = || resource.resources.iter().map(|slot| slot.resource_id.as_str());
            let distinct: BTreeSet<&str> = ids().collect();
            if !is_slot_resource(&resource.name)
                || distinct.iter().any(|id| device(id).is_empty())
                || distinct.len() < resource.resources.len()
            {
                continue;
            }
            let mut devices: BTreeMap<Arc<str>, u32> = BTreeMap::new();
            for id in ids() {
                *devices.entry(Arc::from(device(id))).or_default() += 1;
            }
            observed.push(Observed {
                container: status.name.clone(),
                resource: Arc::from(resource.name.as_str()),
                devices,
            });
        }
    }
    observed
}

/// The devices that other sharing systems gave the containers of a pod: of each of their slots, or of none where they take
/// none.
pub(super) fn of_others(demand: &Demand, given: &[Given<'_>]) -> Vec<Observed> {
    let mut observed = Vec::new();
    for given in given.iter().filter(|given| !given.devices.is_empty()) {
        let claims = demand.claims.iter();
        for claim in claims.filter(|claim| claim.container == given.container) {
            let mut devices = given.devices.clone();
            if claim.slots == 0 {
                for slots in devices.values_mut() {
                    *slots = 0;
                }
            }
            observed.push(Observed {
                container: claim.container.clone(),
                resource: claim.resource.clone(),
                devices,
            });
        }
    }
    observed
}

/// The device behind a slot: `GPU-…` of `GPU-…::2`.
fn device(id: &str) -> &str {
    match id.split_once("::") {
        Some((device, _)) => device,
        None => id,
    }
}

/// Says on which devices a holder stands, as far as its status tells. What is left out may be on any device, which is
/// never less: a container for which other slots are shown than it asks for, and the containers of a pod with an init
/// container on the same resource, whose devices the kubelet hands on.
pub(super) fn tell(holder: &Holder, pools: &[Pool], standings: &mut [Standing]) {
    if holder.observed.is_empty() {
        return;
    }
    for (pool, standing) in pools.iter().zip(standings) {
        let asks = |claim: &&Claim| claim.resource == pool.resource;
        let claims: Vec<&Claim> = holder.demand.claims.iter().filter(asks).collect();
        if !pool.sharing.is_shared()
            || claims.iter().any(|claim| claim.role == Role::Init)
            || !same_containers(holder, pool, &claims)
        {
            continue;
        }
        standing.seen = claims
            .iter()
            .filter_map(|claim| {
                let of_it =
                    |seen: &&Observed| seen.container == claim.container && seen.resource == claim.resource;
                let seen = holder.observed.iter().find(of_it)?;
                (seen.slots() == claim.slots).then(|| Seen {
                    container: claim.container.clone(),
                    devices: seen.devices.clone(),
                })
            })
            .collect();
    }
}

/// Whether what the pod was admitted with are the same ranks of the same containers, so that each hold belongs to its
/// container.
fn same_containers(holder: &Holder, pool: &Pool, now: &[&Claim]) -> bool {
    let others = holder
        .recorded
        .iter()
        .chain(holder.raise.iter().map(|(raised, _)| raised));
    let ranks = |claim: &Claim| (claim.container.clone(), claim.ranks().min(claim.slots));
    others.into_iter().all(|other| {
        let then = other
            .claims
            .iter()
            .filter(|claim| claim.resource == pool.resource);
        now.len() <= 1 || then.map(ranks).eq(now.iter().map(|claim| ranks(claim)))
    })
}
