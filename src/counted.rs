//! The extended resource by which kube-scheduler itself counts GPU memory: `vramgate.io/gpu-ppm`, in millionths of a
//! device.
//!
//! A node advertises what its devices may be promised, less what stands there without carrying the resource; a pod carries
//! its share. Millionths and not MiB: three shares of 0.30 are 900,000 exactly, while three times the MiB of 0.30, each
//! rounded up, are more than the MiB of 0.90, rounded down; and a fraction means other MiB on each product.

use crate::demand::{Claim, Hold, Standing};
use crate::device::{DeviceKind, Pool};
use crate::engine::{Placed, Role};
use crate::finding::FieldPath;
use crate::quantity::Quantity;
use crate::units::Share;

/// The resource, as nodes advertise it and containers ask for it.
pub const RESOURCE: &str = "vramgate.io/gpu-ppm";

/// What one container carries of the resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Name of the container.
    pub container: String,
    /// Its role.
    pub role: Role,
    /// Its path below the pod.
    pub path: FieldPath,
    /// Its JSON pointer below the pod.
    pub pointer: String,
    /// How much; `None` where what is written is no whole number of millionths.
    pub share: Option<Share>,
}

impl Carried {
    /// What a container names of the resource, under `limits` or else under `requests` (the API server wants both equal,
    /// and fills in the requests); `None` where it names none.
    #[must_use]
    pub fn of(placed: Placed<'_>) -> Option<Self> {
        let resources = &placed.container.resources;
        let text = resources
            .limits
            .get(RESOURCE)
            .or_else(|| resources.requests.get(RESOURCE))?;
        Some(Self {
            container: placed.container.name.clone(),
            role: placed.role,
            path: placed.path(),
            pointer: placed.pointer(),
            share: read(&text.0),
        })
    }
}

/// Millionths as a quantity writes them (`300000`, `300k`); `None` where it is no whole number.
#[must_use]
pub fn read(text: &str) -> Option<Share> {
    let whole = Quantity::parse(text).ok()?.whole()?;
    Some(Share::from_ppm(whole))
}

/// What kube-scheduler counts of a pod whose containers carry so much: all that run together, and at least each init
/// container with the sidecars that were started before it (`PodRequests` of `k8s.io/component-helpers/resource`). What
/// cannot be read counts for nothing, so that the node is told of the pod's whole share.
#[must_use]
pub fn effective(carried: &[Carried]) -> Share {
    let (mut together, mut peak) = (Share::ZERO, Share::ZERO);
    // In the order of the pod: init containers and sidecars before the others.
    for one in carried {
        let share = one.share.unwrap_or(Share::ZERO);
        match one.role {
            Role::Init => peak = peak.max(together.plus(share)),
            Role::Container | Role::Sidecar => together = together.plus(share),
            // The API server lets them ask for nothing.
            Role::Ephemeral => {}
        }
    }
    together.max(peak)
}

/// What one container's slots of one resource are worth on one kind of node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// MIG instances of its own, which the scheduler counts by their own resource.
    Nothing,
    /// So many whole devices of its own.
    Own(u32),
    /// Parts of shared devices.
    Shared(Share),
}

impl Taken {
    /// By the shares that the ledger counts there.
    pub(crate) fn of(claim: &Claim, pool: &Pool, holds: &[Hold]) -> Self {
        if pool.sharing.is_shared() {
            return Self::Shared(holds.iter().map(|hold| hold.share).sum());
        }
        match pool.device {
            DeviceKind::Gpu => Self::Own(claim.slots),
            DeviceKind::Mig(_) => Self::Nothing,
        }
    }
}

/// What a container carries for slots that these kinds of nodes would give it: the most that it takes of shared devices
/// (an absolute need is most of the smallest), whole devices where none is shared, nothing where all are MIG instances of
/// its own.
pub(crate) fn share(kinds: impl Iterator<Item = Taken>) -> Share {
    let (mut shared, mut own) = (None, 0);
    for kind in kinds {
        match kind {
            Taken::Nothing => {}
            Taken::Own(devices) => own = own.max(devices),
            Taken::Shared(share) => shared = shared.max(Some(share)),
        }
    }
    shared.unwrap_or_else(|| Share::WHOLE.times(u64::from(own)))
}

/// Raises holds so that together they are at least what their container carries: the scheduler counts that much wherever the
/// pod goes, so a place for less would be none.
pub(crate) fn raise(holds: &mut [Hold], carried: Share) {
    let count = u64::try_from(holds.len()).unwrap_or(u64::MAX);
    if count == 0 {
        return;
    }
    let each = carried.divided_by(count);
    let rest = carried.less(each.times(count));
    for (index, hold) in holds.iter_mut().enumerate() {
        let least = if index == 0 { each.plus(rest) } else { each };
        hold.share = hold.share.max(least);
    }
}

/// What the devices of a node are worth before anybody stands on them: the budget of each shared one, all of each other. A
/// device that is unhealthy is worth nothing; with no slot usable at all the device plugin is restarting, and the slots
/// themselves keep pods away.
pub(crate) fn capacity(pools: &[Pool], budget: Share) -> Share {
    let worth = |pool: &Pool| {
        let healthy = match pool.usable_slots {
            0 => pool.devices,
            usable => usable.div_ceil(pool.sharing.slots_per_device()).min(pool.devices),
        };
        let each = if pool.sharing.is_shared() {
            budget
        } else {
            Share::WHOLE
        };
        each.times(u64::from(healthy))
    };
    pools.iter().map(worth).sum()
}

/// What a holder takes of a node's shared devices beyond what it carries: all of it where it is older than the
/// installation, reaches devices without asking, or was made by a kubelet. Memory of every device counts on each.
pub(crate) fn uncarried(pools: &[Pool], standings: &[Standing], carried: Share) -> Share {
    let taken = pools
        .iter()
        .zip(standings)
        .filter(|(pool, _)| pool.sharing.is_shared());
    let taken: Share = taken
        .map(|(pool, standing)| {
            let holds: Share = standing.holds.iter().map(|hold| hold.share).sum();
            let everywhere: Share = standing.everywhere.iter().map(|hold| hold.share).sum();
            holds.plus(everywhere.times(u64::from(pool.devices)))
        })
        .sum();
    taken.less(carried)
}

/// What a node advertises. Never less than what its own pods carry: nothing is free then either, and a kubelet that starts
/// again refuses running pods which no longer fit its node.
pub(crate) fn advertised(capacity: Share, uncarried: Share, carried: Share) -> Share {
    capacity.less(uncarried).max(carried)
}

#[cfg(test)]
mod tests;
