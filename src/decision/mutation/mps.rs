//! Limits of MPS clients, by the policy's `spec.mps`.
//!
//! A pod gets one value of each variable before its node is known, so the value has to do on every kind of node that
//! takes it. Of limits that follow from a known need the largest is taken: a smaller one would stop the engine on the
//! node where it needs most, and where it is more than the need, the daemon's own limit still holds. Where nothing tells the
//! need, any limit is enough and the smallest is taken, so that no node's budget is exceeded. Of percentages the largest is
//! taken: the daemon's own is the ceiling everywhere. Nodes without MPS do not read the variables.

use super::environment::{Variable, Way, is_replaceable};
use super::{Made, container_at};
use crate::decision::survey::{Candidate, Survey};
use crate::demand::client::{PinnedLimit, Setting};
use crate::demand::weigh::{Rules, footprint, mps};
use crate::demand::{Claim, Client, Demand};
use crate::device::{Pool, Sharing};
use crate::engine::Role;
use crate::engine::limits::{PINNED_LIMIT, THREAD_PERCENTAGE};
use crate::policy::{MpsMemoryLimit, ThreadPercentage};
use crate::units::Mib;
use crate::workload::pod::{Container, Pod};

/// The demand without the values that are set anew: our own, and the user's where the policy replaces them. Whether a
/// kind of node takes the pod must not hang on them.
pub(super) fn without_replaceable(demand: &Demand, replaces: bool) -> Demand {
    let mut bare = demand.clone();
    for claim in &mut bare.claims {
        let client = &claim.client;
        let limit = client
            .limit()
            .is_some_and(|limit| is_replaceable(limit, replaces));
        let percentage = client.percentage();
        let percentage = percentage.is_some_and(|percentage| is_replaceable(percentage, replaces));
        claim.client.clear(limit, percentage);
    }
    bare
}

/// Sets the variables of every container that uses a device, where a kind of node that takes the pod is under MPS.
/// `submitted` is the demand with the values that stand in the pod.
pub(super) fn set(made: &mut Made, submitted: &Demand, survey: &Survey<'_>, pod: &Pod, replaces: bool) {
    let mut done: Vec<(String, Client)> = Vec::new();
    let claims = made.demand.claims.clone();
    for (claim, as_submitted) in claims.iter().zip(&submitted.claims) {
        if done.iter().any(|(pointer, _)| *pointer == claim.pointer) {
            continue;
        }
        let mut client = as_submitted.client.clone();
        if let Some(limit) = claim.client.container_limit() {
            client.set_container_limit(limit.clone());
        }
        let uses = claim.role != Role::Ephemeral && !claim.parts.is_empty();
        let wanted = uses.then(|| wanted(&claims, claim, survey)).flatten();
        let container = container_at(pod, &claim.pointer);
        if let (Some(wanted), Some(container)) = (wanted, container) {
            set_in(made, &mut client, &wanted, claim, container, replaces);
        }
        done.push((claim.pointer.clone(), client));
    }
    for claim in &mut made.demand.claims {
        if let Some((_, client)) = done.iter().find(|(pointer, _)| *pointer == claim.pointer) {
            claim.client = client.clone();
        }
    }
}

/// Sets what one container is to have, and gives `client` what of it bounds its processes. A limit that follows from a
/// known need bounds nothing that is counted; one that caps a process does.
fn set_in(
    made: &mut Made,
    client: &mut Client,
    wanted: &Wanted,
    claim: &Claim,
    container: &Container,
    replaces: bool,
) {
    let mut variables = Vec::new();
    let mut set = |name: &'static str, value: &str, way: Way| {
        if let Way::Keep = way {
            return false;
        }
        made.record.note(&claim.container, name, value);
        if let Way::Set(at) = way {
            let value = value.to_owned();
            variables.push((claim.pointer.clone(), Variable { name, value, at }));
        }
        true
    };
    if let Some(limit) = &wanted.limit {
        let value = limit.to_string();
        let way = Way::of(client.limit(), &value, replaces);
        if set(PINNED_LIMIT, &value, way) {
            client.clear(true, false);
            if wanted.is_cap {
                client.set_limit(Setting {
                    text: Ok(value),
                    value: Some(limit.clone()),
                    place: way.place(container.env.len()),
                    ours: true,
                });
            }
        }
    }
    if let Some(percentage) = wanted.percentage {
        let value = percentage.to_string();
        let way = Way::of(client.percentage(), &value, replaces);
        if set(THREAD_PERCENTAGE, &value, way) {
            client.clear(false, true);
        }
    }
    made.variables.extend(variables);
}

/// What a container is to have.
struct Wanted {
    limit: Option<PinnedLimit>,
    /// Whether the limit is what is counted, because nothing tells the need.
    is_cap: bool,
    percentage: Option<u32>,
}

fn wanted(claims: &[Claim], claim: &Claim, survey: &Survey<'_>) -> Option<Wanted> {
    let of_container: Vec<&Claim> = claims
        .iter()
        .filter(|other| other.pointer == claim.pointer)
        .collect();
    let mut wanted = Wanted {
        limit: None,
        is_cap: false,
        percentage: None,
    };
    let (mut need, mut cap): (Option<Mib>, Option<Mib>) = (None, None);
    let (mut devices, mut found) = (0, false);
    for kind in &survey.accepting {
        for (claim, pool, slots) in under_mps(kind, &of_container) {
            found = true;
            let rules = &kind.policy.mps;
            let percentage = match rules.thread_percentage {
                ThreadPercentage::None => None,
                ThreadPercentage::FairShare => Some((100 / slots).max(1)),
                ThreadPercentage::Percent(percent) => Some(u32::from(percent)),
            };
            wanted.percentage = wanted.percentage.max(percentage);
            let Some(limit) = limit(claim, pool, kind) else {
                continue;
            };
            devices = devices.max(claim.slots.min(pool.slots));
            match limit {
                Limit::Need(limit) => need = need.max(Some(limit)),
                Limit::Cap(limit) => cap = cap.into_iter().chain([limit]).min(),
            }
        }
    }
    if !found {
        return None;
    }
    wanted.is_cap = cap.is_some();
    wanted.limit = need.max(cap).map(|limit| PinnedLimit::of(limit, devices));
    Some(wanted)
}

/// The claims of a container on devices under MPS of a kind, with the slots of each device.
fn under_mps<'k>(kind: &'k Candidate<'_>, claims: &[&'k Claim]) -> Vec<(&'k Claim, &'k Pool, u32)> {
    let found = claims.iter().filter_map(|claim| {
        let pool = kind.class.pools.get(kind.class.pool_index(&claim.resource)?)?;
        match pool.sharing {
            Sharing::Mps(slots) => Some((*claim, pool, slots.get())),
            Sharing::Exclusive | Sharing::TimeSliced(_) => None,
        }
    });
    found.collect()
}

/// A limit for each process of a container.
enum Limit {
    /// What it needs.
    Need(Mib),
    /// What it may have, where nothing tells what it needs.
    Cap(Mib),
}

/// The limit on the devices of one pool, at most the daemon's; `None` where the policy sets none or the size of the device
/// is not known.
fn limit(claim: &Claim, pool: &Pool, kind: &Candidate<'_>) -> Option<Limit> {
    let daemon = mps::daemon_limit(pool)?;
    let device = &kind.class.device_policy.device;
    let rules = Rules {
        pod: &kind.policy,
        device,
        namespace: "",
    };
    match kind.policy.mps.memory_limit {
        MpsMemoryLimit::None => return None,
        MpsMemoryLimit::Fixed(limit) => return Some(Limit::Cap(limit.min(daemon))),
        MpsMemoryLimit::Footprint => {}
    }
    let mut most = Mib::ZERO;
    let mut is_open = false;
    for part in &claim.parts {
        match footprint(part, pool, rules) {
            Some(needed) => most = most.max(needed),
            None => is_open = true,
        }
    }
    if !is_open {
        return Some(Limit::Need(most.min(daemon)));
    }
    let open = mps::uncapped_limit(pool, device.budget, claim.processes())?;
    Some(Limit::Cap(open.max(most).min(daemon)))
}
