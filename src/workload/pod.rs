//! The part of a pod that decides its GPU memory and its place, decoded from JSON without the rest.
//!
//! Names follow the Kubernetes API (`core/v1`). Fields that nothing reads are not here: a review of 12 kB decodes in a
//! few microseconds because most of it is skipped.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};

use super::null::as_absent;
use super::template::Origin;

/// `metadata` of any object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Name; empty where the API server has not made one from `generateName` yet.
    #[serde(deserialize_with = "as_absent")]
    pub name: String,
    /// Prefix of a generated name.
    #[serde(deserialize_with = "as_absent")]
    pub generate_name: String,
    /// Namespace; empty for cluster-scoped objects and in files that leave it out.
    #[serde(deserialize_with = "as_absent")]
    pub namespace: String,
    /// Unique identity; exists from the validating phase on.
    #[serde(deserialize_with = "as_absent")]
    pub uid: String,
    /// Labels.
    #[serde(deserialize_with = "as_absent")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(deserialize_with = "as_absent")]
    pub annotations: BTreeMap<String, String>,
    /// Owners.
    #[serde(deserialize_with = "as_absent")]
    pub owner_references: Vec<OwnerReference>,
    /// RFC 3339 creation time.
    pub creation_timestamp: Option<String>,
    /// RFC 3339 time of deletion: set while the object is Terminating.
    pub deletion_timestamp: Option<String>,
}

/// One entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// Group and version of the owner.
    #[serde(deserialize_with = "as_absent")]
    pub api_version: String,
    /// Kind of the owner.
    #[serde(deserialize_with = "as_absent")]
    pub kind: String,
    /// Name of the owner.
    #[serde(deserialize_with = "as_absent")]
    pub name: String,
    /// Identity of the owner.
    #[serde(deserialize_with = "as_absent")]
    pub uid: String,
    /// Whether it is the managing controller.
    #[serde(deserialize_with = "as_absent")]
    pub controller: bool,
}

/// A pod, or the template of one.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pod {
    /// Metadata.
    #[serde(deserialize_with = "as_absent")]
    pub metadata: Metadata,
    /// Specification.
    #[serde(deserialize_with = "as_absent")]
    pub spec: PodSpec,
    /// Status; empty in templates and on CREATE.
    #[serde(deserialize_with = "as_absent")]
    pub status: PodStatus,
}

/// `spec` of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Regular containers.
    #[serde(deserialize_with = "as_absent")]
    pub containers: Vec<Container>,
    /// Init containers and sidecars (`restartPolicy: Always`).
    #[serde(deserialize_with = "as_absent")]
    pub init_containers: Vec<Container>,
    /// Ephemeral containers (only in a running pod).
    #[serde(deserialize_with = "as_absent")]
    pub ephemeral_containers: Vec<Container>,
    /// Node that the pod is bound to, or is to be bound to without the scheduler.
    pub node_name: Option<String>,
    /// Labels that the node must have.
    #[serde(deserialize_with = "as_absent")]
    pub node_selector: BTreeMap<String, String>,
    /// Affinities.
    pub affinity: Option<Affinity>,
    /// Taints that the pod tolerates.
    #[serde(deserialize_with = "as_absent")]
    pub tolerations: Vec<Toleration>,
    /// Spread constraints; only their presence matters (they are not modelled).
    #[serde(deserialize_with = "as_absent")]
    pub topology_spread_constraints: Vec<de::IgnoredAny>,
    /// Volumes.
    #[serde(deserialize_with = "as_absent")]
    pub volumes: Vec<Volume>,
    /// Runtime class.
    pub runtime_class_name: Option<String>,
    /// Priority class.
    pub priority_class_name: Option<String>,
    /// Priority, filled in by the API server.
    pub priority: Option<i32>,
    /// `Never` keeps the scheduler from ending others for the pod; filled in by the API server.
    pub preemption_policy: Option<String>,
    /// Gates that hold the pod back from the scheduler.
    #[serde(deserialize_with = "as_absent")]
    pub scheduling_gates: Vec<SchedulingGate>,
    /// Dynamic resource claims.
    #[serde(deserialize_with = "as_absent")]
    pub resource_claims: Vec<PodResourceClaim>,
    /// Pod-wide security context.
    pub security_context: Option<SecurityContext>,
}

/// `status` of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    #[serde(deserialize_with = "as_absent")]
    pub phase: String,
    /// The claims that were made for the pod from templates.
    #[serde(deserialize_with = "as_absent")]
    pub resource_claim_statuses: Vec<ResourceClaimStatus>,
    /// The claim that the scheduler made for the pod's extended resources, where DeviceClasses stand for them.
    pub extended_resource_claim_status: Option<ExtendedResourceClaimStatus>,
    /// Statuses of the regular containers.
    #[serde(deserialize_with = "as_absent")]
    pub container_statuses: Vec<ContainerStatus>,
}

/// The claim behind an entry of a pod's `resourceClaims`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceClaimStatus {
    /// Name of the entry.
    #[serde(deserialize_with = "as_absent")]
    pub name: String,
    /// Name of the claim; absent where none is needed.
    pub resource_claim_name: Option<String>,
}

/// The claim behind the extended resources of a pod that DeviceClasses stand for (KEP-5004).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtendedResourceClaimStatus {
    /// Name of the claim, in the pod's namespace.
    #[serde(deserialize_with = "as_absent")]
    pub resource_claim_name: String,
    /// Which request of the claim is which container's.
    #[serde(deserialize_with = "as_absent")]
    pub request_mappings: Vec<RequestMapping>,
}

/// The request of a claim that stands for one extended resource of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestMapping {
    /// Name of the container.
    #[serde(deserialize_with = "as_absent")]
    pub container_name: String,
    /// The extended resource.
    #[serde(deserialize_with = "as_absent")]
    pub resource_name: String,
    /// Name of the request.
    #[serde(deserialize_with = "as_absent")]
    pub request_name: String,
}

/// The status of one container, as far as it tells its devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Name of the container.
    #[serde(deserialize_with = "as_absent")]
    pub name: String,
    /// What the kubelet gave it, by resource (KEP-4680, `ResourceHealthStatus`).
    #[serde(deserialize_with = "as_absent")]
    pub allocated_resources_status: Vec<AllocatedResource>,
}

/// The devices behind one resource of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AllocatedResource {
    /// The extended resource (`nvidia.com/gpu`), or `claim:NAME[/REQUEST]`.
    #[serde(deserialize_with = "as_absent")]
    pub name: String,
    /// One entry for each slot.
    #[serde(deserialize_with = "as_absent")]
    pub resources: Vec<AllocatedDevice>,
}

/// One slot that a container has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllocatedDevice {
    /// Identity within its device plugin (`GPU-…::2`, `MIG-…`), or `DRIVER/POOL/DEVICE`.
    #[serde(rename = "resourceID", deserialize_with = "as_absent")]
    pub resource_id: String,
}

impl Pod {
    /// Whether the pod has ended and holds no device memory any more (`Succeeded` or `Failed`).
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Whether this is the API object of a static pod, as a kubelet creates it.
    #[must_use]
    pub fn is_mirror(&self) -> bool {
        self.metadata
            .annotations
            .contains_key("kubernetes.io/config.mirror")
    }
}

/// One container.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Name, unique in the pod.
    #[serde(deserialize_with = "as_absent")]
    pub name: String,
    /// Image reference.
    #[serde(deserialize_with = "as_absent")]
    pub image: String,
    /// Replaces the image's entrypoint where set.
    pub command: Option<Vec<String>>,
    /// Replaces the image's default arguments where set.
    pub args: Option<Vec<String>>,
    /// Environment variables, in order.
    #[serde(deserialize_with = "as_absent")]
    pub env: Vec<EnvVar>,
    /// Whole ConfigMaps and Secrets as environment variables.
    #[serde(deserialize_with = "as_absent")]
    pub env_from: Vec<EnvFromSource>,
    /// Resources.
    #[serde(deserialize_with = "as_absent")]
    pub resources: Resources,
    /// Mounts.
    #[serde(deserialize_with = "as_absent")]
    pub volume_mounts: Vec<VolumeMount>,
    /// `Always` makes an init container a sidecar.
    pub restart_policy: Option<String>,
    /// Security context.
    pub security_context: Option<SecurityContext>,
    /// What an operator makes of the container, where a template of its own kind leaves that to it. Never part of a
    /// pod itself.
    #[serde(skip)]
    pub made: Option<Made>,
    /// Pods over which an operator spreads the ranks of this container's engine without a word in its command line; zero
    /// where it does not. Never part of a pod itself.
    #[serde(skip)]
    pub spread_over: u32,
    /// The serving runtime that the container stands in, where `{{…}}` is an action that KServe evaluates for each
    /// InferenceService. Never part of a pod itself.
    #[serde(skip)]
    pub actions_of: Option<String>,
}

/// The command lines that an operator gives a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// What it executes, in order; none where that is not known.
    pub commands: Vec<Vec<String>>,
    /// Who makes them, and from what.
    pub by: String,
    /// Whether something beyond the object decides whether it starts (a launcher, a file of the image).
    pub doubtful: bool,
    /// Whether the first of the commands are arguments, which stand behind the entrypoint of the image.
    pub behind_entrypoint: bool,
    /// Where words stand, by command and word; a word that is missing is the operator's own.
    pub origins: BTreeMap<(usize, usize), Origin>,
    /// Where options of a line that the operator writes come from, by the option with its dashes.
    pub options: Vec<(&'static str, Origin)>,
    /// Whose template a word with an action (`{{if …}}`) comes from; empty where no word can hold one.
    pub template_of: String,
}

/// An environment variable.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvVar {
    /// Name.
    #[serde(deserialize_with = "as_absent")]
    pub name: String,
    /// Literal value, in which `$(VAR)` is expanded.
    pub value: Option<String>,
    /// Where the value comes from instead.
    pub value_from: Option<EnvVarSource>,
}

/// `valueFrom` of an environment variable.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvVarSource {
    /// A key of a ConfigMap.
    pub config_map_key_ref: Option<KeyRef>,
    /// A key of a Secret.
    pub secret_key_ref: Option<KeyRef>,
    /// A field of the pod.
    pub field_ref: Option<FieldRef>,
    /// A resource of a container.
    pub resource_field_ref: Option<ResourceFieldRef>,
    /// Why the value cannot be read, where an operator makes it. Never part of a pod itself.
    #[serde(skip)]
    pub unread: Option<String>,
}

/// A key of a ConfigMap or Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct KeyRef {
    /// Name of the object.
    #[serde(deserialize_with = "as_absent")]
    pub name: String,
    /// Key in it.
    #[serde(deserialize_with = "as_absent")]
    pub key: String,
    /// Whether the pod starts without it.
    #[serde(deserialize_with = "as_absent")]
    pub optional: bool,
}

/// A field of the pod, as in `metadata.name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldRef {
    /// The path.
    #[serde(deserialize_with = "as_absent")]
    pub field_path: String,
}

/// A resource of a container, as in `limits.memory`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceFieldRef {
    /// The container; this one where absent.
    pub container_name: Option<String>,
    /// The resource.
    #[serde(deserialize_with = "as_absent")]
    pub resource: String,
    /// The unit in which the value is given; one where absent or zero.
    pub divisor: Option<QuantityText>,
}

/// One entry of `envFrom`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EnvFromSource {
    /// Put before each name.
    #[serde(deserialize_with = "as_absent")]
    pub prefix: String,
    /// A whole ConfigMap.
    pub config_map_ref: Option<SourceRef>,
    /// A whole Secret.
    pub secret_ref: Option<SourceRef>,
}

/// A ConfigMap or Secret by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SourceRef {
    /// Name of the object.
    #[serde(deserialize_with = "as_absent")]
    pub name: String,
    /// Whether the pod starts without it.
    #[serde(deserialize_with = "as_absent")]
    pub optional: bool,
}

/// `resources` of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// Limits by resource name, as written.
    #[serde(deserialize_with = "as_absent")]
    pub limits: BTreeMap<String, QuantityText>,
    /// Requests by resource name, as written.
    #[serde(deserialize_with = "as_absent")]
    pub requests: BTreeMap<String, QuantityText>,
    /// Dynamic resource claims that this container uses.
    #[serde(deserialize_with = "as_absent")]
    pub claims: Vec<ClaimUse>,
}

/// The use of a pod's claim by a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClaimUse {
    /// Name of the entry in the pod's `resourceClaims`.
    #[serde(deserialize_with = "as_absent")]
    pub name: String,
    /// The request of the claim that it uses; all of them where it names none.
    pub request: Option<String>,
}

/// A resource quantity as written: YAML allows both `1` and `"1"`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuantityText(pub String);

impl<'de> Deserialize<'de> for QuantityText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyScalar;
        impl Visitor<'_> for AnyScalar {
            type Value = QuantityText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a resource quantity such as 1, \"4Gi\" or \"500m\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<QuantityText, E> {
                Ok(QuantityText(text.to_owned()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<QuantityText, E> {
                Ok(QuantityText(number.to_string()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<QuantityText, E> {
                Ok(QuantityText(number.to_string()))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<QuantityText, E> {
                Ok(QuantityText(number.to_string()))
            }
        }
        deserializer.deserialize_any(AnyScalar)
    }
}

/// A mount of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeMount {
    /// Name of the volume.
    #[serde(deserialize_with = "as_absent")]
    pub name: String,
    /// Where it is mounted.
    #[serde(deserialize_with = "as_absent")]
    pub mount_path: String,
    /// Path within the volume.
    pub sub_path: Option<String>,
}

/// A volume; only the kinds that something reads.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// Name.
    #[serde(deserialize_with = "as_absent")]
    pub name: String,
    /// A ConfigMap.
    pub config_map: Option<ConfigMapVolume>,
    /// Several sources in one.
    pub projected: Option<ProjectedVolume>,
    /// A directory of the node.
    pub host_path: Option<HostPathVolume>,
    /// An empty directory.
    pub empty_dir: Option<de::IgnoredAny>,
}

impl Volume {
    /// The ConfigMaps whose keys are files of the volume, in order.
    pub fn config_maps(&self) -> impl Iterator<Item = &ConfigMapVolume> {
        let projected = self.projected.iter().flat_map(|projected| &projected.sources);
        self.config_map
            .iter()
            .chain(projected.filter_map(|source| source.config_map.as_ref()))
    }

    /// Whether nothing but ConfigMaps is in it.
    #[must_use]
    pub fn is_of_config_maps(&self) -> bool {
        let projected = |projected: &ProjectedVolume| {
            let mut sources = projected.sources.iter();
            sources.all(|source| source.config_map.is_some())
        };
        self.config_map.is_some() || self.projected.as_ref().is_some_and(projected)
    }
}

/// Several sources as one volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ProjectedVolume {
    /// The sources.
    #[serde(deserialize_with = "as_absent")]
    pub sources: Vec<ProjectedSource>,
}

/// A source of a projected volume; only the kind that something reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProjectedSource {
    /// A ConfigMap.
    pub config_map: Option<ConfigMapVolume>,
}

/// A ConfigMap as a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ConfigMapVolume {
    /// Name of the ConfigMap.
    #[serde(deserialize_with = "as_absent")]
    pub name: String,
    /// Keys to paths; all keys under their own names where absent.
    #[serde(deserialize_with = "as_absent")]
    pub items: Vec<KeyToPath>,
    /// Whether the pod starts without it.
    #[serde(deserialize_with = "as_absent")]
    pub optional: bool,
}

/// A key of a ConfigMap under a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct KeyToPath {
    /// The key.
    #[serde(deserialize_with = "as_absent")]
    pub key: String,
    /// The path below the mount.
    #[serde(deserialize_with = "as_absent")]
    pub path: String,
}

/// A directory of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct HostPathVolume {
    /// Path on the node.
    #[serde(deserialize_with = "as_absent")]
    pub path: String,
}

/// A scheduling gate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SchedulingGate {
    /// Name.
    #[serde(deserialize_with = "as_absent")]
    pub name: String,
}

/// A pod's dynamic resource claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodResourceClaim {
    /// Name within the pod.
    #[serde(deserialize_with = "as_absent")]
    pub name: String,
    /// An existing claim.
    pub resource_claim_name: Option<String>,
    /// A template of one.
    pub resource_claim_template_name: Option<String>,
}

/// The part of a security context that matters for GPU access.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SecurityContext {
    /// Full access to the node's devices.
    pub privileged: Option<bool>,
    /// User.
    pub run_as_user: Option<i64>,
}

/// Affinities of a pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    /// Which nodes.
    pub node_affinity: Option<NodeAffinity>,
    /// Which pods to stand beside (not modelled, only noticed).
    pub pod_affinity: Option<de::IgnoredAny>,
    /// Which pods to keep away from (not modelled, only noticed).
    pub pod_anti_affinity: Option<de::IgnoredAny>,
}

/// Node affinity; preferences decide nothing and are not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeAffinity {
    /// The hard requirement.
    pub required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
}

/// Terms of which one must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    /// The alternatives.
    #[serde(deserialize_with = "as_absent")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// Requirements that must all match; an empty term matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorTerm {
    /// On labels.
    #[serde(deserialize_with = "as_absent")]
    pub match_expressions: Vec<Requirement>,
    /// On fields (`metadata.name` is the only one).
    #[serde(deserialize_with = "as_absent")]
    pub match_fields: Vec<Requirement>,
}

/// One requirement on a label or field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Requirement {
    /// Label or field.
    #[serde(deserialize_with = "as_absent")]
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
    #[serde(deserialize_with = "as_absent")]
    pub operator: String,
    /// Values.
    #[serde(deserialize_with = "as_absent")]
    pub values: Vec<String>,
}

/// A toleration of taints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Toleration {
    /// Key of the taint; every key where empty (with `Exists`).
    #[serde(deserialize_with = "as_absent")]
    pub key: String,
    /// `Exists` or `Equal` (default).
    #[serde(deserialize_with = "as_absent")]
    pub operator: String,
    /// Value of the taint.
    #[serde(deserialize_with = "as_absent")]
    pub value: String,
    /// `NoSchedule`, `NoExecute`, `PreferNoSchedule`; every effect where empty.
    #[serde(deserialize_with = "as_absent")]
    pub effect: String,
}

/// A node, as the inventory reads it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    /// Metadata.
    #[serde(deserialize_with = "as_absent")]
    pub metadata: Metadata,
    /// Specification.
    #[serde(deserialize_with = "as_absent")]
    pub spec: NodeSpec,
    /// Status.
    #[serde(deserialize_with = "as_absent")]
    pub status: NodeStatus,
}

/// `spec` of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    /// Cordoned.
    #[serde(deserialize_with = "as_absent")]
    pub unschedulable: bool,
    /// Taints.
    #[serde(deserialize_with = "as_absent")]
    pub taints: Vec<Taint>,
}

/// A taint of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Taint {
    /// Key.
    #[serde(deserialize_with = "as_absent")]
    pub key: String,
    /// Value.
    #[serde(deserialize_with = "as_absent")]
    pub value: String,
    /// `NoSchedule`, `NoExecute` or `PreferNoSchedule`.
    #[serde(deserialize_with = "as_absent")]
    pub effect: String,
}

/// `status` of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// What is there.
    #[serde(deserialize_with = "as_absent")]
    pub capacity: BTreeMap<String, QuantityText>,
    /// What pods may use: what is there less what is unhealthy or kept back.
    #[serde(deserialize_with = "as_absent")]
    pub allocatable: BTreeMap<String, QuantityText>,
    /// Conditions.
    #[serde(deserialize_with = "as_absent")]
    pub conditions: Vec<NodeCondition>,
}

/// A condition of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeCondition {
    /// `Ready` and others.
    #[serde(rename = "type", deserialize_with = "as_absent")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    #[serde(deserialize_with = "as_absent")]
    pub status: String,
}
