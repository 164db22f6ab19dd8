//! When to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Resolves at SIGTERM (the kubelet) or SIGINT (a terminal). A second signal ends the process at once: whoever sends it
/// does not want to wait for the drain.
pub async fn termination() {
    let mut signals = Signals {
        terminate: watched(SignalKind::terminate()),
        interrupt: watched(SignalKind::interrupt()),
    };
    signals.next().await;
    tokio::spawn(async move {
        signals.next().await;
        tracing::warn!("told to stop twice: ending without draining");
        std::process::exit(1);
    });
}

struct Signals {
    terminate: Option<Signal>,
    interrupt: Option<Signal>,
}

impl Signals {
    async fn next(&mut self) {
        tokio::select! {
            () = one(&mut self.terminate) => {}
            () = one(&mut self.interrupt) => {}
        }
    }
}

fn watched(kind: SignalKind) -> Option<Signal> {
    signal(kind)
        .inspect_err(
            |error| tracing::error!(%error, "cannot watch for a signal; it will end the process at once"),
        )
        .ok()
}

async fn one(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}
