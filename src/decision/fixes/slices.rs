//! Changes of what a container asks of MIG slices: another resource that the cluster offers, one slice instead of several,
//! whole GPUs for several ranks.

use std::sync::Arc;

use json_patch::PatchOperation;

use super::{Outcome, Passes, slots_patch, told, written};
use crate::decision::Question;
use crate::decision::survey::{Offer, Survey};
use crate::demand::{Claim, Demand};
use crate::finding::{Code, Finding, Fix, Severity};
use crate::mig::ProfileName;

/// Codes that another resource may answer.
pub(super) const CODES: [Code; 4] = [Code::Vg302, Code::Vg303, Code::Vg305, Code::Vg306];
/// Resources that are tried at most.
const MOST_TRIED: usize = 8;
/// Proposals of another resource at most.
const MOST_PROPOSED: usize = 2;

/// What is changed, and how a change is tried.
#[derive(Clone, Copy)]
pub(super) struct Trial<'a> {
    pub(super) question: &'a Question,
    pub(super) demand: &'a Demand,
    pub(super) survey: &'a Survey<'a>,
    pub(super) passes: Passes<'a>,
}

/// Changes that answer errors about MIG slices.
pub(super) fn for_slices(trial: Trial<'_>, findings: &[Finding]) -> Vec<Fix> {
    let Trial { question, demand, .. } = trial;
    // The claims of which an error speaks: errors name the field that asks for the slots.
    let concerned = |codes: &[Code]| -> Option<&Claim> {
        let errors = findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error);
        let mut errors = errors.filter(|finding| codes.contains(&finding.code)).peekable();
        errors.peek()?;
        errors.find_map(|finding| {
            demand.claims.iter().find(|claim| {
                let path = &claim.slots_path;
                finding.path == *path || finding.path == question.workload.located(path)
            })
        })
    };
    let mut fixes = Vec::new();
    if let Some(claim) = concerned(&[Code::Vg302, Code::Vg306]) {
        fixes.extend(another_resource(trial, claim));
    }
    if let Some(claim) = concerned(&[Code::Vg305]) {
        fixes.extend(one_of_several(trial, claim));
    }
    if let Some(claim) = concerned(&[Code::Vg303]) {
        fixes.extend(whole_gpus(trial, claim));
        fixes.extend(one_larger(trial, claim));
    }
    fixes
}

/// Offers in the order in which they may stand for a resource: the same slices under another name, then the nearest sizes,
/// then whole GPUs; for whole GPUs the other way round.
fn by_likeness(offers: Vec<Offer>, asked: &str) -> Vec<Offer> {
    let wanted = ProfileName::of_resource(asked).or_else(|| {
        let meant = crate::demand::resources::meant(asked)?;
        ProfileName::of_resource(&meant)
    });
    let mut offers: Vec<Offer> = offers
        .into_iter()
        .filter(|offer| &*offer.resource != asked)
        .collect();
    let likeness = |offer: &Offer| -> (bool, bool, u32, bool, u32) {
        let profile = offer.profile.as_deref().and_then(ProfileName::parse);
        match (wanted, profile) {
            (Some(wanted), Some(profile)) => (
                false,
                profile != wanted,
                profile.gigabytes.abs_diff(wanted.gigabytes),
                profile.attribute != wanted.attribute,
                profile.slices.abs_diff(wanted.slices),
            ),
            (Some(_), None) | (None, Some(_)) => (true, true, 0, true, 0),
            (None, None) => (false, true, 0, true, 0),
        }
    };
    offers.sort_by_key(likeness);
    offers
}

/// The same slots of another resource that the cluster offers, in every container that asks for this one.
fn another_resource(trial: Trial<'_>, claim: &Claim) -> Vec<Fix> {
    let Trial {
        question,
        demand,
        survey,
        passes,
    } = trial;
    let old = claim.resource.clone();
    let asking: Vec<usize> = (0..demand.claims.len())
        .filter(|index| {
            demand
                .claims
                .get(*index)
                .is_some_and(|claim| claim.resource == old)
        })
        .collect();
    let mut fixes: Vec<Fix> = Vec::new();
    // Slices of one size are one proposal.
    let mut sizes: Vec<Option<u32>> = Vec::new();
    for offer in by_likeness(survey.offers(), &old).into_iter().take(MOST_TRIED) {
        let profile = offer.profile.as_deref().and_then(ProfileName::parse);
        let size = profile.map(|profile| profile.gigabytes);
        if sizes.contains(&size) {
            continue;
        }
        let mut changed = demand.clone();
        let mut patch: Vec<PatchOperation> = Vec::new();
        let mut names: Vec<&str> = Vec::new();
        let mut is_whole = true;
        for index in &asking {
            let Some(claim) = demand.claims.get(*index) else {
                continue;
            };
            // A container that asks for both has a limit of its own for the other one.
            let asks_both = demand
                .claims
                .iter()
                .any(|other| other.pointer == claim.pointer && other.resource == offer.resource);
            match slots_patch(question, claim, &offer.resource, claim.slots) {
                Some(operations) if !asks_both => patch.extend(operations),
                _ => is_whole = false,
            }
            names.push(&claim.container);
            if let Some(claim) = changed.claims.get_mut(*index) {
                claim.resource = offer.resource.clone();
            }
        }
        let outcome = passes(&Arc::new(changed));
        if !is_whole || patch.is_empty() || outcome == Outcome::Refused {
            continue;
        }
        let word = if names.len() == 1 {
            "container"
        } else {
            "containers"
        };
        let title = format!(
            "ask for {} instead of {old} in {word} {}",
            offer.resource,
            names.join(", ")
        );
        fixes.push(told(title, patch, outcome));
        sizes.push(size);
        if fixes.len() == MOST_PROPOSED {
            break;
        }
    }
    fixes
}

/// One slice where a container asks for slices of several resources: the largest that passes.
fn one_of_several(trial: Trial<'_>, claim: &Claim) -> Option<Fix> {
    let Trial {
        question,
        demand,
        passes,
        ..
    } = trial;
    let of_container = |other: &&Claim| other.pointer == claim.pointer;
    let mut several: Vec<&Claim> = demand.claims.iter().filter(of_container).collect();
    if several.len() < 2 {
        return None;
    }
    let size =
        |claim: &&Claim| ProfileName::of_resource(&claim.resource).map_or(0, |profile| profile.gigabytes);
    several.sort_by_key(|claim| std::cmp::Reverse(size(claim)));
    several.iter().find_map(|kept| {
        let mut changed = demand.clone();
        changed
            .claims
            .retain(|other| other.pointer != kept.pointer || other.resource == kept.resource);
        for other in &mut changed.claims {
            if other.pointer == kept.pointer {
                other.slots = 1;
            }
        }
        let outcome = passes(&Arc::new(changed));
        if outcome == Outcome::Refused {
            return None;
        }
        let mut patch = slots_patch(question, kept, &kept.resource, 1)?;
        for dropped in several.iter().filter(|other| other.resource != kept.resource) {
            patch.extend(removed(question, dropped)?);
        }
        let title = format!(
            "ask for 1 of {} alone in container {}",
            kept.resource, kept.container
        );
        Some(told(title, patch, outcome))
    })
}

/// The operations that take a claim out of its container.
fn removed(question: &Question, claim: &Claim) -> Option<Vec<PatchOperation>> {
    let replacing = slots_patch(question, claim, "", 0)?;
    // Replacing is to remove the old name and to add the new one.
    let removing = replacing
        .into_iter()
        .filter(|operation| matches!(operation, PatchOperation::Remove(_)));
    Some(removing.collect())
}

/// As many whole GPUs that nobody shares as the container has ranks.
fn whole_gpus(trial: Trial<'_>, claim: &Claim) -> Option<Fix> {
    let Trial {
        question,
        demand,
        survey,
        passes,
    } = trial;
    let offers = survey
        .offers()
        .into_iter()
        .filter(|offer| offer.profile.is_none());
    offers.take(MOST_TRIED).find_map(|offer| {
        let slots = claim.ranks();
        let (changed, patch) = alone(question, demand, claim, &offer.resource, slots)?;
        let outcome = passes(&Arc::new(changed));
        let title = format!(
            "ask for {slots} of {} instead of slices in container {}",
            offer.resource, claim.container
        );
        (outcome != Outcome::Refused).then(|| told(title, patch, outcome))
    })
}

/// One slice that holds the model with one rank: slots and parallel size have to be changed together.
fn one_larger(trial: Trial<'_>, claim: &Claim) -> Option<Fix> {
    let Trial {
        question,
        demand,
        survey,
        passes,
    } = trial;
    let [part] = claim.parts.as_slice() else {
        return None;
    };
    let load = part.load.as_ref()?;
    let edit = load.tensor_edit.as_ref()?;
    let one = Arc::new(load.with_tensor(1));
    if one.devices() != 1 {
        return None;
    }
    let at = question
        .workload
        .pointer(&format!("{}{}", claim.pointer, edit.pointer))?;
    let rewritten = written(edit, &at, "1")?;
    let offers = survey
        .offers()
        .into_iter()
        .filter(|offer| offer.profile.is_some());
    offers.take(MOST_TRIED).find_map(|offer| {
        let (mut changed, mut patch) = alone(question, demand, claim, &offer.resource, 1)?;
        for part in changed
            .claims
            .iter_mut()
            .filter(|other| other.pointer == claim.pointer)
            .flat_map(|other| &mut other.parts)
        {
            part.tensor = 1;
            part.ranks = 1;
            part.load = Some(one.clone());
        }
        patch.insert(0, rewritten.clone());
        let outcome = passes(&Arc::new(changed));
        let title = format!(
            "ask for 1 of {} in container {} and set its tensor parallel size to 1",
            offer.resource, claim.container
        );
        // That it is doubtful is no advice: the user has it on several devices for a reason.
        (outcome == Outcome::Passes).then(|| told(title, patch, outcome))
    })
}

/// The container asking for so many slots of one resource and of no other.
fn alone(
    question: &Question,
    demand: &Demand,
    claim: &Claim,
    resource: &Arc<str>,
    slots: u32,
) -> Option<(Demand, Vec<PatchOperation>)> {
    let others: Vec<&Claim> = demand
        .claims
        .iter()
        .filter(|other| other.pointer == claim.pointer && other.resource != claim.resource)
        .collect();
    let mut patch = Vec::new();
    for other in others {
        patch.extend(removed(question, other)?);
    }
    patch.extend(slots_patch(question, claim, resource, slots)?);
    let mut changed = demand.clone();
    changed
        .claims
        .retain(|other| other.pointer != claim.pointer || other.resource == claim.resource);
    for other in &mut changed.claims {
        if other.pointer == claim.pointer {
            other.resource = resource.clone();
            other.slots = slots;
        }
    }
    Some((changed, patch))
}
