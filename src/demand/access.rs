//! Containers that reach GPUs without asking for one, and what they take there.
//!
//! The NVIDIA runtime shows a container the devices that `NVIDIA_VISIBLE_DEVICES` names, whoever set it; a privileged
//! container opens every device file; an image made from CUDA's carries `NVIDIA_VISIBLE_DEVICES=all` itself. Nothing tells
//! on which device such a container works, so what it takes counts on each device of the node on which it stands.
//! Where a container asks for a GPU as well, the device plugin overwrites the variable with what it allocated
//! (`deviceListStrategy: envvar`), so there is nothing to tell. `CUDA_VISIBLE_DEVICES` alone only chooses among devices
//! that are visible already.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Claim, Client, Part, load};
use crate::engine::{self, Engine, NoSources, Placed, Sources, image::Image};
use crate::finding::{Code, FieldPath, Finding, Severity, short, shortened};
use crate::invocation::{VariableOrigin, environment};
use crate::policy::{AccessPolicy, AccessRule, Policy, PolicySet};
use crate::workload::pod::{Container, EnvFromSource, Pod, QuantityText};

mod volumes;

pub(super) use volumes::DeviceVolumes;

/// The variable that the NVIDIA runtime obeys (container-toolkit, `NVIDIA_VISIBLE_DEVICES`).
pub(crate) const VARIABLE: &str = "NVIDIA_VISIBLE_DEVICES";
/// Values of it that show no device; an empty one does not either.
pub(crate) const NO_DEVICE: [&str; 3] = ["", "void", "none"];
/// Longest value or reason, in characters, that a first line carries.
const LONGEST: usize = 48;

/// NVIDIA's own agents, by the last part of their image: they look at devices and hold no memory of them (device plugin,
/// discovery, monitoring and the operator's helpers; their manifests set the variable to `all`).
const AGENTS: [&str; 14] = [
    "container-toolkit",
    "dcgm",
    "dcgm-exporter",
    "driver",
    "gpu-feature-discovery",
    "gpu-operator",
    "gpu-operator-validator",
    "k8s-device-plugin",
    "k8s-dra-driver-gpu",
    "k8s-driver-manager",
    "k8s-mig-manager",
    "mig-manager",
    "nvidia-gpu-device-plugin",
    "vgpu-device-manager",
];

/// Parts of an image's name by which an engine is known that has no use without a GPU; the registration names the same.
pub(crate) const ENGINE_IMAGES: [&str; 6] = [
    "vllm",
    "sglang",
    "text-generation-inference",
    "lmdeploy",
    "tensorrt-llm",
    "nvcr.io/nim/",
];

/// Parts of the name of a ConfigMap or Secret by which one of `envFrom` is taken to be about GPUs; the registration names
/// the same. Which variables it holds its reader alone knows.
pub(crate) const GPU_NAMES: [&str; 3] = ["nvidia", "gpu", "cuda"];

/// How a container reaches devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The variable has this value; the path is where it is set.
    Variable(String, FieldPath),
    /// The variable is set to something that cannot be read, for this reason.
    Unread(String, FieldPath),
    /// It is privileged.
    Privileged,
    /// It mounts this path.
    DevicePath(String),
    /// The pod's runtime class shows every device.
    RuntimeClass(String),
    /// Its engine takes the first device that it sees.
    Engine(Engine),
}

/// A text of the object that shuts the container out when it is written so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closing {
    /// JSON pointer below the pod.
    pub pointer: String,
    /// What is added or put there.
    pub value: serde_json::Value,
    /// Whether it replaces what stands there.
    pub replaces: bool,
}

/// One container that asks for no GPU and reaches some.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// What it takes of each device, as a claim without slots; without parts it is known to take nothing, or cannot be told.
    pub claim: Claim,
    /// How it reaches them.
    pub reach: Vec<Reach>,
    /// Whether its engine is known.
    pub runs_engine: bool,
    /// What to tell, with the severities that the policy gives.
    pub findings: Vec<Finding>,
    /// How it could be shut out; absent where a variable does not do that.
    pub closing: Option<Closing>,
    /// Whether its resources have a map of limits already, and whether it has resources at all.
    pub limits: (bool, bool),
}

/// Whether a pod may reach a GPU without asking: what decides which pods are looked at closely. `shows` is whether a
/// runtime class may show all devices. A variable that only `envFrom` sets is seen where the pod itself hints at it (by the
/// prefix, by a name that is about GPUs, or by a runtime class that is), or where a known engine is read; of privileged
/// containers those are seen that run one. To look up the ConfigMaps of every pod of a cluster would cost more than it
/// tells.
#[must_use]
pub fn may_reach(pod: &Pod, shows: impl FnOnce(&str) -> bool) -> bool {
    let class = pod.spec.runtime_class_name.as_deref();
    let devices = DeviceVolumes::of(pod);
    class.is_some_and(shows)
        || engine::containers(pod).any(|placed| {
            let container = placed.container;
            !has_asked(container)
                && (container.env.iter().any(|variable| {
                    variable.name == VARIABLE
                        && variable
                            .value
                            .as_deref()
                            .is_none_or(|value| !NO_DEVICE.contains(&value.trim()))
                }) || devices.opened_by(container).is_some()
                    || names_engine(container)
                    || container
                        .env_from
                        .iter()
                        .any(|source| may_set_variable(source, class))
                    || ((is_privileged(container) || !container.env_from.is_empty())
                        && runs_engine(pod, placed)))
        })
}

/// Whether what the pod says of a source of variables hints at [`VARIABLE`].
fn may_set_variable(source: &EnvFromSource, runtime_class: Option<&str>) -> bool {
    let is_about_gpus = |name: &str| GPU_NAMES.iter().any(|word| name.contains(word));
    let named = source.config_map_ref.iter().chain(&source.secret_ref);
    let by_prefix = !source.prefix.is_empty() && VARIABLE.starts_with(&source.prefix);
    // Another prefix makes other names of all that it holds.
    let may_hold = source.prefix.is_empty() || by_prefix;
    by_prefix
        || may_hold
            && (runtime_class.is_some_and(is_about_gpus)
                || named.map(|source| source.name.as_str()).any(is_about_gpus))
}

/// Whether a known engine is read from a container that asks for no device, whatever a policy says of its image.
fn runs_engine(pod: &Pod, placed: Placed<'_>) -> bool {
    engine::read(pod, placed, &NoSources, &[])
        .iter()
        .any(|reading| !matches!(reading.engine, Engine::Unknown | Engine::None))
}

fn is_privileged(container: &Container) -> bool {
    let security = container.security_context.as_ref();
    security.is_some_and(|context| context.privileged == Some(true))
}

/// Whether a container asks for a device: by a resource, or by a dynamic resource claim, of which it is not always known what
/// it stands for.
fn has_asked(container: &Container) -> bool {
    engine::asks_for_accelerator(container) || !container.resources.claims.is_empty()
}

/// Whether image or words name an engine that has no use without a GPU.
fn names_engine(container: &Container) -> bool {
    let names = |text: &String| ENGINE_IMAGES.iter().any(|name| text.contains(name));
    let words = container.command.iter().chain(&container.args).flatten();
    names(&container.image) || words.into_iter().any(names)
}

/// What the rules about one pod are read from.
pub(super) struct Asker<'a> {
    pub(super) pod: &'a Pod,
    pub(super) namespace_labels: &'a BTreeMap<String, String>,
    pub(super) policies: &'a PolicySet,
    pub(super) sources: &'a dyn Sources,
    /// Whether findings are wanted.
    pub(super) tells: bool,
    /// Volumes of the pod that open devices.
    pub(super) devices: DeviceVolumes<'a>,
}

impl Asker<'_> {
    /// Reads one container that asks for no slot; `None` where it reaches no device, or nothing about it is to be told
    /// or counted.
    pub(super) fn read(&self, placed: Placed<'_>) -> Option<Access> {
        let container = placed.container;
        if has_asked(container) {
            return None;
        }
        let labels = &self.pod.metadata.labels;
        let rules = self.policies.access(self.namespace_labels, self.pod);
        let variable = self.variable(placed);
        let closed = matches!(&variable, Some(Ok((value, _))) if NO_DEVICE.contains(&value.trim()));
        let mut reach = Vec::new();
        match variable {
            Some(Ok((value, path))) if !closed => reach.push(Reach::Variable(value, path)),
            Some(Err((why, path))) => reach.push(Reach::Unread(why, path)),
            _ => {}
        }
        let shown = self.pod.spec.runtime_class_name.as_ref();
        let shown = shown.filter(|class| !closed && rules.runtime_classes.contains(class));
        reach.extend(shown.cloned().map(Reach::RuntimeClass));
        if is_privileged(container) {
            reach.push(Reach::Privileged);
        }
        reach.extend(self.devices.opened_by(container).map(Reach::DevicePath));
        if (reach.is_empty() && !names_engine(container)) || rules.exempt.covers(&container.image, labels) {
            return None;
        }
        let parts = self.parts(placed);
        let engine = parts
            .iter()
            .map(|part| part.engine)
            .find(|engine| needs_a_device(*engine));
        if let (true, Some(engine)) = (reach.is_empty(), engine) {
            reach.push(Reach::Engine(engine));
        }
        if reach.is_empty() {
            return None;
        }
        let runs_engine = !parts.is_empty();
        // An engine whose container is shut out reaches nothing, whatever it is meant to do.
        let is_closed = closed && reach.iter().all(|way| matches!(way, Reach::Engine(_)));
        let parts = match (is_closed, runs_engine) {
            (true, _) => Vec::new(),
            (false, true) => parts,
            (false, false) => self.unknown_program(placed, &reach, rules),
        };
        let policy = self.policies.for_pod(self.namespace_labels, self.pod, None);
        // An engine that is shut out still asks for no GPU (VG504).
        let may_be_shut_out = engine.is_none() || policy.severity(Code::Vg504) < Severity::Error;
        let mut access = Access {
            claim: Claim {
                container: container.name.clone(),
                role: placed.role,
                path: placed.path(),
                pointer: placed.pointer(),
                resource: Arc::from(""),
                slots: 0,
                slots_path: placed.path().field("resources"),
                client: Client::default(),
                parts,
            },
            closing: closing(&reach, placed).filter(|_| may_be_shut_out),
            reach,
            runs_engine,
            findings: Vec::new(),
            limits: (
                !container.resources.limits.is_empty(),
                container.resources != crate::workload::pod::Resources::default(),
            ),
        };
        let findings = access.tell(&policy);
        if findings.is_empty() && access.claim.parts.is_empty() {
            return None;
        }
        if self.tells {
            access.findings = findings;
        }
        Some(access)
    }

    /// What is known of the variable: its value, or why it has none that can be read. `None` where it is not set here.
    fn variable(&self, placed: Placed<'_>) -> Option<Result<(String, FieldPath), (String, FieldPath)>> {
        let container = placed.container;
        let named = container.env.iter().any(|variable| variable.name == VARIABLE);
        if !named && container.env_from.is_empty() {
            return None;
        }
        let environment = environment::read(self.pod, container, self.sources);
        let variable = environment.get(VARIABLE)?;
        let path = match variable.origin {
            VariableOrigin::Env(index) => placed.path().field("env").index(index),
            VariableOrigin::EnvFrom(index) => placed.path().field("envFrom").index(index),
        };
        Some(match &variable.value {
            Ok(value) => Ok((value.clone().into_owned(), path)),
            Err(why) => Err((why.clone(), path)),
        })
    }

    /// The engines that a container starts, with what they take.
    fn parts(&self, placed: Placed<'_>) -> Vec<Part> {
        let pod = self.pod;
        let rules = self.policies.engine_rules(self.namespace_labels, pod);
        let models = self.policies.models(self.namespace_labels, pod);
        let readings = engine::read(pod, placed, self.sources, rules);
        let parts = readings.iter().filter_map(|reading| {
            let is_estimated = reading.memory.kind == engine::MemoryKind::Estimated;
            let load = is_estimated
                .then(|| load::Load::read(reading, pod, placed, self.sources, models, None))
                .flatten();
            super::part(reading, &placed, load, false)
        });
        parts.collect()
    }

    /// A program that is no known engine, where the container sees devices by a variable or a runtime class: its amount is
    /// unknown. Privileged containers and those with device paths are the node's own agents nearly always, so an unknown
    /// program among them is told and not counted.
    fn unknown_program(&self, placed: Placed<'_>, reach: &[Reach], rules: &AccessPolicy) -> Vec<Part> {
        let sees = reach.iter().any(|way| match way {
            Reach::Variable(..) | Reach::Unread(..) => rules.visible_devices != AccessRule::Ignore,
            Reach::RuntimeClass(_) => true,
            Reach::Privileged | Reach::DevicePath(_) | Reach::Engine(_) => false,
        });
        if !sees || is_agent(&placed.container.image) {
            return Vec::new();
        }
        // Read as if it asked for a device: a shell's daily commands take none, anything else is not known.
        let mut asking = placed.container.clone();
        let limits = &mut asking.resources.limits;
        limits.insert("nvidia.com/gpu".to_owned(), QuantityText("1".to_owned()));
        let asking = Placed {
            container: &asking,
            ..placed
        };
        let mut parts = self.parts(asking);
        // An engine that is read only now is one that its image or options keep on the CPU.
        parts.retain(|part| !needs_a_device(part.engine));
        for part in &mut parts {
            part.edit = None;
        }
        parts
    }
}

impl Access {
    /// Whether it takes memory of the devices of its node.
    #[must_use]
    pub fn takes(&self) -> bool {
        !self.claim.parts.is_empty()
    }

    /// Whether what it takes, or that it sees a device at all, is a guess: the program is no known engine, or nothing but its
    /// image may show it a device.
    #[must_use]
    pub fn is_guess(&self) -> bool {
        !self.takes() || !self.runs_engine || self.reach.iter().all(|way| matches!(way, Reach::Engine(_)))
    }

    /// What to tell under a policy.
    fn tell(&self, policy: &Policy) -> Vec<Finding> {
        let container = short(&self.claim.container);
        let path = &self.claim.path;
        let rules = &policy.access;
        let mut findings = Vec::new();
        for way in &self.reach {
            let (code, severity, path, message) = match way {
                Reach::Variable(value, path) => (
                    Code::Vg501,
                    self.of_variable(policy),
                    path.clone(),
                    format!(
                        "container {container} asks for no GPU and sets {VARIABLE}={}: it sees GPUs of its node that were \
                         promised to others; ask for a GPU, or set void",
                        shortened(value, LONGEST)
                    ),
                ),
                Reach::Unread(why, path) => (
                    Code::Vg501,
                    self.of_variable(policy),
                    path.clone(),
                    format!(
                        "container {container} asks for no GPU and sets {VARIABLE} to a value that cannot be read ({}); \
                         ask for a GPU, or set void",
                        shortened(why, LONGEST)
                    ),
                ),
                Reach::Privileged => (
                    Code::Vg502,
                    by_rule(rules.privileged, Code::Vg502, policy),
                    path.field("securityContext").field("privileged"),
                    format!(
                        "container {container} asks for no GPU and is privileged: it can open every GPU of its node; ask \
                         for a GPU, or keep it off GPU nodes"
                    ),
                ),
                Reach::DevicePath(device) => (
                    Code::Vg502,
                    by_rule(rules.device_paths, Code::Vg502, policy),
                    path.field("volumeMounts"),
                    format!(
                        "container {container} asks for no GPU and mounts {}: it can open GPUs of its node; ask for a \
                         GPU, or mount none of its files",
                        shortened(device, LONGEST)
                    ),
                ),
                Reach::RuntimeClass(class) => (
                    Code::Vg503,
                    Some(policy.severity(Code::Vg503)),
                    FieldPath::new("spec.runtimeClassName"),
                    format!(
                        "container {container} asks for no GPU and runtime class {} shows it every GPU of its node; ask \
                         for a GPU, or use another runtime class",
                        shortened(class, LONGEST)
                    ),
                ),
                Reach::Engine(engine) => (
                    Code::Vg504,
                    Some(policy.severity(Code::Vg504)),
                    path.field("resources"),
                    format!(
                        "container {container} runs {engine} and asks for no GPU: it does not start, or takes a GPU that \
                         it was not given; ask for a GPU"
                    ),
                ),
            };
            let Some(severity) = severity else { continue };
            let counted = if !self.takes() {
                "what it takes of devices is not counted"
            } else if self.runs_engine {
                "what its engine takes is counted on every device of the node on which it stands"
            } else {
                "what it takes cannot be read: it counts on every device of the node on which it stands, as the policy says \
                 of unknown amounts (where it says no amount, budget / slots of a shared one)"
            };
            findings.push(
                Finding::new(code, path, message)
                    .with_severity(severity)
                    .detail(counted),
            );
        }
        findings
    }

    /// A variable without an engine behind it is a warning at most.
    fn of_variable(&self, policy: &Policy) -> Option<Severity> {
        let severity = by_rule(policy.access.visible_devices, Code::Vg501, policy)?;
        Some(if self.runs_engine {
            severity
        } else {
            severity.min(Severity::Warning)
        })
    }
}

/// The severity that a rule of `spec.access` gives; `spec.codes` can only lower it.
pub(crate) fn by_rule(rule: AccessRule, code: Code, policy: &Policy) -> Option<Severity> {
    let severity = match rule {
        AccessRule::Deny => Severity::Error,
        AccessRule::Warn => Severity::Warning,
        AccessRule::Ignore => return None,
    };
    let of_code = policy.severity(code);
    Some(if of_code < code.default_severity() {
        severity.min(of_code)
    } else {
        severity
    })
}

/// Whether an engine has no use without a GPU. Others are run on the CPU as often as not.
const fn needs_a_device(engine: Engine) -> bool {
    matches!(
        engine,
        Engine::Vllm | Engine::Sglang | Engine::Tgi | Engine::TensorRtLlm | Engine::Lmdeploy | Engine::Nim
    )
}

fn is_agent(image: &str) -> bool {
    let image = Image::parse(image);
    image.repository.contains("nvidia") && AGENTS.contains(&image.name())
}

/// Where `void` has to be written. A privileged container, or one with device paths, opens devices all the same.
fn closing(reach: &[Reach], placed: Placed<'_>) -> Option<Closing> {
    let by_other_ways = |way: &Reach| matches!(way, Reach::Privileged | Reach::DevicePath(_));
    if reach.iter().any(by_other_ways) {
        return None;
    }
    let container = placed.container;
    let env = format!("{}/env", placed.pointer());
    let entry = serde_json::json!({"name": VARIABLE, "value": "void"});
    let written = container
        .env
        .iter()
        .rposition(|variable| variable.name == VARIABLE);
    Some(match written {
        Some(index) => Closing {
            pointer: format!("{env}/{index}"),
            value: entry,
            replaces: true,
        },
        None if container.env.is_empty() => Closing {
            pointer: env,
            value: serde_json::json!([entry]),
            replaces: false,
        },
        None => Closing {
            pointer: format!("{env}/-"),
            value: entry,
            replaces: false,
        },
    })
}
