//! The words of findings about claims.

use std::collections::BTreeSet;

use super::judge::Context;
use super::meet::{Company, Sums};
use super::sharers::{Wanted, Which};
use crate::demand::Use;
use crate::demand::weigh::by_claim::{OnEach, Short};
use crate::device::DeviceKind;
use crate::dra::devices::{Kind, UNKNOWN};
use crate::dra::{Key, Limit};
use crate::finding::{Code, Finding, HolderRef, Number, Severity, short};
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
fn device(kind: &Kind) -> String {
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

/// A device that those who share it cannot have together (VG201).
pub(super) struct Full<'f, 'r, 'd, 'l> {
    pub(super) company: &'f Company<'f, 'r, 'd, 'l>,
    pub(super) sums: &'f Sums,
    pub(super) kind: &'f Kind,
    /// The device, where it is allocated.
    pub(super) device: Option<&'f Key>,
    pub(super) evidence: String,
}

impl Full<'_, '_, '_, '_> {
    pub(super) fn finding(&self, context: &Context<'_>) -> Finding {
        let (company, sums) = (self.company, self.sums);
        let (own, budget) = (sums.own, sums.budget);
        let first = company.members.first();
        let claim = first.map_or_else(String::new, |member| claim(&member.wanted.0));
        let used = || company.members.iter().map(|member| member.used);
        let path = used()
            .find_map(|used| used.claim.parts.first())
            .map(|part| part.path.clone())
            .unwrap_or_default();
        let who = match company.members {
            [one] => format!("container {} asks", short(&one.used.claim.container)),
            several => format!("{} containers ask", several.len()),
        };
        let held = sums.rest.share;
        let left = budget.less(held);
        let with_mib = |share: Share| match self.kind.total {
            Some(total) => format!("{share} ({})", share.of_down(total)),
            None => share.to_string(),
        };
        let each = if company.pods > 1 {
            format!(" in each of {} pods", company.pods)
        } else {
            String::new()
        };
        let asked = match self.kind.total {
            Some(_) => format!("{} ({})", own.request, own.share),
            None => format!("{} of it", own.share),
        };
        let templates = if company.beside.is_empty() {
            ""
        } else {
            "the object's other templates"
        };
        let holders = match company.others.len() {
            0 => String::new(),
            1 => "1 holder".to_owned(),
            several => format!("{several} holders"),
        };
        let situation = match (holders.as_str(), templates) {
            ("", "") if company.pods == 1 => {
                format!("together above the budget {} of its device", with_mib(budget))
            }
            ("", "") => format!("all get the same device, whose budget is {}", with_mib(budget)),
            (holders, templates) => {
                let both = !holders.is_empty() && !templates.is_empty();
                let and = if both { " and " } else { "" };
                let verb = if both || company.others.len() != 1 {
                    "have"
                } else {
                    "has"
                };
                format!(
                    "{holders}{and}{templates} {verb} {held} of the budget {budget}; {} is left",
                    with_mib(left)
                )
            }
        };
        let mut finding = Finding::new(
            Code::Vg201,
            path,
            format!("{who} {asked}{each} by {claim}; {situation}"),
        )
        .detail(self.why(&claim, context.namespace))
        .number("share", Number::Share(own.share))
        .number("promisedFraction", Number::Share(held))
        .number("budgetFraction", Number::Share(budget))
        .number("leftFraction", Number::Share(left));
        if let Some(total) = self.kind.total {
            finding = finding
                .number("requestMiB", Number::Memory(own.request))
                .number("overheadMiB", Number::Memory(own.overhead))
                .number("promisedMiB", Number::Memory(sums.rest.request))
                .number("totalMiB", Number::Memory(total));
        }
        finding = finding.detail(self.evidence.clone());
        let messages = &context
            .ledger
            .policies()
            .for_pod(context.namespace_labels, context.pod_labels, None)
            .messages;
        let is_known = self.kind.total.is_some();
        finding.holders = company
            .others
            .iter()
            .zip(&sums.held)
            .map(|(other, held)| {
                let named = messages.other_namespaces || *other.holder.namespace == *context.namespace;
                HolderRef {
                    namespace: named.then(|| other.holder.namespace.to_string()),
                    name: named.then(|| other.holder.name.to_string()),
                    container: named.then(|| other.used.claim.container.clone()),
                    request: (is_known || held.request > Mib::ZERO).then_some(held.request),
                    share: held.share,
                }
            })
            .collect();
        finding
    }

    /// Why they share it.
    fn why(&self, claim: &str, namespace: &str) -> String {
        let (company, kind) = (self.company, device(self.kind));
        let request = company.members.first().map_or("", |member| &member.wanted.1);
        let named = company
            .members
            .iter()
            .filter_map(|member| match &member.wanted.0 {
                Which::Named(name) => Some((namespace, &**name)),
                Which::Own(_) => None,
            });
        let others = company
            .others
            .iter()
            .map(|other| (&*other.claim.0, &*other.claim.1));
        let beside = company.beside.iter().map(|one| (namespace, &*one.claim));
        let claims: BTreeSet<(&str, &str)> = named.chain(others).chain(beside).collect();
        match self.device {
            Some((_, name)) if claims.len() > 1 => format!(
                "{} claims are allocated {}, {kind}; its memory is not divided between their users",
                claims.len(),
                short(name)
            ),
            _ if request.is_empty() => format!(
                "everybody who uses {claim} gets the same {kind}; its memory is not divided between them"
            ),
            _ => format!(
                "everybody who uses request {request} of {claim} gets the same {kind}; its memory is not divided between \
                 them"
            ),
        }
    }
}
