//! Products of a policy's `spec.device.products`, which extend the catalogue.

use std::sync::Arc;

use super::spec::ProductEntry;
use crate::device::catalogue::{Catalogue, Product};
use crate::units::Mib;

/// MPS clients of a GPU that the device plugin accepts from compute capability 7.5 on; what a product is taken to have
/// where the policy does not say.
const MPS_CLIENTS: u32 = crate::device::config::plugin::MOST_MPS_CLIENTS;

/// The products that a policy states.
#[derive(Clone, Debug, Default)]
pub struct OwnProducts {
    products: Vec<Product>,
    /// The catalogue with them; absent where there are none.
    catalogue: Option<Arc<Catalogue>>,
}

impl PartialEq for OwnProducts {
    fn eq(&self, other: &Self) -> bool {
        // The catalogue follows from the products.
        self.products == other.products
    }
}

impl Eq for OwnProducts {}

impl OwnProducts {
    /// Takes the entries of a document that was checked.
    pub(crate) fn of(entries: Vec<ProductEntry>) -> Self {
        let products: Vec<Product> = entries.into_iter().filter_map(product).collect();
        let catalogue = (!products.is_empty())
            .then(|| Arc::new(Catalogue::embedded().extended(products.iter().cloned())));
        Self { products, catalogue }
    }

    /// The embedded catalogue with the policy's products before it.
    #[must_use]
    pub fn catalogue(&self) -> &Catalogue {
        self.catalogue.as_deref().unwrap_or_else(|| Catalogue::embedded())
    }
}

fn product(entry: ProductEntry) -> Option<Product> {
    let name = entry.product?;
    Some(Product {
        id: name.clone(),
        products: vec![name],
        aliases: entry.aliases.unwrap_or_default(),
        architecture: String::new(),
        memory: entry.memory?.0,
        other_memory: entry
            .other_memory
            .unwrap_or_default()
            .into_iter()
            .map(|count| count.0)
            .collect::<Vec<Mib>>(),
        cuda_total: None,
        mps_max_replicas: entry.mps_max_replicas.unwrap_or(MPS_CLIENTS),
        mig: entry.mig,
        confidence: "high".to_owned(),
        source: "the policy".to_owned(),
    })
}
