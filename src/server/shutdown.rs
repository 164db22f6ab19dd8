//! When to stop.

/// Resolves at SIGTERM (the kubelet) or SIGINT (a terminal).
pub async fn termination() {
    use tokio::signal::unix::{SignalKind, signal};
    let wait = async |kind| match signal(kind) {
        Ok(mut signals) => {
            signals.recv().await;
        }
        Err(error) => {
            tracing::error!(%error, "cannot watch for a signal; it will end the process at once");
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = wait(SignalKind::terminate()) => {}
        () = wait(SignalKind::interrupt()) => {}
    }
}
