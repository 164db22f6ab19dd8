//! What a review needs beside the ledger, answered from a snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::{BoxFuture, ready};

use crate::engine::{LookUp, Sources};
use crate::server::LookUps;
use crate::snapshot::Snapshot;
use crate::workload::{Workload, WorkloadKind};

/// ConfigMaps of a snapshot, as far as the policy lets them be read.
struct ConfigMaps {
    snapshot: Arc<Snapshot>,
    allowed: bool,
}

impl Sources for ConfigMaps {
    fn config_map(&self, namespace: &str, name: &str) -> LookUp<'_> {
        self.snapshot.sources(self.allowed).config_map(namespace, name)
    }
}

/// A snapshot in the place of an API server.
#[derive(Clone, Debug)]
pub(super) struct SnapshotLookUps(Arc<Snapshot>);

impl SnapshotLookUps {
    pub(super) fn new(snapshot: Arc<Snapshot>) -> Self {
        Self(snapshot)
    }
}

impl LookUps for SnapshotLookUps {
    fn config_maps<'a>(
        &'a self,
        _namespace: &'a str,
        _names: &'a BTreeSet<String>,
        allowed: bool,
    ) -> BoxFuture<'a, Box<dyn Sources + Send + Sync>> {
        let snapshot = Arc::clone(&self.0);
        Box::pin(ready(
            Box::new(ConfigMaps { snapshot, allowed }) as Box<dyn Sources + Send + Sync>
        ))
    }

    fn namespace_labels<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, BTreeMap<String, String>> {
        Box::pin(ready(self.0.namespace_labels(namespace)))
    }

    fn workload<'a>(
        &'a self,
        kind: WorkloadKind,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Option<Workload>> {
        Box::pin(ready(self.0.workload(kind, namespace, name).cloned()))
    }
}
