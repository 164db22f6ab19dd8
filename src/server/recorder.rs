//! Brings reservations into the records that all replicas share, before their pods are admitted (`docs/ledger.md`).
//!
//! A reservation is made in the ledger of this process first, where its other reviews see it at once. Then the record of
//! its node is written over exactly the version that was counted: if another replica wrote it meanwhile, the write fails,
//! what that replica wrote is counted, and a reservation that does not fit beside it any more is given back and judged
//! again. All who wait for the record of one node share one write.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::{Instant, sleep, timeout_at};

use crate::ledger::{Awaited, Draft, Extent, Ledger, Moment, Next};
use crate::store::{Store, Version, WriteError};

mod housekeeping;

pub use housekeeping::Round;

/// Writes and reads that are tried for one reservation. Each conflict means that somebody else got on, so more than a few
/// need many replicas at once; the deadline of the review comes first where the store is slow.
const MOST_TRIES: u32 = 64;
/// Wait after a call to which no answer came, longer with each try.
const PAUSE: Duration = Duration::from_millis(5);
/// Longest such wait.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Tells milliseconds of a clock that only goes forward.
pub type Now = Arc<dyn Fn() -> Moment + Send + Sync>;

/// What became of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// A record holds it: the pod may be admitted.
    Recorded,
    /// Another replica was faster. It was given back; the pod is to be judged again.
    Withdrawn,
    /// It could not be recorded and was given back.
    Failed {
        /// The node whose record was to hold it; empty where that is not known.
        node: String,
        /// Why, in words.
        reason: String,
    },
}

/// What was done so far, for metrics.
#[derive(Debug, Default)]
pub struct Tally {
    /// Reservations that were brought into a record.
    pub recorded: AtomicU64,
    /// Reservations that gave way to those of another replica.
    pub withdrawn: AtomicU64,
    /// Reservations that could not be recorded.
    pub failed: AtomicU64,
    /// Writes that were carried out.
    pub writes: AtomicU64,
    /// Reservations that they added, over all writes.
    pub added: AtomicU64,
    /// Writes that found another version.
    pub conflicts: AtomicU64,
    /// Writes to which no answer came.
    pub unknown: AtomicU64,
    /// Writes that were refused.
    pub refused: AtomicU64,
}

/// See the module.
pub struct Recorder {
    ledger: Arc<Mutex<Ledger>>,
    store: Arc<dyn Store>,
    now: Now,
    /// Whose turn it is to write the record of a node. Entries nobody waits for are taken out.
    turns: Mutex<BTreeMap<Arc<str>, Arc<tokio::sync::Mutex<()>>>>,
    tally: Tally,
}

/// A write that can be given up.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hopeless {
    node: String,
    reason: String,
}

/// What came of a turn to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrote {
    /// A record was written, by us or by whoever was faster, and is counted.
    Yes,
    /// There was nothing to write.
    Nothing,
    /// Others have to leave the record first: it is better to wait a little.
    Stuck,
    /// No answer came: it is better to wait a little.
    Unanswered,
}

impl Recorder {
    /// Over a ledger that others fill, best from now on; `now` is the clock of those who do.
    #[must_use]
    pub fn new(ledger: Arc<Mutex<Ledger>>, store: Arc<dyn Store>, now: Now) -> Self {
        ledger
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .share_records();
        Self {
            ledger,
            store,
            now,
            turns: Mutex::default(),
            tally: Tally::default(),
        }
    }

    /// What was done so far.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Waits until a record holds the reservation of a pod, at most `until` then. Whoever drops this gives the
    /// reservation back. To be called after [`Ledger::await_record`].
    pub async fn settle(&self, uid: &str, until: Instant) -> Settled {
        let mut kept = GivesBack {
            recorder: self,
            uid: Some(uid),
        };
        let settled = match timeout_at(until, self.record(uid)).await {
            Ok(settled) => settled,
            Err(_) => Settled::Failed {
                node: self
                    .lock()
                    .place_of(uid)
                    .map(|node| node.to_string())
                    .unwrap_or_default(),
                reason: "the store did not answer in time".to_owned(),
            },
        };
        match &settled {
            Settled::Recorded => {
                kept.uid = None;
                self.lock().end_await(uid);
                count(&self.tally.recorded);
            }
            Settled::Withdrawn => {
                kept.uid = None;
                self.lock().end_await(uid);
                count(&self.tally.withdrawn);
            }
            Settled::Failed { .. } => count(&self.tally.failed),
        }
        settled
    }

    async fn record(&self, uid: &str) -> Settled {
        let mut pause = PAUSE;
        for _ in 0..MOST_TRIES {
            let node = match self.lock().awaited(uid) {
                Awaited::Recorded => return Settled::Recorded,
                Awaited::Withdrawn => return Settled::Withdrawn,
                Awaited::Ended => return ended(),
                Awaited::At(node) => node,
            };
            let result = self.write_for(Some(uid), &node).await;
            match result {
                Ok(Wrote::Yes | Wrote::Nothing) => {}
                // Without a pause all tries would be over before anybody could have left.
                Ok(Wrote::Unanswered | Wrote::Stuck) => {
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(Hopeless { node, reason }) => return Settled::Failed { node, reason },
            }
        }
        Settled::Failed {
            node: self
                .lock()
                .place_of(uid)
                .map(|node| node.to_string())
                .unwrap_or_default(),
            reason: format!("other replicas wrote its record {MOST_TRIES} times meanwhile"),
        }
    }

    /// The next write for the record of a node, in turn. With `uid` only if that reservation still waits for it: somebody
    /// else's write may have taken it along, or its place is another one by now.
    async fn write_for(&self, uid: Option<&str>, node: &Arc<str>) -> Result<Wrote, Hopeless> {
        let turn = self.turn(node);
        let held = turn.lock().await;
        let next = {
            let mut ledger = self.lock();
            let waits =
                |ledger: &Ledger| uid.is_none_or(|uid| ledger.awaited(uid) == Awaited::At(node.clone()));
            if !waits(&ledger) {
                return Ok(Wrote::Nothing);
            }
            withdraw(&mut ledger, node);
            if !waits(&ledger) {
                return Ok(Wrote::Nothing);
            }
            let extent = if uid.is_some() {
                Extent::Additions
            } else {
                Extent::Exact
            };
            let next = ledger.next_write(node, extent, &stamp());
            if matches!(next, Next::Stuck) {
                tell_withdrawn(node, &ledger.undo_moves(node));
            }
            next
        };
        match next {
            Next::Write(first, draft) if first == *node => self.write(node, &draft).await,
            Next::Write(first, _) => {
                // One turn at a time: who holds two could wait for somebody who waits for him.
                drop(held);
                self.write_additions(&first).await
            }
            Next::Nothing => Ok(Wrote::Nothing),
            Next::Stuck if uid.is_some() => {
                drop(held);
                // What the leader would write adds nobody who needs room, and can make some.
                match Box::pin(self.write_for(None, node)).await {
                    Ok(Wrote::Nothing) => Ok(Wrote::Stuck),
                    result => result,
                }
            }
            Next::Stuck => Ok(Wrote::Stuck),
        }
    }

    /// Adds to the record of a node, once, what another record is to lose.
    async fn write_additions(&self, node: &Arc<str>) -> Result<Wrote, Hopeless> {
        let turn = self.turn(node);
        let _held = turn.lock().await;
        let draft = {
            let mut ledger = self.lock();
            withdraw(&mut ledger, node);
            ledger.draft(node, Extent::Additions, &stamp())
        };
        match draft.filter(|draft| draft.changed && !draft.is_crowded) {
            Some(draft) => self.write(node, &draft).await,
            None => Ok(Wrote::Nothing),
        }
    }

    /// Writes a record, and counts what is stored then: this one, or that of whoever was faster.
    async fn write(&self, node: &Arc<str>, draft: &Draft) -> Result<Wrote, Hopeless> {
        let over = draft.over.clone().map(Version);
        match self.store.write(node, &draft.record, over.as_ref()).await {
            Ok(stored) => {
                count(&self.tally.writes);
                let added = u64::try_from(draft.added).unwrap_or(u64::MAX);
                self.tally.added.fetch_add(added, Ordering::Relaxed);
                self.lock()
                    .set_record(node, &stored.record, &stored.version.0, (self.now)());
                Ok(Wrote::Yes)
            }
            Err(WriteError::Conflict { .. }) => {
                count(&self.tally.conflicts);
                // The watch may have told of it already.
                let is_known = self.lock().record_version(node) != draft.over.as_deref();
                if is_known || self.read(node, draft.over.as_deref()).await {
                    Ok(Wrote::Yes)
                } else {
                    Ok(Wrote::Unanswered)
                }
            }
            Err(error @ WriteError::Unknown { .. }) => {
                count(&self.tally.unknown);
                tracing::warn!("{error}");
                // If it was not carried out it may be later, but not any more once another write succeeded.
                self.read(node, draft.over.as_deref()).await;
                Ok(Wrote::Unanswered)
            }
            Err(WriteError::Refused { node, reason }) => {
                count(&self.tally.refused);
                tracing::warn!(node, "the record cannot be written: {reason}");
                Err(Hopeless { node, reason })
            }
        }
    }

    /// Reads the record of a node and counts it; `false` where that failed.
    async fn read(&self, node: &str, over: Option<&str>) -> bool {
        match self.store.read(node).await {
            Ok(Some(stored)) => {
                self.lock()
                    .set_record(node, &stored.record, &stored.version.0, (self.now)());
                true
            }
            Ok(None) => {
                if let Some(over) = over {
                    self.lock().remove_record(node, over);
                }
                true
            }
            Err(error) => {
                tracing::warn!("{error}");
                false
            }
        }
    }

    fn turn(&self, node: &Arc<str>) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if turns.len() > 1_024 {
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        }
        Arc::clone(turns.entry(node.clone()).or_default())
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn withdraw(ledger: &mut Ledger, node: &str) {
    tell_withdrawn(node, &ledger.withdraw(node));
}

fn tell_withdrawn(node: &str, withdrawn: &[Arc<str>]) {
    for uid in withdrawn {
        tracing::debug!(
            node,
            uid = &**uid,
            "another replica was faster: the reservation is judged again"
        );
    }
}

fn ended() -> Settled {
    Settled::Failed {
        node: String::new(),
        reason: "a newer pod of the same name was admitted meanwhile".to_owned(),
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The time now, for people.
fn stamp() -> String {
    let now = OffsetDateTime::now_utc();
    now.replace_nanosecond(0)
        .unwrap_or(now)
        .format(&Rfc3339)
        .unwrap_or_default()
}

/// Gives a reservation back unless it was recorded.
struct GivesBack<'a> {
    recorder: &'a Recorder,
    uid: Option<&'a str>,
}

impl Drop for GivesBack<'_> {
    fn drop(&mut self) {
        if let Some(uid) = self.uid.take() {
            let mut ledger = self.recorder.lock();
            ledger.release(uid);
            // What was moved for it goes back.
            ledger.end_await(uid);
        }
    }
}
