//! Room for the pods of one template: the steady state and the peak of a rollout.

use std::sync::Arc;

use super::change::Before;
use super::ground::{Filled, Ground};
use crate::decision::budget::{self, Closest, Own, closest, closest_with};
use crate::decision::pod::{Sought, seek};
use crate::decision::survey::Survey;
use crate::decision::survey::growth::{self, Growth};
use crate::decision::{Question, access, counted, fixes, preemption};
use crate::demand::Demand;
use crate::demand::weigh::under;
use crate::finding::{Code, FieldPath, Finding, Fix, Number, Severity};
use crate::ledger::Ledger;
use crate::ledger::search::{Ask, Overlay};
use crate::units::Share;
use crate::workload::pod::PodSpec;
use crate::workload::template::Surge;

/// What an attempt to place all pods came to.
pub(super) struct Placed {
    pub(super) filled: Filled,
    /// The code of what keeps the others out.
    pub(super) code: Option<Code>,
    pub(super) finding: Option<Finding>,
}

impl Placed {
    pub(super) fn all(filled: Filled) -> Self {
        Self {
            filled,
            code: None,
            finding: None,
        }
    }
}

/// What a rollout would come to where it does not fit.
pub(super) struct Peak {
    pub(super) finding: Finding,
    /// Pods at once; `None` where it is told per node.
    pub(super) pods: Option<u32>,
}

/// One template over what the others leave.
#[derive(Clone, Copy)]
pub(super) struct Sizing<'a> {
    pub(super) question: &'a Question,
    pub(super) demand: &'a Demand,
    pub(super) survey: &'a Survey<'a>,
    pub(super) ledger: &'a Ledger,
    pub(super) base: &'a Overlay<'a>,
    pub(super) ground: &'a Ground,
    pub(super) own: &'a Own,
    pub(super) spec: &'a Arc<PodSpec>,
    /// Pods of the object's other templates that stand already.
    pub(super) beside: u32,
}

/// Whether its pods go before others is decided as each is created, by the number of its class.
fn may_preempt(finding: Finding) -> Finding {
    let severity = finding.severity.min(Severity::Warning);
    finding
        .detail(
            "by their priority class, with pods of lower priority preempted there would be room; each pod is judged \
             by its own priority when it is created",
        )
        .with_severity(severity)
}

impl Sizing<'_> {
    pub(super) fn ask(&self) -> Ask {
        self.survey.ask(self.spec.clone())
    }

    fn growth(&self) -> Growth {
        self.survey.growth(self.question, self.spec, self.ledger)
    }

    /// The pool whose nodes pods without room wait for instead of being refused.
    pub(super) fn growing(&self) -> Option<String> {
        match self.growth() {
            Growth::In { pool, .. } => Some(pool),
            Growth::Nowhere | Growth::Useless(_) => None,
        }
    }

    fn resource(&self) -> &str {
        self.demand.resources().next().unwrap_or("nvidia.com/gpu")
    }

    fn closest<'s>(&'s self, overlay: &Overlay<'_>) -> Option<Closest<'s>> {
        closest(self.survey, self.ledger, overlay, self.spec)
    }

    pub(super) fn steady(&self) -> Placed {
        if self.question.workload.replicas.per_node {
            self.on_each_node()
        } else {
            self.replicas(self.question.workload.replicas.desired)
        }
    }

    /// The steady state of a number of pods.
    fn replicas(&self, wanted: u32) -> Placed {
        let ask = self.ask();
        let filled = self.ground.fill(&ask, self.base, wanted);
        let count = filled.count;
        if count >= wanted
            || (wanted == 1 && !matches!(seek(self.survey, self.ledger, self.base, &ask), Sought::Full))
        {
            return Placed::all(filled);
        }
        let full = Ground::with(&ask, self.base, &filled);
        let Some(closest) = self.closest(&full) else {
            return Placed::all(filled);
        };
        let namespace = &self.question.workload.object.namespace;
        let messages = &self.survey.policy().messages;
        let mut finding = closest.finding(self.demand, self.ledger, namespace, messages, self.own);
        access::soften(self.demand, &mut finding);
        if finding.code == Code::Vg211 {
            return Placed {
                filled,
                code: Some(Code::Vg211),
                finding: Some(finding.detail(format!("{count} of {wanted} pods find such a device"))),
            };
        }
        if finding.code == Code::Vg209 {
            return Placed {
                filled,
                code: Some(Code::Vg209),
                finding: Some(self.slots_for_some(finding, count, wanted)),
            };
        }
        // Sums of the fullest device would count the object's own pods among those of others.
        for name in [
            "promisedMiB",
            "promisedFraction",
            "leftMiB",
            "leftFraction",
            "othersAtMostFraction",
        ] {
            finding.numbers.remove(name);
        }
        finding.details.retain(|sentence| !budget::is_of_others(sentence));
        let share = closest.share();
        let needed = share.times(u64::from(wanted));
        let beside = match self.beside {
            0 => "in the steady state".to_owned(),
            1 => "beside 1 other pod of the object".to_owned(),
            others => format!("beside {others} other pods of the object"),
        };
        let (pods, fit) = if wanted == 1 {
            ("pod", "it does not fit".to_owned())
        } else {
            ("pods", format!("{count} of them fit"))
        };
        let verb = if wanted == 1 { "needs" } else { "need" };
        finding.message = format!(
            "{wanted} {pods} at {share} of a shared {} device {verb} {needed} {beside}; {fit} (budget {} of each device)",
            self.resource(),
            closest.budget(),
        );
        let rest = wanted - count;
        let finding = finding
            .number("replicas", Number::Count(u64::from(wanted)))
            .number("replicasThatFit", Number::Count(u64::from(count)))
            .number("neededFraction", Number::Share(needed))
            .detail(if rest == 1 {
                "one of them would need another such device".to_owned()
            } else {
                format!("{rest} of them would need further such devices")
            });
        let finding = match self.growth() {
            Growth::Nowhere => finding,
            Growth::Useless(reason) => finding.detail(reason),
            Growth::In { pool, is_known } => {
                let others = if rest == 1 { "it waits" } else { "they wait" };
                let finding = finding.detail(format!(
                    "{others} until an autoscaler adds nodes of placement.growth ({pool})"
                ));
                return Placed {
                    filled,
                    code: Some(Code::Vg201),
                    finding: Some(growth::remarked(finding, &pool, is_known)),
                };
            }
        };
        let without = preemption::without_lower(self.question, self.survey, self.ledger, self.base, self.own);
        let preempts = without.is_some_and(|without| {
            let ground = Ground::of(self.ledger, &without, self.spec);
            ground.fill(&ask, &without, wanted).count >= wanted
        });
        Placed {
            filled,
            code: Some(Code::Vg201),
            finding: Some(if preempts { may_preempt(finding) } else { finding }),
        }
    }

    /// The pods that find no slot wait for one, as with any other resource.
    fn slots_for_some(&self, mut finding: Finding, count: u32, wanted: u32) -> Finding {
        let others = if counted::is_live(self.survey, self.ledger) {
            "wait for one"
        } else {
            "are refused until one is free"
        };
        finding.message = format!(
            "{count} of {wanted} pods find a free slot of {}; the others {others}",
            self.resource()
        );
        finding.details.clear();
        let severity = finding.severity.min(Severity::Warning);
        finding.with_severity(severity)
    }

    /// A DaemonSet: one pod on each node that matches.
    fn on_each_node(&self) -> Placed {
        let ask = self.ask();
        let (filled, full) = self.ground.on_each(&ask, self.base);
        let finding = full.first().and_then(|_| {
            let closest = self.closest(self.base)?;
            let namespace = &self.question.workload.object.namespace;
            let messages = &self.survey.policy().messages;
            let mut finding = closest.finding(self.demand, self.ledger, namespace, messages, self.own);
            let named: Vec<String> = full
                .iter()
                .take(3)
                .map(|name| crate::finding::short(name))
                .collect();
            let more = if full.len() > 3 {
                format!(" and {} more", full.len() - 3)
            } else {
                String::new()
            };
            finding.code = Code::Vg201;
            finding.message = format!(
                "one pod on each node: {} of {} nodes have no room for it ({}{more})",
                full.len(),
                u64::from(filled.count) + full.len() as u64,
                named.join(", ")
            );
            // The node that comes closest may be one with room: its numbers and holders would mislead.
            finding.numbers.clear();
            finding.holders.clear();
            finding.details = vec![
                format!(
                    "each asks {} of a device, of which {} may be promised",
                    closest.share(),
                    closest.budget()
                ),
                "keep it off these nodes with a node selector or affinity, or free memory there".to_owned(),
            ];
            let mut finding = under(&closest.kind.policy, finding);
            access::soften(self.demand, &mut finding);
            Some(finding.number("nodesWithoutRoom", Number::Count(full.len() as u64)))
        });
        Placed {
            code: finding.as_ref().map(|finding| finding.code),
            filled,
            finding,
        }
    }

    /// The peak of the next rollout beyond a steady state that fits. While it goes on, old pods and new ones stand
    /// beside each other, so each counts at the larger of the two footprints.
    pub(super) fn rollout(&self, before: Option<&Before<'_>>) -> Option<Peak> {
        let replicas = &self.question.workload.replicas;
        if replicas.overlap > 0 {
            return self.overlapping();
        }
        if replicas.surge == 0
            && let Some(before) = before.filter(|before| before.demand.is_some())
        {
            return self.grown(before);
        }
        if replicas.surge == 0 || replicas.desired == 0 {
            return None;
        }
        let before = before.and_then(|before| before.demand);
        let ask = self.at_the_larger(before.map(AsRef::as_ref));
        if replicas.per_node {
            return self
                .rollout_on_each_node(&ask)
                .map(|finding| Peak { finding, pods: None });
        }
        let peak = replicas.desired.saturating_add(replicas.surge);
        let filled = self.ground.fill(&ask, self.base, peak);
        if filled.count >= peak {
            return None;
        }
        let full = Ground::with(&ask, self.base, &filled);
        let closest = self.closest_for(&ask, &full)?;
        // Without a free slot the extra pod waits, and the rollout goes on as slots come free.
        if closest.fits.memory || !closest.fits.slots || !closest.fits.tenants {
            return None;
        }
        Some(Peak {
            finding: self.peak(&closest, &ask, peak, filled.count),
            pods: Some(peak),
        })
    }

    /// The question for a place with the larger of the old and the new footprint.
    pub(super) fn at_the_larger(&self, before: Option<&Demand>) -> Ask {
        let mut ask = self.ask();
        let Some(before) = before else { return ask };
        let pod = &self.question.workload.pod;
        for (index, weighed) in &mut ask.weighed {
            let Some(class) = self.ledger.nodes.class(*index) else {
                continue;
            };
            let then = self
                .ledger
                .weigh(before, &self.question.namespace_labels, pod.into(), class);
            weighed.standings = std::mem::take(&mut weighed.standings)
                .into_iter()
                .zip(then.standings)
                // What the new pods do not ask for is no matter of where they can stand.
                .map(|(now, then)| if now.is_empty() { now } else { now.at_least(then) })
                .collect();
        }
        ask
    }

    pub(super) fn closest_for<'s>(&'s self, ask: &'s Ask, overlay: &Overlay<'_>) -> Option<Closest<'s>> {
        closest_with(self.survey, self.ledger, overlay, self.spec, |kind| {
            ask.weighed
                .get(&kind.index)
                .map_or(&kind.weighed.standings, |weighed| &weighed.standings)
        })
    }

    fn rollout_on_each_node(&self, ask: &Ask) -> Option<Finding> {
        let node = self.ground.first_without_room_for_two(ask, self.base)?;
        let class = self.ledger.nodes.get(&node)?.class;
        let kind = self.survey.accepting.iter().find(|kind| kind.index == class)?;
        let share: Share = ask
            .weighed
            .get(&class)?
            .standings
            .iter()
            .map(crate::demand::Standing::share)
            .sum();
        let finding = Finding::new(
            Code::Vg203,
            FieldPath::new("spec.updateStrategy"),
            format!(
                "a rollout has 2 pods on a node for a while, and {} has no room for another {share}: it would stall \
                 there",
                crate::finding::short(&node)
            ),
        )
        .detail("the new pod of a node is started before the old one ends, because maxSurge is above 0");
        let operation = fixes::operation(
            "add",
            "/spec/updateStrategy",
            &serde_json::json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}),
        );
        let mut finding = under(&kind.policy, finding);
        finding.fixes.extend(operation.map(|operation| Fix {
            title: "set maxSurge to 0 and maxUnavailable to 1".to_owned(),
            patch: vec![operation],
        }));
        Some(finding)
    }

    fn peak(&self, closest: &Closest<'_>, ask: &Ask, peak: u32, fit: u32) -> Finding {
        let replicas = &self.question.workload.replicas;
        let share: Share = ask
            .weighed
            .get(&closest.kind.index)
            .map_or(Share::ZERO, |weighed| {
                weighed.standings.iter().map(crate::demand::Standing::share).sum()
            });
        let surge = self.surge();
        let (short, long) = if let Some(pool) = self.growing() {
            (
                "the extra pods wait until an autoscaler adds nodes".to_owned(),
                format!("they could stand on a node of placement.growth ({pool})"),
            )
        } else if replicas.unavailable > 0 {
            (
                format!("it goes on one by one (maxUnavailable {})", replicas.unavailable),
                "the extra pod is refused until one of the old ones has ended".to_owned(),
            )
        } else if surge.is_some() {
            (
                "it would stall".to_owned(),
                "the pods before end only when the new ones are ready".to_owned(),
            )
        } else {
            (
                "with maxUnavailable 0 it would stall".to_owned(),
                "nothing ends before the extra pod is ready".to_owned(),
            )
        };
        let sum = share.times(u64::from(peak));
        // A sum over several devices says nothing beside the budget of one.
        let situation = if self.ground.is_one_device(ask, self.ledger) {
            format!("{sum} above {}", closest.budget())
        } else {
            format!("and {fit} fit at once")
        };
        let joint = if situation.starts_with("and") { " " } else { ", " };
        let mut finding = Finding::new(
            Code::Vg203,
            surge.map_or_else(|| FieldPath::new("spec.strategy"), |surge| surge.path.clone()),
            format!("a rollout has {peak} pods at {share}{joint}{situation}: {short}"),
        )
        .detail(long)
        .number("peakPods", Number::Count(u64::from(peak)))
        .number("peakPodsThatFit", Number::Count(u64::from(fit)))
        .number("peakFraction", Number::Share(sum))
        .number("budgetFraction", Number::Share(closest.budget()));
        finding.fixes.extend(self.no_surge());
        under(&closest.kind.policy, finding)
    }

    /// What an object of another schema says of its rollouts.
    fn surge(&self) -> Option<&Surge> {
        self.question.workload.layout.as_ref()?.surge.as_ref()
    }

    fn no_surge(&self) -> Option<Fix> {
        let replicas = &self.question.workload.replicas;
        let patch = if let Some(surge) = self.surge() {
            let operations = surge.without.iter();
            operations
                .map(|(pointer, value)| fixes::operation("add", pointer, value))
                .collect::<Option<Vec<_>>>()?
        } else {
            let value = serde_json::json!({
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 0, "maxUnavailable": replicas.unavailable.max(1)},
            });
            vec![fixes::operation("add", "/spec/strategy", &value)?]
        };
        (!patch.is_empty()).then(|| Fix {
            title: "set maxSurge to 0".to_owned(),
            patch,
        })
    }
}
