//! Groups of pods: how many of each template a kind makes, and what its controller tells each pod of its group.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::super::controller::Malformed;
use super::{Scale, Surge, Template, count};
use crate::finding::FieldPath;

/// Under this annotation the LeaderWorkerSet controller tells each pod the size of its group, and sets `LWS_GROUP_SIZE` from
/// it (`AddLWSVariables` in `pkg/utils/pod/pod_utils.go` of kubernetes-sigs/lws).
pub(crate) const GROUP_SIZE: &str = "leaderworkerset.sigs.k8s.io/size";
/// Under this label it tells each pod its place, and sets `LWS_WORKER_INDEX`; the leader's is 0.
pub(crate) const WORKER_INDEX: &str = "leaderworkerset.sigs.k8s.io/worker-index";

/// What the controller tells a pod of its group: its size, and to the leader its place.
fn tell(template: &mut Template, size: u32, is_leader: bool) {
    let metadata = &mut template.pod.metadata;
    let told = |names: &mut BTreeMap<String, String>, name: &str, value: String| {
        names.entry(name.to_owned()).or_insert(value);
    };
    told(&mut metadata.annotations, GROUP_SIZE, size.to_string());
    if is_leader {
        told(&mut metadata.labels, WORKER_INDEX, 0.to_string());
    }
}

/// Pods of a group of `size` that are made from its worker template: all but the leader where that has a template of its
/// own.
const fn workers(size: u32, led: bool) -> u32 {
    if led { size.saturating_sub(1) } else { size }
}

/// LeaderWorkerSet: of each of `replicas` groups one pod is the leader and the others are workers; without a template of
/// its own the leader is a worker as well.
///
/// Source: `leaderworkerset_types.go` of kubernetes-sigs/lws (one replica of size one where nothing is said;
/// `maxSurge` groups are added in a rolling update, none by default, and `maxUnavailable` is one).
pub(super) fn leader_worker_set(spec: &Value, found: &mut [Template]) -> Result<(), Malformed> {
    let own = FieldPath::new("spec");
    let at = own.field("leaderWorkerTemplate");
    let group = count::map(spec, &own, "leaderWorkerTemplate")?.unwrap_or(&Value::Null);
    let replicas = count::field(spec, &own, "replicas")?.unwrap_or(1);
    let size = count::field(group, &at, "size")?.unwrap_or(1);
    let led = group
        .get("leaderTemplate")
        .is_some_and(|leader| !leader.is_null());
    let (worker, leader) = (at.field("workerTemplate"), at.field("leaderTemplate"));
    let rollout = own.field("rolloutStrategy");
    let strategy = count::map(spec, &own, "rolloutStrategy")?.unwrap_or(&Value::Null);
    let rolling_at = rollout.field("rollingUpdateConfiguration");
    let rolling = count::map(strategy, &rollout, "rollingUpdateConfiguration")?.unwrap_or(&Value::Null);
    let surge = count::or_percent(rolling, &rolling_at, "maxSurge", replicas, true)?.unwrap_or(0);
    let unavailable =
        count::or_percent(rolling, &rolling_at, "maxUnavailable", replicas, false)?.unwrap_or(1);
    for template in found {
        let is_leader = template.path == leader;
        let pods = if template.path == worker {
            workers(size, led)
        } else if is_leader {
            1
        } else {
            continue;
        };
        tell(template, size, is_leader);
        template.desired = replicas.saturating_mul(pods);
        template.layout.scale = Some(Scale {
            path: own.field("replicas"),
            name: "replicas",
            now: replicas,
            least: 0,
            pods,
        });
        template.layout.surge = (surge > 0 && template.desired > 0).then(|| Surge {
            pods: surge.saturating_mul(pods),
            unavailable: unavailable.saturating_mul(pods),
            path: rolling_at.clone(),
            without: vec![
                (rolling_at.field("maxSurge").to_pointer(), 0.into()),
                (
                    rolling_at.field("maxUnavailable").to_pointer(),
                    unavailable.max(1).into(),
                ),
            ],
        });
    }
    Ok(())
}

/// Completes the templates that were found below `map`, at `path`, of a kind that nobody wrote down here: how many pods of
/// each one replica has, and what the controller tells them of their group.
pub(super) fn complete(map: &Map<String, Value>, path: &FieldPath, found: &mut [Template]) {
    if found.is_empty() {
        return;
    }
    let number = |map: &Map<String, Value>, name: &str| count::in_map(map, path, name).ok().flatten();
    let inner = |name: &str| map.get(name).and_then(Value::as_object);
    if let Some(group) = inner("leaderWorkerTemplate") {
        let size = number(group, "size").unwrap_or(1);
        let led = group
            .get("leaderTemplate")
            .is_some_and(|leader| !leader.is_null());
        let worker = path.field("leaderWorkerTemplate").field("workerTemplate");
        for template in &mut *found {
            let is_worker = template.path == worker;
            if is_worker {
                template.desired = template.desired.saturating_mul(workers(size, led));
            }
            tell(template, size, !is_worker);
        }
    }
    // RoleBasedGroup: a role that is a LeaderWorkerSet; both are made from one template.
    if let Some(size) = inner("leaderWorkerSet").and_then(|set| number(set, "size")) {
        for template in &mut *found {
            template.desired = template.desired.saturating_mul(size);
            tell(template, size, false);
        }
    }
    // AIBrix: a replica of a role is a set of pods.
    if let Some(size) = number(map, "podGroupSize") {
        for template in &mut *found {
            template.desired = template.desired.saturating_mul(size);
        }
    }
    // Kthena: beside each entry pod stand workers of a template of their own.
    if let Some(workers) = number(map, "workerReplicas") {
        let worker = path.field("workerTemplate");
        for template in found.iter_mut().filter(|template| template.path == worker) {
            template.desired = template.desired.saturating_mul(workers);
        }
    }
}

/// JobSet: the Jobs of a list, each so many times, and each with the pods that run at once. A suspended one makes none.
///
/// Source: `jobset_types.go` of kubernetes-sigs/jobset (one replica where nothing is said).
pub(super) fn job_set(spec: &Value, found: &mut [Template]) -> Result<(), Malformed> {
    let own = FieldPath::new("spec");
    let suspended = count::flag(spec, &own, "suspend")?;
    let list = own.field("replicatedJobs");
    for (index, jobs) in count::list(spec, &own, "replicatedJobs")?.iter().enumerate() {
        let at = list.index(index);
        let replicas = count::field(jobs, &at, "replicas")?.unwrap_or(1);
        let job_at = at.field("template").field("spec");
        let job = count::map(jobs, &at, "template")?.and_then(|template| template.get("spec"));
        let job = job.unwrap_or(&Value::Null);
        let completions = count::field(job, &job_at, "completions")?.unwrap_or(u32::MAX);
        let pods = count::field(job, &job_at, "parallelism")?
            .unwrap_or(1)
            .min(completions);
        let stopped = suspended || count::flag(job, &job_at, "suspend")?;
        let path = job_at.field("template");
        for template in found.iter_mut().filter(|template| template.path == path) {
            template.desired = if stopped { 0 } else { replicas.saturating_mul(pods) };
            template.layout.scale = Some(Scale {
                path: at.field("replicas"),
                name: "replicas",
                now: replicas,
                least: 0,
                pods,
            });
        }
    }
    Ok(())
}

/// InferenceService: `minReplicas` of the predictor counts where it makes the pods of one template.
pub(super) fn predictor(spec: &Value, found: &mut [Template]) -> Result<(), Malformed> {
    let own = FieldPath::new("spec");
    let at = own.field("predictor");
    let Some(predictor) = count::map(spec, &own, "predictor")? else {
        return Ok(());
    };
    let Some(least) = count::field(predictor, &at, "minReplicas")? else {
        return Ok(());
    };
    for template in found.iter_mut().filter(|template| template.path == at) {
        template.layout.scale = Some(Scale {
            path: at.field("minReplicas"),
            name: "minReplicas",
            now: least,
            least: 0,
            pods: 1,
        });
    }
    Ok(())
}
