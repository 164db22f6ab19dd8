//! KubeRay: it puts its own start of Ray behind what a container says, and an application's engine stands in the
//! object, far from any container.

use serde_json::Value;

use super::super::pod::{Container, EnvVar, Made};
use super::Template;

mod serve;

/// Engines of one pod that are written out; a reader gives up below that.
const MOST_ENGINES: usize = 64;

/// Says that a container's own command stands, without the start of Ray.
const OVERWRITE: &str = "ray.io/overwrite-container-cmd";

/// Adds what KubeRay makes of the first container of each group.
pub(super) fn complete(object: &Value, spec: &Value, found: &mut [Template]) {
    let config = spec.get("serveConfigV2").and_then(Value::as_str);
    let (engines, unread) = match config.map(serve::engines) {
        Some(Ok(engines)) => (engines, None),
        Some(Err(reason)) => (Vec::new(), Some(reason)),
        None => (Vec::new(), None),
    };
    let is_head = |template: &Template| template.path.as_str().contains("headGroupSpec");
    let head_runs = found
        .iter()
        .filter(|template| is_head(template))
        .filter_map(|template| template.pod.spec.containers.first())
        .any(|container| !line(container).is_empty());
    let of_object = object
        .get("metadata")
        .and_then(|metadata| metadata.get("annotations")?.get(OVERWRITE))
        .is_some_and(|text| text == "true");
    let reason = "KubeRay makes the command line";
    for template in found {
        let head = is_head(template);
        let overwritten = template
            .pod
            .metadata
            .annotations
            .get(OVERWRITE)
            .is_some_and(|text| text == "true");
        let Some(container) = template.pod.spec.containers.first_mut() else {
            continue;
        };
        let asks = !container.resources.limits.is_empty()
            && container.resources.limits.keys().any(|name| name.contains("gpu"));
        let own = line(container);
        let start = if head {
            "ray start --head"
        } else {
            "ray start --address=head:6379"
        };
        if overwritten || of_object {
            // The start of Ray is a variable, which the command may use.
            container.env.push(EnvVar {
                name: "KUBERAY_GEN_RAY_START_CMD".to_owned(),
                value: Some(start.to_owned()),
                value_from: None,
            });
            continue;
        }
        let mut made = Made {
            by: reason.to_owned(),
            ..Made::default()
        };
        if !own.is_empty() {
            made.commands = vec![
                ["/bin/bash", "-c", "--"]
                    .into_iter()
                    .map(str::to_owned)
                    .chain([format!("{own} && {start}")])
                    .collect(),
            ];
        } else if head || head_runs || !engines.is_empty() {
            made.commands = vec![start.split(' ').map(str::to_owned).collect()];
        } else if config.is_some() {
            "the application of serveConfigV2 runs there, and its code is not read".clone_into(&mut made.by);
        } else {
            "a Ray worker runs what is submitted to the cluster later".clone_into(&mut made.by);
        }
        if asks && !engines.is_empty() {
            "the engine's options stand in serveConfigV2 of the object; KubeRay starts it"
                .clone_into(&mut made.by);
            let devices = devices(container);
            let copies = engines.iter().flat_map(|engine| {
                std::iter::repeat_n(&engine.words, engine.copies(devices).min(MOST_ENGINES))
            });
            made.commands.extend(copies.take(MOST_ENGINES).cloned());
        }
        if let Some(reason) = unread.filter(|_| asks) {
            made.commands.clear();
            reason.clone_into(&mut made.by);
        }
        container.made = Some(made);
    }
}

/// Whole devices that a container asks for.
fn devices(container: &Container) -> u32 {
    let limits = container.resources.limits.iter();
    let counts = limits.filter(|(name, _)| crate::device::is_slot_resource(name));
    counts
        .filter_map(|(_, quantity)| quantity.0.parse().ok())
        .max()
        .unwrap_or(1)
}

/// What a container executes, as one line: KubeRay joins command and arguments without quoting them.
fn line(container: &Container) -> String {
    let words = container.command.iter().chain(&container.args).flatten();
    words.map(|word| word.trim()).collect::<Vec<_>>().join(" ")
}
