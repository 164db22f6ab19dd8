//! The search for placements.

use std::fmt;

use super::geometry::{Geometry, Profile};
use super::impossible::{Impossible, Reason};
use super::name::{Attribute, ProfileName};
use crate::units::Mib;

/// A GPU instance in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Its profile.
    pub name: ProfileName,
    /// The profile's number in `nvidia-smi`, where it is known.
    pub id: Option<u32>,
    /// Its memory, the lowest known; `None` where nothing tells it.
    pub memory: Option<Mib>,
    /// Compute slices that it takes.
    pub compute_slices: u32,
    /// The first unit of its memory.
    pub start: u32,
    /// Units that it takes.
    pub size: u32,
}

/// Instances that stand together on one GPU, the largest first: in this order the driver, which gives each the next free
/// place, finds a place for all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The instances, in the order in which they are to be made.
    pub instances: Vec<Instance>,
    /// Compute slices that are left.
    pub free_compute_slices: u32,
    /// Units of memory that are left.
    pub free_units: u32,
}

impl Layout {
    /// How often each profile stands in it, the largest first.
    #[must_use]
    pub fn counts(&self) -> Vec<(ProfileName, u32)> {
        let mut counts: Vec<(ProfileName, u32)> = Vec::new();
        for instance in &self.instances {
            match counts.last_mut() {
                Some((name, count)) if *name == instance.name => *count += 1,
                _ => counts.push((instance.name, 1)),
            }
        }
        counts
    }
}

impl fmt::Display for Layout {
    /// `4g.40gb + 3 x 1g.10gb`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, count)) in self.counts().into_iter().enumerate() {
            if index > 0 {
                f.write_str(" + ")?;
            }
            if count > 1 {
                write!(f, "{count} x ")?;
            }
            name.fmt(f)?;
        }
        Ok(())
    }
}

impl Geometry {
    /// A layout of so many instances of each profile on one GPU. A profile may be named several times, in either spelling
    /// and by an old name; an order has no meaning.
    ///
    /// # Errors
    ///
    /// Every reason why no such layout exists.
    pub fn place<'a>(&self, asked: impl IntoIterator<Item = (&'a str, u32)>) -> Result<Layout, Impossible> {
        let counts = self.known_counts(asked)?;
        self.layout(&counts)
    }

    /// How often each profile is asked, in the order of [`Geometry::profiles`].
    pub(super) fn known_counts<'a>(
        &self,
        asked: impl IntoIterator<Item = (&'a str, u32)>,
    ) -> Result<Vec<u32>, Impossible> {
        let mut counts = vec![0_u32; self.profiles.len()];
        let mut reasons = Vec::new();
        for (name, count) in asked {
            match self.index(name) {
                Some(index) => counts[index] = counts[index].saturating_add(count),
                None => reasons.push(self.unknown(name)),
            }
        }
        if reasons.is_empty() {
            Ok(counts)
        } else {
            Err(Impossible { reasons })
        }
    }

    fn unknown(&self, name: &str) -> Reason {
        let compute_instance = ProfileName::parse(name).filter(|name| {
            name.compute.is_some() && self.profile(&name.gpu_instance().to_string()).is_some()
        });
        if let Some(inside) = compute_instance {
            return Reason::ComputeInstance { name: inside };
        }
        Reason::UnknownProfile {
            name: name.to_owned(),
            product: self.product.clone(),
            nearest: self.nearest(name).iter().map(|profile| profile.name).collect(),
        }
    }

    /// The same by the count of each profile.
    pub(super) fn layout(&self, counts: &[u32]) -> Result<Layout, Impossible> {
        let reasons = self.reasons(counts);
        if !reasons.is_empty() {
            return Err(Impossible { reasons });
        }
        // At most `max_instances` by now.
        let mut wanted: Vec<&Profile> = Vec::new();
        for (profile, count) in self.profiles.iter().zip(counts) {
            wanted.extend((0..*count).map(|_| profile));
        }
        wanted.sort_by_key(|profile| {
            (
                std::cmp::Reverse((profile.size, profile.compute_slices)),
                profile.name,
            )
        });
        let mut starts = Vec::new();
        if !self.search(&wanted, 0, &mut starts) {
            return Err(Impossible {
                reasons: vec![Reason::NoPlacement { units: self.units }],
            });
        }
        let taken: u32 = wanted.iter().map(|profile| profile.size).sum();
        let compute: u32 = wanted.iter().map(|profile| profile.compute_slices).sum();
        let instances = wanted.iter().zip(&starts).map(|(profile, start)| Instance {
            name: profile.name,
            id: profile.id,
            memory: profile.memory,
            compute_slices: profile.compute_slices,
            start: *start,
            size: profile.size,
        });
        Ok(Layout {
            instances: instances.collect(),
            free_compute_slices: self.compute_slices.saturating_sub(compute),
            free_units: self.units.saturating_sub(taken),
        })
    }

    /// What forbids a geometry whatever the placements.
    fn reasons(&self, counts: &[u32]) -> Vec<Reason> {
        let asked = || {
            let asked = self.profiles.iter().zip(counts);
            asked.filter(|(_, count)| **count > 0)
        };
        let sum = |of: fn(&Profile) -> u32| -> u64 {
            asked()
                .map(|(profile, count)| u64::from(of(profile)).saturating_mul(u64::from(*count)))
                .fold(0, u64::saturating_add)
        };
        let mut reasons = Vec::new();
        let media =
            |profile: &Profile| matches!(profile.name.attribute, Attribute::Media | Attribute::AllMedia);
        for (profile, count) in asked().filter(|(profile, count)| **count > profile.max_count) {
            reasons.push(Reason::TooMany {
                name: profile.name,
                asked: *count,
                most: profile.max_count,
            });
        }
        let with_media: Vec<ProfileName> = asked()
            .filter(|(profile, _)| media(profile))
            .map(|(profile, _)| profile.name)
            .collect();
        if with_media.len() > 1 {
            reasons.push(Reason::OneMedia { names: with_media });
        }
        let all_media = asked().find(|(profile, _)| profile.name.attribute == Attribute::AllMedia);
        let takes_media = asked()
            .find(|(profile, _)| matches!(profile.name.attribute, Attribute::Plain | Attribute::Graphics));
        if let (Some((all, _)), Some((other, _))) = (all_media, takes_media) {
            reasons.push(Reason::AllMediaTaken {
                all: all.name,
                other: other.name,
            });
        }
        let compute = sum(|profile| profile.compute_slices);
        if compute > u64::from(self.compute_slices) {
            reasons.push(Reason::Compute {
                asked: compute,
                has: self.compute_slices,
            });
        }
        let units = sum(|profile| profile.size);
        if units > u64::from(self.units) {
            reasons.push(Reason::Memory {
                asked: units,
                has: self.units,
            });
        }
        let instances = sum(|_| 1);
        if reasons.is_empty() && instances > u64::from(self.max_instances) {
            reasons.push(Reason::Instances {
                asked: instances,
                most: self.max_instances,
            });
        }
        reasons
    }

    /// Places the instances from the `starts.len()`-th on beside those that stand in `taken`.
    fn search(&self, wanted: &[&Profile], taken: u64, starts: &mut Vec<u32>) -> bool {
        let Some(profile) = wanted.get(starts.len()) else {
            return true;
        };
        // Instances of one profile are alike, so that only one order of them is tried.
        let twin = starts.len().checked_sub(1).filter(|before| {
            wanted
                .get(*before)
                .is_some_and(|before| before.name == profile.name)
        });
        let after = twin
            .and_then(|twin| starts.get(twin))
            .map(|start| self.rank(profile, *start));
        let mut tries = profile.starts.clone();
        tries.sort_by_key(|start| self.rank(profile, *start));
        for start in tries {
            let free = after.is_none_or(|after| self.rank(profile, start) > after);
            let Some(units) = units(start, profile.size).filter(|units| free && taken & units == 0) else {
                continue;
            };
            starts.push(start);
            if self.search(wanted, taken | units, starts) {
                return true;
            }
            starts.pop();
        }
        false
    }

    /// The order in which places are tried: a large instance first covers the last unit, at which no small one can stand
    /// on a GPU of seven slices, so that as much as possible stays usable.
    fn rank(&self, profile: &Profile, start: u32) -> (bool, u32) {
        let reach = |profile: &Profile, start: u32| start.saturating_add(profile.size) >= self.units;
        let smallest = self
            .profiles
            .iter()
            .map(|profile| profile.size)
            .min()
            .unwrap_or(1);
        let small_reach = self
            .profiles
            .iter()
            .filter(|profile| profile.size == smallest)
            .any(|profile| profile.starts.iter().any(|start| reach(profile, *start)));
        (small_reach || !reach(profile, start), start)
    }
}

/// The units of a placement as bits; `None` where they lie beyond what a GPU can have.
fn units(start: u32, size: u32) -> Option<u64> {
    let ones = 1_u64.checked_shl(size)?.checked_sub(1)?;
    (start.checked_add(size)? < u64::BITS).then(|| ones << start)
}
