//! Volumes through which a container opens the device files of its node.

use std::collections::BTreeMap;

use crate::workload::pod::{Container, Pod};

/// Paths below which a mount names devices, where the toolkit accepts them so (`accept-nvidia-visible-devices-as-volume-mounts`).
const AS_MOUNTS: &str = "/var/run/nvidia-container-devices";

/// Volumes of a pod that open devices: name and path. They are looked for once, however many containers there are.
#[derive(Default)]
pub(in crate::demand) struct DeviceVolumes<'p>(BTreeMap<&'p str, &'p str>);

impl<'p> DeviceVolumes<'p> {
    pub(in crate::demand) fn of(pod: &'p Pod) -> Self {
        let volumes = pod.spec.volumes.iter().filter_map(|volume| {
            let path = volume.host_path.as_ref()?.path.as_str();
            opens_devices(path).then_some((volume.name.as_str(), path))
        });
        Self(volumes.collect())
    }

    /// The first path with which a container opens devices: a directory of the node with their files, or a mount that names
    /// them for the toolkit.
    pub(in crate::demand) fn opened_by(&self, container: &Container) -> Option<String> {
        container.volume_mounts.iter().find_map(|mount| {
            if plain(&mount.mount_path).starts_with(AS_MOUNTS) {
                return Some(mount.mount_path.clone());
            }
            self.0.get(mount.name.as_str()).map(|path| (*path).to_owned())
        })
    }
}

/// Whether a path of the node is `/dev`, or one of NVIDIA's device files in it.
fn opens_devices(path: &str) -> bool {
    let path = plain(path);
    path == "/dev" || path.starts_with("/dev/nvidia")
}

/// A path as the kernel follows it: without repeated slashes and single dots (`//dev/./nvidia0`). The API server refuses `..` in
/// a `hostPath`.
fn plain(path: &str) -> String {
    let mut plain = String::with_capacity(path.len());
    for step in path.split('/').filter(|step| !step.is_empty() && *step != ".") {
        plain.push('/');
        plain.push_str(step);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_means_what_the_kernel_follows() {
        for path in [
            "/dev",
            "/dev/",
            "//dev",
            "/./dev/.",
            "/dev/nvidia0",
            "/dev//nvidia-uvm",
            "/dev/./nvidiactl",
            "/dev/nvidia-caps/",
        ] {
            assert!(opens_devices(path), "{path}");
        }
        for path in [
            "",
            "/",
            "/device",
            "/dev/shm",
            "/data/dev",
            "/..dev",
            "/dev.d/nvidia0",
        ] {
            assert!(!opens_devices(path), "{path}");
        }
    }
}
