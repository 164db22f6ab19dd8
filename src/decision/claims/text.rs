//! The words of findings about claims.

use std::sync::Arc;

use super::judge::Context;
use super::sharers::{Other, Wanted, Which};
use crate::demand::Use;
use crate::demand::weigh::by_claim::OnEach;
use crate::device::DeviceKind;
use crate::dra::Limit;
use crate::dra::devices::{Kind, UNKNOWN};
use crate::finding::{Code, Finding, HolderRef, Number, Severity, short};
use crate::units::{Mib, Share};

/// A claim or template that is not known, under a container that runs an engine.
pub(super) fn unknown(used: &Use, why: &str) -> Finding {
    Finding::new(
        Code::Vg704,
        used.claim.slots_path.clone(),
        format!(
            "container {}: {why}, so the devices that it gets are not judged; create it before what uses it",
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
pub(super) struct Full<'f, 'l> {
    pub(super) wanted: &'f Wanted,
    pub(super) own: OnEach,
    pub(super) pods: u32,
    pub(super) held: &'f [OnEach],
    pub(super) others: &'f [Other<'l>],
    pub(super) budget: Share,
    pub(super) kind: &'f Kind,
    pub(super) allocated: &'f [(Arc<str>, Arc<str>)],
}

impl Full<'_, '_> {
    pub(super) fn finding(&self, context: &Context<'_>, uses: &[&Use]) -> Finding {
        let (which, request) = self.wanted;
        let claim = match which {
            Which::Own(entry) => format!("claim {}", short(entry)),
            Which::Named(name) => format!("ResourceClaim {}", short(name)),
        };
        let path = uses
            .iter()
            .find_map(|used| used.claim.parts.first())
            .map(|part| part.path.clone())
            .unwrap_or_default();
        let who = match uses {
            [one] => format!("container {} asks", short(&one.claim.container)),
            several => format!("{} containers ask", several.len()),
        };
        let held = self.held.iter().fold(Share::ZERO, |sum, one| sum.plus(one.share));
        let promised: Mib = self.held.iter().map(|one| one.request).sum();
        let left = self.budget.less(held);
        let with_mib = |share: Share| match self.kind.total {
            Some(total) => format!("{share} ({})", share.of_down(total)),
            None => share.to_string(),
        };
        let each = if self.pods > 1 {
            format!(" in each of {} pods", self.pods)
        } else {
            String::new()
        };
        let asked = match self.kind.total {
            Some(_) => format!("{} ({})", self.own.request, self.own.share),
            None => format!("{} of it", self.own.share),
        };
        let situation = match (self.others.len(), self.pods) {
            (0, 1) => format!(
                "together above the budget {} of its device",
                with_mib(self.budget)
            ),
            (0, _) => format!(
                "all get the same device, whose budget is {}",
                with_mib(self.budget)
            ),
            (1, _) => format!(
                "1 holder has {held} of the budget {}; {} is left",
                self.budget,
                with_mib(left)
            ),
            (several, _) => format!(
                "{several} holders have {held} of the budget {}; {} is left",
                self.budget,
                with_mib(left)
            ),
        };
        let mut finding = Finding::new(
            Code::Vg201,
            path,
            format!("{who} {asked}{each} by {claim}; {situation}"),
        )
        .detail(format!(
            "everybody who uses request {request} of {claim} gets the same {}; its memory is not divided between them",
            device(self.kind)
        ))
        .number("share", Number::Share(self.own.share))
        .number("promisedFraction", Number::Share(held))
        .number("budgetFraction", Number::Share(self.budget))
        .number("leftFraction", Number::Share(left));
        if let Some(total) = self.kind.total {
            finding = finding
                .number("requestMiB", Number::Memory(self.own.request))
                .number("overheadMiB", Number::Memory(self.own.overhead))
                .number("promisedMiB", Number::Memory(promised))
                .number("totalMiB", Number::Memory(total));
        }
        finding = finding.detail(match self.allocated {
            [] => "evidence: whichever device is allocated, it is one and the same, so the sum is exact"
                .to_owned(),
            [(pool, name)] => format!("evidence observed: the claim is allocated {name} of {pool}"),
            [(pool, _), ..] => format!(
                "evidence observed: the claim is allocated {} devices of {pool}",
                self.allocated.len()
            ),
        });
        let messages = &context
            .ledger
            .policies()
            .for_pod(context.namespace_labels, context.pod_labels, None)
            .messages;
        finding.holders = self
            .others
            .iter()
            .zip(self.held)
            .map(|(other, held)| {
                let named = messages.other_namespaces || *other.holder.namespace == *context.namespace;
                HolderRef {
                    namespace: named.then(|| other.holder.namespace.to_string()),
                    name: named.then(|| other.holder.name.to_string()),
                    container: named.then(|| other.used.claim.container.clone()),
                    request: held.request,
                    share: held.share,
                }
            })
            .collect();
        finding
    }
}
