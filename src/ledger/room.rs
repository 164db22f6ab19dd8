//! Room on the devices of one pool: which holders may stand together whatever the kubelet does.
//!
//! Where the kubelet tells the device of a holder, it counts on that device; any other may stand on each device that has a
//! free slot. So the most that can come together on a device with `n` seen slots of `R` is what was seen on it and the
//! `R - n` largest of the others: exact for each device, and never less than what any placement makes of it. Who asks for no
//! device and reaches them all takes no slot and counts on each, beside those.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::history::{History, More};
use crate::demand::Standing;
use crate::device::Pool;
use crate::policy::{DevicePolicy, Evidence};
use crate::units::Share;

/// What was seen on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OnDevice {
    /// Slots of holders that stand on it.
    pub(crate) slots: u32,
    /// Sum of their shares.
    pub(crate) share: Share,
}

/// What is taken of one pool of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Load {
    /// Slots taken.
    pub(crate) slots: u32,
    /// Shares of the holders that may stand on any device, largest first.
    shares: Vec<Share>,
    /// Sum of the shares of holders without a slot whose device nothing tells: free slots do not bound how many of them stand
    /// on one device, so all count on each.
    beside: Share,
    /// What was seen, by device.
    observed: BTreeMap<Arc<str>, There>,
    /// Sum of the shares of those who take memory of every device.
    everywhere: Share,
    /// Standings of each tenant of which not every device was seen, where tenants are kept apart.
    unseen: Tenants,
    /// What was watched of a pool whose device plugin spreads its slots.
    history: Option<History>,
}

/// How many standings there are of each tenant.
type Tenants = BTreeMap<Arc<str>, u32>;

/// What was seen on one device, and whose it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct There {
    taken: OnDevice,
    tenants: Tenants,
}

/// A [`Load`] without the names of its devices: equal ones leave the same room.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Nameless {
    slots: u32,
    shares: Vec<Share>,
    beside: Share,
    devices: Vec<There>,
    everywhere: Share,
    unseen: Tenants,
    history: Option<History>,
}

/// One device as it may be at worst: what stands on it for certain, and how many of the others may join.
struct Device<'a> {
    id: Option<&'a Arc<str>>,
    share: Share,
    free: usize,
}

impl Load {
    /// Nothing, on an empty pool.
    pub(super) fn of(pool: &Pool) -> Self {
        Self {
            history: History::of(pool),
            ..Self::default()
        }
    }

    /// The same with what was watched of another load of the same pool.
    pub(super) fn with_history_of(mut self, other: &Self) -> Self {
        self.history = other.history;
        self
    }

    pub(super) fn has_history(&self) -> bool {
        self.history.is_some()
    }

    /// Nothing can be told of where slots are, until nobody is there.
    pub(super) fn end_history(&mut self) {
        if let Some(history) = &mut self.history {
            history.end();
        }
    }

    /// The node was empty, or has one pod: what stands on it is spread whatever was before.
    pub(super) fn begin_history(&mut self) {
        if self.slots == 0
            && let Some(history) = &mut self.history
        {
            *history = History::default();
        }
    }

    /// How many holders may stand on one device as far as nothing tells where they are, `more` among them: all of them where
    /// the node has one device; else as many as a device has slots, or as the device plugin can have given out there. A
    /// policy that does not accept `any` as evidence takes no comfort in the number of slots.
    pub(crate) fn may_meet(&self, pool: &Pool, policy: &DevicePolicy, more: More) -> usize {
        if pool.devices <= 1 {
            return usize::MAX;
        }
        let by_slots = policy
            .accepts(Evidence::Any)
            .then(|| pool.sharing.slots_per_device());
        let fewest = [by_slots, self.spread(pool, policy, more)]
            .into_iter()
            .flatten()
            .min();
        fewest.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
    }

    /// Most slots on one device by how the device plugin gives them out, where that is known.
    fn spread(&self, pool: &Pool, policy: &DevicePolicy, more: More) -> Option<u32> {
        let history = self.history.filter(|_| policy.accepts(Evidence::Spread))?;
        let most = history.most_on_a_device(pool, self.slots, more)?;
        // What was seen is right: the plugin did not choose as it says.
        let is_so = self.observed.values().all(|there| there.taken.slots <= most);
        is_so.then_some(most)
    }

    pub(crate) fn add(&mut self, standing: &Standing) {
        self.slots = self.slots.saturating_add(standing.slots);
        if let Some(history) = self.history.as_mut().filter(|_| standing.slots > 0) {
            history.note(self.slots, More::of(standing));
        }
        for new in standing.anywhere() {
            if standing.slots == 0 {
                self.beside = self.beside.plus(new);
                continue;
            }
            let at = self.shares.partition_point(|share| *share > new);
            self.shares.insert(at, new);
        }
        for (device, slots, share) in standing.on_devices() {
            let there = self.observed.entry(device.clone()).or_default();
            there.taken.slots = there.taken.slots.saturating_add(slots);
            there.taken.share = there.taken.share.plus(share);
        }
        for hold in &standing.everywhere {
            self.everywhere = self.everywhere.plus(hold.share);
        }
        if let Some(tenant) = &standing.tenant {
            if standing.is_seen() {
                for (device, _, _) in standing.on_devices() {
                    let there = self.observed.entry(device.clone()).or_default();
                    *there.tenants.entry(tenant.clone()).or_default() += 1;
                }
            } else {
                *self.unseen.entry(tenant.clone()).or_default() += 1;
            }
        }
    }

    pub(crate) fn remove(&mut self, standing: &Standing) {
        self.slots = self.slots.saturating_sub(standing.slots);
        for old in standing.anywhere() {
            if standing.slots == 0 {
                self.beside = self.beside.less(old);
                continue;
            }
            // Sorted largest first, hence the reversed key.
            if let Ok(at) = self
                .shares
                .binary_search_by_key(&Reverse(old), |share| Reverse(*share))
            {
                self.shares.remove(at);
            }
        }
        for hold in &standing.everywhere {
            self.everywhere = self.everywhere.less(hold.share);
        }
        for (device, slots, share) in standing.on_devices() {
            if let Some(there) = self.observed.get_mut(device) {
                there.taken.slots = there.taken.slots.saturating_sub(slots);
                there.taken.share = there.taken.share.less(share);
            }
        }
        if let Some(tenant) = &standing.tenant {
            if standing.is_seen() {
                for (device, _, _) in standing.on_devices() {
                    if let Some(there) = self.observed.get_mut(device) {
                        forget(&mut there.tenants, tenant);
                    }
                }
            } else {
                forget(&mut self.unseen, tenant);
            }
        }
        self.observed
            .retain(|_, there| there.taken != OnDevice::default() || !there.tenants.is_empty());
    }

    pub(crate) fn nameless(&self) -> Nameless {
        let mut devices: Vec<There> = self.observed.values().cloned().collect();
        devices.sort_unstable();
        Nameless {
            slots: self.slots,
            shares: self.shares.clone(),
            beside: self.beside,
            devices,
            everywhere: self.everywhere,
            unseen: self.unseen.clone(),
            history: self.history,
        }
    }

    /// What was seen, by device.
    pub(crate) fn observed(&self) -> impl Iterator<Item = (&Arc<str>, OnDevice)> {
        self.observed.iter().map(|(id, there)| (id, there.taken))
    }

    /// How it is known where the holders of a pool stand.
    pub(crate) fn grade(&self, pool: &Pool, policy: &DevicePolicy, more: More) -> Evidence {
        if pool.devices <= 1 || !pool.sharing.is_shared() || self.is_seen() {
            Evidence::Observed
        } else if self.spread(pool, policy, more).is_some() {
            Evidence::Spread
        } else {
            Evidence::Any
        }
    }

    /// Whether there are holders, and the device of each was seen.
    fn is_seen(&self) -> bool {
        self.shares.is_empty() && self.beside == Share::ZERO && !self.observed.is_empty()
    }

    /// The sum of all shares; one that is taken of every device counts as often as there are devices.
    pub(crate) fn sum(&self, devices: u64) -> Share {
        let anywhere: Share = self.shares.iter().copied().sum();
        let seen: Share = self.observed.values().map(|there| there.taken.share).sum();
        anywhere
            .plus(seen)
            .plus(self.beside)
            .plus(self.everywhere.times(devices))
    }

    /// The sum of the shares that may come together on one device.
    pub(crate) fn together(&self, pool: &Pool, policy: &DevicePolicy) -> Share {
        self.together_beside(pool, policy, More::NONE)
    }

    /// The same without what comes, once that has come: how many may meet can hang on it.
    pub(crate) fn together_beside(&self, pool: &Pool, policy: &DevicePolicy, more: More) -> Share {
        if self.observed.is_empty() {
            return self
                .everywhere
                .plus(self.largest(self.may_meet(pool, policy, more)));
        }
        let devices = self.devices(pool, policy, more);
        let sums = devices.map(|device| device.share.plus(self.largest(device.free)));
        self.everywhere.plus(sums.max().unwrap_or(Share::ZERO))
    }

    /// Sum of the largest shares that may be anywhere, with all that takes no slot.
    fn largest(&self, most: usize) -> Share {
        let largest: Share = self.shares.iter().take(most).copied().sum();
        self.beside.plus(largest)
    }

    /// The devices of the pool: each that was seen, and one for all of which nothing was seen.
    fn devices(&self, pool: &Pool, policy: &DevicePolicy, more: More) -> impl Iterator<Item = Device<'_>> {
        let most = self.may_meet(pool, policy, more);
        let slots = pool.sharing.slots_per_device();
        let devices = usize::try_from(pool.devices).unwrap_or(usize::MAX);
        // Labels that speak of fewer devices or slots than were seen are wrong, so they keep nobody off a device.
        let is_strange = self.observed.len() > devices.max(1)
            || self.observed.values().any(|there| there.taken.slots > slots);
        let seen = self.observed.iter().map(move |(id, there)| {
            let taken = usize::try_from(there.taken.slots).unwrap_or(usize::MAX);
            let free = if is_strange || most == usize::MAX && there.taken.slots < slots {
                most
            } else if most == usize::MAX {
                0
            } else {
                most.saturating_sub(taken)
            };
            Device {
                id: Some(id),
                share: there.taken.share,
                free,
            }
        });
        let others = (is_strange || self.observed.len() < devices).then_some(Device {
            id: None,
            share: Share::ZERO,
            free: most,
        });
        seen.chain(others)
    }

    /// Whether somebody of another tenant may be on a device that the standing can be on. As long as nothing tells where
    /// one of the holders is, any two of them may meet: with one slot for each device nothing would be shared. So a
    /// foreign holder then closes the pool, however many devices that has. Where each was seen, it closes its device.
    fn has_other_than(&self, tenant: &str, pool: &Pool, policy: &DevicePolicy, standing: &Standing) -> bool {
        let is_foreign = |tenants: &Tenants| tenants.keys().any(|other| **other != *tenant);
        if !self.unseen.is_empty() || !self.shares.is_empty() || !standing.everywhere.is_empty() {
            return is_foreign(&self.unseen)
                || self.observed.values().any(|there| is_foreign(&there.tenants));
        }
        let is_anywhere = !standing.is_seen();
        let open = self.devices(pool, policy, More::of(standing)).filter(|device| {
            is_anywhere && (device.free > 0 || standing.slots == 0)
                || standing.on_devices().any(|(seen, _, _)| Some(seen) == device.id)
        });
        let mut there = open.filter_map(|device| self.observed.get(device.id?));
        there.any(|there| is_foreign(&there.tenants))
    }
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
pub(crate) fn fits(pool: &Pool, policy: &DevicePolicy, load: &Load, standing: &Standing) -> Fits {
    let slots = standing.slots == 0 || load.slots.saturating_add(standing.slots) <= pool.usable_slots;
    let shared = pool.sharing.is_shared();
    let holds = !standing.holds.is_empty() || !standing.everywhere.is_empty();
    let foreign = |tenant: &Arc<str>| load.has_other_than(tenant, pool, policy, standing);
    Fits {
        memory: !shared || !holds || with(pool, policy, load, standing) <= policy.budget,
        slots,
        tenants: !shared || standing.is_empty() || !standing.tenant.as_ref().is_some_and(foreign),
    }
}

/// The sum of the shares that may come together on a device that the standing can be on, once it is there as well.
pub(crate) fn with(pool: &Pool, policy: &DevicePolicy, load: &Load, standing: &Standing) -> Share {
    if !load.observed.is_empty() || !standing.seen.is_empty() {
        return with_seen(pool, policy, load, standing);
    }
    let mut old = load.shares.iter().copied().peekable();
    let mut new = standing.holds.iter().map(|hold| hold.share).peekable();
    let added: Share = standing.everywhere.iter().map(|hold| hold.share).sum();
    let mut sum = load.everywhere.plus(load.beside).plus(added);
    for _ in 0..load.may_meet(pool, policy, More::of(standing)) {
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

/// The same where the devices of some holders are known. A device without a free slot is none that the standing can be on,
/// unless it takes memory of every device, or takes none of the slots.
fn with_seen(pool: &Pool, policy: &DevicePolicy, load: &Load, standing: &Standing) -> Share {
    let mut after = load.clone();
    after.add(standing);
    let is_anywhere = standing.anywhere().next().is_some();
    // What takes no slot is kept off no device by a lack of them.
    let is_everywhere = !standing.everywhere.is_empty() || is_anywhere && standing.slots == 0;
    let full: Vec<&Arc<str>> = load
        .devices(pool, policy, More::of(standing))
        .filter(|device| device.free == 0)
        .filter_map(|device| device.id)
        .collect();
    let may_be_on = |device: &Device<'_>| match device.id {
        Some(id) => {
            is_everywhere
                || is_anywhere && (standing.slots == 0 || !full.contains(&id))
                || standing.seen.iter().any(|seen| seen.devices.contains_key(id))
        }
        None => is_everywhere || is_anywhere,
    };
    let devices = after.devices(pool, policy, More::NONE).filter(may_be_on);
    let sums = devices.map(|device| device.share.plus(after.largest(device.free)));
    after.everywhere.plus(sums.max().unwrap_or(Share::ZERO))
}

/// The key by which nodes are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Room {
    /// The largest single hold that still fits. Zero without a free slot; on a pool of devices that nobody shares, whole
    /// devices.
    pub(crate) now: Share,
    /// What a hold can be at most that would fit if slots did not matter; without bound where devices of holders were seen.
    pub(crate) but_for_slots: Share,
}

impl Room {
    /// The first in order with so much room.
    pub(super) const fn at_least(now: Share) -> Self {
        Self {
            now,
            but_for_slots: Share::ZERO,
        }
    }
}

/// See [`Room`].
pub(crate) fn room(pool: &Pool, policy: &DevicePolicy, load: &Load) -> Room {
    let free = pool.usable_slots.saturating_sub(load.slots);
    let but_for_slots = if !pool.sharing.is_shared() {
        Share::WHOLE.times(u64::from(free))
    } else if load.observed.is_empty() {
        let others = load.largest(load.may_meet(pool, policy, More::ONE).saturating_sub(1));
        policy.budget.less(load.everywhere.plus(others))
    } else {
        Share::from_ppm(u64::MAX)
    };
    let now = match free {
        0 => Share::ZERO,
        _ if pool.sharing.is_shared() && !load.observed.is_empty() => room_beside_seen(pool, policy, load),
        _ => but_for_slots,
    };
    Room { now, but_for_slots }
}

fn room_beside_seen(pool: &Pool, policy: &DevicePolicy, load: &Load) -> Share {
    let devices = load
        .devices(pool, policy, More::ONE)
        .filter(|device| device.free > 0);
    let most = devices.map(|device| device.share.plus(load.largest(device.free.saturating_sub(1))));
    // The slot that is free by the count is on none of the devices: the labels contradict what was seen.
    most.max()
        .map_or(Share::ZERO, |most| policy.budget.less(load.everywhere.plus(most)))
}

/// What [`Room::now`] must at least be for a standing to fit.
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

/// One standing less of a tenant.
fn forget(tenants: &mut Tenants, tenant: &Arc<str>) {
    if let Some(count) = tenants.get_mut(tenant) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            tenants.remove(tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

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

    fn policy() -> DevicePolicy {
        crate::policy::PolicySet::built_in()
            .for_device(&BTreeMap::new())
            .device
            .clone()
    }

    #[test]
    fn on_two_devices_any_three_of_the_holders_may_meet() {
        let pool = pool(2, 3);
        let mut load = Load::default();
        for _ in 0..6 {
            let new = standing(&[300_000]);
            assert!(fits(&pool, &policy(), &load, &new).all());
            load.add(&new);
        }
        assert!(!fits(&pool, &policy(), &load, &standing(&[1])).slots);
        let mut load = Load::default();
        load.add(&standing(&[300_000]));
        load.add(&standing(&[300_000]));
        assert!(!fits(&pool, &policy(), &load, &standing(&[450_000])).memory);
        assert!(fits(&pool, &policy(), &load, &standing(&[300_000])).memory);
    }

    #[test]
    fn what_takes_no_slot_counts_on_each_device_beside_the_largest_others() {
        let pool = pool(2, 2);
        let mut beside = standing(&[200_000]);
        beside.slots = 0;
        let mut load = Load::default();
        load.add(&beside);
        load.add(&beside);
        load.add(&standing(&[300_000]));
        assert_eq!(load.slots, 1);
        assert_eq!(load.together(&pool, &policy()).ppm(), 700_000);
        assert_eq!(room(&pool, &policy(), &load).now.ppm(), 200_000);
        assert!(fits(&pool, &policy(), &load, &standing(&[200_000])).all());
        assert!(!fits(&pool, &policy(), &load, &standing(&[200_001])).memory);
        load.remove(&beside);
        load.remove(&beside);
        load.remove(&standing(&[300_000]));
        assert_eq!(load, Load::default());

        // On the device that it was seen on, and gone with it.
        beside.seen = vec![crate::demand::Seen {
            container: "c".into(),
            devices: BTreeMap::from([(Arc::from("GPU-1"), 0)]),
        }];
        load.add(&beside);
        load.add(&beside);
        assert_eq!(load.together(&pool, &policy()).ppm(), 400_000);
        load.remove(&beside);
        assert_eq!(load.together(&pool, &policy()).ppm(), 200_000);
        load.remove(&beside);
        assert_eq!(load, Load::default());
    }

    #[test]
    fn what_takes_no_slot_may_be_on_a_device_that_has_none_left() {
        let pool = pool(2, 2);
        let mut load = Load::default();
        for _ in 0..2 {
            let mut there = on("gpu-a", 400_000);
            there.tenant = Some("a".into());
            load.add(&there);
        }
        let mut beside = standing(&[200_000]);
        assert!(
            fits(&pool, &policy(), &load, &beside).all(),
            "by a slot of the other"
        );
        beside.slots = 0;
        assert!(!fits(&pool, &policy(), &load, &beside).memory);
        assert_eq!(with(&pool, &policy(), &load, &beside).ppm(), 1_000_000);
        let mut little = standing(&[100_000]);
        little.slots = 0;
        little.tenant = Some("a".into());
        assert!(fits(&pool, &policy(), &load, &little).all());
        little.tenant = Some("b".into());
        assert!(!fits(&pool, &policy(), &load, &little).tenants);
    }

    #[test]
    fn room_is_the_largest_single_hold_that_fits() {
        for (devices, slots) in [(1, 4), (2, 3), (3, 2)] {
            let pool = pool(devices, slots);
            let mut load = Load::default();
            load.add(&standing(&[310_000, 120_000]));
            let room = room(&pool, &policy(), &load).now;
            assert!(fits(&pool, &policy(), &load, &standing(&[room.ppm()])).memory);
            assert!(!fits(&pool, &policy(), &load, &standing(&[room.ppm() + 1])).memory);
        }
    }

    #[test]
    fn removing_undoes_adding() {
        let mut load = Load::default();
        load.add(&standing(&[5, 3]));
        load.add(&on("gpu-a", 7));
        let before = load.clone();
        load.add(&standing(&[4, 3, 9]));
        load.add(&on("gpu-a", 2));
        load.add(&on("gpu-b", 2));
        load.remove(&standing(&[4, 3, 9]));
        load.remove(&on("gpu-b", 2));
        load.remove(&on("gpu-a", 2));
        assert_eq!(load, before);
    }

    /// One hold that was seen on a device.
    fn on(device: &str, ppm: u64) -> Standing {
        let mut standing = standing(&[ppm]);
        standing.seen.push(crate::demand::Seen {
            container: "c".into(),
            devices: BTreeMap::from([(Arc::from(device), 1)]),
        });
        standing
    }

    #[test]
    fn what_was_seen_counts_on_its_device_alone() {
        let pool = pool(2, 3);
        let mut load = Load::default();
        load.add(&on("gpu-a", 600_000));
        load.add(&on("gpu-b", 500_000));
        // Unseen, the two might stand together, which is above the budget.
        assert_eq!(load.together(&pool, &policy()).ppm(), 600_000);
        assert_eq!(room(&pool, &policy(), &load).now.ppm(), 300_000);
        assert!(fits(&pool, &policy(), &load, &standing(&[300_000])).memory);
        assert!(!fits(&pool, &policy(), &load, &standing(&[300_001])).memory);
        // One that is not seen may be on either.
        load.add(&standing(&[250_000]));
        assert_eq!(load.together(&pool, &policy()).ppm(), 850_000);
        assert_eq!(room(&pool, &policy(), &load).now.ppm(), 50_000);
        // A device without a free slot takes nobody, however full it is.
        load.add(&on("gpu-a", 200_000));
        load.add(&on("gpu-a", 200_000));
        assert_eq!(load.together(&pool, &policy()).ppm(), 1_000_000);
        assert_eq!(room(&pool, &policy(), &load).now.ppm(), 150_000);
        assert!(fits(&pool, &policy(), &load, &standing(&[150_000])).all());
    }

    #[test]
    fn a_container_on_several_devices_counts_its_largest_rank_on_each() {
        let mut two = standing(&[300_000, 200_000]);
        two.seen.push(crate::demand::Seen {
            container: "c".into(),
            devices: BTreeMap::from([(Arc::from("gpu-a"), 1), (Arc::from("gpu-b"), 1)]),
        });
        let mut load = Load::default();
        load.add(&two);
        assert_eq!(load.together(&pool(2, 3), &policy()).ppm(), 300_000);
        let mut one = standing(&[300_000, 200_000]);
        one.seen.push(crate::demand::Seen {
            container: "c".into(),
            devices: BTreeMap::from([(Arc::from("gpu-a"), 2)]),
        });
        let mut load = Load::default();
        load.add(&one);
        assert_eq!(load.together(&pool(2, 3), &policy()).ppm(), 500_000);
    }

    #[test]
    fn more_devices_than_the_labels_tell_keep_nobody_off() {
        let pool = pool(2, 2);
        let mut load = Load::default();
        for device in ["gpu-a", "gpu-b", "gpu-c"] {
            load.add(&on(device, 300_000));
        }
        load.add(&standing(&[250_000]));
        assert_eq!(load.together(&pool, &policy()).ppm(), 550_000);
        assert!(!fits(&pool, &policy(), &load, &standing(&[400_000])).memory);
    }

    #[test]
    fn a_policy_says_which_evidence_counts() {
        let (pool, mut strict) = (pool(2, 2), policy());
        strict.evidence = vec![Evidence::Observed];
        let mut load = Load::default();
        for _ in 0..3 {
            load.add(&standing(&[250_000]));
        }
        assert_eq!(load.together(&pool, &policy()).ppm(), 500_000);
        assert_eq!(load.together(&pool, &strict).ppm(), 750_000);
        assert_eq!(room(&pool, &strict, &load).now.ppm(), 150_000);
    }
}
