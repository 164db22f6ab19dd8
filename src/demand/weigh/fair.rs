//! The fraction with which every slot of a shared device can be used, and what the policy gives a launch without one.

use super::{Rules, overhead_of};
use crate::demand::Part;
use crate::device::{DeviceKind, Pool};
use crate::engine::{Engine, Meaning};
use crate::policy::{DefaultFraction, DevicePolicy};
use crate::units::{Mib, Share};

/// `min(budget / R, (total - reserve - R x overhead) / (R x total))` for R slots, rounded down to three decimals; the first
/// alone where the size is not known.
pub(crate) fn fraction(pool: &Pool, device: &DevicePolicy, overhead: Mib) -> Share {
    let slots = u64::from(pool.sharing.slots_per_device());
    let by_budget = device.budget.divided_by(slots);
    let by_memory = pool.total.map(|total| {
        let is_mig = matches!(pool.device, DeviceKind::Mig(_));
        let room = total
            .less(device.reserve.of(total, is_mig))
            .less(overhead.times(slots));
        Share::ratio_down(room, total.times(slots))
    });
    by_memory
        .map_or(by_budget, |by_memory| by_budget.min(by_memory))
        .to_thousandths_down()
}

/// What the policy gives a launch without a fraction on a device of a shared pool; `None` where it gives none, or where
/// another fraction would not mean this instance alone.
pub(crate) fn default(part: &Part, pool: &Pool, rules: Rules<'_>) -> Option<Share> {
    if part.engine != Engine::Vllm || !pool.sharing.is_shared() || part.meaning != Meaning::Instance {
        return None;
    }
    let share = match &rules.pod.default_fraction {
        DefaultFraction::None => return None,
        DefaultFraction::FairShare => fraction(pool, rules.device, overhead_of(part, rules)),
        DefaultFraction::Value(fraction) => fraction.share(),
    };
    (share > Share::ZERO).then_some(share)
}

/// What to write where the policy gives a fraction and the launch still has none.
pub(super) fn to_write(part: &Part, pool: &Pool, rules: Rules<'_>) -> Option<String> {
    if let (Engine::Vllm, false) = (part.engine, part.meaning == Meaning::Instance)
        && rules.pod.default_fraction != DefaultFraction::None
    {
        return Some(
            "the policy adds a fraction to launches without one, but not in this release, in which it bounds what all \
             processes of the device take together"
                .to_owned(),
        );
    }
    let share = default(part, pool, rules)?;
    Some(format!(
        "the policy adds a fraction only where that surely changes nothing else of the command line: write \
         --gpu-memory-utilization {} behind the last word of this launch",
        share.decimals(3)
    ))
}
