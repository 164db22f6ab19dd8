//! The webhook over a live cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;

use crate::cli::args::{Ledger as LedgerKind, Serve};
use crate::cli::{Failure, policies};
use crate::cluster::{self, Cluster, Freshness, Reader, Timing};
use crate::configuration::ConfigMap;
use crate::demand::access::may_reach;
use crate::demand::other_systems::speaks;
use crate::device::GpuNode;
use crate::device::inventory;
use crate::engine::Sources;
use crate::finding::Code;
use crate::ledger::{Ledger, Stale};
use crate::policy::{ConfigMapName, PolicySet};
use crate::server::backend::{Asked, Clock, DenialListener, LookUps};
use crate::server::{Backend, LedgerDecider, Metrics, Readiness, Settings, locked};
use crate::snapshot::Snapshot;
use crate::workload::pod::{Node, OwnerReference, Pod};
use crate::workload::{Workload, WorkloadKind, asks_for_gpu};

use super::live_policies::LivePolicies;
use super::own_ca::{CERTIFIED, Keeper, Tools};
use super::plugin_configs::{self, PluginConfigs};
use super::reload::{self, Reload};
use super::replicas::Replicas;

/// What `/readyz` waits for.
const SYNCED: &str = "cluster cache synced";

/// How often `/readyz` learns why it still waits.
const TOLD_EVERY: Duration = Duration::from_millis(250);

/// Serves a live cluster until told to stop.
pub(super) async fn serve(args: &Serve) -> Result<(), Failure> {
    let seen = args.policy_dir.as_deref().map(reload::content);
    let policies = policies::load(args.policy_dir.as_deref(), &Snapshot::default())?;
    let client = cluster::connect(args.kubeconfig.as_deref())
        .await
        .map_err(|error| Failure::new(error.to_string()))?;
    let ledger = Arc::new(Mutex::new(Ledger::new(policies)));
    let clock = Clock::start();
    let timing = Timing {
        reservation_ttl: args.reservation_ttl,
        ..Timing::default()
    };
    let to_record = timing.record;
    let plugin = Arc::new(PluginConfigs::default());
    let reader = Arc::new(PolicyReader {
        ledger: Arc::clone(&ledger),
        plugin: Arc::clone(&plugin),
    });
    let mut cluster = Cluster::new(
        client.clone(),
        Arc::clone(&ledger),
        reader,
        Arc::new(move || clock.now()),
        timing,
    );
    let metrics = Arc::new(Metrics::new());
    let keeper = Keeper::of(&args.own_ca)?;
    let for_keeper = client.clone();
    let replicas = match args.ledger.unwrap_or(LedgerKind::Cluster) {
        LedgerKind::Memory => Replicas::alone(),
        LedgerKind::Cluster => Replicas::join(client, &mut cluster, Arc::clone(&ledger), clock),
    };
    let leadership = replicas.leadership();
    let leads = leadership.clone();
    let live_policies =
        LivePolicies::new(args.policy_dir.as_deref(), Arc::clone(&ledger), cluster.refresh())?;
    let live_policies = Arc::new(live_policies);
    let cluster = cluster
        .led_by(leadership.clone())
        .with_policies(Arc::<LivePolicies>::clone(&live_policies));
    metrics.gauge(
        "leader",
        "Whether this replica leads the others (1) or not (0)",
        move || Some(f64::from(u8::from(leadership.is_leader()))),
    );
    metrics.with_registry(|registry| cluster.metrics().register(registry, cluster.freshness()));
    let readiness = Readiness::awaiting(if keeper.is_some() {
        &[SYNCED, CERTIFIED]
    } else {
        &[SYNCED]
    });
    let certificates = Arc::new(super::certificates(args)?);
    let mut cluster = cluster;
    let denials = Arc::new(DenialEvents(cluster.tell_denials()));
    let look_ups = Arc::new(ClusterLookUps(cluster.look_ups()));
    let decider = LedgerDecider::new(Arc::clone(&ledger), clock);
    let decider = Arc::new(match replicas.recorder() {
        Some(recorder) => {
            super::tallies(&metrics, &recorder);
            decider
                .with_recorder(recorder)
                .answered_elsewhere_within(Settings::default().deadline + to_record)
        }
        None => decider,
    });
    let backend = Backend::new(decider, look_ups).with_listener(denials);
    let served = Arc::clone(&certificates);
    let bound = super::bind(args, backend, readiness.clone(), metrics, &ledger, served).await?;
    if let Some(keeper) = keeper {
        tokio::spawn(keeper.run(Tools {
            client: for_keeper,
            certificates,
            readiness: readiness.clone(),
            leadership: leads,
            ledger: Arc::clone(&ledger),
        }));
    }
    if let (Some(folder), Some(seen)) = (args.policy_dir.clone(), seen) {
        let put = Box::new(move |folder: &Path| live_policies.reload(folder));
        tokio::spawn(Reload { folder, seen, put }.follow());
    }
    // Before the nodes are read for the first time, so that they are read once.
    plugin.ask(&cluster.look_ups(), &in_force(&ledger)).await;
    let policies = {
        let ledger = Arc::clone(&ledger);
        move || in_force(&ledger)
    };
    tokio::spawn(plugin.keep_asking(cluster.look_ups(), policies, cluster.refresh_nodes()));
    tokio::spawn(tell_when_read(cluster.freshness(), readiness));
    let ended = tokio::select! {
        () = bound.run(crate::server::termination()) => Ok(()),
        stopped = cluster.run() => Err(Failure::new(stopped.to_string())),
    };
    replicas.leave().await;
    ended
}

/// Has `/readyz` say what is not read yet, until everything is.
async fn tell_when_read(freshness: Arc<Freshness>, readiness: Readiness) {
    let ready = freshness.ready();
    tokio::pin!(ready);
    while tokio::time::timeout(TOLD_EVERY, ready.as_mut()).await.is_err() {
        readiness.unmet(SYNCED, freshness.reasons().join("; "));
    }
    readiness.met(SYNCED);
    tracing::info!("the cluster's nodes, namespaces and pods are read");
}

/// Reads nodes and pods by the policies in force.
struct PolicyReader {
    ledger: Arc<Mutex<Ledger>>,
    plugin: Arc<PluginConfigs>,
}

impl PolicyReader {
    fn policies(&self) -> Arc<PolicySet> {
        in_force(&self.ledger)
    }
}

pub(super) fn in_force(ledger: &Mutex<Ledger>) -> Arc<PolicySet> {
    Arc::clone(locked(ledger).policies())
}

impl Reader for PolicyReader {
    fn node(&self, node: &Node) -> Option<GpuNode> {
        let policy = self.policies().for_device(&node.metadata.labels);
        let plugin = policy
            .device
            .plugin_config
            .as_ref()
            .and_then(|name| self.plugin.get(name));
        inventory::read_or_bare(
            node,
            inventory::Context {
                missing: policy.missing_facts,
                catalogue: policy.device.products.catalogue(),
                plugin: plugin.as_deref(),
            },
        )
    }

    fn node_config_maps(&self) -> BTreeSet<ConfigMapName> {
        plugin_configs::named(&self.policies())
    }

    fn take_node_config_map(&self, name: &ConfigMapName, map: Option<&ConfigMap>) -> bool {
        self.plugin.take_watched(name, map)
    }

    fn shows_all(&self, runtime_class: &str) -> bool {
        self.policies()
            .runtime_classes()
            .any(|class| class == runtime_class)
    }

    fn counts(&self, pod: &Pod) -> bool {
        asks_for_gpu(pod)
            || may_reach(pod, |class| self.shows_all(class))
            || speaks(pod) && self.policies().trusts_any_system()
    }

    fn may_read_config_maps(&self, pod: &Pod, namespace_labels: &BTreeMap<String, String>) -> bool {
        self.policies()
            .for_pod(namespace_labels, pod, None)
            .read_config_maps
    }
}

/// Denied pods, told on what makes them.
struct DenialEvents(cluster::Denials);

impl DenialListener for DenialEvents {
    fn is_due(&self, owner: &OwnerReference, code: Code) -> bool {
        self.0.is_due(owner, code)
    }

    fn tell(&self, namespace: &str, owner: &OwnerReference, code: Code, text: String) {
        self.0.tell(cluster::Denied {
            namespace: namespace.to_owned(),
            owner: owner.clone(),
            code,
            text,
        });
    }
}

/// The API server's answers, as a review needs them.
struct ClusterLookUps(cluster::LookUps);

impl LookUps for ClusterLookUps {
    fn config_maps<'a>(
        &'a self,
        namespace: &'a str,
        names: &'a BTreeSet<String>,
        allowed: bool,
    ) -> BoxFuture<'a, Box<dyn Sources + Send + Sync>> {
        Box::pin(async move {
            let fetched = self.0.config_maps(namespace, names, allowed).await;
            Box::new(fetched) as Box<dyn Sources + Send + Sync>
        })
    }

    fn namespace_labels<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, BTreeMap<String, String>> {
        Box::pin(async move { (*self.0.namespace_labels(namespace).await).clone() })
    }

    fn workload<'a>(
        &'a self,
        kind: WorkloadKind,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Option<Workload>> {
        Box::pin(async move {
            let found = self.0.workload(kind, namespace, name).await;
            found
                .map_err(|error| tracing::warn!("a change of scale is not judged: {error}"))
                .ok()
        })
    }

    fn owner_wants<'a>(
        &'a self,
        namespace: &'a str,
        owner: &'a OwnerReference,
        asked: Asked,
    ) -> BoxFuture<'a, Option<u32>> {
        Box::pin(self.0.owner_wants(namespace, owner, asked == Asked::Now))
    }

    fn is_missing<'a>(&'a self, pod: &'a Stale) -> BoxFuture<'a, bool> {
        Box::pin(async move { matches!(self.0.pod_exists(pod).await, Ok(false)) })
    }
}
