//! The objects of `resource.k8s.io`, narrowly: `v1` and `v1beta2`, and `v1beta1`, whose shapes differ a little.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::workload::null::as_absent;
use crate::workload::pod::{Metadata, QuantityText};

/// A ResourceSlice: devices of one pool.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceSlice {
    /// Metadata; cluster-scoped.
    #[serde(deserialize_with = "as_absent")]
    pub metadata: Metadata,
    /// Specification.
    #[serde(deserialize_with = "as_absent")]
    pub spec: SliceSpec,
}

/// `spec` of a slice.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SliceSpec {
    /// The driver that published it.
    #[serde(deserialize_with = "as_absent")]
    pub driver: String,
    /// The pool that it is part of.
    #[serde(deserialize_with = "as_absent")]
    pub pool: SlicePool,
    /// The node whose devices they are, where they are local to one.
    pub node_name: Option<String>,
    /// The devices.
    #[serde(deserialize_with = "as_absent")]
    pub devices: Vec<PublishedDevice>,
}

/// The pool of a slice.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SlicePool {
    /// Its name; NVIDIA's driver takes the node's.
    #[serde(deserialize_with = "as_absent")]
    pub name: String,
    /// Slices of an older generation than the newest of their pool are ignored.
    #[serde(deserialize_with = "as_absent")]
    pub generation: i64,
}

/// One device of a slice.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PublishedDevice {
    /// Name, unique in its pool.
    #[serde(deserialize_with = "as_absent")]
    pub name: String,
    /// Attributes, by name with or without the driver's domain.
    #[serde(deserialize_with = "as_absent")]
    attributes: BTreeMap<String, PublishedAttribute>,
    /// Capacities.
    #[serde(deserialize_with = "as_absent")]
    capacity: BTreeMap<String, PublishedCapacity>,
    /// Whether several claims may have it.
    #[serde(deserialize_with = "as_absent")]
    allow_multiple_allocations: bool,
    /// Where `v1beta1` has all but the name.
    basic: Option<Box<BasicDevice>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BasicDevice {
    #[serde(deserialize_with = "as_absent")]
    attributes: BTreeMap<String, PublishedAttribute>,
    #[serde(deserialize_with = "as_absent")]
    capacity: BTreeMap<String, PublishedCapacity>,
    #[serde(deserialize_with = "as_absent")]
    allow_multiple_allocations: bool,
}

impl PublishedDevice {
    /// Whether several claims may have it.
    pub(crate) fn allows_multiple_allocations(&self) -> bool {
        self.basic
            .as_ref()
            .map_or(self.allow_multiple_allocations, |basic| {
                basic.allow_multiple_allocations
            })
    }

    /// Its attributes, in whichever version they are.
    pub(crate) fn attributes(&self) -> &BTreeMap<String, PublishedAttribute> {
        self.basic
            .as_ref()
            .map_or(&self.attributes, |basic| &basic.attributes)
    }

    /// Its capacities.
    pub(crate) fn capacity(&self) -> &BTreeMap<String, PublishedCapacity> {
        self.basic
            .as_ref()
            .map_or(&self.capacity, |basic| &basic.capacity)
    }
}

/// The value of an attribute: one of four.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PublishedAttribute {
    /// A text.
    pub string: Option<String>,
    /// A number.
    pub int: Option<i64>,
    /// A truth.
    pub bool: Option<bool>,
    /// A semantic version.
    pub version: Option<String>,
}

/// A capacity.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PublishedCapacity {
    /// How much there is.
    #[serde(deserialize_with = "as_absent")]
    pub value: QuantityText,
    /// How claims consume it.
    pub request_policy: Option<RequestPolicy>,
}

/// How claims consume a capacity.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RequestPolicy {
    /// What a claim consumes that names none.
    pub default: Option<QuantityText>,
}

/// A DeviceClass.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeviceClass {
    /// Metadata; cluster-scoped.
    #[serde(deserialize_with = "as_absent")]
    pub metadata: Metadata,
    /// Specification.
    #[serde(deserialize_with = "as_absent")]
    pub spec: ClassSpec,
}

/// `spec` of a class.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClassSpec {
    /// All must select a device.
    #[serde(deserialize_with = "as_absent")]
    pub selectors: Vec<Selector>,
    /// Parameters for the driver.
    #[serde(deserialize_with = "as_absent")]
    pub config: Vec<Config>,
    /// The extended resource that stands for a device of the class.
    pub extended_resource_name: Option<String>,
}

/// One selector.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Selector {
    /// CEL.
    pub cel: Option<Cel>,
}

/// A CEL expression.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Cel {
    /// The text.
    #[serde(deserialize_with = "as_absent")]
    pub expression: String,
}

/// Parameters for drivers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Config {
    /// The requests that they are for; empty means all.
    #[serde(deserialize_with = "as_absent")]
    pub requests: Vec<String>,
    /// The parameters.
    pub opaque: Option<Opaque>,
}

/// Parameters that Kubernetes hands on unread.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Opaque {
    /// The driver that reads them.
    #[serde(deserialize_with = "as_absent")]
    pub driver: String,
    /// What they are; anything at all for other drivers.
    #[serde(deserialize_with = "as_absent")]
    pub parameters: serde_json::Value,
}

/// A ResourceClaim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceClaim {
    /// Metadata.
    #[serde(deserialize_with = "as_absent")]
    pub metadata: Metadata,
    /// Specification.
    #[serde(deserialize_with = "as_absent")]
    pub spec: ClaimSpec,
    /// Status.
    #[serde(deserialize_with = "as_absent")]
    pub status: ClaimStatus,
}

/// A ResourceClaimTemplate.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceClaimTemplate {
    /// Metadata.
    #[serde(deserialize_with = "as_absent")]
    pub metadata: Metadata,
    /// What the claims are made from.
    #[serde(deserialize_with = "as_absent")]
    pub spec: TemplateSpec,
}

/// `spec` of a template.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TemplateSpec {
    /// The specification of each claim.
    #[serde(deserialize_with = "as_absent")]
    pub spec: ClaimSpec,
}

/// `spec` of a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClaimSpec {
    /// What it asks for.
    #[serde(deserialize_with = "as_absent")]
    pub devices: DeviceRequests,
}

/// `spec.devices` of a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeviceRequests {
    /// Requests, all of which must be allocated.
    #[serde(deserialize_with = "as_absent")]
    pub requests: Vec<DeviceRequest>,
    /// Parameters for drivers.
    #[serde(deserialize_with = "as_absent")]
    pub config: Vec<Config>,
}

/// One request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceRequest {
    /// Name within the claim.
    #[serde(deserialize_with = "as_absent")]
    pub name: String,
    /// Exactly this (`v1`, `v1beta2`).
    pub exactly: Option<Wanted>,
    /// The first of these that there is.
    #[serde(deserialize_with = "as_absent")]
    pub first_available: Vec<Alternative>,
    /// Exactly this (`v1beta1`).
    #[serde(flatten)]
    pub flat: Wanted,
}

/// One of several that would do.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Alternative {
    /// Name within the request.
    #[serde(deserialize_with = "as_absent")]
    pub name: String,
    /// What it wants.
    #[serde(flatten)]
    pub wanted: Wanted,
}

/// What a request wants.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Wanted {
    /// The class.
    #[serde(deserialize_with = "as_absent")]
    pub device_class_name: String,
    /// All must select the device.
    #[serde(deserialize_with = "as_absent")]
    pub selectors: Vec<Selector>,
    /// `ExactCount` (default) or `All`.
    pub allocation_mode: Option<String>,
    /// How many; 1 where it is left out.
    pub count: Option<i64>,
    /// Access for monitoring, which consumes nothing.
    pub admin_access: Option<bool>,
    /// How much of a device.
    pub capacity: Option<WantedCapacity>,
}

/// How much of a device a request wants.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct WantedCapacity {
    /// By name of the capacity.
    #[serde(deserialize_with = "as_absent")]
    pub requests: BTreeMap<String, QuantityText>,
}

/// `status` of a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClaimStatus {
    /// What was allocated.
    pub allocation: Option<Allocation>,
}

/// What was allocated to a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Allocation {
    /// The devices.
    #[serde(deserialize_with = "as_absent")]
    pub devices: AllocatedDevices,
}

/// The devices of an allocation.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AllocatedDevices {
    /// One entry for each device.
    #[serde(deserialize_with = "as_absent")]
    pub results: Vec<AllocationResult>,
}

/// One allocated device.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllocationResult {
    /// The request, with `/SUBREQUEST` for an alternative.
    #[serde(deserialize_with = "as_absent")]
    pub request: String,
    /// The driver.
    #[serde(deserialize_with = "as_absent")]
    pub driver: String,
    /// The pool.
    #[serde(deserialize_with = "as_absent")]
    pub pool: String,
    /// The device.
    #[serde(deserialize_with = "as_absent")]
    pub device: String,
    /// Access for monitoring, which consumes nothing.
    pub admin_access: Option<bool>,
    /// What it consumes of a device that others have as well.
    #[serde(deserialize_with = "as_absent")]
    pub consumed_capacity: BTreeMap<String, QuantityText>,
}
