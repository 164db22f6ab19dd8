//! The records of nodes as they were read or written last: what all replicas know of each other (`docs/ledger.md`).
//!
//! A pod can stand in the records of several nodes for a while, when its place was moved. One of its entries is *the top
//! one*: that with the most moves, of equal ones that of the node which comes last by name. It holds the pod; the others
//! may be taken out, and it only once a higher one is stored or the pod is gone. So an admitted pod never falls out of
//! all records, whatever two replicas take out at the same time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::Moment;
use super::apart::Apart;
use super::shared;
use crate::demand::{Hold, Standing};
use crate::device::Pool;
use crate::record::{DeviceRecord, Entry, NodeRecord, Others, Taken};
use crate::units::{Mib, Share};

mod draft;
mod fold;
mod sound;
mod withdraw;

pub use draft::{Draft, Extent, Next};
pub(super) use fold::strays;
pub use withdraw::Awaited;
pub(super) use withdraw::Waits;

/// Pods known to be gone that are remembered, so that an old record does not bring them back. One that is forgotten
/// counts again until the API server is asked about it: too much for a while, never too little.
const MOST_GONE: usize = 16_384;
/// Shares of one entry that are kept apart; what is beyond them counts as one.
const MOST_SHARES: usize = 256;
/// No device is promised so often, and sums of such shares stay exact.
const LARGEST_SHARE: Share = Share::WHOLE.times(1_000_000);
/// More slots than any node has.
const MOST_SLOTS: u32 = 1 << 20;

/// Records by node, and pods that no record brings back.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    nodes: BTreeMap<Arc<str>, Folded>,
    /// The nodes whose records have an entry of a pod.
    of: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// Pods with an entry that says what an UPDATE raises.
    raised: BTreeSet<Arc<str>>,
    gone: Gone,
    /// What entries take, each once: nearly all take what others do.
    taken: shared::Pool<[Taken]>,
    /// Whether anything was ever read, or is to be written.
    shared: bool,
}

/// Entries by the UIDs of their pods.
type Entries = Apart<Kept>;

/// The record of one node.
#[derive(Clone, Debug, Default)]
struct Folded {
    /// Version in the store; `None` where the store has none (any more).
    version: Option<String>,
    entries: Entries,
    devices: Vec<DeviceRecord>,
    others: Others,
}

/// An entry, without what the holder itself tells.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kept {
    moves: u32,
    /// Whether it stands among those who were seen.
    seen: bool,
    since: Box<str>,
    takes: Arc<[Taken]>,
    raised: Arc<[Taken]>,
    /// When this process saw first what an UPDATE raises.
    raised_since: Moment,
    others: Others,
}

impl Kept {
    fn of(entry: &Entry, seen: bool, now: Moment, pool: &mut shared::Pool<[Taken]>) -> Self {
        let mut kept = |taken: &[Taken]| pool.find(taken).unwrap_or_else(|| pool.keep(Arc::from(taken)));
        Self {
            moves: entry.moves,
            seen,
            since: entry.since.as_str().into(),
            takes: kept(&entry.takes),
            raised: kept(&entry.raised),
            raised_since: now,
            others: entry.others.clone(),
        }
    }
}

/// Pods that are gone, the latest of them.
#[derive(Clone, Debug, Default)]
struct Gone {
    uids: BTreeSet<Arc<str>>,
    in_order: VecDeque<Arc<str>>,
}

impl Gone {
    fn insert(&mut self, uid: Arc<str>) {
        if !self.uids.insert(uid.clone()) {
            return;
        }
        self.in_order.push_back(uid);
        while self.in_order.len() > MOST_GONE {
            if let Some(oldest) = self.in_order.pop_front() {
                self.uids.remove(&oldest);
            }
        }
    }
}

impl Records {
    /// Whether there are records, or will be.
    pub(super) fn is_shared(&self) -> bool {
        self.shared
    }

    /// A pod is known to be gone.
    pub(super) fn gone(&mut self, uid: &Arc<str>) {
        // A process that is alone has nobody who could bring it back.
        if self.shared {
            self.gone.insert(uid.clone());
        }
    }

    /// A pod is there, or is about to be, whatever was known of it.
    pub(super) fn back(&mut self, uid: &str) {
        self.gone.uids.remove(uid);
    }

    fn is_gone(&self, uid: &str) -> bool {
        self.gone.uids.contains(uid)
    }

    /// The node whose record holds a pod.
    pub(super) fn place_of(&self, uid: &str) -> Option<&Arc<str>> {
        self.top(uid).map(|(node, _)| node)
    }

    fn top(&self, uid: &str) -> Option<(&Arc<str>, &Kept)> {
        let entries = self.of.get(uid)?.iter().filter_map(|node| {
            let kept = self.nodes.get(node)?.entries.get(uid)?;
            Some((node, kept))
        });
        entries.max_by_key(|(node, kept)| (kept.moves, (*node).clone()))
    }

    fn entry(&self, node: &str, uid: &str) -> Option<&Kept> {
        self.nodes.get(node)?.entries.get(uid)
    }

    /// Pods in the record of a node.
    pub(super) fn uids(&self, node: &str) -> impl Iterator<Item = &Arc<str>> {
        self.nodes
            .get(node)
            .into_iter()
            .flat_map(|folded| folded.entries.keys())
    }

    /// Puts another record in the place of a node's, and gives the entries that it had.
    fn replace(&mut self, node: &Arc<str>, new: Folded) -> Entries {
        for (uid, kept) in new.entries.iter() {
            let nodes = self.of.entry(uid.clone()).or_default();
            if !nodes.contains(node) {
                // Seldom is there a second one.
                nodes.reserve_exact(1);
                nodes.push(node.clone());
            }
            if !kept.raised.is_empty() {
                self.raised.insert(uid.clone());
            }
        }
        let old = self.nodes.insert(node.clone(), new).unwrap_or_default().entries;
        for uid in old
            .keys()
            .filter(|uid| self.entry(node, uid).is_none())
            .cloned()
            .collect::<Vec<_>>()
        {
            if let Some(nodes) = self.of.get_mut(&uid) {
                nodes.retain(|at| at != node);
                if nodes.is_empty() {
                    self.of.remove(&uid);
                }
            }
        }
        old
    }

    /// The pods of which an entry says since before `before` that an UPDATE raises them: it was not stored.
    fn raised_before(&self, before: Moment) -> Vec<Arc<str>> {
        let is_old = |uid: &&Arc<str>| {
            self.entries_of(uid)
                .all(|kept| kept.raised.is_empty() || kept.raised_since < before)
        };
        self.raised.iter().filter(is_old).cloned().collect()
    }

    fn entries_of(&self, uid: &str) -> impl Iterator<Item = &Kept> {
        let nodes = self.of.get(uid).into_iter().flatten();
        nodes.filter_map(|node| self.entry(node, uid))
    }

    /// Forgets what the entries of a pod say an UPDATE raises. The next write says so to everybody.
    pub(super) fn lower(&mut self, uid: &str) {
        self.raised.remove(uid);
        for node in self.of.get(uid).cloned().unwrap_or_default() {
            if let Some(kept) = self
                .nodes
                .get_mut(&node)
                .and_then(|folded| folded.entries.get_mut(uid))
            {
                kept.raised = Arc::default();
            }
        }
    }

    /// What the record says that a pod takes on pools of the kind of its node; with what an UPDATE raises, or without.
    pub(super) fn floor(
        &self,
        uid: &str,
        pools: &[Pool],
        now: &[Standing],
        raised: bool,
    ) -> Option<Vec<Standing>> {
        let (_, kept) = self.top(uid)?;
        let takes = if raised { &kept.raised } else { &kept.takes };
        (!takes.is_empty()).then(|| standings(takes, pools, now))
    }
}

/// Standings on pools as an entry has them. Ranks have no names there: they are those of `now` where these are as many.
fn standings(takes: &[Taken], pools: &[Pool], now: &[Standing]) -> Vec<Standing> {
    let of_pool = |(index, pool): (usize, &Pool)| {
        let mut standing = Standing::default();
        for taken in takes.iter().filter(|taken| *taken.resource == *pool.resource) {
            standing = standing.either(standing_of(taken, pool, now.get(index)));
        }
        standing
    };
    pools.iter().enumerate().map(of_pool).collect()
}

fn standing_of(taken: &Taken, pool: &Pool, now: Option<&Standing>) -> Standing {
    let holds = |shares: &[u64], named: Option<&[Hold]>| -> Vec<Hold> {
        let mut shares: Vec<Share> = shares
            .iter()
            .map(|ppm| Share::from_ppm(*ppm).min(LARGEST_SHARE))
            .collect();
        shares.sort_unstable_by(|a, b| b.cmp(a));
        if shares.len() > MOST_SHARES {
            let rest: Share = shares.drain(MOST_SHARES..).sum();
            shares.push(rest.min(LARGEST_SHARE));
            shares.sort_unstable_by(|a, b| b.cmp(a));
        }
        let named = named.filter(|named| named.len() == shares.len());
        let hold = |(index, share): (usize, &Share)| {
            let name = named.and_then(|named| named.get(index));
            Hold {
                container: name.map(|hold| hold.container.clone()).unwrap_or_default(),
                rank: name.map_or_else(|| u32::try_from(index).unwrap_or(u32::MAX), |hold| hold.rank),
                request: pool.total.map_or(Mib::ZERO, |total| share.of_down(total)),
                overhead: Mib::ZERO,
                share: *share,
            }
        };
        shares.iter().enumerate().map(hold).collect()
    };
    Standing {
        slots: taken.slots.min(MOST_SLOTS),
        holds: holds(&taken.shares_ppm, now.map(|now| &*now.holds)),
        everywhere: holds(&taken.everywhere_ppm, now.map(|now| &*now.everywhere)),
        tenant: taken.tenant.as_deref().map(Arc::from),
        seen: Vec::new(),
    }
}

/// The written form of what a pod takes of the shared pools of a node.
fn takes(pools: &[Pool], standings: &[Standing]) -> Vec<Taken> {
    let all = pools.iter().zip(standings);
    let taken = all.filter(|(pool, standing)| pool.sharing.is_shared() && !standing.is_empty());
    let shares = |holds: &[Hold]| holds.iter().map(|hold| hold.share.ppm()).collect();
    let written = taken.map(|(pool, standing)| Taken {
        resource: pool.resource.to_string(),
        slots: standing.slots,
        shares_ppm: shares(&standing.holds),
        everywhere_ppm: shares(&standing.everywhere),
        tenant: standing.tenant.as_deref().map(str::to_owned),
        others: Others::new(),
    });
    written.collect()
}

/// Whether what is taken is at least what `less` says.
fn covers(takes: &[Taken], less: &[Taken]) -> bool {
    let at_least = |mine: &[u64], theirs: &[u64]| {
        mine.len() >= theirs.len() && mine.iter().zip(theirs).all(|(mine, theirs)| mine >= theirs)
    };
    less.iter().all(|less| {
        takes.iter().any(|taken| {
            taken.resource == less.resource
                && taken.slots >= less.slots
                && at_least(&taken.shares_ppm, &less.shares_ppm)
                && at_least(&taken.everywhere_ppm, &less.everywhere_ppm)
        })
    })
}

/// Whether `known` is as new as `version`. Versions of the API server are numbers that only grow (KEP-5504); of any others
/// nothing is known, and what comes later is taken for newer.
fn is_as_new(known: &str, version: &str) -> bool {
    if known == version {
        return true;
    }
    match (known.parse::<u64>(), version.parse::<u64>()) {
        (Ok(known), Ok(version)) => known > version,
        _ => false,
    }
}

/// What an entry of a node counts under: its UID. One that has none (only a hand can write that) is told apart by its name.
fn key(node: &str, entry: &Entry) -> Arc<str> {
    if entry.uid.is_empty() {
        return Arc::from(format!("no-uid:{node}/{}/{}", entry.namespace, entry.name));
    }
    Arc::from(entry.uid.as_str())
}

/// A record's entries by pod. One that stands in it twice counts with the larger of both.
fn kept(node: &str, record: &NodeRecord, now: Moment, pool: &mut shared::Pool<[Taken]>) -> Entries {
    let mut entries = Entries::default();
    let seen = record.holders.iter().map(|entry| (entry, true));
    for (entry, seen) in seen.chain(record.reservations.iter().map(|entry| (entry, false))) {
        let kept = Kept::of(entry, seen, now, pool);
        match entries.get_mut(&key(node, entry)) {
            None => {
                entries.insert(key(node, entry), kept);
            }
            Some(known) => {
                known.moves = known.moves.max(kept.moves);
                known.seen |= kept.seen;
                known.takes = both(&known.takes, &kept.takes);
                known.raised = both(&known.raised, &kept.raised);
            }
        }
    }
    entries
}

fn both(taken: &[Taken], more: &[Taken]) -> Arc<[Taken]> {
    taken.iter().chain(more).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pods_take_alike_is_kept_once() {
        let entry = |uid: &str, ppm: u64| Entry {
            uid: uid.to_owned(),
            takes: vec![Taken {
                resource: "nvidia.com/gpu".to_owned(),
                slots: 1,
                shares_ppm: vec![ppm],
                ..Taken::default()
            }],
            ..Entry::default()
        };
        let record = NodeRecord {
            holders: vec![entry("a", 300_000), entry("b", 300_000), entry("c", 400_000)],
            // The same pod once more: it counts with both.
            reservations: vec![entry("c", 500_000)],
            ..NodeRecord::default()
        };
        let mut pool = shared::Pool::default();
        let kept = kept("n", &record, Moment(0), &mut pool);
        let takes = |uid: &str| kept.get(uid).map(|kept| &kept.takes);
        assert!(takes("a").zip(takes("b")).is_some_and(|(a, b)| Arc::ptr_eq(a, b)));
        let shares = takes("c").into_iter().flat_map(|takes| takes.iter());
        let shares: Vec<u64> = shares.flat_map(|taken| taken.shares_ppm.clone()).collect();
        assert_eq!(shares, [400_000, 500_000]);
    }
}
