//! Objects applied one after the other to a cluster that is held in memory, for commands that judge beside `check`.

use std::sync::Arc;

use super::{Cluster, Judged};
use crate::cli::Failure;
use crate::cli::state::{self, Applied};
use crate::decision::Verdict;
use crate::ledger::Ledger;
use crate::manifest::Object;
use crate::policy::PolicySet;
use crate::snapshot::Snapshot;
use crate::workload::ObjectRef;

/// The verdict on each object that is judged, in the order of the objects, as `check` gives it. What cannot be used goes to
/// `failures`.
pub(in crate::cli) fn apply_all(
    objects: Vec<Object>,
    mut snapshot: Snapshot,
    policies: Arc<PolicySet>,
    failures: &mut Vec<Failure>,
) -> Vec<(ObjectRef, Verdict)> {
    let objects = state::take_context(objects, &mut snapshot, failures);
    let mut ledger = Ledger::new(policies);
    ledger.assume_advertised();
    snapshot.fill(&mut ledger);
    let mut cluster = Cluster {
        snapshot,
        ledger,
        applied: Vec::new(),
    };
    let mut judged: Vec<Option<Judged>> = Vec::with_capacity(objects.len());
    let mut autoscalers = Vec::new();
    for object in objects {
        let item = match object {
            Applied::Object(object) => cluster.apply(object),
            Applied::Configuration(configuration, old, origin) => {
                Ok(cluster.configure(configuration, old, origin))
            }
            Applied::Autoscaler(autoscaler, origin) => {
                autoscalers.push((judged.len(), autoscaler, origin));
                Ok(None)
            }
        };
        judged.push(item.unwrap_or_else(|failure| {
            failures.push(failure);
            None
        }));
    }
    for (at, autoscaler, origin) in autoscalers {
        if let Some(item) = judged.get_mut(at) {
            *item = cluster.scale(autoscaler, origin);
        }
    }
    let judged = judged.into_iter().flatten();
    judged.map(|item| (item.object, item.verdict)).collect()
}
