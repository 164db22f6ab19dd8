//! The device plugin's configuration file (`version: v1`), as a value of a ConfigMap.

use std::num::NonZeroU32;

use super::document::{At, Fault, Faults, Fields, read as read_document};
use crate::device::{AllocationPolicy, Sharing};
use crate::policy::tree::View;

mod flags;
mod map;
mod sharing;

pub(crate) use flags::Word;
pub use map::{CONFIG_LABEL, Named, PluginConfigMap};
pub use sharing::MOST_MPS_CLIENTS;

/// How MIG devices are offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigStrategy {
    /// A GPU with MIG is offered whole.
    None,
    /// MIG devices are offered as `nvidia.com/gpu`; all of a node are of one profile.
    Single,
    /// MIG devices are offered by profile (`nvidia.com/mig-1g.10gb`).
    Mixed,
}

impl MigStrategy {
    /// The word in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Single => "single",
            Self::Mixed => "mixed",
        }
    }
}

/// Which of the two sharing setups is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Slots take turns.
    TimeSlicing,
    /// Slots are MPS clients.
    Mps,
}

impl Mode {
    /// The field below `sharing`.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::TimeSlicing => "timeSlicing",
            Self::Mps => "mps",
        }
    }
}

/// `sharing.timeSlicing` or `sharing.mps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Which of the two.
    pub mode: Mode,
    /// Whether shared resources end in `.shared`.
    pub rename_by_default: bool,
    /// Whether a container that asks for more than one slot fails. Under MPS it does by default.
    pub fail_requests_greater_than_one: bool,
    /// What is shared.
    pub resources: Vec<SharedResource>,
}

/// One resource that is shared. It means every device of the node that the resource offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedResource {
    /// The resource before any renaming (`nvidia.com/gpu`).
    pub name: String,
    /// Slots on each device, at least 2.
    pub replicas: NonZeroU32,
}

/// A configuration that the plugin accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginConfig {
    /// `flags.migStrategy`; absent where a flag, a variable or the default decides.
    pub mig_strategy: Option<MigStrategy>,
    /// `flags.plugin.sharedDevicesAllocationPolicy`, or its default.
    pub allocation: AllocationPolicy,
    /// What is shared; `None` where nothing is.
    pub shared: Option<Shared>,
}

impl PluginConfig {
    /// How the devices behind a resource of a node's capacity (`nvidia.com/gpu.shared`) are to be shared.
    #[must_use]
    pub fn sharing_of(&self, resource: &str) -> Sharing {
        let plain = resource.strip_suffix(".shared").unwrap_or(resource);
        let of = |shared: &Shared| {
            let entry = shared.resources.iter().find(|entry| entry.name == plain)?;
            Some(match shared.mode {
                Mode::TimeSlicing => Sharing::TimeSliced(entry.replicas),
                Mode::Mps => Sharing::Mps(entry.replicas),
            })
        };
        self.shared.as_ref().and_then(of).unwrap_or(Sharing::Exclusive)
    }
}

/// A document, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// What the plugin makes of it; `None` where it refuses it.
    pub config: Option<PluginConfig>,
    /// What is wrong with it, in the order of its fields.
    pub faults: Vec<Fault>,
}

impl Reading {
    /// Of a text that cannot be read.
    pub(super) fn unreadable(fault: Fault) -> Self {
        Self {
            config: None,
            faults: vec![fault],
        }
    }
}

/// Reads a document. An empty one configures nothing and is right.
#[must_use]
pub fn read(text: &str) -> Reading {
    match read_document(text) {
        Ok(Some(tree)) => of(&At::root(&tree)),
        Ok(None) => Reading {
            config: Some(PluginConfig {
                mig_strategy: None,
                allocation: AllocationPolicy::Distributed,
                shared: None,
            }),
            faults: Vec::new(),
        },
        Err(fault) => Reading::unreadable(fault),
    }
}

pub(super) fn of(root: &At<'_>) -> Reading {
    let mut faults = Faults::default();
    let config = config(root, &mut faults);
    let refused = faults.refused();
    Reading {
        config: config.filter(|_| !refused),
        faults: faults.into_vec(),
    }
}

/// Whether a document is meant for the device plugin.
pub(super) fn is_meant(root: &At<'_>) -> bool {
    let fields = Fields::of_structure(root);
    let sharing = fields.get("sharing").is_some_and(|sharing| {
        sharing.entries().iter().any(|(key, _)| {
            let key: String = key.chars().filter(char::is_ascii_alphanumeric).collect();
            ["timeslicing", "mps"].contains(&key.to_ascii_lowercase().as_str())
        })
    });
    sharing
        || fields
            .get("flags")
            .is_some_and(|flags| flags::are_of_plugin(&flags))
}

fn config(root: &At<'_>, faults: &mut Faults) -> Option<PluginConfig> {
    if !matches!(root.view(), View::Map(_)) {
        faults.refuse(
            root,
            format!(
                "is {}, not a map: write version: v1, flags and sharing",
                root.shown()
            ),
        );
        return None;
    }
    let fields = Fields::of_structure(root);
    match fields.get("version").map(|version| (version.view(), version)) {
        None | Some((View::Text("" | "v1"), _)) => {}
        Some((_, version)) => {
            let shown = version.shown();
            faults.refuse(
                &version,
                format!("is {shown}, which the plugin refuses: write v1"),
            );
        }
    }
    let flags = match fields.get("flags") {
        Some(flags) => flags::read(&flags, faults),
        None => flags::Flags::default(),
    };
    if let Some(resources) = fields.get("resources") {
        let customized = resources.entries().iter().any(|(_, value)| !value.is_null());
        if customized || !matches!(resources.view(), View::Map(_)) {
            faults.ignore(
                &resources,
                "has no effect: the plugin does not support other resource names yet; leave it out",
            );
        }
    }
    let shared = fields
        .get("sharing")
        .and_then(|sharing| sharing::read(&sharing, &flags, faults));
    fields.note_others(
        &["version", "flags", "resources", "sharing", "imex", "health"],
        faults,
    );
    Some(PluginConfig {
        mig_strategy: flags.mig_strategy,
        allocation: flags.allocation,
        shared,
    })
}

#[cfg(test)]
mod tests;
