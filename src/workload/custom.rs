//! Kinds of other API groups that make pods and are judged: one table, which the decoding and the registration read.

/// A kind with pod templates in a schema of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CustomKind {
    /// API group.
    pub group: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Resource, as paths and rules name it.
    pub plural: &'static str,
    /// Versions with the schema that is read, newest first.
    pub versions: &'static [&'static str],
}

const fn kind(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    versions: &'static [&'static str],
) -> CustomKind {
    CustomKind {
        group,
        kind,
        plural,
        versions,
    }
}

impl CustomKind {
    /// Every one. Sources: the CustomResourceDefinitions of each project.
    pub const ALL: &'static [Self] = &[
        kind(
            "leaderworkerset.x-k8s.io",
            "LeaderWorkerSet",
            "leaderworkersets",
            &["v1"],
        ),
        kind("jobset.x-k8s.io", "JobSet", "jobsets", &["v1alpha2"]),
        kind("ray.io", "RayCluster", "rayclusters", &["v1", "v1alpha1"]),
        kind("ray.io", "RayService", "rayservices", &["v1", "v1alpha1"]),
        kind("ray.io", "RayJob", "rayjobs", &["v1", "v1alpha1"]),
        kind(
            "serving.kserve.io",
            "InferenceService",
            "inferenceservices",
            &["v1beta1"],
        ),
        kind(
            "serving.kserve.io",
            "LLMInferenceService",
            "llminferenceservices",
            &["v1alpha2", "v1alpha1"],
        ),
        kind("argoproj.io", "Rollout", "rollouts", &["v1alpha1"]),
        kind("serving.knative.dev", "Service", "services", &["v1"]),
        kind("apps.nvidia.com", "NIMService", "nimservices", &["v1alpha1"]),
        kind("kubeai.org", "Model", "models", &["v1"]),
        kind(
            "nvidia.com",
            "DynamoGraphDeployment",
            "dynamographdeployments",
            &["v1beta1", "v1alpha1"],
        ),
        kind(
            "production-stack.vllm.ai",
            "VLLMRuntime",
            "vllmruntimes",
            &["v1alpha1"],
        ),
    ];

    /// The kind of this group, whatever the version.
    #[must_use]
    pub fn of(group: &str, kind: &str) -> Option<&'static Self> {
        Self::ALL
            .iter()
            .find(|known| known.kind == kind && known.group == group)
    }

    /// Whether objects of this group and version have the schema that is read.
    #[must_use]
    pub fn reads(&self, api_version: &str) -> bool {
        let version = api_version.rsplit_once('/').map_or("", |(_, version)| version);
        self.versions.contains(&version)
    }

    /// Group and newest version.
    #[must_use]
    pub fn api_version(&self) -> String {
        format!(
            "{}/{}",
            self.group,
            self.versions.first().copied().unwrap_or("v1")
        )
    }
}
