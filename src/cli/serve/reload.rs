//! Policy files that change while the webhook runs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cli::{Failure, policies};

/// How often the files are looked at. Their content is compared, not their times: a mounted ConfigMap changes by a
/// symbolic link.
const EVERY: Duration = Duration::from_secs(2);

/// Files with their content, or why they cannot be read: another reason is told again.
pub(super) type Content = Result<Vec<(String, Vec<u8>)>, String>;

/// What the folder holds now. To be taken before the policies are read, so that no change in between is missed.
pub(super) fn content(folder: &Path) -> Content {
    policies::content(folder).map_err(|failure| failure.to_string())
}

/// Reads a folder of policies and brings them into force.
pub(super) type Put = Box<dyn Fn(&Path) -> Result<(), Failure> + Send>;

/// Puts changed policies into force. A folder with an error leaves those in force that were; each error is told once.
pub(super) struct Reload {
    pub(super) folder: PathBuf,
    /// The content from which the policies in force were read, or one before it.
    pub(super) seen: Content,
    /// With whatever stands beside the files.
    pub(super) put: Put,
}

impl Reload {
    /// Goes on for good.
    pub(super) async fn follow(mut self) {
        loop {
            tokio::time::sleep(EVERY).await;
            let content = content(&self.folder);
            if content == self.seen {
                continue;
            }
            self.seen = content;
            match (self.put)(&self.folder) {
                Ok(()) => tracing::info!("policies reloaded"),
                Err(failure) => {
                    tracing::error!("policies not reloaded, the former ones stay in force: {failure}");
                }
            }
        }
    }
}
