//! The refusal of those who cannot have a device together.

use std::collections::BTreeSet;

use super::judge::Context;
use super::meet::{Company, Sums};
use super::sharers::Which;
use super::text::{claim, device};
use crate::dra::Key;
use crate::dra::devices::Kind;
use crate::finding::{Code, Finding, HolderRef, Number, short};
use crate::units::{Mib, Share};

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
