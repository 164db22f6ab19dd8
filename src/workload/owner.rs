//! The workload that a pod belongs to, as far as the pod itself tells.

use super::controller::controller_of;
use super::pod::Metadata;

/// Label in which a Deployment's ReplicaSet and pods carry the hash that ends the ReplicaSet's name.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// Kind and name of the topmost workload that the pod's controller belongs to.
///
/// A ReplicaSet whose name ends with the pod's template hash is a Deployment's, and a Job whose name ends with the
/// minute for which a CronJob made it is that CronJob's. Any other controller stands for itself. `None` for a bare pod,
/// and for a static pod, whose controller is its node.
#[must_use]
pub fn workload_owner(pod: &Metadata) -> Option<(&str, &str)> {
    let owner = controller_of(pod)?;
    let name = owner.name.as_str();
    match owner.kind.as_str() {
        "Node" => None,
        "ReplicaSet" => {
            let hash = pod.labels.get(TEMPLATE_HASH).filter(|hash| !hash.is_empty());
            let deployment = hash.and_then(|hash| name.strip_suffix(hash.as_str())?.strip_suffix('-'));
            Some(
                deployment
                    .filter(|name| !name.is_empty())
                    .map_or(("ReplicaSet", name), |name| ("Deployment", name)),
            )
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
    fn bare_and_static_pods_have_none() {
        assert_eq!(workload_owner(&Metadata::default()), None);
        assert_eq!(workload_owner(&pod("Node", "node-1", "")), None);
        let mut only_owned = pod("Job", "train", "");
        only_owned.owner_references[0].controller = false;
        assert_eq!(workload_owner(&only_owned), None);
    }
}
