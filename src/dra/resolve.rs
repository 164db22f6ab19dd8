//! From a pod's claim to the kinds of devices that it may be given.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::devices::{DRIVER, Kind};
use super::objects::{AllocationResult, ClaimSpec, Config, DeviceRequest, ResourceClaim, Selector, Wanted};
use super::selector::{self, Answer};
use super::{Dra, Key, Limit, key};
use crate::quantity::Quantity;
use crate::units::Mib;
use crate::workload::pod::QuantityText;

/// Alternatives of one request that are followed; the API server allows 8.
const MOST_ALTERNATIVES: usize = 8;
/// Requests of one claim; the API server allows 32.
const MOST_REQUESTS: usize = 32;

/// Which claim a pod's entry means.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// A claim that others may use as well.
    Named(Arc<str>),
    /// One that is made for the pod alone.
    Template(Arc<str>),
    /// Neither is written.
    Nothing,
}

/// What one request of a claim may be given.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) name: Arc<str>,
    pub(crate) alternatives: Vec<Choice>,
}

/// One way to satisfy a request.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// Devices; `None` for all that match.
    pub(crate) count: Option<u32>,
    /// The kinds that it may be.
    pub(crate) kinds: Vec<Arc<Kind>>,
    /// Nodes of the devices, where they are allocated.
    pub(crate) allocated: Vec<(Arc<str>, Arc<str>)>,
    /// How much of a device the claim consumes, where it says so or was given so much.
    pub(crate) memory: Option<Mib>,
    /// The limits that MPS is told.
    pub(crate) mps: Mps,
    /// Whether a selector could not be evaluated, so that some kinds may not be meant.
    pub(crate) guessed: bool,
    /// Whether it is access for monitoring, which consumes nothing of what it is allocated. Others have those devices.
    pub(crate) admin: bool,
}

/// What a claim says of the devices that it is given: for those who use it, on one of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Devices; `None` for one for each rank.
    pub(crate) count: Option<u32>,
    pub(crate) mps: Mps,
}

/// Limits of each process on the devices of a request under MPS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mps {
    /// The smallest that there is.
    pub(crate) least: Option<Mib>,
    /// The largest; `None` where a device has none.
    pub(crate) most: Option<Mib>,
}

impl Choice {
    pub(crate) const fn terms(&self) -> Terms {
        Terms {
            count: self.count,
            mps: self.mps,
        }
    }

    /// The limit that a device of a kind has under this choice: the smaller of what there are.
    pub(crate) fn limit(&self, kind: &Kind) -> Option<Limit> {
        let capacity = kind
            .multiple
            .then(|| self.memory.or(kind.default_memory))
            .flatten();
        match (capacity, self.mps.least) {
            (Some(capacity), Some(mps)) if mps < capacity => Some(Limit::Mps(mps)),
            (Some(capacity), _) => Some(Limit::Capacity(capacity)),
            (None, mps) => mps.map(Limit::Mps),
        }
    }
}

/// What is known of a claim.
#[derive(Clone, Debug)]
pub(crate) enum Resolved {
    /// It asks for no device of NVIDIA's.
    Others,
    /// The claim or template that it is does not exist (yet): why.
    Missing(String),
    /// NVIDIA's devices, request by request.
    Requests(Vec<Request>),
}

/// Whether a selector takes a kind.
pub(super) fn answer(selector: &Selector, kind: &Kind) -> Answer {
    match &selector.cel {
        Some(cel) => selector::selects(&cel.expression, kind),
        // A selector of a kind that is not known here.
        None => Answer::Unknown,
    }
}

impl Dra {
    /// The requests of a claim as far as they are for NVIDIA's devices; `only` names the request that a container uses.
    pub(crate) fn resolve(&self, namespace: &str, source: &Source, only: Option<&str>) -> Resolved {
        let (spec, claim) = match source {
            Source::Nothing => return Resolved::Others,
            Source::Named(name) => match self.claims.get(&key(namespace, name)) {
                Some(claim) => (&claim.spec, Some(claim)),
                None => return Resolved::Missing(format!("ResourceClaim {name} is not known")),
            },
            Source::Template(name) => match self.templates.get(&key(namespace, name)) {
                Some(spec) => (spec, None),
                None => return Resolved::Missing(format!("ResourceClaimTemplate {name} is not known")),
            },
        };
        let requests: Vec<Request> = spec
            .devices
            .requests
            .iter()
            .take(MOST_REQUESTS)
            .filter(|request| only.is_none_or(|only| names(only, &request.name)))
            .filter_map(|request| self.request(request, spec, claim))
            .collect();
        if requests.is_empty() {
            Resolved::Others
        } else {
            Resolved::Requests(requests)
        }
    }

    /// What a claim says to who uses its request (`None`: all of them) of a device that it is allocated. `None` where
    /// that is none of the request's devices.
    pub(crate) fn terms_on(&self, claim: &Key, only: Option<&str>, device: &Key) -> Option<(Terms, bool)> {
        let claim = self.claims.get(claim)?;
        let mut requests = claim.spec.devices.requests.iter().take(MOST_REQUESTS);
        requests.find_map(|request| {
            if !only.is_none_or(|only| names(only, &request.name)) {
                return None;
            }
            let request = self.request(request, &claim.spec, Some(claim))?;
            let choice = request
                .alternatives
                .into_iter()
                .find(|choice| choice.allocated.contains(device))?;
            Some((choice.terms(), choice.admin))
        })
    }

    fn request(
        &self,
        request: &DeviceRequest,
        spec: &ClaimSpec,
        claim: Option<&ResourceClaim>,
    ) -> Option<Request> {
        let results = claim
            .and_then(|claim| claim.status.allocation.as_ref())
            .map(|allocation| &allocation.devices.results);
        let alternatives = if let Some(results) = results {
            let of_it = results
                .iter()
                .filter(|result| names(&result.request, &request.name));
            vec![self.allocated_to(request, of_it, spec)?]
        } else {
            wanted(request)
                .filter_map(|(alternative, wanted)| {
                    self.choice(&path(&request.name, alternative.as_deref()), wanted, spec)
                })
                .collect()
        };
        (!alternatives.is_empty()).then(|| Request {
            name: Arc::from(request.name.as_str()),
            alternatives,
        })
    }

    /// What was allocated. `None` where that is none of NVIDIA's devices.
    fn allocated_to<'r>(
        &self,
        request: &DeviceRequest,
        results: impl Iterator<Item = &'r AllocationResult>,
        spec: &ClaimSpec,
    ) -> Option<Choice> {
        let mut kinds = BTreeSet::new();
        let mut allocated = Vec::new();
        let mut memory: Option<Mib> = None;
        let mut name = None;
        let mut admin = true;
        for result in results.filter(|result| result.driver == DRIVER) {
            admin &= result.admin_access == Some(true);
            name = Some(result.request.as_str());
            let device: (Arc<str>, Arc<str>) =
                (Arc::from(result.pool.as_str()), Arc::from(result.device.as_str()));
            // A device that no slice has any more keeps its claim; what it was is not known.
            if let Some(placed) = self.devices.get(&device) {
                kinds.insert(placed.kind.clone());
            }
            let consumed = result.consumed_capacity.iter();
            let consumed = consumed
                .filter(|(name, _)| matches!(name.as_str(), "memory" | "gpu.nvidia.com/memory"))
                .find_map(|(_, text)| Quantity::parse(&text.0).ok()?.mib_down());
            memory = match (memory, consumed) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            allocated.push(device);
        }
        let name = name?;
        let class = wanted(request).find(|(alternative, _)| {
            alternative
                .as_deref()
                .is_none_or(|alternative| name.split_once('/').is_some_and(|(_, sub)| sub == alternative))
        });
        Some(Choice {
            count: Some(u32::try_from(allocated.len()).unwrap_or(u32::MAX)),
            kinds: kinds.into_iter().collect(),
            mps: self.mps(name, class.map(|(_, wanted)| wanted), spec, Some(allocated.len())),
            allocated,
            memory,
            guessed: false,
            admin,
        })
    }

    /// What a request may be given. `None` where no device of NVIDIA's can be meant, or for monitoring only.
    fn choice(&self, name: &str, wanted: &Wanted, spec: &ClaimSpec) -> Option<Choice> {
        if wanted.admin_access == Some(true) {
            return None;
        }
        let class = self.classes.get(wanted.device_class_name.as_str());
        let nvidias = self.is_nvidias(&wanted.device_class_name);
        if class.is_none() && !nvidias {
            return None;
        }
        let mut guessed = class.is_none();
        let mut kinds = Vec::new();
        for kind in self.kinds.keys() {
            let of_class = class.map_or(Answer::Unknown, |class| Self::is_of(class, kind));
            let selectors = wanted.selectors.iter().map(|selector| answer(selector, kind));
            match selectors.min().unwrap_or(Answer::Yes).min(of_class) {
                Answer::No => continue,
                Answer::Unknown => guessed = true,
                Answer::Yes => {}
            }
            kinds.push(kind.clone());
        }
        if kinds.is_empty() && !nvidias {
            return None;
        }
        let memory = wanted.capacity.as_ref().and_then(|capacity| {
            let of = |name: &str| capacity.requests.get(name);
            let text = of("memory").or_else(|| of("gpu.nvidia.com/memory"))?;
            Quantity::parse(&text.0).ok()?.mib_down()
        });
        let all = wanted.allocation_mode.as_deref() == Some("All");
        let count = wanted.count.unwrap_or(1);
        let devices = (!all).then(|| usize::try_from(count).unwrap_or(usize::MAX));
        Some(Choice {
            count: (!all).then(|| u32::try_from(count).unwrap_or(u32::MAX)),
            kinds,
            allocated: Vec::new(),
            memory,
            mps: self.mps(name, Some(wanted), spec, devices),
            guessed,
            admin: false,
        })
    }

    /// The limits that the driver is told to give to MPS on so many devices: the claim's word before the class's.
    fn mps(&self, request: &str, wanted: Option<&Wanted>, spec: &ClaimSpec, devices: Option<usize>) -> Mps {
        let of_claim = spec.devices.config.iter();
        let of_claim = of_claim.filter(|config| {
            config.requests.is_empty()
                || config
                    .requests
                    .iter()
                    .any(|name| name == request || request.split_once('/').is_some_and(|(of, _)| of == name))
        });
        let class = wanted.and_then(|wanted| self.classes.get(wanted.device_class_name.as_str()));
        let of_class = class.into_iter().flat_map(|class| &class.spec.config);
        // Later entries win over earlier ones, and those of a claim come after those of its class.
        of_class
            .chain(of_claim)
            .filter_map(sharing)
            .next_back()
            .and_then(|sharing| mps_limits(sharing, devices))
            .unwrap_or_default()
    }
}

/// A request, or one of its alternatives, as configurations and results name it.
fn path(request: &str, alternative: Option<&str>) -> String {
    alternative.map_or_else(
        || request.to_owned(),
        |alternative| format!("{request}/{alternative}"),
    )
}

/// Whether a name means a request: by itself, or as one of its alternatives.
fn names(name: &str, request: &str) -> bool {
    name.split_once('/').map_or(name, |(request, _)| request) == request
}

/// What a request wants, with the names of alternatives.
fn wanted(request: &DeviceRequest) -> impl Iterator<Item = (Option<String>, &Wanted)> {
    let exactly = request.exactly.as_ref();
    let flat = (exactly.is_none() && request.first_available.is_empty()).then_some(&request.flat);
    let one = exactly.or(flat).into_iter().map(|wanted| (None, wanted));
    let several = request.first_available.iter().take(MOST_ALTERNATIVES);
    one.chain(several.map(|alternative| (Some(alternative.name.clone()), &alternative.wanted)))
}

/// `sharing` of a `GpuConfig` or `MigDeviceConfig`.
fn sharing(config: &Config) -> Option<&Value> {
    let opaque = config.opaque.as_ref().filter(|opaque| opaque.driver == DRIVER)?;
    let kind = opaque.parameters.get("kind")?.as_str()?;
    matches!(kind, "GpuConfig" | "MigDeviceConfig")
        .then(|| opaque.parameters.get("sharing"))
        .flatten()
}

/// The limits of memory that an `mpsConfig` sets. One for a device, by its number in the claim or by UUID, wins over the
/// default; which device has a UUID is not known, so each may. The driver rounds to whole MiB, down, and to one at least.
fn mps_limits(sharing: &Value, devices: Option<usize>) -> Option<Mps> {
    if sharing.get("strategy")?.as_str()? != "MPS" {
        return None;
    }
    let config = sharing.get("mpsConfig")?;
    let default = config.get("defaultPinnedDeviceMemoryLimit").and_then(limit);
    let each = config
        .get("defaultPerDevicePinnedMemoryLimit")
        .and_then(Value::as_object);
    let (mut numbered, mut named) = (BTreeMap::new(), Vec::new());
    for (device, value) in each.into_iter().flatten() {
        let Some(limit) = limit(value) else { continue };
        match device.parse::<usize>() {
            Ok(number) => {
                if devices.is_none_or(|devices| number < devices) {
                    numbered.insert(number, limit);
                }
            }
            Err(_) => named.push(limit),
        }
    }
    let all_numbered = devices.is_some_and(|devices| numbered.len() >= devices);
    let others = (!all_numbered).then_some(default);
    let is_open = others == Some(None);
    let limits = || {
        let known = numbered.values().chain(&named).copied();
        known.chain(others.flatten())
    };
    Some(Mps {
        least: limits().min(),
        most: limits().max().filter(|_| !is_open),
    })
}

/// A limit; YAML has it with quotes or without.
fn limit(value: &Value) -> Option<Mib> {
    let text = QuantityText::deserialize(value).ok()?;
    let limit = Quantity::parse(&text.0).ok()?.mib_down()?;
    Some(limit.max(Mib::new(1)))
}
