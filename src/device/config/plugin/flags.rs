//! `flags`: the words and switches of device plugin and GPU Feature Discovery.

use super::MigStrategy;
use crate::device::AllocationPolicy;
use crate::device::config::document::{At, Faults, Fields};
use crate::policy::hint;
use crate::policy::tree::View;

/// Fields of `flags`. Switches come after the texts.
const TEXTS: [&str; 6] = [
    "migStrategy",
    "mpsRoot",
    "nvidiaDriverRoot",
    "nvidiaDevRoot",
    "deviceDiscoveryStrategy",
    "resourceNamePrefix",
];
const SWITCHES: [&str; 6] = [
    "failOnInitError",
    "restartOnDeviceUnhealthy",
    "gdrcopyEnabled",
    "gdsEnabled",
    "mofedEnabled",
    "useNodeFeatureAPI",
];
/// Fields of `flags.plugin`.
const PLUGIN: [&str; 12] = [
    "passDeviceSpecs",
    "deviceListStrategy",
    "deviceIDStrategy",
    "cdiAnnotationPrefix",
    "nvidiaCTKPath",
    "nvidiaCDIHookPath",
    "containerDriverRoot",
    "driverRootCtrPath",
    "cdiFeatureFlags",
    "cdiEnabled",
    "kubeletSocket",
    "sharedDevicesAllocationPolicy",
];
/// Fields of `flags.gfd`.
const GFD: [&str; 5] = [
    "oneshot",
    "noTimestamp",
    "sleepInterval",
    "outputFile",
    "machineTypeFile",
];

/// A word that decides something, and which words there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    MigStrategy,
    DeviceListStrategy,
    DeviceIdStrategy,
    DeviceDiscoveryStrategy,
    SharedDevicesAllocationPolicy,
}

impl Word {
    /// Every word that the plugin of release 0.20.0 accepts.
    pub(crate) const fn known(self) -> &'static [&'static str] {
        match self {
            Self::MigStrategy => &["none", "single", "mixed"],
            Self::DeviceListStrategy => &["envvar", "volume-mounts", "cdi-annotations", "cdi-cri"],
            Self::DeviceIdStrategy => &["uuid", "index"],
            Self::DeviceDiscoveryStrategy => &["auto", "nvml", "tegra"],
            Self::SharedDevicesAllocationPolicy => &["distributed", "packed"],
        }
    }

    /// What is wrong with a value; `None` where it is right.
    pub(crate) fn wrong(self, value: &str) -> Option<String> {
        if self.known().contains(&value) {
            return None;
        }
        // Known to the plugin's main branch, and to no release so far.
        if self == Self::SharedDevicesAllocationPolicy && value == "spread" {
            return Some(
                "is \"spread\", which releases up to 0.20 refuse; known are distributed, packed".to_owned(),
            );
        }
        let shown = crate::finding::shortened(value, 40);
        Some(format!(
            "is {shown:?}, which the plugin refuses{}",
            hint(value, self.known())
        ))
    }
}

/// What of the flags matters elsewhere.
pub(super) struct Flags {
    pub(super) mig_strategy: Option<MigStrategy>,
    pub(super) allocation: AllocationPolicy,
}

impl Default for Flags {
    fn default() -> Self {
        Self {
            mig_strategy: None,
            allocation: AllocationPolicy::Distributed,
        }
    }
}

/// Whether the map has a flag that only the device plugin has.
pub(super) fn are_of_plugin(flags: &At<'_>) -> bool {
    let fields = Fields::of_structure(flags);
    let plugin = fields.get("plugin").is_some_and(|plugin| {
        let plugin = Fields::of_structure(&plugin);
        PLUGIN.iter().any(|name| plugin.get(name).is_some())
    });
    plugin
        || ["migStrategy", "failOnInitError", "nvidiaDriverRoot", "mpsRoot"]
            .iter()
            .any(|name| fields.get(name).is_some())
}

pub(super) fn read(flags: &At<'_>, faults: &mut Faults) -> Flags {
    let mut read = Flags::default();
    if !is_map(flags, faults) {
        return read;
    }
    let fields = Fields::of_structure(flags);
    read.mig_strategy = word(&fields, "migStrategy", Word::MigStrategy, faults).and_then(|word| match word {
        "none" => Some(MigStrategy::None),
        "single" => Some(MigStrategy::Single),
        "mixed" => Some(MigStrategy::Mixed),
        _ => None,
    });
    word(
        &fields,
        "deviceDiscoveryStrategy",
        Word::DeviceDiscoveryStrategy,
        faults,
    );
    for name in SWITCHES {
        switch(&fields, name, faults);
    }
    let mut known = [TEXTS.as_slice(), SWITCHES.as_slice()].concat();
    known.extend(["plugin", "gfd"]);
    if let Some(plugin) = fields.get("plugin")
        && is_map(&plugin, faults)
    {
        let plugin = Fields::of_structure(&plugin);
        switch(&plugin, "passDeviceSpecs", faults);
        word(&plugin, "deviceIDStrategy", Word::DeviceIdStrategy, faults);
        if let Some(list) = plugin.get("deviceListStrategy") {
            device_list(&list, faults);
        }
        let allocation = Word::SharedDevicesAllocationPolicy;
        if word(&plugin, "sharedDevicesAllocationPolicy", allocation, faults) == Some("packed") {
            read.allocation = AllocationPolicy::Packed;
        }
        plugin.note_others(&PLUGIN, faults);
    }
    if let Some(gfd) = fields.get("gfd")
        && is_map(&gfd, faults)
    {
        let gfd = Fields::of_structure(&gfd);
        switch(&gfd, "oneshot", faults);
        switch(&gfd, "noTimestamp", faults);
        gfd.note_others(&GFD, faults);
    }
    fields.note_others(&known, faults);
    read
}

pub(super) fn is_map(at: &At<'_>, faults: &mut Faults) -> bool {
    let is_map = matches!(at.view(), View::Map(_));
    if !is_map {
        faults.refuse(
            at,
            format!("is {}, not a map, which the plugin refuses", at.shown()),
        );
    }
    is_map
}

/// A switch; `None` where it is not there or not one.
pub(super) fn switch(fields: &Fields<'_>, name: &str, faults: &mut Faults) -> Option<bool> {
    let value = fields.get(name)?;
    if let View::Bool(on) = value.view() {
        return Some(on);
    }
    let shown = value.shown();
    faults.refuse(
        &value,
        format!("is {shown}, which the plugin refuses: write true or false, without quotes"),
    );
    None
}

fn word<'t>(fields: &Fields<'t>, name: &str, word: Word, faults: &mut Faults) -> Option<&'t str> {
    let value = fields.get(name)?;
    let View::Text(text) = value.view() else {
        let known = word.known().join(", ");
        let shown = value.shown();
        faults.refuse(
            &value,
            format!("is {shown}, which the plugin refuses; known are {known}"),
        );
        return None;
    };
    if let Some(wrong) = word.wrong(text) {
        faults.refuse(&value, wrong);
        return None;
    }
    Some(text)
}

/// One word, or a list of words.
fn device_list(list: &At<'_>, faults: &mut Faults) {
    let word = Word::DeviceListStrategy;
    let items = match list.view() {
        View::List(_) => list.items(),
        _ => vec![list.clone()],
    };
    for item in items {
        let wrong = if let View::Text(text) = item.view() {
            word.wrong(text)
        } else {
            let (shown, known) = (item.shown(), word.known().join(", "));
            Some(format!("is {shown}, which the plugin refuses; known are {known}"))
        };
        if let Some(wrong) = wrong {
            faults.refuse(&item, wrong);
        }
    }
}
