//! The workload that a pod belongs to, as far as the pod itself tells.

use super::controller::controller_of;
use super::pod::Metadata;

/// Label in which a Deployment's ReplicaSet and pods carry the hash that ends the ReplicaSet's name.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// Labels that controllers write on the pods that come of an object of theirs, through however many others, with the
/// object's kind; the outermost first.
///
/// Sources: KServe `pkg/constants`, Knative `pkg/apis/serving/register.go`, LWS and JobSet `api/.../types.go`.
const LABELS: [(&str, &str); 4] = [
    ("serving.kserve.io/inferenceservice", "InferenceService"),
    ("serving.knative.dev/service", "Service"),
    ("leaderworkerset.sigs.k8s.io/name", "LeaderWorkerSet"),
    ("jobset.sigs.k8s.io/jobset-name", "JobSet"),
];
/// Labels of KubeRay: kind and name of the object that a cluster was made from.
const RAY: [&str; 2] = ["ray.io/originated-from-crd", "ray.io/originated-from-cr-name"];
/// Label in which an Argo Rollout's ReplicaSets and pods carry the hash that ends the ReplicaSet's name.
const ROLLOUT_HASH: &str = "rollouts-pod-template-hash";

/// Kind and name of the topmost workload that the pod's controller belongs to.
///
/// Where a label of a known controller names it, that counts.
/// A ReplicaSet whose name ends with the pod's template hash is a Deployment's, and a Job whose name ends with the
/// minute for which a CronJob made it is that CronJob's. Any other controller stands for itself. `None` for a bare pod,
/// and for a static pod, whose controller is its node.
#[must_use]
pub fn workload_owner(pod: &Metadata) -> Option<(&str, &str)> {
    let owner = controller_of(pod)?;
    let name = owner.name.as_str();
    let label = |key: &str| pod.labels.get(key).filter(|text| !text.is_empty());
    let told = LABELS
        .iter()
        .find_map(|(key, kind)| Some((*kind, label(key)?.as_str())));
    if let Some(told) = told {
        return Some(told);
    }
    if let [Some(kind), Some(name)] = RAY.map(label) {
        return Some((kind, name));
    }
    match owner.kind.as_str() {
        "Node" => None,
        "ReplicaSet" => {
            let of = |key: &str| {
                let owner = name.strip_suffix(label(key)?.as_str())?.strip_suffix('-')?;
                (!owner.is_empty()).then_some(owner)
            };
            let deployment = of(TEMPLATE_HASH).map(|name| ("Deployment", name));
            let rollout = || of(ROLLOUT_HASH).map(|name| ("Rollout", name));
            Some(deployment.or_else(rollout).unwrap_or(("ReplicaSet", name)))
        }
        "Job" => Some(match name.rsplit_once('-') {
            Some((cron_job, minute)) if !cron_job.is_empty() && is_cron_minute(minute) => {
                ("CronJob", cron_job)
            }
            _ => ("Job", name),
        }),
        kind => Some((kind, name)),
    }
}

/// Minutes since 1970, as the CronJob controller writes them: eight digits from 1989 to 2160. A hand-made `train-1` is
/// not one.
fn is_cron_minute(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::pod::OwnerReference;

    fn pod(kind: &str, name: &str, hash: &str) -> Metadata {
        let owner = OwnerReference {
            kind: kind.to_owned(),
            name: name.to_owned(),
            controller: true,
            ..OwnerReference::default()
        };
        Metadata {
            labels: [(TEMPLATE_HASH.to_owned(), hash.to_owned())].into(),
            owner_references: vec![owner],
            ..Metadata::default()
        }
    }

    #[test]
    fn the_top_workload_is_worked_out_from_the_pod() {
        for (kind, name, hash, want) in [
            ("ReplicaSet", "chat-7d9f6c", "7d9f6c", ("Deployment", "chat")),
            (
                "ReplicaSet",
                "chat-7d9f6c",
                "other",
                ("ReplicaSet", "chat-7d9f6c"),
            ),
            ("ReplicaSet", "chat", "", ("ReplicaSet", "chat")),
            ("ReplicaSet", "-7d9f6c", "7d9f6c", ("ReplicaSet", "-7d9f6c")),
            ("Job", "nightly-29742060", "", ("CronJob", "nightly")),
            ("Job", "train-1", "", ("Job", "train-1")),
            ("Job", "29742060", "", ("Job", "29742060")),
            ("StatefulSet", "db", "", ("StatefulSet", "db")),
            ("DaemonSet", "agent", "", ("DaemonSet", "agent")),
            (
                "ReplicationController",
                "old",
                "",
                ("ReplicationController", "old"),
            ),
            ("LeaderWorkerSet", "large", "", ("LeaderWorkerSet", "large")),
        ] {
            assert_eq!(workload_owner(&pod(kind, name, hash)), Some(want));
        }
    }

    #[test]
    fn labels_of_known_controllers_name_the_outermost_object() {
        let labelled = |kind: &str, name: &str, labels: &[(&str, &str)]| {
            let mut pod = pod(kind, name, "");
            pod.labels = labels
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect();
            pod
        };
        for (kind, name, labels, want) in [
            (
                "StatefulSet",
                "big-0",
                &[("leaderworkerset.sigs.k8s.io/name", "big")][..],
                ("LeaderWorkerSet", "big"),
            ),
            (
                "Job",
                "train-a-0",
                &[("jobset.sigs.k8s.io/jobset-name", "train")],
                ("JobSet", "train"),
            ),
            (
                "ReplicaSet",
                "chat-predictor-00001-deployment-5d",
                &[
                    ("serving.knative.dev/service", "chat-predictor"),
                    ("serving.kserve.io/inferenceservice", "chat"),
                ],
                ("InferenceService", "chat"),
            ),
            (
                "RayCluster",
                "llm-raycluster-x7k2p",
                &[
                    ("ray.io/originated-from-crd", "RayService"),
                    ("ray.io/originated-from-cr-name", "llm"),
                ],
                ("RayService", "llm"),
            ),
            (
                "ReplicaSet",
                "canary-6f8",
                &[("rollouts-pod-template-hash", "6f8")],
                ("Rollout", "canary"),
            ),
        ] {
            assert_eq!(workload_owner(&labelled(kind, name, labels)), Some(want));
        }
    }

    #[test]
    fn bare_and_static_pods_have_none() {
        assert_eq!(workload_owner(&Metadata::default()), None);
        assert_eq!(workload_owner(&pod("Node", "node-1", "")), None);
        let mut only_owned = pod("Job", "train", "");
        only_owned.owner_references[0].controller = false;
        assert_eq!(workload_owner(&only_owned), None);
    }
}
