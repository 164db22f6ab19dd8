//! The one place that decides. Webhook, command line and tests call the same two functions:
//! [`prepare`] reads what an object will take (no cluster state), [`judge`] places it against the ledger.

use std::collections::BTreeMap;

use json_patch::PatchOperation;
use serde::Serialize;

use crate::engine::{Placed, Reading, Sources};
use crate::finding::Finding;
use crate::ledger::{Ledger, Reservation};
use crate::policy::{Evidence, PolicySet};
use crate::units::{Mib, Share};
use crate::workload::Workload;

/// What the API server is doing to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Creating it.
    Create,
    /// Changing it.
    Update,
}

/// One object to be judged.
#[derive(Clone, Debug)]
pub struct Question {
    /// What is being done.
    pub operation: Operation,
    /// The object as it will be.
    pub workload: Workload,
    /// The object as it was (on UPDATE).
    pub old: Option<Workload>,
    /// Labels of the namespace, for policies that match by them. `kubernetes.io/metadata.name` is always there.
    pub namespace_labels: BTreeMap<String, String>,
    /// Whether the caller is a node (`system:nodes`): only then a mirror pod is one.
    pub by_node: bool,
    /// Whether this is a change of scale: it is never denied.
    pub scale_only: bool,
    /// Whether no reservation may come of it (dry-run, and every workload review).
    pub dry_run: bool,
}

/// What an object will take, read without cluster state.
#[derive(Clone, Debug)]
pub struct Prepared {
    _private: (),
}

/// One row of a verdict's placement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementRow {
    /// Node.
    pub node: String,
    /// Device, where it is known (`nvidia.com/gpu[0]`).
    pub device: Option<String>,
    /// How the device is known.
    pub evidence: Evidence,
    /// Sum of requests on the device with this object, without overhead.
    #[serde(rename = "promisedMiB")]
    pub promised: Mib,
    /// Budget of the device.
    #[serde(rename = "budgetMiB")]
    pub budget: Mib,
    /// Sum of shares on the device with this object.
    pub promised_fraction: Share,
    /// Budget of the device.
    pub budget_fraction: Share,
}

/// The answer.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Whether the object may pass.
    pub admit: bool,
    /// Whether it was ours to judge at all (it asks for a GPU).
    pub judged: bool,
    /// Every reason, worst first.
    pub findings: Vec<Finding>,
    /// Changes that the policy makes to the object.
    pub patches: Vec<PatchOperation>,
    /// Where it would stand.
    pub placement: Vec<PlacementRow>,
    /// What to reserve when the verdict is carried out (never for a dry run).
    pub reservation: Option<Reservation>,
    /// Name of the policy that applied.
    pub policy: String,
    /// What the mode turned from a denial into an admission.
    pub would_deny: bool,
}

/// Reads what the object will take.
pub fn prepare(_question: &Question, _policies: &PolicySet, _sources: &dyn Sources) -> Prepared {
    Prepared { _private: () }
}

/// Places it against the ledger. Changes nothing.
#[must_use]
pub fn judge(_prepared: &Prepared, _ledger: &Ledger) -> Verdict {
    Verdict { admit: true, ..Verdict::default() }
}

/// Readings of one container, for `explain`.
#[derive(Clone, Debug)]
pub struct ContainerReading<'a> {
    /// The container.
    pub placed: Placed<'a>,
    /// One per engine in it.
    pub readings: Vec<Reading>,
}
