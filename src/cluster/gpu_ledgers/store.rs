//! Records as custom resources, changed by compare-and-swap on their `resourceVersion`.
//!
//! One call is one attempt: what becomes of a conflict or of an answer that did not come is the caller's affair. The
//! errors say which of three is true: nothing was written, another version is stored, or nobody knows.

use std::time::Duration;

use axum::http::{Method, Request, header};
use futures::future::BoxFuture;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::object::{self, GpuLedger};
use super::{DEFINE, PATH};
use crate::cluster::causes::Causes;
use crate::cluster::lookup::is_object_name;
use crate::cluster::metrics::Metrics;
use crate::record::NodeRecord;
use crate::store::{ReadError, Store, Stored, Version, WriteError};

/// Only the metadata of an object, which for a node saves tens of kilobytes.
/// <https://kubernetes.io/docs/reference/using-api/api-concepts/#metadata-only-fetches>
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// Records of nodes as `GpuLedger` objects. Clones share the client.
#[derive(Clone)]
pub struct KubernetesStore {
    client: Client,
    metrics: Metrics,
    within: Duration,
}

/// Why a call gave no object.
enum Failure {
    Api(Box<kube::Error>),
    Unreadable(String),
    TimedOut(Duration),
    NoName,
}

#[derive(Deserialize)]
struct Named {
    metadata: Identity,
}

#[derive(Deserialize)]
struct Identity {
    uid: String,
}

impl KubernetesStore {
    /// Over this client; each call ends within this time.
    pub(in crate::cluster) fn new(client: Client, metrics: Metrics, within: Duration) -> Self {
        Self {
            client,
            metrics,
            within,
        }
    }

    /// One request and its answer, counted as `call`.
    async fn ask(
        &self,
        call: &'static str,
        request: Request<Vec<u8>>,
        until: Instant,
    ) -> Result<String, Failure> {
        let started = Instant::now();
        let answer = timeout_at(until, self.client.request_text(request)).await;
        let result = match answer {
            Ok(Ok(text)) => Ok(text),
            Ok(Err(error)) => Err(Failure::Api(Box::new(error))),
            Err(_) => Err(Failure::TimedOut(self.within)),
        };
        let label = result.as_ref().map_or_else(Failure::label, |_| "done");
        self.metrics.stored(call, label, started.elapsed());
        result
    }

    /// Makes the object of a node, without content, and returns its version.
    async fn create(&self, node: &str, until: Instant) -> Result<Version, Failure> {
        let mut request = request(&Method::GET, &format!("/api/v1/nodes/{node}"), None)?;
        request
            .headers_mut()
            .insert(header::ACCEPT, header::HeaderValue::from_static(METADATA_ONLY));
        let text = self.ask("find-node", request, until).await?;
        let owner: Named = serde_json::from_str(&text).map_err(|error| Failure::unreadable(&error))?;
        let body = json!({"apiVersion": "vramgate.io/v1alpha1", "kind": "GpuLedger", "metadata": {"name": node,
            // Without `blockOwnerDeletion`, which would ask for the right to update the node.
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": owner.metadata.uid}]}});
        let text = self
            .ask("create", request_with(&Method::POST, PATH, &body)?, until)
            .await?;
        Ok(read(&text)?.stored.version)
    }

    async fn put(
        &self,
        node: &str,
        status: &Value,
        over: &Version,
        until: Instant,
    ) -> Result<Stored, Failure> {
        let body = json!({"apiVersion": "vramgate.io/v1alpha1", "kind": "GpuLedger",
            "metadata": {"name": node, "resourceVersion": over.0}, "status": status});
        let request = request_with(&Method::PUT, &format!("{PATH}/{node}/status"), &body)?;
        Ok(read(&self.ask("write", request, until).await?)?.stored)
    }

    async fn read_now(&self, node: &str) -> Result<Option<Stored>, ReadError> {
        let until = Instant::now() + self.within;
        let asked = async {
            named(node)?;
            let request = request(&Method::GET, &format!("{PATH}/{node}"), None)?;
            read(&self.ask("read", request, until).await?)
        };
        match asked.await {
            Ok(found) => Ok(Some(found.stored)),
            Err(failure) if failure.is_no_object() => Ok(None),
            Err(failure) => Err(ReadError {
                node: node.to_owned(),
                reason: failure.reason(),
            }),
        }
    }

    async fn write_now(
        &self,
        node: &str,
        record: &NodeRecord,
        over: Option<&Version>,
    ) -> Result<Stored, WriteError> {
        let until = Instant::now() + self.within;
        let refused = |reason: String| WriteError::Refused {
            node: node.to_owned(),
            reason,
        };
        let status = object::status(record).map_err(|error| refused(error.to_string()))?;
        named(node).map_err(|failure| refused(failure.reason()))?;
        let created;
        let over = if let Some(over) = over {
            over
        } else {
            // The object has no content yet, so whatever happened to this request, nothing of the record was written.
            created = self.create(node, until).await.map_err(|failure| {
                if failure.code() == Some(409) {
                    WriteError::Conflict {
                        node: node.to_owned(),
                    }
                } else {
                    refused(failure.reason())
                }
            })?;
            &created
        };
        let stored = self
            .put(node, &status, over, until)
            .await
            .map_err(|failure| failure.of_write(node))?;
        if stored.record == *record {
            Ok(stored)
        } else {
            Err(WriteError::Unknown {
                node: node.to_owned(),
                reason: format!(
                    "what was stored is not what was written: the definition of GpuLedger is older than this release; {DEFINE}"
                ),
            })
        }
    }

    async fn remove_now(&self, node: &str, over: &Version) -> Result<(), WriteError> {
        let until = Instant::now() + self.within;
        let body = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"resourceVersion": over.0}});
        let asked = async {
            named(node)?;
            let request = request_with(&Method::DELETE, &format!("{PATH}/{node}"), &body)?;
            self.ask("remove", request, until).await
        };
        asked.await.map(drop).map_err(|failure| failure.of_write(node))
    }
}

impl Store for KubernetesStore {
    fn read<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<Option<Stored>, ReadError>> {
        Box::pin(self.read_now(node))
    }

    fn write<'a>(
        &'a self,
        node: &'a str,
        record: &'a NodeRecord,
        over: Option<&'a Version>,
    ) -> BoxFuture<'a, Result<Stored, WriteError>> {
        Box::pin(self.write_now(node, record, over))
    }

    fn remove<'a>(&'a self, node: &'a str, over: &'a Version) -> BoxFuture<'a, Result<(), WriteError>> {
        Box::pin(self.remove_now(node, over))
    }
}

/// A path must not be made of what is no name.
fn named(node: &str) -> Result<(), Failure> {
    is_object_name(node).then_some(()).ok_or(Failure::NoName)
}

fn request(method: &Method, path: &str, body: Option<Vec<u8>>) -> Result<Request<Vec<u8>>, Failure> {
    Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(body.unwrap_or_default())
        .map_err(|error| Failure::Api(Box::new(kube::Error::HttpError(error))))
}

fn request_with(method: &Method, path: &str, body: &Value) -> Result<Request<Vec<u8>>, Failure> {
    request(method, path, Some(body.to_string().into_bytes()))
}

fn read(text: &str) -> Result<GpuLedger, Failure> {
    serde_json::from_str(text).map_err(|error| Failure::unreadable(&error))
}

impl Failure {
    fn unreadable(error: &serde_json::Error) -> Self {
        Self::Unreadable(error.to_string())
    }

    fn status(&self) -> Option<&kube::core::Status> {
        match self {
            Self::Api(error) => match &**error {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
            Self::Unreadable(_) | Self::TimedOut(_) | Self::NoName => None,
        }
    }

    fn code(&self) -> Option<u16> {
        self.status().map(|status| status.code)
    }

    /// Whether the API server says that there is no object of that name; it says so of a path that it does not serve, too,
    /// but names nothing then.
    fn is_no_object(&self) -> bool {
        self.status().is_some_and(|status| {
            let named = status
                .details
                .as_ref()
                .is_some_and(|details| !details.name.is_empty());
            status.code == 404 && named
        })
    }

    /// The label in the metric.
    fn label(&self) -> &'static str {
        match (self, self.code()) {
            (_, Some(409)) => "conflict",
            (_, Some(404)) if self.is_no_object() => "missing",
            (Self::TimedOut(_), _) => "timeout",
            (Self::Unreadable(_), _) => "unreadable",
            (Self::NoName, _) => "refused",
            _ if self.was_not_executed() => "refused",
            _ => "unknown",
        }
    }

    /// Whether the API server cannot have carried the request out.
    fn was_not_executed(&self) -> bool {
        match self {
            Self::NoName => true,
            Self::Unreadable(_) | Self::TimedOut(_) => false,
            Self::Api(error) => match &**error {
                kube::Error::Api(status) => {
                    // etcd's own limit is answered as if the server had broken.
                    (400..500).contains(&status.code) || status.message.contains("request is too large")
                }
                kube::Error::HttpError(_) | kube::Error::BuildRequest(_) | kube::Error::Auth(_) => true,
                error => never_connected(error),
            },
        }
    }

    fn of_write(self, node: &str) -> WriteError {
        let node = node.to_owned();
        if self.code() == Some(409) || self.is_no_object() {
            return WriteError::Conflict { node };
        }
        let reason = self.reason();
        if self.was_not_executed() {
            WriteError::Refused { node, reason }
        } else {
            WriteError::Unknown { node, reason }
        }
    }

    /// In words, with a remedy where one is known.
    fn reason(&self) -> String {
        let said = match self {
            Self::Api(error) => Causes(&**error).to_string(),
            Self::Unreadable(reason) => {
                return format!("{reason}; delete the GpuLedger if somebody edited it, it is written anew");
            }
            Self::TimedOut(within) => {
                return format!("the API server did not answer within {} ms", within.as_millis());
            }
            Self::NoName => return "an object cannot have this name".to_owned(),
        };
        let remedy = match self.status() {
            Some(status) if status.code == 404 && !self.is_no_object() => {
                format!("; the definition of GpuLedger is missing: {DEFINE}")
            }
            Some(status) if matches!(status.code, 401 | 403) => "; grant vramgate's service account get, list, watch, \
                 create and delete on gpuledgers and update on gpuledgers/status, of vramgate.io, and get on nodes"
                .to_owned(),
            Some(status) if status.code == 422 => {
                format!("; the definition of GpuLedger is not that of this release: {DEFINE}")
            }
            _ => String::new(),
        };
        said + &remedy
    }
}

/// Whether there was no connection at all, so that nothing can have been sent.
fn never_connected(error: &kube::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
            return error.is_connect();
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: Value) -> Failure {
        Failure::Api(Box::new(kube::Error::Api(Box::new(
            serde_json::from_value(status).unwrap(),
        ))))
    }

    fn write(code: u16, message: &str) -> WriteError {
        answered(json!({"code": code, "message": message})).of_write("gpu-1")
    }

    #[test]
    fn each_answer_says_whether_something_was_written() {
        assert!(matches!(write(409, "changed"), WriteError::Conflict { .. }));
        let gone = answered(json!({"code": 404, "message": "not found", "details": {"name": "gpu-1"}}));
        assert!(gone.is_no_object());
        assert!(matches!(gone.of_write("gpu-1"), WriteError::Conflict { .. }));
        for (code, message, remedy) in [
            (403, "forbidden", "update on gpuledgers/status"),
            (401, "who is that", "grant"),
            (404, "404 page not found", "vramgate crds"),
            (422, "status.devices: Required value", "vramgate crds"),
            (429, "too many requests", "too many"),
            (500, "etcdserver: request is too large", "too large"),
        ] {
            let error = write(code, message);
            assert!(
                matches!(&error, WriteError::Refused { reason, .. } if reason.contains(remedy)),
                "{code}: {error}"
            );
        }
        for code in [500, 503, 504] {
            assert!(matches!(write(code, "?"), WriteError::Unknown { .. }), "{code}");
        }
        let late = Failure::TimedOut(Duration::from_secs(2)).of_write("gpu-1");
        assert_eq!(
            late.to_string(),
            "no answer to the write of the record of node gpu-1: the API server did not answer within 2000 ms"
        );
    }
}
