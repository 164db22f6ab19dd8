//! What the inference engine in a container will take of each device, read from the way it is started.
//!
//! [`read`] turns a container into one [`Reading`] per engine in it. A value that cannot be had is *unknown*, with its
//! reason; it is never zero and never a guess.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::finding::{FieldPath, Finding};
use crate::units::{Fraction, Mib};
use crate::workload::pod::{Container, Pod};

mod annotations;
pub mod argparse;
mod arguments;
mod dependence;
mod djl;
mod edit;
mod fraction;
pub(crate) mod image;
pub mod limits;
mod line;
mod llama_cpp;
mod lmdeploy;
mod meaning;
pub(crate) mod near;
mod nim;
mod ollama;
mod other;
mod plain;
mod provenance;
mod ray;
mod read;
mod reader;
mod refusals;
mod releases;
mod serving;
pub mod sglang;
mod sizes;
mod tei;
mod tensorflow_serving;
mod tensorrt_llm;
mod tgi;
mod triton;
mod unread;
mod variables;
pub mod vllm;

pub use arguments::{ArgumentsError, arguments_name_model, read_arguments};
pub(crate) use image::{Image, wildcard};
pub use meaning::Meaning;
pub use provenance::{Origin, Provenance};
pub use read::{config_maps, explain, read};
pub(crate) use reader::asks_for_accelerator;
pub use releases::{Releases, ReleasesError};
pub use serving::{Adapters, Draft, Serving};
pub use sizes::ExactSizes;

/// The engine that a container runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[allow(missing_docs, reason = "the variants are the engines' own names")]
pub enum Engine {
    #[serde(rename = "vllm")]
    Vllm,
    #[serde(rename = "sglang")]
    Sglang,
    #[serde(rename = "tgi")]
    Tgi,
    #[serde(rename = "tei")]
    Tei,
    #[serde(rename = "triton")]
    Triton,
    #[serde(rename = "trtllm")]
    TensorRtLlm,
    #[serde(rename = "llama.cpp")]
    LlamaCpp,
    #[serde(rename = "ollama")]
    Ollama,
    #[serde(rename = "lmdeploy")]
    Lmdeploy,
    #[serde(rename = "nim")]
    Nim,
    #[serde(rename = "ray-worker")]
    RayWorker,
    #[serde(rename = "jax")]
    Jax,
    #[serde(rename = "tensorflow")]
    Tensorflow,
    #[serde(rename = "pytorch")]
    Pytorch,
    /// Something runs that we cannot name.
    #[serde(rename = "unknown")]
    Unknown,
    /// Nothing that uses a device.
    #[serde(rename = "none")]
    None,
}

impl Engine {
    const ALL: [Self; 16] = [
        Self::Vllm,
        Self::Sglang,
        Self::Tgi,
        Self::Tei,
        Self::Triton,
        Self::TensorRtLlm,
        Self::LlamaCpp,
        Self::Ollama,
        Self::Lmdeploy,
        Self::Nim,
        Self::RayWorker,
        Self::Jax,
        Self::Tensorflow,
        Self::Pytorch,
        Self::Unknown,
        Self::None,
    ];

    /// The engine of this name in JSON and in policies.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|engine| engine.as_str() == name)
    }

    /// The name in JSON and in text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Tgi => "tgi",
            Self::Tei => "tei",
            Self::Triton => "triton",
            Self::TensorRtLlm => "trtllm",
            Self::LlamaCpp => "llama.cpp",
            Self::Ollama => "ollama",
            Self::Lmdeploy => "lmdeploy",
            Self::Nim => "nim",
            Self::RayWorker => "ray-worker",
            Self::Jax => "jax",
            Self::Tensorflow => "tensorflow",
            Self::Pytorch => "pytorch",
            Self::Unknown => "unknown",
            Self::None => "none",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Release of an engine, as an image tag names it: `0.6.3.post1` is `[0, 6, 3, 1]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub [u16; 4]);

impl Version {
    /// A release without a `.postN`.
    #[must_use]
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self([major, minor, patch, 0])
    }

    /// Reads `0.11.0`, `v0.6.3.post1`, `0.11`; anything after a `-`, a `+` or a letter is a build suffix. `None` where it
    /// does not begin with two numbers.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let text = text.split(['-', '+', '_']).next().unwrap_or(text);
        let mut parts = text.split('.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?.parse().ok()?;
        let mut rest = [0, 0];
        let mut filled = 0;
        for part in parts {
            // `0.9.0rc1` comes before 0.9.0 and has its options.
            let digits = part.strip_prefix("post").unwrap_or(part);
            let digits = digits
                .find(|c: char| !c.is_ascii_digit())
                .map_or(digits, |end| &digits[..end]);
            if digits.is_empty() {
                break;
            }
            let place = if part.starts_with("post") { 1 } else { filled };
            *rest.get_mut(place)? = digits.parse().ok()?;
            filled = place + 1;
        }
        let [patch, post] = rest;
        Some(Self([major, minor, patch, post]))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch, post] = self.0;
        write!(f, "{major}.{minor}.{patch}")?;
        // vLLM numbers a release after a release with `.post1` up to 0.8.5.post1 and with a fourth number since (0.9.0.1,
        // 0.10.1.1); SGLang, which keeps the word, is below that.
        match post {
            0 => Ok(()),
            post if [major, minor] < [0, 9] => write!(f, ".post{post}"),
            post => write!(f, ".{post}"),
        }
    }
}

/// Whether the engine gets as far as looking at devices and model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Starts {
    /// The command line is one that this release accepts.
    Yes,
    /// The release's own parser or typed configuration refuses it, or there is nothing to execute.
    No,
    /// It hangs on something that cannot be read here.
    Unknown,
}

/// How much of the invocation could be read from the pod alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Resolvable {
    /// All of it.
    Full,
    /// Some value is not known, or stands outside the pod ([`Reading::depends_on`]) and can change until it starts.
    Partial,
    /// Nothing that decides the memory: neither the model nor an amount.
    None,
}

/// What kind of amount an engine takes of each device. Kinds are never mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    /// A fraction of the device's total (vLLM).
    OfTotal,
    /// A fraction of what is free when it starts (SGLang).
    OfFree,
    /// A fraction of what is free once the weights are loaded (TensorRT-LLM, LMDeploy).
    OfFreeAfterWeights,
    /// Everything until a part of the device is left (TGI).
    UntilLeft,
    /// A stated number of MiB.
    Absolute,
    /// Worked out from model and options (llama.cpp, TEI).
    Estimated,
    /// Whatever it can get.
    Uncapped,
    /// Cannot be read.
    Unknown,
    /// Uses no device.
    None,
}

/// Where the amount comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemorySource {
    /// An option on the command line.
    Flag,
    /// An environment variable.
    Env,
    /// A configuration file.
    ConfigFile,
    /// The release's own default.
    Default,
    /// The engine works it out when it starts.
    EngineAuto,
    /// A declaration by annotation.
    Annotation,
    /// The policy.
    Policy,
    /// The model estimate.
    Estimate,
    /// It stands somewhere that cannot be read.
    Unresolved,
}

/// What the invocation says the engine will take of each device of the container.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryRequest {
    /// What kind of amount it is.
    pub kind: MemoryKind,
    /// The text as written, or the release's default (the larger where the release is unknown). `nan` and `1e309` too.
    pub value: Option<String>,
    /// Where it comes from.
    pub source: MemorySource,
    /// The amount as a usable fraction: for [`MemoryKind::OfTotal`] and [`MemoryKind::OfFree`] with a value in range, else
    /// `None`.
    pub fraction: Option<Fraction>,
    /// The amount in MiB for [`MemoryKind::Absolute`], per device.
    pub absolute: Option<Mib>,
    /// The field that holds the value, or that would (`spec.containers[0].args[3]`), below the pod.
    pub path: FieldPath,
}

/// Parallel sizes of the invocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parallelism {
    /// Tensor parallel size.
    pub tensor: u32,
    /// Pipeline parallel size.
    pub pipeline: u32,
    /// Data parallel size over all pods.
    pub data: u32,
    /// Data parallel ranks in this pod.
    pub data_local: u32,
    /// Devices that this container's processes use.
    pub devices: u32,
}

impl Default for Parallelism {
    fn default() -> Self {
        Self {
            tensor: 1,
            pipeline: 1,
            data: 1,
            data_local: 1,
            devices: 1,
        }
    }
}

/// Something in the invocation that could not be read, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unresolved {
    /// The option or field (`gpu-memory-utilization`), or `argv` where the command line as a whole is unreadable.
    pub field: String,
    /// Why, naming what would have to be readable.
    pub reason: String,
    /// Whether the amount of device memory hangs on it.
    #[serde(skip)]
    pub decides_memory: bool,
}

/// How another value of an option is written into the container: an RFC 6902 operation at `pointer` below the container
/// with the value `before + value + after`. Where the pointer is `/args`, the container has none yet and the value is a
/// list of that one word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionEdit {
    /// JSON pointer below the container: `/args/3`, or `/args/-` to append.
    pub pointer: String,
    /// Whether the operation is `add` (else `replace`).
    pub add: bool,
    /// Text before the value.
    pub before: String,
    /// Text after it.
    pub after: String,
    /// Whether this surely changes nothing but the option: it is written into a list of words, or behind the last word of
    /// a script, of a command that runs in any case.
    pub sure: bool,
}

/// How one container starts one engine, and what that will take.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The engine.
    pub engine: Engine,
    /// Its release, where image or policy tell.
    pub version: Option<Version>,
    /// The subcommand or server module (`serve`, `api-server`, `run-batch`, …).
    pub command: Option<String>,
    /// The model as written.
    pub model: Option<String>,
    /// Whether it starts.
    pub starts: Starts,
    /// How much could be read.
    pub resolvable: Resolvable,
    /// What it takes of each device.
    pub memory: MemoryRequest,
    /// Whose memory its fraction means.
    pub meaning: Meaning,
    /// Parallel sizes.
    pub parallelism: Parallelism,
    /// The same as written, where one of them is beyond 32 bits.
    pub exact_sizes: Option<ExactSizes>,
    /// Longest context in tokens; -1 for vLLM's `auto`.
    pub max_model_len: Option<i128>,
    /// Quantisation as written.
    pub quantization: Option<String>,
    /// Type of weights and activations, `auto` where that is the engine's value.
    pub dtype: Option<String>,
    /// Type of the KV cache, `auto` where that is the engine's value.
    pub kv_cache_dtype: Option<String>,
    /// Whether CUDA graphs are off (they lie outside the request before vLLM 0.20).
    pub eager: bool,
    /// Processes of the container that use its devices, all in all; absent where each device has one.
    pub processes: Option<u32>,
    /// Devices that its processes need where each takes the device of its number, and only one slot is asked for: as clients
    /// of MPS they stand on it together, elsewhere all but the first find none. 0 where that is not so.
    pub apart: u32,
    /// Variables that bound its processes from outside.
    pub limits: Vec<limits::LimitVariable>,
    /// What else decides how much memory the model wants.
    pub serving: Serving,
    /// What could not be read.
    pub unresolved: Vec<Unresolved>,
    /// What to tell about the invocation by itself (VG101, 103, 104, 107, 109). Paths are below the pod.
    pub findings: Vec<Finding>,
    /// How another fraction would be written, where the form allows it.
    pub fraction_edit: Option<OptionEdit>,
    /// How another longest context would be written, where the form allows it.
    pub length_edit: Option<OptionEdit>,
    /// How another tensor parallel size would be written, where the form allows it.
    pub tensor_edit: Option<OptionEdit>,
    /// Where each value comes from, in the order in which to tell it; empty unless [`explain`] read it.
    pub provenance: Vec<Provenance>,
    /// What stands outside the pod and decides a value or a word of the command line (`ConfigMap llm/settings`), in words;
    /// also where it is known now. Empty unless [`explain`] read it. Secrets are never read, so a value that hangs on one
    /// is unresolved instead.
    pub depends_on: Vec<String>,
}

/// What the role of a container in its pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Runs as long as the pod.
    Container,
    /// Runs to its end before the regular containers.
    Init,
    /// An init container that goes on beside the regular ones.
    Sidecar,
    /// Added to a running pod.
    Ephemeral,
}

/// A pod's container with its place.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// The container.
    pub container: &'a Container,
    /// Its role.
    pub role: Role,
    /// Its index in the list of its role's field.
    pub index: usize,
}

impl Placed<'_> {
    /// The path below the pod: `spec.containers[0]`.
    #[must_use]
    pub fn path(&self) -> FieldPath {
        let list = match self.role {
            Role::Container => "spec.containers",
            Role::Init | Role::Sidecar => "spec.initContainers",
            Role::Ephemeral => "spec.ephemeralContainers",
        };
        FieldPath::new(list).index(self.index)
    }

    /// The JSON pointer below the pod: `/spec/containers/0`.
    #[must_use]
    pub fn pointer(&self) -> String {
        let list = match self.role {
            Role::Container => "containers",
            Role::Init | Role::Sidecar => "initContainers",
            Role::Ephemeral => "ephemeralContainers",
        };
        format!("/spec/{list}/{}", self.index)
    }
}

/// All containers of a pod with their roles, in the order of the manifest (init first).
pub fn containers(pod: &Pod) -> impl Iterator<Item = Placed<'_>> {
    let init = pod
        .spec
        .init_containers
        .iter()
        .enumerate()
        .map(|(index, container)| {
            let sidecar = container.restart_policy.as_deref() == Some("Always");
            Placed {
                container,
                role: if sidecar { Role::Sidecar } else { Role::Init },
                index,
            }
        });
    let regular = pod.spec.containers.iter().enumerate();
    let ephemeral = pod.spec.ephemeral_containers.iter().enumerate();
    init.chain(regular.map(|(index, container)| Placed {
        container,
        role: Role::Container,
        index,
    }))
    .chain(ephemeral.map(|(index, container)| Placed {
        container,
        role: Role::Ephemeral,
        index,
    }))
}

/// The answer to a look-up of a ConfigMap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookUp<'a> {
    /// Its `data`.
    Found(&'a BTreeMap<String, String>),
    /// There is none of that name.
    Missing,
    /// It was not looked up, for this reason (policy, time, no cluster).
    NotRead(&'a str),
}

/// ConfigMaps that a pod names, fetched before the pure part.
pub trait Sources {
    /// The ConfigMap `name` of `namespace`.
    fn config_map(&self, namespace: &str, name: &str) -> LookUp<'_>;
}

/// No ConfigMap is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSources;

impl Sources for NoSources {
    fn config_map(&self, _namespace: &str, _name: &str) -> LookUp<'_> {
        LookUp::NotRead("no ConfigMap was looked up")
    }
}

/// What a policy says of an image of the platform's own (`spec.engines[]`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageRule {
    /// Patterns of image references (without tag or digest unless the pattern has one); `*` stands for any text.
    pub images: Vec<String>,
    /// The engine inside, by its name in JSON.
    pub engine: Option<String>,
    /// Its release, where tags do not tell.
    pub version: Option<String>,
    /// The image's entrypoint.
    pub entrypoint: Vec<String>,
    /// Environment variables that the image's start script reads, and the option that each one sets
    /// (`GPU_MEMORY_UTILIZATION` -> `--gpu-memory-utilization`). An option on the command line wins over the variable.
    pub variables: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn releases_are_read_from_tags() {
        for (text, parts) in [
            ("v0.11.0", Some([0, 11, 0, 0])),
            ("0.6.3.post1", Some([0, 6, 3, 1])),
            ("0.9.0.1", Some([0, 9, 0, 1])),
            ("v0.19.1-cu128-x86_64", Some([0, 19, 1, 0])),
            ("v0.10.0rc2", Some([0, 10, 0, 0])),
            ("0.8", Some([0, 8, 0, 0])),
            ("latest", None),
            ("2025-05-05-v1", None),
            ("cu128", None),
            ("1.2.3.4.5", None),
            ("v0.99999999999.1", None),
        ] {
            assert_eq!(Version::parse(text).map(|version| version.0), parts, "{text}");
        }
        assert!(Version::parse("0.9.0.1") < Version::parse("0.9.1"));
    }
}
