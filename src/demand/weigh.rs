//! A demand on one kind of device: exact shares, or the reasons why this kind cannot take it.

use crate::counted::{self, Taken};
use crate::demand::{Amount, Claim, Demand, Hold, Part, Standing};
use crate::device::{DeviceKind, Pool, Sharing};
use crate::engine::limits::Place;
use crate::engine::{Engine, Role};
use crate::finding::{Code, FieldPath, Finding, Number, Severity, short, shortened};
use crate::policy::{DevicePolicy, PerSlot, Policy, UnknownRule};
use crate::units::{Fraction, Mib, Share};

pub(crate) mod by_claim;
mod engines;
pub(crate) mod fair;
pub(crate) mod fit;
pub(crate) mod mps;
mod slices;
pub(crate) mod toolkit;
pub(crate) mod whole_device;

/// Holds that a pod is followed to on one node: far more than the slots of any node. A pod with more asks more slots
/// than any node has and is refused for that, whatever its memory; its size must not decide how long that takes.
const MOST_HOLDS: usize = 1_024;
/// Longest reason, in characters, that a first line carries; a longer one is repeated in full below it.
const LONGEST_REASON: usize = 90;

/// What a demand comes to on the pools of one kind of node, in the order of `pools`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weighed {
    /// Standing by pool; empty ones where the pod asks nothing of that pool.
    pub standings: Vec<Standing>,
    /// Reasons why a node of this kind refuses the pod, and remarks (by severity).
    pub findings: Vec<Finding>,
    /// Whether any pool that the pod asks for is shared.
    pub shared: bool,
    /// By claim of the demand: what its slots are worth here.
    pub(crate) taken: Vec<Taken>,
    /// The least that the models of its engines want of their devices; absent where none is known.
    pub wants: Option<Mib>,
}

impl Weighed {
    /// Whether a node of this kind refuses the pod whatever else it holds.
    #[must_use]
    pub fn refused(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.severity == Severity::Error)
    }

    /// Whether it is refused for something else than its model.
    fn refused_beside_fit(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.severity == Severity::Error && !fit::CODES.contains(&finding.code))
    }

    /// Whether a node of this kind refuses what it took as `before`, because it asks for more. A model that fits no longer
    /// counts where it wants more than the one before: to lower a fraction, or to go back to a smaller model, is no
    /// raise, whatever becomes of the pods that follow.
    #[must_use]
    pub fn newly_refused(&self, before: &Self) -> bool {
        let larger = match (before.wants, self.wants) {
            (Some(before), Some(now)) => now > before,
            (None, _) | (_, None) => true,
        };
        self.refused() && !before.refused() && (self.refused_beside_fit() || larger)
    }
}

/// Pod policy and device policy of one kind of node.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// What belongs to the pod.
    pub pod: &'a Policy,
    /// What belongs to the device.
    pub device: &'a DevicePolicy,
    /// Namespace of the pod; empty where nobody asks whose it is.
    pub namespace: &'a str,
}

/// Weighs a demand on the pools of one kind of node. Resources that no pool offers are the caller's business.
#[must_use]
pub fn weigh(demand: &Demand, pools: &[Pool], rules: Rules<'_>) -> Weighed {
    let mut weighed = Weighed {
        standings: vec![Standing::default(); pools.len()],
        taken: vec![Taken::Nothing; demand.claims.len()],
        ..Weighed::default()
    };
    let carried = demand.carried_by_claim();
    for (index, pool) in pools.iter().enumerate() {
        let mut running = Standing::default();
        let mut peak_of_init = Standing::default();
        for (at, claim) in demand
            .claims
            .iter()
            .enumerate()
            .filter(|(_, claim)| claim.resource == pool.resource)
        {
            weighed.shared |= pool.sharing.is_shared();
            let most = MOST_HOLDS.saturating_sub(running.holds.len());
            let mut holds = claim_holds(claim, pool, rules, most, &mut weighed.findings);
            if let Some(taken) = weighed.taken.get_mut(at) {
                *taken = Taken::of(claim, pool, &holds);
            }
            if let Some(least) = carried.get(claim.pointer.as_str())
                && pool.sharing.is_shared()
                && claim.slots > 0
            {
                counted::raise(&mut holds, *least);
            }
            weighed.findings.extend(mps::findings(claim, pool, rules));
            weighed
                .findings
                .extend(whole_device::findings(claim, pool, rules));
            weighed
                .findings
                .extend(slices::not_allowed(claim, pool, rules.pod));
            let (findings, wants) = fit::findings(claim, pool, rules, None);
            weighed.findings.extend(findings);
            weighed.wants = weighed.wants.into_iter().chain(wants).reduce(Mib::plus);
            if claim.role == Role::Init {
                // An init container runs beside the sidecars started before it, and ends before what follows.
                let mut beside = running.clone();
                beside.add(claim.slots, holds);
                peak_of_init = peak_of_init.either(beside);
            } else {
                running.add(claim.slots, holds);
            }
        }
        // Init containers that reach devices without asking are rare: they are taken to run beside the others.
        let unasked = demand.access.iter().filter(|access| access.takes());
        running.add_everywhere(unasked.map(|access| hold_everywhere(&access.claim, pool, rules)));
        weighed.shared |= !running.everywhere.is_empty() && pool.sharing.is_shared();
        if let Some(standing) = weighed.standings.get_mut(index) {
            *standing = running.either(peak_of_init);
            if !standing.is_empty() {
                standing.tenant = rules.device.tenants.tenant(rules.namespace);
            }
        }
    }
    // Most pods ask for one resource.
    if demand.claims.len() > 1 {
        weighed
            .findings
            .extend(slices::of_several_resources(demand, pools, rules));
    }
    weighed
}

fn claim_holds(
    claim: &Claim,
    pool: &Pool,
    rules: Rules<'_>,
    most: usize,
    findings: &mut Vec<Finding>,
) -> Vec<Hold> {
    let ranks = claim.ranks();
    if let Some(finding) = ranks_finding(claim, claim.ranks_on(pool), pool, rules.pod) {
        findings.push(finding);
    }
    let mut holds = Vec::new();
    // More ranks than the node has slots find no place there anyway, however many somebody writes.
    let most = u32::try_from(most).unwrap_or(u32::MAX).min(pool.slots);
    // What another system gave takes no slot.
    let standing = if claim.slots == 0 {
        ranks
    } else {
        ranks.min(claim.slots)
    };
    for rank in 0..standing.min(most) {
        let mut hold = Hold {
            container: claim.container.clone(),
            rank,
            request: Mib::ZERO,
            overhead: Mib::ZERO,
            share: Share::ZERO,
        };
        for part in claim.parts.iter().filter(|part| part.ranks > rank) {
            // Every rank of a container takes the same, so its reasons are told once.
            let mut told = Vec::new();
            let (request, overhead, share) = part_share(part, claim, pool, rules, &mut told);
            if rank == 0 {
                findings.append(&mut told);
                findings.extend(mps::above_limit(part, claim, pool, rules));
            }
            hold.request = hold.request.plus(request);
            hold.overhead = hold.overhead.plus(overhead);
            hold.share = hold.share.plus(share);
        }
        if rank == 0 {
            findings.extend(slot_findings(&hold, claim, pool, rules));
            findings.extend(engines::meeting(claim, pool, rules));
        }
        holds.push(hold);
    }
    holds
}

/// What a container that asked for no device takes of each one: its ranks stand on different devices, nothing tells on
/// which.
fn hold_everywhere(claim: &Claim, pool: &Pool, rules: Rules<'_>) -> Hold {
    let mut hold = Hold {
        container: claim.container.clone(),
        rank: 0,
        request: Mib::ZERO,
        overhead: Mib::ZERO,
        share: Share::ZERO,
    };
    for part in &claim.parts {
        // That it asks for no device is told elsewhere; reasons against a slot say nothing here.
        let (request, overhead, share) = part_share(part, claim, pool, rules, &mut Vec::new());
        hold.request = hold.request.plus(request);
        hold.overhead = hold.overhead.plus(overhead);
        hold.share = hold.share.plus(share);
    }
    hold
}

/// The request, the overhead and the share of one rank.
fn part_share(
    part: &Part,
    claim: &Claim,
    pool: &Pool,
    rules: Rules<'_>,
    findings: &mut Vec<Finding>,
) -> (Mib, Mib, Share) {
    let overhead = overhead_of(part, rules);
    if !pool.sharing.is_shared() {
        return exclusive_share(part, claim, pool, rules, findings);
    }
    let fair = rules
        .device
        .budget
        .divided_by(u64::from(pool.sharing.slots_per_device()));
    match &part.amount {
        Amount::OfTotal { fraction, by_default } => {
            if *by_default {
                let finding = Finding::new(
                    Code::Vg207,
                    part.path.clone(),
                    format!(
                        "container {} sets no memory fraction, so {} takes its default {} of the device, meant \
                         for a whole GPU; {} is a shared slot (1 of {})",
                        short(&claim.container),
                        part.engine,
                        fraction,
                        pool.resource,
                        pool.sharing.slots_per_device()
                    ),
                )
                .number("defaultFraction", Number::Share(fraction.share()))
                .number("fairShare", Number::Share(fair));
                let finding = if part.version.is_none() && part.engine == Engine::Vllm {
                    finding
                        .detail("the image names no release, so the largest default of all releases is taken")
                } else {
                    finding
                };
                let finding = match fair::to_write(part, pool, rules) {
                    Some(sentence) => finding.detail(sentence),
                    None => finding,
                };
                findings.push(under(rules.pod, finding));
            }
            sized(fraction.share(), pool, overhead, rules.device)
        }
        Amount::Absolute(_) | Amount::Estimated { .. } => {
            let mib = amount_on(&part.amount, pool);
            if let Some(total) = pool.total {
                let share =
                    Share::ratio_up(mib, total).max(with_overhead(mib, Mib::ZERO, pool, rules.device));
                (mib, Mib::ZERO, share)
            } else {
                let why =
                    format!("its {mib} are part of a device whose size no label and no catalogue tells");
                unknown_share(part, claim, pool, rules, (Code::Vg704, &why), findings)
            }
        }
        Amount::Unknown { code, why } => unknown_share(part, claim, pool, rules, (*code, why), findings),
        Amount::Uncapped { why } => match (toolkit::limit(claim, pool, rules.pod), pool.total) {
            (Some(limit), Some(total)) => {
                let share = with_overhead(limit, Mib::ZERO, pool, rules.device);
                (limit, Mib::ZERO, share.max(Share::ratio_up(limit, total)))
            }
            _ => unknown_share(part, claim, pool, rules, (Code::Vg206, why), findings),
        },
    }
}

/// Request and overhead of one process on a device of a pool, or what the policy assumes of it; `None` where nothing tells.
pub(crate) fn footprint(part: &Part, pool: &Pool, rules: Rules<'_>) -> Option<Mib> {
    let total = pool.total?;
    let of_total = |fraction: &Fraction| fraction.of(total).plus(overhead_of(part, rules));
    match &part.amount {
        Amount::OfTotal { fraction, .. } => Some(of_total(fraction)),
        Amount::Absolute(_) | Amount::Estimated { .. } => Some(amount_on(&part.amount, pool)),
        Amount::Unknown { .. } | Amount::Uncapped { .. } => match &unknown_rule(pool, rules.pod) {
            UnknownRule::Assume(fraction) => Some(of_total(fraction)),
            UnknownRule::Admit | UnknownRule::Deny | UnknownRule::Warn | UnknownRule::ClientLimit => None,
        },
    }
}

/// Where the container's own variable for its memory limit stands.
fn mps_variable_path(claim: &Claim) -> Option<FieldPath> {
    match claim.client.limit()?.place {
        Place::Env(index) => Some(claim.path.field("env").index(index)),
        Place::EnvFrom(index) => Some(claim.path.field("envFrom").index(index)),
        Place::Script => None,
    }
}

/// MiB that are stated or estimated, on the devices of a pool.
fn amount_on(amount: &Amount, pool: &Pool) -> Mib {
    match amount {
        Amount::Absolute(mib) => *mib,
        Amount::Estimated { usual, before_ampere } => {
            let is_old = fit::device(pool).is_some_and(|device| device.class.before_ampere);
            if is_old { *before_ampere } else { *usual }
        }
        Amount::OfTotal { .. } | Amount::Unknown { .. } | Amount::Uncapped { .. } => Mib::ZERO,
    }
}

/// A fraction of the total, the larger of itself and of what it takes with its overhead.
fn sized(fraction: Share, pool: &Pool, overhead: Mib, device: &DevicePolicy) -> (Mib, Mib, Share) {
    match pool.total {
        // The size of the device is unknown, so the overhead cannot be set against it; the fraction still counts.
        None => (Mib::ZERO, overhead, fraction),
        Some(total) => {
            let parts = u128::from(total.get()) * u128::from(fraction.ppm());
            let request = Mib::new(u64::try_from(parts.div_ceil(1_000_000)).unwrap_or(u64::MAX));
            (
                request,
                overhead,
                fraction.max(with_overhead(request, overhead, pool, device)),
            )
        }
    }
}

/// `budget x (request + overhead) / (total - reserve)`, rounded up.
fn with_overhead(request: Mib, overhead: Mib, pool: &Pool, device: &DevicePolicy) -> Share {
    let total = pool.total.unwrap_or(Mib::ZERO);
    let reserve = device
        .reserve
        .of(total, matches!(pool.device, DeviceKind::Mig(_)));
    device
        .budget
        .scaled_up(request.plus(overhead), total.less(reserve))
}

/// On a device of its own nothing is refused for its amount, unless the policy wants to know every amount.
fn exclusive_share(
    part: &Part,
    claim: &Claim,
    pool: &Pool,
    rules: Rules<'_>,
    findings: &mut Vec<Finding>,
) -> (Mib, Mib, Share) {
    let total = pool.total.unwrap_or(Mib::ZERO);
    let overhead = overhead_of(part, rules);
    match &part.amount {
        Amount::OfTotal { fraction, .. } => {
            findings.extend(own_device(part, claim, pool, rules.pod, overhead));
            (fraction.of(total), overhead, fraction.share())
        }
        Amount::Absolute(_) | Amount::Estimated { .. } => {
            findings.extend(own_device(part, claim, pool, rules.pod, Mib::ZERO));
            let mib = amount_on(&part.amount, pool);
            (mib, Mib::ZERO, Share::ratio_up(mib, total).min(Share::WHOLE))
        }
        Amount::Unknown { code, why } => unknown_share(part, claim, pool, rules, (*code, why), findings),
        Amount::Uncapped { why } => unknown_share(part, claim, pool, rules, (Code::Vg206, why), findings),
    }
}

/// Request and overhead against the whole of a device that nobody shares, without a reserve: a warning, because what
/// the overhead comes to is only known for the usual case.
fn own_device(part: &Part, claim: &Claim, pool: &Pool, policy: &Policy, overhead: Mib) -> Option<Finding> {
    let total = pool.total?;
    let (request, asked) = match &part.amount {
        Amount::OfTotal { fraction, by_default } => {
            // Other engines' values bound their overhead as well, and a whole by default stands for "works it out".
            let outside = matches!(part.engine, Engine::Vllm | Engine::Sglang);
            if !outside || *by_default && fraction.share() == Share::WHOLE {
                return None;
            }
            (fraction.of(total), format!("{fraction} of it"))
        }
        Amount::Absolute(mib) => (*mib, "its amount".to_owned()),
        // What was estimated is compared as a model (VG701), with its interval.
        Amount::Estimated { .. } | Amount::Unknown { .. } | Amount::Uncapped { .. } => return None,
    };
    let needed = request.plus(overhead);
    if needed <= total {
        return None;
    }
    let most = Share::ratio_down(total.less(overhead), total).to_thousandths_down();
    let advice = if overhead == Mib::ZERO {
        format!("a device of {} has no more", pool.resource)
    } else {
        format!("write at most {most}")
    };
    let finding = Finding::new(
        Code::Vg201,
        part.path.clone(),
        format!(
            "container {} takes {needed} of its device's {total}: {asked} and {overhead} overhead; {advice}",
            short(&claim.container)
        ),
    )
    .detail("a whole device is not shared, so this refuses nothing; the engine may run out of memory")
    .number("requestMiB", Number::Memory(request))
    .number("overheadMiB", Number::Memory(overhead))
    .number("totalMiB", Number::Memory(total))
    .number("largestFraction", Number::Share(most));
    let finding = under(policy, finding);
    let severity = finding.severity.min(Severity::Warning);
    Some(finding.with_severity(severity))
}

fn overhead_of(part: &Part, rules: Rules<'_>) -> Mib {
    rules
        .pod
        .overheads
        .of(part.engine, part.version, part.eager, part.tensor)
}

/// What becomes of an amount that cannot be read, on the devices of a pool.
const fn unknown_rule<'p>(pool: &Pool, policy: &'p Policy) -> &'p UnknownRule {
    let is_mig = matches!(pool.device, DeviceKind::Mig(_));
    match pool.sharing {
        Sharing::Mps(_) => &policy.unknown.mps,
        Sharing::TimeSliced(_) => &policy.unknown.time_sliced,
        Sharing::Exclusive if is_mig => &policy.unknown.mig,
        Sharing::Exclusive => &policy.unknown.exclusive,
    }
}

/// What the policy says of an amount that cannot be read.
fn unknown_share(
    part: &Part,
    claim: &Claim,
    pool: &Pool,
    rules: Rules<'_>,
    (code, why): (Code, &str),
    findings: &mut Vec<Finding>,
) -> (Mib, Mib, Share) {
    let shared = pool.sharing.is_shared();
    let rule = unknown_rule(pool, rules.pod);
    let slots = u64::from(pool.sharing.slots_per_device());
    // Of a device of its own it can take all.
    let counted = if shared {
        rules.device.budget.divided_by(slots)
    } else {
        Share::WHOLE
    };
    let remedy = match (code, shared) {
        (Code::Vg102, true) => "write the value into the manifest, or use a whole GPU",
        (Code::Vg102, false) => "write the value into the manifest",
        (Code::Vg704, _) => "label the node with nvidia.com/gpu.memory",
        (_, true) => "use a whole GPU, or an engine that can be bounded",
        (_, false) => "the policy admits readable engines only",
    };
    let of_what = if shared { "shared " } else { "" };
    let mut finding = Finding::new(
        code,
        part.path.clone(),
        format!(
            "container {} on {of_what}{}: {}; {remedy}",
            short(&claim.container),
            pool.resource,
            shortened(why, LONGEST_REASON)
        ),
    );
    if shared {
        finding = finding.number("fairShare", Number::Share(counted));
    }
    if why.chars().count() > LONGEST_REASON {
        finding = finding.detail(why.to_owned());
    }
    // VG101 is told by the reading itself, with the value.
    let mut tell = |finding: Finding| {
        if code != Code::Vg101 {
            findings.push(finding);
        }
    };
    let as_counted = if shared {
        format!("counted as budget / slots: {counted} of the device")
    } else {
        "the device is its own, so all of it is counted".to_owned()
    };
    match rule {
        UnknownRule::Assume(fraction) => {
            let assumed = finding.detail(format!("the policy assumes {fraction} of the device"));
            tell(assumed.with_severity(Severity::Info));
            return if shared {
                sized(fraction.share(), pool, overhead_of(part, rules), rules.device)
            } else {
                let total = pool.total.unwrap_or(Mib::ZERO);
                (fraction.of(total), overhead_of(part, rules), fraction.share())
            };
        }
        // That a size is missing is a remark elsewhere; here it decides.
        UnknownRule::Deny if code == Code::Vg704 => tell(finding.with_severity(Severity::Error)),
        UnknownRule::Deny => tell(under(rules.pod, finding)),
        UnknownRule::Warn => tell(finding.detail(as_counted).with_severity(Severity::Warning)),
        UnknownRule::Admit | UnknownRule::ClientLimit if shared => {
            tell(finding.detail(as_counted).with_severity(Severity::Info));
        }
        UnknownRule::Admit | UnknownRule::ClientLimit => {}
    }
    if matches!(pool.sharing, Sharing::Mps(_)) {
        let (request, share) = mps::counted(part, claim, pool, counted);
        return (request, Mib::ZERO, share);
    }
    let counted_mib = pool.total.map_or(Mib::ZERO, |total| counted.of_down(total));
    (counted_mib, Mib::ZERO, counted)
}

/// Ranks against slots.
fn ranks_finding(claim: &Claim, ranks: u32, pool: &Pool, policy: &Policy) -> Option<Finding> {
    let container = short(&claim.container);
    let resource = &pool.resource;
    let slots = claim.slots;
    let counted = |finding: Finding| {
        let finding = finding
            .number("ranks", Number::Count(u64::from(ranks)))
            .number("slots", Number::Count(u64::from(slots)));
        Some(under(policy, finding))
    };
    let at = |code, text: String| Finding::new(code, claim.slots_path.clone(), text);
    if ranks == u32::MAX {
        // The count stops there, so the number would be wrong.
        let finding = at(
            Code::Vg105,
            format!(
                "container {container} needs more devices (tensor, pipeline and data parallel ranks) than can be counted \
                 and asks {slots} of {resource}: the engine stops at start; lower the parallel size"
            ),
        )
        .number("slots", Number::Count(u64::from(slots)));
        return Some(under(policy, finding));
    }
    if matches!(pool.sharing, Sharing::Mps(_)) && slots > 1 {
        return counted(at(
            Code::Vg402,
            format!(
                "container {container} asks {slots} slots of {resource} under MPS; the device plugin refuses more \
                 than one in a container, so the pod would fail on its node: ask for 1"
            ),
        ));
    }
    if let Some(finding) = slices::several(claim, pool, policy) {
        return Some(finding);
    }
    if ranks > slots {
        return counted(at(
            Code::Vg105,
            format!(
                "container {container} needs {ranks} devices (tensor, pipeline and data parallel ranks) and asks \
                 {slots} of {resource}: the engine stops at start; ask for {ranks}, or lower the parallel size"
            ),
        ));
    }
    if pool.sharing.is_shared() && ranks > 1 {
        return counted(at(
            Code::Vg205,
            format!(
                "container {container} spreads {ranks} ranks over {slots} shared slots of {resource}: two slots may \
                 be the same GPU; use whole GPUs, or one rank"
            ),
        ));
    }
    if slots > ranks
        && ranks > 0
        && !claim
            .parts
            .iter()
            .any(|part| matches!(part.amount, Amount::Unknown { .. }))
    {
        return counted(at(
            Code::Vg213,
            format!(
                "container {container} asks {slots} of {resource} and its engine uses {ranks}: ask for {ranks}"
            ),
        ));
    }
    None
}

/// What a single slot may not exceed.
fn slot_findings(hold: &Hold, claim: &Claim, pool: &Pool, rules: Rules<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Some(part) = claim.parts.first() else {
        return findings;
    };
    let slots = u64::from(pool.sharing.slots_per_device());
    let fair = rules.device.budget.divided_by(slots);
    if pool.sharing.is_shared() && rules.device.per_slot == PerSlot::FairShare && hold.share > fair {
        let finding = Finding::new(
            Code::Vg202,
            part.path.clone(),
            format!(
                "container {} takes {} of a device of {}; the policy gives each of its {slots} slots at most {} \
                 (budget {} / {slots})",
                short(&claim.container), hold.share, pool.resource, fair, rules.device.budget
            ),
        )
        .number("share", Number::Share(hold.share))
        .number("fairShare", Number::Share(fair));
        findings.push(under(rules.pod, finding));
    }
    findings
}

/// A finding with its severity under the policy; below `enforce` nothing is an error. What is information by itself stays
/// so: no code has that severity by default.
pub(crate) fn under(policy: &Policy, finding: Finding) -> Finding {
    if finding.severity == Severity::Info {
        return finding;
    }
    let severity = policy.severity(finding.code);
    finding.with_severity(severity)
}
