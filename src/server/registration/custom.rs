//! Where objects of other schemas say that their pods ask for GPUs: one row for each kind that is judged.

use super::conditions::Spot;
use crate::workload::CustomKind;
use crate::workload::template::MODEL_FIELDS;

/// The spots of a kind; none of one that has no row here.
pub(super) const fn spots(kind: &CustomKind) -> &'static [Spot] {
    match kind.kind.as_bytes() {
        b"LeaderWorkerSet" => &[
            Spot::Template("spec.leaderWorkerTemplate.leaderTemplate"),
            Spot::Template("spec.leaderWorkerTemplate.workerTemplate"),
        ],
        b"JobSet" => &[Spot::Each("spec.replicatedJobs", "template.spec.template")],
        b"RayCluster" => &[
            Spot::Template("spec.headGroupSpec.template"),
            Spot::Each("spec.workerGroupSpecs", "template"),
        ],
        b"RayService" => &[
            Spot::Template("spec.rayClusterConfig.headGroupSpec.template"),
            Spot::Each("spec.rayClusterConfig.workerGroupSpecs", "template"),
        ],
        b"RayJob" => &[
            Spot::Template("spec.rayClusterSpec.headGroupSpec.template"),
            Spot::Each("spec.rayClusterSpec.workerGroupSpecs", "template"),
            Spot::Template("spec.submitterPodTemplate"),
        ],
        b"InferenceService" => &[
            Spot::Pod("spec.predictor"),
            Spot::Pod("spec.predictor.workerSpec"),
            Spot::Named("spec.predictor", MODEL_FIELDS),
        ],
        b"LLMInferenceService" => &[
            Spot::Pod("spec.template"),
            Spot::Pod("spec.worker"),
            Spot::Pod("spec.prefill.template"),
            Spot::Pod("spec.prefill.worker"),
        ],
        b"Rollout" | b"Service" => &[Spot::Template("spec.template")],
        b"NIMService" => &[Spot::Container("spec"), Spot::Present("spec.draResources")],
        b"Model" => &[Spot::Begins("spec.resourceProfile", "nvidia-gpu")],
        b"DynamoGraphDeployment" => &[
            Spot::Services("spec.services"),
            Spot::Each("spec.components", "podTemplate"),
        ],
        b"VLLMRuntime" => &[Spot::Present("spec.deploymentConfig.resources.gpu")],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_that_is_judged_has_a_row() {
        for kind in CustomKind::ALL {
            assert!(!spots(kind).is_empty(), "{}", kind.kind);
        }
    }
}
