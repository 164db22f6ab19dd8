//! Entries of `spec.device.products`: GPUs that the catalogue does not have, or has otherwise.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::device::catalogue::Mig;
use crate::policy::value::MibCount;

/// One entry of `spec.device.products`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default, expecting = "a map")]
#[schemars(extend("required" = ["product", "memoryMiB"]))]
pub struct ProductEntry {
    /// Value of the label `nvidia.com/gpu.product` of the whole, unshared GPU.
    pub product: Option<String>,
    /// Other values of that label for the same GPU.
    pub aliases: Option<Vec<String>>,
    /// Total that NVML reports.
    #[serde(rename = "memoryMiB")]
    pub memory: Option<MibCount>,
    /// Other totals of the same product.
    #[serde(rename = "otherMemoryMiB")]
    pub other_memory: Option<Vec<MibCount>>,
    /// Most MPS clients of one GPU.
    pub mps_max_replicas: Option<u32>,
    /// How it can be cut into MIG instances; where it is left out, it cannot.
    pub mig: Option<Mig>,
}
