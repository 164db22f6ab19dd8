//! The same for devices that a container gets by dynamic resource claims.

use super::{Rules, Weighed, fit, weigh};
use crate::demand::{Amount, Claim, Demand, Use};
use crate::device::{Pool, Sharing};
use crate::dra::devices::Kind;
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
    /// The same where MPS lets each process have so much: an engine that takes whatever it can get takes that.
    pub(crate) fn under_mps(self, used: &Use, kind: &Kind, limit: Option<Mib>) -> Self {
        let (Some(limit), Some(total), true) = (limit, kind.total, is_open(used)) else {
            return self;
        };
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

    pub(crate) fn or_more(self, other: Self) -> Self {
        if other.share > self.share { other } else { self }
    }
}

/// Whether an engine of the container takes whatever it can get.
pub(crate) fn is_open(used: &Use) -> bool {
    let mut parts = used.claim.parts.iter();
    parts.any(|part| matches!(part.amount, Amount::Uncapped { .. }))
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
