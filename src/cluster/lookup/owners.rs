//! How many pods an owner wants.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use tokio::time::Instant;

use super::{LookUps, namespaced};
use crate::workload::controller_of;
use crate::workload::pod::{Metadata, OwnerReference};

/// Entries from which on outdated ones are thrown away.
const SWEEP_FROM: usize = 256;

/// Answers of a moment ago, by UID. A question that failed is not kept.
#[derive(Default)]
pub(super) struct Owners(Mutex<HashMap<String, Place>>);

type Place = Arc<tokio::sync::Mutex<Option<(Instant, Option<u32>)>>>;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Owner {
    metadata: Identity,
    spec: Wish,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Identity {
    uid: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wish {
    replicas: Option<u32>,
    parallelism: Option<u32>,
}

impl LookUps {
    /// The number of pods that a controller wants at once; `None` where it is of a kind that does not say (DaemonSet),
    /// is gone, is another object of the same name, or cannot be asked in time.
    /// An answer of a moment ago will do, unless `now`.
    pub async fn owner_wants(&self, namespace: &str, owner: &OwnerReference, now: bool) -> Option<u32> {
        let asked_at = Instant::now();
        let (group, plural, kind) = match (owner.api_version.as_str(), owner.kind.as_str()) {
            ("apps/v1", "ReplicaSet") => ("apps", "replicasets", "replicaset"),
            ("apps/v1", "StatefulSet") => ("apps", "statefulsets", "statefulset"),
            ("v1", "ReplicationController") => ("", "replicationcontrollers", "replicationcontroller"),
            ("batch/v1", "Job") => ("batch", "jobs", "job"),
            _ => return None,
        };
        let place = self.owners.place(&owner.uid, self.timing.owner_ttl);
        let asked = async {
            let mut entry = place.lock().await;
            if let Some((read, wants)) = *entry
                && if now {
                    // Another review may have asked while this one waited for its turn.
                    read >= asked_at
                } else {
                    read.elapsed() < self.timing.owner_ttl
                }
            {
                self.metrics.looked_up(kind, "cached");
                return wants;
            }
            let path = namespaced(group, "v1", namespace, plural);
            let read = Instant::now();
            let found: Owner = self.get(&path, kind, namespace, &owner.name).await.ok()?;
            let same = found.metadata.uid == owner.uid;
            let wish = if kind == "job" {
                found.spec.parallelism
            } else {
                found.spec.replicas
            };
            // The API server fills in the default of 1 when it stores the object.
            let wants = same.then(|| wish.unwrap_or(1));
            *entry = Some((read, wants));
            wants
        };
        tokio::time::timeout(self.timing.look_up, asked)
            .await
            .ok()
            .flatten()
    }
}

impl LookUps {
    /// The controller that an owner belongs to itself; `None` where it has none, or where that cannot be told in time.
    pub(in crate::cluster) async fn owner_of(
        &self,
        namespace: &str,
        owner: &OwnerReference,
        within: std::time::Duration,
    ) -> Option<OwnerReference> {
        let (group, plural, kind) = match (owner.api_version.as_str(), owner.kind.as_str()) {
            ("apps/v1", "ReplicaSet") => ("apps", "replicasets", "replicaset"),
            ("batch/v1", "Job") => ("batch", "jobs", "job"),
            _ => return None,
        };
        let path = namespaced(group, "v1", namespace, plural);
        let found: Controlled = self
            .get_within(within, &path, kind, namespace, &owner.name)
            .await
            .ok()?;
        let same = found.metadata.uid == owner.uid;
        controller_of(&found.metadata).filter(|_| same).cloned()
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Controlled {
    metadata: Metadata,
}

impl Owners {
    fn place(&self, uid: &str, ttl: std::time::Duration) -> Place {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() >= SWEEP_FROM && !places.contains_key(uid) {
            places.retain(|_, place| {
                let in_use = Arc::strong_count(place) > 1;
                in_use
                    || place
                        .try_lock()
                        .is_ok_and(|entry| entry.is_some_and(|(read, _)| read.elapsed() < ttl))
            });
        }
        Arc::clone(places.entry(uid.to_owned()).or_default())
    }
}
