//! What an expression sees of a pod and of a node.
//!
//! A policy has to mean the same when a pod is admitted, when it is counted an hour later, and in a check without a
//! cluster. So nothing stands here that only one of them knows: neither the user of a request nor its operation, neither
//! the generated name of a pod nor the name of a node.

use std::sync::Arc;

use super::Labels;
use crate::device::{DeviceKind, Pool, Sharing};
use crate::engine;
use crate::workload::pod::Pod;
use crate::workload::slots;

/// A pod, as policies select it.
#[derive(Clone, Copy, Debug)]
pub struct PodView<'a> {
    pub(crate) labels: &'a Labels,
    source: Source<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    /// No pod is meant, or nothing but its labels is known.
    Nothing,
    Whole(&'a Pod),
    Kept(&'a PodFacts),
}

impl<'a> From<&'a Pod> for PodView<'a> {
    fn from(pod: &'a Pod) -> Self {
        Self {
            labels: &pod.metadata.labels,
            source: Source::Whole(pod),
        }
    }
}

impl<'a> PodView<'a> {
    /// A pod that is known by its labels alone, or none at all.
    #[must_use]
    pub const fn labelled(labels: &'a Labels) -> Self {
        Self {
            labels,
            source: Source::Nothing,
        }
    }

    /// A pod of which the ledger keeps this.
    pub(crate) fn kept(labels: &'a Labels, facts: Option<&'a PodFacts>) -> Self {
        Self {
            labels,
            source: facts.map_or(Source::Nothing, Source::Kept),
        }
    }

    /// What an expression can ask; `None` where it is not known.
    pub(super) fn facts(self) -> Option<std::borrow::Cow<'a, PodFacts>> {
        match self.source {
            Source::Nothing => None,
            Source::Whole(pod) => Some(std::borrow::Cow::Owned(PodFacts::of(pod))),
            Source::Kept(facts) => Some(std::borrow::Cow::Borrowed(facts)),
        }
    }
}

/// What expressions can ask of a pod beside its labels. The ledger keeps it of its holders while a policy has an
/// expression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodFacts {
    pub(super) priority_class: Option<Arc<str>>,
    pub(super) runtime_class: Option<Arc<str>>,
    /// Containers that ask for a GPU, once for each resource.
    pub(super) asks: Vec<Ask>,
}

/// What one container asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) container: Arc<str>,
    pub(super) image: Arc<str>,
    /// The extended resource and its count; `None` where devices come by a claim.
    pub(super) slots: Option<(Arc<str>, u32)>,
}

impl PodFacts {
    pub(crate) fn of(pod: &Pod) -> Self {
        let mut asks = Vec::new();
        for placed in engine::containers(pod) {
            let container = placed.container;
            let ask = |slots| Ask {
                container: Arc::from(container.name.as_str()),
                image: Arc::from(container.image.as_str()),
                slots,
            };
            // A count that cannot be read refuses the pod before any policy is asked.
            let counted = slots::names_any(container).then(|| slots::slots(container, &placed.path()).ok());
            let counted = counted.flatten().unwrap_or_default();
            if counted.is_empty() && !container.resources.claims.is_empty() {
                asks.push(ask(None));
            }
            asks.extend(
                counted
                    .into_iter()
                    .map(|slot| ask(Some((Arc::from(slot.resource), slot.count)))),
            );
        }
        Self {
            priority_class: pod.spec.priority_class_name.as_deref().map(Arc::from),
            runtime_class: pod.spec.runtime_class_name.as_deref().map(Arc::from),
            asks,
        }
    }
}

/// A kind of node, as policies select it.
#[derive(Clone, Copy, Debug)]
pub struct NodeView<'a> {
    pub(crate) labels: &'a Labels,
    pub(super) pools: &'a [Pool],
}

impl<'a> NodeView<'a> {
    /// A node with these labels that offers these devices.
    #[must_use]
    pub const fn new(labels: &'a Labels, pools: &'a [Pool]) -> Self {
        Self { labels, pools }
    }
}

/// The word for how a device is shared.
pub(super) const fn sharing(pool: &Pool) -> &'static str {
    match pool.sharing {
        Sharing::Exclusive => "exclusive",
        Sharing::TimeSliced(_) => "timeSliced",
        Sharing::Mps(_) => "mps",
    }
}

/// The MIG profile of a pool's devices.
pub(super) fn profile(pool: &Pool) -> Option<&str> {
    match &pool.device {
        DeviceKind::Gpu => None,
        DeviceKind::Mig(profile) => Some(profile),
    }
}
