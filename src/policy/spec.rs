//! The `GpuSharingPolicy` document, field by field. Typed and closed: an unknown field is an error.
//!
//! Every field may be left out; what is left out comes from the built-in default. The JSON Schema and the definition of
//! the custom resource are made from these types and their comments ([`super::schema`]); `docs/policy.md` says what each field means.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::IgnoredAny;

pub use super::value::{CodeName, DeviceFraction, MibCount, ReserveFraction};
use super::{AccessRule, DefaultFraction, Enforcement, Evidence, MissingFacts, Mode, PerSlot, UnknownRule};

mod choice;
mod model;
mod product;

pub use choice::{MigProfiles, MpsMemoryLimit, Tenants, ThreadPercentage, Trust};
pub use model::ModelEntry;
pub use product::ProductEntry;

/// `apiVersion` of the document.
pub const API_VERSION: &str = "vramgate.io/v1alpha1";
/// `kind` of the document.
pub const KIND: &str = "GpuSharingPolicy";

/// The whole document.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default, expecting = "a map")]
#[schemars(extend("required" = ["apiVersion", "kind", "metadata", "spec"]))]
pub struct GpuSharingPolicy {
    /// Has to be `vramgate.io/v1alpha1`.
    #[schemars(extend("const" = API_VERSION))]
    pub api_version: Option<String>,
    /// Has to be `GpuSharingPolicy`.
    #[schemars(extend("const" = KIND))]
    pub kind: Option<String>,
    /// Name, labels, annotations.
    pub metadata: Option<PolicyMetadata>,
    /// What the policy says.
    pub spec: Option<Spec>,
    /// Written by the API server's side; read over.
    #[schemars(with = "Option<serde_json::Value>")]
    pub status: Option<IgnoredAny>,
}

/// `metadata`. What an API server adds is read over, so that the output of `kubectl get -o yaml` is a policy file too.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default, expecting = "a map")]
#[schemars(extend("required" = ["name"]))]
pub struct PolicyMetadata {
    /// Unique among all policies.
    #[schemars(length(max = 253), regex(pattern = "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"))]
    pub name: Option<String>,
    /// Read over.
    pub labels: Option<BTreeMap<String, String>>,
    /// Read over.
    pub annotations: Option<BTreeMap<String, String>>,
    /// Read over.
    #[schemars(with = "Option<serde_json::Value>")]
    pub uid: Option<IgnoredAny>,
    /// Read over.
    #[schemars(with = "Option<serde_json::Value>")]
    pub resource_version: Option<IgnoredAny>,
    /// Read over.
    #[schemars(with = "Option<serde_json::Value>")]
    pub generation: Option<IgnoredAny>,
    /// Read over.
    #[schemars(with = "Option<serde_json::Value>")]
    pub creation_timestamp: Option<IgnoredAny>,
    /// Read over.
    #[schemars(with = "Option<serde_json::Value>")]
    pub managed_fields: Option<IgnoredAny>,
    /// Read over.
    #[schemars(with = "Option<serde_json::Value>")]
    pub owner_references: Option<IgnoredAny>,
    /// Read over.
    #[schemars(with = "Option<serde_json::Value>")]
    pub finalizers: Option<IgnoredAny>,
}

/// `spec`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default, expecting = "a map")]
pub struct Spec {
    /// Higher wins; 0 where left out.
    pub priority: Option<i64>,
    /// For what the policy applies.
    #[serde(rename = "match")]
    pub matches: Option<Match>,
    /// What becomes of errors.
    pub mode: Option<Mode>,
    /// Severities.
    pub codes: Option<Codes>,
    /// What belongs to a device.
    pub device: Option<Device>,
    /// How the promise is kept after admission.
    pub enforcement: Option<Enforcement>,
    /// Nodes.
    pub placement: Option<Placement>,
    /// Memory of a process outside its request.
    #[serde(rename = "overheadMiB")]
    pub overhead: Option<Overhead>,
    /// Amounts that cannot be read.
    pub unknown: Option<Unknown>,
    /// What is added to an invocation.
    pub defaults: Option<Defaults>,
    /// Limits of MPS clients.
    pub mps: Option<Mps>,
    /// Limits of containers.
    pub memory_limit: Option<MemoryLimit>,
    /// MIG.
    pub mig: Option<Mig>,
    /// Other systems that share devices.
    pub other_sharing: Option<OtherSharing>,
    /// What is looked up.
    pub sources: Option<Sources>,
    /// Access to devices without a request.
    pub access: Option<Access>,
    /// Declarations by annotation.
    pub declarations: Option<Declarations>,
    /// The platform's own images.
    pub engines: Option<Vec<EngineRule>>,
    /// Facts of private models.
    pub models: Option<Vec<ModelEntry>>,
    /// How messages are written.
    pub messages: Option<MessageSpec>,
}

/// `spec.match`: all that is given has to match.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default, expecting = "a map")]
pub struct Match {
    /// Labels of the namespace.
    pub namespaces: Option<LabelSelector>,
    /// Labels of the pod.
    pub pods: Option<LabelSelector>,
    /// Labels of the node.
    pub nodes: Option<LabelSelector>,
    /// A condition in CEL over pod, container, request, gpu and node.
    #[schemars(length(min = 1, max = 4096))]
    pub expression: Option<String>,
}

/// A label selector as Kubernetes writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    rename_all = "camelCase",
    default,
    expecting = "a label selector (matchLabels, matchExpressions)"
)]
pub struct LabelSelector {
    /// Labels that have to be equal.
    pub match_labels: Option<BTreeMap<String, String>>,
    /// Further requirements.
    pub match_expressions: Option<Vec<LabelRequirement>>,
}

/// One entry of `matchExpressions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    rename_all = "camelCase",
    default,
    expecting = "a map with key, operator and values"
)]
#[schemars(extend("required" = ["key", "operator"]))]
pub struct LabelRequirement {
    /// Label.
    pub key: Option<String>,
    /// What about it.
    pub operator: Option<LabelOperator>,
    /// For `In` and `NotIn`.
    pub values: Option<Vec<String>>,
}

/// Operators of a label selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names are Kubernetes' own")]
pub enum LabelOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl LabelOperator {
    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
        }
    }
}

/// `spec.codes`: a code that stands in none of the lists keeps its severity of the built-in default.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    rename_all = "camelCase",
    default,
    expecting = "a map of lists of codes"
)]
pub struct Codes {
    /// Deny under `enforce`.
    pub error: Option<Vec<CodeName>>,
    /// Are told.
    pub warning: Option<Vec<CodeName>>,
    /// Are told where somebody asks.
    pub info: Option<Vec<CodeName>>,
}

/// `spec.device`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default, expecting = "a map")]
pub struct Device {
    /// The part of a shared device that may be promised.
    pub budget: Option<DeviceFraction>,
    /// What is never promised.
    pub reserve: Option<ReserveSpec>,
    /// A cap on each slot.
    pub per_slot: Option<PerSlot>,
    /// Grades of evidence that count.
    #[schemars(length(min = 1))]
    pub evidence: Option<Vec<Evidence>>,
    /// Who may share a device.
    pub tenants: Option<Tenants>,
    /// GPUs beside those of the catalogue.
    pub products: Option<Vec<ProductEntry>>,
    /// ConfigMap of the device plugin, `NAMESPACE/NAME`.
    #[schemars(regex(pattern = "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"))]
    pub plugin_config: Option<String>,
    /// ConfigMap of the MIG manager, `NAMESPACE/NAME`.
    #[schemars(regex(pattern = "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"))]
    pub mig_config: Option<String>,
}

/// `spec.device.reserve`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    rename_all = "camelCase",
    default,
    expecting = "a map with fraction, atLeastMiB and migMiB"
)]
pub struct ReserveSpec {
    /// Of the total.
    pub fraction: Option<ReserveFraction>,
    /// At least this.
    #[serde(rename = "atLeastMiB")]
    pub at_least: Option<MibCount>,
    /// Instead of both on a MIG slice.
    #[serde(rename = "migMiB")]
    pub mig: Option<MibCount>,
}

/// `spec.placement`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default, expecting = "a map")]
pub struct Placement {
    /// Nodes that an autoscaler can add.
    pub growth: Option<Vec<LabelSelector>>,
    /// Nodes without sharing facts.
    pub missing_facts: Option<MissingFacts>,
}

/// `spec.overheadMiB`, per rank.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default, expecting = "a map")]
pub struct Overhead {
    /// vLLM by release.
    pub vllm: Option<VllmOverhead>,
    /// SGLang.
    pub sglang: Option<MibCount>,
    /// Any other engine.
    pub other: Option<MibCount>,
}

/// `spec.overheadMiB.vllm`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    rename_all = "camelCase",
    default,
    expecting = "a map of amounts by release"
)]
pub struct VllmOverhead {
    /// Below 0.7.
    #[serde(rename = "<0.7")]
    pub before_0_7: Option<MibCount>,
    /// From 0.7, below 0.20.
    #[serde(rename = "<0.20")]
    pub before_0_20: Option<MibCount>,
    /// From 0.20.
    #[serde(rename = ">=0.20")]
    pub since_0_20: Option<MibCount>,
    /// Below 0.20 without CUDA graphs.
    #[serde(rename = "eagerBefore020")]
    pub eager_before_0_20: Option<MibCount>,
    /// Release unknown.
    pub unknown_version: Option<MibCount>,
    /// Tensor parallel 2, at least.
    pub tp2: Option<MibCount>,
    /// Tensor parallel up to 4, at least.
    pub tp4: Option<MibCount>,
    /// Tensor parallel above 4, at least.
    pub tp8: Option<MibCount>,
}

/// `spec.unknown`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default, expecting = "a map")]
pub struct Unknown {
    /// Unshared whole device.
    pub exclusive: Option<UnknownRule>,
    /// Time-sliced device.
    pub time_sliced: Option<UnknownRule>,
    /// MPS device.
    pub mps: Option<UnknownRule>,
    /// Unshared MIG slice.
    pub mig: Option<UnknownRule>,
}

/// `spec.defaults`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default, expecting = "a map")]
pub struct Defaults {
    /// vLLM's fraction where the invocation has none.
    pub gpu_memory_utilization: Option<DefaultFraction>,
}

/// `spec.mps`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default, expecting = "a map")]
pub struct Mps {
    /// Memory limit that is set on a client.
    pub memory_limit: Option<MpsMemoryLimit>,
    /// Share of threads that is set on a client.
    pub thread_percentage: Option<ThreadPercentage>,
    /// Whether values that the user wrote are replaced.
    pub r#override: Option<bool>,
}

/// `spec.memoryLimit`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default, expecting = "a map")]
pub struct MemoryLimit {
    /// The limit of NVIDIA's container toolkit.
    pub toolkit: Option<ToolkitLimit>,
}

/// `spec.memoryLimit.toolkit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ToolkitLimit {
    /// Set none.
    None,
    /// One slot's part, for engines that nothing else bounds.
    Footprint,
}

/// `spec.mig`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default, expecting = "a map")]
pub struct Mig {
    /// Profiles that pods may ask for.
    pub profiles: Option<MigProfiles>,
}

/// `spec.otherSharing`: what pods say in the words of other systems that share devices.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default, expecting = "a map")]
pub struct OtherSharing {
    /// HAMi.
    pub hami: Option<OtherSharingRule>,
    /// KAI Scheduler.
    pub kai: Option<OtherSharingRule>,
    /// Volcano.
    pub volcano: Option<OtherSharingRule>,
}

/// Whether such a system's words count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OtherSharingRule {
    /// They do not.
    Ignore,
    /// They do: the system bounds each container by them.
    Trust,
}

/// `spec.sources`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default, expecting = "a map")]
pub struct Sources {
    /// ConfigMaps that a pod names.
    pub config_maps: Option<LookUp>,
    /// Secrets that a pod names.
    pub secrets: Option<LookUp>,
}

/// Whether objects that a pod names are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LookUp {
    /// They are.
    Get,
    /// They are not: what they hold is unknown.
    Never,
}

/// `spec.access`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default, expecting = "a map")]
pub struct Access {
    /// A visible-devices variable without a request.
    pub visible_devices: Option<AccessRule>,
    /// A privileged container.
    pub privileged: Option<AccessRule>,
    /// A path of a GPU device.
    pub device_paths: Option<AccessRule>,
    /// Runtime classes that show every device.
    pub runtime_classes: Option<Vec<String>>,
    /// Who may do so.
    pub exempt: Option<AccessExempt>,
}

/// `spec.access.exempt`: whatever matches one of the two.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    rename_all = "camelCase",
    default,
    expecting = "a map with images and pods"
)]
pub struct AccessExempt {
    /// Patterns of image references; `*` stands for any text.
    pub images: Option<Vec<String>>,
    /// Labels of pods.
    pub pods: Option<LabelSelector>,
}

/// `spec.declarations`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default, expecting = "a map")]
pub struct Declarations {
    /// Whose annotations about memory are believed.
    pub trust: Option<Trust>,
}

/// One entry of `spec.engines`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default, expecting = "a map")]
#[schemars(extend("required" = ["images"]))]
pub struct EngineRule {
    /// Patterns of image references; `*` stands for any text.
    #[schemars(length(min = 1))]
    pub images: Option<Vec<String>>,
    /// The engine inside.
    pub engine: Option<String>,
    /// Its release.
    pub version: Option<String>,
    /// The image's entrypoint.
    pub entrypoint: Option<Vec<String>>,
    /// Variables that the image's start script reads, and the option that each one sets.
    pub variables: Option<BTreeMap<String, String>>,
}

/// `spec.messages`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default, expecting = "a map")]
pub struct MessageSpec {
    /// Whether holders of other namespaces are named.
    pub other_namespaces: Option<bool>,
    /// Whom to ask.
    pub contact: Option<String>,
    /// Where a code is explained.
    #[schemars(regex(pattern = "^https?://"))]
    pub link: Option<String>,
}
