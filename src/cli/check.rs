//! `vramgate check`: applies manifests in order and says what the webhook would answer to each.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::args::{Check, FailOn, Output};
use super::output::Paint;
use super::{Failure, Outcome, output, policies, state};
use crate::decision::{self, Operation, Question, Verdict};
use crate::document::{Checked, Decision, Document, Kind};
use crate::finding::Severity;
use crate::ledger::{Ledger, Moment};
use crate::manifest::Object;
use crate::snapshot::{self, Snapshot};
use crate::workload::Workload;

mod text;

/// Judges the input.
pub(super) fn run(args: &Check) -> Result<Outcome, Failure> {
    let objects = state::input(&args.files)?;
    let mut snapshot = state::of(&args.cluster)?;
    let objects = state::take_context(objects, &mut snapshot)?;
    let policies = policies::load(args.cluster.policy_dir.as_deref(), &snapshot)?;
    let mut ledger = Ledger::new(policies);
    snapshot.fill(&mut ledger);
    let mut applying = Applying { snapshot, ledger };
    let mut items = Vec::new();
    for object in objects {
        items.extend(applying.apply(&object)?);
    }
    let outcome = outcome(&items, args.fail_on);
    match args.output {
        Output::Json => output::print_json(&Document::new(Kind::CheckResult, items))?,
        Output::Text => output::print(&text::render(&items, Paint::for_stdout()))?,
    }
    Ok(outcome)
}

fn outcome(items: &[Checked], fail_on: FailOn) -> Outcome {
    let warned = |item: &Checked| item.findings.iter().any(|finding| finding.severity >= Severity::Warning);
    let refused = |item: &Checked| {
        item.verdict == Decision::Deny || (fail_on == FailOn::Warning && warned(item))
    };
    if items.iter().any(refused) { Outcome::Refused } else { Outcome::Passed }
}

/// A cluster to which objects are applied one after the other.
struct Applying {
    snapshot: Snapshot,
    ledger: Ledger,
}

impl Applying {
    /// Judges one object; `None` where it is not ours to judge.
    fn apply(&mut self, object: &Object) -> Result<Option<Checked>, Failure> {
        let Some(mut workload) = snapshot::read_workload(object)? else { return Ok(None) };
        let old = self.snapshot.existing(&workload).cloned();
        self.snapshot.adopt(&mut workload);
        // Its own pods are taken out first: they make room for what is to come.
        self.snapshot.withdraw(&workload, &mut self.ledger);
        let verdict = self.judge(&workload, old);
        if verdict.admit {
            let workload = after(object, workload, &verdict)?;
            if let Some(reservation) = verdict.reservation.clone() {
                self.ledger.commit(reservation, Moment(0));
            }
            self.snapshot.join(workload, &mut self.ledger);
        } else {
            self.snapshot.restore(&workload, &mut self.ledger);
        }
        let object = match snapshot::read_workload(object)? {
            Some(workload) => workload.object,
            None => return Ok(None),
        };
        Ok(verdict.judged.then(|| Checked::new(object, verdict)))
    }

    fn judge(&self, workload: &Workload, old: Option<Workload>) -> Verdict {
        let namespace_labels: BTreeMap<String, String> = self.snapshot.namespace_labels(&workload.object.namespace);
        let question = Question {
            operation: if old.is_some() { Operation::Update } else { Operation::Create },
            workload: workload.clone(),
            old,
            namespace_labels,
            by_node: false,
            scale_only: false,
            dry_run: false,
        };
        let policies = Arc::clone(self.ledger.policies());
        let prepared = decision::prepare(&question, &policies, &self.snapshot);
        decision::judge(&prepared, &self.ledger)
    }
}

/// The object as it is stored: with the changes that the policy makes to it.
fn after(object: &Object, workload: Workload, verdict: &Verdict) -> Result<Workload, Failure> {
    if verdict.patches.is_empty() {
        return Ok(workload);
    }
    let mut changed = object.clone();
    json_patch::patch(&mut changed.value, &verdict.patches)
        .map_err(|error| object.error(format!("the policy's own change does not apply: {error}")))?;
    let Some(mut changed) = snapshot::read_workload(&changed)? else { return Ok(workload) };
    changed.uid.clone_from(&workload.uid);
    changed.pod.metadata.uid.clone_from(&workload.pod.metadata.uid);
    changed.pod.spec.node_name.clone_from(&workload.pod.spec.node_name);
    changed.pod.status.clone_from(&workload.pod.status);
    Ok(changed)
}
