//! The catalogue of NVIDIA products: totals and MIG profiles by the name in the label `nvidia.com/gpu.product`.
//!
//! A node's labels are the authority. The catalogue stands in where they are missing, and is what their plausibility is
//! checked against: a product's name does not fix its total (ECC state, driver, modified boards).

use std::collections::BTreeMap;
use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use crate::units::Mib;

/// The catalogue that is part of the binary.
const EMBEDDED: &str = include_str!("catalogue.yaml");

/// Every known product.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    products: Vec<Product>,
    /// Names in lower case, with blanks as `-`, to indices of `products`.
    names: BTreeMap<String, usize>,
}

/// One product.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Product {
    /// Short name in the catalogue (`h100-80gb-sxm`).
    pub id: String,
    /// Values of `nvidia.com/gpu.product` for the whole, unshared GPU.
    pub products: Vec<String>,
    /// Names that people write into that label by hand.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Value of `nvidia.com/gpu.family`.
    pub architecture: String,
    /// Total that NVML reports.
    #[serde(rename = "memoryMiB", deserialize_with = "mib")]
    pub memory: Mib,
    /// Other totals of the same product.
    #[serde(rename = "otherMemoryMiB", default, deserialize_with = "mibs")]
    pub other_memory: Vec<Mib>,
    /// Total that CUDA reports, where it is known.
    #[serde(rename = "cudaTotalMiB", default, deserialize_with = "some_mib")]
    pub cuda_total: Option<Mib>,
    /// Most MPS clients for each GPU that the device plugin accepts.
    pub mps_max_replicas: u32,
    /// MIG, where the product can.
    #[serde(default)]
    pub mig: Option<Mig>,
    /// How sure the numbers are: `high`, `medium` or `low`.
    pub confidence: String,
    /// Where they come from.
    pub source: String,
}

/// How a product can be cut into MIG instances.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Mig {
    /// Compute slices of the GPU.
    pub compute_slices: u32,
    /// Units of memory, the axis of placements.
    pub memory_slices: u32,
    /// Most instances at once.
    pub max_instances: u32,
    /// PCI device ids (`0x2330`), with which the MIG manager's `device-filter` picks the product; empty where none is known.
    #[serde(default)]
    pub device_ids: Vec<String>,
    /// Whether the placements were seen of this product; else they are those of a product of the same layout.
    #[serde(default = "seen")]
    pub placements_seen: bool,
    /// Names that some drivers gave to a profile.
    #[serde(default)]
    pub aliases: BTreeMap<String, String>,
    /// Profiles.
    pub profiles: Vec<Profile>,
}

/// A MIG profile of a product.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Profile {
    /// Name as `nvidia-smi` writes it (`1g.10gb+me`).
    pub name: String,
    /// The GPU instance profile's number in `nvidia-smi`, where it is known.
    #[serde(default)]
    pub id: Option<u32>,
    /// Memory of an instance: the lowest value seen, or a careful estimate.
    #[serde(rename = "memoryMiB", deserialize_with = "mib")]
    #[schemars(with = "u64")]
    pub memory: Mib,
    /// Other sizes seen of the same profile (driver, ECC state, placement).
    #[serde(rename = "otherMemoryMiB", default, deserialize_with = "mibs")]
    #[schemars(with = "Vec<u64>")]
    pub other_memory: Vec<Mib>,
    /// Whether the memory was seen, not estimated.
    pub observed: bool,
    /// Compute slices of an instance.
    pub compute_slices: u32,
    /// Most instances on one GPU.
    pub max_count: u32,
    /// Units at which an instance can begin.
    pub starts: Vec<u32>,
    /// Units that an instance takes.
    pub size: u32,
}

/// The parts of a value of `nvidia.com/gpu.product`: `<base>[-MIG-<profile>|-MIG-INVALID][-SHARED]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductLabel<'a> {
    /// Without suffixes.
    pub base: &'a str,
    /// Profile of the MIG strategy `single` (`1g.10gb`); `INVALID` where the profiles of the node differ.
    pub mig: Option<&'a str>,
    /// Whether several slots share a device under the device's own resource name.
    pub shared: bool,
}

impl<'a> ProductLabel<'a> {
    /// Splits a label's value. Any text is a product.
    #[must_use]
    pub fn parse(value: &'a str) -> Self {
        let (unshared, shared) = match value.strip_suffix("-SHARED") {
            Some(unshared) => (unshared, true),
            None => (value, false),
        };
        match unshared.split_once("-MIG-") {
            Some((base, profile)) => Self {
                base,
                mig: Some(profile),
                shared,
            },
            None => Self {
                base: unshared,
                mig: None,
                shared,
            },
        }
    }
}

impl Catalogue {
    /// The catalogue that is part of the binary, read at the first call.
    #[must_use]
    pub fn embedded() -> &'static Self {
        static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
        // A test proves that the embedded text can be read, so the empty catalogue never comes to pass.
        CATALOGUE.get_or_init(|| Self::parse(EMBEDDED).unwrap_or_default())
    }

    fn parse(text: &str) -> Result<Self, serde_saphyr::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Document {
            products: Vec<Product>,
        }
        let Document { products } = serde_saphyr::from_str(text)?;
        Ok(Self::of(products))
    }

    fn of(products: Vec<Product>) -> Self {
        let mut names = BTreeMap::new();
        for (index, product) in products.iter().enumerate() {
            for name in product
                .products
                .iter()
                .chain(&product.aliases)
                .chain([&product.id])
            {
                names.entry(normal(name)).or_insert(index);
            }
        }
        Self { products, names }
    }

    /// This catalogue with further products, which win over those of the same name.
    #[must_use]
    pub fn extended(&self, products: impl IntoIterator<Item = Product>) -> Self {
        Self::of(
            products
                .into_iter()
                .chain(self.products.iter().cloned())
                .collect(),
        )
    }

    /// The product of a label's value, suffixes and all: by its GFD name, an alias, NVML's name with blanks, or its id
    /// here; upper and lower case are alike.
    #[must_use]
    pub fn product(&self, label: &str) -> Option<&Product> {
        let base = ProductLabel::parse(label).base;
        self.names
            .get(&normal(base))
            .and_then(|index| self.products.get(*index))
    }

    /// Every product.
    #[must_use]
    pub fn products(&self) -> &[Product] {
        &self.products
    }
}

impl Product {
    /// The total to count on where no label tells it: the lowest that this product is known with. GPU Feature Discovery
    /// writes product and total together, so a product without a total was written by hand.
    #[must_use]
    pub fn lowest_memory(&self) -> Mib {
        self.other_memory.iter().copied().fold(self.memory, Mib::min)
    }

    /// The highest total that this product is known with.
    #[must_use]
    pub fn highest_memory(&self) -> Mib {
        self.other_memory.iter().copied().fold(self.memory, Mib::max)
    }

    /// A MIG profile by name, as `nvidia-smi` writes it (`1g.10gb+me`) or as resources and labels do (`1g.10gb.me`).
    #[must_use]
    pub fn profile(&self, name: &str) -> Option<&Profile> {
        let mig = self.mig.as_ref()?;
        let name = mig.aliases.get(name).map_or(name, String::as_str);
        mig.profiles.iter().find(|profile| profile.is_named(name))
    }
}

impl Profile {
    /// The largest memory that an instance is known with.
    #[must_use]
    pub fn highest_memory(&self) -> Mib {
        self.other_memory.iter().copied().fold(self.memory, Mib::max)
    }

    /// The name in resources and labels, in which `+` is a point.
    #[must_use]
    pub fn resource_name(&self) -> String {
        format!("nvidia.com/mig-{}", self.name.replace('+', "."))
    }

    fn is_named(&self, name: &str) -> bool {
        let point = |byte: u8| if byte == b'+' { b'.' } else { byte };
        self.name.len() == name.len() && self.name.bytes().map(point).eq(name.bytes().map(point))
    }
}

const fn seen() -> bool {
    true
}

fn normal(name: &str) -> String {
    name.trim().to_ascii_lowercase().replace(' ', "-")
}

fn mib<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Mib, D::Error> {
    u64::deserialize(deserializer).map(Mib::new)
}

fn some_mib<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Mib>, D::Error> {
    mib(deserializer).map(Some)
}

fn mibs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Mib>, D::Error> {
    Ok(Vec::<u64>::deserialize(deserializer)?
        .into_iter()
        .map(Mib::new)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue() -> Catalogue {
        Catalogue::parse(EMBEDDED).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn the_embedded_catalogue_is_read_and_consistent() {
        let catalogue = catalogue();
        assert!(catalogue.products.len() > 30);
        for product in &catalogue.products {
            for name in product
                .products
                .iter()
                .chain(&product.aliases)
                .chain([&product.id])
            {
                assert_eq!(
                    catalogue.product(name),
                    Some(product),
                    "two products claim {name}"
                );
            }
            assert!(product.lowest_memory() > Mib::new(10_000), "{}", product.id);
            assert!(!product.source.is_empty(), "{}", product.id);
            assert!(
                product.cuda_total.is_none_or(|cuda| cuda < product.memory),
                "{}",
                product.id
            );
            for profile in product.mig.iter().flat_map(|mig| &mig.profiles) {
                let mig = product.mig.as_ref().unwrap();
                assert!(profile.memory < product.memory, "{} {}", product.id, profile.name);
                assert!(
                    profile.compute_slices <= mig.compute_slices,
                    "{} {}",
                    product.id,
                    profile.name
                );
                assert!(
                    profile.max_count <= mig.max_instances,
                    "{} {}",
                    product.id,
                    profile.name
                );
                let fits = |start: &u32| start + profile.size <= mig.memory_slices;
                assert!(profile.starts.iter().all(fits), "{} {}", product.id, profile.name);
                assert_eq!(product.profile(&profile.name), Some(profile));
            }
        }
        assert_eq!(Catalogue::embedded().products.len(), catalogue.products.len());
    }

    #[test]
    fn labels_are_split_into_product_profile_and_sharing() {
        for (value, base, mig, shared) in [
            ("NVIDIA-L40S", "NVIDIA-L40S", None, false),
            (
                "NVIDIA-H100-80GB-HBM3-SHARED",
                "NVIDIA-H100-80GB-HBM3",
                None,
                true,
            ),
            (
                "NVIDIA-H200-MIG-1g.18gb-SHARED",
                "NVIDIA-H200",
                Some("1g.18gb"),
                true,
            ),
            (
                "NVIDIA-H100-80GB-HBM3-MIG-INVALID",
                "NVIDIA-H100-80GB-HBM3",
                Some("INVALID"),
                false,
            ),
            ("", "", None, false),
        ] {
            assert_eq!(ProductLabel::parse(value), ProductLabel { base, mig, shared });
        }
    }

    #[test]
    fn products_are_found_by_any_of_their_names() {
        let catalogue = catalogue();
        let found = |label: &str| {
            catalogue
                .product(label)
                .map(|product| (product.id.as_str(), product.lowest_memory().get()))
        };
        assert_eq!(found("NVIDIA-H100-80GB-HBM3"), Some(("h100-80gb-sxm", 81_559)));
        assert_eq!(
            found("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb-SHARED"),
            Some(("h100-80gb-sxm", 81_559))
        );
        assert_eq!(found("NVIDIA H100 80GB HBM3"), Some(("h100-80gb-sxm", 81_559)));
        assert_eq!(found("H100-SXM5-80GB"), Some(("h100-80gb-sxm", 81_559)));
        assert_eq!(found("h100-sxm5-80gb"), Some(("h100-80gb-sxm", 81_559)));
        assert_eq!(found("A100-SXM4-80GB"), Some(("a100-80gb", 81_920)));
        assert_eq!(found("A100-SXM4-40GB"), Some(("a100-40gb", 39_538)));
        assert_eq!(found("L40S-48GB"), Some(("l40s", 46_068)));
        assert_eq!(found("TESLA-T4"), Some(("t4", 15_109)));
        assert_eq!(found("NVIDIA-H100-80GB"), None);
        assert_eq!(found(""), None);
    }

    #[test]
    fn profiles_are_found_by_both_spellings_and_by_old_names() {
        let catalogue = catalogue();
        let a100 = catalogue.product("a100-80gb").unwrap();
        assert_eq!(a100.profile("1g.10gb+me"), a100.profile("1g.10gb.me"));
        assert_eq!(
            a100.profile("1g.10gb.me").map(Profile::resource_name).as_deref(),
            Some("nvidia.com/mig-1g.10gb.me")
        );
        assert_eq!(
            a100.profile("3g.39gb").map(|profile| profile.memory.get()),
            Some(40_192)
        );
        assert_eq!(a100.profile("1g.18gb"), None);
        let rtx = catalogue
            .product("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition")
            .unwrap();
        assert_eq!(
            rtx.profile("1g.24gb.me.all").map(|profile| profile.max_count),
            Some(1)
        );
        assert!(rtx.profile("1g.24gb-me").is_some());
        assert_eq!(catalogue.product("NVIDIA-L40S").unwrap().profile("1g.10gb"), None);
    }
}
