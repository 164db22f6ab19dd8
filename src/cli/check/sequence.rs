//! Objects applied one after the other to a cluster that is held in memory: by `check`, and by commands that judge beside it.

use std::sync::Arc;

use super::against::{self, Before};
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
    let judged = Cluster::new(snapshot, policies).judge_all(objects, None, true, failures);
    judged
        .into_iter()
        .map(|item| (item.object, item.verdict))
        .collect()
}

impl Cluster {
    /// What the snapshot holds, before anything is applied.
    pub(super) fn new(snapshot: Snapshot, policies: Arc<PolicySet>) -> Self {
        let mut ledger = Ledger::new(policies);
        ledger.assume_advertised();
        snapshot.fill(&mut ledger);
        Self {
            snapshot,
            ledger,
            applied: Vec::new(),
        }
    }

    /// Applies objects one after the other; the verdicts are in their order. What cannot be used goes to `failures`.
    pub(super) fn judge_all(
        &mut self,
        objects: Vec<Applied>,
        mut before: Option<&mut Before>,
        tell_all: bool,
        failures: &mut Vec<Failure>,
    ) -> Vec<Judged> {
        let mut judged: Vec<Option<Judged>> = Vec::with_capacity(objects.len());
        let mut autoscalers = Vec::new();
        for object in objects {
            let item = match object {
                Applied::Object(object) => self.apply(object, before.as_deref_mut(), tell_all),
                Applied::Configuration(configuration, old, origin) => {
                    let judged = self.configure(configuration, old, origin);
                    Ok(judged
                        .and_then(|judged| against::of_other(before.as_deref_mut(), judged, None, tell_all)))
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
        // Whatever the order of the input, each meets what it scales.
        for (at, autoscaler, origin) in autoscalers {
            if let Some(item) = judged.get_mut(at) {
                let target = autoscaler.target.clone();
                let scales = Some((target.kind.as_str(), target.name.as_str()));
                *item = self
                    .scale(autoscaler, origin)
                    .and_then(|judged| against::of_other(before.as_deref_mut(), judged, scales, tell_all));
            }
        }
        judged.into_iter().flatten().collect()
    }
}
