//! Policy files that change while the webhook runs.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::cli::policies;
use crate::ledger::Ledger;
use crate::snapshot::Snapshot;

/// How often the files are looked at. Their content is compared, not their times: a mounted ConfigMap changes by a
/// symbolic link.
const EVERY: Duration = Duration::from_secs(2);

/// Puts changed policies into force. A folder with an error leaves those in force that were; each error is told once.
pub(super) async fn policies(folder: PathBuf, snapshot: Arc<Snapshot>, ledger: Arc<Mutex<Ledger>>) {
    let mut seen = policies::content(&folder).ok();
    loop {
        tokio::time::sleep(EVERY).await;
        let content = policies::content(&folder).ok();
        if content == seen {
            continue;
        }
        seen = content;
        match policies::load(Some(&folder), &snapshot) {
            Ok(set) => {
                let names: Vec<_> = set.names().map(str::to_owned).collect();
                let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
                ledger.set_policies(set);
                // Policies decide how nodes and invocations are read.
                snapshot.fill(&mut ledger);
                tracing::info!(?names, "policies reloaded");
            }
            Err(failure) => {
                tracing::error!("policies not reloaded, the former ones stay in force: {failure}")
            }
        }
    }
}
