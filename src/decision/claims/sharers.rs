//! Who gets the same device: containers and pods whose claims are allocated it, or that use the same request of a claim
//! which is not allocated yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::judge::Context;
use crate::demand::{ClaimRef, Use};
use crate::dra::Key;
use crate::dra::resolve::{Choice, Mps, Request, Source, Terms};
use crate::engine::Role;
use crate::ledger::claims::{Claimant, means};

/// A claim: one that is made for the pod, by its entry, or one with a name of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Which {
    Own(Arc<str>),
    Named(Arc<str>),
}

impl Which {
    pub(super) fn of(source: &Source, entry: &Arc<str>) -> Self {
        match source {
            Source::Named(name) => Self::Named(name.clone()),
            Source::Template(_) | Source::Nothing => Self::Own(entry.clone()),
        }
    }
}

/// A request of a claim; of a claim that does not exist an empty name stands for all that there may be.
pub(super) type Wanted = (Which, Arc<str>);

/// What those who meet have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Spot {
    /// A device that is allocated, by pool and name.
    Device(Key),
    /// A request whose device is not chosen yet.
    Request(Wanted),
}

/// A claim or template that does not exist.
pub(super) struct Missing {
    pub(super) wanted: Wanted,
    pub(super) why: String,
}

/// One container of the pod, and the requests whose devices it gets.
pub(super) struct Resolved<'d> {
    pub(super) used: &'d Use,
    pub(super) requests: Vec<(Wanted, Request)>,
    pub(super) missing: Vec<Missing>,
}

/// A container of the judged pod at a spot.
#[derive(Clone)]
pub(super) struct Member<'r, 'd> {
    pub(super) used: &'d Use,
    pub(super) wanted: &'r Wanted,
    /// What its claim says of the device, where that is chosen.
    pub(super) choice: Option<&'r Choice>,
}

/// Where the containers of the pod meet each other and everybody else.
pub(super) fn spots<'r, 'd>(resolved: &'r [Resolved<'d>]) -> BTreeMap<Spot, Vec<Member<'r, 'd>>> {
    let mut spots: BTreeMap<Spot, Vec<Member<'_, '_>>> = BTreeMap::new();
    for one in resolved {
        for (wanted, request) in &one.requests {
            let chosen = request.alternatives.iter();
            let chosen: Vec<(&Key, &Choice)> = chosen
                .flat_map(|choice| choice.allocated.iter().map(move |device| (device, choice)))
                .collect();
            let mut join = |spot: Spot, choice| {
                let there = spots.entry(spot).or_default();
                if !there.iter().any(|other| std::ptr::eq(other.used, one.used)) {
                    there.push(Member {
                        used: one.used,
                        wanted,
                        choice,
                    });
                }
            };
            if chosen.is_empty() {
                join(Spot::Request(wanted.clone()), None);
            }
            for (device, choice) in chosen {
                join(Spot::Device(device.clone()), Some(choice));
            }
        }
    }
    spots
}

/// Everybody else at a spot. Of a request that is not allocated the terms are the same for all; the caller knows them.
pub(super) fn others<'l>(context: &Context<'l>, spot: &Spot) -> Vec<Claimant<'l>> {
    let is_other = |there: &Claimant<'_>| {
        let holder = there.holder;
        !context
            .own
            .contains(&(holder.namespace.clone(), holder.name.clone()))
    };
    match spot {
        Spot::Device(device) => {
            let mut there = context.ledger.on_device(device);
            there.retain(is_other);
            there
        }
        Spot::Request((Which::Own(_), _)) => Vec::new(),
        Spot::Request((Which::Named(name), request)) => {
            let holders = context.ledger.claimants(context.namespace, name);
            let uses = holders.flat_map(|holder| holder.uses().map(move |used| (holder, used)));
            let there = uses.filter(|(holder, used)| {
                let mut refs = used.refs.iter();
                refs.any(|of| means(of, &holder.made, name) && meets(of, request))
            });
            let there = there.map(|(holder, used)| Claimant {
                holder,
                used,
                claim: (holder.namespace.clone(), name.clone()),
                terms: Terms::OPEN,
            });
            there.filter(is_other).collect()
        }
    }
}

/// A container of another template of the judged object, and how many pods that makes.
#[derive(Clone)]
pub(super) struct Beside<'l> {
    /// Which of the templates.
    pub(super) template: usize,
    pub(super) used: &'l Use,
    pub(super) pods: u32,
    pub(super) claim: Arc<str>,
    pub(super) terms: Terms,
}

/// The containers of other templates of the object at a spot: they name the same claim.
pub(super) fn beside<'l>(context: &Context<'l>, spot: &Spot) -> Vec<Beside<'l>> {
    let none = BTreeMap::new();
    let namespace: Arc<str> = Arc::from(context.namespace);
    let mut there = Vec::new();
    for (template, (demand, pods)) in context.siblings.iter().enumerate() {
        for used in &demand.uses {
            let terms = used.refs.iter().find_map(|of| {
                let Source::Named(name) = &of.source else {
                    return None;
                };
                let terms = match spot {
                    Spot::Device(device) => {
                        let claim = (namespace.clone(), name.clone());
                        context.ledger.terms_on(&none, used, &claim, device)
                    }
                    Spot::Request((Which::Named(other), request)) => {
                        (other == name && meets(of, request)).then_some(Terms::OPEN)
                    }
                    Spot::Request((Which::Own(_), _)) => None,
                };
                Some((name.clone(), terms?))
            });
            if let Some((claim, terms)) = terms {
                there.push(Beside {
                    template,
                    used,
                    pods: *pods,
                    claim,
                    terms,
                });
            }
        }
    }
    there
}

impl Terms {
    /// Those of a request whose choice the caller knows.
    pub(super) const OPEN: Self = Self {
        count: None,
        mps: Mps {
            least: None,
            most: None,
        },
    };
}

/// The request of a name that may be one of its alternatives (`REQUEST/SUBREQUEST`).
pub(super) fn request_of(name: &str) -> &str {
    name.split_once('/').map_or(name, |(request, _)| request)
}

/// Whether the use of a claim is, or includes, the use of a request of it.
fn meets(of: &ClaimRef, request: &str) -> bool {
    let only = of.request.as_deref().map(request_of);
    request.is_empty() || only.is_none_or(|only| only == request)
}

/// How many of the containers run at once.
pub(super) fn at_once<'u>(users: impl Iterator<Item = &'u Use>) -> u32 {
    let (mut lasting, mut sidecars, mut init) = (0_u32, 0_u32, 0_u32);
    for used in users {
        match used.claim.role {
            Role::Init => init = 1,
            Role::Sidecar => {
                sidecars = sidecars.saturating_add(1);
                lasting = lasting.saturating_add(1);
            }
            Role::Container | Role::Ephemeral => lasting = lasting.saturating_add(1),
        }
    }
    lasting.max(sidecars.saturating_add(init))
}
