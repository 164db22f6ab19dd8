//! Which of the replicas does what one of them is to do: it holds a Lease of `coordination.k8s.io` and renews it.
//!
//! The protocol is that of client-go's leader election, so that people and tools know it. No clock of another machine is
//! believed: whoever does not hold the Lease measures, by a clock of its own that only goes forward, how long it has seen
//! the Lease unchanged; the times in the Lease are for people. The holder gives up earlier than anybody can take over. So
//! two lead at once only if their clocks run at different speeds by half; and since every write of the ledger is a
//! compare-and-swap, even that costs work and not exactness.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use super::causes::Causes;

/// Name of the Lease.
const NAME: &str = "vramgate";

/// The times of an election; those of client-go by default.
#[derive(Clone, Copy, Debug)]
pub struct Term {
    /// How long others wait, after they last saw the Lease change, before one of them takes it.
    pub lease: Duration,
    /// How long the holder counts itself as leader after it began its last renewal. Shorter than `lease`.
    pub renew: Duration,
    /// Pause between two tries.
    pub retry: Duration,
}

impl Default for Term {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            renew: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    No,
    Until(Instant),
    ForGood,
}

impl Held {
    fn now(self) -> bool {
        match self {
            Self::No => false,
            Self::Until(until) => Instant::now() < until,
            Self::ForGood => true,
        }
    }
}

/// Tells whether this replica leads. Cheap to ask; clones tell the same.
#[derive(Clone, Debug)]
pub struct Leadership(watch::Receiver<Held>);

impl Leadership {
    /// Of a process that is the only one.
    #[must_use]
    pub fn alone() -> Self {
        Self(watch::channel(Held::ForGood).1)
    }

    /// Whether this replica leads now. Ask again before each step of longer work.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.0.borrow().now()
    }

    /// Returns once this replica leads; never where it no longer stands for election.
    pub async fn gained(&mut self) {
        if self.0.wait_for(|held| held.now()).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Appoints a leader by hand: of replicas that something else elects.
#[derive(Debug)]
pub struct Appointment(watch::Sender<Held>);

impl Appointment {
    /// Somebody who can be appointed, and is not yet.
    #[must_use]
    pub fn open() -> (Self, Leadership) {
        let (held, told) = watch::channel(Held::No);
        (Self(held), Leadership(told))
    }

    /// Says whether that replica leads from now on.
    pub fn set(&self, leads: bool) {
        self.0.send_replace(if leads { Held::ForGood } else { Held::No });
    }
}

/// What was last seen of the Lease, and since when by our own clock.
#[derive(Debug)]
struct Seen {
    spec: LeaseSpec,
    since: Instant,
}

impl Seen {
    /// The Lease as it is now. An unchanged one keeps its time.
    fn again(seen: Option<Self>, spec: &LeaseSpec, now: Instant) -> Self {
        match seen {
            Some(seen) if seen.spec == *spec => seen,
            _ => Self {
                spec: spec.clone(),
                since: now,
            },
        }
    }

    fn holder(&self) -> &str {
        self.spec.holder_identity.as_deref().unwrap_or_default()
    }

    /// Whether `me` may write itself into the Lease.
    fn is_free_for(&self, me: &str, term: &Term, now: Instant) -> bool {
        if self.holder().is_empty() || self.holder() == me {
            return true;
        }
        let seconds = self
            .spec
            .lease_duration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok());
        // What a hand wrote must not keep everybody off for years; whoever leads renews far more often than that.
        let longest = term.lease * LONGEST_TERMS;
        let lease = seconds
            .map_or(term.lease, Duration::from_secs)
            .clamp(term.lease, longest);
        now.saturating_duration_since(self.since) >= lease
    }
}

/// A Lease that says that it lasts longer is believed for so many of our terms without a renewal.
const LONGEST_TERMS: u32 = 10;

/// A replica that stands for election.
pub struct Candidate {
    leases: Api<Lease>,
    me: String,
    term: Term,
    held: watch::Sender<Held>,
    seen: Option<Seen>,
}

impl Candidate {
    /// A candidate for the Lease `vramgate` of the namespace that the client is in: that of the pod, or of the context of
    /// a kubeconfig.
    #[must_use]
    pub fn new(client: Client, term: Term) -> Self {
        // A pod's host name is its own name. A container that starts anew in the same pod is another candidate.
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "vramgate".to_owned());
        let mark = RandomState::new().build_hasher().finish();
        Self {
            leases: Api::default_namespaced(client),
            me: format!("{host}_{mark:016x}"),
            term,
            held: watch::Sender::new(Held::No),
            seen: None,
        }
    }

    /// What tells whether this replica leads.
    #[must_use]
    pub fn leadership(&self) -> Leadership {
        Leadership(self.held.subscribe())
    }

    /// Stands for election until `stop` ends, and gives the Lease back then, so that another need not wait for its end.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let mut warned = false;
        loop {
            let began = Instant::now();
            let tried = tokio::select! {
                // An answer later than the next try is as good as none.
                tried = timeout(self.term.renew / 2, self.try_once(began)) => tried,
                () = &mut stop => break,
            };
            let problem = match tried {
                Ok(Ok(leads)) => {
                    self.set(if leads {
                        Held::Until(began + self.term.renew)
                    } else {
                        Held::No
                    });
                    warned = false;
                    None
                }
                Ok(Err(Error::Api(status))) if matches!(status.code, 401 | 403) => Some(
                    "vramgate may not use it; grant its service account get, create and update on leases of \
                     coordination.k8s.io in its namespace"
                        .to_owned(),
                ),
                Ok(Err(error)) => Some(Causes(&error).to_string()),
                Err(_) => Some(format!("no answer within {:?}", self.term.renew / 2)),
            };
            if let Some(problem) = problem
                && !std::mem::replace(&mut warned, true)
            {
                warn!("the Lease {NAME} cannot be held or watched: {problem}");
            }
            let lapses = match *self.held.borrow() {
                Held::Until(until) => until.saturating_duration_since(Instant::now()),
                Held::No | Held::ForGood => Duration::MAX,
            };
            tokio::select! {
                () = sleep(self.term.retry.min(lapses)) => {}
                () = &mut stop => break,
            }
            if !self.held.borrow().now() {
                self.set(Held::No);
            }
        }
        self.release().await;
    }

    /// Notes and tells whether this replica leads.
    fn set(&self, held: Held) {
        let before = self.held.send_replace(held);
        match (before, held) {
            (Held::No, Held::Until(_)) => info!(candidate = self.me, "leads the replicas"),
            (Held::Until(_), Held::No) => info!(candidate = self.me, "leads the replicas no more"),
            _ => {}
        }
    }

    /// Takes or renews the Lease where that may be done; whether it is held then.
    async fn try_once(&mut self, now: Instant) -> Result<bool, Error> {
        let Some(mut lease) = self.leases.get_opt(NAME).await? else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(NAME.to_owned()),
                    ..ObjectMeta::default()
                },
                spec: Some(self.spec(None)),
            };
            return held(self.leases.create(&PostParams::default(), &lease).await);
        };
        let spec = lease.spec.take().unwrap_or_default();
        let seen = Seen::again(self.seen.take(), &spec, now);
        let is_free = seen.is_free_for(&self.me, &self.term, now);
        self.seen = Some(seen);
        if !is_free {
            return Ok(false);
        }
        lease.spec = Some(self.spec(Some(spec)));
        // The version that was read goes with it, so that of two who take it at once one is refused.
        held(self.leases.replace(NAME, &PostParams::default(), &lease).await)
    }

    /// What this replica writes over `before`.
    fn spec(&self, before: Option<LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let before = before.unwrap_or_default();
        let is_mine = before.holder_identity.as_deref() == Some(&self.me);
        LeaseSpec {
            holder_identity: Some(self.me.clone()),
            lease_duration_seconds: Some(seconds(self.term.lease)),
            acquire_time: if is_mine {
                before.acquire_time
            } else {
                Some(now.clone())
            },
            renew_time: Some(now),
            lease_transitions: Some(
                before
                    .lease_transitions
                    .unwrap_or(0)
                    .saturating_add(i32::from(!is_mine)),
            ),
            preferred_holder: before.preferred_holder,
            strategy: before.strategy,
        }
    }

    /// Gives the Lease back.
    async fn release(&self) {
        let was = self.held.send_replace(Held::No);
        if !was.now() {
            return;
        }
        let given_back = timeout(self.term.retry, async {
            let mut lease = self.leases.get(NAME).await?;
            if let Some(spec) = &mut lease.spec
                && spec.holder_identity.as_deref() == Some(&self.me)
            {
                spec.holder_identity = Some(String::new());
                spec.renew_time = Some(MicroTime(Timestamp::now()));
                self.leases.replace(NAME, &PostParams::default(), &lease).await?;
            }
            Ok::<_, Error>(())
        });
        match given_back.await {
            Ok(Ok(())) => info!(candidate = self.me, "gave the Lease back"),
            Ok(Err(error)) => warn!("the Lease {NAME} could not be given back: {}", Causes(&error)),
            Err(_) => warn!("the Lease {NAME} could not be given back in time"),
        }
    }
}

/// Whole seconds, rounded up: a Lease has no finer ones.
fn seconds(time: Duration) -> i32 {
    let up = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    i32::try_from(up).unwrap_or(i32::MAX)
}

/// Whether a write of the Lease was accepted; that somebody else was faster is no fault.
fn held(written: Result<Lease, Error>) -> Result<bool, Error> {
    match written {
        Ok(_) => Ok(true),
        Err(Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(holder: &str, renewed: i64) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            renew_time: Some(MicroTime(Timestamp::from_second(renewed).unwrap())),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn only_the_time_that_we_saw_it_unchanged_counts() {
        let (term, start) = (Term::default(), Instant::now());
        let second = Duration::from_secs(1);
        // Renewed in 1970, or in the year 2200, by the holder's clock: that says nothing.
        for renewed in [0, 7_258_118_400] {
            let seen = Seen::again(None, &spec("other", renewed), start);
            assert!(!seen.is_free_for("me", &term, start));
            let seen = Seen::again(Some(seen), &spec("other", renewed), start + second * 14);
            assert!(!seen.is_free_for("me", &term, start + second * 14));
            let renewed_again = Seen::again(Some(seen), &spec("other", renewed - 3600), start + second * 14);
            assert!(!renewed_again.is_free_for("me", &term, start + second * 28));
            assert!(renewed_again.is_free_for("me", &term, start + second * 29));
        }
    }

    #[test]
    fn one_that_was_given_back_or_is_ours_is_free_at_once() {
        let (term, now) = (Term::default(), Instant::now());
        assert!(Seen::again(None, &spec("", 0), now).is_free_for("me", &term, now));
        assert!(Seen::again(None, &spec("me", 0), now).is_free_for("me", &term, now));
        assert!(Seen::again(None, &LeaseSpec::default(), now).is_free_for("me", &term, now));
    }

    #[test]
    fn the_holder_gives_up_before_anybody_can_take_over() {
        let term = Term::default();
        assert!(term.renew < term.lease && term.retry < term.renew / 2);
        // A Lease that says less than we would is not taken earlier for that.
        let now = Instant::now();
        let short = LeaseSpec {
            lease_duration_seconds: Some(1),
            ..spec("other", 0)
        };
        let seen = Seen::again(None, &short, now);
        assert!(!seen.is_free_for("me", &term, now + Duration::from_secs(14)));
    }

    #[test]
    fn a_lease_of_years_is_believed_for_some_terms() {
        let (term, now) = (Term::default(), Instant::now());
        let of = |seconds: i32| {
            let spec = LeaseSpec {
                lease_duration_seconds: Some(seconds),
                ..spec("nobody", 0)
            };
            Seen::again(None, &spec, now)
        };
        let free =
            |seconds: i32, after: u64| of(seconds).is_free_for("me", &term, now + Duration::from_secs(after));
        assert!(!free(i32::MAX, 149) && free(i32::MAX, 150));
        assert!(!free(60, 59) && free(60, 60));
    }

    #[tokio::test]
    async fn the_only_process_leads() {
        let mut alone = Leadership::alone();
        assert!(alone.is_leader());
        alone.gained().await;
    }
}
