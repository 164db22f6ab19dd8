//! What an API object asks for: its pod template, how many pods it makes, and the GPU slots of each container.

mod controller;
pub mod pod;
mod null;

pub use controller::{Malformed, ObjectRef, ReplicaPlan, Workload, WorkloadKind, controller_of};
