//! Files of a container that come from ConfigMaps.

use std::collections::BTreeSet;

use crate::engine::{LookUp, Sources};
use crate::workload::pod::{ConfigMapVolume, Container, Pod, VolumeMount};

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

/// The ConfigMap that is mounted at `path` and the key that the file has in it, or why there is none.
pub(crate) fn config_map_of<'p>(
    pod: &'p Pod,
    container: &Container,
    path: &str,
) -> Result<(&'p ConfigMapVolume, String), String> {
    let Some((mount, rest)) = mount(container, path) else {
        return Err("it is not in a volume".to_owned());
    };
    let volume = pod.spec.volumes.iter().find(|volume| volume.name == mount.name);
    let Some(config_map) = volume.and_then(|volume| volume.config_map.as_ref()) else {
        return Err(format!("the volume {} is no ConfigMap", mount.name));
    };
    let inner = match mount.sub_path.as_deref().filter(|sub_path| !sub_path.is_empty()) {
        Some(sub_path) if rest.is_empty() => sub_path.to_owned(),
        Some(sub_path) => format!("{}/{rest}", sub_path.trim_end_matches('/')),
        None => rest,
    };
    let key = if config_map.items.is_empty() {
        inner
    } else {
        let item = config_map.items.iter().find(|item| item.path == inner);
        item.map(|item| item.key.clone())
            .ok_or_else(|| format!("the volume {} has no such file", mount.name))?
    };
    Ok((config_map, key))
}

/// The text of the file at `path`, or why it is not known.
pub(crate) fn read<'s>(
    pod: &Pod,
    container: &Container,
    sources: &'s dyn Sources,
    path: &str,
) -> Result<&'s str, String> {
    let (config_map, key) = config_map_of(pod, container, path)?;
    let namespace = namespace(pod);
    match sources.config_map(namespace, &config_map.name) {
        LookUp::Found(data) => data
            .get(&key)
            .map(String::as_str)
            .ok_or_else(|| format!("ConfigMap {namespace}/{} has no key {key}", config_map.name)),
        LookUp::Missing => Err(format!(
            "ConfigMap {namespace}/{} does not exist",
            config_map.name
        )),
        LookUp::NotRead(why) => Err(format!(
            "ConfigMap {namespace}/{} was not read: {why}",
            config_map.name
        )),
    }
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
    let Some(config_map) = volume.and_then(|volume| volume.config_map.as_ref()) else {
        return Err(format!("the volume {} is no ConfigMap", mount.name));
    };
    let namespace = namespace(pod);
    let name = &config_map.name;
    let data = match sources.config_map(namespace, name) {
        LookUp::Found(data) => data,
        LookUp::Missing if config_map.optional => return Ok(Vec::new()),
        LookUp::Missing => return Err(format!("ConfigMap {namespace}/{name} does not exist")),
        LookUp::NotRead(why) => return Err(format!("ConfigMap {namespace}/{name} was not read: {why}")),
    };
    let paths: Vec<String> = if config_map.items.is_empty() {
        data.keys().cloned().collect()
    } else {
        let present = config_map
            .items
            .iter()
            .filter(|item| data.contains_key(&item.key));
        present.map(|item| item.path.clone()).collect()
    };
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
    container.volume_mounts.iter().filter_map(move |mount| {
        let volume = pod.spec.volumes.iter().find(|volume| volume.name == mount.name)?;
        let map = volume.config_map.as_ref()?;
        let at = mount.mount_path.trim_end_matches('/');
        let named = texts().any(|text| text.contains(at) || names_folder_of(text, at));
        named.then_some(map.name.as_str())
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
