//! `vramgate check`: applies manifests in order and says what the webhook would answer to each.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::args::{Check, CheckOutput};
use super::output::Paint;
use super::state::Applied;
use super::{Failure, Outcome, input, output, policies, state};
use crate::configuration::Configuration;
use crate::decision::{
    self, AutoscalerQuestion, ConfigurationQuestion, Operation, Question, Surroundings, Verdict,
};
use crate::document::{ChangeKind, ChangeSummary, CheckResult, Checked, Document, Kind, ObjectChange};
use crate::ledger::{Ledger, Moment};
use crate::manifest::{Object, Origin};
use crate::snapshot::Snapshot;
use crate::workload::{Autoscaler, ObjectRef, Workload};

mod against;
mod sequence;
mod text;

pub(super) use sequence::apply_all;
mod fails;
mod github;
mod junit;
mod places;
mod sarif;

use against::Before;
use fails::Fails;
use places::{Item, Places};

/// Judges the input.
pub(super) fn run(args: &Check) -> Result<Outcome, Failure> {
    input::once(&[args.files.as_slice(), &args.cluster.cluster_state, &args.against].concat())?;
    let fails = Fails::on(&args.fail_on)?;
    let mut failures = Vec::new();
    let mut places = Places::new();
    let result = judge(args, &mut places, &mut failures).unwrap_or_else(|failure| {
        failures.push(failure);
        Verdicts::default()
    });
    let items: Vec<Item> = result.items.into_iter().map(|item| places.locate(item)).collect();
    let refused = items.iter().any(|item| fails.by(&item.judged.verdict));
    write(args.output, items, result.change, &failures, &fails)?;
    // What cannot be used takes nothing else along: the verdicts on the rest are printed, and the exit code says 2.
    match (failures.is_empty(), refused) {
        (false, _) => Err(Failure::joined(failures)),
        (true, true) => Ok(Outcome::Refused),
        (true, false) => Ok(Outcome::Passed),
    }
}

/// Writes the result. A report that another program waits for is written also where nothing could be judged.
fn write(
    output: CheckOutput,
    items: Vec<Item>,
    change: Option<ChangeSummary>,
    failures: &[Failure],
    fails: &Fails,
) -> Result<(), Failure> {
    let nothing = items.is_empty() && !failures.is_empty();
    match output {
        CheckOutput::Text | CheckOutput::Json if nothing => Ok(()),
        CheckOutput::Text => output::print(&text::render(&items, change.as_ref(), Paint::for_stdout())),
        CheckOutput::Json => {
            let items = items.into_iter().map(|item| {
                let judged = item.judged;
                let places = item.places.into_iter().map(Some).collect();
                Checked {
                    change: judged.change,
                    ..Checked::at(judged.object, judged.verdict, Some(item.position), places)
                }
            });
            output::print_json(&CheckResult {
                document: Document::new(Kind::CheckResult, items.collect()),
                change,
            })
        }
        CheckOutput::Sarif => {
            let refused = items.iter().any(|item| fails.by(&item.judged.verdict));
            let exit_code = if failures.is_empty() { u8::from(refused) } else { 2 };
            output::print_json(&sarif::document(&items, failures, exit_code))
        }
        CheckOutput::Junit => output::print(&junit::render(&items, failures, fails)),
        CheckOutput::Github => output::print(&github::render(&items, failures)),
    }
}

/// What the whole input comes to.
#[derive(Default)]
struct Verdicts {
    /// In the order of the input.
    items: Vec<Judged>,
    /// With `--against`.
    change: Option<ChangeSummary>,
}

/// Judges the input. What cannot be used goes to `failures`.
fn judge(args: &Check, places: &mut Places, failures: &mut Vec<Failure>) -> Result<Verdicts, Failure> {
    let old = state::input(&args.against, failures);
    let objects = state::input_with(&args.files, failures, &mut |source| places.keep(source));
    places.note(&objects);
    let mut before = (!args.against.is_empty()).then(|| Before::new(&old, &objects));
    let mut snapshot = state::of_any(&args.cluster)?;
    let old = state::take_context(old, &mut snapshot, failures);
    let objects = state::take_context(objects, &mut snapshot, failures);
    // What configures GPUs is judged by the products of the catalogue where there is no node.
    let needs_nodes = objects.iter().any(|object| matches!(object, Applied::Object(_)));
    if needs_nodes || objects.is_empty() {
        state::has_nodes(&snapshot)?;
    }
    let policies = policies::load(args.cluster.policy_dir.as_deref(), &snapshot)?;
    let mut cluster = Cluster::new(snapshot, policies);
    if let Some(before) = &mut before {
        before.stand(old, &mut cluster, failures);
    }
    let items = cluster.judge_all(objects, before.as_mut(), args.all, failures);
    Ok(Verdicts {
        items,
        change: before.map(|before| before.summary),
    })
}

/// An object with its verdict.
struct Judged {
    object: ObjectRef,
    verdict: Verdict,
    /// Where it stands in the input.
    origin: Origin,
    /// What it was before, with `--against`.
    change: Option<ObjectChange>,
}

/// The cluster to which objects are applied one after the other.
struct Cluster {
    snapshot: Snapshot,
    ledger: Ledger,
    /// What autoscalers can scale of the input, whether it was admitted or not.
    applied: Vec<Workload>,
}

impl Cluster {
    /// Judges one object and lets it join where it is admitted; `None` where it is not ours to judge.
    fn apply(
        &mut self,
        mut object: Object,
        before: Option<&mut Before>,
        tell_all: bool,
    ) -> Result<Option<Judged>, Failure> {
        let Some(mut workload) = self.snapshot.read(&object)? else {
            return Ok(None);
        };
        let reference = workload.object.clone();
        let mut old = self.snapshot.existing(&workload).cloned();
        self.snapshot.adopt(&mut workload);
        for one in old.iter_mut().chain([&mut workload]) {
            self.snapshot.prioritize(one);
        }
        if workload.scaled_to(0).is_some() {
            self.applied.push(workload.clone());
        }
        let mut change = before.as_deref().map(|before| {
            let kind = before.kind(&object);
            against::of_workload(before, kind, self, old.as_ref(), &workload)
        });
        let kind = change.as_ref().map(|change| change.kind);
        if kind == Some(ChangeKind::Unchanged) && !tell_all {
            if let Some(before) = before
                && against::asks(&workload)
            {
                before.count(ChangeKind::Unchanged);
            }
            return Ok(None);
        }
        // Its pods will take the new values when they are made again, so it is judged as if it came now.
        let restarted = change.as_ref().is_some_and(|change| !change.through.is_empty());
        let restarted = old.take_if(|_| restarted);
        if let Some(before) = &restarted {
            self.snapshot.withdraw(before, &mut self.ledger);
        }
        let (mut verdict, ours) = self.judge(&workload, old.clone());
        if let Some(malformed) = &verdict.malformed {
            return Err(object
                .error(format!("{} {:?}: {malformed}", reference.kind, reference.name))
                .into());
        }
        if let (Some(before), Some(change)) = (before, &mut change) {
            if ours {
                before.count(change.kind);
            }
            if !verdict.admit {
                change.first = before.first(self, &workload, old.as_ref());
            }
        }
        if verdict.admit {
            if !verdict.patches.is_empty() {
                workload = self.patched(&mut object, &verdict)?.unwrap_or(workload);
            }
            if let Some(reservation) = verdict.reservation.take() {
                self.ledger.commit(reservation, Moment(0));
            }
            self.snapshot.join(workload, &mut self.ledger);
        } else if let Some(before) = restarted {
            // It runs all the same.
            self.snapshot.join(before, &mut self.ledger);
        }
        Ok(ours.then_some(Judged {
            object: reference,
            verdict,
            origin: object.origin,
            change,
        }))
    }

    /// Judges what configures GPUs; `None` where it configures none. It is context, so it is in the cluster already, whatever
    /// the verdict.
    fn configure(&self, object: Configuration, old: Option<Configuration>, origin: Origin) -> Option<Judged> {
        let (namespace_labels, mig) = match &object {
            Configuration::ConfigMap(map) => (self.snapshot.namespace_labels(&map.namespace), Vec::new()),
            Configuration::Node(node) => (
                BTreeMap::new(),
                self.snapshot.mig_config_maps(node, self.ledger.policies()),
            ),
        };
        let reference = object.object();
        let question = ConfigurationQuestion {
            operation: if old.is_some() {
                Operation::Update
            } else {
                Operation::Create
            },
            object,
            old,
            namespace_labels,
            mig,
        };
        let around = Surroundings::of(&question, &self.ledger);
        let verdict = decision::judge_configuration(&question, &around);
        verdict.judged.then_some(Judged {
            object: reference,
            verdict,
            origin,
            change: None,
        })
    }

    /// Judges an autoscaler against its target in the input, else in the cluster; `None` where neither has it or it asks for
    /// no GPU.
    fn scale(&self, autoscaler: Autoscaler, origin: Origin) -> Option<Judged> {
        let question = AutoscalerQuestion {
            autoscaler,
            old: None,
        };
        if !question.is_open() {
            return None;
        }
        let autoscaler = &question.autoscaler;
        let namespace = &autoscaler.object.namespace;
        let mut target = if let Some(own) = question.of_its_own() {
            own
        } else {
            let mut applied = self.applied.iter().rev();
            let target = match applied.find(|workload| autoscaler.scales(workload)) {
                Some(workload) => workload,
                None => {
                    self.snapshot
                        .workload(autoscaler.target_kind()?, namespace, &autoscaler.target.name)?
                }
            };
            question.at_the_maximum(target)?
        };
        target.namespace_labels = self.snapshot.namespace_labels(namespace);
        let policies = self.ledger.policies();
        let policy = policies.for_pod(&target.namespace_labels, &target.workload.pod, None);
        let sources = self.snapshot.sources(policy.read_config_maps);
        let verdict = decision::judge_autoscaler(autoscaler, target, &self.ledger, sources);
        verdict.judged.then(|| Judged {
            object: autoscaler.object.clone(),
            verdict,
            origin,
            change: None,
        })
    }

    /// The verdict, and whether it is one that a user wants to see: a change that asks for nothing new is let through
    /// unjudged, but the object asks for a GPU all the same.
    fn judge(&self, workload: &Workload, old: Option<Workload>) -> (Verdict, bool) {
        let policies = Arc::clone(self.ledger.policies());
        let namespace_labels = self.snapshot.namespace_labels(&workload.object.namespace);
        let policy = policies.for_pod(&namespace_labels, &workload.pod, None);
        let question = Question {
            operation: if old.is_some() {
                Operation::Update
            } else {
                Operation::Create
            },
            workload: workload.clone(),
            old,
            namespace_labels,
            by_node: false,
            scale_only: false,
            dry_run: false,
        };
        let prepared = decision::prepare(
            question,
            &policies,
            self.snapshot.sources(policy.read_config_maps),
        );
        let verdict = decision::judge_mutated(&prepared, &self.ledger);
        let stands_for_itself = workload.controller.is_none() && !workload.deleting;
        let ours = verdict.judged || (prepared.concerns_gpus() && stands_for_itself);
        (verdict, ours)
    }

    /// The object as it is stored: with the changes that the policy makes to it.
    fn patched(&self, object: &mut Object, verdict: &Verdict) -> Result<Option<Workload>, Failure> {
        json_patch::patch(&mut object.value, &verdict.patches)
            .map_err(|error| object.error(format!("the policy's own change does not apply: {error}")))?;
        let mut workload = self.snapshot.read(object)?;
        if let Some(workload) = &mut workload {
            self.snapshot.adopt(workload);
            self.snapshot.prioritize(workload);
        }
        Ok(workload)
    }
}
