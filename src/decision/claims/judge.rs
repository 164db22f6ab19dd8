//! Kinds of devices that the claims may be given, one by one.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use super::sharers::{Resolved, Wanted, Which, at_once, others, together, users};
use super::text;
use crate::decision::budget::Own;
use crate::decision::{PlacementRow, Question};
use crate::demand::weigh::by_claim::{self, OnEach, on_each, weighed};
use crate::demand::weigh::{Rules, fit, under};
use crate::demand::{Demand, Use};
use crate::device::Sharing;
use crate::dra::Limit;
use crate::dra::devices::{DRIVER, Kind};
use crate::dra::resolve::{Choice, Resolved as OfClaim};
use crate::engine::Engine;
use crate::finding::{Code, Finding, Severity};
use crate::ledger::Ledger;
use crate::policy::{Evidence, PolicyRef};
use crate::units::{Mib, Share};

/// Kinds of devices that are told of at most.
const MOST_KINDS: usize = 64;

/// What a verdict on claims needs beside the demand.
pub(in crate::decision) struct Context<'l> {
    pub(super) ledger: &'l Ledger,
    pub(super) namespace: &'l str,
    pub(super) namespace_labels: &'l BTreeMap<String, String>,
    pub(super) pod_labels: &'l BTreeMap<String, String>,
    pub(super) own: &'l Own,
    /// Pods that the object makes.
    pub(super) pods: u32,
}

impl<'l> Context<'l> {
    pub(in crate::decision) fn of(question: &'l Question, ledger: &'l Ledger, own: &'l Own) -> Self {
        let workload = &question.workload;
        Self {
            ledger,
            namespace: &workload.object.namespace,
            namespace_labels: &question.namespace_labels,
            pod_labels: &workload.pod.metadata.labels,
            own,
            pods: workload.replicas.desired.max(1),
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
        .filter(|one| !one.requests.is_empty() || !one.unknown.is_empty())
        .collect();
    if resolved.is_empty() {
        return None;
    }
    let policies = context.ledger.policies();
    let policy = policies.for_pod(context.namespace_labels, context.pod_labels, None);
    let mut judged = Judged {
        findings: Vec::new(),
        placement: Vec::new(),
        is_named: resolved
            .iter()
            .flat_map(|one| &one.requests)
            .any(|((which, _), _)| matches!(which, Which::Named(_))),
        policy: policy.clone(),
        share: Share::ZERO,
    };
    let users = users(&resolved);
    for one in &resolved {
        let told = one.used.findings.iter().cloned();
        judged
            .findings
            .extend(told.map(|finding| under(&policy, finding)));
        let runs_engine = one
            .used
            .claim
            .parts
            .iter()
            .any(|part| part.engine != Engine::Unknown);
        for why in one.unknown.iter().filter(|_| runs_engine) {
            judged.findings.push(under(&policy, text::unknown(one.used, why)));
        }
        judge_use(context, one, &users, &mut judged);
    }
    for (wanted, uses) in &users {
        judge_sharers(context, wanted, uses, &resolved, &mut judged);
    }
    Some(judged)
}

fn resolve<'d>(context: &Context<'_>, used: &'d Use) -> Resolved<'d> {
    let mut one = Resolved {
        used,
        requests: Vec::new(),
        unknown: Vec::new(),
    };
    for of in &used.refs {
        let dra = &context.ledger.dra;
        match dra.resolve(context.namespace, &of.source, of.request.as_deref()) {
            OfClaim::Others => {}
            OfClaim::Unknown(why) => one.unknown.push(why),
            OfClaim::Requests(requests) => one.requests.extend(requests.into_iter().map(|request| {
                let which = Which::of(&of.source, &of.entry);
                ((which, request.name.clone()), request)
            })),
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
fn device_policy(context: &Context<'_>, kind: &Arc<Kind>) -> PolicyRef {
    let nodes = &context.ledger.nodes;
    let node = context
        .ledger
        .dra
        .nodes_of(kind)
        .find_map(|name| nodes.get(name).map(|entry| entry.node.labels.clone()));
    context.ledger.policies().for_device(&node.unwrap_or_default())
}

/// How many users a device of a request has at once: those of this pod, of its like, and everybody else.
fn sharers(context: &Context<'_>, wanted: &Wanted, uses: &[&Use]) -> u32 {
    let own = at_once(uses);
    match &wanted.0 {
        Which::Own(_) => own,
        Which::Named(_) => {
            let others = u32::try_from(others(context, wanted).len()).unwrap_or(u32::MAX);
            own.saturating_mul(context.pods).saturating_add(others)
        }
    }
}

/// How a device of a kind is shared by so many users of a claim, and by other claims.
fn sharing(kind: &Kind, limit: Option<Limit>, users: u32) -> Sharing {
    let claims = match (limit, kind.total) {
        (Some(Limit::Capacity(capacity)), Some(total)) if kind.multiple && capacity < total => {
            u32::try_from(total.get() / capacity.get().max(1))
                .unwrap_or(u32::MAX)
                .max(2)
        }
        _ => 1,
    };
    let slots = NonZeroU32::new(users.max(claims)).unwrap_or(NonZeroU32::MIN);
    match limit {
        _ if slots.get() == 1 => Sharing::Exclusive,
        Some(Limit::Mps(_)) => Sharing::Mps(slots),
        _ => Sharing::TimeSliced(slots),
    }
}

/// What each kind of device says to one container.
fn judge_use(
    context: &Context<'_>,
    one: &Resolved<'_>,
    sharing_it: &BTreeMap<&Wanted, Vec<&Use>>,
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
        let uses = sharing_it
            .get(option.wanted)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let limit = option.choice.limit(option.kind);
        let sharing = sharing(option.kind, limit, sharers(context, option.wanted, uses));
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
    let (mut findings, each) = if sharing.is_shared() {
        let shared = weighed(used, option.kind, option.slots, sharing, rules);
        let each = on_each(&shared, option.slots);
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
        (of_devices.chain(of_sharing).collect::<Vec<_>>(), each)
    } else {
        let each = on_each(&alone, option.slots);
        (alone.findings, each)
    };
    let each = each.under_mps(used, option.kind, option.choice.mps.most);
    // What takes whatever it can get stays within a limit that is enforced.
    let is_bounded = matches!(limit, Some(Limit::Mps(_))) && by_claim::is_open(used);
    if let Some(limit) = limit.filter(|_| !is_bounded)
        && let Some(finding) = text::above(used, each, limit, option.kind)
    {
        findings.push(under(rules.pod, finding));
    }
    (findings, each)
}

/// Whether those who share a device fit on it together.
fn judge_sharers(
    context: &Context<'_>,
    wanted: &Wanted,
    uses: &[&Use],
    resolved: &[Resolved<'_>],
    judged: &mut Judged,
) {
    let others = others(context, wanted);
    let count = sharers(context, wanted, uses);
    let policy = judged.policy.clone();
    let alternatives = || {
        let mut requests = resolved.iter().flat_map(|one| &one.requests);
        let request = requests.find(|(other, _)| other == wanted);
        request.into_iter().flat_map(|(_, request)| &request.alternatives)
    };
    let mut choices: Vec<(&Choice, &Arc<Kind>)> = alternatives()
        .flat_map(|choice| choice.kinds.iter().map(move |kind| (choice, kind)))
        .take(MOST_KINDS)
        .collect();
    // Whatever device it is that no slice describes now: it is one, and their fractions add up on it.
    let unknown = Arc::new(Kind::unknown());
    if choices.is_empty() {
        choices.extend(alternatives().next().map(|choice| (choice, &unknown)));
    }
    let mut worst: Option<(Share, Finding)> = None;
    for (choice, kind) in choices {
        let device = device_policy(context, kind);
        let rules = Rules {
            pod: &policy,
            device: &device.device,
            namespace: "",
        };
        let slots = |used: &Use| choice.count.unwrap_or(used.claim.ranks()).max(1);
        let limit = choice.limit(kind);
        let shared = sharing(kind, limit, count);
        let each = |used: &Use, sharing, rules: Rules<'_>| {
            let slots = slots(used);
            let each = on_each(&weighed(used, kind, slots, sharing, rules), slots);
            each.under_mps(used, kind, choice.mps.most)
        };
        let own = together(
            uses.iter()
                .map(|used| (used.claim.role, each(used, shared, rules))),
        );
        let pods = match &wanted.0 {
            Which::Own(_) => 1,
            Which::Named(_) => context.pods,
        };
        // Who came while nobody else was there was admitted as the only one, and may take what that one takes.
        let held: Vec<OnEach> = others
            .iter()
            .map(|other| {
                let labels = context.ledger.namespace_labels(&other.holder.namespace);
                let its = context
                    .ledger
                    .policies()
                    .for_pod(&labels, &other.holder.labels, None);
                let rules = Rules { pod: &its, ..rules };
                let alone = each(other.used, Sharing::Exclusive, rules);
                let shared = each(other.used, shared, rules);
                if alone.share > shared.share { alone } else { shared }
            })
            .collect();
        let others_hold = held.iter().copied().fold(OnEach::default(), OnEach::plus);
        let budget = if shared.is_shared() {
            device.device.budget
        } else {
            Share::WHOLE
        };
        let sum = others_hold.share.plus(own.share.times(u64::from(pods)));
        for (pool, name) in &choice.allocated {
            let node = context.ledger.dra.node_of(pool, name);
            judged.placement.push(PlacementRow {
                node: node.unwrap_or(pool).to_string(),
                device: Some(format!("{DRIVER}[{name}]")),
                evidence: Evidence::Observed,
                promised: others_hold.request.plus(own.request.times(u64::from(pods))),
                budget: kind.total.map_or(Mib::ZERO, |total| budget.of_down(total)),
                promised_fraction: sum,
                budget_fraction: budget,
            });
        }
        // What other claims consume of the same device is the scheduler's to count.
        let is_shared_here = count > 1;
        if !is_shared_here || sum <= budget {
            continue;
        }
        let full = text::Full {
            wanted,
            own,
            pods,
            held: &held,
            others: &others,
            budget,
            kind,
            allocated: &choice.allocated,
        };
        let finding = under(&policy, full.finding(context, uses));
        if worst.as_ref().is_none_or(|(most, _)| sum > *most) {
            worst = Some((sum, finding));
        }
    }
    judged.findings.extend(worst.map(|(_, finding)| finding));
}
