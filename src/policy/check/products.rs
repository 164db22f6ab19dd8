//! Entries of `spec.device.products` that cannot be meant.

use std::collections::BTreeMap;

use super::{at, below, key};
use crate::device::catalogue::Mig;
use crate::policy::error::Complaints;
use crate::policy::spec::ProductEntry;
use crate::policy::tree::Step;
use crate::units::Mib;

/// Complains about every entry.
pub(super) fn check(products: &[ProductEntry], complaints: &mut Complaints<'_>) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (index, entry) in products.iter().enumerate() {
        let path = below(&at("spec.device.products"), Step::Item(index));
        match entry.product.as_deref().map(str::trim) {
            None => complaints.add_missing(
                &path,
                "has no product: write the value of the label nvidia.com/gpu.product",
            ),
            Some("") => complaints.add(&key(&path, "product"), "is empty: write the label's value"),
            Some(_) => {}
        }
        match entry.memory {
            None => complaints.add_missing(
                &path,
                "has no memoryMiB: write the total that nvidia-smi prints, in MiB",
            ),
            Some(memory) if memory.0 == Mib::ZERO => {
                complaints.add(&key(&path, "memoryMiB"), "is 0: a GPU has memory");
            }
            Some(memory) => {
                if let Some(mig) = &entry.mig {
                    check_mig(mig, memory.0, &key(&path, "mig"), complaints);
                }
            }
        }
        if entry.mps_max_replicas == Some(0) {
            complaints.add(
                &key(&path, "mpsMaxReplicas"),
                "is 0: leave it out for 48, or write 16",
            );
        }
        for name in entry.product.iter().chain(entry.aliases.iter().flatten()) {
            let before = *seen.entry(name.trim().to_ascii_lowercase()).or_insert(index);
            if before != index {
                complaints.add(
                    &path,
                    format!(
                        "{name:?} is the name of spec.device.products[{before}] too: a product has one entry"
                    ),
                );
            }
        }
    }
}

fn check_mig(mig: &Mig, total: Mib, path: &[Step], complaints: &mut Complaints<'_>) {
    for (index, id) in mig.device_ids.iter().enumerate() {
        let digits = id
            .strip_prefix("0x")
            .filter(|digits| digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if digits.is_none() {
            complaints.add(
                &below(&key(path, "deviceIds"), Step::Item(index)),
                format!("{id:?} is no PCI device id such as 0x2330"),
            );
        }
    }
    for (index, profile) in mig.profiles.iter().enumerate() {
        let path = below(&key(path, "profiles"), Step::Item(index));
        let name = &profile.name;
        if profile.memory == Mib::ZERO || profile.memory >= total {
            complaints.add(
                &key(&path, "memoryMiB"),
                format!(
                    "is {} for {name:?}: an instance has some of the GPU's {} MiB",
                    profile.memory.get(),
                    total.get()
                ),
            );
        }
        let fits = |start: &u32| {
            start
                .checked_add(profile.size)
                .is_some_and(|end| end <= mig.memory_slices)
        };
        if profile.size == 0 || profile.starts.is_empty() || !profile.starts.iter().all(fits) {
            complaints.add(
                &path,
                format!(
                    "{name:?} has starts and size that do not lie within the {} units of memorySlices",
                    mig.memory_slices
                ),
            );
        }
        if profile.compute_slices > mig.compute_slices {
            complaints.add(
                &key(&path, "computeSlices"),
                format!(
                    "is {} for {name:?}, of a GPU with {}",
                    profile.compute_slices, mig.compute_slices
                ),
            );
        }
    }
}
