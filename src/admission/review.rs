//! Decoding of an `AdmissionReview`: the envelope narrowly, the object only when it is of a kind that makes pods.
//!
//! The creation of a pod is decoded in one pass (`usual`). Of everything else the object stays borrowed text until then,
//! and is decoded once, into the fields in use: `metadata.managedFields`, half of a pod's bytes, is skipped. Skipping is
//! iterative in the parser and decoding is bounded by its depth of 128, so no nesting can overflow the stack.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::decision::{AutoscalerQuestion, ConfigurationQuestion, Operation, Question};
use crate::workload::{CustomKind, Malformed, ObjectRef, Workload, WorkloadKind};

mod autoscaler;
mod configuration;
mod scale;
mod usual;

/// The only `apiVersion` that is spoken.
pub const API_VERSION: &str = "admission.k8s.io/v1";
/// The only `kind` that is spoken.
pub const KIND: &str = "AdmissionReview";

/// The label that every namespace carries with its own name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// A body that is not a review that can be answered. It is the caller's fault: HTTP 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Not JSON, cut off, or of another shape.
    #[error("the body is not an AdmissionReview: {0}")]
    Json(String),
    /// Another version or kind.
    #[error(
        "apiVersion {api_version:?}, kind {kind:?} is not accepted: send apiVersion {API_VERSION:?}, kind {KIND:?} \
         (register the webhook with admissionReviewVersions: [\"v1\"])"
    )]
    Version {
        /// As sent; empty where absent.
        api_version: String,
        /// As sent; empty where absent.
        kind: String,
    },
    /// A field that an answer needs is absent or empty.
    #[error("{0} is missing: an AdmissionReview that asks has it")]
    Missing(&'static str),
    /// An operation that the API does not know.
    #[error("request.operation {0:?} is not known: accepted are CREATE, UPDATE, DELETE and CONNECT")]
    Operation(String),
}

/// Group, version and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GroupVersionKind<'a> {
    /// Empty for the core group.
    #[serde(borrow)]
    pub group: Cow<'a, str>,
    /// Version.
    #[serde(borrow)]
    pub version: Cow<'a, str>,
    /// Kind.
    #[serde(borrow)]
    pub kind: Cow<'a, str>,
}

/// Group, version and resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GroupVersionResource<'a> {
    /// Empty for the core group.
    #[serde(borrow)]
    pub group: Cow<'a, str>,
    /// Version.
    #[serde(borrow)]
    pub version: Cow<'a, str>,
    /// Plural, lower case.
    #[serde(borrow)]
    pub resource: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, rename = "apiVersion")]
    api_version: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    request: Option<Request<'a>>,
}

/// The envelope once more, where its `request` cannot be read: which version was it?
#[derive(Deserialize)]
struct VersionOnly<'a> {
    #[serde(borrow, default, rename = "apiVersion")]
    api_version: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    kind: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: GroupVersionKind<'a>,
    #[serde(borrow, default)]
    resource: GroupVersionResource<'a>,
    #[serde(borrow, default)]
    sub_resource: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    operation: Cow<'a, str>,
    #[serde(default)]
    dry_run: Option<bool>,
    #[serde(borrow, default)]
    user_info: UserInfo<'a>,
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
    #[serde(borrow, default)]
    old_object: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct UserInfo<'a> {
    #[serde(borrow)]
    username: Option<Cow<'a, str>>,
    groups: Option<Vec<String>>,
}

/// What the API server is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// CREATE or UPDATE: may be ours.
    Write(Operation),
    /// DELETE or CONNECT: takes no memory.
    Other,
}

/// One review, decoded as far as an answer needs it. Borrows from the body.
#[derive(Debug)]
pub struct Review<'a> {
    /// To be echoed.
    pub uid: Cow<'a, str>,
    /// Kind of the object as the registration names it (`matchPolicy: Equivalent` converts).
    pub kind: GroupVersionKind<'a>,
    /// Resource that is written.
    pub resource: GroupVersionResource<'a>,
    /// Sub-resource; empty for the object itself.
    pub sub_resource: Cow<'a, str>,
    /// Name; empty where it is still to be generated.
    pub name: Cow<'a, str>,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Cow<'a, str>,
    /// What is being done.
    pub verb: Verb,
    /// Whether nothing may come of it.
    pub dry_run: bool,
    /// Whether the caller is a node.
    pub by_node: bool,
    object: Option<Object<'a>>,
    old_object: Option<&'a RawValue>,
}

/// The object of a review.
#[derive(Debug)]
enum Object<'a> {
    /// Not read yet.
    Text(&'a RawValue),
    /// A pod, read on the way.
    Pod(Box<Workload>),
}

/// A change through a `scale` sub-resource. It carries no template: the caller looks the workload up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Kind of the scaled object.
    pub kind: WorkloadKind,
    /// Name of the scaled object.
    pub name: String,
    /// Namespace of the scaled object.
    pub namespace: String,
    /// Pods wanted.
    pub replicas: u32,
    /// Pods wanted before; absent where the review does not say.
    pub old_replicas: Option<u32>,
}

/// What a review asks.
#[derive(Clone, Debug)]
pub enum Asked {
    /// To judge an object that makes pods.
    Workload(Box<Question>),
    /// To judge a change of scale.
    Scale(Scale),
    /// To judge an object that scales another, which is still to be looked up.
    Autoscaler(Box<AutoscalerQuestion>),
    /// To judge what configures GPUs; namespace labels and the MIG manager's ConfigMaps are still to be looked up.
    Configuration(Box<ConfigurationQuestion>),
    /// Nothing of ours: admitted.
    NotOurs,
}

impl<'a> Review<'a> {
    /// Decodes the body of a request.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        if let Some(review) = usual::read(body).and_then(Self::of_usual) {
            return Ok(review);
        }
        let envelope: Envelope<'a> = serde_json::from_slice(body).map_err(|error| {
            // A wrong version explains a wrong shape better than the shape does.
            match serde_json::from_slice::<VersionOnly<'_>>(body) {
                Ok(VersionOnly { api_version, kind })
                    if !is_spoken(api_version.as_deref(), kind.as_deref()) =>
                {
                    wrong_version(api_version, kind)
                }
                _ => DecodeError::Json(error.to_string()),
            }
        })?;
        if !is_spoken(envelope.api_version.as_deref(), envelope.kind.as_deref()) {
            return Err(wrong_version(envelope.api_version, envelope.kind));
        }
        let request = envelope.request.ok_or(DecodeError::Missing("request"))?;
        if request.uid.is_empty() {
            return Err(DecodeError::Missing("request.uid"));
        }
        if request.kind.kind.is_empty() {
            return Err(DecodeError::Missing("request.kind.kind"));
        }
        let verb = match &*request.operation {
            "CREATE" => Verb::Write(Operation::Create),
            "UPDATE" => Verb::Write(Operation::Update),
            "DELETE" | "CONNECT" => Verb::Other,
            "" => return Err(DecodeError::Missing("request.operation")),
            other => return Err(DecodeError::Operation(excerpt(other))),
        };
        let by_node = request
            .user_info
            .groups
            .iter()
            .flatten()
            .any(|group| group == "system:nodes")
            || request
                .user_info
                .username
                .is_some_and(|user| user.starts_with("system:node:"));
        Ok(Self {
            uid: request.uid,
            kind: request.kind,
            resource: request.resource,
            sub_resource: request.sub_resource.unwrap_or_default(),
            name: request.name.unwrap_or_default(),
            namespace: request.namespace.unwrap_or_default(),
            verb,
            dry_run: request.dry_run.unwrap_or(false),
            by_node,
            object: request.object.map(Object::Text),
            old_object: request.old_object,
        })
    }

    /// `None` where the general way has something to say of it.
    fn of_usual(usual: usual::Usual<'a>) -> Option<Self> {
        let request = usual.request;
        if !is_spoken(Some(usual.api_version), Some(usual.kind)) || request.uid.is_empty() {
            return None;
        }
        let by_node = request.user.groups.contains(&"system:nodes")
            || request.user.username.starts_with("system:node:");
        let kind = GroupVersionKind {
            group: request.kind.group.into(),
            version: request.kind.version.into(),
            kind: request.kind.kind.into(),
        };
        let resource = GroupVersionResource {
            group: request.resource.group.into(),
            version: request.resource.version.into(),
            resource: request.resource.resource.into(),
        };
        Some(Self {
            uid: request.uid.into(),
            kind,
            resource,
            sub_resource: request.sub_resource.into(),
            name: request.name.into(),
            namespace: request.namespace.into(),
            verb: Verb::Write(Operation::Create),
            dry_run: request.dry_run,
            by_node,
            object: Some(Object::Pod(request.workload)),
            old_object: None,
        })
    }

    /// The object, for `details` of a denial and for logs.
    #[must_use]
    pub fn object_ref(&self) -> ObjectRef {
        let GroupVersionKind { group, version, kind } = &self.kind;
        ObjectRef {
            api_version: if group.is_empty() {
                version.to_string()
            } else {
                format!("{group}/{version}")
            },
            kind: kind.to_string(),
            namespace: self.namespace.to_string(),
            name: self.name.to_string(),
        }
    }

    /// The kind of the object, where it is one that makes pods.
    #[must_use]
    pub fn workload_kind(&self) -> Option<WorkloadKind> {
        let kind = match (&*self.kind.group, &*self.kind.kind) {
            ("", "Pod") => WorkloadKind::Pod,
            ("", "ReplicationController") => WorkloadKind::ReplicationController,
            ("apps", "Deployment") => WorkloadKind::Deployment,
            ("apps", "StatefulSet") => WorkloadKind::StatefulSet,
            ("apps", "ReplicaSet") => WorkloadKind::ReplicaSet,
            ("apps", "DaemonSet") => WorkloadKind::DaemonSet,
            ("batch", "Job") => WorkloadKind::Job,
            ("batch", "CronJob") => WorkloadKind::CronJob,
            (group, kind) => return CustomKind::of(group, kind).map(WorkloadKind::Custom),
        };
        Some(kind)
    }

    /// What is asked, with the labels of the object's namespace. Asked once: the object goes with the answer.
    pub fn question(&mut self, namespace_labels: BTreeMap<String, String>) -> Result<Asked, Malformed> {
        let Verb::Write(operation) = self.verb else {
            return Ok(Asked::NotOurs);
        };
        if &*self.sub_resource == "scale" {
            return self.scale();
        }
        if self.is_autoscaler() {
            return self.autoscaler(operation);
        }
        let Some(kind) = self.workload_kind() else {
            return self.configuration(operation);
        };
        // `pods/ephemeralcontainers` carries the whole pod; `status`, `binding`, `eviction` and `resize` are not ours.
        let ours = self.sub_resource.is_empty()
            || kind == WorkloadKind::Pod && &*self.sub_resource == "ephemeralcontainers";
        if !ours {
            return Ok(Asked::NotOurs);
        }
        let Some(object) = self.object.take() else {
            return Err(Malformed {
                path: "object".to_owned(),
                message: format!(
                    "is absent on {}; the API server always sends it",
                    verb_text(operation)
                ),
            });
        };
        let workload = match object {
            Object::Text(text) => self.read(text)?,
            Object::Pod(workload) => self.complete(*workload),
        };
        let old = match (operation, self.old_object) {
            (Operation::Update, Some(old)) => Some(self.read(old)?),
            (Operation::Update, None) | (Operation::Create, _) => None,
        };
        let mut namespace_labels = namespace_labels;
        if !self.namespace.is_empty() {
            namespace_labels.insert(NAMESPACE_NAME.to_owned(), self.namespace.to_string());
        }
        Ok(Asked::Workload(Box::new(Question {
            operation,
            workload,
            old,
            namespace_labels,
            by_node: self.by_node,
            scale_only: false,
            dry_run: self.dry_run || kind != WorkloadKind::Pod,
        })))
    }

    fn read(&self, raw: &RawValue) -> Result<Workload, Malformed> {
        let workload = Workload::from_json(raw.get())?.ok_or_else(|| Malformed {
            path: "object".to_owned(),
            message: format!(
                "its apiVersion and kind are not those of request.kind, {:?}; the API server sends both",
                self.kind.kind
            ),
        })?;
        Ok(self.complete(workload))
    }

    /// The request is right about these even where the object leaves them out.
    fn complete(&self, mut workload: Workload) -> Workload {
        if !self.namespace.is_empty() {
            workload.set_namespace(&self.namespace);
        }
        if workload.object.name.is_empty() {
            workload.object.name = self.name.to_string();
        }
        workload
    }

    fn scale(&self) -> Result<Asked, Malformed> {
        let kind = match (&*self.resource.group, &*self.resource.resource) {
            ("apps", "deployments") => WorkloadKind::Deployment,
            ("apps", "statefulsets") => WorkloadKind::StatefulSet,
            ("apps", "replicasets") => WorkloadKind::ReplicaSet,
            ("", "replicationcontrollers") => WorkloadKind::ReplicationController,
            _ => return Ok(Asked::NotOurs),
        };
        let Some(Object::Text(object)) = self.object else {
            return Ok(Asked::NotOurs);
        };
        Ok(Asked::Scale(Scale {
            kind,
            name: self.name.to_string(),
            namespace: self.namespace.to_string(),
            replicas: scale::replicas(object)?,
            old_replicas: self.old_object.map(scale::replicas).transpose()?,
        }))
    }
}

fn is_spoken(api_version: Option<&str>, kind: Option<&str>) -> bool {
    api_version == Some(API_VERSION) && kind == Some(KIND)
}

fn wrong_version(api_version: Option<Cow<'_, str>>, kind: Option<Cow<'_, str>>) -> DecodeError {
    DecodeError::Version {
        api_version: excerpt(&api_version.unwrap_or_default()),
        kind: excerpt(&kind.unwrap_or_default()),
    }
}

/// The start of a text that came from outside, for an error message.
fn excerpt(text: &str) -> String {
    text.chars().take(80).collect()
}

const fn verb_text(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
    }
}

#[cfg(test)]
mod tests;
