//! The sum of promised memory per device: who holds what, who is about to, and where everybody can stand.
//!
//! A plain struct that takes facts and answers questions: no clock, no client, no lock. Callers hold it behind a lock
//! and judge and commit in one hold, so two requests can never both take the last place.

use std::sync::Arc;

use crate::device::GpuNode;
use crate::engine::Sources;
use crate::policy::PolicySet;
use crate::workload::pod::Pod;

/// Milliseconds of a clock that only goes forward, told by the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

/// What an admitted pod will hold until it is seen.
#[derive(Clone, Debug)]
pub struct Reservation {
    /// UID of the pod.
    pub uid: String,
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Ledger {
    policies: Arc<PolicySet>,
}

impl Ledger {
    /// An empty ledger.
    #[must_use]
    pub fn new(policies: Arc<PolicySet>) -> Self {
        Self { policies }
    }

    /// The policies in force.
    #[must_use]
    pub fn policies(&self) -> &Arc<PolicySet> {
        &self.policies
    }

    /// Other policies; every budget and footprint is worked out again.
    pub fn set_policies(&mut self, policies: Arc<PolicySet>) {
        self.policies = policies;
    }

    /// A node appeared or changed.
    pub fn set_node(&mut self, _node: GpuNode) {}

    /// A node is gone.
    pub fn remove_node(&mut self, _name: &str) {}

    /// A pod was seen, as the API server has it now. Ends its reservation.
    pub fn set_pod(&mut self, _pod: &Pod, _sources: &dyn Sources) {}

    /// A pod is gone.
    pub fn remove_pod(&mut self, _uid: &str) {}

    /// Takes what an admitted verdict reserved. A reservation of the same namespace and name is replaced.
    pub fn commit(&mut self, _reservation: Reservation, _now: Moment) {}

    /// Gives a reservation back (the caller went away before our answer).
    pub fn release(&mut self, _uid: &str) {}

    /// Reservations that are older than `before`: the caller asks the API server whether the pod exists.
    #[must_use]
    pub fn stale(&self, _before: Moment) -> Vec<Reservation> {
        Vec::new()
    }
}
