//! An API server that has a large cluster: LISTs in pages and watches with bookmarks, over HTTPS. It makes each object when
//! it is asked for, and tells as many changes as it is told to.
//!
//! `POST /tell?events=N` writes N changes into the watch of pods: of every ten three are of pods with a GPU, as in the
//! cluster. The answer comes when all are written to the connections.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures::stream;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::large::{self, Size, Templates, VERSION};
use crate::{Outcome, tls};

/// A real one sends a bookmark about once a minute.
const BOOKMARK: Duration = Duration::from_mins(1);
/// Events in one piece of a watch.
const TOGETHER: u32 = 16;

struct Server {
    size: Size,
    templates: Templates,
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
            .last()
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
            r#"{{"kind":"{kind}","apiVersion":"v1","metadata":{{"resourceVersion":"{VERSION}""#
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
        for number in first..end {
            if number > first {
                text.push(',');
            }
            match resource {
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
        let receiver = (resource == Resource::Pods).then(|| self.events.subscribe());
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

async fn answer(State(server): State<Arc<Server>>, uri: Uri) -> Response {
    let asked = Asked::of(&uri);
    let resource = match uri.path() {
        "/api/v1/nodes" => Resource::Nodes,
        "/api/v1/pods" => Resource::Pods,
        "/api/v1/namespaces" => Resource::Namespaces,
        path => {
            let status = serde_json::json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
                "message": format!("{path} is not here"),
            });
            let json = [(header::CONTENT_TYPE, "application/json")];
            return (StatusCode::NOT_FOUND, json, status.to_string()).into_response();
        }
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
    let server = Arc::new(Server {
        size,
        templates: Templates::default(),
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
