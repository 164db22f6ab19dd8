//! Kinds of devices that the claims may be given, one by one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Sibling;
use super::meet::{self, Companies};
use super::sharers::{Missing, Resolved, Wanted, Which, request_of, spots};
use super::{text, waiting};
use crate::decision::budget::Own;
use crate::decision::{PlacementRow, Question};
use crate::demand::weigh::by_claim::{self, OnEach, sharing, weighed};
use crate::demand::weigh::{Rules, fit, under};
use crate::demand::{Demand, Use};
use crate::device::Sharing;
use crate::dra::Limit;
use crate::dra::devices::Kind;
use crate::dra::resolve::{Choice, Resolved as OfClaim, Source, Terms};
use crate::finding::{Code, Finding, Severity};
use crate::ledger::Ledger;
use crate::policy::PolicyRef;
use crate::units::Share;
use crate::workload::pod::Pod;

/// Kinds of devices that are told of at most.
pub(super) const MOST_KINDS: usize = 64;

/// What a verdict on claims needs beside the demand.
pub(in crate::decision) struct Context<'l> {
    pub(super) ledger: &'l Ledger,
    pub(super) namespace: &'l str,
    pub(super) namespace_labels: &'l BTreeMap<String, String>,
    pub(super) pod: &'l Pod,
    pub(super) own: &'l Own,
    /// Pods that the object makes.
    pub(super) pods: u32,
    /// The claims that were made for the pod, where it exists already, by entry.
    pub(super) made: BTreeMap<Arc<str>, Arc<str>>,
    /// What each pod of its other templates takes, and how many they make.
    pub(super) siblings: Vec<(&'l Demand, u32)>,
}

impl<'l> Context<'l> {
    /// `siblings` are the templates of the object, this one included.
    pub(in crate::decision) fn of(
        question: &'l Question,
        ledger: &'l Ledger,
        own: &'l Own,
        siblings: &[Sibling<'l>],
    ) -> Self {
        let others = siblings.iter();
        let others =
            others.filter(|sibling| sibling.question.workload.template != question.workload.template);
        let workload = &question.workload;
        Self {
            ledger,
            namespace: &workload.object.namespace,
            namespace_labels: &question.namespace_labels,
            pod: &workload.pod,
            own,
            pods: workload.replicas.desired.max(1),
            made: ledger
                .holder(&workload.pod.metadata.uid)
                .map(|holder| holder.made.clone())
                .unwrap_or_default(),
            siblings: others
                .map(|other| (other.demand, other.question.workload.replicas.desired.max(1)))
                .collect(),
        }
    }
}

/// What the claims of an object come to.
pub(in crate::decision) struct Judged {
    pub(in crate::decision) findings: Vec<Finding>,
    pub(in crate::decision) placement: Vec<PlacementRow>,
    pub(in crate::decision) policy: PolicyRef,
    /// Whether it uses a claim that others may use as well.
    pub(in crate::decision) is_named: bool,
    /// The most that it takes of a device.
    pub(super) share: Share,
}

impl Judged {
    pub(in crate::decision) fn is_refused(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.severity == Severity::Error)
    }
}

/// One kind of device for one container.
struct Given<'r> {
    choice: &'r Choice,
    kind: &'r Arc<Kind>,
    slots: u32,
    wanted: &'r Wanted,
}

/// Judges the claims of a pod; `None` where none of them is for NVIDIA's devices.
pub(in crate::decision) fn judge(context: &Context<'_>, demand: &Demand) -> Option<Judged> {
    let resolved: Vec<Resolved<'_>> = demand
        .uses
        .iter()
        .map(|used| resolve(context, used))
        .filter(|one| !one.requests.is_empty() || !one.missing.is_empty())
        .collect();
    if resolved.is_empty() {
        return None;
    }
    let policies = context.ledger.policies();
    let policy = policies.for_pod(context.namespace_labels, context.pod, None);
    let mut judged = Judged {
        findings: Vec::new(),
        placement: Vec::new(),
        is_named: resolved.iter().any(|one| {
            let known = one.requests.iter().map(|((which, _), _)| which);
            let missing = one.missing.iter().map(|missing| &missing.wanted.0);
            known.chain(missing).any(|which| matches!(which, Which::Named(_)))
        }),
        policy: policy.clone(),
        share: Share::ZERO,
    };
    let spots = spots(&resolved);
    let companies = Companies::of(context, &spots);
    for one in &resolved {
        let told = one.used.findings.iter().cloned();
        judged
            .findings
            .extend(told.map(|finding| under(&policy, finding)));
        judge_use(context, one, &companies, &mut judged);
    }
    for (spot, company) in companies.iter() {
        meet::judge(context, spot, company, &resolved, &mut judged);
    }
    waiting::judge(context, demand, &resolved, &mut judged);
    Some(judged)
}

fn resolve<'d>(context: &Context<'_>, used: &'d Use) -> Resolved<'d> {
    let mut one = Resolved {
        used,
        requests: Vec::new(),
        missing: Vec::new(),
    };
    for of in &used.refs {
        let dra = &context.ledger.dra;
        let made = context.made.get(&of.entry).cloned().map(Source::Named);
        let source = made.as_ref().unwrap_or(&of.source);
        let which = Which::of(source, &of.entry);
        match dra.resolve(context.namespace, source, of.request.as_deref()) {
            OfClaim::Others => {}
            OfClaim::Missing(why) => one.missing.push(Missing {
                wanted: (which, Arc::from(of.request.as_deref().map_or("", request_of))),
                why,
            }),
            OfClaim::Requests(requests) => {
                // Access for monitoring is nobody's business, unless an engine makes use of it.
                let is_use = |choice: &Choice| !choice.admin || by_claim::takes_by_access(used);
                let used = requests
                    .into_iter()
                    .filter(|request| request.alternatives.iter().any(is_use));
                one.requests
                    .extend(used.map(|request| ((which.clone(), request.name.clone()), request)));
            }
        }
    }
    one
}

/// Everything that a container's requests may be given, one kind at a time; of its other requests the fewest devices.
fn options<'r>(one: &'r Resolved<'_>) -> Vec<Given<'r>> {
    let ranks = one.used.claim.ranks().max(1);
    let count = |choice: &Choice| choice.count.unwrap_or(ranks);
    let least = |request: &crate::dra::resolve::Request| {
        let counts = request.alternatives.iter().map(count);
        counts.min().unwrap_or(0)
    };
    let mut options: Vec<Given<'_>> = Vec::new();
    for (index, (wanted, request)) in one.requests.iter().enumerate() {
        let beside = one
            .requests
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != index)
            .fold(0_u32, |sum, (_, (_, other))| sum.saturating_add(least(other)));
        for choice in &request.alternatives {
            for kind in &choice.kinds {
                let slots = count(choice).saturating_add(beside);
                let known = options.iter().any(|other| {
                    other.kind == kind
                        && other.slots == slots
                        && other.choice.limit(kind) == choice.limit(kind)
                });
                if !known && options.len() < MOST_KINDS {
                    options.push(Given {
                        choice,
                        kind,
                        slots,
                        wanted,
                    });
                }
            }
        }
    }
    options
}

/// The least fraction with which every container's models may fit some device that it may be given.
pub(super) fn least_fraction(context: &Context<'_>, demand: &Demand) -> Share {
    let each = demand.uses.iter().map(|used| {
        let one = resolve(context, used);
        let options = options(&one);
        let least = options
            .iter()
            .filter_map(|option| by_claim::least_fraction(used, option.kind, option.slots));
        least.min().unwrap_or(Share::ZERO)
    });
    each.max().unwrap_or(Share::ZERO)
}

/// The policy of the devices of a kind: that of a node which has some.
pub(super) fn device_policy(context: &Context<'_>, kind: &Arc<Kind>) -> PolicyRef {
    let nodes = &context.ledger.nodes;
    let node = context
        .ledger
        .dra
        .nodes_of(kind)
        .find_map(|name| nodes.get(name).map(|entry| entry.node.labels.clone()));
    context.ledger.policies().for_device(&node.unwrap_or_default())
}

/// What each kind of device says to one container.
fn judge_use(
    context: &Context<'_>,
    one: &Resolved<'_>,
    companies: &Companies<'_, '_, '_, '_>,
    judged: &mut Judged,
) {
    let policy = judged.policy.clone();
    let options = options(one);
    if options.is_empty() {
        let gone = one.requests.iter().any(|(_, request)| {
            let mut choices = request.alternatives.iter();
            choices.any(|choice| !choice.allocated.is_empty())
        });
        if !one.requests.is_empty() {
            judged.findings.push(text::no_device(one.used, gone));
        }
        return;
    }
    let mut refusing: Vec<(&Given<'_>, Vec<Finding>)> = Vec::new();
    let mut accepting = Vec::new();
    for option in &options {
        let device = device_policy(context, option.kind);
        let rules = Rules {
            pod: &policy,
            device: &device.device,
            namespace: "",
        };
        let limit = option.choice.limit(option.kind);
        let users = companies.users(option.wanted, option.choice);
        let sharing = sharing(option.kind, limit, option.choice.mps, users);
        let (findings, each) = findings(one.used, option, sharing, limit, rules);
        judged.share = judged.share.max(each.share);
        if findings.iter().any(|finding| finding.severity == Severity::Error) {
            refusing.push((option, findings));
        } else {
            accepting.extend(findings);
        }
    }
    if refusing.len() == options.len() {
        judged
            .findings
            .extend(refusing.into_iter().flat_map(|(option, findings)| {
                let guessed = option.choice.guessed;
                let tell = move |finding: Finding| if guessed { text::guessed(finding) } else { finding };
                findings.into_iter().map(tell)
            }));
        return;
    }
    judged.findings.extend(accepting);
    for (option, findings) in refusing {
        judged.findings.extend(text::may_be_given(
            one.used,
            option.kind,
            &findings,
            option.choice.guessed,
        ));
    }
}

/// What one kind of device says to a container, and what that takes of each.
fn findings(
    used: &Use,
    option: &Given<'_>,
    sharing: Sharing,
    limit: Option<Limit>,
    rules: Rules<'_>,
) -> (Vec<Finding>, OnEach) {
    // Whoever shares a claim gets the same devices, one for each rank: ranks and model are those of whole devices.
    let alone = weighed(used, option.kind, option.slots, Sharing::Exclusive, rules);
    // Its ranks stand on the devices of all its requests.
    let terms = Terms {
        count: Some(option.slots),
        ..option.choice.terms()
    };
    let each = by_claim::each(used, option.kind, terms, sharing, rules);
    let mut findings = if sharing.is_shared() {
        let shared = weighed(used, option.kind, option.slots, sharing, rules);
        let of_devices = alone.findings.into_iter().filter(|finding| {
            fit::CODES.contains(&finding.code)
                || matches!(
                    finding.code,
                    Code::Vg105 | Code::Vg213 | Code::Vg303 | Code::Vg305
                )
        });
        let of_sharing = shared.findings.into_iter().filter(|finding| {
            matches!(
                finding.code,
                Code::Vg102 | Code::Vg106 | Code::Vg206 | Code::Vg207 | Code::Vg208 | Code::Vg704
            )
        });
        of_devices.chain(of_sharing).collect::<Vec<_>>()
    } else {
        alone.findings
    };
    // What takes whatever it can get stays within a limit that is enforced.
    let is_bounded = option.choice.mps.most.is_some() && by_claim::is_open(used);
    let of_limit = match limit {
        Some(Limit::Mps(_)) => by_claim::largest(used, option.kind, terms, sharing, rules),
        _ => each,
    };
    if let Some(limit) = limit.filter(|_| !is_bounded)
        && let Some(finding) = text::above(used, of_limit, limit, option.kind)
    {
        findings.push(under(rules.pod, finding));
    }
    if let Some(most) = option.choice.mps.most {
        for short in by_claim::short_of(used, option.kind, option.slots, most) {
            let finding = under(rules.pod, text::too_little(used, &short, most, option.kind));
            let surely = if short.is_sure {
                Severity::Error
            } else {
                Severity::Warning
            };
            let severity = finding.severity.min(surely);
            findings.push(finding.with_severity(severity));
        }
    }
    (findings, each)
}
