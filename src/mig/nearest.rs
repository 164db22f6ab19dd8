//! The profiles that somebody may have meant.

use super::geometry::{Geometry, Profile};
use super::name::{Attribute, ProfileName};

/// Profiles that are named at most.
const MOST: usize = 3;

impl Geometry {
    /// The real profiles nearest to a name that the GPU does not have, the nearest first and each of another size. Of
    /// profiles of one size the one is named with which a GPU loses the least compute; at the nearest size, the one with
    /// as many compute slices as were asked.
    #[must_use]
    pub fn nearest(&self, name: &str) -> Vec<&Profile> {
        let asked = asked(name);
        let attribute = asked.map_or(Attribute::Plain, |asked| asked.attribute);
        let with = |attribute: Attribute| -> Vec<&Profile> {
            let profiles = self.profiles.iter();
            profiles
                .filter(|profile| profile.name.attribute == attribute)
                .collect()
        };
        let mut profiles = with(attribute);
        if profiles.is_empty() {
            profiles = with(Attribute::Plain);
        }
        let distance =
            |profile: &Profile| asked.map_or(0, |asked| profile.name.gigabytes.abs_diff(asked.gigabytes));
        let closest = profiles.iter().map(|profile| distance(profile)).min();
        profiles.sort_by_key(|profile| {
            let same = asked.is_some_and(|asked| asked.slices == profile.name.slices)
                && Some(distance(profile)) == closest;
            let compute = profile.compute_slices.saturating_mul(profile.max_count);
            (
                distance(profile),
                profile.name.gigabytes,
                !same,
                std::cmp::Reverse(compute),
            )
        });
        profiles.dedup_by_key(|profile| profile.name.gigabytes);
        profiles.truncate(MOST);
        profiles
    }
}

/// What a name asks for, however it is spelt: its first two numbers.
fn asked(name: &str) -> Option<ProfileName> {
    let name = name.strip_prefix("nvidia.com/").unwrap_or(name);
    let name = name.strip_prefix("mig-").unwrap_or(name);
    if let Some(read) = ProfileName::parse(name) {
        return Some(read);
    }
    let mut numbers = name
        .split(|character: char| !character.is_ascii_digit())
        .filter(|digits| !digits.is_empty())
        .map(str::parse::<u32>);
    let (slices, gigabytes) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(ProfileName {
        compute: None,
        slices,
        gigabytes,
        attribute: Attribute::Plain,
    })
}
