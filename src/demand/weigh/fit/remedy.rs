//! What would fit instead: another fraction, a shorter context, another slice, more devices.

use super::Judged;
use crate::device::catalogue::{Catalogue, Product};
use crate::engine::Engine;
use crate::footprint::inverse::{self, Surely};
use crate::footprint::{Answer, Device, Plan, estimate};
use crate::mig::ProfileName;
use crate::units::{Fraction, Mib};

/// Contexts are proposed in steps of so many tokens, and below the first in steps of the second.
const STEPS: (u64, u64) = (1_024, 16);
/// A shorter context is of no use.
const SHORTEST: u64 = 256;
/// Tensor parallel sizes that are tried.
const TENSOR: [u32; 4] = [2, 4, 8, 16];
/// Numbers of sequences that are tried; what is profiled for them is often what is missing.
const SEQUENCES: [u64; 6] = [512, 256, 128, 64, 32, 16];
/// Profiles that are named at most.
const MOST_NAMED: usize = 3;

/// Changes of which each alone fits without doubt.
#[derive(Debug, Default)]
pub(crate) struct Remedies {
    /// The longest context in tokens, rounded down.
    pub(crate) length: Option<u64>,
    /// The most sequences at once.
    pub(crate) sequences: Option<u64>,
    /// The smallest fraction that is larger than now.
    pub(crate) fraction: Option<Fraction>,
    /// The smallest MIG profiles of the product with the fraction as it is, all of one size.
    pub(crate) profiles: Vec<String>,
    /// The smallest MIG profiles with the fraction as it is that some node offers, all of one size; `None` where nobody
    /// looked.
    pub(crate) offered: Option<Vec<String>>,
    /// The smallest tensor parallel size, on as many whole devices.
    pub(crate) tensor: Option<u32>,
    /// The smallest product, by its id in the catalogue.
    pub(crate) product: Option<String>,
}

impl Remedies {
    pub(super) fn of(judged: &Judged<'_>, offered: Option<&[String]>) -> Self {
        let plan = &judged.plan;
        // The bounds of a model that the policy states in short are too wide to propose anything.
        if judged.widest.is_some() {
            return Self::default();
        }
        let product = Catalogue::embedded().product(&judged.pool.product);
        let profiles = match product {
            Some(product) if judged.is_mig() => profiles(plan, product),
            _ => Vec::new(),
        };
        let mut remedies = Self {
            length: length(plan, Surely::Fits),
            sequences: sequences(plan),
            fraction: fraction(plan, Surely::Fits),
            profiles,
            offered: offered.map(|offered| of_smallest_size(offered.iter().map(String::as_str))),
            tensor: tensor(judged, Surely::Fits),
            product: None,
        };
        if remedies.is_empty() {
            remedies.product = smallest_product(plan);
        }
        remedies
    }

    fn is_empty(&self) -> bool {
        self.length.is_none()
            && self.sequences.is_none()
            && self.fraction.is_none()
            && self.profiles.is_empty()
            && self.offered.as_ref().is_none_or(Vec::is_empty)
            && self.tensor.is_none()
    }
}

/// The longest context that fits, where it is shorter than now.
pub(crate) fn length(plan: &Plan<'_>, surely: Surely) -> Option<u64> {
    let now = estimate(plan).ok()?.length;
    let length = friendly(inverse::longest(plan, surely)?);
    (length < now && length >= SHORTEST).then_some(length)
}

/// A context that people would write.
const fn friendly(tokens: u64) -> u64 {
    let (large, small) = STEPS;
    let step = if tokens >= large { large } else { small };
    tokens - tokens % step
}

/// The most sequences with which it fits, where they are fewer than are written.
fn sequences(plan: &Plan<'_>) -> Option<u64> {
    if plan.engine != Engine::Vllm {
        return None;
    }
    let written = plan.serving.max_num_seqs.unwrap_or(u64::MAX);
    let mut fewer = plan.clone();
    SEQUENCES
        .into_iter()
        .filter(|sequences| *sequences < written)
        .find(|sequences| {
            fewer.serving.max_num_seqs = Some(*sequences);
            estimate(&fewer).is_ok_and(|estimate| estimate.answer == Answer::Fits)
        })
}

/// The smallest fraction that fits, where it is larger than now.
pub(crate) fn fraction(plan: &Plan<'_>, surely: Surely) -> Option<Fraction> {
    let now = plan.fraction.as_ref()?.ppm();
    inverse::smallest_fraction(plan, surely).filter(|fraction| fraction.ppm() > now)
}

fn profiles(plan: &Plan<'_>, product: &Product) -> Vec<String> {
    let all = product.mig.iter().flat_map(|mig| &mig.profiles);
    let mut fitting: Vec<(Mib, &str)> = all
        // Profiles with media engines are for other work.
        .filter(|profile| !profile.name.contains('+'))
        .filter(|profile| {
            let device = Device::of_profile(profile, plan.device.class);
            let there = Plan {
                device,
                ..plan.clone()
            };
            estimate(&there).is_ok_and(|estimate| estimate.answer == Answer::Fits)
        })
        .map(|profile| (profile.memory, profile.name.as_str()))
        .collect();
    fitting.sort_unstable();
    of_smallest_size(fitting.into_iter().map(|(_, name)| name))
}

/// The first of some profiles and those of its size: `1g.20gb` and `2g.20gb` are of one, give or take some MiB.
fn of_smallest_size<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let size = |name: &str| ProfileName::parse(name).map(|name| name.gigabytes);
    let mut names = names.peekable();
    let Some(smallest) = names.peek().map(|name| size(name)) else {
        return Vec::new();
    };
    let of_that_size = names.filter(|name| size(name) == smallest);
    of_that_size.take(MOST_NAMED).map(str::to_owned).collect()
}

/// The smallest tensor parallel size that fits, where it is larger than now; on whole devices of one's own.
pub(crate) fn tensor(judged: &Judged<'_>, surely: Surely) -> Option<u32> {
    if judged.is_mig() || judged.pool.sharing.is_shared() {
        return None;
    }
    let heads = judged.load.model().num_attention_heads;
    TENSOR
        .into_iter()
        // vLLM refuses a size that does not divide the attention heads.
        .filter(|size| *size > judged.load.tensor() && heads.is_multiple_of(*size))
        .find(|size| {
            let load = judged.load.with_tensor(*size);
            let plan = load.plan(&judged.part.amount, judged.plan.device);
            estimate(&plan).is_ok_and(|estimate| match surely {
                Surely::Fits => estimate.answer == Answer::Fits,
                Surely::MayFit => estimate.answer != Answer::DoesNotFit,
            })
        })
}

fn smallest_product(plan: &Plan<'_>) -> Option<String> {
    let products = Catalogue::embedded().products();
    inverse::smallest_product(plan, products, Surely::Fits).map(|product| product.id.clone())
}
