//! Room for a run that begins before the last one has ended: what a CronJob allows under `concurrencyPolicy: Allow`.

use super::ground::Ground;
use super::sizing::{Peak, Sizing};
use crate::decision::fixes;
use crate::demand::Standing;
use crate::demand::weigh::under;
use crate::finding::{Code, FieldPath, Finding, Fix, Number};
use crate::units::Share;

impl Sizing<'_> {
    /// The peak of two runs at once beyond one that fits. A pod that lacks only a slot waits for it.
    pub(super) fn overlapping(&self) -> Option<Peak> {
        let replicas = &self.question.workload.replicas;
        let peak = replicas.desired.saturating_add(replicas.overlap);
        let ask = self.ask();
        let filled = self.ground.fill(&ask, self.base, peak);
        if filled.count >= peak {
            return None;
        }
        let full = Ground::with(&ask, self.base, &filled);
        let closest = self.closest_for(&ask, &full)?;
        if closest.fits.memory || !closest.fits.slots || !closest.fits.tenants {
            return None;
        }
        let share: Share = ask
            .weighed
            .get(&closest.kind.index)
            .map_or(Share::ZERO, |weighed| {
                weighed.standings.iter().map(Standing::share).sum()
            });
        let sum = share.times(u64::from(peak));
        let fit = filled.count;
        let (pods, fits) = (replicas.desired, if fit == 1 { "fits" } else { "fit" });
        let mut finding = Finding::new(
            Code::Vg203,
            FieldPath::new("spec.concurrencyPolicy"),
            format!(
                "runs may overlap, and two at once have {peak} pods at {share}, of which {fit} {fits}: the others are refused"
            ),
        )
        .detail(format!(
            "concurrencyPolicy Allow, the default, starts a run whether the last one has ended or not; each has {pods} at \
             once"
        ))
        .number("peakPods", Number::Count(u64::from(peak)))
        .number("peakPodsThatFit", Number::Count(u64::from(fit)))
        .number("peakFraction", Number::Share(sum))
        .number("budgetFraction", Number::Share(closest.budget()));
        let operation = fixes::operation("add", "/spec/concurrencyPolicy", &serde_json::json!("Forbid"));
        finding.fixes.extend(operation.map(|operation| Fix {
            title: "set concurrencyPolicy to Forbid".to_owned(),
            patch: vec![operation],
        }));
        Some(Peak {
            finding: under(&closest.kind.policy, finding),
            pods: Some(peak),
        })
    }
}
