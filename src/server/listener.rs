//! The accept loop: TLS, a cap on connections, limits on what a connection may do with its time, and draining.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use futures::FutureExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

use super::Settings;
use super::connection::{Activity, Overdue, Watched};
use super::metrics::{Dropped, Metrics};

/// What one connection may take.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    connections: usize,
    handshake: Duration,
    headers: Duration,
    idle: Duration,
    drain: Duration,
}

impl Limits {
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            connections: settings.connections.clamp(1, 1 << 20),
            handshake: settings.handshake_timeout,
            headers: settings.header_timeout,
            idle: settings.idle_timeout,
            drain: settings.drain,
        }
    }
}

/// Which protocol the peers agreed on. Without ALPN it is HTTP/1.1.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

/// Everything that connections of one listener share.
struct Listener {
    tls: Option<TlsAcceptor>,
    routes: Router,
    limits: Limits,
    metrics: Arc<Metrics>,
    stopped: watch::Receiver<bool>,
}

/// Accepts until `stopped` turns true, then lets running requests end.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    routes: Router,
    limits: Limits,
    metrics: Arc<Metrics>,
    mut stopped: watch::Receiver<bool>,
) {
    let slots = Arc::new(Semaphore::new(limits.connections));
    let (most, drain) = (limits.connections, limits.drain);
    let shared = Arc::new(Listener {
        tls: tls.map(TlsAcceptor::from),
        routes,
        limits,
        metrics,
        stopped: stopped.clone(),
    });
    loop {
        // The slot comes first: what is above the cap waits in the backlog and is not refused.
        let next = async {
            let slot = Arc::clone(&slots).acquire_owned().await.ok()?;
            Some((slot, listener.accept().await))
        };
        let (slot, accepted) = tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => break,
            next = next => match next {
                Some(next) => next,
                None => break,
            },
        };
        match accepted {
            Ok((stream, _)) => {
                tokio::spawn(connection(Arc::clone(&shared), stream, slot));
            }
            Err(error) => {
                // Out of file descriptors, mostly: they come back when connections end.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    let every_slot = slots.acquire_many(u32::try_from(most).unwrap_or(u32::MAX));
    if tokio::time::timeout(drain, every_slot).await.is_err() {
        tracing::warn!(
            open = most - slots.available_permits(),
            "connections were still busy at the end of the drain"
        );
    }
}

async fn connection(listener: Arc<Listener>, stream: TcpStream, slot: OwnedSemaphorePermit) {
    // Held to the end of this task, however it ends.
    let _slot = slot;
    let _counted = Counted::new(&listener.metrics);
    // Answers are small; waiting for more to send would only delay them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let Some(tls) = &listener.tls else {
        return serve_stream(&listener, stream, Protocol::Http1).await;
    };
    match tokio::time::timeout(listener.limits.handshake, tls.accept(stream)).await {
        Ok(Ok(stream)) => {
            let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            serve_stream(
                &listener,
                stream,
                if h2 { Protocol::Http2 } else { Protocol::Http1 },
            )
            .await;
        }
        Ok(Err(error)) => {
            listener.metrics.dropped(Dropped::Handshake);
            tracing::debug!(%error, "TLS handshake failed");
        }
        Err(_) => listener.metrics.dropped(Dropped::HandshakeTimeout),
    }
}

async fn serve_stream<S>(listener: &Listener, stream: S, protocol: Protocol)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = Activity::new();
    let stream = TokioIo::new(Watched::new(stream, Arc::clone(&activity)));
    let routes = listener.routes.clone();
    let of_service = Arc::clone(&activity);
    let service = service_fn(move |request: Request<Incoming>| {
        let running = of_service.request();
        routes.clone().oneshot(request).map(move |response| {
            drop(running);
            response
        })
    });
    let builder = builder(protocol);
    let connection = builder.serve_connection(stream, service);
    tokio::pin!(connection);

    let limits = &listener.limits;
    let mut stopped = listener.stopped.clone();
    let mut stopping = false;
    let every =
        (limits.headers.min(limits.idle) / 4).clamp(Duration::from_millis(10), Duration::from_secs(1));
    let mut ticks = tokio::time::interval(every);
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(error, "connection ended");
                }
                return;
            }
            _ = stopped.wait_for(|stopped| *stopped), if !stopping => {
                stopping = true;
                connection.as_mut().graceful_shutdown();
            }
            _ = ticks.tick() => {
                match activity.overdue(limits.headers, limits.idle, protocol == Protocol::Http2) {
                    None => {}
                    Some(Overdue::Headers) => {
                        listener.metrics.dropped(Dropped::HeaderTimeout);
                        return;
                    }
                    // Told once, so that HTTP/2 says goodbye; dropped at the next tick.
                    Some(Overdue::Idle) if stopping => return,
                    Some(Overdue::Idle) => {
                        stopping = true;
                        connection.as_mut().graceful_shutdown();
                    }
                }
            }
        }
    }
}

fn builder(protocol: Protocol) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // See `connection`: hyper's clock also runs while the connection is idle.
        .header_read_timeout(None)
        .max_buf_size(64 * 1024);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(256)
        .max_header_list_size(16 * 1024)
        // A review and its answer fit without waiting for the window.
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(8 << 20)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20));
    match protocol {
        Protocol::Http1 => builder.http1_only(),
        Protocol::Http2 => builder.http2_only(),
    }
}

/// One open connection in the gauge.
struct Counted(Arc<Metrics>);

impl Counted {
    fn new(metrics: &Arc<Metrics>) -> Self {
        metrics.connections().inc();
        Self(Arc::clone(metrics))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections().dec();
    }
}
