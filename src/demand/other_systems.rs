//! What a pod says of its memory in the words of HAMi, KAI and Volcano. It counts where a policy trusts the system
//! (`spec.otherSharing`), which then bounds each container by it; elsewhere it is told and counts for nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::declaration::Declaration;
use super::{Amount, Claim, Client, Part};
use crate::engine::{self, Engine, Meaning, Placed, Role};
use crate::finding::{Code, FieldPath, Finding, Severity, short};
use crate::policy::{PolicySet, SharingSystem};
use crate::quantity::Quantity;
use crate::units::{Fraction, Mib};
use crate::workload::pod::{Container, Pod};
use crate::workload::slots::names_any;

/// Largest amount that is taken for one of a device, in MiB: far above any.
const MOST_MIB: u64 = 1 << 24;
/// Domain and begin of KAI's annotations for one container (kai-scheduler's GPU fractioning).
const OF_CONTAINER: &str = "nvidia.com/container.";
/// KAI's annotation for the container that its annotations of a pod mean; the first one where it is absent.
const FRACTION_CONTAINER: &str = "gpu-fraction-container-name";
/// What a device plugin may offer whole GPUs as: a container without a slot may stand on the devices of either.
const WHOLE: [&str; 2] = ["nvidia.com/gpu", "nvidia.com/gpu.shared"];

/// Where a word stands.
#[derive(Clone, Copy)]
enum Place {
    /// Among the container's resources.
    Resource(&'static str),
    /// An annotation of the pod, for one of its containers.
    Annotation(&'static str),
    /// An annotation with the container's name in it; this is what follows the name.
    OfContainer(&'static str),
    /// An annotation of the pod with what each of its containers was given.
    Devices(&'static str),
}

/// What the value of a word means, for each device.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// A number of MiB.
    Mib,
    /// A quantity of bytes.
    Bytes,
    /// Hundredths of the device.
    Percent,
    /// A part of the device.
    Fraction,
    /// No memory, or none by itself.
    NoMemory,
}

/// Every word, those of one system in the order in which the system itself reads them.
///
/// HAMi: `pkg/device/nvidia/device.go` (resources) and `pkg/device/devices.go` (the annotation) of Project-HAMi/HAMi 2.9;
/// a unit of `gpumem` is a MiB unless its `gpuMemoryFactor` is set. KAI: `docs/gpu-sharing` and `pkg/common/constants` of
/// kai-scheduler/KAI-Scheduler. Volcano: `pkg/scheduler/api/devices/nvidia/{vgpu,gpushare}` of volcano-sh/volcano, whose
/// `vgpu-memory` has the same factor.
const WORDS: [(SharingSystem, Place, Unit); 13] = [
    (
        SharingSystem::Hami,
        Place::Resource("nvidia.com/gpumem"),
        Unit::Mib,
    ),
    (
        SharingSystem::Hami,
        Place::Resource("nvidia.com/gpumem-percentage"),
        Unit::Percent,
    ),
    (
        SharingSystem::Hami,
        Place::Resource("nvidia.com/gpucores"),
        Unit::NoMemory,
    ),
    (
        SharingSystem::Hami,
        Place::Devices("hami.io/vgpu-devices-allocated"),
        Unit::NoMemory,
    ),
    (
        SharingSystem::Kai,
        Place::OfContainer(".gpu-memory.limit"),
        Unit::Bytes,
    ),
    (
        SharingSystem::Kai,
        Place::OfContainer(".gpu-memory.request"),
        Unit::Bytes,
    ),
    (SharingSystem::Kai, Place::Annotation("gpu-memory"), Unit::Mib),
    (
        SharingSystem::Kai,
        Place::Annotation("gpu-fraction"),
        Unit::Fraction,
    ),
    (
        SharingSystem::Kai,
        Place::OfContainer(".gpus.devices"),
        Unit::NoMemory,
    ),
    (
        SharingSystem::Volcano,
        Place::Resource("volcano.sh/vgpu-memory"),
        Unit::Mib,
    ),
    (
        SharingSystem::Volcano,
        Place::Resource("volcano.sh/vgpu-memory-percentage"),
        Unit::Percent,
    ),
    (
        SharingSystem::Volcano,
        Place::Resource("volcano.sh/gpu-memory"),
        Unit::Mib,
    ),
    (
        SharingSystem::Volcano,
        Place::Devices("volcano.sh/vgpu-ids-new"),
        Unit::NoMemory,
    ),
];

/// Each word as it is written for a container, and whether it is a resource.
#[cfg(test)]
pub(super) fn words(container: &str) -> impl Iterator<Item = (String, bool)> {
    WORDS.iter().map(move |(_, place, _)| match place {
        Place::Resource(name) => ((*name).to_owned(), true),
        Place::Annotation(name) | Place::Devices(name) => ((*name).to_owned(), false),
        Place::OfContainer(rest) => (format!("{OF_CONTAINER}{container}{rest}"), false),
    })
}

/// Whether a bound pod says anything of its memory in such words: only then can it be a holder without a slot.
#[must_use]
pub(crate) fn speaks(pod: &Pod) -> bool {
    is_bound(pod)
        && engine::containers(pod).any(|placed| {
            WORDS
                .iter()
                .any(|(_, place, _)| written(pod, placed, *place).is_some())
        })
}

/// The systems that count for a pod.
pub(crate) fn trusted<'p>(
    pod: &Pod,
    namespace_labels: &BTreeMap<String, String>,
    policies: &'p PolicySet,
) -> &'p BTreeSet<SharingSystem> {
    policies.trusted_systems(namespace_labels, pod)
}

/// What one container is bounded by, and what is to be told of its words.
#[derive(Default)]
pub(super) struct Declared {
    /// The amount on each of its devices, and the field that says so.
    amount: Option<(Amount, FieldPath)>,
    /// Whether the pod declares it in words of vramgate's own.
    is_own: bool,
    pub(super) findings: Vec<Finding>,
}

impl Declared {
    /// Reads the words of a container.
    pub(super) fn of(
        pod: &Pod,
        placed: Placed<'_>,
        trusted: &BTreeSet<SharingSystem>,
        given: &[Given<'_>],
    ) -> Self {
        let mut declared = Self::default();
        let mut of_it = given
            .iter()
            .filter(|given| given.container == placed.container.name);
        if let Some((largest, path)) = of_it.find_map(|given| Some((given.largest?, &given.path))) {
            declared.amount = Some((Amount::Absolute(largest), path.clone()));
        }
        for (system, place, unit) in WORDS {
            let Some((value, path)) = written(pod, placed, place) else {
                continue;
            };
            let what = match place {
                Place::Resource(name) => format!("container {}: {name}", short(&placed.container.name)),
                Place::Annotation(name) | Place::Devices(name) => format!("annotation {name}"),
                Place::OfContainer(rest) => {
                    format!("annotation {OF_CONTAINER}{}{rest}", short(&placed.container.name))
                }
            };
            if !trusted.contains(&system) {
                let text = format!(
                    "{what} is a word of {}, which the policy does not trust: it counts for nothing here",
                    system.name()
                );
                let finding = Finding::new(Code::Vg108, path, text)
                    .detail(format!(
                        "where {} runs and bounds containers by it, a policy can say so: {}: trust",
                        system.name(),
                        system.field()
                    ))
                    .with_severity(Severity::Info);
                declared.findings.push(finding);
                continue;
            }
            match amount(value, place, unit) {
                Ok(None) => {}
                Ok(Some(amount)) => {
                    declared.amount.get_or_insert((amount, path));
                }
                Err(wanted) => {
                    let text = format!(
                        "{what} has no effect: {:?} is not {wanted}; write one, or leave it out",
                        short(value)
                    );
                    declared.findings.push(Finding::new(Code::Vg108, path, text));
                }
            }
        }
        declared
    }

    /// Puts what the pod itself declares before all of it.
    pub(super) fn preceded_by(&mut self, own: Option<Result<Declaration<'_>, Finding>>) {
        match own {
            None => {}
            Some(Ok(Declaration { amount, path, .. })) => {
                self.amount = Some((amount, path));
                self.is_own = true;
            }
            Some(Err(finding)) => self.findings.push(finding),
        }
    }

    /// Puts the amount in the place of what the engines say. A container that is known to use no device memory goes on using
    /// none, unless it declares some itself.
    pub(super) fn bound(&self, parts: &mut Vec<Part>) {
        let Some((amount, path)) = &self.amount else {
            return;
        };
        if parts.is_empty() && self.is_own {
            parts.push(unread(amount.clone(), path.clone(), 1));
        }
        let processes = parts
            .iter()
            .map(|part| part.processes)
            .fold(0, u32::saturating_add);
        let ranks = parts.iter().map(|part| part.ranks).max();
        let alone = parts.len() == 1;
        parts.truncate(1);
        for part in parts {
            part.amount = amount.clone();
            part.path = path.clone();
            part.meaning = Meaning::Instance;
            part.processes = processes;
            part.ranks = ranks.unwrap_or(part.ranks);
            // Another fraction of the engine would not change it.
            part.edit = None;
            if !alone {
                part.load = None;
            }
        }
    }
}

/// What a container of a bound pod was given by another system.
pub(crate) struct Given<'p> {
    pub(crate) container: &'p str,
    /// Shares of devices that it has on each device, by the device's identity; empty where nothing tells.
    pub(crate) devices: BTreeMap<Arc<str>, u32>,
    /// The largest amount of a single one.
    largest: Option<Mib>,
    /// The largest sum on one device.
    together: Option<Mib>,
    path: FieldPath,
}

/// What trusted systems gave the containers of a bound pod. Who may create pods could write such an annotation too, so that
/// it counts only once the pod has its node.
pub(crate) fn given<'p>(pod: &'p Pod, trusted: &BTreeSet<SharingSystem>) -> Vec<Given<'p>> {
    let mut all = Vec::new();
    if trusted.is_empty() || !is_bound(pod) {
        return all;
    }
    for (system, place, _) in WORDS {
        if !trusted.contains(&system) {
            continue;
        }
        match place {
            Place::Devices(name) => {
                if let Some(text) = pod.metadata.annotations.get(name) {
                    let path = FieldPath::new("metadata.annotations").key(name);
                    all.extend(by_container(pod, text, &path));
                }
            }
            Place::OfContainer(rest @ ".gpus.devices") => {
                for placed in engine::containers(pod) {
                    if let Some((text, path)) = written(pod, placed, Place::OfContainer(rest)) {
                        all.push(Given {
                            container: &placed.container.name,
                            devices: identities(text),
                            largest: None,
                            together: None,
                            path,
                        });
                    }
                }
            }
            Place::Resource(_) | Place::Annotation(_) | Place::OfContainer(_) => {}
        }
    }
    all
}

/// Whether a trusted system bounds a container: it has asked for its memory there.
pub(super) fn bounds(
    pod: &Pod,
    placed: Placed<'_>,
    trusted: &BTreeSet<SharingSystem>,
    given: &[Given<'_>],
) -> bool {
    !trusted.is_empty()
        && (given.iter().any(|given| given.container == placed.container.name)
            || Declared::of(pod, placed, trusted, given).amount.is_some())
}

/// The claims of the containers of a bound pod that take no slot of NVIDIA's device plugin and are bounded by another
/// system: of each name under which the plugin may offer the devices on which they stand.
pub(super) fn beside_slots(pod: &Pod, trusted: &BTreeSet<SharingSystem>) -> Vec<Claim> {
    let mut claims = Vec::new();
    if trusted.is_empty() || !is_bound(pod) {
        return claims;
    }
    let given = given(pod, trusted);
    for placed in engine::containers(pod) {
        let container = placed.container;
        if names_any(container) || !container.resources.claims.is_empty() {
            continue;
        }
        let of_it = given.iter().find(|given| given.container == container.name);
        let declared = Declared::of(pod, placed, trusted, &given).amount;
        let amount = match (of_it.and_then(|given| given.together), declared) {
            (Some(together), _) => Some((
                Amount::Absolute(together),
                of_it.map_or_else(|| placed.path(), |given| given.path.clone()),
            )),
            (None, declared) => declared,
        };
        let Some((amount, path)) = amount else { continue };
        let devices = of_it.map_or(0, |given| given.devices.len());
        let part = unread(
            amount,
            path.clone(),
            u32::try_from(devices).unwrap_or(u32::MAX).max(1),
        );
        claims.extend(WHOLE.map(|resource| Claim {
            container: container.name.clone(),
            role: placed.role,
            path: placed.path(),
            pointer: placed.pointer(),
            resource: Arc::from(resource),
            slots: 0,
            slots_path: path.clone(),
            client: Client::default(),
            parts: vec![part.clone()],
        }));
    }
    claims
}

/// An amount of which nothing is read but itself.
fn unread(amount: Amount, path: FieldPath, ranks: u32) -> Part {
    Part {
        engine: Engine::Unknown,
        version: None,
        amount,
        meaning: Meaning::Instance,
        eager: false,
        tensor: 1,
        ranks,
        processes: 1,
        apart: 0,
        path,
        edit: None,
        load: None,
    }
}

fn is_bound(pod: &Pod) -> bool {
    pod.spec.node_name.as_ref().is_some_and(|node| !node.is_empty())
}

/// The value of a word, where it is written for a container.
fn written<'p>(pod: &'p Pod, placed: Placed<'p>, place: Place) -> Option<(&'p str, FieldPath)> {
    let annotations = &pod.metadata.annotations;
    let at = |name: &str| FieldPath::new("metadata.annotations").key(name);
    match place {
        Place::Resource(name) => resource(placed.container, name)
            .map(|(list, value)| (value, placed.path().field("resources").field(list).key(name))),
        Place::Annotation(name) => {
            let value = annotations.get(name)?;
            is_fraction_container(pod, placed).then(|| (value.as_str(), at(name)))
        }
        Place::OfContainer(rest) => {
            // Nearly no pod has one.
            let first = annotations.range(OF_CONTAINER.to_owned()..).next()?.0;
            if !first.starts_with(OF_CONTAINER) {
                return None;
            }
            let name = format!("{OF_CONTAINER}{}{rest}", placed.container.name);
            Some((annotations.get(&name)?.as_str(), at(&name)))
        }
        Place::Devices(name) => Some((annotations.get(name)?.as_str(), at(name))),
    }
}

fn resource<'c>(container: &'c Container, name: &str) -> Option<(&'static str, &'c str)> {
    let resources = &container.resources;
    let limit = resources.limits.get(name).map(|text| ("limits", text));
    let found = limit.or_else(|| resources.requests.get(name).map(|text| ("requests", text)));
    found.map(|(list, text)| (list, text.0.as_str()))
}

/// Whether KAI's annotations of the pod mean this container.
fn is_fraction_container(pod: &Pod, placed: Placed<'_>) -> bool {
    match pod.metadata.annotations.get(FRACTION_CONTAINER) {
        Some(name) => *name == placed.container.name,
        None => placed.role == Role::Container && placed.index == 0,
    }
}

/// The amount that a value states; `Ok(None)` where the word states none, an error with what it should be.
fn amount(value: &str, place: Place, unit: Unit) -> Result<Option<Amount>, &'static str> {
    let in_range = |mib: &u64| (1..=MOST_MIB).contains(mib);
    match unit {
        Unit::NoMemory => Ok(None),
        Unit::Mib => {
            // A resource is a quantity; an annotation is read as plain digits.
            let number = match place {
                Place::Resource(_) => Quantity::parse(value).ok().and_then(Quantity::whole),
                Place::Annotation(_) | Place::OfContainer(_) | Place::Devices(_) => value.parse().ok(),
            };
            let mib = number
                .filter(in_range)
                .ok_or("a whole number of MiB such as 8000")?;
            Ok(Some(Amount::Absolute(Mib::new(mib))))
        }
        Unit::Bytes => {
            let mib = Quantity::parse(value).ok().and_then(Quantity::mib_up);
            let mib = mib
                .filter(|mib| in_range(&mib.get()))
                .ok_or("a quantity such as 8Gi")?;
            Ok(Some(Amount::Absolute(mib)))
        }
        Unit::Percent => {
            let percent = Quantity::parse(value).ok().and_then(Quantity::whole);
            let percent = percent.and_then(|percent| u32::try_from(percent).ok());
            percent
                .filter(|percent| (1..=100).contains(percent))
                .and_then(|percent| Fraction::from_ppm(percent * 10_000))
                .map(|fraction| Some(of_total(fraction)))
                .ok_or("a percentage from 1 to 100")
        }
        Unit::Fraction => Fraction::parse(value)
            .map(|fraction| Some(of_total(fraction)))
            .map_err(|_| "a fraction above 0 and at most 1 such as 0.5"),
    }
}

const fn of_total(fraction: Fraction) -> Amount {
    Amount::OfTotal {
        fraction,
        by_default: false,
    }
}

/// `UUID,NVIDIA,MiB,cores:` for each device, containers parted by `;`, in their order. Which container is meant is sure only
/// where the pod has no init containers: releases differ in whether those are counted.
fn by_container<'p>(pod: &'p Pod, text: &str, path: &FieldPath) -> Vec<Given<'p>> {
    if !pod.spec.init_containers.is_empty() {
        return Vec::new();
    }
    let sections = text.strip_suffix(';').unwrap_or(text).split(';');
    let containers = pod.spec.containers.iter();
    containers
        .zip(sections)
        .filter_map(|(container, section)| of_section(container, section, path))
        .collect()
}

/// `None` where the container has no device, or where a part of it cannot be read.
fn of_section<'p>(container: &'p Container, section: &str, path: &FieldPath) -> Option<Given<'p>> {
    let mut devices: BTreeMap<Arc<str>, u32> = BTreeMap::new();
    let mut sums: BTreeMap<&str, Mib> = BTreeMap::new();
    let mut largest = None;
    let mut all_known = true;
    for entry in section.split(':').filter(|entry| !entry.is_empty()) {
        let mut fields = entry.split(',');
        let (id, kind, amount) = (fields.next()?, fields.next()?, fields.next()?);
        let mib: u64 = amount.parse().ok().filter(|mib| (1..=MOST_MIB).contains(mib))?;
        if !kind.starts_with("NVIDIA") {
            return None;
        }
        let mib = Mib::new(mib);
        largest = largest.max(Some(mib));
        let sum = sums.entry(id).or_insert(Mib::ZERO);
        *sum = sum.plus(mib);
        all_known &= is_gpu(id);
        *devices.entry(Arc::from(id)).or_default() += 1;
    }
    largest?;
    if !all_known {
        // An instance that was cut for the container (`GPU-…[0-1]`) stands on some device of the node.
        devices.clear();
    }
    Some(Given {
        container: &container.name,
        devices,
        largest,
        together: sums.into_values().max(),
        path: path.clone(),
    })
}

/// Identities of GPUs, parted by commas; none where one of them is something else.
fn identities(text: &str) -> BTreeMap<Arc<str>, u32> {
    let mut devices: BTreeMap<Arc<str>, u32> = BTreeMap::new();
    for id in text.split(',').map(str::trim) {
        if !is_gpu(id) {
            return BTreeMap::new();
        }
        *devices.entry(Arc::from(id)).or_default() += 1;
    }
    devices
}

fn is_gpu(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    id.strip_prefix("GPU-")
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(plain))
}

#[cfg(test)]
mod tests;
