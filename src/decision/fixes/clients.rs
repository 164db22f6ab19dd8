//! Changes to what bounds an MPS client from outside of its engine.

use std::sync::Arc;

use serde_json::json;

use super::{Passes, operation, told};
use crate::decision::Question;
use crate::decision::survey::Survey;
use crate::demand::client::{PinnedLimit, Setting};
use crate::demand::weigh::{Rules, footprint, mps};
use crate::demand::{Claim, Demand};
use crate::engine;
use crate::engine::limits::{PINNED_LIMIT, Place, THREAD_PERCENTAGE, VISIBLE_DEVICES};
use crate::finding::{Code, Finding, Fix};
use crate::units::Mib;
use crate::workload::pod::Container;

/// Adds to what is told of variables of MPS and of several processes the changes that end it and pass.
pub(in crate::decision) fn propose(
    question: &Question,
    demand: &Demand,
    survey: &Survey<'_>,
    findings: &mut [Finding],
    passes: Passes<'_>,
) {
    let workload = &question.workload;
    for finding in findings.iter_mut() {
        let fix = match finding.code {
            Code::Vg405 => demand
                .claims
                .iter()
                .find(|claim| {
                    let path = claim.parts.first().map_or(&claim.path, |part| &part.path);
                    claim.processes() > 1 && workload.located(path) == finding.path
                })
                .and_then(|claim| divided_limit(question, demand, claim, survey, passes)),
            Code::Vg406 => demand
                .claims
                .iter()
                .flat_map(|claim| variables(claim).map(move |(name, at)| (claim, name, at)))
                .find(|(claim, _, at)| workload.located(&claim.path.field("env").index(*at)) == finding.path)
                .and_then(|(claim, name, at)| without_variable(question, demand, claim, (name, at), passes)),
            _ => continue,
        };
        finding.fixes.extend(fix);
    }
}

/// The variables that stand in a container's own list, with their places there.
fn variables(claim: &Claim) -> impl Iterator<Item = (&'static str, usize)> {
    fn at<T>(setting: Option<&Setting<T>>) -> Option<usize> {
        match setting?.place {
            Place::Env(at) => Some(at),
            Place::EnvFrom(_) | Place::Script => None,
        }
    }
    let client = &claim.client;
    [
        (PINNED_LIMIT, at(client.limit())),
        (THREAD_PERCENTAGE, at(client.percentage())),
        (VISIBLE_DEVICES, at(client.visible())),
    ]
    .into_iter()
    .filter_map(|(name, at)| Some((name, at?)))
}

fn container_of<'q>(question: &'q Question, claim: &Claim) -> Option<&'q Container> {
    engine::containers(&question.workload.pod)
        .find(|placed| placed.pointer() == claim.pointer)
        .map(|placed| placed.container)
}

/// Without a variable that has no effect, or a bad one.
fn without_variable(
    question: &Question,
    demand: &Demand,
    claim: &Claim,
    (name, at): (&'static str, usize),
    passes: Passes<'_>,
) -> Option<Fix> {
    // Of two of one name the last counts, and without it the other would.
    let set = container_of(question, claim)?
        .env
        .iter()
        .filter(|variable| variable.name == name);
    if set.count() != 1 {
        return None;
    }
    let mut changed = demand.clone();
    for other in &mut changed.claims {
        if other.pointer == claim.pointer {
            other.client.forget(name);
        }
    }
    let pointer = question
        .workload
        .pointer(&format!("{}/env/{at}", claim.pointer))?;
    let patch = vec![serde_json::from_value(json!({"op": "remove", "path": pointer})).ok()?];
    let outcome = passes(&Arc::new(changed));
    let title = format!("take {name} out of container {}", claim.container);
    (!outcome.is_refused()).then(|| told(title, patch, outcome))
}

/// The limit of one slot divided among the processes of a container, where together they may take more.
fn divided_limit(
    question: &Question,
    demand: &Demand,
    claim: &Claim,
    survey: &Survey<'_>,
    passes: Passes<'_>,
) -> Option<Fix> {
    let daemons = survey.accepting.iter().filter_map(|kind| {
        let pool = kind.class.pools.get(kind.class.pool_index(&claim.resource)?)?;
        mps::daemon_limit(pool)
    });
    let daemon = daemons.min()?;
    let processes = u64::from(claim.processes());
    let own = claim.client.limit();
    let place = own.map(|own| own.place);
    let each = own
        .and_then(|own| own.value.as_ref()?.first())
        .map_or(daemon, |own| own.min(daemon));
    if each.times(processes) <= daemon || place == Some(Place::Script) {
        return None;
    }
    let limit = Mib::new(daemon.get().checked_div(processes)?);
    let value = PinnedLimit::of(limit, claim.slots);
    let text = value.to_string();
    let env = &container_of(question, claim)?.env;
    let entry = json!({"name": PINNED_LIMIT, "value": text});
    let list = format!("{}/env", claim.pointer);
    let (op, pointer, entry, at) = match place {
        Some(Place::Env(at)) => ("replace", format!("{list}/{at}"), entry, at),
        _ if env.is_empty() => ("add", list, json!([entry]), 0),
        _ => ("add", format!("{list}/-"), entry, env.len()),
    };
    let patch = vec![operation(op, &question.workload.pointer(&pointer)?, &entry)?];
    let mut changed = demand.clone();
    for other in &mut changed.claims {
        if other.pointer == claim.pointer {
            other.client.set_limit(Setting {
                text: Ok(text.clone()),
                value: Some(value.clone()),
                place: Place::Env(at),
                ours: false,
            });
        }
    }
    let outcome = passes(&Arc::new(changed));
    let title = format!("set {PINNED_LIMIT} of container {} to {text}", claim.container);
    (!outcome.is_refused()).then(|| told(title, patch, outcome))
}

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
