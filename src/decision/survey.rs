//! Which kinds of nodes could take a pod, before anybody asks whether there is room.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::clients;
use crate::demand::Demand;
use crate::demand::weigh::{Weighed, fit, under};
use crate::device::{DeviceKind, FactNote, Pool};
use crate::finding::{Code, FieldPath, Finding, Number, Severity, short};
use crate::ledger::Ledger;
use crate::ledger::nodes::Class;
use crate::ledger::search::Ask;
use crate::placement::candidates::{Fit, node_matches};
use crate::policy::{Mode, Policy, PolicyRef, expression};
use crate::units::{Mib, Share};
use crate::workload::pod::{Pod, PodSpec};

pub(super) mod growth;
mod holding;
mod offered;

/// At most so many nodes are named in a sentence.
const MOST_NAMED: usize = 3;

/// A kind of node that could serve the pod.
pub(super) struct Candidate<'a> {
    pub(super) index: usize,
    pub(super) class: &'a Class,
    pub(super) weighed: Weighed,
    pub(super) policy: PolicyRef,
    /// Some of the nodes that match.
    pub(super) names: Vec<Arc<str>>,
    /// Why the policy's expression fails here, where it applies because of that.
    failed: Option<String>,
    /// What the first of them leaves open.
    notes: &'a [FactNote],
}

impl Candidate<'_> {
    /// Whether this kind refuses the pod, and the policy there means it.
    fn refuses(&self) -> bool {
        self.policy.mode == Mode::Enforce && self.weighed.refused()
    }
}

/// The kinds of nodes, sorted by what they say to the pod.
pub(super) struct Survey<'a> {
    /// What applies where no node decides.
    pub(super) base: PolicyRef,
    /// Kinds that take it, room permitting.
    pub(super) accepting: Vec<Candidate<'a>>,
    /// Kinds that refuse it whatever room there is.
    pub(super) refusing: Vec<Candidate<'a>>,
    /// Kinds that would take it, of which no node matches it now.
    elsewhere: Vec<Candidate<'a>>,
    /// Whether any node that offers it has enough slots altogether.
    large_enough: bool,
    ledger: &'a Ledger,
    /// Slots that the pod asks for at once, by resource.
    asked: BTreeMap<Arc<str>, u32>,
    /// Why no node offers what it asks for, where none does.
    not_offered: Option<Finding>,
}

/// A resource that some node offers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Offer {
    /// The least memory of a device behind it.
    pub(super) total: Mib,
    /// Its name.
    pub(super) resource: Arc<str>,
    /// The MIG profile behind it; `None` for whole GPUs.
    pub(super) profile: Option<Arc<str>>,
}

impl<'a> Survey<'a> {
    pub(super) fn of(
        ledger: &'a Ledger,
        demand: &Demand,
        spec: &PodSpec,
        namespace_labels: &BTreeMap<String, String>,
        pod: &Pod,
    ) -> Self {
        let policies = ledger.policies();
        let mut survey = Self {
            base: policies.for_pod(namespace_labels, pod, None),
            accepting: Vec::new(),
            refusing: Vec::new(),
            elsewhere: Vec::new(),
            large_enough: false,
            ledger,
            asked: BTreeMap::new(),
            not_offered: None,
        };
        let only = ledger.nodes.named(spec);
        let mut offered = false;
        for (index, class) in ledger.nodes.classes() {
            if demand
                .resources()
                .any(|resource| class.pool_index(resource).is_none())
            {
                continue;
            }
            offered = true;
            let weighed = ledger.weigh(demand, namespace_labels, pod.into(), class);
            let enough = class
                .pools
                .iter()
                .zip(&weighed.standings)
                .all(|(pool, standing)| standing.slots <= pool.slots);
            if !enough {
                for (pool, standing) in class.pools.iter().zip(&weighed.standings) {
                    if standing.slots > 0 {
                        survey.asked.insert(pool.resource.clone(), standing.slots);
                    }
                }
                continue;
            }
            survey.large_enough = true;
            let mut names = matching(ledger, (index, class), spec, only.as_ref());
            let is_elsewhere = names.is_empty();
            if is_elsewhere {
                names.extend(class.members.iter().take(MOST_NAMED + 1).cloned());
            }
            let (policy, failed) = policies.for_pod_told(namespace_labels, pod, Some(class.view()));
            let first = names.first().and_then(|name| ledger.nodes.get(name));
            let notes = first.map_or(&[][..], |entry| &entry.node.notes);
            let candidate = Candidate {
                index,
                class,
                weighed,
                // Where no node takes part, it is told with the demand.
                failed: failed.filter(|_| policy.matches.needs_node()),
                policy,
                names,
                notes,
            };
            if is_elsewhere {
                if !candidate.refuses() {
                    survey.elsewhere.push(candidate);
                }
            } else if candidate.refuses() {
                survey.refusing.push(candidate);
            } else {
                survey.accepting.push(candidate);
            }
        }
        if !offered && demand.asks() {
            survey.not_offered = Some(survey.not_offered(demand, spec));
        }
        survey
    }

    /// The kinds by which kube-scheduler counts the pod: those that take it, or where no node matches it now, those that one
    /// day may, by a label that comes a moment later. Where nodes may be added, they are of a kind that nobody knows.
    pub(super) fn countable(&self) -> &[Candidate<'a>] {
        if self.accepting.is_empty() && self.refusing.is_empty() && self.base.growth.is_empty() {
            &self.elsewhere
        } else {
            &self.accepting
        }
    }

    /// Most slots that a node offers of each resource; only refusals ask for it.
    fn most(&self) -> BTreeMap<&'a str, u32> {
        let mut most: BTreeMap<&str, u32> = BTreeMap::new();
        for (_, class) in self.ledger.nodes.classes() {
            for pool in &class.pools {
                let slots = most.entry(&pool.resource).or_default();
                *slots = (*slots).max(pool.slots);
            }
        }
        most
    }

    /// The question for a place among the accepting kinds.
    pub(super) fn ask(&self, spec: Arc<PodSpec>) -> Ask {
        let weighed = self
            .accepting
            .iter()
            .map(|kind| (kind.index, kind.weighed.clone()))
            .collect();
        Ask { spec, weighed }
    }

    /// The policy whose mode and severities apply to the pod as a whole.
    pub(super) fn policy(&self) -> &PolicyRef {
        self.accepting
            .first()
            .or(self.refusing.first())
            .map_or(&self.base, |kind| &kind.policy)
    }

    /// What becomes of errors: a pod is denied only where no kind of node lets it through, so the mildest mode counts.
    pub(super) fn mode(&self) -> Mode {
        let mut kinds = self.accepting.iter().map(|kind| kind.policy.mode);
        match kinds.find(|mode| *mode != Mode::Enforce) {
            Some(mode) => mode,
            None => self.policy().mode,
        }
    }

    /// Whether every kind that takes the pod refuses it, and takes it only because its policy does not enforce.
    pub(super) fn lets_through(&self) -> bool {
        !self.accepting.is_empty() && self.accepting.iter().all(|kind| kind.weighed.refused())
    }

    /// The smallest fair share of a slot among the kinds that the pod could stand on; the whole where none is shared.
    pub(super) fn fair_share(&self) -> Share {
        let kinds = self.accepting.iter().chain(&self.refusing);
        let shares = kinds.flat_map(|kind| {
            let budget = kind.class.device_policy.device.budget;
            let asked = kind.class.pools.iter().zip(&kind.weighed.standings);
            asked
                .filter(|(pool, standing)| pool.sharing.is_shared() && standing.slots > 0)
                .map(move |(pool, _)| budget.divided_by(u64::from(pool.sharing.slots_per_device())))
        });
        shares.min().unwrap_or(Share::WHOLE)
    }

    /// Whether it is doubtful on some kind that takes it that its model fits.
    pub(super) fn doubts_fit(&self) -> bool {
        self.accepting.iter().any(|kind| {
            let mut findings = kind.weighed.findings.iter();
            findings.any(|finding| fit::CODES.contains(&finding.code))
        })
    }

    /// Every resource that the cluster offers; smallest devices first.
    pub(super) fn offers(&self) -> Vec<Offer> {
        let mut least: BTreeMap<&Arc<str>, Offer> = BTreeMap::new();
        for (_, class) in self.ledger.nodes.classes() {
            for pool in &class.pools {
                let Some(total) = pool.total else { continue };
                let profile = match &pool.device {
                    DeviceKind::Gpu => None,
                    DeviceKind::Mig(profile) => Some(profile.clone()),
                };
                let known = least.entry(&pool.resource).or_insert_with(|| Offer {
                    total,
                    resource: pool.resource.clone(),
                    profile: profile.clone(),
                });
                if total < known.total {
                    known.total = total;
                    known.profile = profile;
                }
            }
        }
        let mut offers: Vec<Offer> = least.into_values().collect();
        offers.sort();
        offers
    }

    /// Whether some kind that takes it has devices of its own for it.
    pub(super) fn takes_exclusive(&self) -> bool {
        self.accepting.iter().any(|kind| !kind.weighed.shared)
    }

    /// Whether some kind that takes it shares its devices.
    pub(super) fn takes_shared(&self) -> bool {
        self.accepting.iter().any(|kind| kind.weighed.shared)
    }

    /// What speaks against every node, and what to know about the rest. Empty of errors where a place may be sought.
    /// Their paths are those of the pod.
    pub(super) fn findings(&self, demand: &Demand) -> Vec<Finding> {
        let mut findings = Vec::new();
        let asks = demand.asks();
        if !asks && self.accepting.is_empty() && self.refusing.is_empty() {
            // What asks for no GPU needs no node that has one.
        } else if let Some(not_offered) = &self.not_offered {
            findings.push(not_offered.clone());
        } else if !self.large_enough {
            findings.push(self.too_small(demand));
        } else if self.accepting.is_empty() && self.refusing.is_empty() {
            findings.push(no_match(demand, &self.base));
        } else if self.accepting.is_empty() {
            for kind in &self.refusing {
                findings.extend(self.findings_of(kind, demand).iter().cloned());
            }
        } else {
            for kind in &self.accepting {
                findings.extend(self.findings_of(kind, demand).iter().map(|finding| {
                    // A policy that does not enforce lets the kind through, so its reasons are remarks.
                    let severity = if kind.weighed.refused() {
                        Severity::Warning
                    } else {
                        Severity::Error
                    };
                    finding.clone().with_severity(finding.severity.min(severity))
                }));
            }
            findings.extend(clients::without_effect(demand, &self.accepting));
            findings.extend(excluded(&self.refusing));
            findings.extend(self.facts(demand));
        }
        findings.extend(self.failed_expressions());
        findings
    }

    /// Expressions that fail on kinds of nodes. A pod that another kind takes under a policy that can be told is warned.
    fn failed_expressions(&self) -> Vec<Finding> {
        let kinds = || self.accepting.iter().chain(&self.refusing);
        let only_remark = self.accepting.iter().any(|kind| kind.failed.is_none());
        let mut told = BTreeMap::new();
        for kind in kinds() {
            let Some(why) = &kind.failed else { continue };
            told.entry(kind.policy.name.as_str()).or_insert_with(|| {
                let finding = under(&kind.policy, expression::failure(&kind.policy, why));
                let severity = if only_remark {
                    finding.severity.min(Severity::Warning)
                } else {
                    finding.severity
                };
                finding.with_severity(severity)
            });
        }
        told.into_values().collect()
    }

    fn too_small(&self, demand: &Demand) -> Finding {
        let offered = self.most();
        let most = |resource: &str| offered.get(resource).copied().unwrap_or(0);
        let above = self
            .asked
            .iter()
            .find(|(resource, asked)| **asked > most(resource));
        let Some((resource, asked)) = above else {
            let path = demand
                .claims
                .first()
                .map_or_else(FieldPath::default, |claim| claim.slots_path.clone());
            let all: Vec<String> = self
                .asked
                .iter()
                .map(|(resource, asked)| format!("{asked} of {resource}"))
                .collect();
            let text = format!(
                "the pod asks {}, and no node has as many of each: no node could ever take it",
                all.join(" and ")
            );
            return self.growing(Finding::new(Code::Vg703, path, text));
        };
        let path = demand
            .claims
            .iter()
            .filter(|claim| *claim.resource == **resource)
            .max_by_key(|claim| claim.slots)
            .map_or_else(FieldPath::default, |claim| claim.slots_path.clone());
        let most = most(resource);
        let finding = Finding::new(
            Code::Vg703,
            path,
            format!(
                "the pod asks {asked} of {resource} and the largest node has {most}: no node could ever take it; ask \
                 for at most {most}"
            ),
        )
        .number("slots", Number::Count(u64::from(*asked)))
        .number("largestNode", Number::Count(u64::from(most)));
        self.growing(finding)
    }

    /// What no node can give now is a remark where an autoscaler may add other nodes.
    fn growing(&self, finding: Finding) -> Finding {
        let finding = under(&self.base, finding);
        if self.base.growth.is_empty() {
            return finding;
        }
        let severity = finding.severity.min(Severity::Warning);
        finding
            .detail("the policy names pools that an autoscaler can add, so the pod may wait for one")
            .with_severity(severity)
    }

    /// What is not known of the devices on which the pod could stand.
    fn facts(&self, demand: &Demand) -> Vec<Finding> {
        let mut findings = Vec::new();
        let path = demand
            .claims
            .first()
            .map_or_else(FieldPath::default, |claim| claim.slots_path.clone());
        for kind in &self.accepting {
            let Some(name) = kind.names.first() else { continue };
            let mut tell = |message: String| {
                let finding = Finding::new(Code::Vg704, path.clone(), message);
                findings.push(under(&kind.policy, finding));
            };
            let mut asked = kind.class.pools.iter().zip(&kind.weighed.standings);
            let lacks_size = asked.any(|(pool, standing)| standing.slots > 0 && lacks_size(pool));
            let mut notes = kind
                .notes
                .iter()
                .filter(|note| demand.resources().any(|asked| *asked == *note.resource))
                .peekable();
            if lacks_size && notes.peek().is_none() {
                tell(format!(
                    "node {} has no label nvidia.com/gpu.memory and a product that the catalogue lacks: fractions are \
                     summed there, overheads cannot be",
                    short(name)
                ));
            }
            for note in notes {
                tell(format!("node {}: {}", short(name), note.message));
            }
        }
        findings
    }
}

/// A resource that a DeviceClass stands for shows in no capacity, so no node's lack of it says anything.
fn lacks_size(pool: &Pool) -> bool {
    pool.sharing.is_shared() && pool.total.is_none()
}

/// Whether the pod may stand on a node of a kind, ready or not.
fn may_stand(ledger: &Ledger, index: usize, name: &str, spec: &PodSpec) -> bool {
    ledger
        .nodes
        .get(name)
        .filter(|entry| entry.class == index)
        .is_some_and(|entry| !matches!(node_matches(spec, &entry.node), Fit::Never(_)))
}

/// Some nodes of a kind on which the pod may stand, ready or not.
fn matching(
    ledger: &Ledger,
    (index, class): (usize, &Class),
    spec: &PodSpec,
    named: Option<&BTreeSet<Arc<str>>>,
) -> Vec<Arc<str>> {
    if !class.may_suit(spec) {
        return Vec::new();
    }
    named
        .unwrap_or(&class.members)
        .iter()
        .filter(|name| may_stand(ledger, index, name, spec))
        .take(MOST_NAMED + 1)
        .cloned()
        .collect()
}

/// The pod waits: no node has the labels that it wants, or every one has a taint that it does not tolerate. Labels and
/// taints change, and preemption and autoscaling live from pods that wait, so this denies nothing.
fn no_match(demand: &Demand, policy: &Policy) -> Finding {
    let resource = demand.resources().next().unwrap_or("nvidia.com/gpu").to_owned();
    let finding = Finding::new(
        Code::Vg209,
        FieldPath::new("spec"),
        format!(
            "no node that offers {resource} matches the pod's node selector, affinity and tolerations now: it would \
             stay Pending"
        ),
    );
    finding.with_severity(policy.severity(Code::Vg209).min(Severity::Info))
}

/// Kinds that refuse the pod beside others that take it: the scheduler may still choose them. One remark for each
/// reason, however many kinds give it.
fn excluded(refusing: &[Candidate<'_>]) -> Vec<Finding> {
    let mut by_code: BTreeMap<Code, Vec<(&Candidate<'_>, &Finding)>> = BTreeMap::new();
    for kind in refusing {
        let errors = &kind.weighed.findings;
        let worst = errors.iter().find(|finding| finding.severity == Severity::Error);
        if let Some(worst) = worst {
            by_code.entry(worst.code).or_default().push((kind, worst));
        }
    }
    let mut findings = Vec::with_capacity(by_code.len());
    for (code, kinds) in by_code {
        let Some((_, first)) = kinds.first() else { continue };
        let all: Vec<&Arc<str>> = kinds.iter().flat_map(|(kind, _)| &kind.names).collect();
        let named: Vec<String> = all.iter().take(MOST_NAMED).map(|name| short(name)).collect();
        let more = if all.len() > MOST_NAMED { " and others" } else { "" };
        let what = match kinds.as_slice() {
            [(only, _)] => format!(" ({})", devices(only)),
            _ => String::new(),
        };
        let mut finding = Finding::new(
            code,
            first.path.clone(),
            format!(
                "refused on {}{more}{what}: keep it off there by node selector or affinity",
                named.join(", ")
            ),
        );
        for (_, reason) in &kinds {
            if !finding.details.contains(&reason.message) {
                finding = finding.detail(reason.message.clone());
            }
        }
        findings.push(finding.with_severity(Severity::Warning));
    }
    findings
}

/// The devices of a kind that the pod asks for, in words.
fn devices(kind: &Candidate<'_>) -> String {
    let asked = kind.class.pools.iter().zip(&kind.weighed.standings);
    let devices = asked.filter(|(_, standing)| standing.slots > 0).map(|(pool, _)| {
        let device = match &pool.device {
            DeviceKind::Gpu => short(&pool.product),
            DeviceKind::Mig(profile) => format!("MIG {profile}"),
        };
        if pool.sharing.is_shared() {
            format!("{device} in {} slots", pool.sharing.slots_per_device())
        } else {
            device
        }
    });
    devices.collect::<Vec<_>>().join("; ")
}
