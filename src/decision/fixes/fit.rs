//! Changes with which a model fits: a larger fraction, a shorter context, another slice, more devices.

use std::sync::Arc;

use json_patch::PatchOperation;

use super::{Outcome, Passes, slots_patch, told, written};
use crate::decision::Question;
use crate::decision::survey::{Candidate, Offer, Survey};
use crate::demand::weigh::fit::{Judged, judge, plans, remedy};
use crate::demand::{Amount, Claim, Demand, Part};
use crate::device::Pool;
use crate::finding::Fix;
use crate::footprint::Answer;
use crate::footprint::inverse::{self, Surely};
use crate::units::Share;

/// Kinds of nodes, and resources of the cluster, that are tried at most.
const MOST_TRIED: usize = 8;

/// A change that is to be tried.
struct Proposal {
    title: String,
    demand: Demand,
    patch: Vec<PatchOperation>,
}

/// Changes with which the model of every container fits. Those of which that is sure, if there are any; else those of
/// which it is doubtful, which say so.
pub(super) fn for_fit(
    question: &Question,
    demand: &Demand,
    survey: &Survey<'_>,
    passes: Passes<'_>,
) -> Vec<Fix> {
    let kinds = || survey.refusing.iter().take(MOST_TRIED);
    for surely in [Surely::Fits, Surely::MayFit] {
        let wanted = match surely {
            Surely::Fits => Outcome::Passes,
            Surely::MayFit => Outcome::Doubtful,
        };
        let first = |mut proposals: &mut dyn Iterator<Item = Proposal>| {
            Iterator::find(&mut proposals, |proposal| {
                passes(&Arc::new(proposal.demand.clone())) == wanted
            })
            .map(|proposal| told(proposal.title, proposal.patch, wanted))
        };
        let of_kinds = |make: fn(&Question, &Demand, &Candidate<'_>, Surely) -> Option<Proposal>| {
            first(&mut kinds().filter_map(|kind| make(question, demand, kind, surely)))
        };
        let fixes: Vec<Fix> = [
            of_kinds(larger_fraction),
            of_kinds(shorter_context),
            first(&mut other_slices(question, demand, survey)),
            of_kinds(more_devices),
        ]
        .into_iter()
        .flatten()
        .collect();
        if !fixes.is_empty() {
            return fixes;
        }
    }
    Vec::new()
}

/// The least fraction with which the models of a demand may fit on some kind of node; zero where they fit any.
pub(in crate::decision) fn least_fraction(demand: &Demand, survey: &Survey<'_>) -> Share {
    let kinds = survey.accepting.iter().chain(&survey.refusing);
    let on_kind = |kind: &Candidate<'_>| {
        let plans = demand
            .claims
            .iter()
            .flat_map(|claim| pool(kind, claim).map_or_else(Vec::new, |pool| plans(claim, pool)));
        plans
            .map(|(_, _, plan)| inverse::smallest_fraction(&plan, Surely::MayFit))
            .try_fold(Share::ZERO, |most, least| Some(most.max(least?.share())))
    };
    kinds.filter_map(on_kind).min().unwrap_or(Share::ZERO)
}

/// The pool of a kind of node that a claim asks.
fn pool<'k>(kind: &'k Candidate<'_>, claim: &Claim) -> Option<&'k Pool> {
    let index = kind.class.pool_index(&claim.resource)?;
    kind.class.pools.get(index)
}

/// Every engine of a demand whose model does not fit the devices of a kind of node.
fn failing<'d>(demand: &'d Demand, kind: &'d Candidate<'_>) -> impl Iterator<Item = Judged<'d>> {
    demand
        .claims
        .iter()
        .flat_map(|claim| pool(kind, claim).map_or_else(Vec::new, |pool| judge(claim, pool)))
        .filter(|judged| judged.answer == Answer::DoesNotFit)
}

/// Changes a part in every claim of its container: one that asks for two resources stands there twice.
fn change(demand: &mut Demand, judged: &Judged<'_>, with: impl Fn(&mut Part)) {
    let Some(index) = judged
        .claim
        .parts
        .iter()
        .position(|part| std::ptr::eq(part, judged.part))
    else {
        return;
    };
    let same = |claim: &&mut Claim| claim.pointer == judged.claim.pointer;
    for claim in demand.claims.iter_mut().filter(same) {
        if let Some(part) = claim.parts.get_mut(index) {
            with(part);
        }
    }
}

/// Where an edit of a claim's container is written.
fn pointer(question: &Question, claim: &Claim, edit: &str) -> Option<String> {
    question.workload.pointer(&format!("{}{edit}", claim.pointer))
}

/// `of container server to 0.31`, or of several to what each needs.
fn phrase(what: &str, values: &[(String, String)]) -> String {
    let each: Vec<String> = values
        .iter()
        .map(|(container, value)| format!("of container {container} to {value}"))
        .collect();
    format!("{what} {}", each.join(" and "))
}

/// A larger fraction for every engine that lacks room.
fn larger_fraction(
    question: &Question,
    demand: &Demand,
    kind: &Candidate<'_>,
    surely: Surely,
) -> Option<Proposal> {
    let mut changed = demand.clone();
    let mut patch = Vec::new();
    let mut values = Vec::new();
    for judged in failing(demand, kind) {
        let fraction = remedy::fraction(&judged.plan, surely)?;
        let edit = judged.part.edit.as_ref()?;
        let at = pointer(question, judged.claim, &edit.pointer)?;
        patch.push(written(edit, &at, fraction.text())?);
        values.push((judged.claim.container.clone(), fraction.to_string()));
        change(&mut changed, &judged, |part| {
            part.amount = Amount::OfTotal {
                fraction: fraction.clone(),
                by_default: false,
            };
        });
    }
    proposal(phrase("raise the memory fraction", &values), changed, patch)
}

/// A shorter context for every engine that lacks room.
fn shorter_context(
    question: &Question,
    demand: &Demand,
    kind: &Candidate<'_>,
    surely: Surely,
) -> Option<Proposal> {
    let mut changed = demand.clone();
    let mut patch = Vec::new();
    let mut values = Vec::new();
    for judged in failing(demand, kind) {
        let length = remedy::length(&judged.plan, surely)?;
        let edit = judged.load.length_edit.as_ref()?;
        let at = pointer(question, judged.claim, &edit.pointer)?;
        patch.push(written(edit, &at, &length.to_string())?);
        values.push((judged.claim.container.clone(), format!("{length} tokens")));
        let load = Arc::new(judged.load.with_length(length));
        change(&mut changed, &judged, |part| part.load = Some(load.clone()));
    }
    proposal(phrase("shorten the context", &values), changed, patch)
}

/// The one claim on a MIG slice that lacks room, on each other resource that the cluster offers, smallest device first.
fn other_slices(question: &Question, demand: &Demand, survey: &Survey<'_>) -> impl Iterator<Item = Proposal> {
    let claim = survey.refusing.first().and_then(|kind| {
        let mut claims = failing(demand, kind).filter(Judged::is_mig).map(|judged| {
            demand
                .claims
                .iter()
                .position(|claim| std::ptr::eq(claim, judged.claim))
        });
        let first = claims.next()?;
        claims.all(|other| other == first).then_some(first)?
    });
    let resources = claim.map(|_| survey.offers()).unwrap_or_default();
    let tried = resources.into_iter().filter_map(move |Offer { resource, .. }| {
        let index = claim?;
        let old = demand.claims.get(index)?;
        let is_asked = |claim: &Claim| claim.pointer == old.pointer && claim.resource == resource;
        if demand.claims.iter().any(is_asked) {
            return None;
        }
        let mut changed = demand.clone();
        changed.claims.get_mut(index)?.resource = resource.clone();
        let title = format!(
            "ask for {resource} instead of {} in container {}",
            old.resource, old.container
        );
        proposal(title, changed, slots_patch(question, old, &resource, old.slots)?)
    });
    tried.take(MOST_TRIED)
}

/// More whole devices, over which each layer is divided: slots and parallel size have to be changed together.
fn more_devices(
    question: &Question,
    demand: &Demand,
    kind: &Candidate<'_>,
    surely: Surely,
) -> Option<Proposal> {
    let mut failing = failing(demand, kind);
    let judged = failing.next()?;
    let claim = judged.claim;
    if failing.next().is_some() || claim.parts.len() > 1 {
        return None;
    }
    let tensor = remedy::tensor(&judged, surely)?;
    let edit = judged.load.tensor_edit.as_ref()?;
    let load = Arc::new(judged.load.with_tensor(tensor));
    let slots = load.devices();
    let at = pointer(question, claim, &edit.pointer)?;
    let mut patch = vec![written(edit, &at, &tensor.to_string())?];
    patch.extend(slots_patch(question, claim, &claim.resource, slots)?);
    let mut changed = demand.clone();
    change(&mut changed, &judged, |part| {
        part.tensor = tensor;
        part.ranks = slots;
        part.load = Some(load.clone());
    });
    for other in &mut changed.claims {
        if other.pointer == claim.pointer && other.resource == claim.resource {
            other.slots = slots;
        }
    }
    let title = format!(
        "ask for {slots} of {} in container {} and set its tensor parallel size to {tensor}",
        claim.resource, claim.container
    );
    proposal(title, changed, patch)
}

fn proposal(title: String, demand: Demand, patch: Vec<PatchOperation>) -> Option<Proposal> {
    (!patch.is_empty()).then_some(Proposal { title, demand, patch })
}
