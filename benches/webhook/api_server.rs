//! An API server that has a large cluster: LISTs in pages and watches with bookmarks, over HTTPS. It makes each object when
//! it is asked for, and tells as many changes as it is told to. What vramgate writes itself it keeps: the records of nodes, by
//! compare-and-swap, and the Lease.
//!
//! `POST /tell?events=N` writes N changes into the watch of pods: of every ten three are of pods with a GPU, as in the
//! cluster. The answer comes when all are written to the connections.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures::stream;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::large::{self, Size, Templates, VERSION};
use crate::records::{self, Records, Refusal};
use crate::{Outcome, decision, tls};

/// A real one sends a bookmark about once a minute.
const BOOKMARK: Duration = Duration::from_mins(1);
/// Events in one piece of a watch.
const TOGETHER: u32 = 16;

struct Server {
    size: Size,
    templates: Templates,
    records: Records,
    lease: Mutex<Option<Value>>,
    version: AtomicU64,
    events: broadcast::Sender<Bytes>,
}

/// What a query says. Nothing here needs an escape.
struct Asked<'q>(&'q str);

impl<'q> Asked<'q> {
    fn of(uri: &'q Uri) -> Self {
        Self(uri.query().unwrap_or_default())
    }

    fn text(&self, name: &str) -> &'q str {
        let fields = self.0.split('&').filter_map(|field| field.split_once('='));
        fields
            .filter(|(field, _)| *field == name)
            .map(|(_, value)| value)
            .next_back()
            .unwrap_or_default()
    }

    fn number(&self, name: &str) -> u32 {
        self.text(name).parse().unwrap_or(0)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Resource {
    Nodes,
    Pods,
    Namespaces,
    Records,
}

impl Server {
    fn list(&self, resource: Resource, asked: &Asked<'_>) -> String {
        let (kind, total) = match resource {
            Resource::Nodes => ("NodeList", self.size.nodes),
            Resource::Pods => ("PodList", self.size.pods),
            Resource::Namespaces => (
                "NamespaceList",
                u32::try_from(large::namespaces().count()).unwrap_or(0),
            ),
            Resource::Records => ("GpuLedgerList", self.records.count()),
        };
        let group = match resource {
            Resource::Records => records::API_VERSION,
            _ => "v1",
        };
        let first = asked.number("continue");
        let limit = match asked.number("limit") {
            0 => total,
            limit => limit,
        };
        let end = first.saturating_add(limit).min(total);
        let mut text = String::with_capacity((end - first.min(end)) as usize * 11_000 + 200);
        let _ = write!(
            text,
            r#"{{"kind":"{kind}","apiVersion":"{group}","metadata":{{"resourceVersion":"{VERSION}""#
        );
        if end < total {
            let _ = write!(
                text,
                r#","continue":"{end}","remainingItemCount":{}"#,
                total - end
            );
        }
        text.push_str(r#"},"items":["#);
        let names: Vec<String> = match resource {
            Resource::Namespaces => large::namespaces().collect(),
            _ => Vec::new(),
        };
        if resource == Resource::Records {
            self.records.list(first, end, &mut text);
            text.push_str("]}\n");
            return text;
        }
        for number in first..end {
            if number > first {
                text.push(',');
            }
            match resource {
                Resource::Records => {}
                Resource::Nodes => self.templates.node(number, &mut text),
                Resource::Pods => {
                    self.templates
                        .pod(number, self.size, 2_000_000 + u64::from(number), &mut text);
                }
                Resource::Namespaces => {
                    let name = &names[number as usize];
                    let _ = write!(
                        text,
                        r#"{{"metadata":{{"name":"{name}","uid":"ffffffff-0000-4000-8000-{number:012}","resourceVersion":"{number}","labels":{{"kubernetes.io/metadata.name":"{name}"}}}},"spec":{{"finalizers":["kubernetes"]}},"status":{{"phase":"Active"}}}}"#
                    );
                }
            }
        }
        text.push_str("]}\n");
        text
    }

    fn watch(self: &Arc<Self>, resource: Resource) -> Body {
        // One that does not read would hold the others up.
        let receiver = match resource {
            Resource::Pods => Some(self.events.subscribe()),
            Resource::Records => Some(self.records.events.subscribe()),
            Resource::Nodes | Resource::Namespaces => None,
        };
        let server = Arc::clone(self);
        Body::from_stream(stream::unfold(receiver, move |mut receiver| {
            let server = Arc::clone(&server);
            async move {
                let event = match &mut receiver {
                    Some(receiver) => timeout(BOOKMARK, receiver.recv()).await,
                    None => timeout(BOOKMARK, std::future::pending()).await,
                };
                let piece = match event {
                    Ok(Ok(piece)) => piece,
                    // The sender lives as long as the process; one that fell behind has to list again.
                    Ok(Err(_)) => return None,
                    Err(_) => Bytes::from(format!(
                        "{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{}\"}}}}}}\n",
                        server.version.load(Ordering::Relaxed)
                    )),
                };
                Some((Ok::<_, Infallible>(piece), receiver))
            }
        }))
    }

    async fn tell(&self, events: u32) {
        let mut told = 0;
        while told < events {
            let mut piece = String::new();
            for _ in 0..TOGETHER.min(events - told) {
                let version = self.version.fetch_add(1, Ordering::Relaxed) + 1;
                piece.push_str(r#"{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1","#);
                let mut object = String::new();
                let number = u32::try_from(version % u64::from(self.size.pods)).unwrap_or(0);
                self.templates.pod(number, self.size, version, &mut object);
                piece.push_str(object.strip_prefix('{').unwrap_or(&object));
                piece.push_str("}\n");
                told += 1;
            }
            // Nobody listens before the watch of pods begins.
            let _ = self.events.send(piece.into());
            while self.events.len() > 64 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        while !self.events.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// A `Status` of the API server.
fn failure(code: StatusCode, reason: &str, message: &str) -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code.as_u16(),
        "message": message,
    });
    (
        code,
        [(header::CONTENT_TYPE, "application/json")],
        status.to_string(),
    )
        .into_response()
}

fn object(object: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], object.to_string()).into_response()
}

/// The Lease of the leader's election: whoever writes it has it.
fn lease(server: &Server, method: &Method, body: &[u8]) -> Response {
    let mut lease = server.lease.lock().unwrap_or_else(PoisonError::into_inner);
    if *method != Method::GET {
        let Ok(mut written) = serde_json::from_slice::<Value>(body) else {
            return failure(StatusCode::BAD_REQUEST, "BadRequest", "the Lease cannot be read");
        };
        let version = server.version.fetch_add(1, Ordering::Relaxed) + 1;
        written["metadata"]["resourceVersion"] = json!(version.to_string());
        *lease = Some(written);
    }
    match &*lease {
        Some(lease) => object(lease),
        None => failure(StatusCode::NOT_FOUND, "NotFound", "there is no Lease yet"),
    }
}

/// One record of a node.
fn record(server: &Server, node: &str, method: &Method, body: &[u8]) -> Response {
    let written = match (node.strip_suffix("/status"), method) {
        (None, &Method::GET) => server.records.read(node).ok_or(Refusal::Missing),
        (Some(node), &Method::PUT) => {
            let version = server.version.fetch_add(1, Ordering::Relaxed) + 1;
            server.records.write(node, body, version)
        }
        _ => Err(Refusal::Unreadable(format!("no {method} is expected of it"))),
    };
    match written {
        Ok(written) => object(&written),
        Err(Refusal::Missing) => failure(StatusCode::NOT_FOUND, "NotFound", "there is no such record"),
        Err(Refusal::Conflict) => failure(StatusCode::CONFLICT, "Conflict", "it was changed meanwhile"),
        Err(Refusal::Unreadable(message)) => failure(StatusCode::BAD_REQUEST, "BadRequest", &message),
    }
}

async fn answer(State(server): State<Arc<Server>>, method: Method, uri: Uri, body: Bytes) -> Response {
    let asked = Asked::of(&uri);
    let path = uri.path();
    if path.starts_with("/apis/coordination.k8s.io/v1/namespaces/") {
        return lease(&server, &method, &body);
    }
    if let Some(node) = path
        .strip_prefix(records::PATH)
        .and_then(|rest| rest.strip_prefix('/'))
    {
        return record(&server, node, &method, &body);
    }
    let resource = match path {
        "/api/v1/nodes" => Resource::Nodes,
        "/api/v1/pods" => Resource::Pods,
        "/api/v1/namespaces" => Resource::Namespaces,
        records::PATH => Resource::Records,
        path => return failure(StatusCode::NOT_FOUND, "NotFound", &format!("{path} is not here")),
    };
    let body = if matches!(asked.text("watch"), "true" | "1") {
        server.watch(resource)
    } else {
        Body::from(server.list(resource, &asked))
    };
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

async fn told(State(server): State<Arc<Server>>, uri: Uri) -> Response {
    server.tell(Asked::of(&uri).number("events")).await;
    StatusCode::OK.into_response()
}

/// Serves until the process ends.
pub(crate) async fn serve(listen: SocketAddr, certificate: &Path, key: &Path, size: Size) -> Outcome<()> {
    let acceptor = TlsAcceptor::from(tls::server(certificate, key)?);
    let templates = Templates::default();
    let ledger = decision::watched(size, &templates)?;
    let server = Arc::new(Server {
        size,
        templates,
        records: Records::of(ledger).await?,
        lease: Mutex::default(),
        version: AtomicU64::new(VERSION),
        events: broadcast::Sender::new(1024),
    });
    let router = Router::new()
        .route("/tell", post(told))
        .fallback(answer)
        .with_state(server);
    let listener = TcpListener::bind(listen).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let acceptor = acceptor.clone();
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            // A connection that fails is the client's to report.
            if let Ok(stream) = acceptor.accept(stream).await {
                let connection = Builder::new(TokioExecutor::new());
                let _ = connection.serve_connection(TokioIo::new(stream), service).await;
            }
        });
    }
}
