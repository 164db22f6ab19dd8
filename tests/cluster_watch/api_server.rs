//! An API server in memory: lists in pages, watches from a log of events, single objects, Events.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::watch;

#[derive(Default)]
struct Shared {
    version: u64,
    /// By resource, then by `namespace/name`.
    objects: BTreeMap<String, BTreeMap<String, Value>>,
    /// Events of each resource, as they go over the line.
    log: BTreeMap<String, Vec<(u64, String)>>,
    /// Watches from before this version are gone; whether HTTP says so.
    expired: BTreeMap<String, (u64, bool)>,
    refused: BTreeMap<String, u16>,
    broken_pages: BTreeSet<String>,
    slow: BTreeMap<String, Duration>,
    /// Lists of these are made at once and arrive so much later.
    slow_lists: BTreeMap<String, Duration>,
    /// Watches of these tell nothing for now.
    held: BTreeSet<String>,
    requests: BTreeMap<String, usize>,
    watched_from: BTreeMap<String, u64>,
    agents: BTreeSet<String>,
    posted: Vec<Value>,
    /// Rounds of cuts of each resource, and whether the last one was rough.
    cuts: BTreeMap<String, (u64, bool)>,
}

#[derive(Clone)]
pub(crate) struct ApiServer {
    shared: Arc<Mutex<Shared>>,
    changed: Arc<watch::Sender<u64>>,
    url: String,
}

impl ApiServer {
    pub(crate) async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Mutex::new(Shared {
            version: 100,
            ..Shared::default()
        }));
        let server = Self {
            shared,
            changed: Arc::new(watch::Sender::new(0)),
            url,
        };
        let router = Router::new().fallback(answer).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        server
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A client of this server, made as the product makes its own.
    pub(crate) async fn client(&self) -> kube::Client {
        let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "clusters": [{"name": "it", "cluster": {"server": self.url()}}],
            "users": [{"name": "it", "user": {}}]});
        let hash = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), self.url());
        let path = std::env::temp_dir().join(format!("vramgate-watch-test-{}-{hash}", std::process::id()));
        std::fs::write(&path, text.to_string()).unwrap();
        let client = vramgate::cluster::connect(Some(&path)).await.unwrap();
        std::fs::remove_file(path).unwrap();
        client
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap()
    }

    fn wake(&self) {
        self.changed.send_modify(|round| *round += 1);
    }

    fn key(object: &Value) -> String {
        let part = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        format!("{}/{}", part("namespace"), part("name"))
    }

    fn put(&self, resource: &str, mut object: Value, told: bool) {
        let mut shared = self.shared();
        shared.version += 1;
        let version = shared.version;
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let former = shared
            .objects
            .entry(resource.to_owned())
            .or_default()
            .insert(Self::key(&object), object.clone());
        if told {
            let kind = if former.is_some() { "MODIFIED" } else { "ADDED" };
            let line = format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n");
            shared
                .log
                .entry(resource.to_owned())
                .or_default()
                .push((version, line));
        }
        drop(shared);
        self.wake();
    }

    pub(crate) fn set(&self, resource: &str, object: Value) {
        self.put(resource, object, true);
    }

    /// A change that no watch tells of.
    pub(crate) fn set_unseen(&self, resource: &str, object: Value) {
        self.put(resource, object, false);
    }

    fn take(&self, resource: &str, namespace: &str, name: &str, told: bool) {
        let mut shared = self.shared();
        shared.version += 1;
        let version = shared.version;
        let objects = shared.objects.get_mut(resource).expect("no such resource");
        let mut object = objects
            .remove(&format!("{namespace}/{name}"))
            .expect("no such object");
        object["metadata"]["resourceVersion"] = version.to_string().into();
        if told {
            let line = format!("{{\"type\":\"DELETED\",\"object\":{object}}}\n");
            shared
                .log
                .entry(resource.to_owned())
                .or_default()
                .push((version, line));
        }
        drop(shared);
        self.wake();
    }

    pub(crate) fn delete(&self, resource: &str, namespace: &str, name: &str) {
        self.take(resource, namespace, name, true);
    }

    pub(crate) fn delete_unseen(&self, resource: &str, namespace: &str, name: &str) {
        self.take(resource, namespace, name, false);
    }

    pub(crate) fn config_map(&self, namespace: &str, name: &str, data: &Value) {
        self.set(
            "configmaps",
            json!({"metadata": {"name": name, "namespace": namespace}, "data": data}),
        );
    }

    /// A line of the watch, as it is.
    pub(crate) fn line(&self, resource: &str, text: &str) {
        let mut shared = self.shared();
        shared.version += 1;
        let version = shared.version;
        shared
            .log
            .entry(resource.to_owned())
            .or_default()
            .push((version, format!("{text}\n")));
        drop(shared);
        self.wake();
    }

    pub(crate) fn bookmark(&self, resource: &str) {
        let next = self.version() + 1;
        let object = json!({"metadata": {"resourceVersion": next.to_string()}});
        self.line(
            resource,
            &format!("{{\"type\":\"BOOKMARK\",\"object\":{object}}}"),
        );
    }

    /// Ends the watches of a resource: in the middle of a line, or in good order.
    pub(crate) fn cut(&self, resource: &str, rough: bool) {
        let mut shared = self.shared();
        let (round, was_rough) = shared.cuts.entry(resource.to_owned()).or_default();
        *round += 1;
        *was_rough = rough;
        drop(shared);
        self.wake();
    }

    /// Versions up to now are gone for watches that start from here on.
    pub(crate) fn expire(&self, resource: &str, over_http: bool) {
        let mut shared = self.shared();
        shared.version += 1;
        let version = shared.version;
        shared.expired.insert(resource.to_owned(), (version, over_http));
    }

    /// Every request for the resource (`pods`), or with one verb for it (`WATCH pods`), gets this status.
    pub(crate) fn refuse(&self, resource: &str, status: Option<u16>) {
        let mut shared = self.shared();
        match status {
            Some(status) => shared.refused.insert(resource.to_owned(), status),
            None => shared.refused.remove(resource),
        };
    }

    pub(crate) fn refuse_pages_after_first(&self, resource: &str, refuse: bool) {
        let mut shared = self.shared();
        if refuse {
            shared.broken_pages.insert(resource.to_owned());
        } else {
            shared.broken_pages.remove(resource);
        }
    }

    /// Every answer about an object of this name takes so long.
    pub(crate) fn slow(&self, name: &str, pause: Duration) {
        self.shared().slow.insert(name.to_owned(), pause);
    }

    /// Lists of the resource are on their way for so long.
    pub(crate) fn slow_list(&self, resource: &str, pause: Option<Duration>) {
        match pause {
            Some(pause) => self.shared().slow_lists.insert(resource.to_owned(), pause),
            None => self.shared().slow_lists.remove(resource),
        };
    }

    /// Watches of the resource tell nothing until they are let go on.
    pub(crate) fn hold(&self, resource: &str, hold: bool) {
        if hold {
            self.shared().held.insert(resource.to_owned());
        } else {
            self.shared().held.remove(resource);
            self.wake();
        }
    }

    /// Requests so far, as in `LIST pods`.
    pub(crate) fn requests(&self, what: &str) -> usize {
        self.shared().requests.get(what).copied().unwrap_or_default()
    }

    pub(crate) fn last_watch_version(&self, resource: &str) -> u64 {
        self.shared().watched_from[resource]
    }

    pub(crate) fn version(&self) -> u64 {
        self.shared().version
    }

    pub(crate) fn user_agents(&self) -> BTreeSet<String> {
        self.shared().agents.clone()
    }

    pub(crate) fn posted(&self) -> Vec<Value> {
        self.shared().posted.clone()
    }

    /// Carries a write out that is made over a version.
    fn store(
        &self,
        verb: &str,
        resource: &str,
        namespace: &str,
        name: Option<&str>,
        mut object: Value,
    ) -> Response {
        let name = name.or(object["metadata"]["name"].as_str()).unwrap().to_owned();
        let stored = {
            let shared = self.shared();
            let objects = shared.objects.get(resource);
            objects
                .and_then(|objects| objects.get(&format!("{namespace}/{name}")))
                .cloned()
        };
        let over = match verb {
            "DELETE" => &object["preconditions"]["resourceVersion"],
            _ => &object["metadata"]["resourceVersion"],
        };
        match (&stored, verb) {
            (Some(_), "POST") => return status(409, "it exists"),
            (None, "PUT" | "DELETE") => return no_object(&name),
            (Some(stored), _) if *over != stored["metadata"]["resourceVersion"] => {
                return status(409, "it was changed");
            }
            _ => {}
        }
        if verb == "DELETE" {
            self.delete(resource, namespace, &name);
            return status(200, "deleted");
        }
        if verb == "POST" {
            // The API server keeps it for the subresource.
            if resource == "gpuledgers" {
                object.as_object_mut().unwrap().remove("status");
            }
            object["metadata"]["namespace"] = namespace.into();
        } else if let Some(stored) = stored {
            object["metadata"] = stored["metadata"].clone();
        }
        if namespace.is_empty() {
            object["metadata"].as_object_mut().unwrap().remove("namespace");
        }
        self.set(resource, object);
        let shared = self.shared();
        shared.objects[resource][&format!("{namespace}/{name}")]
            .to_string()
            .into_response()
    }

    pub(crate) fn object(&self, resource: &str, key: &str) -> Option<Value> {
        self.shared().objects.get(resource)?.get(key).cloned()
    }

    fn list(&self, resource: &str, parameters: &BTreeMap<String, String>) -> Response {
        let shared = self.shared();
        let objects: Vec<Value> = shared
            .objects
            .get(resource)
            .into_iter()
            .flatten()
            .map(|(_, object)| object.clone())
            .collect();
        let from: usize = parameters
            .get("continue")
            .map_or(0, |token| token.parse().unwrap());
        if from > 0 && shared.broken_pages.contains(resource) {
            return status(500, "the page is lost");
        }
        let limit: usize = parameters
            .get("limit")
            .map_or(usize::MAX, |limit| limit.parse().unwrap());
        let to = from.saturating_add(limit).min(objects.len());
        let next = if to < objects.len() {
            to.to_string()
        } else {
            String::new()
        };
        Body::from(
            json!({"kind": "List", "metadata": {"resourceVersion": shared.version.to_string(), "continue": next},
                "items": objects[from..to]})
            .to_string(),
        )
        .into_response()
    }

    fn watch(&self, resource: &str, from: u64) -> Response {
        let gone = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}});
        let cut = {
            let mut shared = self.shared();
            shared.watched_from.insert(resource.to_owned(), from);
            if let Some((before, over_http)) = shared.expired.get(resource)
                && from < *before
            {
                return if *over_http {
                    status(410, "too old")
                } else {
                    Body::from(format!("{gone}\n")).into_response()
                };
            }
            shared.cuts.get(resource).copied().unwrap_or_default().0
        };
        let (server, resource) = (self.clone(), resource.to_owned());
        let changes = self.changed.subscribe();
        let stream = futures::stream::unfold((from, changes, false), move |(at, mut changes, over)| {
            let (server, resource) = (server.clone(), resource.clone());
            async move {
                if over {
                    return None;
                }
                loop {
                    changes.borrow_and_update();
                    let (lines, end) = {
                        let shared = server.shared();
                        let log = shared.log.get(&resource).map(Vec::as_slice).unwrap_or_default();
                        let told = !shared.held.contains(&resource);
                        let lines: Vec<_> = log
                            .iter()
                            .filter(|(version, _)| told && *version > at)
                            .cloned()
                            .collect();
                        let (round, rough) = shared.cuts.get(&resource).copied().unwrap_or_default();
                        (lines, (round != cut).then_some(rough))
                    };
                    match end {
                        Some(false) => return None,
                        Some(true) => {
                            // Some of a line, so that the client has to throw it away; the error comes with the next poll.
                            let half = Bytes::from_static(b"{\"type\":\"ADDED\",\"object\":{\"meta");
                            return Some((
                                if at == u64::MAX {
                                    Err(io::Error::other("cut"))
                                } else {
                                    Ok(half)
                                },
                                (u64::MAX, changes, at == u64::MAX),
                            ));
                        }
                        None => {}
                    }
                    if let Some((last, _)) = lines.last() {
                        let last = *last;
                        let text: String = lines.into_iter().map(|(_, line)| line).collect();
                        return Some((Ok::<_, io::Error>(Bytes::from(text)), (last, changes, false)));
                    }
                    changes.changed().await.ok()?;
                }
            }
        });
        Body::from_stream(stream).into_response()
    }
}

fn status(code: u16, message: &str) -> Response {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message, "reason": ""});
    (StatusCode::from_u16(code).unwrap(), body.to_string()).into_response()
}

/// What the API server answers where it serves the resource and has no such object.
fn no_object(name: &str) -> Response {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "message": "not found",
        "reason": "NotFound", "details": {"name": name}});
    (StatusCode::NOT_FOUND, body.to_string()).into_response()
}

async fn answer(State(server): State<ApiServer>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if let Some(agent) = parts.headers.get("user-agent") {
        server.shared().agents.insert(agent.to_str().unwrap().to_owned());
    }
    let parameters: BTreeMap<String, String> = parts
        .uri
        .query()
        .unwrap_or_default()
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let path: Vec<&str> = parts.uri.path().trim_matches('/').split('/').collect();
    let path = if path[0] == "api" { &path[2..] } else { &path[3..] };
    let (namespace, resource, name) = match path {
        ["namespaces", namespace, resource, name] => (*namespace, *resource, Some(*name)),
        ["namespaces", namespace, resource] => (*namespace, *resource, None),
        [resource, name] | [resource, name, "status"] => ("", *resource, Some(*name)),
        [resource] => ("", *resource, None),
        other => panic!("no such path: {other:?}"),
    };
    let watch = parameters
        .get("watch")
        .is_some_and(|value| value == "true" || value == "1");
    let verb = match (&parts.method, name) {
        (&Method::POST, _) => "POST",
        (&Method::PUT, _) => "PUT",
        (&Method::DELETE, _) => "DELETE",
        (&Method::PATCH, _) => "PATCH",
        (_, Some(_)) => "GET",
        _ if watch => "WATCH",
        _ => "LIST",
    };
    let (refused, slow) = {
        let mut shared = server.shared();
        *shared.requests.entry(format!("{verb} {resource}")).or_default() += 1;
        (
            shared
                .refused
                .get(resource)
                .or(shared.refused.get(&format!("{verb} {resource}")))
                .copied(),
            name.and_then(|name| shared.slow.get(name).copied()),
        )
    };
    if let Some(slow) = slow {
        tokio::time::sleep(slow).await;
    }
    if let Some(code) = refused {
        return status(code, "refused");
    }
    match verb {
        "POST" | "PUT" | "DELETE" if resource != "events" => {
            let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
            let object: Value = serde_json::from_slice(&bytes).unwrap();
            server.store(verb, resource, namespace, name, object)
        }
        "POST" => {
            let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
            let object: Value = serde_json::from_slice(&bytes).unwrap();
            server.shared().posted.push(object.clone());
            (StatusCode::CREATED, object.to_string()).into_response()
        }
        "PATCH" => {
            let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
            let change: Value = serde_json::from_slice(&bytes).unwrap();
            let key = format!("{namespace}/{}", name.unwrap());
            let known = server
                .shared()
                .objects
                .get(resource)
                .and_then(|all| all.get(&key))
                .cloned();
            let Some(mut object) = known else {
                return status(404, "not found");
            };
            json_patch::merge(&mut object, &change);
            server.set(resource, object.clone());
            object.to_string().into_response()
        }
        "GET" => {
            let shared = server.shared();
            let key = format!("{namespace}/{}", name.unwrap());
            match shared.objects.get(resource).and_then(|objects| objects.get(&key)) {
                Some(object) => object.to_string().into_response(),
                None => no_object(name.unwrap()),
            }
        }
        "WATCH" => server.watch(resource, parameters["resourceVersion"].parse().unwrap()),
        _ => {
            let list = server.list(resource, &parameters);
            let pause = server.shared().slow_lists.get(resource).copied();
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
            }
            list
        }
    }
}
