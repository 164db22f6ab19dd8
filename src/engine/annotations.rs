//! VG108: annotations that are nearly one of vramgate's own.

use super::near::nearest;
use super::{Placed, Role, containers};
use crate::finding::{Code, FieldPath, Finding};
use crate::workload::pod::Pod;
use crate::workload::slots;

/// Whose annotations are read.
const DOMAIN: &str = "vramgate.io";
/// Names that stand before `.CONTAINER`.
const NAMES: [&str; 1] = ["gpu-memory"];
/// Findings for one pod.
const MOST: usize = 4;

/// The findings that belong to a container: of annotations that name it, and at the first container with devices those
/// that name none.
pub(super) fn near_misses(pod: &Pod, placed: Placed<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for key in pod.metadata.annotations.keys() {
        let Some((owner, message)) = near_miss(pod, key) else {
            continue;
        };
        let first = pod
            .spec
            .containers
            .iter()
            .find(|container| slots::names_any(container));
        let asks = |name: &str| {
            let mut named = containers(pod).filter(|other| other.container.name == name);
            named.any(|other| {
                slots::names_any(other.container) || !other.container.resources.claims.is_empty()
            })
        };
        let here = match owner.as_deref().filter(|name| asks(name)) {
            Some(name) => *name == placed.container.name,
            // Nobody reads a container without devices, so what names one is told where one has some.
            None => {
                placed.role == Role::Container
                    && first.is_some_and(|first| first.name == placed.container.name)
            }
        };
        if here && findings.len() < MOST {
            let path = FieldPath::new("metadata").field("annotations").key(key);
            findings.push(Finding::new(Code::Vg108, path, message));
        }
    }
    findings
}

/// Whose annotation it was meant to be, where that is known, and what to write.
fn near_miss(pod: &Pod, key: &str) -> Option<(Option<String>, String)> {
    let (domain, rest) = key.split_once('/')?;
    let own = domain == DOMAIN;
    if !own && nearest([DOMAIN].into_iter(), domain, 2).is_none() {
        return None;
    }
    let (name, container) = match rest.split_once('.') {
        Some((name, container)) => (name, Some(container)),
        None => (rest, None),
    };
    let known = NAMES.contains(&name);
    let name = if known {
        name
    } else {
        nearest(NAMES.into_iter(), name, 3)?
    };
    let names = || {
        let spec = &pod.spec;
        spec.containers
            .iter()
            .chain(&spec.init_containers)
            .map(|container| container.name.as_str())
    };
    let meant = match container {
        Some(container) if names().any(|name| name == container) => Some(container),
        Some(container) => nearest(names(), container, 2),
        None => None,
    };
    if own && known && container.is_some() && meant == container {
        return None;
    }
    let right = format!("{DOMAIN}/{name}.{}", meant.unwrap_or("CONTAINER"));
    let why = match (container, meant) {
        (None, _) => "it names no container",
        (Some(_), None) => "no container has that name",
        _ => "nothing reads that name",
    };
    let message = format!("the annotation {key} has no effect: {why}; write {right}");
    Some((meant.map(str::to_owned), message))
}
