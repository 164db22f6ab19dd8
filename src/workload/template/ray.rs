//! KubeRay: it puts its own start of Ray behind what a container says, and an application's engine stands in the
//! object, far from any container.

use serde_json::Value;

use super::super::controller::Malformed;
use super::super::pod::{Container, EnvVar, Made};
use super::{Origin, Scale, Surge, Template, count};
use crate::finding::FieldPath;

mod serve;

/// Engines of one pod that are written out; a reader gives up below that.
const MOST_ENGINES: usize = 64;

/// Says that a container's own command stands, without the start of Ray.
const OVERWRITE: &str = "ray.io/overwrite-container-cmd";

/// Sets how many pods each group makes: the head one, a group of workers its replicas within its bounds, each of
/// `numOfHosts` pods; none while the cluster or the group is suspended.
///
/// Sources: `raycluster_types.go` of KubeRay (defaults: no replicas, no least, no most), and its
/// `GetWorkerGroupDesiredReplicas`.
pub(super) fn replicas(kind: &str, spec: &Value, found: &mut [Template]) -> Result<(), Malformed> {
    let own = FieldPath::new("spec");
    let field = match kind {
        "RayService" => "rayClusterConfig",
        "RayJob" => "rayClusterSpec",
        _ => "",
    };
    let at = own.field(field);
    let cluster = if field.is_empty() {
        spec
    } else {
        count::map(spec, &own, field)?.unwrap_or(&Value::Null)
    };
    let suspended = count::flag(spec, &own, "suspend")? || count::flag(cluster, &at, "suspend")?;
    let list = at.field("workerGroupSpecs");
    let groups = count::list(cluster, &at, "workerGroupSpecs")?;
    for (index, group) in groups.iter().enumerate() {
        let path = list.index(index);
        let number = |name: &str| count::field(group, &path, name);
        let least = number("minReplicas")?.unwrap_or(0);
        let most = number("maxReplicas")?;
        let replicas = number("replicas")?.unwrap_or(0).max(least);
        let replicas = replicas.min(most.unwrap_or(u32::MAX).max(least));
        let hosts = number("numOfHosts")?.unwrap_or(1);
        let stopped = count::flag(group, &path, "suspend")?;
        let template = path.field("template");
        for made in found.iter_mut().filter(|made| made.path == template) {
            made.desired = if stopped {
                0
            } else {
                replicas.saturating_mul(hosts)
            };
            // Only an autoscaler goes beyond what is wanted.
            let scaled = cluster.get("enableInTreeAutoscaling") == Some(&Value::Bool(true));
            made.max = most.filter(|_| scaled).map(|most| most.saturating_mul(hosts));
            made.layout.scale = Some(Scale {
                path: path.field("replicas"),
                name: "replicas",
                now: replicas,
                least,
                pods: hosts,
            });
        }
    }
    let head = at.field("headGroupSpec").field("template");
    for made in found.iter_mut() {
        if made.path == head {
            made.desired = 1;
            made.max = None;
        }
        if suspended {
            made.desired = 0;
        }
    }
    if kind == "RayService" {
        beside_the_old(spec, &own, found)?;
    }
    Ok(())
}

/// A changed cluster of a `RayService` is started beside the old one, which ends when the new one serves.
fn beside_the_old(spec: &Value, own: &FieldPath, found: &mut [Template]) -> Result<(), Malformed> {
    let path = own.field("upgradeStrategy");
    let strategy = count::map(spec, own, "upgradeStrategy")?.unwrap_or(&Value::Null);
    if count::text(strategy, &path, "type")? == Some("None") {
        return Ok(());
    }
    for made in found.iter_mut() {
        made.layout.surge = (made.desired > 0).then(|| Surge {
            pods: made.desired,
            unavailable: 0,
            path: path.clone(),
            without: Vec::new(),
        });
    }
    Ok(())
}

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
            // The start of Ray is a variable, which the command may use; it stands nowhere.
            let list = FieldPath::new("spec").field("containers").index(0);
            let whole = template.layout.origin(&list);
            template
                .layout
                .put(list.field("env").index(container.env.len()), whole);
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
        let written = |field: &str| {
            let list = FieldPath::new("spec").field("containers").index(0);
            Origin::own(template.layout.origin(&list.field(field)).path)
        };
        if !own.is_empty() {
            let has_command = container.command.iter().flatten().next().is_some();
            let field = if has_command { "command" } else { "args" };
            made.origins.insert((0, 3), written(field));
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
            let devices = count::devices(container);
            let copies = engines.iter().flat_map(|engine| {
                std::iter::repeat_n(&engine.words, engine.copies(devices).min(MOST_ENGINES))
            });
            let served = Origin::own(FieldPath::new("spec").field("serveConfigV2"));
            for words in copies.take(MOST_ENGINES) {
                let command = made.commands.len();
                made.origins
                    .extend((0..words.len()).map(|word| ((command, word), served.clone())));
                made.commands.push(words.clone());
            }
        }
        if let Some(reason) = unread.filter(|_| asks) {
            made.commands.clear();
            reason.clone_into(&mut made.by);
        }
        container.made = Some(made);
    }
}

/// What a container executes, as one line: KubeRay joins command and arguments without quoting them.
fn line(container: &Container) -> String {
    let words = container.command.iter().chain(&container.args).flatten();
    words.map(|word| word.trim()).collect::<Vec<_>>().join(" ")
}
