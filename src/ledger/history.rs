//! Evidence of the grade `spread`: how many slots the device plugin can have given out on one device at most.
//!
//! Under `distributed`, its default, NVIDIA's plugin gives each slot on the device with the fewest slots taken (k8s-device-plugin
//! `internal/rm/allocate.go`). Whoever came last to a device found as few slots taken there as anywhere, so on none are
//! more than `ceil(P / D)`, where `D` devices had `P` slots taken at most at once since the node was empty. That holds
//! whatever has left since, in whatever order they came, and whichever of equal devices was chosen.
//!
//! It holds only for what was watched from an empty node on, for containers with one slot each, and while all devices were
//! healthy. A kubelet with a topology manager policy other than `none` can keep the plugin from its choice, which nothing in
//! the API shows: policies leave `spread` out of `device.evidence` for such nodes.

use crate::demand::Standing;
use crate::device::{AllocationPolicy, Pool};

/// What was watched of one pool since its node was empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct History {
    /// Most slots that were taken at once.
    most: u32,
    /// Whether something happened that the rule does not cover.
    is_broken: bool,
}

impl History {
    /// The beginning, on a pool whose plugin is known to spread; `None` elsewhere.
    pub(super) fn of(pool: &Pool) -> Option<Self> {
        let spreads = pool.allocation == Some(AllocationPolicy::Distributed);
        (pool.devices > 1 && pool.sharing.is_shared() && spreads).then(Self::default)
    }

    /// So many slots are taken now, `more` among them.
    pub(super) fn note(&mut self, slots: u32, more: More) {
        self.most = self.most.max(slots);
        self.is_broken |= !more.by_ones;
    }

    /// From here on nothing can be told until the node is empty.
    pub(super) fn end(&mut self) {
        self.is_broken = true;
    }

    /// Most slots on one device, once so many are taken and `more` came.
    pub(super) fn most_on_a_device(self, pool: &Pool, slots: u32, more: More) -> Option<u32> {
        // A device that is not healthy takes none, so the others take more than their part.
        let is_covered = !self.is_broken && pool.usable_slots == pool.slots && more.by_ones;
        let after = slots.saturating_add(more.slots);
        let most = self.most.max(after).div_ceil(pool.devices.max(1));
        is_covered.then_some(most)
    }
}

/// What comes to a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct More {
    slots: u32,
    /// Whether each container takes one slot. One with several is given distinct devices, fuller ones among them.
    by_ones: bool,
}

impl More {
    /// Nothing.
    pub(crate) const NONE: Self = Self {
        slots: 0,
        by_ones: true,
    };
    /// A container with one slot.
    pub(super) const ONE: Self = Self {
        slots: 1,
        by_ones: true,
    };

    /// A standing. That with fewer holds than slots, or with several ranks, may have a container with several slots.
    pub(crate) fn of(standing: &Standing) -> Self {
        let slots = usize::try_from(standing.slots).unwrap_or(usize::MAX);
        Self {
            slots: standing.slots,
            by_ones: standing.holds.len() >= slots && standing.holds.iter().all(|hold| hold.rank == 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::demand::Hold;
    use crate::device::{DeviceKind, Sharing};
    use crate::ledger::room::Load;
    use crate::policy::{DevicePolicy, Evidence, PolicySet};
    use crate::units::{Mib, Share};

    fn pool(devices: u32, slots: u32, allocation: Option<AllocationPolicy>) -> Pool {
        Pool {
            resource: Arc::from("nvidia.com/gpu"),
            device: DeviceKind::Gpu,
            product: Arc::from("NVIDIA-L40S"),
            total: Some(Mib::new(46_068)),
            sharing: Sharing::TimeSliced(NonZeroU32::new(slots).unwrap_or(NonZeroU32::MIN)),
            bounds_containers: false,
            devices,
            slots: devices * slots,
            usable_slots: devices * slots,
            allocation,
        }
    }

    fn distributed(devices: u32, slots: u32) -> Pool {
        pool(devices, slots, Some(AllocationPolicy::Distributed))
    }

    fn standing(slots: u32, shares: &[u64]) -> Standing {
        let mut standing = Standing::default();
        let holds = shares.iter().enumerate().map(|(index, ppm)| Hold {
            container: format!("c{index}"),
            rank: 0,
            request: Mib::ZERO,
            overhead: Mib::ZERO,
            share: Share::from_ppm(*ppm),
        });
        standing.add(slots, holds);
        standing
    }

    fn policy() -> DevicePolicy {
        let labels = std::collections::BTreeMap::new();
        PolicySet::built_in().for_device(&labels).device.clone()
    }

    fn together(load: &Load, pool: &Pool) -> u64 {
        load.together(pool, &policy()).ppm()
    }

    #[test]
    fn as_many_meet_as_the_plugin_can_have_put_together() {
        let pool = distributed(2, 3);
        let mut load = Load::of(&pool);
        for ppm in [300_000, 300_000, 450_000] {
            load.add(&standing(1, &[ppm]));
        }
        // Three on two devices: two of them on one.
        assert_eq!(together(&load, &pool), 750_000);
        assert_eq!(load.grade(&pool, &policy(), More::NONE), Evidence::Spread);
        // With a fourth there are two on each still, with a fifth three may be on one.
        assert_eq!(load.may_meet(&pool, &policy(), More::ONE), 2);
        load.add(&standing(1, &[100_000]));
        assert_eq!(load.may_meet(&pool, &policy(), More::ONE), 3);
    }

    #[test]
    fn what_has_left_counts_in_how_many_there_were() {
        let pool = distributed(2, 4);
        let mut load = Load::of(&pool);
        for ppm in [400_000, 100_000, 400_000, 100_000] {
            load.add(&standing(1, &[ppm]));
        }
        // Both that stay may be on one device, which two others left.
        load.remove(&standing(1, &[100_000]));
        load.remove(&standing(1, &[100_000]));
        assert_eq!(together(&load, &pool), 800_000);
        load.remove(&standing(1, &[400_000]));
        load.remove(&standing(1, &[400_000]));
        load.begin_history();
        load.add(&standing(1, &[400_000]));
        load.add(&standing(1, &[400_000]));
        assert_eq!(together(&load, &pool), 400_000);
    }

    #[test]
    fn nothing_is_told_beyond_the_conditions() {
        let three = |pool: &Pool, first: &Standing| {
            let mut load = Load::of(pool);
            load.add(first);
            load.add(&standing(1, &[200_000]));
            load.add(&standing(1, &[200_000]));
            (together(&load, pool), load.grade(pool, &policy(), More::NONE))
        };
        let one = standing(1, &[200_000]);
        assert_eq!(three(&distributed(2, 3), &one), (400_000, Evidence::Spread));
        for other in [None, Some(AllocationPolicy::Packed)] {
            assert_eq!(three(&pool(2, 3, other), &one), (600_000, Evidence::Any));
        }
        let mut unhealthy = distributed(2, 3);
        unhealthy.usable_slots = 3;
        assert_eq!(three(&unhealthy, &one), (600_000, Evidence::Any));
        // A container with two slots.
        assert_eq!(
            three(&distributed(2, 4), &standing(2, &[200_000])),
            (600_000, Evidence::Any)
        );
        let mut ended = Load::of(&distributed(2, 3));
        ended.add(&one);
        ended.end_history();
        ended.add(&one);
        assert_eq!(
            ended.grade(&distributed(2, 3), &policy(), More::NONE),
            Evidence::Any
        );
        let documents = crate::policy::file::parse(
            "apiVersion: vramgate.io/v1alpha1\nkind: GpuSharingPolicy\nmetadata: {name: a}\n\
             spec: {device: {evidence: [observed, any]}}\n",
            "test",
        );
        let policies = PolicySet::from_documents(documents.unwrap_or_default())
            .unwrap_or_else(|_| PolicySet::built_in());
        let without = policies.for_device(&std::collections::BTreeMap::new());
        let mut load = Load::of(&distributed(2, 3));
        load.add(&one);
        assert_eq!(load.may_meet(&distributed(2, 3), &without.device, More::NONE), 3);
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// A pod with these shares, each of a container with one slot, and which of equal devices are taken.
        Come(Vec<u64>, usize),
        Go(prop::sample::Index),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (prop::collection::vec(1_u64..=500, 1..3), any::<usize>()).prop_map(|(shares, tie)| Step::Come(shares, tie)),
            2 => any::<prop::sample::Index>().prop_map(Step::Go),
        ]
    }

    /// The device that the plugin chooses among those with a free slot.
    fn chosen(taken: &[Vec<u64>], slots: usize, tie: usize) -> Option<usize> {
        let fewest = taken
            .iter()
            .map(Vec::len)
            .min()
            .filter(|fewest| *fewest < slots)?;
        let alike: Vec<usize> = (0..taken.len())
            .filter(|device| taken.get(*device).is_some_and(|there| there.len() == fewest))
            .collect();
        alike.get(tie % alike.len()).copied()
    }

    proptest! {
        /// However pods come and go and ties fall, no device has more than what is told.
        #[test]
        fn no_device_has_more_than_is_told(
            devices in 2_u32..5,
            slots in 2_u32..5,
            steps in prop::collection::vec(step(), 1..60),
        ) {
            let pool = distributed(devices, slots);
            let mut load = Load::of(&pool);
            let mut taken: Vec<Vec<u64>> = vec![Vec::new(); devices as usize];
            let mut pods: Vec<(Standing, Vec<(usize, u64)>)> = Vec::new();
            for step in steps {
                match step {
                    Step::Come(shares, tie) => {
                        let slots_asked = u32::try_from(shares.len()).unwrap_or(u32::MAX);
                        if load.slots + slots_asked > pool.slots {
                            continue;
                        }
                        let pod = standing(slots_asked, &shares);
                        let foretold = crate::ledger::room::with(&pool, &policy(), &load, &pod);
                        load.add(&pod);
                        prop_assert_eq!(foretold, load.together(&pool, &policy()));
                        let mut places = Vec::new();
                        for share in shares {
                            let Some(device) = chosen(&taken, slots as usize, tie) else { break };
                            taken[device].push(share);
                            places.push((device, share));
                        }
                        pods.push((pod, places));
                    }
                    Step::Go(index) => {
                        if pods.is_empty() {
                            continue;
                        }
                        let (pod, places) = pods.swap_remove(index.index(pods.len()));
                        load.remove(&pod);
                        load.begin_history();
                        for (device, share) in places {
                            let at = taken[device].iter().position(|there| *there == share);
                            taken[device].swap_remove(at.unwrap_or_default());
                        }
                    }
                }
                let worst: u64 = taken.iter().map(|there| there.iter().sum()).max().unwrap_or(0);
                prop_assert!(worst <= together(&load, &pool), "{taken:?} above {}", together(&load, &pool));
                prop_assert_eq!(load.grade(&pool, &policy(), More::NONE), Evidence::Spread);
            }
        }
    }
}
