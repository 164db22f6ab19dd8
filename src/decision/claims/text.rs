//! The words of findings about claims.

use super::judge::Context;
use super::meet::{Company, Sums};
use super::sharers::{Wanted, Which};
use crate::demand::Use;
use crate::demand::weigh::by_claim::{OnEach, Short};
use crate::device::DeviceKind;
use crate::dra::devices::{Kind, UNKNOWN};
use crate::dra::{Key, Limit};
use crate::finding::{Code, Finding, Number, Severity, short};
use crate::ledger::claims::Claimant;
use crate::units::{Mib, Share};

/// A claim in words.
pub(super) fn claim(which: &Which) -> String {
    match which {
        Which::Own(entry) => format!("claim {}", short(entry)),
        Which::Named(name) => format!("ResourceClaim {}", short(name)),
    }
}

/// An amount that is in no sum.
pub(super) fn untold(used: &Use, why: &str) -> String {
    format!(
        "what container {} takes of it is not known and not in the sum: {why}",
        short(&used.claim.container)
    )
}

/// What those who wait for a claim come to.
pub(super) fn sum_of_waiting(
    (which, _): &Wanted,
    company: &Company<'_, '_, '_, '_>,
    sums: &Sums,
    untold: &[String],
) -> String {
    let users = company.count();
    let mut sentence = format!(
        "{users} containers wait for {} and come to {} of its device, whose budget is {}",
        claim(which),
        sums.sum,
        sums.budget
    );
    if sums.sum > sums.budget {
        sentence.push_str(": together they do not fit on one GPU");
    }
    for other in untold {
        sentence.push_str("; ");
        sentence.push_str(other);
    }
    sentence
}

/// Whose a holder is, as it may be told.
fn whose(context: &Context<'_>, other: &Claimant<'_>) -> String {
    let policies = context.ledger.policies();
    let policy = policies.for_pod(context.namespace_labels, context.pod_labels, None);
    if policy.messages.other_namespaces {
        format!("namespace {}", short(&other.holder.namespace))
    } else {
        "another tenant".to_owned()
    }
}

/// A device that somebody of another tenant has (VG211).
pub(super) fn other_tenant(
    context: &Context<'_>,
    used: &Use,
    (_, name): &Key,
    node: &str,
    other: &Claimant<'_>,
) -> Finding {
    Finding::new(
        Code::Vg211,
        used.claim.slots_path.clone(),
        format!(
            "{} of container {} is allocated {} of {}, which is used by {} as well, and the policy keeps tenants apart on a \
             shared device",
            used.claim.resource,
            short(&used.claim.container),
            short(name),
            short(node),
            whose(context, other)
        ),
    )
}

/// No device that could be allocated is free of other tenants (VG211).
pub(super) fn no_other_tenant_free(
    context: &Context<'_>,
    used: &Use,
    (_, name): &Key,
    node: &str,
    other: &Claimant<'_>,
) -> Finding {
    Finding::new(
        Code::Vg211,
        used.claim.slots_path.clone(),
        format!(
            "no device that {} of container {} may be given is free of other tenants: {} of {} is used by {}, and the policy \
             keeps tenants apart on a shared device",
            used.claim.resource,
            short(&used.claim.container),
            short(name),
            short(node),
            whose(context, other)
        ),
    )
}

/// Users of one claim that together take more than it consumes (VG401).
pub(super) fn above_together(
    company: &Company<'_, '_, '_, '_>,
    needed: Mib,
    most: Mib,
    kind: &Kind,
) -> Finding {
    let first = company.members.first();
    let path = first.and_then(|member| member.used.claim.parts.first());
    let path = path.map(|part| part.path.clone()).unwrap_or_default();
    let which = first.map_or_else(String::new, |member| claim(&member.wanted.0));
    let of = kind
        .total
        .map_or_else(String::new, |total| format!(" of {total}"));
    Finding::new(
        Code::Vg401,
        path,
        format!(
            "{} containers that use {which} take {needed} of its device together, with their overheads; the claim consumes \
             {most}{of}",
            company.count()
        ),
    )
    .detail(
        "nothing enforces the capacity of a claim: what its users take beyond it was promised to the other claims of the \
         device",
    )
    .number("requestMiB", Number::Memory(needed))
    .number("clientLimitMiB", Number::Memory(most))
}

/// A model that wants more than MPS lets its engine have (VG401).
pub(super) fn too_little(used: &Use, short_of: &Short, most: Mib, kind: &Kind) -> Finding {
    let of = kind
        .total
        .map_or_else(String::new, |total| format!(" of {total}"));
    Finding::new(
        Code::Vg401,
        short_of.part.path.clone(),
        format!(
            "container {} loads a model that wants {} at least; {} limits each MPS client to {most}{of}",
            short(&used.claim.container),
            short_of.wants,
            used.claim.resource,
        ),
    )
    .detail(format!(
        "the limit is that of the claim's or class's mpsConfig, and an allocation beyond it fails: raise it to {} or more, or \
         load a smaller model",
        short_of.wants
    ))
    .number("needMiB", Number::Memory(short_of.wants))
    .number("clientLimitMiB", Number::Memory(most))
}

/// A claim or template that does not exist, under a container that runs an engine.
pub(super) fn missing(used: &Use, why: &str) -> Finding {
    Finding::new(
        Code::Vg704,
        used.claim.slots_path.clone(),
        format!(
            "container {}: {why}, so the devices that it gets are not judged yet; create it before what uses it",
            short(&used.claim.container)
        ),
    )
}

/// No device could be allocated now. The scheduler waits for one, so this refuses nothing.
pub(super) fn no_device(used: &Use, gone: bool) -> Finding {
    let why = if gone {
        "is allocated devices that no ResourceSlice has any more"
    } else {
        "matches no device of any ResourceSlice now: it would stay Pending"
    };
    let finding = Finding::new(
        Code::Vg209,
        used.claim.slots_path.clone(),
        format!(
            "container {}: {} {why}",
            short(&used.claim.container),
            used.claim.resource
        ),
    );
    finding.with_severity(Severity::Info)
}

/// A device in words.
pub(super) fn device(kind: &Kind) -> String {
    let product = match &*kind.product {
        UNKNOWN => "GPU of unknown product".to_owned(),
        product => short(product),
    };
    match &kind.device {
        DeviceKind::Gpu => product,
        DeviceKind::Mig(profile) => format!("MIG {profile} of {product}"),
    }
}

/// A refusal that rests on every device of the class.
pub(super) fn guessed(finding: Finding) -> Finding {
    finding
        .detail("a selector of the claim could not be evaluated, so every device of its class was looked at")
}

/// One kind of several refuses: the scheduler may still choose it.
pub(super) fn may_be_given(
    used: &Use,
    kind: &Kind,
    reasons: &[Finding],
    was_guessed: bool,
) -> Option<Finding> {
    let worst = reasons
        .iter()
        .find(|finding| finding.severity == Severity::Error)?;
    let mut finding = Finding::new(
        worst.code,
        worst.path.clone(),
        format!(
            "{} may be given {}, where container {} is refused: narrow its selectors",
            used.claim.resource,
            device(kind),
            short(&used.claim.container)
        ),
    );
    for reason in reasons.iter().filter(|reason| reason.severity == Severity::Error) {
        finding = finding.detail(reason.message.clone());
    }
    if was_guessed {
        finding = guessed(finding);
    }
    Some(finding.with_severity(Severity::Warning))
}

/// An engine that takes more than its claim has of the device (VG401).
pub(super) fn above(used: &Use, each: OnEach, limit: Limit, kind: &Kind) -> Option<Finding> {
    let needed = each.request.plus(each.overhead);
    let (most, what, why) = match limit {
        Limit::Capacity(most) => (
            most,
            "consumes",
            "nothing enforces the capacity of a claim: what an engine takes beyond it was promised to the other \
             claims of the device",
        ),
        Limit::Mps(most) => (
            most,
            "limits each MPS client to",
            "the limit is that of the claim's or class's mpsConfig; an allocation beyond it fails",
        ),
    };
    if needed <= most {
        return None;
    }
    let part = used.claim.parts.first()?;
    let of = kind
        .total
        .map_or_else(String::new, |total| format!(" of {total}"));
    let mut finding = Finding::new(
        Code::Vg401,
        part.path.clone(),
        format!(
            "container {} asks {} and takes {needed} with its overhead; {} {what} {most}{of}",
            short(&used.claim.container),
            each.request,
            used.claim.resource,
        ),
    )
    .detail(why)
    .number("requestMiB", Number::Memory(each.request))
    .number("clientLimitMiB", Number::Memory(most));
    if let Some(total) = kind.total {
        let largest = Share::ratio_down(most.less(each.overhead), total).to_thousandths_down();
        finding = finding.detail(if largest > Share::ZERO {
            format!(
                "a fraction of {largest} of {total} leaves room for the overhead of {}",
                each.overhead
            )
        } else {
            format!(
                "its overhead of {} alone is more: ask for more memory in the claim",
                each.overhead
            )
        });
    }
    Some(finding)
}
