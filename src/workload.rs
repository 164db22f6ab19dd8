//! What an API object asks for: its pod template, how many pods it makes, and the GPU slots of each container.

mod autoscaler;
mod controller;
mod custom;
mod decode;
pub(crate) mod null;
pub mod owner;
pub mod pod;
pub mod priority;
mod rollout;
mod sets;
pub mod slots;
pub mod template;
pub mod text;

pub use autoscaler::{Autoscaler, ScaleTarget};
pub use controller::{Malformed, ObjectRef, ReplicaPlan, Workload, WorkloadKind, controller_of};
pub use custom::CustomKind;
pub use owner::workload_owner;
pub use sets::PodSet;
pub use slots::asks_for_gpu;
