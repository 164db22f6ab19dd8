//! Which layers lie on one device.
//!
//! `--gpu-layers N` places the last N of the layers and the output, which counts as one more. Older releases counted the
//! output last (`i_gpu_start = n_layer - N`), newer ones first (`n_layer + 1 - N`). The embedding never leaves the host.

use super::super::interval::{Interval, scaled};
use super::super::plan::Plan;

/// What lies on the fullest device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placing {
    /// Layers of the model.
    of: u64,
    /// Layers on the device. The least is that of all devices together, see `devices`.
    least: u64,
    expected: u64,
    most: u64,
    /// Whether the output certainly lies on a device, and whether it may.
    pub(super) output: (bool, bool),
    /// Devices over which layers divide.
    devices: u64,
}

impl Placing {
    pub(super) fn of(plan: &Plan<'_>) -> Self {
        let layers = u64::from(plan.model.num_hidden_layers);
        let devices = u64::from(plan.devices.max(1));
        let stated = plan.serving.gpu_layers.unwrap_or(u64::MAX);
        let (least, most, output) = if stated == 0 {
            (0, 0, (false, false))
        } else if stated > layers {
            (layers, layers, (true, true))
        } else {
            (stated - 1, stated, (false, true))
        };
        let on_fullest = |layers_there: u64| layers_there.div_ceil(devices);
        Self {
            of: layers.max(1),
            least,
            expected: on_fullest(most),
            most: if devices > 1 {
                on_fullest(most).saturating_add(1).min(most)
            } else {
                most
            },
            output,
            devices,
        }
    }

    /// Whether nothing lies on a device.
    pub(super) const fn is_empty(&self) -> bool {
        self.most == 0 && !self.output.1
    }

    /// Whether all layers lie on one device.
    pub(super) const fn is_whole(&self) -> bool {
        self.least == self.of && self.devices == 1
    }

    /// Whether layers divide over several devices.
    pub(super) const fn is_split(&self) -> bool {
        self.devices > 1
    }

    /// The part of all layers' bytes that lies on the fullest device; at least the average of all devices, since one of
    /// them has that much.
    pub(super) fn of_layers(&self, all: Interval) -> Interval {
        Interval::new(
            self.average(scaled(all.lower(), self.least, self.of)),
            scaled(all.expected(), self.expected, self.of),
            scaled(all.upper(), self.most, self.of),
        )
    }

    /// The output's bytes on the fullest device.
    pub(super) fn of_output(&self, output: Interval) -> Interval {
        let (surely, perhaps) = self.output;
        Interval::new(
            if surely { self.average(output.lower()) } else { 0 },
            if surely { output.expected() } else { 0 },
            if perhaps { output.upper() } else { 0 },
        )
    }

    fn average(&self, bytes: u64) -> u64 {
        bytes / self.devices
    }
}
