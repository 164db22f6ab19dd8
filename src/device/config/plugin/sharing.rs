//! `sharing`: which resources are offered several times.

use std::num::NonZeroU32;

use super::flags::{Flags, is_map, switch};
use super::{MigStrategy, Mode, Shared, SharedResource};
use crate::device::config::document::{At, Faults, Fields};
use crate::device::is_slot_resource;
use crate::finding::short;
use crate::policy::tree::View;

/// Most MPS clients of a GPU that the plugin accepts (compute capability 7.5 and newer; 16 before).
pub const MOST_MPS_CLIENTS: u32 = 48;
/// Longest resource name that the plugin accepts, in bytes, domain included.
const LONGEST_NAME: usize = 63;
/// What a bare name is put behind.
const DOMAIN: &str = "nvidia.com/";
/// How devices of one node can be treated differently, since no field does that.
const ADVICE: &str = "put devices that are to differ on nodes with configurations of their own, or use DRA";

/// What is shared; `None` where nothing is, or what is said of it is refused.
pub(super) fn read(sharing: &At<'_>, flags: &Flags, faults: &mut Faults) -> Option<Shared> {
    if !is_map(sharing, faults) {
        return None;
    }
    let fields = Fields::of_structure(sharing);
    let time_slicing = fields.get("timeSlicing");
    let mps = fields.get("mps");
    if let (Some(time_slicing), Some(_)) = (&time_slicing, &mps) {
        faults.ignore(
            time_slicing,
            "has no effect beside sharing.mps: a node is shared in one way; leave one of them out",
        );
    }
    let time_slicing =
        time_slicing.and_then(|written| replicated(&written, Mode::TimeSlicing, flags, faults));
    let mps = mps.and_then(|written| replicated(&written, Mode::Mps, flags, faults));
    fields.note_others(&["timeSlicing", "mps"], faults);
    mps.or(time_slicing)
}

fn replicated(written: &At<'_>, mode: Mode, flags: &Flags, faults: &mut Faults) -> Option<Shared> {
    if !is_map(written, faults) {
        return None;
    }
    let fields = Fields::of_map(written);
    let rename_by_default = switch(&fields, "renameByDefault", faults).unwrap_or(false);
    let fail = switch(&fields, "failRequestsGreaterThanOne", faults);
    if mode == Mode::Mps && flags.mig_strategy == Some(MigStrategy::Mixed) {
        faults.refuse(
            written,
            "is refused beside flags.migStrategy mixed: the plugin's MPS is for whole GPUs; use DRA for MPS on MIG",
        );
    }
    let listed = fields.get("resources");
    let items = listed.as_ref().map(At::items).unwrap_or_default();
    if items.is_empty() {
        let at = listed.as_ref().unwrap_or(written);
        faults.refuse(
            at,
            "names no resources, which the plugin refuses: list name and replicas, or leave the sharing out",
        );
    }
    let mut resources: Vec<SharedResource> = Vec::new();
    for item in &items {
        let Some(resource) = resource(item, mode, rename_by_default, flags, faults) else {
            continue;
        };
        if resources.iter().any(|other| other.name == resource.name) {
            faults.ignore(
                item,
                format!(
                    "names {} once more: a resource is shared in one way, whatever devices are listed; {ADVICE}",
                    resource.name
                ),
            );
        } else {
            resources.push(resource);
        }
    }
    fields.note_others(
        &["renameByDefault", "failRequestsGreaterThanOne", "resources"],
        faults,
    );
    Some(Shared {
        mode,
        rename_by_default,
        fail_requests_greater_than_one: fail.unwrap_or(mode == Mode::Mps),
        resources,
    })
}

fn resource(
    item: &At<'_>,
    mode: Mode,
    rename_by_default: bool,
    flags: &Flags,
    faults: &mut Faults,
) -> Option<SharedResource> {
    if !is_map(item, faults) {
        return None;
    }
    let fields = Fields::of_map(item);
    let name = name(item, &fields, mode, flags, faults);
    let replicas = replicas(item, &fields, mode, faults);
    if let (Some(rename), Some(name)) = (fields.get("rename"), &name) {
        rename_without_effect(&rename, name, rename_by_default, faults);
    }
    if let Some(devices) = fields.get("devices") {
        check_devices(&devices, faults);
    }
    fields.note_others(&["name", "rename", "devices", "replicas"], faults);
    Some(SharedResource {
        name: name?,
        replicas: replicas?,
    })
}

/// The resource's name with its domain.
fn name(
    item: &At<'_>,
    fields: &Fields<'_>,
    mode: Mode,
    flags: &Flags,
    faults: &mut Faults,
) -> Option<String> {
    let Some(written) = fields.get("name") else {
        faults.refuse(
            item,
            "has no name, which the plugin refuses: write name: nvidia.com/gpu",
        );
        return None;
    };
    let View::Text(text) = written.view() else {
        let shown = written.shown();
        faults.refuse(
            &written,
            format!("is {shown}, which the plugin refuses: write nvidia.com/gpu"),
        );
        return None;
    };
    let name = if text.starts_with(DOMAIN) {
        text.to_owned()
    } else {
        format!("{DOMAIN}{text}")
    };
    if name.len() > LONGEST_NAME {
        faults.refuse(
            &written,
            format!(
                "has {} characters with its domain; the plugin accepts at most {LONGEST_NAME}",
                name.len()
            ),
        );
        return None;
    }
    let is_mig = name.starts_with("nvidia.com/mig-");
    if is_mig && mode == Mode::Mps {
        faults.refuse(
            &written,
            "is a MIG resource, which the plugin cannot share by MPS: use time-slicing, or DRA",
        );
        return None;
    }
    if !is_slot_resource(&name) || name.ends_with(".shared") {
        faults.ignore(
            &written,
            format!(
                "is {}, which the plugin never offers, so nothing is shared: write nvidia.com/gpu or nvidia.com/mig-PROFILE",
                short(&name)
            ),
        );
    } else if is_mig && let Some(strategy @ (MigStrategy::None | MigStrategy::Single)) = flags.mig_strategy {
        faults.ignore(
            &written,
            format!(
                "is {}, which flags.migStrategy {} never offers, so nothing is shared: {}",
                short(&name),
                strategy.as_str(),
                match strategy {
                    MigStrategy::Single => "under single MIG devices are nvidia.com/gpu",
                    MigStrategy::None | MigStrategy::Mixed => "set migStrategy: mixed",
                }
            ),
        );
    }
    Some(name)
}

fn replicas(item: &At<'_>, fields: &Fields<'_>, mode: Mode, faults: &mut Faults) -> Option<NonZeroU32> {
    let Some(written) = fields.get("replicas") else {
        faults.refuse(
            item,
            "has no replicas, which the plugin refuses: write a whole number from 2 on",
        );
        return None;
    };
    let shown = written.shown();
    let Some(number) = written.whole() else {
        faults.refuse(
            &written,
            format!("is {shown}, which the plugin refuses: write a whole number from 2 on, without quotes"),
        );
        return None;
    };
    if number < 2 {
        faults.refuse(
            &written,
            format!(
                "is {shown}, and the plugin starts with no fewer than 2: write 2 or more, or leave the resource out, \
                 which offers each device once"
            ),
        );
        return None;
    }
    let count = u32::try_from(number).ok().and_then(NonZeroU32::new);
    let most = match mode {
        Mode::Mps => MOST_MPS_CLIENTS,
        // No limit of the plugin's: the kubelet keeps a list of all slots.
        Mode::TimeSlicing => u32::MAX,
    };
    if let Some(count) = count.filter(|count| count.get() <= most) {
        return Some(count);
    }
    faults.refuse(
        &written,
        match mode {
            Mode::Mps => format!(
                "is {shown}, and the plugin accepts at most {MOST_MPS_CLIENTS} MPS clients of a GPU, 16 before compute \
                 capability 7.5"
            ),
            Mode::TimeSlicing => format!("is {shown}, more slots than a node can offer"),
        },
    );
    None
}

fn rename_without_effect(rename: &At<'_>, name: &str, rename_by_default: bool, faults: &mut Faults) {
    let default = format!("{name}.shared");
    let is_default = match rename.view() {
        View::Text("") => true,
        View::Text(text) => rename_by_default && (text == default || format!("{DOMAIN}{text}") == default),
        _ => false,
    };
    if !is_default {
        faults.ignore(
            rename,
            format!(
                "has no effect: the plugin supports no names of one's own; set renameByDefault: true for {}",
                short(&default)
            ),
        );
    }
}

/// `all`, a count, or a list. The plugin reads all of them and shares every device.
fn check_devices(devices: &At<'_>, faults: &mut Faults) {
    let right = match devices.view() {
        View::Text("all") => return,
        View::Number(_) => devices.whole().is_some_and(|count| count > 0),
        View::List(_) => devices.items().iter().all(is_device),
        View::Null | View::Bool(_) | View::Text(_) | View::Map(_) => false,
    };
    if right {
        faults.ignore(
            devices,
            format!("has no effect: the plugin shares every device of the node that offers this resource; {ADVICE}"),
        );
    } else {
        let shown = devices.shown();
        faults.refuse(
            devices,
            format!("is {shown}, which the plugin refuses: write all, or leave it out"),
        );
    }
}

/// An index (`0`), a MIG index (`0:1`) or a UUID.
fn is_device(item: &At<'_>) -> bool {
    let index = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let uuid = |text: &str| {
        let parts: Vec<&str> = text.split('-').collect();
        parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
            && parts
                .iter()
                .all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let gpu = |text: &str| text.strip_prefix("GPU-").is_some_and(uuid);
    match item.view() {
        View::Number(_) => item.whole().is_some_and(|index| index >= 0),
        View::Text(text) => {
            index(text)
                || text
                    .split_once(':')
                    .is_some_and(|(gpu, mig)| index(gpu) && index(mig))
                || gpu(text)
                || text.strip_prefix("MIG-").is_some_and(|rest| {
                    uuid(rest)
                        || rest.split_once('/').is_some_and(|(parent, instances)| {
                            gpu(parent)
                                && instances
                                    .split_once('/')
                                    .is_some_and(|(g, c)| index(g) && index(c))
                        })
                })
        }
        View::Null | View::Bool(_) | View::List(_) | View::Map(_) => false,
    }
}
