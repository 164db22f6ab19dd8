//! Makes the records equal to what is counted here. For one replica at a time, the leader; two do no harm.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream;

use super::{Hopeless, Recorder, stamp};
use crate::ledger::Extent;
use crate::store::{Version, WriteError};

/// Nodes whose records are looked at together.
const AT_ONCE: usize = 8;
/// Tries for each node in one round; the next round comes soon.
const MOST_TRIES: u32 = 4;

/// What one round came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Records that were changed.
    pub written: usize,
    /// Records of nodes that are gone and hold nobody: taken out.
    pub removed: usize,
    /// Records that are left for the next round: somebody else wrote them, or nobody answered.
    pub left: usize,
}

/// What became of one record.
enum Kept {
    AsItWas,
    Written,
    Removed,
    Left,
}

impl Recorder {
    /// One round: each record says what is counted here, pods that are gone are left out, records of nodes that are gone
    /// are taken out once nobody stands in them.
    pub async fn keep_records(&self) -> Round {
        let nodes = self.lock().recorded_nodes();
        let kept = stream::iter(nodes)
            .map(|node| self.keep_record(node))
            .buffer_unordered(AT_ONCE);
        let count = |mut round: Round, kept: Kept| {
            match kept {
                Kept::AsItWas => {}
                Kept::Written => round.written += 1,
                Kept::Removed => round.removed += 1,
                Kept::Left => round.left += 1,
            }
            std::future::ready(round)
        };
        kept.fold(Round::default(), count).await
    }

    async fn keep_record(&self, node: Arc<str>) -> Kept {
        let mut was_written = false;
        for _ in 0..MOST_TRIES {
            let turn = self.turn(&node);
            let held = turn.lock().await;
            let draft = {
                let mut ledger = self.lock();
                self.withdraw(&mut ledger, &node);
                ledger.draft(&node, Extent::Exact, &stamp())
            };
            let done = if was_written { Kept::Written } else { Kept::AsItWas };
            let Some(draft) = draft else { return done };
            if !draft.first.is_empty() {
                drop(held);
                if !matches!(self.write_additions(&draft.first).await, Ok(true)) {
                    return Kept::Left;
                }
                continue;
            }
            let is_empty = draft.record.devices.is_empty() && draft.record.entries().next().is_none();
            if let (true, Some(over)) = (is_empty, draft.over.clone()) {
                return self.remove(&node, over).await;
            }
            if !draft.changed {
                return done;
            }
            match self.write(&node, &draft).await {
                Ok(true) => was_written = true,
                Ok(false) | Err(Hopeless { .. }) => return Kept::Left,
            }
        }
        if was_written { Kept::Written } else { Kept::Left }
    }

    /// Nobody shares a device of the node, or it is gone, and nobody stands in its record.
    async fn remove(&self, node: &str, over: String) -> Kept {
        let version = Version(over);
        match self.store.remove(node, &version).await {
            Ok(()) => {
                self.lock().remove_record(node, &version.0);
                Kept::Removed
            }
            Err(WriteError::Conflict { .. }) => {
                self.read(node, Some(&version.0)).await;
                Kept::Left
            }
            Err(error) => {
                tracing::warn!("{error}");
                Kept::Left
            }
        }
    }
}
