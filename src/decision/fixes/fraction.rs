//! The largest fraction with which an object passes.

use std::sync::Arc;

use json_patch::PatchOperation;

use super::{AllPass, Changeable, Outcome, fit, told, written};
use crate::decision::Question;
use crate::demand::{Amount, Demand};
use crate::engine::OptionEdit;
use crate::finding::{Code, Fix};
use crate::units::{Fraction, Share};

/// Fractions are proposed in steps of a thousandth.
const STEP_PPM: u32 = 1_000;
/// A smaller part of a device is no use to any engine, so it is not proposed.
const LEAST_USEFUL: Share = Share::from_ppm(20_000);

/// One text of the object that holds a fraction, written anew.
struct Rewrite {
    container: String,
    /// JSON pointer below the pod.
    pointer: String,
    edit: OptionEdit,
    /// Whether somebody had chosen the fraction that it replaces.
    chosen: bool,
}

/// The demand with every fraction above `most` brought down to it, and what would be written for that. `None` where two
/// engines stand in the same text.
fn capped(demand: &Demand, most: &Fraction) -> Option<(Demand, Vec<Rewrite>)> {
    let mut changed = demand.clone();
    let mut rewrites: Vec<Rewrite> = Vec::new();
    let mut answered = Vec::new();
    for claim in &mut changed.claims {
        for part in &mut claim.parts {
            let chosen = match &part.amount {
                Amount::OfTotal { fraction, by_default } => {
                    if !by_default && fraction.share() <= most.share() {
                        continue;
                    }
                    !by_default
                }
                Amount::Unknown {
                    code: Code::Vg101 | Code::Vg102,
                    ..
                } => false,
                Amount::Unknown { .. }
                | Amount::Absolute(_)
                | Amount::Estimated { .. }
                | Amount::Uncapped { .. } => continue,
            };
            let Some(edit) = part.edit.clone() else { continue };
            part.amount = Amount::OfTotal {
                fraction: most.clone(),
                by_default: false,
            };
            answered.push(part.path.clone());
            let pointer = format!("{}{}", claim.pointer, edit.pointer);
            match rewrites.iter().find(|other| other.pointer == pointer) {
                // A container that asks for two resources stands here twice.
                Some(same) if same.edit == edit => {}
                Some(_) => return None,
                None => rewrites.push(Rewrite {
                    container: claim.container.clone(),
                    pointer,
                    edit,
                    chosen,
                }),
            }
        }
    }
    changed
        .findings
        .retain(|finding| finding.code != Code::Vg101 || !answered.contains(&finding.path));
    Some((changed, rewrites))
}

/// A demand without a fraction above `most`, and what is written for that; `None` where nothing would be.
pub(in crate::decision) fn with_fraction(
    question: &Question,
    demand: &Demand,
    most: &Fraction,
) -> Option<(Arc<Demand>, Vec<PatchOperation>)> {
    let (changed, rewrites) = capped(demand, most)?;
    let patch: Option<Vec<PatchOperation>> = rewrites
        .iter()
        .map(|rewrite| {
            let pointer = question.workload.pointer(&rewrite.pointer)?;
            written(&rewrite.edit, &pointer, most.text())
        })
        .collect();
    patch
        .filter(|patch| !patch.is_empty())
        .map(|patch| (Arc::new(changed), patch))
}

/// The same of a demand alone.
pub(in crate::decision) fn capped_demand(demand: &Demand, most: &Fraction) -> Option<Arc<Demand>> {
    capped(demand, most).map(|(changed, _)| Arc::new(changed))
}

/// The demands of all templates with their fractions capped, and what is written in each.
type AllCapped = (Vec<Arc<Demand>>, Vec<Vec<Rewrite>>);

/// The largest fraction, in thousandths and at most `most`, with which the object passes: no container of any of its
/// templates takes more.
pub(in crate::decision) fn largest_fraction(
    parts: &[Changeable<'_>],
    most: Share,
    passes: AllPass<'_>,
) -> Option<Fix> {
    let least = parts
        .iter()
        .map(|part| fit::least_fraction(part.demand, part.survey))
        .fold(Share::ZERO, Share::max);
    let written: Vec<(&Question, &Demand)> =
        parts.iter().map(|part| (part.question, &**part.demand)).collect();
    largest_between(&written, least, most, passes)
}

/// The same of templates with their demands, and with the least fraction with which the models may fit.
pub(in crate::decision) fn largest_between(
    parts: &[(&Question, &Demand)],
    least: Share,
    most: Share,
    passes: AllPass<'_>,
) -> Option<Fix> {
    let at = |thousandths: u32| Fraction::from_ppm(thousandths * STEP_PPM);
    let all_capped = |fraction: &Fraction| -> Option<AllCapped> {
        let capped: Option<Vec<_>> = parts.iter().map(|(_, demand)| capped(demand, fraction)).collect();
        let (changed, rewrites): (Vec<_>, Vec<_>) = capped?.into_iter().unzip();
        let any = rewrites.iter().any(|rewrites| !rewrites.is_empty());
        any.then(|| (changed.into_iter().map(Arc::new).collect(), rewrites))
    };
    let outcome = |thousandths: u32| {
        at(thousandths)
            .and_then(|fraction| all_capped(&fraction))
            .map_or(Outcome::Refused, |(changed, _)| passes(&changed))
    };
    let fits = |thousandths: u32| !outcome(thousandths).is_refused();
    // From the least with which the models may fit, what passes at a fraction passes at any smaller one, so the border is
    // found by halving. Above the largest fraction of the object nothing would be written, and as it is it does not pass.
    let least = LEAST_USEFUL.max(least);
    let least = u32::try_from(least.ppm().div_ceil(u64::from(STEP_PPM))).unwrap_or(1);
    let (mut low, mut high) = (
        least,
        u32::try_from(most.ppm() / u64::from(STEP_PPM)).unwrap_or(1_000),
    );
    if low > high || !fits(low) {
        return None;
    }
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    let fraction = at(low)?;
    let (_, rewrites) = all_capped(&fraction)?;
    let mut patch = Vec::new();
    for ((question, _), rewrites) in parts.iter().zip(&rewrites) {
        for Rewrite { pointer, edit, .. } in rewrites {
            let pointer = question.workload.pointer(pointer)?;
            patch.push(written(edit, &pointer, fraction.text())?);
        }
    }
    let rewrites: Vec<&Rewrite> = rewrites.iter().flatten().collect();
    let verb = if rewrites.iter().all(|rewrite| rewrite.chosen) {
        "lower"
    } else {
        "set"
    };
    let title = match rewrites.as_slice() {
        [one] => format!(
            "{verb} the memory fraction of container {} to {fraction}",
            one.container
        ),
        several => {
            let mut names: Vec<&str> = Vec::new();
            for rewrite in several {
                if !names.contains(&rewrite.container.as_str()) {
                    names.push(&rewrite.container);
                }
            }
            let plural = if names.len() == 1 {
                "container"
            } else {
                "containers"
            };
            format!(
                "{verb} the memory fractions of {plural} {} to {fraction} each",
                names.join(", ")
            )
        }
    };
    Some(told(title, patch, outcome(low)))
}
