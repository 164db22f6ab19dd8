//! What a pod will take of devices, container by container, before any node is chosen.
//!
//! A [`Demand`] says how much in the engine's own terms (a fraction of whatever device it gets). [`weigh`] turns it
//! into exact shares for one kind of device.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::engine::{
    self, Engine, Meaning, MemoryKind, MemorySource, OptionEdit, Placed, Reading, Role, Sources, Version,
};
use crate::finding::{Code, FieldPath, Finding};
use crate::policy::PolicySet;
use crate::units::{Fraction, Mib};
use crate::workload::pod::Pod;
use crate::workload::{Malformed, slots};

use access::Access;
use load::Annotations;
pub use load::Load;

pub mod access;
pub mod load;
pub(crate) mod resources;
mod standing;
pub mod weigh;

pub use standing::{Hold, Standing};

/// How much an engine takes of each of its devices.
#[derive(Clone, Debug, PartialEq)]
pub enum Amount {
    /// A fraction of the device's total, or something that is at most that.
    OfTotal {
        /// The fraction.
        fraction: Fraction,
        /// Whether nobody chose it: the engine's own default, meant for a whole GPU.
        by_default: bool,
    },
    /// A stated number of MiB.
    Absolute(Mib),
    /// What a model and options that state everything come to at most, the process itself included.
    Estimated {
        /// On devices from Ampere on.
        usual: Mib,
        /// On older ones, whose attention needs more.
        before_ampere: Mib,
    },
    /// It cannot be told; the code says why (VG101, VG102 or VG106).
    Unknown {
        /// The code under which it is reported.
        code: Code,
        /// What cannot be told, in words.
        why: String,
    },
    /// Whatever it can get.
    Uncapped {
        /// Why nothing bounds it, in words.
        why: String,
    },
}

/// One engine in a container.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The engine.
    pub engine: Engine,
    /// Its release.
    pub version: Option<Version>,
    /// What it takes.
    pub amount: Amount,
    /// Whose memory a fraction of it means.
    pub meaning: Meaning,
    /// Whether CUDA graphs are off.
    pub eager: bool,
    /// Tensor parallel size.
    pub tensor: u32,
    /// Devices that it uses in this container.
    pub ranks: u32,
    /// The field that holds the amount.
    pub path: FieldPath,
    /// How another fraction would be written.
    pub edit: Option<OptionEdit>,
    /// What it loads, where that is known and its engine is modelled. The ledger keeps no loads: whether a model fits is
    /// asked of those who come.
    pub load: Option<Arc<Load>>,
}

/// The slots that one container asks of one resource, and what its engines do with them.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Name of the container.
    pub container: String,
    /// Its role.
    pub role: Role,
    /// Its path below the pod.
    pub path: FieldPath,
    /// Its JSON pointer below the pod.
    pub pointer: String,
    /// The extended resource.
    pub resource: Arc<str>,
    /// Slots.
    pub slots: u32,
    /// The field that asks for them.
    pub slots_path: FieldPath,
    /// The engines; empty where the container is known to use no device memory.
    pub parts: Vec<Part>,
}

impl Claim {
    /// Devices that the container's engines need.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.parts.iter().map(|part| part.ranks).max().unwrap_or(0)
    }
}

/// What a pod will take.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Demand {
    /// One entry per container and resource, init containers first.
    pub claims: Vec<Claim>,
    /// Containers that ask for no GPU and reach some.
    pub access: Vec<Access>,
    /// What to tell about the invocations by themselves.
    pub findings: Vec<Finding>,
}

impl Demand {
    /// Reads the demand of a pod, and what its engines load. A container without GPU slots takes no part.
    pub fn read(
        pod: &Pod,
        namespace_labels: &BTreeMap<String, String>,
        policies: &PolicySet,
        sources: &dyn Sources,
    ) -> Result<Self, Malformed> {
        Self::read_with(pod, namespace_labels, policies, sources, true)
    }

    /// Reads what a pod takes of devices, without what its engines load.
    pub fn read_amounts(
        pod: &Pod,
        namespace_labels: &BTreeMap<String, String>,
        policies: &PolicySet,
        sources: &dyn Sources,
    ) -> Result<Self, Malformed> {
        Self::read_with(pod, namespace_labels, policies, sources, false)
    }

    fn read_with(
        pod: &Pod,
        namespace_labels: &BTreeMap<String, String>,
        policies: &PolicySet,
        sources: &dyn Sources,
        loads: bool,
    ) -> Result<Self, Malformed> {
        let mut demand = Self::default();
        let annotations = Annotations::of(pod);
        let mut engines = Vec::new();
        let unasked = access::Asker {
            pod,
            namespace_labels,
            policies,
            sources,
            tells: loads,
            devices: access::DeviceVolumes::of(pod),
        };
        for placed in engine::containers(pod) {
            if loads {
                demand.findings.extend(resources::findings(placed));
            }
            // Most containers name no such resource at all.
            if !slots::names_any(placed.container) {
                demand.access.extend(unasked.read(placed));
                continue;
            }
            let asked = slots::slots(placed.container, &placed.path())?;
            if asked.is_empty() {
                demand.access.extend(unasked.read(placed));
                continue;
            }
            let rules = policies.engine_rules(namespace_labels, &pod.metadata.labels);
            let readings = engine::read(pod, placed, sources, rules);
            for reading in &readings {
                demand.findings.extend(reading.findings.iter().cloned());
            }
            let annotated = annotations
                .model(pod, &placed.container.name)
                .filter(|_| readings.len() == 1);
            let models = policies.models(namespace_labels, &pod.metadata.labels);
            let parts: Vec<Part> = readings
                .iter()
                .filter_map(|reading| {
                    // An amount that only the model tells is needed in any case.
                    let is_estimated = reading.memory.kind == MemoryKind::Estimated;
                    let load = (loads || is_estimated)
                        .then(|| Load::read(reading, pod, placed, sources, models, annotated))
                        .flatten();
                    part(reading, &placed, load, loads)
                })
                .collect();
            engines.push((placed.container.name.as_str(), parts.len()));
            let before = demand.claims.len();
            for slot in asked {
                demand.claims.push(Claim {
                    container: placed.container.name.clone(),
                    role: placed.role,
                    path: placed.path(),
                    pointer: placed.pointer(),
                    resource: Arc::from(slot.resource),
                    slots: slot.count,
                    slots_path: slot.path,
                    parts: parts.clone(),
                });
            }
            // Once for the container, whatever it asks for.
            if let Some(claim) = demand.claims.get(before) {
                let undivided = load::heads::findings(claim);
                demand.findings.extend(undivided);
            }
        }
        if loads && demand.asks() {
            let models = policies.models(namespace_labels, &pod.metadata.labels);
            demand
                .findings
                .extend(annotations.findings(pod, &engines, models));
        }
        Ok(demand)
    }

    /// The same without what its engines load, as the ledger keeps it.
    #[must_use]
    pub fn without_loads(mut self: Arc<Self>) -> Arc<Self> {
        let parts = || self.claims.iter().flat_map(|claim| &claim.parts);
        if parts().any(|part| part.load.is_some()) {
            let amounts = Arc::make_mut(&mut self);
            for part in amounts.claims.iter_mut().flat_map(|claim| &mut claim.parts) {
                part.load = None;
            }
        }
        self
    }

    /// Whether the pod asks for any slot.
    #[must_use]
    pub fn asks(&self) -> bool {
        !self.claims.is_empty()
    }

    /// Whether the pod takes slots, or memory of devices for which it does not ask.
    #[must_use]
    pub fn takes_part(&self) -> bool {
        self.asks() || self.access.iter().any(Access::takes)
    }

    /// Whether all that it takes of devices is a guess: it asks for none, and no engine of known amount is known to see one.
    #[must_use]
    pub fn is_guessed(&self) -> bool {
        !self.asks() && self.access.iter().all(Access::is_guess)
    }

    /// The resources that the pod asks for, each once.
    pub fn resources(&self) -> impl Iterator<Item = &str> {
        self.claims.iter().enumerate().filter_map(|(index, claim)| {
            let first = self
                .claims
                .iter()
                .position(|other| other.resource == claim.resource);
            (first == Some(index)).then_some(&*claim.resource)
        })
    }
}

fn part(reading: &Reading, placed: &Placed<'_>, load: Option<Load>, keeps_load: bool) -> Option<Part> {
    let estimated = load
        .as_ref()
        .filter(|_| reading.memory.kind == MemoryKind::Estimated);
    let amount = match estimated.and_then(Load::estimated) {
        Some(estimated) => estimated,
        None => amount(reading)?,
    };
    let path = if reading.memory.path.as_str().is_empty() {
        placed.path()
    } else {
        reading.memory.path.clone()
    };
    Some(Part {
        engine: reading.engine,
        version: reading.version,
        amount,
        meaning: reading.meaning,
        eager: reading.eager,
        tensor: reading.parallelism.tensor,
        ranks: reading.parallelism.devices.max(1),
        path,
        edit: reading.fraction_edit.clone(),
        load: load.filter(|_| keeps_load).map(Arc::new),
    })
}

/// The amount behind a reading; `None` where the container is known to take no device memory.
fn amount(reading: &Reading) -> Option<Amount> {
    let memory = &reading.memory;
    let unresolved = || reading.unresolved.iter().find(|gap| gap.decides_memory);
    let unknown = |reading: &Reading| match (reading.engine, unresolved()) {
        (Engine::Unknown, Some(gap)) => Amount::Unknown {
            code: Code::Vg106,
            why: format!(
                "no known inference engine can be read from it ({}: {})",
                gap.field, gap.reason
            ),
        },
        (Engine::Unknown, None) => Amount::Unknown {
            code: Code::Vg106,
            why: "what runs here is not a known inference engine".to_owned(),
        },
        (_, Some(gap)) => Amount::Unknown {
            code: Code::Vg102,
            why: format!("{} cannot be resolved: {}", gap.field, gap.reason),
        },
        (engine, None) => Amount::Unknown {
            code: Code::Vg106,
            why: format!("the memory that {engine} takes cannot be read from its invocation"),
        },
    };
    Some(match memory.kind {
        MemoryKind::OfTotal | MemoryKind::OfFree | MemoryKind::UntilLeft => match &memory.fraction {
            Some(fraction) => Amount::OfTotal {
                fraction: fraction.clone(),
                by_default: matches!(memory.source, MemorySource::Default | MemorySource::EngineAuto),
            },
            None if memory.source == MemorySource::EngineAuto => Amount::OfTotal {
                fraction: Fraction::one(),
                by_default: true,
            },
            None if unresolved().is_some() => unknown(reading),
            None => Amount::Unknown {
                code: Code::Vg101,
                why: format!(
                    "its fraction {:?} is not one",
                    memory.value.as_deref().unwrap_or("")
                ),
            },
        },
        MemoryKind::Absolute => match memory.absolute {
            Some(mib) => Amount::Absolute(mib),
            None => unknown(reading),
        },
        MemoryKind::OfFreeAfterWeights => Amount::Uncapped {
            why: format!(
                "{} takes a fraction of what is free after its weights are loaded",
                reading.engine
            ),
        },
        MemoryKind::Estimated => Amount::Uncapped {
            why: format!("{} has no option that bounds its memory", reading.engine),
        },
        MemoryKind::Uncapped => Amount::Uncapped {
            why: format!("{} takes whatever memory it can get", reading.engine),
        },
        MemoryKind::Unknown => unknown(reading),
        MemoryKind::None => return None,
    })
}
