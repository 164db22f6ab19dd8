//! Single objects, asked of the API server when a review or the ledger needs them.
//!
//! Each look-up has a deadline and a result for every way it can go; none is repeated here. What could not be read is
//! *not read*, with its reason, and never taken for missing or zero.

mod config_maps;
mod owners;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::api::GetParams;
use kube::core::Request;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::causes::Causes;
use super::fold::Namespaces;
use super::metrics::Metrics;
use super::timing::Timing;
use crate::ledger::Stale;
use crate::workload::{Malformed, Workload, WorkloadKind};

pub use config_maps::Fetched;

use config_maps::ConfigMaps;
use owners::Owners;

/// Look-ups of reviews in flight at once. More wait, within their deadlines.
const AT_ONCE: usize = 32;
/// Look-ups in flight at once for which no review waits.
const AT_ONCE_IN_BACKGROUND: usize = 8;

/// Why a look-up gave no object.
#[derive(Debug, thiserror::Error)]
pub enum LookUpError {
    /// There is none of that name.
    #[error("there is no {what}")]
    NotFound {
        /// What was looked up.
        what: String,
    },
    /// The service account may not read it.
    #[error("vramgate may not read {what}; grant its service account `get` on that resource")]
    Forbidden {
        /// What was looked up.
        what: String,
    },
    /// The API server did not answer in time.
    #[error("the API server did not answer within {} ms for {what}", within.as_millis())]
    TimedOut {
        /// What was looked up.
        what: String,
        /// The deadline.
        within: Duration,
    },
    /// It is there, but not of the form that its kind has.
    #[error("{what} cannot be read: {reason}")]
    Unreadable {
        /// What was looked up.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Anything else: connection, TLS, an answer that is no answer.
    #[error("{what} could not be looked up: {}", Causes(source))]
    Failed {
        /// What was looked up.
        what: String,
        /// Why.
        source: Box<kube::Error>,
    },
}

impl LookUpError {
    fn result(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "missing",
            Self::Forbidden { .. } => "forbidden",
            Self::TimedOut { .. } => "timeout",
            Self::Unreadable { .. } => "unreadable",
            Self::Failed { .. } => "failed",
        }
    }
}

/// Look-ups of one cluster; clones share caches.
#[derive(Clone)]
pub struct LookUps {
    client: Client,
    timing: Timing,
    metrics: Metrics,
    at_once: Arc<Semaphore>,
    namespaces: Namespaces,
    config_maps: Arc<ConfigMaps>,
    owners: Arc<Owners>,
}

impl LookUps {
    pub(super) fn new(client: Client, timing: Timing, metrics: Metrics) -> Self {
        Self {
            client,
            timing,
            metrics,
            at_once: Arc::new(Semaphore::new(AT_ONCE)),
            namespaces: Namespaces::default(),
            config_maps: Arc::default(),
            owners: Arc::default(),
        }
    }

    /// The same look-ups and caches for work that no review waits for, so that it takes no place of theirs.
    pub(super) fn in_background(&self) -> Self {
        Self {
            at_once: Arc::new(Semaphore::new(AT_ONCE_IN_BACKGROUND)),
            ..self.clone()
        }
    }

    pub(super) fn namespaces(&self) -> Namespaces {
        self.namespaces.clone()
    }

    /// The labels of a namespace, `kubernetes.io/metadata.name` among them. From the watch; a namespace that it has not
    /// told of yet is asked for within the deadline of a look-up, and where that fails only the name is known.
    pub async fn namespace_labels(&self, name: &str) -> Arc<BTreeMap<String, String>> {
        if let Some(labels) = self.namespaces.labels(name) {
            return labels;
        }
        let asked = self.get::<super::fold::Namespace>("/api/v1/namespaces", "namespace", "", name);
        let labels = asked
            .await
            .map(|namespace| namespace.metadata.labels)
            .unwrap_or_default();
        // Not put with the watch's own: it could be older than what the watch tells meanwhile.
        Arc::new(super::fold::complete_labels(name, labels))
    }

    /// The labels as the watch told them, without asking.
    pub(super) fn known_labels(&self, name: &str) -> Arc<BTreeMap<String, String>> {
        let only_name = || Arc::new(super::fold::complete_labels(name, BTreeMap::new()));
        self.namespaces.labels(name).unwrap_or_else(only_name)
    }

    /// The object that a change of scale is about.
    pub async fn workload(
        &self,
        kind: WorkloadKind,
        namespace: &str,
        name: &str,
    ) -> Result<Workload, LookUpError> {
        let (group, version, plural, singular) = match kind {
            WorkloadKind::Pod => ("", "v1", "pods", "pod"),
            WorkloadKind::ReplicationController => {
                ("", "v1", "replicationcontrollers", "replicationcontroller")
            }
            WorkloadKind::Deployment => ("apps", "v1", "deployments", "deployment"),
            WorkloadKind::StatefulSet => ("apps", "v1", "statefulsets", "statefulset"),
            WorkloadKind::ReplicaSet => ("apps", "v1", "replicasets", "replicaset"),
            WorkloadKind::DaemonSet => ("apps", "v1", "daemonsets", "daemonset"),
            WorkloadKind::Job => ("batch", "v1", "jobs", "job"),
            WorkloadKind::CronJob => ("batch", "v1", "cronjobs", "cronjob"),
            // Nobody asks for a scale of theirs.
            WorkloadKind::Custom(kind) => {
                return Err(LookUpError::Unreadable {
                    what: described(kind.kind, namespace, name),
                    reason: "objects of this kind are not looked up".to_owned(),
                });
            }
        };
        let path = namespaced(group, version, namespace, plural);
        let mut object: serde_json::Value = self.get(&path, singular, namespace, name).await?;
        // A single object names its own kind; an old API server's answer to a typed GET need not.
        if let Some(fields) = object.as_object_mut() {
            let api_version = if group.is_empty() {
                version.to_owned()
            } else {
                format!("{group}/{version}")
            };
            fields.entry("apiVersion").or_insert(api_version.into());
            fields.entry("kind").or_insert(format!("{kind:?}").into());
        }
        let what = || described(singular, namespace, name);
        match Workload::read(&object) {
            Ok(Some(workload)) => Ok(workload),
            Ok(None) => Err(LookUpError::Unreadable {
                what: what(),
                reason: "it is of another kind".to_owned(),
            }),
            Err(Malformed { path, message }) => Err(LookUpError::Unreadable {
                what: what(),
                reason: format!("{path}: {message}"),
            }),
        }
    }

    /// Whether the API server has this very pod, as it is now.
    pub async fn pod_exists(&self, pod: &Stale) -> Result<bool, LookUpError> {
        self.pod_exists_within(self.timing.look_up, pod).await
    }

    pub(super) async fn pod_exists_within(&self, within: Duration, pod: &Stale) -> Result<bool, LookUpError> {
        let Stale {
            uid, namespace, name, ..
        } = pod;
        let path = namespaced("", "v1", namespace, "pods");
        match self
            .get_within::<Existing>(within, &path, "pod", namespace, name)
            .await
        {
            Ok(found) => Ok(found.metadata.uid == *uid),
            Err(LookUpError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// One object, within the deadline of a look-up.
    async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        kind: &'static str,
        namespace: &str,
        name: &str,
    ) -> Result<T, LookUpError> {
        self.get_within(self.timing.look_up, path, kind, namespace, name)
            .await
    }

    /// One object, within a deadline that includes the wait for a place.
    pub(super) async fn get_within<T: DeserializeOwned>(
        &self,
        within: Duration,
        path: &str,
        kind: &'static str,
        namespace: &str,
        name: &str,
    ) -> Result<T, LookUpError> {
        let asked = async {
            // The semaphore is never closed.
            let _place = self.at_once.acquire().await;
            self.ask(path, kind, namespace, name).await
        };
        timeout(within, asked).await.unwrap_or_else(|_| {
            self.metrics.looked_up(kind, "timeout");
            Err(LookUpError::TimedOut {
                what: described(kind, namespace, name),
                within,
            })
        })
    }

    /// One object, for callers that keep the deadline and the number of questions.
    async fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        kind: &'static str,
        namespace: &str,
        name: &str,
    ) -> Result<T, LookUpError> {
        let what = || described(kind, namespace, name);
        let asked = async {
            // No object can have such a name, and a path must not be made of it.
            if !is_object_name(name) || !(namespace.is_empty() || is_object_name(namespace)) {
                return Err(LookUpError::NotFound { what: what() });
            }
            let call = Request::new(path)
                .get(name, &GetParams::default())
                .map_err(|error| failed(what(), kube::Error::BuildRequest(error)))?;
            let text = self
                .client
                .request_text(call)
                .await
                .map_err(|error| failed(what(), error))?;
            serde_json::from_str(&text).map_err(|error| LookUpError::Unreadable {
                what: what(),
                reason: error.to_string(),
            })
        };
        let result = asked.await;
        let label = result.as_ref().map_or_else(LookUpError::result, |_| "found");
        self.metrics.looked_up(kind, label);
        result
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Existing {
    metadata: Identity,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Identity {
    uid: String,
}

fn failed(what: String, error: kube::Error) -> LookUpError {
    match &error {
        kube::Error::Api(status) if status.code == 404 => LookUpError::NotFound { what },
        kube::Error::Api(status) if matches!(status.code, 401 | 403) => LookUpError::Forbidden { what },
        _ => LookUpError::Failed {
            what,
            source: Box::new(error),
        },
    }
}

fn described(kind: &str, namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        format!("{kind} {name}")
    } else {
        format!("{kind} {namespace}/{name}")
    }
}

/// The path of a namespaced resource.
pub(super) fn namespaced(group: &str, version: &str, namespace: &str, plural: &str) -> String {
    let root = if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    };
    format!("{root}/namespaces/{namespace}/{plural}")
}

/// Whether the text has the characters of an object's name (a DNS subdomain).
pub(super) fn is_object_name(name: &str) -> bool {
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    !name.is_empty() && name.len() <= 253 && name.bytes().all(allowed) && !name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_leave_the_path_are_no_names() {
        for name in ["settings", "a.b-c.9", "x"] {
            assert!(is_object_name(name), "{name}");
        }
        for name in [
            "",
            ".",
            "..",
            "../secrets/a",
            "a/b",
            "A",
            "a b",
            "a?x=y",
            "a%2fb",
            &"a".repeat(254),
        ] {
            assert!(!is_object_name(name), "{name}");
        }
    }

    #[test]
    fn errors_say_what_and_what_to_do() {
        let what = described("configmap", "team", "settings");
        let forbidden = failed(what.clone(), kube::Error::Api(Box::new(status(403))));
        assert_eq!(
            forbidden.to_string(),
            "vramgate may not read configmap team/settings; grant its service account `get` on that resource"
        );
        let timed_out = LookUpError::TimedOut {
            what: what.clone(),
            within: Duration::from_millis(300),
        };
        assert_eq!(
            timed_out.to_string(),
            "the API server did not answer within 300 ms for configmap team/settings"
        );
        assert!(matches!(
            failed(what.clone(), kube::Error::Api(Box::new(status(404)))),
            LookUpError::NotFound { .. }
        ));
        assert!(matches!(
            failed(what, kube::Error::Api(Box::new(status(500)))),
            LookUpError::Failed { .. }
        ));
    }

    fn status(code: u16) -> kube::core::Status {
        serde_json::from_value(serde_json::json!({"code": code})).unwrap()
    }
}
