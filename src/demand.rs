//! What a pod will take of devices, container by container, before any node is chosen.
//!
//! A [`Demand`] says how much in the engine's own terms (a fraction of whatever device it gets). [`weigh`] turns it
//! into exact shares for one kind of device.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::counted::Carried;
use crate::device::{Pool, Sharing};
use crate::dra::resolve::Source;
use crate::engine::{
    self, Engine, Meaning, MemoryKind, MemorySource, OptionEdit, Placed, Reading, Role, Sources, Starts,
    Version,
};
use crate::finding::{Code, FieldPath, Finding, short};
use crate::policy::{PolicySet, expression};
use crate::units::{Fraction, Mib, Share};
use crate::workload::pod::Pod;
use crate::workload::{Malformed, slots};

use access::Access;
pub use client::Client;
use client::Record;
use declaration::Declarations;
use load::Annotations;
pub use load::Load;
use other_systems::Declared;

pub mod access;
mod agents;
pub mod client;
pub(crate) mod declaration;
pub(crate) mod identity;
pub mod load;
pub(crate) mod other_systems;
mod plugin_daemon;
pub(crate) mod resources;
pub mod sieve;
mod standing;
pub mod weigh;

pub use standing::{Hold, Seen, Standing};

/// Patterns of the last part of an image's repository by which an agent is known that is never held up (VG210).
pub(crate) fn agent_images() -> impl Iterator<Item = &'static str> {
    agents::images()
}

/// Claims of one container that are named in words.
const MOST_NAMED: usize = 2;

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
    /// Processes that it has on each of them.
    pub processes: u32,
    /// Devices that these need where they do not stand together as clients of MPS; 0 where they need no others.
    pub apart: u32,
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
    /// How its processes stand on a device that others use too.
    pub client: Client,
    /// The engines; empty where the container is known to use no device memory.
    pub parts: Vec<Part>,
}

impl Claim {
    /// Devices that the container's engines need.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.parts.iter().map(|part| part.ranks).max().unwrap_or(0)
    }

    /// Devices that the container's engines need of a pool.
    #[must_use]
    pub fn ranks_on(&self, pool: &Pool) -> u32 {
        match pool.sharing {
            Sharing::Mps(_) => self.ranks(),
            Sharing::Exclusive | Sharing::TimeSliced(_) => self.ranks_apart(),
        }
    }

    /// The same where no two processes stand on one device.
    #[must_use]
    pub fn ranks_apart(&self) -> u32 {
        let apart = self.parts.iter().map(|part| part.apart).max();
        self.ranks().max(apart.unwrap_or(0))
    }

    /// Processes that the container has on each of its devices.
    #[must_use]
    pub fn processes(&self) -> u32 {
        let each = self.parts.iter().map(|part| part.processes);
        each.fold(0, u32::saturating_add)
    }
}

/// The devices that one container gets by dynamic resource claims, and what its engines do with them.
#[derive(Clone, Debug, PartialEq)]
pub struct Use {
    /// The container. Its resource names the claims in words, and its slots are not known before they are resolved.
    pub claim: Claim,
    /// The claims that it uses.
    pub(crate) refs: Vec<ClaimRef>,
    /// What to tell about its invocation, where the claims are for NVIDIA's devices.
    pub findings: Vec<Finding>,
}

/// The use of one claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimRef {
    /// The entry of the pod's `resourceClaims`.
    pub(crate) entry: Arc<str>,
    /// What it means.
    pub(crate) source: Source,
    /// The request that is used; all of them where none is named.
    pub(crate) request: Option<Arc<str>>,
}

/// What a pod will take.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Demand {
    /// One entry per container and resource, init containers first.
    pub claims: Vec<Claim>,
    /// Containers that ask for no GPU and reach some.
    pub access: Vec<Access>,
    /// One entry for each container that uses dynamic resource claims.
    pub uses: Vec<Use>,
    /// What its containers carry of the resource by which kube-scheduler counts memory, in the order of the pod.
    pub carried: Vec<Carried>,
    /// What to tell about the invocations by themselves.
    pub findings: Vec<Finding>,
    /// Whether every container that asks for a slot is a known agent (VG210): such a pod is counted and never held up.
    pub only_agents: bool,
}

impl Demand {
    /// Reads the demand of a pod, and what its engines load. A container without GPU slots takes no part.
    pub fn read(
        pod: &Pod,
        namespace_labels: &BTreeMap<String, String>,
        policies: &PolicySet,
        sources: &dyn Sources,
    ) -> Result<Self, Malformed> {
        let mut demand = Self::read_with(pod, namespace_labels, policies, sources, true)?;
        demand.tell_failed_expression(pod, namespace_labels, policies);
        Ok(demand)
    }

    /// Reads what a pod takes of devices, without what its engines load; of a bound pod also what other systems that the
    /// policy trusts gave it without a slot.
    pub fn read_amounts(
        pod: &Pod,
        namespace_labels: &BTreeMap<String, String>,
        policies: &PolicySet,
        sources: &dyn Sources,
    ) -> Result<Self, Malformed> {
        let mut demand = Self::read_with(pod, namespace_labels, policies, sources, false)?;
        let trusted = other_systems::trusted(pod, namespace_labels, policies);
        demand.claims.extend(other_systems::beside_slots(pod, trusted));
        Ok(demand)
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
        let declarations = Declarations::of(pod, namespace_labels, policies);
        let record = Record::of(pod);
        let trusted = other_systems::trusted(pod, namespace_labels, policies);
        let given = other_systems::given(pod, trusted);
        let mut told_of_others = std::collections::BTreeSet::new();
        let mut engines = Vec::new();
        let unasked = access::Asker {
            pod,
            namespace_labels,
            policies,
            sources,
            tells: loads,
            devices: access::DeviceVolumes::of(pod),
        };
        let bounded = |placed| other_systems::bounds(pod, placed, trusted, &given);
        let without_asking = |placed| unasked.read(placed).filter(|_| !bounded(placed));
        for placed in engine::containers(pod) {
            demand.carried.extend(Carried::of(placed));
            if loads {
                demand.findings.extend(resources::findings(placed));
                demand.findings.extend(plugin_daemon::findings(placed));
            }
            // Most containers name no such resource at all. What one gets by a claim it has asked for.
            let refs = claim_refs(pod, placed);
            let names_any = slots::names_any(placed.container);
            let asked = names_any.then(|| slots::slots(placed.container, &placed.path()));
            let asked = asked.transpose()?.unwrap_or_default();
            if asked.is_empty() && refs.is_empty() {
                demand.access.extend(without_asking(placed));
                continue;
            }
            let rules = policies.engine_rules(namespace_labels, pod);
            let readings = engine::read(pod, placed, sources, rules);
            let told = readings.iter().flat_map(|reading| &reading.findings).cloned();
            let mut of_use = Vec::new();
            let findings = if asked.is_empty() {
                &mut of_use
            } else {
                &mut demand.findings
            };
            findings.extend(told);
            let agent = agents::of(placed, &readings);
            let annotated = annotations
                .model(pod, &placed.container.name)
                .filter(|_| readings.len() == 1);
            let models = policies.models(namespace_labels, pod);
            let load = |reading: &Reading| Load::read(reading, pod, placed, sources, models, annotated);
            let mut parts = parts_of(&readings, placed, loads, &load);
            if let Some(agent) = agent {
                agent.count(&mut parts);
                let slot = asked.first().filter(|_| loads);
                demand
                    .findings
                    .extend(slot.map(|slot| agent.finding(placed, slot)));
            }
            let by_slot = (!asked.is_empty()).then(|| Declared::of(pod, placed, trusted, &given));
            let mut declared = by_slot.unwrap_or_default();
            declared.preceded_by(declarations.of_container(&placed.container.name));
            declared.bound(&mut parts);
            if loads {
                // What stands at the pod is told once.
                let new = |finding: &Finding| told_of_others.insert(finding.path.to_string());
                let told = declared.findings.into_iter().filter(new);
                if asked.is_empty() {
                    of_use.extend(told);
                } else {
                    demand.findings.extend(told);
                }
            }
            demand.only_agents = agent.is_some() && (demand.only_agents || demand.claims.is_empty());
            engines.push((placed.container.name.as_str(), parts.len()));
            let client = Client::of(pod, placed, &readings, &record);
            if !refs.is_empty() {
                let used = used(placed, refs, client.clone(), parts.clone());
                if asked.is_empty() {
                    of_use.extend(load::heads::findings(&used.claim));
                }
                demand.uses.push(Use {
                    findings: of_use,
                    ..used
                });
            }
            let before = demand.claims.len();
            demand.claims.extend(claims_of(placed, asked, &client, &parts));
            // Once for the container, whatever it asks for.
            if let Some(claim) = demand.claims.get(before) {
                let undivided = load::heads::findings(claim);
                demand.findings.extend(undivided);
            }
        }
        if loads {
            demand.findings.extend(declarations.without_device(pod));
        }
        if loads && demand.asks() {
            let models = policies.models(namespace_labels, pod);
            demand
                .findings
                .extend(annotations.findings(pod, &engines, models));
        }
        Ok(demand)
    }

    /// Tells that the pod's policy applies only because its expression fails, where the policy matters at all.
    fn tell_failed_expression(
        &mut self,
        pod: &Pod,
        namespace_labels: &BTreeMap<String, String>,
        policies: &PolicySet,
    ) {
        if self.asks() || !self.access.is_empty() || !self.uses.is_empty() {
            let (policy, failed) = policies.for_pod_told(namespace_labels, pod, None);
            self.findings
                .extend(failed.map(|why| expression::failure(&policy, &why)));
        }
    }

    /// The same without what its engines load, as the ledger keeps it.
    #[must_use]
    pub fn without_loads(mut self: Arc<Self>) -> Arc<Self> {
        let claims = || self.claims.iter().chain(self.uses.iter().map(|used| &used.claim));
        let parts = || claims().flat_map(|claim| &claim.parts);
        if parts().any(|part| part.load.is_some()) {
            let Self { claims, uses, .. } = Arc::make_mut(&mut self);
            let claims = claims
                .iter_mut()
                .chain(uses.iter_mut().map(|used| &mut used.claim));
            for part in claims.flat_map(|claim| &mut claim.parts) {
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

    /// Whether it may get devices at all, by slots or by claims.
    #[must_use]
    pub fn may_get_devices(&self) -> bool {
        !self.claims.is_empty() || !self.uses.is_empty()
    }

    /// What containers carry, by their pointer, where one claim stands for all of it.
    pub(crate) fn carried_by_claim(&self) -> BTreeMap<&str, Share> {
        let mut claims: BTreeMap<&str, u32> = BTreeMap::new();
        if self.carried.is_empty() {
            return BTreeMap::new();
        }
        for claim in self.claims.iter().filter(|claim| claim.slots > 0) {
            *claims.entry(&claim.pointer).or_default() += 1;
        }
        let single = self
            .carried
            .iter()
            .filter(|one| claims.get(one.pointer.as_str()) == Some(&1));
        single
            .filter_map(|one| Some((one.pointer.as_str(), one.share?)))
            .collect()
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

/// The claims that a container uses. A name that the pod lacks is refused by the API server.
fn claim_refs(pod: &Pod, placed: Placed<'_>) -> Vec<ClaimRef> {
    let uses = placed.container.resources.claims.iter();
    let refs = uses.filter_map(|used| {
        let entries = &pod.spec.resource_claims;
        let entry = entries.iter().find(|entry| entry.name == used.name)?;
        let source = match (&entry.resource_claim_name, &entry.resource_claim_template_name) {
            (Some(name), _) => Source::Named(Arc::from(name.as_str())),
            (None, Some(name)) => Source::Template(Arc::from(name.as_str())),
            (None, None) => Source::Nothing,
        };
        Some(ClaimRef {
            entry: Arc::from(used.name.as_str()),
            source,
            request: used
                .request
                .as_deref()
                .filter(|name| !name.is_empty())
                .map(Arc::from),
        })
    });
    refs.collect()
}

/// The claims of a container, one for each resource of which it asks slots.
fn claims_of(
    placed: Placed<'_>,
    asked: Vec<slots::SlotRequest>,
    client: &Client,
    parts: &[Part],
) -> impl Iterator<Item = Claim> {
    asked.into_iter().map(move |slot| Claim {
        container: placed.container.name.clone(),
        role: placed.role,
        path: placed.path(),
        pointer: placed.pointer(),
        resource: Arc::from(slot.resource),
        slots: slot.count,
        slots_path: slot.path,
        client: client.clone(),
        parts: parts.to_vec(),
    })
}

fn used(placed: Placed<'_>, refs: Vec<ClaimRef>, client: Client, parts: Vec<Part>) -> Use {
    let names: std::collections::BTreeSet<String> = refs.iter().map(|used| short(&used.entry)).collect();
    let names: Vec<String> = names.into_iter().take(MOST_NAMED).collect();
    let word = if names.len() == 1 { "claim" } else { "claims" };
    Use {
        claim: Claim {
            container: placed.container.name.clone(),
            role: placed.role,
            path: placed.path(),
            pointer: placed.pointer(),
            resource: Arc::from(format!("{word} {}", names.join(" and "))),
            slots: 0,
            slots_path: placed.path().field("resources").field("claims").index(0),
            client,
            parts,
        },
        refs,
        findings: Vec::new(),
    }
}

/// What each engine of a container takes of its devices.
fn parts_of(
    readings: &[Reading],
    placed: Placed<'_>,
    loads: bool,
    load: &dyn Fn(&Reading) -> Option<Load>,
) -> Vec<Part> {
    let parts = readings.iter().filter_map(|reading| {
        // An amount that only the model tells is needed in any case.
        let is_estimated = reading.memory.kind == MemoryKind::Estimated;
        let load = (loads || is_estimated).then(|| load(reading)).flatten();
        part(reading, &placed, load, loads)
    });
    parts.collect()
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
        processes: reading
            .processes
            .map_or(1, |all| all.div_ceil(reading.parallelism.devices.max(1)).max(1)),
        apart: reading.apart,
        path,
        edit: reading.fraction_edit.clone().map(|edit| OptionEdit {
            sure: edit.sure && reading.starts != Starts::No,
            ..edit
        }),
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
