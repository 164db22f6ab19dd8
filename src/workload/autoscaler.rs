//! Objects that change how many pods another object makes: HorizontalPodAutoscaler and KEDA's ScaledObject; and KEDA's
//! ScaledJob, which makes Jobs from a template of its own.
//!
//! Sources: Kubernetes `staging/src/k8s.io/api/autoscaling/{v1,v2}/types.go`; KEDA `apis/keda/v1alpha1/scaledobject_types.go`
//! and `controllers/keda/hpa.go` (`defaultHPAMaxReplicas`), `apis/keda/v1alpha1/scaledjob_types.go` (`defaultScaledJobMaxReplicaCount`)
//! and `pkg/scaling/executor/scale_jobs.go`: with the Jobs that run there are never more than the maximum.

use serde::Deserialize;
use serde_json::{Value, json};

use super::controller::{Malformed, ObjectRef, Workload, WorkloadKind, controller_of};
use super::custom::CustomKind;
use super::decode::{FromText, FromValue, Source};
use super::null::as_absent;
use super::pod::Metadata;
use super::rollout::Count;
use crate::finding::FieldPath;

/// What KEDA scales to where `maxReplicaCount` is not written.
const KEDA_MAXIMUM: u32 = 100;
/// Longest name of a kind or an object that the API server takes.
const LONGEST_NAME: usize = 253;

/// The object that is scaled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleTarget {
    /// Group and version, as written.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name; it stands in the namespace of the autoscaler.
    pub name: String,
}

/// An object that scales another.
#[derive(Clone, Debug, PartialEq)]
pub struct Autoscaler {
    /// The autoscaler.
    pub object: ObjectRef,
    /// What it scales.
    pub target: ScaleTarget,
    /// Most replicas that it sets.
    pub max: u32,
    /// Least replicas that it keeps; its maximum cannot be lower.
    pub min: u32,
    /// The field of the maximum.
    pub max_path: FieldPath,
    /// Whether the maximum is written, and not a default.
    pub is_written: bool,
    /// Whether another object made it, with which it changes (KEDA makes a HorizontalPodAutoscaler of its own).
    pub is_owned: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// One of the Jobs that it starts, where it has a template of its own instead of a target.
    pub job: Option<Box<Workload>>,
}

impl Autoscaler {
    /// Whether objects of this group and kind are read.
    #[must_use]
    pub fn is_kind(group: &str, kind: &str) -> bool {
        Form::of(group, kind).is_some()
    }

    /// Reads an autoscaler; `None` for an object of any other kind. A field that the API server would refuse is an error
    /// that names it.
    pub fn read(object: &Value) -> Result<Option<Self>, Malformed> {
        let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
        let api_version = text("apiVersion");
        match Form::of(group_of(api_version), text("kind")) {
            Some(form) => form.read(&FromValue(object), api_version).map(Some),
            None => Ok(None),
        }
    }

    /// The same from the text of an object of this group, version and kind.
    pub fn from_json(text: &str, api_version: &str, kind: &str) -> Result<Option<Self>, Malformed> {
        match Form::of(group_of(api_version), kind) {
            Some(form) => form.read(&FromText(text), api_version).map(Some),
            None => Ok(None),
        }
    }

    /// The kind of the object that it scales; `None` where that is none that makes pods.
    #[must_use]
    pub fn target_kind(&self) -> Option<WorkloadKind> {
        let ScaleTarget {
            api_version, kind, ..
        } = &self.target;
        // Without a group the kind alone says which is meant.
        match (group_of(api_version), kind.as_str()) {
            ("apps" | "", "Deployment") => Some(WorkloadKind::Deployment),
            ("apps" | "", "StatefulSet") => Some(WorkloadKind::StatefulSet),
            ("apps" | "", "ReplicaSet") => Some(WorkloadKind::ReplicaSet),
            ("", "ReplicationController") => Some(WorkloadKind::ReplicationController),
            (group, kind) => CustomKind::of(group, kind).map(WorkloadKind::Custom),
        }
    }

    /// Its own Jobs, as many at once as it starts at most; `None` where it scales another object. Their name is its own.
    #[must_use]
    pub fn jobs_at_the_maximum(&self) -> Option<Workload> {
        let mut jobs = Workload::clone(self.job.as_deref()?);
        jobs.replicas.desired = jobs.replicas.desired.saturating_mul(self.max);
        jobs.object.namespace.clone_from(&self.object.namespace);
        jobs.pod.metadata.namespace.clone_from(&self.object.namespace);
        Some(jobs)
    }

    /// Whether this workload is the one that it scales.
    #[must_use]
    pub fn scales(&self, workload: &Workload) -> bool {
        self.target_kind() == Some(workload.kind)
            && self.target.name == workload.object.name
            && self.object.namespace == workload.object.namespace
    }
}

impl Workload {
    /// The object with so many replicas, as its `scale` sub-resource sets them; `None` where it has none that is known.
    #[must_use]
    pub fn scaled_to(&self, replicas: u32) -> Option<Self> {
        let mut scaled = self.clone();
        if !matches!(self.kind, WorkloadKind::Custom(_)) {
            let has_scale = matches!(
                self.kind,
                WorkloadKind::Deployment
                    | WorkloadKind::StatefulSet
                    | WorkloadKind::ReplicaSet
                    | WorkloadKind::ReplicationController
            );
            scaled.replicas.desired = replicas;
            return has_scale.then_some(scaled);
        }
        let first = (&mut scaled.replicas, &mut scaled.layout);
        let others = scaled
            .others
            .iter_mut()
            .map(|set| (&mut set.replicas, &mut set.layout));
        let mut is_scaled = false;
        for (plan, layout) in std::iter::once(first).chain(others) {
            let Some(scale) = layout.as_ref().and_then(|layout| layout.scale.as_ref()) else {
                continue;
            };
            if scale.path != FieldPath::new("spec.replicas") {
                continue;
            }
            plan.desired = replicas.saturating_mul(scale.pods);
            if let Some(scale) = layout
                .as_mut()
                .and_then(|layout| std::sync::Arc::make_mut(layout).scale.as_mut())
            {
                scale.now = replicas;
            }
            is_scaled = true;
        }
        is_scaled.then_some(scaled)
    }
}

/// Which of the schemas an object has.
#[derive(Clone, Copy)]
enum Form {
    HorizontalPodAutoscaler,
    ScaledObject,
    ScaledJob,
}

impl Form {
    fn of(group: &str, kind: &str) -> Option<Self> {
        match (group, kind) {
            ("autoscaling", "HorizontalPodAutoscaler") => Some(Self::HorizontalPodAutoscaler),
            ("keda.sh", "ScaledObject") => Some(Self::ScaledObject),
            ("keda.sh", "ScaledJob") => Some(Self::ScaledJob),
            _ => None,
        }
    }

    fn read<'de>(self, source: &impl Source<'de>, api_version: &str) -> Result<Autoscaler, Malformed> {
        let mut job = None;
        let (kind, metadata, target, max, min) = match self {
            Self::HorizontalPodAutoscaler => {
                let Object { metadata, spec }: Object<HorizontalSpec> = source.decode()?;
                let max = spec.max_replicas.ok_or_else(|| Malformed {
                    path: "spec.maxReplicas".to_owned(),
                    message: "is missing: write the most replicas that the autoscaler may set, 1 or more"
                        .to_owned(),
                })?;
                let min = spec.min_replicas.map_or(1, Count::get);
                let target = spec.scale_target_ref;
                ("HorizontalPodAutoscaler", metadata, target, Some(max), min)
            }
            Self::ScaledObject => {
                let Object { metadata, spec }: Object<ScaledSpec> = source.decode()?;
                let min = spec.min_replica_count.map_or(0, Count::get);
                let target = TargetRef {
                    api_version: spec.scale_target_ref.api_version.or(Some("apps/v1".to_owned())),
                    kind: spec.scale_target_ref.kind.or(Some("Deployment".to_owned())),
                    ..spec.scale_target_ref
                };
                ("ScaledObject", metadata, target, spec.max_replica_count, min)
            }
            Self::ScaledJob => {
                let Object { metadata, spec }: Object<JobsSpec> = source.decode()?;
                let min = spec.min_replica_count.map_or(0, Count::get);
                job = read_job(&metadata, &spec.job_target_ref)?.map(Box::new);
                let target = TargetRef {
                    api_version: Some("batch/v1".to_owned()),
                    kind: Some("Job".to_owned()),
                    // Its Jobs have generated names.
                    name: Some("of-its-own".to_owned()),
                };
                ("ScaledJob", metadata, target, spec.max_replica_count, min)
            }
        };
        let wanted = |field: &str, value: Option<String>| match value {
            Some(text) if !text.is_empty() && text.len() <= LONGEST_NAME => Ok(text),
            other => Err(Malformed {
                path: format!("spec.scaleTargetRef.{field}"),
                message: match other {
                    Some(text) if !text.is_empty() => {
                        format!(
                            "has {} characters, and at most {LONGEST_NAME} are a name",
                            text.len()
                        )
                    }
                    _ => format!("is missing: write the {field} of the object that is scaled"),
                },
            }),
        };
        let or = |text: &String, other: &str| {
            if text.is_empty() {
                other.to_owned()
            } else {
                text.clone()
            }
        };
        Ok(Autoscaler {
            object: ObjectRef {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                namespace: or(&metadata.namespace, "default"),
                name: or(&metadata.name, &metadata.generate_name),
            },
            target: ScaleTarget {
                api_version: target.api_version.unwrap_or_default(),
                kind: wanted("kind", target.kind)?,
                name: wanted("name", target.name)?,
            },
            is_written: max.is_some(),
            max: max.map_or(KEDA_MAXIMUM, Count::get),
            min,
            max_path: FieldPath::new(match self {
                Self::HorizontalPodAutoscaler => "spec.maxReplicas",
                Self::ScaledObject | Self::ScaledJob => "spec.maxReplicaCount",
            }),
            job,
            is_owned: controller_of(&metadata).is_some(),
            deleting: metadata.deletion_timestamp.is_some(),
        })
    }
}

/// The Job that a ScaledJob starts; `None` where it says nothing of it.
fn read_job(metadata: &Metadata, spec: &Value) -> Result<Option<Workload>, Malformed> {
    if spec.is_null() {
        return Ok(None);
    }
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": metadata.name, "namespace": metadata.namespace}, "spec": spec,
    });
    Workload::read(&job).map_err(|malformed| Malformed {
        path: match malformed.path.strip_prefix("spec") {
            Some(rest) => format!("spec.jobTargetRef{rest}"),
            None => malformed.path,
        },
        ..malformed
    })
}

fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound = "S: Default + Deserialize<'de>")]
struct Object<S> {
    #[serde(deserialize_with = "as_absent")]
    metadata: Metadata,
    #[serde(deserialize_with = "as_absent")]
    spec: S,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TargetRef {
    api_version: Option<String>,
    kind: Option<String>,
    name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HorizontalSpec {
    #[serde(deserialize_with = "as_absent")]
    scale_target_ref: TargetRef,
    max_replicas: Option<Count>,
    min_replicas: Option<Count>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ScaledSpec {
    #[serde(deserialize_with = "as_absent")]
    scale_target_ref: TargetRef,
    max_replica_count: Option<Count>,
    min_replica_count: Option<Count>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct JobsSpec {
    /// A `JobSpec` of `batch/v1`.
    job_target_ref: Value,
    max_replica_count: Option<Count>,
    min_replica_count: Option<Count>,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_are_read_with_their_defaults() {
        let hpa = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "chat", "namespace": "llm"},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "chat"},
                     "minReplicas": 2, "maxReplicas": 20},
        });
        let read = Autoscaler::read(&hpa).unwrap().unwrap();
        assert_eq!((read.min, read.max, read.is_written), (2, 20, true));
        assert_eq!(read.target_kind(), Some(WorkloadKind::StatefulSet));
        let text = Autoscaler::from_json(&hpa.to_string(), "autoscaling/v2", "HorizontalPodAutoscaler");
        assert_eq!(text.unwrap().unwrap(), read);

        let keda = json!({
            "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "chat"},
            "spec": {"scaleTargetRef": {"name": "chat"}, "triggers": []},
        });
        let read = Autoscaler::read(&keda).unwrap().unwrap();
        assert_eq!((read.min, read.max, read.is_written), (0, 100, false));
        assert_eq!(read.target_kind(), Some(WorkloadKind::Deployment));
        assert_eq!(read.max_path, FieldPath::new("spec.maxReplicaCount"));
    }

    #[test]
    fn a_scaled_job_has_jobs_of_its_own() {
        let mut object = json!({
            "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledJob", "metadata": {"name": "batch", "namespace": "llm"},
            "spec": {"jobTargetRef": {"parallelism": 2, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}},
                     "maxReplicaCount": 5, "triggers": []},
        });
        let read = Autoscaler::read(&object).unwrap().unwrap();
        assert_eq!((read.min, read.max, read.is_written), (0, 5, true));
        let jobs = read.jobs_at_the_maximum().unwrap();
        assert_eq!((jobs.kind, jobs.replicas.desired), (WorkloadKind::Job, 10));
        assert_eq!(jobs.object.namespace, "llm");
        assert!(!read.scales(&jobs), "nothing else is meant by it");
        object["spec"]["maxReplicaCount"] = Value::Null;
        assert_eq!(Autoscaler::read(&object).unwrap().unwrap().max, 100);
        object["spec"]["jobTargetRef"]["parallelism"] = json!("two");
        let error = Autoscaler::from_json(&object.to_string(), "keda.sh/v1alpha1", "ScaledJob").unwrap_err();
        assert_eq!(error.path, "spec.jobTargetRef.parallelism");
        object["spec"]["jobTargetRef"] = Value::Null;
        assert_eq!(
            Autoscaler::read(&object).unwrap().unwrap().jobs_at_the_maximum(),
            None
        );
    }

    #[test]
    fn what_the_api_server_would_refuse_is_named() {
        let with = |spec: Value| {
            let object = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
                                "metadata": {"name": "a"}, "spec": spec});
            Autoscaler::read(&object).unwrap_err().path
        };
        let target = json!({"kind": "Deployment", "name": "chat"});
        for (spec, path) in [
            (json!({"scaleTargetRef": target}), "spec.maxReplicas"),
            (
                json!({"scaleTargetRef": target, "maxReplicas": "20"}),
                "spec.maxReplicas",
            ),
            (
                json!({"scaleTargetRef": target, "maxReplicas": -1}),
                "spec.maxReplicas",
            ),
            (
                json!({"scaleTargetRef": target, "maxReplicas": 5, "minReplicas": 1.5}),
                "spec.minReplicas",
            ),
            (json!({"maxReplicas": 5}), "spec.scaleTargetRef.kind"),
            (
                json!({"maxReplicas": 5, "scaleTargetRef": {"kind": "Deployment"}}),
                "spec.scaleTargetRef.name",
            ),
            (
                json!({"maxReplicas": 5, "scaleTargetRef": {"kind": "Deployment", "name": "a".repeat(300)}}),
                "spec.scaleTargetRef.name",
            ),
        ] {
            assert_eq!(with(spec.clone()), path, "{spec}");
        }
        let other = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": 1});
        assert_eq!(Autoscaler::read(&other).unwrap(), None);
        let foreign = json!({"apiVersion": "autoscaling.example.org/v1", "kind": "HorizontalPodAutoscaler"});
        assert_eq!(Autoscaler::read(&foreign).unwrap(), None);
    }
}
