//! MIG geometry: which instances a GPU can be cut into, and where each of them stands.
//!
//! A GPU has compute slices and, on another axis, units of memory. A profile takes some of both, and its memory can begin
//! only at certain units. A set of profiles is a *geometry*; it is valid where placements exist that do not overlap, no
//! profile is used more often than the GPU allows, and the compute slices suffice. The search is exact: it tries every
//! placement, so its answer does not depend on the order in which the profiles are named.
//!
//! Sources: NVIDIA MIG User Guide ("Supported MIG Profiles", "Partitioning"), outputs of `nvidia-smi mig -lgip` and
//! `-lgipp`, the configuration of NVIDIA's MIG manager. The facts by product stand in the catalogue of devices.

mod alternative;
mod geometry;
mod impossible;
mod name;
mod nearest;
pub mod plan;
mod search;
mod spread;

pub use geometry::{Basis, Geometry, Profile};
pub use impossible::{Impossible, Reason};
pub use name::{Attribute, ProfileName, gigabytes};
pub use search::{Instance, Layout};
pub use spread::Spread;

#[cfg(test)]
mod tests;
