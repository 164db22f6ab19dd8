//! Clients of MPS: what the device plugin's daemon lets each of them allocate, what a container's own variable takes off
//! that, and what stands between a container and its daemon.
//!
//! The daemon sets for each device `floor(total bytes / replicas / 1024 / 1024)` MiB as the limit of a client process and
//! `floor(100 / replicas)` percent of its threads (`cmd/mps-control-daemon/mps` of NVIDIA/k8s-device-plugin). A client's
//! own variable can only lower both.

use super::{Rules, fair, footprint, overhead_of, sized, under};
use crate::demand::{Amount, Claim, Part};
use crate::device::{Pool, Sharing};
use crate::engine::Engine;
use crate::engine::limits::PINNED_LIMIT;
use crate::finding::{Code, Finding, Number, short};
use crate::units::{Mib, Share};

/// What the daemon lets one process allocate on a device of a pool; `None` where it is not under MPS, or its size is not
/// known. Totals are whole MiB, so the daemon's division of bytes comes to the same.
pub(crate) fn daemon_limit(pool: &Pool) -> Option<Mib> {
    match (pool.sharing, pool.total) {
        (Sharing::Mps(slots), Some(total)) => Some(Mib::new(total.get() / u64::from(slots.get()))),
        _ => None,
    }
}

/// The percentage of threads that the daemon lets one process use, as a part of all.
pub(crate) fn daemon_percentage(pool: &Pool) -> Option<Share> {
    match pool.sharing {
        Sharing::Mps(slots) => Some(Share::from_ppm(u64::from(100 / slots.get()) * 10_000)),
        Sharing::Exclusive | Sharing::TimeSliced(_) => None,
    }
}

/// What a container's own variable lets each of its processes allocate, where it is under MPS and the variable can be
/// read.
fn own_limit(claim: &Claim, pool: &Pool) -> Option<Mib> {
    matches!(pool.sharing, Sharing::Mps(_))
        .then(|| claim.client.limit()?.value.as_ref()?.first())
        .flatten()
}

/// One slot's part of the budget, divided among a container's processes and rounded down: what each may take where
/// nothing says what it needs.
pub(crate) fn uncapped_limit(pool: &Pool, budget: Share, processes: u32) -> Option<Mib> {
    let total = pool.total?;
    let clients = u128::from(pool.sharing.slots_per_device()) * u128::from(processes.max(1)) * 1_000_000;
    let limit = (u128::from(total.get()) * u128::from(budget.ppm())).checked_div(clients)?;
    u64::try_from(limit).ok().map(Mib::new)
}

/// What is counted of a part whose amount nothing tells: one slot's part of the budget or the container's own limit for
/// each of its processes.
pub(super) fn counted(part: &Part, claim: &Claim, pool: &Pool, slot: Share) -> (Mib, Share) {
    let Some(total) = pool.total else {
        return (Mib::ZERO, slot.times(u64::from(part.processes)));
    };
    let mut each = (slot.of_down(total), slot);
    if let Some(limit) = own_limit(claim, pool) {
        each = (each.0.min(limit), each.1.min(Share::ratio_up(limit, total)));
    }
    let processes = u64::from(part.processes);
    (each.0.times(processes), each.1.times(processes))
}

/// VG401: a process needs more than it may allocate. The engine sees the whole total and only so much free.
pub(super) fn above_limit(part: &Part, claim: &Claim, pool: &Pool, rules: Rules<'_>) -> Option<Finding> {
    let (limit, total) = (daemon_limit(pool)?, pool.total?);
    let needed = match &part.amount {
        Amount::OfTotal { .. } | Amount::Absolute(_) | Amount::Estimated { .. } => {
            footprint(part, pool, rules)?
        }
        Amount::Unknown { .. } | Amount::Uncapped { .. } => return None,
    };
    let own = own_limit(claim, pool).filter(|own| *own < limit);
    if needed <= own.unwrap_or(limit) {
        return None;
    }
    let overhead = match &part.amount {
        Amount::OfTotal { .. } => overhead_of(part, rules),
        _ => Mib::ZERO,
    };
    let request = needed.less(overhead);
    let slots = pool.sharing.slots_per_device();
    let what = format!(
        "container {} asks {request} and takes {needed} with its overhead; ",
        short(&claim.container)
    );
    let by_itself = own.filter(|_| needed <= limit);
    let (path, text) = match by_itself {
        Some(own) => (
            super::mps_variable_path(claim).unwrap_or_else(|| part.path.clone()),
            format!("{what}its own {PINNED_LIMIT} lets each process allocate {own} of {total}"),
        ),
        None => (
            part.path.clone(),
            format!(
                "{what}MPS limits each of the {slots} clients of {} to {limit} (total {total} / {slots})",
                pool.resource
            ),
        ),
    };
    let allowed = own.unwrap_or(limit);
    let mut finding = Finding::new(Code::Vg401, path, text)
        .number("requestMiB", Number::Memory(request))
        .number("clientLimitMiB", Number::Memory(allowed));
    if let Amount::OfTotal { fraction, .. } = &part.amount {
        let starts = Share::ratio_down(allowed.less(overhead), total).to_thousandths_down();
        let fair = fair::fraction(pool, rules.device, overhead).min(starts);
        let why = match part.engine {
            // `request_memory` of vLLM compares ceil(total x fraction) with what is free.
            Engine::Vllm => {
                "the limit caps what is free and leaves the total as it is, and vLLM stops where less than its fraction of \
                 the total is free: "
            }
            _ => "",
        };
        let all = if fair < starts {
            format!("; {} if all {slots} slots are to be used", fair.decimals(3))
        } else {
            String::new()
        };
        finding = finding
            .detail(format!(
                "{why}the largest fraction that starts is {}{all}",
                starts.decimals(3)
            ))
            .number("largestFraction", Number::Share(starts))
            .number("fairShare", Number::Share(fair));
        let (_, _, share) = sized(fraction.share(), pool, overhead, rules.device);
        let budget = rules.device.budget;
        if by_itself.is_none() {
            finding = finding.detail(format!(
                "MPS promises each client total / {slots} and no more: unequal parts need fewer replicas, MIG slices or \
                 time-slicing"
            ));
        }
        if by_itself.is_none() && share <= budget {
            finding = finding.detail(format!(
                "time-sliced instead of under MPS, such a device gives it {share} and keeps {} of its budget {budget} for \
                 others",
                budget.less(share)
            ));
        }
    }
    if let (None, Some(own)) = (by_itself, own) {
        finding = finding.detail(format!("its own {PINNED_LIMIT} is lower still: {own}"));
    }
    Some(under(rules.pod, finding))
}

/// VG403 and VG405.
pub(super) fn findings(claim: &Claim, pool: &Pool, rules: Rules<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !matches!(pool.sharing, Sharing::Mps(_)) || claim.parts.is_empty() {
        return findings;
    }
    let container = short(&claim.container);
    if let Some(mount) = claim.client.shm {
        let finding = Finding::new(
            Code::Vg403,
            claim.path.field("volumeMounts").index(mount),
            format!(
                "container {container} mounts a volume of its own at /dev/shm, where MPS clients of {} share memory with \
                 their daemon; leave the mount out: the device plugin mounts one",
                pool.resource
            ),
        );
        findings.push(under(rules.pod, finding));
    }
    let processes = claim.processes();
    if processes > 1
        && let Some(limit) = daemon_limit(pool)
    {
        let each = own_limit(claim, pool).map_or(limit, |own| own.min(limit));
        let path = claim.parts.first().map_or(&claim.path, |part| &part.path);
        let finding = Finding::new(
            Code::Vg405,
            path.clone(),
            format!(
                "container {container} has {processes} client processes on its device of {}; MPS limits each by itself to \
                 {each}, so together they may take {}",
                pool.resource,
                each.times(u64::from(processes))
            ),
        )
        .number("processes", Number::Count(u64::from(processes)))
        .number("clientLimitMiB", Number::Memory(each));
        findings.push(under(rules.pod, finding));
    }
    findings
}
