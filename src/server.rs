//! The webhook as a process: HTTPS for the API server on one port, health and metrics on another.
//!
//! The decision is the core's; what lives here is only what needs a socket, a clock or a lock.
//!
//! ```text
//! listener (TLS, limits) -> routes -> body -> endpoint -> backend -> admission::response
//!                                    readiness, metrics, status page on the second port
//! ```

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;

pub mod authority;
pub mod backend;
mod body;
pub mod certs;
mod connection;
mod endpoint;
mod listener;
mod locked;
pub mod metrics;
pub mod readiness;
pub mod recorder;
pub mod registration;
mod routes;
mod shutdown;
mod status;
pub mod tls;

pub use backend::{Backend, Clock, Decider, Decision, LedgerDecider, LookUps, NamedConfigMaps, NoLookUps};
pub use locked::locked;
pub use metrics::Metrics;
pub use readiness::Readiness;
pub use recorder::Recorder;
pub use shutdown::termination;
pub use status::StatusPage;
pub use tls::Certificates;

/// Where to listen, and every limit. [`Settings::default`] is what `serve` uses.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address of the HTTPS port.
    pub listen: SocketAddr,
    /// Address of the plain port for health, metrics and the status page.
    pub status_listen: SocketAddr,
    /// Largest body that is judged, in bytes. The API server refuses objects above 3 MiB, and an UPDATE carries two.
    pub body_limit: usize,
    /// Largest body that is still read, so that its sender gets an answer and not a broken pipe.
    pub drain_limit: usize,
    /// Time for a body to arrive.
    pub body_timeout: Duration,
    /// Own deadline of a review, below the registered timeout of 3 s.
    pub deadline: Duration,
    /// Time after which a look-up that does not keep its own limit of 300 ms is given up.
    pub look_up_timeout: Duration,
    /// Time for a TLS handshake.
    pub handshake_timeout: Duration,
    /// Time from the first byte of a request to the end of its headers.
    pub header_timeout: Duration,
    /// Time that a connection may be idle: longer than the 90 s after which the API server closes its own.
    pub idle_timeout: Duration,
    /// Connections at a time on each port; further ones wait in the backlog.
    pub connections: usize,
    /// Time between "not ready" and the end of accepting, for endpoints to be taken out.
    pub lame_duck: Duration,
    /// Time for running requests to end after that.
    pub drain: Duration,
    /// How often certificate files are looked at.
    pub certificate_poll: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([0, 0, 0, 0], 8443)),
            status_listen: SocketAddr::from(([0, 0, 0, 0], 8080)),
            body_limit: 8 * 1024 * 1024,
            drain_limit: 64 * 1024 * 1024,
            body_timeout: Duration::from_secs(5),
            deadline: Duration::from_millis(2_500),
            look_up_timeout: Duration::from_millis(350),
            handshake_timeout: Duration::from_secs(5),
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_mins(2),
            connections: 1_024,
            lame_duck: Duration::from_secs(5),
            drain: Duration::from_secs(10),
            certificate_poll: Duration::from_secs(10),
        }
    }
}

/// A server that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is taken or not ours.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// As configured.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// The TLS library refuses the settings.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// What a server is made of.
#[derive(Clone)]
pub struct Server {
    /// Addresses and limits.
    pub settings: Settings,
    /// What answers reviews.
    pub backend: Arc<Backend>,
    /// The certificate.
    pub certificates: Arc<Certificates>,
    /// Conditions that `/readyz` waits for.
    pub readiness: Readiness,
    /// What `/metrics` shows.
    pub metrics: Arc<Metrics>,
    /// What `/` of the status port shows.
    pub page: StatusPage,
}

/// A server that has its ports.
pub struct BoundServer {
    server: Server,
    reviews: TcpListener,
    status: TcpListener,
    tls: Arc<rustls::ServerConfig>,
}

impl Server {
    /// Takes the ports. Nothing is answered before [`BoundServer::run`].
    pub async fn bind(self) -> Result<BoundServer, ServeError> {
        let bind = async |address| {
            TcpListener::bind(address)
                .await
                .map_err(|source| ServeError::Listen { address, source })
        };
        let reviews = bind(self.settings.listen).await?;
        let status = bind(self.settings.status_listen).await?;
        let tls = Arc::new(tls::server_config(&self.certificates)?);
        let served = Arc::clone(&self.certificates);
        self.metrics.gauge(
            "certificate_expires_in_seconds",
            "Seconds until the served certificate stops being valid, negative afterwards",
            move || served.expires_in_seconds(),
        );
        Ok(BoundServer {
            server: self,
            reviews,
            status,
            tls,
        })
    }
}

impl BoundServer {
    /// The address of the HTTPS port, with the number that the system gave for port 0.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.reviews.local_addr()
    }

    /// The address of the status port.
    pub fn status_address(&self) -> std::io::Result<SocketAddr> {
        self.status.local_addr()
    }

    /// Serves until `stop` resolves, then drains: not ready, lame duck, no new connections, running requests end.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Server {
            settings,
            backend,
            certificates,
            readiness,
            metrics,
            page,
        } = self.server;
        let (stop_sender, stopped) = watch::channel(false);
        let limits = listener::Limits::of(&settings);

        let status_routes = status::routes(readiness.clone(), Arc::clone(&metrics), page);
        let status_task = tokio::spawn(listener::serve(
            self.status,
            None,
            status_routes,
            limits.clone(),
            Arc::clone(&metrics),
            stopped.clone(),
        ));
        let review_routes = routes::reviews(endpoint::Shared {
            backend,
            readiness: readiness.clone(),
            metrics: Arc::clone(&metrics),
            settings: settings.clone().into(),
        });
        let review_task = tokio::spawn(listener::serve(
            self.reviews,
            Some(self.tls),
            review_routes,
            limits,
            metrics.clone(),
            stopped,
        ));
        let poll_task = tokio::spawn(tls::poll(certificates, settings.certificate_poll, metrics));

        stop.await;
        tracing::info!(lame_duck = ?settings.lame_duck, "stopping: not ready any more, still answering");
        readiness.drain();
        tokio::time::sleep(settings.lame_duck).await;
        // No receiver is left only where both listeners have ended already.
        let _ = stop_sender.send(true);
        for task in [review_task, status_task] {
            if let Err(error) = task.await {
                tracing::error!(%error, "a listener ended abnormally");
            }
        }
        poll_task.abort();
        tracing::info!("stopped");
    }
}
