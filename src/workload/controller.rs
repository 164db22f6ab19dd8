//! From an API object to its pod template and the number of pods that it makes.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use serde_json::Value;

use super::null::as_absent;
use super::pod::{Metadata, OwnerReference, Pod};
use super::rollout::{
    CronJobSpec, DaemonSetSpec, DeploymentSpec, JobSpec, PodMaker, ReplicatedSpec, without_template,
};
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
    ///
    /// Only the fields in use are decoded. A kind of ours under another group is another kind, and `None`; under a
    /// version of its own group that is not read (`apps/v1beta1`) it is an error that says so.
    pub fn read(object: &Value) -> Result<Option<Self>, Malformed> {
        let field = |name: &str| match object.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(other) => Err(Malformed {
                path: name.to_owned(),
                message: format!("{other} is not a text; write for example {}", example_of(name)),
            }),
        };
        if !object.is_object() {
            return Err(not_an_object());
        }
        match supported(field("apiVersion")?, field("kind")?)? {
            Some(kind) => Self::decode(kind, &FromValue(object)).map(Some),
            None => Ok(None),
        }
    }

    /// The same from JSON text, without a tree in between: for pods this is the webhook's hot path. Kind and version
    /// are read first and reading stops there for objects that are not ours; a failure is decoded a second time, only
    /// then, to name its field.
    pub fn from_json(text: &str) -> Result<Option<Self>, Malformed> {
        let types = TypeMeta::peek(text)?;
        match supported(types.api_version.as_deref(), types.kind.as_deref())? {
            Some(kind) => Self::decode(kind, &FromText(text)).map(Some),
            None => Ok(None),
        }
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
                max: None,
                per_node: false,
            },
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
        Ok(Self {
            object,
            kind,
            pod,
            template: FieldPath::new(path),
            replicas,
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
    /// Every kind.
    const ALL: [Self; 8] = [
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
        }
    }

    /// Group and version under which the kind is read.
    #[must_use]
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::Pod | Self::ReplicationController => "v1",
            Self::Deployment | Self::StatefulSet | Self::ReplicaSet | Self::DaemonSet => "apps/v1",
            Self::Job | Self::CronJob => "batch/v1",
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

/// What an object is decoded from.
trait Source<'de> {
    fn decode<T: Deserialize<'de>>(&self) -> Result<T, Malformed>;
}

struct FromValue<'de>(&'de Value);

impl<'de> Source<'de> for FromValue<'de> {
    fn decode<T: Deserialize<'de>>(&self) -> Result<T, Malformed> {
        T::deserialize(self.0).or_else(|_| serde_path_to_error::deserialize(self.0).map_err(Malformed::from))
    }
}

struct FromText<'de>(&'de str);

impl<'de> Source<'de> for FromText<'de> {
    fn decode<T: Deserialize<'de>>(&self) -> Result<T, Malformed> {
        serde_json::from_str(self.0).or_else(|_| {
            let mut text = serde_json::Deserializer::from_str(self.0);
            serde_path_to_error::deserialize(&mut text).map_err(Malformed::from)
        })
    }
}

impl From<serde_path_to_error::Error<serde_json::Error>> for Malformed {
    fn from(error: serde_path_to_error::Error<serde_json::Error>) -> Self {
        let path = error.path().to_string();
        let inner = error.inner();
        let mut message = inner.to_string();
        // The field says where; line and column help only where the text is no JSON at all.
        if inner.is_data()
            && let Some(position) = message.rfind(" at line ")
        {
            message.truncate(position);
        }
        Self { path, message }
    }
}

/// `apiVersion` and `kind`, which the API server writes first.
#[derive(Debug, Default)]
struct TypeMeta<'de> {
    api_version: Option<Cow<'de, str>>,
    kind: Option<Cow<'de, str>>,
}

impl<'de> TypeMeta<'de> {
    /// Reads as far as it takes to know both.
    fn peek(text: &'de str) -> Result<Self, Malformed> {
        let mut types = Self::default();
        let mut json = serde_json::Deserializer::from_str(text);
        match json.deserialize_any(TypeMetaVisitor(&mut types)) {
            // The visitor leaves the rest unread once it knows both, which is an error to serde_json alone.
            Err(_) if types.api_version.is_some() && types.kind.is_some() => Ok(types),
            Ok(()) => Ok(types),
            Err(error) => Err(Malformed {
                path: ".".to_owned(),
                message: format!("is not an object: {error}"),
            }),
        }
    }
}

struct TypeMetaVisitor<'a, 'de>(&'a mut TypeMeta<'de>);

impl<'de> Visitor<'de> for TypeMetaVisitor<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with apiVersion and kind")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while self.0.api_version.is_none() || self.0.kind.is_none() {
            match map.next_key::<Key>()? {
                Some(Key::ApiVersion) => {
                    self.0.api_version = map.next_value::<Option<Text<'de>>>()?.map(|text| text.0);
                }
                Some(Key::Kind) => self.0.kind = map.next_value::<Option<Text<'de>>>()?.map(|text| text.0),
                Some(Key::Other) => {
                    map.next_value::<de::IgnoredAny>()?;
                }
                None => return Ok(()),
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Key {
    ApiVersion,
    Kind,
    #[serde(other)]
    Other,
}

/// A text that is borrowed where nothing in it is escaped.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The kind that a version and a kind name; `None` where it is none of ours.
fn supported(api_version: Option<&str>, kind: Option<&str>) -> Result<Option<WorkloadKind>, Malformed> {
    let malformed = |path: &str, message: String| {
        Err(Malformed {
            path: path.to_owned(),
            message,
        })
    };
    let Some(kind) = kind else {
        return malformed("kind", "is missing; write for example Deployment".to_owned());
    };
    let Some(kind) = WorkloadKind::ALL.into_iter().find(|known| known.as_str() == kind) else {
        return Ok(None);
    };
    let wanted = kind.api_version();
    let Some(api_version) = api_version else {
        return malformed(
            "apiVersion",
            format!("is missing; a {} is read as {wanted}", kind.as_str()),
        );
    };
    if api_version == wanted {
        return Ok(Some(kind));
    }
    let group = |version: &str| version.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
    // Before apps/v1 these kinds were in `extensions`.
    if group(api_version) == group(wanted) || (group(api_version) == "extensions" && group(wanted) == "apps")
    {
        return malformed(
            "apiVersion",
            format!(
                "{api_version:?} is a version of {} that is not read; write {wanted}",
                kind.as_str()
            ),
        );
    }
    Ok(None)
}

fn example_of(field: &str) -> &'static str {
    if field == "kind" { "Deployment" } else { "apps/v1" }
}

fn not_an_object() -> Malformed {
    Malformed {
        path: ".".to_owned(),
        message: "is not an object with apiVersion and kind".to_owned(),
    }
}

#[cfg(test)]
#[allow(
    clippy::needless_pass_by_value,
    reason = "JSON literals read better without borrows"
)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Both ways of reading must agree.
    fn read(object: &Value) -> Result<Option<Workload>, Malformed> {
        let from_value = Workload::read(object);
        let from_text = Workload::from_json(&object.to_string());
        assert_eq!(from_value, from_text);
        from_value
    }

    fn workload(object: &Value) -> Workload {
        read(object).unwrap().unwrap()
    }

    fn plan(object: &Value) -> (u32, u32, u32) {
        let replicas = workload(object).replicas;
        (replicas.desired, replicas.surge, replicas.unavailable)
    }

    fn object(api_version: &str, kind: &str, spec: &Value) -> Value {
        let mut spec = spec.clone();
        spec["template"] =
            json!({ "spec": { "containers": [{ "name": "main", "image": "registry.example/llm:1" }] } });
        json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": "chat" }, "spec": spec })
    }

    fn deployment(spec: &Value) -> Value {
        object("apps/v1", "Deployment", spec)
    }

    #[test]
    fn a_pod_is_one_pod_in_its_namespace() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "generateName": "chat-7d9f6c-", "uid": "u-1", "deletionTimestamp": "2026-01-01T00:00:00Z",
                "managedFields": [{ "manager": "kubectl", "fieldsV1": { "f:spec": {} } }],
                "ownerReferences": [
                    { "kind": "Other", "name": "other", "controller": null },
                    { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "chat-7d9f6c", "controller": true },
                ],
            },
            "spec": { "containers": [{ "name": "main" }] },
        });
        let read = workload(&pod);
        assert_eq!(
            read.object,
            ObjectRef {
                api_version: "v1".to_owned(),
                kind: "Pod".to_owned(),
                namespace: "default".to_owned(),
                name: "chat-7d9f6c-".to_owned(),
            }
        );
        assert_eq!(read.uid, "u-1");
        assert_eq!(read.pod.metadata.namespace, "default");
        assert_eq!(read.pod.spec.containers.len(), 1);
        assert_eq!(read.template.as_str(), "");
        assert_eq!(
            read.controller.map(|owner| owner.name).as_deref(),
            Some("chat-7d9f6c")
        );
        assert!(read.deleting);
        assert_eq!(plan(&pod), (1, 0, 0));
    }

    #[test]
    fn a_template_gets_the_namespace_of_its_workload() {
        let mut object = deployment(&json!({ "replicas": 2 }));
        object["metadata"]["namespace"] = json!("team-a");
        let read = workload(&object);
        assert_eq!(read.object.namespace, "team-a");
        assert_eq!(read.pod.metadata.namespace, "team-a");
        assert_eq!(read.template.as_str(), "spec.template");
        assert_eq!(read.kind, WorkloadKind::Deployment);
        assert_eq!(read.controller, None);
    }

    #[test]
    fn deployments_surge_up_and_go_down_as_their_controller_does() {
        let rolling = |replicas: u32, surge: Value, unavailable: Value| {
            let limits = json!({ "maxSurge": surge, "maxUnavailable": unavailable });
            let strategy = json!({ "type": "RollingUpdate", "rollingUpdate": limits });
            plan(&deployment(
                &json!({ "replicas": replicas, "strategy": strategy }),
            ))
        };
        let null = Value::Null;
        assert_eq!(plan(&deployment(&json!({}))), (1, 1, 0));
        assert_eq!(
            plan(&deployment(&json!({ "replicas": null, "strategy": null }))),
            (1, 1, 0)
        );
        assert_eq!(plan(&deployment(&json!({ "replicas": 4 }))), (4, 1, 1));
        assert_eq!(plan(&deployment(&json!({ "replicas": 10 }))), (10, 3, 2));
        assert_eq!(plan(&deployment(&json!({ "replicas": 0 }))), (0, 0, 1));
        assert_eq!(rolling(10, json!("30%"), null.clone()), (10, 3, 2));
        assert_eq!(rolling(3, json!(0), json!("10%")), (3, 0, 1));
        assert_eq!(rolling(3, json!("0%"), json!(0)), (3, 0, 1));
        assert_eq!(rolling(3, json!(2), json!(7)), (3, 2, 3));
        assert_eq!(rolling(2, json!("150%"), json!(0)), (2, 3, 0));
        assert_eq!(
            plan(&deployment(
                &json!({ "replicas": 3, "strategy": { "type": "Recreate" } })
            )),
            (3, 0, 3)
        );
    }

    #[test]
    fn other_controllers_replace_a_pod_after_it_is_gone() {
        for (api_version, kind) in [
            ("apps/v1", "StatefulSet"),
            ("apps/v1", "ReplicaSet"),
            ("v1", "ReplicationController"),
        ] {
            assert_eq!(
                plan(&object(api_version, kind, &json!({ "replicas": 3 }))),
                (3, 0, 1),
                "{kind}"
            );
            assert_eq!(plan(&object(api_version, kind, &json!({}))), (1, 0, 1), "{kind}");
        }
    }

    #[test]
    fn daemon_sets_make_a_pod_per_node() {
        let with = |strategy: Value| {
            let read = workload(&object(
                "apps/v1",
                "DaemonSet",
                &json!({ "updateStrategy": strategy }),
            ));
            assert!(read.replicas.per_node);
            (
                read.replicas.desired,
                read.replicas.surge,
                read.replicas.unavailable,
            )
        };
        assert_eq!(with(json!(null)), (1, 0, 1));
        assert_eq!(
            with(json!({ "rollingUpdate": { "maxSurge": "10%", "maxUnavailable": 0 } })),
            (1, 1, 0)
        );
        assert_eq!(
            with(json!({ "type": "OnDelete", "rollingUpdate": { "maxSurge": 1 } })),
            (1, 0, 1)
        );
    }

    #[test]
    fn jobs_run_as_many_pods_as_they_still_need() {
        let job = |spec: &Value| plan(&object("batch/v1", "Job", spec)).0;
        assert_eq!(job(&json!({})), 1);
        assert_eq!(job(&json!({ "parallelism": 4 })), 4);
        assert_eq!(job(&json!({ "parallelism": 4, "completions": 2 })), 2);
        assert_eq!(job(&json!({ "completions": 5 })), 1);
        assert_eq!(job(&json!({ "parallelism": 0 })), 0);
        assert_eq!(job(&json!({ "parallelism": 4, "suspend": true })), 0);
    }

    #[test]
    fn cron_jobs_count_as_one_job() {
        let cron = |policy: Value, suspend: bool| {
            json!({
                "kind": "CronJob", "apiVersion": "batch/v1", "metadata": { "name": "nightly" },
                "spec": { "suspend": suspend, "concurrencyPolicy": policy, "jobTemplate": { "spec": {
                    "parallelism": 2, "template": { "spec": { "containers": [] } },
                } } },
            })
        };
        assert_eq!(plan(&cron(json!("Forbid"), false)), (2, 0, 0));
        assert_eq!(plan(&cron(json!(null), false)), (2, 0, 0));
        assert_eq!(plan(&cron(json!("Allow"), true)), (0, 0, 0));
        assert_eq!(
            workload(&cron(json!("Replace"), false)).template.as_str(),
            "spec.jobTemplate.spec.template"
        );
        let error = read(&cron(json!("Never"), false)).unwrap_err();
        assert_eq!(error.path, "spec.concurrencyPolicy");
        assert!(
            error.message.contains("Never") && error.message.contains("Forbid"),
            "{error}"
        );
    }

    #[test]
    fn other_kinds_and_groups_are_not_ours() {
        for (api_version, kind) in [
            ("v1", "ConfigMap"),
            ("v1", "List"),
            ("example.com/v1", "Deployment"),
            ("metrics.k8s.io/v1beta1", "Pod"),
            ("serving.knative.dev/v1", "Service"),
            ("apps/v1", "Pod"),
        ] {
            assert_eq!(
                read(&json!({ "apiVersion": api_version, "kind": kind, "spec": [1] })),
                Ok(None),
                "{kind}"
            );
        }
    }

    #[test]
    fn versions_that_are_not_read_are_named() {
        for (api_version, kind, wanted) in [
            ("apps/v1beta1", "Deployment", "apps/v1"),
            ("extensions/v1beta1", "DaemonSet", "apps/v1"),
            ("batch/v1beta1", "CronJob", "batch/v1"),
            ("v2", "Pod", "write v1"),
        ] {
            let error = read(&object(api_version, kind, &json!({}))).unwrap_err();
            assert_eq!(error.path, "apiVersion");
            assert!(
                error.message.contains(api_version) && error.message.contains(wanted),
                "{error}"
            );
        }
    }

    #[test]
    fn what_cannot_be_read_names_field_and_value() {
        let container = |fields: Value| {
            let mut object = deployment(&json!({}));
            object["spec"]["template"]["spec"]["containers"][0] = fields;
            object
        };
        let strategy = |limits: Value| deployment(&json!({ "strategy": { "rollingUpdate": limits } }));
        for (object, path, words) in [
            (json!({ "apiVersion": "v1" }), "kind", "is missing"),
            (json!({ "kind": "Pod" }), "apiVersion", "v1"),
            (
                json!({ "kind": "Deployment", "apiVersion": "apps/v1", "spec": {} }),
                "spec.template",
                "is missing",
            ),
            (
                json!({ "kind": "Deployment", "apiVersion": "apps/v1" }),
                "spec.template",
                "is missing",
            ),
            (
                deployment(&json!({ "replicas": -1 })),
                "spec.replicas",
                "`-1`, expected a whole number",
            ),
            (
                deployment(&json!({ "replicas": "3" })),
                "spec.replicas",
                "\"3\", expected a whole number",
            ),
            (
                deployment(&json!({ "replicas": 2.5 })),
                "spec.replicas",
                "`2.5`, expected a whole number",
            ),
            (
                deployment(&json!({ "replicas": 4_000_000_000_u32 })),
                "spec.replicas",
                "4000000000",
            ),
            (
                strategy(json!({ "maxSurge": "abc" })),
                "spec.strategy.rollingUpdate.maxSurge",
                "\"abc\"",
            ),
            (
                strategy(json!({ "maxSurge": "1" })),
                "spec.strategy.rollingUpdate.maxSurge",
                "25%",
            ),
            (
                strategy(json!({ "maxSurge": "-5%" })),
                "spec.strategy.rollingUpdate.maxSurge",
                "-5%",
            ),
            (
                strategy(json!({ "maxUnavailable": -1 })),
                "spec.strategy.rollingUpdate.maxUnavailable",
                "`-1`",
            ),
            (
                deployment(&json!({ "strategy": { "type": "Rolling" } })),
                "spec.strategy.type",
                "Rolling",
            ),
            (
                object("batch/v1", "Job", &json!({ "parallelism": -2 })),
                "spec.parallelism",
                "`-2`",
            ),
            (
                container(json!({ "name": "main", "env": "X=1" })),
                "spec.template.spec.containers[0].env",
                "\"X=1\", expected a sequence",
            ),
            (
                container(json!({ "args": ["serve", 8000] })),
                "spec.template.spec.containers[0].args[1]",
                "`8000`, expected a string",
            ),
            (
                container(json!({ "resources": { "limits": { "nvidia.com/gpu": [1] } } })),
                "spec.template.spec.containers[0].resources.limits.nvidia.com/gpu",
                "expected a resource quantity",
            ),
        ] {
            let error = read(&object).unwrap_err();
            assert_eq!(error.path, path, "{error}");
            assert!(error.message.contains(words), "{error}");
            assert!(!error.message.contains(" column "), "{error}");
        }
    }

    #[test]
    fn texts_that_are_no_object_are_refused() {
        for text in [
            "",
            "null",
            "[]",
            "7",
            "\"Pod\"",
            "{",
            "{\"kind\": 5}",
            "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"spec\":{",
        ] {
            assert!(Workload::from_json(text).is_err(), "{text}");
        }
        for value in [json!(null), json!([]), json!(7), json!({ "kind": 5 })] {
            assert!(Workload::read(&value).is_err(), "{value}");
        }
        let deep = format!(
            "{{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"spec\":{}",
            "[".repeat(100_000)
        );
        assert!(Workload::from_json(&deep).is_err());
    }

    #[test]
    fn kind_and_version_are_found_wherever_they_stand() {
        let text = r#"{"metadata":{"name":"a","kind":"X"},"spec":null,"kind":"\u0050od","apiVersion":"v1"}"#;
        assert_eq!(
            Workload::from_json(text)
                .unwrap()
                .map(|read| read.object.name)
                .as_deref(),
            Some("a")
        );
    }
}
