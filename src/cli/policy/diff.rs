//! `vramgate policy diff`: whose verdict changes between two sets of policies.
//!
//! Each pod and each workload of the cluster is judged as if it were created anew: what it holds itself is taken out, all
//! others stay where they are. So a row says what would come of that object at its next restart, and does not hang on the
//! order of the others.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use crate::cli::args::{Output, PolicyDiff};
use crate::cli::{Failure, Outcome, input, output, state};
use crate::decision::{self, Operation, Question, Verdict};
use crate::document::{API_VERSION, Kind};
use crate::finding::Severity;
use crate::ledger::Ledger;
use crate::message::headline;
use crate::policy::file::{self, Document};
use crate::policy::{DevicePolicy, PerSlot, PolicySet, Tenancy};
use crate::snapshot::Snapshot;
use crate::workload::pod::PodStatus;
use crate::workload::{ObjectRef, Workload, WorkloadKind};

mod text;

/// What comes of an object under one set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Side {
    verdict: Word,
    /// Whether the mode let a denial through.
    would_deny: bool,
    /// The policy that applied.
    policy: String,
    findings: Vec<Told>,
}

/// Whether it passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Admit,
    Deny,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Told {
    code: &'static str,
    severity: Severity,
    message: String,
}

/// What of an object changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Change {
    /// It would be refused from now on.
    AdmitToDeny,
    /// It would pass from now on.
    DenyToAdmit,
    /// The same verdict for other reasons, or with other weights.
    Findings,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    object: ObjectRef,
    change: Change,
    old: Side,
    new: Side,
}

/// A node whose devices are under other rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct DeviceChange {
    node: String,
    old_policy: String,
    new_policy: String,
    /// `budget 0.90 -> 0.85`.
    changes: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Differences {
    api_version: &'static str,
    kind: Kind,
    items: Vec<Row>,
    devices: Vec<DeviceChange>,
    /// Objects whose answer stays.
    same: usize,
}

/// Compares the two sets.
pub(super) fn run(args: &PolicyDiff) -> Result<Outcome, Failure> {
    input::once(&args.cluster_state)?;
    let old = Arc::new(set(&args.old)?);
    let new = Arc::new(set(&args.new)?);
    let snapshot = state::from_files(&args.cluster_state)?;
    if !snapshot.policies().is_empty() {
        output::note(
            "note: policies of the cluster state are left out: OLD and NEW are all policies of their side",
        );
    }
    let differences = compare(&snapshot, &old, &new);
    let outcome = if differences.items.is_empty() && differences.devices.is_empty() {
        Outcome::Passed
    } else {
        Outcome::Refused
    };
    match args.output {
        Output::Text => output::print(&text::render(&differences))?,
        Output::Json => output::print_json(&differences)?,
    }
    Ok(outcome)
}

/// The policies of a file or folder.
fn set(path: &Path) -> Result<PolicySet, Failure> {
    let mut documents: Vec<Document> = Vec::new();
    if !(path.is_dir() && input::is_empty(path)?) {
        for source in super::lint::sources(&[path.to_owned()])? {
            documents.extend(file::parse(&source.text, &source.name)?);
        }
    }
    Ok(PolicySet::from_documents(documents)?)
}

fn compare(snapshot: &Snapshot, old: &Arc<PolicySet>, new: &Arc<PolicySet>) -> Differences {
    let mut sides = [old, new].map(|policies| {
        let mut ledger = Ledger::new(Arc::clone(policies));
        ledger.assume_advertised();
        snapshot.fill(&mut ledger);
        ledger
    });
    let mut items = Vec::new();
    let mut same = 0;
    for workload in snapshot.workloads() {
        // A pod of a controller is made from its template, which is judged; but the pod shows what it carries now.
        let [before, after] = sides.each_mut().map(|ledger| anew(workload, snapshot, ledger));
        let (Some(before), Some(after)) = (before, after) else {
            continue;
        };
        let change = match (before.verdict, after.verdict) {
            _ if before.verdict == after.verdict
                && before.findings == after.findings
                && before.would_deny == after.would_deny =>
            {
                same += 1;
                continue;
            }
            (Word::Admit, Word::Deny) => Change::AdmitToDeny,
            (Word::Deny, Word::Admit) => Change::DenyToAdmit,
            _ => Change::Findings,
        };
        items.push(Row {
            object: workload.object.clone(),
            change,
            old: before,
            new: after,
        });
    }
    Differences {
        api_version: API_VERSION,
        kind: Kind::PolicyDiff,
        items,
        devices: devices(snapshot, old, new),
        same,
    }
}

/// What comes of an object that is created anew; `None` where there is nothing to judge.
fn anew(workload: &Workload, snapshot: &Snapshot, ledger: &mut Ledger) -> Option<Side> {
    let is_pod = workload.kind == WorkloadKind::Pod;
    if workload.deleting || (is_pod && workload.pod.has_ended()) || (!is_pod && workload.controller.is_some())
    {
        return None;
    }
    let own: Vec<&Workload> = if is_pod {
        vec![workload]
    } else {
        snapshot.owned(workload).map(AsRef::as_ref).collect()
    };
    for pod in &own {
        ledger.remove_pod(&pod.uid);
    }
    let mut fresh = workload.clone();
    if is_pod {
        fresh.pod.spec.node_name = None;
        fresh.pod.status = PodStatus::default();
    }
    snapshot.prioritize(&mut fresh);
    let namespace_labels = snapshot.namespace_labels(&workload.object.namespace);
    let policies = Arc::clone(ledger.policies());
    let policy = policies.for_pod(&namespace_labels, &fresh.pod, None);
    let question = Question {
        operation: Operation::Create,
        workload: fresh,
        old: None,
        namespace_labels,
        by_node: false,
        scale_only: false,
        dry_run: true,
    };
    let prepared = decision::prepare(question, &policies, snapshot.sources(policy.read_config_maps));
    let verdict = decision::judge_mutated(&prepared, ledger);
    for pod in own {
        snapshot.put_back(pod, ledger);
    }
    verdict.judged.then(|| side(&verdict))
}

fn side(verdict: &Verdict) -> Side {
    let told = verdict.findings.iter().map(|finding| Told {
        code: finding.code.as_str(),
        severity: finding.severity,
        message: headline(finding),
    });
    Side {
        verdict: if verdict.admit { Word::Admit } else { Word::Deny },
        would_deny: verdict.would_deny,
        policy: verdict.policy.clone(),
        findings: told.filter(|told| told.severity > Severity::Info).collect(),
    }
}

/// The nodes whose devices change.
fn devices(snapshot: &Snapshot, old: &PolicySet, new: &PolicySet) -> Vec<DeviceChange> {
    let nodes = snapshot.gpu_nodes(old);
    nodes
        .filter_map(|node| {
            let labels = &node.labels;
            let (before, after) = (old.for_device(labels), new.for_device(labels));
            let changes = changes(&before.device, &after.device);
            (!changes.is_empty()).then(|| DeviceChange {
                node: node.metadata.name.to_string(),
                old_policy: before.name.clone(),
                new_policy: after.name.clone(),
                changes,
            })
        })
        .collect()
}

fn changes(old: &DevicePolicy, new: &DevicePolicy) -> Vec<String> {
    let per_slot = |rule: PerSlot| match rule {
        PerSlot::None => "none",
        PerSlot::FairShare => "fairShare",
    };
    let tenants = |tenants: &Tenancy| match tenants {
        Tenancy::Any => "any".to_owned(),
        Tenancy::SameNamespace => "sameNamespace".to_owned(),
        Tenancy::Sets(sets) => format!("{sets:?}").replace('"', ""),
    };
    let evidence = |device: &DevicePolicy| {
        let words: Vec<&str> = device.evidence.iter().map(|grade| grade.as_str()).collect();
        words.join(", ")
    };
    let reserve = |device: &DevicePolicy| {
        let reserve = &device.reserve;
        format!(
            "{} at least {}, on MIG {}",
            reserve.fraction, reserve.at_least, reserve.mig
        )
    };
    let pairs = [
        ("budget", old.budget.to_string(), new.budget.to_string()),
        ("reserve", reserve(old), reserve(new)),
        (
            "perSlot",
            per_slot(old.per_slot).to_owned(),
            per_slot(new.per_slot).to_owned(),
        ),
        ("evidence", evidence(old), evidence(new)),
        ("tenants", tenants(&old.tenants), tenants(&new.tenants)),
    ];
    let mut changes: Vec<String> = pairs
        .into_iter()
        .filter(|(_, before, after)| before != after)
        .map(|(field, before, after)| format!("{field} {before} -> {after}"))
        .collect();
    if changes.is_empty() && old != new {
        changes.push("products or the ConfigMaps that configure GPUs".to_owned());
    }
    changes
}
