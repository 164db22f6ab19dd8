//! Groups of pods that one replica consists of: leaders and workers, nodes of one engine.

use serde_json::{Map, Value};

use super::{Template, number};

/// Under this annotation the LeaderWorkerSet controller tells each pod the size of its group, and sets `LWS_GROUP_SIZE`
/// (`pkg/webhooks/pod_webhook.go` of kubernetes-sigs/lws).
pub(crate) const GROUP_SIZE: &str = "leaderworkerset.sigs.k8s.io/size";
/// Under this label it tells each pod its place, and sets `LWS_WORKER_INDEX`; the leader's is 0.
pub(crate) const WORKER_INDEX: &str = "leaderworkerset.sigs.k8s.io/worker-index";

/// Completes the templates that were found below `map`, at `path`: how many pods of each one replica has, and what the
/// controller tells them of their group.
pub(super) fn complete(map: &Map<String, Value>, path: &str, found: &mut [Template]) {
    if found.is_empty() {
        return;
    }
    let inner = |name: &str| map.get(name).and_then(Value::as_object);
    if let Some(group) = inner("leaderWorkerTemplate") {
        let size = number(group, &["size"]).unwrap_or(1);
        let led = group.contains_key("leaderTemplate");
        for template in &mut *found {
            let is_worker = template.path.as_str().ends_with("workerTemplate");
            if is_worker {
                let workers = if led { size.saturating_sub(1) } else { size };
                template.desired = template.desired.saturating_mul(workers);
            } else {
                let labels = &mut template.pod.metadata.labels;
                labels
                    .entry(WORKER_INDEX.to_owned())
                    .or_insert_with(|| "0".to_owned());
            }
            tell_size(template, size);
        }
    }
    // RoleBasedGroup: a role that is a LeaderWorkerSet; both are made from one template.
    if let Some(size) = inner("leaderWorkerSet").and_then(|set| number(set, &["size"])) {
        for template in &mut *found {
            template.desired = template.desired.saturating_mul(size);
            tell_size(template, size);
        }
    }
    // AIBrix: a replica of a role is a set of pods. Dynamo: a replica spans nodes.
    let pods = number(map, &["podGroupSize"]);
    let nodes = inner("multinode").and_then(|nodes| number(nodes, &["nodeCount"]));
    for size in [pods, nodes].into_iter().flatten() {
        for template in &mut *found {
            template.desired = template.desired.saturating_mul(size);
        }
    }
    // Kthena: beside each entry pod stand workers of a template of their own.
    if let Some(workers) = number(map, &["workerReplicas"]) {
        let worker = format!("{path}.workerTemplate");
        for template in found
            .iter_mut()
            .filter(|template| template.path.as_str() == worker)
        {
            template.desired = template.desired.saturating_mul(workers);
        }
    }
}

fn tell_size(template: &mut Template, size: u32) {
    let annotations = &mut template.pod.metadata.annotations;
    annotations
        .entry(GROUP_SIZE.to_owned())
        .or_insert_with(|| size.to_string());
}
