//! What a pod holds on the pools of one node.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::units::{Mib, Share};

/// Memory that one rank of one container holds on one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Name of the container.
    pub container: String,
    /// Rank within the container.
    pub rank: u32,
    /// What the engines ask for.
    pub request: Mib,
    /// What they take outside of it.
    pub overhead: Mib,
    /// The part of the device, in millionths.
    pub share: Share,
}

/// The devices on which the slots of one container were seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Name of the container.
    pub container: String,
    /// Slots on each device, by the device's identity (`GPU-…`, `MIG-…`).
    pub devices: BTreeMap<Arc<str>, u32>,
}

/// Slots and memory that a pod takes of one pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Slots.
    pub slots: u32,
    /// Holds, largest share first.
    pub holds: Vec<Hold>,
    /// Holds on every device of the pool, of containers that asked for none: largest share first.
    pub everywhere: Vec<Hold>,
    /// Whose pod it is, where the policy of the devices keeps tenants apart.
    pub tenant: Option<Arc<str>>,
    /// Containers whose devices were seen (`observed` evidence); the others may stand on any device. Only what a holder
    /// takes on the node that it runs on has any.
    pub seen: Vec<Seen>,
}

impl Standing {
    /// Both at the same time.
    pub(crate) fn add(&mut self, slots: u32, holds: impl IntoIterator<Item = Hold>) {
        self.slots = self.slots.saturating_add(slots);
        let before = self.holds.len();
        self.holds.extend(holds);
        if self.holds.len() > before {
            self.sort();
        }
    }

    /// The one or the other, never both: index by index the larger hold. For every k the k largest of the result are at
    /// least the k largest of either, so whatever bounds it bounds both (init containers against regular ones).
    #[must_use]
    pub(crate) fn either(self, other: Self) -> Self {
        Self {
            slots: self.slots.max(other.slots),
            holds: larger(self.holds, other.holds),
            everywhere: larger(self.everywhere, other.everywhere),
            tenant: self.tenant.or(other.tenant),
            seen: Vec::new(),
        }
    }

    /// Adds holds on every device.
    pub(crate) fn add_everywhere(&mut self, holds: impl IntoIterator<Item = Hold>) {
        self.everywhere.extend(holds);
        self.everywhere
            .sort_by(|a, b| b.share.cmp(&a.share).then_with(|| a.container.cmp(&b.container)));
    }

    /// Whether nothing is taken of the pool.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots == 0 && self.holds.is_empty() && self.everywhere.is_empty()
    }

    /// Whether the device of each of its slots and holds was seen.
    pub(crate) fn is_seen(&self) -> bool {
        let devices = self.seen.iter().flat_map(|seen| seen.devices.values());
        let slots = devices.fold(0, |sum: u32, slots| sum.saturating_add(*slots));
        slots == self.slots && self.everywhere.is_empty() && self.anywhere().next().is_none()
    }

    /// All holds, those on every device first.
    pub fn all_holds(&self) -> impl Iterator<Item = &Hold> {
        self.everywhere.iter().chain(&self.holds)
    }

    /// The larger of what was recorded and what is read now: rank by rank, so that each hold stays the one of its
    /// container; index by index where the ranks are not the same ones.
    #[must_use]
    pub fn at_least(mut self, recorded: Self) -> Self {
        let mut same_ranks = self.holds.len() == recorded.holds.len();
        let mut larger = Vec::with_capacity(self.holds.len());
        if same_ranks {
            let key = |hold: &Hold| (hold.container.clone(), hold.rank);
            let mut then: BTreeMap<_, &Hold> = recorded.holds.iter().map(|hold| (key(hold), hold)).collect();
            for now in &self.holds {
                match then.remove(&key(now)) {
                    Some(then) if then.share > now.share => larger.push(then.clone()),
                    Some(_) => larger.push(now.clone()),
                    None => same_ranks = false,
                }
            }
        }
        if !same_ranks {
            return self.either(recorded);
        }
        self.holds = larger;
        self.everywhere = self::larger(self.everywhere, recorded.everywhere);
        self.tenant = self.tenant.or(recorded.tenant);
        self.slots = self.slots.max(recorded.slots);
        self.sort();
        self
    }

    /// So many pods of it.
    #[must_use]
    pub(crate) fn times(&self, pods: u32) -> Self {
        let many = usize::try_from(pods).unwrap_or(usize::MAX);
        // Largest first, as ever.
        let repeated = |holds: &[Hold]| {
            let each = holds.iter().flat_map(|hold| std::iter::repeat_n(hold, many));
            each.cloned().collect()
        };
        Self {
            slots: self.slots.saturating_mul(pods),
            holds: repeated(&self.holds),
            everywhere: repeated(&self.everywhere),
            tenant: self.tenant.clone(),
            seen: Vec::new(),
        }
    }

    /// The shares that may be on any device, largest first.
    pub(crate) fn anywhere(&self) -> impl Iterator<Item = Share> + '_ {
        self.holds
            .iter()
            .filter(|hold| self.seen.iter().all(|seen| seen.container != hold.container))
            .map(|hold| hold.share)
    }

    /// Slots and shares on the devices that were seen. A container with as many devices as ranks has one rank on each;
    /// which of its ranks that is nobody tells, so the largest is taken for each. One with fewer devices has them all on
    /// each.
    pub(crate) fn on_devices(&self) -> impl Iterator<Item = (&Arc<str>, u32, Share)> + '_ {
        self.seen.iter().flat_map(|seen| {
            let of_it = || self.holds.iter().filter(|hold| hold.container == seen.container);
            let each = if of_it().count() <= seen.devices.len() {
                of_it().next().map_or(Share::ZERO, |hold| hold.share)
            } else {
                of_it().map(|hold| hold.share).sum()
            };
            seen.devices
                .iter()
                .map(move |(device, slots)| (device, *slots, each))
        })
    }

    /// Sum of requests.
    #[must_use]
    pub fn request(&self) -> Mib {
        self.all_holds().map(|hold| hold.request).sum()
    }

    /// Sum of shares.
    #[must_use]
    pub fn share(&self) -> Share {
        self.all_holds().map(|hold| hold.share).sum()
    }

    fn sort(&mut self) {
        self.holds
            .sort_by(|a, b| b.share.cmp(&a.share).then_with(|| a.container.cmp(&b.container)));
    }
}

/// Index by index the larger of two lists, largest first.
fn larger(mine: Vec<Hold>, theirs: Vec<Hold>) -> Vec<Hold> {
    let longest = mine.len().max(theirs.len());
    let (mut mine, mut theirs) = (mine.into_iter(), theirs.into_iter());
    let mut holds = Vec::with_capacity(longest);
    for _ in 0..longest {
        match (mine.next(), theirs.next()) {
            (Some(a), Some(b)) => holds.push(if b.share > a.share { b } else { a }),
            (Some(one), None) | (None, Some(one)) => holds.push(one),
            (None, None) => {}
        }
    }
    holds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(shares: &[u64]) -> Standing {
        let mut standing = Standing::default();
        for ppm in shares {
            let hold = Hold {
                container: "c".to_owned(),
                rank: 0,
                request: Mib::new(1),
                overhead: Mib::ZERO,
                share: Share::from_ppm(*ppm),
            };
            standing.add(1, [hold]);
        }
        standing
    }

    fn shares(standing: &Standing) -> Vec<u64> {
        standing.holds.iter().map(|hold| hold.share.ppm()).collect()
    }

    #[test]
    fn either_dominates_both() {
        let joined = standing(&[5, 1]).either(standing(&[3, 2, 2]));
        assert_eq!(shares(&joined), [5, 2, 2]);
        assert_eq!(joined.slots, 3);
    }
}
