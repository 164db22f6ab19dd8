//! Why no change of an object is proposed.

use super::{Changeable, fit};
use crate::demand::{Amount, Part};
use crate::engine::OptionEdit;
use crate::finding::{Code, Finding, Number};
use crate::units::Share;

/// What would help without a change of the object, where others hold the device.
const OTHERWISE: &str = "; it passes when a holder ends or asks for less, or with another such device";

/// Codes of which the text would else leave open whether a change was looked for.
const CODES: [Code; 10] = [
    Code::Vg106,
    Code::Vg202,
    Code::Vg205,
    Code::Vg206,
    Code::Vg207,
    Code::Vg301,
    Code::Vg401,
    Code::Vg701,
    Code::Vg702,
    Code::Vg703,
];

/// Says that nothing was found, and why; `None` where the finding says by itself what to do.
pub(super) fn sentence(parts: &[Changeable<'_>], first: &Finding) -> Option<String> {
    if first.code == Code::Vg201 {
        let otherwise = if first.holders.is_empty() { "" } else { OTHERWISE };
        return Some(format!(
            "no change of this object alone was found that passes: {}{otherwise}",
            about_amounts(parts, first)
        ));
    }
    CODES.contains(&first.code).then(|| {
        "no change of this object alone was found that passes, and no other node of the cluster takes it as it is".to_owned()
    })
}

/// What keeps a smaller fraction from being proposed.
fn about_amounts(parts: &[Changeable<'_>], first: &Finding) -> String {
    let nothing_left = first.numbers.get("leftFraction") == Some(&Number::Share(Share::ZERO));
    if nothing_left {
        return "nothing of the device is left for any fraction".to_owned();
    }
    let engines: Vec<&Part> = parts
        .iter()
        .flat_map(|part| &part.demand.claims)
        .flat_map(|claim| &claim.parts)
        .collect();
    let is_fraction = |part: &&&Part| matches!(part.amount, Amount::OfTotal { .. });
    let fractions: Vec<&&Part> = engines.iter().filter(is_fraction).collect();
    if fractions.is_empty() {
        return "what it takes is no fraction that could be lowered".to_owned();
    }
    if fractions.iter().any(|part| part.edit.is_none()) {
        return "a fraction of it stands in no field of this object, so it has to be lowered where it stands"
            .to_owned();
    }
    if parts.iter().any(|part| stand_in_one_text(part)) {
        return "several engines stand in one text of the object, whose fractions have to be lowered by hand"
            .to_owned();
    }
    let least = parts
        .iter()
        .map(|part| fit::least_fraction(part.demand, part.survey))
        .fold(Share::ZERO, Share::max);
    if least > Share::ZERO {
        let thousandths = least.ppm().div_ceil(1_000).saturating_mul(1_000);
        return format!(
            "its model needs a fraction of at least {} to start, and no fraction from there on passes",
            Share::from_ppm(thousandths)
        );
    }
    if fractions.len() > 1 {
        return "no one fraction was found that fits when each of its engines has it".to_owned();
    }
    "no smaller fraction was found that passes".to_owned()
}

/// Whether two engines of a container have their fractions in one text: what is proposed is one edit of a text.
fn stand_in_one_text(part: &Changeable<'_>) -> bool {
    part.demand.claims.iter().any(|claim| {
        let edits: Vec<&OptionEdit> = claim.parts.iter().filter_map(|part| part.edit.as_ref()).collect();
        edits.iter().enumerate().any(|(index, edit)| {
            let mut before = edits.iter().take(index);
            before.any(|other| other.pointer == edit.pointer && other != edit)
        })
    })
}
