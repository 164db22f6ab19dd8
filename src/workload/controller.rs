//! From an API object to its pod template and the number of pods that it makes.

use serde_json::Value;

use super::pod::{Metadata, OwnerReference, Pod};
use crate::finding::FieldPath;

/// Which object a verdict is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// Group and version (`apps/v1`).
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; `default` where a file leaves it out.
    pub namespace: String,
    /// Name; the `generateName` prefix where there is no name yet.
    pub name: String,
}

/// The kinds that make pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the variants are the API's kinds")]
pub enum WorkloadKind {
    Pod,
    Deployment,
    StatefulSet,
    ReplicaSet,
    ReplicationController,
    DaemonSet,
    Job,
    CronJob,
}

/// How many pods an object makes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaPlan {
    /// Pods in the steady state (`replicas`, `parallelism`; 1 for a bare pod).
    pub desired: u32,
    /// Extra pods that a rollout may add.
    pub surge: u32,
    /// Pods that a rollout may take away first.
    pub unavailable: u32,
    /// Maximum by an autoscaler, where one is known.
    pub max: Option<u32>,
    /// One pod on each node instead of `desired` (DaemonSet).
    pub per_node: bool,
}

/// An object that makes pods, with its template.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// The object.
    pub object: ObjectRef,
    /// Its identity; empty where it has none yet.
    pub uid: String,
    /// Its kind.
    pub kind: WorkloadKind,
    /// The pod, or the template with the workload's namespace filled in.
    pub pod: Pod,
    /// Where the template stands in the object: empty for a pod, else `spec.template`.
    pub template: FieldPath,
    /// How many pods.
    pub replicas: ReplicaPlan,
    /// The managing controller, where the object has one.
    pub controller: Option<OwnerReference>,
    /// Whether the object is being deleted.
    pub deleting: bool,
}

/// An object that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct Malformed {
    /// The field.
    pub path: String,
    /// What is wrong with its value and what would be right.
    pub message: String,
}

impl Workload {
    /// Reads an object of one of the kinds that make pods; `None` for any other kind.
    pub fn read(_object: &Value) -> Result<Option<Self>, Malformed> {
        Ok(None)
    }
}

/// The managing controller of an object.
#[must_use]
pub fn controller_of(metadata: &Metadata) -> Option<&OwnerReference> {
    metadata.owner_references.iter().find(|owner| owner.controller)
}
