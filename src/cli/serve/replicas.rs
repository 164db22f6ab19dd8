//! What makes several replicas one: records that they share, and a leader that keeps them in order.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::cluster::{Candidate, Cluster, Freshness, Leadership, Term};
use crate::ledger::Ledger;
use crate::server::Recorder;
use crate::server::backend::Clock;

/// Shortest pause between two rounds over the records.
const PAUSE: Duration = Duration::from_secs(5);
/// The pause is at least so many times as long as the round before it: a large cluster is gone over less often instead of
/// all the time.
const PAUSE_PER_ROUND: u32 = 20;
/// But no longer than this: a round can have taken long only because the API server was away.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// This replica's part in it.
pub(super) struct Replicas {
    leadership: Leadership,
    shared: Option<Shared>,
}

struct Shared {
    recorder: Arc<Recorder>,
    stop: oneshot::Sender<()>,
    election: JoinHandle<()>,
    keeping: JoinHandle<()>,
}

impl Replicas {
    /// One replica, which shares nothing.
    pub(super) fn alone() -> Self {
        Self {
            leadership: Leadership::alone(),
            shared: None,
        }
    }

    /// Shares the records of the cluster, and stands for election. `ledger` is what the cluster's facts are counted in, by
    /// `clock`.
    pub(super) fn join(
        client: kube::Client,
        cluster: &mut Cluster<Ledger>,
        ledger: Arc<Mutex<Ledger>>,
        clock: Clock,
    ) -> Self {
        let candidate = Candidate::new(client, Term::default());
        let leadership = candidate.leadership();
        let (stop, stopped) = oneshot::channel();
        let election = tokio::spawn(candidate.run(async {
            // That the other end is gone means to stop, too.
            let _ = stopped.await;
        }));
        let store = Arc::new(cluster.share_records());
        let recorder = Arc::new(Recorder::new(ledger, store, Arc::new(move || clock.now())));
        let keeping = tokio::spawn(keep(
            Arc::clone(&recorder),
            leadership.clone(),
            cluster.freshness(),
        ));
        Self {
            leadership,
            shared: Some(Shared {
                recorder,
                stop,
                election,
                keeping,
            }),
        }
    }

    /// Tells whether this replica leads.
    pub(super) fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// What brings reservations into the records, where there are any.
    pub(super) fn recorder(&self) -> Option<Arc<Recorder>> {
        self.shared.as_ref().map(|shared| Arc::clone(&shared.recorder))
    }

    /// Gives the lead back, so that another replica need not wait.
    pub(super) async fn leave(self) {
        if let Some(shared) = self.shared {
            shared.keeping.abort();
            // The election may have ended by a fault of its own, which then is told here.
            let _ = shared.stop.send(());
            if let Err(error) = shared.election.await {
                tracing::error!("the election broke down: {error}");
            }
        }
    }
}

/// Keeps the records equal to what is counted, while this replica leads.
async fn keep(recorder: Arc<Recorder>, mut leadership: Leadership, freshness: Arc<Freshness>) {
    // Who knows only some of the pods must not say who is gone.
    freshness.ready().await;
    loop {
        leadership.gained().await;
        let began = Instant::now();
        let round = recorder.keep_records().await;
        tracing::debug!(?round, took = ?began.elapsed(), "went over the records");
        sleep(pause_after(began.elapsed())).await;
    }
}

/// How long to wait after a round that took so long.
fn pause_after(round: Duration) -> Duration {
    round.saturating_mul(PAUSE_PER_ROUND).clamp(PAUSE, LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_that_took_long_is_followed_by_a_longer_pause_within_bounds() {
        assert_eq!(pause_after(Duration::from_millis(3)), PAUSE);
        assert_eq!(pause_after(Duration::from_secs(1)), Duration::from_secs(20));
        assert_eq!(pause_after(Duration::from_mins(1)), LONGEST_PAUSE);
    }
}
