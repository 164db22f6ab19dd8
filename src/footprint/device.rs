//! What of a device decides how much an engine wants of it.

use crate::device::catalogue::{Product, Profile};
use crate::units::Mib;

/// One device, as an engine sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its total, as the label or the driver tells it.
    pub total: Mib,
    /// The least that an engine may see of it: CUDA reports less than NVML on whole GPUs. The same where the total was
    /// read from CUDA itself, as on the command line.
    pub least_total: Mib,
    /// What kind of device it is.
    pub class: Class,
}

/// What a product's name says beyond its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// Whether it is an A100, which vLLM gives the smaller defaults whatever its memory; unknown where absent.
    pub a100: Option<bool>,
    /// Whether it is an H100 or H200 by name.
    pub h100: bool,
    /// Whether it is older than Ampere (Volta, Turing): attention then goes through slower kernels that need more.
    pub before_ampere: bool,
    /// Whether its memory is the host's (GB10, Jetson), so that what is free changes from start to start.
    pub unified: bool,
    /// Whether it is a MIG instance.
    pub mig: bool,
}

impl Class {
    /// Reads a product's name: a label of GPU Feature Discovery, an id of the catalogue, or what people write.
    #[must_use]
    pub fn of(product: &str, architecture: Option<&str>) -> Self {
        let name = product.to_ascii_lowercase();
        let has = |word: &str| {
            name.split(|c: char| !c.is_ascii_alphanumeric())
                .any(|part| part == word)
        };
        let named = !name.is_empty();
        let old = architecture.map_or_else(
            || {
                [
                    "v100", "t4", "2080", "2070", "2060", "p100", "p40", "1080", "titan",
                ]
                .iter()
                .any(|word| has(word))
            },
            |architecture| matches!(architecture, "volta" | "turing" | "pascal" | "maxwell"),
        );
        // `80GB class` can be one or the other.
        let vague = has("class") || has("unknown");
        Self {
            a100: match (has("a100"), named && !vague) {
                (true, _) if has("h100") => None,
                (true, _) => Some(true),
                (false, true) => Some(false),
                (false, false) => None,
            },
            h100: has("h100") || has("h200"),
            before_ampere: old,
            unified: ["gb10", "thor", "orin", "xavier", "jetson", "spark"]
                .iter()
                .any(|word| has(word)),
            mig: has("mig"),
        }
    }
}

impl Device {
    /// A device of which an engine sees exactly this much.
    #[must_use]
    pub const fn exactly(total: Mib, class: Class) -> Self {
        Self {
            total,
            least_total: total,
            class,
        }
    }

    /// A MIG instance of a product: label and CUDA agree on its memory.
    #[must_use]
    pub const fn of_profile(profile: &Profile, class: Class) -> Self {
        Self::exactly(profile.memory, Class { mig: true, ..class })
    }

    /// A whole GPU of a product of the catalogue.
    #[must_use]
    pub fn of_product(product: &Product) -> Self {
        let total = product.lowest_memory();
        Self {
            total,
            least_total: product.cuda_total.map_or(total, |cuda| cuda.min(total)),
            class: Class::of(&product.id, Some(&product.architecture)),
        }
    }

    /// Whether vLLM gives it the defaults of large devices: 70 GiB and more, and no A100. `None` where the product is not
    /// known well enough. (vLLM: `EngineArgs.get_batch_defaults`.)
    pub(super) fn is_large(&self) -> Option<bool> {
        if self.total < Mib::new(70 * 1024) {
            return Some(false);
        }
        self.class.a100.map(|a100| !a100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_told_by_the_words_of_their_names() {
        assert_eq!(Class::of("NVIDIA-A100-SXM4-80GB", None).a100, Some(true));
        assert_eq!(Class::of("NVIDIA-H100-80GB-HBM3", None).a100, Some(false));
        assert_eq!(Class::of("H100/A100 80GB", None).a100, None);
        assert_eq!(Class::of("80GB class", None).a100, None);
        assert_eq!(Class::of("", None).a100, None);
        assert!(Class::of("Tesla-V100-SXM2-16GB", None).before_ampere);
        assert!(Class::of("anything", Some("turing")).before_ampere);
        assert!(!Class::of("RTX 3090", Some("ampere")).before_ampere);
        assert!(Class::of("DGX Spark GB10", None).unified);
        assert!(Class::of("A100 40GB MIG 1g.5gb", None).mig);
    }
}
