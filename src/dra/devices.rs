//! The GPUs and MIG devices that NVIDIA's driver publishes in ResourceSlices.
//!
//! Source of the names: the driver's own attributes (`gpu.nvidia.com`: `type`, `productName`, `profile`, …; capacity
//! `memory` in bytes).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::objects::{PublishedAttribute, PublishedDevice};
use crate::device::DeviceKind;
use crate::quantity::Quantity;
use crate::units::Mib;

/// NVIDIA's driver of GPUs and MIG devices.
pub const DRIVER: &str = "gpu.nvidia.com";

/// What stands for the product of a device that has none.
pub(crate) const UNKNOWN: &str = "unknown";

/// Attributes that many devices have alike. The others (`uuid`, `parentUUID`, bus ids) tell devices apart and are not kept,
/// so a selector that asks for one is unknown.
const KEPT: [&str; 9] = [
    "type",
    "productName",
    "brand",
    "architecture",
    "cudaComputeCapability",
    "driverVersion",
    "cudaDriverVersion",
    "profile",
    "addressingMode",
];

/// Whether a device that has this attribute keeps it.
pub(crate) fn is_kept(name: &str) -> bool {
    KEPT.contains(&name)
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Attribute {
    Text(Arc<str>),
    Int(i64),
    Bool(bool),
    Version(Arc<str>),
}

/// Devices that selectors cannot tell apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    /// Whole GPU or MIG device.
    pub(crate) device: DeviceKind,
    /// The product, written as GPU Feature Discovery writes it.
    pub(crate) product: Arc<str>,
    /// Its memory; `None` where it is not published or cannot be read.
    pub(crate) total: Option<Mib>,
    /// Whether several claims may have parts of it (consumable capacity).
    pub(crate) multiple: bool,
    /// What a claim that names no memory consumes of such a device.
    pub(crate) default_memory: Option<Mib>,
    pub(crate) attributes: BTreeMap<Arc<str>, Attribute>,
    /// Capacities as written.
    pub(crate) capacities: BTreeMap<Arc<str>, Arc<str>>,
}

impl Kind {
    /// A device that no slice describes: of unknown product and size.
    pub(crate) fn unknown() -> Self {
        Self::of(&PublishedDevice::default())
    }

    /// Whether whatever stands on a device of the one takes as much of a device of the other.
    pub(crate) fn weighs_as(&self, other: &Self) -> bool {
        let of = |kind: &Self| {
            let Self {
                device,
                product,
                total,
                multiple,
                default_memory,
                attributes: _,
                capacities: _,
            } = kind;
            (
                device.clone(),
                product.clone(),
                *total,
                *multiple,
                *default_memory,
            )
        };
        of(self) == of(other)
    }

    /// What is known of a device that was published.
    pub(crate) fn of(device: &PublishedDevice) -> Self {
        let mut attributes = BTreeMap::new();
        for (name, value) in device.attributes() {
            let name = name.strip_prefix("gpu.nvidia.com/").unwrap_or(name);
            if let Some(value) = attribute(value).filter(|_| is_kept(name)) {
                attributes.insert(Arc::from(name), value);
            }
        }
        let text = |name: &str| match attributes.get(name) {
            Some(Attribute::Text(text)) => Some(text.as_ref()),
            _ => None,
        };
        let profile = text("profile").filter(|_| text("type") != Some("gpu"));
        let kind = profile.map_or(DeviceKind::Gpu, |profile| DeviceKind::Mig(Arc::from(profile)));
        let product = text("productName").unwrap_or(UNKNOWN).trim().replace(' ', "-");
        let mut capacities = BTreeMap::new();
        let mut default_memory = None;
        for (name, capacity) in device.capacity() {
            let name = name.strip_prefix("gpu.nvidia.com/").unwrap_or(name);
            if name == "memory" {
                let default = capacity
                    .request_policy
                    .as_ref()
                    .and_then(|policy| policy.default.as_ref());
                default_memory = default
                    .and_then(|text| Quantity::parse(&text.0).ok())
                    .and_then(Quantity::mib_up);
            }
            capacities.insert(Arc::from(name), Arc::from(capacity.value.0.as_str()));
        }
        let total = capacities
            .get("memory")
            .and_then(|text| Quantity::parse(text).ok())
            .and_then(Quantity::mib_down)
            .filter(|total| *total > Mib::ZERO);
        Self {
            device: kind,
            product: Arc::from(product),
            total,
            multiple: device.allows_multiple_allocations(),
            default_memory,
            attributes,
            capacities,
        }
    }
}

fn attribute(value: &PublishedAttribute) -> Option<Attribute> {
    let PublishedAttribute {
        string,
        int,
        bool,
        version,
    } = value;
    string
        .as_deref()
        .map(|text| Attribute::Text(Arc::from(text)))
        .or(int.map(Attribute::Int))
        .or(bool.map(Attribute::Bool))
        .or_else(|| version.as_deref().map(|text| Attribute::Version(Arc::from(text))))
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(device: Value) -> Kind {
        Kind::of(&serde_json::from_value(device).unwrap())
    }

    pub(in crate::dra) fn gpu(product: &str, memory: &str) -> Kind {
        read(json!({"name": "gpu-0", "attributes": {
            "type": {"string": "gpu"}, "productName": {"string": product}, "uuid": {"string": "GPU-1"},
            "cudaComputeCapability": {"version": "9.0.0"},
        }, "capacity": {"memory": {"value": memory}}}))
    }

    pub(in crate::dra) fn mig(product: &str, profile: &str, memory: &str) -> Kind {
        read(json!({"name": "gpu-0-mig-1g10gb-19-0", "attributes": {
            "type": {"string": "mig"}, "productName": {"string": product}, "profile": {"string": profile},
            "parentUUID": {"string": "GPU-1"},
        }, "capacity": {"memory": {"value": memory}, "multiprocessors": {"value": "16"}}}))
    }

    #[test]
    fn what_a_driver_publishes_is_a_device() {
        let kind = gpu("NVIDIA H100 80GB HBM3", "81559Mi");
        assert_eq!(
            (&kind.device, &*kind.product, kind.total),
            (&DeviceKind::Gpu, "NVIDIA-H100-80GB-HBM3", Some(Mib::new(81_559)))
        );
        assert!(
            !kind.attributes.contains_key("uuid"),
            "devices that are alike are one kind"
        );
        let kind = mig("NVIDIA H100 80GB HBM3", "1g.10gb", "10468982784");
        assert_eq!(kind.device, DeviceKind::Mig(Arc::from("1g.10gb")));
        assert_eq!(kind.total, Some(Mib::new(9_984)));
        // v1beta1 puts everything one level deeper.
        let old = read(
            json!({"name": "gpu-0", "basic": {"attributes": {"productName": {"string": "NVIDIA L40S"}},
            "capacity": {"memory": {"value": "46068Mi"}}}}),
        );
        assert_eq!(
            (&*old.product, old.total),
            ("NVIDIA-L40S", Some(Mib::new(46_068)))
        );
        // What cannot be read is unknown.
        let odd = read(json!({"name": "gpu-0", "capacity": {"memory": {"value": "much"}}}));
        assert_eq!((&*odd.product, odd.total), ("unknown", None));
        assert_eq!(
            read(json!({"name": "gpu-0", "capacity": {"memory": {"value": "0"}}})).total,
            None
        );
    }
}
