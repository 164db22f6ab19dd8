//! Who gets the same device: containers and pods that use the same request of the same claim.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::judge::Context;
use crate::demand::Use;
use crate::demand::weigh::by_claim::OnEach;
use crate::dra::resolve::{Request, Source};
use crate::engine::Role;
use crate::ledger::Holder;

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

/// A request of a claim.
pub(super) type Wanted = (Which, Arc<str>);

/// One container of the pod, and the requests whose devices it gets.
pub(super) struct Resolved<'d> {
    pub(super) used: &'d Use,
    pub(super) requests: Vec<(Wanted, Request)>,
    /// Claims that cannot be read, and why.
    pub(super) unknown: Vec<String>,
}

/// Somebody else on a claim.
pub(super) struct Other<'l> {
    pub(super) holder: &'l Holder,
    pub(super) used: &'l Use,
}

/// Who else uses a request of a named claim.
pub(super) fn others<'l>(context: &Context<'l>, (which, request): &Wanted) -> Vec<Other<'l>> {
    let Which::Named(name) = which else {
        return Vec::new();
    };
    let mut others = Vec::new();
    for holder in context.ledger.claimants(context.namespace, name) {
        if context
            .own
            .contains(&(holder.namespace.clone(), holder.name.clone()))
        {
            continue;
        }
        for used in &holder.demand.uses {
            let uses = used.refs.iter().any(|r| {
                // A claim that was made from a template is used under the name that it was given.
                let same = match &r.source {
                    Source::Named(other) => other == name,
                    Source::Template(_) => holder.made.get(&r.entry) == Some(name),
                    Source::Nothing => false,
                };
                let meets = r
                    .request
                    .as_deref()
                    .is_none_or(|only| only.split_once('/').map_or(only, |(only, _)| only) == &**request);
                same && meets
            });
            if uses {
                others.push(Other { holder, used });
            }
        }
    }
    others
}

/// The containers of the pod that use each request.
pub(super) fn users<'r, 'd>(resolved: &'r [Resolved<'d>]) -> BTreeMap<&'r Wanted, Vec<&'d Use>> {
    let mut users: BTreeMap<&Wanted, Vec<&Use>> = BTreeMap::new();
    for one in resolved {
        for (wanted, _) in &one.requests {
            let list = users.entry(wanted).or_default();
            if !list.iter().any(|known| std::ptr::eq(*known, one.used)) {
                list.push(one.used);
            }
        }
    }
    users
}

/// How many of the containers run at once.
pub(super) fn at_once(users: &[&Use]) -> u32 {
    let lasting = users.iter().filter(|used| used.claim.role != Role::Init).count();
    let init = usize::from(lasting < users.len());
    let sidecars = users
        .iter()
        .filter(|used| used.claim.role == Role::Sidecar)
        .count();
    u32::try_from(lasting.max(sidecars + init)).unwrap_or(u32::MAX)
}

/// What the containers of a pod take of one device at the same time: init containers run before the regular ones.
pub(super) fn together(each: impl Iterator<Item = (Role, OnEach)>) -> OnEach {
    let (mut lasting, mut sidecars, mut init) = (OnEach::default(), OnEach::default(), OnEach::default());
    for (role, one) in each {
        match role {
            Role::Init => init = init.or_more(one),
            Role::Sidecar => {
                sidecars = sidecars.plus(one);
                lasting = lasting.plus(one);
            }
            Role::Container | Role::Ephemeral => lasting = lasting.plus(one),
        }
    }
    lasting.or_more(sidecars.plus(init))
}
