//! What configures the GPUs of a node: documents of the device plugin and of the MIG manager, which stand as values in
//! ConfigMaps, and the device plugin's own flags and variables.
//!
//! Each is read the way its program reads it. What the program refuses is a [`Fault`] with `refused`; what it accepts and
//! ignores is one without. Sources: `NVIDIA/k8s-device-plugin` v0.20.0 (`api/config/v1`, `cmd/nvidia-device-plugin`) and
//! `NVIDIA/mig-parted` v0.15.0 (`api/spec/v1`).

mod document;
pub mod mig;
pub mod plugin;

pub use document::{Fault, MAX_BYTES};
