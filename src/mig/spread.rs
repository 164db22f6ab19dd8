//! A set of profiles over several GPUs of one product.

use std::collections::BTreeSet;

use super::geometry::Geometry;
use super::impossible::Impossible;
use super::search::Layout;

/// GPUs of one plan at most.
const MOST_GPUS: u64 = 256;
/// Sets of profiles that are tried at most before what was found is taken for good.
const MOST_TRIES: usize = 20_000;

/// Layouts for several GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// One for each GPU.
    pub layouts: Vec<Layout>,
    /// Whether no smaller number of GPUs is possible; else the search was cut short.
    pub is_least: bool,
}

impl Geometry {
    /// What is asked over as few GPUs as possible.
    ///
    /// # Errors
    ///
    /// Why it stands on no number of GPUs: a profile that the product does not have. `Ok(None)` where it takes more than
    /// 256.
    pub fn spread<'a>(
        &self,
        asked: impl IntoIterator<Item = (&'a str, u32)>,
    ) -> Result<Option<Spread>, Impossible> {
        let asked = self.known_counts(asked)?;
        let least = self.at_least(&asked);
        if least > MOST_GPUS {
            return Ok(None);
        }
        let mut tries = 0;
        let mut found = self.one_by_one(asked.clone(), &mut tries);
        let mut is_least = true;
        // What is filled one by one may take a GPU too many.
        while let Some(sets) = found.as_ref().filter(|sets| sets.len() as u64 > least) {
            let fewer = sets.len().saturating_sub(1);
            let better = self.into(&asked, fewer, &mut BTreeSet::new(), &mut tries);
            if better.is_none() {
                is_least = tries < MOST_TRIES;
                break;
            }
            found = better;
        }
        let Some(sets) = found else { return Ok(None) };
        let mut layouts = Vec::with_capacity(sets.len());
        for set in &sets {
            layouts.push(self.layout(set)?);
        }
        Ok(Some(Spread { layouts, is_least }))
    }

    /// GPUs that it takes at least, by each sum alone: with fewer it is surely impossible.
    ///
    /// # Errors
    ///
    /// A profile that the product does not have.
    pub fn gpus_at_least<'a>(
        &self,
        asked: impl IntoIterator<Item = (&'a str, u32)>,
    ) -> Result<u64, Impossible> {
        Ok(self.at_least(&self.known_counts(asked)?))
    }

    fn at_least(&self, counts: &[u32]) -> u64 {
        let sum = |of: fn(&super::Profile) -> u32| -> u64 {
            let each = self.profiles.iter().zip(counts);
            each.map(|(profile, count)| u64::from(of(profile)).saturating_mul(u64::from(*count)))
                .fold(0, u64::saturating_add)
        };
        let over = |sum: u64, of: u32| sum.div_ceil(u64::from(of).max(1));
        let each = self.profiles.iter().zip(counts);
        let of_one = each
            .map(|(profile, count)| over(u64::from(*count), profile.max_count))
            .max();
        [
            over(sum(|profile| profile.size), self.units),
            over(sum(|profile| profile.compute_slices), self.compute_slices),
            over(sum(|_| 1), self.max_instances),
            of_one.unwrap_or(0),
        ]
        .into_iter()
        .max()
        .unwrap_or(0)
    }

    /// GPU by GPU, each as full as it can be.
    fn one_by_one(&self, mut left: Vec<u32>, tries: &mut usize) -> Option<Vec<Vec<u32>>> {
        let mut sets = Vec::new();
        while left.iter().any(|count| *count > 0) {
            let fill = |set: &Vec<u32>| {
                let (instances, units, compute) = self.value(set);
                (units, compute, std::cmp::Reverse(instances))
            };
            let fullest = self.full_sets(&left, tries).into_iter().max_by_key(fill)?;
            left = less(&left, &fullest);
            sets.push(fullest);
            if sets.len() as u64 > MOST_GPUS {
                return None;
            }
        }
        Some(sets)
    }

    /// Sets of what is left to which nothing of it can be added.
    fn full_sets(&self, left: &[u32], tries: &mut usize) -> Vec<Vec<u32>> {
        let mut found = Vec::new();
        let mut counts = vec![0; left.len()];
        self.fill(left, &mut counts, 0, &mut found, tries);
        found
    }

    fn fill(
        &self,
        left: &[u32],
        counts: &mut Vec<u32>,
        from: usize,
        found: &mut Vec<Vec<u32>>,
        tries: &mut usize,
    ) {
        let mut is_full = true;
        for index in 0..left.len() {
            if counts[index] >= left[index] {
                continue;
            }
            counts[index] += 1;
            *tries += 1;
            if self.layout(counts).is_ok() {
                is_full = false;
                if index >= from {
                    self.fill(left, counts, index, found, tries);
                }
            }
            counts[index] -= 1;
        }
        if is_full && counts.iter().any(|count| *count > 0) {
            found.push(counts.clone());
        }
    }

    /// Whether it stands on so many GPUs, and how. `hopeless` holds what is known not to.
    fn into(
        &self,
        left: &[u32],
        gpus: usize,
        hopeless: &mut BTreeSet<(usize, Vec<u32>)>,
        tries: &mut usize,
    ) -> Option<Vec<Vec<u32>>> {
        // The largest that is left has to stand somewhere, so it may as well stand on the next GPU.
        let largest = (0..left.len())
            .filter(|index| left[*index] > 0)
            .max_by_key(|index| (self.profiles[*index].size, self.profiles[*index].compute_slices));
        let Some(largest) = largest else {
            return Some(Vec::new());
        };
        let key = (gpus, left.to_vec());
        if self.at_least(left) > gpus as u64 || hopeless.contains(&key) || *tries >= MOST_TRIES {
            return None;
        }
        let sets = self.full_sets(left, tries);
        for set in sets.into_iter().filter(|set| set[largest] > 0) {
            if let Some(mut rest) = self.into(&less(left, &set), gpus.saturating_sub(1), hopeless, tries) {
                rest.insert(0, set);
                return Some(rest);
            }
        }
        hopeless.insert(key);
        None
    }
}

fn less(left: &[u32], set: &[u32]) -> Vec<u32> {
    let each = left.iter().zip(set);
    each.map(|(left, taken)| left.saturating_sub(*taken)).collect()
}
