//! What a container asks of MIG slices: several at once (VG303, VG305), or a profile that the policy does not allow
//! (VG306).

use super::{Rules, under};
use crate::demand::{Claim, Demand};
use crate::device::catalogue::Catalogue;
use crate::device::{DeviceKind, Pool};
use crate::finding::{Code, Finding, Number, short};
use crate::mig::ProfileName;
use crate::policy::{AllowedProfiles, Policy};

/// Profiles that a sentence lists at most.
const MOST_LISTED: usize = 6;

/// Several slices of one resource.
pub(super) fn several(claim: &Claim, pool: &Pool, policy: &Policy) -> Option<Finding> {
    if !matches!(pool.device, DeviceKind::Mig(_)) || claim.slots <= 1 {
        return None;
    }
    let container = short(&claim.container);
    let (resource, slots, ranks) = (&pool.resource, claim.slots, claim.ranks());
    let (code, text) = if ranks > 1 {
        (
            Code::Vg303,
            format!(
                "container {container} spreads {ranks} ranks over {slots} MIG slices of {resource}: CUDA shows a process \
                 one slice only; use one larger slice, or whole GPUs"
            ),
        )
    } else {
        (
            Code::Vg305,
            format!(
                "container {container} asks {slots} MIG slices of {resource} and can use one: CUDA shows a process one \
                 slice only; ask for 1, or for a larger profile"
            ),
        )
    };
    Some(counted(claim, policy, code, text, slots))
}

fn counted(claim: &Claim, policy: &Policy, code: Code, text: String, slots: u32) -> Finding {
    let finding = Finding::new(code, claim.slots_path.clone(), text)
        .number("ranks", Number::Count(u64::from(claim.ranks())))
        .number("slots", Number::Count(u64::from(slots)));
    under(policy, finding)
}

/// Slices of several resources in one container: it has as many devices as if it asked for several of one.
pub(super) fn of_several_resources(demand: &Demand, pools: &[Pool], rules: Rules<'_>) -> Vec<Finding> {
    let is_mig = |claim: &Claim| {
        let mut offering = pools.iter().filter(|pool| pool.resource == claim.resource);
        offering.any(|pool| matches!(pool.device, DeviceKind::Mig(_)))
    };
    let mut findings = Vec::new();
    for (index, first) in demand.claims.iter().enumerate() {
        let same = |other: &&Claim| other.pointer == first.pointer && other.resource != first.resource;
        if demand.claims.iter().take(index).any(|other| same(&other)) || !is_mig(first) {
            continue;
        }
        let others: Vec<&Claim> = demand
            .claims
            .iter()
            .skip(index)
            .filter(same)
            .filter(|other| is_mig(other))
            .collect();
        let Some(second) = others.first() else { continue };
        let more = if others.len() > 1 { " and more" } else { "" };
        let container = short(&first.container);
        let both = format!("{} and {}{more}", first.resource, second.resource);
        let ranks = first.ranks();
        let slots = others
            .iter()
            .map(|other| other.slots)
            .fold(first.slots, u32::saturating_add);
        let (code, text) = if ranks > 1 {
            (
                Code::Vg303,
                format!(
                    "container {container} spreads {ranks} ranks over MIG slices of {both}: CUDA shows a process one \
                     slice only; use one larger slice, or whole GPUs"
                ),
            )
        } else {
            (
                Code::Vg305,
                format!(
                    "container {container} asks MIG slices of {both} and can use one: CUDA shows a process one slice \
                     only; ask for one of them"
                ),
            )
        };
        findings.push(counted(second, rules.pod, code, text, slots));
    }
    findings
}

/// A profile that is not among those of the policy.
pub(super) fn not_allowed(claim: &Claim, pool: &Pool, policy: &Policy) -> Option<Finding> {
    let (DeviceKind::Mig(profile), AllowedProfiles::Only(allowed)) = (&pool.device, &policy.mig_profiles)
    else {
        return None;
    };
    if allowed
        .iter()
        .any(|allowed| is_same(&pool.product, *allowed, profile))
    {
        return None;
    }
    let listed: Vec<String> = allowed
        .iter()
        .take(MOST_LISTED)
        .map(ToString::to_string)
        .collect();
    let more = if allowed.len() > MOST_LISTED {
        " and others"
    } else {
        ""
    };
    // Under the MIG strategy `single` the resource does not tell the profile.
    let slice = if claim.resource.contains("/mig-") {
        claim.resource.to_string()
    } else {
        format!("{} (a MIG slice {profile})", claim.resource)
    };
    let finding = Finding::new(
        Code::Vg306,
        claim.slots_path.clone(),
        format!(
            "container {} asks {slice}; policy {} allows the MIG profiles {}{more}",
            short(&claim.container),
            short(&policy.name),
            listed.join(", ")
        ),
    );
    Some(under(policy, finding))
}

/// Whether a profile of a product is the one that a policy names, by any of its names.
fn is_same(product: &str, allowed: ProfileName, profile: &str) -> bool {
    if ProfileName::parse(profile) == Some(allowed) {
        return true;
    }
    // Some drivers give a profile another name: `3g.39gb` is `3g.40gb`.
    let product = Catalogue::embedded().product(product);
    let name = |text: &str| product?.profile(text).map(|profile| profile.name.as_str());
    let (one, other) = (name(&allowed.to_string()), name(profile));
    one.is_some() && one == other
}
