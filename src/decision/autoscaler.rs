//! The verdict on an object that scales another: whether the pods at its maximum find room.
//!
//! It never denies: an autoscaler that cannot be written freezes the workload at the size that it has.

use super::survey::growth;
use super::{Operation, Question, Verdict, fixes, judge, prepare};
use crate::demand::weigh::under;
use crate::engine::Sources;
use crate::finding::{Code, Finding, Fix, Number, Severity, short};
use crate::ledger::Ledger;
use crate::policy::Mode;
use crate::workload::{Autoscaler, Workload};

/// A CREATE or UPDATE of an autoscaler.
#[derive(Clone, Debug)]
pub struct AutoscalerQuestion {
    /// The autoscaler as it will be.
    pub autoscaler: Autoscaler,
    /// The autoscaler as it was (on UPDATE).
    pub old: Option<Autoscaler>,
}

impl AutoscalerQuestion {
    /// Whether there is anything to judge: it is nobody else's, stays, and its maximum or its target is new.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let Self { autoscaler, old } = self;
        let is_new = old.as_ref().is_none_or(|old| {
            old.max < autoscaler.max || old.target != autoscaler.target || old.job != autoscaler.job
        });
        is_new && !autoscaler.is_owned && !autoscaler.deleting
    }

    /// The question about the scaled object at the maximum; `None` where it is another's, or has no scale that is known.
    /// Labels of the namespace are still to be added.
    #[must_use]
    pub fn at_the_maximum(&self, target: &Workload) -> Option<Question> {
        if !self.autoscaler.scales(target) {
            return None;
        }
        Some(Self::about(target.scaled_to(self.autoscaler.max)?))
    }

    /// The same where what it scales stands in it; `None` where it scales another object.
    #[must_use]
    pub fn of_its_own(&self) -> Option<Question> {
        self.autoscaler.jobs_at_the_maximum().map(Self::about)
    }

    fn about(mut workload: Workload) -> Question {
        // What another object owns was judged with that, at the size that it had then.
        workload.controller = None;
        workload.deleting = false;
        let name = "kubernetes.io/metadata.name".to_owned();
        Question {
            operation: Operation::Create,
            namespace_labels: [(name, workload.object.namespace.clone())].into(),
            workload,
            old: None,
            by_node: false,
            scale_only: true,
            dry_run: true,
        }
    }
}

/// Judges an autoscaler by the question about its target [at the maximum](AutoscalerQuestion::at_the_maximum). A target
/// that asks for no GPU makes it no business of ours; what speaks against its pods at any number is said where it is applied.
#[must_use]
pub fn judge_autoscaler(
    autoscaler: &Autoscaler,
    at_the_maximum: Question,
    ledger: &Ledger,
    sources: &dyn Sources,
) -> Verdict {
    let policy = ledger.policies().for_pod(
        &at_the_maximum.namespace_labels,
        &at_the_maximum.workload.pod,
        None,
    );
    let prepared = prepare(at_the_maximum, ledger.policies(), sources);
    let of_target = judge(&prepared, ledger);
    if !of_target.judged || of_target.malformed.is_some() {
        return Verdict::not_ours();
    }
    let mut verdict = Verdict::of(&policy);
    verdict.placement = of_target.placement;
    verdict.promise = of_target.promise;
    verdict.unmodelled = of_target.unmodelled;
    let target = &prepared.question().workload;
    let lacks_room = |finding: &&Finding| matches!(finding.code, Code::Vg201 | Code::Vg209 | Code::Vg211);
    let told = of_target.findings.iter().filter(lacks_room).map(|finding| {
        if finding.code == Code::Vg201 && finding.numbers.contains_key("replicasThatFit") {
            under(&policy, exceeds(autoscaler, target, finding))
        } else {
            let mut finding = finding.clone();
            finding.path = autoscaler.max_path.clone();
            finding.fixes.clear();
            finding.detail(format!("that is at its maximum of {}", autoscaler.max))
        }
    });
    verdict.findings = told.collect();
    for finding in &mut verdict.findings {
        finding.severity = finding.severity.min(Severity::Warning);
    }
    verdict.conclude(Mode::Warn, false, false)
}

/// VG204, from what is said of the target at that size.
fn exceeds(autoscaler: &Autoscaler, target: &Workload, of_target: &Finding) -> Finding {
    let mut fit = replicas_that_fit(target, of_target);
    let (mut each, mut object) = (
        "replicas",
        format!("{} {}", autoscaler.target.kind, short(&autoscaler.target.name)),
    );
    if let Some(job) = &autoscaler.job {
        fit /= job.replicas.desired.max(1);
        each = "Jobs";
        object = format!("{} {}", autoscaler.object.kind, short(&autoscaler.object.name));
    }
    let most = match fit {
        0 => "not one fits".to_owned(),
        fit => format!("at most {fit} fit"),
    };
    let max = autoscaler.max;
    let message = format!("at the maximum of {max} {each} {object} exceeds the devices' budget: {most}");
    let others = match of_target.numbers.get(growth::POOL) {
        Some(Number::Text(pool)) => {
            format!("pods above that number wait until an autoscaler adds nodes of placement.growth ({pool})")
        }
        _ => "pods above that number are refused; the autoscaler itself is not held".to_owned(),
    };
    let mut finding = Finding::new(Code::Vg204, autoscaler.max_path.clone(), message)
        .detail(of_target.message.clone())
        .detail(others);
    if !autoscaler.is_written {
        finding = finding.detail(format!("{max} is the default where no maximum is written"));
    }
    finding.numbers.clone_from(&of_target.numbers);
    finding.holders.clone_from(&of_target.holders);
    let mut finding = finding
        .number("maxReplicas", Number::Count(u64::from(max)))
        .number("replicasThatFit", Number::Count(u64::from(fit)));
    if fit >= autoscaler.min.max(1) {
        let operation = fixes::operation("add", &autoscaler.max_path.to_pointer(), &serde_json::json!(fit));
        finding.fixes.extend(operation.map(|operation| Fix {
            title: format!("set {} to {fit}", autoscaler.max_path),
            patch: vec![operation],
        }));
    } else {
        finding = finding.detail(format!(
            "its minimum of {} is above that already: ask for less in {object}, or add such a device",
            autoscaler.min
        ));
    }
    finding
}

/// How many replicas fit. Of an object whose replicas are several pods each, the number that was tried for its own field.
fn replicas_that_fit(target: &Workload, of_target: &Finding) -> u32 {
    let count = |number: &Number| match number {
        Number::Count(count) => u32::try_from(*count).ok(),
        _ => None,
    };
    if target.layout.is_none() {
        let pods = of_target.numbers.get("replicasThatFit");
        return pods.and_then(count).unwrap_or(0);
    }
    let operations = of_target.fixes.iter().flat_map(|fix| &fix.patch);
    let tried = operations.filter_map(|operation| match operation {
        json_patch::PatchOperation::Add(add) if add.path == "/spec/replicas" => {
            add.value.as_u64().and_then(|number| u32::try_from(number).ok())
        }
        _ => None,
    });
    tried.max().unwrap_or(0)
}
