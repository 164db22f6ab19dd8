//! What every engine's module offers: to recognise the engine by image and program, and to read its command line.

use std::borrow::Cow;
use std::cell::Cell;

use super::image::Image;
use super::{
    Engine, ImageRule, MemoryKind, MemoryRequest, MemorySource, Parallelism, Placed, Reading, Resolvable,
    Serving, Sources, Starts, Unresolved, Version,
};
use crate::device;
use crate::finding::{Code, FieldPath, Finding};
use crate::invocation::environment::namespace;
use crate::invocation::files::{self, Listing};
use crate::invocation::prefix::Program;
use crate::invocation::{Certainty, Command, Invocation, VariableOrigin, Word};
use crate::workload::pod::{Container, Pod};

/// Everything that a reading may depend on.
pub(super) struct Context<'c> {
    pub(super) pod: &'c Pod,
    pub(super) placed: Placed<'c>,
    pub(super) path: FieldPath,
    pub(super) image: Image<'c>,
    pub(super) invocation: &'c Invocation<'c>,
    pub(super) sources: &'c dyn Sources,
    pub(super) rule: Option<&'c ImageRule>,
    /// Whether it is asked where each value comes from.
    pub(super) explains: bool,
    /// Whether a variable was asked for that is not set.
    pub(super) asks: Cell<bool>,
}

/// One engine.
pub(super) trait Reader: Sync {
    /// Which.
    fn engine(&self) -> Engine;

    /// The entrypoint of an image that is known to run it. `Some` with no words: the image is known, and starts it by
    /// itself.
    fn entrypoint(&self, image: &Image<'_>) -> Option<Vec<Cow<'static, str>>>;

    /// Whether the entrypoint of an image is surely the engine, so that a program among the arguments is no program
    /// to it. Names alone say less: an image `vllm` may start anything.
    fn is_own_server(&self, _image: &Image<'_>) -> bool {
        true
    }

    /// Whether a program is it.
    fn runs(&self, program: Program<'_>, words: &[Word<'_>]) -> bool;

    /// Reads it. `first` is the index of the program's first argument.
    fn read(&self, context: &Context<'_>, command: &Command<'_>, first: usize) -> Reading;

    /// Reads every engine that the program starts.
    fn read_all(&self, context: &Context<'_>, command: &Command<'_>, first: usize) -> Vec<Reading> {
        vec![self.read(context, command, first)]
    }
}

impl<'c> Context<'c> {
    /// A reading of `engine` in which nothing is set yet.
    pub(super) fn blank(&self, engine: Engine, kind: MemoryKind) -> Reading {
        Reading {
            engine,
            version: self.version(),
            command: None,
            model: None,
            starts: Starts::Yes,
            resolvable: Resolvable::Full,
            memory: MemoryRequest {
                kind,
                value: None,
                source: MemorySource::Default,
                fraction: None,
                absolute: None,
                path: self.path.field("args"),
            },
            meaning: super::Meaning::default(),
            parallelism: Parallelism::default(),
            exact_sizes: None,
            max_model_len: None,
            quantization: None,
            dtype: None,
            kv_cache_dtype: None,
            eager: false,
            processes: None,
            apart: 0,
            limits: Vec::new(),
            serving: Serving::default(),
            unresolved: Vec::new(),
            findings: Vec::new(),
            fraction_edit: None,
            length_edit: None,
            tensor_edit: None,
            provenance: Vec::new(),
            depends_on: Vec::new(),
        }
    }

    /// The release that the policy states for the image.
    pub(super) fn version(&self) -> Option<Version> {
        self.rule
            .and_then(|rule| rule.version.as_deref())
            .and_then(Version::parse)
    }

    /// Slots of NVIDIA devices that the container asks for.
    pub(super) fn slots(&self) -> Option<u32> {
        let resources = &self.placed.container.resources;
        let count = |(name, quantity): (&String, &crate::workload::pod::QuantityText)| {
            device::is_slot_resource(name)
                .then(|| quantity.0.parse::<u32>().ok())
                .flatten()
        };
        let named = resources
            .limits
            .iter()
            .chain(&resources.requests)
            .filter_map(count)
            .max();
        named.filter(|slots| *slots > 0)
    }

    /// The finding for an image whose content is not fixed.
    pub(super) fn floating_image(&self) -> Option<Finding> {
        // An operator's own image is not written down.
        let is_written = !self.placed.container.image.is_empty();
        (is_written && self.image.floats()).then(|| {
            let image = &self.placed.container.image;
            let what = if self.image.tag.is_some() { "the tag latest" } else { "no tag and no digest" };
            Finding::new(
                Code::Vg109,
                self.path.field("image"),
                format!("{image} has {what}: its release, and with it defaults and options, can change; name a release"),
            )
        })
    }

    /// Fills in what follows from the other parts of a reading.
    pub(super) fn finish(&self, command: &Command<'_>, mut reading: Reading) -> Reading {
        if command.conditional && reading.starts == Starts::Yes {
            reading.starts = Starts::Unknown;
        }
        let (pods, sizes) = (self.placed.container.spread_over, &mut reading.parallelism);
        if pods > 1 && self.slots().is_some_and(|slots| sizes.devices > slots) {
            sizes.devices = sizes.devices.div_ceil(pods);
        }
        if resource_is_refused(self.placed.container) {
            reading.starts = Starts::No;
        }
        if let Some(made) = &self.placed.container.made {
            reading.without_edits();
            if made.doubtful && reading.starts == Starts::Yes {
                reading.starts = Starts::Unknown;
            }
            if reading.engine != Engine::None && reading.resolvable == Resolvable::Full {
                reading.unresolved.push(Unresolved {
                    field: "argv".to_owned(),
                    reason: made.by.clone(),
                    decides_memory: false,
                });
            }
        }
        if let Some(reason) = &command.refused {
            reading.starts = Starts::No;
            reading.unresolved.push(Unresolved {
                field: "argv".to_owned(),
                reason: reason.clone(),
                decides_memory: false,
            });
        }
        if reading.starts == Starts::Yes && self.hangs_on_devices(command, &reading) {
            reading.starts = Starts::Unknown;
        }
        if !reading.unresolved.is_empty() && reading.resolvable == Resolvable::Full {
            reading.resolvable = Resolvable::Partial;
        }
        reading
    }

    /// Whether more ranks than devices are to be seen, the devices are of another maker than the image, or the API
    /// server takes the request only where something sets its limit.
    fn hangs_on_devices(&self, command: &Command<'_>, reading: &Reading) -> bool {
        let devices = reading.parallelism.devices;
        if self.slots().is_some_and(|slots| devices > slots) {
            return true;
        }
        if let Some(Ok(visible)) = self.variable(command, "CUDA_VISIBLE_DEVICES") {
            let visible = visible.split(',').filter(|name| !name.trim().is_empty()).count();
            if u32::try_from(visible).is_ok_and(|visible| devices > visible) {
                return true;
            }
        }
        let resources = &self.placed.container.resources;
        let unlimited = resources
            .requests
            .keys()
            .any(|name| device::is_slot_resource(name) && !resources.limits.contains_key(name));
        unlimited || self.slots().is_some() && self.is_for_other_devices()
    }

    /// Whether the image is built for devices of another maker, or for none.
    pub(super) fn is_for_other_devices(&self) -> bool {
        let image = self.placed.container.image.to_ascii_lowercase();
        // The first part is a registry where it looks like a host.
        let path = match image.split_once('/') {
            Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => path,
            _ => &*image,
        };
        path.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| {
            // `rocm6`, of a tag such as `rocm6.4.1_vllm_0.10.1`.
            let numbered = part.trim_end_matches(|c: char| c.is_ascii_digit());
            let known = [
                "gaudi",
                "habana",
                "habanalabs",
                "rocm",
                "neuron",
                "neuronx",
                "tpu",
                "xpu",
                "spyre",
                "cpu",
                "ascend",
                "arm64",
                "xeon",
            ];
            known.contains(&part) || numbered == "rocm"
        })
    }

    /// Whether the container asks for an accelerator: by a resource, a claim, or an annotation of a scheduler that
    /// shares devices.
    pub(super) fn asks(&self) -> bool {
        const ANNOTATIONS: [&str; 5] = [
            "gpu-fraction",
            "gpu-memory",
            "gpu-fraction-num-devices",
            "runai-gpu-fraction",
            "aliyun.com/gpu-mem",
        ];
        asks_for_accelerator(self.placed.container)
            || ANNOTATIONS
                .iter()
                .any(|name| self.pod.metadata.annotations.contains_key(*name))
    }

    /// The text of a file of the container, where a ConfigMap or the script itself holds it.
    pub(super) fn file(&self, path: &str) -> Result<&'c str, String> {
        let container = self.placed.container;
        self.invocation.file(self.pod, container, self.sources, path)
    }

    /// Namespace and name of the ConfigMap that holds a file of the container, and its key.
    pub(super) fn config_map_of(&self, path: &str) -> Option<(String, String)> {
        let (config_map, key, _) =
            files::config_map_of(self.pod, self.placed.container, self.sources, path).ok()?;
        Some((format!("{}/{}", namespace(self.pod), config_map.name), key))
    }

    /// The files below a folder of the container, where ConfigMaps or the script itself hold them.
    pub(super) fn listing(&self, folder: &str) -> Listing {
        let container = self.placed.container;
        self.invocation.listing(self.pod, container, self.sources, folder)
    }

    /// The field that holds the variable at this place of the environment.
    pub(super) fn path_of_variable(&self, index: usize) -> FieldPath {
        let variable = self.invocation.environment.variables().get(index);
        match variable.map(|variable| variable.origin) {
            Some(VariableOrigin::Env(index)) => self.path.field("env").index(index),
            Some(VariableOrigin::EnvFrom(index)) => self.path.field("envFrom").index(index),
            None => self.path.clone(),
        }
    }

    /// A variable of the container or of the script.
    pub(super) fn variable(&self, command: &Command<'_>, name: &str) -> Option<Result<String, String>> {
        if let Some((_, value)) = command.variables.iter().rev().find(|(known, _)| known == name) {
            return Some(
                value
                    .clone()
                    .ok_or_else(|| format!("{name} is known only when the script runs")),
            );
        }
        let Some(variable) = self.invocation.environment.get(name) else {
            // Every engine sees the devices that the device plugin names, and hardly anybody else names them.
            self.asks.set(self.asks.get() || name != "CUDA_VISIBLE_DEVICES");
            return None;
        };
        Some(
            variable
                .value
                .as_ref()
                .map(|value| value.clone().into_owned())
                .map_err(Clone::clone),
        )
    }
}

/// The value of an option.
pub(super) struct Flag<'w> {
    pub(super) text: &'w str,
    pub(super) known: bool,
    pub(super) word: &'w Word<'w>,
}

impl<'w> Flag<'w> {
    /// An option of an engine whose parser is not modelled: the value after the last of `names`, as the next word or
    /// after `=`.
    pub(super) fn last(words: &'w [Word<'_>], names: &[&str]) -> Option<Self> {
        let mut found = None;
        for (index, word) in words.iter().enumerate() {
            for name in names {
                let Some(rest) = word.text.strip_prefix(name) else {
                    continue;
                };
                if rest.is_empty() {
                    if let Some(value) = words.get(index + 1) {
                        found = Some(Self {
                            text: &value.text,
                            known: value.certainty == Certainty::Known,
                            word: value,
                        });
                    }
                } else if let Some(text) = rest.strip_prefix('=') {
                    let known = match word.certainty {
                        Certainty::Known => true,
                        Certainty::From(at) => at > word.text.len(),
                        Certainty::Many => false,
                    };
                    found = Some(Self { text, known, word });
                }
            }
        }
        found
    }
}

impl Reading {
    /// Nothing can be written where this was read.
    pub(super) fn without_edits(&mut self) {
        self.fraction_edit = None;
        self.length_edit = None;
        self.tensor_edit = None;
    }

    /// The value of an option as text, where it is known; otherwise it is noted as unresolved.
    pub(super) fn option(&mut self, words: &[Word<'_>], names: &[&str]) -> Option<String> {
        let flag = Flag::last(words, names)?;
        if flag.known {
            return Some(flag.text.to_owned());
        }
        self.unresolved.push(Unresolved {
            field: names
                .first()
                .map_or("", |name| name.trim_start_matches('-'))
                .to_owned(),
            reason: flag
                .word
                .reason
                .as_deref()
                .unwrap_or("its value is not known")
                .to_owned(),
            decides_memory: false,
        });
        None
    }

    /// The same as a number of at least one.
    pub(super) fn count(&mut self, words: &[Word<'_>], names: &[&str]) -> Option<u32> {
        self.option(words, names)?
            .trim()
            .parse()
            .ok()
            .filter(|count| *count > 0)
    }
}

/// Whether the container asks for anything that is a GPU or another accelerator.
pub(crate) fn asks_for_accelerator(container: &Container) -> bool {
    let resources = &container.resources;
    let is_accelerator = |name: &String| {
        device::is_slot_resource(name)
            || name.starts_with("nvidia.com/")
            || name.contains("gpu")
            || [
                "google.com/tpu",
                "habana.ai/gaudi",
                "aws.amazon.com/neuron",
                "rebellions.ai/",
            ]
            .iter()
            .any(|prefix| name.starts_with(prefix))
    };
    let some = |(name, quantity): (&String, &crate::workload::pod::QuantityText)| {
        is_accelerator(name) && quantity.0 != "0"
    };
    !resources.claims.is_empty() || resources.limits.iter().chain(&resources.requests).any(some)
}

/// A GPU resource whose name or quantity the API server refuses.
fn resource_is_refused(container: &Container) -> bool {
    let resources = &container.resources;
    resources
        .limits
        .iter()
        .chain(&resources.requests)
        .any(|(name, quantity)| {
            let text = quantity.0.trim();
            let fractional = text.contains('.') && text.parse::<u64>().is_err() || text.ends_with('m');
            name.contains('/')
                && name.contains("gpu")
                && (fractional
                    || !name
                        .bytes()
                        .all(|b| b.is_ascii_alphanumeric() || b"/.-_".contains(&b)))
        })
}
