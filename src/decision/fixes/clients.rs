//! Changes to what bounds an MPS client from outside of its engine.

use std::sync::Arc;

use serde_json::json;

use super::{Passes, operation, told};
use crate::decision::Question;
use crate::decision::survey::Survey;
use crate::demand::Demand;
use crate::demand::client::{PinnedLimit, Setting};
use crate::demand::weigh::{Rules, footprint, mps};
use crate::engine::limits::{PINNED_LIMIT, Place};
use crate::finding::Fix;
use crate::units::Mib;

/// The container's own limit, raised to what it needs where it needs most.
pub(super) fn larger_limit(
    question: &Question,
    demand: &Demand,
    survey: &Survey<'_>,
    passes: Passes<'_>,
) -> Option<Fix> {
    let mut changed = demand.clone();
    let mut patch = Vec::new();
    let mut title = String::new();
    for claim in &mut changed.claims {
        let Some(Setting {
            place: Place::Env(at),
            value: Some(value),
            ..
        }) = claim.client.limit()
        else {
            continue;
        };
        let (at, own) = (*at, value.first());
        let mut needed = Mib::ZERO;
        for kind in survey.accepting.iter().chain(&survey.refusing) {
            let pool = kind
                .class
                .pool_index(&claim.resource)
                .and_then(|index| kind.class.pools.get(index));
            let Some(pool) = pool.filter(|pool| mps::daemon_limit(pool).is_some()) else {
                continue;
            };
            let rules = Rules {
                pod: &kind.policy,
                device: &kind.class.device_policy.device,
                namespace: "",
            };
            let of_parts = claim.parts.iter().filter_map(|part| footprint(part, pool, rules));
            needed = needed.max(of_parts.max().unwrap_or(Mib::ZERO));
        }
        if own.is_none_or(|own| own >= needed) {
            continue;
        }
        let value = PinnedLimit::of(needed, claim.slots);
        let text = value.to_string();
        let pointer = question
            .workload
            .pointer(&format!("{}/env/{at}", claim.pointer))?;
        let entry = json!({"name": PINNED_LIMIT, "value": text});
        patch.push(operation("replace", &pointer, &entry)?);
        title = format!("set {PINNED_LIMIT} of container {} to {text}", claim.container);
        claim.client.set_limit(Setting {
            text: Ok(text),
            value: Some(value),
            place: Place::Env(at),
            ours: false,
        });
    }
    if patch.is_empty() {
        return None;
    }
    let outcome = passes(&Arc::new(changed));
    (!outcome.is_refused()).then(|| told(title, patch, outcome))
}

/// No volume of its own over the memory that clients share with their daemon.
pub(super) fn without_mount(question: &Question, demand: &Demand, passes: Passes<'_>) -> Option<Fix> {
    let mut changed = demand.clone();
    let mut patch = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for (claim, was) in changed.claims.iter_mut().zip(&demand.claims) {
        let Some(mount) = claim.client.shm.take() else {
            continue;
        };
        // A container that asks for two resources stands here twice.
        if names.contains(&&*was.container) {
            continue;
        }
        names.push(&was.container);
        let pointer = question
            .workload
            .pointer(&format!("{}/volumeMounts/{mount}", claim.pointer))?;
        patch.push(serde_json::from_value(json!({"op": "remove", "path": pointer})).ok()?);
    }
    if patch.is_empty() {
        return None;
    }
    let outcome = passes(&Arc::new(changed));
    let title = format!("take the mount at /dev/shm out of container {}", names.join(", "));
    (!outcome.is_refused()).then(|| told(title, patch, outcome))
}
