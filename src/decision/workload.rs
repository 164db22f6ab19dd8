//! The verdict on an object that makes pods: told when it is applied instead of at each of its pods.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::budget::closest;
use super::pod::{Sought, rows, seek};
use super::survey::Survey;
use super::{Operation, Question, Verdict, fixes, promise};
use crate::demand::Demand;
use crate::demand::weigh::under;
use crate::finding::{Code, FieldPath, Finding, Fix, Number, Severity};
use crate::ledger::search::{Ask, Overlay};
use crate::ledger::{Holder, Ledger, constraints};
use crate::placement::candidates::{Fit, node_matches};
use crate::units::Share;
use crate::workload::{Workload, WorkloadKind};

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
    let of_kind = survey.findings(demand, &workload.template);
    let blocked = of_kind.iter().any(|finding| finding.severity == Severity::Error);
    verdict.findings.extend(of_kind);
    if survey.takes_shared() {
        verdict.promise = promise(policy.enforcement);
    }
    let mut overlay = Overlay::new(ledger);
    for holder in ledger
        .in_namespace(&workload.object.namespace)
        .filter(|holder| is_own(holder, workload))
    {
        overlay.without(holder);
    }
    let sizing = Sizing {
        question,
        demand,
        survey: &survey,
        ledger,
        base: &overlay,
        spec: &spec,
    };
    let mut proposals = Vec::new();
    if !blocked && !survey.accepting.is_empty() && !survey.takes_exclusive() {
        let fit = if workload.replicas.per_node {
            sizing.on_each_node()
        } else {
            sizing.steady(workload.replicas.desired)
        };
        if let Some(finding) = fit.finding {
            verdict.findings.push(path(finding));
            if fit.code == Some(Code::Vg201) {
                proposals = sizing.proposals(&fit.places);
            }
        } else if let Some(finding) = sizing.rollout(&fit, change.rolls_out || !is_update) {
            verdict.findings.push(finding);
        }
        if let Some(last) = fit.places.last() {
            verdict.placement = rows(&survey, ledger, &overlay, last);
        }
    } else if blocked {
        fixes::for_pod(question, demand, &survey, ledger, &overlay, &mut verdict.findings);
    }
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
    if !proposals.is_empty()
        || verdict
            .findings
            .iter()
            .any(|f| f.code == Code::Vg201 && f.fixes.is_empty())
    {
        fixes::attach(&mut verdict.findings, proposals, &survey);
    }
    verdict.conclude(policy.mode, may_deny)
}

/// Whether a holder's pod belongs to the object, directly or through what it owns.
fn is_own(holder: &Holder, workload: &Workload) -> bool {
    let by_name = holder
        .workload
        .as_ref()
        .is_some_and(|(kind, name)| **kind == *workload.object.kind && **name == *workload.object.name);
    by_name || (!workload.uid.is_empty() && holder.controller.as_deref() == Some(workload.uid.as_str()))
}

/// What an UPDATE changes.
struct Change {
    /// The template, so that pods are replaced.
    rolls_out: bool,
    /// More pods, or more for each.
    raises: bool,
}

impl Change {
    fn of(question: &Question, demand: &Demand, old: Option<&Arc<Demand>>, ledger: &Ledger) -> Self {
        let (Some(before), Some(old)) = (&question.old, old) else {
            return Self {
                rolls_out: true,
                raises: true,
            };
        };
        let now = &question.workload;
        let labels = &now.pod.metadata.labels;
        let total = |demand: &Demand, workload: &Workload, class: &crate::ledger::nodes::Class| {
            let weighed = ledger.weigh(demand, &question.namespace_labels, labels, class);
            let each: Share = weighed.standings.iter().map(crate::demand::Standing::share).sum();
            let pods = if workload.replicas.per_node {
                1
            } else {
                workload.replicas.desired
            };
            (each.times(u64::from(pods)), u64::from(pods), weighed.refused())
        };
        let raises = ledger.nodes.classes().any(|(_, class)| {
            let (share_then, pods_then, refused_then) = total(old, before, class);
            let (share_now, pods_now, refused_now) = total(demand, now, class);
            share_now > share_then
                || (pods_now > pods_then && share_now > Share::ZERO)
                || (refused_now && !refused_then)
        });
        Self {
            rolls_out: before.pod.spec != now.pod.spec,
            raises,
        }
    }
}

/// What an attempt to place all pods came to.
struct Placed {
    /// Places of the pods that found one.
    places: Vec<Arc<str>>,
    /// The code of what keeps the others out.
    code: Option<Code>,
    finding: Option<Finding>,
}

struct Sizing<'a> {
    question: &'a Question,
    demand: &'a Arc<Demand>,
    survey: &'a Survey<'a>,
    ledger: &'a Ledger,
    base: &'a Overlay<'a>,
    spec: &'a Arc<crate::workload::pod::PodSpec>,
}

impl Sizing<'_> {
    fn ask(&self) -> Ask {
        self.survey.ask(self.spec.clone())
    }

    /// Places `wanted` pods one after the other; where they end, and the ledger with those that fit.
    fn fill(&self, ask: &Ask, wanted: u32) -> (Vec<Arc<str>>, Overlay<'_>) {
        let mut overlay = self.base.clone();
        let mut placed = Vec::new();
        for _ in 0..wanted {
            let Some(place) = overlay.find(ask, &BTreeSet::new()) else {
                break;
            };
            let Some(entry) = self.ledger.nodes.get(&place) else {
                break;
            };
            if let Some(weighed) = ask.weighed.get(&entry.class) {
                overlay.add(&place, &weighed.standings);
            }
            placed.push(place);
        }
        (placed, overlay)
    }

    /// The steady state.
    fn steady(&self, wanted: u32) -> Placed {
        let ask = self.ask();
        let (placed, overlay) = self.fill(&ask, wanted);
        let count = u32::try_from(placed.len()).unwrap_or(u32::MAX);
        if count >= wanted
            || (wanted == 1 && !matches!(seek(self.survey, self.ledger, self.base, &ask), Sought::Full))
        {
            return Placed {
                places: placed,
                code: None,
                finding: None,
            };
        }
        let Some(closest) = closest(self.survey, self.ledger, &overlay, self.spec) else {
            return Placed {
                places: placed,
                code: None,
                finding: None,
            };
        };
        let workload = &self.question.workload;
        let messages = &self.survey.policy().messages;
        let mut finding = closest.finding(self.demand, self.ledger, &workload.object.namespace, messages);
        if finding.code == Code::Vg209 {
            // The pods that find no slot wait for one, as with any other resource.
            finding.message = format!(
                "{count} of {wanted} pods find a free slot of {}; the others are refused until one is free",
                self.demand.resources().next().unwrap_or("nvidia.com/gpu")
            );
            let severity = finding.severity.min(Severity::Warning);
            return Placed {
                places: placed,
                code: Some(Code::Vg209),
                finding: Some(finding.with_severity(severity)),
            };
        }
        let share: Share = closest
            .kind
            .weighed
            .standings
            .iter()
            .map(crate::demand::Standing::share)
            .sum();
        let budget = closest.kind.class.device_policy.device.budget;
        finding.message = format!(
            "{wanted} pods at {share} of a shared {} device need {} in the steady state; {count} of them fit (budget {budget} \
             of each device)",
            self.demand.resources().next().unwrap_or("nvidia.com/gpu"),
            share.times(u64::from(wanted)),
        );
        let finding = finding
            .number("replicas", Number::Count(u64::from(wanted)))
            .number("replicasThatFit", Number::Count(u64::from(count)))
            .number("neededFraction", Number::Share(share.times(u64::from(wanted))))
            .detail("or another such device for the rest");
        Placed {
            places: placed,
            code: Some(Code::Vg201),
            finding: Some(finding),
        }
    }

    /// A DaemonSet: one pod on each node that matches.
    fn on_each_node(&self) -> Placed {
        let mut placed = Vec::new();
        let mut full = Vec::new();
        for kind in &self.survey.accepting {
            for name in &kind.class.members {
                let Some(entry) = self.ledger.nodes.get(name) else {
                    continue;
                };
                if matches!(node_matches(self.spec, &entry.node), Fit::Never(_)) {
                    continue;
                }
                if self.base.fits(name, entry, &kind.weighed.standings).memory {
                    placed.push(name.clone());
                } else {
                    full.push(name.clone());
                }
            }
        }
        if full.is_empty() {
            return Placed {
                places: placed,
                code: None,
                finding: None,
            };
        }
        let finding = closest(self.survey, self.ledger, self.base, self.spec).map(|closest| {
            let namespace = &self.question.workload.object.namespace;
            let mut finding = closest.finding(
                self.demand,
                self.ledger,
                namespace,
                &self.survey.policy().messages,
            );
            let named: Vec<String> = full
                .iter()
                .take(3)
                .map(|name| super::budget::short(name))
                .collect();
            let more = if full.len() > 3 {
                format!(" and {} more", full.len() - 3)
            } else {
                String::new()
            };
            finding = Finding::new(
                Code::Vg201,
                finding.path.clone(),
                format!(
                    "one pod on each node: {} of {} nodes have no room for it ({}{more})",
                    full.len(),
                    full.len() + placed.len(),
                    named.join(", ")
                ),
            );
            under(&closest.kind.policy, finding).number("nodesWithoutRoom", Number::Count(full.len() as u64))
        });
        Placed {
            places: placed,
            code: Some(Code::Vg201),
            finding,
        }
    }

    /// The peak of the next rollout beyond a steady state that fits.
    fn rollout(&self, steady: &Placed, applies: bool) -> Option<Finding> {
        let replicas = &self.question.workload.replicas;
        if !applies
            || replicas.surge == 0
            || replicas.desired == 0
            || self.question.workload.kind != WorkloadKind::Deployment
        {
            return None;
        }
        let ask = self.ask();
        let mut overlay = self.base.clone();
        for place in &steady.places {
            let class = self.ledger.nodes.get(place)?.class;
            overlay.add(place, &ask.weighed.get(&class)?.standings);
        }
        for _ in 0..replicas.surge {
            let Some(place) = overlay.find(&ask, &BTreeSet::new()) else {
                let closest = closest(self.survey, self.ledger, &overlay, self.spec)?;
                // Without a free slot the extra pod waits, and the rollout goes on as slots come free.
                if closest.fits.memory || !closest.fits.slots {
                    return None;
                }
                return Some(self.peak(&closest));
            };
            let class = self.ledger.nodes.get(&place)?.class;
            overlay.add(&place, &ask.weighed.get(&class)?.standings);
        }
        None
    }

    fn peak(&self, closest: &super::budget::Closest<'_>) -> Finding {
        let replicas = &self.question.workload.replicas;
        let share: Share = closest
            .kind
            .weighed
            .standings
            .iter()
            .map(crate::demand::Standing::share)
            .sum();
        let budget = closest.kind.class.device_policy.device.budget;
        let peak = replicas.desired.saturating_add(replicas.surge);
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
        let mut finding = Finding::new(
            Code::Vg203,
            FieldPath::new("spec.strategy"),
            format!(
                "a rollout has {peak} pods at {share}, {} above {budget}: {short}",
                share.times(u64::from(peak))
            ),
        )
        .detail(long)
        .number("peakPods", Number::Count(u64::from(peak)))
        .number("peakFraction", Number::Share(share.times(u64::from(peak))))
        .number("budgetFraction", Number::Share(budget));
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
        fixes::largest_fraction(self.question, self.demand, Share::WHOLE, |changed| {
            let labels = &self.question.workload.pod.metadata.labels;
            let namespace_labels = &self.question.namespace_labels;
            let survey = Survey::of(self.ledger, changed, self.spec, namespace_labels, labels);
            let refused = survey
                .findings(changed, &self.question.workload.template)
                .iter()
                .any(|finding| finding.severity == Severity::Error);
            if refused {
                return false;
            }
            let sizing = Sizing {
                survey: &survey,
                ..*self
            };
            let ask = sizing.ask();
            let (placed, overlay) = sizing.fill(&ask, pods);
            // Pods that only lack a slot are no matter of memory.
            u32::try_from(placed.len()).unwrap_or(u32::MAX) >= pods
                || closest(&survey, self.ledger, &overlay, self.spec)
                    .is_some_and(|closest| closest.fits.memory)
        })
    }

    /// Fewer pods, or a smaller fraction for each.
    fn proposals(&self, placed: &[Arc<str>]) -> Vec<Fix> {
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
        if let Some((pointer, name)) = field
            && !placed.is_empty()
        {
            let value = serde_json::json!(placed.len());
            fixes.extend(fixes::operation("add", pointer, &value).map(|operation| Fix {
                title: format!("lower {name} to {}", placed.len()),
                patch: vec![operation],
            }));
        }
        if !workload.replicas.per_node {
            fixes.extend(self.fraction_for(workload.replicas.desired));
        }
        fixes
    }
}
