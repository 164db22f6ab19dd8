//! The verdict on an object that makes pods: told when it is applied instead of at each of its pods.

use std::sync::Arc;

use super::budget::{Closest, Own, closest};
use super::fixes::Outcome;
use super::pod::{Sought, rows, seek};
use super::survey::Survey;
use super::whole_device::Beside;
use super::{Operation, Question, Verdict, access, fixes, promise, tell_changed_defaults};
use crate::demand::Demand;
use crate::demand::weigh::under;
use crate::finding::{Code, FieldPath, Finding, Fix, Number, Severity};
use crate::ledger::search::{Ask, Overlay};
use crate::ledger::{Holder, Ledger, constraints};
use crate::units::Share;
use crate::workload::pod::PodSpec;
use crate::workload::{Workload, WorkloadKind};

mod change;
mod ground;

use change::Change;
use ground::{Filled, Ground};

/// Most nodes whose sums are told.
const MOST_ROWS: usize = 16;

/// Judges the CREATE or UPDATE of an object that makes pods, or a change of its scale.
pub(super) fn judge(
    question: &Question,
    demand: &Arc<Demand>,
    old: Option<&Arc<Demand>>,
    ledger: &Ledger,
) -> Verdict {
    let workload = &question.workload;
    let is_update = question.operation == Operation::Update;
    let change = Change::of(question, demand, old, ledger);
    if is_update && !change.rolls_out && !change.raises {
        return Verdict::not_ours();
    }
    let spec = constraints(&workload.pod);
    let labels = &workload.pod.metadata.labels;
    let survey = Survey::of(ledger, demand, &spec, &question.namespace_labels, labels);
    let policy = survey.policy().clone();
    let mut verdict = Verdict::of(&policy);
    let path = |finding: Finding| Finding {
        path: workload.template.field(finding.path.as_str()),
        ..finding
    };
    verdict.findings.extend(
        demand
            .findings
            .iter()
            .cloned()
            .map(|finding| path(under(&policy, finding))),
    );
    verdict
        .findings
        .extend(access::findings(demand, &workload.template));
    let of_kind = survey.findings(demand, &workload.template);
    let blocked = of_kind.iter().any(|finding| finding.severity == Severity::Error);
    verdict.findings.extend(of_kind);
    if survey.takes_shared() {
        verdict.promise = promise(policy.enforcement);
    }
    let mut overlay = Overlay::new(ledger);
    let mut own = Own::new();
    for holder in ledger
        .in_namespace(&workload.object.namespace)
        .filter(|holder| is_own(holder, workload))
    {
        overlay.without(holder);
        own.insert((holder.namespace.clone(), holder.name.clone()));
    }
    let ground = Ground::of(ledger, &overlay, &spec);
    let sizing = Sizing {
        question,
        demand,
        survey: &survey,
        ledger,
        base: &overlay,
        ground: &ground,
        own: &own,
        spec: &spec,
    };
    if !blocked && sizing.counts() {
        let fit = sizing.steady();
        for (place, pods) in fit.filled.places.iter().take(MOST_ROWS) {
            verdict
                .placement
                .extend(rows(&survey, ledger, &overlay, &own, place, *pods));
        }
        let beside = Beside::of(&survey, ledger, &own, &workload.template);
        let told = fit.filled.places.len().min(MOST_ROWS);
        let places = fit.filled.places.get(..told).unwrap_or_default();
        beside.tell(demand, places, &mut verdict.findings);
        if let Some(finding) = fit.finding {
            verdict.findings.push(path(finding));
        } else if change.rolls_out || !is_update {
            let before = old.filter(|_| change.replaces);
            verdict.findings.extend(sizing.rollout(before.map(AsRef::as_ref)));
        }
        if fit.code == Some(Code::Vg201) {
            let proposals = sizing.proposals(&fit.filled, &verdict.findings);
            fixes::attach(&mut verdict.findings, proposals, &survey);
        }
    } else if blocked {
        let passes = |changed: &Arc<Demand>| sizing.passes(changed, workload.replicas.desired);
        let found = fixes::for_errors(question, demand, &survey, &verdict.findings, &passes);
        fixes::attach(&mut verdict.findings, found, &survey);
    }
    access::propose(question, demand, &mut verdict.findings, &|changed| {
        sizing.passes(changed, workload.replicas.desired)
    });
    tell_changed_defaults(&mut verdict.findings, old, demand);
    let may_deny = !question.scale_only && (!is_update || change.raises);
    if is_update && !may_deny {
        let text = "this change is let through because it asks for no more than before; its new pods are judged one by one";
        for finding in verdict
            .findings
            .iter_mut()
            .filter(|finding| finding.severity == Severity::Error)
        {
            finding.details.push(text.to_owned());
        }
    }
    verdict.conclude(survey.mode(), may_deny, survey.lets_through())
}

/// Whether a holder's pod belongs to the object, directly or through what it owns.
fn is_own(holder: &Holder, workload: &Workload) -> bool {
    let by_name = holder
        .workload
        .as_ref()
        .is_some_and(|(kind, name)| **kind == *workload.object.kind && **name == *workload.object.name);
    by_name || (!workload.uid.is_empty() && holder.controller.as_deref() == Some(workload.uid.as_str()))
}

/// What an attempt to place all pods came to.
struct Placed {
    filled: Filled,
    /// The code of what keeps the others out.
    code: Option<Code>,
    finding: Option<Finding>,
}

impl Placed {
    fn all(filled: Filled) -> Self {
        Self {
            filled,
            code: None,
            finding: None,
        }
    }
}

#[derive(Clone, Copy)]
struct Sizing<'a> {
    question: &'a Question,
    demand: &'a Demand,
    survey: &'a Survey<'a>,
    ledger: &'a Ledger,
    base: &'a Overlay<'a>,
    ground: &'a Ground,
    own: &'a Own,
    spec: &'a Arc<PodSpec>,
}

impl Sizing<'_> {
    /// Whether there is anything to count: devices of their own are the scheduler's, but a pod of a DaemonSet comes to
    /// the shared ones as well.
    fn counts(&self) -> bool {
        let per_node = self.question.workload.replicas.per_node;
        self.survey.takes_shared() && (per_node || !self.survey.takes_exclusive())
    }

    fn ask(&self) -> Ask {
        self.survey.ask(self.spec.clone())
    }

    fn resource(&self) -> &str {
        self.demand.resources().next().unwrap_or("nvidia.com/gpu")
    }

    fn closest<'s>(&'s self, overlay: &Overlay<'_>) -> Option<Closest<'s>> {
        closest(self.survey, self.ledger, overlay, self.spec)
    }

    fn steady(&self) -> Placed {
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
            // The pods that find no slot wait for one, as with any other resource.
            finding.message = format!(
                "{count} of {wanted} pods find a free slot of {}; the others are refused until one is free",
                self.resource()
            );
            finding.details.clear();
            let severity = finding.severity.min(Severity::Warning);
            return Placed {
                filled,
                code: Some(Code::Vg209),
                finding: Some(finding.with_severity(severity)),
            };
        }
        // Sums of the fullest device would count the object's own pods among those of others.
        for name in ["promisedMiB", "promisedFraction", "leftMiB", "leftFraction"] {
            finding.numbers.remove(name);
        }
        finding
            .details
            .retain(|sentence| !sentence.starts_with("promised so far"));
        let share = closest.share();
        let needed = share.times(u64::from(wanted));
        finding.message = format!(
            "{wanted} pods at {share} of a shared {} device need {needed} in the steady state; {count} of them fit \
             (budget {} of each device)",
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
        Placed {
            filled,
            code: Some(Code::Vg201),
            finding: Some(finding),
        }
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
    fn rollout(&self, before: Option<&Demand>) -> Option<Finding> {
        let replicas = &self.question.workload.replicas;
        if replicas.surge == 0 || replicas.desired == 0 {
            return None;
        }
        let ask = self.at_the_larger(before);
        if replicas.per_node {
            return self.rollout_on_each_node(&ask);
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
        Some(self.peak(&closest, &ask, peak, filled.count))
    }

    /// The question for a place with the larger of the old and the new footprint.
    fn at_the_larger(&self, before: Option<&Demand>) -> Ask {
        let mut ask = self.ask();
        let Some(before) = before else { return ask };
        let labels = &self.question.workload.pod.metadata.labels;
        for (index, weighed) in &mut ask.weighed {
            let Some(class) = self.ledger.nodes.class(*index) else {
                continue;
            };
            let then = self
                .ledger
                .weigh(before, &self.question.namespace_labels, labels, class);
            weighed.standings = std::mem::take(&mut weighed.standings)
                .into_iter()
                .zip(then.standings)
                // What the new pods do not ask for is no matter of where they can stand.
                .map(|(now, then)| if now.slots == 0 { now } else { now.at_least(then) })
                .collect();
        }
        ask
    }

    fn closest_for<'s>(&'s self, ask: &'s Ask, overlay: &Overlay<'_>) -> Option<Closest<'s>> {
        super::budget::closest_with(self.survey, self.ledger, overlay, self.spec, |kind| {
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
        let (short, long) = if replicas.unavailable > 0 {
            (
                format!("it goes on one by one (maxUnavailable {})", replicas.unavailable),
                "the extra pod is refused until one of the old ones has ended",
            )
        } else {
            (
                "with maxUnavailable 0 it would stall".to_owned(),
                "nothing ends before the extra pod is ready",
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
            FieldPath::new("spec.strategy"),
            format!("a rollout has {peak} pods at {share}{joint}{situation}: {short}"),
        )
        .detail(long)
        .number("peakPods", Number::Count(u64::from(peak)))
        .number("peakPodsThatFit", Number::Count(u64::from(fit)))
        .number("peakFraction", Number::Share(sum))
        .number("budgetFraction", Number::Share(closest.budget()));
        finding.fixes.extend(self.no_surge());
        finding.fixes.extend(self.fraction_for(peak));
        under(&closest.kind.policy, finding)
    }

    fn no_surge(&self) -> Option<Fix> {
        let replicas = &self.question.workload.replicas;
        let value = serde_json::json!({
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 0, "maxUnavailable": replicas.unavailable.max(1)},
        });
        let operation = fixes::operation("add", "/spec/strategy", &value)?;
        Some(Fix {
            title: "set maxSurge to 0".to_owned(),
            patch: vec![operation],
        })
    }

    /// The largest fraction with which so many pods fit.
    fn fraction_for(&self, pods: u32) -> Option<Fix> {
        let passes = |changed: &Arc<Demand>| self.passes(changed, pods);
        fixes::largest_fraction(self.question, self.demand, self.survey, Share::WHOLE, &passes)
    }

    /// What becomes of so many pods (or one on each node) of a changed demand.
    fn passes(&self, changed: &Arc<Demand>, pods: u32) -> Outcome {
        let labels = &self.question.workload.pod.metadata.labels;
        let namespace_labels = &self.question.namespace_labels;
        let survey = Survey::of(self.ledger, changed, self.spec, namespace_labels, labels);
        if fixes::refused(self.question, changed, &survey) || !self.has_places(changed, &survey, pods) {
            return Outcome::Refused;
        }
        Outcome::of(&survey)
    }

    /// Whether there are places for so many pods of a changed demand.
    fn has_places(&self, changed: &Demand, survey: &Survey<'_>, pods: u32) -> bool {
        let sizing = Sizing {
            survey,
            demand: changed,
            ..*self
        };
        if !sizing.counts() {
            return true;
        }
        let ask = sizing.ask();
        if self.question.workload.replicas.per_node {
            return self.ground.on_each(&ask, self.base).1.is_empty();
        }
        let filled = self.ground.fill(&ask, self.base, pods);
        if filled.count >= pods {
            return true;
        }
        // Pods that only lack a slot are no matter of memory.
        let full = Ground::with(&ask, self.base, &filled);
        sizing
            .closest(&full)
            .is_some_and(|closest| closest.fits.but_for_slots())
    }

    /// Fewer pods, or a smaller fraction for each.
    fn proposals(&self, filled: &Filled, findings: &[Finding]) -> Vec<Fix> {
        let workload = &self.question.workload;
        let mut fixes = Vec::new();
        let field = match workload.kind {
            WorkloadKind::Deployment
            | WorkloadKind::StatefulSet
            | WorkloadKind::ReplicaSet
            | WorkloadKind::ReplicationController => Some(("/spec/replicas", "replicas")),
            WorkloadKind::Job => Some(("/spec/parallelism", "parallelism")),
            WorkloadKind::CronJob => Some(("/spec/jobTemplate/spec/parallelism", "parallelism")),
            WorkloadKind::Pod | WorkloadKind::DaemonSet => None,
        };
        // Fewer pods answer nothing but the sum.
        let only_the_sum = findings
            .iter()
            .all(|finding| finding.severity < Severity::Error || finding.code == Code::Vg201);
        if let Some((pointer, name)) = field
            && filled.count > 0
            && only_the_sum
        {
            let value = serde_json::json!(filled.count);
            fixes.extend(fixes::operation("add", pointer, &value).map(|operation| Fix {
                title: format!("lower {name} to {}", filled.count),
                patch: vec![operation],
            }));
        }
        fixes.extend(self.fraction_for(workload.replicas.desired));
        fixes
    }
}
