//! Room on the devices of one pool: which holders may stand together whatever the kubelet does.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::demand::Standing;
use crate::device::Pool;
use crate::units::Share;

/// What is taken of one pool of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Load {
    /// Slots taken.
    pub(crate) slots: u32,
    /// Shares of the holders, largest first.
    shares: Vec<Share>,
    /// Sum of the shares of those who take memory of every device.
    everywhere: Share,
    /// How many standings there are of each tenant, where tenants are kept apart.
    tenants: BTreeMap<Arc<str>, u32>,
}

impl Load {
    pub(crate) fn add(&mut self, standing: &Standing) {
        self.slots = self.slots.saturating_add(standing.slots);
        for hold in &standing.holds {
            let at = self.shares.partition_point(|share| *share > hold.share);
            self.shares.insert(at, hold.share);
        }
        for hold in &standing.everywhere {
            self.everywhere = self.everywhere.plus(hold.share);
        }
        if let Some(tenant) = &standing.tenant {
            *self.tenants.entry(tenant.clone()).or_default() += 1;
        }
    }

    pub(crate) fn remove(&mut self, standing: &Standing) {
        self.slots = self.slots.saturating_sub(standing.slots);
        for hold in &standing.holds {
            // Sorted largest first, hence the reversed key.
            if let Ok(at) = self
                .shares
                .binary_search_by_key(&Reverse(hold.share), |share| Reverse(*share))
            {
                self.shares.remove(at);
            }
        }
        for hold in &standing.everywhere {
            self.everywhere = self.everywhere.less(hold.share);
        }
        if let Some(tenant) = &standing.tenant
            && let Some(count) = self.tenants.get_mut(tenant)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.tenants.remove(tenant);
            }
        }
    }

    /// The sum of the shares that may come together on one device.
    pub(crate) fn together(&self, pool: &Pool) -> Share {
        let meeting: Share = self.shares.iter().take(may_meet(pool)).copied().sum();
        self.everywhere.plus(meeting)
    }

    /// Whether somebody of another tenant is here.
    fn has_other_than(&self, tenant: &str) -> bool {
        self.tenants.keys().any(|other| **other != *tenant)
    }
}

/// How many holders of a pool may stand on the same device, as far as `any` evidence tells: all of them where the node
/// has one device, else as many as a device has slots.
pub(crate) fn may_meet(pool: &Pool) -> usize {
    if pool.devices <= 1 {
        return usize::MAX;
    }
    usize::try_from(pool.sharing.slots_per_device()).unwrap_or(usize::MAX)
}

/// Whether a standing fits beside a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fits {
    /// No device can come above its budget.
    pub(crate) memory: bool,
    /// There are free slots.
    pub(crate) slots: bool,
    /// Nobody is there who may not share a device with it.
    pub(crate) tenants: bool,
}

impl Fits {
    /// Memory, slots and company.
    pub(crate) fn all(self) -> bool {
        self.memory && self.slots && self.tenants
    }

    /// All but a free slot, which comes of itself when a pod ends.
    pub(crate) fn but_for_slots(self) -> bool {
        self.memory && self.tenants
    }
}

/// Checks a standing against what is left of a pool.
pub(crate) fn fits(pool: &Pool, budget: Share, load: &Load, standing: &Standing) -> Fits {
    let slots = standing.slots == 0 || load.slots.saturating_add(standing.slots) <= pool.usable_slots;
    let shared = pool.sharing.is_shared();
    let holds = !standing.holds.is_empty() || !standing.everywhere.is_empty();
    // As far as `any` evidence tells, any two holders of a shared pool may meet on one device: with one slot for each
    // device nothing would be shared. So a node with a foreign holder is out, however many devices it has.
    let foreign = |tenant: &Arc<str>| load.has_other_than(tenant);
    Fits {
        memory: !shared || !holds || with(pool, load, standing) <= budget,
        slots,
        tenants: !shared || standing.is_empty() || !standing.tenant.as_ref().is_some_and(foreign),
    }
}

/// The sum of the shares that may come together on one device once the standing is there as well.
pub(crate) fn with(pool: &Pool, load: &Load, standing: &Standing) -> Share {
    let mut old = load.shares.iter().copied().peekable();
    let mut new = standing.holds.iter().map(|hold| hold.share).peekable();
    let added: Share = standing.everywhere.iter().map(|hold| hold.share).sum();
    let mut sum = load.everywhere.plus(added);
    for _ in 0..may_meet(pool) {
        let next = match (old.peek(), new.peek()) {
            (Some(a), Some(b)) if b > a => new.next(),
            (Some(_), _) => old.next(),
            (None, _) => new.next(),
        };
        let Some(share) = next else { break };
        sum = sum.plus(share);
    }
    sum
}

/// The largest single hold that still fits: the key by which nodes are found. Zero without a free slot; on a pool of
/// devices that nobody shares, whole devices.
pub(crate) fn room(pool: &Pool, budget: Share, load: &Load) -> Share {
    let free = pool.usable_slots.saturating_sub(load.slots);
    if free == 0 {
        return Share::ZERO;
    }
    if !pool.sharing.is_shared() {
        return Share::WHOLE.times(u64::from(free));
    }
    let others: Share = load
        .shares
        .iter()
        .take(may_meet(pool).saturating_sub(1))
        .copied()
        .sum();
    budget.less(load.everywhere.plus(others))
}

/// What [`room`] must at least be for a standing to fit.
pub(crate) fn needed(pool: &Pool, standing: &Standing) -> Share {
    if !pool.sharing.is_shared() {
        return Share::WHOLE.times(u64::from(standing.slots));
    }
    let first = standing.holds.first().map_or(Share::ZERO, |hold| hold.share);
    standing
        .everywhere
        .iter()
        .map(|hold| hold.share)
        .fold(first, Share::plus)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::sync::Arc;

    use super::*;
    use crate::demand::Hold;
    use crate::device::{DeviceKind, Sharing};
    use crate::units::Mib;

    fn pool(devices: u32, per_device: u32) -> Pool {
        Pool {
            resource: Arc::from("nvidia.com/gpu"),
            device: DeviceKind::Gpu,
            product: Arc::from("NVIDIA-L40S"),
            total: Some(Mib::new(46_068)),
            sharing: Sharing::TimeSliced(NonZeroU32::new(per_device).unwrap()),
            devices,
            slots: devices * per_device,
            usable_slots: devices * per_device,
        }
    }

    fn standing(shares: &[u64]) -> Standing {
        let mut standing = Standing::default();
        for ppm in shares {
            let share = Share::from_ppm(*ppm);
            let hold = Hold {
                container: "c".into(),
                rank: 0,
                request: Mib::ZERO,
                overhead: Mib::ZERO,
                share,
            };
            standing.add(1, [hold]);
        }
        standing
    }

    const BUDGET: Share = Share::from_ppm(900_000);

    #[test]
    fn on_two_devices_any_three_of_the_holders_may_meet() {
        let pool = pool(2, 3);
        let mut load = Load::default();
        for _ in 0..6 {
            let new = standing(&[300_000]);
            assert!(fits(&pool, BUDGET, &load, &new).all());
            load.add(&new);
        }
        assert!(!fits(&pool, BUDGET, &load, &standing(&[1])).slots);
        let mut load = Load::default();
        load.add(&standing(&[300_000]));
        load.add(&standing(&[300_000]));
        assert!(!fits(&pool, BUDGET, &load, &standing(&[450_000])).memory);
        assert!(fits(&pool, BUDGET, &load, &standing(&[300_000])).memory);
    }

    #[test]
    fn room_is_the_largest_single_hold_that_fits() {
        for (devices, slots) in [(1, 4), (2, 3), (3, 2)] {
            let pool = pool(devices, slots);
            let mut load = Load::default();
            load.add(&standing(&[310_000, 120_000]));
            let room = room(&pool, BUDGET, &load);
            assert!(fits(&pool, BUDGET, &load, &standing(&[room.ppm()])).memory);
            assert!(!fits(&pool, BUDGET, &load, &standing(&[room.ppm() + 1])).memory);
        }
    }

    #[test]
    fn removing_undoes_adding() {
        let mut load = Load::default();
        load.add(&standing(&[5, 3]));
        let before = load.clone();
        load.add(&standing(&[4, 3, 9]));
        load.remove(&standing(&[4, 3, 9]));
        assert_eq!(load, before);
    }
}
