//! LIST, then WATCH, then again: one resource followed for good.
//!
//! The client library's own watcher hides bookmarks (so nobody can tell how old the facts are), stays for good on a
//! version that the API server answers with 410 to the start of a watch, and gives up a whole page for one object that
//! does not decode. This one follows the same protocol on the library's client.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::HeaderValue;
use axum::http::header::ACCEPT_ENCODING;
use futures::{AsyncBufReadExt, FutureExt};
use kube::Client;
use kube::api::{ListParams, WatchParams};
use kube::core::Request;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::{debug, info, warn};

use super::backoff::Backoff;
use super::causes::Causes;
use super::freshness::{Freshness, Watched};
use super::metrics::Metrics;
use super::projection::{self, Decoded, Line, Page};
use super::timing::Timing;

/// A change that a watch told.
#[derive(Debug)]
pub(super) enum Change<T> {
    Applied(Decoded<T>),
    Deleted(Decoded<T>),
}

/// Takes what a follower reads.
pub(super) trait Fold: Send {
    type Object: DeserializeOwned + Send;

    /// Decodes a page of the list.
    fn page(&mut self, text: &str) -> Result<Page<Self::Object>, serde_json::Error> {
        projection::page(text)
    }
    /// Decodes a line of the watch.
    fn line(&mut self, bytes: &[u8]) -> Result<Line<Self::Object>, serde_json::Error> {
        projection::line(bytes)
    }
    /// A list starts. Facts stay until it is complete.
    fn begin(&mut self);
    /// Part of the list.
    fn listed(&mut self, items: Vec<Decoded<Self::Object>>) -> impl Future<Output = ()> + Send;
    /// The list is complete: what it did not hold is gone.
    fn complete(&mut self) -> impl Future<Output = ()> + Send;
    /// Changes, in their order.
    fn changed(&mut self, changes: Vec<Change<Self::Object>>) -> impl Future<Output = ()> + Send;
    /// When [`Fold::resume`] is to be called, if at all.
    fn due(&self) -> Option<Instant> {
        None
    }
    /// Work that was put off.
    fn resume(&mut self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// Why a list or watch did not go on.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{}", Causes(.0))]
    Api(#[from] kube::Error),
    #[error("no answer within {0:?}")]
    NoAnswer(Duration),
    #[error("the answer cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error("the list has no resourceVersion to watch from")]
    NoVersion,
    #[error("the connection broke: {0}")]
    Broken(#[from] std::io::Error),
    #[error("nothing was heard for {0:?}, not even a bookmark")]
    Silent(Duration),
    #[error("the API server does not serve it")]
    Absent,
    #[error("the API server ended it with code {code}: {message}")]
    Ended { code: u16, message: String },
}

impl Failure {
    /// Whether changes were lost, so that only a new list helps.
    fn is_desync(&self) -> bool {
        match self {
            Self::Api(kube::Error::Api(status)) => status.code == 410,
            Self::Ended { code, .. } => *code == 410,
            Self::Unreadable(_) | Self::NoVersion => true,
            Self::Api(_) | Self::NoAnswer(_) | Self::Broken(_) | Self::Silent(_) | Self::Absent => false,
        }
    }

    /// Whether there is nothing to be followed at that path.
    fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
            || matches!(self, Self::Api(kube::Error::Api(status)) if status.code == 404)
    }

    fn is_forbidden(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if status.code == 403)
    }

    /// The label in the metric.
    fn reason(&self) -> &'static str {
        match self {
            _ if matches!(self, Self::Api(_) | Self::Ended { .. }) && self.is_desync() => "gone",
            Self::Api(kube::Error::Api(status)) if matches!(status.code, 401 | 403) => "forbidden",
            Self::Api(kube::Error::Api(_)) | Self::Ended { .. } => "refused",
            Self::Api(_) | Self::Broken(_) => "connection",
            Self::Absent => "absent",
            Self::NoAnswer(_) | Self::Silent(_) => "silent",
            Self::Unreadable(_) | Self::NoVersion => "unreadable",
        }
    }
}

/// How a watch came to its end without failing.
enum End {
    /// The API server closed it, as it does every few minutes.
    Closed,
    /// Somebody asked for a new list.
    Refresh,
}

/// After so many failures in a row on one version a new list is tried instead: a version from before a restore of etcd
/// is never answered with 410.
const FAILURES_BEFORE_LIST: u32 = 5;

/// Follows one resource.
pub(super) struct Follower {
    pub(super) client: Client,
    pub(super) watched: Watched,
    pub(super) freshness: Arc<Freshness>,
    pub(super) metrics: Metrics,
    pub(super) timing: Timing,
    /// Where it is served, in the order in which the paths are tried.
    pub(super) paths: Vec<Cow<'static, str>>,
    /// The only object that is followed, by its name; all where there is none.
    pub(super) only: Option<String>,
    /// Which of the paths is followed.
    pub(super) path: AtomicUsize,
}

impl Follower {
    fn path(&self) -> &str {
        let at = self.path.load(Ordering::Relaxed);
        self.paths
            .get(at)
            .or(self.paths.first())
            .map_or("", AsRef::as_ref)
    }

    /// What of the objects there is followed.
    fn fields(&self) -> Option<String> {
        self.only.as_ref().map(|name| format!("metadata.name={name}"))
    }

    /// Lists under the first path that is served.
    async fn list_any<F: Fold>(&self, fold: &mut F) -> Result<String, Failure> {
        for at in 0..self.paths.len() {
            self.path.store(at, Ordering::Relaxed);
            match self.list(fold).await {
                Err(failure) if failure.is_absent() && self.watched.is_optional() => {}
                listed => return listed,
            }
        }
        Err(Failure::Absent)
    }

    /// A cluster without this API has no such objects; one whose role forbids to read them is judged without.
    async fn do_without<F: Fold>(&self, fold: &mut F, failure: &Failure) -> bool {
        if !self.watched.is_optional() {
            return false;
        }
        if failure.is_absent() {
            fold.complete().await;
            self.freshness.does_without(self.watched);
            debug!(watch = %self.watched, "the API server does not serve it: there is none");
            sleep(self.timing.absent_retry).await;
            return true;
        }
        if failure.is_forbidden() && !self.freshness.is_complete(self.watched) {
            self.freshness.does_without(self.watched);
        }
        false
    }

    /// Follows the resource for good.
    pub(super) async fn follow<F: Fold>(self, fold: &mut F) {
        let mut backoff = Backoff::new(self.timing.first_retry, self.timing.longest_retry);
        // An API server that says "gone" works: the new list need not wait as long as its absence lasted.
        let mut gone = Backoff::new(self.timing.first_retry, self.timing.longest_retry);
        let mut refreshes = self.freshness.refreshes(self.watched);
        let mut version: Option<String> = None;
        loop {
            let from = match version.take() {
                Some(from) => from,
                None => match self.list_any(fold).await {
                    Ok(from) => from,
                    Err(failure) => {
                        if self.do_without(fold, &failure).await {
                            continue;
                        }
                        self.pause(&mut backoff, "list", &failure).await;
                        continue;
                    }
                },
            };
            let mut at = from.clone();
            let started = Instant::now();
            let end = self.watch(fold, &mut at, &mut refreshes).await;
            // Progress, not a mere connection, ends a row of failures: a server that accepts and drops must not be
            // asked in a tight loop.
            if at != from || started.elapsed() > self.timing.longest_retry {
                backoff.succeeded();
                gone.succeeded();
            }
            match end {
                Ok(End::Refresh) => {
                    info!(watch = %self.watched, "listing again on request");
                    // The watch goes on from before the list: what came and went meanwhile is told, so that the
                    // reservation of a pod that was deleted at once ends. What the list knew already is told twice.
                    match self.list(fold).await {
                        Ok(_) => version = Some(at),
                        Err(failure) => self.pause(&mut backoff, "list", &failure).await,
                    }
                }
                Ok(End::Closed) => {
                    debug!(watch = %self.watched, "the API server closed the watch");
                    if at == from && started.elapsed() < self.timing.first_retry {
                        sleep(backoff.failed()).await;
                    }
                    version = Some(at);
                }
                Err(failure) if failure.is_absent() && self.watched.is_optional() => {}
                Err(failure) if failure.is_desync() => {
                    backoff.succeeded();
                    self.pause(&mut gone, "watch", &failure).await;
                }
                Err(failure) => {
                    self.pause(&mut backoff, "watch", &failure).await;
                    if !backoff.failures().is_multiple_of(FAILURES_BEFORE_LIST) {
                        version = Some(at);
                    }
                }
            }
        }
    }

    async fn pause(&self, backoff: &mut Backoff, verb: &str, failure: &Failure) {
        self.metrics.failed(self.watched, failure.reason());
        let pause = backoff.failed();
        let remedy = match failure {
            Failure::Api(kube::Error::Api(status)) if status.code == 403 => {
                "; grant vramgate's service account list and watch on this resource"
            }
            _ if failure.is_absent() && self.watched == Watched::GpuLedgers => {
                "; its definition is missing: install it with `vramgate crds | kubectl apply -f -`"
            }
            Failure::Api(kube::Error::Api(status)) if status.code == 401 => {
                "; check the credentials of vramgate's service account or kubeconfig"
            }
            _ => "",
        };
        self.freshness
            .failed(self.watched, format!("{}{remedy}", Causes(failure)));
        warn!(watch = %self.watched, %verb, failures = backoff.failures(), ?pause, "{}{remedy}", Causes(failure));
        sleep(pause).await;
    }

    /// Reads the whole list and returns the version to watch from.
    async fn list<F: Fold>(&self, fold: &mut F) -> Result<String, Failure> {
        let request = Request::new(self.path());
        let mut parameters = ListParams {
            field_selector: self.fields(),
            ..ListParams::default().limit(self.timing.page)
        };
        let mut count = 0;
        let mut buffer = Vec::new();
        fold.begin();
        loop {
            let call = request.list(&parameters).map_err(kube::Error::BuildRequest)?;
            buffer.clear();
            let read = async {
                // One buffer for all pages: a client that collects each would copy it twice, and `read_to_end` fills all
                // of it with zeros for each.
                let mut stream = pin!(self.client.request_stream(call).await?);
                loop {
                    let chunk = stream.fill_buf().await?;
                    let length = chunk.len();
                    if length == 0 {
                        return Ok::<_, Failure>(());
                    }
                    buffer.extend_from_slice(chunk);
                    stream.consume_unpin(length);
                }
            };
            timeout(self.timing.page_timeout, read)
                .await
                .map_err(|_| Failure::NoAnswer(self.timing.page_timeout))??;
            self.freshness.heard(self.watched);
            let text = std::str::from_utf8(&buffer)
                .map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error))?;
            let page = fold.page(text)?;
            count += page.items.len() + page.passed;
            self.note_unreadable(page.items.iter());
            fold.listed(page.items).await;
            match page.next {
                Some(token) => parameters = parameters.continue_token(&token),
                None if page.resource_version.is_empty() => return Err(Failure::NoVersion),
                None => {
                    fold.complete().await;
                    self.freshness.completed(self.watched);
                    self.metrics.listed(self.watched);
                    info!(watch = %self.watched, objects = count, version = page.resource_version, "listed");
                    return Ok(page.resource_version);
                }
            }
        }
    }

    /// Watches from `version` on, and keeps it at the last version that was heard.
    async fn watch<F: Fold>(
        &self,
        fold: &mut F,
        version: &mut String,
        refreshes: &mut tokio::sync::watch::Receiver<u64>,
    ) -> Result<End, Failure> {
        let parameters = WatchParams {
            field_selector: self.fields(),
            ..WatchParams::default().timeout(self.timing.watch_seconds)
        };
        let mut call = Request::new(self.path())
            .watch(&parameters, version)
            .map_err(kube::Error::BuildRequest)?;
        call.headers_mut()
            .insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let stream = timeout(self.timing.page_timeout, self.client.request_stream(call))
            .await
            .map_err(|_| Failure::NoAnswer(self.timing.page_timeout))??;
        self.freshness.heard(self.watched);
        let mut stream = pin!(stream);
        // What was read of a line stays here when a read is given up for something else.
        let mut line = Vec::new();
        let mut batch = Vec::new();
        let silence = self.timing.silence;
        let mut heard = Instant::now();
        loop {
            let read = if batch.is_empty() {
                let due = async {
                    match fold.due() {
                        Some(due) => tokio::time::sleep_until(due).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    read = timeout_at(heard + silence, stream.read_until(b'\n', &mut line)) => {
                        read.map_err(|_| Failure::Silent(silence))?
                    }
                    _ = refreshes.changed() => return Ok(End::Refresh),
                    () = due => {
                        fold.resume().await;
                        continue;
                    }
                }
            } else {
                // More that is there already joins the batch.
                let full = batch.len() >= self.timing.batch;
                let more = if full {
                    None
                } else {
                    stream.read_until(b'\n', &mut line).now_or_never()
                };
                let Some(read) = more else {
                    fold.changed(std::mem::take(&mut batch)).await;
                    continue;
                };
                read
            };
            heard = Instant::now();
            let end = match read {
                Ok(_) if line.last() == Some(&b'\n') => {
                    self.take_line(fold, &line, &mut batch, version).err()
                }
                // The end of the stream; a line that it cut is told again by the next watch.
                Ok(_) => {
                    fold.changed(batch).await;
                    return Ok(End::Closed);
                }
                Err(error) => Some(Failure::Broken(error)),
            };
            line.clear();
            if let Some(failure) = end {
                fold.changed(batch).await;
                return Err(failure);
            }
        }
    }

    /// Puts the line's change to the batch.
    fn take_line<F: Fold>(
        &self,
        fold: &mut F,
        line: &[u8],
        batch: &mut Vec<Change<F::Object>>,
        version: &mut String,
    ) -> Result<(), Failure> {
        let (change, at, kind) = match fold.line(line)? {
            Line::Passed(at) => (None, at, "applied"),
            Line::Applied(object, at) => (Some(Change::Applied(object)), at, "applied"),
            Line::Deleted(object, at) => (Some(Change::Deleted(object)), at, "deleted"),
            Line::Bookmark(at) => (None, at, "bookmark"),
            Line::Error { code, message } => return Err(Failure::Ended { code, message }),
            Line::Other(kind) => {
                warn!(watch = %self.watched, kind, "an event of unknown type is ignored");
                (None, String::new(), "unknown")
            }
        };
        self.freshness.heard(self.watched);
        self.metrics.event(self.watched, kind);
        if let Some(change) = change {
            let (Change::Applied(object) | Change::Deleted(object)) = &change;
            self.note_unreadable(std::iter::once(object));
            batch.push(change);
        }
        if !at.is_empty() {
            *version = at;
        }
        Ok(())
    }

    fn note_unreadable<'a, T: 'a>(&self, objects: impl Iterator<Item = &'a Decoded<T>>) {
        for object in objects {
            if let Decoded::Unreadable(unreadable) = object {
                self.metrics.unreadable(self.watched);
                warn!(
                    watch = %self.watched,
                    namespace = unreadable.metadata("namespace"),
                    name = unreadable.metadata("name"),
                    "an object cannot be read: {}", unreadable.reason
                );
            }
        }
    }
}
