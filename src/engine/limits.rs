//! What bounds a container's processes on their devices from outside of the engine: variables of MPS and of NVIDIA's
//! container toolkit, as they reach the processes.

use super::reader::Context;
use crate::invocation::{Command, VariableOrigin};

/// The memory limit of an MPS client, by device (`0=16952M`).
pub const PINNED_LIMIT: &str = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT";
/// The percentage of threads of an MPS client.
pub const THREAD_PERCENTAGE: &str = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";
/// Which devices CUDA shows: numbers among those that the container sees, or UUIDs.
pub const VISIBLE_DEVICES: &str = "CUDA_VISIBLE_DEVICES";
/// What the container toolkit's hook lets a container have of a device, in MiB.
pub const CONTAINER_LIMIT: &str = "NVIDIA_GPU_MEMORY_LIMIT";

/// Every variable that is looked for.
const NAMES: [&str; 4] = [PINNED_LIMIT, THREAD_PERCENTAGE, VISIBLE_DEVICES, CONTAINER_LIMIT];

/// Where a variable gets its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// `env[n]` of the container.
    Env(usize),
    /// `envFrom[n]` of the container.
    EnvFrom(usize),
    /// The script that the container runs, after whatever the container's own environment says.
    Script,
}

/// One of the variables, where it is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitVariable {
    /// Its name.
    pub name: &'static str,
    /// Its value, or why that is not known.
    pub value: Result<String, String>,
    /// Where it is set.
    pub place: Place,
}

impl Context<'_> {
    /// The variables as they reach a command. Most containers set none.
    pub(super) fn limits(&self, command: &Command<'_>) -> Vec<LimitVariable> {
        let mut found = Vec::new();
        for name in NAMES {
            let by_script = command.variables.iter().any(|(known, _)| known == name);
            let place = match self.invocation.environment.get(name) {
                _ if by_script => Place::Script,
                None => continue,
                Some(variable) => match variable.origin {
                    VariableOrigin::Env(index) => Place::Env(index),
                    VariableOrigin::EnvFrom(index) => Place::EnvFrom(index),
                },
            };
            if let Some(value) = self.variable(command, name) {
                found.push(LimitVariable { name, value, place });
            }
        }
        found
    }
}
