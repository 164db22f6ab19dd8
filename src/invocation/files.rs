//! Files of a container that come from ConfigMaps.

use crate::engine::{LookUp, Sources};
use crate::workload::pod::{Container, Pod, VolumeMount};

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

/// The text of the file at `path`, or why it is not known.
pub(crate) fn read<'s>(
    pod: &Pod,
    container: &Container,
    sources: &'s dyn Sources,
    path: &str,
) -> Result<&'s str, String> {
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

/// Names of the ConfigMaps whose files the container's command line may name.
pub(crate) fn config_maps<'p>(pod: &'p Pod, container: &'p Container) -> impl Iterator<Item = &'p str> {
    let texts = || {
        let words = container.command.iter().chain(&container.args).flatten();
        words.chain(
            container
                .env
                .iter()
                .filter_map(|variable| variable.value.as_ref()),
        )
    };
    container.volume_mounts.iter().filter_map(move |mount| {
        let volume = pod.spec.volumes.iter().find(|volume| volume.name == mount.name)?;
        let map = volume.config_map.as_ref()?;
        let named = texts().any(|text| text.contains(mount.mount_path.trim_end_matches('/')));
        named.then_some(map.name.as_str())
    })
}
