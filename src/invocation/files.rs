//! Files of a container that come from ConfigMaps.

use std::collections::BTreeSet;

use crate::engine::{LookUp, Sources};
use crate::workload::pod::{ConfigMapVolume, Container, Pod, Volume, VolumeMount};

use super::environment::namespace;

/// The mount that holds a path: the deepest one.
fn mount<'p>(container: &'p Container, path: &str) -> Option<(&'p VolumeMount, String)> {
    let below = |mount: &'p VolumeMount| {
        let rest = path.strip_prefix(mount.mount_path.trim_end_matches('/'))?;
        let inside = rest.is_empty() || rest.starts_with('/');
        inside.then(|| (mount, rest.trim_start_matches('/').to_owned()))
    };
    container
        .volume_mounts
        .iter()
        .filter_map(below)
        .max_by_key(|(mount, _)| mount.mount_path.len())
}

/// The ConfigMaps that can hold the file at `path`, each with the key that it has there, or why there is none.
fn config_maps_of<'p>(
    pod: &'p Pod,
    container: &Container,
    path: &str,
) -> Result<Vec<(&'p ConfigMapVolume, String)>, String> {
    let Some((mount, rest)) = mount(container, path) else {
        return Err("it is not in a volume".to_owned());
    };
    let volume = pod.spec.volumes.iter().find(|volume| volume.name == mount.name);
    let Some(volume) = volume.filter(|volume| volume.config_maps().next().is_some()) else {
        return Err(format!("the volume {} is no ConfigMap", mount.name));
    };
    let inner = match mount.sub_path.as_deref().filter(|sub_path| !sub_path.is_empty()) {
        Some(sub_path) if rest.is_empty() => sub_path.to_owned(),
        Some(sub_path) => format!("{}/{rest}", sub_path.trim_end_matches('/')),
        None => rest,
    };
    let key = |config_map: &ConfigMapVolume| {
        if config_map.items.is_empty() {
            return Some(inner.clone());
        }
        let item = config_map.items.iter().find(|item| item.path == inner);
        item.map(|item| item.key.clone())
    };
    let found: Vec<_> = volume
        .config_maps()
        .filter_map(|config_map| Some((config_map, key(config_map)?)))
        .collect();
    if found.is_empty() {
        return Err(format!("the volume {} has no such file", mount.name));
    }
    Ok(found)
}

/// The ConfigMap that holds the file at `path`, its key there and its text, or why there is none. Of several sources of
/// one volume the last one that has the file counts, as the kubelet writes them in order.
pub(crate) fn config_map_of<'p, 's>(
    pod: &'p Pod,
    container: &Container,
    sources: &'s dyn Sources,
    path: &str,
) -> Result<(&'p ConfigMapVolume, String, &'s str), String> {
    let namespace = namespace(pod);
    let mut missing = None;
    for (config_map, key) in config_maps_of(pod, container, path)?.into_iter().rev() {
        let name = &config_map.name;
        let reason = match sources.config_map(namespace, name) {
            LookUp::Found(data) => match data.get(&key) {
                Some(text) => return Ok((config_map, key, text)),
                None => format!("ConfigMap {namespace}/{name} has no key {key}"),
            },
            LookUp::Missing => format!("ConfigMap {namespace}/{name} does not exist"),
            // It may hold the file, so that an earlier one does not count.
            LookUp::NotRead(why) => return Err(format!("ConfigMap {namespace}/{name} was not read: {why}")),
        };
        missing.get_or_insert(reason);
    }
    Err(missing.unwrap_or_default())
}

/// The text of the file at `path`, or why it is not known.
pub(crate) fn read<'s>(
    pod: &Pod,
    container: &Container,
    sources: &'s dyn Sources,
    path: &str,
) -> Result<&'s str, String> {
    config_map_of(pod, container, sources, path).map(|(_, _, text)| text)
}

/// Files below a folder of a container.
pub(crate) struct Listing {
    /// Their paths below it.
    pub(crate) paths: BTreeSet<String>,
    /// Why there may be others.
    pub(crate) unread: Option<String>,
    /// Whether the folder itself lies in a volume.
    pub(crate) mounted: bool,
}

/// The files below `folder` that ConfigMaps hold.
pub(crate) fn below(pod: &Pod, container: &Container, sources: &dyn Sources, folder: &str) -> Listing {
    let folder = folder.trim_end_matches('/');
    let own = mount(container, folder).map(|(mount, _)| &mount.name);
    let mut listing = Listing {
        paths: BTreeSet::new(),
        unread: own.is_none().then(|| "it is not in a volume".to_owned()),
        mounted: own.is_some(),
    };
    for mount in &container.volume_mounts {
        let at = mount.mount_path.trim_end_matches('/');
        let inside = |outer: &str, inner: &str| {
            inner
                .strip_prefix(outer)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if !inside(at, folder) && !inside(folder, at) {
            continue;
        }
        match keys(pod, mount, sources) {
            Ok(keys) => {
                let paths = keys.into_iter().map(|key| match key {
                    Some(path) => format!("{at}/{path}"),
                    None => at.to_owned(),
                });
                let below =
                    paths.filter_map(|path| Some(path.strip_prefix(folder)?.strip_prefix('/')?.to_owned()));
                listing.paths.extend(below);
            }
            Err(reason) => {
                listing.unread.get_or_insert(reason);
            }
        }
    }
    listing
}

/// The files of a mount by their paths below it; `None` for the mount itself, where it is one file.
fn keys(pod: &Pod, mount: &VolumeMount, sources: &dyn Sources) -> Result<Vec<Option<String>>, String> {
    let volume = pod.spec.volumes.iter().find(|volume| volume.name == mount.name);
    let Some(volume) = volume.filter(|volume| volume.is_of_config_maps()) else {
        return Err(format!("the volume {} is no ConfigMap", mount.name));
    };
    let namespace = namespace(pod);
    let mut paths = Vec::new();
    for config_map in volume.config_maps() {
        let name = &config_map.name;
        let data = match sources.config_map(namespace, name) {
            LookUp::Found(data) => data,
            LookUp::Missing if config_map.optional => continue,
            LookUp::Missing => return Err(format!("ConfigMap {namespace}/{name} does not exist")),
            LookUp::NotRead(why) => return Err(format!("ConfigMap {namespace}/{name} was not read: {why}")),
        };
        if config_map.items.is_empty() {
            paths.extend(data.keys().cloned());
        } else {
            let present = config_map
                .items
                .iter()
                .filter(|item| data.contains_key(&item.key));
            paths.extend(present.map(|item| item.path.clone()));
        }
    }
    let sub_path = mount
        .sub_path
        .as_deref()
        .unwrap_or_default()
        .trim_end_matches('/');
    if sub_path.is_empty() {
        return Ok(paths.into_iter().map(Some).collect());
    }
    let within = |path: &String| {
        let rest = path.strip_prefix(sub_path)?;
        if rest.is_empty() {
            Some(None)
        } else {
            rest.strip_prefix('/').map(|rest| Some(rest.to_owned()))
        }
    };
    Ok(paths.iter().filter_map(within).collect())
}

/// Names of the ConfigMaps whose files the container's command line may name.
pub(crate) fn config_maps<'p>(pod: &'p Pod, container: &'p Container) -> impl Iterator<Item = &'p str> {
    let texts = || {
        let words = container.command.iter().chain(&container.args).flatten();
        let made = container
            .made
            .iter()
            .flat_map(|made| made.commands.iter().flatten());
        words.chain(made).chain(
            container
                .env
                .iter()
                .filter_map(|variable| variable.value.as_ref()),
        )
    };
    container.volume_mounts.iter().flat_map(move |mount| {
        let volume = pod.spec.volumes.iter().find(|volume| volume.name == mount.name);
        let at = mount.mount_path.trim_end_matches('/');
        let named = texts().any(|text| text.contains(at) || names_folder_of(text, at));
        let maps = volume.filter(|_| named).map(Volume::config_maps);
        maps.into_iter().flatten().map(|map| map.name.as_str())
    })
}

/// Whether a text names a folder that holds `path`.
fn names_folder_of(text: &str, path: &str) -> bool {
    let ends = |c: char| c.is_whitespace() || matches!(c, '=' | '"' | '\'' | ';' | ':' | ',');
    text.split(ends)
        .map(|word| word.trim_end_matches('/'))
        .filter(|word| word.len() > 1 && word.starts_with('/'))
        .any(|folder| {
            path.strip_prefix(folder)
                .is_some_and(|rest| rest.starts_with('/'))
        })
}
