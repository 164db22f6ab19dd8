//! Policies as the decision reads them: resolved, typed, and complete.
//!
//! A `GpuSharingPolicy` document is read by [`mod@file`] into [`spec`] and from there into a [`Policy`]; what a document
//! leaves out comes from the built-in default, never from another policy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::engine::{Engine, ImageRule, Version};
use crate::finding::{Code, Severity};
use crate::mig::ProfileName;
use crate::units::{Fraction, Mib, Share};

mod access;
mod check;
mod error;
pub mod expression;
pub mod file;
mod models;
mod notice;
mod products;
mod resolve;
pub mod schema;
mod selector;
mod set;
pub mod spec;
mod stock;
pub(crate) mod tree;
mod value;
pub mod written;

pub use access::{AccessPolicy, Exempt, Tenancy};
pub use error::{PolicyError, PolicyErrors};
pub(crate) use error::{hint, nearest};
pub(crate) use expression::PodFacts;
pub use expression::{Expression, NodeView, PodView};
pub use file::Document;
pub use models::{OwnModels, Stated};
pub use notice::Notice;
pub use products::OwnProducts;
pub use selector::{Matches, Selector};
pub use set::PolicySet;
pub(crate) use set::Signature;
pub use spec::{MpsMemoryLimit, ThreadPercentage};
pub use stock::{Accepted, Report, Stock};

/// What becomes of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// It denies.
    Enforce,
    /// It becomes a warning.
    Warn,
    /// It is only counted.
    Shadow,
}

/// How the promise is kept between admission and the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Enforcement {
    /// kube-scheduler counts `vramgate.io/gpu-ppm`.
    Counted,
    /// A joint placement exists at CREATE.
    Admission,
    /// The binding hook as well.
    Binding,
    /// A scheduling gate as well.
    Gated,
}

/// What a policy wants of an amount that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UnknownRule {
    /// Admit, counting nothing but the device itself.
    Admit,
    /// Deny.
    Deny,
    /// Admit with a warning, counting `budget / slots`.
    Warn,
    /// Count the MPS client limit.
    ClientLimit,
    /// Count this fraction of the device.
    Assume(#[serde(deserialize_with = "value::device_fraction")] Fraction),
}

/// [`UnknownRule`] by what the slot is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRules {
    /// On an unshared whole device.
    pub exclusive: UnknownRule,
    /// On a time-sliced device (a shared MIG slice too).
    pub time_sliced: UnknownRule,
    /// On an MPS device.
    pub mps: UnknownRule,
    /// On an unshared MIG slice.
    pub mig: UnknownRule,
}

/// Memory of a shared device that is never promised: the larger of a fraction and an amount, covering the difference
/// between what NVML and CUDA report as the total.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// Of the total.
    pub fraction: Share,
    /// At least this, on whole devices.
    pub at_least: Mib,
    /// Instead of both, on MIG slices.
    pub mig: Mib,
}

impl Reserve {
    /// The reserve of one device, rounded up.
    #[must_use]
    pub fn of(&self, total: Mib, is_mig: bool) -> Mib {
        if is_mig {
            return self.mig;
        }
        let parts = u128::from(total.get()) * u128::from(self.fraction.ppm());
        let by_fraction = u64::try_from(parts.div_ceil(1_000_000)).unwrap_or(u64::MAX);
        Mib::new(by_fraction).max(self.at_least)
    }
}

/// What becomes of access without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AccessRule {
    /// An error.
    Deny,
    /// A warning.
    Warn,
    /// Nothing.
    Ignore,
}

/// A cap on each slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PerSlot {
    /// No cap.
    None,
    /// `budget / slots`: every placement is safe.
    FairShare,
}

/// How it is known which device a holder stands on. Ordered: the later the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// It is not: a device may hold any of the node's holders.
    Any,
    /// The device plugin spreads: on none can be more than so many.
    Spread,
    /// Seen.
    Observed,
}

impl Evidence {
    /// The word that policies and outputs use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Spread => "spread",
            Self::Observed => "observed",
        }
    }
}

/// What belongs to a device; read only from policies that match by nodes alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePolicy {
    /// The part of a shared device that may be promised.
    pub budget: Share,
    /// What is never promised.
    pub reserve: Reserve,
    /// Cap on each slot.
    pub per_slot: PerSlot,
    /// Grades of evidence that count.
    pub evidence: Vec<Evidence>,
    /// Who may share a device.
    pub tenants: Tenancy,
    /// Products beside those of the catalogue.
    pub products: OwnProducts,
    /// The ConfigMap of the device plugin (`NAMESPACE/NAME`), where the policy names it.
    pub plugin_config: Option<ConfigMapName>,
    /// The ConfigMap of the MIG manager.
    pub mig_config: Option<ConfigMapName>,
}

impl DevicePolicy {
    /// The ConfigMaps that the MIG manager can read for a node: the policy's, and the one that the GPU Operator makes from
    /// the node's own hardware since mig-parted 0.14 (`NODE-mig-config`, in the same namespace).
    #[must_use]
    pub fn mig_config_maps(&self, node: &str) -> Vec<ConfigMapName> {
        let named = self.mig_config.iter().cloned();
        let own = self.mig_config.iter().map(|named| ConfigMapName {
            namespace: named.namespace.clone(),
            name: format!("{node}-mig-config"),
        });
        named.chain(own).collect()
    }
}

/// A ConfigMap, as a policy names it: `NAMESPACE/NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigMapName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for ConfigMapName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl std::str::FromStr for ConfigMapName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let part = |text: &str| {
            let edge = |byte: Option<u8>| {
                byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            };
            let inner =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
            let bytes = text.as_bytes();
            bytes.len() <= 253
                && bytes.iter().all(|byte| inner(*byte))
                && edge(bytes.first().copied())
                && edge(bytes.last().copied())
        };
        match text.split_once('/') {
            Some((namespace, name)) if part(namespace) && part(name) => Ok(Self {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }),
            _ => Err(format!("{text:?} is no ConfigMap: write NAMESPACE/NAME")),
        }
    }
}

impl DevicePolicy {
    /// Whether evidence of this grade counts. Without `observed` nothing that was seen is used; without `any` a holder
    /// whose device was not seen counts on every device of its node.
    #[must_use]
    pub fn accepts(&self, grade: Evidence) -> bool {
        self.evidence.contains(&grade)
    }
}

/// A vLLM fraction to add where the invocation has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefaultFraction {
    /// Leave it to the engine.
    None,
    /// What lets every slot of the device be used.
    FairShare,
    /// This.
    Value(Fraction),
}

/// What is set on clients of MPS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MpsRules {
    /// Memory limit of each client process.
    pub memory_limit: MpsMemoryLimit,
    /// Its percentage of threads.
    pub thread_percentage: ThreadPercentage,
    /// Whether values that the user wrote are replaced.
    pub replaces: bool,
}

/// How to read a node without sharing facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MissingFacts {
    /// As whole devices, with VG704.
    Exclusive,
    /// As unusable, with VG704.
    Deny,
}

/// Memory that a process takes outside its request, per rank, by engine and release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overheads {
    /// vLLM below 0.7.
    pub vllm_before_0_7: Mib,
    /// vLLM from 0.7 up to 0.19.
    pub vllm_before_0_20: Mib,
    /// vLLM from 0.20.
    pub vllm_since_0_20: Mib,
    /// vLLM below 0.20 without CUDA graphs.
    pub vllm_eager_before_0_20: Mib,
    /// vLLM of an unknown release.
    pub vllm_unknown_version: Mib,
    /// vLLM with tensor parallel 2, at least.
    pub vllm_tp2: Mib,
    /// vLLM with tensor parallel up to 4, at least.
    pub vllm_tp4: Mib,
    /// vLLM with tensor parallel above 4, at least.
    pub vllm_tp8: Mib,
    /// SGLang.
    pub sglang: Mib,
    /// Any other engine.
    pub other: Mib,
}

impl Overheads {
    /// The overhead of one rank.
    #[must_use]
    pub fn of(&self, engine: Engine, version: Option<Version>, eager: bool, tensor: u32) -> Mib {
        match engine {
            Engine::Vllm => {
                let base = match version {
                    None => self.vllm_unknown_version,
                    Some(version) if version >= Version::new(0, 20, 0) => self.vllm_since_0_20,
                    Some(_) if eager => self.vllm_eager_before_0_20,
                    Some(version) if version < Version::new(0, 7, 0) => self.vllm_before_0_7,
                    Some(_) => self.vllm_before_0_20,
                };
                let ranks = match tensor {
                    0 | 1 => Mib::ZERO,
                    2 => self.vllm_tp2,
                    3 | 4 => self.vllm_tp4,
                    _ => self.vllm_tp8,
                };
                base.max(ranks)
            }
            Engine::Sglang => self.sglang,
            Engine::Tgi
            | Engine::Tei
            | Engine::Triton
            | Engine::TensorRtLlm
            | Engine::LlamaCpp
            | Engine::Ollama
            | Engine::Lmdeploy
            | Engine::Nim
            | Engine::RayWorker
            | Engine::Jax
            | Engine::Tensorflow
            | Engine::Pytorch
            | Engine::Unknown
            | Engine::None => self.other,
        }
    }
}

/// How messages are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// Whether holders of other namespaces are named.
    pub other_namespaces: bool,
    /// Whom to ask.
    pub contact: Option<String>,
    /// Link instead of the one to `docs/codes/`; `{code}` stands for the code.
    pub link: Option<String>,
}

/// One policy, complete.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Name, as `explain` prints it.
    pub name: String,
    /// Higher wins.
    pub priority: i64,
    /// For what it applies.
    pub matches: Matches,
    /// What becomes of errors.
    pub mode: Mode,
    /// Severity by code; a code that is not here keeps [`Code::default_severity`].
    pub severities: BTreeMap<Code, Severity>,
    /// What belongs to a device.
    pub device: DevicePolicy,
    /// Level of enforcement.
    pub enforcement: Enforcement,
    /// Nodes without sharing facts.
    pub missing_facts: MissingFacts,
    /// Label selectors (as written, resolved by the loader) of nodes that an autoscaler can add.
    pub growth: Vec<Selector>,
    /// Overheads.
    pub overheads: Overheads,
    /// Unknown amounts.
    pub unknown: UnknownRules,
    /// Access to devices without a request.
    pub access: AccessPolicy,
    /// Fraction to add.
    pub default_fraction: DefaultFraction,
    /// MIG profiles that pods may ask for.
    pub mig_profiles: AllowedProfiles,
    /// What is set on clients of MPS.
    pub mps: MpsRules,
    /// Whether the container toolkit's memory limit is set, where a driver can keep it.
    pub toolkit_limit: bool,
    /// Other systems that share devices and whose amounts count.
    pub trusted_systems: BTreeSet<SharingSystem>,
    /// Namespaces whose pods are believed what they declare of their memory.
    pub trusted_namespaces: BTreeSet<String>,
    /// Whether ConfigMaps that a pod names are looked up.
    pub read_config_maps: bool,
    /// The platform's own images.
    pub engines: Vec<ImageRule>,
    /// Facts of private models.
    pub models: OwnModels,
    /// Texts.
    pub messages: Messages,
}

/// A system beside the device plugin that shares devices, with words of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SharingSystem {
    /// Project-HAMi/HAMi.
    Hami,
    /// kai-scheduler/KAI-Scheduler and its GPU fractioning.
    Kai,
    /// volcano-sh/volcano with the vGPU or the older GPU-share device plugin.
    Volcano,
}

impl SharingSystem {
    /// Its name in texts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hami => "HAMi",
            Self::Kai => "KAI",
            Self::Volcano => "Volcano",
        }
    }

    /// The field of the policy that says whether it counts.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::Hami => "otherSharing.hami",
            Self::Kai => "otherSharing.kai",
            Self::Volcano => "otherSharing.volcano",
        }
    }
}

/// MIG profiles that pods may ask for. Whole GPUs are not meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedProfiles {
    /// All.
    Any,
    /// These.
    Only(Vec<ProfileName>),
}

impl Policy {
    /// Whether kube-scheduler counts memory under this policy. A policy that lets pods through above the budget does not
    /// have them held back by the scheduler either.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.enforcement == Enforcement::Counted
            && self.mode == Mode::Enforce
            && self.severity(Code::Vg201) == Severity::Error
    }

    /// The severity of a code under this policy, before its mode.
    #[must_use]
    pub fn severity(&self, code: Code) -> Severity {
        self.severities
            .get(&code)
            .copied()
            .unwrap_or(code.default_severity())
    }
}

/// A shared policy.
pub type PolicyRef = Arc<Policy>;
