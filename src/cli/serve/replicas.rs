//! What makes several replicas one: records that they share, and a leader among them.

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::cluster::{Candidate, Cluster, Facts, Folded, KubernetesStore, Leadership, Term};

/// This replica's part in it.
pub(super) struct Replicas {
    leadership: Leadership,
    shared: Option<Shared>,
}

struct Shared {
    #[expect(dead_code, reason = "the commit uses them")]
    records: (KubernetesStore, Folded),
    stop: oneshot::Sender<()>,
    election: JoinHandle<()>,
}

impl Replicas {
    /// One replica, which shares nothing.
    pub(super) fn alone() -> Self {
        Self {
            leadership: Leadership::alone(),
            shared: None,
        }
    }

    /// Shares the records of the cluster, and stands for election.
    pub(super) fn join<F: Facts>(client: kube::Client, cluster: &mut Cluster<F>) -> Self {
        let candidate = Candidate::new(client, Term::default());
        let leadership = candidate.leadership();
        let (stop, stopped) = oneshot::channel();
        let election = tokio::spawn(candidate.run(async {
            // That the other end is gone means to stop, too.
            let _ = stopped.await;
        }));
        Self {
            leadership,
            shared: Some(Shared {
                records: cluster.share_records(),
                stop,
                election,
            }),
        }
    }

    /// Tells whether this replica leads.
    pub(super) fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Gives the lead back, so that another replica need not wait.
    pub(super) async fn leave(self) {
        if let Some(shared) = self.shared {
            // The election may have ended by a fault of its own, which then is told here.
            let _ = shared.stop.send(());
            if let Err(error) = shared.election.await {
                tracing::error!("the election broke down: {error}");
            }
        }
    }
}
