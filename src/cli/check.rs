//! `vramgate check`: applies manifests in order and says what the webhook would answer to each.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::args::{Check, FailOn, Output};
use super::output::Paint;
use super::state::Applied;
use super::{Failure, Outcome, input, output, policies, state};
use crate::configuration::Configuration;
use crate::decision::{
    self, AutoscalerQuestion, ConfigurationQuestion, Operation, Question, Surroundings, Verdict,
};
use crate::document::{Checked, Document, Kind};
use crate::finding::Severity;
use crate::ledger::{Ledger, Moment};
use crate::manifest::Object;
use crate::snapshot::Snapshot;
use crate::workload::{Autoscaler, ObjectRef, Workload};

mod text;

/// Judges the input.
pub(super) fn run(args: &Check) -> Result<Outcome, Failure> {
    input::once(&[args.files.as_slice(), &args.cluster.cluster_state].concat())?;
    let mut failures = Vec::new();
    let objects = state::input(&args.files, &mut failures);
    let mut snapshot = match state::of_any(&args.cluster) {
        Ok(snapshot) => snapshot,
        Err(failure) => {
            failures.push(failure);
            return Err(Failure::joined(failures));
        }
    };
    let objects = state::take_context(objects, &mut snapshot, &mut failures);
    // What configures GPUs is judged by the products of the catalogue where there is no node.
    let needs_nodes = objects.iter().any(|object| matches!(object, Applied::Object(_)));
    if (needs_nodes || objects.is_empty())
        && let Err(failure) = state::has_nodes(&snapshot)
    {
        failures.push(failure);
        return Err(Failure::joined(failures));
    }
    let policies = match policies::load(args.cluster.policy_dir.as_deref(), &snapshot) {
        Ok(policies) => policies,
        Err(failure) => {
            failures.push(failure);
            return Err(Failure::joined(failures));
        }
    };
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
            Applied::Configuration(configuration, old) => Ok(cluster.configure(configuration, old)),
            Applied::Autoscaler(autoscaler) => {
                autoscalers.push((judged.len(), autoscaler));
                Ok(None)
            }
        };
        judged.push(item.unwrap_or_else(|failure| {
            failures.push(failure);
            None
        }));
    }
    // Whatever the order of the input, each meets what it scales.
    for (at, autoscaler) in autoscalers {
        if let Some(item) = judged.get_mut(at) {
            *item = cluster.scale(autoscaler);
        }
    }
    let items: Vec<Judged> = judged.into_iter().flatten().collect();
    let outcome = outcome(&items, args.fail_on);
    // What cannot be used takes nothing else along: the verdicts on the rest are printed, and the exit code says 2.
    if items.is_empty() && !failures.is_empty() {
        return Err(Failure::joined(failures));
    }
    match args.output {
        Output::Text => output::print(&text::render(&items, Paint::for_stdout()))?,
        Output::Json => {
            let items = items
                .into_iter()
                .map(|item| Checked::new(item.object, item.verdict))
                .collect();
            output::print_json(&Document::new(Kind::CheckResult, items))?;
        }
    }
    if failures.is_empty() {
        Ok(outcome)
    } else {
        Err(Failure::joined(failures))
    }
}

/// An object with its verdict.
struct Judged {
    object: ObjectRef,
    verdict: Verdict,
}

fn outcome(items: &[Judged], fail_on: FailOn) -> Outcome {
    let refused = |item: &Judged| {
        let warned = item
            .verdict
            .findings
            .iter()
            .any(|finding| finding.severity >= Severity::Warning);
        !item.verdict.admit || (fail_on == FailOn::Warning && warned)
    };
    if items.iter().any(refused) {
        Outcome::Refused
    } else {
        Outcome::Passed
    }
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
    fn apply(&mut self, mut object: Object) -> Result<Option<Judged>, Failure> {
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
        let (mut verdict, ours) = self.judge(&workload, old);
        if let Some(malformed) = &verdict.malformed {
            return Err(object
                .error(format!("{} {:?}: {malformed}", reference.kind, reference.name))
                .into());
        }
        if verdict.admit {
            if !verdict.patches.is_empty() {
                workload = self.patched(&mut object, &verdict)?.unwrap_or(workload);
            }
            if let Some(reservation) = verdict.reservation.take() {
                self.ledger.commit(reservation, Moment(0));
            }
            self.snapshot.join(workload, &mut self.ledger);
        }
        Ok(ours.then_some(Judged {
            object: reference,
            verdict,
        }))
    }

    /// Judges what configures GPUs; `None` where it configures none. It is context, so it is in the cluster already, whatever
    /// the verdict.
    fn configure(&self, object: Configuration, old: Option<Configuration>) -> Option<Judged> {
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
        })
    }

    /// Judges an autoscaler against its target in the input, else in the cluster; `None` where neither has it or it asks for
    /// no GPU.
    fn scale(&self, autoscaler: Autoscaler) -> Option<Judged> {
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
        let labels = &target.workload.pod.metadata.labels;
        let policies = self.ledger.policies();
        let policy = policies.for_pod(&target.namespace_labels, labels, None);
        let sources = self.snapshot.sources(policy.read_config_maps);
        let verdict = decision::judge_autoscaler(autoscaler, target, &self.ledger, sources);
        verdict.judged.then(|| Judged {
            object: autoscaler.object.clone(),
            verdict,
        })
    }

    /// The verdict, and whether it is one that a user wants to see: a change that asks for nothing new is let through
    /// unjudged, but the object asks for a GPU all the same.
    fn judge(&self, workload: &Workload, old: Option<Workload>) -> (Verdict, bool) {
        let policies = Arc::clone(self.ledger.policies());
        let namespace_labels = self.snapshot.namespace_labels(&workload.object.namespace);
        let policy = policies.for_pod(&namespace_labels, &workload.pod.metadata.labels, None);
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
