//! How the slots of a resource stand to its devices.

use std::num::NonZeroU32;

use super::configured::Configured;
use super::facts::Facts;
use crate::device::{DeviceKind, Sharing};
use crate::policy::MissingFacts;

/// What the node offers of a resource.
pub(super) struct Offer<'a> {
    /// Capacity; never zero.
    pub(super) slots: u32,
    pub(super) device: &'a DeviceKind,
    /// Whether the product label ends with `-SHARED`.
    pub(super) product_is_shared: bool,
    /// Most MPS clients of the product, where it is known.
    pub(super) mps_max_replicas: Option<u32>,
    /// The device plugin's configuration, where it was read.
    pub(super) configured: Option<Configured<'a>>,
}

/// The strategies of the label `sharing-strategy`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strategy {
    None,
    TimeSlicing,
    Mps,
}

/// Sharing and number of devices; `None` where nothing tells and the policy then uses no such resource.
pub(super) fn read(
    facts: &mut Facts<'_>,
    offer: &Offer<'_>,
    missing: MissingFacts,
) -> Option<(Sharing, u32)> {
    let strategy = strategy(facts);
    let replicas = replicas(facts);
    let count = facts
        .number("count")
        .and_then(|count| u32::try_from(count).ok())
        .filter(|count| *count > 0);
    if strategy.is_none()
        && replicas.is_none()
        && let Some(configured) = &offer.configured
        && let Some(told) = configured.instead_of_labels(facts, offer.slots, count)
    {
        return Some(told);
    }
    let names_sharing = offer.product_is_shared || facts.is_renamed();
    let shared_by_label = replicas.filter(|replicas| replicas.get() > 1);
    let sliced = match (strategy, shared_by_label) {
        (Some(Strategy::TimeSlicing | Strategy::Mps), Some(replicas)) => Some(replicas),
        (Some(Strategy::None) | None, Some(replicas)) => {
            facts.note(format!(
                "label {} is {replicas}, but {} does not say how they share; read as time-slicing",
                facts.label("replicas"),
                facts.label("sharing-strategy"),
            ));
            Some(replicas)
        }
        (Some(Strategy::TimeSlicing | Strategy::Mps), None) => Some(guessed(facts, offer, count)),
        (Some(Strategy::None) | None, None) if names_sharing => Some(guessed(facts, offer, count)),
        (Some(Strategy::None), None) => None,
        (None, None) if replicas.is_some() => None,
        // Capacity that is a multiple of the labelled GPUs tells as much as a label.
        (None, None) if offer.slots > count.unwrap_or(offer.slots) => Some(guessed(facts, offer, count)),
        (None, None) => return unlabelled(facts, offer, missing),
    };
    let Some(replicas) = sliced else {
        note_other_count(facts, offer.slots, count);
        return Some((Sharing::Exclusive, offer.slots));
    };
    let slots = replicas.get();
    let devices = (offer.slots / slots).max(1);
    if offer.slots.is_multiple_of(slots) {
        note_other_count(facts, devices, count);
    } else {
        facts.note(format!(
            "capacity {} of {} is not a multiple of label {} {slots}; read as {devices} devices",
            offer.slots,
            facts.resource,
            facts.label("replicas"),
        ));
    }
    Some((mode(facts, offer, strategy, replicas), devices))
}

fn strategy(facts: &mut Facts<'_>) -> Option<Strategy> {
    match facts.text("sharing-strategy")? {
        "none" => Some(Strategy::None),
        "time-slicing" => Some(Strategy::TimeSlicing),
        "mps" => Some(Strategy::Mps),
        other => {
            facts.note(format!(
                "label {} is {other:?}, not none, time-slicing or mps; it counts as missing",
                facts.label("sharing-strategy")
            ));
            None
        }
    }
}

/// Slots on one device. Zero means that no whole GPU is offered; capacity says otherwise here, so it tells nothing.
fn replicas(facts: &mut Facts<'_>) -> Option<NonZeroU32> {
    let number = facts.number("replicas")?;
    let replicas = u32::try_from(number).ok().and_then(NonZeroU32::new);
    if replicas.is_none() {
        facts.note(format!(
            "label {} is {number}, but {} has capacity; it counts as missing",
            facts.label("replicas"),
            facts.resource
        ));
    }
    replicas
}

/// Slots on one device where no label tells: by the number of devices, or else all of them on one, which promises least.
fn guessed(facts: &mut Facts<'_>, offer: &Offer<'_>, count: Option<u32>) -> NonZeroU32 {
    let devices = count
        .filter(|count| offer.slots.is_multiple_of(*count))
        .unwrap_or(1);
    let slots = NonZeroU32::new(offer.slots / devices).unwrap_or(NonZeroU32::MIN);
    facts.note(format!(
        "{} is shared, but label {} does not say how many slots a device has; capacity {} is read as {slots} on each of \
         {devices} devices",
        facts.resource,
        facts.label("replicas"),
        offer.slots,
    ));
    slots
}

fn unlabelled(facts: &mut Facts<'_>, offer: &Offer<'_>, missing: MissingFacts) -> Option<(Sharing, u32)> {
    let labels = format!(
        "labels {} and {} are missing",
        facts.label("sharing-strategy"),
        facts.label("replicas")
    );
    match missing {
        MissingFacts::Exclusive => {
            facts.note(format!(
                "{labels}: the {} slots of {} are read as whole devices; run GPU Feature Discovery, or set both labels",
                offer.slots, facts.resource
            ));
            Some((Sharing::Exclusive, offer.slots))
        }
        MissingFacts::Deny => {
            facts.note(format!(
                "{labels}, and the policy uses no {} without them; run GPU Feature Discovery, or set both labels",
                facts.resource
            ));
            None
        }
    }
}

fn mode(
    facts: &mut Facts<'_>,
    offer: &Offer<'_>,
    strategy: Option<Strategy>,
    replicas: NonZeroU32,
) -> Sharing {
    if strategy != Some(Strategy::Mps) {
        return Sharing::TimeSliced(replicas);
    }
    if matches!(offer.device, DeviceKind::Mig(_)) {
        facts.note(format!(
            "label {} is \"mps\", which the device plugin refuses on MIG devices; read as time-slicing, without a limit",
            facts.label("sharing-strategy")
        ));
        return Sharing::TimeSliced(replicas);
    }
    if let Some(most) = offer.mps_max_replicas.filter(|most| *most < replicas.get()) {
        facts.note(format!(
            "label {} is {replicas}, above the {most} MPS clients that the device plugin accepts for this product",
            facts.label("replicas")
        ));
    }
    Sharing::Mps(replicas)
}

/// Under the MIG strategy `mixed` the label counts GPUs that are cut up as well, so only more devices than it says are
/// strange there.
fn note_other_count(facts: &mut Facts<'_>, devices: u32, count: Option<u32>) {
    let Some(count) = count.filter(|count| *count != devices) else {
        return;
    };
    let label = facts.label("count");
    if devices > count {
        facts.note(format!(
            "label {label} is {count}, but capacity makes {devices} devices: the node may hold a second product, whose \
             memory no label tells, or its labels are old"
        ));
    } else if facts.profile().is_some()
        || facts
            .labels
            .get("nvidia.com/mig.strategy")
            .is_none_or(|mig| mig != "mixed")
    {
        facts.note(format!(
            "label {label} is {count}, but capacity makes only {devices} devices; {devices} are used"
        ));
    }
}
