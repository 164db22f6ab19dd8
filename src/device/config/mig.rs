//! The MIG manager's configuration file, a mig-parted document (`version: v1`, `mig-configs`), as a value of a ConfigMap.
//!
//! mig-parted refuses what it does not know, so every [`Fault`] here is one for which it refuses the whole document.
//! Source: `NVIDIA/mig-parted` v0.15.0, `api/spec/v1/spec.go`.

use super::document::{self, At, Fault, Faults, Fields};
use crate::finding::short;
use crate::mig::ProfileName;
use crate::policy::hint;
use crate::policy::tree::View;

/// The label by which a node names its configuration.
pub const CONFIG_LABEL: &str = "nvidia.com/mig.config";

/// One configuration: what `nvidia.com/mig.config` can name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigConfig {
    /// Its name.
    pub name: String,
    /// What it does to which GPUs.
    pub entries: Vec<MigEntry>,
}

/// What is done to some GPUs of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigEntry {
    /// The field (`mig-configs.all-1g.10gb[0]`), and its line.
    pub field: String,
    /// Line of the document, from one.
    pub line: Option<u64>,
    /// GPUs that it is for, by device and vendor id; empty for every GPU.
    pub filter: Vec<DeviceId>,
    /// Whether MIG is on.
    pub enabled: bool,
    /// Instances on each GPU, by profile.
    pub profiles: Vec<(String, u32)>,
}

/// A PCI device id with its vendor (`0x233010DE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceId(u32);

impl DeviceId {
    /// NVIDIA's vendor id.
    const VENDOR: u32 = 0x10DE;

    /// Reads `0x233010DE`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        u32::from_str_radix(digits, 16).ok().map(Self)
    }

    /// Whether it is NVIDIA's device of this id, as the catalogue writes it (`0x2330`).
    #[must_use]
    pub fn is(self, device: &str) -> bool {
        let id = device
            .strip_prefix("0x")
            .and_then(|digits| u32::from_str_radix(digits, 16).ok());
        self.0 & 0xFFFF == Self::VENDOR && id == Some(self.0 >> 16)
    }
}

/// A document, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Its configurations, in the order of the text. Those with a fault are left out.
    pub configs: Vec<MigConfig>,
    /// Names of all its configurations, those with a fault included.
    pub names: Vec<String>,
    /// What is wrong with it.
    pub faults: Vec<Fault>,
}

impl Reading {
    /// Of a text that cannot be read.
    pub(super) fn unreadable(fault: Fault) -> Self {
        Self {
            configs: Vec::new(),
            names: Vec::new(),
            faults: vec![fault],
        }
    }
}

/// Reads a document. mig-parted refuses an empty one for want of a version.
#[must_use]
pub fn read(text: &str) -> Reading {
    match document::read(text) {
        Ok(Some(tree)) => of(&At::root(&tree)),
        Ok(None) => Reading::unreadable(Fault {
            line: None,
            field: String::new(),
            message:
                "is empty and has no version, which mig-parted refuses: write version: v1 and mig-configs"
                    .to_owned(),
            refused: true,
        }),
        Err(fault) => Reading::unreadable(fault),
    }
}

/// Whether a document is meant for the MIG manager.
pub(super) fn is_meant(root: &At<'_>) -> bool {
    Fields::of_map(root).has("mig-configs")
}

pub(super) fn of(root: &At<'_>) -> Reading {
    let mut reading = Reading {
        configs: Vec::new(),
        names: Vec::new(),
        faults: Vec::new(),
    };
    let mut faults = Faults::default();
    of_root(root, &mut reading, &mut faults);
    reading.faults = faults.into_vec();
    reading
}

fn of_root(root: &At<'_>, reading: &mut Reading, faults: &mut Faults) {
    if !is_map(root, faults) {
        return;
    }
    let fields = Fields::of_map(root);
    match fields.get("version") {
        None => faults.refuse(
            root,
            "has no version, which mig-parted refuses: write version: v1",
        ),
        Some(version) if version.view() == View::Text("v1") => {}
        Some(version) => {
            let shown = version.shown();
            faults.refuse(
                &version,
                format!("is {shown}, which mig-parted refuses: write v1"),
            );
        }
    }
    refuse_others(&fields, &["version", "mig-configs"], faults);
    let Some(configs) = fields.get("mig-configs") else {
        faults.refuse(
            root,
            "has an empty mig-configs, which mig-parted refuses: name a configuration",
        );
        return;
    };
    if !is_map(&configs, faults) {
        return;
    }
    let entries = configs.entries();
    if entries.is_empty() {
        faults.refuse(
            &configs,
            "is empty, which mig-parted refuses: name a configuration",
        );
    }
    for (name, listed) in entries {
        reading.names.push(name.to_owned());
        let items = listed.items();
        if items.is_empty() {
            faults.refuse(
                &listed,
                format!(
                    "is {}, which mig-parted refuses: write a list with devices and mig-enabled",
                    if matches!(listed.view(), View::List(_)) {
                        "an empty list".to_owned()
                    } else {
                        listed.shown()
                    }
                ),
            );
            continue;
        }
        let read: Option<Vec<MigEntry>> = items.iter().map(|item| entry(item, faults)).collect();
        if let Some(entries) = read {
            reading.configs.push(MigConfig {
                name: name.to_owned(),
                entries,
            });
        }
    }
}

/// One entry of a configuration; `None` where it has a fault.
fn entry(item: &At<'_>, faults: &mut Faults) -> Option<MigEntry> {
    if !is_map(item, faults) {
        return None;
    }
    let fields = Fields::of_map(item);
    let known = ["device-filter", "devices", "mig-enabled", "mig-devices"];
    let mut right = refuse_others(&fields, &known, faults);
    let filter = match fields.get("device-filter") {
        None => Some(Vec::new()),
        Some(filter) => device_filter(&filter, faults),
    };
    match fields.get("devices") {
        None => {
            faults.refuse(
                item,
                "has no devices, which mig-parted refuses: write all, or a list of indices",
            );
            right = false;
        }
        Some(devices) => right &= are_devices(&devices, faults),
    }
    let enabled = match fields.get("mig-enabled").map(|value| (value.view(), value)) {
        Some((View::Bool(enabled), _)) => Some(enabled),
        Some((_, value)) => {
            let shown = value.shown();
            faults.refuse(
                &value,
                format!("is {shown}, which mig-parted refuses: write true or false"),
            );
            None
        }
        None => {
            faults.refuse(
                item,
                "has no mig-enabled, which mig-parted refuses: write true or false",
            );
            None
        }
    };
    let listed = fields.get("mig-devices");
    let profiles = match &listed {
        None => Some(Vec::new()),
        Some(devices) => profiles(devices, faults),
    };
    match (enabled, &listed, &profiles) {
        (Some(true), None, _) => {
            faults.refuse(
                item,
                "has mig-enabled: true and no mig-devices, which mig-parted refuses: write {} for none",
            );
            right = false;
        }
        (Some(false), Some(devices), Some(profiles)) if !profiles.is_empty() => {
            faults.refuse(
                devices,
                "stands beside mig-enabled: false, which mig-parted refuses: set it to true, or leave these out",
            );
            right = false;
        }
        _ => {}
    }
    let (filter, enabled, profiles) = (filter?, enabled?, profiles?);
    right.then(|| MigEntry {
        field: item.field(),
        line: item.line(),
        filter,
        enabled,
        profiles,
    })
}

fn is_map(at: &At<'_>, faults: &mut Faults) -> bool {
    let is_map = matches!(at.view(), View::Map(_));
    if !is_map {
        faults.refuse(
            at,
            format!("is {}, not a map, which mig-parted refuses", at.shown()),
        );
    }
    is_map
}

/// Whether there are no others.
fn refuse_others(fields: &Fields<'_>, known: &[&str], faults: &mut Faults) -> bool {
    let mut right = true;
    for (key, value) in fields.others(known) {
        faults.refuse(
            &value,
            format!(
                "is no field of such a document, which mig-parted refuses{}",
                hint(key, known)
            ),
        );
        right = false;
    }
    right
}

fn device_filter(filter: &At<'_>, faults: &mut Faults) -> Option<Vec<DeviceId>> {
    let items = match filter.view() {
        View::List(_) => filter.items(),
        _ => vec![filter.clone()],
    };
    let id = |item: &At<'_>, faults: &mut Faults| {
        let id = match item.view() {
            View::Text(text) => DeviceId::parse(text),
            _ => None,
        };
        if id.is_none() {
            faults.refuse(
                item,
                format!(
                    "is {}, not a device id: write device and vendor in quotes, such as \"0x233010DE\"",
                    item.shown()
                ),
            );
        }
        id
    };
    items.iter().map(|item| id(item, faults)).collect()
}

fn are_devices(devices: &At<'_>, faults: &mut Faults) -> bool {
    let right = match devices.view() {
        View::Text(text) => text == "all",
        View::List(_) => devices
            .items()
            .iter()
            .all(|item| item.whole().is_some_and(|index| index >= 0)),
        View::Null | View::Bool(_) | View::Number(_) | View::Map(_) => false,
    };
    if !right {
        let shown = devices.shown();
        faults.refuse(
            devices,
            format!("is {shown}, which mig-parted refuses: write all, or a list of indices such as [0, 1]"),
        );
    }
    right
}

/// Profiles with their counts; those of which none is wanted are left out.
fn profiles(devices: &At<'_>, faults: &mut Faults) -> Option<Vec<(String, u32)>> {
    if !is_map(devices, faults) {
        return None;
    }
    let mut profiles = Vec::new();
    let mut right = true;
    for (name, count) in devices.entries() {
        if ProfileName::parse(name).is_none() {
            faults.refuse(
                &count,
                format!(
                    "is named {:?}, which is no MIG profile: write one such as 1g.10gb or 1g.10gb+me",
                    short(name)
                ),
            );
            right = false;
        }
        match count.whole().and_then(|count| u32::try_from(count).ok()) {
            Some(0) => {}
            Some(count) => profiles.push((name.to_owned(), count)),
            None => {
                faults.refuse(
                    &count,
                    format!("is {}, not a count: write a whole number", count.shown()),
                );
                right = false;
            }
        }
    }
    right.then_some(profiles)
}

#[cfg(test)]
mod tests;
