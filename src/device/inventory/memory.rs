//! The total of a device: from its label, then from the catalogue, never from a name.

use super::facts::Facts;
use super::mig::INVALID;
use crate::device::catalogue::Product;
use crate::device::{DeviceKind, MOST};
use crate::units::Mib;

/// The total of each device of a resource; `None` where nothing tells it. What does not come from a label is noted.
pub(super) fn total(
    facts: &mut Facts<'_>,
    device: &DeviceKind,
    product: &str,
    known: Option<&Product>,
) -> Option<Mib> {
    let expected = known.and_then(|known| expected(device, known));
    let label = facts.label("memory");
    // Discovery writes no zero except beside profiles that it calls INVALID.
    let labelled = facts.number("memory").filter(|total| *total > 0).map(Mib::new);
    let beyond = labelled.filter(|total| *total > MOST);
    if let Some(total) = beyond {
        facts.note(format!(
            "label {label} is {}, more than the {} MiB of any device; it counts as missing",
            total.get(),
            MOST.get()
        ));
    }
    if let Some(total) = labelled.filter(|_| beyond.is_none()) {
        if let Some(Expected { lowest, highest, .. }) = expected
            && !is_near(total, lowest, highest)
        {
            facts.note(format!(
                "label {label} is {}, but {} has {} MiB; the label is used",
                total.get(),
                name(device, product),
                if lowest == highest {
                    lowest.get().to_string()
                } else {
                    format!("{} to {}", lowest.get(), highest.get())
                },
            ));
        }
        return Some(total);
    }
    if matches!(device, DeviceKind::Mig(profile) if **profile == *INVALID) {
        facts.note(format!(
            "label nvidia.com/gpu.product ends with -MIG-{INVALID}: the GPUs of the node are cut in different ways, which the \
             MIG strategy single does not offer, so the memory of its devices is unknown; cut them alike, or use the \
             strategy mixed"
        ));
        return None;
    }
    let is = if beyond.is_some() {
        "cannot be true"
    } else {
        "is missing"
    };
    let Some(Expected { lowest, .. }) = expected else {
        facts.note(format!(
            "label {label} {is} and {} is not in the catalogue: the memory of its devices is unknown; write the \
             MiB that nvidia-smi prints into that label",
            name(device, product)
        ));
        return None;
    };
    facts.note(format!(
        "label {label} {is}: {} is taken to have {lowest}, the lowest known for it",
        name(device, product)
    ));
    Some(lowest)
}

/// What the catalogue says of a device.
#[derive(Clone, Copy)]
struct Expected {
    lowest: Mib,
    highest: Mib,
}

fn expected(device: &DeviceKind, known: &Product) -> Option<Expected> {
    match device {
        DeviceKind::Gpu => Some(Expected {
            lowest: known.lowest_memory(),
            highest: known.highest_memory(),
        }),
        DeviceKind::Mig(profile) => known.profile(profile).map(|profile| Expected {
            lowest: profile.memory,
            highest: profile.highest_memory(),
        }),
    }
}

/// Whether a total is within a tenth of what is known: drivers differ by less, a total that somebody divided by the
/// number of slots by more.
fn is_near(total: Mib, lowest: Mib, highest: Mib) -> bool {
    total.times(10) >= lowest.times(9) && total.times(10) <= highest.times(11)
}

fn name(device: &DeviceKind, product: &str) -> String {
    let product = if product.is_empty() {
        "a GPU without label nvidia.com/gpu.product"
    } else {
        product
    };
    match device {
        DeviceKind::Gpu => product.to_owned(),
        DeviceKind::Mig(profile) => format!("MIG profile {profile} of {product}"),
    }
}
