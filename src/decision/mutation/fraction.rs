//! A fraction for a vLLM launch that has none, by the policy's `defaults.gpuMemoryUtilization`.

use super::Made;
use crate::decision::fixes::written;
use crate::decision::survey::{Candidate, Survey};
use crate::demand::client::Record;
use crate::demand::weigh::{Rules, fair};
use crate::demand::{Amount, Claim, Part};
use crate::device::Pool;
use crate::engine::Engine;
use crate::units::{Fraction, Share};

/// The option, as the record names it.
const OPTION: &str = "--gpu-memory-utilization";

/// Gives every launch without a fraction the one that the policy says, and works out anew what was given before. Says
/// whether the demand changed.
pub(super) fn set(made: &mut Made, survey: &Survey<'_>) -> bool {
    let mut changed = false;
    let mut record = made.record.clone();
    let mut written_at: Vec<String> = Vec::new();
    for claim in &mut made.demand.claims {
        let Some(fraction) = wanted(claim, survey) else {
            continue;
        };
        for part in &mut claim.parts {
            if !may_be_set(part, &claim.container, &made.record) {
                continue;
            }
            let Some(edit) = part.edit.as_ref().filter(|edit| edit.sure) else {
                continue;
            };
            let pointer = format!("{}{}", claim.pointer, edit.pointer);
            let is_there = matches!(&part.amount, Amount::OfTotal { fraction: now, .. } if now.text() == fraction.text());
            // A container that asks for two resources stands here twice, and is written once.
            if !is_there && !written_at.contains(&pointer) {
                let Some(patch) = written(edit, &pointer, fraction.text()) else {
                    continue;
                };
                made.patches.push(patch);
                written_at.push(pointer);
            }
            record.note(&claim.container, OPTION, fraction.text());
            changed |= !is_there;
            part.amount = Amount::OfTotal {
                fraction: fraction.clone(),
                by_default: false,
            };
        }
    }
    made.record = record;
    changed
}

/// Whether the part has no fraction of its owner's: none at all, or the one that we gave it.
fn may_be_set(part: &Part, container: &str, record: &Record) -> bool {
    match &part.amount {
        Amount::OfTotal { by_default: true, .. } => part.engine == Engine::Vllm,
        Amount::OfTotal { fraction, .. } => {
            part.engine == Engine::Vllm && record.holds(container, OPTION, fraction.text())
        }
        Amount::Absolute(_) | Amount::Estimated { .. } | Amount::Unknown { .. } | Amount::Uncapped { .. } => {
            false
        }
    }
}

/// The fraction for a container: the smallest that the policy says for any kind of node whose devices it would share.
/// `None` where some kind gives it a device of its own, which is left to it whole, where two engines share the slot, or
/// where the policy says none.
fn wanted(claim: &Claim, survey: &Survey<'_>) -> Option<Fraction> {
    let [part] = claim.parts.as_slice() else {
        return None;
    };
    if part.ranks > 1 {
        return None;
    }
    let asked = |kind: &'_ Candidate<'_>| -> Option<Pool> {
        let index = kind.class.pool_index(&claim.resource)?;
        kind.class.pools.get(index).cloned()
    };
    let has_own = |kind: &Candidate<'_>| asked(kind).is_some_and(|pool| !pool.sharing.is_shared());
    if survey.accepting.iter().any(has_own) {
        return None;
    }
    let mut least: Option<Share> = None;
    for kind in survey.accepting.iter().chain(&survey.refusing) {
        let rules = Rules {
            pod: &kind.policy,
            device: &kind.class.device_policy.device,
            namespace: "",
        };
        let share = asked(kind).and_then(|pool| fair::default(part, &pool, rules));
        least = least.into_iter().chain(share).min();
    }
    let ppm = u32::try_from(least?.ppm()).ok()?;
    Fraction::from_ppm(ppm)
}
