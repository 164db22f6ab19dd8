//! What an API object asks for: its pod template, how many pods it makes, and the GPU slots of each container.

mod controller;
mod decode;
pub(crate) mod null;
pub mod owner;
pub mod pod;
mod rollout;
pub mod slots;
pub mod template;

pub use controller::{Malformed, ObjectRef, ReplicaPlan, Workload, WorkloadKind, controller_of};
pub use owner::workload_owner;
pub use slots::asks_for_gpu;
