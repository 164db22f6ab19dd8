//! From an API object to its pod template and the number of pods that it makes.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::custom::CustomKind;
use super::decode::{self, FromText, FromValue, Source};
use super::null::as_absent;
use super::pod::{Metadata, OwnerReference, Pod};
use super::rollout::{
    CronJobSpec, DaemonSetSpec, DeploymentSpec, JobSpec, PodMaker, ReplicatedSpec, without_template,
};
use super::sets::PodSet;
use super::template::{Bases, Layout};
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
    /// A kind with pod templates in a schema of its own.
    Custom(&'static CustomKind),
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
    /// Pods of a further run that may begin before these have ended (CronJob under `Allow`).
    pub overlap: u32,
    /// Pods that keep the template that they had through a rollout (`partition` of a StatefulSet).
    pub kept: u32,
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
    /// How the template lies in an object of another schema; `None` for the built-in kinds.
    pub layout: Option<Arc<Layout>>,
    /// The further templates of an object that has several.
    pub others: Vec<PodSet>,
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
    ///
    /// Only the fields in use are decoded. A kind of ours under another group is another kind, and `None`; under a
    /// version of its own group that is not read (`apps/v1beta1`) it is an error that says so.
    pub fn read(object: &Value) -> Result<Option<Self>, Malformed> {
        Self::read_on(object, &Bases::default())
    }

    /// As [`read`](Self::read), with the objects that `object` may build on.
    pub fn read_on(object: &Value, bases: &Bases) -> Result<Option<Self>, Malformed> {
        match decode::kind_of_value(object)? {
            Some(WorkloadKind::Custom(kind)) => Self::of_custom(kind, object, bases).map(Some),
            kind => kind
                .map(|kind| Self::decode(kind, &FromValue(object)))
                .transpose(),
        }
    }

    /// The same from JSON text, without a tree in between: for pods this is the webhook's hot path. Kind and version
    /// are read first and reading stops there for objects that are not ours; a failure is decoded a second time, only
    /// then, to name its field.
    pub fn from_json(text: &str) -> Result<Option<Self>, Malformed> {
        decode::kind_of_text(text)?
            .map(|kind| Self::decode(kind, &FromText(text)))
            .transpose()
    }

    fn decode<'de>(kind: WorkloadKind, source: &impl Source<'de>) -> Result<Self, Malformed> {
        match kind {
            WorkloadKind::Pod => {
                let pod: Pod = source.decode()?;
                Ok(Self::of_pod(pod))
            }
            WorkloadKind::Deployment => Self::of_maker::<DeploymentSpec>(kind, source.decode()?),
            WorkloadKind::StatefulSet | WorkloadKind::ReplicaSet | WorkloadKind::ReplicationController => {
                Self::of_maker::<ReplicatedSpec>(kind, source.decode()?)
            }
            WorkloadKind::DaemonSet => Self::of_maker::<DaemonSetSpec>(kind, source.decode()?),
            WorkloadKind::Job => Self::of_maker::<JobSpec>(kind, source.decode()?),
            WorkloadKind::CronJob => Self::of_maker::<CronJobSpec>(kind, source.decode()?),
            WorkloadKind::Custom(kind) => {
                let object: Value = source.decode()?;
                Self::of_custom(kind, &object, &Bases::default())
            }
        }
    }

    /// The workload that a pod alone is.
    #[must_use]
    pub fn of_pod(mut pod: Pod) -> Self {
        let object = ObjectRef::of(WorkloadKind::Pod, &pod.metadata);
        pod.metadata.namespace.clone_from(&object.namespace);
        Self {
            object,
            uid: pod.metadata.uid.clone(),
            kind: WorkloadKind::Pod,
            template: FieldPath::default(),
            replicas: ReplicaPlan {
                desired: 1,
                surge: 0,
                unavailable: 0,
                overlap: 0,
                kept: 0,
                max: None,
                per_node: false,
            },
            layout: None,
            others: Vec::new(),
            controller: controller_of(&pod.metadata).cloned(),
            deleting: pod.metadata.deletion_timestamp.is_some(),
            pod,
        }
    }

    fn of_maker<S: PodMaker>(kind: WorkloadKind, made: Object<S>) -> Result<Self, Malformed> {
        let path = kind.template_path();
        let object = ObjectRef::of(kind, &made.metadata);
        let replicas = made.spec.plan();
        let mut pod = made.spec.into_template().ok_or_else(|| without_template(path))?;
        pod.metadata.namespace.clone_from(&object.namespace);
        // A controller gives each pod a name of its own.
        pod.metadata.name.clear();
        Ok(Self {
            object,
            kind,
            pod,
            template: FieldPath::new(path),
            replicas,
            layout: None,
            others: Vec::new(),
            controller: controller_of(&made.metadata).cloned(),
            deleting: made.metadata.deletion_timestamp.is_some(),
            uid: made.metadata.uid,
        })
    }
}

impl ObjectRef {
    fn of(kind: WorkloadKind, metadata: &Metadata) -> Self {
        let or = |text: &String, other: &str| {
            if text.is_empty() {
                other.to_owned()
            } else {
                text.clone()
            }
        };
        Self {
            api_version: kind.api_version().to_owned(),
            kind: kind.as_str().to_owned(),
            namespace: or(&metadata.namespace, "default"),
            name: or(&metadata.name, &metadata.generate_name),
        }
    }
}

impl WorkloadKind {
    /// Every built-in kind.
    pub(super) const ALL: [Self; 8] = [
        Self::Pod,
        Self::Deployment,
        Self::StatefulSet,
        Self::ReplicaSet,
        Self::ReplicationController,
        Self::DaemonSet,
        Self::Job,
        Self::CronJob,
    ];

    /// The API's word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::ReplicaSet => "ReplicaSet",
            Self::ReplicationController => "ReplicationController",
            Self::DaemonSet => "DaemonSet",
            Self::Job => "Job",
            Self::CronJob => "CronJob",
            Self::Custom(kind) => kind.kind,
        }
    }

    /// Group and version under which a built-in kind is read; of another schema its group.
    #[must_use]
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::Pod | Self::ReplicationController => "v1",
            Self::Deployment | Self::StatefulSet | Self::ReplicaSet | Self::DaemonSet => "apps/v1",
            Self::Job | Self::CronJob => "batch/v1",
            // Only the built-in kinds are read under one version alone.
            Self::Custom(kind) => kind.group,
        }
    }

    /// Where the pod template stands; empty for a pod.
    #[must_use]
    pub const fn template_path(self) -> &'static str {
        match self {
            Self::Pod => "",
            Self::CronJob => "spec.jobTemplate.spec.template",
            _ => "spec.template",
        }
    }
}

/// The managing controller of an object.
#[must_use]
pub fn controller_of(metadata: &Metadata) -> Option<&OwnerReference> {
    metadata.owner_references.iter().find(|owner| owner.controller)
}

/// Metadata and specification of a workload, without its status.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound = "S: Default + Deserialize<'de>")]
struct Object<S> {
    #[serde(deserialize_with = "as_absent")]
    metadata: Metadata,
    #[serde(deserialize_with = "as_absent")]
    spec: S,
}

#[cfg(test)]
mod tests;
