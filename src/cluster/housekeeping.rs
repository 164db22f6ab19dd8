//! Every few seconds: reservations that grew old are checked against the API server, and devices above their budget are
//! told.

use std::sync::{Arc, Mutex};

use futures::StreamExt;
use futures::stream;
use kube::Client;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

use super::facts::Facts;
use super::freshness::{Freshness, Watched};
use super::lookup::LookUps;
use super::metrics::Metrics;
use super::over_budget::Reporter;
use super::timing::Timing;
use super::{Clock, lock};
use crate::ledger::{Moment, Stale};

/// Checks in flight at once.
const AT_ONCE: usize = 8;

/// See the module.
pub(super) struct Housekeeping<F> {
    pub(super) client: Client,
    pub(super) facts: Arc<Mutex<F>>,
    pub(super) clock: Clock,
    pub(super) freshness: Arc<Freshness>,
    pub(super) look_ups: LookUps,
    pub(super) metrics: Metrics,
    pub(super) timing: Timing,
}

impl<F: Facts> Housekeeping<F> {
    /// Goes on for good.
    pub(super) async fn run(self) {
        // Before every list is complete, the facts know too few pods to say what is over budget.
        self.freshness.ready().await;
        let mut reporter = Reporter::new(self.client.clone(), self.metrics.clone(), self.timing.clone());
        let mut rounds = interval(self.timing.housekeeping);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            rounds.tick().await;
            self.end_stale().await;
            let over = lock(&self.facts).over_budget();
            reporter.report(&over).await;
        }
    }

    /// Gives back the reservations that are old and whose pod does not exist.
    async fn end_stale(&self) {
        let ttl = u64::try_from(self.timing.reservation_ttl.as_millis()).unwrap_or(u64::MAX);
        let before = Moment((self.clock)().0.saturating_sub(ttl));
        let told = u64::try_from(self.freshness.age_of(Watched::Pods).as_millis()).unwrap_or(u64::MAX);
        let stale = {
            let mut facts = lock(&self.facts);
            facts.end_raises(Moment(before.0.saturating_sub(told)));
            facts.stale(before)
        };
        let within = self.timing.housekeeping_timeout;
        let checks = stream::iter(stale).map(async |reservation| {
            (
                self.look_ups.pod_exists_within(within, &reservation).await,
                reservation,
            )
        });
        let mut checks = std::pin::pin!(checks.buffer_unordered(AT_ONCE));
        while let Some((exists, reservation)) = checks.next().await {
            let Stale {
                uid, namespace, name, ..
            } = &reservation;
            match exists {
                // The watch will tell of it.
                Ok(true) => {}
                Ok(false) => {
                    info!(
                        namespace,
                        name, uid, "the pod was admitted but does not exist: its reservation ends"
                    );
                    self.metrics.reservation_released();
                    lock(&self.facts).release(uid);
                }
                Err(error) => {
                    warn!(namespace, name, uid, "an old reservation is kept: {error}");
                    self.metrics.reservation_check_failed();
                }
            }
        }
    }
}
