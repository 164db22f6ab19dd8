//! The words of VG301, VG701 and VG702.

use super::Judged;
use super::remedy::Remedies;
use crate::finding::short;
use crate::footprint::{Answer, Interval};
use crate::model::{Confidence, Format};
use crate::units::Mib;

/// The first line: who, what, the numbers, what would fit.
pub(super) fn sentence(judged: &Judged<'_>, remedies: &Remedies) -> String {
    let container = short(&judged.claim.container);
    let model = model(judged);
    let estimate = &judged.estimate;
    let budget = estimate.budget_mib();
    let resource = &judged.pool.resource;
    let total = judged.plan.device.total;
    let place = match &judged.plan.fraction {
        Some(fraction) => format!("{fraction} of {resource} ({} of {total})", budget.get()),
        None => format!("{resource} ({total})"),
    };
    let request = if judged.load.stated_cache() > 0 {
        "the cache as stated".to_owned()
    } else {
        format!("one request of {} tokens", estimate.length)
    };
    let what = match judged.answer {
        Answer::DoesNotFit if judged.leaves_nothing() => {
            let weights = estimate.part("weights").unwrap_or_default().lower_mib();
            if weights > budget {
                format!("{model} has weights of at least {weights}, more than {place}")
            } else {
                let missing = u64::try_from(-estimate.pool.upper).unwrap_or(0);
                let taken = budget.plus(Mib::from_bytes_up(missing));
                format!("{model} takes at least {taken} without any cache, more than {place}")
            }
        }
        Answer::DoesNotFit => format!(
            "{model} leaves at most {} for its cache in {place}, and {request} needs {}",
            left(estimate.pool.upper),
            judged.asked().lower_mib()
        ),
        // What is doubtful is only ever a warning, of which clients see the beginning.
        Answer::Doubtful | Answer::Fits => format!(
            "{model} may not start: {request} needs {}, {} to {} are left",
            judged.asked().expected_mib(),
            left(judged.most().pool.lower).get(),
            left(estimate.pool.upper),
        ),
    };
    if judged.answer == Answer::Doubtful {
        let remedy = remedy(judged, remedies).map_or_else(String::new, |remedy| format!("; {remedy}"));
        return format!("container {container}: {what}{remedy}; it has {place}");
    }
    match remedy(judged, remedies) {
        Some(remedy) => format!("container {container}: {what}; {remedy}"),
        None => format!("container {container}: {what}"),
    }
}

/// What would fit, the smallest change first.
fn remedy(judged: &Judged<'_>, remedies: &Remedies) -> Option<String> {
    let shared = judged.pool.sharing.is_shared();
    if let Some(sequences) = remedies.sequences {
        return Some(format!("with --max-num-seqs {sequences} it fits"));
    }
    if let Some(length) = remedies.length {
        return Some(format!("{length} tokens fit"));
    }
    if let Some(fraction) = &remedies.fraction {
        return Some(if shared {
            format!("it wants {fraction} of the device")
        } else {
            format!("a fraction of {fraction} fits")
        });
    }
    match remedies.offered.as_deref() {
        Some(offered @ [_, ..]) => return Some(format!("{} holds it", profiles(offered))),
        Some([]) if !remedies.profiles.is_empty() => {
            return Some(format!(
                "{} holds it, and no node offers that",
                profiles(&remedies.profiles)
            ));
        }
        Some([]) | None if !remedies.profiles.is_empty() => {
            return Some(format!("{} holds it", profiles(&remedies.profiles)));
        }
        Some([]) | None => {}
    }
    if let Some(tensor) = remedies.tensor {
        return Some(format!("tensor parallel {tensor} holds it"));
    }
    let product = remedies.product.as_ref()?;
    Some(format!("the smallest device that holds it is {product}"))
}

fn profiles(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("mig-{name}")).collect();
    names.join(" or ")
}

/// The model with its format.
fn model(judged: &Judged<'_>) -> String {
    let name = short(judged.load.name());
    if judged.widest.is_some() {
        // The policy states the weights, not their format.
        return name;
    }
    let format = match judged.load.format() {
        Format::Float16 | Format::GgufF16 => "16-bit",
        Format::Float32 => "32-bit",
        other => other.as_str(),
    };
    format!("{name} ({format})")
}

fn left(bytes: i128) -> Mib {
    Mib::from_bytes_down(u64::try_from(bytes).unwrap_or(0))
}

fn span(bytes: Interval) -> String {
    let (lower, upper) = (bytes.lower_mib(), bytes.upper_mib());
    if lower == upper {
        upper.to_string()
    } else {
        format!("{} to {upper}", lower.get())
    }
}

/// The parts, how the model was found, and everything else that would fit.
pub(super) fn details(judged: &Judged<'_>, remedies: &Remedies) -> Vec<String> {
    let estimate = &judged.estimate;
    let parts: Vec<String> = estimate
        .parts
        .iter()
        .map(|part| format!("{} {}", part.name, span(part.bytes)))
        .collect();
    let each = match judged.load.devices() {
        0 | 1 => String::new(),
        devices => format!(" on each of {devices} devices"),
    };
    let left_over = if estimate.pool.upper <= 0 {
        "nothing".to_owned()
    } else {
        let least = left(judged.most().pool.lower);
        format!("{} to {}", least.get(), left(estimate.pool.upper))
    };
    let cache = if judged.load.stated_cache() > 0 {
        format!(", and {} are stated", judged.asked().lower_mib())
    } else if estimate.need.upper() == 0 {
        String::new()
    } else {
        format!(
            ", in which {} tokens take {}",
            estimate.length,
            span(estimate.need)
        )
    };
    let mut details = vec![
        format!(
            "of {}{each}: {}; that leaves {left_over} for the cache{cache}",
            estimate.budget_mib(),
            parts.join(", "),
        ),
        found(judged),
    ];
    let fitting = fitting(judged, remedies);
    if !fitting.is_empty() {
        details.push(format!("what fits: {}", fitting.join("; ")));
    }
    match judged.answer {
        Answer::Doubtful => details.push(
            "between the lower and the upper estimate nothing is refused: the engine may start".to_owned(),
        ),
        Answer::DoesNotFit if !judged.load.way().is_certain() => {
            details.push("which model it is, or its shape, is not certain, so nothing is refused".to_owned());
        }
        Answer::DoesNotFit | Answer::Fits => {}
    }
    details
}

fn found(judged: &Judged<'_>) -> String {
    let confidence = match judged.load.confidence() {
        Confidence::Unverified => "unverified",
        Confidence::Partly => "verified in part",
        Confidence::Verified => "verified",
    };
    let way = judged.load.way();
    format!("the model was found {way}; its facts are {confidence}")
}

fn fitting(judged: &Judged<'_>, remedies: &Remedies) -> Vec<String> {
    let mut fitting = Vec::new();
    if let Some(sequences) = remedies.sequences {
        fitting.push(format!("--max-num-seqs {sequences}"));
    }
    if let Some(length) = remedies.length {
        fitting.push(format!("a context of {length} tokens"));
    }
    if let Some(fraction) = &remedies.fraction {
        let shared = judged.pool.sharing.is_shared();
        let room = if shared { ", where the budget has room" } else { "" };
        fitting.push(format!("a fraction of at least {fraction}{room}"));
    }
    let smallest = &remedies.profiles;
    match remedies.offered.as_deref() {
        Some(offered @ [_, ..]) => {
            let other = if smallest.is_empty() || smallest.iter().all(|name| offered.contains(name)) {
                String::new()
            } else {
                format!("; the smallest of its product is {}", profiles(smallest))
            };
            fitting.push(format!(
                "a slice of {}, which a node offers{other}",
                profiles(offered)
            ));
        }
        Some([]) if !smallest.is_empty() => fitting.push(format!(
            "a slice of {}, into which such a GPU can be cut",
            profiles(smallest)
        )),
        _ if !smallest.is_empty() => fitting.push(format!("a slice of {}", profiles(smallest))),
        _ => {}
    }
    if let Some(tensor) = remedies.tensor {
        fitting.push(format!("tensor parallel {tensor} over as many such devices"));
    }
    if let Some(product) = &remedies.product {
        fitting.push(format!("a whole {product}"));
    }
    fitting
}
