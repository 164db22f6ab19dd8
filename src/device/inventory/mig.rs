//! What a node says of its MIG slices and cannot be so: notes for its administrator.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::device::catalogue::Catalogue;
use crate::device::{DeviceKind, FactNote, Pool};
use crate::mig::Geometry;

/// Label of the MIG strategy: `none`, `single` (slices under the name of the GPU) or `mixed` (a resource for each profile).
const STRATEGY: &str = "nvidia.com/mig.strategy";
/// Label of the number of GPUs; under the strategy `mixed` those that are cut up count as well.
const COUNT: &str = "nvidia.com/gpu.count";
/// What the product label says where the profiles differ under the strategy `single`.
pub(super) const INVALID: &str = "INVALID";
/// The catalogue's word for numbers that are not to be held against a node.
const UNSURE: &str = "low";

/// Notes about slices, each under the resource that it touches.
pub(super) fn note(
    labels: &BTreeMap<String, String>,
    pools: &[Pool],
    catalogue: &Catalogue,
    notes: &mut Vec<FactNote>,
) {
    let strategy = labels.get(STRATEGY).map_or("", |value| value.trim());
    let mut mixed: Vec<(&Pool, &str)> = Vec::new();
    for pool in pools {
        let DeviceKind::Mig(profile) = &pool.device else {
            continue;
        };
        let has_own_name = pool.resource.starts_with("nvidia.com/mig-");
        if has_own_name && matches!(strategy, "none" | "single") {
            notes.push(about(
                pool,
                format!(
                    "capacity offers {}, but label {STRATEGY} is {strategy}, under which no resource has that name: it may \
                     be a leftover of an earlier configuration",
                    pool.resource
                ),
            ));
        } else if !has_own_name && strategy == "none" {
            notes.push(about(
                pool,
                format!(
                    "label nvidia.com/gpu.product names the MIG profile {profile}, but label {STRATEGY} is none: the \
                     labels may be old"
                ),
            ));
        }
        if has_own_name {
            mixed.push((pool, profile));
        }
        notes.extend(unknown_profile(pool, profile, catalogue));
    }
    notes.extend(too_many(labels, &mixed, catalogue));
}

fn about(pool: &Pool, message: String) -> FactNote {
    FactNote {
        resource: Arc::clone(&pool.resource),
        message,
    }
}

/// A profile that the product does not have.
fn unknown_profile(pool: &Pool, profile: &str, catalogue: &Catalogue) -> Option<FactNote> {
    let product = catalogue.product(&pool.product)?;
    if profile == INVALID || product.confidence == UNSURE {
        return None;
    }
    let message = match Geometry::of(product) {
        None => format!("{} has no MIG, as far as the catalogue knows", pool.product),
        Some(geometry) if geometry.profile(profile).is_some() => return None,
        Some(geometry) => {
            let nearest: Vec<String> = geometry
                .nearest(profile)
                .iter()
                .map(|profile| profile.name.to_string())
                .collect();
            format!(
                "{} has no MIG profile {profile}, as far as the catalogue knows; the nearest are {}",
                pool.product,
                nearest.join(", ")
            )
        }
    };
    Some(about(pool, message))
}

/// More slices than so many GPUs can be cut into: some of the resources are of an earlier configuration.
fn too_many(
    labels: &BTreeMap<String, String>,
    slices: &[(&Pool, &str)],
    catalogue: &Catalogue,
) -> Option<FactNote> {
    let (first, _) = slices.first()?;
    let product = catalogue.product(&first.product)?;
    let gpus: u64 = labels
        .get(COUNT)?
        .trim()
        .parse()
        .ok()
        .filter(|count| *count > 0)?;
    let geometry = Geometry::of(product)?;
    let counts = slices.iter().map(|(pool, profile)| (*profile, pool.devices));
    let least = geometry.gpus_at_least(counts.clone()).ok()?;
    let on_one = gpus == 1 && geometry.place(counts).is_err();
    if least <= gpus && !on_one {
        return None;
    }
    let all: Vec<String> = slices
        .iter()
        .map(|(pool, profile)| format!("{} x {profile}", pool.devices))
        .collect();
    Some(about(
        first,
        format!(
            "capacity offers {} and label {COUNT} is {gpus}: that is more than {gpus} x {} can be cut into, so some slices \
             are a leftover of an earlier configuration, or the labels are old",
            all.join(" + "),
            first.product
        ),
    ))
}
