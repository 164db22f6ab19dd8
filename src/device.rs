//! Devices and slots of a node, as read from its labels, capacity and allocatable.

use std::num::NonZeroU32;
use std::sync::Arc;

use crate::units::{Mib, Share};
use crate::workload::pod::Taint;

pub mod catalogue;
pub mod config;
pub mod inventory;
mod labels;

pub use labels::{LabelSet, Labels};

/// More memory than any device has (16 TiB; the largest of 2026 have some 0.3): what says more says nothing.
pub const MOST: Mib = Mib::new(16 << 20);

/// How the slots of a resource stand to devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sharing {
    /// One slot is one device.
    Exclusive,
    /// So many slots take turns on each device, without any limit of memory.
    TimeSliced(NonZeroU32),
    /// So many slots are MPS clients of each device, each limited to `total / slots`.
    Mps(NonZeroU32),
}

impl Sharing {
    /// Slots on one device.
    #[must_use]
    pub const fn slots_per_device(self) -> u32 {
        match self {
            Self::Exclusive => 1,
            Self::TimeSliced(slots) | Self::Mps(slots) => slots.get(),
        }
    }

    /// Whether several holders may stand on one device.
    #[must_use]
    pub const fn is_shared(self) -> bool {
        !matches!(self, Self::Exclusive)
    }

    /// The word in `top -o json`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exclusive => "none",
            Self::TimeSliced(_) => "time-slicing",
            Self::Mps(_) => "mps",
        }
    }
}

/// Which device the device plugin proposes for the next slot of a shared resource. The kubelet may be held to other devices
/// by its topology manager.
///
/// Source: `NVIDIA/k8s-device-plugin` v0.20.0, `flags.plugin.sharedDevicesAllocationPolicy` and `internal/rm/allocate.go`;
/// earlier releases always distribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AllocationPolicy {
    /// The one with the fewest slots taken; among equals any.
    Distributed,
    /// The one with the most slots taken that still has one.
    Packed,
}

/// What stands behind a slot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceKind {
    /// A whole GPU.
    Gpu,
    /// A MIG instance of this profile (`1g.10gb`).
    Mig(Arc<str>),
}

/// All devices of one node that one extended resource offers. They are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The extended resource (`nvidia.com/gpu`, `nvidia.com/gpu.shared`, `nvidia.com/mig-1g.10gb`).
    pub resource: Arc<str>,
    /// Whole GPU or MIG instance.
    pub device: DeviceKind,
    /// Product as the label names it, without the suffixes for MIG and sharing.
    pub product: Arc<str>,
    /// Memory of one device; `None` where neither label nor catalogue tells.
    pub total: Option<Mib>,
    /// How slots stand to devices.
    pub sharing: Sharing,
    /// Whether the node's driver can bound what a container has of a device (r615, the first with memory limits by cgroup).
    pub bounds_containers: bool,
    /// Devices that exist.
    pub devices: u32,
    /// Slots that exist (capacity).
    pub slots: u32,
    /// Slots that can be used now (allocatable); fewer than `slots` where a device is unhealthy.
    pub usable_slots: u32,
    /// How the device plugin chooses among shared devices; `None` where its configuration was not read, or contradicts what
    /// the node offers.
    pub allocation: Option<AllocationPolicy>,
}

/// Something about a node's facts that an administrator should know (VG704).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactNote {
    /// The resource that it is about.
    pub resource: Arc<str>,
    /// The sentence, naming label and value.
    pub message: String,
}

/// A node with its GPU pools. A node without any NVIDIA resource has none and is not kept.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuNode {
    /// Which node it is.
    pub metadata: Identity,
    /// Labels.
    pub labels: Labels,
    /// Taints.
    pub taints: Vec<Taint>,
    /// Cordoned.
    pub cordoned: bool,
    /// Whether the kubelet reports ready.
    pub ready: bool,
    /// What it offers.
    pub pools: Vec<Pool>,
    /// What is missing or contradictory.
    pub notes: Vec<FactNote>,
    /// What its status says of [`RESOURCE`](crate::counted::RESOURCE).
    pub advertised: Advertised,
}

/// Which node it is; all else of its metadata is dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Its name.
    pub name: Arc<str>,
    /// Its UID.
    pub uid: Box<str>,
}

/// What a node's status says of the resource by which kube-scheduler counts memory. A number that cannot be read is the
/// largest one, so that it differs from any that is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Advertised {
    /// Under `capacity`.
    pub capacity: Option<Share>,
    /// Under `allocatable`, which kube-scheduler reads.
    pub allocatable: Option<Share>,
}

impl Advertised {
    /// Whether anything is said.
    #[must_use]
    pub const fn is_any(self) -> bool {
        self.capacity.is_some() || self.allocatable.is_some()
    }
}

impl GpuNode {
    /// The node's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The pool that a resource name asks for.
    #[must_use]
    pub fn pool(&self, resource: &str) -> Option<&Pool> {
        self.pools.iter().find(|pool| &*pool.resource == resource)
    }
}

/// Whether an extended resource name means slots of NVIDIA devices (`nvidia.com/gpu`, `nvidia.com/gpu.shared`,
/// `nvidia.com/mig-…`). Others of the domain (`nvidia.com/gpumem` of HAMi) do not.
#[must_use]
pub fn is_slot_resource(name: &str) -> bool {
    name.strip_prefix("nvidia.com/")
        .is_some_and(|rest| rest == "gpu" || rest == "gpu.shared" || rest.starts_with("mig-"))
        || name
            .strip_prefix(crate::dra::IMPLICIT)
            .is_some_and(|class| class == "nvidia.com" || class.ends_with(".nvidia.com"))
}
