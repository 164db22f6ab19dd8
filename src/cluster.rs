//! The live cluster: watches that fill the ledger, look-ups that a verdict needs, and what is told back as Events.
//!
//! ```text
//! nodes, pods, namespaces, slices, claims --LIST, WATCH--> watch -> projection -> fold -> ledger
//! ConfigMaps of the device plugin that policies name --LIST, WATCH--> nodes read again
//! ConfigMaps, workloads, owners --GET--> look-ups
//! reservations that grew old --GET pod--> housekeeping -> ledger
//! ledger --over budget--> Event on the node
//! ```
//!
//! Objects are decoded into the narrow types of [`crate::workload::pod`], folded at once, and not kept.

mod backoff;
mod causes;
mod config_maps;
mod connect;
mod facts;
mod fold;
mod freshness;
mod housekeeping;
mod lookup;
mod metrics;
mod over_budget;
mod projection;
mod timing;
mod watch;

use std::borrow::Cow;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Client;
use tokio::task::JoinSet;

use crate::dra::objects::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use crate::ledger::Moment;

pub use connect::{ConnectError, connect};
pub use facts::{Facts, OverBudget, Reader};
pub use freshness::{Freshness, Refresh, Watched};
pub use lookup::{Fetched, LookUpError, LookUps};
pub use metrics::Metrics;
pub use timing::Timing;

use config_maps::FollowedConfigMaps;
use fold::{NamespaceFold, NodeFold, PodFold, Resource, ResourceFold};
use housekeeping::Housekeeping;
use watch::Follower;

/// Tells the time of the clock that reservations are stamped with.
pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// A task of the cluster room ended, which none does by itself: the facts would go stale unnoticed.
#[derive(Debug, thiserror::Error)]
#[error("the task that {task} ended unexpectedly ({reason}); restart vramgate, and report this with the log")]
pub struct Stopped {
    /// What the task does.
    pub task: &'static str,
    /// How it ended.
    pub reason: String,
}

/// Everything that runs between a live cluster and the ledger.
pub struct Cluster<F> {
    client: Client,
    facts: Arc<Mutex<F>>,
    reader: Arc<dyn Reader>,
    clock: Clock,
    timing: Timing,
    freshness: Arc<Freshness>,
    look_ups: LookUps,
    metrics: Metrics,
}

impl<F: Facts> Cluster<F> {
    /// Prepares the watches; nothing is asked of the API server before [`Cluster::run`].
    pub fn new(
        client: Client,
        facts: Arc<Mutex<F>>,
        reader: Arc<dyn Reader>,
        clock: Clock,
        timing: Timing,
    ) -> Self {
        let metrics = Metrics::default();
        let look_ups = LookUps::new(client.clone(), timing.clone(), metrics.clone());
        let freshness = Arc::new(Freshness::default());
        Self {
            client,
            facts,
            reader,
            clock,
            timing,
            freshness,
            look_ups,
            metrics,
        }
    }

    /// The look-ups that a review needs. They work at once, before the watches are complete.
    #[must_use]
    pub fn look_ups(&self) -> LookUps {
        self.look_ups.clone()
    }

    /// Whether the watches are complete, and how old their facts are.
    #[must_use]
    pub fn freshness(&self) -> Arc<Freshness> {
        Arc::clone(&self.freshness)
    }

    /// Counters, to be registered with the process's registry.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// Reads everything once more from the start, for policies that read it differently.
    #[must_use]
    pub fn refresh(&self) -> Refresh {
        self.freshness.refresh()
    }

    /// Reads nodes once more, for what stands beside them.
    #[must_use]
    pub fn refresh_nodes(&self) -> Refresh {
        self.freshness.refresh_nodes()
    }

    /// Follows the cluster until the future is dropped. Returns only when one of its tasks broke down.
    pub async fn run(self) -> Stopped {
        let mut tasks = JoinSet::new();
        let mut names = Vec::new();
        let mut start = |tasks: &mut JoinSet<()>, name: &'static str, task: Task| {
            names.push((tasks.spawn(task).id(), name));
        };

        let namespaces = self.follower(Watched::Namespaces);
        let mut namespace_fold = NamespaceFold::new(Arc::clone(&self.facts), self.look_ups.namespaces());
        start(
            &mut tasks,
            "watches namespaces",
            Box::pin(async move { namespaces.follow(&mut namespace_fold).await }),
        );

        let nodes = self.follower(Watched::Nodes);
        let mut node_fold = NodeFold::new(Arc::clone(&self.facts), Arc::clone(&self.reader));
        start(
            &mut tasks,
            "watches nodes",
            Box::pin(async move { nodes.follow(&mut node_fold).await }),
        );

        let pods = self.follower(Watched::Pods);
        let freshness = Arc::clone(&self.freshness);
        let mut pod_fold = PodFold::new(
            Arc::clone(&self.facts),
            Arc::clone(&self.reader),
            self.look_ups.in_background(),
            self.metrics.clone(),
            self.timing.clone(),
        );
        start(
            &mut tasks,
            "watches pods",
            Box::pin(async move {
                // Whether a pod's ConfigMaps may be read can depend on the labels of its namespace.
                // A pod that is not bound yet finds its tentative place among the nodes that are known.
                freshness.wait_for(&[Watched::Namespaces, Watched::Nodes]).await;
                pods.follow(&mut pod_fold).await;
            }),
        );

        let slices = self.resources::<ResourceSlice>(Watched::ResourceSlices);
        start(&mut tasks, "watches ResourceSlices", slices);
        let classes = self.resources::<DeviceClass>(Watched::DeviceClasses);
        start(&mut tasks, "watches DeviceClasses", classes);
        let claims = self.resources::<ResourceClaim>(Watched::ResourceClaims);
        start(&mut tasks, "watches ResourceClaims", claims);
        let templates = self.resources::<ResourceClaimTemplate>(Watched::ClaimTemplates);
        start(&mut tasks, "watches ResourceClaimTemplates", templates);

        let config_maps = FollowedConfigMaps {
            client: self.client.clone(),
            reader: Arc::clone(&self.reader),
            freshness: Arc::clone(&self.freshness),
            metrics: self.metrics.clone(),
            timing: self.timing.clone(),
        };
        let task = Box::pin(config_maps.run());
        start(&mut tasks, "watches the device plugin's ConfigMaps", task);

        let housekeeping = Housekeeping {
            client: self.client.clone(),
            facts: Arc::clone(&self.facts),
            clock: Arc::clone(&self.clock),
            freshness: Arc::clone(&self.freshness),
            look_ups: self.look_ups.in_background(),
            metrics: self.metrics.clone(),
            timing: self.timing.clone(),
        };
        start(&mut tasks, "ends old reservations", Box::pin(housekeeping.run()));

        let ended = tasks.join_next_with_id().await;
        let (id, reason) = match ended {
            Some(Ok((id, ()))) => (Some(id), "it returned".to_owned()),
            Some(Err(error)) => (Some(error.id()), error.to_string()),
            None => (None, "nothing was started".to_owned()),
        };
        let task = names
            .iter()
            .find(|(known, _)| Some(*known) == id)
            .map_or("runs", |(_, name)| name);
        Stopped { task, reason }
    }

    fn follower(&self, watched: Watched) -> Follower {
        Follower {
            client: self.client.clone(),
            watched,
            freshness: Arc::clone(&self.freshness),
            metrics: self.metrics.clone(),
            timing: self.timing.clone(),
            paths: watched.paths().iter().map(|path| Cow::Borrowed(*path)).collect(),
            only: None,
            path: AtomicUsize::new(0),
        }
    }

    /// Follows one kind of dynamic resource allocation.
    fn resources<R: Resource>(&self, watched: Watched) -> Task {
        let follower = self.follower(watched);
        let mut fold: ResourceFold<F, R> = ResourceFold::new(Arc::clone(&self.facts));
        Box::pin(async move { follower.follow(&mut fold).await })
    }
}

type Task = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Locks the facts. A panic elsewhere under the lock leaves them as consistent as each single call is.
fn lock<F>(facts: &Mutex<F>) -> MutexGuard<'_, F> {
    facts.lock().unwrap_or_else(PoisonError::into_inner)
}
