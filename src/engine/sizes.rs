//! Parallel sizes as they are written, and VG107 about those that the engine's parser takes and that are no number of
//! ranks.

use super::Parallelism;
use super::argparse::value::Value;
use super::line::LineView;
use super::reader::Context;
use crate::finding::{Code, Finding};

/// Parallel sizes as the parser yields them, at least 1 (local ranks: 0) and saturating at 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExactSizes {
    /// Tensor parallel size.
    pub tensor: i128,
    /// Pipeline parallel size.
    pub pipeline: i128,
    /// Data parallel size over all pods.
    pub data: i128,
    /// Data parallel ranks in this pod.
    pub data_local: i128,
    /// Devices that this container's processes would use.
    pub devices: i128,
}

impl ExactSizes {
    /// The same as far as 32 bits hold them, which is more than any cluster has.
    #[must_use]
    pub fn bounded(&self) -> Parallelism {
        let bounded = |size: i128| u32::try_from(size).unwrap_or(u32::MAX);
        Parallelism {
            tensor: bounded(self.tensor),
            pipeline: bounded(self.pipeline),
            data: bounded(self.data),
            data_local: bounded(self.data_local),
            devices: bounded(self.devices),
        }
    }

    /// These sizes where one of them is beyond 32 bits.
    pub(super) fn beyond(self) -> Option<Self> {
        let sizes = [
            self.tensor,
            self.pipeline,
            self.data,
            self.data_local,
            self.devices,
        ];
        sizes
            .into_iter()
            .any(|size| size > i128::from(u32::MAX))
            .then_some(self)
    }
}

/// The quotient of positive numbers, rounded up.
pub(super) fn share(of: i128, parts: i128) -> i128 {
    (of - 1).max(0) / parts.max(1) + i128::from(of > 0)
}

/// Far more than the devices of any cluster.
const MOST: i128 = 65_536;

/// The findings about `options`, each with its least value that means something. What the release refuses by itself is
/// told as such, so `is_told` leaves it out.
pub(super) fn findings(
    context: &Context<'_>,
    line: &LineView<'_, '_>,
    options: &[(&str, i128)],
    is_told: &dyn Fn(&str) -> bool,
) -> Vec<Finding> {
    let (engine, release) = (line.engine, line.parsed.release);
    let settings = options.iter().filter_map(|(option, least)| {
        let setting = line.parsed.last(option).filter(|_| !is_told(option))?;
        let text: String = setting.text.chars().take(40).collect();
        let message = match setting.value {
            Value::Int(size) if size < *least => format!(
                "{option} {text:?} is no number of ranks, though the parser of {engine} {release} takes it; it is counted as 1, \
                 write 1 or more"
            ),
            Value::Int(size) if size > MOST => format!(
                "{option} {text:?} is more than the devices of any cluster: the parser of {engine} {release} takes it, and \
                 the engine stops at start; write the number of GPUs"
            ),
            _ => return None,
        };
        Some(Finding::new(Code::Vg107, line.path_of(context, setting), message))
    });
    settings.collect()
}
