//! Makes the records equal to what is counted here. For one replica at a time, the leader; two do no harm.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream;

use super::{Hopeless, Recorder, Wrote};
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
        let mut kept = Kept::AsItWas;
        for _ in 0..MOST_TRIES {
            if let Some(over) = self.is_of_nobody(&node) {
                return self.remove(&node, over).await;
            }
            match self.write_for(None, &node).await {
                Ok(Wrote::Yes) => kept = Kept::Written,
                Ok(Wrote::Nothing | Wrote::Stuck) => return kept,
                Ok(Wrote::Unanswered) | Err(Hopeless { .. }) => return Kept::Left,
            }
        }
        Kept::Left
    }

    /// The version of a record in which nobody stands, of a node where nobody shares a device.
    fn is_of_nobody(&self, node: &str) -> Option<String> {
        let draft = self.lock().draft(node, Extent::Exact, "")?;
        let is_empty = draft.record.devices.is_empty() && draft.record.entries().next().is_none();
        draft.over.filter(|_| is_empty && draft.first.is_empty())
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
