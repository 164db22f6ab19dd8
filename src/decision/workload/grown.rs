//! Room for an UPDATE that asks for more pods and for less in each: pods of before stand beside the new ones.
//!
//! A Deployment's controller scales what is there before it rolls (kubernetes `pkg/controller/deployment`: `isScalingEvent` comes
//! before the strategy). A StatefulSet makes new ordinals at once, those below its partition as before (`pkg/controller/statefulset`,
//! `newVersionedStatefulSetPod`). ReplicaSets and ReplicationControllers never replace a pod.

use super::change::Before;
use super::ground::Ground;
use super::sizing::{Peak, Sizing};
use crate::decision::fixes;
use crate::demand::Standing;
use crate::demand::weigh::under;
use crate::finding::{Code, FieldPath, Finding, Fix, Number};
use crate::ledger::search::Ask;
use crate::units::Share;
use crate::workload::WorkloadKind;

impl Sizing<'_> {
    /// The peak of such an UPDATE beyond a steady state that fits. A pod that lacks only a slot waits for it.
    pub(super) fn grown(&self, before: &Before<'_>) -> Option<Peak> {
        let replicas = &self.question.workload.replicas;
        let had = before.workload.replicas.desired;
        let wanted = replicas.desired;
        if wanted <= had {
            return None;
        }
        let as_before = match self.question.workload.kind {
            WorkloadKind::Deployment => wanted,
            WorkloadKind::StatefulSet => had.max(replicas.kept).min(wanted),
            WorkloadKind::ReplicaSet | WorkloadKind::ReplicationController => had,
            // Pods of a Job and on each node are told elsewhere, or never change.
            WorkloadKind::Pod
            | WorkloadKind::DaemonSet
            | WorkloadKind::Job
            | WorkloadKind::CronJob
            | WorkloadKind::Custom(_) => return None,
        };
        let (large, new) = (self.at_the_larger(before.demand.map(AsRef::as_ref)), self.ask());
        let old_ones = self.ground.fill(&large, self.base, as_before);
        let beside = Ground::with(&large, self.base, &old_ones);
        let rest = wanted - as_before;
        let ground = Ground::of(self.ledger, &beside, self.spec);
        let new_ones = ground.fill(&new, &beside, rest);
        let fit = old_ones.count + new_ones.count;
        if fit >= wanted {
            return None;
        }
        let lacking = if old_ones.count < as_before { &large } else { &new };
        let full = Ground::with(&new, &beside, &new_ones);
        let closest = self.closest_for(lacking, &full)?;
        if closest.fits.memory || !closest.fits.slots || !closest.fits.tenants {
            return None;
        }
        let share = |ask: &Ask| -> Share {
            let weighed = ask.weighed.get(&closest.kind.index);
            weighed.map_or(Share::ZERO, |weighed| {
                weighed.standings.iter().map(Standing::share).sum()
            })
        };
        let beside_them = match rest {
            0 => String::new(),
            rest => format!(" beside {rest} new at {}", share(&new)),
        };
        let mut finding = Finding::new(
            Code::Vg203,
            FieldPath::new("spec.replicas"),
            format!(
                "for a while {as_before} pods as they were stand at {}{beside_them}, and {fit} of {wanted} fit: the others are \
                 refused until one of before is gone",
                share(&large)
            ),
        )
        .detail("replicas are raised and each pod asks for less: what is there is larger until it is replaced")
        .number("peakPods", Number::Count(u64::from(wanted)))
        .number("peakPodsThatFit", Number::Count(u64::from(fit)))
        .number("budgetFraction", Number::Share(closest.budget()));
        let operation = fixes::operation("add", "/spec/replicas", &serde_json::json!(had));
        finding.fixes.extend(operation.map(|operation| Fix {
            title: format!("leave replicas at {had} until the rollout is over"),
            patch: vec![operation],
        }));
        Some(Peak {
            finding: under(&closest.kind.policy, finding),
            pods: None,
        })
    }
}
