//! What a pod says of where it wants to stand and the placement does not model.

use crate::workload::pod::PodSpec;

/// What was left out of account, as a sentence; empty where nothing was. The scheduler may then find no place among
/// those that were counted, or another one.
pub(super) fn sentence(spec: &PodSpec) -> &'static str {
    let between_pods = spec
        .affinity
        .as_ref()
        .is_some_and(|affinity| affinity.pod_affinity.is_some() || affinity.pod_anti_affinity.is_some());
    match (between_pods, !spec.topology_spread_constraints.is_empty()) {
        (false, false) => "",
        (true, false) => "places were sought without regard to the pod's (anti-)affinity to other pods",
        (false, true) => "places were sought without regard to the pod's topology spread",
        (true, true) => {
            "places were sought without regard to the pod's (anti-)affinity to other pods and its topology spread"
        }
    }
}
