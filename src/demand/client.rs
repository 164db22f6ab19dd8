//! How a container's processes stand on a device that others use too: what bounds them from outside of the engine, and
//! what keeps them from reaching the daemon of MPS.

use std::collections::BTreeMap;
use std::fmt;

use crate::engine::limits::{
    CONTAINER_LIMIT, LimitVariable, PINNED_LIMIT, Place, THREAD_PERCENTAGE, VISIBLE_DEVICES,
};
use crate::engine::{Placed, Reading};
use crate::units::{Fraction, Mib, Share};
use crate::workload::pod::Pod;

/// The annotation that tells what vramgate itself set in a pod: by container and name, as JSON.
pub const MUTATED: &str = "vramgate.io/mutated";

/// Where the device plugin mounts what MPS clients share with their daemon (`internal/plugin/mps.go` of
/// NVIDIA/k8s-device-plugin).
const SHM: &str = "/dev/shm";

/// What vramgate set in a pod, by container and by name of the variable or option.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record(BTreeMap<String, BTreeMap<String, String>>);

impl Record {
    /// The record that a pod carries; an empty one where there is none that can be read.
    #[must_use]
    pub fn of(pod: &Pod) -> Self {
        let written = pod.metadata.annotations.get(MUTATED);
        // What is not ours to read was not written by us, and then nothing is taken for our own.
        Self(
            written
                .and_then(|text| serde_json::from_str(text).ok())
                .unwrap_or_default(),
        )
    }

    /// Whether vramgate gave a container this value.
    #[must_use]
    pub fn holds(&self, container: &str, name: &str, value: &str) -> bool {
        self.0
            .get(container)
            .and_then(|values| values.get(name))
            .is_some_and(|set| set == value)
    }

    /// Notes that a container was given a value.
    pub fn note(&mut self, container: &str, name: &str, value: &str) {
        let values = self.0.entry(container.to_owned()).or_default();
        values.insert(name.to_owned(), value.to_owned());
    }

    /// Whether anything was set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Strings alone: there is nothing that the printer could refuse.
        f.write_str(&serde_json::to_string(&self.0).map_err(|_| fmt::Error)?)
    }
}

/// A variable with what its value means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value as it reaches the process, or why that is not known.
    pub text: Result<String, String>,
    /// What it means; `None` where it cannot be read, or is not known.
    pub value: Option<T>,
    /// Where it is set.
    pub place: Place,
    /// Whether vramgate set it.
    pub ours: bool,
}

/// The variables of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `CUDA_MPS_PINNED_DEVICE_MEM_LIMIT`.
    pub limit: Option<Setting<PinnedLimit>>,
    /// `CUDA_MPS_ACTIVE_THREAD_PERCENTAGE`, as a part of all threads.
    pub percentage: Option<Setting<Share>>,
    /// `CUDA_VISIBLE_DEVICES`.
    pub visible: Option<Setting<()>>,
    /// `NVIDIA_GPU_MEMORY_LIMIT`.
    pub container: Option<Setting<Mib>>,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// The user that its processes run as, where the pod says so (else the image does).
    pub user: Option<i64>,
    /// The container's own mount over what MPS clients share with their daemon.
    pub shm: Option<usize>,
    /// Variables; most containers have none.
    settings: Option<Box<Settings>>,
}

impl Client {
    /// Of a container with its readings.
    pub(super) fn of(pod: &Pod, placed: Placed<'_>, readings: &[Reading], record: &Record) -> Self {
        let container = placed.container;
        let user = |context: &Option<crate::workload::pod::SecurityContext>| {
            context.as_ref().and_then(|context| context.run_as_user)
        };
        let is_shm = |path: &str| path.trim_end_matches('/') == SHM;
        let shm = container
            .volume_mounts
            .iter()
            .position(|mount| is_shm(&mount.mount_path));
        let mut client = Self {
            user: user(&container.security_context).or_else(|| user(&pod.spec.security_context)),
            shm,
            settings: None,
        };
        // Engines of one script may get other values; the first that has any stands for the container.
        let limits = readings.iter().find(|reading| !reading.limits.is_empty());
        for variable in limits.into_iter().flat_map(|reading| &reading.limits) {
            client.set(variable, &container.name, record);
        }
        client
    }

    fn set(&mut self, variable: &LimitVariable, container: &str, record: &Record) {
        let text = variable.value.as_deref().ok();
        // What a script sets over it is not what we set.
        let ours = matches!(variable.place, Place::Env(_))
            && text.is_some_and(|text| record.holds(container, variable.name, text));
        let settings = self.settings.get_or_insert_default();
        match variable.name {
            PINNED_LIMIT => {
                settings.limit = Some(setting(variable, ours, text.and_then(PinnedLimit::parse)));
            }
            THREAD_PERCENTAGE => {
                settings.percentage = Some(setting(variable, ours, text.and_then(percentage)));
            }
            CONTAINER_LIMIT => {
                // The hook reads the container's own environment, before any script runs.
                let value = text.filter(|_| variable.place != Place::Script);
                let value = value.and_then(|text| text.trim().parse().ok()).map(Mib::new);
                settings.container = Some(setting(variable, ours, value));
            }
            VISIBLE_DEVICES => settings.visible = Some(setting(variable, ours, None)),
            _ => {}
        }
    }

    /// `CUDA_MPS_PINNED_DEVICE_MEM_LIMIT`, where it is set.
    #[must_use]
    pub fn limit(&self) -> Option<&Setting<PinnedLimit>> {
        self.settings.as_ref()?.limit.as_ref()
    }

    /// `CUDA_MPS_ACTIVE_THREAD_PERCENTAGE`, where it is set.
    #[must_use]
    pub fn percentage(&self) -> Option<&Setting<Share>> {
        self.settings.as_ref()?.percentage.as_ref()
    }

    /// `CUDA_VISIBLE_DEVICES`, where it is set.
    #[must_use]
    pub fn visible(&self) -> Option<&Setting<()>> {
        self.settings.as_ref()?.visible.as_ref()
    }

    /// `NVIDIA_GPU_MEMORY_LIMIT`, where it is set.
    #[must_use]
    pub fn container_limit(&self) -> Option<&Setting<Mib>> {
        self.settings.as_ref()?.container.as_ref()
    }

    /// The same with another limit of the container.
    pub(crate) fn set_container_limit(&mut self, limit: Setting<Mib>) {
        self.settings.get_or_insert_default().container = Some(limit);
    }

    /// Forgets variables that are set anew.
    pub(crate) fn clear(&mut self, limit: bool, percentage: bool) {
        let Some(settings) = &mut self.settings else {
            return;
        };
        if limit {
            settings.limit = None;
        }
        if percentage {
            settings.percentage = None;
        }
        if **settings == Settings::default() {
            self.settings = None;
        }
    }

    /// Forgets a variable that is taken out.
    pub(crate) fn forget(&mut self, name: &str) {
        let Some(settings) = &mut self.settings else {
            return;
        };
        match name {
            PINNED_LIMIT => settings.limit = None,
            THREAD_PERCENTAGE => settings.percentage = None,
            VISIBLE_DEVICES => settings.visible = None,
            CONTAINER_LIMIT => settings.container = None,
            _ => {}
        }
        if **settings == Settings::default() {
            self.settings = None;
        }
    }

    /// The same with another limit.
    pub(crate) fn set_limit(&mut self, limit: Setting<PinnedLimit>) {
        self.settings.get_or_insert_default().limit = Some(limit);
    }
}

fn setting<T>(variable: &LimitVariable, ours: bool, value: Option<T>) -> Setting<T> {
    Setting {
        text: variable.value.clone(),
        value,
        place: variable.place,
        ours,
    }
}

/// A percentage above 0 and at most 100, as a part.
fn percentage(text: &str) -> Option<Share> {
    let text = text.trim();
    let plain = |c: char| c.is_ascii_digit() || c == '.';
    if !text.chars().all(plain) {
        return None;
    }
    Fraction::parse(&format!("{text}e-2"))
        .ok()
        .map(|part| part.share())
}

/// What `CUDA_MPS_PINNED_DEVICE_MEM_LIMIT` says: a limit for each device that it names, by its number among those that the
/// container sees or by UUID. Of two for one device the last counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinnedLimit {
    by_number: BTreeMap<u32, Mib>,
    by_uuid: bool,
}

impl PinnedLimit {
    /// The same limit for each of the first `devices` devices.
    #[must_use]
    pub fn of(limit: Mib, devices: u32) -> Self {
        Self {
            by_number: (0..devices).map(|number| (number, limit)).collect(),
            by_uuid: false,
        }
    }

    /// Reads `0=1G,1=512M` (also `GPU-…=2G`, a `B` behind the unit, and K of MPS v3). `None` where it is not of that form.
    /// Limits round down to a MiB.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut limits = Self::default();
        for entry in text.split(',') {
            let (device, limit) = entry.split_once('=')?;
            let limit = amount(limit.trim())?;
            let device = device.trim();
            if let Ok(number) = device.parse() {
                limits.by_number.insert(number, limit);
            } else if device.starts_with("GPU-") || device.starts_with("MIG-") {
                limits.by_uuid = true;
            } else {
                return None;
            }
        }
        Some(limits)
    }

    /// The limit on the first device, where its number tells; one that a UUID may replace is not known.
    #[must_use]
    pub fn first(&self) -> Option<Mib> {
        if self.by_uuid {
            return None;
        }
        self.by_number.get(&0).copied()
    }

    /// Whether it names none of the first `devices` devices.
    #[must_use]
    pub fn misses(&self, devices: u32) -> bool {
        !self.by_uuid && self.by_number.keys().all(|number| *number >= devices)
    }
}

impl fmt::Display for PinnedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (number, limit)) in self.by_number.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{number}={}M", limit.get())?;
        }
        Ok(())
    }
}

/// Whether `CUDA_VISIBLE_DEVICES` shows no device at all to a container that sees `devices` of them. The list counts up
/// to its first entry that is none of theirs (CUDA C++ Programming Guide, "CUDA Environment Variables"). A UUID is taken
/// for one: which device the container gets is not known before.
#[must_use]
pub fn shows_none(text: &str, devices: u32) -> bool {
    let first = text.split(',').next().unwrap_or(text).trim();
    let is_uuid = first.starts_with("GPU-") || first.starts_with("MIG-");
    !is_uuid && first.parse::<u32>().map_or(true, |number| number >= devices)
}

fn amount(text: &str) -> Option<Mib> {
    let text = text.strip_suffix(['b', 'B']).unwrap_or(text);
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let bytes: u64 = match text.get(digits.len()..)? {
        "G" | "g" => 1 << 30,
        "M" | "m" => 1 << 20,
        "K" | "k" => 1 << 10,
        _ => return None,
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // More than fits is more than any device has.
    let number: u64 = digits.parse().unwrap_or(u64::MAX);
    Some(Mib::from_bytes_down(number.saturating_mul(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_their_variable_has_them() {
        let first = |text: &str| PinnedLimit::parse(text).map(|limit| limit.first().map(Mib::get));
        for (text, limit) in [
            ("0=16952M", Some(Some(16_952))),
            ("0=1G,1=512M", Some(Some(1024))),
            ("1=512M, 0=2GB", Some(Some(2048))),
            ("0=1G,0=3G", Some(Some(3072))),
            ("0=1500K", Some(Some(1))),
            ("1=512M", Some(None)),
            ("GPU-0a1b=2G,0=1G", Some(None)),
            ("0=99999999999999999999G", Some(Some((1 << 44) - 1))),
            ("", None),
            ("16952M", None),
            ("0=16952", None),
            ("0=M", None),
            ("0=-1G", None),
            ("0=1.5G", None),
            ("gpu0=1G", None),
            ("0=1G,", None),
        ] {
            assert_eq!(first(text), limit, "{text}");
        }
        assert!(PinnedLimit::parse("1=1G").unwrap().misses(1));
        assert!(!PinnedLimit::parse("1=1G").unwrap().misses(2));
        assert!(!PinnedLimit::parse("GPU-0=1G").unwrap().misses(1));
        assert_eq!(PinnedLimit::of(Mib::new(7), 2).to_string(), "0=7M,1=7M");
    }

    #[test]
    fn a_list_of_devices_shows_none_where_its_first_entry_is_none_of_theirs() {
        for (text, devices, none) in [
            ("0", 1, false),
            (" 0 ,5", 1, false),
            ("1", 1, true),
            ("1,0", 2, false),
            ("2,0", 2, true),
            ("-1", 1, true),
            ("", 1, true),
            ("all", 1, true),
            ("GPU-0a1b2c3d", 1, false),
            ("MIG-0a1b2c3d", 1, false),
        ] {
            assert_eq!(shows_none(text, devices), none, "{text:?} of {devices}");
        }
    }

    #[test]
    fn percentages_are_parts_of_all_threads() {
        for (text, ppm) in [
            ("25", Some(250_000)),
            (" 12.5 ", Some(125_000)),
            ("100", Some(1_000_000)),
            ("101", None),
            ("0", None),
            ("", None),
            ("5e1", None),
            ("half", None),
        ] {
            assert_eq!(percentage(text).map(Share::ppm), ppm, "{text}");
        }
    }

    #[test]
    fn a_record_knows_what_was_set_and_nothing_else() {
        let mut record = Record::default();
        record.note("a", "X", "0=1M");
        let annotated = |text: &str| {
            let pod = serde_json::json!({"metadata": {"annotations": {MUTATED: text}}});
            Record::of(&serde_json::from_value(pod).unwrap())
        };
        assert_eq!(annotated(&record.to_string()), record);
        assert!(record.holds("a", "X", "0=1M"));
        assert!(!record.holds("a", "X", "0=2M") && !record.holds("b", "X", "0=1M"));
        for text in ["", "true", "{\"a\": 1}", "[]", "{\"a\": {\"X\": 3}}"] {
            assert!(annotated(text).is_empty(), "{text}");
        }
    }
}
