//! The live cluster: watches that fill the ledger, look-ups that a verdict needs, and what is told back as Events.
//!
//! ```text
//! nodes, pods, namespaces, slices, claims, PriorityClasses --LIST, WATCH--> watch -> projection -> fold -> ledger
//! ConfigMaps of the device plugin that policies name --LIST, WATCH--> nodes read again
//! ConfigMaps, workloads, owners --GET--> look-ups
//! reservations that grew old --GET pod--> housekeeping -> ledger
//! records that replicas share --LIST, WATCH--> watch -> fold -> ledger; a new one <--PUT--- store
//! policies --LIST, WATCH--> whoever brings them into force; what became of each --PATCH--> its status (the leader alone)
//! Lease --GET, PUT--> leader: which replica does what one is to do
//! ledger --over budget--> Event on the node
//! ledger --number of each node--> advertise --PATCH--> status of the node (the leader alone)
//! ```
//!
//! Objects are decoded into the narrow types of [`crate::workload::pod`], folded at once, and not kept.

pub mod advertise;
mod backoff;
mod causes;
mod config_maps;
mod connect;
mod denials;
mod facts;
mod fold;
mod freshness;
mod gpu_ledgers;
mod housekeeping;
mod leader;
mod lookup;
mod metrics;
mod over_budget;
pub mod own_secret;
mod policies;
pub mod probe;
mod projection;
mod timing;
pub mod uninstall;
mod watch;

use std::borrow::Cow;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Client;
use tokio::task::JoinSet;

use crate::dra::objects::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use crate::ledger::Moment;
use crate::workload::priority::PriorityClass;

pub use connect::{ConnectError, connect};
pub use denials::{Denials, Denied};
pub use facts::{Facts, OverBudget, Reader};
pub use freshness::{Freshness, Refresh, Watched};
pub use gpu_ledgers::{DEFINITION, DEFINITION_NAME, KubernetesStore};
pub use leader::{Appointment, Candidate, Leadership, Term};
pub use lookup::{Fetched, LookUpError, LookUps};
pub use metrics::Metrics;
pub use policies::{PolicyObjects, Said, Saying};
pub use timing::Timing;

use advertise::Advertiser;
use config_maps::FollowedConfigMaps;
use fold::{NamespaceFold, NodeFold, PodFold, PolicyFold, RecordFold, Resource, ResourceFold};
use housekeeping::Housekeeping;
use policies::PolicyReporter;
use watch::Follower;

/// The reason of Events on what makes denied pods.
pub const DENIED: &str = "GpuMemoryDenied";

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
    /// Whether replicas share their records.
    shares_records: bool,
    leader: Leadership,
    /// Writes what is told of denied pods.
    denied: Option<denials::Writer>,
    /// Who takes policy objects; where there is nobody they are not followed.
    policies: Option<Arc<dyn PolicyObjects>>,
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
        freshness.does_without(Watched::GpuLedgers);
        freshness.does_without(Watched::Policies);
        Self {
            client,
            facts,
            reader,
            clock,
            timing,
            freshness,
            look_ups,
            metrics,
            shares_records: false,
            leader: Leadership::alone(),
            denied: None,
            policies: None,
        }
    }

    /// Tells of denied pods by Events on what makes them; gives what is told of them.
    pub fn tell_denials(&mut self) -> Denials {
        let look_ups = self.look_ups.in_background();
        let (client, metrics) = (self.client.clone(), self.metrics.clone());
        let (denials, writer) = Denials::new(client, look_ups, metrics, self.timing.clone());
        self.denied = Some(writer);
        denials
    }

    /// Writes to nodes only while this replica leads; without this it always does.
    #[must_use]
    pub fn led_by(mut self, leader: Leadership) -> Self {
        self.leader = leader;
        self
    }

    /// Follows policy objects, too, and says in their status what became of them while this replica leads. Nodes and pods
    /// are read once the policies are known.
    #[must_use]
    pub fn with_policies(mut self, objects: Arc<dyn PolicyObjects>) -> Self {
        self.freshness.needs(Watched::Policies);
        self.policies = Some(objects);
        self
    }

    /// Follows the records that replicas share, too, and waits for their list; gives what reads and writes them.
    pub fn share_records(&mut self) -> KubernetesStore {
        self.shares_records = true;
        self.freshness.needs(Watched::GpuLedgers);
        let (client, metrics) = (self.client.clone(), self.metrics.clone());
        KubernetesStore::new(client, metrics, self.timing.record)
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
    pub async fn run(mut self) -> Stopped {
        let mut started: Vec<(&'static str, Task)> = vec![
            ("watches namespaces", self.namespaces()),
            ("watches nodes", self.nodes()),
            ("watches pods", self.pods()),
            (
                "watches ResourceSlices",
                self.resources::<ResourceSlice>(Watched::ResourceSlices),
            ),
            (
                "watches DeviceClasses",
                self.resources::<DeviceClass>(Watched::DeviceClasses),
            ),
            (
                "watches ResourceClaims",
                self.resources::<ResourceClaim>(Watched::ResourceClaims),
            ),
            (
                "watches ResourceClaimTemplates",
                self.resources::<ResourceClaimTemplate>(Watched::ClaimTemplates),
            ),
            (
                "watches PriorityClasses",
                self.resources::<PriorityClass>(Watched::PriorityClasses),
            ),
            ("watches the device plugin's ConfigMaps", self.config_maps()),
            ("ends old reservations", self.housekeeping()),
            ("advertises memory on nodes", self.advertiser()),
        ];
        if let Some(objects) = &self.policies {
            started.push(("watches GpuSharingPolicies", self.policy_objects(objects)));
            started.push(("tells what became of policies", self.policy_reporter(objects)));
        }
        if self.shares_records {
            started.push(("watches GpuLedgers", self.records()));
        }
        if let Some(writer) = self.denied.take() {
            started.push(("tells of denied pods", Box::pin(writer.run())));
        }
        first_to_end(started).await
    }

    fn namespaces(&self) -> Task {
        let follower = self.follower(Watched::Namespaces);
        let mut fold = NamespaceFold::new(Arc::clone(&self.facts), self.look_ups.namespaces());
        Box::pin(async move { follower.follow(&mut fold).await })
    }

    fn nodes(&self) -> Task {
        let follower = self.follower(Watched::Nodes);
        let mut fold = NodeFold::new(Arc::clone(&self.facts), Arc::clone(&self.reader));
        let freshness = Arc::clone(&self.freshness);
        Box::pin(async move {
            // Policies decide how nodes are read.
            freshness.wait_for(&[Watched::Policies]).await;
            follower.follow(&mut fold).await;
        })
    }

    fn pods(&self) -> Task {
        let follower = self.follower(Watched::Pods);
        let freshness = Arc::clone(&self.freshness);
        let mut fold = PodFold::new(
            Arc::clone(&self.facts),
            Arc::clone(&self.reader),
            self.look_ups.in_background(),
            self.metrics.clone(),
            self.timing.clone(),
        );
        Box::pin(async move {
            // Whether a pod's ConfigMaps may be read can depend on the labels of its namespace.
            // A pod that is not bound yet finds its tentative place among the nodes that are known.
            // One that the scheduler put elsewhere than it was admitted for is counted by both, so the records
            // come first.
            freshness
                .wait_for(&[Watched::Namespaces, Watched::Nodes, Watched::GpuLedgers])
                .await;
            follower.follow(&mut fold).await;
        })
    }

    fn policy_objects(&self, objects: &Arc<dyn PolicyObjects>) -> Task {
        let follower = self.follower(Watched::Policies);
        let mut fold = PolicyFold::new(Arc::clone(objects));
        Box::pin(async move { follower.follow(&mut fold).await })
    }

    fn policy_reporter(&self, objects: &Arc<dyn PolicyObjects>) -> Task {
        let reporter = PolicyReporter {
            client: self.client.clone(),
            objects: Arc::clone(objects),
            freshness: Arc::clone(&self.freshness),
            leader: self.leader.clone(),
            timing: self.timing.clone(),
        };
        Box::pin(reporter.run())
    }

    fn records(&self) -> Task {
        let follower = self.follower(Watched::GpuLedgers);
        let freshness = Arc::clone(&self.freshness);
        let mut fold = RecordFold::new(
            Arc::clone(&self.facts),
            Arc::clone(&self.clock),
            self.timing.batch,
        );
        Box::pin(async move {
            // A pod of a record that is not seen yet stands on a node that is known by then.
            freshness.wait_for(&[Watched::Nodes]).await;
            follower.follow(&mut fold).await;
        })
    }

    fn config_maps(&self) -> Task {
        let followed = FollowedConfigMaps {
            client: self.client.clone(),
            reader: Arc::clone(&self.reader),
            freshness: Arc::clone(&self.freshness),
            metrics: self.metrics.clone(),
            timing: self.timing.clone(),
        };
        Box::pin(followed.run())
    }

    fn housekeeping(&self) -> Task {
        let housekeeping = Housekeeping {
            client: self.client.clone(),
            facts: Arc::clone(&self.facts),
            clock: Arc::clone(&self.clock),
            freshness: Arc::clone(&self.freshness),
            look_ups: self.look_ups.in_background(),
            metrics: self.metrics.clone(),
            timing: self.timing.clone(),
        };
        Box::pin(housekeeping.run())
    }

    fn advertiser(&self) -> Task {
        let advertiser = Advertiser {
            client: self.client.clone(),
            facts: Arc::clone(&self.facts),
            freshness: Arc::clone(&self.freshness),
            leader: self.leader.clone(),
            metrics: self.metrics.clone(),
            timing: self.timing.clone(),
        };
        Box::pin(advertiser.run())
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

    /// Follows one kind of objects that are kept as they are.
    fn resources<R: Resource>(&self, watched: Watched) -> Task {
        let follower = self.follower(watched);
        let mut fold: ResourceFold<F, R> = ResourceFold::new(Arc::clone(&self.facts));
        Box::pin(async move { follower.follow(&mut fold).await })
    }
}

type Task = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs the named tasks together, and tells of the first that ends: none is meant to.
async fn first_to_end(started: Vec<(&'static str, Task)>) -> Stopped {
    let mut tasks = JoinSet::new();
    let names: Vec<_> = started
        .into_iter()
        .map(|(name, task)| (tasks.spawn(task).id(), name))
        .collect();
    let (id, reason) = match tasks.join_next_with_id().await {
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

/// Locks the facts. A panic elsewhere under the lock leaves them as consistent as each single call is.
fn lock<F>(facts: &Mutex<F>) -> MutexGuard<'_, F> {
    facts.lock().unwrap_or_else(PoisonError::into_inner)
}
