//! The memory limit of NVIDIA's container toolkit (1.20.1, driver r615): a hook bounds by cgroup what all processes of a
//! container may have of a device, from the variable `NVIDIA_GPU_MEMORY_LIMIT` in MiB. It does not hold on MIG slices.
//!
//! Unlike a limit of MPS it caps the *total* that CUDA reports too, so a fraction of the total would become a fraction of the
//! limit: it is set for engines alone that take whatever they can get.

use crate::demand::{Amount, Claim};
use crate::device::{DeviceKind, Pool, Sharing};
use crate::policy::Policy;
use crate::units::{Mib, Share};

/// Whether such a limit bounds a container's only engine on the devices of a pool, by the policy and the node's driver.
/// Labels do not tell the toolkit's release: the policy vouches for it.
pub(crate) fn applies(claim: &Claim, pool: &Pool, policy: &Policy) -> bool {
    policy.toolkit_limit
        && pool.bounds_containers
        && matches!(pool.sharing, Sharing::TimeSliced(_))
        && pool.device == DeviceKind::Gpu
        && claim.slots == 1
        && matches!(claim.parts.as_slice(), [part] if matches!(part.amount, Amount::Uncapped { .. }))
}

/// What bounds the container there.
pub(super) fn limit(claim: &Claim, pool: &Pool, policy: &Policy) -> Option<Mib> {
    applies(claim, pool, policy)
        .then(|| claim.client.container_limit()?.value)
        .flatten()
}

/// One slot's part of the budget, rounded down.
pub(crate) fn slot(pool: &Pool, budget: Share) -> Option<Mib> {
    let slots = u64::from(pool.sharing.slots_per_device());
    pool.total.map(|total| budget.divided_by(slots).of_down(total))
}
