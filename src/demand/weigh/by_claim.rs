//! The same for devices that a container gets by dynamic resource claims.

use std::num::NonZeroU32;

use super::{Rules, Weighed, fit, weigh};
use crate::demand::{Amount, Claim, Demand, Part, Use};
use crate::device::{Pool, Sharing};
use crate::dra::Limit;
use crate::dra::devices::Kind;
use crate::dra::resolve::{Mps, Terms};
use crate::engine::{Engine, Role};
use crate::footprint::inverse::{self, Surely};
use crate::units::{Mib, Share};

/// What a container takes of each of its devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OnEach {
    pub(crate) request: Mib,
    pub(crate) overhead: Mib,
    pub(crate) share: Share,
}

impl OnEach {
    /// The same where MPS lets each process have so much: an engine that takes whatever it can get takes that, or what its
    /// own variable lets it have.
    fn under_mps(self, used: &Use, kind: &Kind, limit: Option<Mib>) -> Self {
        let (Some(limit), Some(total), true) = (limit, kind.total, is_open(used)) else {
            return self;
        };
        let own = used.claim.client.limit();
        let own = own.and_then(|setting| setting.value.as_ref()?.first());
        let limit = own.map_or(limit, |own| own.min(limit));
        let request = limit.times(u64::from(used.claim.processes().max(1))).min(total);
        Self {
            request,
            overhead: Mib::ZERO,
            share: Share::ratio_up(request, total),
        }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            request: self.request.plus(other.request),
            overhead: self.overhead.plus(other.overhead),
            share: self.share.plus(other.share),
        }
    }

    /// What so many take.
    pub(crate) fn times(self, count: u32) -> Self {
        let count = u64::from(count);
        Self {
            request: self.request.times(count),
            overhead: self.overhead.times(count),
            share: self.share.times(count),
        }
    }

    pub(crate) fn or_more(self, other: Self) -> Self {
        if other.share > self.share { other } else { self }
    }
}

/// Whether an engine of the container takes whatever it can get.
pub(crate) fn is_open(used: &Use) -> bool {
    let mut parts = used.claim.parts.iter();
    parts.any(|part| matches!(part.amount, Amount::Uncapped { .. }))
}

/// Whether a container takes memory of a device to which it has access for monitoring: one that is known to run an engine.
pub(crate) fn takes_by_access(used: &Use) -> bool {
    let mut parts = used.claim.parts.iter();
    parts.any(|part| part.engine != Engine::Unknown && !matches!(part.amount, Amount::Unknown { .. }))
}

/// Why it cannot be told what a container takes of a device of a kind; `None` where it can.
pub(crate) fn untold<'u>(used: &'u Use, kind: &Kind) -> Option<&'u str> {
    used.claim.parts.iter().find_map(|part| match &part.amount {
        Amount::OfTotal { .. } => None,
        Amount::Absolute(_) | Amount::Estimated { .. } => {
            let why = "an amount is a part of a device whose size is not known";
            kind.total.is_none().then_some(why)
        }
        Amount::Unknown { why, .. } | Amount::Uncapped { why } => Some(why),
    })
}

/// How a device of a kind is shared by so many users, and by other claims that consume a part of it as well.
pub(crate) fn sharing(kind: &Kind, limit: Option<Limit>, mps: Mps, users: u32) -> Sharing {
    let claims = match (limit, kind.total) {
        (Some(Limit::Capacity(capacity)), Some(total)) if kind.multiple && capacity < total => {
            u32::try_from(total.get() / capacity.get().max(1))
                .unwrap_or(u32::MAX)
                .max(2)
        }
        _ => 1,
    };
    match NonZeroU32::new(users.max(claims)) {
        Some(slots) if slots.get() > 1 && mps.most.is_some() => Sharing::Mps(slots),
        Some(slots) if slots.get() > 1 => Sharing::TimeSliced(slots),
        _ => Sharing::Exclusive,
    }
}

/// The claim and the pool that stand for so many devices of a kind.
fn as_slots(used: &Use, kind: &Kind, slots: u32, sharing: Sharing) -> (Claim, Pool) {
    let claim = Claim {
        slots,
        ..used.claim.clone()
    };
    let pool = Pool {
        resource: claim.resource.clone(),
        device: kind.device.clone(),
        product: kind.product.clone(),
        total: kind.total,
        sharing,
        bounds_containers: false,
        allocation: None,
        devices: slots,
        slots,
        usable_slots: slots,
    };
    (claim, pool)
}

/// The least fraction with which the models of a container may fit devices of a kind; `None` where none does.
pub(crate) fn least_fraction(used: &Use, kind: &Kind, slots: u32) -> Option<Share> {
    let (claim, pool) = as_slots(used, kind, slots, Sharing::Exclusive);
    fit::plans(&claim, &pool)
        .into_iter()
        .map(|(_, _, plan)| inverse::smallest_fraction(&plan, Surely::MayFit))
        .try_fold(Share::ZERO, |most, least| Some(most.max(least?.share())))
}

/// Weighs the use of so many devices of a kind.
pub(crate) fn weighed(used: &Use, kind: &Kind, slots: u32, sharing: Sharing, rules: Rules<'_>) -> Weighed {
    let (claim, pool) = as_slots(used, kind, slots, sharing);
    let demand = Demand {
        claims: vec![claim],
        ..Demand::default()
    };
    weigh(&demand, &[pool], rules)
}

/// What a container takes of each of its devices under the terms of its claim.
pub(crate) fn each(used: &Use, kind: &Kind, terms: Terms, sharing: Sharing, rules: Rules<'_>) -> OnEach {
    let slots = terms.count.unwrap_or(used.claim.ranks()).max(1);
    let each = on_each(&weighed(used, kind, slots, sharing, rules), slots);
    each.under_mps(used, kind, terms.mps.most)
}

/// The same of somebody who is there: who came while nobody else was there was admitted as the only one, and may take what
/// that one takes.
pub(crate) fn held(used: &Use, kind: &Kind, terms: Terms, sharing: Sharing, rules: Rules<'_>) -> OnEach {
    let alone = each(used, kind, terms, Sharing::Exclusive, rules);
    let shared = each(used, kind, terms, sharing, rules);
    if alone.share > shared.share { alone } else { shared }
}

/// What the largest engine of a container takes of a device: the limit of MPS holds for each process by itself.
pub(crate) fn largest(used: &Use, kind: &Kind, terms: Terms, sharing: Sharing, rules: Rules<'_>) -> OnEach {
    let parts = used.claim.parts.iter().map(|part| {
        let only = only(used, part);
        each(&only, kind, terms, sharing, rules)
    });
    parts.reduce(OnEach::or_more).unwrap_or_default()
}

/// A container with one of its engines.
fn only(used: &Use, part: &Part) -> Use {
    Use {
        claim: Claim {
            parts: vec![part.clone()],
            ..used.claim.clone()
        },
        refs: Vec::new(),
        findings: Vec::new(),
    }
}

/// An engine that takes whatever it can get, with the least that its model wants, where MPS lets it have less.
pub(crate) struct Short {
    pub(crate) part: Part,
    pub(crate) wants: Mib,
    /// Whether the facts of the model are certain.
    pub(crate) is_sure: bool,
}

/// Engines of a container that a limit of MPS gives too little for their models.
pub(crate) fn short_of(used: &Use, kind: &Kind, slots: u32, limit: Mib) -> Vec<Short> {
    let open = used.claim.parts.iter();
    let open = open.filter(|part| matches!(part.amount, Amount::Uncapped { .. }));
    open.filter_map(|part| {
        let of_limit = Kind {
            total: kind.total.map(|total| total.min(limit)),
            ..kind.clone()
        };
        let only = only(used, part);
        let (claim, pool) = as_slots(&only, &of_limit, slots, Sharing::Exclusive);
        let judged = fit::judge(&claim, &pool);
        let judged = judged.into_iter().find(fit::Judged::does_not_fit)?;
        Some(Short {
            part: part.clone(),
            wants: judged.wants(),
            is_sure: judged.is_sure(),
        })
    })
    .collect()
}

/// What a weighed container takes of one device: its largest rank, or all of them where it has fewer devices than ranks.
pub(crate) fn on_each(weighed: &Weighed, slots: u32) -> OnEach {
    let holds = weighed.standings.iter().flat_map(|standing| &standing.holds);
    let each = holds.map(|hold| OnEach {
        request: hold.request,
        overhead: hold.overhead,
        share: hold.share,
    });
    let ranks = weighed
        .standings
        .iter()
        .map(|standing| standing.holds.len())
        .sum::<usize>();
    if u32::try_from(ranks).is_ok_and(|ranks| ranks <= slots) {
        each.reduce(OnEach::or_more).unwrap_or_default()
    } else {
        each.fold(OnEach::default(), OnEach::plus)
    }
}

/// What the containers of a pod take of one device at the same time: init containers run before the regular ones.
pub(crate) fn together(each: impl Iterator<Item = (Role, OnEach)>) -> OnEach {
    let (mut lasting, mut sidecars, mut init) = (OnEach::default(), OnEach::default(), OnEach::default());
    for (role, one) in each {
        match role {
            Role::Init => init = init.or_more(one),
            Role::Sidecar => {
                sidecars = sidecars.plus(one);
                lasting = lasting.plus(one);
            }
            Role::Container | Role::Ephemeral => lasting = lasting.plus(one),
        }
    }
    lasting.or_more(sidecars.plus(init))
}
