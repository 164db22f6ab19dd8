//! Which ConfigMaps are followed beside the nodes: those that policies name, as policies come and go.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use kube::Client;
use tokio::task::{AbortHandle, JoinSet};

use super::facts::Reader;
use super::fold::ConfigMapFold;
use super::freshness::{Freshness, Watched};
use super::metrics::Metrics;
use super::timing::Timing;
use super::watch::Follower;
use crate::policy::ConfigMapName;

/// See the module.
pub(super) struct FollowedConfigMaps {
    pub(super) client: Client,
    pub(super) reader: Arc<dyn Reader>,
    pub(super) freshness: Arc<Freshness>,
    pub(super) metrics: Metrics,
    pub(super) timing: Timing,
}

impl FollowedConfigMaps {
    /// Follows them for good. Returns only where a follower broke down.
    pub(super) async fn run(self) {
        let mut refreshes = self.freshness.refreshes(Watched::PluginConfigs);
        let mut tasks = JoinSet::new();
        let mut followed: BTreeMap<ConfigMapName, AbortHandle> = BTreeMap::new();
        loop {
            let wanted = self.reader.node_config_maps();
            followed.retain(|name, task| {
                let stays = wanted.contains(name);
                if !stays {
                    task.abort();
                }
                stays
            });
            if wanted.is_empty() {
                self.freshness.does_without(Watched::PluginConfigs);
            }
            for name in wanted {
                if let Entry::Vacant(entry) = followed.entry(name) {
                    let task = tasks.spawn(self.follow(entry.key().clone()));
                    entry.insert(task);
                }
            }
            loop {
                tokio::select! {
                    _ = refreshes.changed() => break,
                    Some(ended) = tasks.join_next() => match ended {
                        Err(error) if error.is_cancelled() => {}
                        Ok(()) | Err(_) => return,
                    },
                }
            }
        }
    }

    fn follow(&self, name: ConfigMapName) -> impl Future<Output = ()> + Send + 'static {
        let follower = Follower {
            client: self.client.clone(),
            watched: Watched::PluginConfigs,
            freshness: Arc::clone(&self.freshness),
            metrics: self.metrics.clone(),
            timing: self.timing.clone(),
            paths: vec![Cow::Owned(format!(
                "/api/v1/namespaces/{}/configmaps",
                name.namespace
            ))],
            only: Some(name.name.clone()),
            path: AtomicUsize::new(0),
        };
        let nodes = self.freshness.refresh_nodes();
        let mut fold = ConfigMapFold::new(Arc::clone(&self.reader), name, nodes);
        async move { follower.follow(&mut fold).await }
    }
}
