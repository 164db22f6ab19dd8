//! What an engine loads: the model with everything that an estimate of its memory hangs on but the device.
//!
//! A model is looked for in this order: the pod's annotation, a `config.json` in a ConfigMap at the model's path, the
//! policy's `spec.models`, the catalogue. A model that is not found gives no estimate and no finding.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::Amount;
use crate::engine::{Engine, OptionEdit, Placed, Reading, Releases, Serving, Sources, Starts};
use crate::finding::Code;
use crate::footprint::{self, CacheType, Device, Length, Plan};
use crate::invocation::files;
use crate::model::config_json;
use crate::model::name::{Found, How, find_only, publisher};
use crate::model::{Confidence, Dtype, Format, Model};
use crate::policy::{OwnModels, Stated};
use crate::units::{Fraction, Mib};
use crate::workload::pod::Pod;

/// A device that is larger than any, where an estimate does not hang on it.
const NOMINAL: Mib = Mib::new(1 << 24);

mod annotation;
pub(super) mod heads;

pub(crate) use annotation::Annotations;

/// How a model was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// By the name on the command line.
    Name(How),
    /// By the name in the pod's annotation.
    Annotation(How),
    /// By a short entry of the policy, and the name there.
    Policy(String),
    /// By the `config.json` at this path, which a ConfigMap holds.
    ConfigMap(String),
}

impl Way {
    /// Whether it is this model and no other, and its shape is known: otherwise a finding warns and never refuses.
    #[must_use]
    pub const fn is_certain(&self) -> bool {
        match self {
            Self::Name(how) | Self::Annotation(how) => how.is_certain(),
            Self::ConfigMap(_) => true,
            // The weights are stated for one way of serving, and others are as good.
            Self::Policy(_) => false,
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(how) => how.fmt(f),
            Self::Annotation(how) => write!(f, "{how}, as the pod's annotation says"),
            Self::Policy(pattern) => write!(f, "by {pattern} in the policy's models"),
            Self::ConfigMap(path) => write!(f, "by {path} from a ConfigMap"),
        }
    }
}

/// A model that was found, with its format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// Its facts; of one that the policy states in short, what it takes at least.
    pub(crate) model: Arc<Model>,
    /// What a model that the policy states in short takes at most.
    most: Option<Arc<Model>>,
    /// Whether both cache and length are known, so that more than the weights can be compared.
    knows_cache: bool,
    /// What it is called in texts.
    pub(crate) name: String,
    /// How it was found.
    pub(crate) way: Way,
    format: Option<Format>,
    /// Longest context that its configuration declares, in tokens.
    positions: u64,
    publisher: Option<String>,
}

/// What an engine loads, ready for any device.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    known: Known,
    format: Format,
    draft: Option<Arc<Model>>,
    engine: Engine,
    releases: Releases,
    tensor: u32,
    pipeline: u32,
    data: u32,
    devices: u32,
    fraction: Option<Fraction>,
    fraction_is_default: bool,
    length: Length,
    dtype: Option<Dtype>,
    cache_type: CacheType,
    eager: bool,
    adapts: bool,
    serving: Serving,
    /// How another longest context would be written.
    pub length_edit: Option<OptionEdit>,
    /// How another tensor parallel size would be written.
    pub tensor_edit: Option<OptionEdit>,
}

impl Load {
    /// What is known of the model that a reading names; `None` where nothing is, where its engine is not modelled, or
    /// where an option that decides cannot be read.
    pub(super) fn read(
        reading: &Reading,
        pod: &Pod,
        placed: Placed<'_>,
        sources: &dyn Sources,
        models: &OwnModels,
        annotated: Option<&str>,
    ) -> Option<Self> {
        // A command line that is refused may have been read in part. One with an unusable fraction is refused for that,
        // and would load the model with another.
        let has_bad_fraction = || reading.findings.iter().any(|finding| finding.code == Code::Vg101);
        let starts = reading.starts != Starts::No || has_bad_fraction();
        if !footprint::is_modelled(reading.engine) || !starts {
            return None;
        }
        let known = known(reading, pod, placed, sources, models, annotated)?;
        let format = format(reading, &known)?;
        let draft = reading.serving.draft.as_ref().and_then(|draft| {
            let name = draft.model.as_deref()?;
            by_name(name, models, Way::Name).map(|draft| draft.model)
        });
        // The device is asked for later, so that one reading serves all kinds of nodes.
        let nowhere = Device::exactly(Mib::ZERO, footprint::Class::default());
        let Plan {
            engine,
            releases,
            tensor,
            pipeline,
            data,
            devices,
            fraction,
            fraction_is_default,
            length,
            dtype,
            cache_type,
            eager,
            adapts,
            serving,
            ..
        } = Plan::of(reading, &known.model, format, nowhere).ok()?;
        Some(Self {
            format,
            draft,
            engine,
            releases,
            tensor,
            pipeline,
            data,
            devices,
            fraction,
            fraction_is_default,
            length,
            dtype,
            cache_type,
            eager,
            adapts,
            serving,
            length_edit: reading.length_edit.clone(),
            tensor_edit: reading.tensor_edit.clone(),
            known,
        })
    }

    /// The facts of the model.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.known.model
    }

    /// What the model is called: its id, or the name in the policy.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.known.name
    }

    /// How the model was found.
    #[must_use]
    pub const fn way(&self) -> &Way {
        &self.known.way
    }

    /// Format of the weights.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// How sure the facts are.
    #[must_use]
    pub fn confidence(&self) -> Confidence {
        self.known.model.confidence
    }

    /// Tensor parallel size.
    #[must_use]
    pub const fn tensor(&self) -> u32 {
        self.tensor
    }

    /// Devices that the engine's processes use.
    #[must_use]
    pub const fn devices(&self) -> u32 {
        self.devices
    }

    /// Bytes of the cache of each device, where they are stated; zero where the engine takes what is left.
    #[must_use]
    pub const fn stated_cache(&self) -> u64 {
        match self.serving.kv_cache_bytes {
            Some(bytes) => bytes,
            None => 0,
        }
    }

    /// Whether the engine leaves layers in host memory by itself where not all fit.
    #[must_use]
    pub const fn adapts(&self) -> bool {
        self.adapts
    }

    /// The engine.
    #[must_use]
    pub const fn engine(&self) -> Engine {
        self.engine
    }

    /// Whether the cache and the longest context are known, so that more than the weights can be compared.
    #[must_use]
    pub fn knows_cache(&self) -> bool {
        self.known.knows_cache && (self.known.most.is_none() || self.knows_length())
    }

    fn knows_length(&self) -> bool {
        matches!(self.length, Length::Tokens(_) | Length::Auto) || self.known.positions > 1
    }

    /// What an engine that states everything but has no bound of its own takes of each device at most, the process itself
    /// included. `None` where the model or its facts are not certain.
    pub(super) fn estimated(&self) -> Option<Amount> {
        if !self.way().is_certain() || self.confidence() == Confidence::Unverified {
            return None;
        }
        // Nothing of it hangs on the size of the device.
        let most = |before_ampere: bool| {
            let class = footprint::Class {
                before_ampere,
                ..footprint::Class::default()
            };
            let nominal = Device::exactly(NOMINAL, class);
            let estimate = footprint::estimate(&self.plan(&Amount::Absolute(NOMINAL), nominal)).ok()?;
            let bytes = [
                estimate.used().upper(),
                estimate.need.upper(),
                estimate.outside.upper(),
            ];
            Some(Mib::from_bytes_up(bytes.into_iter().fold(0, u64::saturating_add)))
        };
        Some(Amount::Estimated {
            usual: most(false)?,
            before_ampere: most(true)?,
        })
    }

    /// What is to be estimated on a device, by the least that is known of the model.
    #[must_use]
    pub fn plan(&self, amount: &Amount, device: Device) -> Plan<'_> {
        self.plan_of(&self.known.model, amount, device)
    }

    /// The same by the most, where that is another.
    #[must_use]
    pub fn widest_plan(&self, amount: &Amount, device: Device) -> Option<Plan<'_>> {
        let most = self.known.most.as_deref()?;
        Some(self.plan_of(most, amount, device))
    }

    fn plan_of<'a>(&'a self, model: &'a Model, amount: &Amount, device: Device) -> Plan<'a> {
        Plan {
            model,
            format: self.format,
            publisher: self.known.publisher.as_deref().map(Cow::Borrowed),
            engine: self.engine,
            releases: self.releases,
            device,
            tensor: self.tensor,
            pipeline: self.pipeline,
            data: self.data,
            devices: self.devices,
            fraction: match amount {
                Amount::OfTotal {
                    fraction,
                    by_default: false,
                } => Some(fraction.clone()),
                // The engine's own default, in the engine's own sense.
                _ => self.fraction.clone(),
            },
            fraction_is_default: match amount {
                Amount::OfTotal { by_default, .. } => *by_default,
                _ => self.fraction_is_default,
            },
            length: self.length,
            positions: self.known.positions,
            dtype: self.dtype,
            cache_type: self.cache_type,
            eager: self.eager,
            adapts: self.adapts,
            serving: self.serving.clone(),
            draft: self.draft.as_deref(),
        }
    }

    /// The same with another longest context, in tokens.
    #[must_use]
    pub fn with_length(&self, tokens: u64) -> Self {
        Self {
            length: Length::Tokens(tokens),
            ..self.clone()
        }
    }

    /// The same over another number of tensor-parallel ranks, which multiplies the devices.
    #[must_use]
    pub fn with_tensor(&self, tensor: u32) -> Self {
        let groups = self.devices.checked_div(self.tensor).unwrap_or(1).max(1);
        Self {
            tensor,
            devices: groups.saturating_mul(tensor),
            ..self.clone()
        }
    }
}

/// The model that a reading loads.
pub(crate) fn known(
    reading: &Reading,
    pod: &Pod,
    placed: Placed<'_>,
    sources: &dyn Sources,
    models: &OwnModels,
    annotated: Option<&str>,
) -> Option<Known> {
    if let Some(name) = annotated
        && let Some(known) = by_name(name, models, Way::Annotation)
    {
        return Some(known);
    }
    if reading.unresolved.iter().any(|gap| gap.field == "model") {
        return None;
    }
    let name = reading.model.as_deref()?;
    from_files(name, pod, placed, sources).or_else(|| by_name(name, models, Way::Name))
}

/// The `config.json` of a model whose folder a ConfigMap is mounted at.
fn from_files(name: &str, pod: &Pod, placed: Placed<'_>, sources: &dyn Sources) -> Option<Known> {
    if !name.starts_with('/') {
        return None;
    }
    let path = format!("{}/config.json", name.trim_end_matches('/'));
    let text = files::read(pod, placed.container, sources, &path).ok()?;
    let id = name.trim_end_matches('/').rsplit('/').next().unwrap_or(name);
    let model = config_json::from_config(text, id).ok()?;
    Some(Known {
        format: model.released,
        name: model.id.clone(),
        positions: model.max_position_embeddings,
        model: Arc::new(model),
        most: None,
        knows_cache: true,
        way: Way::ConfigMap(path),
        publisher: None,
    })
}

/// A model of this name: of the policy, or of the catalogue.
pub(crate) fn by_name(name: &str, models: &OwnModels, way: impl FnOnce(How) -> Way) -> Option<Known> {
    if let Some((stated, pattern)) = models.stated(name) {
        return Some(of_policy(stated, pattern));
    }
    let catalogue = models.catalogue();
    let Found::Known {
        model,
        format,
        positions,
        how,
    } = find_only(catalogue, name)
    else {
        return None;
    };
    Some(Known {
        name: model.id.clone(),
        model: catalogue.shared(&model.id)?.clone(),
        positions,
        most: None,
        knows_cache: true,
        format,
        publisher: publisher(name).map(str::to_owned),
        way: way(how),
    })
}

fn of_policy(stated: &Stated, pattern: &str) -> Known {
    Known {
        model: Arc::clone(&stated.least),
        most: Some(Arc::clone(&stated.most)),
        knows_cache: stated.knows_cache,
        name: pattern.to_owned(),
        positions: stated.least.max_position_embeddings,
        way: Way::Policy(pattern.to_owned()),
        // The weights are stated as they are loaded, whatever their format.
        format: Some(Format::Float16),
        publisher: None,
    }
}

/// The format of the weights; `None` where it cannot be told. What the policy states in short is stated as it is loaded.
fn format(reading: &Reading, known: &Known) -> Option<Format> {
    if known.most.is_some() {
        return known.format;
    }
    let settled = footprint::settled(reading, known.format, None).ok()?;
    Some(settled.format)
}
