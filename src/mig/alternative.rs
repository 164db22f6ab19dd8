//! What would work instead of a geometry that does not.

use super::geometry::Geometry;
use super::name::Attribute;
use super::search::Layout;

/// Counts of profiles, and their value: instances, units and compute slices.
type Best = Option<(Vec<u32>, (u32, u32, u32))>;

impl Geometry {
    /// The layout with as many of the asked instances as one GPU can have, and of those the one with the most memory and
    /// compute; `None` where none of them can stand, or all can. Profiles that the GPU does not have are left out.
    #[must_use]
    pub fn without_some<'a>(&self, asked: impl IntoIterator<Item = (&'a str, u32)>) -> Option<Layout> {
        let asked = self.counts(asked);
        let mut best = None;
        let mut counts = vec![0; asked.len()];
        self.subsets(&asked, &mut counts, 0, &mut best);
        let (counts, _) = best?;
        let layout = self.layout(&counts).ok()?;
        (counts != asked).then_some(layout)
    }

    /// The layout with one instance of a profile and as many as possible of those that are there now; `None` where the GPU
    /// has no such profile.
    #[must_use]
    pub fn beside<'a>(&self, profile: &str, now: impl IntoIterator<Item = (&'a str, u32)>) -> Option<Layout> {
        let mut counts = vec![0; self.profiles.len()];
        let index = self.index(profile)?;
        counts[index] = 1;
        let mut wanted = self.counts(now);
        wanted[index] = wanted[index].max(1);
        let mut best = Some((counts.clone(), self.value(&counts)));
        self.subsets(&wanted, &mut counts, 0, &mut best);
        let (counts, _) = best?;
        self.layout(&counts).ok()
    }

    /// The layout in which one of the asked instances is replaced by a smaller profile, and of those the one with the most
    /// memory and compute; `None` where one replacement does not help.
    #[must_use]
    pub fn with_one_smaller<'a>(&self, asked: impl IntoIterator<Item = (&'a str, u32)>) -> Option<Layout> {
        let asked = self.counts(asked);
        let mut best: Option<(Layout, (u32, u32))> = None;
        for (from, count) in asked.iter().enumerate() {
            let Some(large) = self.profiles.get(from).filter(|_| *count > 0) else {
                continue;
            };
            for (to, small) in self.profiles.iter().enumerate() {
                let smaller = small.size <= large.size
                    && small.compute_slices <= large.compute_slices
                    && (small.size, small.compute_slices) != (large.size, large.compute_slices);
                let plain = matches!(small.name.attribute, Attribute::Plain)
                    || small.name.attribute == large.name.attribute;
                if !smaller || !plain {
                    continue;
                }
                let mut counts = asked.clone();
                counts[from] = counts[from].saturating_sub(1);
                counts[to] = counts[to].saturating_add(1);
                let Ok(layout) = self.layout(&counts) else {
                    continue;
                };
                // What is left of the GPU, so that less is better.
                let left = (layout.free_units, layout.free_compute_slices);
                if best.as_ref().is_none_or(|(_, best)| left < *best) {
                    best = Some((layout, left));
                }
            }
        }
        best.map(|(layout, _)| layout)
    }

    /// How often each profile is asked, without those that the GPU does not have.
    fn counts<'a>(&self, asked: impl IntoIterator<Item = (&'a str, u32)>) -> Vec<u32> {
        let mut counts = vec![0_u32; self.profiles.len()];
        for (name, count) in asked {
            if let Some(index) = self.index(name) {
                counts[index] = counts[index].saturating_add(count);
            }
        }
        counts
    }

    /// Tries every part of what is asked. Bounded, because what cannot stand is not made larger, and no GPU has more than
    /// a few instances.
    fn subsets(&self, asked: &[u32], counts: &mut Vec<u32>, from: usize, best: &mut Best) {
        for index in from..asked.len() {
            if counts[index] >= asked[index] {
                continue;
            }
            counts[index] += 1;
            if self.layout(counts).is_ok() {
                let value = self.value(counts);
                if best.as_ref().is_none_or(|(_, best)| value > *best) {
                    *best = Some((counts.clone(), value));
                }
                self.subsets(asked, counts, index, best);
            }
            counts[index] -= 1;
        }
    }

    /// Instances, units and compute slices of a geometry.
    pub(super) fn value(&self, counts: &[u32]) -> (u32, u32, u32) {
        let sum = |of: fn(&super::Profile) -> u32| {
            let each = self.profiles.iter().zip(counts);
            each.map(|(profile, count)| of(profile).saturating_mul(*count))
                .sum()
        };
        (
            sum(|_| 1),
            sum(|profile| profile.size),
            sum(|profile| profile.compute_slices),
        )
    }
}
