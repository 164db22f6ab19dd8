//! What a GPU can be cut into.

use std::collections::BTreeMap;

use super::name::{Attribute, ProfileName, of_eighths};
use crate::device::catalogue;
use crate::units::Mib;

/// Where a geometry's facts come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Basis {
    /// The catalogue, with placements that were seen of this product.
    Seen,
    /// The catalogue, with placements of a product of the same layout.
    SameLayout,
    /// Derived from the total alone, as a GPU of seven slices.
    Derived,
}

/// A profile of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: ProfileName,
    /// The GPU instance profile's number in `nvidia-smi`, where it is known.
    pub id: Option<u32>,
    /// Memory of an instance, the lowest known; `None` where nothing tells it.
    pub memory: Option<Mib>,
    /// Whether the memory was seen, not estimated.
    pub observed: bool,
    /// Compute slices of an instance.
    pub compute_slices: u32,
    /// Most instances on one GPU.
    pub max_count: u32,
    /// Units at which an instance can begin, ascending.
    pub starts: Vec<u32>,
    /// Units that an instance takes.
    pub size: u32,
}

/// What a GPU can be cut into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The product: its id in the catalogue, or as it was named.
    pub product: String,
    /// Compute slices of the GPU.
    pub compute_slices: u32,
    /// Units of memory, the axis of placements.
    pub units: u32,
    /// Most instances at once.
    pub max_instances: u32,
    /// Where these facts come from.
    pub basis: Basis,
    /// PCI device ids (`0x2330`); empty where none is known.
    pub device_ids: Vec<String>,
    /// Profiles, the smallest first.
    pub profiles: Vec<Profile>,
    /// Names that some drivers gave to a profile.
    aliases: BTreeMap<String, String>,
}

/// The profiles of a GPU of seven slices and eight units: slices, eighths in the name, most instances, starts, size, id.
/// Source: `nvidia-smi mig -lgip` and `-lgipp` of A100 and H100; every data-centre GPU since has the same.
type Row = (u32, Attribute, u32, &'static [u32], u32, u32);
const SEVEN_SLICES: [Row; 7] = [
    (1, Attribute::Plain, 7, &[0, 1, 2, 3, 4, 5, 6], 1, 19),
    (1, Attribute::Media, 1, &[0, 1, 2, 3, 4, 5, 6], 1, 20),
    (1, Attribute::Plain, 4, &[0, 2, 4, 6], 2, 15),
    (2, Attribute::Plain, 3, &[0, 2, 4], 2, 14),
    (3, Attribute::Plain, 2, &[0, 4], 4, 9),
    (4, Attribute::Plain, 1, &[0], 4, 5),
    (7, Attribute::Plain, 1, &[0], 8, 0),
];

impl Geometry {
    /// The geometry of a product of the catalogue; `None` where the product has no MIG.
    #[must_use]
    pub fn of(product: &catalogue::Product) -> Option<Self> {
        let mig = product.mig.as_ref()?;
        let profiles = mig.profiles.iter().filter_map(|profile| {
            Some(Profile {
                // A test proves that every name of the catalogue can be read.
                name: ProfileName::parse(&profile.name)?,
                id: profile.id,
                memory: Some(profile.memory),
                observed: profile.observed,
                compute_slices: profile.compute_slices,
                max_count: profile.max_count,
                starts: profile.starts.clone(),
                size: profile.size,
            })
        });
        Some(Self {
            product: product.id.clone(),
            compute_slices: mig.compute_slices,
            units: mig.memory_slices,
            max_instances: mig.max_instances,
            basis: if mig.placements_seen {
                Basis::Seen
            } else {
                Basis::SameLayout
            },
            device_ids: mig.device_ids.clone(),
            profiles: profiles.collect(),
            aliases: mig.aliases.clone(),
        })
    }

    /// The geometry of a GPU that the catalogue does not know, from its total alone: the names follow from the naming
    /// formula, and the layout is taken to be that of every data-centre GPU so far. The memory of instances is unknown.
    #[must_use]
    pub fn derived(product: &str, total: Mib) -> Self {
        let profiles = SEVEN_SLICES
            .iter()
            .filter_map(|(slices, attribute, most, starts, size, id)| {
                Some(Profile {
                    name: ProfileName {
                        compute: None,
                        slices: *slices,
                        gigabytes: u32::try_from(of_eighths(u64::from(*size), total)).ok()?,
                        attribute: *attribute,
                    },
                    id: Some(*id),
                    memory: None,
                    observed: false,
                    compute_slices: *slices,
                    max_count: *most,
                    starts: starts.to_vec(),
                    size: *size,
                })
            });
        Self {
            product: product.to_owned(),
            compute_slices: 7,
            units: 8,
            max_instances: 7,
            basis: Basis::Derived,
            device_ids: Vec::new(),
            profiles: profiles.collect(),
            aliases: BTreeMap::new(),
        }
    }

    /// A profile whose name tells no gigabyte, where there is one: no GPU that can be cut has so little memory.
    #[must_use]
    pub fn nameless(&self) -> Option<&ProfileName> {
        let mut names = self.profiles.iter().map(|profile| &profile.name);
        names.find(|name| name.gigabytes == 0)
    }

    /// A profile by its name, in either spelling, or by a name that some drivers gave it.
    #[must_use]
    pub fn profile(&self, name: &str) -> Option<&Profile> {
        self.index(name).and_then(|index| self.profiles.get(index))
    }

    /// The place of a profile in [`Geometry::profiles`].
    pub(super) fn index(&self, name: &str) -> Option<usize> {
        let name = self.aliases.get(name).map_or(name, String::as_str);
        let name = ProfileName::parse(name)?;
        self.profiles.iter().position(|profile| profile.name == name)
    }

    /// Profiles without an attribute whose instances hold so much, the smallest first. Where the memory is unknown, it is
    /// not said to hold anything.
    #[must_use]
    pub fn profiles_that_hold(&self, need: Mib) -> Vec<&Profile> {
        let mut holding: Vec<&Profile> = self
            .profiles
            .iter()
            .filter(|profile| profile.name.attribute == Attribute::Plain)
            .filter(|profile| profile.memory.is_some_and(|memory| memory >= need))
            .collect();
        holding.sort_by_key(|profile| (profile.memory, profile.compute_slices));
        holding
    }

    /// Every valid geometry, as the count of each profile in the order of [`Geometry::profiles`]; the empty one is not
    /// among them.
    #[must_use]
    pub fn every(&self) -> Vec<Vec<u32>> {
        let mut found = Vec::new();
        let mut counts = vec![0; self.profiles.len()];
        self.grow(&mut counts, 0, &mut found);
        found
    }

    fn grow(&self, counts: &mut Vec<u32>, from: usize, found: &mut Vec<Vec<u32>>) {
        for index in from..counts.len() {
            counts[index] += 1;
            // A set that cannot be placed cannot be placed with one more either.
            if self.layout(counts).is_ok() {
                found.push(counts.clone());
                self.grow(counts, index, found);
            }
            counts[index] -= 1;
        }
    }
}
