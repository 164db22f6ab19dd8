//! Room for all templates of an object at once.
//!
//! What is found is a placement in which every device stays within its budget. With several templates a place can be
//! missed where there are many pods, never invented.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ground::{Filled, Ground};
use super::sizing::{Placed, Sizing};
use super::{Part, Set, counts};
use crate::decision::Question;
use crate::decision::budget::{Own, closest};
use crate::decision::fixes::{self, Changeable, Outcome};
use crate::decision::made::Made;
use crate::decision::survey::Survey;
use crate::demand::{Demand, Standing};
use crate::finding::{Code, Finding, Fix, Severity};
use crate::ledger::search::{Ask, Overlay};
use crate::ledger::{Ledger, constraints};
use crate::units::Share;
use crate::workload::WorkloadKind;
use crate::workload::pod::PodSpec;
use crate::workload::template::Scale;

/// Pods of several templates that are placed by a search over all of them.
const MOST_SEARCHED: u64 = 48;

/// The templates and the cluster without the pods that they have.
#[derive(Clone, Copy)]
pub(super) struct Whole<'a> {
    pub(super) parts: &'a [Part<'a>],
    pub(super) ledger: &'a Ledger,
    pub(super) base: &'a Overlay<'a>,
    pub(super) own: &'a Own,
}

/// The pods of one template that look for places.
struct Wanted<'w> {
    ask: Ask,
    spec: &'w Arc<PodSpec>,
    survey: &'w Survey<'w>,
    pods: u32,
}

/// How pods of several templates find places.
enum Arranged {
    /// One template after the other.
    InOrder(Vec<usize>),
    /// By the search; for each of those that look for places.
    Jointly(Vec<Filled>),
}

/// A part's place, and the nodes with what stands there before it.
type Stood<'a> = Option<(Placed, Overlay<'a>)>;

impl<'a> Whole<'a> {
    /// Pods of each template in the steady state.
    pub(super) fn desired(&self) -> Vec<u32> {
        let workloads = self.parts.iter().map(|part| &part.set.question.workload);
        workloads.map(|workload| workload.replicas.desired).collect()
    }

    /// The steady state of each template that has anything to count.
    pub(super) fn steady(&self) -> Vec<Stood<'a>> {
        let counted: Vec<usize> = (0..self.parts.len())
            .filter(|index| self.parts.get(*index).is_some_and(Part::counts))
            .collect();
        let mut stood: Vec<Stood<'a>> = self.parts.iter().map(|_| None).collect();
        let wanted: Vec<Wanted<'_>> = counted
            .iter()
            .filter_map(|index| self.parts.get(*index))
            .map(|part| Wanted {
                ask: part.survey.ask(part.spec.clone()),
                spec: &part.spec,
                survey: &part.survey,
                pods: part.set.question.workload.replicas.desired,
            })
            .collect();
        let arranged = if wanted.len() > 1 {
            self.arranged(&wanted, true)
        } else {
            None
        };
        let mut overlay = self.base.clone();
        let mut beside = 0_u32;
        let (order, mut jointly) = match arranged {
            Some(Arranged::InOrder(order)) => (order, Vec::new()),
            Some(Arranged::Jointly(filled)) => (
                (0..counted.len()).collect(),
                filled.into_iter().map(Some).collect(),
            ),
            None => (
                (0..counted.len()).collect::<Vec<_>>(),
                Vec::<Option<Filled>>::new(),
            ),
        };
        for at in order {
            let (Some(index), Some(wanted)) = (counted.get(at), wanted.get(at)) else {
                continue;
            };
            let Some(part) = self.parts.get(*index) else {
                continue;
            };
            let placed = if let Some(filled) = jointly.get_mut(at).and_then(Option::take) {
                Placed::all(filled)
            } else {
                let ground = Ground::of(self.ledger, &overlay, &part.spec);
                let sizing = Sizing {
                    beside,
                    ..self.sizing(part, &overlay, &ground)
                };
                sizing.steady()
            };
            let before = overlay.clone();
            if counted.len() > 1 {
                beside = beside.saturating_add(placed.filled.count);
                overlay = Ground::with(&wanted.ask, &overlay, &placed.filled);
            }
            if let Some(stood) = stood.get_mut(*index) {
                *stood = Some((placed, before));
            }
        }
        stood
    }

    fn sizing<'s>(&'s self, part: &'s Part<'a>, base: &'s Overlay<'s>, ground: &'s Ground) -> Sizing<'s> {
        Sizing {
            question: part.set.question,
            demand: part.set.demand,
            survey: &part.survey,
            ledger: self.ledger,
            base,
            ground,
            own: self.own,
            spec: &part.spec,
            beside: 0,
        }
    }

    /// The peaks of the next rollout, for each part, while the others stand: those before it at their peaks.
    pub(super) fn rollouts(&self, steady: &[Stood<'a>], replaces: bool) -> Vec<Option<Finding>> {
        let mut peaks = self.base.clone();
        let asks: Vec<Option<Ask>> = self
            .parts
            .iter()
            .zip(steady)
            .map(|(part, stood)| stood.as_ref().map(|_| part.survey.ask(part.spec.clone())))
            .collect();
        let mut found = Vec::with_capacity(self.parts.len());
        for (index, part) in self.parts.iter().enumerate() {
            let Some(ask) = asks.get(index).and_then(Option::as_ref) else {
                found.push(None);
                continue;
            };
            let mut overlay = peaks.clone();
            for (ask, stood) in asks.iter().zip(steady).skip(index + 1) {
                if let (Some(ask), Some((placed, _))) = (ask, stood) {
                    overlay = Ground::with(ask, &overlay, &placed.filled);
                }
            }
            let ground = Ground::of(self.ledger, &overlay, &part.spec);
            let before = part.before.filter(|_| replaces);
            let sizing = self.sizing(part, &overlay, &ground);
            found.push(sizing.rollout(before).map(|peak| {
                let mut finding = peak.finding;
                if let Some(pods) = peak.pods {
                    let mut wanted = self.desired();
                    if let Some(own) = wanted.get_mut(index) {
                        *own = pods;
                    }
                    finding
                        .fixes
                        .extend(self.fraction_for(&self.changeable(), &wanted));
                }
                finding
            }));
            if self.parts.len() > 1 {
                let replicas = &part.set.question.workload.replicas;
                let filled = ground.fill(ask, &overlay, replicas.desired.saturating_add(replicas.surge));
                peaks = Ground::with(ask, &peaks, &filled);
            }
        }
        found
    }

    fn changeable(&self) -> Vec<Changeable<'a>> {
        let parts = self.parts.iter();
        parts
            .map(|part| Changeable {
                question: part.set.question,
                demand: part.set.demand,
                survey: &part.survey,
                findings: &part.findings,
            })
            .collect()
    }

    /// Places for the pods of several templates; `None` where some lack memory. Pods that only lack a slot wait for one.
    fn arranged(&self, wanted: &[Wanted<'_>], search: bool) -> Option<Arranged> {
        let written: Vec<usize> = (0..wanted.len()).collect();
        let mut largest = written.clone();
        largest.sort_by_key(|index| std::cmp::Reverse(wanted.get(*index).map_or(Share::ZERO, size)));
        let reversed: Vec<usize> = written.iter().rev().copied().collect();
        let different = if wanted.len() > 1 { 3 } else { 1 };
        for order in [written, largest, reversed].into_iter().take(different) {
            if self.fits_in_order(wanted, &order) {
                return Some(Arranged::InOrder(order));
            }
        }
        let pods: u64 = wanted.iter().map(|wanted| u64::from(wanted.pods)).sum();
        if !search || wanted.len() < 2 || pods > MOST_SEARCHED {
            return None;
        }
        let asks = wanted.iter().flat_map(|wanted| {
            std::iter::repeat_n(&wanted.ask, usize::try_from(wanted.pods).unwrap_or(usize::MAX))
        });
        let asks: Vec<&Ask> = asks.collect();
        let mut places = self.base.clone().place_all(&asks)?.into_iter();
        let filled = wanted.iter().map(|wanted| {
            let mut nodes: BTreeMap<Arc<str>, u32> = BTreeMap::new();
            for place in places
                .by_ref()
                .take(usize::try_from(wanted.pods).unwrap_or(usize::MAX))
            {
                *nodes.entry(place).or_default() += 1;
            }
            Filled {
                count: wanted.pods,
                places: nodes.into_iter().collect(),
            }
        });
        Some(Arranged::Jointly(filled.collect()))
    }

    fn fits_in_order(&self, wanted: &[Wanted<'_>], order: &[usize]) -> bool {
        let mut overlay = self.base.clone();
        for wanted in order.iter().filter_map(|index| wanted.get(*index)) {
            let ground = Ground::of(self.ledger, &overlay, wanted.spec);
            let filled = ground.fill(&wanted.ask, &overlay, wanted.pods);
            let full = Ground::with(&wanted.ask, &overlay, &filled);
            if filled.count < wanted.pods {
                // Pods that only lack a slot are no matter of memory.
                let closest = closest(wanted.survey, self.ledger, &full, wanted.spec);
                if !closest.is_some_and(|closest| closest.fits.but_for_slots()) {
                    return false;
                }
            }
            overlay = full;
        }
        true
    }

    /// What becomes of so many pods of each template (or one on each node) with changed demands.
    pub(super) fn passes(&self, changed: &[Arc<Demand>], pods: &[u32]) -> Outcome {
        let made: Vec<Made<'_>> = self
            .parts
            .iter()
            .zip(changed)
            .map(|(part, demand)| Made::of(part.set.submitted, demand, self.ledger))
            .collect();
        let tried: Vec<(Set<'_>, Arc<PodSpec>)> = made
            .iter()
            .map(|made| {
                let set = made.set();
                (set, constraints(&set.question.workload.pod))
            })
            .collect();
        let surveys: Vec<Survey<'_>> = tried
            .iter()
            .map(|(set, spec)| {
                let question = set.question;
                let pod = &question.workload.pod;
                Survey::of(self.ledger, set.demand, spec, &question.namespace_labels, pod)
            })
            .collect();
        let mut outcome = Outcome::Passes;
        let mut wanted = Vec::with_capacity(surveys.len());
        for (((set, spec), survey), pods) in tried.iter().zip(&surveys).zip(pods) {
            if fixes::refused(set.demand, survey) {
                return Outcome::Refused;
            }
            outcome = outcome.min(Outcome::of(survey));
            let workload = &set.question.workload;
            if !counts(workload, survey) {
                continue;
            }
            let ask = survey.ask(spec.clone());
            if workload.replicas.per_node {
                let ground = Ground::of(self.ledger, self.base, spec);
                if !ground.on_each(&ask, self.base).1.is_empty() {
                    return Outcome::Refused;
                }
                continue;
            }
            wanted.push(Wanted {
                ask,
                spec,
                survey,
                pods: *pods,
            });
        }
        if self.arranged(&wanted, false).is_none() {
            return Outcome::Refused;
        }
        outcome
    }

    /// Another pool of nodes for the pods of an object with one template, where all of them find a device now.
    pub(super) fn elsewhere(&self, findings: &[Finding]) -> Option<Fix> {
        let [part] = self.parts else { return None };
        let replicas = &part.set.question.workload.replicas;
        if replicas.per_node {
            return None;
        }
        let takes = |changed: &Question| {
            let made = Made::of(changed, part.set.demand, self.ledger);
            let set = made.set();
            let spec = constraints(&set.question.workload.pod);
            let pod = &set.question.workload.pod;
            let namespace_labels = &changed.namespace_labels;
            let survey = Survey::of(self.ledger, set.demand, &spec, namespace_labels, pod);
            if fixes::refused(set.demand, &survey) || Outcome::of(&survey) != Outcome::Passes {
                return false;
            }
            let ask = survey.ask(spec.clone());
            let ground = Ground::of(self.ledger, self.base, &spec);
            ground.fill(&ask, self.base, replicas.desired).count >= replicas.desired
        };
        fixes::elsewhere(part.set.submitted, part.set.demand, self.ledger, findings, &takes)
    }

    /// The largest fraction with which so many pods fit.
    fn fraction_for(&self, parts: &[Changeable<'_>], pods: &[u32]) -> Option<Fix> {
        let passes = |changed: &[Arc<Demand>]| self.passes(changed, pods);
        fixes::largest_fraction(parts, Share::WHOLE, &passes)
    }

    /// Fewer pods, or a smaller fraction for each.
    pub(super) fn proposals(&self, full: usize, steady: &[Stood<'a>], parts: &[Changeable<'_>]) -> Vec<Fix> {
        let mut fixes = Vec::new();
        // Fewer pods answer nothing but the sum.
        let only_the_sum = parts
            .iter()
            .flat_map(|part| part.findings)
            .all(|finding| finding.severity < Severity::Error || finding.code == Code::Vg201);
        if only_the_sum {
            fixes.extend(self.fewer(full, steady));
        }
        fixes.extend(self.fraction_for(parts, &self.desired()));
        fixes
    }

    /// The most pods that fit, by the field that scales the template that does not.
    fn fewer(&self, full: usize, steady: &[Stood<'a>]) -> Option<Fix> {
        let scale = self.scale(full)?;
        let least = scale.least.max(1);
        let fit = if self.parts.len() == 1 {
            let (placed, _) = steady.get(full)?.as_ref()?;
            placed.filled.count.checked_div(scale.pods)?
        } else {
            let demands: Vec<Arc<Demand>> = self.parts.iter().map(|part| part.set.demand.clone()).collect();
            let fits = |number: u32| {
                let pods: Vec<u32> = (0..self.parts.len())
                    .zip(self.desired())
                    .map(|(index, desired)| match self.scale(index) {
                        Some(own) if own.path == scale.path => number.saturating_mul(own.pods),
                        _ => desired,
                    })
                    .collect();
                self.passes(&demands, &pods) != Outcome::Refused
            };
            let (mut low, mut high) = (least, scale.now.saturating_sub(1));
            if low > high || !fits(low) {
                return None;
            }
            while low < high {
                let middle = low + (high - low).div_ceil(2);
                if fits(middle) {
                    low = middle;
                } else {
                    high = middle - 1;
                }
            }
            low
        };
        if fit < least {
            return None;
        }
        let operation = fixes::operation("add", &scale.path.to_pointer(), &serde_json::json!(fit))?;
        Some(Fix {
            title: format!("lower {} to {fit}", scale.name),
            patch: vec![operation],
        })
    }

    /// The field that scales a template.
    fn scale(&self, index: usize) -> Option<Scale> {
        let workload = &self.parts.get(index)?.set.question.workload;
        let (path, name) = match workload.kind {
            WorkloadKind::Deployment
            | WorkloadKind::StatefulSet
            | WorkloadKind::ReplicaSet
            | WorkloadKind::ReplicationController => ("spec.replicas", "replicas"),
            WorkloadKind::Job => ("spec.parallelism", "parallelism"),
            WorkloadKind::CronJob => ("spec.jobTemplate.spec.parallelism", "parallelism"),
            WorkloadKind::Pod | WorkloadKind::DaemonSet => return None,
            WorkloadKind::Custom(_) => return workload.layout.as_ref()?.scale.clone(),
        };
        Some(Scale {
            path: crate::finding::FieldPath::new(path),
            name,
            now: workload.replicas.desired,
            least: 0,
            pods: 1,
        })
    }
}

/// The largest share that a pod takes on any kind of node.
fn size(wanted: &Wanted<'_>) -> Share {
    let weighed = wanted.ask.weighed.values();
    let shares = weighed.map(|weighed| weighed.standings.iter().map(Standing::share).sum::<Share>());
    shares.max().unwrap_or(Share::ZERO)
}
