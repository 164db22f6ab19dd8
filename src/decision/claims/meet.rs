//! Whether those who get the same device fit on it together, may share it, and stay within what their claim consumes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::full::Full;
use super::judge::{Context, Judged, MOST_KINDS, device_policy};
use super::sharers::{Beside, Member, Resolved, Spot, Wanted, Which, at_once, beside, others};
use super::text;
use crate::decision::PlacementRow;
use crate::demand::weigh::by_claim::{self, OnEach, sharing, together};
use crate::demand::weigh::{Rules, under};
use crate::device::Sharing;
use crate::dra::devices::{DRIVER, Kind};
use crate::dra::resolve::{Choice, Terms};
use crate::dra::{Key, Limit};
use crate::finding::Finding;
use crate::ledger::claims::{Claimant, at_the_same_time};
use crate::policy::{Evidence, PolicyRef};
use crate::units::{Mib, Share};

/// Who meets at a spot.
pub(super) struct Company<'m, 'r, 'd, 'l> {
    pub(super) members: &'m [Member<'r, 'd>],
    /// How many pods of the judged template meet there.
    pub(super) pods: u32,
    pub(super) others: Vec<Claimant<'l>>,
    /// Containers of other templates of the object.
    pub(super) beside: Vec<Beside<'l>>,
}

impl<'m, 'r, 'd, 'l> Company<'m, 'r, 'd, 'l> {
    pub(super) fn of(context: &Context<'l>, spot: &Spot, members: &'m [Member<'r, 'd>]) -> Self {
        let named = |(which, _): &Wanted| matches!(which, Which::Named(_));
        let is_named = members.iter().any(|member| named(member.wanted));
        Self {
            members,
            pods: if is_named { context.pods } else { 1 },
            others: others(context, spot),
            beside: beside(context, spot),
        }
    }

    /// How many users a device has at once.
    pub(super) fn count(&self) -> u32 {
        let own = at_once(self.members.iter().map(|member| member.used));
        let others = u32::try_from(self.others.len()).unwrap_or(u32::MAX);
        let beside = self
            .beside
            .iter()
            .fold(0_u32, |sum, one| sum.saturating_add(one.pods));
        own.saturating_mul(self.pods)
            .saturating_add(others)
            .saturating_add(beside)
    }
}

/// Everybody at each spot, found once, and how many users there are at once.
pub(super) struct Companies<'m, 'r, 'd, 'l>(BTreeMap<&'m Spot, (Company<'m, 'r, 'd, 'l>, u32)>);

impl<'m, 'r, 'd, 'l> Companies<'m, 'r, 'd, 'l> {
    pub(super) fn of(context: &Context<'l>, spots: &'m BTreeMap<Spot, Vec<Member<'r, 'd>>>) -> Self {
        let companies = spots.iter().map(|(spot, members)| {
            let company = Company::of(context, spot, members);
            let count = company.count();
            (spot, (company, count))
        });
        Self(companies.collect())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Spot, &Company<'m, 'r, 'd, 'l>)> {
        self.0.iter().map(|(spot, (company, _))| (*spot, company))
    }

    /// How many users a device has at once that a container may be given: those of this pod, of its like, and everybody
    /// else.
    pub(super) fn users(&self, wanted: &Wanted, choice: &Choice) -> u32 {
        let count = |spot: &Spot| self.0.get(spot).map_or(0, |(_, count)| *count);
        let devices = choice.allocated.iter().cloned().map(Spot::Device);
        let most = devices.map(|device| count(&device)).max();
        most.unwrap_or_else(|| count(&Spot::Request(wanted.clone())))
    }
}

/// What they come to on a device of one kind.
pub(super) struct Sums {
    /// What one pod of the judged template takes.
    pub(super) own: OnEach,
    /// What each of the others holds, in the order of the company.
    pub(super) held: Vec<OnEach>,
    /// What everybody but the judged template's pods takes.
    pub(super) rest: OnEach,
    pub(super) budget: Share,
    pub(super) sum: Share,
}

/// A kind of device at a spot, under a policy and the terms of the claim.
#[derive(Clone, Copy)]
pub(super) struct Ground<'g> {
    pub(super) kind: &'g Kind,
    pub(super) policy: &'g PolicyRef,
    pub(super) device: &'g PolicyRef,
    /// The terms of those whose claim is not allocated.
    pub(super) terms: Option<Terms>,
    pub(super) shared: Sharing,
}

impl Ground<'_> {
    pub(super) fn sums(&self, context: &Context<'_>, company: &Company<'_, '_, '_, '_>) -> Sums {
        let rules = Rules {
            pod: self.policy,
            device: &self.device.device,
            namespace: "",
        };
        let own = together(company.members.iter().map(|member| {
            let terms = self.terms_of(member);
            let each = by_claim::each(member.used, self.kind, terms, self.shared, rules);
            (member.used.claim.role, each)
        }));
        let device = &self.device.device;
        let mut there = company.others.clone();
        for other in &mut there {
            other.terms = self.terms.unwrap_or(other.terms);
        }
        let held: Vec<OnEach> = there
            .iter()
            .map(|other| {
                context
                    .ledger
                    .held_by_claim(other, self.kind, self.shared, device)
            })
            .collect();
        let others = at_the_same_time(&there, &held);
        let rest =
            company
                .beside
                .chunk_by(|a, b| a.template == b.template)
                .fold(others, |sum, of_template| {
                    let each = together(of_template.iter().map(|one| {
                        let terms = self.terms.unwrap_or(one.terms);
                        let each = by_claim::each(one.used, self.kind, terms, self.shared, rules);
                        (one.used.claim.role, each)
                    }));
                    sum.plus(each.times(of_template.first().map_or(0, |one| one.pods)))
                });
        let budget = if self.shared.is_shared() {
            device.budget
        } else {
            Share::WHOLE
        };
        Sums {
            own,
            held,
            rest,
            budget,
            sum: rest.plus(own.times(company.pods)).share,
        }
    }

    fn terms_of(&self, member: &Member<'_, '_>) -> Terms {
        let chosen = member.choice.map(Choice::terms);
        chosen.or(self.terms).unwrap_or(Terms::OPEN)
    }
}

/// Judges a spot.
pub(super) fn judge(
    context: &Context<'_>,
    spot: &Spot,
    company: &Company<'_, '_, '_, '_>,
    resolved: &[Resolved<'_>],
    judged: &mut Judged,
) {
    match spot {
        Spot::Device(device) => on_device(context, device, company, judged),
        Spot::Request(wanted) => on_any(context, wanted, company, resolved, judged),
    }
}

fn on_device(context: &Context<'_>, of: &Key, company: &Company<'_, '_, '_, '_>, judged: &mut Judged) {
    let (pool, name) = of;
    let placed = context.ledger.dra.device(of);
    // Whatever device it is that no slice describes now: it is one, and their fractions add up on it.
    let kind = placed.map_or_else(|| Arc::new(Kind::unknown()), |placed| placed.kind.clone());
    let node = context.ledger.dra.node_of(pool, name).unwrap_or(pool);
    let policy = judged.policy.clone();
    let device = context.ledger.device_policy(node);
    let choices = || company.members.iter().filter_map(|member| member.choice);
    let limit = choices().find_map(|choice| choice.limit(&kind));
    let mps = choices().map(|choice| choice.mps).max_by_key(|mps| mps.most);
    let ground = Ground {
        kind: &kind,
        policy: &policy,
        device: &device,
        terms: None,
        shared: sharing(&kind, limit, mps.unwrap_or_default(), company.count()),
    };
    let sums = ground.sums(context, company);
    let promised = sums.rest.plus(sums.own.times(company.pods));
    judged.placement.push(PlacementRow {
        node: node.to_string(),
        device: Some(format!("{DRIVER}[{name}]")),
        evidence: Evidence::Observed,
        promised: promised.request,
        budget: kind.total.map_or(Mib::ZERO, |total| sums.budget.of_down(total)),
        promised_fraction: promised.share,
        budget_fraction: sums.budget,
    });
    let tenancy = &device.device.tenants;
    let tenant = tenancy.tenant(context.namespace);
    let mut foreign = company.others.iter();
    let foreign = foreign.find(|other| tenancy.tenant(&other.holder.namespace) != tenant);
    if let (Some(other), Some(member)) = (foreign, company.members.first()) {
        let finding = text::other_tenant(context, member.used, of, node, other);
        judged.findings.push(under(&policy, finding));
    }
    let consumed = choices().find_map(|choice| match choice.limit(&kind) {
        Some(Limit::Capacity(most)) => Some(most),
        _ => None,
    });
    judged
        .findings
        .extend(consumed.and_then(|most| within(context, company, &ground, most)));
    if company.count() > 1 && sums.sum > sums.budget {
        let full = Full {
            company,
            sums: &sums,
            kind: &kind,
            device: Some(of),
            evidence: format!("evidence observed: the claim is allocated {name} of {pool}"),
        };
        judged.findings.push(under(&policy, full.finding(context)));
    }
}

/// Of a request whose device is not chosen yet.
fn on_any(
    context: &Context<'_>,
    wanted: &Wanted,
    company: &Company<'_, '_, '_, '_>,
    resolved: &[Resolved<'_>],
    judged: &mut Judged,
) {
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
    if let Some(finding) = all_of_other_tenants(context, company, &choices) {
        judged.findings.push(under(&policy, finding));
    }
    let unknown = Arc::new(Kind::unknown());
    if choices.is_empty() {
        choices.extend(alternatives().next().map(|choice| (choice, &unknown)));
    }
    let (mut worst, mut beyond): (Option<(Share, Finding)>, Option<Finding>) = (None, None);
    let mut looked_at: Vec<(&Choice, &Kind, PolicyRef)> = Vec::new();
    for (choice, kind) in choices {
        let device = device_policy(context, kind);
        // Most kinds differ in what memory does not hang on, such as the version of the driver.
        let is_alike = |(of, other, policy): &(&Choice, &Kind, PolicyRef)| {
            std::ptr::eq(*of, choice) && other.weighs_as(kind) && Arc::ptr_eq(policy, &device)
        };
        if looked_at.iter().any(is_alike) {
            continue;
        }
        looked_at.push((choice, kind, device.clone()));
        let limit = choice.limit(kind);
        let ground = Ground {
            kind,
            policy: &policy,
            device: &device,
            terms: Some(choice.terms()),
            shared: sharing(kind, limit, choice.mps, company.count()),
        };
        if let Some(Limit::Capacity(most)) = limit {
            beyond = beyond.or_else(|| within(context, company, &ground, most));
        }
        // What other claims consume of the same device is the scheduler's to count.
        let sums = ground.sums(context, company);
        if company.count() <= 1 || sums.sum <= sums.budget {
            continue;
        }
        let full = Full {
            company,
            sums: &sums,
            kind,
            device: None,
            evidence: "evidence: whichever device is allocated, it is one and the same, so the sum is exact"
                .to_owned(),
        };
        let finding = under(&policy, full.finding(context));
        if worst.as_ref().is_none_or(|(most, _)| sums.sum > *most) {
            worst = Some((sums.sum, finding));
        }
    }
    judged.findings.extend(beyond);
    judged.findings.extend(worst.map(|(_, finding)| finding));
}

/// Those who use the same claim against what it consumes, where none of them is above it by itself (that is told already).
fn within(
    context: &Context<'_>,
    company: &Company<'_, '_, '_, '_>,
    ground: &Ground<'_>,
    most: Mib,
) -> Option<Finding> {
    let first = company.members.first()?;
    let (which, _) = first.wanted;
    let of_claim: Vec<Member<'_, '_>> = company
        .members
        .iter()
        .filter(|member| member.wanted.0 == *which)
        .cloned()
        .collect();
    let is_same = |name: &Arc<str>| matches!(which, Which::Named(other) if other == name);
    let same = Company {
        members: &of_claim,
        pods: company.pods,
        others: company
            .others
            .iter()
            .filter(|other| *other.claim.0 == *context.namespace && is_same(&other.claim.1))
            .cloned()
            .collect(),
        beside: company
            .beside
            .iter()
            .filter(|one| is_same(&one.claim))
            .cloned()
            .collect(),
    };
    if same.count() <= 1 {
        return None;
    }
    let sums = ground.sums(context, &same);
    let all = sums.rest.plus(sums.own.times(same.pods));
    let needed = all.request.plus(all.overhead);
    let alone = sums.own.request.plus(sums.own.overhead);
    let is_told = same.members.len() == 1 && alone > most;
    (needed > most && !is_told).then(|| {
        under(
            ground.policy,
            text::above_together(&same, needed, most, ground.kind),
        )
    })
}

/// VG211 before a device is chosen: where claims share devices, and each that could be chosen has a holder of another tenant.
fn all_of_other_tenants(
    context: &Context<'_>,
    company: &Company<'_, '_, '_, '_>,
    choices: &[(&Choice, &Arc<Kind>)],
) -> Option<Finding> {
    // Any other device has no holder but those of this claim.
    if choices.is_empty() || choices.iter().any(|(_, kind)| !kind.multiple) {
        return None;
    }
    let member = company.members.first()?;
    let mut found = None;
    for (of, placed) in context.ledger.dra.devices() {
        if !choices.iter().any(|(_, kind)| **kind == placed.kind) {
            continue;
        }
        let (pool, name) = of;
        let node = context.ledger.dra.node_of(pool, name).unwrap_or(pool);
        let policy = context.ledger.device_policy(node);
        let tenancy = &policy.device.tenants;
        let tenant = tenancy.tenant(context.namespace)?;
        let there = context.ledger.on_device(of).into_iter();
        let mut foreign =
            there.filter(|other| tenancy.tenant(&other.holder.namespace).as_ref() != Some(&tenant));
        let other = foreign.next()?;
        found.get_or_insert_with(|| text::no_other_tenant_free(context, member.used, of, node, &other));
    }
    found
}
