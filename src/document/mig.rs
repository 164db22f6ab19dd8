//! The documents of `vramgate mig plan`: its own, and the configuration that the MIG manager reads.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{API_VERSION, Kind};
use crate::finding::Finding;
use crate::mig::{Basis, Geometry, Layout, Spread};
use crate::units::Mib;

/// Whether profiles can stand together on GPUs of a product, and where.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MigPlan {
    api_version: &'static str,
    kind: Kind,
    /// The product: its id in the catalogue, or as it was named.
    pub product: String,
    /// Where its facts come from: `seen`, `same-layout` or `derived`; `null` without MIG.
    pub basis: Option<&'static str>,
    /// Whether there is a layout.
    pub valid: bool,
    /// What was asked.
    pub asked: BTreeMap<String, u32>,
    /// One layout for each GPU; empty where there is none.
    pub gpus: Vec<MigLayout>,
    /// Why there is none (VG304), and what is nearest.
    pub findings: Vec<Finding>,
}

/// The instances of one GPU, in the order in which they are to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MigLayout {
    /// The instances.
    pub instances: Vec<MigInstance>,
    /// Compute slices that are left.
    pub free_compute_slices: u32,
    /// Memory slices that are left.
    pub free_memory_slices: u32,
}

/// One instance in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MigInstance {
    /// Profile.
    pub profile: String,
    /// The extended resource under the MIG strategy `mixed`.
    pub resource: Option<String>,
    /// The profile's number in `nvidia-smi`, where it is known.
    pub id: Option<u32>,
    /// First memory slice.
    pub start: u32,
    /// Memory slices.
    pub size: u32,
    /// Compute slices.
    pub compute_slices: u32,
    /// Memory, the lowest known; `null` where nothing tells it.
    #[serde(rename = "memoryMiB")]
    pub memory: Option<Mib>,
}

impl MigPlan {
    /// The document of an answer.
    #[must_use]
    pub fn new(
        product: &str,
        geometry: Option<&Geometry>,
        asked: &[(String, u32)],
        answer: Result<&Spread, &Finding>,
    ) -> Self {
        let mut sums: BTreeMap<String, u32> = BTreeMap::new();
        for (name, count) in asked {
            let sum = sums.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
        Self {
            api_version: API_VERSION,
            kind: Kind::MigPlan,
            product: product.to_owned(),
            basis: geometry.map(|geometry| match geometry.basis {
                Basis::Seen => "seen",
                Basis::SameLayout => "same-layout",
                Basis::Derived => "derived",
            }),
            valid: answer.is_ok(),
            asked: sums,
            gpus: answer.map_or_else(
                |_| Vec::new(),
                |spread| spread.layouts.iter().map(MigLayout::new).collect(),
            ),
            findings: answer.err().cloned().into_iter().collect(),
        }
    }
}

impl MigLayout {
    fn new(layout: &Layout) -> Self {
        let instances = layout.instances.iter().map(|instance| MigInstance {
            profile: instance.name.to_string(),
            resource: instance.name.resource(),
            id: instance.id,
            start: instance.start,
            size: instance.size,
            compute_slices: instance.compute_slices,
            memory: instance.memory,
        });
        Self {
            instances: instances.collect(),
            free_compute_slices: layout.free_compute_slices,
            free_memory_slices: layout.free_units,
        }
    }
}

/// A configuration file of NVIDIA's MIG manager (mig-parted, version v1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct MigParted {
    version: &'static str,
    mig_configs: BTreeMap<String, Vec<MigPartedEntry>>,
}

/// What one kind of device in it becomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct MigPartedEntry {
    /// Device and vendor ids of the GPUs that are meant; all without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_filter: Option<Vec<String>>,
    /// `all`, or numbers of GPUs on the node.
    pub devices: Devices,
    /// MIG on or off.
    pub mig_enabled: bool,
    /// Counts by profile; none where MIG is off.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub mig_devices: BTreeMap<String, u32>,
}

/// Which GPUs of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Devices {
    /// `all`.
    All(&'static str),
    /// By number.
    Numbers(Vec<usize>),
}

/// NVIDIA's vendor id, as the MIG manager appends it to a device id.
const VENDOR: &str = "10DE";

impl MigParted {
    /// The configuration `name` with these layouts: one for all GPUs of the node, or one for each by its number.
    #[must_use]
    pub fn new(name: &str, geometry: &Geometry, spread: &Spread, device_filter: bool) -> Self {
        let filter: Vec<String> = geometry
            .device_ids
            .iter()
            .map(|id| format!("{id}{VENDOR}"))
            .collect();
        let filter = (device_filter && !filter.is_empty()).then_some(filter);
        let counts = |layout: &Layout| -> BTreeMap<String, u32> {
            let counts = layout.counts().into_iter();
            counts.map(|(name, count)| (name.to_string(), count)).collect()
        };
        let mut groups: Vec<(BTreeMap<String, u32>, Vec<usize>)> = Vec::new();
        for (number, layout) in spread.layouts.iter().enumerate() {
            let counts = counts(layout);
            match groups.iter_mut().find(|(other, _)| *other == counts) {
                Some((_, numbers)) => numbers.push(number),
                None => groups.push((counts, vec![number])),
            }
        }
        let alone = spread.layouts.len() == 1;
        let entries = groups.into_iter().map(|(mig_devices, numbers)| MigPartedEntry {
            device_filter: filter.clone(),
            devices: if alone {
                Devices::All("all")
            } else {
                Devices::Numbers(numbers)
            },
            mig_enabled: true,
            mig_devices,
        });
        Self {
            version: "v1",
            mig_configs: BTreeMap::from([(name.to_owned(), entries.collect())]),
        }
    }

    /// The same with the configuration that the GPU Operator gives to GPUs whose node names none (`all-disabled`, the default of
    /// `migManager.config.default`).
    #[must_use]
    pub fn with_all_disabled(mut self) -> Self {
        let off = MigPartedEntry {
            device_filter: None,
            devices: Devices::All("all"),
            mig_enabled: false,
            mig_devices: BTreeMap::new(),
        };
        self.mig_configs
            .entry("all-disabled".to_owned())
            .or_insert_with(|| vec![off]);
        self
    }
}
