//! Room on the devices of one pool: which holders may stand together whatever the kubelet does.

use std::cmp::Reverse;

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
}

impl Load {
    pub(crate) fn add(&mut self, standing: &Standing) {
        self.slots = self.slots.saturating_add(standing.slots);
        for hold in &standing.holds {
            let at = self.shares.partition_point(|share| *share > hold.share);
            self.shares.insert(at, hold.share);
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
    }

    /// The sum of the shares that may come together on one device.
    pub(crate) fn together(&self, pool: &Pool) -> Share {
        self.shares.iter().take(may_meet(pool)).copied().sum()
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
}

impl Fits {
    pub(crate) fn both(self) -> bool {
        self.memory && self.slots
    }
}

/// Checks a standing against what is left of a pool.
pub(crate) fn fits(pool: &Pool, budget: Share, load: &Load, standing: &Standing) -> Fits {
    let slots = load.slots.saturating_add(standing.slots) <= pool.usable_slots;
    if !pool.sharing.is_shared() || standing.holds.is_empty() {
        return Fits { memory: true, slots };
    }
    Fits {
        memory: with(pool, load, standing) <= budget,
        slots,
    }
}

/// The sum of the shares that may come together on one device once the standing is there as well.
pub(crate) fn with(pool: &Pool, load: &Load, standing: &Standing) -> Share {
    let mut old = load.shares.iter().copied().peekable();
    let mut new = standing.holds.iter().map(|hold| hold.share).peekable();
    let mut sum = Share::ZERO;
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
    budget.less(others)
}

/// What [`room`] must at least be for a standing to fit.
pub(crate) fn needed(pool: &Pool, standing: &Standing) -> Share {
    if !pool.sharing.is_shared() {
        return Share::WHOLE.times(u64::from(standing.slots));
    }
    standing.holds.first().map_or(Share::ZERO, |hold| hold.share)
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
            bounds_containers: false,
            devices,
            slots: devices * per_device,
            usable_slots: devices * per_device,
            allocation: None,
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
            assert!(fits(&pool, BUDGET, &load, &new).both());
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
